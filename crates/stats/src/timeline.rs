//! The time axis of a run: buckets from instant zero on.
//!
//! Diagrams below each other need the same buckets. Those of a [`Timeline`] begin at zero, a
//! millisecond wide, and double together ([`Grid`]); two axes of different width are brought
//! together exactly by widening the narrower one.

use ioecho_trace::Nanos;
use serde::{Deserialize, Serialize};

pub use crate::count::grid::Cell;
use crate::count::grid::Grid;

/// The most buckets an axis has. It uses more than half of them once it was widened.
pub const BUCKETS: usize = 2048;

/// The width of a bucket before the first doubling, in nanoseconds: a millisecond.
pub const FINEST_NS: i64 = 1_000_000;

/// Buckets of equal width from instant zero on. Buckets behind the last one used do not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written<C>", into = "Written<C>")]
#[serde(bound(serialize = "C: Clone + Serialize", deserialize = "C: Deserialize<'de>"))]
pub struct Timeline<C>(Grid<C, BUCKETS, true>);

/// An axis as it is written down: it needs no place of its first bucket.
#[derive(Serialize, Deserialize)]
struct Written<C> {
    doublings: u32,
    cells: Vec<C>,
}

impl<C> From<Written<C>> for Timeline<C> {
    fn from(written: Written<C>) -> Self {
        Self(Grid::of(written.doublings, 0, written.cells))
    }
}

impl<C> From<Timeline<C>> for Written<C> {
    fn from(timeline: Timeline<C>) -> Self {
        let (doublings, _, cells) = timeline.0.into_parts();
        Self { doublings, cells }
    }
}

impl<C: Cell> Timeline<C> {
    /// An empty axis.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often the buckets have doubled their width.
    pub fn doublings(&self) -> u32 {
        self.0.shift()
    }

    /// The width of a bucket: [`FINEST_NS`] · 2^doublings.
    pub fn width(&self) -> Nanos {
        Nanos(FINEST_NS << self.0.shift())
    }

    /// The buckets in use, from instant zero on.
    pub fn cells(&self) -> &[C] {
        self.0.cells()
    }

    /// The bucket of an instant, which comes into being if need be. An instant before the start
    /// belongs to the first bucket.
    #[inline]
    pub fn at(&mut self, instant: Nanos) -> &mut C {
        // A constant divisor and a shift: cheaper than dividing by the width.
        self.0.at((instant.0.max(0) / FINEST_NS) as u64)
    }

    /// Doubles the width until it has doubled `doublings` times in all.
    pub fn widen_to(&mut self, doublings: u32) {
        self.0.fold_to(doublings);
    }

    /// Adds what another axis holds; this one becomes as wide as the wider of both.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instants: &[i64]) -> Timeline<u64> {
        let mut timeline = Timeline::new();
        for ns in instants {
            *timeline.at(Nanos(*ns)) += 1;
        }
        timeline
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
    fn the_first_bucket_begins_at_zero_and_the_last_instant_of_all_fits() {
        assert_eq!(of(&[-5, 2 * FINEST_NS]).cells(), [1, 0, 1]);
        let timeline = of(&[0, i64::MAX]);
        assert_eq!(timeline.cells().iter().sum::<u64>(), 2);
        assert!(timeline.cells().len() <= BUCKETS);
    }
}
