//! One line of blkparse: an event, or one of the other lines.

use super::UNKNOWN_PROCESS;
use super::letters::categories;
use crate::formats::blktrace::lines::{Parsed, Tongue, bytes, expect, number, process, spaced};
use crate::formats::blktrace::record::{EAGAIN, Event, kind};
use crate::formats::import::Fault;
use crate::header::{NoteKind, Topic};
use crate::text::Cursor;

/// The latest instant that is accepted, in nanoseconds, as for binary recordings.
const TIME_MAX: i64 = 1 << 62;

/// The language of blkparse's lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blkparse;

impl Tongue for Blkparse {
    const MISSING: Topic<'static> =
        NoteKind::LostByRecorder.of("events that blkparse says are missing");
    // blkparse already counts from the first event, so instants are kept.
    const START: Option<u64> = Some(0);
    const NAMELESS: &'static [u8] = UNKNOWN_PROCESS;

    #[inline]
    fn parse<'a>(&mut self, line: &'a [u8], in_statistics: bool) -> Result<Parsed<'a>, Fault> {
        parse(line, in_statistics)
    }
}

/// The beginnings of lines of the statistics, without the blanks before.
const PROSE: [&[u8]; 19] = [
    b"CPU",
    b"Total (",
    b"Reads Queued:",
    b"Read Dispatches:",
    b"Reads Requeued:",
    b"Reads Completed:",
    b"Read Merges:",
    b"Read depth:",
    b"PC Reads Queued:",
    b"PC Read Disp.:",
    b"PC Reads Req.:",
    b"PC Reads Compl.:",
    b"PC Read depth:",
    b"IO unplugs:",
    b"Allocation wait:",
    b"Dispatch wait:",
    b"Throughput (",
    b"Events (",
    b"Input file ",
];

/// Reads a line that is not blank. In the statistics at the end (`in_statistics`) any line may be a
/// heading.
#[inline]
pub(super) fn parse(line: &[u8], in_statistics: bool) -> Result<Parsed<'_>, Fault> {
    let mut cursor = Cursor::new(line);
    cursor.skip_blanks();
    if !cursor.peek().is_some_and(|byte| byte.is_ascii_digit()) {
        return prose(line.trim_ascii(), in_statistics);
    }
    let major = number(&mut cursor, "no major number of a device here")?;
    expect(&mut cursor, b',', "no comma behind the major number of the device")?;
    let minor = number(&mut cursor, "no minor number of a device here")?;
    if major >> 12 != 0 || minor >> 20 != 0 {
        return Err(Fault::junk(cursor.column(), "no device has such a number"));
    }
    let cpu = spaced(&mut cursor, "no processor here")?;
    // The sequence number; blkparse prints it with a sign.
    cursor.skip_blanks();
    cursor.skip(b'-');
    let sequence = number(&mut cursor, "no sequence number here")?;
    cursor.skip_blanks();
    let column = cursor.column();
    let (time, _) = cursor.seconds().map_err(|_| Fault::junk(column, "no instant here"))?;
    if time > TIME_MAX {
        let loss = "lines with a time beyond 146 years";
        return Err(Fault::lost(column, loss, "the time is too large"));
    }
    let pid = spaced(&mut cursor, "no process here")?;
    let action = cursor.word();
    cursor.skip_blanks();
    let column = cursor.column();
    let letters = cursor.word();
    let Some(bits) = categories(letters) else {
        return Err(Fault::junk(column, "these letters name no operation (RWBS)"));
    };
    let kind = match action {
        b"Q" => kind::QUEUE,
        b"I" => kind::INSERT,
        b"D" => kind::ISSUE,
        b"C" => kind::COMPLETE,
        b"R" => kind::REQUEUE,
        b"X" => kind::SPLIT,
        b"A" | b"B" | b"F" | b"G" | b"M" | b"P" | b"S" | b"T" | b"U" | b"UT" | b"m" => {
            return Ok(Parsed::Ignored);
        }
        _ => return Err(Fault::junk(column, "this letter names no event of a request")),
    };
    let (Ok(cpu), Ok(pid)) = (u32::try_from(cpu), u32::try_from(pid)) else {
        return Err(Fault::junk(column, "a processor or a process beyond 32 bits"));
    };
    let mut event = Event {
        time: time.unsigned_abs(),
        sector: 0,
        bytes: 0,
        categories: bits,
        sequence: sequence as u32,
        pid,
        device: (major as u32) << 20 | minor as u32,
        cpu,
        kind,
        failed: false,
        refused: false,
    };
    cursor.skip_blanks();
    if !place(&mut cursor, &mut event)? {
        return Ok(Parsed::Passthrough(kind));
    }
    let within = process(cursor.rest());
    if event.kind == kind::COMPLETE {
        // In a completion the brackets hold the error: 16 bits of it, as a number without a sign.
        let error = std::str::from_utf8(within).ok().and_then(|text| text.parse::<i32>().ok());
        let error = error.unwrap_or(0) as i16;
        (event.failed, event.refused) = (error != 0, error == -EAGAIN);
    }
    Ok(Parsed::Event(event, within))
}

/// Reads the range of the event; answers `false` for a command passed through to the device.
#[inline]
fn place(cursor: &mut Cursor<'_>, event: &mut Event) -> Result<bool, Fault> {
    let is_end = matches!(event.kind, kind::COMPLETE | kind::REQUEUE);
    match cursor.peek() {
        Some(byte) if byte.is_ascii_digit() => {}
        // Without a range the line has only the process, or a duration and the process. Completions
        // and requeues always have a sector, except those of commands.
        Some(b'[' | b'(') => return Ok(!is_end),
        _ => return Err(Fault::junk(cursor.column(), "no sector here")),
    }
    event.sector = number(cursor, "no sector here")?;
    cursor.skip_blanks();
    match cursor.peek() {
        Some(b'+') => {
            cursor.skip(b'+');
            let sectors = spaced(cursor, "no number of sectors here")?;
            event.bytes = bytes(sectors, cursor.column())?;
            Ok(true)
        }
        Some(b'/') if event.kind == kind::SPLIT => {
            cursor.skip(b'/');
            let rest = spaced(cursor, "no sector of the rest here")?;
            // blkparse prints the low 32 bits alone.
            let sectors = (rest as u32).wrapping_sub(event.sector as u32);
            event.bytes = bytes(u64::from(sectors), cursor.column())?;
            Ok(true)
        }
        // A completion or requeue without a range.
        _ if is_end => Ok(true),
        // A command has a number of bytes instead of a sector.
        Some(b'(' | b'[') | None => Ok(false),
        _ => Err(Fault::junk(cursor.column(), "no range here")),
    }
}

fn prose(line: &[u8], in_statistics: bool) -> Result<Parsed<'_>, Fault> {
    if let Some(rest) = line.strip_prefix(b"Skips: ") {
        // `Skips: 2 forward (1,234 -   0.5%)`
        let from = memchr::memchr(b'(', rest).map_or(rest.len(), |at| at + 1);
        let digits = rest[from..].iter().take_while(|byte| !byte.is_ascii_whitespace());
        let skipped = digits
            .filter(|byte| byte.is_ascii_digit())
            .fold(0_u64, |sum, byte| sum.saturating_mul(10).saturating_add(u64::from(byte - b'0')));
        return Ok(Parsed::Skipped(skipped));
    }
    if in_statistics || PROSE.iter().any(|begin| line.starts_with(begin)) {
        return Ok(Parsed::Prose);
    }
    Err(Fault::junk(1, "no device and no statistics of blkparse"))
}
