//! Requests as an iolog of version 3 that fio loads.
//!
//! fio reads `%llu %256s %256s %llu %u`: a name ends at a blank, and lengths have 32 bits. It takes
//! a stamp of 0 as missing and issues the next request without its gap (`delay_since_ttime` in its
//! `iolog.c`, tried with 3.33): so a stamp of 0 is written as 1 µs.

use rustc_hash::{FxHashMap, FxHashSet};

use super::VERSION_3;
use crate::formats::write::{LineWriter, Lost, decimal, volume_name};
use crate::header::Header;
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos, VolumeId};

/// The longest name that fio reads, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The longest piece of a request, in bytes.
const PIECE_BYTES: u64 = 1 << 31;

/// A request of this length is not written: one line of a bad file must not become millions.
const LENGTH_MAX: u64 = 1 << 40;

/// The loss of the instant 0.
pub(super) const MOVED: &str =
    "requests at instant 0, written as 1 µs: fio forgets the time behind 0";

/// Writes the lines.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// The names of the volumes that were added, in the order of their first request.
    names: FxHashMap<VolumeId, Vec<u8>>,
    added: Vec<VolumeId>,
    taken: FxHashSet<Vec<u8>>,
    /// The last stamp that was written.
    last: u64,
}

impl Writer {
    /// Adds and opens a volume before its first request.
    #[cold]
    fn add(&mut self, header: &Header, id: VolumeId, lines: &mut Vec<u8>, lost: &mut Lost) {
        let said = volume_name(header, id).into_bytes();
        let is_bad = |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
        let mut name = said.clone();
        name.iter_mut().filter(|byte| is_bad(byte)).for_each(|byte| *byte = b'_');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || self.taken.contains(&name) {
            name = format!("volume-{}", id.0).into_bytes();
        }
        while self.taken.contains(&name) {
            name.push(b'_');
        }
        if name != said {
            lost.detail("names that fio cannot read, changed");
        }
        for verb in [&b"add"[..], b"open"] {
            self.manage(&name, verb, lines);
        }
        self.taken.insert(name.clone());
        self.names.insert(id, name);
        self.added.push(id);
    }

    fn manage(&self, name: &[u8], verb: &[u8], lines: &mut Vec<u8>) {
        decimal(lines, self.last, 1, b' ');
        lines.push(b' ');
        lines.extend_from_slice(name);
        lines.push(b' ');
        lines.extend_from_slice(verb);
        lines.push(b'\n');
    }
}

impl LineWriter for Writer {
    fn begin(&mut self, _header: &Header, lines: &mut Vec<u8>) {
        lines.extend_from_slice(VERSION_3);
        lines.push(b'\n');
    }

    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let verb: &[u8] = match request.op {
            Op::Read => b"read",
            Op::Write => b"write",
            Op::Discard => b"trim",
            Op::Flush => b"sync",
            _ => {
                lost.op(request.op);
                return false;
            }
        };
        let is_flush = request.op == Op::Flush;
        if request.issue < Nanos::ZERO {
            lost.request("requests before the start of the trace");
            return false;
        }
        if request.length == Bytes::ZERO && !is_flush {
            lost.request("requests of zero length");
            return false;
        }
        if request.length.0 >= LENGTH_MAX && !is_flush {
            lost.request("requests of 1 TiB and more");
            return false;
        }
        if request.issue.0 % 1_000 != 0 {
            lost.detail("instants cut to whole microseconds");
        }
        if !request.flags.is_empty() {
            lost.detail("flags");
        }
        if request.latency.is_some() {
            lost.detail("latencies");
        }
        if request.measured.is_some() || request.origin.is_some() {
            lost.detail("processes, processors and measured times");
        }
        if request.length.0 > u64::from(u32::MAX) && !is_flush {
            lost.detail("requests of 4 GiB and more, split");
        }
        self.last = request.issue.0.unsigned_abs() / 1_000;
        if self.last == 0 {
            lost.detail(MOVED);
            self.last = 1;
        }
        if !self.names.contains_key(&request.volume) {
            self.add(header, request.volume, lines, lost);
        }
        let Some(name) = self.names.get(&request.volume) else { return false };
        let (mut offset, mut left) = (request.offset.0, request.length.0);
        if is_flush {
            (offset, left) = (0, 0);
        }
        loop {
            let length = if left > u64::from(u32::MAX) { PIECE_BYTES } else { left };
            decimal(lines, self.last, 1, b' ');
            lines.push(b' ');
            lines.extend_from_slice(name);
            lines.push(b' ');
            lines.extend_from_slice(verb);
            lines.push(b' ');
            decimal(lines, offset, 1, b' ');
            lines.push(b' ');
            decimal(lines, length, 1, b' ');
            lines.push(b'\n');
            left -= length;
            offset = offset.saturating_add(length);
            if left == 0 {
                return true;
            }
        }
    }

    fn end(&mut self, _header: &Header, lines: &mut Vec<u8>) {
        for id in &self.added {
            if let Some(name) = self.names.get(id) {
                self.manage(name, b"close", lines);
            }
        }
    }
}
