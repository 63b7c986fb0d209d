//! Where on the device requests go: how much hotter its hot parts are.
//!
//! The device's size is not known before the end, so regions are as large as needed for a few
//! thousand of them to cover what was seen so far. From the regions' counts, in the order of their
//! size, follows the exponent of Zipf's law that makes them most likely.

use ioecho_trace::{Bytes, Request};
use serde::Serialize;

use crate::count::grid::Grid;

/// How many regions are counted at most; a power of two.
const REGIONS: usize = 4096;

/// How many are told apart at the end, so that most have more than a few requests.
const REGIONS_OF_MODEL: usize = 256;

/// The smallest region, 2 to this power in bytes.
const SMALLEST: u32 = 16;

/// Counts requests by region.
#[derive(Clone, Debug)]
pub struct Regions {
    counts: Grid<u64, REGIONS, true>,
    least: u64,
    end: u64,
}

impl Default for Regions {
    fn default() -> Self {
        Self { counts: Grid::default(), least: u64::MAX, end: 0 }
    }
}

impl Regions {
    /// Adds a request with a range. Volumes lie on top of each other.
    pub fn add(&mut self, request: &Request) {
        let begin = request.offset.0;
        self.least = self.least.min(begin);
        self.end = self.end.max(request.end().0);
        *self.counts.at(begin >> SMALLEST) += 1;
    }

    /// How large a region is, as a power of two.
    fn shift(&self) -> u32 {
        SMALLEST + self.counts.shift()
    }

    /// The figures.
    pub fn figures(&self) -> RegionFigures {
        let mut coarse = self.clone();
        while coarse
            .end
            .checked_sub(1)
            .is_some_and(|last| last >> coarse.shift() >= REGIONS_OF_MODEL as u64)
        {
            coarse.counts.fold_to(coarse.counts.shift() + 1);
        }
        let begin = if self.end == 0 { 0 } else { self.least };
        let regions =
            (coarse.end.saturating_sub(1) >> coarse.shift()) - (begin >> coarse.shift()) + 1;
        let hundredths = self.hundredths(begin);
        let mut counts = coarse.counts.cells().to_vec();
        counts.retain(|count| *count > 0);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = counts.iter().sum();
        let hottest = (regions as usize).div_ceil(10);
        let hot: u64 = counts.iter().take(hottest).sum();
        RegionFigures {
            begin: Bytes(begin),
            end: Bytes(self.end),
            regions,
            requests: total,
            zipf_exponent: zipf_exponent(&counts, regions as usize),
            hottest_tenth_share: if total == 0 { 0.0 } else { hot as f64 / total as f64 },
            hundredths,
        }
    }

    /// The share of the requests in each hundredth of what is used, in the order of places. A
    /// region that lies in two is divided between them.
    fn hundredths(&self, begin: u64) -> Vec<f64> {
        let width = self.end.saturating_sub(begin).max(1) as f64 / 100.0;
        let total: u64 = self.counts.cells().iter().sum();
        let mut shares = vec![0.0; 100];
        let occupied = self.counts.cells().iter().enumerate().filter(|(_, count)| **count > 0);
        for (region, count) in occupied {
            let from = ((region as u64) << self.shift()).max(begin) - begin;
            let to = (((region as u64 + 1) << self.shift()).min(self.end)).max(begin + 1) - begin;
            let (from, to) = (from as f64 / width, (to as f64 / width).min(100.0));
            for (at, share) in shares.iter_mut().enumerate().skip(from as usize) {
                let within = to.min((at + 1) as f64) - from.max(at as f64);
                if within <= 0.0 {
                    break;
                }
                *share += *count as f64 / total as f64 * within / (to - from);
            }
        }
        shares
    }
}

/// The exponent θ for which the counts, the largest first, are most likely if the k-th of so many
/// regions is wanted in proportion to k^−θ. The likelihood has one maximum, which is found by
/// thirds.
fn zipf_exponent(counts: &[u64], regions: usize) -> f64 {
    let total: u64 = counts.iter().sum();
    if total == 0 || regions < 2 {
        return 0.0;
    }
    let weighted: f64 =
        counts.iter().enumerate().map(|(at, n)| *n as f64 * ((at + 1) as f64).ln()).sum();
    let loss = |theta: f64| {
        let sum: f64 = (1..=regions).map(|rank| (rank as f64).powf(-theta)).sum();
        theta * weighted + total as f64 * sum.ln()
    };
    let (mut from, mut to) = (0.0, 5.0);
    for _ in 0..60 {
        let (left, right) = (from + (to - from) / 3.0, to - (to - from) / 3.0);
        if loss(left) < loss(right) { to = right } else { from = left }
    }
    f64::midpoint(from, to)
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegionFigures {
    /// The first byte that is used.
    pub begin: Bytes,
    /// The end of what is used.
    pub end: Bytes,
    /// Into how many regions that is divided for what follows: at most 256.
    pub regions: u64,
    /// The requests that were counted.
    #[serde(skip)]
    pub(super) requests: u64,
    /// The exponent of Zipf's law over these regions; zero where all are alike.
    pub zipf_exponent: f64,
    /// The share of the requests that begin in the hottest tenth of the regions.
    pub hottest_tenth_share: f64,
    /// The share of each hundredth of what is used, in the order of places.
    #[serde(skip)]
    pub(super) hundredths: Vec<f64>,
}
