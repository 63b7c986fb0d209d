//! Counts by magnitude.
//!
//! Spans of time and sizes lie between a nanosecond and centuries, between a byte and a device.
//! Equal bins for all of them would be too many or too wide. So every power of two, an octave, is
//! cut into 2^BITS bins of equal width: a bin is at most 2^−BITS of its value wide, whatever the
//! value. Every number of 64 bits has a bin, so there is no largest one at which all others would
//! be counted. This is the layout of `HdrHistogram`, whose three decimal digits are 10 bits.
//!
//! Memory is taken only for octaves in which something was counted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The number of bins for all numbers of 64 bits.
pub const fn bins<const BITS: u32>() -> usize {
    ((u64::BITS + 1 - BITS) as usize) << BITS
}

/// The bin of a value. Values below 2^(BITS + 1) have a bin of their own each.
#[inline]
pub const fn bin<const BITS: u32>(value: u64) -> usize {
    if value < 1 << BITS {
        return value as usize;
    }
    let shift = value.ilog2() - BITS;
    ((shift as usize) << BITS) + (value >> shift) as usize
}

/// The least value of a bin; `u64::MAX` of one behind the last.
pub const fn least<const BITS: u32>(bin: usize) -> u64 {
    if bin < 1 << BITS {
        return bin as u64;
    }
    if bin >= bins::<BITS>() {
        return u64::MAX;
    }
    (((1 << BITS) + (bin & ((1 << BITS) - 1))) as u64) << ((bin >> BITS) - 1)
}

/// The greatest value of a bin.
pub const fn greatest<const BITS: u32>(bin: usize) -> u64 {
    if bin + 1 >= bins::<BITS>() { u64::MAX } else { least::<BITS>(bin + 1) - 1 }
}

/// The middle of a bin, which is no more than half a bin away from any of its values.
pub const fn middle<const BITS: u32>(bin: usize) -> u64 {
    let least = least::<BITS>(bin);
    least + (greatest::<BITS>(bin) - least).div_ceil(2)
}

/// The number of counted values in each bin; 2^BITS bins for every power of two.
///
/// Parts merge to the histogram of the whole, and no counter saturates. It is stored as the counts
/// of all bins up to the last one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Histogram<const BITS: u32> {
    /// The low 32 bits of the counters, octave by octave. An octave without counts is empty. The
    /// list ends with the last octave in use.
    octaves: Vec<Box<[u32]>>,
    /// For each bin whose 32-bit counter overflowed: the number of overflows.
    carried: BTreeMap<usize, u64>,
    count: u64,
}

impl<const BITS: u32> From<Vec<u64>> for Histogram<BITS> {
    fn from(counts: Vec<u64>) -> Self {
        let mut histogram = Self::default();
        counts.into_iter().enumerate().for_each(|(bin, count)| histogram.add(bin, count));
        histogram
    }
}

impl<const BITS: u32> From<Histogram<BITS>> for Vec<u64> {
    fn from(histogram: Histogram<BITS>) -> Self {
        let mut counts = Self::new();
        for (bin, count) in histogram.filled() {
            counts.resize(bin, 0);
            counts.push(count);
        }
        counts
    }
}

impl<const BITS: u32> Histogram<BITS> {
    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let bin = bin::<BITS>(value);
        let (octave, slot) = (bin >> BITS, bin & ((1 << BITS) - 1));
        match self.octaves.get_mut(octave).and_then(|octave| octave.get_mut(slot)) {
            Some(counter) if *counter < u32::MAX => {
                *counter += 1;
                self.count += 1;
            }
            _ => self.add(bin, 1),
        }
    }

    /// Counts `count` values of bin `bin`.
    #[cold]
    pub fn add(&mut self, bin: usize, count: u64) {
        let bin = bin.min(bins::<BITS>() - 1);
        if count == 0 {
            return;
        }
        let (octave, slot) = (bin >> BITS, bin & ((1 << BITS) - 1));
        if octave >= self.octaves.len() {
            self.octaves.resize_with(octave + 1, Box::default);
        }
        let counters = &mut self.octaves[octave];
        if counters.is_empty() {
            *counters = vec![0; 1 << BITS].into_boxed_slice();
        }
        let sum = u64::from(counters[slot]) + (count & u64::from(u32::MAX));
        counters[slot] = sum as u32;
        let carried = (count >> 32) + (sum >> 32);
        if carried > 0 {
            *self.carried.entry(bin).or_default() += carried;
        }
        self.count = self.count.saturating_add(count);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.octaves.len() < other.octaves.len() {
            self.octaves.resize_with(other.octaves.len(), Box::default);
        }
        for (octave, (mine, theirs)) in self.octaves.iter_mut().zip(&other.octaves).enumerate() {
            if mine.is_empty() {
                mine.clone_from(theirs);
                continue;
            }
            let mut carries = false;
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = mine.wrapping_add(*theirs);
                carries |= *mine < *theirs;
            }
            if carries {
                let sums = mine.iter().zip(theirs).enumerate();
                for (slot, _) in sums.filter(|(_, (sum, theirs))| sum < theirs) {
                    *self.carried.entry((octave << BITS) + slot).or_default() += 1;
                }
            }
        }
        for (bin, carried) in &other.carried {
            *self.carried.entry(*bin).or_default() += carried;
        }
        self.count = self.count.saturating_add(other.count);
    }

    /// The number of counted values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bins that are not empty, in order: number and count.
    pub fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.octaves.iter().enumerate().flat_map(move |(octave, counters)| {
            let numbered = counters.iter().enumerate();
            numbered.filter_map(move |(slot, counter)| {
                let bin = (octave << BITS) + slot;
                let count = self.whole(bin, *counter);
                (count > 0).then_some((bin, count))
            })
        })
    }

    fn whole(&self, bin: usize, counter: u32) -> u64 {
        if self.carried.is_empty() {
            return u64::from(counter);
        }
        let carried = self.carried.get(&bin).copied().unwrap_or(0);
        carried.saturating_mul(1 << 32).saturating_add(u64::from(counter))
    }

    /// The quantile of a share (0 to 1; the least value for 0): its bin, the number of values in
    /// the bins below, and the number in it. `None` if empty.
    pub fn at(&self, share: f64) -> Option<(usize, u64, u64)> {
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut below = 0_u64;
        let mut last = None;
        for (octave, counters) in self.octaves.iter().enumerate() {
            // Whole octaves are summed first: most of them lie below.
            let bins = octave << BITS..(octave + 1) << BITS;
            let carried = self.carried.range(bins.clone()).map(|(_, carried)| *carried);
            let carried = carried.sum::<u64>().saturating_mul(1 << 32);
            let sum = counters.iter().map(|counter| u64::from(*counter)).sum::<u64>();
            let sum = sum.saturating_add(carried);
            if below.saturating_add(sum) < rank {
                below = below.saturating_add(sum);
                continue;
            }
            for (bin, counter) in bins.zip(counters) {
                let here = self.whole(bin, *counter);
                if here == 0 {
                    continue;
                }
                if below.saturating_add(here) >= rank {
                    return Some((bin, below, here));
                }
                below = below.saturating_add(here);
                last = Some((bin, below, here));
            }
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram<4> {
        let mut histogram = Histogram::default();
        for value in values {
            histogram.record(*value);
        }
        histogram
    }

    fn in_its_bin<const BITS: u32>(value: u64) -> Result<(), TestCaseError> {
        let bin = bin::<BITS>(value);
        let (least, greatest) = (least::<BITS>(bin), greatest::<BITS>(bin));
        prop_assert!(bin < bins::<BITS>() && least <= value && value <= greatest);
        prop_assert!(greatest - least <= value >> BITS, "{least} to {greatest} for {value}");
        Ok(())
    }

    /// Values of every magnitude.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let value = (any::<u64>(), 0_u32..64).prop_map(|(value, shift)| value >> shift);
        proptest::collection::vec(value, 0..60)
    }

    proptest! {
        #[test]
        fn every_value_lies_in_a_bin_that_is_narrow(value in any::<u64>(), shift in 0_u32..64) {
            in_its_bin::<2>(value >> shift)?;
            in_its_bin::<4>(value >> shift)?;
            in_its_bin::<10>(value >> shift)?;
        }

        #[test]
        fn parts_merge_to_the_whole(a in values(), b in values()) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }

        #[test]
        fn what_is_written_down_is_what_is_read(values in values()) {
            let histogram = of(&values);
            prop_assert_eq!(Histogram::from(Vec::from(histogram.clone())), histogram);
        }

        #[test]
        fn a_share_lies_in_the_bin_of_the_value_of_its_rank(
            mut all in values(), more in any::<u64>(), share in 0.0..=1.0,
        ) {
            all.push(more);
            let (found, below, here) = of(&all).at(share).unwrap();
            all.sort_unstable();
            let rank = (share * all.len() as f64).ceil().max(1.0) as usize;
            prop_assert_eq!(found, bin::<4>(all[rank - 1]));
            let least = least::<4>(found);
            prop_assert_eq!(below, all.iter().filter(|value| **value < least).count() as u64);
            let inside = all.iter().filter(|value| bin::<4>(**value) == found).count();
            prop_assert_eq!(here, inside as u64);
        }
    }

    #[test]
    fn bins_follow_each_other_without_a_gap_up_to_the_largest_number() {
        for bin in 1..bins::<4>() {
            assert_eq!(greatest::<4>(bin - 1) + 1, least::<4>(bin));
        }
        assert_eq!(bin::<4>(u64::MAX), bins::<4>() - 1);
        assert_eq!((greatest::<4>(bins::<4>() - 1), least::<4>(bins::<4>())), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_counter_goes_on_beyond_32_bits_and_is_the_same_however_it_got_there() {
        let full = u64::from(u32::MAX);
        let mut one_by_one = Histogram::<4>::default();
        one_by_one.add(7, full);
        (0..2).for_each(|_| one_by_one.record(7));
        one_by_one.record(1 << 40);
        let mut merged = one_by_one.clone();
        merged.merge(&one_by_one);
        let mut whole = Histogram::<4>::default();
        whole.add(7, 2 * full + 4);
        whole.add(bin::<4>(1 << 40), 2);
        assert_eq!(merged, whole);
        assert_eq!(whole.filled().next(), Some((7, 2 * full + 4)));
        assert_eq!((whole.count(), whole.at(0.5).unwrap().0), (2 * full + 6, 7));
        assert_eq!(whole.at(1.0), Some((bin::<4>(1 << 40), 2 * full + 4, 2)));
    }

    #[test]
    fn of_nothing_there_is_no_share() {
        assert_eq!(Histogram::<10>::default().at(0.5), None);
        assert_eq!(Histogram::<10>::default().filled().count(), 0);
    }
}
