//! The engine's own activity, as time series.
//!
//! The records of a run show which requests were late and why, but not how near the engine was to
//! being late otherwise. blkreplay has *verbosity graphics* for that (manual, appendix C.2): lines
//! on standard output at every action, which disturb the measurement. Here plain counters are kept
//! and handed over once per interval: telemetry adds no clock reading, lock or allocation to any
//! request.

use ioecho_trace::Nanos;
use ioecho_trace::log_linear;

/// Bins of a [`Spans`]: 2^2 to each power of two.
const BITS: u32 = 2;

/// How many bins that makes, so that every span has one.
const BINS: usize = log_linear::bins::<BITS>();

/// How often the levels are looked at, at most.
const LOOK_EVERY: Nanos = Nanos::from_millis(1);

/// The shortest interval.
pub const SHORTEST: Nanos = Nanos::from_millis(1);

/// How long something took: counts in bins, and what they add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// How many there were.
    pub count: u64,
    /// Their sum, ns.
    pub sum: u64,
    /// The longest, ns.
    pub max: u64,
    /// How many lie in each bin ([`Spans::filled`]).
    pub bins: [u32; BINS],
}

impl Default for Spans {
    fn default() -> Self {
        Self { count: 0, sum: 0, max: 0, bins: [0; BINS] }
    }
}

impl Spans {
    /// Counts one; a negative span counts as zero.
    pub fn add(&mut self, span: Nanos) {
        let ns = span.0.max(0).unsigned_abs();
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
        let count = &mut self.bins[log_linear::bin::<BITS>(ns)];
        *count = count.saturating_add(1);
    }

    /// The bins that are not empty: where each begins, ns, and how many lie in it. A bin is at most
    /// a quarter wide of what it begins with.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bin, count)| (log_linear::least::<BITS>(bin), u64::from(*count)))
    }
}

/// A number that goes up and down, looked at once in a millisecond at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// How often it was sampled; if zero, the other fields are meaningless.
    pub looks: u64,
    /// The lowest.
    pub min: u64,
    /// The highest.
    pub max: u64,
    /// The sum of all, for their mean.
    pub sum: u64,
}

impl Level {
    /// Takes a look.
    pub fn add(&mut self, value: u64) {
        self.min = if self.looks == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.looks += 1;
    }
}

/// What the issuing thread does with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doing {
    /// It prepares requests and hands them over, or was kept away while it did.
    Issuing,
    /// It waits until the next request is due: as it should.
    #[default]
    Awaiting,
    /// Everything that is due is blocked, and it waits for a completion (blkreplay's
    /// `answer_wait`).
    Blocked,
    /// There is no input (blkreplay's `input_wait`).
    Starved,
}

/// The levels of a moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) look_ahead: u64,
    pub(super) input: Option<u64>,
    pub(super) results: Option<u64>,
    pub(super) waiting: u64,
    pub(super) in_flight: u64,
    pub(super) ahead: Option<Nanos>,
}

/// What the engine did in an interval. What happens counts in the interval in which the engine
/// notices it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// When it began, counted from the replay's time zero.
    pub start: Nanos,
    /// When it ended. Where the engine was away for longer than an interval, that is one interval.
    pub end: Nanos,
    /// How often the scheduler was asked.
    pub steps: u64,
    /// Where the time went, by [`Doing`].
    pub spent: [Nanos; 4],
    /// How often the look-ahead ran empty when something was due.
    pub input_stalls: u64,
    /// Planned requests that the scheduler holds before they are due.
    pub look_ahead: Level,
    /// Planned requests that wait to be taken by it, where the input tells.
    pub input: Level,
    /// Results that wait to be written, if the recorder knows.
    pub results: Level,
    /// Requests that are due and wait for others that they overlap (blkreplay's `pushback_level`).
    pub waiting: Level,
    /// Requests in flight.
    pub in_flight: Level,
    /// How far beyond the present the scheduler's look-ahead reaches, ns (blkreplay's
    /// `submit_ahead`).
    pub ahead: Level,
    /// From the instant at which a request was due to the system call that handed it over, whatever
    /// held it up.
    pub delay: Spans,
    /// From the decision to issue a request to that system call: what its payload took.
    pub preparation: Spans,
    /// How long the system calls took that handed requests over.
    pub submission: Spans,
    /// How long completions were unseen: exact if the device reports when it completed them,
    /// otherwise an upper bound (the time since the engine last checked).
    pub unseen: Spans,
    /// Completions that woke the engine; how long that took is not known here.
    pub woken: u64,
    /// Earlier intervals that were lost for lack of room.
    pub missing: u64,
}

/// Gathers the telemetry of the current interval.
#[derive(Debug)]
pub(super) struct Gauges {
    every: Nanos,
    pub(super) open: Telemetry,
    passed: Nanos,
    next_look: Nanos,
    looked_at: Nanos,
}

impl Gauges {
    pub(super) fn new(every: Nanos) -> Self {
        Self {
            every: every.max(SHORTEST),
            open: Telemetry::default(),
            passed: Nanos::ZERO,
            next_look: Nanos::ZERO,
            looked_at: Nanos::ZERO,
        }
    }

    /// Whether it is time to look at the levels.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next_look
    }

    /// Takes the levels of this moment.
    pub(super) fn look(&mut self, now: Nanos, levels: &Levels) {
        self.next_look = now.saturating_add(LOOK_EVERY);
        let open = &mut self.open;
        open.look_ahead.add(levels.look_ahead);
        open.waiting.add(levels.waiting);
        open.in_flight.add(levels.in_flight);
        let told = [
            (&mut open.input, levels.input),
            (&mut open.results, levels.results),
            (&mut open.ahead, levels.ahead.map(|ahead| ahead.0.max(0).unsigned_abs())),
        ];
        for (level, value) in told {
            if let Some(value) = value {
                level.add(value);
            }
        }
    }

    /// Time has gone on to `now`, spent on `doing`; hands over what has ended meanwhile.
    pub(super) fn pass(&mut self, now: Nanos, doing: Doing, done: &mut dyn FnMut(&Telemetry)) {
        if now <= self.passed {
            return;
        }
        let mut end = self.open.start.saturating_add(self.every);
        if now >= end {
            self.spend(end, doing);
            self.close(end, done);
            // Whole intervals of absence are joined into one.
            let absent = (now - end).0 / self.every.0;
            if absent > 0 {
                end = end.saturating_add(Nanos(absent.saturating_mul(self.every.0)));
                self.spend(end, doing);
                self.close(end, done);
            }
        }
        self.spend(now, doing);
    }

    /// The replay has ended: hands over what is open.
    pub(super) fn finish(&mut self, now: Nanos, done: &mut dyn FnMut(&Telemetry)) {
        self.pass(now, Doing::Awaiting, done);
        if now > self.open.start || self.open.delay.count > 0 {
            self.close(now.max(self.open.start), done);
        }
    }

    /// The scheduler was asked at `now`, behind a look at the device at that instant or later.
    pub(super) fn stepped(&mut self, now: Nanos) {
        self.open.steps += 1;
        self.looked_at = now;
    }

    /// A completion was found at `now` or later without waiting for it; the device says `completed`
    /// of it, which is when it was seen if it knows no better.
    pub(super) fn found(&mut self, completed: Nanos, now: Nanos) {
        let lag = if completed < now { now - completed } else { completed - self.looked_at };
        self.open.unseen.add(lag);
    }

    fn spend(&mut self, until: Nanos, doing: Doing) {
        let spent = &mut self.open.spent[doing as usize];
        *spent = spent.saturating_add(until - self.passed);
        self.passed = until;
    }

    fn close(&mut self, end: Nanos, done: &mut dyn FnMut(&Telemetry)) {
        self.open.end = end;
        done(&self.open);
        self.open = Telemetry { start: end, ..Telemetry::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_any_size_are_counted_and_none_is_negative() {
        let mut spans = Spans::default();
        for ns in [-5, 0, 7, i64::MAX] {
            spans.add(Nanos(ns));
        }
        assert_eq!((spans.count, spans.max), (4, i64::MAX as u64));
        let filled: Vec<_> = spans.filled().collect();
        assert_eq!(filled, [(0, 2), (7, 1), (7 << 60, 1)]);
    }

    #[test]
    fn time_is_cut_at_the_ends_of_intervals_and_none_gets_lost() {
        let mut gauges = Gauges::new(Nanos(2_000_000));
        let mut closed: Vec<Telemetry> = Vec::new();
        let mut done = |telemetry: &Telemetry| closed.push(*telemetry);
        gauges.pass(Nanos(-7), Doing::Awaiting, &mut done);
        gauges.pass(Nanos(1_500_000), Doing::Awaiting, &mut done);
        gauges.pass(Nanos(2_500_000), Doing::Issuing, &mut done);
        // Away for two whole intervals and a part of a third.
        gauges.pass(Nanos(9_000_000), Doing::Blocked, &mut done);
        gauges.finish(Nanos(9_100_000), &mut done);
        let bounds: Vec<_> = closed.iter().map(|one| (one.start.0, one.end.0)).collect();
        let expected = [(0, 2), (2, 4), (4, 8)].map(|(a, b)| (a * 1_000_000, b * 1_000_000));
        assert_eq!(bounds[..3], expected);
        assert_eq!(bounds[3], (8_000_000, 9_100_000));
        for one in &closed {
            let spent: i64 = one.spent.iter().map(|span| span.0).sum();
            assert_eq!(spent, (one.end - one.start).0);
        }
        assert_eq!(closed[0].spent[Doing::Issuing as usize], Nanos(500_000));
    }

    #[test]
    fn a_level_keeps_its_extremes_and_its_sum() {
        let mut level = Level::default();
        for value in [4, 9, 2] {
            level.add(value);
        }
        assert_eq!(level, Level { looks: 3, min: 2, max: 9, sum: 15 });
    }
}
