//! The output of biosnoop, of bcc and of libbpf-tools, and of the older iosnoop of perf-tools.
//!
//! People who looked for a slow request have its output: a line for each request, printed at its
//! completion, with the latency. Which columns there are depends on version and options, so they
//! are taken from the heading; a process's name may have blanks, so lines are read from their end.
//!
//! * The time is that of the completion: issue = time − latency. With `-Q` the time in the queue is
//!   known too, and the instant of issue is that of the insertion: time − latency − time queued.
//! * Latencies have two decimals of a millisecond (three in libbpf-tools), and so have instants.
//! * Older versions of bcc print `R` for everything that is not a write.
//! * bpftrace's version prints neither sector nor size, and iosnoop without `-s` or `-t` no time:
//!   they are refused.
//!
//! Source: `tools/biosnoop.py` and `libbpf-tools/biosnoop.c` of bcc, `iosnoop` of perf-tools.

mod clock;
mod layout;
mod reader;
#[cfg(test)]
mod tests;

use self::clock::Clock;
use self::layout::{Column, Layout};
use self::reader::{Parser, split};
use super::import::{self, Epoch, Facts, Look};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::stream::Source;

/// The output of biosnoop and iosnoop.
pub const FORMAT: Format = Format {
    name: "biosnoop",
    title: "what biosnoop (bcc, libbpf-tools) and iosnoop print",
    several: Several::Apart,
    recognise,
    open,
};

const REMEDY: &str = "biosnoop prints a heading like 'TIME(s) COMM PID DISK T SECTOR BYTES \
                      LAT(ms)' and a line for each request";

/// The largest number of lines before the heading.
const LINES_BEFORE_MAX: usize = 20;

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn recognise(first_bytes: &[u8]) -> bool {
    lines(first_bytes).take(LINES_BEFORE_MAX).any(|line| Layout::of(line).is_some())
        || import::looks_like(first_bytes, |line| match split(line, &Layout::usual()) {
            Some(parts) if parts.is_certain() => Look::Request,
            _ => Look::Strange,
        })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let first_bytes = opening.stream.first_bytes();
    let layout = lines(first_bytes).take(LINES_BEFORE_MAX).find_map(Layout::of);
    let layout = layout.unwrap_or_else(Layout::usual);
    if let Err((reason, remedy)) = layout.suffices() {
        return Err(TraceError::Unusable {
            path: opening.path.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.into(),
        });
    }
    let is_dated = lines(first_bytes)
        .filter_map(|line| split(line, &layout))
        .any(|parts| layout.before.first() == Some(&Column::Time) && Clock::is_dated(parts.before));
    let facts = Facts {
        format: "biosnoop",
        columns: Columns { latency: true, origin: true, measured: false, dependencies: false },
        epoch: if is_dated { Epoch::Unix } else { Epoch::Unknown },
        whole_seconds: false,
    };
    import::lines(opening, Parser::new(layout), facts, REMEDY)
}
