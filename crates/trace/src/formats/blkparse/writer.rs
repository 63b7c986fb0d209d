//! Requests as the lines that blkparse would print.
//!
//! Every request has a line `Q` and, if its latency is known, a line `C`. Lines are in the order of
//! time, so completions are held back until their instant.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{UNKNOWN_PROCESS, letters};
use crate::formats::write::{self, LineWriter, Lost, decimal, volume_name};
use crate::header::Header;
use crate::request::{Flags, Op, Request};
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// The largest number of completions that are held back, so that absurd latencies do not fill the
/// memory.
const PENDING_MAX: usize = 1 << 18;

/// The longest piece of a request, in bytes: the kernel counts them in 32 bits.
const PIECE_BYTES: u64 = 1 << 31;

/// A request of this length is not written: one line of a bad file must not become millions.
const LENGTH_MAX: u64 = 1 << 40;

/// The major number of devices whose name is not a pair of numbers: the one that the kernel gives
/// to devices without their own (`BLOCK_EXT_MAJOR`).
const MAJOR: u32 = 259;

/// The part of a request that one line shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    time: u64,
    /// Orders pieces of the same instant.
    serial: u64,
    device: (u32, u32),
    cpu: u32,
    sector: u64,
    sectors: u64,
    op: Op,
    flags: u16,
}

/// Writes the lines.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pending: BinaryHeap<Reverse<Piece>>,
    serial: u64,
    /// The major and minor numbers of the volumes, and the numbers that are taken.
    devices: FxHashMap<VolumeId, (u32, u32)>,
    taken: FxHashSet<(u32, u32)>,
    /// The sequence numbers, one for each device and processor.
    sequences: FxHashMap<((u32, u32), u32), u64>,
}

impl Writer {
    /// The major and minor number of a volume: those of its name, else new ones.
    fn device(&mut self, header: &Header, id: VolumeId, lost: &mut Lost) -> (u32, u32) {
        if let Some(device) = self.devices.get(&id) {
            return *device;
        }
        let name = volume_name(header, id);
        let numbers = |name: &str| {
            let (major, minor) = name.split_once([':', ','])?;
            let device: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
            (device.0 >> 12 == 0 && device.1 >> 20 == 0).then_some(device)
        };
        let device = numbers(&name).filter(|device| !self.taken.contains(device));
        let device = device.unwrap_or_else(|| {
            lost.detail("names of volumes");
            let mut device = (MAJOR, id.0 & 0xf_ffff);
            while self.taken.contains(&device) {
                device.1 = (device.1 + 1) & 0xf_ffff;
                device.0 = (device.0 + u32::from(device.1 == 0)) & 0xfff;
            }
            device
        });
        self.taken.insert(device);
        self.devices.insert(id, device);
        device
    }

    /// Writes the completions up to and at the instant `time`.
    fn complete(&mut self, time: u64, lines: &mut Vec<u8>) {
        while let Some(Reverse(piece)) = self.pending.peek()
            && piece.time <= time
        {
            let piece = *piece;
            self.pending.pop();
            self.line(lines, &piece, b'C', 0, b"0");
        }
    }

    /// Appends a line: `%3d,%-3d %2d %8d %5d.%09lu %5u %2s %3s `, then the place and the name.
    fn line(&mut self, lines: &mut Vec<u8>, piece: &Piece, event: u8, pid: u32, name: &[u8]) {
        let sequence = self.sequences.entry((piece.device, piece.cpu)).or_default();
        *sequence += 1;
        decimal(lines, u64::from(piece.device.0), 3, b' ');
        lines.push(b',');
        let from = lines.len();
        decimal(lines, u64::from(piece.device.1), 1, b' ');
        while lines.len() < from + 3 {
            lines.push(b' ');
        }
        lines.push(b' ');
        decimal(lines, u64::from(piece.cpu), 2, b' ');
        lines.push(b' ');
        decimal(lines, *sequence, 8, b' ');
        lines.push(b' ');
        decimal(lines, piece.time / 1_000_000_000, 5, b' ');
        lines.push(b'.');
        decimal(lines, piece.time % 1_000_000_000, 9, b'0');
        lines.push(b' ');
        decimal(lines, u64::from(pid), 5, b' ');
        lines.extend_from_slice(&[b' ', b' ', event, b' ']);
        letters::push(lines, piece.op, Flags::from_bits_truncate(piece.flags));
        lines.push(b' ');
        if piece.sectors > 0 {
            decimal(lines, piece.sector, 1, b' ');
            lines.extend_from_slice(b" + ");
            decimal(lines, piece.sectors, 1, b' ');
            lines.push(b' ');
        } else if event == b'C' {
            lines.extend_from_slice(b"0 ");
        }
        lines.push(b'[');
        lines.extend(name.iter().map(|byte| if byte.is_ascii_control() { b'?' } else { *byte }));
        lines.extend_from_slice(b"]\n");
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
        if request.op == Op::Zone || request.op.is_of_files() {
            lost.op(request.op);
            return false;
        }
        if request.issue < Nanos::ZERO {
            lost.request("requests before the start of the trace");
            return false;
        }
        let is_flush = request.op == Op::Flush;
        if request.length == Bytes::ZERO && !is_flush {
            lost.request("requests of zero length");
            return false;
        }
        if request.length.0 >= LENGTH_MAX && !is_flush {
            lost.request("requests of 1 TiB and more");
            return false;
        }
        let mut flags = request.flags;
        if is_flush && flags.intersects(Flags::PREFLUSH | Flags::FUA) {
            lost.detail("marks of flushes");
            flags.remove(Flags::PREFLUSH | Flags::FUA);
        }
        if request.measured.is_some() {
            lost.detail("measured times");
        }
        let (mut first, mut end) = (request.offset.0, request.end().0);
        if is_flush {
            (first, end) = (0, 0);
        } else if !first.is_multiple_of(SECTOR) || !end.is_multiple_of(SECTOR) {
            lost.detail("requests widened to whole sectors");
        }
        let Some((first, sectors)) = write::sectors(first, end) else {
            lost.request(write::BEYOND);
            return false;
        };
        let end = first + sectors;
        if end - first >= 2 * PIECE_BYTES / SECTOR {
            lost.detail("requests of 4 GiB and more, split");
        }
        let device = self.device(header, request.volume, lost);
        let time = request.issue.0.unsigned_abs();
        self.complete(time, lines);
        let origin = request.origin.unwrap_or_default();
        let name = header.processes.get(&origin.pid).map(String::as_bytes);
        let mut sector = first;
        loop {
            let left = end - sector;
            let whole = 2 * PIECE_BYTES / SECTOR;
            let sectors = if left >= whole { PIECE_BYTES / SECTOR } else { left };
            self.serial += 1;
            let piece = Piece {
                time,
                serial: self.serial,
                device,
                cpu: origin.cpu,
                sector,
                sectors,
                op: request.op,
                flags: flags.bits(),
            };
            self.line(lines, &piece, b'Q', origin.pid, name.unwrap_or(UNKNOWN_PROCESS));
            match request.latency {
                Some(_) if self.pending.len() >= PENDING_MAX => {
                    lost.detail("latencies of more than 262,144 requests in flight");
                }
                Some(latency) => {
                    if latency < Nanos::ZERO {
                        lost.detail("negative latencies, written as 0");
                    }
                    let span = latency.0.max(0).unsigned_abs();
                    self.pending.push(Reverse(Piece { time: time.saturating_add(span), ..piece }));
                }
                None => {}
            }
            sector += sectors;
            if sector >= end {
                return true;
            }
        }
    }

    fn end(&mut self, _header: &Header, lines: &mut Vec<u8>) {
        self.complete(u64::MAX, lines);
    }
}
