//! What becomes of a trace's request before it may be issued: when it is due, where it falls on the
//! target, and whether the target can take it at all.
//!
//! A trace is recorded on one device and replayed on another, of another size and another block
//! size. What does not fit is never bent silently: it is counted under the outcome that says why.

use ioecho_trace::{Bytes, Flags, Nanos, Op, Origin, Outcome, Request, VolumeId};

/// What the planner must know of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetLimits {
    /// How many bytes it holds.
    pub capacity: Bytes,
    /// Offsets and lengths must be multiples of this.
    pub block_size: Bytes,
    /// The largest request that can be issued to it.
    pub length_max: Bytes,
    /// The operations it can do, indexed by the operation's code.
    pub supports: [bool; Op::ALL.len()],
}

/// How the trace's time becomes the replay's time, and which requests take part.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The instant of the trace at which the replay starts; `None` is its first request.
    pub start: Option<Nanos>,
    /// The replay runs this many times as fast as the recording.
    pub speedup: f64,
    /// Only reads take part.
    pub read_only: bool,
}

/// A request that is due at an instant of the replay, with everything that its result will say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its number in the replay, counted from 0 without gaps.
    pub seq: u64,
    /// When it is due, counted from the start of the replay.
    pub scheduled: Nanos,
    /// When it was issued in the trace.
    pub issue: Nanos,
    /// What to do.
    pub op: Op,
    /// How it was marked.
    pub flags: Flags,
    /// Where in the trace.
    pub trace_offset: Bytes,
    /// Where on the target, already wrapped.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
    /// The trace's volume.
    pub volume: VolumeId,
    /// The recorded latency.
    pub latency: Option<Nanos>,
    /// Requests that were in flight in the trace just after this one was issued, itself included;
    /// 0 where the trace does not tell.
    pub recorded_in_flight: u32,
    /// Who issued it in the trace.
    pub origin: Option<Origin>,
    /// Which of the run's targets it goes to.
    pub target: u16,
    /// Why it cannot be issued, if it cannot.
    pub refusal: Option<Outcome>,
}

impl Planned {
    /// The first byte behind the range.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0.saturating_add(self.length.0))
    }
}

/// What the planner saw, complete when the trace has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanTotals {
    /// Requests that take part in the replay.
    pub planned: u64,
    /// Writes and the like that `--read-only` left out.
    pub left_out: u64,
    /// Requests that were wrapped because they lie beyond the target.
    pub wrapped: u64,
    /// The furthest end of any request before wrapping: what the target would have to hold.
    pub extent: Bytes,
    /// When the last request is due.
    pub last_scheduled: Nanos,
}

impl PlanTotals {
    /// How many times the trace's extent goes round the target, as in blkreplay ("wraparound
    /// factor"): the furthest end of any request, divided by the capacity. Above 1 requests that
    /// lay apart fall onto each other; far below 1 the trace uses only a corner of the target.
    pub fn wraparound_factor(&self, capacity: Bytes) -> f64 {
        self.extent.0 as f64 / capacity.0.max(1) as f64
    }
}

/// Turns a trace's requests into planned ones, in order.
#[derive(Clone, Debug)]
pub struct Planner {
    limits: TargetLimits,
    timing: Timing,
    origin: Option<Nanos>,
    totals: PlanTotals,
}

impl Planner {
    /// A planner for one target.
    pub fn new(limits: TargetLimits, timing: Timing) -> Self {
        Self { limits, timing, origin: timing.start, totals: PlanTotals::default() }
    }

    /// What was planned so far.
    pub fn totals(&self) -> PlanTotals {
        self.totals
    }

    /// Plans the next request; `None` if it takes no part.
    pub fn plan(&mut self, request: &Request) -> Option<Planned> {
        if self.timing.read_only && request.op != Op::Read {
            self.totals.left_out += 1;
            return None;
        }
        let origin = *self.origin.get_or_insert(request.issue);
        let scheduled = request.issue.saturating_sub(origin).scaled_down(self.timing.speedup);
        let (offset, refusal) = self.place(request);
        let seq = self.totals.planned;
        self.totals.planned += 1;
        self.totals.last_scheduled = self.totals.last_scheduled.max(scheduled);
        Some(Planned {
            seq,
            scheduled,
            issue: request.issue,
            op: request.op,
            flags: request.flags,
            trace_offset: request.offset,
            offset,
            length: request.length,
            volume: request.volume,
            latency: request.latency,
            recorded_in_flight: 0,
            origin: request.origin,
            target: 0,
            refusal,
        })
    }

    /// Where the request falls on the target, and why it cannot be issued there.
    ///
    /// A request that does not fit at its own place is wrapped as blkreplay does it: its start is
    /// taken modulo the capacity, its length stays; if it then still crosses the end, it is left
    /// out.
    fn place(&mut self, request: &Request) -> (Bytes, Option<Outcome>) {
        let TargetLimits { capacity, block_size, length_max, supports } = self.limits;
        if !supports[usize::from(request.op.code())] {
            return (request.offset, Some(Outcome::Unsupported));
        }
        if request.op == Op::Flush {
            return (Bytes::ZERO, None);
        }
        self.totals.extent = self.totals.extent.max(request.end());
        let mut offset = request.offset;
        if request.end() > capacity {
            self.totals.wrapped += 1;
            offset = Bytes(offset.0 % capacity.0);
        }
        let refusal = if request.length == Bytes::ZERO {
            Some(Outcome::Unsupported)
        } else if offset.0.checked_add(request.length.0).is_none_or(|end| end > capacity.0) {
            Some(Outcome::Border)
        } else if !offset.0.is_multiple_of(block_size.0)
            || !request.length.0.is_multiple_of(block_size.0)
        {
            Some(Outcome::Misaligned)
        } else if request.length > length_max && matches!(request.op, Op::Read | Op::Write) {
            Some(Outcome::TooLarge)
        } else {
            None
        };
        (offset, refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn planner(capacity: u64, timing: Timing) -> Planner {
        let limits = TargetLimits {
            capacity: Bytes(capacity),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: [true, true, true, true, true, false],
        };
        Planner::new(limits, timing)
    }

    const NATURAL: Timing = Timing { start: None, speedup: 1.0, read_only: false };

    fn read(issue: i64, offset: u64, length: u64) -> Request {
        Request::new(Nanos(issue), Op::Read, Bytes(offset), Bytes(length))
    }

    #[test]
    fn a_request_beyond_the_target_wraps_and_keeps_its_length() {
        let mut planner = planner(1 << 20, NATURAL);
        let planned = planner.plan(&read(0, (1 << 20) + 4096, 8192)).unwrap();
        assert_eq!(
            (planned.offset, planned.length, planned.refusal),
            (Bytes(4096), Bytes(8192), None)
        );
        assert_eq!(planner.totals().wrapped, 1);
    }

    #[test]
    fn a_request_that_crosses_the_end_even_after_wrapping_is_refused() {
        let mut planner = planner(1 << 20, NATURAL);
        let planned = planner.plan(&read(0, (2 << 20) - 512, 1024)).unwrap();
        assert_eq!(planned.refusal, Some(Outcome::Border));
    }

    #[test]
    fn a_request_that_ends_exactly_at_the_end_fits() {
        let mut planner = planner(1 << 20, NATURAL);
        let planned = planner.plan(&read(0, (1 << 20) - 512, 512)).unwrap();
        assert_eq!((planned.offset, planned.refusal), (Bytes((1 << 20) - 512), None));
        assert_eq!(planner.totals().wrapped, 0);
    }

    #[test]
    fn time_starts_at_the_first_request_or_where_the_user_says_and_is_scaled() {
        let mut natural = planner(1 << 20, NATURAL);
        assert_eq!(natural.plan(&read(500, 0, 512)).unwrap().scheduled, Nanos(0));
        assert_eq!(natural.plan(&read(700, 0, 512)).unwrap().scheduled, Nanos(200));
        let timing = Timing { start: Some(Nanos(100)), speedup: 2.0, read_only: false };
        let mut fast = planner(1 << 20, timing);
        assert_eq!(fast.plan(&read(500, 0, 512)).unwrap().scheduled, Nanos(200));
    }

    #[test]
    fn a_read_only_replay_leaves_everything_else_out_and_counts_it() {
        let mut planner = planner(1 << 20, Timing { read_only: true, ..NATURAL });
        let write = Request::new(Nanos(0), Op::Write, Bytes(0), Bytes(512));
        let flush = Request::new(Nanos(0), Op::Flush, Bytes(0), Bytes(0));
        assert!(planner.plan(&write).is_none());
        assert!(planner.plan(&flush).is_none());
        assert_eq!(planner.plan(&read(1, 0, 512)).unwrap().seq, 0);
        assert_eq!(planner.totals().left_out, 2);
    }

    proptest! {
        #[test]
        fn what_is_not_refused_lies_inside_the_target_and_is_aligned(
            capacity in 1_u64..1 << 12, offset in any::<u64>(), length in any::<u64>(),
        ) {
            let capacity = capacity * 512;
            let mut planner = planner(capacity, NATURAL);
            let planned = planner.plan(&read(0, offset, length)).unwrap();
            if planned.refusal.is_none() {
                prop_assert!(planned.offset.0 + planned.length.0 <= capacity);
                prop_assert!((planned.offset.0 | planned.length.0).is_multiple_of(512));
                prop_assert!(planned.length.0 > 0);
            }
        }
    }
}
