//! The trace format of the Storage Performance Council (`.spc`): the `UMass` traces Financial1 and
//! 2 and `WebSearch1` to 3, and many since.
//!
//! Lines of `ASU,LBA,Size,Opcode,Timestamp` and any optional columns behind them. The address
//! counts blocks, whose size only the description of a trace says (512 bytes in all the published
//! ones; `--block-size` says otherwise), yet the size is in bytes and need not be whole blocks; the
//! timestamp is seconds from the start. The specification's own example holds a malformed line.

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, is_header,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::NoteKind;
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces in the SPC's format.
pub const FORMAT: Format = Format {
    name: "spc",
    title: "traces in the format of the Storage Performance Council, such as UMass Financial1",
    several: Several::ByTime,
    recognise,
    open,
};

const HEADER: &[&str] = &["ASU", "LBA", "Size", "Opcode"];

/// The unit and the request of a line.
#[inline]
fn parse(line: &[u8], block: u64) -> Result<(u64, Request), Fault> {
    let mut fields = Commas::new(line);
    let unit = fields.integer("the application storage unit (ASU) is no number")?;
    let offset = fields.blocks(block, "the address is no number of blocks")?;
    let length = fields.integer("the size is no number of bytes")?;
    let op = fields.op()?;
    let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
    Ok((unit, Request::new(Nanos(issue), op, offset, Bytes(length))))
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line, SECTOR) {
        Ok(_) => Look::Request,
        Err(_) if is_header(line, HEADER) => Look::Header,
        Err(_) => Look::Strange,
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "SPC trace",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let block = opening.options.block_size;
    let parser = Parser {
        block: block.map_or(SECTOR, |block| block.0),
        is_guessed: block.is_none(),
        units: Numbered::default(),
    };
    import::lines(opening, parser, facts, "its lines look like '0,20941264,8192,W,0.551706'")
}

struct Parser {
    /// What addresses count in, in bytes.
    block: u64,
    is_guessed: bool,
    units: Numbered,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (unit, request) = match parse(line, self.block) {
            Ok(parsed) => parsed,
            Err(_) if is_header(line, HEADER) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        let volume = self.units.volume(unit, intake)?;
        intake.push(&Request { volume, ..request })?;
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        if self.is_guessed {
            let what = NoteKind::Unit
                .of("addresses taken as blocks of 512 bytes (--block-size says otherwise)");
            intake.header.guesses.add(what, intake.requests(), None);
        }
    }
}
