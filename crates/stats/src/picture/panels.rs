//! A finished picture: plain columns over one axis of time.
//!
//! The parts of a picture grow at their own pace, so their buckets may differ in width. What is
//! drawn below each other must not: here everything is widened to the widest.

use ioecho_trace::Nanos;
use serde::Serialize;

use super::{Class, RunPicture};
use crate::raster::{ROWS, Raster, edge};

/// The panels of a report: columns of one length over buckets of one width.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Panels {
    /// The width of a bucket in nanoseconds; bucket `i` begins at `i · width_ns`.
    pub width_ns: i64,
    /// How many buckets there are; every column below is that long.
    pub buckets: usize,
    /// The last instant of the run in nanoseconds. It lies in the last bucket.
    pub end_ns: i64,
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
    /// Service time over the instant of submission by [`Class`], in the order of [`Class::ALL`].
    #[serde(skip)]
    pub sonar: [Raster; Class::ALL.len()],
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
                let row = lateness.cells().get(bucket).and_then(|rows| rows.quantile(quantile));
                // No percentile exceeds the maximum, which is exact where the row's edge is not;
                // the last row has no upper edge at all.
                let edge = |row| if row + 1 < ROWS { edge(row + 1) } else { i64::MAX };
                column.push(row.map(|row| edge(row).min(cells.latest_ns)));
            }
            column
        };
        let level = |steps: fn(&super::Bucket) -> &super::flow::Steps| {
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
            sonar: picture.sonar.each_ref().map(widened),
            lateness,
        }
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
