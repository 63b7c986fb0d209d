//! The figures of an interval of a run, for live views.
//!
//! Averages of intervals cannot be averaged again, and percentiles even less, so live figures would
//! differ from the summary's. So an interval keeps the same as the summary: counters and whole
//! histograms. Intervals add up to exactly the figures of the run
//! ([`crate::run_summary::RunSummary`]), in any grouping: a slow reader gets one line in ten
//! seconds with the same sums.

use ioecho_trace::{Bytes, LateCause, Measured, Nanos, Op, Outcome};

use crate::histogram::Latencies;
use crate::picture::{Kind, Span};
use crate::raster::Column;
use crate::run_summary::{ByKind, LATE, LateShare, Percentiles};
use crate::timeline::Cell;

/// The culprit of a late request: the groups in which the verdict weighs causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device: a conflict, the cap on requests in flight, a slow system call.
    Device,
    /// This program and the load that it makes: it read or prepared too slowly, was limited by
    /// another target's backlog, read data for verification, or had fewer files than threads.
    Generator,
    /// The host; unexplained lateness counts here, too.
    Host,
}

impl Fault {
    /// The culprit of a cause.
    pub const fn of(cause: LateCause) -> Self {
        match cause {
            LateCause::Conflict | LateCause::InFlightCap | LateCause::Submission => Self::Device,
            LateCause::Input
            | LateCause::Generator
            | LateCause::Backlog
            | LateCause::Verification
            | LateCause::File => Self::Generator,
            LateCause::Host | LateCause::None => Self::Host,
        }
    }
}

/// The figures of a stretch of a run. A request counts where its result was known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// The first of the intervals in it, counted from 1; 0 where there is none.
    pub number: u64,
    /// Where it begins, in the replay's own time.
    pub start: Nanos,
    /// Where it ends.
    pub end: Nanos,
    /// The wall clock at its end, nanoseconds since 1970 (UTC).
    pub epoch_ns: i64,
    /// Whether the run ended before the interval did.
    pub partial: bool,
    /// Requests that fell due; `None` where there is no schedule.
    pub demanded: Option<u64>,
    /// Requests in flight when it was closed, on all targets.
    pub in_flight: u32,
    /// Most requests in flight on a target as requests were submitted.
    pub in_flight_max: u32,
    /// Requests whose result became known: completed, failed or not issued.
    pub requests: u64,
    /// Requests that reached the device and did not complete in full.
    pub failed: u64,
    /// Requests that were never issued: they do not fit, or were dropped on conflict.
    pub not_issued: u64,
    /// Of those, the dropped ones.
    pub dropped: u64,
    /// Requests that waited for one that they overlap.
    pub pushed_back: u64,
    /// Requests that completed in full, by [`Kind`].
    pub completed_by_kind: [u64; Kind::COUNT],
    /// Bytes of reads that completed.
    pub bytes_read: u64,
    /// Bytes of writes that completed.
    pub bytes_written: u64,
    /// Service times by time and logarithm: a column of the sonar diagram.
    pub sonar: Column,
    late: [LateShare; LateCause::ALL.len()],
    spans: [[Latencies; Kind::COUNT]; Span::ALL.len()],
    /// Sums of squares of service times, ns², by kind.
    squares: [u128; Kind::COUNT],
}

impl Interval {
    /// An interval of this number from one instant to another, in which nothing has happened yet.
    pub fn between(number: u64, start: Nanos, end: Nanos) -> Self {
        Self { number, start, end, ..Self::default() }
    }

    /// Adds a result: what it asked for and what was measured.
    pub fn observe(&mut self, op: Op, length: Bytes, measured: &Measured) {
        let kind = Kind::of(op).index();
        self.requests += 1;
        self.pushed_back += u64::from(measured.pushed_back);
        self.in_flight_max = self.in_flight_max.max(measured.in_flight);
        if !measured.outcome.was_issued() {
            self.not_issued += 1;
            self.dropped += u64::from(measured.outcome == Outcome::Dropped);
        }
        if let Some(lateness) = measured.lateness() {
            self.spans[Span::Lateness as usize][kind].record(lateness);
            if lateness > LATE {
                let late = &mut self.late[measured.late_cause as usize];
                late.requests += 1;
                late.lateness_ns = late.lateness_ns.saturating_add(lateness.0);
            }
        }
        let times = measured.submitted.zip(measured.completed);
        let Some((submitted, completed)) = times.filter(|_| measured.outcome == Outcome::Ok) else {
            self.failed += u64::from(measured.outcome.was_issued());
            return;
        };
        // As the picture of the run has it: nothing happens before time zero.
        let completed = completed.max(Nanos::ZERO);
        let service = completed.saturating_sub(submitted.max(Nanos::ZERO));
        let response = completed.saturating_sub(measured.scheduled);
        self.completed_by_kind[kind] += 1;
        match op {
            Op::Read => self.bytes_read = self.bytes_read.saturating_add(length.0),
            Op::Write => self.bytes_written = self.bytes_written.saturating_add(length.0),
            _ => {}
        }
        self.sonar.record(service);
        self.spans[Span::Service as usize][kind].record(service);
        self.spans[Span::Response as usize][kind].record(response);
        let ns = u128::from(service.0.max(0).unsigned_abs());
        self.squares[kind] = self.squares[kind].saturating_add(ns * ns);
    }

    /// Leaves out what counts from when requests were due, in a run in which nothing was: how late
    /// they were, and their response times.
    pub fn forget_schedule(&mut self) {
        self.late = Default::default();
        for span in [Span::Lateness, Span::Response] {
            self.spans[span as usize] = Default::default();
        }
    }

    /// Adds another stretch of the same run, in any order. The result reaches from the earlier
    /// start to the later end.
    pub fn merge(&mut self, other: &Self) {
        if other.number == 0 && other.requests == 0 {
            return;
        }
        if self.number == 0 && self.requests == 0 {
            self.clone_from(other);
            return;
        }
        if other.end >= self.end {
            (self.epoch_ns, self.in_flight) = (other.epoch_ns, other.in_flight);
        }
        self.number = self.number.min(other.number);
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.partial |= other.partial;
        self.demanded = match (self.demanded, other.demanded) {
            (Some(mine), Some(theirs)) => Some(mine + theirs),
            (mine, theirs) => mine.or(theirs),
        };
        self.in_flight_max = self.in_flight_max.max(other.in_flight_max);
        self.requests = self.requests.saturating_add(other.requests);
        self.failed = self.failed.saturating_add(other.failed);
        self.not_issued = self.not_issued.saturating_add(other.not_issued);
        self.dropped = self.dropped.saturating_add(other.dropped);
        self.pushed_back = self.pushed_back.saturating_add(other.pushed_back);
        for (mine, theirs) in self.completed_by_kind.iter_mut().zip(other.completed_by_kind) {
            *mine = mine.saturating_add(theirs);
        }
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.bytes_written = self.bytes_written.saturating_add(other.bytes_written);
        self.sonar.merge(&other.sonar);
        for (mine, theirs) in self.late.iter_mut().zip(other.late) {
            mine.requests = mine.requests.saturating_add(theirs.requests);
            mine.lateness_ns = mine.lateness_ns.saturating_add(theirs.lateness_ns);
        }
        let theirs = other.spans.iter().flatten();
        for (mine, theirs) in self.spans.iter_mut().flatten().zip(theirs) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.squares.iter_mut().zip(other.squares) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// How long it is, in seconds; never zero.
    pub fn seconds(&self) -> f64 {
        self.end.saturating_sub(self.start).as_secs_f64().max(1e-9)
    }

    /// Requests that completed in full.
    pub fn completed(&self) -> u64 {
        self.completed_by_kind.iter().sum()
    }

    /// Requests of a kind that completed in full.
    pub fn completed_of(&self, kind: Kind) -> u64 {
        self.completed_by_kind[kind.index()]
    }

    /// Requests per second that fell due; `None` where there is no schedule.
    pub fn demanded_per_s(&self) -> Option<f64> {
        self.demanded.map(|demanded| demanded as f64 / self.seconds())
    }

    /// Requests per second that completed in full.
    pub fn completed_per_s(&self) -> f64 {
        self.completed() as f64 / self.seconds()
    }

    /// Bytes per second that reads and writes moved.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes_read.saturating_add(self.bytes_written) as f64 / self.seconds()
    }

    /// How many requests were in flight on average, over all targets: the sum of the service times
    /// of what completed, over the time (Little's law). Hanging requests are not included.
    pub fn in_flight_mean(&self) -> f64 {
        let busy: f64 = Kind::ALL
            .iter()
            .map(|kind| {
                let spans = self.spans(Span::Service, *kind);
                spans.count() as f64 * spans.mean().map_or(0.0, Nanos::as_secs_f64)
            })
            .sum();
        busy / self.seconds()
    }

    /// Requests submitted later than [`LATE`] for this cause.
    pub fn late_for(&self, cause: LateCause) -> LateShare {
        self.late[cause as usize]
    }

    /// Requests submitted later than [`LATE`].
    pub fn late(&self) -> u64 {
        self.late.iter().map(|share| share.requests).sum()
    }

    /// Of those, the ones of one culprit.
    pub fn late_by(&self, fault: Fault) -> u64 {
        let causes = LateCause::ALL.into_iter().filter(|cause| Fault::of(*cause) == fault);
        causes.map(|cause| self.late_for(cause).requests).sum()
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

    /// The percentiles of a span, by kind and of `all`, as `summary.json` has them.
    pub fn by_kind(&self, span: Span) -> ByKind {
        let kinds = Kind::ALL.into_iter().filter_map(|kind| {
            let percentiles = Percentiles::of(self.spans(span, kind))?;
            Some((kind.name().to_owned(), percentiles))
        });
        let all = Percentiles::of(&self.spans_of_all(span));
        kinds.chain(all.map(|all| ("all".to_owned(), all))).collect()
    }

    /// The standard deviation of the service times of these kinds, in nanoseconds: of what was
    /// seen, not an estimate of more. Zero of nothing.
    pub fn service_deviation(&self, kinds: &[Kind]) -> f64 {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for kind in kinds {
            let spans = self.spans(Span::Service, *kind);
            let of_kind = spans.count() as f64;
            count += of_kind;
            sum += of_kind * spans.mean().map_or(0.0, |mean| mean.0 as f64);
            squares += self.squares[kind.index()] as f64;
        }
        if count < 1.0 { 0.0 } else { (squares / count - (sum / count).powi(2)).max(0.0).sqrt() }
    }
}

#[cfg(test)]
mod tests;
