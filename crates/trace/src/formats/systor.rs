//! The traces of SYSTOR '17 (SNIA IOTTA, trace set 4964): the disks of virtual desktops at Fujitsu.
//!
//! Lines of `Timestamp,Response,IOType,LUN,Offset,Size` below a header that says so: seconds since
//! 1970 with nine decimals of which six are valid, the response time in seconds, `R` or `W` or
//! nothing where no response was seen, a number, bytes. They are ordered by completion.

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Numbered, looks_delimited,
};
use super::{Format, Several};
use crate::batch::Columns;
use crate::request::{Op, Request};
use crate::units::{Bytes, Nanos};

/// The traces of SYSTOR '17.
pub const FORMAT: Format = Format {
    name: "systor",
    title: "traces of SYSTOR '17 (SNIA 4964)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "SYSTOR '17 CSV",
            columns: Columns { latency: true, ..Columns::default() },
            epoch: Epoch::Unix,
            whole_seconds: false,
        };
        let remedy = "its lines look like \
                      '1456095145.133076000,0.000806000,R,0,899056122368,131072'";
        import::lines(opening, Parser::default(), facts, remedy)
    },
};

const NO_OPERATION: &str =
    "requests whose operation was not recorded, because no response was seen";

/// The values of a line.
struct Row {
    lun: u64,
    /// Whether the line has an operation; otherwise the operation of the request means nothing.
    has_operation: bool,
    /// The column of the operation.
    column: usize,
    request: Request,
}

#[derive(Default)]
struct Parser {
    luns: Numbered,
}

impl Delimited for Parser {
    type Row<'a> = Row;

    const NAMES: &'static [&'static str] = &["Timestamp", "Response", "IOType", "LUN"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Row, Fault> {
        const RESPONSE: &str = "the response time is no number of seconds";
        let mut fields = Commas::new(line);
        let issue = fields.decimal(1_000_000_000, "the timestamp is no number of seconds")?;
        let latency = fields.decimal_if_any(1_000_000_000, RESPONSE)?.map(Nanos);
        let column = fields.column();
        let op = fields.op_if_any()?;
        let lun = fields.integer("the LUN is no number")?;
        let offset = fields.integer("the offset is no number of bytes")?;
        let length = fields.integer("the size is no number of bytes")?;
        fields.end()?;
        let op_or_read = op.unwrap_or(Op::Read);
        let request = Request::new(Nanos(issue), op_or_read, Bytes(offset), Bytes(length));
        let request = Request { latency, ..request };
        Ok(Row { lun, has_operation: op.is_some(), column, request })
    }

    #[inline]
    fn give(&mut self, row: Row, intake: &mut Intake) -> Result<(), Fault> {
        if !row.has_operation {
            let reason = "there is no operation here";
            return Err(Fault::lost(row.column, NO_OPERATION, reason));
        }
        self.luns.give((row.lun, row.request), intake)
    }
}
