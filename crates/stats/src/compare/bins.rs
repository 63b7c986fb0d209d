//! Counts of spans, small enough to keep one for every block of time and kind of request.
//!
//! A comparison draws blocks of time at random a thousand times over, so every block needs its own
//! distribution. A histogram of three digits takes some hundred kilobytes, a thousand of them more
//! memory than a run deserves. Here an octave has 128 bins of equal width and is there only where a
//! span fell into it, so a block takes a few kilobytes. A bin is at most 1/128 of its value wide,
//! and percentiles are interpolated within it.

/// Bins of an octave.
const PER_OCTAVE: usize = 128;
/// `PER_OCTAVE` is two to the power of this.
const OCTAVE_BITS: u32 = 7;
/// Octaves, of which the first holds all below 128 ns and the last all from an hour on.
const OCTAVES: usize = 36;

/// How wide a bin is at most, as a share of the values in it.
pub(super) const RESOLUTION: f64 = 1.0 / PER_OCTAVE as f64;

/// A mergeable histogram of nanoseconds. Count, sum and maximum are exact.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bins {
    octaves: Vec<Option<Box<[u32; PER_OCTAVE]>>>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Bins {
    /// Adds a span; one below zero counts as zero.
    #[inline]
    pub fn record(&mut self, ns: i64) {
        let ns = u64::try_from(ns).unwrap_or(0);
        let (octave, slot) = place(ns);
        if octave >= self.octaves.len() {
            self.octaves.resize_with(octave + 1, || None);
        }
        let bins = self.octaves[octave].get_or_insert_with(|| Box::new([0; PER_OCTAVE]));
        bins[slot] = bins[slot].saturating_add(1);
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds every span of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.octaves.len() > self.octaves.len() {
            self.octaves.resize_with(other.octaves.len(), || None);
        }
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(|| Box::new([0; PER_OCTAVE]));
            for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                *mine = mine.saturating_add(*theirs);
            }
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many spans there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum, in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// The longest, in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The bins that are not empty, in order: number and count.
    pub fn filled(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.octaves.iter().enumerate().flat_map(|(octave, bins)| {
            bins.iter().flat_map(move |bins| {
                let numbered = bins.iter().enumerate().filter(|(_, count)| **count > 0);
                numbered.map(move |(slot, count)| {
                    ((octave * PER_OCTAVE + slot) as u16, u64::from(*count))
                })
            })
        })
    }

    /// The span that the share `quantile` (0 to 1) does not exceed, in nanoseconds, interpolated
    /// within its bin; `None` of nothing.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = quantile.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0;
        let mut last = None;
        for (bin, count) in self.filled() {
            let (low, high) = edges(bin);
            if (below + count) as f64 >= rank {
                let share = ((rank - below as f64) / count as f64).clamp(0.0, 1.0);
                return Some((low + share * (high - low)).min(self.max_ns as f64));
            }
            below += count;
            last = Some(high);
        }
        last.map(|high| high.min(self.max_ns as f64))
    }
}

/// Octave and bin of a span.
fn place(ns: u64) -> (usize, usize) {
    let bits = u64::BITS - ns.leading_zeros();
    if bits <= OCTAVE_BITS {
        return (0, ns as usize);
    }
    let octave = (bits - OCTAVE_BITS) as usize;
    if octave >= OCTAVES {
        return (OCTAVES - 1, PER_OCTAVE - 1);
    }
    let slot = (ns >> (bits - 1 - OCTAVE_BITS)) as usize & (PER_OCTAVE - 1);
    (octave, slot)
}

/// Where a bin begins and ends, in nanoseconds.
pub(super) fn edges(bin: u16) -> (f64, f64) {
    let (octave, slot) = (usize::from(bin) / PER_OCTAVE, usize::from(bin) % PER_OCTAVE);
    if octave == 0 {
        return (slot as f64, slot as f64 + 1.0);
    }
    let base = 2_f64.powi(OCTAVE_BITS as i32 + octave as i32 - 1);
    let width = base / PER_OCTAVE as f64;
    let low = base + slot as f64 * width;
    (low, low + width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Bins {
        /// Those of some spans.
        pub(in crate::compare) fn of(spans: &[i64]) -> Self {
            let mut bins = Self::default();
            for ns in spans {
                bins.record(*ns);
            }
            bins
        }
    }

    proptest! {
        #[test]
        fn a_span_lies_within_its_bin(ns in 0_u64..(1 << 41)) {
            let (octave, slot) = place(ns);
            let (low, high) = edges((octave * PER_OCTAVE + slot) as u16);
            prop_assert!(low <= ns as f64 && (ns as f64) < high, "{ns} in {low}..{high}");
            prop_assert!(high - low <= 1.0 || high - low <= low * RESOLUTION);
        }

        #[test]
        fn parts_merge_to_the_whole(
            spans in proptest::collection::vec(-5_i64..i64::MAX, 0..50), cut in 0_usize..50,
        ) {
            let cut = cut.min(spans.len());
            let mut merged = Bins::of(&spans[..cut]);
            merged.merge(&Bins::of(&spans[cut..]));
            prop_assert_eq!(merged, Bins::of(&spans));
        }

        #[test]
        fn a_quantile_is_right_to_a_bin(
            mut spans in proptest::collection::vec(1_000_i64..1_000_000_000, 1..80),
            quantile in 0.0..1.0,
        ) {
            let got = Bins::of(&spans).quantile(quantile).unwrap();
            spans.sort_unstable();
            let rank = (quantile * spans.len() as f64).ceil().max(1.0) as usize;
            let exact = spans[rank - 1] as f64;
            prop_assert!((got - exact).abs() <= exact * RESOLUTION + 1.0, "{got} for {exact}");
        }
    }

    #[test]
    fn what_is_longer_than_all_bins_keeps_its_maximum() {
        let bins = Bins::of(&[1, i64::MAX]);
        assert_eq!(bins.max_ns(), i64::MAX as u64);
        assert_eq!(bins.filled().map(|(_, count)| count).sum::<u64>(), 2);
        assert_eq!(Bins::default().quantile(0.5), None);
    }
}
