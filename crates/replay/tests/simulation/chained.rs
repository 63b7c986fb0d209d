//! Requests that wait for others, on random devices with faults: none is early, none is lost, and
//! none waits for ever.

use std::collections::BTreeMap;

use std::collections::HashMap;

use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::{Record, Scheduler};
use ioecho_trace::{Bytes, LateCause, Measured, Nanos, Op, Outcome, Request};

use crate::over::Over;
use crate::random::{self, Hesitant};
use crate::watched::Watched;

/// How many of the last completions the scheduler knows exactly, at the least.
const KNOWN: u64 = 8;

/// An input that names parents.
struct Linked<'a> {
    inner: Hesitant<'a>,
    parents: &'a [Vec<u64>],
    last: usize,
}

impl Input for Linked<'_> {
    fn poll(&mut self) -> Feed {
        let feed = self.inner.poll();
        if let Feed::Request(planned) = feed {
            self.last = planned.seq as usize;
        }
        feed
    }

    fn parents(&self) -> &[u64] {
        &self.parents[self.last]
    }
}

/// Parents for each of so many requests, among those shortly before it; of some none.
fn parents(random: &mut SplitMix64, count: u64) -> Vec<Vec<u64>> {
    let of = |seq: u64, random: &mut SplitMix64| {
        let parents = if random.below(4) == 0 { 0 } else { random.below(6) };
        let mut parents: Vec<u64> =
            (0..parents.min(seq)).map(|_| seq - 1 - random.below(seq.min(40))).collect();
        parents.sort_unstable();
        parents.dedup();
        parents
    };
    (0..count).map(|seq| of(seq, random)).collect()
}

struct Outcomes {
    records: Vec<Record>,
    planned: Vec<Planned>,
    parents: Vec<Vec<u64>>,
    device: Over<Watched>,
    totals: Totals,
}

fn simulate(seed: u64, timing: TimingMode) -> Outcomes {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let spec = random::spec(&mut random, seed);
    let config = Config { timing, linked: true, ..random::config(&mut random) };
    let config = Config { follow_in_flight: false, ..config };
    let mut device = Watched::new(seed, spec, config, &clock, false);
    let limits = TargetLimits::of(&device);
    let mut planner = Planner::new(limits, Timing { mode: config.timing, ..Timing::default() });
    let mut planned = Vec::new();
    for request in random::load(&mut random, limits.capacity.0) {
        planner.plan(&request, &mut planned);
    }
    let parents = parents(&mut random, planned.len() as u64);
    for (one, parents) in planned.iter_mut().zip(&parents) {
        one.think = (!parents.is_empty()).then(|| Nanos(random.below(1_000_000) as i64));
    }
    let control = Control::default();
    let inner = Hesitant {
        planned: planned.clone().into_iter(),
        random: SplitMix64(seed ^ 2),
        share: if random.below(2) == 0 { 0.0 } else { 0.2 },
        control: &control,
        stop_after: (random.below(4) == 0).then(|| random.below(planned.len() as u64 + 1)),
        polls: 0,
    };
    let mut records = Vec::new();
    let spin = Nanos(random.below(2) as i64 * 2_000);
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(config),
        input: &mut Linked { inner, parents: &parents, last: 0 },
        recorder: &mut records,
        pattern: &mut Pattern::new(seed),
        pacing: Pacing { spin, ..Pacing::default() },
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    Outcomes { records, planned, parents, device, totals }
}

/// When nobody waits for the request of this record any more, if that ever was.
pub(crate) fn ended(record: &Record) -> Option<Nanos> {
    let Measured { scheduled, completed, outcome, .. } = record.measured;
    // One that is not issued ends when it is due.
    (outcome != Outcome::Abandoned).then(|| completed.unwrap_or(scheduled))
}

/// When a request would have ended but for what made it late beside the device and those that it
/// waited for itself.
fn fair_end(record: &Record) -> Nanos {
    let Measured { scheduled, submitted, completed, late_cause, .. } = record.measured;
    let (Some(submitted), Some(completed)) = (submitted, completed) else { return scheduled };
    let is_of_device = matches!(late_cause, LateCause::InFlightCap | LateCause::Submission);
    let own = record.planned.held.map_or(scheduled, |held| held.until);
    if is_of_device { completed } else { completed - (submitted - own).max(Nanos::ZERO) }
}

/// Checks every invariant; answers how many requests waited for others.
fn check(seed: u64, timing: TimingMode) -> u64 {
    let Outcomes { records, planned, parents, device, totals } = simulate(seed, timing);
    let by_seq: HashMap<u64, &Record> = records.iter().map(|one| (one.planned.seq, one)).collect();
    assert_eq!(by_seq.len(), records.len(), "recorded twice");
    assert_eq!(totals.counts.issued as usize, device.by.issued.len());
    let hangs = device.by.hangs();
    assert!(hangs || !totals.silent, "it waited for ever");
    assert!(totals.stopped || records.len() == planned.len(), "a request is lost");
    assert!(hangs || totals.abandoned == 0 && device.by.in_flight.is_empty());
    if device.by.config.conflicts != ConflictMode::Allow {
        assert_eq!(device.by.conflicting_pairs, 0);
    }
    for record in &records {
        let seq = record.planned.seq;
        let (of, parents) = (&planned[seq as usize], &parents[seq as usize]);
        let end_of = |parent: u64| {
            let end = by_seq.get(&parent).and_then(|record| ended(record));
            end.unwrap_or_else(|| panic!("{seq} was not to be issued before {parent}"))
        };
        let free = parents.iter().map(|parent| end_of(*parent)).max();
        let Measured { scheduled, submitted, behind, .. } = record.measured;
        // What stands in for the completions of those long before it lies in the past.
        assert!(submitted >= submitted.and(free), "{seq} was issued at {submitted:?}");
        if let Some(lateness) = record.measured.lateness() {
            assert!(lateness >= Nanos::ZERO, "{seq} is early by {lateness}");
        }
        if timing.has_parents() {
            assert_eq!(Planned { scheduled, behind, ..*of }, record.planned);
            check_due(record, of, parents, free, end_of);
            continue;
        }
        let held = record.planned.held;
        assert_eq!(Planned { scheduled, held, ..*of }, record.planned);
        if timing.has_schedule() {
            assert_eq!(scheduled, of.scheduled);
            let fair = parents.iter().map(|parent| fair_end(by_seq[parent])).max();
            let until = fair.filter(|fair| *fair > scheduled);
            let is_known = parents.iter().all(|parent| seq - parent < KNOWN);
            assert!(!is_known || held.map(|held| held.until) == until, "{seq}: {until:?}");
        }
    }
    parents.iter().filter(|parents| !parents.is_empty()).count() as u64
}

/// Checks when a request was due by the completions of those that it waited for.
fn check_due(
    record: &Record,
    of: &Planned,
    parents: &[u64],
    free: Option<Nanos>,
    end_of: impl Fn(u64) -> Nanos,
) {
    let Measured { scheduled, behind, .. } = record.measured;
    let seq = of.seq;
    let Some(think) = of.think else {
        assert_eq!(scheduled, of.scheduled, "{seq} waits for no other");
        assert_eq!(behind, 0, "{seq} waits for no other");
        return;
    };
    let due = free.unwrap_or_default() + think;
    assert!(scheduled >= due, "{seq} is due at {scheduled} and not at {due}");
    // The completions of those long before it are only known to lie in the past.
    let is_known = parents.iter().all(|parent| seq - parent < KNOWN);
    assert!(!is_known || scheduled == due, "{seq} is due at {scheduled}, not {due}");
    let last = seq - u64::from(behind);
    assert!(parents.contains(&last), "{seq} waited for {parents:?}, not for {last}");
    assert!(!is_known || end_of(last) + think == due, "{last} was not the last for {seq}");
}

#[test]
fn no_request_is_issued_before_those_that_it_waits_for_and_none_is_lost() {
    for timing in TimingMode::OF_STREAMS {
        let mut waited = 0;
        for seed in 0..1000 {
            match std::panic::catch_unwind(|| check(seed, timing)) {
                Ok(count) => waited += count,
                Err(panic) => {
                    eprintln!("seed {seed} breaks an invariant with the timing {timing}");
                    std::panic::resume_unwind(panic);
                }
            }
        }
        assert!(waited > 50_000, "only {waited} requests waited for others with {timing}");
    }
}

#[test]
fn a_seed_repeats_a_run_of_chains_exactly() {
    for seed in 0..20 {
        let again = || simulate(seed, TimingMode::OF_STREAMS[seed as usize % 4]);
        let (first, second) = (again(), again());
        assert_eq!((first.records, first.totals), (second.records, second.totals));
    }
}

/// Reads of 4 KiB, this long apart in the recording, of which each waits for the one that was so
/// many before it.
fn reads(config: &Config, count: i64, apart: Nanos, before: u64) -> (Vec<Planned>, Vec<Vec<u64>>) {
    let limits = TargetLimits::of(&SimDevice::new(spec("1ms"), SimClock::new(Nanos(30))));
    let mut planner = Planner::new(limits, Timing { mode: config.timing, ..Timing::default() });
    let mut planned = Vec::new();
    for n in 0..count {
        let at = Nanos(apart.0 * n);
        planner.plan(&Request::new(at, Op::Read, Bytes(0), Bytes(4096)), &mut planned);
    }
    let parents = (0..count as u64).map(|seq| seq.checked_sub(before).into_iter().collect());
    (planned, parents.collect())
}

/// A device that takes this long for each request, however many there are.
fn spec(service: &str) -> SimSpec {
    format!("service={service},model=const,units=64").parse().unwrap()
}

/// Replays linked requests, with these think times.
fn replay(
    config: Config,
    service: &str,
    think: Nanos,
    load: (Vec<Planned>, Vec<Vec<u64>>),
) -> (Totals, Vec<Record>) {
    replay_with(config, service, (think, Nanos(30)), load)
}

/// The same by an engine that needs so long for each look at the clock.
fn replay_with(
    config: Config,
    service: &str,
    (think, look): (Nanos, Nanos),
    (mut planned, parents): (Vec<Planned>, Vec<Vec<u64>>),
) -> (Totals, Vec<Record>) {
    let clock = SimClock::new(look);
    let mut device = SimDevice::new(spec(service), clock.clone());
    for (one, parents) in planned.iter_mut().zip(&parents) {
        one.think = (!parents.is_empty()).then_some(think);
    }
    let control = Control::default();
    let inner = Hesitant {
        planned: planned.into_iter(),
        random: SplitMix64(1),
        share: 0.0,
        control: &control,
        stop_after: None,
        polls: 0,
    };
    let mut records: Vec<Record> = Vec::new();
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(config),
        input: &mut Linked { inner, parents: &parents, last: 0 },
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    (totals, records)
}

/// How long a chain of 1,000 reads takes, with think times of 90 µs, on a device that takes this
/// long for each, and how long the device took. In the recording each took 1 ms.
fn chain(service: &str) -> (Nanos, Nanos) {
    let timing = TimingMode::Dependency;
    let config = Config { timing, ..Config::with_in_flight_max(64) };
    let load = reads(&config, 1000, Nanos::from_micros(1090), 1);
    let (totals, records) = replay(config, service, Nanos::from_micros(90), load);
    assert_eq!(totals.counts.in_flight_peak, 1);
    let services = records.iter().filter_map(|record| record.measured.service_time());
    (totals.duration, services.fold(Nanos::ZERO, |sum, service| sum + service))
}

#[test]
fn on_faster_storage_a_chain_takes_its_think_times_and_what_the_storage_takes() {
    for (service, at_most) in [("1ms", 1_100), ("100us", 200), ("10us", 110)] {
        let (took, device) = chain(service);
        let beside = took - device - Nanos::from_micros(999 * 90);
        assert!(beside >= Nanos::ZERO && beside < Nanos::from_micros(200), "{service}: {beside}");
        assert!(took <= Nanos::from_millis(at_most), "{service}: {took}");
    }
}

#[test]
fn calls_of_two_tasks_take_half_as_long_beside_each_other_whatever_the_timing() {
    for timing in TimingMode::OF_STREAMS {
        let took = |in_flight_max| {
            let config =
                Config { timing, linked: true, ..Config::with_in_flight_max(in_flight_max) };
            // Two tasks in turn, each of which has made its next call when its last had returned.
            let load = reads(&config, 1000, Nanos::from_micros(500), 2);
            let (totals, records) = replay(config, "1ms", Nanos::ZERO, load);
            assert_eq!((records.len(), totals.counts.in_flight_peak), (1000, in_flight_max));
            totals.duration
        };
        let (serial, beside) = (took(1), took(2));
        assert!(serial >= Nanos::from_millis(1000), "{timing}: {serial}");
        assert!(beside < Nanos::from_millis(510), "{timing}: {beside} and not half of {serial}");
        // More places are of no use to two tasks.
        let config = Config { timing, linked: true, ..Config::with_in_flight_max(64) };
        let load = reads(&config, 1000, Nanos::from_micros(500), 2);
        assert_eq!(replay(config, "1ms", Nanos::ZERO, load).0.counts.in_flight_peak, 2);
    }
}

#[test]
fn a_call_that_waited_for_others_beyond_its_instant_is_late_for_them() {
    let config = Config { linked: true, ..Config::with_in_flight_max(64) };
    let load = reads(&config, 100, Nanos::from_micros(500), 1);
    let (totals, records) = replay(config, "1ms", Nanos::ZERO, load);
    let late: Vec<_> =
        records.iter().filter(|one| one.measured.late_cause != LateCause::None).collect();
    assert_eq!(late.len(), 99);
    assert!(late.iter().all(|one| one.measured.late_cause == LateCause::Conflict), "{totals:?}");
}

#[test]
fn calls_that_wait_for_an_engine_that_is_too_slow_for_them_are_not_late_by_the_device() {
    let config = Config { linked: true, ..Config::with_in_flight_max(64) };
    let load = reads(&config, 5000, Nanos::from_micros(5), 1);
    let (_, records) = replay_with(config, "1us", (Nanos::ZERO, Nanos::from_micros(9)), load);
    let mut late = BTreeMap::new();
    for record in records.iter().filter(|one| one.measured.late_cause != LateCause::None) {
        *late.entry(record.measured.late_cause.name()).or_insert(0) += 1;
    }
    assert!(late.values().sum::<usize>() > 4000, "{late:?}");
    let of_device = ["conflict", "in-flight-cap", "submission"];
    assert!(late.keys().all(|cause| !of_device.contains(cause)), "{late:?}");
}
