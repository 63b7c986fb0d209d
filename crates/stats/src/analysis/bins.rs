//! Counts by magnitude.
//!
//! Latencies and sizes span nine powers of ten, so they are counted in bins that grow with the
//! value. Two kinds are needed: blkreplay's ten bins per power of ten, which people know from its
//! diagrams, and fine ones in little memory of which there may be thousands, one for each second or
//! process, to take medians from.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Bins per power of ten, as blkreplay's `bins.exe` has them.
pub(crate) const PER_DECADE: u32 = 10;

/// How many bins of [`PER_DECADE`] there are, from 1 to 10^19.
const DECIMAL_BINS: usize = 190;

/// The least whole number of each decimal bin: where the edge lies between two, the higher.
static DECIMAL_EDGES: LazyLock<[u64; DECIMAL_BINS]> = LazyLock::new(|| {
    let edge = |bin: usize| 10_f64.powf(bin as f64 / f64::from(PER_DECADE)).ceil() as u64;
    std::array::from_fn(|bin| {
        // Powers of ten are exact in whole numbers and not always in logarithms.
        let (decade, part) = (bin / 10, bin % 10);
        if part == 0 { 10_u64.pow(decade as u32) } else { edge(bin) }
    })
});

/// So many decimal bins begin at most between a power of two and the next.
const STEPS: usize = 4;

/// The decimal bins of the numbers of so many binary digits.
#[derive(Clone, Copy)]
struct OfLength {
    /// The bin of the least of them.
    first: usize,
    /// The largest numbers of that bin and of those behind it.
    largest: [u64; STEPS],
}

static OF_LENGTH: LazyLock<[OfLength; 65]> = LazyLock::new(|| {
    let edges = &*DECIMAL_EDGES;
    std::array::from_fn(|length| {
        let least = if length == 0 { 0 } else { 1_u64 << (length - 1) };
        let first = edges.partition_point(|edge| *edge <= least).saturating_sub(1);
        let largest = |step| edges.get(first + 1 + step).map_or(u64::MAX, |edge: &u64| edge - 1);
        OfLength { first, largest: std::array::from_fn(largest) }
    })
});

/// The decimal bin of a number: `floor(10 · log10(value))`, exact; zero falls into the first.
#[inline]
pub(crate) fn decimal(value: u64) -> usize {
    let of = &OF_LENGTH[(u64::BITS - value.leading_zeros()) as usize];
    // Compared with all of them: a loop that ends somewhere is guessed wrong every other time.
    of.first + of.largest.iter().map(|largest| usize::from(value > *largest)).sum::<usize>()
}

/// Where a decimal bin begins.
pub(crate) fn decimal_edge(bin: usize) -> f64 {
    10_f64.powf(bin as f64 / f64::from(PER_DECADE))
}

/// Parts of an octave in [`Fine`], as a power of two: a bin is at most 6.25 % wide.
const PRECISION: u32 = 4;

/// Counts in sixteen bins per octave, each value below sixteen in its own. Memory grows with the
/// largest value, to four kilobytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fine(Vec<u32>);

impl Fine {
    /// Counts a value. A bin that is full stays full.
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        let bin = fine(value);
        if bin >= self.0.len() {
            self.0.resize(bin + 1, 0);
        }
        self.0[bin] = self.0[bin].saturating_add(1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// The middle of the bin that holds the value which the share `quantile` does not exceed: right
    /// to 3.2 %. `None` of nothing.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<u64> {
        let total = self.count();
        let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (bin, count) in self.0.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                let (least, next) = (fine_least(bin), fine_least(bin + 1));
                return Some(least + (next - least) / 2);
            }
        }
        None
    }
}

/// The bin of a value in [`Fine`].
fn fine(value: u64) -> usize {
    if value < 1 << PRECISION {
        return value as usize;
    }
    let shift = value.ilog2() - PRECISION;
    ((shift as usize) << PRECISION) + (value >> shift) as usize
}

/// The least value of a bin of [`Fine`].
fn fine_least(bin: usize) -> u64 {
    let parts = 1_usize << PRECISION;
    if bin < parts {
        return bin as u64;
    }
    let shift = (bin >> PRECISION) as u32 - 1;
    let least = u128::from((parts + bin % parts) as u64) << shift;
    u64::try_from(least).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_ten_begin_a_decimal_bin_and_what_lies_just_below_does_not() {
        for decade in 0..19 {
            let power = 10_u64.pow(decade);
            assert_eq!(decimal(power), 10 * decade as usize);
            if decade > 0 {
                assert_eq!(decimal(power - 1), 10 * decade as usize - 1);
            }
        }
        assert_eq!((decimal(0), decimal(8), decimal(16), decimal(24)), (0, 9, 12, 13));
        assert_eq!(decimal(u64::MAX), DECIMAL_BINS - 1);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_fine_bin(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let bin = fine(value);
            prop_assert!(fine_least(bin) <= value);
            prop_assert!(fine_least(bin + 1) > value || fine_least(bin + 1) == u64::MAX);
        }

        #[test]
        fn a_value_lies_in_its_decimal_bin(value in 1_u64..1 << 53) {
            let bin = decimal(value);
            prop_assert!(DECIMAL_EDGES[bin] <= value && DECIMAL_EDGES[bin + 1] > value);
            prop_assert!(decimal_edge(bin) <= value as f64 * (1.0 + 1e-12));
        }
    }

    #[test]
    fn a_median_is_right_to_the_width_of_a_bin() {
        let mut fine = Fine::default();
        (1..=10_001_u64).for_each(|value| fine.record(value * 1000));
        let median = fine.quantile(0.5).unwrap() as f64;
        assert!((median / 5_001_000.0 - 1.0).abs() < 0.033, "{median}");
        assert_eq!(Fine::default().quantile(0.5), None);
    }
}
