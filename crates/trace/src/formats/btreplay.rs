//! The files that `btrecord` makes of a blktrace recording for `btreplay`: `dev.replay.N`.
//!
//! A file holds the requests of one device and one processor in bunches. Only the bunch has an
//! instant, that of its first request: requests up to ten milliseconds apart become one burst. The
//! counts in the header are estimates of the writer (in the published file they are wrong), so
//! bunches are read until the file ends.
//!
//! Format: a memory image of the writer's machine, in either byte order. Header of 32 bytes: `u64`
//! version (major × 65,536 + minor × 256 + sub), `u64` the instant of the first request, `u64`
//! bunches, `u64` requests. A bunch: `u64` requests (1 to 512), `u64` nanoseconds, and for each
//! request 24 bytes: `u64` sector, `u64` bytes, `u32` 1 for a read and 0 for a write, and four
//! bytes of padding. hfplayer writes the same with microseconds. Source: blktrace,
//! `btreplay/btrecord.h` and `btrecord.c`.

#[cfg(test)]
mod tests;
mod writer;

use super::fields::Fields;
use super::import::{
    Epoch, Facts, Fault, Intake, RecordError, RecordParser, Records, Told, records,
};
use super::{Format, Opening, Several, Writable};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos};

/// Files for btreplay, as they are read.
pub const FORMAT: Format = Format {
    name: "btreplay",
    title: "files of btrecord, one device and processor each",
    several: Several::Apart,
    recognise,
    open,
};

/// Files for btreplay, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "btreplay",
    title: "btreplay's file of one device",
    endings: &[".replay.0"],
    packs: false,
    create: writer::create,
};

/// The version that this program writes: 1.0.0.
const VERSION: u64 = 1 << 16;

const HEADER_BYTES: usize = 32;
const BUNCH_BYTES: usize = 16;
const REQUEST_BYTES: usize = 24;

/// The largest number of requests in a bunch (`BT_MAX_PKTS`).
const BUNCH_MAX: u64 = 512;

/// The number of bunches without a request that are passed over to recognise a file.
const LOOK_BUNCHES: usize = 64;

/// The guess of a unit that the file does not say.
const AS_NANOSECONDS: Topic<'static> = NoteKind::Unit
    .of("instants taken as nanoseconds, as btrecord writes them (hfplayer \
         writes microseconds: `time-unit` us)");

const IMPOSSIBLE_BUNCH: &str = "bunches of an impossible size";
const EMPTY_BUNCH: &str = "bunches without a request";
const NO_OP: &str = "requests that neither read nor write";
const TOO_FAR: &str = "requests that reach beyond 64-bit addresses";
const TOO_LATE: &str = "bunches at instants beyond 64 bits";

/// Whether a header that begins with these bytes is big-endian; `None` if they begin no header.
fn byte_order(first_bytes: &[u8]) -> Option<bool> {
    let version = u64::from_le_bytes(*first_bytes.first_chunk()?);
    [false, true].into_iter().find(|big_endian| {
        let version = if *big_endian { version.swap_bytes() } else { version };
        version >> 16 == 1
    })
}

/// Whether a file that begins with these bytes is one of btrecord: the header's version, and after
/// it a plausible bunch. Later faults are found by the reader.
fn recognise(first_bytes: &[u8]) -> bool {
    let Some(big_endian) = byte_order(first_bytes) else { return false };
    let mut rest = first_bytes.get(HEADER_BYTES..).unwrap_or_default();
    for _ in 0..LOOK_BUNCHES {
        if rest.len() < BUNCH_BYTES + REQUEST_BYTES {
            return false;
        }
        let count = Fields::of(rest, big_endian).u64(0);
        rest = &rest[BUNCH_BYTES..];
        if count > 0 {
            let mut bunch = rest.chunks_exact(REQUEST_BYTES).take(count.min(BUNCH_MAX) as usize);
            let is_request = |request| Fields::of(request, big_endian).u32(16) <= 1;
            return count <= BUNCH_MAX && bunch.all(is_request);
        }
    }
    false
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let remedy = "btrecord writes files that begin with its version, 1.0.0, and 24 further bytes";
    let Some(big_endian) = byte_order(opening.stream.first_bytes()) else {
        return Err(TraceError::Unusable {
            path: opening.path.to_owned(),
            reason: "it does not begin with a known version of btrecord".to_owned(),
            remedy: remedy.into(),
        });
    };
    let facts = Facts {
        format: "btreplay",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let said = opening.options.time_unit_ns;
    let parser = Parser {
        big_endian,
        unit_ns: said.unwrap_or(1),
        is_unit_guessed: said.is_none(),
        genesis: None,
        left: 0,
        issue: None,
    };
    records(opening, parser, facts, remedy)
}

struct Parser {
    big_endian: bool,
    /// The unit of instants in nanoseconds.
    unit_ns: i64,
    is_unit_guessed: bool,
    /// The instant that the header gives as the first; `None` before the header was read.
    genesis: Option<u64>,
    /// The number of requests of the bunch that are still to come.
    left: u64,
    /// The instant of the bunch; `None` if it does not fit.
    issue: Option<Nanos>,
}

impl Parser {
    /// Reads the header; `None` where the file ends before.
    fn header(
        &mut self,
        records: &mut Records,
        intake: &mut Intake,
    ) -> Result<Option<u64>, RecordError> {
        let Some(bytes) = records.take(HEADER_BYTES)? else { return Ok(None) };
        let genesis = Fields::of(bytes, self.big_endian).u64(8);
        self.genesis = Some(genesis);
        intake.header.recorder = Some("btrecord".to_owned());
        if genesis > 0 {
            // Relates the clocks of the files of several processors.
            let text = format!("btrecord's file of one processor, which begins at {genesis}");
            intake.header.description = Some(text);
        }
        Ok(Some(genesis))
    }

    /// Begins the next bunch; `false` at the end.
    fn bunch(&mut self, records: &mut Records, genesis: u64) -> Result<bool, RecordError> {
        let bytes = records.peek(BUNCH_BYTES)?;
        if bytes.len() < BUNCH_BYTES {
            return Ok(false);
        }
        let bunch = Fields::of(bytes, self.big_endian);
        let (count, stamp) = (bunch.u64(0), bunch.u64(8));
        if count > BUNCH_MAX {
            return Err(fault(IMPOSSIBLE_BUNCH, "a bunch claims more than 512 requests"));
        }
        records.take(BUNCH_BYTES)?;
        let issue = (i128::from(stamp) - i128::from(genesis)) * i128::from(self.unit_ns);
        self.issue = i64::try_from(issue).ok().map(Nanos);
        self.left = count;
        if count == 0 {
            return Err(fault(EMPTY_BUNCH, "a bunch has no request"));
        }
        Ok(true)
    }
}

impl RecordParser for Parser {
    #[inline]
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError> {
        if self.left == 0 {
            let genesis = match self.genesis {
                Some(genesis) => genesis,
                None => match self.header(records, intake)? {
                    Some(genesis) => genesis,
                    None => return Ok(false),
                },
            };
            if !self.bunch(records, genesis)? {
                return Ok(false);
            }
        }
        let Some(bytes) = records.take(REQUEST_BYTES)? else { return Ok(false) };
        self.left -= 1;
        let request = Fields::of(bytes, self.big_endian);
        let op = match request.u32(16) {
            0 => Op::Write,
            1 => Op::Read,
            _ => return Err(fault(NO_OP, "its direction is neither 0 nor 1")),
        };
        let Some(offset) = Bytes::from_sectors(request.u64(0)) else {
            return Err(fault(TOO_FAR, "the sector lies beyond 64 bits"));
        };
        let Some(issue) = self.issue else {
            return Err(fault(TOO_LATE, "the time does not fit 64 bits"));
        };
        intake.push(&Request::new(issue, op, offset, Bytes(request.u64(8))))?;
        Ok(true)
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_unit_guessed, AS_NANOSECONDS);
    }
}

#[cold]
fn fault(loss: &'static str, reason: &'static str) -> RecordError {
    Fault::lost(1, loss, reason).into()
}
