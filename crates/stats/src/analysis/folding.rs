//! Counts by place, in bounded memory.
//!
//! How large a device is and how much of it is used is not known before the end. So places become
//! twice as large whenever there are too many of them. How large they are follows from what was
//! counted alone, not from the order of it: parts that are merged agree with the whole.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::steps::Cell;

/// Cells by volume and number, at most so many.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Rows<C>", into = "Rows<C>")]
#[serde(bound(serialize = "C: Cell + Serialize", deserialize = "C: Cell + Deserialize<'de>"))]
pub(super) struct Folding<C> {
    limit: usize,
    shift: u32,
    cells: FxHashMap<(u32, u64), C>,
}

/// [`Folding`] as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows<C> {
    limit: u64,
    shift: u32,
    rows: Vec<(u32, u64, C)>,
}

impl<C: Cell> From<Rows<C>> for Folding<C> {
    fn from(rows: Rows<C>) -> Self {
        let cells = rows.rows.into_iter().map(|(volume, index, cell)| ((volume, index), cell));
        let shift = rows.shift.min(u64::BITS - 1);
        Self { limit: (rows.limit as usize).max(1), shift, cells: cells.collect() }
    }
}

impl<C: Cell> From<Folding<C>> for Rows<C> {
    fn from(folding: Folding<C>) -> Self {
        let rows = folding.cells.into_iter();
        let mut rows: Vec<_> = rows.map(|((volume, index), cell)| (volume, index, cell)).collect();
        rows.sort_unstable_by_key(|(volume, index, _)| (*volume, *index));
        Self { limit: folding.limit as u64, shift: folding.shift, rows }
    }
}

impl<C: Cell> Folding<C> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), shift: 0, cells: FxHashMap::default() }
    }

    /// How often cells were made twice as large.
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cells: volume, index at the present size, and what is in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, u64, &C)> {
        self.cells.iter().map(|((volume, index), cell)| (*volume, *index, cell))
    }

    /// Adds to the cell that holds this index of the smallest cells.
    #[inline]
    pub(super) fn add(&mut self, volume: u32, index: u64, add: &C) {
        let cell = self.cells.entry((volume, index >> self.shift)).or_default();
        cell.add(add);
        if self.cells.len() > self.limit {
            self.fold_to(self.shift + 1);
        }
    }

    /// Makes cells at least so large, and larger until there are not too many.
    #[cold]
    fn fold_to(&mut self, shift: u32) {
        let mut shift = shift.min(u64::BITS - 1);
        while self.shift < shift {
            let by = shift - self.shift;
            let mut folded: FxHashMap<(u32, u64), C> = FxHashMap::default();
            for ((volume, index), cell) in &self.cells {
                folded.entry((*volume, index >> by)).or_default().add(cell);
            }
            self.cells = folded;
            self.shift = shift;
            if self.cells.len() > self.limit {
                shift = (shift + 1).min(u64::BITS - 1);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.fold_to(other.shift);
        for ((volume, index), cell) in &other.cells {
            // Indices of larger cells begin where those of the smallest do.
            self.add(*volume, index << other.shift, cell);
        }
    }
}
