//! Planning a trace's request: when it is due, where it goes on the target, and whether the target
//! can take it at all.
//!
//! A trace is recorded on one device and replayed on another, of another size and another block
//! size. A request that does not fit is never changed silently: it is counted under the outcome
//! that says why.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use ioecho_trace::TimingMode;
use ioecho_trace::{Bytes, Flags, LateCause, Nanos, Op, Origin, Outcome, Request, VolumeId};
use serde::{Deserialize, Serialize};

use crate::device::Io;
pub use crate::device::TargetLimits;
use crate::map::{Map, Route};

/// How writes and other requests that change data are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Writes {
    /// They are issued.
    #[default]
    Issue,
    /// They are left out, and so are flushes.
    LeaveOut,
    /// Writes become reads of the same place; everything else that is no read is left out.
    AsReads,
}

impl Writes {
    /// Whether nothing on the target changes.
    pub const fn reads_only(self) -> bool {
        match self {
            Self::Issue => false,
            Self::LeaveOut | Self::AsReads => true,
        }
    }
}

/// How a request that is not aligned to its target's blocks is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alignment {
    /// It is not issued, and counted.
    #[default]
    Refuse,
    /// It is widened to the blocks that it touches, and counted.
    Round,
}

impl Alignment {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Refuse, Self::Round];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Round => "round",
        }
    }
}

/// How the trace's time becomes the replay's time, and which part of the trace is replayed.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The instant of the trace at which the replay starts; `None` is its first request.
    pub start: Option<Nanos>,
    /// The recorded instants pass this many times as fast. Of requests that wait for others they do
    /// not count.
    pub speedup: f64,
    /// Every request is issued this many times, while time stays: below 1 requests are left out
    /// evenly, above 1 they are repeated at other places of the target.
    pub iops_scale: f64,
    /// What decides when a request is issued.
    pub mode: TimingMode,
    /// How writes are treated.
    pub writes: Writes,
    /// How unaligned requests are treated.
    pub alignment: Alignment,
    /// Whether every write goes through volatile caches (FUA).
    pub sync_writes: bool,
}

impl Default for Timing {
    /// All of the trace, as it was recorded.
    fn default() -> Self {
        Self {
            start: None,
            speedup: 1.0,
            iops_scale: 1.0,
            mode: TimingMode::default(),
            writes: Writes::default(),
            alignment: Alignment::default(),
            sync_writes: false,
        }
    }
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
    /// The time between the completion of the last request that it waits for and the instant at
    /// which it is due; `None` if it waits for no other. Only then, or once they have completed,
    /// `scheduled` is when it is due, where the timing is by completions.
    pub think: Option<Nanos>,
    /// By how many requests it stands behind the one whose completion let it go; 0 until then, and
    /// if it waits for no other.
    pub behind: u32,
    /// The flow that it belongs to, counted from 1; 0 if the run has no flows.
    pub flow: u16,
    /// What kept its client, where clients of a load decide on one call after the other.
    pub held: Option<Held>,
}

// Requests are passed on by value, several times each. Copies up to this size are a few
// instructions, larger ones a call.
const _: () = assert!(size_of::<Planned>() <= 128);

/// What kept a client from asking for a request when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(Rust, packed)]
pub struct Held {
    /// Until when.
    pub until: Nanos,
    /// Why the request is late by so much.
    pub by: LateCause,
}

impl Planned {
    /// The request as a device is asked for it.
    pub fn io(&self, tag: u32) -> Io {
        let Self { op, flags, offset, length, seq, scheduled, .. } = *self;
        Io { tag, request: seq, scheduled, op, flags, offset, length }
    }

    /// The first byte behind the range.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0.saturating_add(self.length.0))
    }
}

/// What the planner saw, complete when the trace has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlanTotals {
    /// Requests that take part in the replay.
    pub planned: u64,
    /// Requests left out by a replay without writes, or by an `iops_scale` below 1.
    pub left_out: u64,
    /// Writes that became reads.
    pub substituted: u64,
    /// Requests that are repetitions of others.
    pub copies: u64,
    /// Requests that were widened to whole blocks.
    pub rounded: u64,
    /// Requests of volumes, or parts of volumes, that the map does not name.
    pub unmapped: u64,
    /// Requests that were wrapped because they lie beyond their place on the target.
    pub wrapped: u64,
    /// How many times the trace's extent goes round its place on the target, as in blkreplay
    /// ("wraparound factor"): the furthest end of any request, divided by the size of the place;
    /// the worst of all places, which is the one furthest from 1. Above 1, requests to different
    /// places overlap; far below 1, the trace uses only a small part of the target.
    pub wraparound: f64,
    /// When the last request is due, or would be if it waited for no other; zero where nothing has
    /// a time.
    pub last_scheduled: Nanos,
}

/// Most requests that are remembered as in flight in the recording.
const RECORDED_IN_FLIGHT_MAX: usize = 1 << 20;

/// Turns a trace's requests into planned ones, in order.
#[derive(Clone, Debug)]
pub struct Planner {
    limits: Vec<TargetLimits>,
    map: Map,
    timing: Timing,
    origin: Option<Nanos>,
    totals: PlanTotals,
    /// By route: the furthest end of any request, counted from the start of its part and scaled.
    extents: Vec<u64>,
    /// By target: when the requests in flight in the recording completed there.
    recorded: Vec<BinaryHeap<Reverse<i64>>>,
    /// The remainder of `iops_scale` from the requests so far.
    surplus: f64,
}

impl Planner {
    /// A planner for one target and a trace of one volume: whichever turns up first.
    pub fn new(limits: TargetLimits, timing: Timing) -> Self {
        Self::mapped(vec![limits], Map::spread(&[], &[limits]), timing)
    }

    /// A planner for several targets.
    pub fn mapped(limits: Vec<TargetLimits>, map: Map, timing: Timing) -> Self {
        let extents = vec![0; map.routes().len()];
        let recorded = vec![BinaryHeap::new(); limits.len()];
        let totals = PlanTotals::default();
        let origin = timing.start;
        Self { limits, map, timing, origin, totals, extents, recorded, surplus: 0.0 }
    }

    /// What was planned so far.
    pub fn totals(&self) -> PlanTotals {
        let factors = self.extents.iter().zip(self.map.routes()).filter(|(extent, _)| **extent > 0);
        let factors = factors.map(|(extent, route)| *extent as f64 / route.room.0.max(1) as f64);
        let distance = |factor: f64| factor.ln().abs();
        let worst = factors.max_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        PlanTotals { wraparound: worst.unwrap_or(0.0), ..self.totals }
    }

    /// Plans the next request; appends the result to `planned`: nothing, one request, or several.
    pub fn plan(&mut self, request: &Request, planned: &mut Vec<Planned>) {
        let mut request = *request;
        if request.op != Op::Read {
            match self.timing.writes {
                Writes::Issue => {}
                Writes::AsReads if request.op == Op::Write => {
                    request.op = Op::Read;
                    request.flags.remove(Flags::FUA | Flags::PREFLUSH);
                    self.totals.substituted += 1;
                }
                Writes::AsReads | Writes::LeaveOut => {
                    self.totals.left_out += 1;
                    return;
                }
            }
        }
        if self.timing.sync_writes && request.op == Op::Write {
            request.flags.insert(Flags::FUA);
        }
        if self.map.routes_of(request.volume).next().is_none()
            && self.map.adopt(request.volume).is_some()
        {
            self.extents.push(0);
        }
        self.surplus += self.timing.iops_scale;
        let times = self.surplus.floor();
        self.surplus -= times;
        if times < 1.0 {
            self.totals.left_out += 1;
        }
        for copy in 0..times as u64 {
            self.totals.copies += u64::from(copy > 0);
            if request.op == Op::Flush {
                // A flush has no place: it goes to every target that its volume lies on.
                let mut targets: Vec<u16> =
                    self.map.routes_of(request.volume).map(|(_, route)| route.target).collect();
                targets.sort_unstable();
                targets.dedup();
                self.totals.unmapped += u64::from(targets.is_empty());
                for target in targets {
                    let one = self.due(&request, target, Destination::default());
                    planned.push(one);
                }
            } else if let Some(route) = self.map.route(request.volume, request.offset) {
                let place = self.place(&request, route, copy);
                let target = self.map.routes()[route].target;
                let one = self.due(&request, target, place);
                planned.push(one);
            } else {
                self.totals.unmapped += 1;
            }
        }
    }

    /// The request with its time and its number.
    fn due(&mut self, request: &Request, target: u16, place: Destination) -> Planned {
        let origin = *self.origin.get_or_insert(request.issue);
        let scheduled = match self.timing.mode {
            TimingMode::Timed | TimingMode::Dependency => {
                request.issue.saturating_sub(origin).scaled_down(self.timing.speedup)
            }
            TimingMode::Afap | TimingMode::Load | TimingMode::Flows => Nanos::ZERO,
        };
        let seq = self.totals.planned;
        self.totals.planned += 1;
        self.totals.last_scheduled = self.totals.last_scheduled.max(scheduled);
        let supported = self.limits[usize::from(target)].supports[usize::from(request.op.code())];
        Planned {
            seq,
            scheduled,
            issue: request.issue,
            op: request.op,
            flags: request.flags,
            trace_offset: request.offset,
            offset: place.offset,
            length: place.length.unwrap_or(request.length),
            volume: request.volume,
            latency: request.latency,
            recorded_in_flight: self.recorded_in_flight(request, target),
            origin: request.origin,
            target,
            refusal: if supported { place.refusal } else { Some(Outcome::Unsupported) },
            think: None,
            behind: 0,
            flow: 0,
            held: None,
        }
    }

    /// Requests in flight in the recording just after this one was issued.
    fn recorded_in_flight(&mut self, request: &Request, target: u16) -> u32 {
        let Some(latency) = request.latency else { return 0 };
        let in_flight = &mut self.recorded[usize::from(target)];
        while in_flight.peek().is_some_and(|Reverse(done)| *done <= request.issue.0) {
            in_flight.pop();
        }
        if in_flight.len() < RECORDED_IN_FLIGHT_MAX {
            in_flight.push(Reverse(request.issue.0.saturating_add(latency.0)));
        }
        in_flight.len() as u32
    }

    /// Where the request falls on its target, and why it cannot be issued there.
    ///
    /// A request that does not fit at its own place is wrapped as blkreplay does it: its start is
    /// taken modulo the size of the place, its length stays; if it then still crosses the end, it
    /// is left out.
    fn place(&mut self, request: &Request, route: usize, copy: u64) -> Destination {
        let Route { from, target, base, room, scale, .. } = self.map.routes()[route];
        let TargetLimits { block_size, length_max, supports, .. } =
            self.limits[usize::from(target)];
        let block = block_size.0;
        let mut offset = request.offset.0 - from.0;
        if (scale - 1.0).abs() > f64::EPSILON {
            // Positions keep their alignment, as far as the target's blocks allow.
            offset = (offset as f64 * scale) as u64 / block * block + request.offset.0 % block;
        }
        let mut length = request.length.0;
        let misaligned =
            !offset.is_multiple_of(block) || !length.is_multiple_of(block) && length > 0;
        let round = misaligned && self.timing.alignment == Alignment::Round;
        if round {
            let end = offset.saturating_add(length);
            offset -= offset % block;
            length = end.checked_next_multiple_of(block).unwrap_or(end) - offset;
            self.totals.rounded += 1;
        }
        let end = offset.saturating_add(length);
        self.extents[route] = self.extents[route].max(end);
        if copy > 0 {
            // Copies lie apart from each other and from their original as far as they can.
            let times = self.timing.iops_scale.ceil() as u64;
            let stride = room.0 / times / block * block;
            offset = (offset % room.0 + copy * stride) % room.0;
            self.extents[route] = self.extents[route].max(offset.saturating_add(length));
        } else if end > room.0 {
            self.totals.wrapped += 1;
            offset %= room.0;
        }
        // Calls on names move nothing, and neither does a read at the end of a file.
        let is_of_files = supports[usize::from(Op::Open.code())];
        let refusal = if length == 0 && !is_of_files {
            Some(Outcome::Unsupported)
        } else if offset.checked_add(length).is_none_or(|end| end > room.0) {
            Some(Outcome::Border)
        } else if misaligned && !round {
            Some(Outcome::Misaligned)
        } else if length > length_max.0 && matches!(request.op, Op::Read | Op::Write) {
            Some(Outcome::TooLarge)
        } else {
            None
        };
        let offset = Bytes(base.0.saturating_add(offset));
        Destination { offset, length: Some(Bytes(length)), refusal }
    }
}

/// Where a request goes on its target.
#[derive(Clone, Copy, Debug, Default)]
struct Destination {
    offset: Bytes,
    /// `None` is as long as it was.
    length: Option<Bytes>,
    refusal: Option<Outcome>,
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
            supports: Op::ALL.map(|op| op.code() < Op::Zone.code()),
        };
        Planner::new(limits, timing)
    }

    fn plan_one(planner: &mut Planner, request: &Request) -> Option<Planned> {
        let mut planned = Vec::new();
        planner.plan(request, &mut planned);
        assert!(planned.len() <= 1);
        planned.pop()
    }

    fn read(issue: i64, offset: u64, length: u64) -> Request {
        Request::new(Nanos(issue), Op::Read, Bytes(offset), Bytes(length))
    }

    #[test]
    fn a_request_beyond_the_target_wraps_and_keeps_its_length() {
        let mut planner = planner(1 << 20, Timing::default());
        let planned = plan_one(&mut planner, &read(0, (1 << 20) + 4096, 8192)).unwrap();
        assert_eq!(
            (planned.offset, planned.length, planned.refusal),
            (Bytes(4096), Bytes(8192), None)
        );
        assert_eq!(planner.totals().wrapped, 1);
    }

    #[test]
    fn a_request_that_crosses_the_end_even_after_wrapping_is_refused() {
        let mut planner = planner(1 << 20, Timing::default());
        let planned = plan_one(&mut planner, &read(0, (2 << 20) - 512, 1024)).unwrap();
        assert_eq!(planned.refusal, Some(Outcome::Border));
    }

    #[test]
    fn a_request_that_ends_exactly_at_the_end_fits() {
        let mut planner = planner(1 << 20, Timing::default());
        let planned = plan_one(&mut planner, &read(0, (1 << 20) - 512, 512)).unwrap();
        assert_eq!((planned.offset, planned.refusal), (Bytes((1 << 20) - 512), None));
        assert_eq!(planner.totals().wrapped, 0);
    }

    #[test]
    fn time_starts_at_the_first_request_or_where_the_user_says_and_is_scaled() {
        let mut natural = planner(1 << 20, Timing::default());
        assert_eq!(plan_one(&mut natural, &read(500, 0, 512)).unwrap().scheduled, Nanos(0));
        assert_eq!(plan_one(&mut natural, &read(700, 0, 512)).unwrap().scheduled, Nanos(200));
        let timing = Timing { start: Some(Nanos(100)), speedup: 2.0, ..Timing::default() };
        let mut fast = planner(1 << 20, timing);
        assert_eq!(plan_one(&mut fast, &read(500, 0, 512)).unwrap().scheduled, Nanos(200));
    }

    #[test]
    fn a_read_only_replay_leaves_everything_else_out_and_counts_it() {
        let mut planner =
            planner(1 << 20, Timing { writes: Writes::LeaveOut, ..Timing::default() });
        let write = Request::new(Nanos(0), Op::Write, Bytes(0), Bytes(512));
        let flush = Request::new(Nanos(0), Op::Flush, Bytes(0), Bytes(0));
        assert!(plan_one(&mut planner, &write).is_none());
        assert!(plan_one(&mut planner, &flush).is_none());
        assert_eq!(plan_one(&mut planner, &read(1, 0, 512)).unwrap().seq, 0);
        assert_eq!(planner.totals().left_out, 2);
    }

    fn plan_all(planner: &mut Planner, requests: &[Request]) -> Vec<Planned> {
        let mut planned = Vec::new();
        for request in requests {
            planner.plan(request, &mut planned);
        }
        planned
    }

    #[test]
    fn writes_become_reads_of_the_same_place_and_nothing_else_takes_part() {
        let timing = Timing { writes: Writes::AsReads, ..Timing::default() };
        let mut planner = planner(1 << 20, timing);
        let request = |op| Request::new(Nanos(0), op, Bytes(4096), Bytes(512));
        let requests = [Op::Write, Op::Read, Op::Discard].map(request);
        let planned = plan_all(&mut planner, &requests);
        assert_eq!(
            planned.iter().map(|p| (p.op, p.offset)).collect::<Vec<_>>(),
            [(Op::Read, Bytes(4096)), (Op::Read, Bytes(4096)),]
        );
        assert_eq!((planner.totals().substituted, planner.totals().left_out), (1, 1));
    }

    #[test]
    fn a_higher_rate_repeats_requests_at_other_places_and_a_lower_one_thins_them_evenly() {
        let reads: Vec<Request> = (0..8).map(|n| read(n * 100, 0, 512)).collect();
        let mut more = planner(1 << 20, Timing { iops_scale: 2.5, ..Timing::default() });
        let planned = plan_all(&mut more, &reads);
        assert_eq!((planned.len(), more.totals().copies), (20, 12));
        assert!(planned.is_sorted_by_key(|p| (p.scheduled, p.seq)));
        let first: Vec<u64> =
            planned.iter().filter(|p| p.scheduled == Nanos(100)).map(|p| p.offset.0).collect();
        let third = (1 << 20) / 3 / 512 * 512;
        assert_eq!(first, [0, third, 2 * third]);

        let mut fewer = planner(1 << 20, Timing { iops_scale: 0.25, ..Timing::default() });
        let kept: Vec<i64> = plan_all(&mut fewer, &reads).iter().map(|p| p.scheduled.0).collect();
        assert_eq!((kept, fewer.totals().left_out), (vec![0, 400], 6));
    }

    #[test]
    fn what_was_in_flight_in_the_recording_is_counted_from_its_latencies() {
        let request = |issue, latency: Option<i64>| Request {
            latency: latency.map(Nanos),
            ..read(issue, 0, 512)
        };
        let requests = [
            request(0, Some(100)),
            request(50, Some(100)),
            request(100, Some(10)),
            request(200, Some(10)),
            request(205, None),
        ];
        let planned = plan_all(&mut planner(1 << 20, Timing::default()), &requests);
        let in_flight: Vec<u32> = planned.iter().map(|p| p.recorded_in_flight).collect();
        assert_eq!(in_flight, [1, 2, 2, 1, 0]);
    }

    #[test]
    fn rounding_widens_a_request_to_the_blocks_that_it_touches() {
        let mut planner =
            planner(1 << 20, Timing { alignment: Alignment::Round, ..Timing::default() });
        let planned = plan_one(&mut planner, &read(0, 700, 400)).unwrap();
        assert_eq!((planned.offset, planned.length), (Bytes(512), Bytes(1024)));
        assert_eq!((planned.refusal, planned.trace_offset), (None, Bytes(700)));
        assert_eq!(planner.totals().rounded, 1);
    }

    #[test]
    fn a_flush_goes_to_every_target_of_its_volume_and_an_unmapped_request_nowhere() {
        let specs = ["0=1,length=1M", "0=2,from=1M"].map(|line| line.parse().unwrap());
        let volumes = [1, 0].map(|id| ioecho_trace::header::Volume {
            id: VolumeId(id),
            name: String::new(),
            size: None,
        });
        let limits = TargetLimits {
            capacity: Bytes(1 << 20),
            block_size: Bytes(512),
            length_max: Bytes(1 << 20),
            supports: Op::ALL.map(|_| true),
        };
        let named = ["a", "b"].map(|name| (name.to_owned(), limits));
        let map = Map::resolve(&specs, &volumes, &named).unwrap();
        let mut planner = Planner::mapped(vec![limits; 2], map, Timing::default());
        let flush = Request::new(Nanos(0), Op::Flush, Bytes(0), Bytes(0));
        let elsewhere = Request { volume: VolumeId(1), ..read(0, 0, 512) };
        let planned = plan_all(&mut planner, &[flush, read(0, (1 << 20) + 512, 512), elsewhere]);
        let placed: Vec<_> = planned.iter().map(|p| (p.op, p.target, p.offset)).collect();
        assert_eq!(
            placed,
            [(Op::Flush, 0, Bytes(0)), (Op::Flush, 1, Bytes(0)), (Op::Read, 1, Bytes(512)),]
        );
        assert_eq!(planner.totals().unmapped, 1);
    }

    proptest! {
        #[test]
        fn what_is_not_refused_lies_inside_the_target_and_is_aligned(
            capacity in 1_u64..1 << 12, offset in any::<u64>(), length in any::<u64>(),
        ) {
            let capacity = capacity * 512;
            let mut planner = planner(capacity, Timing::default());
            let planned = plan_one(&mut planner, &read(0, offset, length)).unwrap();
            if planned.refusal.is_none() {
                prop_assert!(planned.offset.0 + planned.length.0 <= capacity);
                prop_assert!((planned.offset.0 | planned.length.0).is_multiple_of(512));
                prop_assert!(planned.length.0 > 0);
            }
        }
    }
}
