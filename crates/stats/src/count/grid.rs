//! An axis of unknown length.
//!
//! A run may last a second or a week, a clock that jumps makes it last for centuries, a device may
//! have a gigabyte or a petabyte; and values come once and in any order. So an axis has a fixed
//! number of cells; whenever a value falls beyond them, neighbours merge in pairs and every cell
//! becomes twice as wide. Which cells there are follows from the first and the last index alone,
//! never from the order in which they came: parts that are merged end up with the cells of the
//! whole.

use serde::{Deserialize, Serialize};

/// What a cell holds.
pub trait Cell: Clone + Default {
    /// Adds what `other` holds. The order and the grouping of merges do not matter.
    fn merge(&mut self, other: &Self);
}

impl Cell for u64 {
    fn merge(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

impl<const N: usize> Cell for [u64; N]
where
    [u64; N]: Default,
{
    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.iter_mut().zip(other) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// Cells of equal width, at most `MAX` of them: from index zero, or from the first one in use, up
/// to the last one in use. An index counts cells of the finest width.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid<C, const MAX: usize, const FROM_ZERO: bool> {
    shift: u32,
    first: u64,
    cells: Vec<C>,
}

impl<C, const MAX: usize, const FROM_ZERO: bool> Grid<C, MAX, FROM_ZERO> {
    /// Makes a grid from its stored parts: how often its cells have become twice as wide, the
    /// number of its first cell, and the cells.
    pub(crate) fn of(shift: u32, first: u64, cells: Vec<C>) -> Self {
        Self { shift: shift.min(u64::BITS - 1), first, cells }
    }

    /// The parts from which [`Grid::of`] makes a grid.
    pub(crate) fn into_parts(self) -> (u32, u64, Vec<C>) {
        (self.shift, self.first, self.cells)
    }
}

impl<C: Cell, const MAX: usize, const FROM_ZERO: bool> Grid<C, MAX, FROM_ZERO> {
    /// How often the cells have become twice as wide.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The number of the first cell, in cells of the present width.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The cells.
    pub fn cells(&self) -> &[C] {
        &self.cells
    }

    /// The cell of an index, made where there was none.
    #[inline]
    pub fn at(&mut self, index: u64) -> &mut C {
        let place = self.place(index);
        &mut self.cells[place]
    }

    /// Where the cell of an index stands among the cells, made where there was none. Places stay
    /// valid until another index is asked for.
    #[inline]
    pub fn place(&mut self, index: u64) -> usize {
        // An index before the first cell wraps to a place behind the last.
        let place = (index >> self.shift).wrapping_sub(self.first) as usize;
        if place < self.cells.len() { place } else { self.reach(index) }
    }

    /// The cell of a place.
    #[inline]
    pub fn at_place(&mut self, place: usize) -> &mut C {
        &mut self.cells[place]
    }

    /// Makes the cell of an index, and its place.
    #[cold]
    fn reach(&mut self, index: u64) -> usize {
        let mut at = index >> self.shift;
        if self.cells.is_empty() && !FROM_ZERO {
            self.first = at;
        }
        while self.span_with(at) > MAX as u64 {
            self.fold();
            at >>= 1;
        }
        if at < self.first {
            let missing = (self.first - at) as usize;
            self.cells.splice(0..0, std::iter::repeat_n(C::default(), missing));
            self.first = at;
        }
        let place = (at - self.first) as usize;
        if place >= self.cells.len() {
            self.cells.resize_with(place + 1, C::default);
        }
        place
    }

    /// How many cells there would be with one of this number.
    fn span_with(&self, at: u64) -> u64 {
        let end = (self.first + self.cells.len() as u64).max(at.saturating_add(1));
        end - self.first.min(at)
    }

    /// Merges neighbours in pairs.
    fn fold(&mut self) {
        // Pairs begin at even numbers; the first cell may be the second of its pair.
        let odd = (self.first & 1) as usize;
        for at in 1..self.cells.len() {
            let pair = (at + odd) >> 1;
            let (before, rest) = self.cells.split_at_mut(at);
            if (at + odd) % 2 == 1 {
                before[pair].merge(&rest[0]);
            } else if pair < at {
                std::mem::swap(&mut before[pair], &mut rest[0]);
            }
        }
        self.cells.truncate((self.cells.len() + odd).div_ceil(2));
        self.first >>= 1;
        self.shift += 1;
    }

    /// Makes cells at least 2^shift times as wide as the finest.
    pub fn fold_to(&mut self, shift: u32) {
        while self.shift < shift {
            self.fold();
        }
    }

    /// Adds what another grid holds; this one becomes as wide as the wider of both.
    pub fn merge(&mut self, other: &Self) {
        self.fold_to(other.shift);
        let Some(last) = other.cells.len().checked_sub(1) else { return };
        self.reach(other.first << other.shift);
        self.reach((other.first + last as u64) << other.shift);
        for (number, cell) in (other.first..).zip(&other.cells) {
            let at = number >> (self.shift - other.shift);
            self.cells[(at - self.first) as usize].merge(cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Anywhere = Grid<u64, 64, false>;
    type FromZero = Grid<u64, 64, true>;

    fn of<const FROM_ZERO: bool>(all: &[u64]) -> Grid<u64, 64, FROM_ZERO> {
        let mut grid = Grid::default();
        for index in all {
            *grid.at(*index) += 1;
        }
        grid
    }

    /// Indices that lie close together and as far apart as there are.
    fn indices() -> impl Strategy<Value = Vec<u64>> {
        let index = (any::<u64>(), 0_u32..64).prop_map(|(index, shift)| index >> shift);
        proptest::collection::vec(index, 0..40)
    }

    fn sums_up<const FROM_ZERO: bool>(all: &[u64]) -> Result<(), TestCaseError> {
        let grid = of::<FROM_ZERO>(all);
        prop_assert!(grid.cells().len() <= 64);
        for (number, count) in (grid.first()..).zip(grid.cells()) {
            let inside = all.iter().filter(|index| *index >> grid.shift() == number);
            prop_assert_eq!(*count, inside.count() as u64);
        }
        prop_assert_eq!(grid.cells().iter().sum::<u64>(), all.len() as u64);
        Ok(())
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_however_far_apart(a in indices(), b in indices()) {
            let (mut anywhere, mut from_zero): (Anywhere, FromZero) = (of(&a), of(&a));
            anywhere.merge(&of(&b));
            from_zero.merge(&of(&b));
            let whole = [a, b].concat();
            prop_assert_eq!(anywhere, of(&whole));
            prop_assert_eq!(from_zero, of(&whole));
        }

        #[test]
        fn every_index_is_in_its_cell_and_there_are_never_too_many(all in indices()) {
            sums_up::<false>(&all)?;
            sums_up::<true>(&all)?;
        }
    }

    #[test]
    fn cells_are_as_narrow_as_the_span_from_the_first_to_the_last_allows() {
        let far = 1 << 40;
        assert_eq!(of::<false>(&[far, far + 63]).shift(), 0);
        assert_eq!(of::<false>(&[far, far + 64]).shift(), 1);
        assert_eq!((of::<true>(&[63]).shift(), of::<true>(&[64]).shift()), (0, 1));
        assert_eq!(of::<true>(&[3]).cells(), [0, 0, 0, 1]);
    }
}
