//! The reading side of a run: a thread that reads the trace and plans its requests ahead of time.
//!
//! Each target has a ring. Requests without room in the ring wait in the target's backlog, so that
//! the other targets still get theirs; the backlog only grows while another target would soon have
//! nothing to do. Which requests a request waits for goes through a ring beside it, because there
//! may be any number of them; where these are on other targets, no target gets requests far beyond
//! what the others have done ([`ioecho_replay::across`]).

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_replay::across::{Across, Reach};
use ioecho_replay::engine::{Control, Feed, Input};
use ioecho_replay::plan::{PlanTotals, Planned, Planner};
use ioecho_trace::batch::BATCH_ROWS;
use ioecho_trace::units::counted;
use ioecho_trace::{Batch, Header, LateCause, Nanos, Source, TraceError};
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::backlog::{Backlogs, Bounds, Room};
use crate::directory::RunDirectory;
use crate::kept_links::Keeping;
use crate::links::Links;

/// Planned requests in a ring: at 100,000 requests/s more than half a second.
const RING: usize = 1 << 16;

/// Numbers in the ring of those that requests wait for: more than one request can name.
const PARENTS_RING: usize = 1 << 19;

/// How long to sleep when the ring is full: far less than the time to empty it.
const FULL_NAP: Duration = Duration::from_millis(1);

/// The same once no target's clock has moved for so many looks, as before a run begins: it may be
/// armed for minutes, beside hundreds of others on one host.
const STILL_NAP: Duration = Duration::from_millis(10);
const STILL_LOOKS: u32 = 1000;

/// How long to wait for the thread when the run is over.
const STOPPED_MAX: Duration = Duration::from_secs(2);

/// How far beyond a target's present the trace is read for it while other targets have a backlog,
/// if that backlog is in memory.
const AHEAD: Nanos = Nanos::from_secs(10);

/// The same, if the backlog would be written to the file.
const AHEAD_OF_FILE: Nanos = Nanos::from_secs(1);

/// For requests without times: the part of its ring that a target may use up before others get a
/// backlog in the file for it.
const AHEAD_IN_RING: usize = RING / 4;

/// Spans in which demand is counted for the progress line, ns.
const DEMAND_SPAN_NS: i64 = 100_000_000;

/// The numbers of requests that fall due over time, for the progress line and for intervals.
#[derive(Debug, Default)]
pub struct Demand {
    /// The length of the intervals and the requests that fall due in each, if asked for.
    intervals: Option<(i64, VecDeque<(i64, u64)>)>,
    /// Start of a span and requests in it, in order.
    spans: VecDeque<(i64, u64)>,
    /// The most requests in a span.
    peak: u64,
}

impl Demand {
    /// Also counts in intervals of this length.
    pub fn with_intervals(width: Option<Nanos>) -> Self {
        let intervals = width.map(|width| (width.0.max(1), VecDeque::new()));
        Self { intervals, ..Self::default() }
    }

    /// Counts a request that falls due at this instant of the replay.
    pub fn add(&mut self, scheduled_ns: i64) {
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
    pub fn peak_per_s(&self) -> f64 {
        self.peak as f64 * 1e9 / DEMAND_SPAN_NS as f64
    }

    /// Takes out the requests that fell due in the intervals before the one with this number, from
    /// 0.
    pub fn due_in_intervals_before(&mut self, number: i64) -> u64 {
        let Some((_, counts)) = &mut self.intervals else { return 0 };
        let mut due = 0;
        while let Some((_, count)) = counts.pop_front_if(|(first, _)| *first < number) {
            due += count;
        }
        due
    }

    /// Takes out the requests that fell due until `now_ns`.
    pub fn due_until(&mut self, now_ns: i64) -> u64 {
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

/// The feeder's results after the trace has ended or was given up.
pub(crate) struct FeederEnd {
    pub(crate) totals: PlanTotals,
    pub(crate) header: Header,
    pub(crate) error: Option<TraceError>,
    /// Requests per second in the busiest 100 ms.
    pub(crate) peak_per_s: f64,
    /// Whether the trace was not read to its end, because the rest is due too late.
    pub(crate) cut: bool,
}

/// The feeder's thread and its shared state.
pub(crate) struct Feeder {
    thread: JoinHandle<FeederEnd>,
    /// The totals planned so far, and the header of the trace.
    so_far: Arc<Mutex<PlanTotals>>,
    header: Header,
    pub(crate) demand: Arc<Mutex<Demand>>,
    /// Whether every target has as many requests as it can have before the first one is issued.
    pub(crate) filled: Arc<AtomicBool>,
}

impl Feeder {
    /// The feeder's results after it was told to stop. If a trace comes through a pipe, the feeder
    /// may wait for ever; then the results so far are returned.
    pub(crate) fn end(self) -> thread::Result<FeederEnd> {
        let until = Instant::now() + STOPPED_MAX;
        while !self.thread.is_finished() {
            if Instant::now() > until {
                let totals = *self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
                let peak_per_s = self.demand.lock().map_or(0.0, |demand| demand.peak_per_s());
                let (header, error, cut) = (self.header, None, false);
                return Ok(FeederEnd { totals, header, error, peak_per_s, cut });
            }
            thread::sleep(FULL_NAP);
        }
        self.thread.join()
    }
}

/// The engine's end of the ring.
pub(crate) struct RingInput {
    consumer: Consumer<Planned>,
    /// Of each request that waits for others: how many they are, and their numbers.
    parents: Consumer<u64>,
    /// The parents of the request last given.
    taken: Vec<u64>,
    /// A request whose parents have not arrived yet.
    next: Option<Planned>,
    /// The link to the other targets, where requests wait for requests there.
    pub(crate) across: Option<Across>,
    /// The target's requests below this number are in the ring.
    handed: Arc<AtomicU64>,
    /// In simulated time the reader's real time must not count, so the engine waits for it.
    pub(crate) blocking: bool,
    /// Whether reading pauses because of another target's backlog.
    held: Arc<AtomicBool>,
    /// Whether the run is to end.
    stop: Arc<AtomicBool>,
}

impl RingInput {
    /// Waits until the rings hold as much as possible, so that the replay starts with a full
    /// look-ahead.
    pub(crate) fn wait_until_filled(filled: &AtomicBool, stop: &AtomicBool) {
        while !filled.load(Relaxed) && !stop.load(Relaxed) {
            thread::sleep(FULL_NAP);
        }
    }

    /// The next request, with its parents.
    fn take(&mut self) -> Option<Planned> {
        let planned = self.next.take().or_else(|| self.consumer.pop().ok())?;
        self.taken.clear();
        if planned.think.is_some() && !self.take_parents() {
            self.next = Some(planned);
            return None;
        }
        Some(planned)
    }

    /// Takes the parents of a request out of their ring, if all are there.
    fn take_parents(&mut self) -> bool {
        let count = self.parents.peek().map_or(usize::MAX, |count| *count as usize);
        if count >= self.parents.slots() {
            return false;
        }
        let _ = self.parents.pop();
        self.taken.extend((0..count).map_while(|_| self.parents.pop().ok()));
        true
    }

    /// Whether the engine waits for the reader: in simulated time, unless the reader waits for
    /// other targets.
    fn waits(&self) -> bool {
        let is_held = self.across.is_some() && self.held.load(Relaxed);
        self.blocking && !is_held && !self.stop.load(Relaxed)
    }

    /// Shows the requests in the ring without taking them. All are visible as long as the ring has
    /// not wrapped around.
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
            match self.take() {
                Some(planned) => return Feed::Request(planned),
                None if abandoned => return Feed::Ended,
                None if self.waits() => thread::yield_now(),
                None => return Feed::NotYet,
            }
        }
    }

    fn parents(&self) -> &[u64] {
        &self.taken
    }

    fn across(&mut self) -> Option<&mut Across> {
        self.across.as_mut()
    }

    fn next_seq(&mut self) -> u64 {
        // What is handed over meanwhile is seen in the ring.
        let handed = self.handed.load(Acquire);
        let abandoned = self.consumer.is_abandoned();
        let first = self.next.as_ref().or_else(|| self.consumer.peek().ok());
        first.map_or(if abandoned { u64::MAX } else { handed }, |first| first.seq)
    }

    fn late_cause(&self) -> LateCause {
        if self.held.load(Relaxed) { LateCause::Backlog } else { LateCause::Input }
    }

    /// In simulated time the level of the ring depends on the host and not on the run.
    fn level(&self) -> Option<u64> {
        (!self.blocking).then(|| self.consumer.slots() as u64)
    }
}

/// The feeder's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Continue to read.
    Read,
    /// Every target has enough requests.
    Wait,
    /// A target needs more, and there is no room for the other targets' requests before it.
    Held,
}

/// The rings of all targets, and the backlogs before them.
struct Stock {
    /// Absent once all requests were handed out, or the target takes no more.
    rings: Vec<Option<Producer<Planned>>>,
    /// By target: for the parents of requests, if requests wait for others.
    parents: Vec<Producer<u64>>,
    /// By target: parents without room in their ring.
    parents_behind: Vec<VecDeque<u64>>,
    /// How far apart the targets' replays may be, if requests wait for those on other targets.
    reach: Option<Reach>,
    /// By target: its requests below this number are in its ring.
    handed: Vec<Arc<AtomicU64>>,
    /// The number of the next request that is read.
    next_seq: u64,
    backlogs: Backlogs,
    /// Whether requests have times.
    timed: bool,
    /// When the last request that was read is due.
    read_until: Nanos,
    held: Arc<AtomicBool>,
}

impl Stock {
    fn new(
        targets: usize,
        timed: bool,
        bounds: Bounds,
        directory: &Path,
        stop: &Arc<AtomicBool>,
    ) -> (Self, Vec<RingInput>) {
        let held = Arc::new(AtomicBool::new(false));
        let handed: Vec<_> = (0..targets).map(|_| Arc::<AtomicU64>::default()).collect();
        let (rings, inputs) = handed
            .iter()
            .map(|handed| {
                let (producer, consumer) = RingBuffer::new(RING);
                let (held, stop) = (Arc::clone(&held), Arc::clone(stop));
                let (_, parents) = RingBuffer::new(1);
                let (taken, next, blocking) = (Vec::new(), None, false);
                let (across, handed) = (None, Arc::clone(handed));
                let input = RingInput {
                    consumer,
                    parents,
                    taken,
                    next,
                    across,
                    handed,
                    blocking,
                    held,
                    stop,
                };
                (Some(producer), input)
            })
            .unzip();
        let backlogs = Backlogs::new(targets, bounds, directory);
        let stock = Self {
            rings,
            parents: Vec::new(),
            parents_behind: Vec::new(),
            reach: None,
            handed,
            next_seq: 0,
            backlogs,
            timed,
            read_until: Nanos(i64::MIN),
            held,
        };
        (stock, inputs)
    }

    /// Makes the rings for parents, and links the targets where there are several.
    fn with_parents(&mut self, inputs: &mut [RingInput], look_ahead: usize, simulated: bool) {
        for input in &mut *inputs {
            let (producer, consumer) = RingBuffer::new(PARENTS_RING);
            input.parents = consumer;
            input.taken.reserve(PARENTS_RING);
            self.parents.push(producer);
            self.parents_behind.push(VecDeque::new());
        }
        if inputs.len() > 1 {
            let (links, reach) = Across::new(inputs.len(), look_ahead, simulated);
            self.reach = Some(reach);
            for (input, link) in inputs.iter_mut().zip(links) {
                input.across = Some(link);
            }
        }
    }

    /// Adds the parents of these requests: of each that waits for others their count, and their
    /// numbers.
    fn push_parents(&mut self, planned: &[Planned], parents: &[u64]) {
        let mut rest = parents;
        for one in planned.iter().filter(|one| one.think.is_some()) {
            let count = rest.first().map_or(0, |count| 1 + *count as usize);
            let (own, behind) = rest.split_at(count.min(rest.len()));
            self.parents_behind[usize::from(one.target)].extend(own);
            rest = behind;
        }
        self.fill_parents();
    }

    fn fill_parents(&mut self) {
        for (ring, behind) in self.parents.iter_mut().zip(&mut self.parents_behind) {
            while let Some(parent) = behind.pop_front() {
                if let Err(PushError::Full(parent)) = ring.push(parent) {
                    behind.push_front(parent);
                    break;
                }
            }
        }
    }

    /// Whether the target's last requests have been handed over, with their parents.
    fn has_handed_over(&self, target: usize) -> bool {
        self.backlogs.is_empty(target)
            && self.parents_behind.get(target).is_none_or(VecDeque::is_empty)
    }

    /// Tells the targets up to which number they have their requests.
    fn tell_handed(&self) {
        for (target, handed) in self.handed.iter().enumerate() {
            if self.has_handed_over(target) {
                handed.store(self.next_seq, Release);
            }
        }
    }

    /// Adds a request for its target.
    fn push(&mut self, planned: Planned) {
        self.read_until = planned.scheduled;
        let target = usize::from(planned.target);
        let left = match &mut self.rings[target] {
            None => return,
            Some(ring) if self.backlogs.is_empty(target) => ring.push(planned),
            Some(_) => Err(PushError::Full(planned)),
        };
        if let Err(PushError::Full(planned)) = left {
            self.backlogs.push(planned);
        }
    }

    /// Fills the rings from the backlogs, and closes those of targets that have ended: the others
    /// may go on.
    fn fill(&mut self) -> io::Result<()> {
        self.fill_parents();
        for (target, place) in self.rings.iter_mut().enumerate() {
            let Some(ring) = place else { continue };
            if ring.is_abandoned() {
                self.backlogs.forget(target);
                *place = None;
                self.parents_behind.get_mut(target).map(VecDeque::clear);
            } else if !ring.is_full() {
                let hand_out = |planned| match ring.push(planned) {
                    Ok(()) => None,
                    Err(PushError::Full(back)) => Some(back),
                };
                self.backlogs.drain(target, hand_out)?;
            }
        }
        self.tell_handed();
        Ok(())
    }

    /// The next action, given the present instants of the targets' replays.
    fn next(&mut self, now: &[Nanos]) -> Next {
        let room = self.backlogs.room_for(BATCH_ROWS);
        let is_behind = !self.backlogs.are_empty();
        let has_parents = self.parents_behind.iter().any(|behind| behind.len() > PARENTS_RING);
        if has_parents && self.rings.len() == 1 {
            // Enough requests are ahead, and each may have hundreds of parents.
            return Next::Wait;
        }
        let is_apart = self.reach.as_ref().is_some_and(|reach| !reach.holds(self.next_seq));
        let is_beyond = has_parents || is_apart;
        let mut next = Next::Wait;
        for (target, ring) in self.rings.iter().enumerate() {
            let Some(ring) = ring.as_ref().filter(|ring| !ring.is_full()) else { continue };
            let now = now[target];
            let is_due = |ahead: Nanos| self.read_until < now.saturating_add(ahead);
            let needs = match room {
                // No target has a large backlog yet.
                _ if !is_behind => true,
                Room::Memory => !self.timed || is_due(AHEAD),
                Room::File | Room::Nowhere if self.timed => is_due(AHEAD_OF_FILE),
                Room::File | Room::Nowhere => RING - ring.slots() < AHEAD_IN_RING,
            };
            if needs {
                let is_held = is_beyond || is_behind && room == Room::Nowhere;
                next = if is_held { Next::Held } else { Next::Read };
            }
        }
        self.held.store(next == Next::Held, Relaxed);
        next
    }

    /// Ends the rings of targets without further requests, and returns whether all have ended. To
    /// be called after the trace was read.
    fn end(&mut self) -> bool {
        for target in 0..self.rings.len() {
            if self.has_handed_over(target) {
                self.rings[target] = None;
            }
        }
        self.rings.iter().all(Option::is_none)
    }

    /// Whether no target takes any more requests.
    fn is_abandoned(&self) -> bool {
        self.rings.iter().flatten().all(Producer::is_abandoned)
    }
}

/// How long the thread sleeps each time when there is no room.
#[derive(Debug, Default)]
struct Naps {
    /// The clocks of the targets at the last look.
    seen: Vec<Nanos>,
    /// How many looks ago they moved.
    still: u32,
}

impl Naps {
    fn next(&mut self, now: &[Nanos]) -> Duration {
        if self.seen == now {
            self.still = self.still.saturating_add(1);
        } else {
            self.seen.clear();
            self.seen.extend_from_slice(now);
            self.still = 0;
        }
        if self.still < STILL_LOOKS { FULL_NAP } else { STILL_NAP }
    }
}

/// The inputs of the feeder's thread.
pub(crate) struct Feeding {
    pub(crate) source: Box<dyn Source>,
    pub(crate) planner: Planner,
    /// Who waits for whom, if that decides when requests are issued.
    pub(crate) links: Option<Links>,
    /// Whether the results are to say it too.
    pub(crate) keeps_links: bool,
    /// The look-ahead of each target's replay, in requests.
    pub(crate) look_ahead: usize,
    /// Whether the targets are simulated.
    pub(crate) simulated: bool,
    /// One per target.
    pub(crate) controls: Vec<Arc<Control>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// Whether requests have times.
    pub(crate) timed: bool,
    /// The instant of the replay from which on requests take no part in it, if there is one.
    pub(crate) until: Option<Nanos>,
    /// The length of the intervals in which demand is counted, if asked for.
    pub(crate) interval: Option<Nanos>,
    /// The directory for the backlogs' file.
    pub(crate) run: RunDirectory,
}

/// Starts the thread, with a ring for each of the run's targets.
pub(crate) fn spawn(feeding: Feeding) -> io::Result<(Feeder, Vec<RingInput>)> {
    let bounds = Bounds::default();
    let targets = feeding.controls.len();
    let (mut stock, mut inputs) =
        Stock::new(targets, feeding.timed, bounds, feeding.run.path(), &feeding.stop);
    if feeding.links.is_some() {
        stock.with_parents(&mut inputs, feeding.look_ahead, feeding.simulated);
    }
    let demand = Arc::new(Mutex::new(Demand::with_intervals(feeding.interval)));
    let filled = Arc::new(AtomicBool::new(false));
    let so_far = Arc::new(Mutex::new(feeding.planner.totals()));
    let header = feeding.source.header().clone();
    let (their_demand, their_filled) = (Arc::clone(&demand), Arc::clone(&filled));
    let theirs = Arc::clone(&so_far);
    let thread = ioecho_linux::thread::start("ioecho-feeder", move || {
        let end = feed(feeding, stock, &their_demand, &their_filled, &theirs);
        // Releases threads that wait for the first fill, for whatever reason the feeder ended.
        their_filled.store(true, Relaxed);
        end
    })?;
    Ok((Feeder { thread, so_far, header, demand, filled }, inputs))
}

fn feed(
    feeding: Feeding,
    mut stock: Stock,
    demand: &Mutex<Demand>,
    filled: &AtomicBool,
    so_far: &Mutex<PlanTotals>,
) -> FeederEnd {
    let Feeding { mut source, mut planner, mut links, controls, stop, until, run, .. } = feeding;
    let mut kept = feeding.keeps_links.then(|| Keeping::new(&run));
    let mut batch = Batch::new(source.header().columns);
    let mut planned: Vec<Planned> = Vec::with_capacity(BATCH_ROWS);
    let mut parents: Vec<u64> = Vec::new();
    let mut now = vec![Nanos::ZERO; controls.len()];
    let (mut told, mut naps) = (Told::default(), Naps::default());
    let mut is_read = false;
    let mut cut: Option<PlanTotals> = None;
    let error = loop {
        if let Err(error) = stock.fill() {
            break Some(TraceError::read(run.path(), error));
        }
        if is_read && stock.end() {
            break None;
        }
        now.clear();
        now.extend(controls.iter().map(|control| Nanos(control.now_ns.load(Relaxed))));
        let next = if is_read { Next::Wait } else { stock.next(&now) };
        told.tell(next, &stock.backlogs, &run);
        if next != Next::Read {
            filled.store(true, Relaxed);
            if stop.load(Relaxed) || stock.is_abandoned() {
                break None;
            }
            thread::sleep(naps.next(&now));
            continue;
        }
        match source.next_batch(&mut batch) {
            Ok(true) => {}
            Ok(false) => {
                is_read = true;
                continue;
            }
            Err(error) => break Some(error),
        }
        planned.clear();
        match &mut links {
            Some(links) => {
                parents.clear();
                let linked = links.plan(&batch, &mut planner, &mut planned, &mut parents);
                if let Err(error) = linked {
                    break Some(error);
                }
                if let Some(kept) = &mut kept {
                    kept.add(&planned, &parents);
                }
                stock.push_parents(&planned, &parents);
            }
            None => cut = plan(&batch, &mut planner, until, &mut planned),
        }
        is_read = cut.is_some();
        *so_far.lock().unwrap_or_else(PoisonError::into_inner) = planner.totals();
        if let Ok(mut demand) = demand.lock() {
            for request in &planned {
                demand.add(request.scheduled.0);
            }
        }
        stock.next_seq = planner.totals().planned;
        planned.drain(..).for_each(|planned| stock.push(planned));
        stock.tell_handed();
    };
    if let Some(left_out) = links.as_ref().map(Links::left_out).filter(|left_out| *left_out > 0) {
        run.log(&format!(
            "requests do not wait for {} that take no part in the replay",
            counted(left_out, "request")
        ));
    }
    let peak_per_s = demand.lock().map_or(0.0, |demand| demand.peak_per_s());
    let mut header = source.header().clone();
    if let Some(links) = &links {
        links.note(&mut header);
    }
    let totals = cut.unwrap_or_else(|| planner.totals());
    FeederEnd { totals, header, error, peak_per_s, cut: cut.is_some() }
}

/// Plans the requests of a batch, up to the first that is due at `until` or later. Returns the
/// totals without that one, if there is one.
pub(crate) fn plan(
    batch: &Batch,
    planner: &mut Planner,
    until: Option<Nanos>,
    planned: &mut Vec<Planned>,
) -> Option<PlanTotals> {
    let Some(until) = until else {
        batch.iter().for_each(|request| planner.plan(&request, planned));
        return None;
    };
    for request in batch.iter() {
        let (totals, before) = (planner.totals(), planned.len());
        planner.plan(&request, planned);
        if planned.get(before).is_some_and(|planned| planned.scheduled >= until) {
            planned.truncate(before);
            return Some(totals);
        }
    }
    None
}

/// The messages about backlogs that the run's log already has, each at most once.
#[derive(Default)]
struct Told {
    spilled: bool,
    failed: bool,
    held: bool,
}

impl Told {
    fn tell(&mut self, next: Next, backlogs: &Backlogs, run: &RunDirectory) {
        let once = |told: &mut bool, is: bool, text: &dyn Fn() -> String| {
            if is && !std::mem::replace(told, true) {
                run.log(&text());
            }
        };
        once(&mut self.spilled, backlogs.spilled().0 > 0, &|| {
            "a target lags so far behind the others that its backlog goes to a temporary file here"
                .to_owned()
        });
        once(&mut self.failed, backlogs.failure().is_some(), &|| {
            let reason = backlogs.failure().map(ToString::to_string).unwrap_or_default();
            format!("the temporary file of the backlogs takes no more: {reason}")
        });
        once(&mut self.held, next == Next::Held, &|| {
            "a target's backlog has reached its bound: the others get their requests too late \
             from here on, whenever it is full"
                .to_owned()
        });
    }
}

#[cfg(test)]
#[path = "feeder_tests.rs"]
mod tests;
