//! Counts as rows that any database can add up.
//!
//! Ten thousand traces of a fleet are summarised where they lie, and combining the results should
//! not need ioecho. So all counts that merge by addition are stored as rows of a name, a subject, a
//! time and a number: `sum(value) group by` all other columns is the merge. Figures that do not add
//! up (levels, orders of arrival, samples) are not here.

use ioecho_trace::log_linear::greatest;

use super::all::Time;
use super::breakdown::Share;
use super::event::Group;
use super::seconds::Amount;
use crate::histogram::THREE_DIGITS;

/// A row. Rows that agree in everything but `value` add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What is counted, such as `demanded.requests` or `service_ns`.
    pub metric: &'static str,
    /// Of which volume; `None` of all.
    pub volume: Option<u32>,
    /// `read`, `write`, `other`, `pushed-back`, or a group; empty of all.
    pub op: &'static str,
    /// The beginning of the span of time that it is counted in; `None` of the whole.
    pub time_ns: Option<i64>,
    /// Of histograms the largest value of the bucket, of processes their number.
    pub key: Option<u64>,
    /// The count.
    pub value: u64,
}

impl Row {
    const fn of(metric: &'static str, op: &'static str, value: u64) -> Self {
        Self { metric, volume: None, op, time_ns: None, key: None, value }
    }
}

const OPS: [&str; 4] = ["read", "write", "other", "pushed-back"];

impl Time {
    /// Hands every row to `take`; those with nothing in them are left out.
    pub fn rows(&self, mut take: impl FnMut(Row)) {
        let mut give = |row: Row| {
            if row.value > 0 {
                take(row);
            }
        };
        self.rows_of_seconds(&mut give);
        for group in Group::ALL {
            for (metric, spans) in self.spans().named(group) {
                for (bin, count) in spans.filled() {
                    let largest = Some(greatest::<THREE_DIGITS>(bin));
                    give(Row { key: largest, ..Row::of(metric, group.name(), count) });
                }
            }
        }
        let rows = |shares: Vec<Share>, metrics: [&'static str; 2], of_volume: bool| {
            let mut all = Vec::new();
            for share in shares {
                let (volume, key) =
                    if of_volume { (share.id, None) } else { (None, share.id.map(u64::from)) };
                let other = Amount { requests: share.other, bytes: 0 };
                for (op, amount) in OPS.into_iter().zip([share.reads, share.writes, other]) {
                    let row = |metric, value| Row { volume, key, ..Row::of(metric, op, value) };
                    all.push(row(metrics[0], amount.requests));
                    all.push(row(metrics[1], amount.bytes));
                }
            }
            all
        };
        let header = ioecho_trace::Header::default();
        let breakdown = self.breakdown();
        let of_volumes = breakdown.of_volumes(&header, usize::MAX);
        rows(of_volumes, ["volume.requests", "volume.bytes"], true).into_iter().for_each(&mut give);
        let of_processes = breakdown.of_processes(&header, usize::MAX);
        let metrics = ["process.requests", "process.bytes"];
        rows(of_processes, metrics, false).into_iter().for_each(&mut give);
    }

    fn rows_of_seconds(&self, give: &mut impl FnMut(Row)) {
        let width_ns = self.seconds().width_s() as i64 * 1_000_000_000;
        for (at, second) in self.seconds().filled() {
            let time_ns = Some(width_ns.saturating_mul(at as i64));
            let row = |metric, op, value| Row { time_ns, ..Row::of(metric, op, value) };
            for (op, amount) in OPS.into_iter().zip(second.demanded) {
                give(row("demanded.requests", op, amount.requests));
                give(row("demanded.bytes", op, amount.bytes));
            }
            for (op, amount) in OPS.into_iter().zip(second.achieved) {
                give(row("achieved.requests", op, amount.requests));
                give(row("achieved.bytes", op, amount.bytes));
            }
            for (op, spans) in OPS.into_iter().zip(second.service) {
                give(row("service.count", op, spans.count));
                give(row("service.sum_ns", op, spans.sum_ns));
            }
            give(row("lateness.count", "", second.lateness.count));
            give(row("lateness.sum_ns", "", second.lateness.sum_ns));
            give(row("failed.requests", "", second.failed));
        }
    }
}
