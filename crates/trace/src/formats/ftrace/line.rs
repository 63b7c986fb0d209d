//! A line of tracefs, trace-cmd or perf: an event of the block layer, or other text.

use rustc_hash::FxHashSet;

use crate::formats::blktrace::lines::{Parsed, Tongue, bytes, expect, number, process, spaced};
use crate::formats::blktrace::record::{EAGAIN, Event, category, kind};
use crate::formats::import::Fault;
use crate::formats::recording::rwbs;
use crate::header::{NoteKind, Topic};
use crate::text::Cursor;

/// The latest accepted instant, in nanoseconds: the same as for binary recordings.
const TIME_MAX: i64 = 1 << 62;

/// The number of devices with a driver that are remembered.
const DRIVERS_MAX: usize = 1 << 14;

/// The line of tracefs with the numbers of events in the buffer and of all written events.
const ENTRIES: &[u8] = b"# entries-in-buffer/entries-written:";

/// Lines other than events: comments, trace-cmd's own lines.
const PROSE: [&[u8]; 4] = [b"#", b"cpus=", b"version = ", b"CPU "];

/// The facts about a text that decide the meaning of its further lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Dialect {
    /// Devices whose requests are issued to a driver: for these `block_rq_complete` is the
    /// completion, and that of a bio is another event of the same request.
    drivers: FxHashSet<u32>,
    /// Events that the heading reports as overwritten and that no line has reported yet.
    overwritten: u64,
}

impl Tongue for Dialect {
    const MISSING: Topic<'static> =
        NoteKind::LostByRecorder.of("events that the tracer says it lost or overwrote");
    // Instants count from the start of the host.
    const START: Option<u64> = None;
    const NAMELESS: &'static [u8] = b"<...>";

    #[inline]
    fn parse<'a>(&mut self, line: &'a [u8], _in_statistics: bool) -> Result<Parsed<'a>, Fault> {
        let Some(head) = Head::of(line) else {
            return self.beside(line);
        };
        let Head { mut cursor, before, time, event } = head;
        let name = event.strip_prefix(b"block:").unwrap_or(event);
        let (kind, is_bio_end) = match name {
            b"block_bio_queue" => (kind::QUEUE, false),
            b"block_rq_insert" => (kind::INSERT, false),
            b"block_rq_issue" => (kind::ISSUE, false),
            b"block_rq_complete" => (kind::COMPLETE, false),
            b"block_bio_complete" => (kind::COMPLETE, true),
            b"block_rq_requeue" => (kind::REQUEUE, false),
            b"block_split" => (kind::SPLIT, false),
            _ => return Ok(Parsed::Ignored),
        };
        if time > TIME_MAX {
            let loss = "lines with a time beyond 146 years";
            return Err(Fault::lost(before.len() + 1, loss, "the time is too large"));
        }
        let Some((pid, cpu)) = origin(before) else {
            return Err(Fault::junk(1, "no process and no processor here"));
        };
        let device = device(&mut cursor)?;
        let (time, sequence) = (time.unsigned_abs(), 0);
        let mut event = Event { time, sequence, pid, device, cpu, kind, ..Event::default() };
        cursor.skip_blanks();
        let column = cursor.column();
        let letters = cursor.word();
        range(&mut cursor, &mut event)?;
        event.categories = rwbs::categories(letters, event.bytes);
        if event.categories == 0 {
            return Err(Fault::junk(column, "these letters name no operation (RWBS)"));
        }
        if event.categories & category::PASSTHROUGH != 0 {
            return Ok(Parsed::Passthrough(kind));
        }
        let within = process(cursor.rest());
        if kind == kind::COMPLETE {
            let error = std::str::from_utf8(within).ok().and_then(|text| text.parse::<i32>().ok());
            let error = error.unwrap_or(0);
            (event.failed, event.refused) = (error != 0, error == -i32::from(EAGAIN));
        }
        if kind == kind::ISSUE && self.drivers.len() < DRIVERS_MAX {
            self.drivers.insert(device);
        }
        if is_bio_end && self.drivers.contains(&device) {
            return Ok(Parsed::Ignored);
        }
        Ok(Parsed::Event(event, within))
    }
}

impl Dialect {
    /// A line that is not an event.
    #[cold]
    fn beside<'a>(&mut self, line: &[u8]) -> Result<Parsed<'a>, Fault> {
        let text = line.trim_ascii();
        if let Some(rest) = text.strip_prefix(ENTRIES) {
            // `# entries-in-buffer/entries-written: 164/164   #P:2`
            let mut cursor = Cursor::new(rest);
            let kept = spaced(&mut cursor, "no number of entries here")?;
            expect(&mut cursor, b'/', "no number of written entries here")?;
            let written = number(&mut cursor, "no number of written entries here")?;
            self.overwritten = written.saturating_sub(kept);
            return Ok(Parsed::Skipped(self.overwritten));
        }
        // `CPU:1 [LOST 123 EVENTS]` of tracefs, `CPU:1 [123 EVENTS DROPPED]` of trace-cmd.
        if text.starts_with(b"CPU:") && text.ends_with(b"]") {
            let digits = text.split(|byte| matches!(byte, b' ' | b'['));
            let number = |word| std::str::from_utf8(word).ok()?.parse().ok();
            let lost = digits.rev().find_map(number).unwrap_or(1);
            // Events that the heading reported are not counted again.
            let told = self.overwritten.min(lost);
            self.overwritten -= told;
            return Ok(Parsed::Skipped(lost - told));
        }
        let is_frame = || {
            // Call chains that perf prints below an event: an address in hexadecimal digits.
            let word = text.split(u8::is_ascii_whitespace).next().unwrap_or_default();
            line.starts_with(b"\t") && word.len() > 3 && word.iter().all(u8::is_ascii_hexdigit)
        };
        if PROSE.iter().any(|begin| text.starts_with(begin)) || is_frame() {
            return Ok(Parsed::Prose);
        }
        Err(Fault::junk(1, "no instant and no event of Linux here"))
    }
}

/// The parts of an event's line up to the event's name.
struct Head<'a> {
    /// The text with process, processor and flags.
    before: &'a [u8],
    /// The instant in nanoseconds.
    time: i64,
    event: &'a [u8],
    /// The text behind the event's name.
    cursor: Cursor<'a>,
}

impl<'a> Head<'a> {
    /// Finds the first instant that is followed by the name of an event.
    #[inline]
    fn of(line: &'a [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(line);
        loop {
            cursor.skip_blanks();
            let before = &line[..cursor.column() - 1];
            let word = cursor.word();
            if word.is_empty() {
                return None;
            }
            let Some(time) = word.strip_suffix(b":").and_then(instant) else { continue };
            let mut behind = cursor;
            if let Some(event) = behind.word().strip_suffix(b":").filter(|name| !name.is_empty()) {
                return Some(Self { before, time, event, cursor: behind });
            }
        }
    }
}

/// Seconds with decimals, in nanoseconds.
#[inline]
fn instant(word: &[u8]) -> Option<i64> {
    if !word.first()?.is_ascii_digit() {
        return None;
    }
    let mut cursor = Cursor::new(word);
    let (time, decimals) = cursor.seconds().ok()?;
    (decimals > 0 && cursor.rest().is_empty()).then_some(time)
}

/// Process and processor: `dd-25780   (  25780) [000] d..1.` of tracefs and trace-cmd, possibly
/// after the name of a buffer, and `dd 25780/25781 [000]` of perf, which leaves out the processor
/// if it recorded single processes. A thread counts as its process.
#[inline]
fn origin(before: &[u8]) -> Option<(u32, u32)> {
    let (rest, last) = last_word(before);
    let (rest, cpu) = if let Some(cpu) = in_brackets(last) {
        (rest, cpu)
    } else {
        // Flags may follow the processor.
        let (further, word) = last_word(rest);
        in_brackets(word).map_or((before, 0), |cpu| (further, cpu))
    };
    let mut rest = rest.trim_ascii_end();
    if rest.ends_with(b")") {
        rest = rest[..memchr::memrchr(b'(', rest)?].trim_ascii_end();
    }
    let digits = rest.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (name, pid) = rest.split_at(rest.len() - digits);
    let is_apart = matches!(name.last(), None | Some(b'-' | b'/' | b' ' | b'\t'));
    Some((unsigned(pid).filter(|_| is_apart)?, cpu))
}

fn last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_end();
    let from = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    text.split_at(from)
}

fn in_brackets(word: &[u8]) -> Option<u32> {
    unsigned(word.strip_prefix(b"[")?.strip_suffix(b"]")?)
}

fn unsigned(digits: &[u8]) -> Option<u32> {
    let mut cursor = Cursor::new(digits);
    let number = cursor.integer().ok()?;
    cursor.rest().is_empty().then(|| u32::try_from(number).ok())?
}

/// A device in the form `8,16`, as the kernel's number.
#[inline]
fn device(cursor: &mut Cursor<'_>) -> Result<u32, Fault> {
    let major = spaced(cursor, "no major number of a device here")?;
    expect(cursor, b',', "no comma behind the major number of the device")?;
    let minor = number(cursor, "no minor number of a device here")?;
    if major >> 12 != 0 || minor >> 20 != 0 {
        return Err(Fault::junk(cursor.column(), "no device has such a number"));
    }
    Ok((major as u32) << 20 | minor as u32)
}

/// `65536 () 0 + 128`, `() 0 + 128`, `0 + 128` or `0 / 64`: the bytes of the request and a command
/// in hexadecimal numbers precede the sectors if the event has them.
#[inline]
fn range(cursor: &mut Cursor<'_>, event: &mut Event) -> Result<(), Fault> {
    let mut sector = None;
    cursor.skip_blanks();
    if cursor.peek() != Some(b'(') {
        sector = Some(number(cursor, "no sector here")?);
        cursor.skip_blanks();
    }
    if cursor.skip(b'(') {
        cursor.field(b')');
        sector = Some(spaced(cursor, "no sector here")?);
        cursor.skip_blanks();
    }
    event.sector = sector.unwrap_or_default();
    let sectors = if cursor.skip(b'+') {
        spaced(cursor, "no number of sectors here")?
    } else if event.kind == kind::SPLIT && cursor.skip(b'/') {
        spaced(cursor, "no sector of the rest here")?.saturating_sub(event.sector)
    } else {
        return Err(Fault::junk(cursor.column(), "no range here"));
    };
    event.bytes = bytes(sectors, cursor.column())?;
    Ok(())
}
