//! Computes a figure of any choice of blocks within microseconds.
//!
//! The bootstrap asks for the 99th percentile of a thousand choices of blocks. Adding up the
//! histograms of the chosen blocks each time costs a thousand times a thousand bins. But the rank
//! of a span in a choice is the sum of its ranks in the blocks, so with running counts for each
//! block a percentile is found by bisection: a dozen sums over the blocks, whatever the resolution.

use super::profile::{BITS, Bins};
use crate::histogram::edges;

/// A figure of a distribution or of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    Mean,
    Quantile(f64),
    Max,
    /// Throughput per second of the run.
    Rate,
}

/// The blocks of all runs of a group, one after the other, for one kind of request.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    /// Bins that any block uses, in order.
    bins: Vec<usize>,
    /// For each block, how many spans lie in its bins up to and including each.
    below: Vec<u64>,
    counts: Vec<u64>,
    sums: Vec<f64>,
    maxima: Vec<u64>,
    /// What was done in each block, for rates.
    done: Vec<f64>,
    /// How long each block lasted, in seconds.
    seconds: Vec<f64>,
}

impl Ladder {
    /// The distributions of blocks.
    pub(super) fn of_spans(blocks: &[Bins]) -> Self {
        let mut bins: Vec<usize> =
            blocks.iter().flat_map(|block| block.filled().map(|(bin, _)| bin)).collect();
        bins.sort_unstable();
        bins.dedup();
        let mut below = Vec::with_capacity(bins.len() * blocks.len());
        for block in blocks {
            let mut filled = block.filled().peekable();
            let mut sum = 0;
            for bin in &bins {
                if let Some((_, count)) = filled.next_if(|(filled, _)| filled == bin) {
                    sum += count;
                }
                below.push(sum);
            }
        }
        Self {
            bins,
            below,
            counts: blocks.iter().map(Bins::count).collect(),
            sums: blocks.iter().map(|block| block.sum_ns() as f64).collect(),
            maxima: blocks.iter().map(|block| block.max().map_or(0, |max| max.0 as u64)).collect(),
            ..Self::default()
        }
    }

    /// What was done in each block, and how long it lasted in seconds.
    pub(super) fn of_flow(done: Vec<f64>, seconds: Vec<f64>) -> Self {
        Self { done, seconds, ..Self::default() }
    }

    /// A figure of blocks with their weights; `None` where nothing was chosen.
    pub(super) fn value(&self, statistic: Statistic, chosen: &[(usize, u64)]) -> Option<f64> {
        match statistic {
            Statistic::Mean => {
                let count = self.count(chosen);
                let sum: f64 = chosen.iter().map(|(block, w)| self.sums[*block] * *w as f64).sum();
                (count > 0).then(|| sum / count as f64)
            }
            Statistic::Quantile(quantile) => self.quantile(quantile, chosen),
            Statistic::Max => chosen
                .iter()
                .filter(|(block, _)| self.counts[*block] > 0)
                .map(|(block, _)| self.maxima[*block] as f64)
                .reduce(f64::max),
            Statistic::Rate => {
                let sum = |of: &[f64]| -> f64 {
                    chosen.iter().map(|(block, weight)| of[*block] * *weight as f64).sum()
                };
                let (done, seconds) = (sum(&self.done), sum(&self.seconds));
                (seconds > 0.0).then(|| done / seconds)
            }
        }
    }

    /// Over how many of the chosen blocks a figure's requests are spread: those beyond a
    /// percentile, or all. For unequal blocks, the effective number of equal ones (the inverse of
    /// Simpson's index: (Σn)²/Σn²). A hundred slow requests of one stall are one event.
    pub(super) fn spread_over(&self, statistic: Statistic, chosen: &[(usize, u64)]) -> f64 {
        let limit = match statistic {
            Statistic::Quantile(_) => self.value(statistic, chosen).unwrap_or(0.0),
            Statistic::Mean | Statistic::Max => 0.0,
            Statistic::Rate => return chosen.len() as f64,
        };
        let (mut sum, mut squares) = (0.0, 0.0);
        for beyond in self.beyond(limit, chosen) {
            sum += beyond;
            squares += beyond * beyond;
        }
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// How many spans each of the chosen blocks has beyond a limit, to a bin.
    fn beyond(&self, limit: f64, chosen: &[(usize, u64)]) -> impl Iterator<Item = f64> {
        let bin = self.bins.partition_point(|bin| edges::<BITS>(*bin).1 <= limit).checked_sub(1);
        chosen.iter().map(move |(block, _)| {
            let before = bin.map_or(0, |bin| self.below[block * self.bins.len() + bin]);
            (self.counts[*block] - before) as f64
        })
    }

    /// By how much each of the chosen blocks moves a figure of all of them, in any unit: its
    /// influence, which adds up to nothing over all blocks. None for a maximum, which is one
    /// request's.
    pub(super) fn influences(&self, statistic: Statistic, chosen: &[(usize, u64)]) -> Vec<f64> {
        let blocks = || chosen.iter().map(|(block, _)| *block);
        let share_of = |mine: f64, all: f64| if all > 0.0 { mine / all } else { 0.0 };
        // What a block has of one thing, as a share of all, less what it has of the other.
        let apart = |first: Vec<f64>, second: Vec<f64>| -> Vec<f64> {
            let [all_first, all_second] = [&first, &second].map(|all| all.iter().sum::<f64>());
            let both = first.into_iter().zip(second);
            both.map(|(a, b)| share_of(a, all_first) - share_of(b, all_second)).collect()
        };
        let counts = || blocks().map(|block| self.counts[block] as f64).collect();
        match statistic {
            Statistic::Mean => apart(blocks().map(|block| self.sums[block]).collect(), counts()),
            Statistic::Quantile(_) => {
                let limit = self.value(statistic, chosen).unwrap_or(0.0);
                apart(self.beyond(limit, chosen).collect(), counts())
            }
            Statistic::Max => Vec::new(),
            Statistic::Rate => apart(
                blocks().map(|block| self.done[block]).collect(),
                blocks().map(|block| self.seconds[block]).collect(),
            ),
        }
    }

    /// How many spans the chosen blocks hold.
    pub(super) fn count(&self, chosen: &[(usize, u64)]) -> u64 {
        chosen.iter().map(|(block, weight)| self.counts[*block] * weight).sum()
    }

    /// Interpolated within the bin, as [`Bins::interpolated`] does.
    fn quantile(&self, quantile: f64, chosen: &[(usize, u64)]) -> Option<f64> {
        let count = self.count(chosen);
        let last = self.bins.len().checked_sub(1).filter(|_| count > 0)?;
        let rank = quantile * count as f64;
        let below = |bin: usize| -> u64 {
            let at = |block: usize| self.below[block * self.bins.len() + bin];
            chosen.iter().map(|(block, weight)| at(*block) * weight).sum()
        };
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = usize::midpoint(low, high);
            if below(middle) as f64 >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let before = if low == 0 { 0 } else { below(low - 1) };
        let here = below(low) - before;
        let (from, to) = edges::<BITS>(self.bins[low]);
        let share = ((rank - before as f64) / here.max(1) as f64).clamp(0.0, 1.0);
        Some(from + share * (to - from))
    }
}

/// Every block of a run or a group, once.
pub(super) fn every(blocks: usize) -> Vec<(usize, u64)> {
    (0..blocks).map(|block| (block, 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;
    use proptest::prelude::*;

    fn bins(spans: &[i64]) -> Bins {
        let mut bins = Bins::default();
        for ns in spans {
            bins.record(Nanos(*ns));
        }
        bins
    }

    proptest! {
        #[test]
        fn a_figure_of_chosen_blocks_is_that_of_their_sum(
            blocks in proptest::collection::vec(
                proptest::collection::vec(1_i64..100_000_000, 0..20), 1..6),
            weights in proptest::collection::vec(0_u64..3, 6),
            quantile in 0.01..1.0,
        ) {
            let blocks: Vec<Bins> = blocks.iter().map(|spans| bins(spans)).collect();
            let all = (0..blocks.len()).map(|block| (block, weights[block]));
            let chosen: Vec<(usize, u64)> = all.filter(|chosen| chosen.1 > 0).collect();
            let mut sum = Bins::default();
            for (block, weight) in &chosen {
                (0..*weight).for_each(|_| sum.merge(&blocks[*block]));
            }
            let ladder = Ladder::of_spans(&blocks);
            let got = ladder.value(Statistic::Quantile(quantile), &chosen);
            let expected = sum.interpolated(quantile);
            prop_assert_eq!(got.is_some(), expected.is_some());
            if let (Some(got), Some(expected)) = (got, expected) {
                // The sum is cut at its maximum; the ladder may end within the last bin.
                prop_assert!((got - expected).abs() <= expected / 100.0 + 1.0, "{got} {expected}");
            }
            let mean = ladder.value(Statistic::Mean, &chosen);
            let exact = (sum.count() > 0).then(|| sum.sum_ns() as f64 / sum.count() as f64);
            prop_assert_eq!(mean.is_some(), exact.is_some());
            prop_assert!((mean.unwrap_or(0.0) - exact.unwrap_or(0.0)).abs() < 1e-3);
        }
    }

    #[test]
    fn a_rate_is_what_was_done_over_the_time_that_it_took() {
        let ladder = Ladder::of_flow(vec![10.0, 30.0], vec![1.0, 3.0]);
        assert_eq!(ladder.value(Statistic::Rate, &every(2)), Some(10.0));
        assert_eq!(ladder.value(Statistic::Rate, &[]), None);
    }
}
