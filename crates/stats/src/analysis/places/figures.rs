//! Where a load goes.

use serde::Serialize;

use crate::analysis::kind::ByKind;
use crate::analysis::shape::{Bins, Grid, Series};

/// Distances, positions, a map of places over time, and the hottest regions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PlaceFigures {
    /// Distances, one of each length of window.
    pub distances: Vec<Distance>,
    /// Requests by where they begin, the volumes on top of each other, in bytes; at most 2,048
    /// bins, a power of two wide and at least a mebibyte.
    pub positions: ByKind<Bins>,
    /// Where and when: a map for each volume up to 16 of them, otherwise one with all volumes on
    /// top of each other.
    pub maps: Vec<Map>,
    /// The size of a region in bytes: a mebibyte, or the least power of two of which the load
    /// touches no more than 65,536.
    pub region_bytes: u64,
    /// How many regions of that size have a request.
    pub regions: u64,
    /// Those with the most requests, at most 20, the hottest first.
    pub hottest: Vec<Region>,
}

/// How far apart the requests of a window lie: the way of a head that visits each once in the order
/// of their places (blkreplay's g32 and g33 as the manual means them; graph.sh plots the second
/// largest sector number instead). Of several volumes it is the sum over the volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distance {
    /// The length of a window in nanoseconds. Windows begin at multiples of it.
    pub window_ns: i64,
    /// Highest less lowest start of a request, in bytes; nothing where there is no request.
    pub sum: Series,
    /// The same divided by the number of requests.
    pub mean: Series,
}

/// Requests by time and place, the start of the request: `x` in seconds, `y` in bytes. Both axes
/// have the same cells in all maps of a load, so that they can be put side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Map {
    /// The volume; `None` of all on top of each other.
    pub volume: Option<u32>,
    /// Reads.
    pub reads: Grid,
    /// Writes.
    pub writes: Grid,
}

/// A region and what goes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Region {
    /// The volume that it is of.
    pub volume: u32,
    /// Where it begins, in bytes.
    pub begin_bytes: u64,
    /// Requests that begin in it.
    pub requests: ByKind<u64>,
    /// Their bytes.
    pub bytes: ByKind<u64>,
    /// Its share of all reads and writes.
    pub share: f64,
}
