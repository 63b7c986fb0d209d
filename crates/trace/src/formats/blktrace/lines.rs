//! Makes requests of events in lines of text.
//!
//! blkparse, tracefs, trace-cmd and perf print the same events in different words. Each text has
//! its own parser of lines ([`Tongue`]); all later steps are the same and are in this module.

use super::instants::Instants;
use super::notices::served_by;
use super::order::{Order, WINDOW};
use super::record::{Event, kind};
use super::requests::Requests;
use super::{PROBE_EVENTS, kinds_wanted};
use crate::batch::{Batch, Columns};
use crate::formats::IssueEvent;
use crate::formats::import::{Fault, Intake, LineParser, Said, Told};
use crate::header::{NoteKind, Topic};
use crate::text::{Cursor, NumberError};
use crate::units::SECTOR;

/// The meaning of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) enum Parsed<'a> {
    /// An event of a request, and the name of its process.
    Event(Event, &'a [u8]),
    /// An event of a command passed through to the device, of this kind.
    Passthrough(u8),
    /// An event without a request: merges, plugs, remaps, messages.
    Ignored,
    /// A line that is not an event: a heading, statistics at the end.
    Prose,
    /// A number of events that the text reports as missing.
    Skipped(u64),
}

/// A text format with events.
pub(in crate::formats) trait Tongue: Send {
    /// The note on events that the text itself reports as missing.
    const MISSING: Topic<'static>;
    /// The zero of the trace by the clock of the text; `None` for the first request.
    const START: Option<u64>;
    /// The name that the program prints for a process without a known name.
    const NAMELESS: &'static [u8];

    /// Reads a line that is not blank. `in_statistics` is true after a line of prose, until the
    /// next event.
    ///
    /// # Errors
    /// If the line is neither an event nor another line of such a text.
    fn parse<'a>(&mut self, line: &'a [u8], in_statistics: bool) -> Result<Parsed<'a>, Fault>;
}

/// Parses the events of a text, line by line.
pub(in crate::formats) struct Parser<T> {
    tongue: T,
    wish: IssueEvent,
    /// The first events, which decide the instant of issue.
    probed: Vec<Event>,
    /// Makes requests of the events, once the kind of event is chosen.
    requests: Option<Requests>,
    /// The needed kinds of events, one bit each.
    wanted: u32,
    order: Order,
    batch: Batch,
    /// Passthrough commands by kind of event.
    passthrough: [u64; kind::COUNT],
    in_statistics: bool,
    last_pid: Option<u32>,
    /// Threads that pass on other processes' requests, with the process that each serves, seen
    /// before `requests`.
    workers: Vec<(u32, u32)>,
}

impl<T: Tongue> Parser<T> {
    pub(in crate::formats) fn new(wish: IssueEvent, tongue: T) -> Self {
        Self {
            tongue,
            wish,
            probed: Vec::new(),
            requests: None,
            wanted: 0,
            order: Order::default(),
            batch: Batch::default(),
            passthrough: [0; kind::COUNT],
            in_statistics: false,
            last_pid: None,
            workers: Vec::new(),
        }
    }

    /// Chooses the kind of event that counts as issue, and processes the events seen so far.
    fn decide(&mut self, intake: &mut Intake) {
        let instants = Instants::of(self.wish, &self.probed);
        let latency = self.probed.iter().any(|event| event.kind == kind::COMPLETE);
        self.wanted = kinds_wanted(instants.kinds(false), latency);
        let columns = Columns { latency, origin: true, measured: false, dependencies: false };
        intake.set_columns(columns);
        intake.header.event = Some(kind::name(instants.main()).to_owned());
        self.batch.reset(columns);
        let mut requests = Requests::new(instants, latency);
        requests.start = T::START;
        for event in self.probed.iter().filter(|event| event.kind == kind::ISSUE) {
            requests.has_driver(event.device);
        }
        for (worker, served) in self.workers.drain(..) {
            requests.serves(worker, served);
        }
        self.requests = Some(requests);
        for event in std::mem::take(&mut self.probed) {
            self.admit(event, intake);
        }
    }

    /// Takes an event in the order of the lines.
    #[inline]
    fn admit(&mut self, event: Event, intake: &mut Intake) {
        if self.wanted >> event.kind & 1 == 0 {
            return;
        }
        self.order.push(event);
        if self.order.len() > WINDOW
            && let Some(event) = self.order.pop()
        {
            self.handle(&event, intake);
        }
    }

    /// Takes an event in the order of time.
    #[inline]
    fn handle(&mut self, event: &Event, intake: &mut Intake) {
        let Some(requests) = &mut self.requests else { return };
        requests.handle(event, &mut intake.header.volumes, &mut self.batch);
        while requests.pop(&mut self.batch) {}
        self.give(intake);
    }

    /// Passes on the completed requests.
    #[inline]
    fn give(&mut self, intake: &mut Intake) {
        if self.batch.is_empty() {
            return;
        }
        for request in self.batch.iter() {
            // The text of the line is no longer available, so only the kind of the fault is noted.
            if let Err(fault) = intake.push(&request) {
                intake.header.losses.add(fault.loss, 1, None);
            }
        }
        self.batch.reset(self.batch.columns());
    }
}

impl<T: Tongue> LineParser for Parser<T> {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        match self.tongue.parse(line, self.in_statistics)? {
            Parsed::Event(event, name) => {
                self.in_statistics = false;
                let is_issue = matches!(event.kind, kind::QUEUE | kind::INSERT | kind::ISSUE);
                if is_issue && self.last_pid != Some(event.pid) && name != T::NAMELESS {
                    intake.process(event.pid, name);
                    self.last_pid = Some(event.pid);
                    if let Some(served) = served_by(name) {
                        match &mut self.requests {
                            Some(requests) => requests.serves(event.pid, served),
                            None => self.workers.push((event.pid, served)),
                        }
                    }
                }
                if self.requests.is_some() {
                    self.admit(event, intake);
                } else {
                    self.probed.push(event);
                    if self.probed.len() == PROBE_EVENTS {
                        self.decide(intake);
                    }
                }
                Ok(Said::Request)
            }
            Parsed::Passthrough(kind) => {
                self.passthrough[usize::from(kind)] += 1;
                Ok(Said::Request)
            }
            Parsed::Ignored => Ok(Said::Request),
            Parsed::Prose => {
                self.in_statistics = true;
                Ok(Said::Other)
            }
            Parsed::Skipped(events) => {
                self.in_statistics = true;
                intake.header.losses.add(T::MISSING, events, None);
                Ok(Said::Other)
            }
        }
    }

    fn end(&mut self, intake: &mut Intake) {
        if self.requests.is_none() {
            self.decide(intake);
        }
        while let Some(event) = self.order.pop() {
            self.handle(&event, intake);
        }
        if let Some(requests) = &mut self.requests {
            requests.close();
            while requests.pop(&mut self.batch) {}
            requests.tell_devices(&mut intake.header.losses);
        }
        self.give(intake);
    }

    fn tell(&self, told: &mut Told) {
        if let Some(requests) = &self.requests {
            requests.tell(&mut told.losses, &mut told.guesses);
        }
        // Each is issued once but need not be inserted.
        let issued = self.passthrough[usize::from(kind::ISSUE)];
        let inserted = self.passthrough[usize::from(kind::INSERT)];
        let passthrough = if issued > 0 { issued } else { inserted };
        told.losses.add(NoteKind::Beside.of("passthrough commands"), passthrough, None);
        let what = NoteKind::Order.of("events out of time order");
        told.guesses.add(what, self.order.too_late, None);
    }
}

/// Sectors in bytes, limited to the kernel's 32 bits.
pub(in crate::formats) fn bytes(sectors: u64, column: usize) -> Result<u32, Fault> {
    let bytes = sectors.checked_mul(SECTOR).and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or(Fault::junk(column, "more sectors than a request can have"))
}

/// The name between the first and the last bracket; it may contain brackets and blanks.
#[inline]
pub(in crate::formats) fn process(rest: &[u8]) -> &[u8] {
    let name = memchr::memchr(b'[', rest).zip(memchr::memrchr(b']', rest));
    name.and_then(|(from, to)| rest.get(from + 1..to)).unwrap_or_default()
}

/// A number after blanks; without one the line is junk for this `reason`.
#[inline]
pub(in crate::formats) fn spaced(
    cursor: &mut Cursor<'_>,
    reason: &'static str,
) -> Result<u64, Fault> {
    cursor.skip_blanks();
    number(cursor, reason)
}

/// A number at the cursor.
#[inline]
pub(in crate::formats) fn number(
    cursor: &mut Cursor<'_>,
    reason: &'static str,
) -> Result<u64, Fault> {
    let column = cursor.column();
    cursor.integer().map_err(|error| match error {
        NumberError::TooLarge => Fault::junk(column, "this number does not fit 64 bits"),
        _ => Fault::junk(column, reason),
    })
}

/// Skips `byte`, which must be at the cursor.
#[inline]
pub(in crate::formats) fn expect(
    cursor: &mut Cursor<'_>,
    byte: u8,
    reason: &'static str,
) -> Result<(), Fault> {
    if cursor.skip(byte) { Ok(()) } else { Err(Fault::junk(cursor.column(), reason)) }
}
