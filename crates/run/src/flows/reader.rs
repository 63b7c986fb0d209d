//! Reading the files of flows ahead of time, a thread for each.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_replay::plan::{PlanTotals, Planned, Planner, TargetLimits, Timing};
use ioecho_trace::{Batch, Header, Nanos, Source, TraceError, generate};
use rtrb::{Producer, PushError, RingBuffer};

use super::input::{FlowsEnd, FlowsInput, Generating, Left, Place, Stream, Supply, add};
use super::{Flows, joint};
use crate::feeder::{Demand, Feeder, FeederEnd};

/// Planned requests in a ring: at 100,000 requests/s a sixth of a second.
const RING: usize = 1 << 14;

/// Requests of a generated load whose places are looked at beforehand.
const FIRST: usize = 512;

/// How long to sleep when the ring is full: far less than the time to empty it.
const FULL_NAP: Duration = Duration::from_millis(1);

/// How long to wait for the threads when the run is over.
const STOPPED_MAX: Duration = Duration::from_secs(2);

/// The threads that read the flows which are files.
pub(crate) struct Readers {
    threads: Vec<JoinHandle<ReaderEnd>>,
}

/// What a thread has come to.
#[derive(Debug, Default)]
struct ReaderEnd {
    totals: PlanTotals,
    error: Option<TraceError>,
    damage: Option<String>,
}

/// What all readers have come to.
#[derive(Debug, Default)]
pub(crate) struct ReadersEnd {
    /// The totals without the number of planned requests, which the lanes know.
    pub(crate) totals: PlanTotals,
    pub(crate) error: Option<TraceError>,
    pub(crate) damage: Option<String>,
}

impl Readers {
    /// Opens the loads of all flows for targets with these limits, in their order, and starts the
    /// threads. What is due at `until` or later takes no part in the run. Returns the input of each
    /// lane.
    pub(crate) fn start(
        flows: &Flows,
        limits: &[TargetLimits],
        timing: Timing,
        until: Option<Nanos>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, Vec<FlowsInput>), TraceError> {
        let mut threads = Vec::new();
        let mut together: Option<Arc<Left>> = None;
        let groups = flows.groups(limits.len());
        let mut lanes: Vec<Vec<Stream>> = groups.iter().map(|_| Vec::new()).collect();
        for (flow, number) in flows.list().iter().zip(1..) {
            let lane = groups.iter().position(|group| group[0] == flow.lane).unwrap_or(0);
            let place = flow.place(&joint(&groups[lane], limits));
            let planner = flow.planner(limits, timing);
            let source = flow.open()?;
            let mut first = Vec::new();
            let from = if generate::is_line(&flow.file) {
                let again = (planner.clone(), place.clone());
                first = Generating::new(flow.open()?, again.0, again.1).first(FIRST);
                Supply::Here(Box::new(Generating::new(source, planner, place)))
            } else {
                let (ring, consumer) = RingBuffer::new(RING);
                let stop = Arc::clone(stop);
                let read = move || read(source, planner, &place, ring, &stop);
                let failed = |error: io::Error| TraceError::read(&flow.file, error);
                threads.push(ioecho_linux::thread::start("ioecho-flow", read).map_err(failed)?);
                Supply::Reader(consumer)
            };
            let left = if flow.spec.end_together {
                Arc::clone(together.get_or_insert_with(|| Left::new(flow.spec.ends)))
            } else {
                Left::new(flow.spec.ends)
            };
            let last_scheduled = Nanos::ZERO;
            lanes[lane].push(Stream { number, from, left, given: 0, last_scheduled, first });
        }
        let until = until.unwrap_or(Nanos::MAX);
        let input = |streams| FlowsInput::new(streams, until, Arc::clone(stop));
        let inputs = lanes.into_iter().map(input);
        Ok((Self { threads }, inputs.collect()))
    }

    /// No threads: nothing is read.
    pub(crate) fn none() -> Self {
        Self { threads: Vec::new() }
    }

    /// What the readers have come to, after the run was told to stop. A reader that a device or a
    /// network holds is left behind.
    pub(crate) fn end(self) -> thread::Result<ReadersEnd> {
        let until = Instant::now() + STOPPED_MAX;
        let mut all = ReadersEnd::default();
        for thread in self.threads {
            while !thread.is_finished() && Instant::now() < until {
                thread::sleep(FULL_NAP);
            }
            if thread.is_finished() {
                let ReaderEnd { totals, error, damage } = thread.join()?;
                add(&mut all.totals, &PlanTotals { planned: 0, ..totals });
                all.error = all.error.or(error);
                all.damage = all.damage.or(damage);
            }
        }
        all.totals.last_scheduled = Nanos::ZERO;
        Ok(all)
    }
}

fn read(
    mut source: Box<dyn Source>,
    mut planner: Planner,
    place: &Place,
    mut ring: Producer<Planned>,
    stop: &AtomicBool,
) -> ReaderEnd {
    let mut batch = Batch::new(source.header().columns);
    let mut planned = Vec::new();
    let error = loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
        for request in batch.iter() {
            planner.plan(&request, &mut planned);
            for planned in planned.drain(..) {
                if !push(&mut ring, place.put(planned), stop) {
                    return ReaderEnd { totals: planner.totals(), ..ReaderEnd::default() };
                }
            }
        }
    };
    ReaderEnd { totals: planner.totals(), error, damage: source.header().damage.clone() }
}

/// Puts a request into the ring; `false` if nobody wants any more.
fn push(ring: &mut Producer<Planned>, planned: Planned, stop: &AtomicBool) -> bool {
    let mut pending = ring.push(planned);
    while let Err(PushError::Full(planned)) = pending {
        if stop.load(Relaxed) || ring.is_abandoned() {
            return false;
        }
        thread::sleep(FULL_NAP);
        pending = ring.push(planned);
    }
    true
}

/// The threads that feed a run, whichever they are.
pub(crate) enum Feeders {
    /// One that reads the trace.
    One(Feeder),
    /// Those of flows, the header of the results, and what the lanes said of their flows.
    Flows(Readers, Header, FlowsEnd),
}

impl Feeders {
    /// What falls due over time. Nothing of flows is known here.
    pub(crate) fn demand(&self) -> Arc<Mutex<Demand>> {
        match self {
            Self::One(feeder) => Arc::clone(&feeder.demand),
            Self::Flows(..) => Arc::default(),
        }
    }

    /// Whether the rings hold as much as they can. Flows are asked when they are wanted.
    pub(crate) fn filled(&self) -> Arc<AtomicBool> {
        match self {
            Self::One(feeder) => Arc::clone(&feeder.filled),
            Self::Flows(..) => Arc::new(AtomicBool::new(true)),
        }
    }

    /// Takes what a lane says of its flows.
    pub(crate) fn take(&mut self, ended: Option<FlowsEnd>) {
        if let (Self::Flows(_, _, all), Some(end)) = (self, ended) {
            add(&mut all.totals, &end.totals);
            all.error = all.error.take().or(end.error);
        }
    }

    /// The results after all were told to stop.
    pub(crate) fn end(self) -> thread::Result<FeederEnd> {
        match self {
            Self::One(feeder) => feeder.end(),
            Self::Flows(readers, header, lanes) => {
                let ReadersEnd { totals: read, error, damage } = readers.end()?;
                let FlowsEnd { mut totals, error: made } = lanes;
                add(&mut totals, &read);
                let header = Header { damage: header.damage.clone().or(damage), ..header };
                let error = error.or(made);
                Ok(FeederEnd { totals, header, error, peak_per_s: 0.0, cut: false })
            }
        }
    }
}
