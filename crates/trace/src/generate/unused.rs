//! The places of an area to which no request went yet.
//!
//! A sequence at a random place soon runs over another, so a model of a load that never reused a
//! place would reuse half of them. So a model may keep to unused places, as long as there are any.
//! The area is divided into at most four million cells of 4 KiB or more, one bit each.

/// The most cells, as a power of two: half a megabyte.
const CELLS: u32 = 22;

/// The smallest cell, 2 to this power in bytes.
const SMALLEST: u32 = 12;

/// The largest number of cells that are marked for one request.
const OF_REQUEST: u64 = 1 << 12;

/// The largest number of words that are looked through for an unused cell.
const SCANNED: usize = 1 << 10;

/// The cells of an area.
#[derive(Clone, Debug)]
pub(super) struct Unused {
    used: Vec<u64>,
    cells: u64,
    shift: u32,
}

impl Unused {
    pub(super) fn new(area: u64) -> Self {
        let last = area.saturating_sub(1);
        let bits = last.checked_ilog2().map_or(0, |power| power + 1);
        let shift = bits.saturating_sub(CELLS).max(SMALLEST);
        let cells = (last >> shift) + 1;
        Self { used: vec![0; cells.div_ceil(64) as usize], cells, shift }
    }

    /// Whether the cells in which this range begins and ends are unused.
    #[inline]
    pub(super) fn has(&self, place: u64, length: u64) -> bool {
        !self.is_used(place >> self.shift) && !self.is_used((place + length - 1) >> self.shift)
    }

    /// Whether a sequence that has come to `end` may go on for `length` without using a cell again.
    #[inline]
    pub(super) fn goes_on(&self, end: u64, length: u64) -> bool {
        let own = end.saturating_sub(1) >> self.shift;
        let free = |place: u64| place >> self.shift == own || !self.is_used(place >> self.shift);
        free(end) && free(end + length - 1)
    }

    fn is_used(&self, cell: u64) -> bool {
        self.used.get((cell / 64) as usize).is_some_and(|word| word >> (cell % 64) & 1 == 1)
    }

    /// Marks a range, which is not empty.
    #[inline]
    pub(super) fn mark(&mut self, place: u64, length: u64) {
        let first = place >> self.shift;
        let last = ((place + length - 1) >> self.shift).min(first + OF_REQUEST);
        for cell in first..=last.min(self.cells - 1) {
            self.used[(cell / 64) as usize] |= 1 << (cell % 64);
        }
    }

    /// The place of the next unused cell at or behind `place`, or from the area's beginning on.
    pub(super) fn next_from(&self, place: u64) -> Option<u64> {
        let words = self.used.len();
        let from = (place >> self.shift) as usize / 64;
        for at in 0..words.min(SCANNED) {
            let word = (from + at) % words;
            let cell = word as u64 * 64 + u64::from((!self.used[word]).trailing_zeros());
            if self.used[word] != u64::MAX && cell < self.cells {
                return Some(cell << self.shift);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_is_used_once_it_was_marked(
            area in 1_u64..1 << 50, at in any::<u64>(), length in 1_u64..1 << 20,
        ) {
            let length = length.min(area);
            let place = at % (area - length + 1);
            let mut unused = Unused::new(area);
            prop_assert!(unused.used.len() <= 1 << 16);
            prop_assert!(unused.has(place, length) && unused.goes_on(place, length));
            unused.mark(place, length);
            prop_assert!(!unused.has(place, length));
            if let Some(next) = unused.next_from(place) {
                prop_assert!(unused.has(next, 1) && next < area);
            }
        }
    }

    #[test]
    fn every_cell_is_found_and_then_none() {
        let mut unused = Unused::new(200 << 12);
        for _ in 0..200 {
            let place = unused.next_from(123 << 12).unwrap();
            unused.mark(place, 4096);
        }
        assert_eq!(unused.next_from(0), None);
    }
}
