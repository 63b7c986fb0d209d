//! The checks, one function each: the measured value, the threshold, and the advice.
//!
//! A threshold without its reason is a guess, so each stands here once, named, with its source. A
//! check that does not apply says why; a check that passes gives no advice.

mod cached;
pub(super) mod host;
pub(super) mod load;
pub(super) mod start;
pub(super) mod witness;

use ioecho_trace::generate::{FORMAT, files_task};
use ioecho_trace::units::{counted, counted_in, times};
use ioecho_trace::{LateCause, Nanos, Op, Outcome, TimingMode};

use super::{DEVICE, HOST, OWN, fault, fell_behind, is_mostly, late_share, low_cap};
use super::{own_late_share, share};
use crate::chance::is_above;
use crate::critical_path::{OWN_PASS, OWN_SUSPECT};
use crate::facts::{EndedAfter, EngineFacts, SizeFacts, VerifyFigures, WitnessFacts};
use crate::histogram::{BEYOND, Latencies, QUANTILES, is_known, needed};
use crate::late::{HARDLY_LATE, LATE};
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade};

/// At most this share of requests may be late by more than [`LATE`] in a faithful run.
pub(super) const LATE_SHARE_PASS: f64 = 0.01;
/// Above this share the run measured another load.
pub(super) const LATE_SHARE_SUSPECT: f64 = 0.05;
/// The run may take longer than demanded by this share …
const DURATION_PASS: f64 = 0.001;
/// … or by this span, which short runs need …
const DURATION_PASS_ABSOLUTE: Nanos = Nanos::from_millis(5);
/// … and above this share it measured another load.
const DURATION_SUSPECT: f64 = 0.02;
/// The share of requests pushed back or dropped above which a load is another load, because the
/// 95th percentile shows it. blkreplay's manual (section 2.4) advises to check them, without a
/// figure.
pub(super) const CONFLICT_SHARE: f64 = 0.05;
/// Wraparound factors that blkreplay's manual calls sound.
pub const WRAPAROUND: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// If ten places of the load share one of the target, seeks, caches and conflicts are no longer
/// those of the load.
pub(super) const ABSURD: f64 = 10.0;
/// The share of requests that could not be issued above which a load is another load …
const REFUSED_SHARE: f64 = 0.01;
/// … and that below which no percentile that is told shows it: what the target cannot take is then
/// a finding about the target.
const REFUSED_FEW: f64 = 0.001;
/// Errors of calls on names that are not there, are there already, or are of another kind: ENOENT,
/// EEXIST, ENOTDIR, EISDIR, ENOTEMPTY and, as no link is followed, ELOOP
/// (`asm-generic/errno-base.h`, `errno.h`).
const NAMES: [i32; 6] = [2, 17, 20, 21, 39, 40];
/// The share of the time in which a run that issues as fast as possible may have nothing in flight.
const IDLE_PASS: f64 = 0.1;
/// The share of failed requests above which a run shows nothing about an intact device.
const FAILED_SHARE: f64 = 0.01;

fn check(name: &str, grade: Grade, measured: String, threshold: &str, advice: &str) -> Check {
    let advice = if grade <= Grade::Pass { "" } else { advice };
    Check {
        name: name.to_owned(),
        grade,
        measured,
        threshold: threshold.to_owned(),
        advice: advice.to_owned(),
        explained_by: None,
    }
}

fn graded(value: f64, pass: f64, suspect: f64) -> Grade {
    if value <= pass {
        Grade::Pass
    } else if value <= suspect {
        Grade::Suspect
    } else {
        Grade::Invalid
    }
}

/// What `late` of `of` requests, the latest by this span, mean for a schedule.
pub(super) fn late_grade(late: u64, of: u64, latest: Nanos) -> Grade {
    if latest <= HARDLY_LATE && !is_above(late, of, LATE_SHARE_PASS) {
        return Grade::Pass;
    }
    graded(share(late, of), LATE_SHARE_PASS, LATE_SHARE_SUSPECT)
}

/// Lateness caused by the device is a finding and not a fault.
fn excused(mut check: Check, blame: Finding, advice: &str) -> Check {
    if check.grade > Grade::Pass && blame == Finding::DeviceLimited {
        check.grade = Grade::Limited;
        advice.clone_into(&mut check.advice);
    }
    check
}

pub(super) fn complete(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let grade = |sound: bool| if sound { Grade::Pass } else { Grade::Invalid };
    let issued = figures.issued();
    let (grade, measured) = if !engine.incomplete.is_empty() {
        (Grade::Invalid, engine.incomplete.clone())
    } else if issued == 0 && makes_trees(engine) && figures.recorded() == 0 {
        (grade(true), "there was nothing left to make".to_owned())
    } else if makes_trees(engine) && figures.failed() > 0 {
        let calls = counted(figures.failed(), "call");
        (grade(false), format!("not all is there that was to be made: {calls} failed"))
    } else if issued == 0 {
        (grade(false), "no request was issued".to_owned())
    } else {
        let end = engine.ended_after.as_ref().map_or("ran to its end".to_owned(), EndedAfter::told);
        (grade(true), end)
    };
    check(
        "complete",
        grade,
        measured,
        "the whole load was replayed",
        "The figures are those of the part that was replayed.",
    )
}

/// Whether the load makes trees of files, and does nothing else: what is there already is not made.
fn makes_trees(engine: &EngineFacts) -> bool {
    let makes = |load: &str| files_task(load) == Some(FORMAT);
    !engine.flows.is_empty() && engine.flows.iter().all(|flow| makes(&flow.load))
}

pub(super) fn accounted(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let cut_off = engine.ended_after.map_or(0, |ended| ended.not_issued);
    let missing = engine.planned.abs_diff(figures.recorded().saturating_add(cut_off));
    let lost = engine.results_lost.saturating_add(engine.abandoned);
    let sound = lost == 0 && (missing == 0 || !engine.incomplete.is_empty());
    check(
        "accounted",
        if sound { Grade::Pass } else { Grade::Invalid },
        format!(
            "{} of {} recorded, {}{} lost, {} never answered",
            figures.recorded(),
            counted(engine.planned, "request"),
            if cut_off > 0 { format!("{cut_off} left at the end, ") } else { String::new() },
            counted(engine.results_lost, "result"),
            engine.abandoned
        ),
        "every request recorded exactly once",
        "Results are missing: give the results a faster disk, or look for a device that hangs.",
    )
}

pub(super) fn lateness(figures: &RunFigures, engine: &EngineFacts, blame: Finding) -> Check {
    if !engine.has_due_instants() {
        return no_schedule("lateness", engine);
    }
    let all = figures.picture().spans_of_all(Span::Lateness);
    let late: u64 = LateCause::ALL.iter().map(|cause| figures.late(*cause).requests).sum();
    // A witness knows no instants but those of a schedule.
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there() && engine.has_schedule());
    let Some(p99) = all.quantile(0.99) else {
        // Of requests that were never answered no instant is known.
        let why = if engine.abandoned > 0 { "no request answered" } else { "no request issued" };
        return check("lateness", Grade::NotApplicable, why.into(), "", "");
    };
    let p50 = all.quantile(0.5).unwrap_or_default();
    let percent = |causes: &[LateCause]| late_share(figures, causes) * 100.0;
    let named = |cause: LateCause, name: &str| match figures.late(cause).requests {
        0 => String::new(),
        _ => format!("{name} {:.2} %, ", percent(&[cause])),
    };
    let special = named(LateCause::Backlog, "another target's backlog")
        + &named(LateCause::Verification, "reading before overwriting")
        + &named(LateCause::File, "files of other threads");
    let parties = if late == 0 {
        String::new()
    } else if low_cap(figures, engine).is_some() {
        format!(
            " (cap of {} in flight {:.2} %, device {:.2} %, {special}generator {:.2} %, \
             host {:.2} %)",
            engine.in_flight_max,
            percent(&[LateCause::InFlightCap]),
            percent(&[LateCause::Conflict, LateCause::Submission]),
            percent(&OWN),
            percent(&HOST)
        )
    } else {
        format!(
            " (device {:.2} %, {special}generator {:.2} %, host {:.2} %)",
            percent(&DEVICE),
            percent(&OWN),
            percent(&HOST)
        )
    };
    let since = if engine.timing.has_parents() {
        "since the completions waited for, plus think time: "
    } else {
        ""
    };
    let max = all.max().unwrap_or_default();
    let measured = format!(
        "{since}p50 {p50}, p99 {p99}, max {max}; {:.2} % later than {LATE}{parties}",
        share(late, all.count()) * 100.0
    );
    let path = figures.critical_path();
    let (by_path, of_path) = path.map_or((Grade::Pass, String::new()), |path| {
        let own = path.own_share();
        let told = format!("; {:.1} % of the critical path is the replay's own", own * 100.0);
        (graded(own, OWN_PASS, OWN_SUSPECT), told)
    });
    let measured = measured + &of_path;
    let by_engine = late_grade(late, all.count(), max).max(by_path);
    // With a witness, the worse counts: late for the engine, or late at the device.
    let (grade, measured) = match seen {
        None => (by_engine, measured),
        Some(seen) => (
            by_engine.max(seen_late_grade(seen)),
            format!(
                "at the device (witness): 99 % within {}, all within {}, {:.2} % later than \
                 {LATE}; as the engine believed: {measured}",
                Nanos(seen.delay_p99_ns()),
                Nanos(seen.delay_max_ns()),
                seen.late_share() * 100.0
            ),
        ),
    };
    let threshold = if path.is_some() {
        "at most 1 % of the requests later than 1 ms, beyond chance where that is fewer than ten \
         (invalid above 5 %), and at most 10 % of the critical path (invalid above 25 %)"
    } else {
        "at most 1 % of the requests later than 1 ms, beyond chance where that is fewer than ten \
         (invalid above 5 %)"
    };
    let own = graded(own_late_share(figures, engine), LATE_SHARE_PASS, LATE_SHARE_SUSPECT);
    if blame == Finding::DeviceLimited && grade > Grade::Pass && own > Grade::Pass {
        // The device is the finding, and still the high percentiles are not its own.
        let advice = lateness_advice(figures, engine, fault(figures, engine));
        return check("lateness", own, measured, threshold, advice);
    }
    let advice = lateness_advice(figures, engine, blame);
    let excuse = if low_cap(figures, engine).is_some() {
        "Requests waited for a place below the cap on what is in flight, which is lower than the \
         default: raise the cap to see what the device takes, or read response times."
    } else {
        "The device could not take this load in time: that is the finding. Read response times, \
         which count from when a request was due."
    };
    excused(check("lateness", grade, measured, threshold, advice), blame, excuse)
}

/// What the requests that a witness saw late at the device mean for a schedule.
pub(super) fn seen_late_grade(seen: &WitnessFacts) -> Grade {
    late_grade(seen.late, seen.found, Nanos(seen.delay_max_ns()))
}

/// What to do about requests that were late for this cause.
fn lateness_advice(figures: &RunFigures, engine: &EngineFacts, blame: Finding) -> &'static str {
    match blame {
        Finding::GeneratorLimited if super::is_path_own(figures) => {
            "Each request waited for the one before, and the target is so fast that what this \
             program takes for each counts: how long the run took is not the storage's. Service \
             times of single requests are. Compare targets by these, or by loads of their own \
             (ioecho run)."
        }
        Finding::GeneratorLimited if is_mostly(LateCause::Backlog, figures) => {
            "A target takes so little of its load that what waits for it had reached its bound, \
             and the trace was not read on for the others: give the slow target's load a run of \
             its own, or the results' directory more room (docs/replay.md)."
        }
        Finding::GeneratorLimited if is_mostly(LateCause::Verification, figures) => {
            "Reading before overwriting delayed the requests: take figures of speed from a run \
             without it."
        }
        Finding::GeneratorLimited if super::are_files_few(figures, engine) => {
            "Threads waited for each other's files, while the storage was fast enough for a file \
             each: give the load more files, let its threads share them (access=shared), or ask \
             for fewer threads or a lower rate."
        }
        Finding::GeneratorLimited if engine.timing.has_parents() => {
            "The trace was not read fast enough, or requests that wait for long filled what is \
             looked ahead, so that those behind them were read too late (docs/depend.md): convert \
             the trace to the native format, or replay the processes that wait for long apart."
        }
        Finding::GeneratorLimited => {
            "This program could not read or prepare the requests as fast as they were to be \
             issued: convert the trace to the native format, use a faster host."
        }
        Finding::HostStalled if super::is_starved(figures, engine) => {
            "Other programs had the processors, and neither reading nor issuing got its turn: stop \
             them, or give the run processors of its own. Do not trust percentiles of this run."
        }
        _ => {
            "The issuing thread was not run in time: use a quiet host, more cores, or pin the run; \
             do not trust percentiles of this run."
        }
    }
}

/// The check does not apply, because without a schedule no request can be late.
fn no_schedule(name: &str, engine: &EngineFacts) -> Check {
    let measured = format!("no schedule (timing {})", engine.timing);
    check(name, Grade::NotApplicable, measured, "", "")
}

pub(super) fn duration(figures: &RunFigures, engine: &EngineFacts, blame: Finding) -> Check {
    if !engine.has_schedule() {
        return no_schedule("duration", engine);
    }
    if !engine.incomplete.is_empty() {
        return check("duration", Grade::NotApplicable, "run incomplete".into(), "", "");
    }
    let demanded = Nanos(engine.demanded_duration_ns);
    let achieved = figures.last_submitted();
    let behind = Nanos(engine.ended_after.map_or(0, |ended| ended.behind_ns));
    let excess = (achieved - demanded).max(behind);
    let error = excess.0 as f64 / demanded.0.max(1) as f64;
    let grade = if excess <= DURATION_PASS_ABSOLUTE {
        Grade::Pass
    } else {
        graded(error, DURATION_PASS, DURATION_SUSPECT)
    };
    // All of a load may be due at one instant, of which nothing is a share.
    let share =
        if demanded > Nanos::ZERO { format!(" ({:+.3} %)", error * 100.0) } else { String::new() };
    let (achieved_s, demanded_s) = (achieved.as_secs_f64(), demanded.as_secs_f64());
    // How long the run took, until the last completion, is another span.
    let mut measured =
        format!("last issued at {achieved_s:.3} s, last due at {demanded_s:.3} s{share}");
    if behind > Nanos::ZERO {
        measured = format!("{measured}; {behind} behind when it was ended");
    }
    // All requests may have been handed over in time, yet completed ever later.
    let grown = fell_behind(figures, engine);
    let grade = if grown.is_some() { grade.max(Grade::Suspect) } else { grade };
    if let Some(grown) = grown {
        measured = format!(
            "{measured}; response times grew from {} to {} until the load ended",
            grown.from, grown.to
        );
    }
    let excuse = if low_cap(figures, engine).is_some() {
        "With no more in flight than the cap lets through, the replay fell behind and did not \
         catch up."
    } else {
        "The device could not take this load: the replay fell behind and did not catch up."
    };
    excused(
        check(
            "duration",
            grade,
            measured,
            "at most 0.1 % or 5 ms longer than demanded (invalid above 2 %), and no backlog that \
             grows until the end",
            "The replay fell behind its schedule and did not catch up.",
        ),
        blame,
        excuse,
    )
}

/// The share from which on percentiles of the response times are those of requests that host or
/// generator delayed: 0.999 if p99.9 is the first of these. `None` if all are the device's.
pub(crate) fn host_owned_from(figures: &RunFigures, engine: &EngineFacts) -> Option<f64> {
    if !engine.has_due_instants() {
        return None;
    }
    let response = figures.picture().spans_of_all(Span::Response);
    let service = figures.picture().spans_of_all(Span::Service);
    let late = figures.not_device();
    QUANTILES.into_iter().find(|share| {
        let Some(at) = response.known(*share) else { return false };
        // A bin is a thousandth wide, so values within the percentile's bin count as beyond it.
        let before = Nanos((at.0 as f64 * 0.998) as i64);
        let beyond = |spans: &Latencies| spans.count().saturating_sub(spans.count_until(before));
        let of_device = service.quantile(*share).unwrap_or_default();
        at > of_device.saturating_add(of_device) && beyond(late) * 2 > beyond(&response)
    })
}

/// Decides which percentiles of the response times are those of the device: a percentile that
/// depends on a handful of requests is chance, and one among requests that host or generator
/// delayed is theirs.
pub(super) fn percentiles(figures: &RunFigures, engine: &EngineFacts) -> Check {
    const NAME: &str = "percentiles";
    if !engine.has_due_instants() {
        return no_schedule(NAME, engine);
    }
    let response = figures.picture().spans_of_all(Span::Response);
    let service = figures.picture().spans_of_all(Span::Service);
    // The median is told of any number of requests, but ten below it and ten above say whose it is.
    let is_enough = response.count() as f64 >= 2.0 * BEYOND;
    let highest = QUANTILES.into_iter().rfind(|share| is_known(*share, response.count()));
    let Some(highest) = highest.filter(|_| is_enough) else {
        let why = format!("{} tell no percentile", counted(response.count(), "request"));
        return check(NAME, Grade::NotApplicable, why, "", "");
    };
    let late = figures.not_device();
    let owned = host_owned_from(figures, engine);
    let unknown = QUANTILES.into_iter().find(|share| !is_known(*share, response.count()));
    let unknown = unknown.map_or(String::new(), |share| {
        format!("; {} needs {} requests", named_quantile(share), needed(share))
    });
    let requests = counted(response.count(), "request");
    let Some(owned) = owned else {
        let highest = named_quantile(highest);
        let measured = format!("{requests}: up to {highest} the device's{unknown}");
        return check(NAME, Grade::Pass, measured, PERCENTILES, "");
    };
    let at = |spans: &Latencies| spans.quantile(owned).unwrap_or_default();
    let name = named_quantile(owned);
    let measured = format!(
        "{requests}: from {name} on not the device's: {} late by host or generator, {name} of the \
         response times {}, of the service times {}{unknown}",
        late.count(),
        at(&response),
        at(&service)
    );
    // The highest percentile depends on one request in ten thousand, and every general-purpose host
    // delays that many.
    let grade = if owned < 0.999_5 { Grade::Suspect } else { Grade::Pass };
    let advice = "Percentiles of response times from there on tell of this host and not of the \
                  device: read the lower ones, or the service times, or replay on a quiet host.";
    check(NAME, grade, measured, PERCENTILES, advice)
}

const PERCENTILES: &str = "p99 and p99.9 of the response times are the device's";

/// The name of a percentile: `p99.9`.
fn named_quantile(share: f64) -> String {
    format!("p{}", (share * 1e6).round() / 1e4)
}

/// Requests that never reached the target make the replayed load another load.
pub(super) fn issued(figures: &RunFigures, engine: &EngineFacts) -> Check {
    // What the device cannot do is counted once: where the host was observed, by `durability`.
    let is_told = host::device::is_observed(engine);
    let cannot: u64 = if is_told {
        host::device::DURABLE.iter().map(|op| figures.unsupported(*op)).sum()
    } else {
        0
    };
    let refused =
        (figures.recorded() - figures.issued() - figures.dropped()).saturating_sub(cannot);
    let left_out = share(engine.unmapped, engine.unmapped.saturating_add(figures.recorded()));
    let share = share(refused, figures.recorded());
    let mut measured = Vec::new();
    if refused > 0 || engine.unmapped == 0 {
        let refused = counted(refused, "request");
        measured.push(format!("{refused} could not be issued ({:.3} %)", share * 100.0));
    }
    let kinds: Vec<String> = Op::ALL
        .into_iter()
        .filter(|op| figures.unsupported(*op) > 0)
        .filter(|op| !is_told || !host::device::DURABLE.contains(op))
        .map(|op| format!("{} {}", figures.unsupported(op), op.name()))
        .collect();
    if !kinds.is_empty() {
        measured.push(format!("the target cannot do {}", kinds.join(", ")));
    }
    if engine.unmapped > 0 {
        let unmapped = counted(engine.unmapped, "request");
        let percent = left_out * 100.0;
        measured.push(format!("{unmapped} of volumes without a target left out ({percent:.3} %)"));
    }
    if engine.rounded > 0 {
        measured.push(format!("{} were widened to the block size", engine.rounded));
    }
    let grade = match graded(share, REFUSED_FEW, REFUSED_SHARE) {
        Grade::Pass if refused > 0 => Grade::Limited,
        grade => grade,
    };
    check(
        "issued",
        // A volume may be left out on purpose, but the replayed load is another load nevertheless.
        grade.max(graded(left_out, 0.0, REFUSED_SHARE)),
        measured.join("; "),
        "none (suspect above 0.1 % refused; invalid above 1 %, refused or left out)",
        "The target cannot take these requests: they cross its end, are misaligned for its block \
         size (they can be widened to it), too large, or of a kind that it cannot do. The outcomes \
         say which.",
    )
}

pub(super) fn failures(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let failed = figures.failed();
    let share = share(failed, figures.recorded());
    let grade = graded(share, 0.0, FAILED_SHARE);
    let mut measured =
        vec![format!("{} failed ({:.3} %)", counted(failed, "request"), share * 100.0)];
    let unanswered = engine.abandoned.min(failed);
    if unanswered > 0 {
        measured.push(format!("{unanswered} of them never answered"));
    }
    if engine.device_errors > 0 {
        measured.push(format!("the device failed as a whole {}", times(engine.device_errors)));
    }
    let is_of_names =
        |outcome: Outcome| matches!(outcome, Outcome::Error(code) if NAMES.contains(&code));
    let names = figures.picture().failures().filter(|(_, outcome, _)| is_of_names(*outcome));
    let names: u64 = names.filter(|_| engine.files).map(|(_, _, count)| count).sum();
    if names > 0 {
        measured.push(format!("{names} of them met a name that is not as this load left it"));
    }
    let advice = if names > 0 {
        "Something else makes or removes names in this tree, or it loses them itself: find out \
         what does, and make the tree anew."
    } else if unanswered == failed && failed > 0 {
        "The device never answered these: look for one that hangs, and see the kernel log."
    } else {
        "The device answered with errors or short transfers: see the outcomes and the kernel log."
    };
    check(
        "failures",
        if engine.device_errors > 0 { grade.max(Grade::Suspect) } else { grade },
        measured.join("; "),
        "none (invalid above 1 %)",
        advice,
    )
}

/// Damaged data are not a fault of the measurement. They are its most important result.
pub(super) fn integrity(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let requests = figures.damaged();
    let verified = engine.verify.as_ref();
    let measured = match verified {
        Some(verify) if verify.is_damaged() || requests > 0 => {
            let kinds = super::kinds_of_damage(figures, engine);
            let read = match requests {
                0 => String::new(),
                requests => format!("; {} of the load read such", counted(requests, "request")),
            };
            let sectors = format!("{} that were looked at, each time counted", verify.sectors);
            let names = counted(verify.names, "name");
            let looked = match (verify.sectors, verify.names) {
                (0, 1..) => format!("{names} that were looked at"),
                (_, 0) => sectors,
                (_, _) => format!("{sectors}, and {names}"),
            };
            format!("{kinds}, of {looked}{read}")
        }
        // Reading only sectors that the run never wrote proves nothing.
        Some(verify)
            if verify.intact_sectors == 0
                && verify.unverifiable_sectors == 0
                && verify.names == 0 =>
        {
            let why = format!(
                "{} read and none of them written by the run",
                counted_in(verify.unknown_sectors, "sector was", "sectors were")
            );
            return check("integrity", Grade::NotApplicable, why, "", "");
        }
        Some(verify) => format!(
            "{} intact; of {} more that the run never wrote nothing is known",
            counted(verify.intact_sectors, "sector"),
            verify.unknown_sectors
        ),
        // In a run that was killed, only the records remain.
        None if requests > 0 => super::kinds_of_damage(figures, engine),
        None => return check("integrity", Grade::NotApplicable, "not verified".into(), "", ""),
    };
    let damage = requests > 0 || verified.is_some_and(VerifyFigures::is_damaged);
    let untold = verified.map_or(0, |verify| verify.unverifiable_sectors);
    let mut untold = match untold {
        0 => String::new(),
        untold => format!("; {} could not be told", counted(untold, "sector")),
    };
    if let Some(doubt) = verified.and_then(VerifyFigures::doubt_told) {
        untold = format!("{untold}; {doubt}");
    }
    check(
        "integrity",
        if damage { Grade::Limited } else { Grade::Pass },
        measured + &untold,
        "every sector holds what was written",
        DAMAGED,
    )
}

const DAMAGED: &str = "The device gave back other data than those written: trust it with none. The \
                       findings name the places and the writes.";

/// Whether the load's rate exceeds the rate that this host can pace, independent of the device.
pub(super) fn demand(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let not_applicable = |why: &str| check("demand", Grade::NotApplicable, why.to_owned(), "", "");
    if engine.simulated {
        return not_applicable("simulated: no host paced it");
    }
    if matches!(engine.timing, TimingMode::Afap | TimingMode::Load) {
        return as_fast_as_possible(figures);
    }
    if !engine.has_schedule() {
        return no_schedule("demand", engine);
    }
    let Some(most) = engine.paced_rate_max else {
        return not_applicable("this host's pacing was not calibrated");
    };
    let peak = engine.demanded_rate_peak;
    if peak <= 0.0 {
        return not_applicable("the load's peak is not known");
    }
    check(
        "demand",
        if peak <= most { Grade::Pass } else { Grade::Suspect },
        format!(
            "at most {peak:.0} requests/s in 100 ms; this host needs {:.2} µs for each, so at most \
             {most:.0}",
            1e6 / most
        ),
        "no more than this host can pace",
        "The load asks for more than this program can issue on this host: lateness there is the \
         generator's. Use a faster host, several targets, or replay slower.",
    )
}

/// Whether the storage had anything to do all the time, where each request is due as soon as there
/// is a place for it: else the rate is that of this program. The sum of the service times over the
/// length is the mean number in flight (Little's law), and as many shares of the time at most had
/// anything in flight.
fn as_fast_as_possible(figures: &RunFigures) -> Check {
    let length = figures.picture().achieved_end();
    let services = figures.picture().spans_of_all(Span::Service);
    if length <= Nanos::ZERO || services.count() == 0 {
        return check("demand", Grade::NotApplicable, "nothing was completed".into(), "", "");
    }
    let busy = (services.sum_seconds() / length.as_secs_f64()).min(1.0);
    check(
        "demand",
        if 1.0 - busy <= IDLE_PASS { Grade::Pass } else { Grade::Suspect },
        format!("for {:.1} % of the time at most anything was in flight", busy * 100.0),
        "something in flight for at least 90 % of the time",
        "Nothing is due later than at once, so while nothing was in flight this program was at \
         work: the rate is not that of the storage alone. Service times of single requests are \
         the storage's.",
    )
}

pub(super) fn conflicts(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let damaged = engine.pushed_back.saturating_add(engine.dropped).saturating_add(engine.ordered);
    let share = share(damaged, figures.recorded());
    let counts = [
        (engine.pushed_back, "pushed back by overlapping ones in flight"),
        (engine.dropped, "dropped on conflict"),
        (engine.ordered, "held up all others on conflict"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> =
        counts.map(|(count, what)| format!("{} {what}", counted(count, "request"))).collect();
    let measured = if told.is_empty() {
        "no request overlapped one in flight".to_owned()
    } else {
        format!("{} ({:.2} %)", told.join(", "), share * 100.0)
    };
    check(
        "conflicts",
        graded(share, CONFLICT_SHARE, f64::INFINITY),
        measured,
        "at most 5 % of the requests",
        "Many requests overlapped one in flight: the target is slower or smaller than the recorded \
         device, so this is no longer the recorded load.",
    )
}

pub(super) fn wraparound(engine: &EngineFacts) -> Check {
    if engine.files {
        let measured = "the load names files, and no places of a device";
        return check("wraparound", Grade::NotApplicable, measured.to_owned(), "", "");
    }
    let Some(factor) = engine.wraparound_factor else {
        return check("wraparound", Grade::NotApplicable, "not known".into(), "", "");
    };
    if factor <= 0.0 {
        let measured = "no request has a place on the device";
        return check("wraparound", Grade::NotApplicable, measured.to_owned(), "", "");
    }
    // On flash a small area has no advantage; on a disk it makes seeks shorter. Where the recorded
    // device was as large, the load used the same corner of it.
    let is_corner = factor < *WRAPAROUND.start();
    let is_flash = engine.load.rotational == Some(false);
    let is_like = |size: &SizeFacts| size.unknown == 0 && WRAPAROUND.contains(&size.ratio());
    let note = if is_corner && is_flash {
        "; a corner of it, and no disk turns"
    } else if is_corner && engine.load.size.as_ref().is_some_and(is_like) {
        "; a corner of it, as of the recorded device"
    } else {
        ""
    };
    let grade = if factor > ABSURD {
        Grade::Invalid
    } else if WRAPAROUND.contains(&factor) || !note.is_empty() {
        Grade::Pass
    } else {
        Grade::Suspect
    };
    let measured = match engine.targets {
        0 | 1 => format!("factor {factor:.3}"),
        targets => format!("factor {factor:.3} on the worst of {targets} targets"),
    };
    let measured = format!("{measured}{note}");
    let advice = if factor > 1.0 {
        "Requests that lay apart fall onto each other: seeks are shorter and caches hit more often \
         than on a device of the recorded size. Use a larger target."
    } else {
        "The load uses only a corner of the target: seeks are shorter than the device's. Use a \
         smaller target, or spread the load."
    };
    let threshold = "0.5 to 2; less where no disk turns, or as in the recording (invalid above 10)";
    check("wraparound", grade, measured, threshold, advice)
}

pub(super) fn page_cache(engine: &EngineFacts) -> Check {
    if engine.simulated {
        return check("page-cache", Grade::NotApplicable, "simulated".into(), "", "");
    }
    if engine.files {
        return cached::of_files(engine);
    }
    check(
        "page-cache",
        if engine.direct { Grade::Pass } else { Grade::Invalid },
        if engine.direct { "bypassed (O_DIRECT)" } else { "not bypassed" }.to_owned(),
        "bypassed",
        "FAKE: memory was measured, not storage.",
    )
}

pub(super) fn storage(engine: &EngineFacts) -> Check {
    // What lies hidden below counts before what the user named.
    let in_memory = engine.load.targets.iter().filter_map(|target| {
        let layer = target.in_memory.as_ref()?;
        Some((if target.is_memory { Grade::Limited } else { Grade::Suspect }, layer))
    });
    let in_memory = in_memory.max_by_key(|(grade, _)| *grade);
    let (grade, measured) = if engine.simulated {
        (Grade::NotApplicable, "simulated: no storage was measured".to_owned())
    } else if engine.memory {
        (Grade::Suspect, "a file in memory (tmpfs)".to_owned())
    } else if let Some((grade, layer)) = in_memory {
        (grade, format!("memory ({layer})"))
    } else {
        (Grade::Pass, "a real target".to_owned())
    };
    let threshold = if grade == Grade::NotApplicable { "" } else { "not memory" };
    check("storage", grade, measured, threshold, "Memory was measured, not storage.")
}
