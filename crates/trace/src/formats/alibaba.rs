//! Alibaba's block traces of 2020: a thousand volumes of a cloud for a month.
//!
//! Lines of `device_id,opcode,offset,length,timestamp`: a number, `R` or `W`, bytes, and
//! microseconds since 1970 at which the server received the request (`--time-unit` says otherwise
//! for copies that count something else).

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Numbered, OnVolume, looks_delimited,
};
use super::{Format, Several};
use crate::batch::Columns;
use crate::request::Request;
use crate::units::{Bytes, Nanos};

mod writer;

pub use self::writer::WRITABLE;

/// Alibaba's traces, as they are read.
pub const FORMAT: Format = Format {
    name: "alibaba",
    title: "Alibaba's block traces of 2020",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "Alibaba block trace",
            columns: Columns::default(),
            epoch: Epoch::Unix,
            whole_seconds: false,
        };
        let remedy = "its lines look like '1,W,19496058880,77824,1577808000000426'";
        let unit_ns = opening.options.time_unit_ns.unwrap_or(MICROSECOND_NS);
        import::lines(opening, Parser { unit_ns, ..Parser::default() }, facts, remedy)
    },
};

const MICROSECOND_NS: i64 = 1_000;

struct Parser {
    /// The unit of instants in nanoseconds.
    unit_ns: i64,
    devices: Numbered,
}

impl Default for Parser {
    fn default() -> Self {
        Self { unit_ns: MICROSECOND_NS, devices: Numbered::default() }
    }
}

impl Delimited for Parser {
    type Row<'a> = OnVolume;

    const NAMES: &'static [&'static str] = &["device_id", "opcode", "offset", "length"];

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<OnVolume, Fault> {
        let mut fields = Commas::new(line);
        let device = fields.integer("the device is no number")?;
        let op = fields.op()?;
        let offset = fields.integer("the offset is no number of bytes")?;
        let length = fields.integer("the length is no number of bytes")?;
        let issue = fields.decimal(self.unit_ns, "the timestamp is no number of microseconds")?;
        fields.end()?;
        Ok((device, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
    }

    #[inline]
    fn give(&mut self, row: OnVolume, intake: &mut Intake) -> Result<(), Fault> {
        self.devices.give(row, intake)
    }
}
