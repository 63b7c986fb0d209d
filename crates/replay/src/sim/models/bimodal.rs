//! A cache in front of something slower: two kinds of latency, and nothing in between.
//!
//! The mean of such a device says nothing about any of its requests, and blkreplay's manual warns
//! that a recording made below one cache says little about another. Hits come either by chance, or
//! from a cache of a real size, where the load decides.

use std::fmt;

use ioecho_trace::{Bytes, Nanos, Op};

use super::lru::Lru;
use super::station::Station;
use super::{Arrival, exponential_ns, transfer_ns};
use crate::pattern::SplitMix64;
use crate::sim::SimSpec;
use crate::sim::spec::{parsed, share};

/// Bytes of a page of the cache.
const PAGE: u64 = 4096;

/// The rule that decides which requests hit the cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Hits {
    /// This share of the reads and writes, whichever.
    Share(f64),
    /// Those whose 4 KiB pages all are among the last used that fit into so many bytes. Whatever is
    /// read or written is in the cache from then on.
    Cache(Bytes),
}

/// What model `bimodal` has beside `units` and `service`, which are those of the misses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BimodalSpec {
    /// The rule for hits.
    pub hits: Hits,
    /// How long a hit takes, its transfer aside. Hits wait for nobody.
    pub hit_service: Nanos,
}

impl Default for BimodalSpec {
    fn default() -> Self {
        Self { hits: Hits::Share(0.8), hit_service: Nanos::from_micros(20) }
    }
}

impl BimodalSpec {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "hit" => self.hits = Hits::Share(share(key, value)?),
            "cache" => {
                let size: Bytes = parsed(key, value)?;
                // One entry per page: the program's own memory is at stake.
                if !(PAGE..=CACHE_MAX).contains(&size.0) {
                    return Err(format!("cache: {size} is not from 4K to {}", Bytes(CACHE_MAX)));
                }
                self.hits = Hits::Cache(size);
            }
            _ => self.hit_service = parsed(key, value)?,
        }
        Ok(())
    }
}

/// The largest cache: its pages take about a gigabyte of this program's memory.
const CACHE_MAX: u64 = 64 << 30;

impl fmt::Display for BimodalSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.hits {
            Hits::Share(share) => write!(f, "hit={share}")?,
            Hits::Cache(size) => write!(f, "cache={size}")?,
        }
        write!(f, ", hit-service={}", self.hit_service)
    }
}

#[derive(Debug)]
pub(in crate::sim) struct Bimodal {
    station: Station,
    hits: Hits,
    cache: Option<Lru>,
    hit_service_ns: f64,
    miss_service_ns: f64,
    bandwidth: u64,
}

impl Bimodal {
    pub(super) fn new(spec: &SimSpec, own: BimodalSpec) -> Self {
        let cache = match own.hits {
            Hits::Share(_) => None,
            Hits::Cache(size) => Some(Lru::new(size.0 / PAGE)),
        };
        Self {
            station: Station::new(spec.units),
            hits: own.hits,
            cache,
            hit_service_ns: own.hit_service.0 as f64,
            miss_service_ns: spec.service.0 as f64,
            bandwidth: spec.bandwidth,
        }
    }

    pub(super) fn completes_ns(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> i64 {
        let transfer = transfer_ns(arrival.io, self.bandwidth);
        if self.is_hit(arrival, random) {
            return arrival.now_ns.saturating_add((self.hit_service_ns + transfer) as i64);
        }
        let service = exponential_ns(self.miss_service_ns, random) + transfer;
        self.station.serve(arrival.now_ns, service)
    }

    fn is_hit(&mut self, arrival: &Arrival, random: &mut SplitMix64) -> bool {
        let io = arrival.io;
        if !matches!(io.op, Op::Read | Op::Write) || io.length.0 == 0 {
            return false;
        }
        match (&mut self.cache, self.hits) {
            (Some(cache), _) => {
                let last = (io.offset.0 + io.length.0 - 1) / PAGE;
                let pages = last - io.offset.0 / PAGE + 1;
                // Every page is used, whether the one before was there or not.
                let there = (io.offset.0 / PAGE..=last).filter(|page| cache.touch(*page)).count();
                there as u64 == pages
            }
            (None, Hits::Share(share)) => random.unit() < share,
            (None, Hits::Cache(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, MANY};
    use crate::sim::SimSpec;

    #[test]
    fn the_mean_lies_between_hits_and_misses_by_their_shares() {
        let spec: SimSpec =
            "model=bimodal,hit=0.8,hit-service=20us,service=500us,bandwidth=100000G"
                .parse()
                .unwrap();
        let mean = testing::mean_response_ns(&spec, 1e9, MANY);
        assert!((mean / (0.8 * 20e3 + 0.2 * 500e3) - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn hits_of_a_cache_follow_from_the_load() {
        let spec = |cache: &str| -> SimSpec {
            format!("model=bimodal,cache={cache},hit-service=1us,service=1s,bandwidth=100000G")
                .parse()
                .unwrap()
        };
        // Sixteen pages, again and again: they fit, or they always push each other out.
        let quick = |cache| {
            let times = testing::one_by_one(&spec(cache), (0..64).map(|n| (n % 16 * 4096, 4096)));
            times.into_iter().filter(|ns| *ns == 1_000).count()
        };
        assert_eq!(quick("64K"), 48);
        assert_eq!(quick("60K"), 0);
        // A request of two pages is a hit only if both are there.
        let pages = [(0, 4096), (0, 8192), (4096, 4096), (0, 8192)];
        let times = testing::one_by_one(&spec("64K"), pages);
        assert!(times[1] > 1_000);
        assert_eq!(times[2..], [1_000, 1_000]);
    }
}
