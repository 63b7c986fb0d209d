//! Lines made into requests.

use super::clock::Clock;
use super::layout::{Column, Layout};
use crate::formats::import::{Fault, Intake, LineParser, Said, Told};
use crate::header::NoteKind;
use crate::request::{Flags, Op, Origin, Request};
use crate::text::{Cursor, rwbs};
use crate::units::{Bytes, Nanos};

/// The sector that some versions print for a request without one.
const NO_SECTOR: u64 = u64::MAX;

const NO_PLACE: Fault = Fault::lost(
    1,
    "requests of which no disk or sector is known",
    "the line does not tell where the request went",
);

/// The parts of a line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parts<'a> {
    /// The columns before the name of the process, and that name.
    pub(super) before: &'a [u8],
    pid: &'a [u8],
    /// The name of the disk; empty where the line has none.
    disk: &'a [u8],
    operation: &'a [u8],
    sector: &'a [u8],
    bytes: &'a [u8],
    queue: &'a [u8],
    latency: &'a [u8],
}

impl Parts<'_> {
    /// Whether the line is one of biosnoop even if no heading says so.
    pub(super) fn is_certain(&self) -> bool {
        let has_point = |text: &[u8]| {
            memchr::memchr(b'.', text).is_some()
                && text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        };
        let is_whole = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let before = self.before.trim_ascii_start();
        let time = before.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        has_point(self.latency)
            && has_point(time)
            && is_whole(self.bytes)
            && is_whole(self.pid)
            && rwbs(self.operation).is_some()
            && before.len() > time.len()
    }
}

/// Takes a line apart from its end, because the name of the process may have blanks. `None` if
/// there are too few words.
#[inline]
pub(super) fn split<'a>(line: &'a [u8], layout: &Layout) -> Option<Parts<'a>> {
    let mut parts = Parts { before: line.trim_ascii_end(), ..Parts::default() };
    for column in layout.behind.iter().rev() {
        let word = last_word(&mut parts.before)?;
        match column {
            Column::Disk if word.iter().all(u8::is_ascii_digit) => {
                // A disk's name is never a number alone: the disk is missing, and the number is the
                // pid.
                parts.pid = word;
                return Some(parts);
            }
            Column::Disk => parts.disk = word,
            Column::Pid => parts.pid = word,
            Column::Operation => parts.operation = word,
            Column::Sector => parts.sector = word,
            Column::Bytes => parts.bytes = word,
            Column::Queue => parts.queue = word,
            Column::Latency => parts.latency = word,
            Column::Time | Column::Start | Column::End | Column::Other => {}
        }
    }
    Some(parts)
}

/// Cuts the last word off `text`.
#[inline]
fn last_word<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let trimmed = text.trim_ascii_end();
    let from = trimmed.iter().rposition(|byte| *byte == b' ' || *byte == b'\t');
    let (rest, word) = trimmed.split_at(from.map_or(0, |at| at + 1));
    *text = rest;
    (!word.is_empty()).then_some(word)
}

/// Reads the lines one by one.
pub(super) struct Parser {
    layout: Layout,
    has_queue: bool,
    clock: Clock,
    is_dated: bool,
    /// Whether other letters than `R` and `W` were seen.
    letters: bool,
    reads: u64,
    empty_reads: u64,
    unknown_queue: u64,
}

impl Parser {
    pub(super) fn new(layout: Layout) -> Self {
        let has_queue = layout.has(Column::Queue);
        Self {
            layout,
            has_queue,
            clock: Clock::default(),
            is_dated: false,
            letters: false,
            reads: 0,
            empty_reads: 0,
            unknown_queue: 0,
        }
    }

    /// Handles a known line that is no request.
    fn other(&mut self, line: &[u8], intake: &mut Intake) -> bool {
        if let Some(layout) = Layout::of(line) {
            if layout.suffices().is_ok() {
                self.has_queue = layout.has(Column::Queue);
                self.layout = layout;
            }
            return true;
        }
        let line = line.trim_ascii();
        for begin in [&b"Possibly lost "[..], b"Lost ", b"lost "] {
            if let Some(rest) = line.strip_prefix(begin)
                && let Ok(samples) = Cursor::new(rest).integer()
            {
                intake.header.losses.add(
                    NoteKind::LostByRecorder.of("requests lost by the recorder"),
                    samples,
                    None,
                );
                return true;
            }
        }
        line.starts_with(b"Tracing") || line.starts_with(b"Ending tracing") || line == b"^C"
    }

    /// The instants of issue and completion, and the column; the issue is known only with `STARTs`.
    #[inline]
    fn instants(&mut self, text: &[u8]) -> Result<(Option<i64>, Option<i64>, usize), Fault> {
        let mut cursor = Cursor::new(text);
        let (mut issue, mut completion) = (None, None);
        for column in &self.layout.before {
            let unit_ns = if *column == Column::Time { self.layout.unit_ns } else { 1_000_000_000 };
            cursor.skip_blanks();
            let at = cursor.column();
            match column {
                Column::Time | Column::Start | Column::End => {
                    if *column == Column::Time && Clock::is_dated(cursor.rest()) {
                        self.is_dated = true;
                    }
                    let time = self.clock.read(&mut cursor, unit_ns);
                    let time = Some(time.ok_or(Fault::junk(at, "no time here"))?);
                    let place = if *column == Column::Start { &mut issue } else { &mut completion };
                    *place = time;
                }
                _ => {
                    cursor.word();
                }
            }
        }
        Ok((issue, completion, cursor.column() - 1))
    }
}

#[inline]
fn milliseconds(word: &[u8]) -> Result<i64, Fault> {
    let mut cursor = Cursor::new(word);
    match cursor.decimal(1_000_000) {
        Ok(span) if cursor.rest().is_empty() => Ok(span),
        _ => Err(Fault::junk(1, "the latency is no number of milliseconds")),
    }
}

#[inline]
fn whole(word: &[u8], reason: &'static str) -> Result<u64, Fault> {
    let mut cursor = Cursor::new(word);
    match cursor.integer() {
        Ok(value) if cursor.rest().is_empty() => Ok(value),
        _ => Err(Fault::junk(1, reason)),
    }
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let starts_otherwise = !line.trim_ascii_start().first().is_some_and(u8::is_ascii_digit);
        if starts_otherwise && self.other(line, intake) {
            return Ok(Said::Other);
        }
        let parts = split(line, &self.layout).ok_or(Fault::junk(1, "too few columns"))?;
        let latency = milliseconds(parts.latency)?;
        let bytes = whole(parts.bytes, "the size is no whole number")?;
        let sector = match parts.sector {
            b"-1" => NO_SECTOR,
            word => whole(word, "the sector is no whole number")?,
        };
        let (mut issue, completion, used) = self.instants(parts.before)?;
        let Some((mut op, mut flags)) = rwbs(parts.operation) else {
            let reason = "the letters name no request";
            return Err(Fault::lost(1, "commands that are no requests", reason));
        };
        let says_little = matches!(parts.operation, b"R" | b"W");
        self.letters |= !says_little;
        if bytes == 0 && (op == Op::Flush || flags.contains(Flags::PREFLUSH)) {
            op = Op::Flush;
            flags.remove(Flags::PREFLUSH);
        } else if bytes == 0 && says_little && op == Op::Read && !parts.disk.is_empty() {
            op = Op::Flush;
            self.empty_reads += 1;
        }
        if parts.disk.is_empty() || sector == NO_SECTOR && op != Op::Flush {
            return Err(NO_PLACE);
        }
        let queued = match parts.queue {
            _ if !self.has_queue => 0,
            word if word.starts_with(b"-") => {
                self.unknown_queue += 1;
                0
            }
            word => milliseconds(word)?,
        };
        let beyond = Fault::junk(1, "this instant is beyond 292 years");
        if issue.is_none() {
            let issued = completion.and_then(|completion| completion.checked_sub(latency));
            issue = issued.and_then(|issued| issued.checked_sub(queued));
        }
        let issue = issue.ok_or(beyond)?;
        let span = completion.map_or(Some(latency), |completion| completion.checked_sub(issue));
        let offset = match op {
            Op::Flush => Bytes::ZERO,
            _ => Bytes::from_sectors(sector).ok_or(Fault::junk(1, "no disk has such a sector"))?,
        };
        let mut request = Request::new(Nanos(issue), op, offset, Bytes(bytes));
        request.flags = flags;
        request.latency = span.filter(|span| *span >= 0).map(Nanos);
        let pid = whole(parts.pid, "").ok().and_then(|pid| u32::try_from(pid).ok());
        request.origin = Some(Origin { pid: pid.unwrap_or_default(), cpu: 0 });
        request.volume = intake.volume(parts.disk)?;
        intake.push(&request)?;
        self.reads += u64::from(op == Op::Read);
        let name = parts.before.get(used..).unwrap_or_default().trim_ascii();
        if let Some(pid) = pid
            && name != b"?"
        {
            intake.process(pid, name);
        }
        Ok(Said::Request)
    }

    fn end(&mut self, intake: &mut Intake) {
        let issue = if self.has_queue { "inserted (I)" } else { "issued to the driver (D)" };
        intake.header.event = Some(issue.to_owned());
    }

    fn tell(&self, told: &mut Told) {
        let guesses = &mut told.guesses;
        if !self.letters {
            let what = NoteKind::Assumed
                .of("reads that may be anything but a write, as older versions print them");
            guesses.add(what, self.reads, None);
        }
        guesses.add(
            NoteKind::Assumed.of("reads of no length taken for flushes"),
            self.empty_reads,
            None,
        );
        let what = NoteKind::Assumed.of("unknown times in the queue, taken to be none");
        guesses.add(what, self.unknown_queue, None);
        if self.is_dated {
            guesses.add(NoteKind::Assumed.of("dates without a zone, taken to be UTC"), 1, None);
        }
    }
}
