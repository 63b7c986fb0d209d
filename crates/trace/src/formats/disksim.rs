//! The ASCII traces of `DiskSim`, and of `MQSim`, trace-replay and other simulators after it.
//!
//! Lines of `arrival device block count flags` with blanks between: blocks and counts are sectors,
//! flags are hexadecimal and their lowest bit says read. What unit the arrival is in the file does
//! not say: milliseconds with decimals in `DiskSim`, whole numbers of a unit that a configuration
//! names in `MQSim` (nanoseconds in the traces that come with it). So decimals are taken as
//! milliseconds and whole numbers as nanoseconds, which is told; `--time-unit` says otherwise.

use super::import::{
    self, Blanks, Epoch, Facts, Fault, Intake, LineParser, Look, Numbered, Said, looks_like,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::units::{Nanos, SECTOR};

/// Traces of simulators.
pub const FORMAT: Format = Format {
    name: "disksim",
    title: "ASCII traces of DiskSim and MQSim",
    several: Several::ByTime,
    recognise,
    open,
};

/// The device and the request of a line, in instants of `unit_ns`.
#[inline]
fn parse(line: &[u8], unit_ns: i64, block: u64) -> Result<(u64, Request), Fault> {
    let mut fields = Blanks::new(line);
    let issue = fields.decimal(unit_ns, "the arrival is no number")?;
    let device = fields.integer("the device is no number")?;
    let offset = fields.blocks(block, "the address is no number of blocks")?;
    let length = fields.blocks(block, "the length is no number of blocks")?;
    let flags = fields.hexadecimal("the flags are no hexadecimal number")?;
    fields.end()?;
    let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
    Ok((device, Request::new(Nanos(issue), op, offset, length)))
}

fn recognise(first_bytes: &[u8]) -> bool {
    looks_like(first_bytes, |line| {
        // Five numbers are little to go by: a simulator's flags are short.
        let flags = line.rsplit(u8::is_ascii_whitespace).next();
        let is_short = flags.is_some_and(|flags| flags.len() <= 4);
        if is_short && parse(line, 1, SECTOR).is_ok() { Look::Request } else { Look::Strange }
    })
}

/// Whether one of the first requests arrives between two units.
fn has_decimals(first_bytes: &[u8]) -> bool {
    first_bytes.split(|byte| *byte == b'\n').any(|line| {
        let first = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
        first.is_some_and(|word| word.contains(&b'.')) && parse(line.trim_ascii(), 1, 1).is_ok()
    })
}

const AS_MILLISECONDS: &str =
    "instants taken as milliseconds, because they have decimals (--time-unit says otherwise)";
const AS_NANOSECONDS: &str =
    "instants taken as nanoseconds, because they are whole (--time-unit says otherwise)";

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let (unit_ns, guess) = match opening.options.time_unit_ns {
        Some(unit_ns) => (unit_ns, None),
        None if has_decimals(opening.stream.first_bytes()) => (1_000_000, Some(AS_MILLISECONDS)),
        None => (1, Some(AS_NANOSECONDS)),
    };
    let block = opening.options.block_size.map_or(SECTOR, |block| block.0);
    let facts = Facts {
        format: "DiskSim ASCII trace",
        columns: Columns::default(),
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let parser = Parser { unit_ns, guess, block, devices: Numbered::default() };
    import::lines(opening, parser, facts, "its lines look like '938513000 4 264719034 16 0'")
}

struct Parser {
    unit_ns: i64,
    guess: Option<&'static str>,
    /// What addresses and lengths count in, in bytes.
    block: u64,
    devices: Numbered,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let (device, request) = parse(line, self.unit_ns, self.block)?;
        let volume = self.devices.volume(device, intake)?;
        intake.push(&Request { volume, ..request })?;
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        if let Some(guess) = self.guess {
            intake.header.guesses.add(guess, intake.requests(), None);
        }
    }
}
