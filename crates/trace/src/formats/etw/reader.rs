//! Events made into requests.

use rustc_hash::FxHashMap;

use super::fields::Fields;
use super::is_event;
use crate::formats::import::{Fault, Intake, LineParser, Said};
use crate::header::NoteKind;
use crate::request::{Op, Origin, Request};
use crate::text::Cursor;
use crate::units::{Bytes, Nanos};

/// Nanoseconds of the unit of time: the microsecond.
const UNIT_NS: i64 = 1_000;

/// The largest number of issued and not completed requests that are remembered.
const ISSUED_MAX: usize = 65_536;

/// The places of the columns of a kind of event.
#[derive(Clone, Copy, Debug)]
struct Columns {
    time: usize,
    process: usize,
    /// An index beyond all fields if there is no such column.
    cpu: usize,
    irp: usize,
    offset: usize,
    size: usize,
    elapsed: usize,
    disk: usize,
}

/// Stands for the place of a missing column.
const NOWHERE: usize = usize::MAX;

impl Columns {
    /// The columns of reads and writes, if no heading names others.
    const TRANSFER: Self =
        Self { time: 1, process: 2, cpu: NOWHERE, irp: 4, offset: 5, size: 6, elapsed: 7, disk: 8 };

    /// The columns of flushes, which have no range.
    const FLUSH: Self =
        Self { offset: NOWHERE, size: NOWHERE, elapsed: 5, disk: 6, ..Self::TRANSFER };

    /// The columns that a line of the heading names.
    fn of(heading: &Fields<'_>) -> Self {
        let place = |name: &[u8]| {
            (1..heading.count())
                .find(|index| heading.get(*index).eq_ignore_ascii_case(name))
                .unwrap_or(NOWHERE)
        };
        let process = (1..heading.count())
            .find(|index| heading.get(*index).starts_with(b"Process Name"))
            .unwrap_or(NOWHERE);
        Self {
            time: place(b"TimeStamp"),
            process,
            cpu: place(b"CPU"),
            irp: place(b"IrpPtr"),
            offset: place(b"ByteOffset"),
            size: place(b"IOSize"),
            elapsed: place(b"ElapsedTime"),
            disk: place(b"DiskNum"),
        }
    }
}

/// The kinds of event that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transfer(Op),
    Flush,
    Issue,
}

fn kind(name: &[u8]) -> Option<Kind> {
    match name {
        b"DiskRead" => Some(Kind::Transfer(Op::Read)),
        b"DiskWrite" => Some(Kind::Transfer(Op::Write)),
        b"DiskFlush" => Some(Kind::Flush),
        b"DiskReadInit" | b"DiskWriteInit" | b"DiskFlushInit" => Some(Kind::Issue),
        _ => None,
    }
}

/// Reads the events one by one.
pub(super) struct Parser {
    unit_ns: i64,
    reads: Columns,
    writes: Columns,
    flushes: Columns,
    issues: Columns,
    in_heading: bool,
    /// The instant of issue of the request at each address.
    issued: FxHashMap<u64, i64>,
    last_pid: Option<u32>,
}

impl Parser {
    pub(super) fn new(unit_ns: Option<i64>) -> Self {
        Self {
            unit_ns: unit_ns.unwrap_or(UNIT_NS),
            reads: Columns::TRANSFER,
            writes: Columns::TRANSFER,
            flushes: Columns::FLUSH,
            issues: Columns::TRANSFER,
            in_heading: false,
            issued: FxHashMap::default(),
            last_pid: None,
        }
    }

    /// Takes a line of the heading.
    fn heading(&mut self, line: &[u8]) {
        let fields = Fields::of(line);
        let Some(kind) = kind(fields.get(0)) else { return };
        let places = Columns::of(&fields);
        match kind {
            Kind::Transfer(Op::Read) => self.reads = places,
            Kind::Transfer(_) => self.writes = places,
            Kind::Flush => self.flushes = places,
            Kind::Issue => self.issues = places,
        }
    }

    /// A number of units of time in nanoseconds.
    #[inline]
    fn span(&self, fields: &Fields<'_>, place: usize) -> Result<i64, Fault> {
        let units = decimal(fields, place, "no time in microseconds here")?;
        let span = i64::try_from(units).ok().and_then(|units| units.checked_mul(self.unit_ns));
        span.ok_or(Fault::junk(fields.column(place), "this instant is beyond 292 years"))
    }

    /// The number of the process; its name is kept in the header.
    #[inline]
    fn process(&mut self, fields: &Fields<'_>, place: usize, intake: &mut Intake) -> u32 {
        // `svchost.exe (1234)`; the name may have brackets itself.
        let field = fields.get(place);
        let field = field.strip_prefix(b"\"").unwrap_or(field);
        let Some(bracket) = memchr::memrchr(b'(', field) else { return 0 };
        let mut cursor = Cursor::new(&field[bracket + 1..]);
        cursor.skip_blanks();
        // The idle process of a few versions is -1.
        let pid = cursor.integer().ok().and_then(|pid| u32::try_from(pid).ok());
        let Some(pid) = pid else { return 0 };
        if self.last_pid != Some(pid) {
            intake.process(pid, field[..bracket].trim_ascii());
            self.last_pid = Some(pid);
        }
        pid
    }
}

/// Whether `field` ends as a process does: with its number in brackets.
#[inline]
fn ends_process(field: &[u8]) -> bool {
    let field = field.strip_suffix(b"\"").unwrap_or(field);
    let Some(field) = field.strip_suffix(b")") else { return false };
    let digits = field.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let before = field[..field.len() - digits].trim_ascii_end();
    digits > 0 && before.strip_suffix(b"-").unwrap_or(before).ends_with(b"(")
}

/// Joins the fields of a process whose name has commas, because xperf does not quote them.
#[cold]
fn join_process(fields: &mut Fields<'_>, process: usize) {
    let behind = process.saturating_add(1)..fields.count();
    // The address of the request follows the process.
    let mut pieces = behind.take_while(|index| !fields.get(*index).starts_with(b"0x"));
    if let Some(last) = pieces.find(|index| ends_process(fields.get(*index))) {
        fields.join(process, last);
    }
}

/// Counts the events that the recorder reports as lost: `Events Lost: 12`.
#[cold]
fn tell_lost(fields: &Fields<'_>, intake: &mut Intake) {
    let lost = (0..fields.count()).find_map(|index| {
        let rest = fields.get(index).strip_prefix(b"Events Lost:")?;
        Cursor::new(rest.trim_ascii_start()).integer().ok()
    });
    intake.header.losses.add(
        NoteKind::LostByRecorder.of("events lost by the recorder"),
        lost.unwrap_or_default(),
        None,
    );
}

#[inline]
fn decimal(fields: &Fields<'_>, place: usize, missing: &'static str) -> Result<u64, Fault> {
    let mut cursor = Cursor::new(fields.get(place));
    match cursor.integer() {
        Ok(value) if cursor.rest().is_empty() => Ok(value),
        _ => Err(Fault::junk(fields.column(place), missing)),
    }
}

#[inline]
fn hexadecimal(fields: &Fields<'_>, place: usize, missing: &'static str) -> Result<u64, Fault> {
    let field = fields.get(place);
    let mut cursor = Cursor::new(field);
    match cursor.hexadecimal() {
        Ok(value) if cursor.rest().is_empty() && field.starts_with(b"0x") => Ok(value),
        _ => Err(Fault::junk(fields.column(place), missing)),
    }
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        if self.in_heading {
            self.in_heading = line.trim_ascii() != b"EndHeader";
            self.heading(line);
            return Ok(Said::Other);
        }
        let mut fields = Fields::of(line);
        let name = fields.get(0);
        let Some(kind) = kind(name) else {
            if name == b"BeginHeader" {
                self.in_heading = true;
                return Ok(Said::Other);
            }
            if name.starts_with(b"OS Version:") {
                tell_lost(&fields, intake);
                return Ok(Said::Other);
            }
            let is_other = is_event(name) && (fields.count() >= 2 || name == b"EndHeader");
            if is_other {
                return Ok(Said::Other);
            }
            return Err(Fault::junk(1, "no name of an event here"));
        };
        let places = match kind {
            Kind::Transfer(Op::Read) => self.reads,
            Kind::Transfer(_) => self.writes,
            Kind::Flush => self.flushes,
            Kind::Issue => self.issues,
        };
        if !ends_process(fields.get(places.process)) {
            join_process(&mut fields, places.process);
        }
        let time = self.span(&fields, places.time)?;
        let irp = hexadecimal(&fields, places.irp, "no address of a request here (0x…)");
        let op = match kind {
            Kind::Transfer(op) => op,
            Kind::Flush => Op::Flush,
            Kind::Issue => {
                if self.issued.len() < ISSUED_MAX {
                    self.issued.insert(irp?, time);
                }
                return Ok(Said::Request);
            }
        };
        let disk = fields.get(places.disk);
        decimal(&fields, places.disk, "no number of a disk here")?;
        let (offset, size) = if op == Op::Flush {
            (0, 0)
        } else {
            let missing = "no offset in hexadecimal bytes here (0x…)";
            let offset = hexadecimal(&fields, places.offset, missing)?;
            let missing = "no size in hexadecimal bytes here (0x…)";
            (offset, hexadecimal(&fields, places.size, missing)?)
        };
        let elapsed = self.span(&fields, places.elapsed)?;
        // Addresses are reused: an issue later than this completion belongs to another request.
        let issued = irp.ok().and_then(|irp| self.issued.remove(&irp));
        let issue = issued.filter(|issued| *issued <= time).unwrap_or(time - elapsed);
        let mut request = Request::new(Nanos(issue), op, Bytes(offset), Bytes(size));
        request.latency = Some(Nanos(time - issue));
        request.volume = intake.volume(disk)?;
        let cpu = decimal(&fields, places.cpu, "").ok().and_then(|cpu| u32::try_from(cpu).ok());
        let pid = self.process(&fields, places.process, intake);
        request.origin = Some(Origin { pid, cpu: cpu.unwrap_or_default() });
        intake.push(&request)?;
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        let unfinished = self.issued.len() as u64;
        intake.header.losses.add(
            NoteKind::Unreadable.of("requests issued of which no completion is told"),
            unfinished,
            None,
        );
    }
}
