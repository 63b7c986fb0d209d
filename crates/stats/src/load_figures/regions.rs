//! Where on a target the load goes.
//!
//! A sample of a whole target's content says little about a load that stays in a corner of it. So
//! requests are counted by region, and the content of each region is weighted by the requests
//! there.

use crate::count::grid::Grid;

/// Regions at most; more than half of them are in use once they have grown.
const REGIONS: usize = 1024;

/// How large a region is at first, as a power of two: 64 KiB.
const FINEST_BITS: u32 = 16;

/// Requests by where they begin, in equal regions whose size is a power of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Regions(Grid<u64, REGIONS, true>);

impl Regions {
    pub(super) fn add(&mut self, offset: u64) {
        *self.0.at(offset >> FINEST_BITS) += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// The mean of `shares` of parts of `part` bytes, weighed by the requests that begin there.
    pub(super) fn weigh(&self, part: u64, shares: &[Option<f64>]) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (region, count) in self.0.cells().iter().enumerate() {
            let begin =
                (region as u64).checked_shl(FINEST_BITS + self.0.shift()).unwrap_or(u64::MAX);
            let index = usize::try_from(begin / part.max(1)).unwrap_or(usize::MAX);
            if let Some(Some(share)) = shares.get(index) {
                sum += share * *count as f64;
                weight += *count as f64;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }
}
