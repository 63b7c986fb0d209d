//! Traces of the replayer of Huaicheng Li's group, into which the Microsoft and Cambridge traces
//! are converted for work on tail latency.
//!
//! Lines of `timestamp,disk,offset,size,rw` with commas, or with blanks: milliseconds
//! (`--time-unit` says otherwise), a number, bytes, `1` for a read and `0` for a write.

use super::import::{
    self, AS_MILLISECONDS, Blanks, Commas, Delimited, Epoch, Facts, Fault, Fields, Intake, Look,
    Numbered, OnVolume, Told, looks_delimited,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::Request;
use crate::stream::Opened;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces of the replayer of Huaicheng Li's group.
pub const FORMAT: Format = Format {
    name: "huaicheng",
    title: "traces of huaicheng's replayer",
    several: Several::ByTime,
    recognise: |first_bytes| {
        looks_delimited(Parser { unit_ns: 1, ..Parser::default() }, first_bytes)
    },
    open,
};

/// The disk and the request of a line.
#[inline]
fn columns<const SEPARATOR: u8>(
    mut fields: Fields<'_, SEPARATOR>,
    unit_ns: i64,
) -> Result<OnVolume, Fault> {
    let issue = fields.decimal(unit_ns, "the timestamp is no number of milliseconds")?;
    let disk = fields.integer("the disk is no number")?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the size is no number of bytes")?;
    let op = fields.op_code(1, 0)?;
    fields.end()?;
    Ok((disk, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
}

fn open(opening: Opening<'_>) -> Opened {
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
         (`format` or `columns` says otherwise)");

#[derive(Default)]
struct Parser {
    unit_ns: i64,
    is_unit_guessed: bool,
    /// Whether the format was guessed from the lines alone.
    is_format_guessed: bool,
    disks: Numbered,
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        if memchr::memchr(b',', line).is_some() {
            columns(Commas::new(line), self.unit_ns)
        } else {
            columns(Blanks::new(line), self.unit_ns)
        }
    }

    fn look(&self, line: &[u8], (_, request): &OnVolume) -> Look {
        // With blanks the line could also be a simulator's; only this format counts in bytes.
        let is_whole = |bytes: Bytes| bytes.0.is_multiple_of(SECTOR);
        let is_like = line.contains(&b',')
            && request.length > Bytes::ZERO
            && is_whole(request.offset)
            && is_whole(request.length);
        if is_like { Look::Request } else { Look::Strange }
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.disks.give(row, intake)
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_format_guessed, AS_HUAICHENG);
        told.guess_all(self.is_unit_guessed, AS_MILLISECONDS);
    }
}
