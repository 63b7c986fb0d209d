//! Figures of a run's load in relation to its targets.
//!
//! No single request shows whether a load fits into a cache, whether the device was steady, or
//! whether several volumes got the same load, and a run may have billions of requests. So each
//! question has a small sum here, fed request by request with a run's other figures; the verdict's
//! checks read them at the end.

mod backlog;
mod demand;
mod drift;
mod regions;
mod standstill;
mod touched;

use ioecho_trace::{Measured, Nanos, Op, Outcome, Request};

use backlog::Backlog;
pub use backlog::Growth;
use demand::Demand;
pub use demand::SameDemand;
use drift::Drift;
pub use drift::{Course, Unsettled};
use regions::Regions;
pub use standstill::Pauses;
use standstill::Standstill;
pub use touched::PAGE;
use touched::Touched;

/// What the records of a run say of its load, fed request by request.
#[derive(Clone, Debug, Default)]
pub struct LoadFigures {
    targets: Vec<OnTarget>,
    drift: Drift,
    backlog: Backlog,
    standstill: Standstill,
    demand: Demand,
    in_flight: InFlight,
    writes: u64,
}

/// What the load touched of one target.
#[derive(Clone, Debug, Default)]
struct OnTarget {
    touched: Touched,
    regions: Regions,
}

/// How much of a target a run touched, estimated where it is much.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TouchedFigures {
    /// Bytes in distinct pages of [`PAGE`] that were read or written.
    pub bytes: u64,
    /// The share of pages read that the run had read or written before.
    pub again: f64,
}

/// Mean numbers of requests in flight: replayed, and recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InFlightFigures {
    /// In the replay.
    pub replayed: f64,
    /// In the recording, where the same requests took as long as it says.
    pub recorded: f64,
}

impl LoadFigures {
    /// Adds a request and what was measured of it.
    pub(crate) fn observe(&mut self, request: &Request, measured: &Measured) {
        self.demand.observe(request.volume, measured.scheduled);
        if let Some(completed) = measured.completed {
            self.standstill.observe(completed);
        }
        // What waits for a request that it overlaps says nothing about the device's own queue.
        if measured.outcome == Outcome::Ok
            && !measured.pushed_back
            && let Some(response) = measured.response_time()
        {
            self.backlog.observe(measured.scheduled, response);
        }
        let moves_data = matches!(request.op, Op::Read | Op::Write);
        if !measured.outcome.was_issued() || !moves_data {
            return;
        }
        self.writes += u64::from(request.op == Op::Write);
        let offset = measured.target_offset.unwrap_or(request.offset).0;
        let one = self.at(measured.target);
        one.touched.touch(offset, request.length.0, request.op == Op::Read);
        one.regions.add(offset);
        if measured.outcome == Outcome::Ok
            && let (Some(submitted), Some(service)) = (measured.submitted, measured.service_time())
        {
            self.drift.observe(request, measured, submitted, service);
            self.in_flight.observe(request, submitted, service);
        }
    }

    fn at(&mut self, target: u16) -> &mut OnTarget {
        let index = usize::from(target);
        if index >= self.targets.len() {
            self.targets.resize_with(index + 1, OnTarget::default);
        }
        &mut self.targets[index]
    }

    /// Adds what a later part of the same run found.
    pub(crate) fn merge(&mut self, later: &Self) {
        for (index, theirs) in later.targets.iter().enumerate() {
            let mine = self.at(index as u16);
            mine.touched.merge(&theirs.touched);
            mine.regions.merge(&theirs.regions);
        }
        self.drift.merge(&later.drift);
        self.backlog.merge(&later.backlog);
        self.standstill.merge(&later.standstill);
        self.demand.merge(&later.demand);
        self.in_flight.merge(&later.in_flight);
        self.writes += later.writes;
    }

    /// How much of a target was touched; nothing of one that no request went to.
    pub fn touched(&self, target: usize) -> TouchedFigures {
        self.targets.get(target).map(|one| one.touched.figures()).unwrap_or_default()
    }

    /// Writes that were issued.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Weighs `shares`, which belong to equal parts of a target of `part` bytes each, by how often
    /// the load went to each part; `None` where it went to no part with a share.
    pub fn weighed(&self, target: usize, part: u64, shares: &[Option<f64>]) -> Option<f64> {
        self.targets.get(target)?.regions.weigh(part, shares)
    }

    /// The course of the device's service times over the run.
    pub fn course(&self) -> Course {
        self.drift.course()
    }

    /// How the backlog of the devices grew until the load ended; `None` where it did not.
    pub fn growth(&self) -> Option<Growth> {
        self.backlog.growth()
    }

    /// For how long nothing was completed; `None` where nothing ever was.
    pub fn pauses(&self) -> Option<Pauses> {
        self.standstill.pauses()
    }

    /// The two volumes whose demand rose and fell together the most.
    pub fn same_demand(&self) -> Option<SameDemand> {
        self.demand.most_alike()
    }

    /// How many requests were in flight in the mean, where the recording tells of its own.
    pub fn in_flight(&self) -> Option<InFlightFigures> {
        self.in_flight.figures()
    }
}

/// Sums for the mean number in flight. By Little's law it is the sum of all stays by the time that
/// they are spread over.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    requests: u64,
    replayed: Stays,
    recorded: Stays,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stays {
    sum_ns: i128,
    /// When the first began and the last ended.
    span: Option<(i64, i64)>,
}

impl Stays {
    fn add(&mut self, from: Nanos, stay: Nanos) {
        let stay = stay.0.max(0);
        self.sum_ns += i128::from(stay);
        self.widen(from.0, from.0.saturating_add(stay));
    }

    fn widen(&mut self, from: i64, to: i64) {
        let (first, last) = self.span.unwrap_or((from, to));
        self.span = Some((first.min(from), last.max(to)));
    }

    fn merge(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        if let Some((from, to)) = other.span {
            self.widen(from, to);
        }
    }

    fn mean(&self) -> Option<f64> {
        let (from, to) = self.span?;
        let span = i128::from(to) - i128::from(from);
        (span > 0).then(|| self.sum_ns as f64 / span as f64)
    }
}

impl InFlight {
    fn observe(&mut self, request: &Request, submitted: Nanos, service: Nanos) {
        let Some(latency) = request.latency else { return };
        self.requests += 1;
        self.replayed.add(submitted, service);
        self.recorded.add(request.issue, latency);
    }

    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.replayed.merge(&other.replayed);
        self.recorded.merge(&other.recorded);
    }

    fn figures(&self) -> Option<InFlightFigures> {
        let (replayed, recorded) = (self.replayed.mean()?, self.recorded.mean()?);
        (recorded > 0.0).then_some(InFlightFigures { replayed, recorded })
    }
}

#[cfg(test)]
pub(crate) mod tests;
