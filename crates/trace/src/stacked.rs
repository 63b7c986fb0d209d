//! Requests that were recorded twice, because one device lies on another.
//!
//! A recording of a device mapper and the disk below it has every request twice. Either the
//! recording states that one volume lies above the other ([`layers`]), or, in a trace without
//! devices, only the requests show it ([`Watch`]). Readers note what they find;
//! [`unstack`](crate::transform::unstack) removes the copies.

use crate::batch::Batch;
use crate::header::{Header, NoteKind, Notes, Topic};
use crate::request::Op;
use crate::units::Nanos;

/// The default limit for the delay of a copy. In the published loads nine of ten copies are found
/// within this time; in loads without copies 1 of 80 requests is mistaken for a copy.
pub(crate) const WITHIN: Nanos = Nanos::from_millis(100);

/// The note on devices of a recording that lie above each other.
pub const LAYERED: Topic<'static> =
    NoteKind::Layered.of("pairs of recorded devices of which one lies on the other: what goes \
                          through both was recorded twice (`unstack` keeps the requests to \
                          the upper one, with layer=lower those to the lower one)");

/// The note on requests that seem to be copies.
pub const SEEN: Topic<'static> = NoteKind::Stacked
    .of("requests seem to be copies of each other, one for each of two stacked \
         devices (`unstack` keeps those to the upper one)");

/// The pairs of volumes of which one lies above the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layers {
    /// Number and name of the upper and of the lower volume.
    pairs: Vec<((u32, String), (u32, String))>,
}

/// The pairs of stacked volumes according to `header`, directly or through devices that were not
/// recorded.
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
    pub(crate) fn is_upper(&self, volume: u32) -> bool {
        self.pairs.iter().any(|(upper, _)| upper.0 == volume)
    }

    /// Whether a volume lies below another.
    pub(crate) fn is_lower(&self, volume: u32) -> bool {
        self.pairs.iter().any(|(_, lower)| lower.0 == volume)
    }

    /// The volumes that lie below `volume`.
    pub(crate) fn below(&self, volume: u32) -> impl Iterator<Item = u32> {
        let pairs = self.pairs.iter().filter(move |(upper, _)| upper.0 == volume);
        pairs.map(|(_, lower)| lower.0)
    }
}

/// Detects, cheaply enough for every trace that is read, whether requests seem to be recorded
/// twice.
///
/// A table of a few thousand places, no chains: a request that is not found again before another
/// takes its place is not counted. The criterion is whether one request in ten has a twin within a
/// millisecond; in loads without copies it is less than one in a thousand.
pub struct Watch {
    table: Vec<(i64, u64)>,
    /// Pairs within a millisecond, and within the time that `unstack` allows.
    close: u64,
    pairs: u64,
    requests: u64,
}

/// Places in the table.
const TABLE: usize = 1 << 13;

/// The largest distance in time between the two requests of a suspicious pair, in ns.
const CLOSE_NS: i64 = 1_000_000;

/// The least number of requests that can be judged.
const FEW: u64 = 100;

impl Default for Watch {
    fn default() -> Self {
        Self { table: vec![(i64::MIN, 0); TABLE], close: 0, pairs: 0, requests: 0 }
    }
}

impl Watch {
    /// Looks at the requests of `batch`.
    pub fn look(&mut self, batch: &Batch) {
        self.requests += batch.len() as u64;
        let places = batch.offset_bytes.iter().zip(&batch.length_bytes).zip(&batch.volume);
        for ((issue, op), ((offset, length), volume)) in
            batch.issue_ns.iter().zip(&batch.op).zip(places)
        {
            // The mixing of Fibonacci hashing: an odd constant near 2^64 over the golden ratio.
            let mixed = offset
                .wrapping_add(length.rotate_left(40))
                .wrapping_add(u64::from(*volume).rotate_left(52))
                .wrapping_add(u64::from(op.code()))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let place = &mut self.table[(mixed >> 51) as usize % TABLE];
            let gap = issue.saturating_sub(place.0);
            if place.1 == mixed && gap <= WITHIN.0 && *op != Op::Flush {
                self.close += u64::from(gap <= CLOSE_NS);
                self.pairs += 1;
                *place = (i64::MIN, 0);
            } else {
                *place = (*issue, mixed);
            }
        }
    }

    /// Notes, once, that requests seem to be recorded twice, if they do.
    pub fn note(&mut self, guesses: &mut Notes) {
        if self.requests >= FEW && self.close * 20 >= self.requests {
            guesses.add(SEEN, 2 * self.pairs, None);
        }
        *self = Self::default();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::header::Volume;
    use crate::recording::{Device, Recording};
    use crate::transform::testing::trace;
    use crate::units::VolumeId;
    use crate::{Columns, Request};

    /// A header with volumes of these names and devices (name, below, above).
    pub(crate) fn header(names: &[&str], devices: &[(&str, &[&str], &[&str])]) -> Header {
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

    fn seen(requests: &[Request]) -> u64 {
        let mut batch = Batch::new(Columns::default());
        batch.extend(requests);
        let (mut watch, mut notes) = (Watch::default(), Notes::default());
        watch.look(&batch);
        watch.note(&mut notes);
        notes.count_of(SEEN)
    }

    #[test]
    fn requests_that_all_come_twice_are_noticed_and_others_are_not() {
        let single: Vec<_> =
            (0..5000).flat_map(|n| trace(&[(n, Op::Read, n as u64 * 8, 8)])).collect();
        assert_eq!(seen(&single), 0);
        let twice: Vec<_> = single
            .iter()
            .flat_map(|request| {
                let issue = request.issue + Nanos::from_micros(10);
                [*request, Request { issue, ..*request }]
            })
            .collect();
        assert_eq!(seen(&twice), 10_000);
        // The same place again and again, but not as fast as a layer passes a request on.
        let again: Vec<_> = (0..5000).flat_map(|n| trace(&[(n, Op::Write, 8, 8)])).collect();
        assert_eq!(seen(&again), 0);
    }
}
