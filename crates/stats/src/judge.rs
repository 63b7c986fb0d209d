//! How a run is judged: the checks, their thresholds, and whose limits it met.
//!
//! A replay that came late measures another load than the one it was given. Whether that is a
//! finding about the device (it could not take the load) or a fault of the measurement (this
//! program or this host could not issue it) decides whether the figures mean anything, and the user
//! cannot tell from the figures themselves. The engine noted the cause of every late request; here
//! the causes are weighed.

use ioecho_trace::{LateCause, Nanos};

use crate::picture::Span;
use crate::run_summary::{EngineFacts, LATE, RunFigures};
use crate::verdict::{Check, Finding, Grade, Validity, Verdict};

/// At most this share of requests may be late by more than [`LATE`] in a faithful run.
const LATE_SHARE_PASS: f64 = 0.01;
/// Beyond this share the run measured something else.
const LATE_SHARE_SUSPECT: f64 = 0.05;
/// The run may take this much longer than demanded …
const DURATION_PASS: f64 = 0.001;
/// … or this much in absolute terms, which short runs need …
const DURATION_PASS_ABSOLUTE: Nanos = Nanos::from_millis(5);
/// … and beyond this it measured something else.
const DURATION_SUSPECT: f64 = 0.02;
/// The share of requests pushed back or dropped above which a load is another load: the share that
/// blkreplay's manual warns of.
const CONFLICT_SHARE: f64 = 0.05;
/// Wraparound factors that blkreplay's manual calls sound.
pub const WRAPAROUND: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// The share of requests that could not be issued above which a load is another load.
const REFUSED_SHARE: f64 = 0.01;
/// The share of failed requests above which a run says nothing about a sound device.
const FAILED_SHARE: f64 = 0.01;

/// Judges a run.
pub fn judge(figures: &RunFigures, engine: &EngineFacts) -> Verdict {
    let blame = blame(figures);
    let checks = vec![
        complete(figures, engine),
        accounted(figures, engine),
        lateness(figures, blame),
        duration(figures, engine, blame),
        issued(figures),
        failures(figures),
        conflicts(figures, engine),
        wraparound(engine),
        page_cache(engine),
        storage(engine),
    ];
    let broken =
        |name: &str| checks.iter().any(|check| check.name == name && check.grade >= Grade::Limited);
    let finding = if !engine.incomplete.is_empty() {
        Finding::Incomplete
    } else if broken("lateness") || broken("duration") {
        blame
    } else {
        Finding::Faithful
    };
    let validity = Validity::of(&checks);
    let summary = sentence(finding, figures, engine, &checks);
    Verdict { validity, finding, summary, checks }
}

/// Causes that are the device's doing.
const DEVICE: [LateCause; 3] = [LateCause::Conflict, LateCause::InFlightCap, LateCause::Submission];
/// Causes that are this program's.
const GENERATOR: [LateCause; 2] = [LateCause::Input, LateCause::Generator];
/// Causes that are the host's; what nothing explains is counted against the measurement.
const HOST: [LateCause; 2] = [LateCause::Host, LateCause::None];

/// The share of issued requests that were late for one of these causes.
fn late_share(figures: &RunFigures, causes: &[LateCause]) -> f64 {
    let late: u64 = causes.iter().map(|cause| figures.late(*cause).requests).sum();
    share(late, figures.picture().spans_of_all(Span::Lateness).count())
}

/// Whose fault the late requests are.
///
/// Faults come first: where generator or host alone break the schedule, the run is theirs, however
/// slow the device was besides. Otherwise it is whoever cost the most time.
fn blame(figures: &RunFigures) -> Finding {
    let cost = |causes: &[LateCause]| -> i128 {
        causes.iter().map(|cause| i128::from(figures.late(*cause).lateness_ns)).sum()
    };
    let (device, generator, host) = (cost(&DEVICE), cost(&GENERATOR), cost(&HOST));
    let faults = late_share(figures, &GENERATOR) + late_share(figures, &HOST);
    if faults <= LATE_SHARE_PASS && device >= generator.max(host) {
        Finding::DeviceLimited
    } else if generator >= host {
        Finding::GeneratorLimited
    } else {
        Finding::HostStalled
    }
}

fn check(name: &str, grade: Grade, measured: String, threshold: &str, advice: &str) -> Check {
    let advice = if grade <= Grade::Pass { "" } else { advice };
    Check {
        name: name.to_owned(),
        grade,
        measured,
        threshold: threshold.to_owned(),
        advice: advice.to_owned(),
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

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Lateness of which the device is the cause is a finding, not a fault.
fn excused(mut check: Check, blame: Finding, advice: &str) -> Check {
    if check.grade > Grade::Pass && blame == Finding::DeviceLimited {
        check.grade = Grade::Limited;
        advice.clone_into(&mut check.advice);
    }
    check
}

fn complete(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let grade = |sound: bool| if sound { Grade::Pass } else { Grade::Invalid };
    let issued = figures.issued();
    let (grade, measured) = if !engine.incomplete.is_empty() {
        (Grade::Invalid, engine.incomplete.clone())
    } else if issued == 0 {
        (grade(false), "no request was issued".to_owned())
    } else {
        (grade(true), "ran to its end".to_owned())
    };
    check(
        "complete",
        grade,
        measured,
        "the whole load was replayed",
        "The figures are those of the part that was replayed.",
    )
}

fn accounted(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let missing = engine.planned.abs_diff(figures.recorded());
    let lost = engine.results_lost + engine.abandoned;
    let sound = lost == 0 && (missing == 0 || !engine.incomplete.is_empty());
    check(
        "accounted",
        if sound { Grade::Pass } else { Grade::Invalid },
        format!(
            "{} of {} requests recorded, {} results lost, {} never answered",
            figures.recorded(),
            engine.planned,
            engine.results_lost,
            engine.abandoned
        ),
        "every request recorded exactly once",
        "Results are missing: give the results a faster disk, or look for a device that hangs.",
    )
}

fn lateness(figures: &RunFigures, blame: Finding) -> Check {
    let all = figures.picture().spans_of_all(Span::Lateness);
    let late: u64 = LateCause::ALL.iter().map(|cause| figures.late(*cause).requests).sum();
    let share = share(late, all.count());
    let Some(p99) = all.quantile(0.99) else {
        return check("lateness", Grade::NotApplicable, "no request issued".into(), "", "");
    };
    let p50 = all.quantile(0.5).unwrap_or_default();
    let percent = |causes: &[LateCause]| late_share(figures, causes) * 100.0;
    let parties = if late == 0 {
        String::new()
    } else {
        format!(
            " (device {:.2} %, generator {:.2} %, host {:.2} %)",
            percent(&DEVICE),
            percent(&GENERATOR),
            percent(&HOST)
        )
    };
    let measured = format!(
        "p50 {p50}, p99 {p99}, max {}; {:.2} % later than {LATE}{parties}",
        all.max().unwrap_or_default(),
        share * 100.0
    );
    let advice = match blame {
        Finding::GeneratorLimited => {
            "This program could not read or prepare the requests as fast as they were to be \
             issued: convert the trace to the native format, use a faster host."
        }
        _ => {
            "The issuing thread was not run in time: use a quiet host, more cores, or pin the run; \
             do not trust percentiles of this run."
        }
    };
    let threshold = "at most 1 % of the requests later than 1 ms (invalid above 5 %)";
    let grade = graded(share, LATE_SHARE_PASS, LATE_SHARE_SUSPECT);
    excused(
        check("lateness", grade, measured, threshold, advice),
        blame,
        "The device could not take this load in time: that is the finding. Read response times, \
         which count from when a request was due.",
    )
}

fn duration(figures: &RunFigures, engine: &EngineFacts, blame: Finding) -> Check {
    if !engine.incomplete.is_empty() {
        return check("duration", Grade::NotApplicable, "run incomplete".into(), "", "");
    }
    let demanded = Nanos(engine.demanded_duration_ns);
    let achieved = figures.last_submitted();
    let excess = (achieved - demanded).max(Nanos::ZERO);
    let error = excess.0 as f64 / demanded.0.max(1) as f64;
    let grade = if excess <= DURATION_PASS_ABSOLUTE {
        Grade::Pass
    } else {
        graded(error, DURATION_PASS, DURATION_SUSPECT)
    };
    let measured = format!(
        "{:.3} s of {:.3} s demanded ({:+.3} %)",
        achieved.as_secs_f64(),
        demanded.as_secs_f64(),
        error * 100.0
    );
    excused(
        check(
            "duration",
            grade,
            measured,
            "at most 0.1 % or 5 ms longer than demanded (invalid above 2 %)",
            "The replay fell behind its schedule and did not catch up.",
        ),
        blame,
        "The device could not take this load: the replay fell behind and did not catch up.",
    )
}

/// Requests that never reached the target make the replayed load another one.
fn issued(figures: &RunFigures) -> Check {
    let refused = figures.recorded() - figures.issued() - figures.dropped();
    let share = share(refused, figures.recorded());
    check(
        "issued",
        graded(share, 0.0, REFUSED_SHARE),
        format!("{refused} requests could not be issued ({:.3} %)", share * 100.0),
        "none (invalid above 1 %)",
        "The target cannot take these requests: they cross its end, are misaligned for its block \
         size, too large, or of a kind that it cannot do. The outcomes say which.",
    )
}

fn failures(figures: &RunFigures) -> Check {
    let failed = figures.failed();
    let share = share(failed, figures.recorded());
    check(
        "failures",
        graded(share, 0.0, FAILED_SHARE),
        format!("{failed} requests failed ({:.3} %)", share * 100.0),
        "none (invalid above 1 %)",
        "The device answered with errors or short transfers: see the outcomes and the kernel log.",
    )
}

fn conflicts(figures: &RunFigures, engine: &EngineFacts) -> Check {
    let damaged = engine.pushed_back + engine.dropped + engine.ordered;
    let share = share(damaged, figures.recorded());
    check(
        "conflicts",
        graded(share, CONFLICT_SHARE, f64::INFINITY),
        format!(
            "{} pushed back, {} dropped, {} held up others ({:.2} %)",
            engine.pushed_back,
            engine.dropped,
            engine.ordered,
            share * 100.0
        ),
        "at most 5 % of the requests",
        "Many requests overlapped one in flight: the target is slower or smaller than the recorded \
         device, so this is no longer the recorded load.",
    )
}

fn wraparound(engine: &EngineFacts) -> Check {
    let Some(factor) = engine.wraparound_factor else {
        return check("wraparound", Grade::NotApplicable, "not known".into(), "", "");
    };
    let grade = if WRAPAROUND.contains(&factor) { Grade::Pass } else { Grade::Suspect };
    let advice = if factor > 1.0 {
        "Requests that lay apart fall onto each other: seeks are shorter and caches hit more often \
         than on a device of the recorded size. Use a larger target."
    } else {
        "The load uses only a corner of the target: seeks are shorter than the device's. Use a \
         smaller target, or spread the load."
    };
    check("wraparound", grade, format!("factor {factor:.3}"), "0.5 to 2", advice)
}

fn page_cache(engine: &EngineFacts) -> Check {
    if engine.simulated {
        return check("page-cache", Grade::NotApplicable, "simulated".into(), "", "");
    }
    check(
        "page-cache",
        if engine.direct { Grade::Pass } else { Grade::Invalid },
        if engine.direct { "bypassed (O_DIRECT)" } else { "not bypassed" }.to_owned(),
        "bypassed",
        "FAKE: memory was measured, not storage.",
    )
}

fn storage(engine: &EngineFacts) -> Check {
    let (grade, measured) = if engine.simulated {
        (Grade::NotApplicable, "simulated: no storage was measured")
    } else if engine.memory {
        (Grade::Suspect, "a file in memory (tmpfs)")
    } else {
        (Grade::Pass, "a real target")
    };
    check("storage", grade, measured.to_owned(), "", "Memory was measured, not storage.")
}

fn sentence(
    finding: Finding,
    figures: &RunFigures,
    engine: &EngineFacts,
    checks: &[Check],
) -> String {
    let all = figures.picture().spans_of_all(Span::Lateness);
    let p99 = all.quantile(0.99).unwrap_or_default();
    let took = figures.last_submitted().as_secs_f64();
    let first = match finding {
        _ if figures.issued() == 0 => "Nothing was replayed: no request was issued.".to_owned(),
        Finding::Faithful => format!(
            "Faithful: 99 % of {} requests were issued within {p99} of their time, over \
             {took:.1} s.",
            all.count()
        ),
        Finding::DeviceLimited => format!(
            "Device-limited: the device could not take the load; requests were issued up to {} \
             late.",
            all.max().unwrap_or_default()
        ),
        Finding::GeneratorLimited => {
            "Generator-limited: this program could not issue in time; do not use these figures."
                .to_owned()
        }
        Finding::HostStalled => format!(
            "Host-stalled: the host kept the replay from its schedule (p99 of lateness {p99}); \
             do not trust these figures."
        ),
        Finding::Incomplete => format!("Incomplete: {}.", engine.incomplete),
    };
    let simulated = if engine.simulated { " Simulated: no storage was measured." } else { "" };
    let named = |grade: Grade, before: &str| {
        let names: Vec<&str> = checks
            .iter()
            .filter(|check| check.grade == grade && check.name != "complete")
            .map(|check| check.name.as_str())
            .collect();
        if names.is_empty() { String::new() } else { format!(" {before}: {}.", names.join(", ")) }
    };
    let doubts = named(Grade::Invalid, "Invalid") + &named(Grade::Suspect, "Read with care");
    format!("{first}{simulated}{doubts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Batch, Bytes, Columns, Integrity, Measured, Op, Outcome, Request};

    /// A run of 1000 requests, one each millisecond, of which `late` are late by 50 ms.
    fn run(late: usize, cause: LateCause, outcome: Outcome) -> RunFigures {
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        for n in 0..1000 {
            let scheduled = Nanos::from_millis(n);
            let is_late = (n as usize) < late;
            let submitted = scheduled + Nanos::from_millis(if is_late { 50 } else { 0 });
            let mut request = Request::new(scheduled, Op::Read, Bytes(0), Bytes(512));
            request.measured = Some(Measured {
                scheduled,
                submitted: Some(submitted),
                completed: Some(submitted + Nanos(1000)),
                target_offset: None,
                in_flight: 1,
                outcome: if n == 0 { outcome } else { Outcome::Ok },
                pushed_back: false,
                late_cause: if is_late { cause } else { LateCause::None },
                target: 0,
                integrity: Integrity::Unchecked,
            });
            batch.push(&request);
        }
        let mut figures = RunFigures::default();
        figures.observe(&batch);
        figures
    }

    fn engine() -> EngineFacts {
        EngineFacts {
            planned: 1000,
            issued: 1000,
            wraparound_factor: Some(1.0),
            demanded_duration_ns: 999_000_000,
            direct: true,
            speedup: 1.0,
            ..EngineFacts::default()
        }
    }

    #[test]
    fn a_run_that_held_its_schedule_is_faithful() {
        let verdict = judge(&run(5, LateCause::Host, Outcome::Ok), &engine());
        assert_eq!((verdict.finding, verdict.validity), (Finding::Faithful, Validity::Valid));
    }

    #[test]
    fn lateness_by_the_device_is_a_finding_and_by_anything_else_a_fault() {
        let verdict = |cause| {
            let verdict = judge(&run(200, cause, Outcome::Ok), &engine());
            (verdict.finding, verdict.validity)
        };
        assert_eq!(verdict(LateCause::InFlightCap), (Finding::DeviceLimited, Validity::Valid));
        assert_eq!(verdict(LateCause::Conflict), (Finding::DeviceLimited, Validity::Valid));
        assert_eq!(verdict(LateCause::Input), (Finding::GeneratorLimited, Validity::Invalid));
        assert_eq!(verdict(LateCause::Host), (Finding::HostStalled, Validity::Invalid));
    }

    #[test]
    fn what_is_lost_failed_cut_or_cached_is_told() {
        let clean = run(0, LateCause::None, Outcome::Ok);
        let graded = |engine: EngineFacts| judge(&clean, &engine).validity;
        assert_eq!(graded(engine()), Validity::Valid);
        assert_eq!(graded(EngineFacts { results_lost: 1, ..engine() }), Validity::Invalid);
        assert_eq!(graded(EngineFacts { planned: 1001, ..engine() }), Validity::Invalid);
        assert_eq!(graded(EngineFacts { direct: false, ..engine() }), Validity::Invalid);
        assert_eq!(
            graded(EngineFacts { wraparound_factor: Some(3.79), ..engine() }),
            Validity::Suspect
        );
        assert_eq!(graded(EngineFacts { pushed_back: 60, ..engine() }), Validity::Suspect);
        let failed = judge(&run(0, LateCause::None, Outcome::Error(5)), &engine());
        assert_eq!(failed.validity, Validity::Suspect);
        let cut = EngineFacts { incomplete: "interrupted".into(), ..engine() };
        assert_eq!(judge(&clean, &cut).finding, Finding::Incomplete);
    }

    #[test]
    fn a_host_that_alone_breaks_the_schedule_is_to_blame_however_slow_the_device_was() {
        let mut figures = run(100, LateCause::InFlightCap, Outcome::Ok);
        let host = run(30, LateCause::Host, Outcome::Ok);
        figures.merge(&host);
        let engine = EngineFacts { planned: 2000, issued: 2000, ..engine() };
        let verdict = judge(&figures, &engine);
        assert_eq!(verdict.finding, Finding::HostStalled);
        assert!(verdict.checks[2].measured.contains("device 5.00 %"), "{:?}", verdict.checks[2]);
    }

    #[test]
    fn a_broken_threshold_never_passes() {
        let verdict = judge(&run(200, LateCause::InFlightCap, Outcome::Ok), &engine());
        assert_eq!(verdict.checks[2].grade, Grade::Limited);
    }

    #[test]
    fn a_run_without_requests_is_not_faithful() {
        let nothing = EngineFacts { planned: 0, issued: 0, ..engine() };
        assert_eq!(judge(&RunFigures::default(), &nothing).validity, Validity::Invalid);
    }
}
