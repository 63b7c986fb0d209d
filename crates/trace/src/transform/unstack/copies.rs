//! Copies on lower devices that were recorded as volumes of their own.
//!
//! A copy of a request lies on another volume and at another place than the request. The
//! recording's description says which volume lies below which. The distance between the two offsets
//! is learned from the pairs, because a mapping has few distances.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::WAITING_MAX;
use crate::batch::Batch;
use crate::request::Op;
use crate::stacked::Layers;
use crate::units::Nanos;

/// The number of equal requests that are looked at for one at a known distance.
const SEARCH_MAX: usize = 64;

/// The number of distances that are remembered for each lower volume: the pieces of a mapping.
const DISTANCES_MAX: usize = 64;

/// The values that an upper request and its copy below have in common.
type Key = (u32, Op, u64);

/// Requests that wait for their copies on lower volumes.
pub(super) struct Copies {
    within: Nanos,
    /// By lower volume, operation and length: the instant and offset of each upper request, in
    /// order.
    waiting: FxHashMap<Key, VecDeque<(i64, u64)>>,
    order: VecDeque<(i64, Key)>,
    /// By lower volume: the distances last seen from the upper to the lower place.
    distances: FxHashMap<u32, VecDeque<u64>>,
    /// The number of requests to lower volumes that were no copies.
    pub(super) own: u64,
    /// Requests that waited and were forgotten before their time.
    pub(super) forgotten: u64,
}

impl Copies {
    pub(super) fn new(within: Nanos) -> Self {
        let (waiting, distances) = (FxHashMap::default(), FxHashMap::default());
        Self { within, waiting, order: VecDeque::new(), distances, own: 0, forgotten: 0 }
    }

    /// Whether row `row` is the copy of a request to an upper volume. If not, the row waits for its
    /// own copies.
    pub(super) fn is_copy(&mut self, batch: &Batch, row: usize, layers: &Layers) -> bool {
        let (issue, volume) = (batch.issue_ns[row], batch.volume[row]);
        let (op, offset) = (batch.op[row], batch.offset_bytes[row]);
        let length = batch.length_bytes[row];
        self.forget(issue);
        if layers.is_lower(volume) {
            if self.take((volume, op, length), offset) {
                return true;
            }
            self.own += 1;
        }
        for lower in layers.below(volume) {
            let key = (lower, op, length);
            self.waiting.entry(key).or_default().push_back((issue, offset));
            self.order.push_back((issue, key));
        }
        false
    }

    /// Takes the request of which this one is the copy: preferably one at a known distance,
    /// otherwise the oldest, whose distance is then known.
    fn take(&mut self, key: Key, offset: u64) -> bool {
        let Some(alike) = self.waiting.get_mut(&key) else { return false };
        let distances = self.distances.entry(key.0).or_default();
        let distance = |upper: u64| offset.wrapping_sub(upper);
        let known = alike
            .iter()
            .take(SEARCH_MAX)
            .position(|&(_, upper)| key.1 == Op::Flush || distances.contains(&distance(upper)));
        let Some((_, upper)) = alike.remove(known.unwrap_or(0)) else { return false };
        if alike.is_empty() {
            self.waiting.remove(&key);
        }
        if known.is_none() {
            if distances.len() == DISTANCES_MAX {
                distances.pop_front();
            }
            distances.push_back(distance(upper));
        }
        true
    }

    /// Forgets requests that have waited for too long, or are too many.
    fn forget(&mut self, now: i64) {
        while let Some(&(issue, key)) = self.order.front()
            && (now.saturating_sub(issue) > self.within.0 || self.order.len() > WAITING_MAX)
        {
            let is_over = now.saturating_sub(issue) > self.within.0;
            self.order.pop_front();
            if let Some(alike) = self.waiting.get_mut(&key) {
                // Requests that found their copy are gone already.
                if alike.front().is_some_and(|(first, _)| *first <= issue) {
                    alike.pop_front();
                    self.forgotten += u64::from(!is_over);
                }
                if alike.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Columns;
    use crate::header::Header;
    use crate::request::Request;
    use crate::stacked::layers;
    use crate::stacked::tests::header;
    use crate::units::{Bytes, VolumeId};

    /// For each of these requests (microsecond, volume, operation, sector, sectors), whether it is
    /// a copy.
    fn copies(header: &Header, rows: &[(i64, u32, Op, u64, u64)]) -> Vec<bool> {
        let mut batch = Batch::new(Columns::default());
        for &(at, volume, op, sector, sectors) in rows {
            let (offset, length) = (Bytes(512 * sector), Bytes(512 * sectors));
            let request = Request::new(Nanos::from_micros(at), op, offset, length);
            batch.push(&Request { volume: VolumeId(volume), ..request });
        }
        let layers = layers(header);
        let mut copies = Copies::new(Nanos::from_millis(100));
        (0..batch.len()).map(|row| copies.is_copy(&batch, row, &layers)).collect()
    }

    #[test]
    fn a_lower_request_is_a_copy_once_and_what_the_lower_device_got_itself_is_not() {
        let header = header(&["dm-0", "sda"], &[("dm-0", &["sda"], &[])]);
        let rows = [
            (0, 0, Op::Write, 100, 8),
            (5, 1, Op::Write, 2148, 8),
            (6, 1, Op::Write, 2148, 8),
            // The distance is known now: the copy is the second although it is not the oldest.
            (10, 0, Op::Read, 0, 8),
            (11, 0, Op::Read, 64, 8),
            (12, 1, Op::Read, 2112, 8),
            (13, 1, Op::Read, 2048, 8),
            (14, 0, Op::Flush, 0, 0),
            (15, 1, Op::Flush, 0, 0),
            (20, 0, Op::Read, 0, 8),
            (200_000, 1, Op::Read, 2048, 8),
        ];
        let expected = [false, true, false, false, false, true, true, false, true, false, false];
        assert_eq!(copies(&header, &rows), expected);
    }

    #[test]
    fn of_three_layers_the_first_is_kept_and_a_mirror_has_two_copies() {
        let layers = [("dm-1", &["dm-0"][..], &[][..]), ("dm-0", &["sda", "sdb"], &[])];
        let header = header(&["dm-1", "dm-0", "sda", "sdb"], &layers);
        let rows = [
            (0, 0, Op::Write, 0, 8),
            (1, 1, Op::Write, 8, 8),
            (2, 2, Op::Write, 16, 8),
            (3, 3, Op::Write, 16, 8),
            (4, 3, Op::Write, 16, 8),
        ];
        assert_eq!(copies(&header, &rows), [false, true, true, true, false]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut copies = Copies::new(Nanos::MAX);
        for offset in 0..WAITING_MAX as u64 + 100 {
            copies.forget(0);
            let key = (1, Op::Read, 8);
            copies.waiting.entry(key).or_default().push_back((0, offset));
            copies.order.push_back((0, key));
        }
        assert!(copies.order.len() <= WAITING_MAX + 1);
        assert_eq!(copies.forgotten, 99);
        assert_eq!(copies.order.len(), copies.waiting[&(1, Op::Read, 8)].len());
    }
}
