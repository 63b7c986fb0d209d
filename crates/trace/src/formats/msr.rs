//! The traces of Microsoft Research Cambridge (SNIA IOTTA, trace set 388) and their imitations.
//!
//! The most quoted block traces there are: 36 volumes of 13 servers, a week of February 2007.
//! Lines of `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: an instant in ticks of
//! 100 ns since 1601-01-01 UTC (Windows `FILETIME`), bytes, and the response time in the same
//! ticks. Disk numbers repeat on every host, so a volume is a host and its disk. There are also
//! copies whose ticks count from their own start, recognised by small numbers; that these are ticks
//! is then noted as a guess (`--time-unit` overrides it).
//!
//! A response time of zero is read as one that is not known, and written so: no disk answers in
//! less than 100 ns.

use super::import::{
    self, Commas, Delimited, Epoch, Facts, Fault, Intake, Told, are_whole_seconds, looks_delimited,
};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::stream::Opened;
use crate::units::{Bytes, Nanos, VolumeId};

mod writer;

pub use self::writer::WRITABLE;

/// Traces of Microsoft Research Cambridge, as they are read.
pub const FORMAT: Format = Format {
    name: "msr",
    title: "traces of Microsoft Research Cambridge (SNIA 388)",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open,
};

/// A tick in nanoseconds.
const TICK_NS: i64 = 100;

/// 1970-01-01 UTC in ticks since 1601-01-01 UTC.
const UNIX_EPOCH_TICKS: i64 = 116_444_736_000_000_000;

/// The values of a line.
#[derive(Debug)]
struct Row<'a> {
    ticks: u64,
    host: &'a [u8],
    disk: u64,
    op: Op,
    offset: u64,
    length: u64,
    response_ticks: u64,
}

#[inline]
fn parse(line: &[u8]) -> Result<Row<'_>, Fault> {
    let mut fields = Commas::new(line);
    let row = Row {
        ticks: fields.integer("the timestamp is no number of ticks of 100 ns")?,
        host: fields.text()?,
        disk: fields.integer("the disk is no number")?,
        op: fields.op()?,
        offset: fields.integer("the offset is no number of bytes")?,
        length: fields.integer("the size is no number of bytes")?,
        response_ticks: fields.integer("the response time is no number of ticks of 100 ns")?,
    };
    fields.end()?;
    Ok(row)
}

fn open(opening: Opening<'_>) -> Opened {
    let lines = opening.stream.first_bytes().split(|byte| *byte == b'\n');
    let mut ticks = lines.filter_map(|line| Some(parse(line.trim_ascii()).ok()?.ticks)).peekable();
    let is_since_1601 = ticks.peek().is_none_or(|ticks| *ticks >= UNIX_EPOCH_TICKS as u64);
    let said = opening.options.time_unit_ns;
    let unit_ns = said.unwrap_or(TICK_NS);
    // Copies of these traces were rounded to the second.
    let whole_seconds =
        are_whole_seconds(ticks.map(|ticks| i128::from(ticks) * i128::from(unit_ns)));
    let (epoch, zero_ticks) = match said {
        Some(_) => (Epoch::StartOrUnix, 0),
        None if is_since_1601 => (Epoch::Unix, UNIX_EPOCH_TICKS),
        None => (Epoch::Unknown, 0),
    };
    let facts = Facts {
        format: "MSR Cambridge CSV",
        columns: Columns { latency: true, ..Columns::default() },
        epoch,
        whole_seconds,
    };
    let parser = Parser {
        unit_ns,
        is_unit_guessed: said.is_none() && !is_since_1601,
        zero_ticks,
        ..Parser::default()
    };
    let remedy = "its lines look like '128166385295514663,hm,0,Write,9056014336,2048,2833'";
    import::lines(opening, parser, facts, remedy)
}

/// The guess for copies whose instants do not count from 1601.
const AS_TICKS: Topic<'static> = NoteKind::Unit
    .of("instants and response times taken as ticks of 100 ns, the instants from \
         the trace's own start (`time-unit` says otherwise)");

#[derive(Default)]
struct Parser {
    /// The unit of instants in nanoseconds.
    unit_ns: i64,
    is_unit_guessed: bool,
    /// The instant, in ticks, that becomes zero.
    zero_ticks: i64,
    /// The volume of the last line: most lines have the same.
    host: Vec<u8>,
    disk: u64,
    volume: Option<VolumeId>,
    /// A buffer in which names are put together.
    name: Vec<u8>,
}

impl Parser {
    #[inline]
    fn volume(&mut self, host: &[u8], disk: u64, intake: &mut Intake) -> Result<VolumeId, Fault> {
        match self.volume {
            Some(id) if disk == self.disk && *host == *self.host => Ok(id),
            _ => self.other_volume(host, disk, intake),
        }
    }

    #[cold]
    fn other_volume(
        &mut self,
        host: &[u8],
        disk: u64,
        intake: &mut Intake,
    ) -> Result<VolumeId, Fault> {
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'_');
        super::write::decimal(&mut self.name, disk, 1, b' ');
        let id = intake.volume(&self.name)?;
        self.host.clear();
        self.host.extend_from_slice(host);
        self.disk = disk;
        self.volume = Some(id);
        Ok(id)
    }
}

const TOO_LATE: Fault = Fault::lost(
    1,
    "lines with a time beyond 292 years",
    "the time is beyond what 64 bits of nanoseconds hold",
);

/// `ticks` of `unit_ns` in nanoseconds from `zero_ticks`.
#[inline]
fn nanoseconds(ticks: u64, zero_ticks: i64, unit_ns: i64) -> Result<Nanos, Fault> {
    i64::try_from(ticks)
        .ok()
        .and_then(|ticks| ticks.checked_sub(zero_ticks))
        .and_then(|ticks| ticks.checked_mul(unit_ns))
        .map(Nanos)
        .ok_or(TOO_LATE)
}

impl Delimited for Parser {
    type Row<'a> = Row<'a>;

    const NAMES: &'static [&'static str] = &["Timestamp", "Hostname", "DiskNumber", "Type"];

    #[inline]
    fn parse<'a>(&self, line: &'a [u8]) -> Result<Row<'a>, Fault> {
        parse(line)
    }

    #[inline]
    fn give(&mut self, row: Row<'_>, intake: &mut Intake) -> Result<(), Fault> {
        let issue = nanoseconds(row.ticks, self.zero_ticks, self.unit_ns)?;
        let latency = nanoseconds(row.response_ticks, 0, self.unit_ns)?;
        let volume = self.volume(row.host, row.disk, intake)?;
        let request = Request::new(issue, row.op, Bytes(row.offset), Bytes(row.length));
        let latency = (latency > Nanos::ZERO).then_some(latency);
        intake.push(&Request { volume, latency, ..request })
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(self.is_unit_guessed, AS_TICKS);
    }
}
