//! The first sentence of a report.
//!
//! It names one cause, so readers attribute every figure in it to that cause. If it stated figures
//! of all requests, 242 requests that waited for others could make a p99 of 28 ms, and the headline
//! would attribute that to the host, which delayed 71 by a few milliseconds. So each sentence
//! states only the share and the percentiles of the requests that were late for the cause it names.

use ioecho_trace::units::{counted, times, two_digits};
use ioecho_trace::{LateCause, Nanos, TimingMode};

use super::checks::{CONFLICT_SHARE, LATE_SHARE_PASS};
use super::explained::most_of_device;
use super::{DEVICE, GENERATOR, HOST, OWN};
use super::{
    are_files_few, fell_behind, is_held_back, is_mostly, is_starved, late_share, low_cap, share,
};
use crate::critical_path::CriticalPath;
use crate::facts::{self, EngineFacts, VerifyFigures};
use crate::late::LATE;
use crate::load_figures::Pauses;
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade, Validity};

/// The share of time without a completion from which on a headline mentions it.
const STOOD_STILL: f64 = 0.01;

pub(super) fn sentence(
    finding: Finding,
    figures: &RunFigures,
    engine: &EngineFacts,
    checks: &[Check],
) -> String {
    let first = match finding {
        _ if figures.issued() == 0 => "Nothing was replayed: no request was issued.".to_owned(),
        Finding::Unscheduled => unscheduled(figures, engine),
        Finding::Faithful | Finding::DataDamaged if !engine.has_due_instants() => {
            unscheduled(figures, engine)
        }
        Finding::Faithful | Finding::DataDamaged => {
            format!("Faithful: {}.", in_time(figures, engine))
        }
        Finding::ForeignLoad => foreign(figures, engine),
        Finding::DeviceLimited => device_limited(figures, engine),
        Finding::GeneratorLimited => generator_limited(figures, engine) + &unusable(checks),
        Finding::HostStalled => host_stalled(figures, engine) + &unusable(checks),
        Finding::Incomplete => format!("Incomplete: {}.", engine.incomplete),
    };
    let simulated = if engine.simulated { " Simulated: no storage was measured." } else { "" };
    let named = |grade: Grade, before: &str| {
        let names: Vec<&str> = checks
            .iter()
            .filter(|check| check.grade == grade && check.is_cause() && check.name != "complete")
            .map(|check| check.name.as_str())
            .collect();
        if names.is_empty() { String::new() } else { format!(" {before}: {}.", names.join(", ")) }
    };
    let doubts = named(Grade::Invalid, "Invalid") + &named(Grade::Suspect, "Read with care");
    format!("{first}{altered}{simulated}{doubts}", altered = altered(figures, engine))
}

/// How exactly the schedule was held: as the witness saw it, otherwise as the engine did.
fn in_time(figures: &RunFigures, engine: &EngineFacts) -> String {
    let took = figures.last_submitted();
    let over = if took > Nanos::ZERO { format!(", over {took}") } else { String::new() };
    let all = figures.picture().spans_of_all(Span::Lateness);
    let (p99, max) = (all.quantile(0.99).unwrap_or_default(), all.max().unwrap_or_default());
    let (who, within) = nearly_all(all.count(), p99, max);
    let is_one = all.count() == 1;
    let (were, their) = if is_one { ("was", "its") } else { ("were", "their") };
    if engine.timing.has_parents() {
        // A witness does not know which completions a request waited for.
        let recorded = Nanos((engine.demanded_duration_ns as f64 * engine.speedup) as i64);
        // The part that was replayed before it was ended has no recorded length.
        let is_whole = engine.ended_after.is_none();
        let recorded = if is_whole { format!(", recorded over {recorded}") } else { String::new() };
        return format!(
            "{who} {were} issued within {within} of the completions that they waited for, plus \
             think times{over}{recorded}"
        );
    }
    if let Some(seen) = engine.witness.as_ref().filter(|seen| seen.is_there()) {
        let [p99, max] = [seen.delay_p99_ns(), seen.delay_max_ns()].map(Nanos);
        let (who, within) = nearly_all(seen.found, p99, max);
        return format!(
            "{who} reached the device within {within} of {their} time, as a witness saw{over}"
        );
    }
    format!("{who} {were} issued within {within} of {their} time{over}")
}

/// Whom a bound is told for, and the bound: 99 in 100 requests, where there are so many.
fn nearly_all(count: u64, p99: Nanos, max: Nanos) -> (String, Nanos) {
    match count {
        0..=1 => (counted(count, "request"), max),
        2..=99 => (format!("all {}", counted(count, "request")), max),
        _ => (format!("99 % of {}", counted(count, "request")), p99),
    }
}

/// The first sentence on a run that shared its device with other programs.
fn foreign(figures: &RunFigures, engine: &EngineFacts) -> String {
    let seen = engine.witness.as_ref();
    let extra = seen.map_or(0, |seen| seen.extra);
    let all = seen.map_or(0, |seen| seen.found.saturating_add(extra));
    let how = if engine.has_schedule() {
        format!(" The schedule was held: {}.", in_time(figures, engine))
    } else if engine.has_due_instants() {
        format!(" By itself the replay was in time: {}.", in_time(figures, engine))
    } else {
        String::new()
    };
    format!(
        "Foreign load: {} of all that the device did during the run ({:.1} %) was asked for by \
         others, as a witness saw, so the figures are those of both loads together.{how}",
        counted(extra, "request"),
        share(extra, all) * 100.0
    )
}

/// The number and share of requests that were late for these causes, and their lateness.
fn late_for(figures: &RunFigures, causes: &[LateCause]) -> String {
    let spans = figures.lateness_for(causes);
    let all = figures.picture().spans_of_all(Span::Lateness).count();
    let (p99, max) = (spans.quantile(0.99).unwrap_or_default(), spans.max().unwrap_or_default());
    let were = if spans.count() == 1 { "was" } else { "were" };
    let how = match spans.count() {
        1 => format!("by {max}"),
        2..=99 => format!("by up to {max}"),
        _ => format!("99 % of these by up to {p99}, one by {max}"),
    };
    format!(
        "{} ({:.2} %) {were} issued more than {LATE} late for that, {how}",
        counted(spans.count(), "request"),
        share(spans.count(), all) * 100.0
    )
}

fn device_limited(figures: &RunFigures, engine: &EngineFacts) -> String {
    if low_cap(figures, engine).is_some() {
        let cap = if engine.flows.is_empty() {
            format!("no more than {} in flight at a time", engine.in_flight_max)
        } else {
            "a flow has too few places in flight for its rate".to_owned()
        };
        return format!(
            "Limited by the cap: {cap}, so that requests waited for a place; {}. What was measured \
             is the device under this cap.",
            late_for(figures, &[LateCause::InFlightCap])
        );
    }
    if is_held_back(figures, engine) {
        let held_back = engine.witness.as_ref().map_or(0, |seen| seen.held_back);
        return format!(
            "Device-limited: requests were issued in time and held back on their way to the \
             device, {held_back} of them by more than {LATE}, as a witness saw."
        );
    }
    if let Some(grown) = fell_behind(figures, engine) {
        let is_in_time = late_share(figures, &DEVICE) <= LATE_SHARE_PASS;
        let late =
            if is_in_time { String::new() } else { format!(" {}.", late_for(figures, &DEVICE)) };
        return format!(
            "Device-limited: the device could not take the load. What waited for it grew until \
             the load ended: response times from {} to {}.{late}",
            grown.from, grown.to
        );
    }
    match most_of_device(figures) {
        Some(LateCause::Conflict) => format!(
            "Device-limited: requests waited for others in flight that they overlap, which the \
             device had not done yet; {}.",
            late_for(figures, &[LateCause::Conflict])
        ),
        Some(LateCause::Submission) => format!(
            "Device-limited: the calls that hand requests over, one after the other, waited for \
             the device, the longest for {}; {}.",
            Nanos(engine.submission_max_ns),
            late_for(figures, &[LateCause::Submission])
        ),
        _ => {
            let late = late_for(figures, &DEVICE);
            format!("Device-limited: the device could not take the load; {late}.")
        }
    }
}

/// The end of the sentence on a fault of the measurement: what it leaves of the figures. Other
/// checks that make them suspect are named behind it.
fn unusable(checks: &[Check]) -> String {
    let is_invalid = Validity::of(checks) == Validity::Invalid;
    let left =
        if is_invalid { "do not use these figures" } else { "read high percentiles with care" };
    format!("; {left}.")
}

/// Without its end, which [`unusable`] makes.
fn generator_limited(figures: &RunFigures, engine: &EngineFacts) -> String {
    if let Some(told) = path_of_replay(figures) {
        return format!("Generator-limited: {told}");
    }
    if are_files_few(figures, engine) {
        return format!(
            "Limited by the load itself, not by the storage: {}, so that calls waited for a file \
             that another thread had; {}; it takes more files, access=shared, fewer threads or a \
             lower rate",
            facts::files_and_threads(&engine.flows),
            late_for(figures, &[LateCause::File])
        );
    }
    if is_mostly(LateCause::Backlog, figures) {
        return format!(
            "Generator-limited: a target lags so far behind its load that its backlog reached the \
             bound, and the others got their requests too late: {}",
            late_for(figures, &[LateCause::Backlog])
        );
    }
    if is_mostly(LateCause::Verification, figures) {
        return format!(
            "Slowed by verification: what was about to be overwritten was read first; {}",
            late_for(figures, &[LateCause::Verification])
        );
    }
    format!(
        "Generator-limited: this program could not issue in time; {}",
        late_for(figures, &GENERATOR)
    )
}

/// That requests which waited for each other took so long because of the replay, if they did.
fn path_of_replay(figures: &RunFigures) -> Option<String> {
    let path = figures.critical_path().filter(CriticalPath::is_own)?;
    Some(format!(
        "of {}, in which each request waited for the one before, {} % went by between the instant \
         at which a request was due and its submission, so that the length of the run is not that \
         of the storage",
        Nanos(path.length_ns() as i64),
        two_digits(path.own_share() * 100.0)
    ))
}

/// Without its end, which [`unusable`] makes.
fn host_stalled(figures: &RunFigures, engine: &EngineFacts) -> String {
    if let Some(told) = path_of_replay(figures) {
        return format!("Host-stalled: {told}");
    }
    let is_all_issued = engine.ended_after.is_none_or(|ended| ended.not_issued == 0);
    let is_in_time =
        figures.lateness_for(&HOST).is_empty() && figures.lateness_for(&OWN).is_empty();
    if is_in_time && is_all_issued {
        // The engine saw no late request, but the witness saw late requests at the device.
        return "Host-stalled: requests reached the device late, a part of the way on this side of \
                it, as a witness saw"
            .to_owned();
    }
    if is_starved(figures, engine) {
        let causes: Vec<LateCause> = HOST.into_iter().chain(OWN).collect();
        return format!(
            "Host-stalled: other programs had the processors, so that requests were not made ready \
             or issued in time; {}",
            late_for(figures, &causes)
        );
    }
    let what = if engine.has_schedule() { "its schedule" } else { "issuing in time" };
    format!("Host-stalled: the host kept the replay from {what}; {}", late_for(figures, &HOST))
}

/// The first sentence on a run without a schedule.
fn unscheduled(figures: &RunFigures, engine: &EngineFacts) -> String {
    let took = figures.picture().achieved_end();
    let issued = figures.issued();
    let how = match engine.timing {
        TimingMode::Load => ", never more in flight than in the recording",
        TimingMode::Timed | TimingMode::Afap | TimingMode::Dependency | TimingMode::Flows => "",
    };
    let rate = issued as f64 / took.as_secs_f64().max(1e-9);
    let what = counted(issued, "request");
    let is_whole = engine.results_lost == 0;
    let pauses = figures.load().pauses().filter(|pauses| is_whole && pauses.share() > STOOD_STILL);
    let stood_still = pauses.map_or(String::new(), |pauses| format!(" {}.", stood_still(&pauses)));
    format!(
        "As fast as possible{how}: {what} in {took}, {} requests/s.{stood_still}",
        two_digits(rate)
    )
}

/// The time without a completion, in words.
pub(super) fn stood_still(pauses: &Pauses) -> String {
    let longest = match pauses.pauses {
        1 => format!("after {}", pauses.longest_at),
        _ => format!(
            "{}, the longest time for {} after {}",
            times(pauses.pauses),
            pauses.longest,
            pauses.longest_at
        ),
    };
    format!(
        "Nothing was completed for {} of these {} ({:.1} %): {longest}",
        pauses.total,
        pauses.span,
        pauses.share() * 100.0
    )
}

/// The differences from the recorded load, including those that were asked for.
fn altered(figures: &RunFigures, engine: &EngineFacts) -> String {
    let dropped = share(engine.dropped, figures.recorded());
    let dropped = (dropped > CONFLICT_SHARE).then(|| {
        format!(
            " DROPPED on conflict: {} ({:.1} %); what was replayed is not the recorded load.",
            counted(engine.dropped, "request"),
            dropped * 100.0
        )
    });
    let counted = |count: u64, what: &str| (count > 0).then(|| format!(" {count} {what}."));
    let slowed = engine.verify.as_ref().and_then(VerifyFigures::prereads_told);
    [
        dropped,
        speed(engine),
        slowed.map(|told| format!(" Verification: {told}.")),
        counted(engine.substituted, "writes were replayed as reads"),
        counted(engine.copies, "requests are copies made for a higher rate"),
        transformed(engine),
        clients(engine),
        engine.ended_after.map(|ended| format!(" The run {}.", ended.told())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Whose response times those of a run with closed flows are. A client that waits issues nothing
/// meanwhile, so they say nothing of users who come whether or not others wait.
fn clients(engine: &EngineFacts) -> Option<String> {
    let clients = facts::clients(&engine.flows);
    let of = if engine.flows.iter().any(|flow| flow.threads.is_none()) {
        " of closed flows"
    } else {
        ""
    };
    (clients > 0).then(|| {
        format!(" Response times{of} are those of {}.", counted(clients.into(), "waiting client"))
    })
}

/// The transforms that made the load of the recording, if there are any.
fn transformed(engine: &EngineFacts) -> Option<String> {
    let transforms = &engine.load.recording.as_ref()?.transforms;
    (!transforms.is_empty()).then(|| format!(" Changed beforehand by {}.", transforms.join(", ")))
}

/// The factors on time, if there are any.
fn speed(engine: &EngineFacts) -> Option<String> {
    let is_scaled = |factor: f64| factor > 0.0 && (factor - 1.0).abs() > f64::EPSILON;
    let (speed, server) = (engine.speedup, engine.server_speed);
    match engine.timing {
        TimingMode::Timed => {
            is_scaled(speed).then(|| format!(" Replayed at {speed} times the recorded speed."))
        }
        TimingMode::Dependency => {
            let arrivals = is_scaled(speed).then(|| {
                format!(" Requests that wait for no other came at {speed} times the recorded rate.")
            });
            let thinks =
                is_scaled(server).then(|| format!(" Think times were divided by {server}."));
            Some(arrivals.into_iter().chain(thinks).collect())
        }
        TimingMode::Afap | TimingMode::Load | TimingMode::Flows => None,
    }
}
