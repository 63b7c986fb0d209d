use ioecho_replay::engine::{Pacing, Replay, Totals};
use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::schedule::{Config, LATENESS_TOLERATED, Record};
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::{Clock, Scheduler};
use ioecho_stats::run_summary::LATE;
use ioecho_trace::{Bytes, Flags, Op, VolumeId};

use super::*;

const FAST: u16 = 0;
const SLOW: u16 = 1;

/// An uneven load of two targets: stretches of random length and rate, in which one or the other
/// target gets most requests.
struct Uneven {
    random: SplitMix64,
    seq: u64,
    count: u64,
    at: Nanos,
    left: u64,
    gap: i64,
    slow_percent: u64,
}

impl Uneven {
    fn new(seed: u64, count: u64) -> Self {
        let random = SplitMix64(seed);
        Self { random, seq: 0, count, at: Nanos::ZERO, left: 0, gap: 0, slow_percent: 0 }
    }
}

impl Iterator for Uneven {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.seq == self.count {
            return None;
        }
        if self.left == 0 {
            self.left = 1 + self.random.below(20_000);
            self.gap = [2_000, 20_000, 50_000, 200_000][self.random.below(4) as usize];
            self.slow_percent = [0, 10, 50, 90, 100][self.random.below(5) as usize];
        }
        self.left -= 1;
        self.at += Nanos(self.random.below(2 * self.gap as u64) as i64);
        let seq = self.seq;
        self.seq += 1;
        let target = if self.random.below(100) < self.slow_percent { SLOW } else { FAST };
        Some(Planned {
            seq,
            scheduled: self.at,
            issue: self.at,
            op: Op::Read,
            flags: Flags::empty(),
            trace_offset: Bytes(seq % 4096 * 4096),
            offset: Bytes(seq % 4096 * 4096),
            length: Bytes(4096),
            volume: VolumeId(0),
            latency: None,
            recorded_in_flight: 0,
            origin: None,
            target,
            refusal: None,
            behind: 0,
            flow: 0,
            held: None,
            think: None,
        })
    }
}

/// The fast target's input. At each call, the slow target first takes as many requests as it can
/// have done by then, and the feeder does all its work, in no time.
struct Together {
    load: std::iter::Peekable<Uneven>,
    stock: Stock,
    fast: RingInput,
    slow: RingInput,
    clock: SimClock,
    /// The time that the slow target takes for a request, in nanoseconds.
    slow_ns: i64,
    slow_at: i64,
    /// The numbers of the requests that it took.
    slow_took: Vec<u64>,
    spilled_max: Bytes,
}

impl Together {
    fn feed(&mut self, now: Nanos) {
        loop {
            self.stock.fill().unwrap();
            if self.load.peek().is_none() {
                self.stock.end();
                return;
            }
            if self.stock.next(&[now, now]) != Next::Read {
                return;
            }
            for planned in self.load.by_ref().take(BATCH_ROWS) {
                self.stock.push(planned);
            }
            self.spilled_max = self.spilled_max.max(self.stock.backlogs.spilled());
        }
    }

    fn take_slowly(&mut self, now: Nanos) {
        while self.slow_at + self.slow_ns <= now.0 {
            self.slow_at += self.slow_ns;
            match self.slow.poll() {
                Feed::Request(one) | Feed::Found(one) => self.slow_took.push(one.seq),
                Feed::NotYet | Feed::Ended => self.slow_at = now.0,
            }
        }
    }
}

impl Input for Together {
    fn poll(&mut self) -> Feed {
        let now = self.clock.now();
        self.take_slowly(now);
        self.feed(now);
        self.fast.poll()
    }

    fn late_cause(&self) -> LateCause {
        self.fast.late_cause()
    }
}

struct Outcome {
    input: Together,
    totals: Totals,
    records: Vec<Record>,
}

/// Replays a million requests on a target that takes almost no time, beside one that takes `slow`
/// for each.
fn replayed(seed: u64, slow: Nanos, bounds: Bounds) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let clock = SimClock::new(Nanos(20));
    let (stock, mut inputs) = Stock::new(2, true, bounds, directory.path(), &Arc::default());
    let (slow_input, fast) = (inputs.remove(1), inputs.remove(0));
    let mut input = Together {
        load: Uneven::new(seed, 1_000_000).peekable(),
        stock,
        fast,
        slow: slow_input,
        clock: clock.clone(),
        slow_ns: slow.0,
        slow_at: 0,
        slow_took: Vec::new(),
        spilled_max: Bytes::ZERO,
    };
    input.feed(Nanos::ZERO);
    let spec: SimSpec = "size=16M,units=64,service=5us,model=const".parse().unwrap();
    let mut device = SimDevice::new(spec, clock.clone());
    let mut records = Vec::new();
    let (totals, result) = Replay {
        device: &mut device,
        clock: &clock,
        scheduler: Scheduler::new(Config::with_in_flight_max(4096)),
        input: &mut input,
        recorder: &mut records,
        pattern: &mut Pattern::new(1),
        // Both clocks begin together.
        pacing: Pacing { start_at: Some(Nanos::ZERO), spin: Nanos::ZERO, ..Pacing::default() },
        control: &Control::default(),
        verify: None,
    }
    .run();
    result.unwrap();
    Outcome { input, totals, records }
}

/// The numbers of a target's requests in the load of this seed.
fn of(seed: u64, target: u16) -> Vec<u64> {
    let mine = Uneven::new(seed, 1_000_000).filter(|planned| planned.target == target);
    mine.map(|planned| planned.seq).collect()
}

fn later_than(span: Nanos, records: &[Record]) -> Vec<&Record> {
    let lateness = |record: &&Record| record.measured.lateness().unwrap();
    records.iter().filter(|record| lateness(record) > span).collect()
}

/// Every request has reached its target, no matter which target waited for which.
fn is_complete(outcome: &mut Outcome, seed: u64) {
    let mut fast: Vec<u64> = outcome.records.iter().map(|record| record.planned.seq).collect();
    fast.sort_unstable();
    assert_eq!(fast, of(seed, FAST));
    outcome.input.slow_ns = 1;
    while outcome.input.slow_took.len() < of(seed, SLOW).len() {
        let at = Nanos(outcome.input.slow_at + 1_000_000);
        outcome.input.take_slowly(at);
        outcome.input.feed(Nanos(i64::MAX));
    }
    assert_eq!(outcome.input.slow_took, of(seed, SLOW));
}

#[test]
fn a_target_keeps_its_schedule_beside_one_that_takes_a_tenth_of_its_load() {
    for seed in 0..2 {
        let mut outcome = replayed(seed, Nanos::from_millis(1), Bounds::default());
        let late = later_than(LATENESS_TOLERATED, &outcome.records);
        assert!(late.is_empty(), "{} late, the first: {:?}", late.len(), late.first());
        assert_eq!(outcome.totals.input_stalls, 0);
        assert_eq!(outcome.input.spilled_max, Bytes::ZERO, "memory suffices");
        is_complete(&mut outcome, seed);
    }
}

#[test]
fn it_keeps_its_schedule_when_the_backlog_goes_to_the_file() {
    let bounds = Bounds { memory: Bytes(4 << 20), ..Bounds::default() };
    let mut outcome = replayed(7, Nanos::from_millis(1), bounds);
    assert!(outcome.input.spilled_max > Bytes(8 << 20), "{}", outcome.input.spilled_max);
    assert!(later_than(LATENESS_TOLERATED, &outcome.records).is_empty());
    is_complete(&mut outcome, 7);
}

#[test]
fn where_the_bound_is_reached_the_backlog_is_to_blame_and_nothing_else() {
    let bounds = Bounds { memory: Bytes(4 << 20), file: Bytes(4 << 20) };
    let mut outcome = replayed(7, Nanos::from_millis(1), bounds);
    let late = later_than(LATE, &outcome.records);
    assert!(late.len() > 1000, "{}", late.len());
    let others: Vec<_> =
        late.iter().filter(|late| late.measured.late_cause != LateCause::Backlog).collect();
    assert!(others.is_empty(), "{} of {}: {:?}", others.len(), late.len(), others.first());
    assert!(outcome.input.spilled_max <= bounds.file);
    is_complete(&mut outcome, 7);
}

#[test]
fn nothing_is_read_for_a_target_that_has_enough() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stock, inputs) =
        Stock::new(2, true, Bounds::default(), directory.path(), &Arc::default());
    let at = |seq: u64, second: i64, target| Planned {
        scheduled: Nanos::from_secs(second),
        target,
        ..Uneven::new(seq, 1).next().unwrap()
    };
    let none = [Nanos::ZERO; 2];
    assert_eq!(stock.next(&none), Next::Read);
    // The first target has more requests than its ring holds, and the second has none.
    (0..=RING as u64).for_each(|seq| stock.push(at(seq, 3, FAST)));
    assert_eq!(stock.next(&none), Next::Read);
    stock.push(at(0, AHEAD.0 / 1_000_000_000, FAST));
    assert_eq!(stock.next(&none), Next::Wait, "nothing is due for the second for long");
    assert_eq!(stock.next(&[Nanos::ZERO, Nanos::from_secs(1)]), Next::Read, "time goes on");
    drop(inputs);
    assert!(stock.is_abandoned());
}

#[test]
fn a_target_that_has_ended_takes_nothing_more_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let (mut stock, mut inputs) =
        Stock::new(2, false, Bounds::default(), directory.path(), &Arc::default());
    let load: Vec<Planned> = Uneven::new(3, 100_000).collect();
    for planned in &load {
        stock.push(*planned);
    }
    let (mut slow, fast) = (inputs.pop().unwrap(), inputs.pop());
    drop(fast);
    stock.fill().unwrap();
    assert!(!stock.is_abandoned() && stock.backlogs.is_empty(usize::from(FAST)));
    for planned in &load {
        stock.push(*planned);
    }
    let mut took = 0;
    while !stock.end() {
        while let Feed::Request(planned) = slow.poll() {
            assert_eq!(planned.target, SLOW);
            took += 1;
        }
        stock.fill().unwrap();
    }
    while let Feed::Request(_) = slow.poll() {
        took += 1;
    }
    assert_eq!(took, 2 * load.iter().filter(|planned| planned.target == SLOW).count());
    assert!(stock.is_abandoned());
}

/// The stock and the input of one target whose requests may wait for others.
fn chained() -> (Stock, RingInput) {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut stock, mut inputs) = Stock::new(1, false, Bounds::default(), Path::new("."), &stop);
    stock.with_parents(&mut inputs, 16, false);
    (stock, inputs.pop().unwrap())
}

/// A request that waits for others.
fn waiting(seq: u64) -> Planned {
    let planned = Uneven::new(1, 1).next().unwrap();
    Planned { seq, target: FAST, think: Some(Nanos(1)), ..planned }
}

#[test]
fn a_request_is_given_once_its_parents_are_there() {
    let (mut stock, mut input) = chained();
    let open = Planned { think: None, ..waiting(0) };
    stock.push(open);
    stock.push(waiting(1));
    stock.push(Planned { seq: 2, ..open });
    assert_eq!(input.poll(), Feed::Request(open));
    assert!(input.parents().is_empty());
    assert_eq!(input.poll(), Feed::NotYet);
    stock.push_parents(&[waiting(1)], &[2, 7, 8]);
    assert_eq!(input.poll(), Feed::Request(waiting(1)));
    assert_eq!(input.parents(), [7, 8]);
    assert_eq!(input.poll(), Feed::Request(Planned { seq: 2, ..open }));
    assert!(input.parents().is_empty());
    assert!(stock.end());
    assert_eq!(input.poll(), Feed::Ended);
}

#[test]
fn parents_without_room_in_their_ring_come_when_there_is_room_again() {
    let (mut stock, mut input) = chained();
    let count = PARENTS_RING as u64 / 4;
    let parents: Vec<u64> = std::iter::once(count).chain(0..count).collect();
    for seq in 0..10 {
        stock.push(waiting(seq));
        stock.push_parents(&[waiting(seq)], &parents);
    }
    assert!(!stock.end(), "the last parents are not in the ring yet");
    for seq in 0..10 {
        while input.poll() != Feed::Request(waiting(seq)) {
            stock.fill().unwrap();
        }
        assert_eq!(input.parents(), &parents[1..]);
    }
    assert!(stock.end());
    assert_eq!(input.poll(), Feed::Ended);
}
