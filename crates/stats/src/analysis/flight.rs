//! How many requests were in flight, and how many were waiting to be.
//!
//! blkreplay's `g08.latency.flying` steps up at each submission and down at each completion,
//! `g09.delay.flying` up when a request falls due and down when it is submitted; its smoothed lines
//! are means over *events*, so that busy instants weigh more than quiet ones, and a second without
//! events does not count at all. Here means are weighted by time, as queueing theory requires.
//!
//! The means are exact for any part of the trace. The largest number on one volume is exact if the
//! rows are in the order in which the requests fell due, as in every trace and every timed run (the
//! module `sweep` describes how other orders are handled). The largest number over several volumes
//! together is not counted: a device queue is a volume's.
//!
//! There are [`QUEUES`] queues. The queue of a volume follows from its number alone, so that parts
//! agree on it, however the trace was cut.

use std::collections::BTreeMap;

use ioecho_trace::{Nanos, Request};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::correlation::{CorrelationFigures, Correlations};
use super::event::{Event, GROUPS, Group};
use super::shape::{Quantity, Series};
use super::slowest::{Slow, Slowest};
use super::subset::{SeriesOf, Subset};
use super::sweep::{HEAD, HEAD_MIN, Levels, PENDING_MAX, Row, Sweep, Witness};
use crate::count::steps::Steps;
use crate::timeline::{Cell, Timeline};

/// How many queues there are. Volumes whose numbers differ by a multiple of this share one: which
/// volumes those are must not depend on where a trace is cut, nor on which volume comes first.
/// Readers number volumes from 0, so that as many have a queue of their own.
pub const QUEUES: u32 = 1 << 10;

/// How many waiting requests are counted: where [`FlightFigures::waiting_max`] is this, there were
/// at least so many.
pub const WAITING_MAX: u32 = PENDING_MAX as u32;

/// The first rows that are kept of all queues together, in some 30 MB, beyond which a queue keeps
/// [`HEAD_MIN`] of its own at least.
const HEADS_MAX: usize = 1 << 18;

/// The changes of levels in a bucket of time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Moved {
    flying: [Steps; GROUPS],
    waiting: [Steps; GROUPS],
    recorded: Steps,
}

impl Cell for Moved {
    fn merge(&mut self, other: &Self) {
        let theirs = other.flying.iter().chain(&other.waiting).chain([&other.recorded]);
        let mine = self.flying.iter_mut().chain(&mut self.waiting).chain([&mut self.recorded]);
        mine.zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

/// The largest levels in a bucket of time, of those to which they rise in it: of each group, and
/// last of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Most {
    flying: [u32; GROUPS + 1],
    waiting: u32,
}

impl Cell for Most {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.flying.iter_mut().zip(other.flying) {
            *mine = (*mine).max(theirs);
        }
        self.waiting = self.waiting.max(other.waiting);
    }
}

/// Figures from the levels at single submissions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct SubmissionLevels {
    most: Timeline<Most>,
    correlations: Correlations,
    slowest: Slowest,
}

impl Witness for SubmissionLevels {
    fn fell_due(&mut self, scheduled: i64, waiting: u32) {
        let most = &mut self.most.at(Nanos(scheduled)).waiting;
        *most = (*most).max(waiting);
    }

    fn submitted(&mut self, row: &Row, levels: Levels) {
        let most = self.most.at(Nanos(row.submitted));
        let own = &mut most.flying[row.group.index()];
        *own = (*own).max(levels.own);
        most.flying[GROUPS] = most.flying[GROUPS].max(levels.flying);
        self.correlations.add(row, levels);
        self.slowest.add(row, levels);
    }
}

/// Requests in flight and waiting, what their number did to latency, and the slowest of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flight {
    moved: Timeline<Moved>,
    sweeps: BTreeMap<u32, Sweep>,
    /// First rows in all sweeps.
    heads: usize,
    found: SubmissionLevels,
    /// Whether a replay measured anything: without it nothing waits.
    measured: bool,
    recorded: bool,
    first: Option<Nanos>,
    end: Nanos,
}

impl Summary for Flight {
    fn observe(&mut self, request: &Request) {
        self.add(request, &Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        self.moved.merge(&later.moved);
        self.found.most.merge(&later.found.most);
        self.found.correlations.merge(&later.found.correlations);
        self.found.slowest.merge(&later.found.slowest);
        for (queue, theirs) in &later.sweeps {
            let limit = head_limit(self.heads);
            let mine = self.sweeps.entry(*queue).or_default();
            let before = mine.head_rows();
            mine.merge(theirs, limit, &mut self.found);
            self.heads += mine.head_rows() - before;
        }
        self.measured |= later.measured;
        self.recorded |= later.recorded;
        self.end = self.end.max(later.end);
        self.first = match (self.first, later.first) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// How many first rows a queue keeps where there are so many of all.
fn head_limit(heads: usize) -> usize {
    if heads < HEADS_MAX { HEAD } else { HEAD_MIN }
}

impl Flight {
    pub(crate) fn add(&mut self, request: &Request, event: &Event) {
        let group = event.group.index();
        self.measured |= event.measured;
        self.end = self.end.max(Nanos(event.end()));
        let first = self.first.get_or_insert(Nanos(event.scheduled));
        *first = (*first).min(Nanos(event.scheduled));
        if let Some(recorded) = event.recorded {
            self.recorded = true;
            self.end = self.end.max(Nanos(recorded));
            self.moved.at(Nanos(event.scheduled)).recorded.begin(Nanos(event.scheduled));
            self.moved.at(Nanos(recorded)).recorded.finish(Nanos(recorded));
        }
        let Some(row) = Row::of(request, event) else { return };
        if event.measured && row.submitted > row.scheduled {
            let (from, to) = (Nanos(row.scheduled), Nanos(row.submitted));
            self.moved.at(from).waiting[group].begin(from);
            self.moved.at(to).waiting[group].finish(to);
        }
        let submitted = Nanos(row.submitted);
        self.moved.at(submitted).flying[group].begin(submitted);
        // A request that never completed is in flight to the end.
        if let Some(completed) = row.completed.map(Nanos) {
            self.moved.at(completed).flying[group].finish(completed);
        }
        let limit = head_limit(self.heads);
        let sweep = self.sweeps.entry(event.volume % QUEUES).or_default();
        self.heads += usize::from(sweep.add(&row, limit, &mut self.found));
    }

    /// The figures.
    pub fn figures(&self) -> FlightFigures {
        let mut found = self.found.clone();
        for sweep in self.sweeps.values() {
            sweep.finish(&mut found);
        }
        let mut moved = self.moved.clone();
        let wider = moved.doublings().max(found.most.doublings());
        moved.widen_to(wider);
        found.most.widen_to(wider);
        let first = self.first.unwrap_or(Nanos::ZERO).max(Nanos::ZERO);
        let steps = Lines { moved: &moved, first, end: self.end };
        let (flying, flying_mean) = steps.by_group(|cell| &cell.flying);
        let (waiting, waiting_mean) = steps.by_group(|cell| &cell.waiting);
        let recorded = |cell: &Moved| cell.recorded;
        let recorded = self.recorded.then(|| steps.line("recorded", recorded));
        let peak = |of: fn(&Most) -> u32| found.most.cells().iter().map(of).max().unwrap_or(0);
        let is_one = self.sweeps.len() == 1;
        let rises = found.most.cells();
        let most = |of: Subset, rise: fn(&Most) -> u32, moved: &dyn Fn(&Moved) -> Steps| {
            let rise = |bucket| rises.get(bucket).map_or(0, rise);
            SeriesOf { of, series: steps.most(of.name(), rise, moved, is_one) }
        };
        let known = !self.sweeps.is_empty();
        FlightFigures {
            in_flight_mean: known.then_some(flying_mean),
            in_flight_max: known.then(|| peak(|cell| cell.flying[GROUPS])),
            waiting_mean: self.measured.then_some(waiting_mean),
            waiting_max: self.measured.then(|| peak(|cell| cell.waiting)),
            recorded_mean: recorded.as_ref().map(|(_, mean)| *mean),
            in_flight: if known { flying } else { Vec::new() },
            in_flight_most: if known {
                vec![
                    most(Subset::Reads, |cell| cell.flying[Group::Read.index()], &|cell| {
                        cell.flying[Group::Read.index()]
                    }),
                    most(Subset::Writes, |cell| cell.flying[Group::Write.index()], &|cell| {
                        cell.flying[Group::Write.index()]
                    }),
                    most(Subset::All, |cell| cell.flying[GROUPS], &|cell| sum(&cell.flying)),
                ]
            } else {
                Vec::new()
            },
            waiting: if self.measured { waiting } else { Vec::new() },
            waiting_most: self
                .measured
                .then(|| most(Subset::All, |cell| cell.waiting, &|cell| sum(&cell.waiting)).series),
            recorded: recorded.map(|(series, _)| series),
            correlations: found.correlations.figures(),
            slowest_service: found.slowest.by_service().to_vec(),
            slowest_response: found.slowest.by_response().to_vec(),
        }
    }
}

/// Makes lines of steps.
struct Lines<'a> {
    moved: &'a Timeline<Moved>,
    /// When the first request was due: the time before is not counted as quiet.
    first: Nanos,
    end: Nanos,
}

impl Lines<'_> {
    /// The mean level in each bucket, weighted by time, and over the whole.
    fn line(&self, name: &str, steps: impl Fn(&Moved) -> Steps) -> (Series, f64) {
        let width = self.moved.width().0;
        let (mut level, mut area) = (0, 0.0);
        let mut values = Vec::with_capacity(self.moved.cells().len());
        for (at, cell) in self.moved.cells().iter().enumerate() {
            let from = at as i64 * width;
            // The last bucket ends where the trace does.
            let to = from.saturating_add(width).min(self.end.0);
            let (mean, after) = steps(cell).mean(level, from, to.max(from));
            area += mean * (to.max(from) - from) as f64;
            level = after;
            values.push(Some(mean));
        }
        let quantity = Quantity::new("requests", "1");
        let length = self.end.saturating_sub(self.first).0;
        let mean = if length > 0 { area / length as f64 } else { 0.0 };
        let name = name.to_owned();
        (Series { name, quantity, start_ns: 0, step_ns: width, values }, mean)
    }

    /// Groups that occur, and all.
    fn by_group(&self, of: fn(&Moved) -> &[Steps; GROUPS]) -> (Vec<SeriesOf>, f64) {
        let mut all = Vec::new();
        for group in Group::ALL {
            let steps = |cell: &Moved| of(cell)[group.index()];
            if self.moved.cells().iter().any(|cell| steps(cell) != Steps::default()) {
                let (series, _) = self.line(group.name(), steps);
                all.push(SeriesOf { of: group.into(), series });
            }
        }
        let (whole, mean) = self.line(Subset::All.name(), |cell| sum(of(cell)));
        all.push(SeriesOf { of: Subset::All, series: whole });
        (all, mean)
    }

    /// The largest level in each bucket: that to which it rises in it, or that with which it
    /// begins, which is known if there is one volume only. `None` where neither is known.
    fn most(
        &self,
        name: &str,
        rise: impl Fn(usize) -> u32,
        steps: impl Fn(&Moved) -> Steps,
        is_one: bool,
    ) -> Series {
        let mut level = 0;
        let mut values = Vec::with_capacity(self.moved.cells().len());
        for (bucket, cell) in self.moved.cells().iter().enumerate() {
            let risen = i64::from(rise(bucket));
            let most = if is_one { risen.max(level) } else { risen };
            values.push((is_one || risen > 0).then_some(most as f64));
            level = steps(cell).after(level);
        }
        let quantity = Quantity::new("requests", "1");
        let step_ns = self.moved.width().0;
        Series { name: name.to_owned(), quantity, start_ns: 0, step_ns, values }
    }
}

/// The steps of all groups together.
fn sum(groups: &[Steps; GROUPS]) -> Steps {
    let mut sum = Steps::default();
    for steps in groups {
        sum.merge(steps);
    }
    sum
}

/// Requests in flight and waiting. Unknown values are `None` or empty: all for a load without
/// latencies, those of waiting requests for a load with latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlightFigures {
    /// Mean number in flight over the whole trace, weighted by time, all volumes together.
    pub in_flight_mean: Option<f64>,
    /// The most in flight on one volume.
    pub in_flight_max: Option<u32>,
    /// Mean number waiting: due and not submitted.
    pub waiting_mean: Option<f64>,
    /// The most waiting on one volume; [`WAITING_MAX`] for more.
    pub waiting_max: Option<u32>,
    /// Of a run: the mean number that would have been in flight with the recorded latencies.
    pub recorded_mean: Option<f64>,
    /// Mean number in flight in equal steps of time by group, and all (`g08.latency.flying`).
    pub in_flight: Vec<SeriesOf>,
    /// The most in flight on one volume in each step: reads, writes and all. Of several volumes
    /// only steps with a submission are known.
    pub in_flight_most: Vec<SeriesOf>,
    /// Mean number waiting (`g09.delay.flying`).
    pub waiting: Vec<SeriesOf>,
    /// The most waiting on one volume in each step. Of several volumes only steps are known in
    /// which a request fell due that had to wait.
    pub waiting_most: Option<Series>,
    /// Of a run: in flight with the recorded latencies.
    pub recorded: Option<Series>,
    /// Latency and lateness against what was in flight, and others.
    pub correlations: Vec<CorrelationFigures>,
    /// The requests with the longest service times, the longest first.
    pub slowest_service: Vec<Slow>,
    /// Of a run: the requests with the longest response times.
    pub slowest_response: Vec<Slow>,
}
