//! The data of all diagrams of a run, from one pass over its requests.
//!
//! A report must show where a device was slow, whether the replay kept its schedule and how many
//! requests were in flight, for a run of a second as for one of a week, without keeping its
//! requests. [`RunPicture`] is fed batch by batch, holds some megabytes whatever the length, and
//! pictures of parts merge to the picture of the whole. [`RunPicture::finish`] brings all of it on
//! one axis.
//!
//! Which instant counts:
//! * *demanded*: every request of the plan, by the instant it was scheduled for;
//! * *lateness*: every request that was submitted, by the instant it was scheduled for;
//! * *achieved*, service time and response time: requests that completed in full
//!   ([`Outcome::Ok`]). A quick error is not a quick answer, so failures are counted separately;
//! * *in flight*: from submission to completion, failed or not. An abandoned request is in flight
//!   to the end of the run.

mod class;
mod flow;
mod kind;
mod moments;
mod panels;
mod rate;
mod volumes;

use std::collections::BTreeMap;

use ioecho_trace::{Batch, LateCause, Measured, Nanos, Op, Outcome, Request};
use serde::Serialize;

use crate::histogram::Latencies;
use crate::late::LATE;
use crate::raster::Raster;
use crate::timeline::Timeline;

pub use class::Class;
use flow::{Bucket, Slowest};
pub use kind::Kind;
pub use moments::Moment;
pub use panels::Panels;
pub use rate::Rate;
use volumes::Volumes;
pub use volumes::{Sonar, VOLUMES_MAX};

/// The three spans of a request, which are always told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Span {
    /// Completed − submitted.
    Service,
    /// Completed − scheduled: free of coordinated omission.
    Response,
    /// Submitted − scheduled.
    Lateness,
}

impl Span {
    /// Every span.
    pub const ALL: [Self; 3] = [Self::Service, Self::Response, Self::Lateness];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "service time",
            Self::Response => "response time",
            Self::Lateness => "lateness",
        }
    }
}

/// How often the outcome with a code ([`Outcome::code`]) occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutcomeCount {
    /// The outcome in a word or two.
    pub name: String,
    /// Whether the request completed in full.
    pub ok: bool,
    /// How many requests came out so.
    pub count: u64,
}

/// The picture of a run or of a part of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunPicture {
    sonar: Sonar,
    volumes: Volumes,
    lateness: Raster,
    flow: Timeline<Bucket>,
    spans: [[Latencies; Kind::COUNT]; Span::ALL.len()],
    /// By the code of the outcome and the operation.
    outcomes: BTreeMap<(i32, Op), u64>,
    /// Service times by [`Class`], which no sum of [`Kind`]s is.
    classes: [Latencies; Class::COUNT],
    /// The slowest request by [`Class`] and instant of submission. Axes apart from the flow: most
    /// classes never occur.
    slowest: [Timeline<Slowest>; Class::COUNT],
    /// Calls on whole files that completed in full, by [`Kind`] and instant of completion.
    files: [Timeline<u64>; Kind::COUNT],
    late_causes: [u64; LateCause::ALL.len()],
    unmeasured: u64,
    recorded: bool,
    demanded_end: Nanos,
    achieved_end: Nanos,
    end: Nanos,
}

impl RunPicture {
    /// A picture of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the requests of a batch. A request that carries nothing measured is only counted.
    pub fn observe(&mut self, batch: &Batch) {
        for request in batch.iter() {
            self.observe_one(&request);
        }
    }

    /// Adds a request. One that carries nothing measured is only counted.
    pub(crate) fn observe_one(&mut self, request: &Request) {
        match &request.measured {
            Some(measured) => self.add(request, measured),
            None => self.unmeasured += 1,
        }
    }

    /// Adds the requests of a load that was not replayed: what it demands and, where latencies were
    /// recorded, those in place of service times, at the instants of issue. Nothing counts as
    /// measured.
    pub fn observe_loads(&mut self, requests: &[Request]) {
        for request in requests {
            self.unmeasured += 1;
            let moves_data = matches!(request.op, Op::Read | Op::Write);
            let bytes = if moves_data { request.length.0 } else { 0 };
            let issued = request.issue.max(Nanos::ZERO);
            self.demanded_end = self.demanded_end.max(issued);
            self.end = self.end.max(issued);
            self.flow.at(issued).demand(bytes);
            let Some(latency) = request.latency else { continue };
            let latency = latency.max(Nanos::ZERO);
            let end = issued.saturating_add(latency);
            self.recorded = true;
            self.end = self.end.max(end);
            self.flow.at(issued).recorded.begin(issued);
            self.flow.at(end).recorded.finish(end);
            let class = Class::of(request.op, false).index();
            if let Some(sonar) = self.volumes.of(request.volume.0, &self.sonar) {
                sonar[class].at(issued).record(latency);
            }
            self.sonar[class].at(issued).record(latency);
            self.classes[class].record(latency);
            self.slowest[class].at(issued).serve(latency);
            self.spans[Span::Service as usize][Kind::of(request.op).index()].record(latency);
        }
    }

    fn add(&mut self, request: &Request, measured: &Measured) {
        // Discards move no data: counted in MiB/s, one of them would dwarf everything else.
        let moves_data = matches!(request.op, Op::Read | Op::Write);
        let bytes = if moves_data { request.length.0 } else { 0 };
        let kind = Kind::of(request.op).index();
        let done = measured.outcome == Outcome::Ok;

        *self.outcomes.entry((measured.outcome.code(), request.op)).or_default() += 1;
        let scheduled = measured.scheduled.max(Nanos::ZERO);
        self.demanded_end = self.demanded_end.max(scheduled);
        self.end = self.end.max(scheduled);
        self.flow.at(scheduled).demand(bytes);
        if let Some(latency) = request.latency {
            let end = scheduled.saturating_add(latency.max(Nanos::ZERO));
            self.recorded = true;
            self.end = self.end.max(end);
            self.flow.at(scheduled).recorded.begin(scheduled);
            self.flow.at(end).recorded.finish(end);
        }

        let Some(submitted) = measured.submitted else { return };
        let lateness = submitted.saturating_sub(measured.scheduled);
        let submitted = submitted.max(Nanos::ZERO);
        self.achieved_end = self.achieved_end.max(submitted);
        self.end = self.end.max(submitted);
        if lateness > LATE {
            self.late_causes[measured.late_cause as usize] += 1;
        }
        self.spans[Span::Lateness as usize][kind].record(lateness);
        self.lateness.at(scheduled).record(lateness);
        self.flow.at(scheduled).late(lateness);
        self.flow.at(submitted).submit(submitted, measured.in_flight);

        let Some(completed) = measured.completed.map(|at| at.max(Nanos::ZERO)) else { return };
        self.achieved_end = self.achieved_end.max(completed);
        self.end = self.end.max(completed);
        self.flow.at(completed).complete(completed, bytes, done);
        if done {
            if request.op.is_of_a_file() {
                *self.files[kind].at(completed) += 1;
            }
            let service = completed.saturating_sub(submitted);
            let class = Class::of(request.op, measured.pushed_back).index();
            if let Some(sonar) = self.volumes.of(request.volume.0, &self.sonar) {
                sonar[class].at(submitted).record(service);
            }
            self.sonar[class].at(submitted).record(service);
            self.classes[class].record(service);
            self.slowest[class].at(submitted).serve(service);
            self.spans[Span::Service as usize][kind].record(service);
            let response = completed.saturating_sub(measured.scheduled);
            self.spans[Span::Response as usize][kind].record(response);
        }
    }

    /// Adds the picture of another part of the same run, in any order.
    pub fn merge(&mut self, other: &Self) {
        self.volumes.merge(&self.sonar, &other.volumes, &other.sonar);
        for (mine, theirs) in self.sonar.iter_mut().zip(&other.sonar) {
            mine.merge(theirs);
        }
        self.lateness.merge(&other.lateness);
        self.flow.merge(&other.flow);
        let theirs = other.spans.iter().flatten();
        for (mine, theirs) in self.spans.iter_mut().flatten().zip(theirs) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.slowest.iter_mut().zip(&other.slowest) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.files.iter_mut().zip(&other.files) {
            mine.merge(theirs);
        }
        for (which, count) in &other.outcomes {
            *self.outcomes.entry(*which).or_default() += count;
        }
        for (mine, theirs) in self.late_causes.iter_mut().zip(&other.late_causes) {
            *mine += theirs;
        }
        self.unmeasured += other.unmeasured;
        self.recorded |= other.recorded;
        self.demanded_end = self.demanded_end.max(other.demanded_end);
        self.achieved_end = self.achieved_end.max(other.achieved_end);
        self.end = self.end.max(other.end);
    }

    /// How many requests carried measured columns.
    pub fn requests(&self) -> u64 {
        self.outcomes.values().sum()
    }

    /// How many requests carried none: they are in no other figure.
    pub fn unmeasured(&self) -> u64 {
        self.unmeasured
    }

    /// When the last request was due: the demanded duration.
    pub fn demanded_end(&self) -> Nanos {
        self.demanded_end
    }

    /// The last submission or completion: how long the run took.
    pub fn achieved_end(&self) -> Nanos {
        self.achieved_end
    }

    /// The last instant seen, counted from the start of the run; recorded latencies count too.
    pub fn end(&self) -> Nanos {
        self.end
    }

    /// The spans of one kind of request.
    pub fn spans(&self, span: Span, kind: Kind) -> &Latencies {
        &self.spans[span as usize][kind.index()]
    }

    /// The spans of all requests.
    pub fn spans_of_all(&self, span: Span) -> Latencies {
        let mut all = Latencies::new();
        self.spans[span as usize].iter().for_each(|kind| all.merge(kind));
        all
    }

    /// The service times of one class of request.
    pub fn service_of_class(&self, class: Class) -> &Latencies {
        &self.classes[class.index()]
    }

    /// How often each outcome occurred, success first, only those that did.
    pub fn outcomes(&self) -> Vec<OutcomeCount> {
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        for ((code, _), count) in &self.outcomes {
            *counts.entry(*code).or_default() += count;
        }
        let count_of = |(code, count): (i32, u64)| {
            let outcome = Outcome::from_code(code)?;
            Some(OutcomeCount { name: outcome.name(), ok: outcome == Outcome::Ok, count })
        };
        let mut outcomes: Vec<_> = counts.into_iter().filter_map(count_of).collect();
        outcomes.sort_by_key(|outcome| !outcome.ok);
        outcomes
    }

    /// How often each operation failed, and how: requests that were issued and did not complete in
    /// full.
    pub fn failures(&self) -> impl Iterator<Item = (Op, Outcome, u64)> + '_ {
        self.outcomes.iter().filter_map(|((code, op), count)| {
            let outcome = Outcome::from_code(*code)?;
            let has_failed = outcome.was_issued() && outcome != Outcome::Ok;
            has_failed.then_some((*op, outcome, *count))
        })
    }

    /// How many requests were submitted later than [`LATE`] for each cause, known or not, in the
    /// order of [`LateCause::ALL`]. Together they are those that the verdict counts.
    pub fn late_causes(&self) -> &[u64; LateCause::ALL.len()] {
        &self.late_causes
    }

    /// Everything on one axis of time, as plain columns to draw or to write down.
    pub fn finish(&self) -> Panels {
        Panels::of(self)
    }
}

#[cfg(test)]
pub(crate) mod tests;
