//! The effect of caches on a load.
//!
//! The reuse distance, the number of other pages between two accesses to a page, shows for a cache
//! of any size whether it still holds the page: one pass gives the miss ratios of all sizes
//! (Mattson, Gecsei, Slutz and Traiger 1970). But a distance from one part of a trace to the next
//! depends on all accesses in both, so histograms of distances do not merge. The accesses
//! themselves do, and a sample of them is enough (SHARDS: Waldspurger, Park, Garthwaite and Ahmad,
//! FAST 2015): all accesses to pages whose hash begins with so many zeros. Up to [`ACCESSES_MAX`]
//! accesses all are kept, beyond that as many as fit. The distances are computed at the end.

mod distance;
mod figures;
#[cfg(test)]
mod tests;

pub use figures::{CacheLoad, ReuseFigures};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use self::distance::{Distances, distances};
use super::Summary;
use super::kind::{ByKind, Kind};
use super::place::{Keys, PAGE_SHIFT, instant, pages, read_or_write};
use super::shape::{Bins, Curve, Quantity};
use crate::count::sample::is_sampled;

/// How many accesses are kept at most, in 32 MB.
pub const ACCESSES_MAX: usize = 1 << 20;

/// The sizes of caches that are told of if no others are asked for, in bytes: from 64 MiB to 1 TiB.
pub const CACHES: [u64; 8] =
    [1 << 26, 1 << 28, 1 << 30, 1 << 32, 1 << 34, 1 << 36, 1 << 38, 1 << 40];

/// Points of the miss-ratio curve per doubling of the cache.
const POINTS_PER_OCTAVE: f64 = 8.0;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Access {
    at: i64,
    page: u64,
    volume: u32,
    is_write: bool,
}

/// When pages are used again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reuse {
    limit: usize,
    /// One page in 2^halved is in the sample.
    halved: u32,
    sample: Vec<Access>,
    /// Exact counts of accesses.
    accesses: [u64; 2],
}

impl Default for Reuse {
    fn default() -> Self {
        Self::new(ACCESSES_MAX)
    }
}

impl Reuse {
    /// Keeps no more than so many accesses. Parts that shall be merged must have the same limit.
    pub fn new(accesses_max: usize) -> Self {
        let limit = accesses_max.clamp(1, 1 << 31);
        Self { limit, halved: 0, sample: Vec::new(), accesses: [0; 2] }
    }

    #[inline]
    fn keep(&mut self, access: Access) {
        self.sample.push(access);
        if self.sample.len() > self.limit {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        while self.sample.len() > self.limit && self.halved < 63 {
            self.halved += 1;
            let halved = self.halved;
            self.sample.retain(|access| is_sampled(access.page, halved));
        }
    }

    /// The figures, with caches of the sizes [`CACHES`].
    pub fn figures(&self) -> ReuseFigures {
        self.figures_for(&CACHES)
    }

    /// The figures, with caches of these sizes in bytes.
    pub fn figures_for(&self, caches: &[u64]) -> ReuseFigures {
        let distances = self.distances();
        let share = 0.5_f64.powi(self.halved as i32);
        let weight = 1_u64 << self.halved;
        let [reads, writes] = self.accesses;
        let accesses = ByKind { reads, writes, all: reads.saturating_add(writes) };
        let kept = Kept {
            distances: &distances,
            reused: distances.reused.each_ref().map(|counts| sums(counts)),
            rewritten: sums(&distances.rewritten),
            accesses,
            share,
            halved: self.halved,
        };
        let [cold_reads, cold_writes] = distances.cold.map(|cold| cold.saturating_mul(weight));
        let squares = (1.0 - share) * distances.squares;
        ReuseFigures {
            page_bytes: 1 << PAGE_SHIFT,
            exact: self.halved == 0,
            sampled_share: share,
            standard_error: squares.sqrt() / (share * accesses.all.max(1) as f64),
            accesses,
            cold: ByKind {
                reads: cold_reads,
                writes: cold_writes,
                all: cold_reads.saturating_add(cold_writes),
            },
            distances: ByKind::of(|kind, name| kept.bins(kind, name)),
            miss_ratio: ByKind::of(|kind, name| kept.curve(kind, name)),
            caches: caches.iter().map(|bytes| kept.cache(*bytes)).collect(),
        }
    }

    /// The distances of the sample in the order of time. Parts may have come by volume.
    fn distances(&self) -> Distances {
        let order = |access: &Access| (access.at, access.volume);
        let of = |access: &Access| (access.page, usize::from(access.is_write));
        if self.sample.is_sorted_by_key(order) {
            return distances(self.sample.iter().map(of));
        }
        let mut sorted = self.sample.clone();
        sorted.sort_by_key(order);
        distances(sorted.iter().map(of))
    }
}

impl Summary for Reuse {
    fn observe(&mut self, request: &Request) {
        let Some(kind) = read_or_write(request.op) else { return };
        let Some((first, last, _)) = pages(request) else { return };
        self.accesses[kind] = self.accesses[kind].saturating_add(last - first + 1);
        let volume = request.volume.0;
        let keys = Keys::of(volume);
        for page in first..=last {
            let page = keys.key(page);
            if is_sampled(page, self.halved) {
                let at = instant(request);
                self.keep(Access { at, page, volume, is_write: kind == 1 });
            }
        }
    }

    fn merge(&mut self, later: &Self) {
        if self.halved < later.halved {
            self.halved = later.halved;
            self.sample.retain(|access| is_sampled(access.page, later.halved));
        }
        for (mine, theirs) in self.accesses.iter_mut().zip(later.accesses) {
            *mine = mine.saturating_add(theirs);
        }
        for access in &later.sample {
            if is_sampled(access.page, self.halved) {
                self.keep(*access);
            }
        }
    }
}

/// The distances of the sample, and what they stand for.
struct Kept<'a> {
    distances: &'a Distances,
    /// How many accesses have less than each distance: a curve asks for hundreds of sizes.
    reused: [Vec<u64>; 2],
    rewritten: Vec<u64>,
    accesses: ByKind<u64>,
    share: f64,
    halved: u32,
}

/// How many are counted before each place, and behind the last.
fn sums(counts: &[u64]) -> Vec<u64> {
    let mut sum = 0;
    let sums = counts.iter().map(|count| {
        sum += count;
        sum
    });
    std::iter::once(0).chain(sums).collect()
}

impl Kept<'_> {
    /// How many accesses lie below a number of pages, of those with less than each distance.
    fn below(&self, less: &[u64], pages: u64) -> u64 {
        // d other pages of the sample stand for d · 2^halved pages.
        let end = (pages.saturating_sub(1) >> self.halved).saturating_add(u64::from(pages > 0));
        less[usize::try_from(end).unwrap_or(usize::MAX).min(less.len() - 1)]
    }

    /// The share of the accesses that a count in the sample stands for. If the sample has more or
    /// fewer accesses than its share, the difference is treated as immediate re-accesses (the
    /// paper's `SHARDS_adj`), because most of it comes from the hottest pages.
    fn share_of(&self, hits: u64, pages: u64, kinds: &[usize]) -> f64 {
        let sum = |counts: [u64; 2]| kinds.iter().map(|kind| counts[*kind]).sum::<u64>() as f64;
        let expected = sum([self.accesses.reads, self.accesses.writes]) * self.share;
        if expected <= 0.0 {
            return 0.0;
        }
        let difference = if pages > 0 { expected - sum(self.distances.accesses) } else { 0.0 };
        ((hits as f64 + difference) / expected).clamp(0.0, 1.0)
    }

    fn hit_ratio(&self, kind: Kind, pages: u64) -> f64 {
        let kinds = kinds(kind);
        let hits = kinds.iter().map(|kind| self.below(&self.reused[*kind], pages)).sum();
        self.share_of(hits, pages, kinds)
    }

    fn cache(&self, cache_bytes: u64) -> CacheLoad {
        let pages = cache_bytes >> PAGE_SHIFT;
        let page_bytes = f64::from(1 << PAGE_SHIFT);
        let hit_ratio = ByKind::of(|kind, _| self.hit_ratio(kind, pages));
        let rewritten = self.below(&self.rewritten, pages);
        let read_share = if self.accesses.reads == 0 { 0.0 } else { 1.0 - hit_ratio.reads };
        let written_share = if self.accesses.writes == 0 {
            0.0
        } else {
            1.0 - self.share_of(rewritten, pages, &[1])
        };
        CacheLoad {
            cache_bytes,
            hit_ratio,
            read_bytes: (read_share * self.accesses.reads as f64).round() as u64
                * page_bytes as u64,
            written_bytes: (written_share * self.accesses.writes as f64).round() as u64
                * page_bytes as u64,
            read_share,
            written_share,
        }
    }

    /// The miss ratio over the size of the cache, up to the size where it falls no further.
    fn curve(&self, kind: Kind, name: &str) -> Curve {
        let longest = self.distances.reused.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let largest = longest.saturating_mul(1 << self.halved).max(1);
        let mut sizes = vec![0_u64];
        let steps = (largest as f64).log2() * POINTS_PER_OCTAVE;
        sizes.extend(
            (0..=steps as u32).map(|step| 2_f64.powf(f64::from(step) / POINTS_PER_OCTAVE) as u64),
        );
        sizes.push(largest);
        sizes.dedup();
        let points = sizes.into_iter().map(|pages| {
            let bytes = pages.saturating_mul(1 << PAGE_SHIFT) as f64;
            (bytes, 1.0 - self.hit_ratio(kind, pages))
        });
        Curve {
            name: name.to_owned(),
            x: Quantity::new("size of the cache", "bytes"),
            y: Quantity::new("miss ratio", "1"),
            points: if *self.accesses.get(kind) == 0 { Vec::new() } else { points.collect() },
        }
    }

    /// Distances by powers of two.
    fn bins(&self, kind: Kind, name: &str) -> Bins {
        let mut counts: Vec<u64> = Vec::new();
        for kind in kinds(kind) {
            let counted = self.distances.reused[*kind].iter().enumerate();
            for (distance, count) in counted.filter(|(_, count)| **count > 0) {
                let bin = match distance as u64 {
                    0 => 0,
                    distance => (distance << self.halved).ilog2() as usize + 1,
                };
                if bin >= counts.len() {
                    counts.resize(bin + 1, 0);
                }
                counts[bin] += count << self.halved;
            }
        }
        let edge = |bin: usize| match bin {
            0 => 0.0,
            bin => 2_f64.powi(bin as i32 - 1) * f64::from(1 << PAGE_SHIFT),
        };
        Bins {
            name: name.to_owned(),
            quantity: Quantity::new("reuse distance", "bytes"),
            edges: (0..=counts.len()).map(edge).collect(),
            counts,
        }
    }
}

fn kinds(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::Reads => &[0],
        Kind::Writes => &[1],
        Kind::All => &[0, 1],
    }
}
