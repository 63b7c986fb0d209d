//! Writing a result as blkreplay prints one.
//!
//! blkreplay's own scripts draw their graphs from such a file, so runs of ioecho can be compared
//! with old ones. A line has the scheduled instant, the place on the target, lateness and service
//! time; the operation is in lower case if the request was pushed back. A trace that was never
//! replayed has its recorded latencies for durations.
//!
//! Format: blkreplay's `blkreplay.c`, whose `printf` is
//! `"%4lu.%09lu ; %10lld ; %3d ; %c ; %3lu.%09lu ; %3lu.%09lu\n"`.

#[cfg(test)]
mod tests;

use rustc_hash::FxHashSet;

use super::writer::prose;
use crate::formats::Writable;
use crate::formats::write::{self, LineWriter, Lost, decimal, lines};
use crate::header::Header;
use crate::request::{Measured, Op, Outcome, Request};
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// Results of blkreplay, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "blkreplay-result",
    title: "blkreplay's replay result",
    endings: &[".replay"],
    packs: true,
    create: |path, header| lines(path, header, Lines::default()),
};

/// The volumes of the lines so far.
#[derive(Default)]
struct Lines {
    met: FxHashSet<VolumeId>,
}

/// The line between the requests and the prose after them.
const RULE: &[u8] = b"--------------------------------------\n";

impl LineWriter for Lines {
    fn begin(&mut self, header: &Header, lines: &mut Vec<u8>) {
        lines.extend_from_slice(prose(header).as_bytes());
        lines.extend_from_slice(
            b"orig_start ; sector; length ; op ;  replay_delay; replay_duration\n",
        );
    }

    fn keeps_transforms(&self) -> bool {
        true
    }

    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool {
        let measured = request.measured.as_ref();
        let pushed_back = measured.is_some_and(|measured| measured.pushed_back);
        let op = match (request.op, pushed_back) {
            (Op::Read, false) => b'R',
            (Op::Read, true) => b'r',
            (Op::Write, false) => b'W',
            (Op::Write, true) => b'w',
            (op, _) => {
                lost.op(op);
                return false;
            }
        };
        if measured.is_some_and(|measured| !measured.outcome.was_issued()) {
            lost.request("requests that were not issued");
            return false;
        }
        let start = measured.map_or(request.issue, |measured| measured.scheduled);
        if start < Nanos::ZERO {
            lost.request("requests before the start of the trace");
            return false;
        }
        if request.length == Bytes::ZERO {
            lost.request("requests of zero length");
            return false;
        }
        let place = measured.and_then(|measured| measured.target_offset);
        let offset = place.unwrap_or(request.offset);
        let end = offset.0.saturating_add(request.length.0);
        let Some((first, sectors)) = write::sectors(offset.0, end) else {
            lost.request(write::BEYOND);
            return false;
        };
        // blkreplay's length is an `int`.
        if sectors > i32::MAX as u64 {
            lost.request("requests too long for blkreplay (1 TiB and more)");
            return false;
        }
        if !offset.0.is_multiple_of(SECTOR) || !request.length.0.is_multiple_of(SECTOR) {
            lost.detail("requests widened to whole sectors");
        }
        if place.is_some_and(|place| place != request.offset) {
            lost.detail("places in the trace (where a request went on the target stands for it)");
        }
        count_lost(request, lost);
        if self.met.insert(request.volume) {
            lost.name(request.volume, header);
        }
        let delay = measured.and_then(Measured::lateness);
        let duration = match measured {
            Some(measured) => measured.service_time(),
            None => request.latency,
        };
        if delay.is_some_and(|span| span < Nanos::ZERO)
            || duration.is_some_and(|span| span < Nanos::ZERO)
        {
            lost.detail("requests with a delay or a duration below zero, written as 0");
        }
        seconds(lines, start, 4);
        lines.extend_from_slice(b" ; ");
        decimal(lines, first, 10, b' ');
        lines.extend_from_slice(b" ; ");
        decimal(lines, sectors, 3, b' ');
        lines.extend_from_slice(&[b' ', b';', b' ', op, b' ', b';', b' ']);
        seconds(lines, delay.unwrap_or_default(), 3);
        lines.extend_from_slice(b" ; ");
        seconds(lines, duration.unwrap_or_default(), 3);
        lines.push(b'\n');
        true
    }

    fn end(&mut self, _header: &Header, lines: &mut Vec<u8>) {
        lines.extend_from_slice(RULE);
    }
}

/// Counts the values of a request that its line does not have.
fn count_lost(request: &Request, lost: &mut Lost) {
    if !request.flags.is_empty() {
        lost.detail("flags");
    }
    if request.origin.is_some() {
        lost.detail("processes and processors");
    }
    if request.volume.0 != 0 {
        lost.detail("volumes of requests");
    }
    if let Some(measured) = &request.measured {
        if measured.outcome != Outcome::Ok {
            lost.detail("outcomes other than success");
        }
        if measured.completed.is_none() {
            lost.detail("completions that were not seen, written as durations of 0");
        }
        if measured.target != 0 {
            lost.detail("targets of requests");
        }
        if request.latency.is_some() {
            lost.detail("recorded latencies, beside what was measured");
        }
    } else if request.latency.is_none() {
        lost.detail("durations, which are not known, written as 0");
    }
}

/// A span in seconds with all its decimals. A negative span, which blkreplay cannot write, becomes
/// zero.
fn seconds(line: &mut Vec<u8>, span: Nanos, width: usize) {
    let ns = span.0.max(0) as u64;
    decimal(line, ns / 1_000_000_000, width, b' ');
    line.push(b'.');
    decimal(line, ns % 1_000_000_000, 9, b'0');
}
