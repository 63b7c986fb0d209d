//! Tencent's cloud block storage, 2018 (SNIA IOTTA, trace set 27917): 5,584 volumes for nine days.
//!
//! Lines of `Timestamp,Offset,Size,IOType,VolumeID`: seconds since 1970, whole ones; sectors; `0`
//! for a read and `1` for a write, as opposed to most other formats with numbers. The files are
//! ordered by completion within a second or so.

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, is_header,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Nanos, SECTOR};

/// Tencent's traces.
pub const FORMAT: Format = Format {
    name: "tencent",
    title: "Tencent's cloud block storage traces (SNIA 27917)",
    several: Several::ByTime,
    recognise,
    open: |opening: Opening<'_>| -> Result<Box<dyn Source>, TraceError> {
        let facts = Facts {
            format: "Tencent CBS trace",
            columns: Columns::default(),
            epoch: Epoch::Unix,
            whole_seconds: true,
        };
        let remedy = "its lines look like '1538323200,4247200,128,1,1058'";
        import::lines(opening, Parser { volumes: Numbered::default() }, facts, remedy)
    },
};

const HEADER: &[&str] = &["Timestamp", "Offset", "Size", "IOType"];

/// The volume and the request of a line.
#[inline]
fn parse(line: &[u8]) -> Result<(u64, Request), Fault> {
    let mut fields = Commas::new(line);
    let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
    let offset = fields.blocks(SECTOR, "the offset is no number of sectors")?;
    let length = fields.blocks(SECTOR, "the size is no number of sectors")?;
    let op = fields.op_code(0, 1)?;
    let volume = fields.integer("the volume is no number")?;
    fields.end()?;
    Ok((volume, Request::new(Nanos(issue), op, offset, length)))
}

/// Instants from 2000 to 2100: five numbers in a line are little to go by.
const PLAUSIBLE_NS: std::ops::Range<i64> = 946_684_800_000_000_000..4_102_444_800_000_000_000;

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line) {
        Ok((_, request)) if PLAUSIBLE_NS.contains(&request.issue.0) => Look::Request,
        Err(_) if is_header(line, HEADER) => Look::Header,
        _ => Look::Strange,
    })
}

struct Parser {
    volumes: Numbered,
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
        Ok(Said::Request)
    }
}
