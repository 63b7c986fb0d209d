//! What of a run Vdbench's reports need: its intervals, of all and of each storage and load.

use std::collections::BTreeMap;

use ioecho_run::directory::RunDirectory;
use ioecho_run::error::Result;
use ioecho_run::open::{self, Files};
use ioecho_stats::interval::Interval;
use ioecho_stats::picture::Kind;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::transform::Load;
use ioecho_trace::{Batch, Nanos, Outcome, Request, Stop};

/// The upper ends of Vdbench's bins of response times, in microseconds; above the last is one
/// more.
pub(super) const BINS_US: [u64; 26] = [
    20, 40, 60, 80, 100, 200, 400, 600, 800, 1_000, 2_000, 4_000, 6_000, 8_000, 10_000, 20_000,
    40_000, 60_000, 80_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_000_000, 2_000_000,
];

/// Requests of each kind by their service times.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bins([[u64; BINS_US.len() + 1]; Kind::COUNT]);

impl Bins {
    fn add(&mut self, kind: Kind, service: Nanos) {
        let bin = BINS_US.partition_point(|end| (service.0.max(0) as u64) >= end * 1000);
        self.0[kind.index()][bin] += 1;
    }

    /// The counts of a kind.
    pub(super) fn of(&self, kind: Kind) -> &[u64] {
        &self.0[kind.index()]
    }

    /// The counts of reads and writes together.
    pub(super) fn of_data(&self) -> Vec<u64> {
        let both = self.of(Kind::READ).iter().zip(self.of(Kind::WRITE));
        both.map(|(reads, writes)| reads + writes).collect()
    }
}

/// A part of a run: all of it, a storage, or a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Its intervals by their numbers, counted from 1; without those in which nothing happened.
    pub(super) intervals: BTreeMap<u64, Interval>,
    /// All that are measured, as one.
    pub(super) measured: Interval,
    /// The service times of the measured ones.
    pub(super) bins: Bins,
}

/// How a run is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Division {
    /// The length of an interval.
    pub(super) width: Nanos,
    /// When the run ends. What completes later counts in the last interval.
    pub(super) end: Nanos,
    /// The number of the first interval that is measured.
    pub(super) first: u64,
    /// The instant at which the run began, in nanoseconds since 1970.
    pub(super) epoch_ns: i64,
}

impl Division {
    /// The number of the last interval.
    pub(super) fn last(&self) -> u64 {
        (self.end.0.max(1) as u64).div_ceil(self.width.0.max(1) as u64).max(1)
    }

    /// The interval of an instant.
    fn number(&self, at: Nanos) -> u64 {
        let number = at.0.max(0) as u64 / self.width.0.max(1) as u64 + 1;
        number.min(self.last())
    }

    /// The interval of this number, in which nothing has happened yet.
    pub(super) fn interval(&self, number: u64) -> Interval {
        let start = (number as i64 - 1).saturating_mul(self.width.0);
        let end = start.saturating_add(self.width.0).min(self.end.0);
        let epoch_ns = self.epoch_ns.saturating_add(end);
        let mut interval = Interval::between(number, Nanos(start), Nanos(end));
        interval.epoch_ns = epoch_ns;
        interval
    }

    /// All that is measured, in which nothing has happened yet.
    pub(super) fn measured(&self) -> Interval {
        let last = self.interval(self.last());
        let first = self.interval(self.first);
        let mut measured = Interval::between(self.first, first.start, last.end);
        measured.epoch_ns = last.epoch_ns;
        measured
    }
}

/// Counts a run. `parts_of` names the parts that a request of a flow to a target belongs to, by
/// numbers below `count`.
pub(super) fn count(
    run: &RunDirectory,
    division: Division,
    parts_of: &dyn Fn(u16, u16) -> Vec<usize>,
    count: usize,
) -> Result<Vec<Part>> {
    let empty = Part { measured: division.measured(), ..Part::default() };
    let mut parts = vec![empty; count];
    let (stop, options) = (Stop::default(), ReadOptions::default());
    let mut source = open::trace_until(&Files, &stop, run.path(), &options, &Load::default())?;
    let mut batch = Batch::new(source.header().columns);
    let mut of_flow: BTreeMap<(u16, u16), Vec<usize>> = BTreeMap::new();
    while source.next_batch(&mut batch)? {
        for request in batch.iter() {
            let Some(measured) = &request.measured else { continue };
            let (flow, target) = (measured.flow, measured.target);
            let its = of_flow.entry((flow, target)).or_insert_with(|| parts_of(flow, target));
            for part in its {
                add(&mut parts[*part], &request, &division);
            }
        }
    }
    Ok(parts)
}

fn add(part: &mut Part, request: &Request, division: &Division) {
    let Some(measured) = &request.measured else { return };
    let at = measured.completed.or(measured.submitted).unwrap_or(measured.scheduled);
    let number = division.number(at);
    let interval = part.intervals.entry(number).or_insert_with(|| division.interval(number));
    interval.observe(request.op, request.length, measured);
    if number < division.first {
        return;
    }
    part.measured.observe(request.op, request.length, measured);
    let times = measured.submitted.zip(measured.completed);
    if let Some((submitted, completed)) = times.filter(|_| measured.outcome == Outcome::Ok) {
        part.bins.add(Kind::of(request.op), completed - submitted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Op;

    #[test]
    fn an_instant_belongs_to_one_interval_and_what_is_late_to_the_last() {
        let second = 1_000_000_000;
        let division =
            Division { width: Nanos(second), end: Nanos(5 * second / 2), first: 2, epoch_ns: 0 };
        let number = |ns: i64| division.number(Nanos(ns));
        assert_eq!((number(0), number(second - 1), number(second)), (1, 1, 2));
        assert_eq!((division.last(), number(9 * second)), (3, 3));
        assert!((division.interval(3).seconds() - 0.5).abs() < 1e-9);
        assert!((division.measured().seconds() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_service_time_is_below_the_end_of_its_bin() {
        let mut bins = Bins::default();
        for ns in [0, 19_999, 20_000, 1_999_999_999, 2_000_000_000, i64::MAX] {
            bins.add(Kind::READ, Nanos(ns));
        }
        bins.add(Kind::WRITE, Nanos(0));
        bins.add(Kind::of(Op::Create), Nanos(0));
        let reads = bins.of(Kind::READ);
        assert_eq!((reads[0], reads[1], reads[25], reads[26]), (2, 1, 1, 2));
        assert_eq!(bins.of_data().iter().sum::<u64>(), 7);
    }
}
