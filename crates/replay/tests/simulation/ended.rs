//! Replays that end after a time that was asked for.

use ioecho_replay::engine::{Control, Pacing, Replay, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, LATENESS_TOLERATED};
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::{Record, Scheduler};
use ioecho_trace::{Bytes, LateCause, Nanos, Op, Request};

use crate::random::{self, Hesitant};

struct Ended {
    totals: Totals,
    records: Vec<Record>,
}

/// Replays on a described device, and ends after `end`.
fn replay(spec: SimSpec, config: Config, planned: Vec<Planned>, end: Nanos, share: f64) -> Ended {
    let clock = SimClock::new(Nanos(30));
    let mut records = Vec::new();
    let control = Control::default();
    let (totals, result) = Replay {
        device: &mut SimDevice::new(spec, clock.clone()),
        clock: &clock,
        scheduler: Scheduler::new(config),
        input: &mut Hesitant {
            planned: planned.into_iter(),
            random: SplitMix64(7),
            share,
            control: &control,
            stop_after: None,
            polls: 0,
        },
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing { end_after: Some(end), spin: Nanos(2_000), ..Pacing::default() },
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    Ended { totals, records }
}

fn planned(spec: &SimSpec, mode: TimingMode, requests: &[Request]) -> Vec<Planned> {
    let limits = TargetLimits::of(&SimDevice::new(*spec, SimClock::new(Nanos(30))));
    let mut planner = Planner::new(limits, Timing { mode, ..Timing::default() });
    let mut planned = Vec::new();
    for request in requests {
        planner.plan(request, &mut planned);
    }
    planned
}

#[test]
fn nothing_is_issued_beyond_the_end_and_all_that_was_due_is_recorded_or_counted() {
    let mut cut = 0;
    for seed in 0..400 {
        let mut random = SplitMix64(seed);
        let spec = random::spec(&mut random, seed);
        let config = random::config(&mut random);
        let load = random::load(&mut random, spec.capacity.0);
        let planned = planned(&spec, config.timing, &load);
        let span = planned.last().unwrap().scheduled.0 as u64 + 1_000_000;
        let end = Nanos(1 + random.below(span) as i64);
        let share = if random.below(2) == 0 { 0.0 } else { 0.2 };
        let Ended { totals, records } = replay(spec, config, planned.clone(), end, share);
        for submitted in records.iter().filter_map(|record| record.measured.submitted) {
            assert!(submitted < end + LATENESS_TOLERATED, "seed {seed}: {submitted} of {end}");
        }
        assert!(!totals.stopped || totals.silent, "seed {seed}: nobody stopped it");
        if totals.silent {
            continue;
        }
        let Some(left) = totals.cut_off else {
            assert_eq!(records.len(), planned.len(), "seed {seed}");
            continue;
        };
        cut += 1;
        assert_eq!(left.requests > 0, left.cause != LateCause::None, "seed {seed}: {left:?}");
        assert!(left.lateness >= left.behind, "seed {seed}: {left:?}");
        if config.timing == TimingMode::Timed {
            let due = planned.iter().filter(|planned| planned.scheduled < end).count();
            assert_eq!(records.len() + left.requests as usize, due, "seed {seed}: {left:?}");
            assert!(records.iter().all(|record| record.planned.scheduled < end), "seed {seed}");
        }
    }
    assert!(cut > 200, "{cut}");
}

/// A thousand reads a second for ten seconds.
fn steady() -> Vec<Request> {
    let at = |n: i64| Nanos::from_millis(n);
    (0..10_000)
        .map(|n| Request::new(at(n), Op::Read, Bytes(n as u64 % 4096 * 512), Bytes(512)))
        .collect()
}

#[test]
fn what_a_slow_device_leaves_at_the_end_is_laid_to_the_device() {
    // Two at a time of 4 ms each: half of what is asked for.
    let spec: SimSpec = "service=4ms,model=const,units=2".parse().unwrap();
    let config = Config::with_in_flight_max(2);
    let planned = planned(&spec, TimingMode::Timed, &steady());
    let Ended { totals, records } = replay(spec, config, planned, Nanos::from_secs(2), 0.0);
    let left = totals.cut_off.unwrap();
    assert_eq!(records.len() as u64 + left.requests, 2_000);
    assert!((998..=1_001).contains(&left.requests), "{left:?}");
    assert_eq!(left.cause, LateCause::InFlightCap);
    let behind = left.behind - Nanos::from_secs(1);
    assert!(behind.0.abs() < 5_000_000, "{left:?}");
}

#[test]
fn a_replay_without_a_schedule_ends_by_time() {
    let spec: SimSpec = "service=1ms,model=const,units=1".parse().unwrap();
    let config = Config { timing: TimingMode::Afap, ..Config::with_in_flight_max(1) };
    let planned = planned(&spec, TimingMode::Afap, &steady());
    let Ended { totals, records } = replay(spec, config, planned, Nanos::from_millis(500), 0.0);
    assert!((499..=501).contains(&records.len()), "{}", records.len());
    let left = totals.cut_off.unwrap();
    assert_eq!((left.requests, left.cause), (0, LateCause::None));
}

#[test]
fn a_load_that_is_over_before_the_end_is_whole() {
    let spec: SimSpec = "service=20ms,model=const,units=64".parse().unwrap();
    let config = Config::with_in_flight_max(64);
    let planned = planned(&spec, TimingMode::Timed, &steady());
    // The last requests are still in flight then.
    let end = Nanos::from_millis(10_000);
    let Ended { totals, records } = replay(spec, config, planned, end, 0.0);
    assert_eq!((totals.cut_off, records.len()), (None, 10_000));
    assert!(totals.duration > end);
}
