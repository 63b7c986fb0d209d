//! The flows of a lane as the input of its engine.
//!
//! Generated loads are made here, a few requests at a time, when the scheduler asks for them: no
//! thread has to be woken, and nothing is made that is not issued soon. Reading a file may take
//! long, so such flows come through a ring from a thread of their own (`reader`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use ioecho_replay::Record;
use ioecho_replay::engine::{Feed, Input};
use ioecho_replay::plan::{PlanTotals, Planned, Planner};
use ioecho_replay::tree::{Call, Clients, Next};
use ioecho_trace::{
    Batch, Bytes, Flags, LateCause, Nanos, Op, Origin, Source, TraceError, VolumeId,
};
use rtrb::Consumer;

use super::{Flow, FlowEnds};

/// The inputs of a lane's flows, in the lane's order.
pub(crate) struct FlowsInput {
    streams: Vec<Stream>,
    /// In simulated time the readers' real time must not count, so the engine waits for them.
    pub(crate) blocking: bool,
    /// What is due from here on takes no part in the run.
    until: Nanos,
    /// Whether requests are only counted from here on.
    is_cut: bool,
    stop: Arc<AtomicBool>,
}

/// A flow's requests.
pub(super) struct Stream {
    /// The number of the flow in the run.
    pub(super) number: u16,
    pub(super) from: Supply,
    pub(super) left: Arc<Left>,
    /// Requests that were given.
    pub(super) given: u64,
    /// When the last of them is due.
    pub(super) last_scheduled: Nanos,
    /// The first of a generated load, made once more beforehand.
    pub(super) first: Vec<Planned>,
}

/// Where they come from.
pub(super) enum Supply {
    /// The load is generated here.
    Here(Box<Generating>),
    /// A thread reads it.
    Reader(Consumer<Planned>),
    /// Threads work on a tree of files.
    Files(Box<Clients>, Place),
}

/// A generated load and its planner.
pub(super) struct Generating {
    source: Box<dyn Source>,
    planner: Planner,
    batch: Batch,
    row: usize,
    /// What the last row was planned to, and how much of it was given.
    planned: Vec<Planned>,
    next: usize,
    place: Place,
    error: Option<TraceError>,
}

/// Where the requests of a flow belong in the run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The first target of its lane.
    pub(super) target: u16,
    pub(super) first_volume: u32,
    /// Where each of its targets begins in its lane.
    pub(super) bases: Box<[Bytes]>,
}

impl Place {
    /// A request with the numbers of the run, at its place in the lane.
    pub(super) fn put(&self, planned: Planned) -> Planned {
        let mut planned = planned;
        planned.offset = planned.offset + self.bases[usize::from(planned.target)];
        planned.target = self.target;
        planned.volume.0 += self.first_volume;
        planned
    }
}

impl Generating {
    pub(super) fn new(source: Box<dyn Source>, planner: Planner, place: Place) -> Self {
        let batch = Batch::new(source.header().columns);
        let planned = Vec::with_capacity(4);
        Self { source, planner, batch, row: 0, planned, next: 0, place, error: None }
    }

    /// So many of the first requests.
    pub(super) fn first(mut self, count: usize) -> Vec<Planned> {
        (0..count).map_while(|_| self.next()).collect()
    }

    fn next(&mut self) -> Option<Planned> {
        loop {
            if let Some(planned) = self.planned.get(self.next) {
                self.next += 1;
                return Some(self.place.put(*planned));
            }
            (self.next, self.row) = (0, self.row + 1);
            self.planned.clear();
            if self.row >= self.batch.len() {
                self.row = 0;
                match self.source.next_batch(&mut self.batch) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(error) => {
                        self.error = Some(error);
                        return None;
                    }
                }
            }
            self.planner.plan(&self.batch.get(self.row), &mut self.planned);
        }
    }
}

/// What is left until one of the ends of a flow, or of flows that end together. Those of different
/// lanes count from different threads: each may go one request too far.
#[derive(Debug)]
pub(super) struct Left {
    requests: AtomicU64,
    data: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Left {
    pub(super) fn new(ends: FlowEnds) -> Arc<Self> {
        let bytes = |end: Option<Bytes>| AtomicU64::new(end.map_or(u64::MAX, |end| end.0));
        Arc::new(Self {
            requests: AtomicU64::new(ends.requests.unwrap_or(u64::MAX)),
            data: bytes(ends.data),
            read: bytes(ends.read),
            written: bytes(ends.written),
        })
    }

    fn is_over(&self) -> bool {
        let all = [&self.requests, &self.data, &self.read, &self.written];
        all.into_iter().any(|left| left.load(Relaxed) == 0)
    }

    fn count(&self, planned: &Planned) {
        // Without an end there is nothing to count.
        let count = |left: &AtomicU64, by: u64| {
            let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(by));
            let _ = left.fetch_update(Relaxed, Relaxed, less);
        };
        let bytes = planned.length.0;
        count(&self.requests, 1);
        match planned.op {
            Op::Read => count(&self.read, bytes),
            Op::Write => count(&self.written, bytes),
            _ => return,
        }
        count(&self.data, bytes);
    }
}

/// What the flows of a lane have come to.
#[derive(Debug, Default)]
pub(crate) struct FlowsEnd {
    pub(crate) totals: PlanTotals,
    /// The error of a generated load. Those of files are the readers'.
    pub(crate) error: Option<TraceError>,
}

impl FlowsInput {
    pub(super) fn new(streams: Vec<Stream>, until: Nanos, stop: Arc<AtomicBool>) -> Self {
        Self { streams, blocking: false, until, is_cut: false, stop }
    }

    /// The input of a lane on trees: each flow with its number and its threads there.
    pub(crate) fn of_files(
        flows: Vec<(Flow, u16, Clients)>,
        until: Nanos,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let stream = |(flow, number, clients): (Flow, u16, Clients)| Stream {
            number,
            from: Supply::Files(Box::new(clients), flow.place_of_tree()),
            left: Left::new(flow.ends()),
            given: 0,
            last_scheduled: Nanos::ZERO,
            first: Vec::new(),
        };
        Self::new(flows.into_iter().map(stream).collect(), until, Arc::clone(stop))
    }

    /// The totals of what was given, and of what happened to it in planning where it was generated
    /// here.
    pub(crate) fn end(self) -> FlowsEnd {
        let mut end = FlowsEnd::default();
        for stream in self.streams {
            let Stream { from, given, last_scheduled, .. } = stream;
            let mut totals = PlanTotals { last_scheduled, planned: given, ..PlanTotals::default() };
            if let Supply::Here(generating) = from {
                totals =
                    PlanTotals { last_scheduled, planned: given, ..generating.planner.totals() };
                end.error = end.error.or(generating.error);
            }
            add(&mut end.totals, &totals);
        }
        end
    }

    /// Shows the first requests of generated loads, once.
    pub(crate) fn look_ahead(&mut self, look: impl FnOnce(&[Planned])) {
        let first: Vec<Planned> =
            self.streams.iter_mut().flat_map(|stream| std::mem::take(&mut stream.first)).collect();
        look(&first);
    }

    /// Passes all requests of all flows to `see`, one of each flow in turn, so that flows which end
    /// together have a part each.
    pub(crate) fn drain(mut self, see: &mut dyn FnMut(&Planned)) -> FlowsEnd {
        self.blocking = true;
        let mut flows: Vec<usize> = (0..self.streams.len()).collect();
        while !flows.is_empty() {
            flows.retain(|flow| {
                match self.poll_flow(*flow, Nanos::ZERO) {
                    Feed::Request(planned) | Feed::Found(planned) => see(&planned),
                    Feed::NotYet | Feed::Ended => return false,
                }
                true
            });
        }
        self.end()
    }
}

/// Adds the totals of one flow to those of others.
pub(crate) fn add(all: &mut PlanTotals, one: &PlanTotals) {
    let distance = |factor: f64| if factor > 0.0 { factor.ln().abs() } else { -1.0 };
    let PlanTotals { planned, left_out, substituted, copies, rounded, unmapped, wrapped, .. } =
        *one;
    all.planned += planned;
    all.left_out += left_out;
    all.substituted += substituted;
    all.copies += copies;
    all.rounded += rounded;
    all.unmapped += unmapped;
    all.wrapped += wrapped;
    if distance(one.wraparound) > distance(all.wraparound) {
        all.wraparound = one.wraparound;
    }
    all.last_scheduled = all.last_scheduled.max(one.last_scheduled);
}

impl Input for FlowsInput {
    /// The engine asks each flow.
    fn poll(&mut self) -> Feed {
        Feed::Ended
    }

    fn poll_flow(&mut self, flow: usize, now: Nanos) -> Feed {
        let stream = &mut self.streams[flow];
        if stream.left.is_over() {
            return Feed::Ended;
        }
        let mut is_found = false;
        let next = match &mut stream.from {
            Supply::Here(generating) => generating.next(),
            // Nobody has its requests any more, which were due all the same.
            Supply::Files(clients, place) if self.is_cut => {
                clients.rest().map(|due| place.put(planned(&Call::counted(due), stream.number)))
            }
            Supply::Files(clients, place) => match clients.poll(now) {
                Next::Call(call) => {
                    is_found = call.due.is_none();
                    Some(place.put(planned(&call, stream.number)))
                }
                Next::NotYet => return Feed::NotYet,
                Next::Ended => None,
            },
            Supply::Reader(ring) => loop {
                let abandoned = ring.is_abandoned();
                match ring.pop() {
                    Ok(planned) => break Some(planned),
                    Err(_) if abandoned => break None,
                    Err(_) if self.blocking && !self.stop.load(Relaxed) => thread::yield_now(),
                    Err(_) => return Feed::NotYet,
                }
            },
        };
        let Some(planned) = next else { return Feed::Ended };
        stream.left.count(&planned);
        stream.given += 1;
        if planned.scheduled < self.until {
            stream.last_scheduled = stream.last_scheduled.max(planned.scheduled);
        }
        if is_found { Feed::Found(planned) } else { Feed::Request(planned) }
    }

    fn completed(&mut self, record: &Record) -> bool {
        let Record { planned, measured } = record;
        let its = |stream: &&mut Stream| stream.number == planned.flow;
        let Some(stream) = self.streams.iter_mut().find(its) else { return false };
        let (Supply::Files(clients, _), Some(thread)) = (&mut stream.from, planned.origin) else {
            return false;
        };
        let at = measured.completed.unwrap_or(planned.scheduled);
        clients.completed(thread.pid, measured.outcome, measured.submitted.unwrap_or(at), at);
        true
    }

    fn cut_off(&mut self) {
        self.is_cut = true;
    }

    fn late_cause(&self) -> LateCause {
        // Those that wait for files are asked before those that have a call, and these before
        // those that nothing keeps.
        let rank = |cause: &LateCause| match cause {
            LateCause::File => 0,
            LateCause::InFlightCap => 1,
            _ => 2,
        };
        let of_files = self.streams.iter().filter_map(|stream| match &stream.from {
            Supply::Files(clients, _) => Some(clients.late_cause()),
            Supply::Here(_) | Supply::Reader(_) => None,
        });
        let all = of_files.min_by_key(rank);
        all.unwrap_or(LateCause::Input)
    }
}

/// A call of a thread as a planned request.
fn planned(call: &Call, flow: u16) -> Planned {
    let Call { op, place, length, client, due, held } = *call;
    Planned {
        seq: 0,
        scheduled: due.unwrap_or(Nanos::ZERO),
        issue: due.unwrap_or(Nanos::ZERO),
        op,
        flags: Flags::empty(),
        trace_offset: Bytes(place),
        offset: Bytes(place),
        length: Bytes(length),
        volume: VolumeId(0),
        latency: None,
        recorded_in_flight: 0,
        origin: Some(Origin { pid: client, cpu: 0 }),
        target: 0,
        refusal: None,
        think: None,
        behind: 0,
        flow,
        held,
    }
}
