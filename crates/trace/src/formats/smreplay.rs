//! Traces of `SMReplay` and the replayers of students after it.
//!
//! Lines of `time lba size type` with blanks between: milliseconds (`--time-unit` says otherwise),
//! sectors, `0` for a read and `1` for a write. Four numbers in a line are a weak sign, so the
//! format is noted as a guess, unless `--format` named it.

use super::import::{
    self, AS_MILLISECONDS, Blanks, Delimited, Epoch, Facts, Fault, Intake, Look, Told,
    looks_delimited,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::Request;
use crate::stream::Opened;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces of `SMReplay`.
pub const FORMAT: Format = Format {
    name: "smreplay",
    title: "traces of SMReplay",
    several: Several::ByTime,
    recognise: |first_bytes| {
        looks_delimited(Parser { unit_ns: 1, ..Parser::default() }, first_bytes)
    },
    open,
};

fn open(opening: Opening<'_>) -> Opened {
    let facts = Facts {
        format: "SMReplay trace",
        columns: Columns::default(),
        epoch: Epoch::StartOrUnix,
        whole_seconds: false,
    };
    let parser = Parser {
        unit_ns: opening.options.time_unit_ns.unwrap_or(1_000_000),
        is_unit_guessed: opening.options.time_unit_ns.is_none(),
        is_format_guessed: opening.options.format.is_none(),
    };
    import::lines(opening, parser, facts, "its lines look like '12.5 264719034 16 0'")
}

const AS_SMREPLAY: Topic<'static> = NoteKind::Assumed.of(
    "lines of four numbers, taken for those of SMReplay (`format` or `columns` says otherwise)",
);

#[derive(Default)]
struct Parser {
    unit_ns: i64,
    is_unit_guessed: bool,
    /// Whether the format was guessed from the lines alone.
    is_format_guessed: bool,
}

impl Delimited for Parser {
    type Row<'a> = Request;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Request, Fault> {
        let mut fields = Blanks::new(line);
        let issue = fields.decimal(self.unit_ns, "the time is no number of milliseconds")?;
        let offset = fields.blocks(SECTOR, "the address is no number of sectors")?;
        let length = fields.blocks(SECTOR, "the size is no number of sectors")?;
        let op = fields.op_code(0, 1)?;
        fields.end()?;
        Ok(Request::new(Nanos(issue), op, offset, length))
    }

    fn look(&self, _line: &[u8], request: &Request) -> Look {
        // Lists of cache accesses have four numbers too, and a zero where a size would be.
        if request.length > Bytes::ZERO { Look::Request } else { Look::Strange }
    }

    #[inline]
    fn give(&mut self, request: Request, intake: &mut Intake) -> Result<(), Fault> {
        intake.push(&request)
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_format_guessed, AS_SMREPLAY);
        told.guess_all(self.is_unit_guessed, AS_MILLISECONDS);
    }
}
