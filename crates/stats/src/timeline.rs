//! A time axis whose length nobody knows beforehand.
//!
//! A run may last a second or a week, is seen once, and has to be drawn on a screen of some
//! thousand columns. So the axis has a fixed number of buckets that begin a millisecond wide;
//! whenever an instant falls beyond the end, neighbours merge in pairs and every bucket becomes
//! twice as wide. Widths are therefore always a millisecond times a power of two, and two axes of
//! different width are brought together exactly by widening the narrower one.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

/// The most buckets an axis has. It uses more than half of them once it was widened.
pub const BUCKETS: usize = 2048;

/// The width of a bucket before the first doubling, in nanoseconds: a millisecond.
pub const FINEST_NS: i64 = 1_000_000;

/// What a bucket holds.
pub trait Cell: Clone + Default {
    /// Adds what `other` holds. The order and the grouping of merges do not matter.
    fn merge(&mut self, other: &Self);
}

/// Buckets of equal width from instant zero on. Buckets behind the last one used do not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline<C> {
    doublings: u32,
    cells: Vec<C>,
}

impl<C: Cell> Timeline<C> {
    /// An empty axis.
    pub fn new() -> Self {
        Self { doublings: 0, cells: Vec::new() }
    }

    /// How often the buckets have doubled their width.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// The width of a bucket: [`FINEST_NS`] · 2^doublings.
    pub fn width(&self) -> Nanos {
        Nanos(FINEST_NS << self.doublings)
    }

    /// The buckets in use, from instant zero on.
    pub fn cells(&self) -> &[C] {
        &self.cells
    }

    /// The bucket of an instant, which comes into being if need be. An instant before the start
    /// belongs to the first bucket.
    #[inline]
    pub fn at(&mut self, instant: Nanos) -> &mut C {
        // A constant divisor and a shift: cheaper than dividing by the width.
        let finest = instant.0.max(0) / FINEST_NS;
        while finest >> self.doublings >= BUCKETS as i64 {
            self.double();
        }
        let bucket = (finest >> self.doublings) as usize;
        if bucket >= self.cells.len() {
            self.cells.resize_with(bucket + 1, C::default);
        }
        &mut self.cells[bucket]
    }

    /// Doubles the width until it has doubled `doublings` times in all.
    pub fn widen_to(&mut self, doublings: u32) {
        while self.doublings < doublings {
            self.double();
        }
    }

    /// Adds what another axis holds; this one becomes as wide as the wider of both.
    pub fn merge(&mut self, other: &Self) {
        if self.doublings < other.doublings {
            self.widen_to(other.doublings);
        }
        if other.doublings < self.doublings {
            let mut widened = other.clone();
            widened.widen_to(self.doublings);
            return self.merge(&widened);
        }
        if self.cells.len() < other.cells.len() {
            self.cells.resize_with(other.cells.len(), C::default);
        }
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.merge(theirs);
        }
    }

    /// Merges neighbours in pairs.
    fn double(&mut self) {
        let pairs = self.cells.len().div_ceil(2);
        for pair in 0..pairs {
            self.cells.swap(pair, 2 * pair);
            if 2 * pair + 1 < self.cells.len() {
                let (left, right) = self.cells.split_at_mut(2 * pair + 1);
                left[pair].merge(&right[0]);
            }
        }
        self.cells.truncate(pairs);
        self.doublings += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Cell for u64 {
        fn merge(&mut self, other: &Self) {
            *self += other;
        }
    }

    fn of(instants: &[i64]) -> Timeline<u64> {
        let mut timeline = Timeline::new();
        for ns in instants {
            *timeline.at(Nanos(*ns)) += 1;
        }
        timeline
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(
            instants in proptest::collection::vec((-2_i64..1 << 20, 0_u32..42), 0..60),
            cut in 0_usize..60,
        ) {
            let instants: Vec<i64> = instants.iter().map(|(ns, shift)| ns << shift).collect();
            let cut = cut.min(instants.len());
            let mut merged = of(&instants[..cut]);
            merged.merge(&of(&instants[cut..]));
            prop_assert_eq!(merged, of(&instants));
        }

        #[test]
        fn every_instant_is_in_its_bucket(
            instants in proptest::collection::vec(0_i64..1 << 50, 1..60),
        ) {
            let timeline = of(&instants);
            let width = timeline.width().0;
            for (bucket, count) in timeline.cells().iter().enumerate() {
                let inside = instants.iter().filter(|ns| (*ns / width) as usize == bucket).count();
                prop_assert_eq!(*count, inside as u64);
            }
        }
    }

    #[test]
    fn the_axis_never_has_more_buckets_than_its_limit() {
        let mut timeline = of(&[]);
        for ms in 0..10_000 {
            *timeline.at(Nanos::from_millis(ms)) += 1;
        }
        assert_eq!(timeline.width(), Nanos::from_millis(8));
        assert_eq!(timeline.cells(), vec![8; 1250]);
    }

    #[test]
    fn the_last_instant_of_all_fits() {
        let timeline = of(&[0, i64::MAX]);
        assert_eq!(timeline.cells().iter().sum::<u64>(), 2);
        assert!(timeline.cells().len() <= BUCKETS);
    }
}
