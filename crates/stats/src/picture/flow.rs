//! Throughput in a bucket of time.

use ioecho_trace::Nanos;

use crate::count::steps::Steps;
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

/// The sums of a bucket of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) demanded: Amount,
    pub(super) achieved: Amount,
    pub(super) failed: u64,
    pub(super) submitted: u64,
    pub(super) latest_ns: i64,
    pub(super) most_in_flight: u32,
    pub(super) measured: Steps,
    pub(super) recorded: Steps,
}

/// The longest service time of a bucket, of requests submitted there that completed in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slowest(pub(super) Option<i64>);

impl Slowest {
    pub(super) fn serve(&mut self, service: Nanos) {
        self.0 = self.0.max(Some(service.0));
    }
}

impl Cell for Slowest {
    fn merge(&mut self, other: &Self) {
        self.0 = self.0.max(other.0);
    }
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
        self.most_in_flight = self.most_in_flight.max(other.most_in_flight);
    }
}
