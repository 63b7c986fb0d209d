//! Recordings of several layers as volumes of their own.
//!
//! Who records a device mapper and the disk below it gets every request twice, on two volumes and
//! at two places. Nothing in the requests says so, but the recording's description does: which
//! device lies below which. Then the lower one of a pair is the copy. Where on the lower device a
//! request falls is learned from the pairs: a mapping has few distances.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::WAITING_MAX;
use crate::batch::Batch;
use crate::header::Header;
use crate::request::Op;
use crate::units::Nanos;

/// How many requests alike are looked at for one at a known distance.
const SEARCH_MAX: usize = 64;

/// How many distances are remembered for each lower volume: the pieces of a mapping.
const DISTANCES_MAX: usize = 64;

/// Which volumes lie above which.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Number and name of the upper and of the lower volume.
    pairs: Vec<((u32, String), (u32, String))>,
}

/// What `header` says of its volumes: those of which one lies above the other, directly or through
/// devices that were not recorded.
pub fn layers(header: &Header) -> Layers {
    let Some(recording) = &header.recording else { return Layers::default() };
    let mut pairs = Vec::new();
    for upper in &header.volumes {
        // All names below: the list grows while it is walked.
        let mut below = vec![upper.name.as_str()];
        let mut at = 0;
        while let Some(&name) = below.get(at) {
            at += 1;
            let of_device = recording.devices.iter().filter(|device| device.name == name);
            let mut found: Vec<_> =
                of_device.flat_map(|device| device.below.iter().map(String::as_str)).collect();
            let names_above = |above: &[String]| above.iter().any(|other| other == name);
            let lower = recording.devices.iter().filter(|device| names_above(&device.above));
            found.extend(lower.map(|device| device.name.as_str()));
            for name in found {
                if !below.contains(&name) {
                    below.push(name);
                }
            }
        }
        let lower = header
            .volumes
            .iter()
            .filter(|lower| lower.id != upper.id && below.contains(&lower.name.as_str()));
        pairs.extend(
            lower.map(|lower| ((upper.id.0, upper.name.clone()), (lower.id.0, lower.name.clone()))),
        );
    }
    Layers { pairs }
}

impl Layers {
    /// Whether no volume lies above another.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The names of the upper and of the lower volume of each pair.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(upper, lower)| (upper.1.as_str(), lower.1.as_str()))
    }

    /// Whether a volume lies above another.
    pub(super) fn is_upper(&self, volume: u32) -> bool {
        self.pairs.iter().any(|(upper, _)| upper.0 == volume)
    }

    /// Whether a volume lies below another.
    fn is_lower(&self, volume: u32) -> bool {
        self.pairs.iter().any(|(_, lower)| lower.0 == volume)
    }

    /// The volumes that lie below one.
    fn below(&self, volume: u32) -> impl Iterator<Item = u32> {
        let pairs = self.pairs.iter().filter(move |(upper, _)| upper.0 == volume);
        pairs.map(|(_, lower)| lower.0)
    }
}

/// What an upper request and its copy below have in common.
type Key = (u32, Op, u64);

/// Requests that wait for their copies on lower volumes.
pub(super) struct Copies {
    within: Nanos,
    /// By lower volume, operation and length: when and where the upper ones were, in their order.
    waiting: FxHashMap<Key, VecDeque<(i64, u64)>>,
    order: VecDeque<(i64, Key)>,
    /// By lower volume: the distances last seen from the upper to the lower place.
    distances: FxHashMap<u32, VecDeque<u64>>,
    /// Requests to lower volumes that were nobody's copy.
    pub(super) own: u64,
    /// Requests that waited and were forgotten before their time.
    pub(super) forgotten: u64,
}

impl Copies {
    pub(super) fn new(within: Nanos) -> Self {
        let (waiting, distances) = (FxHashMap::default(), FxHashMap::default());
        Self { within, waiting, order: VecDeque::new(), distances, own: 0, forgotten: 0 }
    }

    /// Whether row `row` is the copy of a request to an upper volume. If not it waits for its own
    /// copies.
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

    /// Takes the request that this one is the copy of: best one at a known distance, else the
    /// oldest, whose distance is then known.
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

    /// Forgets requests that waited for too long, or are too many.
    fn forget(&mut self, now: i64) {
        while let Some(&(issue, key)) = self.order.front()
            && (now.saturating_sub(issue) > self.within.0 || self.order.len() > WAITING_MAX)
        {
            let is_over = now.saturating_sub(issue) > self.within.0;
            self.order.pop_front();
            if let Some(alike) = self.waiting.get_mut(&key) {
                // Those that found their copy are gone already.
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
    use crate::header::Volume;
    use crate::recording::{Device, Recording};
    use crate::request::Request;
    use crate::units::{Bytes, VolumeId};

    fn header(names: &[&str], devices: &[(&str, &[&str], &[&str])]) -> Header {
        let names_of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let volume = |(id, name): (usize, &&str)| Volume {
            id: VolumeId(id as u32),
            name: (*name).to_owned(),
            size: None,
        };
        let device = |(name, below, above): &(&str, &[&str], &[&str])| Device {
            name: (*name).to_owned(),
            below: names_of(below),
            above: names_of(above),
            ..Device::default()
        };
        let devices = devices.iter().map(device).collect();
        Header {
            volumes: names.iter().enumerate().map(volume).collect(),
            recording: Some(Recording { devices, ..Recording::default() }),
            ..Header::default()
        }
    }

    fn pairs(header: &Header) -> Vec<(String, String)> {
        let layers = layers(header);
        let pairs = layers.pairs().map(|(upper, lower)| (upper.to_owned(), lower.to_owned()));
        pairs.collect()
    }

    #[test]
    fn layers_are_found_from_above_from_below_and_through_what_was_not_recorded() {
        let pair = |upper: &str, lower: &str| (upper.to_owned(), lower.to_owned());
        let told = header(&["dm-0", "sda"], &[("dm-0", &["sda"], &[]), ("sda", &[], &[])]);
        assert_eq!(pairs(&told), [pair("dm-0", "sda")]);
        let told = header(&["sda", "dm-0"], &[("sda", &[], &["dm-0"])]);
        assert_eq!(pairs(&told), [pair("dm-0", "sda")]);
        let through = [("dm-1", &["md0"][..], &[][..]), ("md0", &["sda"], &[])];
        assert_eq!(pairs(&header(&["dm-1", "sda"], &through)), [pair("dm-1", "sda")]);
        let circle = [("a", &["b"][..], &[][..]), ("b", &["a"], &[])];
        assert_eq!(pairs(&header(&["a"], &circle)), []);
        assert_eq!(pairs(&header(&["a", "b"], &[])), []);
    }

    /// Which of these requests (microsecond, volume, operation, sector, sectors) are copies.
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
