//! How far apart the requests of a window lie.
//!
//! The lowest and the highest place of a long window follow from those of the short ones in it, so
//! only windows of the greatest common divisor of all lengths are kept.

use std::collections::BTreeMap;

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::figures::Distance;
use crate::analysis::folding::Folding;
use crate::analysis::shape::{Quantity, Series};
use crate::analysis::steps::{Cell, STEPS_MAX};

/// How many pairs of a volume and a window are kept at most; beyond, windows become twice as long.
const CELLS_MAX: usize = 1 << 17;

/// The requests of a volume in a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Extent {
    lowest: u64,
    highest: u64,
    requests: u64,
}

impl Default for Extent {
    fn default() -> Self {
        Self { lowest: u64::MAX, highest: 0, requests: 0 }
    }
}

impl Cell for Extent {
    #[inline]
    fn merge(&mut self, other: &Self) {
        self.lowest = self.lowest.min(other.lowest);
        self.highest = self.highest.max(other.highest);
        self.requests = self.requests.saturating_add(other.requests);
    }
}

/// Keeps the extents of windows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Distances {
    windows_ns: Vec<i64>,
    base_ns: u64,
    extents: Folding<Extent>,
    /// The window of the last request: from and to which instant, and its number.
    #[serde(skip)]
    latest: (u64, u64, u64),
}

impl Distances {
    pub(super) fn new(windows_ns: &[i64]) -> Self {
        let mut windows: Vec<i64> = windows_ns.iter().copied().filter(|ns| *ns > 0).collect();
        windows.sort_unstable();
        windows.dedup();
        let base = windows.iter().fold(0, |base, window| common_divisor(base, *window as u64));
        Self {
            windows_ns: windows,
            base_ns: base.max(1),
            extents: Folding::new(CELLS_MAX),
            latest: (0, 0, 0),
        }
    }

    #[inline]
    pub(super) fn observe(&mut self, at: i64, request: &Request) {
        let place = request.offset.0;
        let extent = Extent { lowest: place, highest: place, requests: 1 };
        let at = at as u64;
        if at < self.latest.0 || at >= self.latest.1 {
            let index = at / self.base_ns;
            let from = index * self.base_ns;
            self.latest = (from, from.saturating_add(self.base_ns), index);
        }
        self.extents.add(request.volume.0, self.latest.2, &extent);
    }

    pub(super) fn merge(&mut self, later: &Self) {
        self.extents.merge(&later.extents);
    }

    pub(super) fn figures(&self) -> Vec<Distance> {
        self.windows_ns.iter().map(|window| self.figure(*window)).collect()
    }

    fn figure(&self, window_ns: i64) -> Distance {
        let base = u128::from(self.base_ns) << self.extents.shift();
        let mut bases = (window_ns as u128).div_ceil(base) as u64;
        let indices = || self.extents.iter().map(|(_, index, _)| index);
        let (first, last) = (indices().min().unwrap_or(0), indices().max().unwrap_or(0));
        while last / bases - first / bases >= STEPS_MAX as u64 {
            bases = bases.saturating_mul(2);
        }
        let mut extents: BTreeMap<(u64, u32), Extent> = BTreeMap::new();
        for (volume, index, extent) in self.extents.iter() {
            extents.entry((index / bases, volume)).or_default().merge(extent);
        }
        let first = first / bases;
        let steps = if extents.is_empty() { 0 } else { last / bases - first + 1 };
        let mut sums: Vec<Option<(f64, u64)>> = vec![None; steps as usize];
        for ((index, _), extent) in &extents {
            let (sum, requests) = sums[(index - first) as usize].get_or_insert((0.0, 0));
            *sum += (extent.highest - extent.lowest) as f64;
            *requests += extent.requests;
        }
        let nanos = |bases: u128| i64::try_from(bases * base).unwrap_or(i64::MAX);
        let series = |name: &str, value: fn((f64, u64)) -> f64| Series {
            name: name.to_owned(),
            quantity: Quantity::new(name, "bytes"),
            start_ns: nanos(u128::from(first) * u128::from(bases)),
            step_ns: nanos(u128::from(bases)),
            values: sums.iter().map(|sum| sum.map(value)).collect(),
        };
        Distance {
            window_ns,
            sum: series("distance", |(sum, _)| sum),
            mean: series("mean distance", |(sum, requests)| sum / requests as f64),
        }
    }
}

/// The largest number that both are multiples of (Euclid).
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
