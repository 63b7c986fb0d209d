//! Where on a target the load goes.
//!
//! A sample of what a target holds says little of a load that stays in a corner of it. So requests
//! are counted by where they begin, and what was found there weighs as much as the load goes there.

/// Regions at most; more than half of them are in use once they have grown.
const REGIONS: usize = 1024;

/// How large a region is at first, as a power of two: 64 KiB.
const FINEST_BITS: u32 = 16;

/// Requests by where they begin, in equal regions whose size is a power of two.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Regions {
    doublings: u32,
    counts: Vec<u64>,
}

impl Regions {
    fn bits(&self) -> u32 {
        FINEST_BITS + self.doublings
    }

    pub(super) fn add(&mut self, offset: u64) {
        while offset >> self.bits() >= REGIONS as u64 {
            self.double();
        }
        let region = (offset >> self.bits()) as usize;
        if region >= self.counts.len() {
            self.counts.resize(region + 1, 0);
        }
        self.counts[region] += 1;
    }

    fn double(&mut self) {
        self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.doublings += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The mean of `shares` of parts of `part` bytes, weighed by the requests that begin there.
    pub(super) fn weigh(&self, part: u64, shares: &[Option<f64>]) -> Option<f64> {
        let (mut sum, mut weight) = (0.0, 0.0);
        for (region, count) in self.counts.iter().enumerate() {
            let begin = (region as u64).checked_shl(self.bits()).unwrap_or(u64::MAX);
            let index = usize::try_from(begin / part.max(1)).unwrap_or(usize::MAX);
            if let Some(Some(share)) = shares.get(index) {
                sum += share * *count as f64;
                weight += *count as f64;
            }
        }
        (weight > 0.0).then(|| sum / weight)
    }
}
