//! The figures of each of a run's targets.
//!
//! Of four disks behind one load, three may be idle while the fourth determines every figure of the
//! whole. So each target has its own row; the histograms behind them are made only for targets that
//! a request went to.

use ioecho_trace::{Measured, Nanos, Op, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::histogram::{Latencies, Percentiles};
use crate::late::LATE;

/// The figures of one of the run's targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetFigures {
    /// Which of the run's targets, counted from 0.
    pub target: u16,
    /// Requests that were meant for it.
    pub requests: u64,
    /// Requests that reached it.
    pub issued: u64,
    /// Requests issued that did not complete in full.
    pub failed: u64,
    /// Requests whose data were found damaged.
    pub damaged: u64,
    /// Requests later than a millisecond.
    pub late: u64,
    /// Bytes of reads that completed.
    pub bytes_read: u64,
    /// Bytes of writes that completed.
    pub bytes_written: u64,
    /// When the last request was submitted to it.
    pub last_submitted_ns: i64,
    /// Submitted − scheduled; `None` where nothing was issued.
    pub lateness: Option<Percentiles>,
    /// Completed − submitted; `None` where nothing completed in full.
    pub service_time: Option<Percentiles>,
}

impl TargetFigures {
    /// Leaves out how late requests were, in a run in which nothing was due.
    pub(crate) fn forget_schedule(&mut self) {
        (self.late, self.lateness) = (0, None);
    }
}

/// The targets of a run, fed request by request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerTarget {
    targets: Vec<One>,
}

#[derive(Clone, Debug, Default)]
struct One {
    figures: TargetFigures,
    lateness: Latencies,
    service: Latencies,
}

impl PerTarget {
    pub(crate) fn observe(&mut self, request: &Request, measured: &Measured) {
        let one = self.at(measured.target);
        let figures = &mut one.figures;
        figures.requests += 1;
        figures.damaged += u64::from(measured.integrity.is_damage());
        if !measured.outcome.was_issued() {
            return;
        }
        figures.issued += 1;
        if let (Some(lateness), Some(submitted)) = (measured.lateness(), measured.submitted) {
            figures.late += u64::from(lateness > LATE);
            figures.last_submitted_ns = figures.last_submitted_ns.max(submitted.0);
            one.lateness.record(lateness);
        }
        match (measured.service_time(), measured.outcome) {
            (Some(service), Outcome::Ok) => {
                one.service.record(service.max(Nanos::ZERO));
                match request.op {
                    Op::Read => {
                        figures.bytes_read = figures.bytes_read.saturating_add(request.length.0);
                    }
                    Op::Write => {
                        figures.bytes_written =
                            figures.bytes_written.saturating_add(request.length.0);
                    }
                    _ => {}
                }
            }
            _ => figures.failed += 1,
        }
    }

    fn at(&mut self, target: u16) -> &mut One {
        let index = usize::from(target);
        if index >= self.targets.len() {
            self.targets.resize_with(index + 1, One::default);
        }
        &mut self.targets[index]
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (index, theirs) in other.targets.iter().enumerate() {
            let One { figures, lateness, service } = theirs;
            // Its number is its place; the percentiles are made of the histograms, not kept.
            let TargetFigures {
                target: _,
                requests,
                issued,
                failed,
                damaged,
                late,
                bytes_read,
                bytes_written,
                last_submitted_ns,
                lateness: _,
                service_time: _,
            } = figures;
            let mine = self.at(index as u16);
            mine.lateness.merge(lateness);
            mine.service.merge(service);
            let mine = &mut mine.figures;
            mine.requests = mine.requests.saturating_add(*requests);
            mine.issued = mine.issued.saturating_add(*issued);
            mine.failed = mine.failed.saturating_add(*failed);
            mine.damaged = mine.damaged.saturating_add(*damaged);
            mine.late = mine.late.saturating_add(*late);
            mine.bytes_read = mine.bytes_read.saturating_add(*bytes_read);
            mine.bytes_written = mine.bytes_written.saturating_add(*bytes_written);
            mine.last_submitted_ns = mine.last_submitted_ns.max(*last_submitted_ns);
        }
    }

    /// How many targets requests were meant for: one more than the largest number seen.
    pub(crate) fn count(&self) -> u32 {
        self.targets.len() as u32
    }

    /// A row per target, also for those without a request.
    pub(crate) fn figures(&self, targets: u32) -> Vec<TargetFigures> {
        let count = self.targets.len().max(targets as usize);
        let row = |target: usize| {
            let one = self.targets.get(target).cloned().unwrap_or_default();
            TargetFigures {
                target: target as u16,
                lateness: Percentiles::of(&one.lateness),
                service_time: Percentiles::of(&one.service),
                ..one.figures
            }
        };
        (0..count).map(row).collect()
    }
}
