//! The thread of a recorder.

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
use super::recorder::{Ending, Shared, Summary};
use super::store::{Store, space};
use super::target::Target;
use super::tracer::{Contents, Counts, Meddling, Tracer};
use crate::thread::{stand_back, thread_cpu_time};

/// The longest sleep between two passes over the buffers.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// The shortest, for a load that fills the buffers in no time.
const SLEEP_MIN: Duration = Duration::from_millis(2);

/// The first sleep: how fast the buffers fill is not known yet.
const SLEEP_FIRST: Duration = Duration::from_millis(20);

/// So long before a pass an event may have come that the pass leaves in the kernel: not every
/// interface gives out at once what is less than a part of a buffer.
const LEFT_BEHIND: Duration = Duration::from_millis(500);

/// How often the kernel's counters, the devices and the space on the disk are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often the two clocks and the costs are noted.
const NOTE_EVERY: Duration = Duration::from_mins(1);

/// A chunk with less free than this is a full one: the next event did not fit.
const NEARLY_FULL: usize = 256;

/// In thousandths of a buffer: above the first the recorder sleeps less, above the second it no
/// longer lets others go first, above the third events may have been lost.
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
    reserve: u64,
    shared: Arc<Shared>,
    chunk: Vec<u8>,
    /// What was counted of each stream since the beginning.
    counts: Vec<Counts>,
    /// What the kernel's counters said last.
    counters: Vec<Counts>,
    /// Events of each stream that were taken from the kernel and could not be kept.
    dropped: Vec<u64>,
    /// When the counters were last looked at.
    counted_ns: u64,
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
    /// Since when events have been kept from coming by somebody, as far as it is not noted yet.
    blind_since: Option<u64>,
    /// How long that was, nanoseconds.
    blind_ns: u64,
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
            let all = space(directory).map_or(RESERVE_MAX, |(_, all)| all / RESERVE_SHARE);
            all.min(RESERVE_MAX)
        };
        Self {
            chunk: vec![0; tracer.chunk_bytes()],
            counts: vec![Counts::default(); tracer.streams().len()],
            counters: vec![Counts::default(); tracer.streams().len()],
            dropped: vec![0; tracer.streams().len()],
            reserve: reserve.unwrap_or_else(by_rule),
            directory: directory.to_owned(),
            tracer,
            store,
            targets,
            shared,
            counted_ns: monotonic_ns(),
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
        // Even where nothing can be written any more, the kernel must be told to end.
        let stopped = self.tracer.stop();
        // Where events still come, there is no last one to wait for.
        let is_last = stopped.is_ok();
        self.fail(&mut ending, stopped);
        // What is there is kept as far as it can be, whatever failed before, and counted otherwise.
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
        let finished = self.finish(&why);
        self.fail(&mut ending, finished);
        if let Err(error) = self.tracer.detach() {
            self.shared.note(format!("{error}; the next start tries again"));
        }
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending.clone());
        Summary {
            ending,
            cpus: self.totals(),
            bytes: Bytes(self.store.bytes()),
            segments: self.store.segments(),
            cpu: Nanos(self.cost.0 as i64),
            wall: Nanos(self.cost.1 as i64),
            fullest: self.fullest.min(1000) as u32,
            dropped: self.dropped.iter().sum(),
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
            if filled > CLOSE {
                self.count()?;
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
    /// What comes meanwhile is left for the next pass, but for the last: the kernel gives pages
    /// that are not full event by event, and to follow a busy writer that way costs the most.
    ///
    /// A buffer that cannot be read keeps nobody from the others: what it has not given is marked
    /// as missing, and the first error is answered when all have been asked.
    fn pass(&mut self, last: bool) -> Result<u64, RecordError> {
        let (mut fullest, mut failed) = (0, None);
        let (before, begun) = (self.passed_ns, monotonic_ns());
        for stream in 0..self.counts.len() {
            let capacity = self.tracer.streams()[stream].capacity.max(1);
            let mut taken = 0_u64;
            loop {
                let length = match self.tracer.read(stream, &mut self.chunk) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) => {
                        failed.get_or_insert(error);
                        let from_ns = before.saturating_sub(LEFT_BEHIND.as_nanos() as u64);
                        // The end says it too.
                        let _ = self.note_gap(stream, 0, from_ns, monotonic_ns());
                        break;
                    }
                };
                self.store.append(stream, &self.chunk[..length])?;
                taken += length as u64;
                let is_full = length + NEARLY_FULL >= self.chunk.len();
                if !last && (!is_full || taken >= capacity) {
                    break;
                }
            }
            fullest = fullest.max(taken.saturating_mul(1000) / capacity);
        }
        self.passed_ns = begun;
        self.fullest = self.fullest.max(fullest);
        self.shared.bytes.store(self.store.bytes(), Relaxed);
        failed.map_or(Ok(fullest), |error| {
            Err(RecordError::system("read the kernel's buffers for", &self.directory, error))
        })
    }

    /// Counts what cannot be kept: what was taken from the kernel and is in no file, and what is
    /// still in the kernel.
    fn drop_rest(&mut self) {
        for stream in 0..self.counts.len() {
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
                add(self.tracer.contents(&self.chunk[..length]));
            }
            self.dropped[stream] += lost.events;
            if lost.events > 0 {
                let (from_ns, to_ns) = (lost.first_ns, monotonic_ns());
                let cpu = self.tracer.streams()[stream].cpu;
                let lost = Entry::Lost { cpu, events: lost.events, from_ns, to_ns };
                // The totals at the end say it too.
                let _ = self.store.note(&lost);
            }
        }
    }

    /// An end that was asked for is none where something fails after it.
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
        self.count()?;
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
        let (left, _) = space(&self.directory).ok()?;
        (left < self.reserve).then(|| {
            let (left, reserve) = (Bytes(left), Bytes(self.reserve));
            Ending::DiskFull(format!("the disk is nearly full: {left} left, less than {reserve}"))
        })
    }

    /// Looks whether all events still come. What somebody else has switched off stays so, for it
    /// may be meant; but what is missing is told at once, and marked.
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
                // It may have been so since the look before.
                self.blind_since = Some(self.well_ns);
                self.note_blindness()?;
            }
            // What is on from the look before is noted every minute, and in the end.
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
        self.blind_ns = self.blind_ns.saturating_add(to_ns.saturating_sub(from_ns));
        self.blind_since = Some(to_ns);
        for stream in 0..self.counts.len() {
            self.note_gap(stream, 0, from_ns, to_ns)?;
        }
        Ok(())
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

    /// Looks at the kernel's counters, and notes what was lost since.
    fn count(&mut self) -> Result<(), RecordError> {
        let now = monotonic_ns();
        for stream in 0..self.counts.len() {
            let now_counted = match self.tracer.counts(stream) {
                Ok(counts) => counts,
                Err(error) => {
                    if !std::mem::replace(&mut self.is_uncounted, true) {
                        self.shared.note(format!(
                            "the kernel's counters could not be read ({error}), so events may \
                             have been lost that are not counted"
                        ));
                    }
                    continue;
                }
            };
            let mut before = std::mem::replace(&mut self.counters[stream], now_counted);
            // What was read cannot be less than before, unless the counters began anew.
            let is_cleared = now_counted.read < before.read;
            if is_cleared {
                before = Counts::default();
                let cpu = self.tracer.streams()[stream].cpu;
                self.shared.note(format!(
                    "somebody has cleared the buffer of processor {cpu}; what was in it is missing"
                ));
                self.blind_ns = self.blind_ns.saturating_add(now.saturating_sub(self.counted_ns));
            }
            let lost = now_counted.lost.saturating_sub(before.lost);
            self.counts[stream].read += now_counted.read - before.read;
            // It shrinks where an event comes late that was counted as lost.
            let sum = self.counts[stream].lost.saturating_add(now_counted.lost);
            self.counts[stream].lost = sum.saturating_sub(before.lost);
            if lost > 0 || is_cleared {
                self.note_gap(stream, lost, self.counted_ns, now)?;
            }
        }
        self.counted_ns = now;
        let sum = |of: fn(&Counts) -> u64| self.counts.iter().map(of).sum::<u64>();
        let dropped: u64 = self.dropped.iter().sum();
        let read = sum(|counts| counts.read).saturating_sub(dropped);
        self.shared.events.store(read, Relaxed);
        self.shared.lost.store(sum(|counts| counts.lost).saturating_add(dropped), Relaxed);
        self.shared.cpu_ns.store(self.cpu_ns(), Relaxed);
        Ok(())
    }

    /// Notes the last things and brings everything to the disk.
    fn finish(&mut self, why: &str) -> Result<(), RecordError> {
        // Each is tried whatever became of those before.
        let noted = [
            self.count(),
            self.note_blindness(),
            self.store.note(&Entry::Anchor(anchor())),
            self.note_cost(),
        ];
        let (why, cpus) = (why.to_owned(), self.totals());
        let stopped = Entry::Stopped { why, monotonic_ns: monotonic_ns(), cpus };
        let last = [self.store.note(&stopped), self.store.finish()];
        noted.into_iter().chain(last).collect()
    }

    fn note_cost(&mut self) -> Result<(), RecordError> {
        let (cpu_ns, wall_ns) = (self.cpu_ns(), self.begun.elapsed().as_nanos() as u64);
        self.cost = (cpu_ns, wall_ns);
        self.store.note(&Entry::Cost { cpu_ns, wall_ns, bytes: self.store.bytes() })
    }

    fn totals(&self) -> Vec<Totals> {
        let streams = self.tracer.streams().iter().zip(self.counts.iter().zip(&self.dropped));
        streams
            .map(|(stream, (counts, dropped))| Totals {
                cpu: stream.cpu,
                read: counts.read.saturating_sub(*dropped),
                lost: counts.lost.saturating_add(*dropped),
            })
            .collect()
    }

    fn cpu_ns(&self) -> u64 {
        (thread_cpu_time().0.max(0) as u64).saturating_add(self.store.cpu_ns())
    }
}

/// What an error means for the recording.
fn ending_of_error(directory: &Path, error: &RecordError) -> Ending {
    let is_full = |source: &std::io::Error| {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
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
