//! The trace format of the Storage Performance Council (`.spc`): the `UMass` traces Financial1 and
//! 2 and `WebSearch1` to 3, and many since.
//!
//! Lines of `ASU,LBA,Size,Opcode,Timestamp` and any optional columns behind them. The address
//! counts blocks, whose size is not in the file (512 bytes in all published traces; `--block-size`
//! overrides it), yet the size is in bytes and need not be whole blocks; the timestamp is seconds
//! from the start. The specification's own example holds a malformed line.

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Numbered, OnVolume, Told, looks_delimited,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::Request;
use crate::stream::Opened;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces in the SPC's format.
pub const FORMAT: Format = Format {
    name: "spc",
    title: "traces in the format of the Storage Performance Council, such as UMass Financial1",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open,
};

fn open(opening: Opening<'_>) -> Opened {
    let facts = Facts {
        format: "SPC trace",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let parser = match opening.options.block_size {
        Some(block) => Parser { block: block.0, is_guessed: false, ..Parser::default() },
        None => Parser::default(),
    };
    import::lines(opening, parser, facts, "its lines look like '0,20941264,8192,W,0.551706'")
}

const AS_SECTORS: Topic<'static> =
    NoteKind::Unit.of("addresses taken as blocks of 512 bytes (`block-size` says otherwise)");

struct Parser {
    /// The unit of addresses in bytes.
    block: u64,
    is_guessed: bool,
    units: Numbered,
}

impl Default for Parser {
    fn default() -> Self {
        Self { block: SECTOR, is_guessed: true, units: Numbered::default() }
    }
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    const NAMES: &'static [&'static str] = &["ASU", "LBA", "Size", "Opcode"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        let mut fields = Commas::new(line);
        let unit = fields.integer("the application storage unit (ASU) is no number")?;
        let offset = fields.blocks(self.block, "the address is no number of blocks")?;
        let length = fields.integer("the size is no number of bytes")?;
        let op = fields.op()?;
        let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
        Ok((unit, Request::new(Nanos(issue), op, offset, Bytes(length))))
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.units.give(row, intake)
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_guessed, AS_SECTORS);
    }
}
