//! Writing traces in the format of Alibaba's.

use std::path::Path;

use crate::error::TraceError;
use crate::formats::Writable;
use crate::formats::numbers::Numbers;
use crate::formats::wall_clock::WallClock;
use crate::formats::write::{self, LineWriter, Lost, decimal};
use crate::header::Header;
use crate::request::{Op, Request};
use crate::stream::Sink;
use crate::units::Bytes;

/// Alibaba's traces, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "alibaba",
    title: "CSV as of Alibaba's block traces",
    endings: &[".alibaba.csv"],
    packs: true,
    create,
};

fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    let devices = Numbers::up_to(u64::from(u32::MAX));
    write::lines(path, header, Writer { clock: None, devices })
}

struct Writer {
    /// `None` before the first request, because only then the start of the trace is known.
    clock: Option<WallClock>,
    /// The number of each volume.
    devices: Numbers,
}

impl LineWriter for Writer {
    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let clock = *self.clock.get_or_insert_with(|| WallClock::begin(header, 1_000, 0, lost));
        let op: &[u8] = match request.op {
            Op::Read => b",R,",
            Op::Write => b",W,",
            op => {
                lost.op(op);
                return false;
            }
        };
        if request.length == Bytes::ZERO {
            lost.request("requests of zero length");
            return false;
        }
        if u32::try_from(request.length.0).is_err() {
            lost.request("requests too long for the format (4 GiB and more)");
            return false;
        }
        let Some((micros, is_whole)) = clock.units(request.issue) else {
            lost.request("requests before 1970");
            return false;
        };
        if !is_whole {
            lost.detail("instants cut to 1 µs");
        }
        if request.latency.is_some() {
            lost.detail("latencies");
        }
        write::lose_columns(request, lost);
        decimal(lines, self.devices.of(request.volume, header, lost), 1, b' ');
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
