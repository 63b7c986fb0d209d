//! Throughput and levels in a bucket of time.
//!
//! The mean number in flight in a bucket seems to need the overlap of every request with every
//! bucket; a slow request touches a thousand. But the integral of a level that steps up at each
//! begin and down at each end is linear in those instants: the sums of the instants and of the
//! steps in a bucket are enough to compute it exactly afterwards, each request costs two additions
//! however long it lasts, and sums merge.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

use super::Class;
use crate::timeline::Cell;

/// A number of requests and of the bytes they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

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
        (if wide > 0 { area as f64 / wide as f64 } else { 0.0 }, before + self.rise)
    }
}

/// The sums of a bucket of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) demanded: Amount,
    pub(super) achieved: Amount,
    pub(super) failed: u64,
    pub(super) submitted: u64,
    pub(super) latest_ns: i64,
    /// The slowest request submitted here that completed in full, by [`Class`].
    pub(super) slowest_ns: [Option<i64>; Class::ALL.len()],
    pub(super) most_in_flight: u32,
    pub(super) measured: Steps,
    pub(super) recorded: Steps,
}

impl Bucket {
    pub(super) fn demand(&mut self, bytes: u64) {
        self.demanded.add(bytes);
    }

    pub(super) fn late(&mut self, lateness: Nanos) {
        self.submitted += 1;
        self.latest_ns = self.latest_ns.max(lateness.0);
    }

    pub(super) fn submit(&mut self, instant: Nanos, in_flight: u32) {
        self.measured.begin(instant);
        self.most_in_flight = self.most_in_flight.max(in_flight);
    }

    pub(super) fn serve(&mut self, class: usize, service: Nanos) {
        self.slowest_ns[class] = self.slowest_ns[class].max(Some(service.0));
    }

    pub(super) fn complete(&mut self, instant: Nanos, bytes: u64, done: bool) {
        self.measured.finish(instant);
        if done {
            self.achieved.add(bytes);
        } else {
            self.failed += 1;
        }
    }
}

impl Cell for Bucket {
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in
            [(&mut self.demanded, &other.demanded), (&mut self.achieved, &other.achieved)]
        {
            mine.requests = mine.requests.saturating_add(theirs.requests);
            mine.bytes = mine.bytes.saturating_add(theirs.bytes);
        }
        for (mine, theirs) in
            [(&mut self.measured, &other.measured), (&mut self.recorded, &other.recorded)]
        {
            mine.merge(theirs);
        }
        self.failed = self.failed.saturating_add(other.failed);
        self.submitted = self.submitted.saturating_add(other.submitted);
        self.latest_ns = self.latest_ns.max(other.latest_ns);
        for (mine, theirs) in self.slowest_ns.iter_mut().zip(other.slowest_ns) {
            *mine = (*mine).max(theirs);
        }
        self.most_in_flight = self.most_in_flight.max(other.most_in_flight);
    }
}
