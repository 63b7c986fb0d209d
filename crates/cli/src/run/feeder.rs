//! The reading side of a run: a thread that reads the trace and plans its requests ahead of time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ioecho_replay::engine::{Feed, Input};
use ioecho_replay::plan::{PlanTotals, Planned, Planner};
use ioecho_trace::{Batch, Header, Nanos, Source, TraceError};
use rtrb::{Consumer, Producer, RingBuffer};

/// Planned requests that the ring holds: at 100,000 requests/s more than half a second.
const RING: usize = 1 << 16;

/// How long to sleep when the ring is full: far shorter than it takes to empty.
const FULL_NAP: Duration = Duration::from_millis(1);

/// Spans in which demand is counted for the progress line, ns.
const DEMAND_SPAN_NS: i64 = 100_000_000;

/// How many requests fall due when, for the progress line and for intervals.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// The length of intervals and the requests that fall due in each, where anybody asks.
    intervals: Option<(i64, VecDeque<(i64, u64)>)>,
    /// Start of a span and requests in it, in order.
    spans: VecDeque<(i64, u64)>,
    /// The most requests in a span.
    peak: u64,
}

impl Demand {
    /// Counts for intervals of this length, too.
    pub(crate) fn with_intervals(width: Option<Nanos>) -> Self {
        let intervals = width.map(|width| (width.0.max(1), VecDeque::new()));
        Self { intervals, ..Self::default() }
    }

    pub(crate) fn add(&mut self, scheduled_ns: i64) {
        if let Some((width, counts)) = &mut self.intervals {
            let number = scheduled_ns.div_euclid(*width);
            match counts.back_mut() {
                Some((last, count)) if *last >= number => *count += 1,
                _ => counts.push_back((number, 1)),
            }
        }
        let span = scheduled_ns.div_euclid(DEMAND_SPAN_NS) * DEMAND_SPAN_NS;
        match self.spans.back_mut() {
            Some((last, count)) if *last >= span => {
                *count += 1;
                self.peak = self.peak.max(*count);
            }
            _ => self.spans.push_back((span, 1)),
        }
    }

    /// Requests per second in the busiest span so far.
    pub(crate) fn peak_per_s(&self) -> f64 {
        self.peak as f64 * 1e9 / DEMAND_SPAN_NS as f64
    }

    /// Takes out what fell due in the intervals before the one with this number, from 0.
    pub(crate) fn due_in_intervals_before(&mut self, number: i64) -> u64 {
        let Some((_, counts)) = &mut self.intervals else { return 0 };
        let mut due = 0;
        while let Some((_, count)) = counts.pop_front_if(|(first, _)| *first < number) {
            due += count;
        }
        due
    }

    /// Takes out what fell due until `now_ns`.
    pub(crate) fn due_until(&mut self, now_ns: i64) -> u64 {
        let mut due = 0;
        while let Some((span, count)) = self.spans.front()
            && span + DEMAND_SPAN_NS <= now_ns
        {
            due += count;
            self.spans.pop_front();
        }
        due
    }
}

/// What the feeder leaves when the trace has ended or was given up.
pub(crate) struct FeederEnd {
    pub(crate) totals: PlanTotals,
    pub(crate) header: Header,
    pub(crate) error: Option<TraceError>,
    /// Requests per second in the busiest 100 ms.
    pub(crate) peak_per_s: f64,
}

/// The feeder's thread and what it shares.
pub(crate) struct Feeder {
    pub(crate) thread: JoinHandle<FeederEnd>,
    pub(crate) demand: Arc<Mutex<Demand>>,
    pub(crate) ended: Arc<AtomicBool>,
}

/// The engine's end of the ring.
pub(crate) struct RingInput {
    consumer: Consumer<Planned>,
    /// In simulated time nobody may be blamed for the reader's real time: wait for it.
    pub(crate) blocking: bool,
}

impl RingInput {
    /// Waits until the ring is full or the trace has ended, so that the replay starts with a full
    /// look-ahead.
    pub(crate) fn wait_until_filled(&self, ended: &AtomicBool, stop: &AtomicBool) {
        while self.consumer.slots() < RING && !ended.load(Relaxed) && !stop.load(Relaxed) {
            thread::sleep(FULL_NAP);
        }
    }
}

impl RingInput {
    /// Shows what waits in the ring, and leaves it there. A ring that has not been turned round yet
    /// shows all of it.
    pub(crate) fn look_ahead(&mut self, look: impl FnOnce(&[Planned])) {
        let waiting = self.consumer.slots();
        if let Ok(chunk) = self.consumer.read_chunk(waiting) {
            look(chunk.as_slices().0);
        }
    }
}

impl Input for RingInput {
    fn poll(&mut self) -> Feed {
        loop {
            let abandoned = self.consumer.is_abandoned();
            match self.consumer.pop() {
                Ok(planned) => return Feed::Request(planned),
                Err(_) if abandoned => return Feed::Ended,
                Err(_) if self.blocking => thread::yield_now(),
                Err(_) => return Feed::NotYet,
            }
        }
    }

    /// In simulated time the ring tells of the host, not of the run.
    fn level(&self) -> Option<u64> {
        (!self.blocking).then(|| self.consumer.slots() as u64)
    }
}

/// Starts the thread, with a ring for each of the run's targets. Demand is counted in intervals of
/// this length, where one is given.
pub(crate) fn spawn(
    source: Box<dyn Source>,
    planner: Planner,
    targets: usize,
    stop: Arc<AtomicBool>,
    interval: Option<Nanos>,
) -> io::Result<(Feeder, Vec<RingInput>)> {
    let (producers, inputs): (Vec<_>, Vec<_>) = (0..targets)
        .map(|_| {
            let (producer, consumer) = RingBuffer::new(RING);
            (producer, RingInput { consumer, blocking: false })
        })
        .unzip();
    let demand = Arc::new(Mutex::new(Demand::with_intervals(interval)));
    let ended = Arc::new(AtomicBool::new(false));
    let (their_demand, their_ended) = (Arc::clone(&demand), Arc::clone(&ended));
    let thread = ioecho_linux::thread::start("ioecho-feeder", move || {
        let end = feed(source, planner, producers, &their_demand, &stop);
        their_ended.store(true, Relaxed);
        end
    })?;
    Ok((Feeder { thread, demand, ended }, inputs))
}

fn feed(
    mut source: Box<dyn Source>,
    mut planner: Planner,
    mut producers: Vec<Producer<Planned>>,
    demand: &Mutex<Demand>,
    stop: &AtomicBool,
) -> FeederEnd {
    let mut batch = Batch::new(source.header().columns);
    let mut planned: Vec<Planned> = Vec::with_capacity(ioecho_trace::batch::BATCH_ROWS);
    let error = 'trace: loop {
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
        planned.clear();
        for request in batch.iter() {
            planner.plan(&request, &mut planned);
        }
        if let Ok(mut demand) = demand.lock() {
            for request in &planned {
                demand.add(request.scheduled.0);
            }
        }
        for request in planned.drain(..) {
            let producer = &mut producers[usize::from(request.target)];
            let mut pending = Some(request);
            while let Some(request) = pending {
                pending = match producer.push(request) {
                    Ok(()) => None,
                    Err(rtrb::PushError::Full(request)) => Some(request),
                };
                if pending.is_some() {
                    if stop.load(Relaxed) || producer.is_abandoned() {
                        break 'trace None;
                    }
                    thread::sleep(FULL_NAP);
                }
            }
        }
    };
    let peak_per_s = demand.lock().map_or(0.0, |demand| demand.peak_per_s());
    FeederEnd { totals: planner.totals(), header: source.header().clone(), error, peak_per_s }
}
