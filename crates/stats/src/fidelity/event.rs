//! Requests of either side, and how they are made of a trace.
//!
//! A run's results have two places for a request (in the trace and on the target) and three
//! instants; a recording has one of each. Only this module decides which of them are compared.

use ioecho_trace::{Batch, Flags, Header, LateCause, Op, Outcome, Request, Source, TraceError};

/// A request as one side has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was to be issued, or was seen, in nanoseconds.
    pub at: i64,
    /// The operation.
    pub op: Op,
    /// The device, by a number that both sides share.
    pub target: u32,
    /// Where it begins on the device, in bytes.
    pub offset: u64,
    /// How many bytes it covers.
    pub length: u64,
    /// How long the device took, in nanoseconds; `None` where nobody knows.
    pub latency: Option<i64>,
    /// The process that issued it, where the recorder knew.
    pub pid: Option<u32>,
    /// The replaying engine's record of it.
    pub engine: Option<Engine>,
    /// A flush that belongs to a write with PREFLUSH: a replay issues it as a request of its own,
    /// because a program cannot ask for it in a write.
    pub implied: bool,
    /// Whether it is a write that asks for a flush before it.
    pub preflush: bool,
}

/// The engine's record of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engine {
    /// When it was handed to the kernel, in nanoseconds of the run.
    pub submitted: Option<i64>,
    /// When its completion was seen.
    pub completed: Option<i64>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Why it was late.
    pub cause: LateCause,
    /// Whether the engine held it back behind a request in flight that it overlaps.
    pub pushed_back: bool,
}

impl Engine {
    /// Whether the engine held it back because of what the device had not done yet.
    pub(super) fn held_back(&self) -> bool {
        self.pushed_back || matches!(self.cause, LateCause::Conflict | LateCause::InFlightCap)
    }
}

impl Event {
    /// The request of a trace, at its place in the trace.
    pub fn of_trace(request: &Request) -> Self {
        Self {
            at: request.issue.0,
            op: request.op,
            target: request.volume.0,
            offset: request.offset.0,
            length: request.length.0,
            latency: request.latency.map(|latency| latency.0.max(0)),
            pid: request.origin.map(|origin| origin.pid),
            engine: None,
            implied: false,
            preflush: request.op == Op::Write && request.flags.contains(Flags::PREFLUSH),
        }
    }

    /// The request of a run: when it was due, at its place on its target. A request of which
    /// nothing was measured counts as one of a trace.
    pub fn of_run(request: &Request) -> Self {
        let event = Self::of_trace(request);
        let Some(measured) = request.measured else { return event };
        Self {
            at: measured.scheduled.0,
            target: u32::from(measured.target),
            offset: measured.target_offset.unwrap_or(request.offset).0,
            engine: Some(Engine {
                submitted: measured.submitted.map(|instant| instant.0),
                completed: measured.completed.map(|instant| instant.0),
                outcome: measured.outcome,
                cause: measured.late_cause,
                pushed_back: measured.pushed_back,
            }),
            ..event
        }
    }

    /// The flush that a replay issues before this request, if the request asks for one and a
    /// program issued it.
    fn flush_before(&self) -> Option<Self> {
        let flush =
            Self { op: Op::Flush, offset: 0, length: 0, implied: true, preflush: false, ..*self };
        (self.preflush && self.was_issued()).then_some(flush)
    }

    /// The first byte behind the range.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Whether the device can have seen it at all.
    pub(super) fn was_issued(&self) -> bool {
        self.engine.is_none_or(|engine| engine.outcome.was_issued())
    }

    /// Requests with the same key are alike.
    pub(super) fn key(&self) -> (u32, u8, u64, u64) {
        if self.op == Op::Flush {
            return (self.target, self.op.code(), 0, 0);
        }
        (self.target, self.op.code(), self.offset, self.length)
    }
}

/// The events of a source, one by one.
struct Events<S> {
    source: S,
    batch: Batch,
    row: usize,
    of: fn(&Request) -> Event,
}

impl<S: Source> Events<S> {
    fn next(&mut self) -> Option<Result<Event, TraceError>> {
        loop {
            if self.row < self.batch.len() {
                let request = self.batch.get(self.row);
                self.row += 1;
                return Some(Ok((self.of)(&request)));
            }
            self.row = 0;
            match self.source.next_batch(&mut self.batch) {
                Ok(true) => {}
                Ok(false) => {
                    self.batch.truncate(0);
                    return None;
                }
                Err(error) => {
                    self.batch.truncate(0);
                    return Some(Err(error));
                }
            }
        }
    }
}

/// The requests asked for: the results of a run, or the trace that was replayed.
pub struct Asked<S> {
    events: Events<S>,
    /// A write whose flush was given just now.
    write: Option<Event>,
}

impl<S: Source> Asked<S> {
    /// Of a run's results: instants of the schedule, places on the targets.
    pub fn of_run(source: S) -> Self {
        Self::new(source, Event::of_run)
    }

    /// Of a trace that was replayed.
    pub fn of_trace(source: S) -> Self {
        Self::new(source, Event::of_trace)
    }

    fn new(source: S, of: fn(&Request) -> Event) -> Self {
        let batch = Batch::new(source.header().columns);
        Self { events: Events { source, batch, row: 0, of }, write: None }
    }

    /// The source, with a header that knows all once the end was reached.
    pub fn source(&self) -> &S {
        &self.events.source
    }
}

impl<S: Source> Iterator for Asked<S> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(write) = self.write.take() {
            return Some(Ok(write));
        }
        let event = match self.events.next()? {
            Ok(event) => event.flush_before().map_or(event, |flush| {
                self.write = Some(event);
                flush
            }),
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(event))
    }
}

/// The requests that a recorder saw at the device.
pub struct Recorded<S, T> {
    events: Events<S>,
    target: T,
    shift_ns: i64,
    /// Requests of devices that are no target.
    pub elsewhere: u64,
}

impl<S: Source, T: FnMut(u32, &Header) -> Option<u32>> Recorded<S, T> {
    /// A recording whose zero lies `shift_ns` nanoseconds behind that of the other side. `target`
    /// answers the number that both sides share for the number of a volume, and `None` for a
    /// device that was not replayed on.
    pub fn new(source: S, shift_ns: i64, target: T) -> Self {
        let batch = Batch::new(source.header().columns);
        let events = Events { source, batch, row: 0, of: Event::of_trace };
        Self { events, target, shift_ns, elsewhere: 0 }
    }

    /// The source, with a header that knows all once the end was reached.
    pub fn source(&self) -> &S {
        &self.events.source
    }
}

impl<S: Source, T: FnMut(u32, &Header) -> Option<u32>> Iterator for Recorded<S, T> {
    type Item = Result<Event, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut event = match self.events.next()? {
                Ok(event) => event,
                Err(error) => return Some(Err(error)),
            };
            if let Some(target) = (self.target)(event.target, self.events.source.header()) {
                event.target = target;
                event.at = event.at.saturating_add(self.shift_ns);
                return Some(Ok(event));
            }
            self.elsewhere += 1;
        }
    }
}
