//! Requests that wait for requests on other targets, on random devices with faults: none is early,
//! none is lost, and none waits for ever, however near together the replays must stay.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use ioecho_replay::across::{Across, Reach};
use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{Pace, SimClock, SimDevice};
use ioecho_replay::{Device, Record, Scheduler};
use ioecho_trace::{Bytes, Nanos, Op, Request};

use crate::chained::ended;
use crate::over::Over;
use crate::random;
use crate::watched::Watched;

/// The requests of one target, as far as they may be handed out.
struct Part<'a> {
    planned: std::iter::Peekable<std::vec::IntoIter<Planned>>,
    parents: &'a [Vec<u64>],
    last: usize,
    across: Across,
    reach: Reach,
    stop: &'a AtomicBool,
    stop_after: Option<u64>,
}

impl Input for Part<'_> {
    fn poll(&mut self) -> Feed {
        match self.planned.peek() {
            None => return Feed::Ended,
            Some(next) if !self.reach.holds(next.seq) => return Feed::NotYet,
            Some(next) => self.last = next.seq as usize,
        }
        if self.stop_after.is_some_and(|seq| self.last as u64 >= seq) {
            self.stop.store(true, Relaxed);
        }
        self.planned.next().map_or(Feed::Ended, Feed::Request)
    }

    fn parents(&self) -> &[u64] {
        &self.parents[self.last]
    }

    fn across(&mut self) -> Option<&mut Across> {
        Some(&mut self.across)
    }

    fn next_seq(&mut self) -> u64 {
        self.planned.peek().map_or(u64::MAX, |next| next.seq)
    }
}

/// The requests of a run, the parents of each, and at which the run is stopped, if it is.
struct Load {
    planned: Vec<Planned>,
    parents: Vec<Vec<u64>>,
    stop_after: Option<u64>,
}

/// What came of the replay on one target, and what was asked about its device.
struct Seen<T> {
    records: Vec<Record>,
    totals: Totals,
    device: T,
}

/// Replays a load on so many devices, each made by `device` from its number, and asks each at the
/// end.
fn replay<D: Device, T: Send>(
    load: &Load,
    targets: usize,
    config: Config,
    pacing: Pacing,
    device: impl Fn(usize, &SimClock, &Pace) -> D + Sync,
    ask: impl Fn(&D) -> T + Sync,
) -> (Vec<Seen<T>>, bool) {
    let (links, reach) = Across::new(targets, config.look_ahead, true);
    let stop = Arc::new(AtomicBool::new(false));
    let one = |target: usize, across: Across| {
        let clock = SimClock::new(Nanos(30));
        let mut device = device(target, &clock, across.pace().unwrap());
        let is_own = |one: &&Planned| usize::from(one.target) == target;
        let own: Vec<Planned> = load.planned.iter().filter(is_own).copied().collect();
        let control = Control { stop: Arc::clone(&stop), ..Control::default() };
        let mut input = Part {
            planned: own.into_iter().peekable(),
            parents: &load.parents,
            last: 0,
            across,
            reach: reach.clone(),
            stop: &stop,
            stop_after: load.stop_after,
        };
        let mut records = Vec::new();
        let (totals, result) = Replay {
            device: &mut device,
            clock: &clock,
            scheduler: Scheduler::new(config),
            input: &mut input,
            recorder: &mut records,
            pattern: &mut Pattern::new(1),
            pacing,
            control: &control,
            verify: None,
        }
        .run();
        result.unwrap();
        // As a run does: it can no longer become complete.
        stop.fetch_or(totals.silent, Relaxed);
        Seen { records, totals, device: ask(&device) }
    };
    let one = &one;
    let seen = thread::scope(|scope| {
        let links = links.into_iter().enumerate();
        let threads: Vec<_> =
            links.map(|(target, across)| scope.spawn(move || one(target, across))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    (seen, stop.load(Relaxed))
}

/// A run of a random load on random devices.
struct Run {
    load: Load,
    /// Of each device: whether it may hang, and how many conflicting requests it had together.
    seen: Vec<Seen<(bool, u64)>>,
    stopped: bool,
    conflicts: ConflictMode,
}

fn simulate(seed: u64) -> Run {
    let mut random = SplitMix64(seed ^ 0xAC05);
    let targets = 2 + random.below(3) as usize;
    let config = Config {
        timing: TimingMode::Dependency,
        follow_in_flight: false,
        ..random::config(&mut random)
    };
    let apart = Across::new(1, config.look_ahead, true).1.apart();
    let specs: Vec<_> =
        (0..targets as u64).map(|n| random::spec(&mut random, seed + n * 1_000_000)).collect();
    let capacity = specs.iter().map(|spec| spec.capacity.0).min().unwrap_or_default();
    let limits = TargetLimits::of(&SimDevice::new(specs[0], SimClock::new(Nanos(30))));
    let limits = TargetLimits { capacity: Bytes(capacity), ..limits };
    let mut planner = Planner::new(limits, Timing { mode: config.timing, ..Timing::default() });
    let (mut planned, mut parents) = (Vec::new(), Vec::new());
    for request in random::load(&mut random, capacity) {
        planner.plan(&request, &mut planned);
    }
    for one in &mut planned {
        one.target = random.below(targets as u64) as u16;
        let (count, among) = (random.below(6), apart.min(40).min(one.seq));
        let count = if among == 0 { 0 } else { count };
        let mut of: Vec<u64> = (0..count).map(|_| one.seq - 1 - random.below(among)).collect();
        of.sort_unstable();
        of.dedup();
        one.think = (!of.is_empty()).then(|| Nanos(random.below(1_000_000) as i64));
        parents.push(of);
    }
    let stop_after = (random.below(4) == 0).then(|| random.below(planned.len() as u64 + 1));
    let load = Load { planned, parents, stop_after };
    let pacing = Pacing {
        spin: Nanos(random.below(2) as i64 * 2_000),
        silence_max: Nanos::from_secs(2),
        ..Pacing::default()
    };
    let device = |target: usize, clock: &SimClock, pace: &Pace| {
        let spec = specs[target];
        let mut device = Watched::new(spec.seed, spec, config, clock, false);
        device.inner.keep_in_step(pace.clone());
        device
    };
    let ask = |device: &Over<Watched>| (device.by.hangs(), device.by.conflicting_pairs);
    let (seen, stopped) = replay(&load, targets, config, pacing, device, ask);
    Run { load, seen, stopped, conflicts: config.conflicts }
}

/// Checks every invariant; answers how many requests waited for one on another target.
fn check(seed: u64) -> u64 {
    let Run { load, seen, stopped, conflicts: mode } = simulate(seed);
    let Load { planned, parents, .. } = &load;
    let records: Vec<&Record> = seen.iter().flat_map(|seen| &seen.records).collect();
    let by_seq: HashMap<u64, &Record> = records.iter().map(|one| (one.planned.seq, *one)).collect();
    assert_eq!(by_seq.len(), records.len(), "recorded twice");
    assert!(stopped || records.len() == planned.len(), "a request is lost");
    for Seen { totals, device: (hangs, conflicts), .. } in &seen {
        assert!(*hangs || !totals.silent, "it waited for ever");
        assert!(*hangs || totals.abandoned == 0);
        assert!(mode == ConflictMode::Allow || *conflicts == 0);
    }
    let mut waited = 0;
    for record in &records {
        let seq = record.planned.seq;
        let (of, parents) = (&planned[seq as usize], &parents[seq as usize]);
        assert_eq!(record.measured.target, of.target);
        let due = match of.think {
            None => of.scheduled,
            Some(think) => {
                let ends = parents.iter().map(|parent| {
                    let end = by_seq.get(parent).and_then(|record| ended(record));
                    end.unwrap_or_else(|| panic!("{seq} was not to be issued before {parent}"))
                });
                waited += u64::from(
                    parents.iter().any(|parent| planned[*parent as usize].target != of.target),
                );
                let last = seq - u64::from(record.measured.behind);
                assert!(parents.contains(&last), "{seq} waited for {parents:?}, not for {last}");
                ends.max().unwrap_or_default() + think
            }
        };
        assert_eq!(record.measured.scheduled, due, "{seq}");
        if let Some(lateness) = record.measured.lateness() {
            assert!(lateness >= Nanos::ZERO, "{seq} is early by {lateness}");
        }
    }
    waited
}

#[test]
fn no_request_is_issued_before_those_on_other_targets_that_it_waits_for() {
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
    assert!(waited > 50_000, "only {waited} requests waited for one on another target");
}

#[test]
fn a_seed_repeats_a_run_across_targets_exactly() {
    for seed in 0..20 {
        let [first, second] = [0, 1].map(|_| simulate(seed).seen);
        for (first, second) in first.iter().zip(&second) {
            assert_eq!((&first.records, first.totals), (&second.records, second.totals));
        }
    }
}

/// Two devices in turn: each request waits for the one before it, on the other device, and 90 µs.
#[test]
fn a_chain_across_two_targets_takes_what_both_take() {
    let planned: Vec<Planned> = {
        let device = SimDevice::new("size=1M".parse().unwrap(), SimClock::new(Nanos(30)));
        let timing = Timing { mode: TimingMode::Dependency, ..Timing::default() };
        let mut planner = Planner::new(TargetLimits::of(&device), timing);
        let mut planned = Vec::new();
        for n in 0..1000 {
            let at = Nanos::from_micros(1090 * n);
            planner.plan(&Request::new(at, Op::Read, Bytes(0), Bytes(4096)), &mut planned);
        }
        for (n, one) in planned.iter_mut().enumerate() {
            one.target = n as u16 % 2;
            one.think = (n > 0).then_some(Nanos::from_micros(90));
        }
        planned
    };
    let parents = (0..1000_u64).map(|seq| seq.checked_sub(1).into_iter().collect()).collect();
    let load = Load { planned, parents, stop_after: None };
    let config = Config { timing: TimingMode::Dependency, ..Config::with_in_flight_max(4) };
    let device = |target: usize, clock: &SimClock, pace: &Pace| {
        let spec = format!("size=1M,model=const,units=1,service={}us", [100, 300][target]);
        let mut device = SimDevice::new(spec.parse().unwrap(), clock.clone());
        device.keep_in_step(pace.clone());
        device
    };
    let (seen, _) = replay(&load, 2, config, Pacing::default(), device, |_| ());
    assert!(seen.iter().all(|seen| seen.records.len() == 500));
    let took = seen.iter().map(|seen| seen.totals.duration).max().unwrap_or_default();
    let expected = Nanos::from_micros(500 * 100 + 500 * 300 + 999 * 90);
    let beside = took - expected;
    assert!(beside >= Nanos::ZERO && beside < Nanos::from_millis(10), "{beside} beside {expected}");
}
