//! Figures of the effect of caches on a load.

use serde::Serialize;

use super::CACHES;
use crate::analysis::kind::ByKind;
use crate::analysis::shape::{Bins, Curve};

/// Reuse distances, the miss-ratio curve, and what caches of some sizes would leave.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReuseFigures {
    /// The size of a page in bytes: 4,096.
    pub page_bytes: u64,
    /// Whether every access was looked at.
    pub exact: bool,
    /// The share of all pages whose accesses were looked at; 1 where exact.
    pub sampled_share: f64,
    /// The standard error of a miss ratio at most, absolute, estimated from how unevenly the pages
    /// of the sample are accessed; 0 where exact.
    pub standard_error: f64,
    /// Accesses to pages. Always exact.
    pub accesses: ByKind<u64>,
    /// Accesses to pages never accessed before; an estimate where not exact.
    pub cold: ByKind<u64>,
    /// Reuse distance: how much other data was accessed since the last access of the page, in
    /// bytes, by powers of two; the first bin begins at zero.
    pub distances: ByKind<Bins>,
    /// The share of accesses that miss, over the size in bytes of one cache of least recently used
    /// pages that serves reads and writes.
    pub miss_ratio: ByKind<Curve>,
    /// What caches of some sizes would leave.
    pub caches: Vec<CacheLoad>,
}

impl ReuseFigures {
    /// The caches worth showing: the usual sizes ([`CACHES`]) only up to the first that holds
    /// everything, because larger ones have the same figures.
    pub fn caches_told(&self) -> impl Iterator<Item = &CacheLoad> {
        let used = self.cold.all.saturating_mul(self.page_bytes);
        let holds = CACHES.into_iter().find(|bytes| *bytes >= used).unwrap_or(u64::MAX);
        let is_usual = |bytes| CACHES.contains(&bytes);
        self.caches
            .iter()
            .filter(move |cache| cache.cache_bytes <= holds || !is_usual(cache.cache_bytes))
    }
}

/// The remaining load behind a write-back LRU cache: pages of 4 KiB, no read-ahead, a write does
/// not read its page first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheLoad {
    /// The size of the cache.
    pub cache_bytes: u64,
    /// The share of accesses that find their page in the cache.
    pub hit_ratio: ByKind<f64>,
    /// Bytes read that pass through, in whole pages.
    pub read_bytes: u64,
    /// Bytes written back, in whole pages, what is still in the cache at the end included.
    pub written_bytes: u64,
    /// What passes through as a share of all that is read.
    pub read_share: f64,
    /// What is written back as a share of all that is written.
    pub written_share: f64,
}
