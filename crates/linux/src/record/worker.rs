//! The thread of a recorder.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_trace::recording::{Entry, Totals, payloads};
use ioecho_trace::{Bytes, Nanos};
use rustix::process::{getpriority_process, setpriority_process};

use super::clocks::{anchor, monotonic_ns};
use super::error::RecordError;
use super::ledger::{Cause, Counting, Ledger, Missing};
use super::recorder::{Ending, Shared, Summary};
use super::store::Store;
use super::target::Target;
use super::tracer::{Contents, Meddling, Tracer};
use crate::thread::{stand_back, thread_cpu_time};

/// The longest sleep between two passes over the buffers.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// The shortest, for a load that fills the buffers in no time.
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// The first sleep: how fast the buffers fill is not known yet.
const SLEEP_FIRST: Duration = Duration::from_millis(20);

/// How old an event may be that a pass still leaves in the kernel: not every interface returns
/// partly filled sub-buffers at once.
const LEFT_BEHIND: Duration = Duration::from_millis(500);

/// How often the kernel's counters, the devices and the space on the disk are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the two clocks and the costs are noted.
const NOTE_EVERY: Duration = Duration::from_mins(1);

/// A chunk with less free than this is a full one: the next event did not fit.
const NEARLY_FULL: usize = 256;

/// In thousandths of a buffer: above the first the recorder sleeps less, above the second it gives
/// up its low priority, above the third events may have been lost.
const BUSY: u64 = 60;
const URGENT: u64 = 250;
const CLOSE: u64 = 900;

/// Below this it sleeps longer again.
const CALM: u64 = 20;

/// So many calm passes, and it lets others go first again.
const CALM_PASSES: u32 = 100;

/// At most this is kept free on the disk where nobody said how much.
const RESERVE_MAX: u64 = 256 << 20;

/// Of the file system one part in so many, if that is less.
const RESERVE_SHARE: u64 = 10;

/// The space is looked at whenever so much of what is to be kept free may have been written: one
/// part in so many.
const RESERVE_STEPS: u64 = 4;

/// What the thread has.
pub(super) struct Worker {
    tracer: Box<dyn Tracer>,
    store: Store,
    targets: Vec<Target>,
    directory: PathBuf,
    /// Less space than this on the disk ends the recording.
    reserve: u64,
    shared: Arc<Shared>,
    chunk: Vec<u8>,
    ledger: Ledger,
    counting: Counting,
    /// For each stream, how many bytes were read of a page that was not full yet.
    begun_pages: Vec<usize>,
    begun: Instant,
    noted: Instant,
    /// The niceness that the thread would have by itself.
    usual_nice: Option<i32>,
    stands_back: bool,
    calm: u32,
    fullest: u64,
    /// When the last pass over the buffers began.
    passed_ns: u64,
    /// When all events were last known to come.
    well_ns: u64,
    /// Since when another program has suppressed events, as far as not noted yet.
    blind_since: Option<u64>,
    /// How long another program suppressed or took events, nanoseconds, and until when this is
    /// counted, because several causes may overlap.
    blind_ns: u64,
    blind_until: u64,
    /// Whether it was told that somebody else reads.
    is_taken_told: bool,
    /// Processor time and time gone by as they were noted last, nanoseconds: what is told at the
    /// end must be what the recording says.
    cost: (u64, u64),
    /// What was written when the space on the disk was last looked at.
    spaced: u64,
    /// Whether counters of the kernel could not be read.
    is_uncounted: bool,
}

impl Worker {
    pub(super) fn new(
        tracer: Box<dyn Tracer>,
        store: Store,
        targets: Vec<Target>,
        directory: &Path,
        reserve: Option<u64>,
        shared: Arc<Shared>,
    ) -> Self {
        let by_rule = || {
            let all = store.space().map_or(RESERVE_MAX, |(_, all)| all / RESERVE_SHARE);
            all.min(RESERVE_MAX)
        };
        let (streams, counting) = (tracer.streams().len(), tracer.counting());
        Self {
            chunk: vec![0; tracer.chunk_bytes()],
            ledger: Ledger::new(streams, counting, monotonic_ns()),
            counting,
            begun_pages: vec![0; streams],
            reserve: reserve.unwrap_or_else(by_rule),
            directory: directory.to_owned(),
            tracer,
            store,
            targets,
            shared,
            begun: Instant::now(),
            noted: Instant::now(),
            usual_nice: None,
            stands_back: false,
            calm: 0,
            fullest: 0,
            passed_ns: monotonic_ns(),
            well_ns: monotonic_ns(),
            blind_since: None,
            blind_ns: 0,
            blind_until: 0,
            is_taken_told: false,
            cost: (0, 0),
            spaced: 0,
            is_uncounted: false,
        }
    }

    /// Records until the end; the tracer has been started.
    pub(super) fn run(mut self, ready: &SyncSender<()>) -> Summary {
        self.usual_nice = getpriority_process(None).ok();
        self.stands_back = stand_back().is_ok();
        let first = self.store.note(&Entry::Anchor(anchor()));
        let _ = ready.send(());
        let ended = first.and_then(|()| self.go_on());
        let mut ending = ended.unwrap_or_else(|error| ending_of_error(&self.directory, &error));
        let last = Entry::Ending { monotonic_ns: monotonic_ns() };
        let noted = if self.store.has_failed() { Ok(()) } else { self.store.note(&last) };
        self.fail(&mut ending, noted);
        match self.look_for_meddling() {
            Ok(Some(found)) if ending.is_good() => ending = found,
            seen => self.fail(&mut ending, seen.map(drop)),
        }
        if let Some(found) = self.store.misplaced().filter(|_| ending.is_good()) {
            ending = Ending::Misplaced(found);
        }
        // Even where nothing can be written any more, the kernel must be told to end.
        let stopped = self.tracer.stop();
        // Where events still come, there is no last one to wait for.
        let is_last = stopped.is_ok();
        self.fail(&mut ending, stopped);
        // Remaining events are kept if possible, whatever failed before, and otherwise counted.
        let read = if self.store.has_failed() { Ok(()) } else { self.pass(is_last).map(drop) };
        let kept = if self.store.has_failed() { Ok(()) } else { self.store.flush() };
        if self.store.has_failed() {
            self.drop_rest();
        }
        self.fail(&mut ending, read.and(kept));
        let why = match &ending {
            Ending::Asked => self.shared.why(),
            other => other.phrase().to_owned(),
        };
        let finished = self.finish(why, ending.is_good());
        self.fail(&mut ending, finished);
        if let Err(error) = self.tracer.detach() {
            self.shared.note(format!("{error}; the next start tries again"));
        }
        self.shared.is_detached.store(true, Relaxed);
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending.clone());
        let (dropped, taken) = self.ledger.dropped_and_taken();
        Summary {
            ending,
            cpus: self.totals(),
            bytes: Bytes(self.store.bytes()),
            segments: self.store.segments(),
            cpu: Nanos(self.cost.0 as i64),
            wall: Nanos(self.cost.1 as i64),
            fullest: self.fullest.min(1000) as u32,
            dropped,
            taken,
            blind: Nanos(i64::try_from(self.blind_ns).unwrap_or(i64::MAX)),
            notes: self.shared.notes(),
        }
    }

    /// Until somebody asks for the end or there is no going on.
    fn go_on(&mut self) -> Result<Ending, RecordError> {
        let mut sleep = SLEEP_FIRST;
        let mut looked = Instant::now();
        loop {
            if self.shared.stop.load(Relaxed) {
                return Ok(Ending::Asked);
            }
            thread::park_timeout(sleep);
            let filled = self.pass(false)?;
            self.give_way(filled);
            if filled > BUSY {
                sleep = (sleep / 2).max(SLEEP_MIN);
            } else if filled < CALM {
                sleep = (sleep * 2).min(SLEEP_MAX);
            }
            if filled > CLOSE && self.counting == Counting::Together {
                self.count_all(true)?;
            }
            let written = self.store.bytes() - self.spaced;
            let is_near = self.reserve > 0 && written > self.reserve / RESERVE_STEPS;
            let ending = if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.look()?
            } else if is_near {
                self.look_for_room()
            } else {
                None
            };
            if let Some(ending) = ending {
                return Ok(ending);
            }
        }
    }

    /// Takes from each buffer what is there; answers how full the fullest was, in thousandths.
    ///
    /// If one buffer cannot be read, the others still are: its events are noted as missing, and the
    /// first error is returned after all buffers.
    fn pass(&mut self, last: bool) -> Result<u64, RecordError> {
        let (mut fullest, mut failed) = (0, None);
        let (before, begun) = (self.passed_ns, monotonic_ns());
        for stream in 0..self.begun_pages.len() {
            let (taken, read) = self.empty(stream, last)?;
            if let Err(error) = read {
                failed.get_or_insert(error);
                let from_ns = before.saturating_sub(LEFT_BEHIND.as_nanos() as u64);
                // The end says it too.
                let _ = self.note_gap(stream, 0, from_ns, monotonic_ns());
            }
            let capacity = self.tracer.streams()[stream].capacity.max(1);
            fullest = fullest.max(taken.saturating_mul(1000) / capacity);
        }
        self.passed_ns = begun;
        self.fullest = self.fullest.max(fullest);
        self.shared.bytes.store(self.store.bytes(), Relaxed);
        failed.map_or(Ok(fullest), |error| {
            Err(RecordError::system("read the kernel's buffers for", &self.directory, error))
        })
    }

    /// Takes what is there from one buffer; answers how many bytes, and why not all.
    ///
    /// Events that come meanwhile are left for the next pass, except in the last: the kernel
    /// returns partial pages event by event, and following a busy writer that way is expensive.
    ///
    /// After the first page is read, the counter of lost events is read: if the buffer was full,
    /// they came after the last event that was in it when the pass began.
    fn empty(&mut self, stream: usize, last: bool) -> Result<(u64, io::Result<()>), RecordError> {
        let capacity = self.tracer.streams()[stream].capacity.max(1);
        let is_exact = self.counting == Counting::Exact;
        // The pages that were there when the pass began, and the one that was filled meanwhile.
        let enough = capacity + if is_exact { 2 * self.chunk.len() as u64 } else { 0 };
        let begun = monotonic_ns();
        self.ledger.begin(stream, begun);
        let (mut taken, mut last_ns, mut freed) = (0_u64, 0, None);
        let read = loop {
            let length = match self.tracer.read(stream, &mut self.chunk) {
                Ok(0) => break Ok(()),
                Ok(length) => length,
                Err(error) => break Err(error),
            };
            let chunk = &self.chunk[..length];
            let contents = self.tracer.contents(chunk);
            self.ledger.keep(stream, contents.events);
            self.store.append(stream, chunk)?;
            taken += length as u64;
            if contents.last_ns <= begun {
                last_ns = contents.last_ns.max(last_ns);
            }
            // Of a page that is read in parts, the last part ends it.
            let page = length + if is_exact { self.begun_pages[stream] } else { 0 };
            let is_full = page + NEARLY_FULL >= self.chunk.len();
            let is_whole = is_full && self.begun_pages[stream] == 0;
            self.begun_pages[stream] = if is_full { 0 } else { page };
            if is_exact && is_whole && freed.is_none() {
                // Where it cannot be read, the next look says so.
                freed = self.tracer.counts(stream).ok().map(|counts| (counts, monotonic_ns()));
            }
            if !last && (!is_full || taken >= enough) {
                break Ok(());
            }
        };
        let Some((counts, at)) = freed else { return Ok((taken, read)) };
        let missing = self.ledger.freed(stream, counts, last_ns, at);
        if let Some(Missing { events, from_ns, to_ns, .. }) = missing {
            self.note_gap(stream, events, from_ns, to_ns)?;
        }
        if missing.is_some() || taken.saturating_mul(1000) / capacity > CLOSE {
            // It may have become full again while it was read.
            self.count(stream, true)?;
        }
        Ok((taken, read))
    }

    /// Counts what cannot be kept: what was taken from the kernel and is in no file, and what is
    /// still in the kernel.
    fn drop_rest(&mut self) {
        for stream in 0..self.begun_pages.len() {
            let mut lost = Contents::default();
            let mut add = |contents: Contents| {
                if lost.events == 0 {
                    lost.first_ns = contents.first_ns;
                }
                lost.events += contents.events;
            };
            let frames = self.store.give_up(stream);
            payloads(&frames).for_each(|chunk| add(self.tracer.contents(chunk)));
            // Where the kernel goes on, the end is behind what its buffer held.
            let capacity = self.tracer.streams()[stream].capacity;
            let mut taken = 0_u64;
            while taken <= capacity
                && let Ok(length @ 1..) = self.tracer.read(stream, &mut self.chunk)
            {
                taken += length as u64;
                let contents = self.tracer.contents(&self.chunk[..length]);
                self.ledger.keep(stream, contents.events);
                add(contents);
            }
            self.ledger.drop(stream, lost.events);
            if lost.events > 0 {
                let (from_ns, to_ns) = (lost.first_ns, monotonic_ns());
                let cpu = self.tracer.streams()[stream].cpu;
                let lost = Entry::Lost { cpu, events: lost.events, from_ns, to_ns };
                // The totals at the end say it too.
                let _ = self.store.note(&lost);
            }
        }
    }

    /// A failure replaces the ending that was asked for.
    fn fail(&self, ending: &mut Ending, result: Result<(), RecordError>) {
        if let Err(error) = result
            && ending.is_good()
        {
            *ending = ending_of_error(&self.directory, &error);
        }
    }

    /// Lets others go first as long as the buffers allow it.
    fn give_way(&mut self, filled: u64) {
        self.calm = if filled < BUSY { self.calm.saturating_add(1) } else { 0 };
        if filled > URGENT && self.stands_back {
            if let Some(nice) = self.usual_nice {
                self.stands_back = setpriority_process(None, nice).is_err();
            }
        } else if !self.stands_back && self.calm >= CALM_PASSES {
            self.stands_back = stand_back().is_ok();
            self.calm = 0;
        }
    }

    /// Looks at everything that is not looked at in each pass.
    fn look(&mut self) -> Result<Option<Ending>, RecordError> {
        if let Some(ending) = self.look_for_meddling()? {
            return Ok(Some(ending));
        }
        if let Some(found) = self.store.misplaced() {
            return Ok(Some(Ending::Misplaced(found)));
        }
        self.count_all(false)?;
        self.store.flush()?;
        self.store.cut()?;
        if self.noted.elapsed() >= NOTE_EVERY {
            self.noted = Instant::now();
            self.store.note(&Entry::Anchor(anchor()))?;
            self.note_cost()?;
            self.note_blindness()?;
        }
        Ok(self.look_for_room().or_else(|| self.forget_lost_devices()))
    }

    /// Looks whether the disk has room for more.
    fn look_for_room(&mut self) -> Option<Ending> {
        self.spaced = self.store.bytes();
        let (left, _) = self.store.space().ok()?;
        (left < self.reserve).then(|| {
            let (left, reserve) = (Bytes(left), Bytes(self.reserve));
            Ending::DiskFull(format!("the disk is nearly full: {left} left, less than {reserve}"))
        })
    }

    /// Checks that all events still come. If another program switched them off, they stay off,
    /// because it may be intended; but the loss is reported at once, and noted.
    fn look_for_meddling(&mut self) -> Result<Option<Ending>, RecordError> {
        let now = monotonic_ns();
        match (self.tracer.meddling(), self.blind_since) {
            (None, None) => self.well_ns = now,
            (None, Some(_)) => {
                self.well_ns = now;
                self.note_blindness()?;
                self.blind_since = None;
                self.shared.note("all events come again".to_owned());
            }
            (Some(Meddling::Off(what)), None) => {
                self.shared.note(format!(
                    "somebody keeps events from this recording: {what}; what comes until that is \
                     undone is missing"
                ));
                // It may have begun right after the last check.
                self.blind_since = Some(self.well_ns);
                self.note_blindness()?;
            }
            // If it continues, it is noted every minute, and at the end.
            (Some(Meddling::Off(_)), Some(_)) => {}
            (Some(Meddling::Gone(what)), _) => {
                self.blind_since.get_or_insert(self.well_ns);
                self.note_blindness()?;
                // The look at the end finds the same, and must not count this time again.
                self.well_ns = self.blind_since.take().unwrap_or(now);
                let why = format!("somebody took away what it recorded by: {what}");
                return Ok(Some(Ending::Failed(why)));
            }
        }
        Ok(None)
    }

    /// Notes up to now that events of unknown number are missing.
    fn note_blindness(&mut self) -> Result<(), RecordError> {
        let Some(from_ns) = self.blind_since else { return Ok(()) };
        let to_ns = monotonic_ns();
        self.add_blindness(from_ns, to_ns);
        self.blind_since = Some(to_ns);
        for stream in 0..self.begun_pages.len() {
            self.note_gap(stream, 0, from_ns, to_ns)?;
        }
        Ok(())
    }

    /// Adds a stretch with an unknown number of missing events; parts already counted do not count
    /// again.
    fn add_blindness(&mut self, from_ns: u64, to_ns: u64) {
        let from_ns = from_ns.max(self.blind_until);
        self.blind_ns = self.blind_ns.saturating_add(to_ns.saturating_sub(from_ns));
        self.blind_until = self.blind_until.max(to_ns);
    }

    fn note_gap(
        &mut self,
        stream: usize,
        events: u64,
        from_ns: u64,
        to_ns: u64,
    ) -> Result<(), RecordError> {
        let cpu = self.tracer.streams()[stream].cpu;
        self.store.note(&Entry::Lost { cpu, events, from_ns, to_ns })
    }

    /// Notes the devices that are gone; with the last of them the recording ends.
    fn forget_lost_devices(&mut self) -> Option<Ending> {
        let mut losses = Vec::new();
        self.targets.retain(|target| {
            let loss = target.loss();
            let is_there = loss.is_none();
            losses.extend(loss);
            is_there
        });
        let last = losses.last().cloned();
        for loss in losses {
            self.shared.note(loss);
        }
        if self.targets.is_empty() { last.map(Ending::DeviceGone) } else { None }
    }

    /// Looks at the kernel's counters of all streams, and notes what was lost since.
    fn count_all(&mut self, is_last: bool) -> Result<(), RecordError> {
        for stream in 0..self.begun_pages.len() {
            self.count(stream, is_last)?;
        }
        let (mut events, mut lost) = (0_u64, 0_u64);
        for totals in self.totals() {
            events = events.saturating_add(totals.read);
            lost = lost.saturating_add(totals.lost);
        }
        self.shared.events.store(events, Relaxed);
        self.shared.lost.store(lost, Relaxed);
        self.shared.cpu_ns.store(self.cpu_ns(), Relaxed);
        Ok(())
    }

    /// Looks at the kernel's counters of a stream; `is_last` where no later look is better.
    fn count(&mut self, stream: usize, is_last: bool) -> Result<(), RecordError> {
        let counts = match self.tracer.counts(stream) {
            Ok(counts) => counts,
            Err(error) => {
                if !std::mem::replace(&mut self.is_uncounted, true) {
                    self.shared.note(format!(
                        "the kernel's counters could not be read ({error}), so events may have \
                         been lost that are not counted"
                    ));
                }
                return Ok(());
            }
        };
        let cpu = self.tracer.streams()[stream].cpu;
        for missing in self.ledger.count(stream, counts, monotonic_ns(), is_last) {
            let Missing { cause, events, from_ns, to_ns } = missing;
            match cause {
                Cause::Full => {}
                Cause::Cleared => {
                    self.add_blindness(from_ns, to_ns);
                    self.shared.note(format!(
                        "somebody has cleared the buffer of processor {cpu}; what was in it is \
                         missing"
                    ));
                }
                Cause::Taken if std::mem::replace(&mut self.is_taken_told, true) => {}
                Cause::Taken => self.shared.note(format!(
                    "somebody else reads the buffer of processor {cpu} (as `cat trace_pipe` does); \
                     what comes out there is missing here"
                )),
            }
            self.note_gap(stream, events, from_ns, to_ns)?;
        }
        Ok(())
    }

    /// Notes the last things and brings everything to the disk.
    fn finish(&mut self, why: String, is_asked: bool) -> Result<(), RecordError> {
        // Each is tried even if those before failed.
        let noted = [
            self.count_all(true),
            self.note_blindness(),
            self.store.note(&Entry::Anchor(anchor())),
            self.note_cost(),
        ];
        let (asked, cpus) = (Some(is_asked), self.totals());
        let stopped = Entry::Stopped { why, asked, monotonic_ns: monotonic_ns(), cpus };
        let last = [self.store.note(&stopped), self.store.finish()];
        noted.into_iter().chain(last).collect()
    }

    fn note_cost(&mut self) -> Result<(), RecordError> {
        let (cpu_ns, wall_ns) = (self.cpu_ns(), self.begun.elapsed().as_nanos() as u64);
        self.cost = (cpu_ns, wall_ns);
        self.store.note(&Entry::Cost { cpu_ns, wall_ns, bytes: self.store.bytes() })
    }

    fn totals(&self) -> Vec<Totals> {
        let streams = self.tracer.streams().iter().enumerate();
        streams.map(|(stream, of)| self.ledger.totals(stream, of.cpu)).collect()
    }

    fn cpu_ns(&self) -> u64 {
        (thread_cpu_time().0.max(0) as u64).saturating_add(self.store.cpu_ns())
    }
}

/// What an error means for the recording.
fn ending_of_error(directory: &Path, error: &RecordError) -> Ending {
    let is_full = |source: &io::Error| {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
    };
    match error {
        RecordError::Output { source, .. } if is_full(source) => {
            Ending::DiskFull(format!("the disk of {} is full", directory.display()))
        }
        other => Ending::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
