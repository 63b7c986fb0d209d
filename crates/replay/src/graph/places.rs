//! The last writer of each place.
//!
//! A read of recently written data waited for the write, whichever processes issued them. So for
//! every piece of a volume the last of its completed writes is kept: the one that was issued last,
//! because the final content after writes that overlap in time is unknown.

use std::collections::BTreeMap;

use ioecho_trace::VolumeId;
use rustc_hash::FxHashMap;

/// Pieces by their first byte: the end of each, exclusive, and the row of its write.
type Pieces = BTreeMap<u64, (u64, u64)>;

/// The last completed write of every place that was written.
#[derive(Debug, Default)]
pub(super) struct Places {
    volumes: FxHashMap<VolumeId, Pieces>,
    /// New pieces for `insert`, a buffer that is used again.
    fresh: Vec<(u64, (u64, u64))>,
    stale: Vec<u64>,
}

impl Places {
    /// The write of row `row` to the bytes from `start` up to `end` has completed.
    pub(super) fn wrote(&mut self, volume: VolumeId, start: u64, end: u64, row: u64) {
        let pieces = self.volumes.entry(volume).or_default();
        self.fresh.clear();
        self.stale.clear();
        // From here on no later write has been found.
        let mut from = start;
        let before =
            pieces.range(..start).next_back().filter(|(_, (piece_end, _))| *piece_end > start);
        for (&piece, &(piece_end, writer)) in before.into_iter().chain(pieces.range(start..end)) {
            if writer > row {
                if from < piece {
                    self.fresh.push((from, (piece, row)));
                }
                from = piece_end;
                continue;
            }
            // Parts outside of the new write on either side stay.
            self.stale.push(piece);
            if piece < start {
                self.fresh.push((piece, (start, writer)));
            }
            if piece_end > end {
                self.fresh.push((end, (piece_end, writer)));
            }
        }
        if from < end {
            self.fresh.push((from, (end, row)));
        }
        for piece in &self.stale {
            pieces.remove(piece);
        }
        pieces.extend(self.fresh.iter().copied());
    }

    /// Adds the rows of the last writes to the bytes from `start` up to `end`; a row may occur
    /// several times.
    pub(super) fn writers(&self, volume: VolumeId, start: u64, end: u64, rows: &mut Vec<u64>) {
        let Some(pieces) = self.volumes.get(&volume) else { return };
        let before =
            pieces.range(..start).next_back().filter(|(_, (piece_end, _))| *piece_end > start);
        rows.extend(before.into_iter().chain(pieces.range(start..end)).map(|(_, (_, row))| *row));
    }

    /// Forgets the writes before row `base`.
    pub(super) fn forget(&mut self, base: u64) {
        for pieces in self.volumes.values_mut() {
            pieces.retain(|_, (_, row)| *row >= base);
        }
        self.volumes.retain(|_, pieces| !pieces.is_empty());
    }

    /// Forgets all writes.
    pub(super) fn clear(&mut self) {
        self.volumes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writers(places: &Places, start: u64, end: u64) -> Vec<u64> {
        let mut rows = Vec::new();
        places.writers(VolumeId(0), start, end, &mut rows);
        rows
    }

    #[test]
    fn a_place_belongs_to_the_write_that_was_issued_last() {
        let mut places = Places::default();
        places.wrote(VolumeId(0), 10, 20, 3);
        // Issued before the other write, completed after it: it gets only the bytes that the other
        // did not write.
        places.wrote(VolumeId(0), 0, 30, 1);
        assert_eq!(writers(&places, 0, 30), [1, 3, 1]);
        places.wrote(VolumeId(0), 5, 15, 4);
        assert_eq!(writers(&places, 0, 30), [1, 4, 3, 1]);
        assert_eq!(writers(&places, 19, 20), [3]);
        assert_eq!(writers(&places, 20, 21), [1]);
        assert!(writers(&places, 30, 40).is_empty());
        places.forget(3);
        assert_eq!(writers(&places, 0, 30), [4, 3]);
    }

    #[test]
    fn a_write_within_another_leaves_both_of_its_sides() {
        let mut places = Places::default();
        places.wrote(VolumeId(0), 0, 30, 1);
        places.wrote(VolumeId(0), 10, 20, 2);
        assert_eq!(writers(&places, 0, 30), [1, 2, 1]);
        assert_eq!(writers(&places, 29, 99), [1]);
    }
}
