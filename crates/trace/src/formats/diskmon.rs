//! The saved log of Sysinternals' `DiskMon` for Windows (`*.LOG`).
//!
//! A line is `number time duration disk request sector length`, columns divided by tabs or blanks:
//! seconds since the log began, seconds that the request took, sectors of 512 bytes. The program
//! can be told to show the time of day instead, with `AM` or `PM` as the host's settings have it;
//! lines then begin anew at midnight. The same settings decide whether decimals stand behind a
//! point or a comma.
//!
//! Source: blkreplay's `conv_windows_diskmon_to_load.sh`.

#[cfg(test)]
mod tests;

use super::import::{self, Epoch, Facts, Fault, Intake, LineParser, Look, Said};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::request::{Op, Request};
use crate::stream::Source;
use crate::text::{Cursor, NumberError};
use crate::units::{Bytes, Nanos};

/// Logs of `DiskMon`.
pub const FORMAT: Format = Format {
    name: "diskmon",
    title: "logs of DiskMon for Windows",
    several: Several::Apart,
    recognise,
    open,
};

const REMEDY: &str = "a log of DiskMon has lines like '0 0.000000 0.00001526 0 Write 2983648 8': \
                      number, time, duration, disk, request, sector, length";

/// Nanoseconds of a second and of half a day.
const SECOND_NS: i64 = 1_000_000_000;
const HALF_DAY_NS: i64 = 43_200 * SECOND_NS;

fn recognise(first_bytes: &[u8]) -> bool {
    import::looks_like(first_bytes, |line| match parse(line) {
        Ok(_) => Look::Request,
        Err(_) if is_heading(line) => Look::Other,
        Err(_) => Look::Strange,
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let lines = opening.stream.first_bytes().split(|byte| *byte == b'\n');
    let is_time_of_day = lines.filter_map(|line| parse(line).ok()).any(|line| line.is_time_of_day);
    let facts = Facts {
        format: "DiskMon log",
        columns: Columns { latency: true, origin: false, measured: false, dependencies: false },
        epoch: if is_time_of_day { Epoch::Unknown } else { Epoch::Start },
        whole_seconds: false,
    };
    import::lines(opening, Parser::default(), facts, REMEDY)
}

/// The values of a line.
struct Line<'a> {
    time: i64,
    is_time_of_day: bool,
    duration: i64,
    disk: &'a [u8],
    op: Op,
    sector: u64,
    sectors: u64,
}

/// Whether the line names the columns.
fn is_heading(line: &[u8]) -> bool {
    let mut cursor = Cursor::new(line);
    (0..3).any(|_| cursor.word() == b"Time")
}

#[inline]
fn parse(line: &[u8]) -> Result<Line<'_>, Fault> {
    let mut cursor = Cursor::new(line.trim_ascii_end());
    number(&mut cursor, "no number of the line here")?;
    cursor.skip_blanks();
    let mark = if memchr::memchr(b',', line).is_some() { b',' } else { b'.' };
    let (time, is_time_of_day) = instant(&mut cursor, mark)?;
    cursor.skip_blanks();
    let column = cursor.column();
    let (duration, _) = cursor
        .seconds_with(mark)
        .map_err(|_| Fault::junk(column, "no duration in seconds here"))?;
    let disk = cursor.word();
    cursor.skip_blanks();
    let column = cursor.column();
    let request = cursor.word();
    let op = match request.first().map(u8::to_ascii_lowercase) {
        Some(b'r') if request.eq_ignore_ascii_case(b"read") || request.len() == 1 => Op::Read,
        Some(b'w') if request.eq_ignore_ascii_case(b"write") || request.len() == 1 => Op::Write,
        Some(b'f') if request.len() >= 5 && request[..5].eq_ignore_ascii_case(b"flush") => {
            Op::Flush
        }
        _ => return Err(Fault::junk(column, "the request is Read, Write or Flush")),
    };
    if disk.is_empty() || !disk.iter().all(u8::is_ascii_digit) {
        return Err(Fault::junk(column, "no number of a disk before the request"));
    }
    let (sector, sectors) = if op == Op::Flush && cursor.is_at_end() {
        (0, 0)
    } else {
        (number(&mut cursor, "no sector here")?, number(&mut cursor, "no length here")?)
    };
    if !cursor.is_at_end() {
        return Err(Fault::junk(cursor.column(), "a column too many"));
    }
    Ok(Line { time, is_time_of_day, duration, disk, op, sector, sectors })
}

/// Seconds with decimals behind `mark`, or a time of day.
#[inline]
fn instant(cursor: &mut Cursor<'_>, mark: u8) -> Result<(i64, bool), Fault> {
    let column = cursor.column();
    let fault = Fault::junk(column, "no time here");
    let (first, _) = cursor.seconds_with(mark).map_err(|_| fault)?;
    if cursor.peek() != Some(b':') {
        return Ok((first, false));
    }
    let hours = first / SECOND_NS;
    cursor.skip(b':');
    let minutes = cursor.integer().ok().filter(|minutes| *minutes < 60).ok_or(fault)?;
    let (seconds, _) =
        if cursor.skip(b':') { cursor.seconds_with(mark).map_err(|_| fault)? } else { (0, 0) };
    if first % SECOND_NS != 0 || hours >= 24 || seconds >= 61 * SECOND_NS {
        return Err(fault);
    }
    cursor.skip_blanks();
    let hours = match cursor.peek().map(|byte| byte.to_ascii_uppercase()) {
        Some(half @ (b'A' | b'P')) => {
            cursor.word();
            hours % 12 + if half == b'P' { 12 } else { 0 }
        }
        _ => hours,
    };
    Ok(((hours * 60 + minutes as i64) * 60 * SECOND_NS + seconds, true))
}

#[inline]
fn number(cursor: &mut Cursor<'_>, missing: &'static str) -> Result<u64, Fault> {
    cursor.skip_blanks();
    let column = cursor.column();
    let value = cursor.integer().map_err(|error| match error {
        NumberError::TooLarge => Fault::junk(column, "this number does not fit 64 bits"),
        _ => Fault::junk(column, missing),
    })?;
    match cursor.peek() {
        None | Some(b' ' | b'\t') => Ok(value),
        Some(_) => Err(Fault::junk(column, missing)),
    }
}

/// Reads the lines one by one.
#[derive(Debug, Default)]
struct Parser {
    /// The last time of day, plus the days since the first.
    last: i64,
    days: i64,
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let line = match parse(line) {
            Ok(line) => line,
            Err(_) if is_heading(line) => return Ok(Said::Other),
            Err(fault) => return Err(fault),
        };
        let mut issue = line.time;
        if line.is_time_of_day {
            if line.time < self.last - HALF_DAY_NS {
                self.days += 2 * HALF_DAY_NS;
            }
            self.last = line.time;
            issue = issue.saturating_add(self.days);
        }
        let too_far = Fault::junk(1, "no disk has such a sector");
        let offset = Bytes::from_sectors(line.sector).ok_or(too_far)?;
        let length = Bytes::from_sectors(line.sectors).ok_or(too_far)?;
        let mut request = Request::new(Nanos(issue), line.op, offset, length);
        request.latency = Some(Nanos(line.duration));
        request.volume = intake.volume(line.disk)?;
        intake.push(&request)?;
        Ok(Said::Request)
    }
}
