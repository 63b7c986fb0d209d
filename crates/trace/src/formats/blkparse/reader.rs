//! Events of lines made into requests.

use super::UNKNOWN_PROCESS;
use super::line::{Parsed, parse};
use crate::batch::{Batch, Columns};
use crate::formats::IssueEvent;
use crate::formats::blktrace::instants::Instants;
use crate::formats::blktrace::notices::served_by;
use crate::formats::blktrace::order::{Order, WINDOW};
use crate::formats::blktrace::record::{Event, kind};
use crate::formats::blktrace::requests::Requests;
use crate::formats::blktrace::{PROBE_EVENTS, kinds_wanted};
use crate::formats::import::{Fault, Intake, LineParser, Said};
use crate::header::NoteKind;

/// The events of a text while its lines go by.
pub(super) struct Parser {
    wish: IssueEvent,
    /// The first events, which decide what is the instant of issue.
    probed: Vec<Event>,
    /// Makes requests of the events, once the kind of event is chosen.
    requests: Option<Requests>,
    /// The kinds that matter, a bit each.
    wanted: u32,
    order: Order,
    batch: Batch,
    /// Passthrough commands by kind of event.
    passthrough: [u64; kind::COUNT],
    in_statistics: bool,
    last_pid: Option<u32>,
    /// Threads that hand on the requests of others and whom each serves, seen before `requests`.
    workers: Vec<(u32, u32)>,
}

impl Parser {
    pub(super) fn new(wish: IssueEvent) -> Self {
        Self {
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
        let columns = Columns { latency, origin: true, measured: false };
        intake.set_columns(columns);
        intake.header.event = Some(kind::name(instants.main()).to_owned());
        self.batch.reset(columns);
        let mut requests = Requests::new(instants, latency);
        // blkparse already counts from the first event, so instants are kept.
        requests.start = Some(0);
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

    /// Gives the requests that are done.
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

impl LineParser for Parser {
    #[inline]
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        match parse(line, self.in_statistics)? {
            Parsed::Event(event, name) => {
                self.in_statistics = false;
                let is_issue = matches!(event.kind, kind::QUEUE | kind::INSERT | kind::ISSUE);
                if is_issue && self.last_pid != Some(event.pid) && name != UNKNOWN_PROCESS {
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
                intake.header.losses.add(
                    NoteKind::LostByRecorder.of("events that blkparse says are missing"),
                    events,
                    None,
                );
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
            let header = &mut intake.header;
            requests.tell(&mut header.losses, &mut header.guesses);
        }
        self.give(intake);
        // Each is issued once but need not be inserted.
        let issued = self.passthrough[usize::from(kind::ISSUE)];
        let inserted = self.passthrough[usize::from(kind::INSERT)];
        let passthrough = if issued > 0 { issued } else { inserted };
        intake.header.losses.add(NoteKind::Beside.of("passthrough commands"), passthrough, None);
        intake.header.guesses.add(
            NoteKind::Order.of("events out of time order"),
            self.order.too_late,
            None,
        );
    }
}
