//! Vdbench's `flatfile.bin`: the input of its replay, written for it by Sun's Swat.
//!
//! Nothing else writes such files, so replay with Vdbench ended with Swat. Reading them saves old
//! recordings; writing them gives Vdbench every other trace.
//!
//! Format: big-endian 64-bit words, as Java writes them. Every record begins with a word of
//! `0xEEEE` (16 bits), a type (8), a version (8), a byte that is spare and the number of its words
//! (24), this one included. A request has type 5, version 0 and 7 words: the start in microseconds
//! (a comment in Vdbench says nanoseconds; its code divides by a million), the response time in
//! microseconds or 0, the number of the device (the upper 16 bits are Vdbench's own), the offset in
//! bytes, the length in bytes and the process (32 bits each), and a byte that is 1 for a read and 0
//! for a write. Records of other types are passed over by their length. Source: Vdbench,
//! `Utils/Bin.java`, `Utils/Flat_record.java` and `Vdb/ReplayRun.java`.

#[cfg(test)]
mod tests;
mod writer;

use rustc_hash::FxHashMap;

use super::fields::Fields;
use super::import::{Epoch, Facts, Fault, Intake, RecordError, RecordParser, Records, records};
use super::{Format, Opening, Several, Writable};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Origin, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos, VolumeId};

/// Files for Vdbench's replay, as they are read.
pub const FORMAT: Format = Format {
    name: "vdbench",
    title: "Vdbench's flatfile.bin",
    several: Several::Apart,
    recognise,
    open,
};

/// Files for Vdbench's replay, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "vdbench",
    title: "Vdbench's replay file",
    endings: &["flatfile.bin"],
    packs: true,
    create: writer::create,
};

const MAGIC: u64 = 0xeeee;
const REQUEST_TYPE: u8 = 5;
const REQUEST_WORDS: usize = 7;
const WORD_BYTES: usize = 8;

/// The bits of a device's number that are not Vdbench's own.
const DEVICE_BITS: u64 = (1 << 48) - 1;

/// The number of records of other types that are passed over in search of a request.
const LOOK_RECORDS: usize = 64;

/// The number of bytes that are taken at a time from a record that is passed over.
const SKIP_BYTES: usize = 64 << 10;

const OTHER: Topic<'static> = NoteKind::Beside.of("records that are no requests");
const IMPOSSIBLE: &str = "requests with an impossible field";

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: u8,
    version: u8,
    words: usize,
}

impl Head {
    /// The head in a word; `None` if no record begins with this word.
    #[inline]
    fn of(word: u64) -> Option<Self> {
        let words = (word & 0xff_ffff) as usize;
        let head = Self { kind: (word >> 40) as u8, version: (word >> 32) as u8, words };
        (word >> 48 == MAGIC && words > 0).then_some(head)
    }

    const fn is_request(self) -> bool {
        self.kind == REQUEST_TYPE && self.version == 0 && self.words == REQUEST_WORDS
    }
}

/// Whether a file that begins with these bytes is one for Vdbench: records follow each other, and
/// one of the first is a request. Later faults are found by the reader.
fn recognise(first_bytes: &[u8]) -> bool {
    let mut rest = first_bytes;
    let mut requests = 0;
    for _ in 0..LOOK_RECORDS {
        if rest.len() < WORD_BYTES {
            break;
        }
        let Some(head) = Head::of(Fields::of(rest, true).u64(0)) else { break };
        requests += usize::from(head.is_request());
        rest = rest.get(head.words * WORD_BYTES..).unwrap_or_default();
    }
    requests > 0
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "vdbench flatfile",
        columns: Columns { latency: true, origin: true, measured: false, dependencies: false },
        epoch: Epoch::StartOrUnix,
        whole_seconds: false,
    };
    let unit_ns = opening.options.time_unit_ns.unwrap_or(1000);
    let parser = Parser { unit_ns, last: None, devices: FxHashMap::default(), skip: 0 };
    records(opening, parser, facts, "Vdbench replays files of records that begin with ee ee 05 00")
}

struct Parser {
    /// The unit of instants in nanoseconds.
    unit_ns: i64,
    /// The device of the last request, and its volume.
    last: Option<(u64, VolumeId)>,
    devices: FxHashMap<u64, VolumeId>,
    /// The number of bytes of the last record that are still to be passed over.
    skip: usize,
}

impl RecordParser for Parser {
    #[inline]
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError> {
        if self.skip > 0 {
            return self.skip_some(records);
        }
        let word = records.peek(WORD_BYTES)?;
        if word.len() < WORD_BYTES {
            return Ok(false);
        }
        let Some(head) = Head::of(Fields::of(word, true).u64(0)) else {
            return Err(fault("places where no record begins", "no record begins with ee ee"));
        };
        if !head.is_request() {
            self.skip = head.words * WORD_BYTES;
            let example = format!("type {}, version {}", head.kind, head.version);
            intake.header.losses.add(OTHER, 1, Some(example));
            return self.skip_some(records);
        }
        let Some(bytes) = records.take(REQUEST_WORDS * WORD_BYTES)? else { return Ok(false) };
        let record = Fields::of(bytes, true);
        // Java has no unsigned numbers: a negative value is invalid.
        let instant = |word: u64| {
            let units = i64::try_from(word).ok()?;
            units.checked_mul(self.unit_ns).map(Nanos)
        };
        let (Some(issue), Some(response)) = (instant(record.u64(8)), instant(record.u64(16)))
        else {
            return Err(fault(IMPOSSIBLE, "a time is negative or beyond 64 bits"));
        };
        let (offset, length) = (record.u64(32), record.u32(40));
        if i64::try_from(offset).is_err() || i32::try_from(length).is_err() {
            return Err(fault(IMPOSSIBLE, "the offset or the length is negative"));
        }
        let op = match record.u8(48) {
            0 => Op::Write,
            1 => Op::Read,
            _ => return Err(fault(IMPOSSIBLE, "the flag says neither read nor write")),
        };
        let device = record.u64(24) & DEVICE_BITS;
        let volume = match self.last {
            Some((last, volume)) if last == device => volume,
            _ => self.volume(device, intake)?,
        };
        let request = Request {
            volume,
            latency: (response > Nanos::ZERO).then_some(response),
            origin: Some(Origin { pid: record.u32(44), cpu: 0 }),
            ..Request::new(issue, op, Bytes(offset), Bytes(u64::from(length)))
        };
        intake.push(&request)?;
        Ok(true)
    }
}

impl Parser {
    /// The volume of a device other than the last.
    fn volume(&mut self, device: u64, intake: &mut Intake) -> Result<VolumeId, Fault> {
        let volume = if let Some(volume) = self.devices.get(&device) {
            *volume
        } else {
            let volume = intake.volume(device.to_string().as_bytes())?;
            self.devices.insert(device, volume);
            volume
        };
        self.last = Some((device, volume));
        Ok(volume)
    }

    /// Passes over a part of a record that may be longer than what can be taken at once.
    fn skip_some(&mut self, records: &mut Records) -> Result<bool, RecordError> {
        let bytes = self.skip.min(SKIP_BYTES);
        let there = records.take(bytes)?.is_some();
        self.skip -= bytes;
        Ok(there)
    }
}

#[cold]
fn fault(loss: &'static str, reason: &'static str) -> RecordError {
    Fault::lost(1, loss, reason).into()
}
