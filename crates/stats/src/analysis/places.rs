//! Where a load goes.
//!
//! A disk's head moves, a device of several media has fast and slow parts, and a cache for a hot
//! region serves most of a load. So the positions of requests, their distances, and their
//! concentration matter for choosing a device.

mod distance;
mod figures;
mod map;
mod regions;
#[cfg(test)]
mod tests;

pub use figures::{Distance, Map, PlaceFigures, Region};
pub use regions::{HOTTEST, REGIONS_MAX};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use self::distance::Distances;
use self::map::Heat;
use self::regions::Regions;
use super::Summary;
use super::place::{instant, read_or_write};
use super::row::Row;

/// The windows that distances are told of, in nanoseconds: those of blkreplay's `graph.sh`.
pub const WINDOWS_NS: [i64; 3] = [6_000_000_000, 60_000_000_000, 600_000_000_000];

/// The places of a load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Places {
    distances: Distances,
    heat: Heat,
    regions: Regions,
}

impl Default for Places {
    fn default() -> Self {
        Self::new(&WINDOWS_NS)
    }
}

impl Places {
    /// Tells of distances in windows of these lengths. Parts that shall be merged must have the
    /// same.
    pub fn new(windows_ns: &[i64]) -> Self {
        Self {
            distances: Distances::new(windows_ns),
            heat: Heat::default(),
            regions: Regions::default(),
        }
    }

    /// Adds requests: the same as adding each of them, but those that wait for memory, one map at a
    /// time, wait together.
    pub fn observe_all(&mut self, requests: &[Request]) {
        let moving = || requests.iter().filter_map(|r| Some((read_or_write(r.op)?, r)));
        for (_, request) in moving() {
            self.distances.observe(instant(request), request);
        }
        for (kind, request) in moving() {
            self.heat.observe(instant(request), kind, request);
        }
        for (kind, request) in moving() {
            self.regions.observe(kind, request);
        }
    }

    /// Hands out requests by where they begin.
    pub(super) fn rows(&self, give: &mut impl FnMut(Row)) {
        self.regions.rows(give);
    }

    /// The figures.
    pub fn figures(&self) -> PlaceFigures {
        PlaceFigures {
            distances: self.distances.figures(),
            positions: self.regions.positions(),
            maps: self.heat.maps(),
            region_bytes: self.regions.region_bytes(),
            regions: self.regions.count(),
            hottest: self.regions.hottest(),
        }
    }
}

impl Summary for Places {
    #[inline]
    fn observe(&mut self, request: &Request) {
        self.observe_all(std::slice::from_ref(request));
    }

    fn merge(&mut self, later: &Self) {
        self.distances.merge(&later.distances);
        self.heat.merge(&later.heat);
        self.regions.merge(&later.regions);
    }
}
