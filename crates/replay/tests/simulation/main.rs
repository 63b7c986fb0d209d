//! Hundreds of random loads on random devices, from seeds, under a virtual clock.
//!
//! The engine runs here exactly as on the kernel. What watches it is a device that knows nothing of
//! the scheduler's data structures: it keeps a plain list of what is in flight and compares every
//! new request with all of it. `IOECHO_SEEDS=FROM..TO` runs other seeds than the default.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod across;
mod chained;
mod ended;
mod expected;
mod flows;
#[path = "../over/mod.rs"]
mod over;
mod random;
mod served;
mod telemetry;
mod watched;

use std::cell::Cell;

use ioecho_replay::clock::Clock;
use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals, Verification};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, LATENESS_TOLERATED};

use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::verify::{MemoryTable, Verifier, VerifyConfig};
use ioecho_replay::{Device, Record, Scheduler};
use ioecho_trace::{Bytes, LateCause, Nanos, Op, Outcome, Request};

use over::Over;
use random::Hesitant;
use watched::Watched;

/// What a planner makes of one request.
fn plan_one(planner: &mut Planner, request: &Request) -> Planned {
    let mut planned = Vec::new();
    planner.plan(request, &mut planned);
    planned.pop().unwrap()
}

struct Outcomes {
    records: Vec<Record>,
    planned: Vec<Planned>,
    device: Over<Watched>,
    totals: Totals,
    mode: ConflictMode,
    /// What verification found, where it looked: how many reads, and what was wrong.
    verified: Option<(u64, Vec<String>)>,
}

fn simulate(seed: u64) -> Outcomes {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let spec = random::spec(&mut random, seed);
    let config = random::config(&mut random);
    let verifies = random.below(2) == 0;
    let mut device = Watched::new(seed, spec, config, &clock, verifies);
    let limits = TargetLimits::of(&device);
    let speedup = [1.0, 1.0, 10.0, 0.5][random.below(4) as usize];
    let mut planner =
        Planner::new(limits, Timing { speedup, mode: config.timing, ..Timing::default() });
    let mut planned = Vec::new();
    for request in random::load(&mut random, limits.capacity.0) {
        planner.plan(&request, &mut planned);
    }
    let isolated = config.conflicts != ConflictMode::Allow && config.strong != Strong::WriteWrite;
    let verify = VerifyConfig { run: seed, target: 0, isolated };
    let mut verifier =
        verifies.then(|| Verifier::new(verify, Box::new(MemoryTable::default()), None));
    let reread_writes = random.below(2) == 0;
    let preread = random.below(2) == 0;
    let control = Control::default();
    let mut input = Hesitant {
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
        input: &mut input,
        recorder: &mut records,
        pattern: &mut Pattern::new(seed),
        pacing: Pacing { spin, ..Pacing::default() },
        control: &control,
        verify: verifier.as_mut().map(|verifier| Verification {
            verifier: verifier.into(),
            reread_writes,
            preread,
        }),
    }
    .run();
    result.unwrap();
    let verified = verifier.map(|verifier| {
        let found = verifier.findings().iter().map(ToString::to_string).collect();
        (verifier.figures().reads, found)
    });
    Outcomes { records, planned, device, totals, mode: config.conflicts, verified }
}

/// Checks every invariant; answers how many reads were verified.
fn check(seed: u64) -> u64 {
    let Outcomes { mut records, planned, device, totals, mode, verified } = simulate(seed);

    // Every request is accounted for exactly once; after a stop, every one that was decided on.
    records.sort_by_key(|record| record.planned.seq);
    assert!(records.is_sorted_by(|a, b| a.planned.seq < b.planned.seq), "recorded twice");
    let timed = device.by.config.timing == TimingMode::Timed;
    for record in &records {
        let planned = planned[record.planned.seq as usize];
        // Without a schedule a request is due when it is issued.
        let scheduled = if timed { planned.scheduled } else { record.planned.scheduled };
        assert_eq!(Planned { scheduled, ..planned }, record.planned);
    }
    assert!(totals.stopped || records.len() == planned.len());
    assert_eq!(totals.recorded as usize, records.len());
    assert_eq!(totals.counts.issued as usize, device.by.issued.len());
    let hangs = device.by.hangs();
    assert!(hangs || totals.abandoned == 0);
    assert!(hangs || device.by.in_flight.is_empty());
    assert!(totals.stopped || device.by.drafts.is_empty(), "a draft was forgotten");

    // What a sound device holds is never found wrong, whatever fails, races or stalls.
    let reads = verified.map_or(0, |(reads, found)| {
        assert!(found.is_empty(), "{found:?}");
        reads
    });

    for record in &records {
        let measured = record.measured;
        if measured.outcome != Outcome::Abandoned {
            assert_eq!(measured.submitted.is_some(), measured.outcome.was_issued());
        }
        if let Some(lateness) = measured.lateness() {
            // Nothing is issued early, and lateness has a cause.
            assert!(lateness >= Nanos::ZERO, "early by {lateness}");
            assert!(measured.service_time().is_none_or(|span| span > Nanos::ZERO));
            let ceiling = device.by.ceiling(&record.planned);
            assert!(measured.pushed_back || measured.in_flight <= ceiling, "above the ceiling");
            if measured.late_cause == LateCause::None && device.by.stall_share == 0.0 {
                assert!(lateness <= LATENESS_TOLERATED + LATENESS_TOLERATED, "late by {lateness}");
            }
        }
        assert!(measured.outcome != Outcome::Dropped || mode == ConflictMode::Drop);
    }

    // No two conflicting requests are in flight together.
    if mode != ConflictMode::Allow {
        assert_eq!(device.by.conflicting_pairs, 0);
    }

    // Conflicting requests are issued in the order of the trace; in mode `ordering`, all are.
    if mode == ConflictMode::Ordering {
        let issued = records.iter().filter(|r| r.measured.outcome.was_issued());
        let expected: Vec<_> = issued.map(|r| (r.planned.offset, r.planned.op)).collect();
        let actual: Vec<_> = device.by.issued.iter().map(|io| (io.offset, io.op)).collect();
        assert_eq!(actual, expected);
    }
    if mode == ConflictMode::Partial {
        let done: Vec<_> = records.iter().filter(|r| r.measured.outcome.was_issued()).collect();
        for (index, a) in done.iter().enumerate() {
            for b in &done[index + 1..] {
                let (a_end, b_end) = (a.planned.end(), b.planned.end());
                let overlap = a.planned.offset < b_end && b.planned.offset < a_end;
                if overlap && device.by.config.strong.conflict(a.planned.op, b.planned.op) {
                    assert!(
                        b.measured.submitted.is_none()
                            || a.measured.completed <= b.measured.submitted,
                        "order is inverted: {a:?} {b:?}"
                    );
                }
            }
        }
    }
    if mode != ConflictMode::Partial {
        assert!(records.iter().all(|record| !record.measured.pushed_back));
    }
    reads
}

#[test]
fn no_seed_breaks_an_invariant() {
    let (from, to) = match std::env::var("IOECHO_SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("IOECHO_SEEDS=FROM..TO");
            (from.parse().unwrap(), to.parse().unwrap())
        }
        Err(_) => (0, 1000),
    };
    let mut reads = 0;
    for seed in from..to {
        match std::panic::catch_unwind(|| check(seed)) {
            Ok(verified) => reads += verified,
            Err(panic) => {
                eprintln!("seed {seed} breaks an invariant: IOECHO_SEEDS={seed}..{}", seed + 1);
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(to - from < 100 || reads > to - from, "only {reads} reads were verified");
}

#[test]
fn a_seed_repeats_a_run_exactly() {
    for seed in 0..20 {
        let (first, second) = (simulate(seed), simulate(seed));
        assert_eq!(first.records, second.records);
        assert_eq!(first.totals, second.totals);
    }
}

fn limits_of(device: &SimDevice) -> TargetLimits {
    TargetLimits {
        capacity: device.capacity(),
        block_size: device.block_size(),
        length_max: device.length_max(),
        supports: Op::ALL.map(|_| true),
    }
}

/// Replays what was planned as it is due, at most 64 in flight.
fn replayed(
    device: &mut dyn Device,
    clock: &impl Clock,
    planned: Vec<Planned>,
) -> (Totals, Vec<Record>) {
    let mut records: Vec<Record> = Vec::new();
    let (totals, result) = Replay {
        device,
        clock,
        scheduler: Scheduler::new(Config::with_in_flight_max(64)),
        input: &mut planned.into_iter(),
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    (totals, records)
}

#[test]
fn on_an_idle_and_fast_device_nothing_is_late_and_nothing_is_pushed_back() {
    // blkreplay pushes back thousands of requests here: it compares with the look-ahead.
    let clock = SimClock::new(Nanos(30));
    let spec: SimSpec = "service=10us,model=const,units=64".parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    let planned: Vec<_> = (0..10_000)
        .map(|n| {
            let limits = limits_of(&device);
            let timing = Timing { start: Some(Nanos::ZERO), ..Timing::default() };
            let offset = Bytes(n % 4 * 512);
            let request = Request::new(Nanos(n as i64 * 50_000), Op::Write, offset, Bytes(512));
            Planned { seq: n, ..plan_one(&mut Planner::new(limits, timing), &request) }
        })
        .collect();
    let (totals, records) = replayed(&mut device, &clock, planned);
    assert_eq!(totals.counts.pushed_back, 0);
    assert_eq!(totals.counts.issued, 10_000);
    let late = records.iter().filter_map(|record| record.measured.lateness()).max().unwrap();
    assert!(late < Nanos::from_micros(1), "late by {late}");
}

/// A clock that counts how often somebody looks at it.
struct Looked(SimClock, Cell<u64>);

impl Clock for Looked {
    fn now(&self) -> Nanos {
        self.1.set(self.1.get() + 1);
        self.0.now()
    }

    fn jumps(&self) -> bool {
        self.0.jumps()
    }
}

#[test]
fn a_month_without_a_request_is_over_at_once() {
    let clock = Looked(SimClock::new(Nanos(30)), Cell::new(0));
    let mut device = SimDevice::new(SimSpec::default(), clock.0.clone());
    let limits = limits_of(&device);
    let timing = Timing { start: Some(Nanos::ZERO), ..Timing::default() };
    let mut planner = Planner::new(limits, timing);
    let planned: Vec<_> = [0, 30 * 86_400]
        .map(|at| Request::new(Nanos::from_secs(at), Op::Read, Bytes(0), Bytes(512)))
        .iter()
        .zip(0..)
        .map(|(request, seq)| Planned { seq, ..plan_one(&mut planner, request) })
        .collect();
    let (totals, records) = replayed(&mut device, &clock, planned);
    assert_eq!(totals.counts.issued, 2);
    let late = records.iter().filter_map(|record| record.measured.lateness()).max().unwrap();
    assert!(late < Nanos::from_micros(1), "late by {late}");
    assert!(clock.1.get() < 100_000, "{} looks at the clock", clock.1.get());
}

/// A clock that leaps once, as if somebody had kept the engine away.
struct Leaping(SimClock, Cell<bool>);

impl Clock for Leaping {
    fn now(&self) -> Nanos {
        let now = self.0.now();
        if now < LEAP.0 || self.1.replace(true) {
            return now;
        }
        self.0.advance_to(LEAP.1);
        self.0.now()
    }

    fn jumps(&self) -> bool {
        true
    }
}

/// From when to when it leaps.
const LEAP: (Nanos, Nanos) = (Nanos::from_secs(3), Nanos::from_secs(15));

#[test]
fn a_long_stall_is_not_laid_to_an_input_that_was_there_all_the_time() {
    // 24,000 requests fall due in it, and the look-ahead holds 4,096.
    let clock = Leaping(SimClock::new(Nanos(30)), Cell::new(false));
    let spec: SimSpec = "service=10us,model=const,units=64".parse().unwrap();
    let mut device = SimDevice::new(spec, clock.0.clone());
    let timing = Timing { start: Some(Nanos::ZERO), ..Timing::default() };
    let mut planner = Planner::new(limits_of(&device), timing);
    let planned: Vec<_> = (0..40_000)
        .map(|n| {
            let offset = Bytes(n as u64 % 4096 * 512);
            let request = Request::new(Nanos(n / 20 * 10_000_000), Op::Read, offset, Bytes(512));
            Planned { seq: n as u64, ..plan_one(&mut planner, &request) }
        })
        .collect();
    let (totals, records) = replayed(&mut device, &clock, planned);
    assert_eq!((totals.counts.issued, totals.input_stalls), (40_000, 0));
    let late = |record: &&Record| record.measured.lateness().unwrap() > Nanos::from_millis(100);
    let causes: Vec<_> =
        records.iter().filter(late).map(|record| record.measured.late_cause).collect();
    assert!(causes.len() > 20_000, "{}", causes.len());
    assert!(causes.iter().all(|cause| *cause == causes[0]), "{causes:?}");
    assert_ne!(causes[0], LateCause::Input);
}

/// An endless input that stops the run after a while.
struct StopAt<'a> {
    control: &'a Control,
    n: u64,
}

impl Input for StopAt<'_> {
    fn poll(&mut self) -> Feed {
        self.n += 1;
        if self.n == 5000 {
            self.control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        let request = Request::new(Nanos(self.n as i64 * 1000), Op::Read, Bytes(0), Bytes(512));
        let limits = TargetLimits {
            capacity: Bytes(1 << 20),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: Op::ALL.map(|_| true),
        };
        let timing = Timing { start: Some(Nanos::ZERO), ..Timing::default() };
        let planned = plan_one(&mut Planner::new(limits, timing), &request);
        Feed::Request(Planned { seq: self.n, ..planned })
    }
}

#[test]
fn a_stop_ends_the_run_and_everything_issued_is_recorded() {
    let clock = SimClock::new(Nanos(30));
    let mut device = SimDevice::new(SimSpec::default(), clock.clone());
    let control = Control::default();
    let mut records: Vec<Record> = Vec::new();
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(Config::with_in_flight_max(64)),
        input: &mut StopAt { control: &control, n: 0 },
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    assert!(totals.stopped);
    assert_eq!(totals.abandoned, 0);
    assert_eq!(totals.counts.issued, records.len() as u64);
    assert!(records.iter().all(|record| record.measured.completed.is_some()));
}
