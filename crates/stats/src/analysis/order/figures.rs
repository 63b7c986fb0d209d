//! Figures of the order of requests.

use serde::Serialize;

use crate::analysis::kind::ByKind;
use crate::analysis::shape::{Bins, Series};

/// Turns, seek distances and sequential streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OrderFigures {
    /// Requests that go back (blkreplay's g42).
    pub turns: ByKind<Turns>,
    /// The same in the order of completion and over the time of completion (blkreplay's g43), of
    /// requests of which that is known: of a run as it was replayed, of a load as it was recorded.
    pub turns_completed: ByKind<Turns>,
    /// From the end of a request to the start of the next of the same volume and kind.
    pub seeks: ByKind<Seeks>,
    /// Requests that continue others.
    pub sequential: ByKind<Sequential>,
    /// Streams: eight requests or more of one kind, each of which begins where the one before ended
    /// and comes within 256 requests of its volume.
    pub streams: Streams,
}

/// Requests that begin before the start of their predecessor of the same volume; of reads, the
/// predecessor among the reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Turns {
    /// Requests.
    pub requests: u64,
    /// Those that are turns.
    pub turns: u64,
    /// The share of turns.
    pub share: f64,
    /// The share in each second, or longer where there are more than 131,072; nothing where there
    /// is no request.
    pub series: Series,
}

/// Distances from the end of a request to the start of the next, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seeks {
    /// Those that begin exactly at the end.
    pub zero: u64,
    /// Those that begin further on, by powers of two of the distance.
    pub forward: Bins,
    /// Those that begin before, by powers of two of the distance.
    pub backward: Bins,
    /// The mean of the absolute distances.
    pub mean_bytes: f64,
}

/// How sequential requests are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sequential {
    /// Requests.
    pub requests: u64,
    /// The share that begins where the predecessor of the same volume and kind ended.
    pub strict: f64,
    /// The share that begins at most 128 KiB from there.
    pub near: f64,
    /// The share that continues any run of the same volume and kind within 256 requests: what a
    /// device sees that tells interleaved streams apart. Of all: a run of its own kind.
    pub in_run: f64,
    /// The share of requests that belong to streams.
    pub in_stream: f64,
    /// Runs by their number of requests, by powers of two.
    pub runs: Bins,
    /// Requests of a run on average.
    pub mean_run: f64,
    /// Bytes of the longest run.
    pub longest_run_bytes: u64,
    /// How many requests of the volume lie from one of a run to the next, by powers of two: 1 is
    /// the next request; `n` streams that take turns lie `n` apart.
    pub gaps: Bins,
}

/// Sequential streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Streams {
    /// How many there were.
    pub count: ByKind<u64>,
    /// How many there were at once, on average from the first request to the last.
    pub mean_concurrent: ByKind<f64>,
    /// How many there were at some time of each second, or of longer steps where there are more
    /// than 131,072.
    pub concurrent: ByKind<Series>,
}
