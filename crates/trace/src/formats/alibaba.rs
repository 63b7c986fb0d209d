//! Alibaba's block traces of 2020: a thousand volumes of a cloud for a month.
//!
//! Lines of `device_id,opcode,offset,length,timestamp`: a number, `R` or `W`, bytes, and
//! microseconds since 1970 at which the server received the request (`--time-unit` says otherwise
//! for copies that count something else).

use super::import::{
    self, Commas, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, is_header,
    looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::Request;
use crate::stream::Source;
use crate::units::{Bytes, Nanos};

mod writer;

pub use self::writer::WRITABLE;

/// Alibaba's traces, as they are read.
pub const FORMAT: Format = Format {
    name: "alibaba",
    title: "Alibaba's block traces of 2020",
    several: Several::ByTime,
    recognise,
    open: |opening: Opening<'_>| -> Result<Box<dyn Source>, TraceError> {
        let facts = Facts {
            format: "Alibaba block trace",
            columns: Columns::default(),
            epoch: Epoch::Unix,
            whole_seconds: false,
        };
        let remedy = "its lines look like '1,W,19496058880,77824,1577808000000426'";
        let unit_ns = opening.options.time_unit_ns.unwrap_or(MICROSECOND_NS);
        import::lines(opening, Parser { unit_ns, devices: Numbered::default() }, facts, remedy)
    },
};

const MICROSECOND_NS: i64 = 1_000;

const HEADER: &[&str] = &["device_id", "opcode", "offset", "length"];

/// The device and the request of a line.
#[inline]
fn parse(line: &[u8], unit_ns: i64) -> Result<(u64, Request), Fault> {
    let mut fields = Commas::new(line);
    let device = fields.integer("the device is no number")?;
    let op = fields.op()?;
    let offset = fields.integer("the offset is no number of bytes")?;
    let length = fields.integer("the length is no number of bytes")?;
    let issue = fields.decimal(unit_ns, "the timestamp is no number of microseconds")?;
    fields.end()?;
    Ok((device, Request::new(Nanos(issue), op, Bytes(offset), Bytes(length))))
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| match parse(line, MICROSECOND_NS) {
        Ok(_) => Look::Request,
        Err(_) if is_header(line, HEADER) => Look::Header,
        Err(_) => Look::Strange,
    })
}

struct Parser {
    /// How long the unit of instants is, in nanoseconds.
    unit_ns: i64,
    devices: Numbered,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (device, request) = match parse(line, self.unit_ns) {
            Ok(parsed) => parsed,
            Err(_) if is_header(line, HEADER) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        let volume = self.devices.volume(device, intake)?;
        intake.push(&Request { volume, ..request })?;
        Ok(Said::Request)
    }
}
