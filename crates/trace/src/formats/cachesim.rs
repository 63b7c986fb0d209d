//! The binary traces of libCacheSim, into which dozens of public traces were converted.
//!
//! A cache simulator knows objects, not devices: a number, a size and a second. In traces made of
//! block traces (`CloudPhysics`, MSR, Alibaba) the number is that of a block, in others a hash of a
//! name; the operation is missing in most. So addresses are guessed with an assumed size of a
//! block, requests without an operation are taken for reads, and the header notes both.
//!
//! Formats, little-endian and packed: `oracleGeneral` is `u32` second, `u64` object, `u32` bytes,
//! `i64` index of the next request for the same object (−1 or the largest number for none), 24
//! bytes; `oracleGeneralOpNS` has `u8` operation and `u16` name space before the index, 27 bytes;
//! `IQI` (16) and `IQIBH` (19) are the same without the index; `LCS` has a header of 8192 (early:
//! of 1024) bytes with a magic word at either end and its version, on which the record depends, and
//! in the early ones the unit of time and the size of a block. Source: libCacheSim,
//! `traceReader/customizedReader` (`oracle/oracleGeneralBin.h`,
//! `standardBin.h`, `lcs.h`) and `include/libCacheSim/enum.h` for operations.

mod layout;
mod lcs;
mod shape;
#[cfg(test)]
mod tests;

use self::layout::Layout;
use super::import::{
    Epoch, Facts, Fault, Intake, RecordError, RecordParser, Records, Told, records,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// `oracleGeneral`, as it is read.
pub const ORACLE_GENERAL: Format = Format {
    name: "oracle-general",
    title: "libCacheSim's oracleGeneral",
    several: Several::Apart,
    recognise: |first_bytes| shape::fits(first_bytes, &layout::ORACLE_GENERAL),
    open: |opening| open(opening, layout::ORACLE_GENERAL, "oracleGeneral"),
};

/// `oracleGeneralOpNS`, as it is read.
pub const ORACLE_GENERAL_OPNS: Format = Format {
    name: "oracle-general-opns",
    title: "libCacheSim's oracleGeneralOpNS",
    several: Several::Apart,
    recognise: |first_bytes| shape::fits(first_bytes, &layout::ORACLE_GENERAL_OPNS),
    open: |opening| open(opening, layout::ORACLE_GENERAL_OPNS, "oracleGeneralOpNS"),
};

/// `IQI`, as it is read.
pub const IQI: Format = Format {
    name: "iqi",
    title: "libCacheSim's IQI",
    several: Several::Apart,
    recognise: |first_bytes| shape::fits(first_bytes, &layout::IQI),
    open: |opening| open(opening, layout::IQI, "IQI"),
};

/// `IQIBH`, as it is read.
pub const IQIBH: Format = Format {
    name: "iqibh",
    title: "libCacheSim's IQIBH",
    several: Several::Apart,
    recognise: |first_bytes| shape::fits(first_bytes, &layout::IQIBH),
    open: |opening| open(opening, layout::IQIBH, "IQIBH"),
};

/// `LCS`, as it is read.
pub const LCS: Format = Format {
    name: "lcs",
    title: "libCacheSim's LCS",
    several: Several::Apart,
    recognise: lcs::recognise,
    open: lcs::open,
};

const REMEDY: &str = "its records are to be little-endian and packed, as libCacheSim writes them";

const BY_SHAPE: Topic<'static> = NoteKind::Assumed
    .of("records taken for libCacheSim's, because they could be (`format` says otherwise)");
const AS_SECONDS: Topic<'static> = NoteKind::Unit
    .of("instants taken as seconds, because the header does not say their unit \
         (`time-unit` says otherwise)");
const OTHER_DURATION: Topic<'static> = NoteKind::Assumed
    .of("requests of a trace that lasts a thousand times longer or shorter \
         than its header says: instants may count another unit (`time-unit`)");

/// The factor by which the two durations may differ without a note.
const DURATION_FACTOR: u128 = 1000;

const GUESSED_READ: Topic<'static> =
    NoteKind::Assumed.of("requests without an operation, taken for reads");
const NO_RANGE: Topic<'static> = NoteKind::Beside.of("operations that are no I/O");
const TOO_FAR: &str = "objects whose number is no address (it reaches beyond 64 bits)";
const NO_SIZE: &str = "objects of a negative size";
const TOO_LATE: &str = "requests at instants beyond 64 bits";

/// Nanoseconds of the usual unit of time.
const SECOND_NS: i64 = 1_000_000_000;

fn open(
    opening: Opening<'_>,
    layout: Layout,
    name: &'static str,
) -> Result<Box<dyn Source>, TraceError> {
    let guess = opening.options.format.is_none().then_some(BY_SHAPE);
    open_behind(opening, name, &Head { layout, guess, ..Head::default() })
}

/// Facts about the records that the header gives.
#[derive(Clone, Copy, Debug)]
struct Head {
    layout: Layout,
    /// The number of bytes before the first record.
    bytes: usize,
    /// Nanoseconds of the unit of time.
    unit_ns: i64,
    /// The size of a block in bytes, if the header says it.
    block: Option<u64>,
    /// The guess of a value that neither the file nor the user gave.
    guess: Option<Topic<'static>>,
    /// The trace's duration in seconds, according to the header.
    seconds: Option<u64>,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            layout: layout::ORACLE_GENERAL,
            bytes: 0,
            unit_ns: SECOND_NS,
            block: None,
            guess: None,
            seconds: None,
        }
    }
}

/// Reads records behind `head`.
fn open_behind(
    opening: Opening<'_>,
    name: &'static str,
    head: &Head,
) -> Result<Box<dyn Source>, TraceError> {
    let is_unit_given = opening.options.time_unit_ns.is_some();
    let unit_ns = opening.options.time_unit_ns.unwrap_or(head.unit_ns);
    let facts = Facts {
        format: name,
        columns: Columns::default(),
        epoch: Epoch::Unknown,
        whole_seconds: unit_ns == SECOND_NS,
    };
    let block = opening.options.block_size.map(|block| block.0).or(head.block);
    let parser = Parser {
        layout: head.layout,
        header: head.bytes,
        unit_ns,
        block: block.unwrap_or(SECTOR),
        is_block_guessed: block.is_none(),
        last: None,
        guessed_reads: 0,
        guess: head.guess.filter(|guess| guess.kind != NoteKind::Unit || !is_unit_given),
        seconds: head.seconds,
        times: None,
    };
    records(opening, parser, facts, REMEDY)
}

struct Parser {
    layout: Layout,
    /// Bytes of the header that are still to be passed over.
    header: usize,
    unit_ns: i64,
    /// The size of a block in bytes.
    block: u64,
    is_block_guessed: bool,
    /// The name space of the last request, and its volume.
    last: Option<(u32, VolumeId)>,
    guessed_reads: u64,
    guess: Option<Topic<'static>>,
    seconds: Option<u64>,
    /// The least and the largest time of a record.
    times: Option<(u32, u32)>,
}

impl RecordParser for Parser {
    #[inline]
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError> {
        if self.header > 0 && records.take(std::mem::take(&mut self.header))?.is_none() {
            return Ok(false);
        }
        let Some(bytes) = records.take(self.layout.bytes)? else { return Ok(false) };
        let record = self.layout.record(bytes);
        let op = match record.op {
            None => {
                self.guessed_reads += 1;
                Op::Read
            }
            Some(code) => self.op(code)?,
        };
        let volume = match (record.space, self.last) {
            (None, _) => VolumeId(0),
            (Some(space), Some((last, volume))) if space == last => volume,
            (Some(space), _) => {
                let volume = intake.volume(space.to_string().as_bytes())?;
                self.last = Some((space, volume));
                volume
            }
        };
        let Some(offset) = record.object.checked_mul(self.block) else {
            return Err(fault(TOO_FAR, "the object's number is no address"));
        };
        let Some(length) = record.length else {
            return Err(fault(NO_SIZE, "the object's size is negative"));
        };
        let Some(issue) = i64::from(record.time).checked_mul(self.unit_ns).map(Nanos) else {
            return Err(fault(TOO_LATE, "the time does not fit 64 bits"));
        };
        let request = Request { volume, ..Request::new(issue, op, Bytes(offset), Bytes(length)) };
        intake.push(&request)?;
        let (least, most) = self.times.unwrap_or((record.time, record.time));
        self.times = Some((least.min(record.time), most.max(record.time)));
        Ok(true)
    }

    fn tell(&self, told: &mut Told) {
        if let Some(guess) = self.guess {
            told.guess_all(true, guess);
        }
        let what = NoteKind::Unit
            .of("objects taken for blocks of 512 bytes (`block-size` says otherwise)");
        told.guess_all(self.is_block_guessed, what);
        told.guesses.add(GUESSED_READ, self.guessed_reads, None);
    }

    fn end(&mut self, intake: &mut Intake) {
        let requests = intake.requests();
        if let (Some(said), Some((least, most))) = (self.seconds, self.times) {
            let said = u128::from(said) * u128::from(SECOND_NS.unsigned_abs());
            let found = u128::from(most - least) * u128::from(self.unit_ns.unsigned_abs());
            if said > found * DURATION_FACTOR || found > said * DURATION_FACTOR {
                intake.header.guesses.add(OTHER_DURATION, requests, None);
            }
        }
    }
}

impl Parser {
    /// The operation of a code (`req_op_e`).
    #[inline]
    fn op(&mut self, code: u8) -> Result<Op, Fault> {
        match code {
            // get, gets, read.
            1 | 2 | 12 => Ok(Op::Read),
            // set, add, compare and swap, replace, append, prepend, increment, decrement, write,
            // update.
            3..=8 | 10 | 11 | 13 | 14 => Ok(Op::Write),
            9 => Ok(Op::Discard),
            // The maker of the trace did not know the operation.
            0 | 255 => {
                self.guessed_reads += 1;
                Ok(Op::Read)
            }
            _ => {
                let reason = "the operation is none of libCacheSim's";
                Err(Fault { column: 1, loss: NO_RANGE, reason })
            }
        }
    }
}

#[cold]
fn fault(loss: &'static str, reason: &'static str) -> RecordError {
    Fault::lost(1, loss, reason).into()
}
