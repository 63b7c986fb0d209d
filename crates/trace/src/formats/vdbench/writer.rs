//! Writing a file that Vdbench replays.

use std::path::Path;

use super::{MAGIC, REQUEST_TYPE, REQUEST_WORDS};
use crate::error::TraceError;
use crate::formats::numbers::Numbers;
use crate::formats::write::{self, LineWriter, Lost, lines};
use crate::header::Header;
use crate::request::{Flags, Op, Request};
use crate::stream::Sink;
use crate::units::Nanos;

const HEAD: u64 = MAGIC << 48 | (REQUEST_TYPE as u64) << 40 | REQUEST_WORDS as u64;

/// The losses of latencies.
const LATENCIES: (&str, &str) =
    ("latencies cut to microseconds", "latencies below a microsecond, which become unknown");

/// Begins a file at `path`, packed as its name says.
pub(super) fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    lines(path, header, Writer { devices: Numbers::up_to(super::DEVICE_BITS) })
}

struct Writer {
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
        let flag = match request.op {
            Op::Read => 1,
            Op::Write => 0,
            other => {
                lost.op(other);
                return false;
            }
        };
        if request.issue < Nanos::ZERO {
            lost.request("requests before the start of the trace");
            return false;
        }
        let Ok(length) = i32::try_from(request.length.0) else {
            lost.request("requests too long for Vdbench (2 GiB and more)");
            return false;
        };
        if i64::try_from(request.offset.0).is_err() {
            lost.request("requests beyond Vdbench's addresses (8 EiB and more)");
            return false;
        }
        if request.issue.0 % 1000 != 0 {
            lost.detail("instants cut to microseconds");
        }
        let latency = write::latency_units(request.latency, 1000, lost, LATENCIES);
        if request.flags != Flags::empty() {
            lost.detail("flags");
        }
        if request.origin.is_some_and(|origin| origin.cpu != 0) {
            lost.detail("processors");
        }
        if request.measured.is_some() {
            lost.detail("measured times");
        }
        let pid = request.origin.map_or(0, |origin| origin.pid);
        let words = [
            HEAD,
            request.issue.0 as u64 / 1000,
            latency,
            self.devices.of(request.volume, header, lost),
            request.offset.0,
            (length as u64) << 32 | u64::from(pid),
            flag << 56,
        ];
        lines.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        true
    }
}
