//! Writing what Alibaba's traces say.

use std::path::Path;

use rustc_hash::FxHashSet;

use crate::error::TraceError;
use crate::formats::Writable;
use crate::formats::wall_clock::WallClock;
use crate::formats::write::{self, LineWriter, Lost, decimal};
use crate::header::Header;
use crate::request::{Op, Request};
use crate::stream::Sink;
use crate::units::{Bytes, VolumeId};

/// Alibaba's traces, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "alibaba",
    title: "CSV as of Alibaba's block traces",
    endings: &[".alibaba.csv"],
    packs: true,
    create,
};

fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    let clock = WallClock::new(header, 1_000, 0);
    let writer = Writer { clock, devices: devices(header), has_begun: false };
    write::lines(path, header, writer)
}

struct Writer {
    clock: WallClock,
    /// The number of each volume.
    devices: Option<Vec<(VolumeId, u32)>>,
    has_begun: bool,
}

/// The numbers that volumes are called by, if all of them are called by numbers.
fn devices(header: &Header) -> Option<Vec<(VolumeId, u32)>> {
    let mut taken = FxHashSet::default();
    let mut devices = Vec::new();
    for volume in &header.volumes {
        let number: u32 = volume.name.parse().ok()?;
        if number.to_string() != volume.name || !taken.insert(number) {
            return None;
        }
        devices.push((volume.id, number));
    }
    Some(devices)
}

impl Writer {
    /// The number of volume `id`: what it is called by, else its own.
    #[inline]
    fn device(&self, id: VolumeId) -> u32 {
        let Some(devices) = &self.devices else { return id.0 };
        let known = devices.get(id.0 as usize).filter(|(known, _)| *known == id);
        let known = known.or_else(|| devices.iter().find(|(known, _)| *known == id));
        known.map_or(id.0, |(_, number)| *number)
    }

    /// Counts what is lost once for the whole trace.
    #[cold]
    fn begin(&mut self, header: &Header, lost: &mut Lost) {
        self.has_begun = true;
        self.clock.note(lost);
        if self.devices.is_none() {
            for volume in header.volumes.iter().filter(|volume| !volume.name.is_empty()) {
                if volume.name != volume.id.0.to_string() {
                    lost.add("names of volumes, which become numbers");
                }
            }
        }
    }
}

impl LineWriter for Writer {
    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        if !self.has_begun {
            self.begin(header, lost);
        }
        let op: &[u8] = match request.op {
            Op::Read => b",R,",
            Op::Write => b",W,",
            op => {
                lost.op(op);
                return false;
            }
        };
        if request.length == Bytes::ZERO {
            lost.add("requests of zero length");
            return false;
        }
        if u32::try_from(request.length.0).is_err() {
            lost.add("requests too long for the format (4 GiB and more)");
            return false;
        }
        let Some((micros, is_whole)) = self.clock.units(request.issue) else {
            lost.add("requests before 1970");
            return false;
        };
        if !is_whole {
            lost.add("instants cut to 1 µs");
        }
        if request.latency.is_some() {
            lost.add("latencies");
        }
        write::lose_columns(request, lost);
        decimal(lines, u64::from(self.device(request.volume)), 1, b' ');
        lines.extend_from_slice(op);
        decimal(lines, request.offset.0, 1, b' ');
        lines.push(b',');
        decimal(lines, request.length.0, 1, b' ');
        lines.push(b',');
        decimal(lines, micros, 1, b' ');
        lines.push(b'\n');
        true
    }
}
