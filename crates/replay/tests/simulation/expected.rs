//! The engine announces flushes to its device: each once, in order, and in time.

use std::collections::VecDeque;

use ioecho_replay::engine::{Control, Pacing, Replay};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::sim::{SimClock, SimDevice};
use ioecho_replay::{Device, Io, Payload, Record, Scheduler};
use ioecho_trace::{Flags, Nanos, Op};

use crate::over::{Over, Overseer};
use crate::random::{self, Hesitant};

/// The replay's time zero.
const START: Nanos = Nanos::from_millis(7);

const SPIN: Nanos = Nanos::from_micros(40);

/// Keeps what the device is told of.
struct Listener {
    told: Vec<Nanos>,
    /// What of it has not been asked for.
    awaited: VecDeque<Nanos>,
    expects: bool,
}

impl Overseer for Listener {
    fn expect(&mut self, due: Nanos, near: Nanos) {
        assert!(self.expects, "{due} is no use");
        assert_eq!(near, SPIN);
        self.told.push(due);
        self.awaited.push_back(due);
    }

    fn prepare(&mut self, device: &mut SimDevice, io: &Io, payload: &mut dyn Payload) {
        if self.expects && io.begins_with_flush() {
            // One that had to wait for others may come behind a later one.
            let due = START + io.scheduled;
            let place = self.awaited.iter().position(|awaited| *awaited == due);
            let place = place.unwrap_or_else(|| panic!("{io:?} was not told of before"));
            self.awaited.remove(place);
        }
        device.prepare(io, payload);
    }
}

/// Replays a random load of a seed; answers what the device was told of, and what it ought to be.
fn replay(seed: u64, spin: Nanos) -> (Vec<Nanos>, Vec<Nanos>) {
    let mut random = SplitMix64(seed);
    let clock = SimClock::new(Nanos(30));
    let inner = SimDevice::new(random::spec(&mut random, seed), clock.clone());
    let config = random::config(&mut random);
    let limits = TargetLimits::of(&inner);
    let mut planner = Planner::new(limits, Timing { mode: config.timing, ..Timing::default() });
    let mut planned: Vec<Planned> = Vec::new();
    for mut request in random::load(&mut random, limits.capacity.0) {
        if request.op == Op::Write && random.below(4) == 0 {
            request.flags |= Flags::PREFLUSH;
        }
        planner.plan(&request, &mut planned);
    }
    let expects = config.timing == TimingMode::Timed && spin > Nanos::ZERO;
    let begins = |one: &&Planned| one.refusal.is_none() && one.io(0).begins_with_flush();
    let due = planned.iter().filter(begins).map(|one| START + one.scheduled);
    let ought = if expects { due.collect() } else { Vec::new() };
    let control = Control::default();
    let mut input = Hesitant {
        planned: planned.into_iter(),
        random: SplitMix64(seed ^ 3),
        share: if random.below(2) == 0 { 0.0 } else { 0.2 },
        control: &control,
        stop_after: None,
        polls: 0,
    };
    let by = Listener { told: Vec::new(), awaited: VecDeque::new(), expects };
    let mut device = Over { inner, by };
    let mut records: Vec<Record> = Vec::new();
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(config),
        input: &mut input,
        recorder: &mut records,
        pattern: &mut Pattern::new(seed),
        pacing: Pacing { spin, start_at: Some(START), ..Pacing::default() },
        control: &control,
        verify: None,
    }
    .run();
    result.unwrap();
    assert!(!totals.stopped || totals.silent);
    if totals.silent {
        // It ended before all of it was read.
        let told = device.by.told.len();
        return (device.by.told, ought[..told].to_vec());
    }
    (device.by.told, ought)
}

#[test]
fn every_flush_of_a_schedule_is_told_of_once_in_order_and_before_it_is_handed_over() {
    let mut flushes = 0;
    for seed in 0..300 {
        let (told, ought) = replay(seed, SPIN);
        assert_eq!(told, ought, "seed {seed}");
        flushes += told.len();
    }
    assert!(flushes > 5_000, "{flushes}");
}

#[test]
fn an_engine_that_never_spins_has_nobody_else_spin() {
    for seed in 0..50 {
        assert_eq!(replay(seed, Nanos::ZERO).0, []);
    }
}
