//! Writing what the traces of Microsoft Research Cambridge say.

use std::path::Path;

use rustc_hash::FxHashSet;

use super::{TICK_NS, UNIX_EPOCH_TICKS};
use crate::error::TraceError;
use crate::formats::Writable;
use crate::formats::wall_clock::WallClock;
use crate::formats::write::{self, LineWriter, Lost, decimal};
use crate::header::Header;
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
    let clock = WallClock::new(header, TICK_NS, UNIX_EPOCH_TICKS);
    let writer = Writer { clock, keys: keys(header), has_begun: false };
    write::lines(path, header, writer)
}

struct Writer {
    clock: WallClock,
    /// What stands for each volume: `,host,disk,`.
    keys: Vec<(VolumeId, Vec<u8>)>,
    has_begun: bool,
}

/// The host and the disk that stand for each volume: those of its name where it has them, as
/// volumes that were read have; else the name and the volume's number.
fn keys(header: &Header) -> Vec<(VolumeId, Vec<u8>)> {
    let mut taken = FxHashSet::default();
    let mut keys = Vec::new();
    for volume in &header.volumes {
        let is_number = |text: &str| text == "0" || !text.starts_with('0') && is_digits(text);
        let (host, disk) = match volume.name.rsplit_once('_') {
            Some((host, disk)) if !host.is_empty() && is_number(disk) => (host, disk.to_owned()),
            _ => (volume.name.as_str(), volume.id.0.to_string()),
        };
        // What is between two commas stays there, and blanks around it would be lost.
        let host: String = host
            .chars()
            .map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '-' } else { c })
            .collect();
        let mut key = key(&host, &disk);
        if host.is_empty() || taken.contains(&key) {
            key = key_of_number(volume.id);
        }
        // Whatever volumes are called, no two become one.
        let mut other = "volume".to_owned();
        while !taken.insert(key.clone()) {
            other.push('-');
            key = self::key(&other, &volume.id.0.to_string());
        }
        keys.push((volume.id, key));
    }
    keys
}

/// Whether `text` is a number of 64 bits in digits.
fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u64>().is_ok()
}

fn key(host: &str, disk: &str) -> Vec<u8> {
    format!(",{host},{disk},").into_bytes()
}

fn key_of_number(id: VolumeId) -> Vec<u8> {
    key("volume", &id.0.to_string())
}

impl LineWriter for Writer {
    fn request(
        &mut self,
        request: &Request,
        _header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        if !self.has_begun {
            self.has_begun = true;
            self.clock.note(lost);
        }
        let op: &[u8] = match request.op {
            Op::Read => b"Read,",
            Op::Write => b"Write,",
            op => {
                lost.op(op);
                return false;
            }
        };
        if request.length == Bytes::ZERO {
            lost.add("requests of zero length");
            return false;
        }
        let Some((ticks, is_whole)) = self.clock.units(request.issue) else {
            lost.add("requests before 1601");
            return false;
        };
        if !is_whole {
            lost.add("instants cut to 100 ns");
        }
        let latency_ns = request.latency.map_or(0, |latency| latency.0);
        if latency_ns < 0 {
            lost.add("negative latencies, written as not known");
        } else if latency_ns % TICK_NS != 0 {
            lost.add("latencies cut to 100 ns");
        }
        write::lose_columns(request, lost);
        decimal(lines, ticks, 1, b' ');
        let index = request.volume.0 as usize;
        let known = self.keys.get(index).filter(|(id, _)| *id == request.volume);
        match known.or_else(|| self.keys.iter().find(|(id, _)| *id == request.volume)) {
            Some((_, key)) => lines.extend_from_slice(key),
            None => lines.extend_from_slice(&key_of_number(request.volume)),
        }
        lines.extend_from_slice(op);
        decimal(lines, request.offset.0, 1, b' ');
        lines.push(b',');
        decimal(lines, request.length.0, 1, b' ');
        lines.push(b',');
        decimal(lines, latency_ns.max(0).unsigned_abs() / TICK_NS.unsigned_abs(), 1, b' ');
        lines.push(b'\n');
        true
    }
}
