//! Traces of the replayer of Huaicheng Li's group, into which the Microsoft and Cambridge traces
//! are converted for work on tail latency.
//!
//! Lines of `timestamp,disk,offset,size,rw` with commas, or with blanks: milliseconds
//! (`--time-unit` says otherwise), a number, bytes, `1` for a read and `0` for a write.

use super::import::{
    self, AS_MILLISECONDS, Blanks, Commas, Epoch, Facts, Fault, Fields, Intake, LineParser, Look,
    Numbered, Said, looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::{NoteKind, Topic};
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces of that replayer.
pub const FORMAT: Format = Format {
    name: "huaicheng",
    title: "traces of huaicheng's replayer",
    several: Several::ByTime,
    recognise,
    open,
};

#[inline]
fn parse(line: &[u8], unit_ns: i64) -> Result<(u64, Request), Fault> {
    if memchr::memchr(b',', line).is_some() {
        columns(Commas::new(line), unit_ns)
    } else {
        columns(Blanks::new(line), unit_ns)
    }
}

/// The disk and the request of a line.
#[inline]
fn columns<const SEPARATOR: u8>(
    mut fields: Fields<'_, SEPARATOR>,
    unit_ns: i64,
) -> Result<(u64, Request), Fault> {
    let issue = fields.decimal(unit_ns, "the timestamp is no number of milliseconds")?;
    let disk = fields.integer("the disk is no number")?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the size is no number of bytes")?;
    let op = fields.op_code(1, 0)?;
    fields.end()?;
    Ok((disk, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| {
        // With blanks it is what simulators have; only here it counts in bytes.
        let is_whole = |bytes: Bytes| bytes.0.is_multiple_of(SECTOR);
        match parse(line, 1) {
            Ok((_, request))
                if line.contains(&b',')
                    && request.length > Bytes::ZERO
                    && is_whole(request.offset)
                    && is_whole(request.length) =>
            {
                Look::Request
            }
            _ => Look::Strange,
        }
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "huaicheng replayer trace",
        columns: Columns::default(),
        epoch: Epoch::StartOrUnix,
        whole_seconds: false,
    };
    let parser = Parser {
        unit_ns: opening.options.time_unit_ns.unwrap_or(1_000_000),
        is_unit_guessed: opening.options.time_unit_ns.is_none(),
        is_format_guessed: opening.options.format.is_none(),
        disks: Numbered::default(),
    };
    import::lines(opening, parser, facts, "its lines look like '12.5,0,7213056,4096,1'")
}

const AS_HUAICHENG: Topic<'static> = NoteKind::Assumed
    .of("lines of five numbers, taken for those of huaicheng's replayer \
                            (--format or --columns says otherwise)");

struct Parser {
    unit_ns: i64,
    is_unit_guessed: bool,
    /// Whether nobody but the look of the lines said that this is the format.
    is_format_guessed: bool,
    disks: Numbered,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (disk, request) = parse(line, self.unit_ns)?;
        let volume = self.disks.volume(disk, intake)?;
        intake.push(&Request { volume, ..request })?;
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        if self.is_format_guessed {
            intake.header.guesses.add(AS_HUAICHENG, intake.requests(), None);
        }
        if self.is_unit_guessed {
            intake.header.guesses.add(AS_MILLISECONDS, intake.requests(), None);
        }
    }
}
