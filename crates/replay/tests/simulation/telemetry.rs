//! The engine's telemetry is true, and collecting it changes nothing.

use ioecho_replay::engine::telemetry::{Doing, Telemetry};
use ioecho_replay::engine::{Control, Pacing, Replay, ResultSink, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing};
use ioecho_replay::schedule::Config;
use ioecho_replay::sim::{SimClock, SimDevice};
use ioecho_replay::{Device, Record, Scheduler};
use ioecho_trace::{Bytes, Nanos, Op, Request};

use crate::random::{self, Hesitant};

#[derive(Default)]
struct Kept {
    records: Vec<Record>,
    told: Vec<Telemetry>,
}

impl ResultSink for Kept {
    fn record(&mut self, record: &Record) -> bool {
        self.records.push(*record);
        true
    }

    fn telemetry(&mut self, interval: &Telemetry) {
        self.told.push(*interval);
    }
}

/// Replays a random load of a seed; `share` of the time the input is not ready.
fn replay(seed: u64, share: f64, every: Option<Nanos>) -> (Kept, Totals) {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let device = SimDevice::new(random::spec(&mut random, seed), clock.clone());
    let config = random::config(&mut random);
    let limits = TargetLimits::of(&device);
    let mut planner = Planner::new(limits, Timing { mode: config.timing, ..Timing::default() });
    let mut planned = Vec::new();
    for request in random::load(&mut random, limits.capacity.0) {
        planner.plan(&request, &mut planned);
    }
    run(device, &clock, config, planned, share, every)
}

fn run(
    mut device: SimDevice,
    clock: &SimClock,
    config: Config,
    planned: Vec<Planned>,
    share: f64,
    every: Option<Nanos>,
) -> (Kept, Totals) {
    let control = Control::default();
    let mut input = Hesitant {
        planned: planned.into_iter(),
        random: SplitMix64(3),
        share,
        control: &control,
        stop_after: None,
        polls: 0,
    };
    let mut kept = Kept::default();
    let (totals, result) = Replay {
        device: &mut device,
        clock,
        scheduler: Scheduler::new(config),
        input: &mut input,
        recorder: &mut kept,
        pattern: &mut Pattern::new(1),
        pacing: Pacing { spin: Nanos::ZERO, telemetry_every: every, ..Pacing::default() },
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    (kept, totals)
}

#[test]
fn telling_changes_no_request_and_every_request_is_told_of_once() {
    for seed in 0..60 {
        let share = if seed % 2 == 0 { 0.0 } else { 0.2 };
        let (silent, _) = replay(seed, share, None);
        let (telling, totals) = replay(seed, share, Some(Nanos::from_millis(10)));
        assert_eq!(silent.records, telling.records, "seed {seed}");
        assert!(silent.told.is_empty());

        let told = &telling.told;
        let sum = |of: fn(&Telemetry) -> u64| told.iter().map(of).sum::<u64>();
        assert_eq!(sum(|one| one.delay.count), totals.counts.issued, "seed {seed}");
        assert_eq!(sum(|one| one.preparation.count), totals.counts.issued);
        assert_eq!(sum(|one| one.input_stalls), totals.input_stalls);
        let answered =
            telling.records.iter().filter(|record| record.measured.completed.is_some()).count();
        assert_eq!(sum(|one| one.unseen.count + one.woken), answered as u64);
        let longest = told.iter().map(|one| one.submission.max).max();
        assert_eq!(longest, Some(totals.submission_max.0 as u64));

        assert_eq!(told[0].start, Nanos::ZERO);
        assert!(told.windows(2).all(|pair| pair[0].end == pair[1].start));
        for one in told {
            let spent: i64 = one.spent.iter().map(|span| span.0).sum();
            assert_eq!(spent, (one.end - one.start).0, "all of its time is accounted for");
            assert!(one.in_flight.max <= u64::from(totals.counts.in_flight_peak));
        }
    }
}

/// A request every so often, of a device that takes 10 µs for each, one at a time.
fn steady(count: u64, gap_us: i64, share: f64) -> Vec<Telemetry> {
    let clock = SimClock::new(Nanos(20));
    let spec = "service=10us,model=const,units=1".parse().unwrap();
    let device = SimDevice::new(spec, clock.clone());
    let limits = TargetLimits {
        capacity: device.capacity(),
        block_size: device.block_size(),
        length_max: device.length_max(),
        supports: Op::ALL.map(|_| true),
    };
    let mut planner =
        Planner::new(limits, Timing { start: Some(Nanos::ZERO), ..Timing::default() });
    let mut planned = Vec::new();
    for n in 0..count {
        let due = Nanos::from_micros(gap_us * n as i64);
        planner.plan(&Request::new(due, Op::Read, Bytes(n * 4096), Bytes(4096)), &mut planned);
    }
    let config = Config { look_ahead: 32, ..Config::with_in_flight_max(4) };
    run(device, &clock, config, planned, share, Some(Nanos::from_millis(10))).0.told
}

#[test]
fn an_idle_engine_waits_for_what_is_due_and_a_driven_one_for_completions() {
    let share = |told: &[Telemetry], doing: Doing| {
        let spent: i64 = told.iter().map(|one| one.spent[doing as usize].0).sum();
        spent as f64 / told.last().unwrap().end.0 as f64
    };
    let idle = steady(1000, 100, 0.0);
    assert!(share(&idle, Doing::Awaiting) > 0.9, "{idle:?}");
    assert!(idle.iter().all(|one| one.delay.max < 1_000), "nothing is late");
    assert_eq!(idle[0].look_ahead.max, 32);
    // 31 requests ahead, 100 µs apart.
    assert!(idle[0].ahead.max <= 3_200_000 && idle[0].ahead.min >= 3_000_000, "{:?}", idle[0]);

    let driven = steady(1000, 1, 0.0);
    assert!(share(&driven, Doing::Blocked) > 0.9, "{driven:?}");
    assert!(driven.iter().any(|one| one.delay.max > 1_000_000));

    // Every request is given after ten refusals, 200 µs apart.
    let starved = steady(200, 100, 0.9);
    assert!(share(&starved, Doing::Starved) > 0.5, "{starved:?}");
    assert!(starved.iter().map(|one| one.input_stalls).sum::<u64>() > 50);
}
