//! All figures of a load or a run, in one pass.
//!
//! A trace is read once for all figures: the page of a report, the table in the terminal, the file
//! that is merged with those of other hosts. [`Analysis`] holds every summary of this module; its
//! two halves, [`Time`] and [`Space`], are independent, so that two threads can fill them from the
//! same batches.

use ioecho_trace::{Batch, Header, Request};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::arrivals::{ArrivalFigures, Arrivals};
use super::breakdown::{Breakdown, Share};
use super::event::Event;
use super::flight::{Flight, FlightFigures};
use super::operations::{self, OperationFigures, Operations};
use super::order::{Order, OrderFigures};
use super::pages::{GROUPS_MAX, PageFigures, Pages};
use super::places::{PlaceFigures, Places};
use super::reuse::{CACHES, Reuse, ReuseFigures};
use super::seconds::{Seconds, ThroughputFigures, WINDOW_S};
use super::sizes::{SizeFigures, Sizes};
use super::sketches::Sketches;
use super::spans::{SpanFigures, Spans};
use super::steadiness::{Steadiness, SteadyFigures};
use crate::picture::Span;

/// The version of [`AnalysisFigures`] and of what partial results hold. It changes when a key
/// changes its meaning or goes away.
pub const ANALYSIS_VERSION: u32 = 1;

/// How many volumes and processes are listed one by one unless asked otherwise.
pub const LISTED: usize = 20;

/// Settings of the counting. Parts that are to be merged must have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The windows of working sets, in nanoseconds.
    pub windows_ns: Vec<i64>,
}

impl Default for Settings {
    /// blkreplay's windows: 1, 6, 60 and 600 s.
    fn default() -> Self {
        Self { windows_ns: [1, 6, 60, 600].map(|s| s * 1_000_000_000).to_vec() }
    }
}

/// Options of the figures, which do not change the counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The window of throughput, in seconds.
    pub throughput_window_s: u64,
    /// How many volumes and processes are listed one by one.
    pub listed: usize,
    /// Sizes of caches whose effect is asked for, in bytes, beside the usual ones.
    pub caches: Vec<u64>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { throughput_window_s: WINDOW_S, listed: LISTED, caches: Vec::new() }
    }
}

impl Asked {
    /// The sizes of caches asked for and the usual ones, each once, rising.
    fn all_caches(&self) -> Vec<u64> {
        let mut caches = [&CACHES, &self.caches[..]].concat();
        caches.sort_unstable();
        caches.dedup();
        caches
    }
}

/// How many requests are looked at together: a few dozen KiB, which stay in the nearest cache while
/// one summary after the other reads them.
const AT_ONCE: usize = 128;

/// Hands the requests of a batch to `take`, some at a time, each decoded once.
pub fn in_pieces(batch: &Batch, mut take: impl FnMut(&[Request])) {
    let mut requests = Vec::with_capacity(AT_ONCE);
    for from in (0..batch.len()).step_by(AT_ONCE) {
        batch.decode(from..from + AT_ONCE, &mut requests);
        take(&requests);
    }
}

/// The load over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Time {
    requests: u64,
    measured: u64,
    first_ns: Option<i64>,
    seconds: Seconds,
    arrivals: Arrivals,
    flight: Flight,
    spans: Spans,
    breakdown: Breakdown,
    operations: Operations,
    steadiness: Steadiness,
}

impl Time {
    /// Adds the requests of a batch.
    pub fn observe_batch(&mut self, batch: &Batch) {
        in_pieces(batch, |requests| self.observe_all(requests));
    }

    /// Adds requests: the same as adding each of them, but each summary sees all of them before the
    /// next one does. Its data then stays in the cache, and waits for memory overlap.
    pub fn observe_all(&mut self, requests: &[Request]) {
        let events: Vec<Event> = requests.iter().map(Event::of).collect();
        self.count(&events);
        for event in &events {
            self.seconds.add(event);
        }
        for event in &events {
            self.arrivals.add(event);
        }
        for (request, event) in requests.iter().zip(&events) {
            self.flight.add(request, event);
        }
        for event in &events {
            self.spans.add(event);
        }
        for (request, event) in requests.iter().zip(&events) {
            self.breakdown.add(request, event);
            self.operations.add(request, event);
        }
        for event in &events {
            self.steadiness.add(event);
        }
    }

    fn count(&mut self, events: &[Event]) {
        self.requests += events.len() as u64;
        for event in events {
            self.measured += u64::from(event.measured);
            let first = self.first_ns.get_or_insert(event.scheduled);
            *first = (*first).min(event.scheduled);
        }
    }

    /// How many requests were added.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// When the first request was due, in nanoseconds.
    pub fn first_ns(&self) -> Option<i64> {
        self.first_ns
    }

    /// How requests came.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Requests in flight and waiting.
    pub fn flight(&self) -> &Flight {
        &self.flight
    }

    /// The counters by the second.
    pub fn seconds(&self) -> &Seconds {
        &self.seconds
    }

    /// The histograms.
    pub fn spans(&self) -> &Spans {
        &self.spans
    }

    /// The shares of volumes and processes.
    pub fn breakdown(&self) -> &Breakdown {
        &self.breakdown
    }
}

impl Summary for Time {
    fn observe(&mut self, request: &Request) {
        self.observe_all(std::slice::from_ref(request));
    }

    fn merge(&mut self, later: &Self) {
        self.requests = self.requests.saturating_add(later.requests);
        self.measured = self.measured.saturating_add(later.measured);
        self.first_ns = match (self.first_ns, later.first_ns) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.seconds.merge(&later.seconds);
        self.arrivals.merge(&later.arrivals);
        self.flight.merge(&later.flight);
        self.spans.merge(&later.spans);
        self.breakdown.merge(&later.breakdown);
        self.operations.merge(&later.operations);
        self.steadiness.merge(&later.steadiness);
    }
}

/// The load in space.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Space {
    pages: Pages,
    reuse: Reuse,
    places: Places,
    order: Order,
    sizes: Sizes,
    /// Only of a part: rows of its file hold it beside this.
    #[serde(skip)]
    sketches: Option<Sketches>,
}

impl Space {
    /// Nothing yet, with these settings.
    pub fn new(settings: &Settings) -> Self {
        let pages = Pages::new(&settings.windows_ns, GROUPS_MAX);
        Self { pages, ..Self::default() }
    }

    /// Adds the requests of a batch.
    pub fn observe_batch(&mut self, batch: &Batch) {
        in_pieces(batch, |requests| self.observe_all(requests));
    }

    /// Adds requests: the same as adding each of them, but without waiting for memory at every one.
    pub fn observe_all(&mut self, requests: &[Request]) {
        self.pages.observe_all(requests);
        for request in requests {
            self.reuse.observe(request);
        }
        self.places.observe_all(requests);
        for request in requests {
            self.order.observe(request);
        }
        for request in requests {
            self.sizes.observe(request);
        }
        if let Some(sketches) = &mut self.sketches {
            sketches.observe_all(requests);
        }
    }

    /// Distances and turns.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Sizes of requests.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Where requests go.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What a part tells of its pages.
    pub fn sketches(&self) -> Option<&Sketches> {
        self.sketches.as_ref()
    }
}

impl Summary for Space {
    fn observe(&mut self, request: &Request) {
        self.observe_all(std::slice::from_ref(request));
    }

    fn merge(&mut self, later: &Self) {
        self.pages.merge(&later.pages);
        self.reuse.merge(&later.reuse);
        self.places.merge(&later.places);
        self.order.merge(&later.order);
        self.sizes.merge(&later.sizes);
        match (&mut self.sketches, &later.sketches) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => mine.clone_from(theirs),
            (Some(_), None) => {}
        }
    }
}

/// Everything at once.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Analysis {
    settings: Settings,
    time: Time,
    space: Space,
}

impl Analysis {
    /// Nothing yet, with these settings.
    pub fn new(settings: Settings) -> Self {
        let space = Space::new(&settings);
        Self { settings, time: Time::default(), space }
    }

    /// The same, which also keeps of its pages what this is asked for.
    #[must_use]
    pub fn with_sketches(mut self, sketches: Sketches) -> Self {
        self.space.sketches = Some(sketches);
        self
    }

    /// Of halves that were filled from the same requests.
    pub fn of(settings: Settings, time: Time, space: Space) -> Self {
        Self { settings, time, space }
    }

    /// Its settings and halves.
    pub fn into_parts(self) -> (Settings, Time, Space) {
        (self.settings, self.time, self.space)
    }

    /// The load over time.
    pub fn time(&self) -> &Time {
        &self.time
    }

    /// The load in space.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What was chosen.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Adds the requests of a batch.
    pub fn observe(&mut self, batch: &Batch) {
        in_pieces(batch, |requests| {
            self.time.observe_all(requests);
            self.space.observe_all(requests);
        });
    }

    /// Adds a later part of the same trace, or a part with other volumes, made with the same
    /// settings.
    pub fn merge(&mut self, later: &Self) {
        self.time.merge(&later.time);
        self.space.merge(&later.space);
    }

    /// Everything that was found. Names of volumes and processes come from the header.
    pub fn figures(&self, header: &Header, asked: &Asked) -> AnalysisFigures {
        let Time { seconds, arrivals, flight, spans, breakdown, .. } = &self.time;
        let Time { operations, steadiness, .. } = &self.time;
        let Space { pages, reuse, places, order, sizes, .. } = &self.space;
        let mut flight = flight.figures();
        let slow = flight.slowest_service.iter_mut().chain(&mut flight.slowest_response);
        for slow in slow {
            slow.count_around(seconds);
        }
        AnalysisFigures {
            version: ANALYSIS_VERSION,
            requests: self.time.requests,
            measured: self.time.measured,
            first_ns: self.time.first_ns.unwrap_or(0),
            end_ns: seconds.end_ns(),
            operations: operations.figures(header.files.is_some()),
            files: operations.files().filter(|_| header.files.is_none()),
            throughput: seconds.figures(asked.throughput_window_s),
            arrivals: arrivals.figures(),
            spans: spans.figures(),
            flight,
            volumes: breakdown.of_volumes(header, asked.listed),
            processes: breakdown.of_processes(header, asked.listed),
            programs: breakdown.of_programs(header, asked.listed),
            steady: steadiness.figures(),
            pages: pages.figures(),
            reuse: reuse.figures_for(&asked.all_caches()),
            places: places.figures(),
            order: order.figures(),
            sizes: sizes.figures(),
        }
    }
}

/// Everything that was found. The field names, with those of their fields, are the keys of
/// `ioecho analyze --json`, which `docs/analysis.md` explains.
#[derive(Clone, Debug, Serialize)]
pub struct AnalysisFigures {
    /// [`ANALYSIS_VERSION`].
    pub version: u32,
    /// All requests.
    pub requests: u64,
    /// Requests that a replay measured: all of a run, none of a load.
    pub measured: u64,
    /// When the first request was due, in nanoseconds from the start.
    pub first_ns: i64,
    /// The last instant of any request.
    pub end_ns: i64,
    /// What was asked for, by operation.
    pub operations: Vec<OperationFigures>,
    /// How many files the operations on files name; `None` of a load on devices, and of recorded
    /// files, whose names are in the header.
    pub files: Option<operations::Named>,
    /// Throughput, demanded and achieved.
    pub throughput: ThroughputFigures,
    /// Gaps and burstiness.
    pub arrivals: ArrivalFigures,
    /// Service time, response time and lateness by group.
    pub spans: Vec<SpanFigures>,
    /// In flight and waiting, correlations, the slowest requests.
    pub flight: FlightFigures,
    /// The shares of volumes, the largest first; the last without a number is the rest.
    pub volumes: Vec<Share>,
    /// The shares of processes; empty where they are not known.
    pub processes: Vec<Share>,
    /// The same, the processes of one name together.
    pub programs: Vec<Share>,
    /// When service times were steady.
    pub steady: SteadyFigures,
    /// Working sets, access frequency, overwrite intervals.
    pub pages: PageFigures,
    /// Reuse distance, miss ratio, the load that a cache leaves.
    pub reuse: ReuseFigures,
    /// Positions, distances, heat map, hottest regions.
    pub places: PlaceFigures,
    /// Turns, seeks, sequential streams.
    pub order: OrderFigures,
    /// Request sizes and alignment.
    pub sizes: SizeFigures,
}

impl AnalysisFigures {
    /// Whether it is a load on files, which reads and writes alone do not describe.
    pub fn is_of_files(&self) -> bool {
        self.operations.iter().any(|of| of.op.is_of_files())
    }

    /// Leaves out what counts from when requests were due, in a run in which nothing was: how late
    /// they were, and their response times.
    pub fn forget_schedule(&mut self) {
        self.spans.retain(|figures| figures.span == Span::Service);
        self.flight.slowest_response.clear();
    }
}
