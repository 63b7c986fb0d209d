//! blkreplay's text: loads (`*.load.gz`) and results of a replay (`*.replay.gz`).
//!
//! Both are lines of `start ; sector ; length ; op ; delay ; duration` among prose. The prose
//! stands anywhere, the column header may come twice, the last two columns may be missing, and what
//! they mean depends on the column header. A result is in the order of completion. So every line is
//! judged on its own: one that reads as a request is one, one without a `;` is prose, and what is
//! left is counted as lost with its text.
//!
//! Format: blkreplay's `blkreplay.c` (`sscanf`/`printf` of the columns) and its manual; see
//! `docs/formats.md` for what is read and written here.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::batch::{Batch, Columns};
use crate::compression::{self, Codec, Encoder, PartialFile, Positioned};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::header::{Header, Notes, Volume};
use crate::request::{Flags, LateCause, Measured, Op, Outcome, Request};
use crate::stream::{Sink, Source};
use crate::text::{self, Cursor, Line, LineReader, NumberError};
use crate::transform::sort::SortWindow;
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// [`Header::format`] of a load.
pub const LOAD: &str = "blkreplay load";

/// [`Header::format`] of a result.
pub const RESULT: &str = "blkreplay replay result";

const JUNK: &str = "junk lines";
const ZERO_LENGTH: &str = "requests of zero length";
const NEGATIVE_TIME: &str = "lines with a negative time";
const TOO_FAR: &str = "requests that reach beyond 64-bit addresses";
const TOO_LONG: &str = "lines longer than 64 KiB";
const BACKSHIFTS: &str = "steps back in time, the rest shifted behind them as blkreplay does";

/// The sentence of the licence that blkreplay's loads are published under.
const LICENSE_MARK: &[u8] = b"Copying and distribution of this file";
const LICENSE: &str = "GNU all-permissive";
const LICENSE_TEXT: &str = "Copying and distribution of this file, with or without modification,
are permitted in any medium without royalty provided the copyright
notice and this notice are preserved.  This file is offered as-is,
without any warranty.
";

/// The sentence that says what a file is.
const DESCRIPTION_MARK: &[u8] = b"This file was automatically generated";

/// What blkreplay says of requests or of itself in the middle of a result, and how it is told.
const REMARKS: [(&str, &str); 6] = [
    ("ERROR: ", "errors that blkreplay printed, which name no request"),
    ("VERIFY ERROR", "verify errors that blkreplay printed, which name no request"),
    ("VERIFY MISMATCH", "verify errors that blkreplay printed, which name no request"),
    ("WARN: cannot process sector", "requests that blkreplay did not replay"),
    ("INFO: dropping block", "requests that blkreplay did not replay"),
    ("INFO: measurement results are thus FAKE", "remarks of blkreplay that its results are fake"),
];

/// What the last two columns mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Load,
    /// The duration is a latency that the converter found in the recording.
    LoadWithLatency,
    /// What the replay measured.
    Result,
}

/// The columns of a line.
#[derive(Clone, Copy)]
struct Row {
    start: i64,
    decimals: usize,
    sector: u64,
    sectors: u64,
    op: Op,
    flags: Flags,
    lower_case: bool,
    delay: i64,
    duration: Option<i64>,
}

/// Why a line is no request, and the column where that shows.
#[derive(Clone, Copy)]
struct Fault {
    column: usize,
    loss: &'static str,
    reason: &'static str,
}

/// Reads the columns of a line.
#[inline]
fn parse(line: &[u8]) -> Result<Row, Fault> {
    let mut cursor = Cursor::new(line);
    cursor.skip_blanks();
    let (start, decimals) = seconds(&mut cursor, "the start is no number of seconds")?;
    next_column(&mut cursor)?;
    let sector = integer(&mut cursor, "the sector is no whole number")?;
    next_column(&mut cursor)?;
    let sectors = integer(&mut cursor, "the length is no whole number of sectors")?;
    next_column(&mut cursor)?;
    let column = cursor.column();
    let lower_case = cursor.peek().is_some_and(|byte| byte.is_ascii_lowercase());
    let (op, flags) = text::rwbs(cursor.letters()).ok_or(Fault {
        column,
        loss: JUNK,
        reason: "the operation is none that the kernel's letters say",
    })?;
    let mut row =
        Row { start, decimals, sector, sectors, op, flags, lower_case, delay: 0, duration: None };
    if another_column(&mut cursor) {
        row.delay = seconds(&mut cursor, "the delay is no number of seconds")?.0;
        if another_column(&mut cursor) {
            row.duration = Some(seconds(&mut cursor, "the duration is no number of seconds")?.0);
            cursor.skip_blanks();
        }
    }
    match cursor.peek() {
        None => Ok(row),
        Some(_) => Err(junk(&cursor, "more stands here than a request has")),
    }
}

fn junk(cursor: &Cursor<'_>, reason: &'static str) -> Fault {
    Fault { column: cursor.column(), loss: JUNK, reason }
}

#[inline]
fn another_column(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip_blanks();
    let is_another = cursor.skip(b';');
    cursor.skip_blanks();
    is_another
}

#[inline]
fn next_column(cursor: &mut Cursor<'_>) -> Result<(), Fault> {
    if another_column(cursor) { Ok(()) } else { Err(junk(cursor, "a ';' is missing here")) }
}

#[inline]
fn seconds(cursor: &mut Cursor<'_>, reason: &'static str) -> Result<(i64, usize), Fault> {
    let column = cursor.column();
    cursor.seconds().map_err(|error| match error {
        NumberError::Negative => Fault { column, loss: NEGATIVE_TIME, reason: "a negative time" },
        NumberError::Missing => Fault { column, loss: JUNK, reason },
        NumberError::TooLarge => Fault { column, loss: JUNK, reason: "the time is too large" },
    })
}

#[inline]
fn integer(cursor: &mut Cursor<'_>, reason: &'static str) -> Result<u64, Fault> {
    let column = cursor.column();
    cursor.integer().map_err(|error| match error {
        NumberError::TooLarge => {
            Fault { column, loss: TOO_FAR, reason: "the number is too large for an address" }
        }
        NumberError::Missing | NumberError::Negative => Fault { column, loss: JUNK, reason },
    })
}

/// What the last two columns mean according to a column header, if `line` is one.
fn column_header(line: &[u8]) -> Option<Kind> {
    let has = |word: &[u8]| memchr::memmem::find(line, word).is_some();
    let begins_with_a_letter = line.trim_ascii_start().first()?.is_ascii_alphabetic();
    if !begins_with_a_letter || !(has(b"replay_") || has(b"start") && has(b"sector")) {
        return None;
    }
    Some(if has(b"replay_duration (guessed)") {
        Kind::LoadWithLatency
    } else if has(b"orig_start") || has(b"replay_duration") && !has(b"replay_duration=0") {
        Kind::Result
    } else {
        Kind::Load
    })
}

/// Whether a file that begins with these bytes is blkreplay's: they hold a line that reads as a
/// request, or a column header.
pub fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        memchr::memchr(b';', line).is_some()
            && (parse(line).is_ok() || memchr::memmem::find(line, b"replay_").is_some())
    })
}

/// Reads a load or a result.
pub fn open<R: Positioned + Send + 'static>(
    input: R,
    path: &Path,
    options: &ReadOptions,
) -> Result<Box<dyn Source>, TraceError> {
    let mut reader = Reader {
        lines: LineReader::new(input),
        state: State::new(path, options.strict),
        batch: Batch::default(),
        window: SortWindow::default(),
        ended: false,
    };
    // The columns are known with the first request.
    reader.fill(1)?;
    if reader.batch.is_empty() {
        let found = match &reader.state.header.damage {
            Some(damage) => format!("no request could be read: {damage}"),
            None => format!("there is no request in its {} lines", reader.lines.number()),
        };
        return Err(TraceError::Unusable {
            path: path.to_owned(),
            reason: found,
            remedy: "a load has lines like '0.449518165 ; 37766917 ; 14 ; W ; 0.0 ; 0.0'"
                .to_owned(),
        });
    }
    Ok(Box::new(reader))
}

/// A load or a result that is being read.
struct Reader<R> {
    lines: LineReader<R>,
    state: State,
    /// Requests in the order of the file.
    batch: Batch,
    window: SortWindow,
    ended: bool,
}

impl<R: Positioned> Reader<R> {
    /// Reads lines until the batch holds `rows` requests or nothing follows.
    fn fill(&mut self, rows: usize) -> Result<(), TraceError> {
        while self.batch.len() < rows {
            match self.lines.next_line() {
                Ok(Some((Line::Text(line), number))) => {
                    self.state.line(line, number, &mut self.batch)?;
                }
                Ok(Some((Line::TooLong(line), number))) => {
                    self.state.lose(line, number, &OVERLONG)?;
                }
                Ok(None) => {
                    self.ended = true;
                    return Ok(());
                }
                Err(error) => {
                    self.ended = true;
                    return self.break_off(error);
                }
            }
        }
        Ok(())
    }

    /// Notes that the file breaks off, or refuses it.
    fn break_off(&mut self, error: io::Error) -> Result<(), TraceError> {
        let state = &mut self.state;
        let Some(damage) = compression::damage(&error) else {
            return Err(TraceError::read(&state.path, error));
        };
        let offset = self.lines.get_ref().position();
        if state.strict {
            return Err(TraceError::Binary {
                path: state.path.clone(),
                offset,
                reason: damage,
                remedy: "get the file again, or read what there is without --strict".to_owned(),
            });
        }
        state.header.damage = Some(format!(
            "{damage} at byte {offset}, behind line {} and {} requests",
            self.lines.number(),
            state.requests
        ));
        Ok(())
    }
}

const OVERLONG: Fault =
    Fault { column: 1, loss: TOO_LONG, reason: "the line is longer than 64 KiB" };

impl<R: Positioned + Send> Source for Reader<R> {
    fn header(&self) -> &Header {
        &self.state.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.state.header.columns);
        while !self.window.give(batch, self.ended) {
            if self.ended {
                return Ok(false);
            }
            self.fill(crate::batch::BATCH_ROWS)?;
            self.window.feed(&mut self.batch);
            if self.ended {
                self.state.finish();
                self.window.note(&mut self.state.header.guesses);
            }
        }
        Ok(true)
    }
}

/// What is known while lines are read.
struct State {
    path: PathBuf,
    strict: bool,
    header: Header,
    /// The kind of file, known with the first request; it decides on the columns.
    kind: Option<Kind>,
    /// What the column header that was met last says.
    columns: Option<Kind>,
    requests: u64,
    /// What is added to every start since the clock stepped back.
    shift: i64,
    /// The start before, as the file has it.
    previous: i64,
    odd_decimals: u64,
    first_odd_decimals: Option<String>,
    other_columns: u64,
}

impl State {
    fn new(path: &Path, strict: bool) -> Self {
        let header = Header {
            source: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            volumes: vec![Volume::default()],
            ..Header::default()
        };
        Self {
            path: path.to_owned(),
            strict,
            header,
            kind: None,
            columns: None,
            requests: 0,
            shift: 0,
            previous: i64::MIN,
            odd_decimals: 0,
            first_odd_decimals: None,
            other_columns: 0,
        }
    }

    /// Takes a line: adds its request to `batch`, or notes what it says.
    #[inline]
    fn line(&mut self, line: &[u8], number: u64, batch: &mut Batch) -> Result<(), TraceError> {
        match parse(line).and_then(|row| self.request(line, number, &row, batch)) {
            Ok(()) => Ok(()),
            Err(fault) => self.other_line(line, number, &fault),
        }
    }

    /// Adds the request that `row` says.
    #[inline]
    fn request(
        &mut self,
        line: &[u8],
        number: u64,
        row: &Row,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        let far = Fault { column: 1, loss: TOO_FAR, reason: "the range ends beyond 64 bits" };
        let late = Fault { column: 1, loss: JUNK, reason: "the time is too large" };
        let offset = Bytes::from_sectors(row.sector).ok_or(far)?;
        let length = Bytes::from_sectors(row.sectors).ok_or(far)?;
        offset.0.checked_add(length.0).ok_or(far)?;
        if row.op == Op::Flush {
            if row.sectors != 0 {
                return Err(Fault { column: 1, loss: JUNK, reason: "a flush has no range" });
            }
        } else if row.sectors == 0 {
            let reason = "the request covers nothing";
            return Err(Fault { column: 1, loss: ZERO_LENGTH, reason });
        }
        let measured_kind = self.columns == Some(Kind::Result);
        let shift = if measured_kind { self.shift } else { self.shift_at(row.start, line, number) };
        let issue = row.start.checked_add(shift).ok_or(late)?;
        let offset = if row.op == Op::Flush { Bytes::ZERO } else { offset };
        let mut request = Request::new(Nanos(issue), row.op, offset, length);
        request.flags = row.flags;
        match self.columns {
            Some(Kind::Result) => {
                let submitted = issue.checked_add(row.delay).ok_or(late)?;
                let completed = match row.duration {
                    Some(duration) => Some(submitted.checked_add(duration).ok_or(late)?),
                    None => None,
                };
                request.measured = Some(Measured {
                    scheduled: Nanos(issue),
                    submitted: Some(Nanos(submitted)),
                    completed: completed.map(Nanos),
                    in_flight: 0,
                    outcome: Outcome::Ok,
                    pushed_back: row.lower_case,
                    late_cause: LateCause::None,
                });
            }
            Some(Kind::LoadWithLatency) => request.latency = row.duration.map(Nanos),
            Some(Kind::Load) | None => {}
        }
        self.previous = row.start;
        if row.decimals != 9 {
            self.odd_decimals += 1;
            self.first_odd_decimals.get_or_insert_with(|| example(number, line));
        }
        if self.requests == 0 {
            self.begin();
            batch.reset(self.header.columns);
        }
        if self.columns.unwrap_or(Kind::Load) != self.kind.unwrap_or(Kind::Load) {
            self.other_columns += 1;
        }
        self.requests += 1;
        batch.push(&request);
        Ok(())
    }

    /// What is to be added to a start. As in blkreplay, a start in an earlier second than the one
    /// before begins a further load, which follows without a gap; smaller steps back are disorder.
    #[inline]
    fn shift_at(&mut self, start: i64, line: &[u8], number: u64) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        if start < self.previous && start / SECOND < self.previous / SECOND {
            // Both are at least zero, and the sum is the instant before: no overflow.
            self.shift += self.previous - start;
            self.header.guesses.add(BACKSHIFTS, 1, Some(example(number, line)));
        }
        self.shift
    }

    /// Decides, at the first request, what kind of file this is.
    fn begin(&mut self) {
        let kind = self.columns.unwrap_or(Kind::Load);
        self.kind = Some(kind);
        self.header.columns = Columns {
            latency: kind == Kind::LoadWithLatency,
            origin: false,
            measured: kind == Kind::Result,
        };
        if kind == Kind::Result {
            RESULT.clone_into(&mut self.header.format);
            self.header.recorder = Some("blkreplay".to_owned());
        } else {
            LOAD.clone_into(&mut self.header.format);
        }
        if self.columns.is_none() {
            let what = "missing column headers, columns taken as start ; sector ; length ; op";
            self.header.guesses.add(what, 1, None);
        }
    }

    /// Takes a line that is no request: a column header, prose, or a loss.
    #[cold]
    fn other_line(&mut self, line: &[u8], number: u64, fault: &Fault) -> Result<(), TraceError> {
        let prose = memchr::memchr(b';', line).is_none();
        let line_text = line.trim_ascii();
        if let Some((_, what)) =
            REMARKS.iter().find(|(begin, _)| line_text.starts_with(begin.as_bytes()))
        {
            self.header.losses.add(what, 1, Some(example(number, line)));
            return Ok(());
        }
        if prose {
            if memchr::memmem::find(line, LICENSE_MARK).is_some() {
                self.header.license = Some(LICENSE.to_owned());
            }
            if line_text.starts_with(DESCRIPTION_MARK) && self.header.description.is_none() {
                self.header.description = Some(text::shown(line));
            }
            return Ok(());
        }
        if let Some(kind) = column_header(line) {
            self.columns = Some(kind);
            if kind == Kind::Result && memchr::memmem::find(line, b"orig_start").is_none() {
                let what = "column headers without 'orig_start' taken as those of a replay result";
                self.header.guesses.add(what, 1, Some(example(number, line)));
            }
            return Ok(());
        }
        self.lose(line, number, fault)
    }

    /// Counts a line as lost, or refuses it.
    fn lose(&mut self, line: &[u8], number: u64, fault: &Fault) -> Result<(), TraceError> {
        if self.strict {
            return Err(TraceError::Line {
                path: self.path.clone(),
                line: number,
                column: fault.column,
                reason: fault.reason.to_owned(),
                text: text::shown(line),
                remedy:
                    "a request reads 'seconds ; sector ; sectors ; R or W ; seconds ; seconds'; \
                         without --strict such lines are counted and left out"
                        .to_owned(),
            });
        }
        self.header.losses.add(fault.loss, 1, Some(example(number, line)));
        Ok(())
    }

    /// Writes down what is known only at the end.
    fn finish(&mut self) {
        let guesses = &mut self.header.guesses;
        guesses.add(
            "starts without nine decimals, taken as fractions (blkreplay takes 0.5 for 5 ns)",
            self.odd_decimals,
            self.first_odd_decimals.take(),
        );
        self.odd_decimals = 0;
        if self.kind == Some(Kind::Result) {
            guesses.add(
                "outcomes taken as success, because blkreplay does not record them",
                self.requests,
                None,
            );
        }
        self.header.losses.add(
            "requests under a column header of another kind than the first, without its columns",
            std::mem::take(&mut self.other_columns),
            None,
        );
    }
}

/// A line as an example for a note.
fn example(number: u64, line: &[u8]) -> String {
    format!("line {number}: {}", text::shown(line))
}

/// Begins a load at `path`: gzipped if its name ends in `.gz`.
pub fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    let write = || -> io::Result<Writer> {
        let mut output = Encoder::new(PartialFile::create(path)?, Codec::of_name(path));
        output.write_all(prose(header).as_bytes())?;
        let lines = Vec::with_capacity(64 * crate::batch::BATCH_ROWS);
        let (path, lost) = (path.to_owned(), Notes::default());
        Ok(Writer { path, output, lines, volume: None, counts: [0; LOST.len()], lost })
    };
    write().map(|writer| Box::new(writer) as Box<dyn Sink>).map_err(|e| TraceError::write(path, e))
}

/// What stands above the requests.
fn prose(header: &Header) -> String {
    // A ';' would make a line of prose look like a request to blkreplay's own scripts.
    let clean = |text: &str| text.replace(';', ",").replace(['\n', '\r'], " ");
    let from = clean(&header.source);
    let version = env!("CARGO_PKG_VERSION");
    let description = header.description.as_deref().map_or(String::new(), |description| {
        format!("The original says: {}\n\n", clean(description))
    });
    let license = match header.license.as_deref() {
        Some(LICENSE) => format!("{LICENSE_TEXT}\n"),
        Some(license) => format!("License of the original: {}\n\n", clean(license)),
        None => String::new(),
    };
    format!(
        "This file was automatically generated from '{from}'\nconverted by ioecho {version}\n\n\
         {description}{license}\
         #################################################################\n\
         start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n"
    )
}

/// What a load cannot say.
const LOST: [&str; 12] = [
    "flushes",
    "discards",
    "writes of zeroes",
    "zone operations",
    "requests to other volumes than the first",
    "requests of zero length",
    "requests before the start of the trace",
    "requests too long for blkreplay (1 TiB and more)",
    "requests widened to whole sectors",
    "flags (all but read-ahead)",
    "latencies",
    "processes, processors and measured times",
];

#[derive(Clone, Copy)]
enum Lost {
    Flush,
    Discard,
    WriteZeroes,
    Zone,
    Volume,
    ZeroLength,
    Negative,
    TooLong,
    Widened,
    Flags,
    Latency,
    Columns,
}

/// A load that is being written.
struct Writer {
    path: PathBuf,
    output: Encoder,
    lines: Vec<u8>,
    /// The volume that is written: that of the first request.
    volume: Option<VolumeId>,
    counts: [u64; LOST.len()],
    lost: Notes,
}

impl Writer {
    fn request(&mut self, request: &Request) {
        let mut lose = |what: Lost| self.counts[what as usize] += 1;
        let op = match request.op {
            Op::Read if request.flags.contains(Flags::READAHEAD) => b"RA",
            Op::Read => b" R",
            Op::Write => b" W",
            Op::Flush => return lose(Lost::Flush),
            Op::Discard => return lose(Lost::Discard),
            Op::WriteZeroes => return lose(Lost::WriteZeroes),
            Op::Zone => return lose(Lost::Zone),
        };
        if *self.volume.get_or_insert(request.volume) != request.volume {
            return lose(Lost::Volume);
        }
        if request.length == Bytes::ZERO {
            return lose(Lost::ZeroLength);
        }
        if request.issue < Nanos::ZERO {
            return lose(Lost::Negative);
        }
        let first = request.offset.sectors();
        let sectors = request.end().0.div_ceil(SECTOR) - first;
        // blkreplay reads the length as an `int`.
        if sectors > i32::MAX as u64 {
            return lose(Lost::TooLong);
        }
        if !request.offset.0.is_multiple_of(SECTOR) || !request.length.0.is_multiple_of(SECTOR) {
            lose(Lost::Widened);
        }
        let kept = if request.op == Op::Read { Flags::READAHEAD } else { Flags::empty() };
        if !kept.contains(request.flags) {
            lose(Lost::Flags);
        }
        if request.latency.is_some() {
            lose(Lost::Latency);
        }
        if request.measured.is_some() || request.origin.is_some() {
            lose(Lost::Columns);
        }
        let ns = request.issue.0 as u64;
        let lines = &mut self.lines;
        // `%6T.%9t ; %12S ; %4n ;%2s ; 0.0 ; 0.0`, as the loads that are published have it.
        decimal(lines, ns / 1_000_000_000, 7, b' ');
        lines.push(b'.');
        decimal(lines, ns % 1_000_000_000, 9, b'0');
        lines.extend_from_slice(b" ; ");
        decimal(lines, first, 12, b' ');
        lines.extend_from_slice(b" ; ");
        decimal(lines, sectors, 4, b' ');
        lines.extend_from_slice(b" ;");
        lines.extend_from_slice(op);
        lines.extend_from_slice(b" ; 0.0 ; 0.0\n");
    }
}

/// Appends `value` in decimal, at least `width` characters, filled with `fill` on the left.
fn decimal(line: &mut Vec<u8>, mut value: u64, width: usize, fill: u8) {
    let mut digits = [fill; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

impl Sink for Writer {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.lines.clear();
        for request in batch.iter() {
            self.request(&request);
        }
        self.output.write_all(&self.lines).map_err(|error| TraceError::write(&self.path, error))
    }

    fn finish(mut self: Box<Self>, _header: &Header) -> Result<Notes, TraceError> {
        self.output.finish().map_err(|error| TraceError::write(&self.path, error))?;
        for (what, count) in LOST.iter().zip(self.counts) {
            self.lost.add(what, count, None);
        }
        Ok(self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::any_request;
    use crate::compression::tests::gzip;
    use crate::compression::{Decoder, Peeked};
    use proptest::prelude::*;
    use std::fs;

    type Read = Result<(Vec<Request>, Header), TraceError>;

    fn read_with(bytes: &[u8], strict: bool) -> Read {
        let codec = Codec::of_first_bytes(bytes);
        let input = Peeked::new(Decoder::new(io::Cursor::new(bytes.to_vec()), codec), 1000);
        let options = ReadOptions { strict, ..ReadOptions::default() };
        let mut source = open(input, Path::new("some/x.load"), &options)?;
        let mut batch = Batch::default();
        let mut all = Vec::new();
        while source.next_batch(&mut batch)? {
            assert!(!batch.is_empty());
            all.extend(batch.iter());
        }
        assert!(!source.next_batch(&mut batch)?);
        assert!(all.is_sorted_by_key(|request| request.issue));
        Ok((all, source.header().clone()))
    }

    fn read(text: &str) -> (Vec<Request>, Header) {
        read_with(text.as_bytes(), false).unwrap()
    }

    const HEADER: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
    const LINES: &str = "      0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0
      0.449518165 ;     37766917 ;   14 ; R ; 0.0 ; 0.0
      0.456676896 ;            0 ;    1 ;RA ; 0.0 ; 0.0\n";

    fn sectors(ns: i64, op: Op, sector: u64, length: u64) -> Request {
        Request::new(Nanos(ns), op, Bytes(sector * 512), Bytes(length * 512))
    }

    fn expected() -> Vec<Request> {
        let mut requests = vec![
            sectors(0, Op::Write, 37_766_853, 64),
            sectors(449_518_165, Op::Read, 37_766_917, 14),
            sectors(456_676_896, Op::Read, 0, 1),
        ];
        requests[2].flags = Flags::READAHEAD;
        requests
    }

    #[test]
    fn a_load_is_read_with_its_prose() {
        let text = format!(
            "This file was automatically generated from 'linux-mysql.blktrace.*'\n\n\
             {LICENSE_TEXT}####\n{HEADER}{LINES}"
        );
        let (all, header) = read(&text);
        assert_eq!(all, expected());
        assert_eq!((header.source.as_str(), header.format.as_str()), ("x.load", LOAD));
        assert_eq!(header.license.as_deref(), Some("GNU all-permissive"));
        assert!(header.description.unwrap().contains("linux-mysql.blktrace"));
        assert_eq!(header.columns, Columns::default());
        assert_eq!(header.volumes.len(), 1);
        assert!(header.losses.is_empty() && header.guesses.is_empty());
    }

    #[test]
    fn prose_and_column_headers_may_stand_in_the_middle() {
        let text = format!("{HEADER}some prose\n{HEADER}{LINES}more prose\n\n{HEADER}####\n");
        let (all, header) = read(&text);
        assert_eq!(all, expected());
        assert!(header.losses.is_empty() && header.guesses.is_empty());
    }

    #[test]
    fn without_a_column_header_the_columns_are_taken_and_told() {
        let (all, header) = read("0.5 ; 8 ; 1 ; R\r\n1;16;1;w;0.0\r\n2.000000000 ;8 ; 1 ; WSM");
        assert_eq!(all[0], sectors(500_000_000, Op::Read, 8, 1));
        assert_eq!(all[1], sectors(1_000_000_000, Op::Write, 16, 1));
        assert_eq!(all[2].flags, Flags::SYNC | Flags::META);
        let told: Vec<_> =
            header.guesses.iter().map(|note| (note.count, &note.what[..7])).collect();
        assert_eq!(told, [(1, "missing"), (2, "starts ")]);
    }

    #[test]
    fn a_line_that_does_not_read_is_counted_with_its_text() {
        let junk = [
            "1.0 ; x ; 8 ; R ; 0.0 ; 0.0",
            "1.0 ; 8 ; 8",
            "; ; ;",
            "1.0 ; 8 ; 8 ; Q ; 0.0 ; 0.0",
            "1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0 ; 7",
            "1.0 ; 8 ; 8 ; R ; 0.0 ; 18446744073709551615.999000000",
            "18446744073709551615.999000000 ; 8 ; 8 ; R ; 0.0 ; 0.0",
            "1.0 ; -8 ; 8 ; R ; 0.0 ; 0.0",
            "1.0 ; 8 ; 8 ; F ; 0.0 ; 0.0",
        ];
        let others = "-1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0
            1.0 ; 8 ; 8 ; R ; -0.000001 ; 0.0
            1.0 ; 8 ; 0 ; R ; 0.0 ; 0.0
            1.0 ; 18446744073709551616 ; 8 ; R ; 0.0 ; 0.0
            1.0 ; 36028797018963968 ; 8 ; R ; 0.0 ; 0.0
            1.0 ; 36028797018963967 ; 1 ; R ; 0.0 ; 0.0
            1.0 ; 0 ; 0 ; F ; 0.0 ; 0.0\n";
        let (all, header) = read(&format!("{HEADER}{LINES}{}\n{others}", junk.join("\n")));
        assert_eq!(all.len(), 4);
        assert_eq!(all[3].op, Op::Flush);
        let losses = &header.losses;
        assert_eq!(losses.count_of(JUNK), junk.len() as u64);
        assert_eq!(losses.iter().next().unwrap().examples[0], format!("line 5: {}", junk[0]));
        assert_eq!(losses.count_of(NEGATIVE_TIME), 2);
        assert_eq!(losses.count_of(ZERO_LENGTH), 1);
        assert_eq!(losses.count_of(TOO_FAR), 3);
    }

    #[test]
    fn a_strict_reader_stops_at_the_first_such_line_and_shows_it() {
        let text = format!("{HEADER}{LINES}  1.0 ; 8 ; eight ; R\n");
        let error = read_with(text.as_bytes(), true).unwrap_err();
        let TraceError::Line { line, column, text, .. } = &error else { panic!("{error}") };
        assert_eq!((*line, *column, text.as_str()), (5, 13, "1.0 ; 8 ; eight ; R"));
        assert!(error.to_string().starts_with("some/x.load:5:13: the length"), "{error}");
        assert!(read_with(format!("{HEADER}{LINES}").as_bytes(), true).is_ok());
    }

    #[test]
    fn an_endless_line_is_one_lost_line() {
        let long = "1 ; ".repeat(100_000);
        let (all, header) = read(&format!("{HEADER}{LINES}{long}\n3.000000000 ; 1 ; 1 ; R\n"));
        assert_eq!(all.len(), 4);
        assert_eq!(header.losses.count_of(TOO_LONG), 1);
    }

    #[test]
    fn a_load_behind_another_follows_it_without_a_gap() {
        let (all, header) = read(
            "0.250000000 ; 8 ; 1 ; R\n3.500000000 ; 8 ; 1 ; R\n\
            2.000000000 ; 16 ; 1 ; R\n2.500000000 ; 24 ; 1 ; R\n0.000000000 ; 8 ; 1 ; R\n",
        );
        let millis: Vec<_> = all.iter().map(|request| request.issue.0 / 1_000_000).collect();
        assert_eq!(millis, [250, 3500, 3500, 4000, 4000]);
        assert_eq!(header.guesses.count_of(BACKSHIFTS), 2);
    }

    #[test]
    fn disorder_within_a_second_is_sorted_and_told() {
        let (all, header) = read("1.300000000 ; 8 ; 1 ; R\n1.100000000 ; 16 ; 1 ; R\n");
        assert_eq!(all[0].offset, Bytes(16 * 512));
        assert_eq!(header.guesses.count_of(crate::transform::sort::SORTED), 1);
        assert_eq!(header.guesses.count_of(BACKSHIFTS), 0);
    }

    #[test]
    fn a_guessed_duration_is_a_latency() {
        let (all, header) = read(
            "start ; sector; length ; op ;  replay_delay=0 ; replay_duration (guessed)\n\
             1.000000000 ; 8 ; 1 ; R ; 0.0 ; 0.000250000\n2.000000000 ; 8 ; 1 ; R ; 0.0\n",
        );
        assert_eq!(header.columns, Columns { latency: true, ..Columns::default() });
        assert_eq!(all[0].latency, Some(Nanos::from_micros(250)));
        assert_eq!(all[1].latency, None);
    }

    const RESULT_TEXT: &str = "\
blkreplay on /dev/loop6 started at Sat Nov 21 08:48:30 2026
INFO: device=/dev/loop6 has blocks=16777216 (8388608 kB).
orig_start ; sector; length ; op ;  replay_delay; replay_duration
   0.449518165 ;    4212485 ;  14 ; w ;   0.000135895 ;   0.000318023
   0.000000000 ;    4212421 ;  64 ; R ;   0.000111926 ;   0.000529488
ERROR: bad RIO -1 / 22 on 0 at pos 65 (Invalid argument)
   2.000000000 ;    4212421 ;  64 ; R ;   18446744073709551615.111926000 ;   0.000529488
   1.000000000 ;    4212421 ;  64 ; R ;   0.000111926 ;   0.000529488
--------------------------------------
# total     requests          :   1617
wraparound factor:    3.790
INFO: measurement results are thus FAKE results!!!
";

    #[test]
    fn a_result_has_what_was_measured_and_comes_in_order() {
        let (all, header) = read(RESULT_TEXT);
        assert_eq!(header.format, RESULT);
        assert_eq!(header.columns, Columns { measured: true, ..Columns::default() });
        assert_eq!(all.len(), 3);
        let first = all[0].measured.unwrap();
        assert!(!first.pushed_back && all[1].measured.unwrap().pushed_back);
        assert_eq!(all[1].op, Op::Write);
        assert_eq!(first.scheduled, Nanos(0));
        assert_eq!(first.lateness(), Some(Nanos(111_926)));
        assert_eq!(first.service_time(), Some(Nanos(529_488)));
        assert_eq!(first.outcome, Outcome::Ok);
        assert_eq!(header.losses.count_of(JUNK), 1);
        assert_eq!(header.losses.count_of(REMARKS[0].1), 1);
        assert_eq!(header.losses.count_of(REMARKS[5].1), 1);
        assert_eq!(header.guesses.count_of(crate::transform::sort::SORTED), 1);
    }

    #[test]
    fn a_load_behind_a_result_has_no_measurement_made_up() {
        let (all, header) =
            read(&format!("{RESULT_TEXT}{HEADER}9.000000000 ; 1 ; 1 ; R ; 0.0 ; 0.0\n"));
        assert_eq!(all.len(), 4);
        assert_eq!(all[3].measured, None);
        assert!(header.losses.iter().any(|note| note.what.contains("another kind")));
    }

    #[test]
    fn a_file_without_a_request_is_an_error_that_says_so() {
        let error = read_with(HEADER.as_bytes(), false).unwrap_err().to_string();
        assert!(error.contains("no request in its 1 lines"), "{error}");
    }

    fn long_load() -> String {
        let lines = (0..50_000_u64).map(|n| {
            let sector = n.wrapping_mul(2_654_435_761) % 60_000_000;
            format!("{:7}.{:09} ; {sector:12} ;    8 ; R ; 0.0 ; 0.0\n", n / 100, n % 100)
        });
        std::iter::once(HEADER.to_owned()).chain(lines).collect()
    }

    #[test]
    fn a_gzip_file_cut_short_gives_what_it_held_and_says_where_it_ends() {
        let whole = gzip(long_load().as_bytes());
        let (all, header) = read_with(&whole, false).unwrap();
        assert_eq!((all.len(), header.damage), (50_000, None));

        let cut = &whole[..whole.len() / 2];
        let (part, header) = read_with(cut, false).unwrap();
        assert!(part.len() > 20_000 && all.starts_with(&part));
        let damage = header.damage.unwrap();
        let end = format!(
            "breaks off before its end at byte {}, behind line {} and {} requests",
            cut.len(),
            part.len() + 1,
            part.len()
        );
        assert!(damage.contains(&end), "{damage}");
        assert!(matches!(read_with(cut, true), Err(TraceError::Binary { .. })));
    }

    #[test]
    fn a_corrupt_gzip_file_is_damaged_and_not_just_short() {
        let mut bytes = gzip(long_load().as_bytes());
        let middle = bytes.len() / 2;
        bytes[middle..middle + 100].fill(0xff);
        let (part, header) = read_with(&bytes, false).unwrap();
        assert!(part.len() > 20_000, "{}", part.len());
        assert!(header.damage.unwrap().contains("corrupt"));
    }

    #[test]
    fn a_load_that_was_written_looks_like_those_that_are_published() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.load");
        let header = Header {
            source: "a;b".to_owned(),
            license: Some("GNU all-permissive".to_owned()),
            ..Header::default()
        };
        let mut sink = create(&path, &header).unwrap();
        let mut batch = Batch::new(Columns::default());
        batch.extend(&expected());
        sink.write(&batch).unwrap();
        assert!(sink.finish(&header).unwrap().is_empty());
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with(&format!("{HEADER}{LINES}")), "{text}");
        assert_eq!(read(&text).1.license, header.license);
    }

    #[test]
    fn what_a_load_cannot_say_is_counted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.load.gz");
        let header = Header::default();
        let mut sink = create(&path, &header).unwrap();
        let mut batch = Batch::new(Columns { latency: true, ..Columns::default() });
        let plain = sectors(5, Op::Write, 8, 8);
        let latency = Some(Nanos(1));
        for request in [
            Request { latency, ..plain },
            Request { offset: Bytes(4095), length: Bytes(2), flags: Flags::FUA, ..plain },
            Request { op: Op::Flush, ..plain },
            Request { op: Op::Discard, ..plain },
            Request { op: Op::WriteZeroes, ..plain },
            Request { op: Op::Zone, ..plain },
            Request { volume: VolumeId(1), ..plain },
            Request { length: Bytes(0), ..plain },
            Request { issue: Nanos(-1), ..plain },
            Request { length: Bytes(1 << 40), ..plain },
        ] {
            batch.push(&request);
        }
        sink.write(&batch).unwrap();
        let lost = sink.finish(&header).unwrap();
        for what in &LOST[..LOST.len() - 1] {
            assert_eq!(lost.count_of(what), 1, "{what}");
        }
        let (all, _) = read_with(&fs::read(&path).unwrap(), false).unwrap();
        assert_eq!(all, [plain, sectors(5, Op::Write, 7, 2)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_a_load_can_say_is_read_as_it_was_written(
            mut requests in proptest::collection::vec(any_request(), 1..100),
            gzipped in any::<bool>(),
        ) {
            for request in &mut requests {
                let op = if request.op == Op::Read { Op::Read } else { Op::Write };
                let (sector, count) = (request.offset.sectors(), 1 + request.length.sectors() / 2);
                let flags = request.flags & Flags::READAHEAD;
                *request = sectors(request.issue.0, op, sector, count);
                request.flags = if op == Op::Read { flags } else { Flags::empty() };
            }
            requests.sort_by_key(|request| request.issue);
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(if gzipped { "x.load.gz" } else { "x.load" });
            let mut sink = create(&path, &Header::default()).unwrap();
            let mut batch = Batch::new(Columns::default());
            batch.extend(&requests);
            sink.write(&batch).unwrap();
            prop_assert!(sink.finish(&Header::default()).unwrap().is_empty());
            let bytes = fs::read(&path).unwrap();
            prop_assert_eq!(Codec::of_first_bytes(&bytes) == Codec::Gzip, gzipped);
            prop_assert_eq!(read_with(&bytes, true).unwrap().0, requests);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..500), strict in any::<bool>(),
        ) {
            let _ = (recognise(&bytes), read_with(&bytes, strict));
        }

        #[test]
        fn no_text_of_columns_makes_the_reader_panic(
            lines in proptest::collection::vec("[0-9.;RWra -]{0,40}", 0..50),
            strict in any::<bool>(),
            head in proptest::sample::select(vec!["", HEADER, RESULT_TEXT]),
        ) {
            let text = format!("{head}{LINES}{}", lines.join("\n"));
            let _ = read_with(text.as_bytes(), strict);
        }

        #[test]
        fn no_damage_to_a_file_makes_the_reader_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in any::<prop::sample::Index>(),
            gzipped in any::<bool>(), is_result in any::<bool>(),
        ) {
            let text = if is_result { RESULT_TEXT } else { LINES };
            let mut bytes = if gzipped { gzip(text.as_bytes()) } else { text.as_bytes().to_vec() };
            for (place, value) in changes {
                let place = place.index(bytes.len());
                bytes[place] = value;
            }
            bytes.truncate(1 + cut.index(bytes.len()));
            let _ = read_with(&bytes, false);
        }
    }
}
