//! Fujitsu's K5 cloud (SNIA IOTTA, trace set 26930): a file for each volume and day.
//!
//! Lines of `ID,Timestamp,Type,Offset,Length`: the volume, seconds from the first request of all
//! files together, `R` or `W`, bytes. (A reader that takes the length as KiB is about; the authors'
//! description says bytes.) A file begins where its first request was, perhaps days after that
//! first one; instants are kept, so that files lie side by side as the volumes did, and how late a
//! file begins is told.

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, is_header,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::Request;
use crate::stream::Source;
use crate::transform::decimal_seconds;
use crate::units::{Bytes, Nanos};

/// Traces of the K5 cloud.
pub const FORMAT: Format = Format {
    name: "k5cloud",
    title: "traces of Fujitsu's K5 cloud (SNIA 26930)",
    several: Several::ByTime,
    recognise,
    open: |opening: Opening<'_>| -> Result<Box<dyn Source>, TraceError> {
        let facts = Facts {
            format: "K5cloud trace",
            columns: Columns::default(),
            epoch: Epoch::Start,
            whole_seconds: false,
        };
        let remedy = "its lines look like '1,10.253891,W,7213056,4096'";
        let parser = Parser { volumes: Numbered::default(), earliest: None };
        import::lines(opening, parser, facts, remedy)
    },
};

const HEADER: &[&str] = &["ID", "Timestamp", "Type", "Offset"];

/// The volume and the request of a line.
#[inline]
fn parse(line: &[u8]) -> Result<(u64, Request), Fault> {
    let mut fields = Commas::new(line);
    let volume = fields.integer("the volume is no number")?;
    let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
    let op = fields.op()?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the length is no number of bytes")?;
    fields.end()?;
    Ok((volume, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line) {
        Ok(_) => Look::Request,
        Err(_) if is_header(line, HEADER) => Look::Header,
        Err(_) => Look::Strange,
    })
}

struct Parser {
    volumes: Numbered,
    /// The earliest instant so far.
    earliest: Option<Nanos>,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (volume, request) = match parse(line) {
            Ok(parsed) => parsed,
            Err(_) if is_header(line, HEADER) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        let volume = self.volumes.volume(volume, intake)?;
        intake.push(&Request { volume, ..request })?;
        if self.earliest.is_none_or(|earliest| request.issue < earliest) {
            self.earliest = Some(request.issue);
        }
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        if let Some(earliest) = self.earliest {
            let after = decimal_seconds(earliest);
            intake.header.description =
                Some(format!("begins {after} s after the first request of all K5cloud files"));
        }
    }
}
