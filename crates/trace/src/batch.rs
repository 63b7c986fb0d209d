//! Requests by the thousand, in columns.
//!
//! A trace of a day does not fit into memory and a request at a time is too slow, so requests
//! travel in batches. Inside a batch a column is a plain vector whose name carries its unit. The
//! native file has the same layout, and the hot loops of readers and summaries need it. Everywhere
//! else the typed [`Request`] is used.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::dependencies::{Dependency, DependencyColumns};
use crate::request::{Flags, Integrity, LateCause, Measured, Op, Origin, Outcome, Request};
use crate::units::{Bytes, Nanos, VolumeId};

/// The usual number of requests in a batch: 8,192 rows are some 300 KiB, which stays in the cache.
pub const BATCH_ROWS: usize = 8192;

/// The value of an optional 64-bit column where a row does not know it.
pub(crate) const UNKNOWN: i64 = i64::MIN;

/// The optional columns that a source has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// Recorded latencies; single rows may still lack theirs.
    pub latency: bool,
    /// Process and processor.
    pub origin: bool,
    /// The measurements of a replay.
    pub measured: bool,
    /// The parents of each request. Only a reader that was asked for them has this column.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dependencies: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Columns of [`Origin`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginColumns {
    pub(crate) pid: Vec<u32>,
    pub(crate) cpu: Vec<u32>,
}

/// Columns of [`Measured`]. A row whose `scheduled_ns` is [`UNKNOWN`] has no measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MeasuredColumns {
    pub(crate) scheduled_ns: Vec<i64>,
    pub(crate) submitted_ns: Vec<i64>,
    pub(crate) completed_ns: Vec<i64>,
    pub(crate) target_offset_bytes: Vec<i64>,
    pub(crate) in_flight: Vec<u32>,
    pub(crate) outcome: Vec<i32>,
    pub(crate) pushed_back: Vec<bool>,
    pub(crate) late_cause: Vec<u8>,
    pub(crate) target: Vec<u16>,
    pub(crate) integrity: Vec<u8>,
    pub(crate) behind: Vec<u32>,
    pub(crate) flow: Vec<u16>,
}

/// A run of requests, one vector per column, all of one length.
///
/// Columnar formats fill and empty the vectors directly, and must leave all of them at one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) issue_ns: Vec<i64>,
    pub(crate) op: Vec<Op>,
    pub(crate) flags: Vec<Flags>,
    pub(crate) offset_bytes: Vec<u64>,
    pub(crate) length_bytes: Vec<u64>,
    pub(crate) volume: Vec<u32>,
    pub(crate) latency_ns: Option<Vec<i64>>,
    pub(crate) origin: Option<OriginColumns>,
    pub(crate) measured: Option<MeasuredColumns>,
    pub(crate) dependencies: Option<DependencyColumns>,
}

impl Batch {
    /// An empty batch with these optional columns and room for [`BATCH_ROWS`] rows.
    pub fn new(columns: Columns) -> Self {
        let mut batch = Self::default();
        batch.reset(columns);
        batch.issue_ns.reserve(BATCH_ROWS);
        batch.op.reserve(BATCH_ROWS);
        batch.flags.reserve(BATCH_ROWS);
        batch.offset_bytes.reserve(BATCH_ROWS);
        batch.length_bytes.reserve(BATCH_ROWS);
        batch.volume.reserve(BATCH_ROWS);
        batch
    }

    /// Empties the batch, keeps its memory, and gives it these optional columns.
    pub fn reset(&mut self, columns: Columns) {
        self.issue_ns.clear();
        self.op.clear();
        self.flags.clear();
        self.offset_bytes.clear();
        self.length_bytes.clear();
        self.volume.clear();
        match (&mut self.latency_ns, columns.latency) {
            (Some(column), true) => column.clear(),
            (column, wanted) => *column = wanted.then(Vec::new),
        }
        match (&mut self.origin, columns.origin) {
            (Some(origin), true) => {
                origin.pid.clear();
                origin.cpu.clear();
            }
            (origin, wanted) => *origin = wanted.then(OriginColumns::default),
        }
        match (&mut self.measured, columns.measured) {
            (Some(measured), true) => measured.clear(),
            (measured, wanted) => *measured = wanted.then(MeasuredColumns::default),
        }
        match (&mut self.dependencies, columns.dependencies) {
            (Some(dependencies), true) => dependencies.clear(),
            (dependencies, wanted) => *dependencies = wanted.then(DependencyColumns::default),
        }
    }

    /// The optional columns of the batch.
    pub fn columns(&self) -> Columns {
        Columns {
            latency: self.latency_ns.is_some(),
            origin: self.origin.is_some(),
            measured: self.measured.is_some(),
            dependencies: self.dependencies.is_some(),
        }
    }

    /// Makes `origin` the zero of the instants of issue. Measured instants have their own zero and
    /// stay.
    pub fn rebase(&mut self, origin: Nanos) {
        for issue_ns in &mut self.issue_ns {
            *issue_ns = issue_ns.saturating_sub(origin.0);
        }
    }

    /// The instant at which the first request was issued; `None` if the batch is empty.
    pub fn first_issue(&self) -> Option<Nanos> {
        self.issue_ns.first().copied().map(Nanos)
    }

    /// Takes away the optional columns that are not among `columns`.
    pub(crate) fn keep_columns(&mut self, columns: Columns) {
        self.latency_ns.take_if(|_| !columns.latency);
        self.origin.take_if(|_| !columns.origin);
        self.measured.take_if(|_| !columns.measured);
        self.dependencies.take_if(|_| !columns.dependencies);
    }

    /// The number of requests that have a replay's measurement.
    pub(crate) fn measured_rows(&self) -> u64 {
        let Some(measured) = &self.measured else { return 0 };
        measured.scheduled_ns.iter().filter(|instant| **instant != UNKNOWN).count() as u64
    }

    /// The number of requests.
    pub fn len(&self) -> usize {
        self.issue_ns.len()
    }

    /// Whether there is no request.
    pub fn is_empty(&self) -> bool {
        self.issue_ns.is_empty()
    }

    /// Whether the batch holds [`BATCH_ROWS`] requests or more.
    pub fn is_full(&self) -> bool {
        self.len() >= BATCH_ROWS
    }

    /// Adds a request. A value without a column is dropped; a value that the request lacks is
    /// unknown.
    #[inline]
    pub fn push(&mut self, request: &Request) {
        self.issue_ns.push(request.issue.0);
        self.op.push(request.op);
        self.flags.push(request.flags);
        self.offset_bytes.push(request.offset.0);
        self.length_bytes.push(request.length.0);
        self.volume.push(request.volume.0);
        if let Some(column) = &mut self.latency_ns {
            column.push(request.latency.map_or(UNKNOWN, |latency| latency.0));
        }
        if let Some(columns) = &mut self.origin {
            let origin = request.origin.unwrap_or_default();
            columns.pid.push(origin.pid);
            columns.cpu.push(origin.cpu);
        }
        if let Some(columns) = &mut self.measured {
            columns.push(request.measured.as_ref());
        }
        if let Some(columns) = &mut self.dependencies {
            columns.push_unknown();
        }
    }

    /// Sets the dependency of the last request, if the batch has columns for dependencies.
    pub fn link_last(&mut self, dependency: Dependency<'_>) {
        if let Some(columns) = &mut self.dependencies {
            columns.set_last(dependency);
        }
    }

    /// The dependency of the request in row `row`; `None` if the batch has no columns for
    /// dependencies.
    pub fn dependency(&self, row: usize) -> Option<Dependency<'_>> {
        self.dependencies.as_ref().map(|columns| columns.get(row))
    }

    /// The number of parents of all rows together.
    pub(crate) fn parents(&self) -> usize {
        self.dependencies.as_ref().map_or(0, |columns| columns.parents.len())
    }

    /// The request in row `row`.
    #[inline]
    pub fn get(&self, row: usize) -> Request {
        Request {
            issue: Nanos(self.issue_ns[row]),
            op: self.op[row],
            flags: self.flags[row],
            offset: Bytes(self.offset_bytes[row]),
            length: Bytes(self.length_bytes[row]),
            volume: VolumeId(self.volume[row]),
            latency: self.latency_ns.as_ref().and_then(|column| known(column[row])),
            origin: self
                .origin
                .as_ref()
                .map(|columns| Origin { pid: columns.pid[row], cpu: columns.cpu[row] }),
            measured: self.measured.as_ref().and_then(|columns| columns.get(row)),
        }
    }

    /// Puts the requests of these rows into `requests`, which is emptied first: for callers that
    /// read each of them more than once. Rows that do not exist are left out.
    pub fn decode(&self, rows: Range<usize>, requests: &mut Vec<Request>) {
        requests.clear();
        requests.extend((rows.start..rows.end.min(self.len())).map(|row| self.get(row)));
    }

    /// All requests in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Request> + '_ {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Instants of issue in nanoseconds from the start of the trace.
    pub fn issue_ns(&self) -> &[i64] {
        &self.issue_ns
    }

    /// The operations of the requests.
    pub fn op(&self) -> &[Op] {
        &self.op
    }

    /// The lengths of the requests in bytes.
    pub fn length_bytes(&self) -> &[u64] {
        &self.length_bytes
    }

    /// The positions of the requests in bytes from the start of their volume.
    pub fn offset_bytes(&self) -> &[u64] {
        &self.offset_bytes
    }

    /// Whether the instants of issue never step back.
    pub fn is_ordered(&self) -> bool {
        self.issue_ns.is_sorted()
    }

    /// Adds the requests of `other` from row `from` up to but not including row `to`. A value
    /// without a column in this batch is dropped; a column that `other` lacks is unknown.
    pub(crate) fn append(&mut self, other: &Self, from: usize, to: usize) {
        let rows = self.len() + (to - from);
        self.issue_ns.extend_from_slice(&other.issue_ns[from..to]);
        self.op.extend_from_slice(&other.op[from..to]);
        self.flags.extend_from_slice(&other.flags[from..to]);
        self.offset_bytes.extend_from_slice(&other.offset_bytes[from..to]);
        self.length_bytes.extend_from_slice(&other.length_bytes[from..to]);
        self.volume.extend_from_slice(&other.volume[from..to]);
        if let Some(column) = &mut self.latency_ns {
            if let Some(theirs) = &other.latency_ns {
                column.extend_from_slice(&theirs[from..to]);
            }
            column.resize(rows, UNKNOWN);
        }
        if let Some(columns) = &mut self.origin {
            if let Some(theirs) = &other.origin {
                columns.pid.extend_from_slice(&theirs.pid[from..to]);
                columns.cpu.extend_from_slice(&theirs.cpu[from..to]);
            }
            columns.pid.resize(rows, 0);
            columns.cpu.resize(rows, 0);
        }
        if let Some(columns) = &mut self.measured {
            if let Some(theirs) = &other.measured {
                columns.append(theirs, from, to);
            }
            columns.resize(rows);
        }
        if let Some(columns) = &mut self.dependencies {
            if let Some(theirs) = &other.dependencies {
                columns.append(theirs, from, to);
            }
            columns.resize(rows);
        }
    }

    /// Keeps the requests for which `keep` is true, in their order; `keep` has one value per row.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        fn retain<T: Copy>(column: &mut Vec<T>, keep: &[bool]) {
            let mut to = 0;
            for (from, keep) in keep.iter().enumerate() {
                column[to] = column[from];
                to += usize::from(*keep);
            }
            column.truncate(to);
        }
        debug_assert_eq!(keep.len(), self.len());
        retain(&mut self.issue_ns, keep);
        retain(&mut self.op, keep);
        retain(&mut self.flags, keep);
        retain(&mut self.offset_bytes, keep);
        retain(&mut self.length_bytes, keep);
        retain(&mut self.volume, keep);
        if let Some(column) = &mut self.latency_ns {
            retain(column, keep);
        }
        if let Some(columns) = &mut self.origin {
            retain(&mut columns.pid, keep);
            retain(&mut columns.cpu, keep);
        }
        if let Some(columns) = &mut self.measured {
            retain(&mut columns.scheduled_ns, keep);
            retain(&mut columns.submitted_ns, keep);
            retain(&mut columns.completed_ns, keep);
            retain(&mut columns.target_offset_bytes, keep);
            retain(&mut columns.in_flight, keep);
            retain(&mut columns.outcome, keep);
            retain(&mut columns.pushed_back, keep);
            retain(&mut columns.late_cause, keep);
            retain(&mut columns.target, keep);
            retain(&mut columns.integrity, keep);
            retain(&mut columns.behind, keep);
            retain(&mut columns.flow, keep);
        }
        if let Some(columns) = &mut self.dependencies {
            columns.retain(|row| keep[row]);
        }
    }

    /// Keeps the first `rows` requests.
    pub fn truncate(&mut self, rows: usize) {
        self.retain_range(0, rows);
    }

    /// Keeps the requests from row `from` up to but not including row `to`.
    pub fn retain_range(&mut self, from: usize, to: usize) {
        fn keep<T>(column: &mut Vec<T>, from: usize, to: usize) {
            column.truncate(to);
            column.drain(..from.min(column.len()));
        }
        keep(&mut self.issue_ns, from, to);
        keep(&mut self.op, from, to);
        keep(&mut self.flags, from, to);
        keep(&mut self.offset_bytes, from, to);
        keep(&mut self.length_bytes, from, to);
        keep(&mut self.volume, from, to);
        if let Some(column) = &mut self.latency_ns {
            keep(column, from, to);
        }
        if let Some(columns) = &mut self.origin {
            keep(&mut columns.pid, from, to);
            keep(&mut columns.cpu, from, to);
        }
        if let Some(columns) = &mut self.measured {
            keep(&mut columns.scheduled_ns, from, to);
            keep(&mut columns.submitted_ns, from, to);
            keep(&mut columns.completed_ns, from, to);
            keep(&mut columns.target_offset_bytes, from, to);
            keep(&mut columns.in_flight, from, to);
            keep(&mut columns.outcome, from, to);
            keep(&mut columns.pushed_back, from, to);
            keep(&mut columns.late_cause, from, to);
            keep(&mut columns.target, from, to);
            keep(&mut columns.integrity, from, to);
            keep(&mut columns.behind, from, to);
            keep(&mut columns.flow, from, to);
        }
        if let Some(columns) = &mut self.dependencies {
            columns.retain(|row| (from..to).contains(&row));
        }
    }
}

impl<'a> Extend<&'a Request> for Batch {
    fn extend<I: IntoIterator<Item = &'a Request>>(&mut self, requests: I) {
        for request in requests {
            self.push(request);
        }
    }
}

impl MeasuredColumns {
    fn clear(&mut self) {
        self.scheduled_ns.clear();
        self.submitted_ns.clear();
        self.completed_ns.clear();
        self.target_offset_bytes.clear();
        self.in_flight.clear();
        self.outcome.clear();
        self.pushed_back.clear();
        self.late_cause.clear();
        self.target.clear();
        self.integrity.clear();
        self.behind.clear();
        self.flow.clear();
    }

    fn append(&mut self, other: &Self, from: usize, to: usize) {
        self.scheduled_ns.extend_from_slice(&other.scheduled_ns[from..to]);
        self.submitted_ns.extend_from_slice(&other.submitted_ns[from..to]);
        self.completed_ns.extend_from_slice(&other.completed_ns[from..to]);
        self.target_offset_bytes.extend_from_slice(&other.target_offset_bytes[from..to]);
        self.in_flight.extend_from_slice(&other.in_flight[from..to]);
        self.outcome.extend_from_slice(&other.outcome[from..to]);
        self.pushed_back.extend_from_slice(&other.pushed_back[from..to]);
        self.late_cause.extend_from_slice(&other.late_cause[from..to]);
        self.target.extend_from_slice(&other.target[from..to]);
        self.integrity.extend_from_slice(&other.integrity[from..to]);
        self.behind.extend_from_slice(&other.behind[from..to]);
        self.flow.extend_from_slice(&other.flow[from..to]);
    }

    /// Appends rows without a measurement until there are `rows`.
    fn resize(&mut self, rows: usize) {
        self.scheduled_ns.resize(rows, UNKNOWN);
        self.submitted_ns.resize(rows, UNKNOWN);
        self.completed_ns.resize(rows, UNKNOWN);
        self.target_offset_bytes.resize(rows, UNKNOWN);
        self.in_flight.resize(rows, 0);
        self.outcome.resize(rows, 0);
        self.pushed_back.resize(rows, false);
        self.late_cause.resize(rows, 0);
        self.target.resize(rows, 0);
        self.integrity.resize(rows, 0);
        self.behind.resize(rows, 0);
        self.flow.resize(rows, 0);
    }

    fn push(&mut self, measured: Option<&Measured>) {
        let or_unknown = |instant: Option<Nanos>| instant.map_or(UNKNOWN, |instant| instant.0);
        self.scheduled_ns.push(or_unknown(measured.map(|m| m.scheduled)));
        self.submitted_ns.push(or_unknown(measured.and_then(|m| m.submitted)));
        self.completed_ns.push(or_unknown(measured.and_then(|m| m.completed)));
        let target = measured.and_then(|m| m.target_offset);
        self.target_offset_bytes.push(target.map_or(UNKNOWN, |offset| offset.0 as i64));
        self.in_flight.push(measured.map_or(0, |m| m.in_flight));
        self.outcome.push(measured.map_or(0, |m| m.outcome.code()));
        self.pushed_back.push(measured.is_some_and(|m| m.pushed_back));
        self.late_cause.push(measured.map_or(0, |m| m.late_cause as u8));
        self.target.push(measured.map_or(0, |m| m.target));
        self.integrity.push(measured.map_or(0, |m| m.integrity as u8));
        self.behind.push(measured.map_or(0, |m| m.behind));
        self.flow.push(measured.map_or(0, |m| m.flow));
    }

    #[inline]
    fn get(&self, row: usize) -> Option<Measured> {
        Some(Measured {
            scheduled: known(self.scheduled_ns[row])?,
            submitted: known(self.submitted_ns[row]),
            completed: known(self.completed_ns[row]),
            target_offset: known(self.target_offset_bytes[row]).map(|at| Bytes(at.0 as u64)),
            in_flight: self.in_flight[row],
            outcome: Outcome::from_code(self.outcome[row])?,
            pushed_back: self.pushed_back[row],
            late_cause: LateCause::from_code(self.late_cause[row])?,
            target: self.target[row],
            integrity: Integrity::from_code(self.integrity[row])?,
            behind: self.behind[row],
            flow: self.flow[row],
        })
    }
}

#[inline]
fn known(value: i64) -> Option<Nanos> {
    (value != UNKNOWN).then_some(Nanos(value))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        /// Any request that a trace may hold.
        pub(crate) fn any_request()(
            issue in 0_i64..i64::MAX / 4,
            op in 0_u8..6,
            flags in 0_u16..32,
            offset in 0_u64..u64::MAX / 2,
            length in 0_u64..1 << 40,
            volume in 0_u32..4,
            latency in proptest::option::of(0_i64..1 << 50),
            pid in any::<u32>(),
            cpu in 0_u32..1024,
            measured in (0_i64..1 << 50, proptest::option::of(0_i64..1 << 50), -7_i32..140),
        ) -> Request {
            Request {
                issue: Nanos(issue),
                op: Op::from_code(op).unwrap(),
                flags: Flags::from_bits_truncate(flags),
                offset: Bytes(offset),
                length: if op == Op::Flush.code() { Bytes::ZERO } else { Bytes(length) },
                volume: VolumeId(volume),
                latency: latency.map(Nanos),
                origin: Some(Origin { pid, cpu }),
                measured: Some(Measured {
                    scheduled: Nanos(measured.0),
                    submitted: measured.1.map(Nanos),
                    completed: measured.1.map(|ns| Nanos(ns + 7)),
                    target_offset: measured.1.map(|ns| Bytes(ns as u64)),
                    in_flight: 3,
                    outcome: Outcome::from_code(measured.2).unwrap(),
                    pushed_back: measured.0 % 2 == 0,
                    late_cause: LateCause::from_code((measured.0 % 8) as u8).unwrap(),
                    target: (measured.0 % 3) as u16,
                    integrity: Integrity::from_code((measured.0 % 10) as u8).unwrap(),
                    behind: (measured.0 % 5) as u32,
                    flow: (measured.0 % 7) as u16,
                }),
            }
        }
    }

    const ALL: Columns =
        Columns { latency: true, origin: true, measured: true, dependencies: false };

    proptest! {
        #[test]
        fn what_was_pushed_is_what_is_got(
            requests in proptest::collection::vec(any_request(), 0..50),
        ) {
            let mut batch = Batch::new(ALL);
            batch.extend(&requests);
            prop_assert_eq!(batch.iter().collect::<Vec<_>>(), requests);
        }

        #[test]
        fn an_appended_range_is_that_range_and_what_is_not_known_stays_unknown(
            requests in proptest::collection::vec(any_request(), 1..50),
            columns in 0..8_u8, to in 0_usize..50,
        ) {
            let known = Columns {
                latency: columns & 1 != 0, origin: columns & 2 != 0, measured: columns & 4 != 0,
                dependencies: false,
            };
            let to = to.min(requests.len());
            let mut part = Batch::new(known);
            part.extend(&requests);
            let mut all = Batch::new(ALL);
            all.append(&part, to / 2, to);
            let expected: Vec<_> = requests[to / 2..to].iter().map(|request| Request {
                latency: request.latency.filter(|_| known.latency),
                origin: Some(request.origin.filter(|_| known.origin).unwrap_or_default()),
                measured: request.measured.filter(|_| known.measured),
                ..*request
            }).collect();
            prop_assert_eq!(all.iter().collect::<Vec<_>>(), expected);
        }

        #[test]
        fn a_kept_range_is_that_range(
            requests in proptest::collection::vec(any_request(), 0..50),
            from in 0_usize..60, to in 0_usize..60,
        ) {
            let mut batch = Batch::new(ALL);
            batch.extend(&requests);
            batch.retain_range(from, to);
            let to = to.min(requests.len());
            prop_assert_eq!(batch.iter().collect::<Vec<_>>(), &requests[from.min(to)..to]);
        }
    }

    #[test]
    fn a_column_that_is_not_there_is_unknown_not_zero() {
        let mut request = Request::new(Nanos(1), Op::Read, Bytes(0), Bytes(512));
        request.latency = Some(Nanos(5));
        let mut batch = Batch::new(Columns::default());
        batch.push(&request);
        assert_eq!(batch.get(0).latency, None);
    }
}
