//! Who wrote a place last.
//!
//! A read of what was just written waited for the write, whoever issued either. So for every piece
//! of a volume the last one of the completed writes is kept: the last to be issued, because of
//! writes that overlap in time nobody knows which one came to rest.

use std::collections::BTreeMap;

use ioecho_trace::VolumeId;
use rustc_hash::FxHashMap;

/// Pieces by their first byte: the first byte behind each, and the row of the write.
type Pieces = BTreeMap<u64, (u64, u64)>;

/// The last completed write of every place that was written.
#[derive(Debug, Default)]
pub(super) struct Places {
    volumes: FxHashMap<VolumeId, Pieces>,
    /// Pieces that `insert` puts in, kept for its memory.
    fresh: Vec<(u64, (u64, u64))>,
    stale: Vec<u64>,
}

impl Places {
    /// The write of row `row` to the bytes from `start` up to `end` has completed.
    pub(super) fn wrote(&mut self, volume: VolumeId, start: u64, end: u64, row: u64) {
        let pieces = self.volumes.entry(volume).or_default();
        self.fresh.clear();
        self.stale.clear();
        // From where on nobody later has written.
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
            // What sticks out on either side stays.
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

    /// Adds the rows of the last writes to the bytes from `start` up to `end`; a row may come more
    /// than once.
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

    /// Forgets all.
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
        // Issued before, completed after: it gets what the other did not write.
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
