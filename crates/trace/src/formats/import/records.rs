//! Reading binary records: a parser takes as many bytes as it wants.

use std::io::{self, Read};

use super::source::{Feed, Imported};
use super::{Facts, Fault, Intake, Told};
use crate::compression::{self, Positioned};
use crate::error::TraceError;
use crate::formats::{Opening, Stream};
use crate::stream::Source;
use crate::units::counted;
use crate::wording::Wording;

/// Size of the buffer that records are cut from.
const BUFFER_BYTES: usize = 256 << 10;

/// The largest piece that can be asked for, in bytes.
pub(super) const TAKE_MAX: usize = BUFFER_BYTES / 2;

/// Reads the records of a format.
pub trait RecordParser: Send {
    /// Takes the next record from `records` and gives its request to `intake`; returns `false` at
    /// the end. A fault makes it a lost record, after which reading goes on: a parser that cannot
    /// go on says so in [`Header::damage`](crate::Header::damage) and ends.
    fn record(&mut self, records: &mut Records, intake: &mut Intake) -> Result<bool, RecordError>;

    /// Adds what was lost and guessed so far, counted from the beginning of the file. Called for
    /// every batch, so that a trace that is read in part has it too.
    fn tell(&self, told: &mut Told) {
        let _ = told;
    }

    /// At the end: gives requests that were held back, and adds what is known only then.
    fn end(&mut self, intake: &mut Intake) {
        let _ = intake;
    }
}

/// The reason why a record could not be taken.
#[derive(Debug)]
pub enum RecordError {
    /// The record is not what the format says.
    Fault(Fault),
    /// The stream broke.
    Stream(io::Error),
}

impl From<Fault> for RecordError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Stream(error)
    }
}

/// Cuts a stream of bytes into records.
pub struct Records {
    stream: Stream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The number of bytes given so far.
    given: u64,
    error: Option<io::Error>,
    ended: bool,
}

impl Records {
    fn new(stream: Stream) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { stream, buffer, start: 0, end: 0, given: 0, error: None, ended: false }
    }

    /// The place at which the next record begins, in bytes of the unpacked file.
    pub fn offset(&self) -> u64 {
        self.given
    }

    /// The next `bytes` bytes (at most 128 KiB), or `None` where fewer are left: at the end
    /// of the stream, or before a record cut short (see [`Records::rest`]).
    #[inline]
    pub fn take(&mut self, bytes: usize) -> io::Result<Option<&[u8]>> {
        if self.end - self.start < bytes && !self.read_more(bytes)? {
            return Ok(None);
        }
        let from = self.start;
        self.start += bytes;
        self.given += bytes as u64;
        Ok(Some(&self.buffer[from..from + bytes]))
    }

    /// The next `bytes` bytes without passing over them; fewer at the end.
    pub fn peek(&mut self, bytes: usize) -> io::Result<&[u8]> {
        if self.end - self.start < bytes {
            self.read_more(bytes)?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + bytes)])
    }

    /// The number of bytes behind the last whole record, once [`Records::take`] gave `None`.
    pub fn rest(&self) -> usize {
        self.end - self.start
    }

    /// Fills the buffer; answers whether it holds `bytes` bytes now.
    #[cold]
    fn read_more(&mut self, bytes: usize) -> io::Result<bool> {
        debug_assert!(bytes <= TAKE_MAX);
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while !self.ended && self.end < self.buffer.len() {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
        if self.end >= bytes {
            return Ok(true);
        }
        // Everything before the break has been returned by now.
        self.error.take().map_or(Ok(false), Err)
    }
}

/// Reads the stream of `opening` with `parser`. A file without a request is refused with `remedy`.
pub fn records<P: RecordParser + 'static>(
    opening: Opening<'_>,
    parser: P,
    facts: Facts,
    remedy: impl Into<Wording>,
) -> Result<Box<dyn Source>, TraceError> {
    let feed = Recorded { records: Records::new(opening.stream), parser, taken: 0 };
    Imported::open(feed, opening.path, opening.options, facts, remedy)
}

struct Recorded<P> {
    records: Records,
    parser: P,
    taken: u64,
}

impl<P: RecordParser> Feed for Recorded<P> {
    const UNIT: &'static str = "records";

    fn fill(&mut self, intake: &mut Intake, rows: usize) -> Result<bool, TraceError> {
        while intake.batch.len() < rows {
            let offset = self.records.offset();
            match self.parser.record(&mut self.records, intake) {
                Ok(true) => self.taken += 1,
                Ok(false) => {
                    self.parser.end(intake);
                    let rest = self.records.rest();
                    if rest > 0 && intake.header.damage.is_none() {
                        let rest = counted(rest as u64, "byte");
                        let damage = format!("the last record is cut short after {rest}");
                        intake.break_off(damage, self.records.offset())?;
                    }
                    return Ok(false);
                }
                Err(RecordError::Fault(fault)) => {
                    self.taken += 1;
                    intake.lose_record(offset, &fault)?;
                    // A parser that takes nothing would loop for ever.
                    if self.records.offset() == offset {
                        self.parser.end(intake);
                        intake.break_off(fault.reason.to_owned(), offset)?;
                        return Ok(false);
                    }
                }
                Err(RecordError::Stream(error)) => {
                    self.parser.end(intake);
                    let Some(damage) = compression::damage(&error) else {
                        return Err(TraceError::read(&intake.path, error));
                    };
                    intake.break_off(damage, self.records.stream.position())?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn tell(&self, told: &mut Told) {
        self.parser.tell(told);
    }

    fn units(&self) -> u64 {
        self.taken
    }
}
