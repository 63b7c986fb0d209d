//! Writing traces in the format of Microsoft Research Cambridge.

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{TICK_NS, UNIX_EPOCH_TICKS};
use crate::error::TraceError;
use crate::formats::Writable;
use crate::formats::wall_clock::WallClock;
use crate::formats::write::{self, LineWriter, Lost, decimal};
use crate::header::{Header, Volume};
use crate::request::{Op, Request};
use crate::stream::Sink;
use crate::units::{Bytes, VolumeId};

/// Traces of Microsoft Research Cambridge, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "msr",
    title: "CSV as of Microsoft Research Cambridge",
    endings: &[".msr.csv"],
    packs: true,
    create,
};

fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    write::lines(path, header, Writer::default())
}

/// The losses of latencies.
const LATENCIES: (&str, &str) =
    ("latencies cut to 100 ns", "latencies below 100 ns, which become unknown");

#[derive(Default)]
struct Writer {
    /// `None` before the first request, because only then the start of the trace is known.
    clock: Option<WallClock>,
    /// The text that stands for each volume: `,host,disk,`.
    keys: Vec<(VolumeId, Vec<u8>)>,
    /// The index in `keys` of each volume.
    places: FxHashMap<VolumeId, usize>,
    taken: FxHashSet<Vec<u8>>,
    /// The number of volumes of the header that were looked at.
    seen: usize,
}

impl Writer {
    /// The text that stands for volume `id`.
    #[inline]
    fn key(&mut self, id: VolumeId, header: &Header, lost: &mut Lost) -> &[u8] {
        let index = id.0 as usize;
        // Most often a volume's place is its number.
        let is_there = self.keys.get(index).is_some_and(|(known, _)| *known == id);
        let index = if is_there { index } else { self.place(id, header, lost) };
        &self.keys[index].1
    }

    /// The index in `keys` of volume `id`. If it has none yet, all volumes that are known by now
    /// get theirs.
    #[cold]
    fn place(&mut self, id: VolumeId, header: &Header, lost: &mut Lost) -> usize {
        if !self.places.contains_key(&id) {
            let unknown = Volume { id, ..Volume::default() };
            let new = header.volumes.get(self.seen..).unwrap_or_default();
            self.seen = header.volumes.len();
            for volume in new.iter().chain([&unknown]) {
                if !self.places.contains_key(&volume.id) {
                    let key = self.settle(volume, lost);
                    self.places.insert(volume.id, self.keys.len());
                    self.keys.push((volume.id, key));
                }
            }
        }
        self.places.get(&id).copied().unwrap_or_default()
    }

    /// The host and the disk that stand for a volume. They are those of its name where it has them,
    /// as volumes that were read have; otherwise the name and the volume's number.
    fn settle(&mut self, volume: &Volume, lost: &mut Lost) -> Vec<u8> {
        let is_number = |text: &str| text == "0" || !text.starts_with('0') && is_digits(text);
        let (host, disk) = match volume.name.rsplit_once('_') {
            Some((host, disk)) if !host.is_empty() && is_number(disk) => (host, disk.to_owned()),
            _ => (volume.name.as_str(), volume.id.0.to_string()),
        };
        // The host must not contain commas, and blanks around it would be lost.
        let host: String = host
            .chars()
            .map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '-' } else { c })
            .collect();
        let mut key = key(&host, &disk);
        if host.is_empty() || self.taken.contains(&key) {
            key = self::key("volume", &volume.id.0.to_string());
        }
        // No two volumes get the same key.
        let mut other = "volume".to_owned();
        while !self.taken.insert(key.clone()) {
            other.push('-');
            key = self::key(&other, &volume.id.0.to_string());
        }
        // A reader calls a volume by host, '_' and disk.
        let is_kept =
            volume.name.rsplit_once('_').is_some_and(|(host, disk)| key == self::key(host, disk));
        if !is_kept && !volume.name.is_empty() {
            lost.detail("names of volumes, which become a host and a disk");
        }
        key
    }
}

/// Whether `text` is a 64-bit number in decimal digits.
fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

fn key(host: &str, disk: &str) -> Vec<u8> {
    format!(",{host},{disk},").into_bytes()
}

impl LineWriter for Writer {
    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let clock = *self
            .clock
            .get_or_insert_with(|| WallClock::begin(header, TICK_NS, UNIX_EPOCH_TICKS, lost));
        let op: &[u8] = match request.op {
            Op::Read => b"Read,",
            Op::Write => b"Write,",
            op => {
                lost.op(op);
                return false;
            }
        };
        if request.length == Bytes::ZERO {
            lost.request("requests of zero length");
            return false;
        }
        let Some((ticks, is_whole)) = clock.units(request.issue) else {
            lost.request("requests before 1601");
            return false;
        };
        if !is_whole {
            lost.detail("instants cut to 100 ns");
        }
        let latency = write::latency_units(request.latency, TICK_NS, lost, LATENCIES);
        write::lose_columns(request, lost);
        decimal(lines, ticks, 1, b' ');
        lines.extend_from_slice(self.key(request.volume, header, lost));
        lines.extend_from_slice(op);
        decimal(lines, request.offset.0, 1, b' ');
        lines.push(b',');
        decimal(lines, request.length.0, 1, b' ');
        lines.push(b',');
        decimal(lines, latency, 1, b' ');
        lines.push(b'\n');
        true
    }
}
