//! `CloudPhysics`' traces as text: the twin that libCacheSim ships of `VMware`'s binary records.
//!
//! Lines of `version,time,op,size,lbn` below a header that says so: the version of the binary
//! record, whole seconds since the host's start, the SCSI operation code in hexadecimal without
//! `0x`, bytes, and a 512-byte block. The binary records know microseconds; this text does not.

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Said, is_header, looks_like,
};
use super::scsi::Command;
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos, SECTOR};

/// Traces of `CloudPhysics` as text.
pub const FORMAT: Format = Format {
    name: "cloudphysics-csv",
    title: "text twins of CloudPhysics' traces",
    several: Several::ByTime,
    recognise,
    open: |opening: Opening<'_>| -> Result<Box<dyn Source>, TraceError> {
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

const HEADER: &[&str] = &["version", "time", "op", "size", "lbn"];

/// The version, the command and, but for its operation, the request of a line.
#[inline]
fn parse(line: &[u8]) -> Result<(u64, Command, Request), Fault> {
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

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line) {
        // Five numbers in a line are little to go by: two versions and a few commands are not.
        Ok((1..=2, command, _)) if command.is_request() => Look::Request,
        Ok((1..=2, Command::Other, _)) => Look::Other,
        Err(_) if is_header(line, HEADER) => Look::Header,
        _ => Look::Strange,
    })
}

struct Parser;

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (command, request) = match parse(line) {
            Ok((_, command, request)) => (command, request),
            Err(_) if is_header(line, HEADER) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        let op = command.op(request.length.0, &mut intake.header.guesses)?;
        intake.push(&Request { op, ..request })?;
        Ok(Said::Request)
    }
}
