//! How large the requests of a load are, and how they are aligned.
//!
//! Real loads have a few hundred sizes, which are more useful than bins. If a load has thousands of
//! sizes, their least significant binary digits are dropped, as few as needed: the number follows
//! from the sizes alone, so merged parts agree with the whole.

mod figures;

pub use figures::{Alignment, OpSizes, SizeCount, SizeFigures};

use std::collections::BTreeMap;

use ioecho_trace::{Op, Request};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::Summary;
use super::bins::{decimal, decimal_edge};
use super::row::Row;
use super::shape::{Bins, Quantity};

/// How many sizes of an operation are told apart at most.
pub const SIZES_MAX: usize = 4096;

/// How many of them the figures name.
pub const COMMONEST: usize = 32;

/// The block sizes that alignment is told of, as powers of two: 512 bytes, 4, 8 and 64 KiB.
const BLOCKS: [u32; 4] = [9, 12, 13, 16];

/// Alignments are counted up to this power of two.
const ALIGNED_MAX: usize = 20;

/// The sector that blkreplay's bins count in.
const SECTOR: f64 = 512.0;

/// The sizes of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OfOp {
    /// Requests by size, of which `digits` binary digits are kept.
    sizes: FxHashMap<u64, u64>,
    digits: u32,
    bytes: u128,
    min: u64,
    max: u64,
    /// Requests by the largest power of two that their start, and their start and length, are a
    /// multiple of.
    start: [u64; ALIGNED_MAX + 1],
    whole: [u64; ALIGNED_MAX + 1],
}

impl Default for OfOp {
    fn default() -> Self {
        Self {
            sizes: FxHashMap::default(),
            digits: u64::BITS,
            bytes: 0,
            min: u64::MAX,
            max: 0,
            start: [0; ALIGNED_MAX + 1],
            whole: [0; ALIGNED_MAX + 1],
        }
    }
}

/// The number with all but its first binary digits zero.
const fn kept(number: u64, digits: u32) -> u64 {
    let length = u64::BITS - number.leading_zeros();
    if length <= digits { number } else { number >> (length - digits) << (length - digits) }
}

impl OfOp {
    #[inline]
    fn observe(&mut self, offset: u64, length: u64) {
        self.bytes += u128::from(length);
        self.min = self.min.min(length);
        self.max = self.max.max(length);
        let power = |number: u64| (number.trailing_zeros() as usize).min(ALIGNED_MAX);
        self.start[power(offset)] += 1;
        self.whole[power(offset | length)] += 1;
        self.add(length, 1);
    }

    #[inline]
    fn add(&mut self, length: u64, requests: u64) {
        *self.sizes.entry(kept(length, self.digits)).or_default() += requests;
        if self.sizes.len() > SIZES_MAX {
            self.coarsen(self.digits - 1);
        }
    }

    #[cold]
    fn coarsen(&mut self, digits: u32) {
        self.digits = digits.max(1);
        while self.digits > 1 {
            let mut coarse = FxHashMap::default();
            for (size, requests) in &self.sizes {
                *coarse.entry(kept(*size, self.digits)).or_default() += requests;
            }
            self.sizes = coarse;
            if self.sizes.len() <= SIZES_MAX {
                break;
            }
            self.digits -= 1;
        }
    }

    fn merge(&mut self, later: &Self) {
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.min = self.min.min(later.min);
        self.max = self.max.max(later.max);
        let counts = self.start.iter_mut().chain(&mut self.whole);
        for (mine, theirs) in counts.zip(later.start.iter().chain(&later.whole)) {
            *mine = mine.saturating_add(*theirs);
        }
        if later.digits < self.digits {
            self.coarsen(later.digits);
        }
        for (size, requests) in &later.sizes {
            self.add(*size, *requests);
        }
    }

    fn figures(&self, op: Op) -> OpSizes {
        let requests: u64 = self.start.iter().sum();
        let mut sizes: Vec<SizeCount> = self
            .sizes
            .iter()
            .map(|(bytes, requests)| SizeCount { bytes: *bytes, requests: *requests })
            .collect();
        sizes.sort_unstable_by_key(|size| (u64::MAX - size.requests, size.bytes));
        let bins = self.bins(op);
        let distinct = sizes.len() as u64;
        sizes.truncate(COMMONEST);
        let aligned = |counts: &[u64], power: u32| {
            counts[power as usize..].iter().sum::<u64>() as f64 / requests as f64
        };
        OpSizes {
            op,
            requests,
            bytes: u64::try_from(self.bytes).unwrap_or(u64::MAX),
            min_bytes: self.min,
            mean_bytes: self.bytes as f64 / requests as f64,
            max_bytes: self.max,
            distinct,
            commonest: sizes,
            bins,
            alignment: BLOCKS
                .iter()
                .map(|power| Alignment {
                    block_bytes: 1 << power,
                    start: aligned(&self.start, *power),
                    whole: aligned(&self.whole, *power),
                })
                .collect(),
        }
    }

    /// Bins of sectors, one more than the decimal ones: what is less than a sector comes first.
    fn bins(&self, op: Op) -> Bins {
        let bin = |size: u64| if size < 512 { 0 } else { decimal(size / 512) + 1 };
        let mut counts = vec![0_u64; bin(self.max) + 1];
        for (size, requests) in &self.sizes {
            counts[bin(*size)] += requests;
        }
        let edges = (0..counts.len()).map(|bin| decimal_edge(bin) * SECTOR);
        Bins {
            name: op.name().to_owned(),
            quantity: Quantity::new("request size", "bytes"),
            edges: [0.0].into_iter().chain(edges).collect(),
            counts,
        }
    }
}

/// The sizes of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    operations: [OfOp; Op::ALL.len()],
}

impl Sizes {
    /// Hands out requests by operation and size.
    pub(super) fn rows(&self, give: &mut impl FnMut(Row)) {
        let mut sizes: BTreeMap<(&'static str, u64), u64> = BTreeMap::new();
        for (op, of) in Op::ALL.into_iter().zip(&self.operations) {
            let op = match op {
                Op::Read => "read",
                Op::Write => "write",
                _ => "other",
            };
            for (bytes, requests) in &of.sizes {
                let sum = sizes.entry((op, *bytes)).or_default();
                *sum = sum.saturating_add(*requests);
            }
        }
        for ((op, bytes), requests) in sizes {
            give(Row::sum("size.requests", requests).op(op).key(bytes));
        }
    }

    /// The figures.
    pub fn figures(&self) -> SizeFigures {
        let operations = Op::ALL.into_iter().zip(&self.operations);
        let digits = self.operations.iter().map(|of| of.digits).min().unwrap_or(u64::BITS);
        let exact = digits == u64::BITS;
        SizeFigures {
            exact,
            relative_error: if exact { 0.0 } else { 0.5_f64.powi(digits as i32 - 1) },
            operations: operations
                .filter(|(_, of)| !of.sizes.is_empty())
                .map(|(op, of)| of.figures(op))
                .collect(),
        }
    }
}

impl Summary for Sizes {
    fn observe(&mut self, request: &Request) {
        // Neither a flush has a size nor a call that concerns a name.
        let is_of_data = !request.op.is_of_files() || request.length.0 > 0;
        if request.op != Op::Flush && is_of_data {
            let of = &mut self.operations[usize::from(request.op.code())];
            of.observe(request.offset.0, request.length.0);
        }
    }

    fn merge(&mut self, later: &Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(&later.operations) {
            mine.merge(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::laws::{absurd, assert_laws, load};
    use ioecho_trace::{Bytes, Nanos};
    use proptest::prelude::*;

    fn of(sizes: impl Iterator<Item = u64>) -> Sizes {
        let mut summary = Sizes::default();
        for size in sizes {
            summary.observe(&Request::new(Nanos(0), Op::Write, Bytes(4096), Bytes(size)));
        }
        summary
    }

    proptest! {
        #[test]
        fn the_laws_hold(load in load(), first in 0_usize..120, second in 0_usize..120) {
            assert_laws(&Sizes::default(), Sizes::figures, &load, (first, second));
        }

        #[test]
        fn nothing_absurd_makes_it_fall_over(load in absurd()) {
            let mut sizes = Sizes::default();
            for request in &load {
                sizes.observe(request);
            }
            let mut twice = sizes.clone();
            twice.merge(&sizes);
            twice.figures();
        }

        #[test]
        fn of_too_many_sizes_the_parts_agree_with_the_whole(
            cut in 0_u64..20_000,
            step in 1_u64..99,
        ) {
            let size = |number: u64| number * number * step;
            let mut merged = of((0..cut).map(size));
            merged.merge(&of((cut..20_000).map(size)));
            let whole = of((0..20_000).map(size));
            prop_assert!(merged == whole);
            let figures = whole.figures();
            prop_assert!(!figures.exact && figures.relative_error < 0.01);
            prop_assert_eq!(figures.operations[0].bins.counts.iter().sum::<u64>(), 20_000);
        }
    }

    #[test]
    fn the_commonest_size_comes_first_and_bins_have_true_edges() {
        let figures = of([4096, 512, 8192, 4096].into_iter()).figures();
        let writes = &figures.operations[0];
        assert!(figures.exact);
        assert_eq!(writes.commonest[0], SizeCount { bytes: 4096, requests: 2 });
        assert_eq!((writes.distinct, writes.min_bytes, writes.max_bytes), (3, 512, 8192));
        let bin = writes.bins.counts.iter().position(|count| *count == 2).unwrap();
        assert!(writes.bins.edges[bin] <= 4096.0 && 4096.0 < writes.bins.edges[bin + 1]);
        assert_eq!(writes.bins.edges.len(), writes.bins.counts.len() + 1);
    }

    #[test]
    fn a_request_is_aligned_if_it_begins_and_ends_at_a_block() {
        let figures = of([4096, 512, 8192, 100].into_iter()).figures();
        let aligned = |block: u64| {
            let all = &figures.operations[0].alignment;
            let found = all.iter().find(|aligned| aligned.block_bytes == block).unwrap();
            (found.start, found.whole)
        };
        assert_eq!(aligned(512), (1.0, 0.75));
        assert_eq!(aligned(4096), (1.0, 0.5));
        assert_eq!(aligned(8192), (0.0, 0.0));
    }
}
