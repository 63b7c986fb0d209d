//! Counts by powers of ten.
//!
//! Latencies and sizes span nine powers of ten, so they are counted in bins that grow with the
//! value: blkreplay's ten bins per power of ten, which people know from its diagrams. Percentiles
//! come from the finer ones of `ioecho_trace::log_linear`.

use std::sync::LazyLock;

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
    // Compared with all of them, because the branch of an early exit would be mispredicted every
    // other time.
    of.first + of.largest.iter().map(|largest| usize::from(value > *largest)).sum::<usize>()
}

/// The least whole number of a decimal bin.
pub(crate) fn decimal_least(bin: usize) -> u64 {
    DECIMAL_EDGES.get(bin).copied().unwrap_or(u64::MAX)
}

/// Where a decimal bin begins.
pub(crate) fn decimal_edge(bin: usize) -> f64 {
    10_f64.powf(bin as f64 / f64::from(PER_DECADE))
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
        fn a_value_lies_in_its_decimal_bin(value in 1_u64..1 << 53) {
            let bin = decimal(value);
            prop_assert!(DECIMAL_EDGES[bin] <= value && DECIMAL_EDGES[bin + 1] > value);
            prop_assert!(decimal_edge(bin) <= value as f64 * (1.0 + 1e-12));
        }
    }
}
