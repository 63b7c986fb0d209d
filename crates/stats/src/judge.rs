//! How a run is judged: the checks, their thresholds, and whose limits it met.
//!
//! A replay that came late measures another load than the one it was given. Whether that is a
//! finding about the device (it could not take the load) or a fault of the measurement (this
//! program or this host could not issue it) decides whether the figures mean anything, and the user
//! cannot tell from the figures themselves. The engine noted the cause of every late request; here
//! the causes are weighed.

mod checks;

use ioecho_trace::units::counted;
use ioecho_trace::{Integrity, LateCause, Nanos, TimingMode};

use crate::facts::{EngineFacts, VerifyFigures, WitnessFacts};
use crate::late::LATE;
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade, Validity, Verdict};
pub use checks::WRAPAROUND;
use checks::{CONFLICT_SHARE, LATE_SHARE_PASS};

/// Judges a run.
pub fn judge(figures: &RunFigures, engine: &EngineFacts) -> Verdict {
    let blame = blame(figures, engine);
    let mut checks = vec![
        checks::complete(figures, engine),
        checks::accounted(figures, engine),
        checks::lateness(figures, engine, blame),
        checks::duration(figures, engine, blame),
        checks::demand(engine),
        checks::issued(figures, engine),
        checks::failures(figures, engine),
        checks::conflicts(figures, engine),
        checks::integrity(figures, engine),
        checks::wraparound(engine),
        checks::load::content(figures, engine),
        checks::page_cache(engine),
        checks::storage(engine),
    ];
    checks.extend(checks::load::all(figures, engine));
    checks.extend(checks::host::all(figures, engine));
    checks.push(checks::witness::witness(engine));
    let broken =
        |name: &str| checks.iter().any(|check| check.name == name && check.grade >= Grade::Limited);
    let limits = if !engine.incomplete.is_empty() {
        Finding::Incomplete
    } else if broken("lateness") || broken("duration") {
        blame
    } else {
        Finding::Faithful
    };
    let damaged = broken("integrity");
    if limits == Finding::DeviceLimited {
        excuse_backlog(&mut checks);
    }
    let validity = Validity::of(&checks);
    let mut summary = sentence(limits, figures, engine, &checks);
    if damaged {
        let kinds = kinds_of_damage(figures, engine);
        let unreadable = engine.verify.as_ref().is_some_and(|verify| verify.damaged_sectors == 0)
            && figures.damaged() == 0;
        summary = if unreadable {
            format!("Data unreadable ({kinds}): what was written could not be read back. {summary}")
        } else {
            format!("Data damaged ({kinds}): the device lost or altered data. {summary}")
        };
    }
    let finding = if damaged { Finding::DataDamaged } else { limits };
    Verdict { validity, finding, summary, checks }
}

/// The names of all checks, in the order in which a verdict has them.
pub fn names() -> Vec<String> {
    // Every verdict has every check: one that does not apply says so.
    let nothing = judge(&RunFigures::default(), &EngineFacts::default());
    nothing.checks.into_iter().map(|check| check.name).collect()
}

/// A device that cannot take its load has a backlog, which grows and shrinks with the load: service
/// times that drift then are that finding again, and no want of a steady state.
fn excuse_backlog(checks: &mut [Check]) {
    let drifted = checks.iter_mut().filter(|check| {
        check.grade == Grade::Suspect && ["steady-state", "run-length"].contains(&&*check.name)
    });
    for check in drifted {
        check.grade = Grade::Limited;
        "The device could not take this load, and what waited in it grew and shrank: that is the \
         finding. Whether the device is steady shows under a load that it can take."
            .clone_into(&mut check.advice);
    }
}

/// How often each kind of damage was found, in words: in sectors where they were counted, in
/// requests where the records are all there is.
fn kinds_of_damage(figures: &RunFigures, engine: &EngineFacts) -> String {
    let Some(verify) = engine.verify.as_ref().filter(|verify| verify.is_damaged()) else {
        let told: Vec<String> = Integrity::ALL
            .into_iter()
            .filter(|kind| kind.is_damage() && figures.integrity(*kind) > 0)
            .map(|kind| format!("{} {}", figures.integrity(kind), kind.name()))
            .collect();
        return format!("{} requests", told.join(", "));
    };
    let kinds = verify.damaged.iter().map(|(name, count)| (name.as_str(), *count));
    let told: Vec<String> = kinds
        .chain([("unreadable", verify.unreadable_sectors)])
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if told.is_empty() {
        return format!("{} sectors", verify.damaged_sectors);
    }
    format!("{} sectors", told.join(", "))
}

/// Causes that are the device's doing.
const DEVICE: [LateCause; 3] = [LateCause::Conflict, LateCause::InFlightCap, LateCause::Submission];
/// The cap on requests in flight unless another is asked for. A lower one is a choice, and what
/// waits for a place below it is no finding about the device alone.
pub const IN_FLIGHT_DEFAULT: u32 = 4096;

/// The cap, if it was set low and cost most of what is laid to the device.
fn low_cap(figures: &RunFigures, engine: &EngineFacts) -> Option<u32> {
    let cost = |cause: LateCause| figures.late(cause).lateness_ns;
    let cap = cost(LateCause::InFlightCap);
    let others = cost(LateCause::Conflict).saturating_add(cost(LateCause::Submission));
    let is_low = (1..IN_FLIGHT_DEFAULT).contains(&engine.in_flight_max);
    // Where the device has no more places than that, it is the device that was full.
    let places = engine.host.devices.iter().filter_map(|device| device.queue_limit);
    let is_less = places
        .filter(|places| *places > 0)
        .min()
        .is_none_or(|places| u64::from(engine.in_flight_max) < places);
    (is_low && is_less && cap > others).then_some(engine.in_flight_max)
}

/// Causes that are this program's.
const GENERATOR: [LateCause; 4] =
    [LateCause::Input, LateCause::Generator, LateCause::Backlog, LateCause::Verification];

/// Those of them that nobody asked for: reading and preparing requests.
const OWN: [LateCause; 2] = [LateCause::Input, LateCause::Generator];

/// Whether most of what is laid to this program came of one of its causes.
fn is_mostly(cause: LateCause, figures: &RunFigures) -> bool {
    let cost = |cause: LateCause| figures.late(cause).lateness_ns;
    let others = GENERATOR.into_iter().filter(|other| *other != cause);
    cost(cause) > others.map(cost).fold(0, i64::saturating_add)
}

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
fn blame(figures: &RunFigures, engine: &EngineFacts) -> Finding {
    if is_held_back(figures, engine) {
        return Finding::DeviceLimited;
    }
    let cost = |causes: &[LateCause]| -> i128 {
        causes.iter().map(|cause| i128::from(figures.late(*cause).lateness_ns)).sum()
    };
    let (device, generator, host) = (cost(&DEVICE), cost(&GENERATOR), cost(&HOST));
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    let is_late = seen.is_some_and(|seen| seen.late_share() > LATE_SHARE_PASS);
    if is_late && device.max(generator).max(host) == 0 {
        // A part on this side of the device, a part behind it, and neither long enough to be late.
        return Finding::HostStalled;
    }
    let faults = late_share(figures, &GENERATOR) + late_share(figures, &HOST);
    if faults <= LATE_SHARE_PASS && device >= generator.max(host) {
        Finding::DeviceLimited
    } else if generator >= host {
        Finding::GeneratorLimited
    } else {
        Finding::HostStalled
    }
}

/// Whether requests were handed over in time and a witness saw the device get them late. What was
/// handed over late by itself is not among them.
fn is_held_back(figures: &RunFigures, engine: &EngineFacts) -> bool {
    let own = late_share(figures, &LateCause::ALL);
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    own <= LATE_SHARE_PASS
        && seen.is_some_and(|seen| share(seen.held_back, seen.found) > LATE_SHARE_PASS)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
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
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    let first = match finding {
        _ if figures.issued() == 0 => "Nothing was replayed: no request was issued.".to_owned(),
        Finding::Faithful | Finding::DataDamaged if !engine.has_schedule() => {
            unscheduled(figures, engine)
        }
        Finding::Faithful | Finding::DataDamaged if seen.is_some() => format!(
            "Faithful: 99 % of {} reached the device within {} of their time, as a \
             witness saw, over {took:.1} s.",
            counted(seen.map_or(0, |seen| seen.found), "request"),
            Nanos(seen.map_or(0, WitnessFacts::delay_p99_ns))
        ),
        Finding::Faithful | Finding::DataDamaged => format!(
            "Faithful: 99 % of {} were issued within {p99} of their time, over {took:.1} s.",
            counted(all.count(), "request")
        ),
        Finding::DeviceLimited if low_cap(figures, engine).is_some() => format!(
            "Limited by the cap: no more than {} in flight at a time, so that requests waited for \
             a place and were issued up to {} late. What was measured is the device under this \
             cap.",
            engine.in_flight_max,
            all.max().unwrap_or_default()
        ),
        Finding::DeviceLimited if is_held_back(figures, engine) => format!(
            "Device-limited: requests were issued in time and held back on their way to the \
             device, {} of them by more than {LATE}, as a witness saw.",
            seen.map_or(0, |seen| seen.held_back)
        ),
        Finding::DeviceLimited => format!(
            "Device-limited: the device could not take the load; requests were issued up to {} \
             late.",
            all.max().unwrap_or_default()
        ),
        Finding::GeneratorLimited if is_mostly(LateCause::Backlog, figures) => {
            "Generator-limited: a target lags so far behind its load that its backlog reached the \
             bound, and the others got their requests too late; do not use these figures."
                .to_owned()
        }
        Finding::GeneratorLimited if is_mostly(LateCause::Verification, figures) => format!(
            "Slowed by verification: what was about to be overwritten was read first, so that \
             requests were issued up to {} late; do not use these figures.",
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
    format!("{first}{altered}{simulated}{doubts}", altered = altered(figures, engine))
}

/// The first sentence on a run that had no schedule to hold.
fn unscheduled(figures: &RunFigures, engine: &EngineFacts) -> String {
    let took = figures.picture().achieved_end().as_secs_f64();
    let issued = figures.issued();
    let how = match engine.timing {
        TimingMode::Load => ", never more in flight than in the recording",
        TimingMode::Timed | TimingMode::Afap => "",
    };
    let rate = issued as f64 / took.max(1e-9);
    let what = counted(issued, "request");
    format!("As fast as possible{how}: {what} in {took:.1} s, {rate:.0} requests/s.")
}

/// What makes this another load than the recorded one, told whether asked for or not.
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
        slowed.map(|told| format!(" Verification: {told}.")),
        counted(engine.substituted, "writes were replayed as reads"),
        counted(engine.copies, "requests are copies made for a higher rate"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
