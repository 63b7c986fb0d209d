//! A device that serves calls where they are handed over: one pass of the engine for each, and no
//! look at the clock beside those of the device.

use std::cell::Cell;
use std::io;

use ioecho_replay::engine::{Control, Feed, Input, Pacing, Replay, Totals};
use ioecho_replay::flow::{Admission, FlowConfig, Numbering};
use ioecho_replay::pattern::Pattern;
use ioecho_replay::plan::{Planned, Planner, TargetLimits, Timing, TimingMode};
use ioecho_replay::schedule::{Config, LATENESS_TOLERATED};
use ioecho_replay::sim::SimClock;
use ioecho_replay::{Clock, Completion, Device, Io, Payload, Record, Scheduler};
use ioecho_trace::{Bytes, Integrity, LateCause, Nanos, Op, Outcome, Request};

/// How long a call takes.
const CALL: Nanos = Nanos::from_micros(2);

/// How long the host stands still before one of them.
const STALL: Nanos = Nanos::from_millis(5);

/// A clock that counts how often the engine looks at it.
struct Counted<'a> {
    clock: &'a SimClock,
    looks: Cell<u64>,
}

impl Clock for Counted<'_> {
    fn now(&self) -> Nanos {
        self.looks.set(self.looks.get() + 1);
        self.clock.now()
    }

    fn jumps(&self) -> bool {
        true
    }
}

/// Makes a call where it is handed over.
struct Served {
    clock: SimClock,
    prepared: Vec<Io>,
    done: Vec<Completion>,
    /// The call before which the host stands still.
    stall_at: Option<u64>,
    /// If calls are made where they are handed over by the device's choice alone, the one that
    /// takes as long as that stall.
    long_at: Option<u64>,
    kept: Nanos,
}

impl Served {
    fn new(clock: &SimClock, stall_at: Option<u64>, long_at: Option<u64>) -> Self {
        let (clock, prepared, done) = (clock.clone(), Vec::new(), Vec::new());
        Self { clock, prepared, done, stall_at, long_at, kept: Nanos::ZERO }
    }
}

impl Device for Served {
    fn capacity(&self) -> Bytes {
        Bytes(1 << 30)
    }

    fn block_size(&self) -> Bytes {
        Bytes(1)
    }

    fn length_max(&self) -> Bytes {
        Bytes(1 << 20)
    }

    fn supports(&self, _: Op) -> bool {
        true
    }

    fn prepare(&mut self, io: &Io, _: &mut dyn Payload) {
        if self.stall_at == Some(io.request) {
            self.clock.advance_to(self.clock.now() + STALL);
        }
        self.prepared.push(*io);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let first = self.clock.now();
        let (mut submitted, taken) = (first, self.prepared.len());
        for Io { tag, request, .. } in self.prepared.drain(..) {
            let took = if self.long_at == Some(request) { STALL } else { CALL };
            self.clock.advance_to(submitted + took);
            let (completed, outcome) = (self.clock.now(), Outcome::Ok);
            let integrity = Integrity::Unchecked;
            self.done.push(Completion { tag, submitted, completed, outcome, integrity });
            submitted = completed;
        }
        self.kept = submitted - first;
        Ok((first, taken))
    }

    fn kept(&self) -> Nanos {
        self.kept
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.done);
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.clock.advance_to(until);
        self.reap(completions)
    }

    fn is_inline(&self) -> bool {
        self.long_at.is_none()
    }

    fn describe(&self) -> String {
        "served".to_owned()
    }
}

/// A client whose next request follows from the result of its last.
struct Client {
    requests: std::vec::IntoIter<Planned>,
    is_free: bool,
}

impl Input for Client {
    fn poll(&mut self) -> Feed {
        Feed::Ended
    }

    fn poll_flow(&mut self, _: usize, _: Nanos) -> Feed {
        if !std::mem::take(&mut self.is_free) {
            return Feed::NotYet;
        }
        self.requests.next().map_or(Feed::Ended, Feed::Request)
    }

    fn completed(&mut self, _: &Record) -> bool {
        self.is_free = true;
        true
    }
}

/// So many calls of a client; also how often the engine looked at the clock.
fn calls(count: u64, stall_at: Option<u64>) -> (Vec<Record>, Totals, u64) {
    let clock = SimClock::new(Nanos(30));
    let mut device = Served::new(&clock, stall_at, None);
    let limits = TargetLimits::of(&device);
    let mut planner = Planner::new(limits, Timing { mode: TimingMode::Afap, ..Timing::default() });
    let mut planned = Vec::new();
    for n in 0..count {
        planner
            .plan(&Request::new(Nanos::ZERO, Op::Read, Bytes(n << 12), Bytes(512)), &mut planned);
    }
    let admission = Admission::Closed { think: Nanos::ZERO };
    let flow = FlowConfig { number: 1, admission, cap: 1, gate: None };
    let config = Config { timing: TimingMode::Flows, ..Config::with_in_flight_max(1) };
    let counted = Counted { clock: &clock, looks: Cell::new(0) };
    let mut records = Vec::new();
    let (totals, result) = Replay {
        device: &mut device,
        clock: &counted,
        scheduler: Scheduler::with_flows(config, vec![flow], Numbering::default()),
        input: &mut Client { requests: planned.into_iter(), is_free: true },
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        pacing: Pacing::default(),
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    (records, totals, counted.looks.get())
}

#[test]
fn the_engine_looks_at_the_clock_no_more_than_the_device_does() {
    let looks = |count| {
        let (records, _, looks) = calls(count, None);
        assert_eq!(records.len() as u64, count);
        looks
    };
    assert_eq!(looks(1_000), looks(10), "a call costs the engine a look at the clock");
}

#[test]
fn a_call_is_due_when_the_one_before_has_ended() {
    let (records, totals, _) = calls(100, None);
    for pair in records.windows(2) {
        let (before, call) = (pair[0].measured, pair[1].measured);
        assert_eq!(Some(call.scheduled), before.completed);
        // The two looks of the device, and nothing else.
        assert_eq!(call.submitted.map(|at| at - call.scheduled), Some(Nanos(30)));
        assert_eq!(call.late_cause, LateCause::None);
    }
    assert_eq!((totals.recorded, totals.host_stalls), (100, 0));
    assert_eq!(Some(totals.duration), records.last().and_then(|last| last.measured.completed));
}

#[test]
fn a_host_that_stands_still_between_two_calls_is_blamed_and_counted() {
    let (records, totals, _) = calls(100, Some(50));
    let late: Vec<_> =
        records.iter().filter(|one| one.measured.late_cause != LateCause::None).collect();
    let [late] = late[..] else { panic!("{} calls are late", late.len()) };
    assert_eq!((late.planned.seq, late.measured.late_cause), (50, LateCause::Host));
    assert!(late.measured.lateness().unwrap() >= STALL);
    assert_eq!(totals.host_stalls, 1);
    assert!(totals.host_stall_max >= STALL);
}

#[test]
fn what_waits_while_a_device_serves_by_its_own_choice_is_late_by_the_replay() {
    let clock = SimClock::new(Nanos(30));
    let mut device = Served::new(&clock, None, Some(41));
    let timing = Timing { start: Some(Nanos::ZERO), ..Timing::default() };
    let mut planner = Planner::new(TargetLimits::of(&device), timing);
    let mut planned = Vec::new();
    // Four at once each millisecond: the second of the tenth four takes five.
    for n in 0..400 {
        let at = Nanos::from_millis(n / 4);
        planner.plan(&Request::new(at, Op::Read, Bytes(n as u64 * 4096), Bytes(512)), &mut planned);
    }
    let (totals, records) = crate::replayed(&mut device, &clock, planned);
    let late: Vec<_> = records
        .iter()
        .filter(|one| one.measured.late_cause != LateCause::None)
        .map(|one| (one.planned.seq, one.measured.late_cause))
        .collect();
    // Those due at the end of the long one are less than a millisecond late.
    let expected: Vec<_> = (42..60).map(|n| (n, LateCause::Generator)).collect();
    assert_eq!(late, expected);
    assert_eq!((totals.slow_submissions, totals.host_stalls), (0, 0));
    assert!(totals.submission_max < LATENESS_TOLERATED);
}
