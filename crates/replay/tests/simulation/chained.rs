//! Requests that wait for others, on random devices with faults: none is early, none is lost, and
//! none waits for ever.

use std::collections::HashMap;

use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice};
use ioecho_replay::{Record, Scheduler};
use ioecho_trace::{Bytes, Measured, Nanos, Op, Outcome, Request};

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

fn simulate(seed: u64) -> Outcomes {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let spec = random::spec(&mut random, seed);
    let config = Config { timing: TimingMode::Dependency, ..random::config(&mut random) };
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

/// Checks every invariant; answers how many requests waited for others.
fn check(seed: u64) -> u64 {
    let Outcomes { records, planned, parents, device, totals } = simulate(seed);
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
    let mut waited = 0;
    for record in &records {
        let seq = record.planned.seq;
        let (of, parents) = (&planned[seq as usize], &parents[seq as usize]);
        let scheduled = record.measured.scheduled;
        let behind = record.measured.behind;
        assert_eq!(Planned { scheduled, behind, ..*of }, record.planned);
        if let Some(think) = of.think {
            waited += 1;
            let ends = parents.iter().map(|parent| {
                let end = by_seq.get(parent).and_then(|record| ended(record));
                end.unwrap_or_else(|| panic!("{seq} was not to be issued before {parent}"))
            });
            let due = ends.max().unwrap_or_default() + think;
            assert!(scheduled >= due, "{seq} is due at {scheduled} and not at {due}");
            // The completions of those long before it are only known to lie in the past.
            let is_known = parents.iter().all(|parent| seq - parent < KNOWN);
            assert!(!is_known || scheduled == due, "{seq} is due at {scheduled}, not {due}");
            let last = seq - u64::from(behind);
            assert!(parents.contains(&last), "{seq} waited for {parents:?}, not for {last}");
            let end = ended(by_seq[&last]).unwrap_or_default();
            assert!(!is_known || end + think == due, "{last} was not the last for {seq}");
        } else {
            assert_eq!(scheduled, of.scheduled, "{seq} waits for no other");
            assert_eq!(behind, 0, "{seq} waits for no other");
        }
        if let Some(lateness) = record.measured.lateness() {
            assert!(lateness >= Nanos::ZERO, "{seq} is early by {lateness}");
        }
    }
    waited
}

#[test]
fn no_request_is_issued_before_those_that_it_waits_for_and_none_is_lost() {
    let mut waited = 0;
    for seed in 0..1000 {
        match std::panic::catch_unwind(|| check(seed)) {
            Ok(count) => waited += count,
            Err(panic) => {
                eprintln!("seed {seed} breaks an invariant");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(waited > 50_000, "only {waited} requests waited for others");
}

#[test]
fn a_seed_repeats_a_run_of_chains_exactly() {
    for seed in 0..20 {
        let (first, second) = (simulate(seed), simulate(seed));
        assert_eq!((first.records, first.totals), (second.records, second.totals));
    }
}

/// How long a chain of 1,000 reads takes, with think times of 90 µs, on a device that takes this
/// long for each, and how long the device took. In the recording each took 1 ms.
fn chain(service: &str) -> (Nanos, Nanos) {
    let clock = SimClock::new(Nanos(30));
    let spec = format!("service={service},model=const,units=1").parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    let timing = TimingMode::Dependency;
    let mut planner =
        Planner::new(TargetLimits::of(&device), Timing { mode: timing, ..Timing::default() });
    let mut planned = Vec::new();
    for n in 0..1000 {
        let at = Nanos::from_micros(1090 * n);
        planner.plan(&Request::new(at, Op::Read, Bytes(0), Bytes(4096)), &mut planned);
    }
    for one in &mut planned[1..] {
        one.think = Some(Nanos::from_micros(90));
    }
    let parents: Vec<Vec<u64>> =
        (0..1000_u64).map(|seq| seq.checked_sub(1).into_iter().collect()).collect();
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
        scheduler: Scheduler::new(Config { timing, ..Config::with_in_flight_max(64) }),
        input: &mut Linked { inner, parents: &parents, last: 0 },
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
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
