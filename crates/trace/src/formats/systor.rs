//! The traces of SYSTOR '17 (SNIA IOTTA, trace set 4964): the disks of virtual desktops at Fujitsu.
//!
//! Lines of `Timestamp,Response,IOType,LUN,Offset,Size` below a header that says so: seconds since
//! 1970 with nine decimals of which six are valid, the response time in seconds, `R` or `W` or
//! nothing where no response was seen, a number, bytes. They are ordered by completion.

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, is_header,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Bytes, Nanos};

/// The traces of SYSTOR '17.
pub const FORMAT: Format = Format {
    name: "systor",
    title: "traces of SYSTOR '17 (SNIA 4964)",
    several: Several::ByTime,
    recognise,
    open: |opening: Opening<'_>| -> Result<Box<dyn Source>, TraceError> {
        let facts = Facts {
            format: "SYSTOR '17 CSV",
            columns: Columns { latency: true, ..Columns::default() },
            epoch: Epoch::Unix,
            whole_seconds: false,
        };
        let remedy = "its lines look like \
                      '1456095145.133076000,0.000806000,R,0,899056122368,131072'";
        import::lines(opening, Parser { luns: Numbered::default() }, facts, remedy)
    },
};

const HEADER: &[&str] = &["Timestamp", "Response", "IOType", "LUN"];

const NO_OPERATION: &str =
    "requests whose operation was not recorded, because no response was seen";

/// What a line says.
struct Row {
    lun: u64,
    /// Whether there is an operation; else that of the request means nothing.
    has_operation: bool,
    /// The column of the operation.
    column: usize,
    request: Request,
}

#[inline]
fn parse(line: &[u8]) -> Result<Row, Fault> {
    const RESPONSE: &str = "the response time is no number of seconds";
    let mut fields = Commas::new(line);
    let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
    let latency = fields.decimal_if_any(1_000_000_000, RESPONSE)?;
    let column = fields.column();
    let op = fields.op_if_any()?;
    let lun = fields.integer("the LUN is no number")?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the size is no number of bytes")?;
    fields.end()?;
    let request = Request::new(Nanos(issue), op.unwrap_or(Op::Read), Bytes(offset), Bytes(length));
    let request = Request { latency: latency.map(Nanos), ..request };
    Ok(Row { lun, has_operation: op.is_some(), column, request })
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line) {
        Ok(_) => Look::Request,
        Err(_) if is_header(line, HEADER) => Look::Header,
        Err(_) => Look::Strange,
    })
}

struct Parser {
    luns: Numbered,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let row = match parse(line) {
            Ok(row) => row,
            Err(_) if is_header(line, HEADER) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        if !row.has_operation {
            let reason = "there is no operation here";
            return Err(Fault::lost(row.column, NO_OPERATION, reason));
        }
        let volume = self.luns.volume(row.lun, intake)?;
        intake.push(&Request { volume, ..row.request })?;
        Ok(Said::Request)
    }
}
