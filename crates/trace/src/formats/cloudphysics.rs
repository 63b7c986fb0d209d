//! `CloudPhysics`' traces as text: the twin that libCacheSim ships of `VMware`'s binary records.
//!
//! Lines of `version,time,op,size,lbn` below a header that says so: the version of the binary
//! record, whole seconds since the host's start, the SCSI operation code in hexadecimal without
//! `0x`, bytes, and a 512-byte block. The binary records know microseconds; this text does not.

use super::import::{self, Commas, Delimited, Epoch, Facts, Fault, Intake, Look, looks_delimited};
use super::scsi::Command;
use super::{Format, Several};
use crate::batch::Columns;
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces of `CloudPhysics` as text.
pub const FORMAT: Format = Format {
    name: "cloudphysics-csv",
    title: "text twins of CloudPhysics' traces",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser, first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "CloudPhysics CSV",
            columns: Columns::default(),
            epoch: Epoch::Unknown,
            whole_seconds: true,
        };
        let remedy = "its lines look like '1,5633898,2a,512,42932745'";
        import::lines(opening, Parser, facts, remedy)
    },
};

struct Parser;

impl Delimited for Parser {
    /// The version, the command and, but for its operation, the request.
    type Row<'a> = (u64, Command, Request);

    const NAMES: &'static [&'static str] = &["version", "time", "op", "size", "lbn"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<(u64, Command, Request), Fault> {
        let mut fields = Commas::new(line);
        let version = fields.integer("the version is no number")?;
        let issue = fields.decimal(1_000_000_000, "the time is no number of seconds")?;
        let code = fields.hexadecimal("the operation is no hexadecimal number")?;
        let length = fields.integer("the size is no number of bytes")?;
        let offset = fields.blocks(SECTOR, "the address is no number of blocks")?;
        fields.end()?;
        let request = Request::new(Nanos(issue), Op::Read, offset, Bytes(length));
        Ok((version, Command::of(code), request))
    }

    fn look(&self, _line: &[u8], row: &(u64, Command, Request)) -> Look {
        match row {
            // Five numbers are a weak sign, but only two versions and a few commands are valid.
            (1..=2, command, _) if command.is_request() => Look::Request,
            (1..=2, Command::Other, _) => Look::Other,
            _ => Look::Strange,
        }
    }

    #[inline]
    fn give(
        &mut self,
        (_, command, request): (u64, Command, Request),
        intake: &mut Intake,
    ) -> Result<(), Fault> {
        let op = command.op(request.length.0, &mut intake.header.guesses)?;
        intake.push(&Request { op, ..request })
    }
}
