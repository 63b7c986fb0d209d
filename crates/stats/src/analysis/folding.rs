//! Counts by place, in bounded memory.
//!
//! The size of a device and its used part are not known before the end. So cells double in size
//! whenever there are too many. Their size follows from the set of counted requests alone, not from
//! their order: merged parts agree with the whole.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::count::grid::Cell;

/// The volume of a cell and its number on it.
type Key = (u32, u64);

/// Cells by volume and number, at most so many.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Rows<C>", into = "Rows<C>")]
#[serde(bound(serialize = "C: Cell + Serialize", deserialize = "C: Cell + Deserialize<'de>"))]
pub(super) struct Folding<C> {
    limit: usize,
    shift: u32,
    cells: Vec<(Key, C)>,
    /// Where the cell of a key stands.
    places: FxHashMap<Key, u32>,
    /// The place that was asked for last: cells of time are asked for again and again.
    latest: usize,
}

/// [`Folding`] as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows<C> {
    limit: u64,
    shift: u32,
    cells: Vec<(u32, u64, C)>,
}

impl<C: Cell> From<Rows<C>> for Folding<C> {
    fn from(rows: Rows<C>) -> Self {
        let mut folding = Self::new(rows.limit as usize);
        folding.shift = rows.shift.min(u64::BITS - 1);
        for (volume, index, cell) in rows.cells {
            folding.cell((volume, index)).merge(&cell);
        }
        folding
    }
}

impl<C: Cell> From<Folding<C>> for Rows<C> {
    fn from(folding: Folding<C>) -> Self {
        let cells = folding.cells.into_iter();
        let mut cells: Vec<_> =
            cells.map(|((volume, index), cell)| (volume, index, cell)).collect();
        cells.sort_unstable_by_key(|(volume, index, _)| (*volume, *index));
        Self { limit: folding.limit as u64, shift: folding.shift, cells }
    }
}

impl<C: Cell> Folding<C> {
    pub(super) fn new(limit: usize) -> Self {
        // Places are 32 bits wide.
        let limit = limit.clamp(1, 1 << 30);
        Self { limit, shift: 0, cells: Vec::new(), places: FxHashMap::default(), latest: 0 }
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
        let key = (volume, index >> self.shift);
        match self.cells.get_mut(self.latest) {
            Some((latest, cell)) if *latest == key => cell.merge(add),
            _ => {
                self.cell(key).merge(add);
                if self.cells.len() > self.limit {
                    self.fold_to(self.shift + 1);
                }
            }
        }
    }

    /// The cell of a key, made where there was none.
    #[inline]
    fn cell(&mut self, key: Key) -> &mut C {
        let next = self.cells.len();
        self.latest = *self.places.entry(key).or_insert(next as u32) as usize;
        if self.latest == next {
            self.cells.push((key, C::default()));
        }
        &mut self.cells[self.latest].1
    }

    /// Makes cells at least so large, and larger until there are not too many.
    #[cold]
    fn fold_to(&mut self, shift: u32) {
        let mut shift = shift.min(u64::BITS - 1);
        while self.shift < shift {
            let by = shift - self.shift;
            self.shift = shift;
            self.places.clear();
            for ((volume, index), cell) in std::mem::take(&mut self.cells) {
                self.cell((volume, index >> by)).merge(&cell);
            }
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
