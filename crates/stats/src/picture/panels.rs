//! A finished picture: plain columns over one axis of time.
//!
//! The parts of a picture may have buckets of different widths, but diagrams below each other need
//! the same: here all are widened to the widest.

use std::ops::Range;

use ioecho_trace::{Nanos, Op};
use serde::Serialize;

use super::{Class, Kind, Rate, RunPicture, Sonar};
use crate::raster::{Column, Raster, edge};
use crate::timeline::{Cell, Timeline};

/// The panels of a report: columns of one length over buckets of one width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panels {
    /// The width of a bucket in nanoseconds; bucket `i` begins at `i · width_ns`.
    pub width_ns: i64,
    /// How many buckets there are; every column below is that long.
    pub buckets: usize,
    /// The last instant of the run in nanoseconds. It lies in the last bucket.
    pub end_ns: i64,
    /// When the last request was due: what was demanded was demanded within this time, however
    /// long the run took.
    pub demanded_end_ns: i64,
    /// The last submission or completion: what was achieved was achieved within this time.
    pub achieved_end_ns: i64,
    /// Requests scheduled in the bucket.
    pub demanded_requests: Vec<u64>,
    /// Bytes that they were to read or write.
    pub demanded_bytes: Vec<u64>,
    /// Requests completed in full in the bucket.
    pub achieved_requests: Vec<u64>,
    /// Bytes that they read or wrote.
    pub achieved_bytes: Vec<u64>,
    /// Requests that completed with an error or short.
    pub failed: Vec<u64>,
    /// The mean number of requests in flight, weighted by time.
    pub in_flight_mean: Vec<f64>,
    /// The largest number in flight seen at a submission, and no less than the mean.
    pub in_flight_max: Vec<u32>,
    /// The mean number in flight when the trace was recorded, placed at the scheduled instants;
    /// `None` where no latency was recorded.
    pub recorded_mean: Option<Vec<f64>>,
    /// Of requests scheduled in the bucket and submitted: the median lateness in nanoseconds, as
    /// the upper edge of its row in the raster; `None` where there were none.
    pub lateness_p50_ns: Vec<Option<i64>>,
    /// Their 99th percentile.
    pub lateness_p99_ns: Vec<Option<i64>>,
    /// The largest lateness, exactly.
    pub lateness_max_ns: Vec<Option<i64>>,
    /// Of requests submitted in the bucket that completed in full: the longest service time by
    /// [`Class`], exactly; `None` where there were none. Of a class that never occurred, empty.
    #[serde(skip)]
    pub service_max_ns: [Vec<Option<i64>>; Class::COUNT],
    /// Calls on whole files that completed in full in the bucket, of each operation that occurred.
    #[serde(skip)]
    pub files: Vec<(Op, Vec<u64>)>,
    /// Service time over the instant of submission by [`Class`], in the order of [`Class::ALL`].
    #[serde(skip)]
    pub sonar: Sonar,
    /// The same of each volume, where there are several: its number and its diagram; without a
    /// number all others together. At most [`VOLUMES_MAX`](super::VOLUMES_MAX) have one.
    #[serde(skip)]
    pub volumes: Vec<(Option<u32>, Sonar)>,
    /// Lateness over the scheduled instant.
    #[serde(skip)]
    pub lateness: Raster,
}

impl Panels {
    pub(super) fn of(picture: &RunPicture) -> Self {
        // The flow saw every instant that any other part saw, so it is the widest and longest.
        let flow = picture.flow.cells();
        let doublings = picture.flow.doublings();
        let width = picture.flow.width().0;
        let end = picture.end.0;
        let widened = |raster: &Raster| {
            let mut raster = raster.clone();
            raster.widen_to(doublings);
            raster
        };
        let lateness = widened(&picture.lateness);
        let quantile = |quantile| {
            let mut column: Vec<Option<i64>> = Vec::with_capacity(flow.len());
            for (bucket, cells) in flow.iter().enumerate() {
                let rows = lateness.cells().get(bucket);
                column.push(rows.and_then(|rows| bounded(rows, quantile, cells.latest_ns)));
            }
            column
        };
        let level = |steps: fn(&super::Bucket) -> &crate::count::steps::Steps| {
            let mut before = 0;
            let mut column = Vec::with_capacity(flow.len());
            for (bucket, cells) in flow.iter().enumerate() {
                let from = bucket as i64 * width;
                // The run ends within its last bucket; behind its end nothing is in flight.
                let to = from.saturating_add(width).min(end.max(from));
                let (mean, after) = steps(cells).mean(before, from, to);
                before = after;
                column.push(mean);
            }
            column
        };
        let in_flight_mean = level(|bucket| &bucket.measured);
        let most =
            |(bucket, mean): (&super::Bucket, &f64)| bucket.most_in_flight.max(mean.ceil() as u32);
        Self {
            width_ns: width,
            buckets: flow.len(),
            end_ns: end,
            demanded_end_ns: picture.demanded_end.0,
            achieved_end_ns: picture.achieved_end.0,
            demanded_requests: flow.iter().map(|bucket| bucket.demanded.requests).collect(),
            demanded_bytes: flow.iter().map(|bucket| bucket.demanded.bytes).collect(),
            achieved_requests: flow.iter().map(|bucket| bucket.achieved.requests).collect(),
            achieved_bytes: flow.iter().map(|bucket| bucket.achieved.bytes).collect(),
            failed: flow.iter().map(|bucket| bucket.failed).collect(),
            in_flight_max: flow.iter().zip(&in_flight_mean).map(most).collect(),
            in_flight_mean,
            recorded_mean: picture.recorded.then(|| level(|bucket| &bucket.recorded)),
            lateness_p50_ns: quantile(0.5),
            lateness_p99_ns: quantile(0.99),
            lateness_max_ns: flow
                .iter()
                .map(|bucket| (bucket.submitted > 0).then_some(bucket.latest_ns))
                .collect(),
            service_max_ns: picture.slowest.each_ref().map(|slowest| {
                let mut slowest = slowest.clone();
                slowest.widen_to(doublings);
                let mut column: Vec<_> = slowest.cells().iter().map(|cell| cell.0).collect();
                if !column.is_empty() {
                    column.resize(flow.len(), None);
                }
                column
            }),
            files: files(picture, doublings, flow.len()),
            sonar: picture.sonar.each_ref().map(widened),
            volumes: picture
                .volumes
                .all()
                .map(|(volume, sonar)| (volume, sonar.each_ref().map(widened)))
                .collect(),
            lateness,
        }
    }

    /// The lateness that a share of the requests scheduled in some buckets does not exceed, in
    /// nanoseconds; `None` where none was submitted. Right to a row of the raster, and never above
    /// the largest.
    pub fn lateness_quantile_ns(&self, quantile: f64, buckets: Range<usize>) -> Option<i64> {
        let most = self.lateness_max_ns[buckets.clone()].iter().flatten().max()?;
        let mut rows = Column::default();
        let inside = self.lateness.cells().iter().take(buckets.end).skip(buckets.start);
        inside.for_each(|column| rows.merge(column));
        bounded(&rows, quantile, *most)
    }

    /// Requests per second, demanded.
    pub fn demanded_request_rate(&self) -> Rate<'_> {
        self.rate(&self.demanded_requests, self.demanded_end_ns)
    }

    /// Bytes per second, demanded.
    pub fn demanded_byte_rate(&self) -> Rate<'_> {
        self.rate(&self.demanded_bytes, self.demanded_end_ns)
    }

    /// Requests per second, achieved.
    pub fn achieved_request_rate(&self) -> Rate<'_> {
        self.rate(&self.achieved_requests, self.achieved_end_ns)
    }

    /// Bytes per second, achieved.
    pub fn achieved_byte_rate(&self) -> Rate<'_> {
        self.rate(&self.achieved_bytes, self.achieved_end_ns)
    }

    fn rate<'a>(&self, amounts: &'a [u64], end_ns: i64) -> Rate<'a> {
        Rate { amounts, width_ns: self.width_ns, end_ns }
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.buckets == 0
    }

    /// The width of a bucket.
    pub fn width(&self) -> Nanos {
        Nanos(self.width_ns)
    }
}

/// The counts of whole files by operation, on an axis of this many buckets.
fn files(picture: &RunPicture, doublings: u32, buckets: usize) -> Vec<(Op, Vec<u64>)> {
    let there = Kind::ALL.into_iter().zip(&picture.files);
    let there = there.filter(|(_, counts)| !counts.cells().is_empty());
    let column = |(kind, counts): (Kind, &Timeline<u64>)| {
        let mut counts = counts.clone();
        counts.widen_to(doublings);
        let mut column = counts.cells().to_vec();
        column.resize(buckets, 0);
        (kind.op(), column)
    };
    there.map(column).collect()
}

/// The upper edge of the row of a percentile, or the maximum where that is less: it is exact, and
/// no percentile exceeds it.
fn bounded(rows: &Column, quantile: f64, most: i64) -> Option<i64> {
    Some(edge(rows.quantile(quantile)? + 1).min(most))
}
