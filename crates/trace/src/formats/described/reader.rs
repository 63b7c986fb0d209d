//! Reading lines as they were described.

use std::sync::Arc;

use regex::bytes::CaptureLocations;
use rustc_hash::FxHashMap;

use super::delimited::{Cutter, Separator, unquoted};
use super::description::{Description, Shape};
use super::units::{Field, SLOTS, span};
use super::words::{self, Meant, Words};
use crate::error::TraceError;
use crate::formats::Opening;
use crate::formats::import::{self, Epoch, Facts, Fault, Intake, LineParser, Said};
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Origin, Request};
use crate::stream::Source;
use crate::text::NumberError;
use crate::units::{Bytes, Nanos};
use crate::wording::Wording;

/// The number of first lines from which the separator is guessed.
const LINES_LOOKED_AT: usize = 200;

/// Instants that should count from the start of a trace but are larger than this, ten years in
/// nanoseconds, are taken for those of a clock.
const FAR: i64 = 315_360_000_000_000_000;

/// The fault of an operation given by a number without an explanation.
const NUMBER_OP: &str = "a number says the operation, and nobody said which";

pub(super) const SKIPPED: Topic<'static> =
    NoteKind::LeftOut.of("lines left out, as their operation was said to be skipped");
pub(super) const BAD_LATENCY: Topic<'static> = NoteKind::Beside.of("latencies below zero");

pub(super) const NUMBERED: Topic<'static> =
    NoteKind::Assumed.of("processes known by their name alone, which got numbers from 1 on");
pub(super) const OTHER_COMMAND: Topic<'static> =
    NoteKind::Beside.of("requests with another name of their process than its first one");
const TOO_MANY_COMMANDS: Topic<'static> =
    NoteKind::Beside.of("requests of more processes than 65,536, or with overlong names");

/// The largest number of processes without numbers that get a number, and the longest name in
/// bytes.
const COMMANDS_MAX: usize = 65_536;
const COMMAND_BYTES_MAX: usize = 256;

const TOO_FAR: Fault = Fault::lost(1, "requests that reach beyond 64-bit addresses", "too far");

/// Begins to read the text of `opening`.
pub(super) fn open(
    opening: Opening<'_>,
    description: Arc<Description>,
) -> Result<Box<dyn Source>, TraceError> {
    let unusable = |reason: String, remedy: Wording| TraceError::Unusable {
        path: opening.path.to_owned(),
        reason,
        remedy,
    };
    let for_all = description.words.as_ref().is_some_and(Words::is_for_all);
    if !description.has(Field::Op) && !for_all {
        let reason = "the description does not say where the operation stands".to_owned();
        let remedy = Wording::from("add a column 'op', or say `")
            .set("ops", "read")
            .text("` if all requests are reads");
        return Err(unusable(reason, remedy));
    }
    let look = Look::at(opening.stream.first_bytes(), &description);
    if let Some(word) = look.number_op {
        let reason = format!("the operation is '{word}', and what numbers mean differs by format");
        let remedy = Wording::from("say it: `op:0=read/1=write` among the columns, or `")
            .set("ops", "0=read/1=write")
            .text("`");
        return Err(unusable(reason, remedy));
    }
    let facts = Facts {
        format: "described text",
        columns: description.optional(),
        epoch: description.epoch(),
        whole_seconds: look.whole_seconds,
    };
    let mut remedy = Wording::from(format!(
        "its lines are not as '{}' says; separators are taken to be '{}'",
        description.text,
        look.separator.name(),
    ));
    if look.guessed {
        remedy = remedy.text(" (`").setting("separator").text("` says another)");
    }
    let parser = Parser {
        guessed: look.guessed.then_some(look.separator),
        line: LineReader::new(description, look.separator),
        header: None,
        is_first: true,
        begun: false,
        volume: Vec::new(),
        commands: FxHashMap::default(),
    };
    import::lines(opening, parser, facts, remedy)
}

/// The facts that the first lines show.
struct Look {
    separator: Separator,
    /// Whether the separator is a guess.
    guessed: bool,
    /// A number that stands for an operation, without an explanation.
    number_op: Option<String>,
    /// Whether instants are whole seconds.
    whole_seconds: bool,
}

impl Look {
    fn at(first_bytes: &[u8], description: &Arc<Description>) -> Self {
        const CANDIDATES: [Separator; 5] = [
            Separator::Byte(b','),
            Separator::Byte(b';'),
            Separator::Byte(b'\t'),
            Separator::Byte(b'|'),
            Separator::Blanks,
        ];
        let is_pattern = matches!(description.shape, Shape::Pattern(_));
        let said = description.separator.or(is_pattern.then_some(CANDIDATES[0]));
        let candidates = said.map_or(CANDIDATES.to_vec(), |said| vec![said]);
        let mut best = (0, None);
        for separator in candidates {
            let seen = Seen::of(first_bytes, LineReader::new(Arc::clone(description), separator));
            if best.1.is_none() || seen.lines > best.0 {
                best = (seen.lines, Some((separator, seen)));
            }
        }
        let (separator, seen) = best.1.unwrap_or((CANDIDATES[0], Seen::default()));
        let seconds = description.time.or(description.end).is_some_and(|u| u.ns == 1_000_000_000);
        Self {
            separator,
            guessed: said.is_none(),
            number_op: seen.number_op,
            whole_seconds: seconds && seen.lines > 1 && seen.whole_seconds,
        }
    }
}

/// The facts that the first lines show with one separator.
#[derive(Default)]
struct Seen {
    /// The number of lines that read as requests.
    lines: usize,
    number_op: Option<String>,
    whole_seconds: bool,
}

impl Seen {
    fn of(first_bytes: &[u8], mut reader: LineReader) -> Self {
        let mut seen = Self { whole_seconds: true, ..Self::default() };
        let lines = first_bytes.split(|byte| *byte == b'\n').take(LINES_LOOKED_AT);
        for line in lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()) {
            let Ok(fields) = reader.fields(line) else { continue };
            let row = reader.row(&fields);
            let is_number = matches!(&row, Err(fault) if fault.reason == NUMBER_OP);
            if is_number && seen.number_op.is_none() {
                let word = fields[Field::Op as usize];
                seen.number_op = Some(String::from_utf8_lossy(word).into_owned());
            }
            if is_number || row.is_ok() {
                let slot = if reader.description.time.is_some() { Field::Time } else { Field::End };
                seen.lines += 1;
                seen.whole_seconds &= fields[slot as usize].iter().all(u8::is_ascii_digit);
            }
        }
        seen
    }
}

/// The fields of a line that were described.
type Fields<'a> = [&'a [u8]; SLOTS];

/// The content of a line.
enum Row {
    Request(Request, Option<Topic<'static>>),
    Skip,
}

/// Reads one line after the other.
struct LineReader {
    description: Arc<Description>,
    cutter: Cutter,
    places: Option<CaptureLocations>,
}

impl LineReader {
    fn new(description: Arc<Description>, separator: Separator) -> Self {
        let cutter = description.cutter(separator);
        let places = match &description.shape {
            Shape::Pattern(pattern) => Some(pattern.regex.capture_locations()),
            Shape::Columns(_) => None,
        };
        Self { description, cutter, places }
    }

    #[inline]
    fn fields<'a>(&mut self, line: &'a [u8]) -> Result<Fields<'a>, Fault> {
        let mut fields: Fields<'a> = [b""; SLOTS];
        match (&self.description.shape, &mut self.places) {
            (Shape::Pattern(pattern), Some(places)) => {
                if !pattern.cut(places, line, &mut fields) {
                    return Err(Fault::junk(1, "the line does not match the pattern"));
                }
            }
            _ => {
                if !self.cutter.cut(line, &mut fields) {
                    let reason = "there are fewer columns than described";
                    return Err(Fault::junk(line.len().max(1), reason));
                }
            }
        }
        Ok(fields)
    }

    /// The request in `fields`, without names.
    #[inline]
    fn row(&self, fields: &Fields<'_>) -> Result<Row, Fault> {
        let description = &*self.description;
        let get = |field: Field| fields[field as usize];
        let (op, flags) = match self.meant(get(Field::Op))? {
            Meant::Request(op, flags) => (op, flags),
            Meant::Skip => return Ok(Row::Skip),
        };
        let instant =
            |unit: super::units::TimeUnit, field: Field| unit.read(get(field)).map_err(time_fault);
        let time = description.time.map(|unit| instant(unit, Field::Time)).transpose()?;
        let mut note = None;
        let mut latency = None;
        if let Some(unit) = description.latency {
            match unit.read(get(Field::Latency)) {
                Ok(ns) => latency = Some(ns),
                Err(NumberError::Negative) if get(Field::Latency).len() > 1 => {
                    note = Some(BAD_LATENCY);
                }
                Err(_) if is_nothing(get(Field::Latency)) => {}
                Err(_) => return Err(Fault::junk(1, "the latency is no number")),
            }
        }
        let issue = match (time, description.end) {
            (Some(time), Some(unit)) => {
                if latency.is_none() && !is_nothing(get(Field::End)) {
                    let ns = instant(unit, Field::End)?.saturating_sub(time);
                    latency = span(ns).map(|span| span.0);
                    note = note.or(latency.is_none().then_some(BAD_LATENCY));
                }
                time
            }
            (Some(time), None) => time,
            (None, Some(unit)) => {
                let latency = latency.ok_or(Fault::junk(1, "there is no latency"))?;
                let before = instant(unit, Field::End)?.checked_sub(latency);
                before.ok_or(Fault::junk(1, "the time is too large"))?
            }
            (None, None) => return Err(Fault::junk(1, "there is no time")),
        };
        let (offset, length) = if op == Op::Flush {
            (Bytes::ZERO, Bytes::ZERO)
        } else {
            let offset = description.offset.read(get(Field::Offset));
            let length = description.length.read(get(Field::Length));
            (
                offset.map_err(|error| size_fault(error, "the offset is no whole number"))?,
                length.map_err(|error| size_fault(error, "the length is no whole number"))?,
            )
        };
        let mut request = Request::new(Nanos(issue), op, offset, length);
        request.flags = flags;
        request.latency = latency.map(Nanos);
        if description.optional().origin {
            request.origin = Some(Origin {
                pid: small(get(Field::Process))?,
                cpu: small(get(Field::Processor))?,
            });
        }
        Ok(Row::Request(request, note))
    }

    #[inline]
    fn meant(&self, word: &[u8]) -> Result<Meant, Fault> {
        let meant = match &self.description.words {
            Some(words) => words.meant(word),
            None => words::usual(word),
        };
        meant.ok_or_else(|| {
            let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
            let reason = if is_number && self.description.words.is_none() {
                NUMBER_OP
            } else {
                "the operation is no word that is known"
            };
            Fault::junk(1, reason)
        })
    }
}

/// The state while lines are read.
struct Parser {
    line: LineReader,
    /// The separator, if it was guessed.
    guessed: Option<Separator>,
    /// The first line, if it is no request: it may come again.
    header: Option<Vec<u8>>,
    is_first: bool,
    begun: bool,
    /// The name of a volume that is made of two fields.
    volume: Vec<u8>,
    /// The numbers of processes that have only a name.
    commands: FxHashMap<Box<[u8]>, u32>,
}

/// The number of the process of this name, in a text without numbers of processes.
fn numbered(commands: &mut FxHashMap<Box<[u8]>, u32>, name: &[u8], intake: &mut Intake) -> u32 {
    if is_nothing(name) {
        return 0;
    }
    if let Some(number) = commands.get(name) {
        return *number;
    }
    if commands.len() >= COMMANDS_MAX || name.len() > COMMAND_BYTES_MAX {
        intake.header.losses.add(TOO_MANY_COMMANDS, 1, None);
        return 0;
    }
    let number = commands.len() as u32 + 1;
    commands.insert(name.into(), number);
    intake.process(number, name);
    intake.header.guesses.add(NUMBERED, 1, None);
    number
}

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let read = self.line.fields(line).and_then(|fields| Ok((self.line.row(&fields)?, fields)));
        let (row, fields) = match read {
            Ok(read) => read,
            Err(fault) => return self.no_request(line, fault),
        };
        self.is_first = false;
        let Row::Request(mut request, note) = row else {
            intake.header.losses.add(SKIPPED, 1, None);
            return Ok(Said::Other);
        };
        if let Some(what) = note {
            intake.header.losses.add(what, 1, None);
        }
        if !self.begun {
            self.begun = true;
            self.begin(&request, intake);
        }
        let description = &*self.line.description;
        if description.has(Field::VolumePart) {
            self.volume.clear();
            self.volume.extend_from_slice(fields[Field::Volume as usize]);
            self.volume.push(b'.');
            self.volume.extend_from_slice(fields[Field::VolumePart as usize]);
            request.volume = intake.volume(&self.volume)?;
        } else if description.has(Field::Volume) {
            request.volume = intake.volume(&unquoted(fields[Field::Volume as usize]))?;
        }
        if description.has(Field::Command)
            && let Some(origin) = &mut request.origin
        {
            let name = fields[Field::Command as usize];
            if !description.has(Field::Process) {
                origin.pid = numbered(&mut self.commands, name, intake);
            } else if !intake.process(origin.pid, name) {
                intake.header.losses.add(OTHER_COMMAND, 1, None);
            }
        }
        intake.push(&request)?;
        Ok(Said::Request)
    }
}

impl Parser {
    /// Handles a line that is no request: the header, also where it comes again, a comment, or
    /// junk.
    #[cold]
    fn no_request(&mut self, line: &[u8], fault: Fault) -> Result<Said, Fault> {
        let is_first = std::mem::take(&mut self.is_first);
        if line[0] == b'#' || self.header.as_deref() == Some(line) {
            self.is_first = is_first;
            return Ok(Said::Other);
        }
        if is_first {
            self.header = Some(line.to_owned());
            return Ok(Said::Other);
        }
        Err(fault)
    }

    fn begin(&self, first: &Request, intake: &mut Intake) {
        let header = &mut intake.header;
        let how = match self.line.description.shape {
            Shape::Columns(_) => "columns",
            Shape::Pattern(_) => "the pattern",
        };
        header.description = Some(format!("read as {how} {}", self.line.description.text));
        if let Some(separator) = self.guessed {
            let what = format!(
                "separator taken to be '{}' (`separator` says otherwise)",
                separator.name()
            );
            header.guesses.add(NoteKind::Assumed.of(&what), 1, None);
        }
        if self.line.description.epoch() == Epoch::Start && first.issue.0 > FAR {
            let what = NoteKind::Unit
                .of("clock that shows more than ten years, taken to count from the start of \
                     the trace (ts:…:unix or ts:…:boot say otherwise)");
            header.guesses.add(what, 1, None);
        }
    }
}

/// Whether the field is one of the usual words for a missing number.
fn is_nothing(field: &[u8]) -> bool {
    const WORDS: [&str; 7] = ["", "-", "na", "nan", "null", "none", "n/a"];
    WORDS.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
}

#[cold]
fn time_fault(error: NumberError) -> Fault {
    Fault::junk(
        1,
        match error {
            NumberError::Missing => "the time is no number",
            NumberError::TooLarge => "the time is too large",
            NumberError::Negative => "the time is below zero",
        },
    )
}

#[cold]
fn size_fault(error: NumberError, reason: &'static str) -> Fault {
    if error == NumberError::TooLarge { TOO_FAR } else { Fault::junk(1, reason) }
}

/// The number of a process or processor; 0 where the field has none.
#[inline]
fn small(field: &[u8]) -> Result<u32, Fault> {
    if is_nothing(field) {
        return Ok(0);
    }
    let value = super::number::integer(field).ok().and_then(|value| u32::try_from(value).ok());
    value.ok_or(Fault::junk(1, "the process or processor is no number of 32 bits"))
}
