//! A level that steps up and down, averaged over buckets of time.
//!
//! How many requests are in flight on average in a bucket needs, for every request, its overlap
//! with every bucket it touches; a slow request touches a thousand. But the integral of a level
//! that steps up at each begin and down at each end is linear in those instants: the sums of the
//! instants and of the steps in a bucket are enough to compute it exactly afterwards, each request
//! costs two additions however long it lasts, and sums merge.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

/// The steps of a level in a bucket: up one at each begin, down one at each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Steps {
    /// Begins less ends.
    rise: i64,
    /// The sum of the instants of begin less that of the instants of end, in nanoseconds.
    instants_ns: i128,
}

impl Steps {
    pub(crate) fn begin(&mut self, instant: Nanos) {
        self.rise += 1;
        self.instants_ns += i128::from(instant.0);
    }

    pub(crate) fn finish(&mut self, instant: Nanos) {
        self.rise -= 1;
        self.instants_ns -= i128::from(instant.0);
    }

    /// Adds the steps of another part.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.rise = self.rise.saturating_add(other.rise);
        self.instants_ns = self.instants_ns.saturating_add(other.instants_ns);
    }

    /// The mean level between `from` and `to`, where all steps of this bucket lie, and the level at
    /// `to`; `before` is the level at `from`. Where nothing lies between, the mean is zero.
    pub(crate) fn mean(&self, before: i64, from: i64, to: i64) -> (f64, i64) {
        let (wide, rise) = (i128::from(to - from), i128::from(self.rise));
        // A step up at instant t adds (to − t), a step down takes it away.
        let area = i128::from(before) * wide + rise * i128::from(to) - self.instants_ns;
        (if wide > 0 { area as f64 / wide as f64 } else { 0.0 }, self.after(before))
    }

    /// The level behind the bucket, from that before it.
    pub(crate) fn after(&self, before: i64) -> i64 {
        before + self.rise
    }
}
