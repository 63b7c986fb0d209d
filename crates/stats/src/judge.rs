//! The verdict on a run: the checks, their thresholds, and the cause of lateness.
//!
//! A late replay measures another load than the given one. The lateness is either a finding about
//! the device, which could not take the load, or a fault of the measurement, because this program
//! or this host could not issue it. Only in the first case do the figures have a meaning, and they
//! do not show which it is. The engine noted the cause of every late request; this module weighs
//! the causes.

mod checks;
mod explained;
mod headline;

use ioecho_trace::units::counted;
use ioecho_trace::{Integrity, LateCause};

use crate::facts::{EngineFacts, VerifyFigures, share};
pub(crate) use crate::late::DEVICE;
use crate::load_figures::Growth;
use crate::picture::Span;
use crate::run_figures::RunFigures;
use crate::verdict::{Check, Finding, Grade, Validity, Verdict};
pub use checks::WRAPAROUND;
pub(crate) use checks::host_owned_from;
pub use checks::start::START_SKEW;
pub(crate) use checks::start::start_skew;
use checks::{LATE_SHARE_PASS, LATE_SHARE_SUSPECT};

/// Judges a run.
pub fn judge(figures: &RunFigures, engine: &EngineFacts) -> Verdict {
    let blame = blame(figures, engine);
    let mut checks = vec![
        checks::complete(figures, engine),
        checks::accounted(figures, engine),
        checks::lateness(figures, engine, blame),
        checks::duration(figures, engine, blame),
        checks::load::standstill(figures, engine),
        checks::percentiles(figures, engine),
        checks::demand(figures, engine),
        checks::issued(figures, engine),
        checks::failures(figures, engine),
        checks::conflicts(figures, engine),
        checks::integrity(figures, engine),
        checks::wraparound(engine),
        checks::load::content(figures, engine),
        checks::page_cache(engine),
        checks::storage(engine),
    ];
    let is_late = ["lateness", "duration"].iter().any(|name| is_broken(&checks, name));
    checks.extend(checks::load::all(figures, engine, is_late.then_some(blame)));
    checks.extend(checks::host::all(figures, engine));
    checks.push(checks::witness::witness(engine));
    checks.push(checks::start::of_one());
    let broken = |name: &str| is_broken(&checks, name);
    let limits = if !engine.incomplete.is_empty() {
        Finding::Incomplete
    } else if broken("lateness") || broken("duration") {
        blame
    } else if checks::witness::is_foreign(engine) {
        Finding::ForeignLoad
    } else if engine.has_due_instants() {
        Finding::Faithful
    } else {
        Finding::Unscheduled
    };
    let damaged = broken("integrity");
    let became_slower = fell_behind(figures, engine).is_some_and(|grown| !grown.throughout);
    if limits == Finding::DeviceLimited {
        excuse_conflicts(&mut checks, engine);
        if !became_slower {
            excuse_backlog(&mut checks);
        }
    }
    explained::explain(&mut checks, limits, figures, engine);
    let validity = Validity::of(&checks);
    let mut summary = headline::sentence(limits, figures, engine, &checks);
    if damaged {
        let kinds = kinds_of_damage(figures, engine);
        let is_unread =
            |verify: &VerifyFigures| verify.damaged_sectors == 0 && verify.names_damaged() == 0;
        let unreadable = engine.verify.as_ref().is_some_and(is_unread) && figures.damaged() == 0;
        summary = if unreadable {
            format!("Data unreadable ({kinds}): what was written could not be read back. {summary}")
        } else {
            format!("Data damaged ({kinds}): the device lost or altered data. {summary}")
        };
    }
    let finding = if damaged { Finding::DataDamaged } else { limits };
    Verdict { validity, finding, summary, checks }
}

/// Whether the check of this name was made and did not pass.
fn is_broken(checks: &[Check], name: &str) -> bool {
    checks.iter().any(|check| check.name == name && check.grade >= Grade::Limited)
}

/// The names of all checks, in the order in which a verdict has them.
pub fn names() -> Vec<String> {
    // Every verdict has every check, because a check that does not apply says so.
    let nothing = judge(&RunFigures::default(), &EngineFacts::default());
    nothing.checks.into_iter().map(|check| check.name).collect()
}

/// If a device cannot take its load, the backlog changes with the load. Drifting service times are
/// then part of that finding, and not a missing steady state.
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

/// If a device cannot take its load, requests fall due while others that they overlap are still in
/// flight. Those that are pushed back for it are late because of the device, and count so. A
/// request that is dropped is missing from the load, whatever the cause.
fn excuse_conflicts(checks: &mut [Check], engine: &EngineFacts) {
    let is_pushed = |check: &&mut Check| check.name == "conflicts" && engine.dropped == 0;
    for check in checks.iter_mut().filter(is_pushed) {
        if check.grade == Grade::Suspect {
            check.grade = Grade::Limited;
            "Requests fell due that overlap others in flight, because the device had not done \
             those yet: that is a finding about the device. The conflict rule of the run says what \
             is done with them; read response times."
                .clone_into(&mut check.advice);
        }
    }
}

/// How often each kind of damage was found, in words: counted in sectors if verification ran,
/// otherwise in requests from the records.
fn kinds_of_damage(figures: &RunFigures, engine: &EngineFacts) -> String {
    let Some(verify) = engine.verify.as_ref().filter(|verify| verify.is_damaged()) else {
        let kinds = Integrity::ALL.into_iter().filter(|kind| kind.is_damage());
        return kinds_counted(kinds.map(|kind| (kind.name(), figures.integrity(kind))), "request");
    };
    let kinds = verify.damaged.iter().map(|(name, count)| (name.as_str(), *count));
    let told = kinds_counted(kinds.chain([("unreadable", verify.unreadable_sectors)]), "sector");
    match (told.is_empty(), verify.names_told()) {
        (true, None) => counted(verify.damaged_sectors, "sector"),
        (true, Some(names)) => names,
        (false, None) => told,
        (false, Some(names)) => format!("{told}, {names}"),
    }
}

/// So many of each kind, and the noun once: `3 stale, 1 torn sectors`. Empty where there is none.
fn kinds_counted<'a>(kinds: impl Iterator<Item = (&'a str, u64)>, noun: &str) -> String {
    let there: Vec<(&str, u64)> = kinds.filter(|(_, count)| *count > 0).collect();
    let end = match there.as_slice() {
        [] => return String::new(),
        [(_, 1)] => "",
        _ => "s",
    };
    let told: Vec<String> = there.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("{} {noun}{end}", told.join(", "))
}

/// The default cap on requests in flight. A lower cap is the user's choice, so waiting for a place
/// below it is not a finding about the device alone.
pub const IN_FLIGHT_DEFAULT: u32 = 4096;

/// The cap, if it was set low and caused most of the lateness that counts for the device.
fn low_cap(figures: &RunFigures, engine: &EngineFacts) -> Option<u32> {
    let cost = |cause: LateCause| figures.late(cause).lateness_ns;
    let cap = cost(LateCause::InFlightCap);
    let others = cost(LateCause::Conflict).saturating_add(cost(LateCause::Submission));
    let is_low = (1..IN_FLIGHT_DEFAULT).contains(&engine.in_flight_max);
    // If the device has no more places than the cap, the device was full.
    let places = engine.host.devices.iter().filter_map(|device| device.queue_limit);
    let is_less = places
        .filter(|places| *places > 0)
        .min()
        .is_none_or(|places| u64::from(engine.in_flight_max) < places);
    (is_low && is_less && cap > others).then_some(engine.in_flight_max)
}

/// Causes within this program and the load that it makes.
pub(crate) const GENERATOR: [LateCause; 5] = [
    LateCause::Input,
    LateCause::Generator,
    LateCause::Backlog,
    LateCause::Verification,
    LateCause::File,
];

/// Causes within this program that were not asked for: reading and preparing requests.
pub(crate) const OWN: [LateCause; 2] = [LateCause::Input, LateCause::Generator];

/// Whether this cause made most of the lateness within this program.
fn is_mostly(cause: LateCause, figures: &RunFigures) -> bool {
    is_most_of(cause, |cause| figures.late(cause).lateness_ns)
}

/// Whether threads that waited for each other's files made most of it: the load's own limit.
fn are_files_few(figures: &RunFigures, engine: &EngineFacts) -> bool {
    is_most_of(LateCause::File, |cause| {
        i64::try_from(late_cost(figures, engine, &[cause])).unwrap_or(i64::MAX)
    })
}

pub(crate) fn is_most_of(cause: LateCause, cost: impl Fn(LateCause) -> i64) -> bool {
    let others = GENERATOR.into_iter().filter(|other| *other != cause);
    cost(cause) > others.map(&cost).fold(0, i64::saturating_add)
}

/// Causes within the host; unexplained lateness counts here, against the measurement.
pub(crate) const HOST: [LateCause; 2] = [LateCause::Host, LateCause::None];

/// The share of issued requests that were late for one of these causes.
fn late_share(figures: &RunFigures, causes: &[LateCause]) -> f64 {
    let late: u64 = causes.iter().map(|cause| figures.late(*cause).requests).sum();
    share(late, figures.picture().spans_of_all(Span::Lateness).count())
}

/// The same with what was due and not issued when the run was ended: it is late too, and in no
/// record.
fn late_share_whole(figures: &RunFigures, engine: &EngineFacts, causes: &[LateCause]) -> f64 {
    let left = engine.ended_after.filter(|left| causes.contains(&left.cause));
    late_share(figures, causes) + left.map_or(0.0, |left| share(left.not_issued, engine.planned))
}

/// The lateness for these causes in all, in nanoseconds.
fn late_cost(figures: &RunFigures, engine: &EngineFacts, causes: &[LateCause]) -> i128 {
    let late = causes.iter().map(|cause| i128::from(figures.late(*cause).lateness_ns));
    let left = engine.ended_after.filter(|left| causes.contains(&left.cause));
    late.sum::<i128>() + left.map_or(0, |left| i128::from(left.lateness_ns))
}

/// So many times as many requests must be late for the device as for generator and host, if those
/// alone break the schedule: a stall of the host makes some others wait for the device.
const DEVICES_MORE: f64 = 4.0;

/// The cause of the late requests.
///
/// Faults come first: if generator or host alone break the schedule, the run is invalid because of
/// them, however slow the device was. Only where they are late for a few, and the device for many
/// more, the device is the finding; the check of lateness tells the fault. Otherwise the cause with
/// the most time decides.
fn blame(figures: &RunFigures, engine: &EngineFacts) -> Finding {
    if is_held_back(figures, engine) || fell_behind(figures, engine).is_some() {
        return Finding::DeviceLimited;
    }
    if is_path_own(figures) {
        return fault_of_path(figures, engine);
    }
    let cost = |causes: &[LateCause]| late_cost(figures, engine, causes);
    let (device, generator, host) = (cost(&DEVICE), cost(&GENERATOR), cost(&HOST));
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    let is_late = seen.is_some_and(|seen| checks::seen_late_grade(seen) > Grade::Pass);
    if is_late && device.max(generator).max(host) == 0 {
        // Each request was delayed before the device and behind it, but neither delay alone made it
        // late.
        return Finding::HostStalled;
    }
    let late = |causes: &[LateCause]| late_share_whole(figures, engine, causes);
    let breaks = late(&GENERATOR).max(late(&HOST)) > LATE_SHARE_PASS;
    let own = own_late_share(figures, engine);
    let is_minor = own <= LATE_SHARE_SUSPECT && late(&DEVICE) >= DEVICES_MORE * own;
    if device >= generator.max(host) && (is_minor || !breaks) {
        Finding::DeviceLimited
    } else {
        fault(figures, engine)
    }
}

/// Whether requests that waited for each other took so long because of the replay, though hardly
/// one of them was late by much.
fn is_path_own(figures: &RunFigures) -> bool {
    figures.critical_path().is_some_and(|path| path.is_own())
}

/// Which of generator and host is at fault for that. Of what is too little to be explained, the
/// generator, unless other programs had the processors.
fn fault_of_path(figures: &RunFigures, engine: &EngineFacts) -> Finding {
    let is_taken = !engine.simulated && checks::host::are_processors_taken(engine);
    if is_taken || late_share_whole(figures, engine, &HOST) > LATE_SHARE_PASS {
        Finding::HostStalled
    } else {
        Finding::GeneratorLimited
    }
}

/// The share of requests that generator and host were late for.
fn own_late_share(figures: &RunFigures, engine: &EngineFacts) -> f64 {
    let late = |causes: &[LateCause]| late_share_whole(figures, engine, causes);
    late(&GENERATOR) + late(&HOST)
}

/// Which of generator and host is at fault, if one of them is.
fn fault(figures: &RunFigures, engine: &EngineFacts) -> Finding {
    let breaks = |causes| late_share_whole(figures, engine, causes) > LATE_SHARE_PASS;
    let (by_generator, by_host) = (breaks(&GENERATOR), breaks(&HOST));
    let cost = |causes: &[LateCause]| late_cost(figures, engine, causes);
    let is_generators =
        if by_generator == by_host { cost(&GENERATOR) >= cost(&HOST) } else { by_generator };
    if is_generators && !is_starved(figures, engine) {
        Finding::GeneratorLimited
    } else {
        Finding::HostStalled
    }
}

/// Whether this program read and prepared too slowly because other programs used the processors.
/// Then the cause is the host.
fn is_starved(figures: &RunFigures, engine: &EngineFacts) -> bool {
    is_starved_by(|cause| figures.late(cause).lateness_ns, engine)
}

/// The same, by the lateness of each cause.
pub(crate) fn is_starved_by(cost: impl Fn(LateCause) -> i64, engine: &EngineFacts) -> bool {
    let asked_for = [LateCause::Backlog, LateCause::Verification, LateCause::File];
    let is_own =
        !asked_for.into_iter().any(|cause| is_most_of(cause, &cost)) && engine.results_lost == 0;
    is_own && !engine.simulated && checks::host::are_processors_taken(engine)
}

/// How the backlog of the devices grew until the end of the load. Only determined for a run with a
/// schedule that the run itself held.
fn fell_behind(figures: &RunFigures, engine: &EngineFacts) -> Option<Growth> {
    let is_own = late_share(figures, &GENERATOR) + late_share(figures, &HOST) > LATE_SHARE_PASS;
    if !engine.has_schedule() || is_own || !engine.incomplete.is_empty() {
        return None;
    }
    figures.load().growth()
}

/// Whether a witness saw requests late at the device that were handed over in time. Requests that
/// were handed over late do not count.
fn is_held_back(figures: &RunFigures, engine: &EngineFacts) -> bool {
    let own = late_share(figures, &LateCause::ALL);
    let seen = engine.witness.as_ref().filter(|seen| seen.is_there());
    own <= LATE_SHARE_PASS && seen.is_some_and(checks::witness::is_held_back)
}

#[cfg(test)]
mod tests;
