//! From events to requests.
//!
//! One kind of event counts as issue and becomes a request; completions, splits and requeues update
//! the requests before. Events that match no request are counted.

use rustc_hash::{FxHashMap, FxHashSet};

use super::classify::{Class, classify};
use super::instants::Instants;
use super::matching::{Completion, Matching};
use super::record::{Event, category, kind};
use super::row::Row;
use super::volumes::{Volumes, device_name};
use crate::batch::Batch;
use crate::header::{NoteKind, Notes, Topic, Volume};
use crate::recording::{DriverFigures, MatchingFigures};
use crate::request::{Op, Request};
use crate::units::Bytes;

/// The largest number of requests given back by the driver that are remembered.
const REQUEUED_MAX: usize = 1 << 12;

/// The largest number of devices with a recorded driver that are known.
const DRIVERS_MAX: usize = 1 << 14;

/// The largest number of io_uring workers that are known.
const WORKERS_MAX: usize = 1 << 16;

/// The requests of a recording while its events are read.
#[derive(Debug)]
pub(in crate::formats) struct Requests {
    /// The kind of event that is the instant of issue, device by device.
    instants: Instants,
    /// Whether the recording has completions: only then requests are held back.
    has_completions: bool,
    matching: Matching,
    volumes: Volumes,
    /// Device, class, sector and bytes of requests that the driver gave back, and the number of
    /// returns.
    requeued: FxHashMap<(u32, Class, u64, u32), u32>,
    /// Workers of io_uring and the thread that each works for; 0 for threads of the kernel.
    workers: FxHashMap<u32, u32>,
    /// Devices whose driver's events are recorded, and the last of them.
    drivers: FxHashSet<u32>,
    last_driver: Option<u32>,
    /// The instant of the first request by the recording's clock: zero of the trace.
    pub(in crate::formats) start: Option<u64>,
    /// The instant of the last event; `None` once no event will follow.
    now: Option<u64>,
    /// The number of requests so far.
    pub(in crate::formats) taken: u64,
    counts: Counts,
}

/// The note on second attempts at a request.
const SECOND_ATTEMPTS: Topic<'static> =
    NoteKind::Beside.of("second attempts, queued again because the first would have waited");

/// The note on requests that were refused and not tried again: no device ever served them.
const REFUSED: Topic<'static> = NoteKind::Unreadable
    .of("requests that were refused because they would have waited, and not tried \
         again; they are left out");

/// Counts of events that become losses, each with an example.
#[derive(Debug, Default)]
struct Counts {
    unmatched: (u64, Option<String>),
    strays: (u64, Option<String>),
    without_range: (u64, Option<String>),
    beyond_reach: (u64, Option<String>),
    too_many_devices: u64,
    split_rests: u64,
    second_attempts: u64,
    refused: u64,
}

impl Requests {
    /// No requests yet.
    pub(in crate::formats) fn new(instants: Instants, has_completions: bool) -> Self {
        Self {
            instants,
            has_completions,
            matching: Matching::default(),
            volumes: Volumes::default(),
            requeued: FxHashMap::default(),
            workers: FxHashMap::default(),
            drivers: FxHashSet::default(),
            last_driver: None,
            start: None,
            now: Some(0),
            taken: 0,
            counts: Counts::default(),
        }
    }

    /// Gives a device the next volume, whether requests come to it or not.
    pub(in crate::formats) fn expect(&mut self, device: u32, volumes: &mut Vec<Volume>) {
        let _ = self.volumes.number(device, volumes);
    }

    /// Notes that `worker` is an io_uring worker that serves the thread `served`.
    pub(in crate::formats) fn serves(&mut self, worker: u32, served: u32) {
        if self.workers.len() < WORKERS_MAX {
            self.workers.insert(worker, served);
        }
    }

    /// Notes that the recording has the driver's events of a device.
    #[inline]
    pub(in crate::formats) fn has_driver(&mut self, device: u32) {
        if self.last_driver != Some(device) && self.drivers.len() < DRIVERS_MAX {
            self.drivers.insert(device);
            self.last_driver = Some(device);
        }
    }

    /// Notes that the kernel does not queue rests of split requests again.
    pub(in crate::formats) fn queues_once(&mut self) {
        self.matching.queues_once();
    }

    /// Notes that events are missing from now on until the instant `until`.
    pub(in crate::formats) fn lose(&mut self, until: u64) {
        self.matching.lose(until);
    }

    /// Applies an event to the requests.
    #[inline]
    pub(in crate::formats) fn handle(
        &mut self,
        event: &Event,
        volumes: &mut Vec<Volume>,
        batch: &mut Batch,
    ) {
        self.now = Some(event.time);
        self.matching.at(event.time);
        if event.kind == kind::ISSUE {
            self.has_driver(event.device);
        }
        let issue = self.instants.at(event);
        if event.kind == issue {
            self.take(event, volumes, batch);
            return;
        }
        match event.kind {
            kind::COMPLETE => self.complete(event, issue),
            kind::ISSUE if self.has_completions => {
                if let Some(of_range) = self.of_range(event) {
                    self.matching.hand_over(&of_range);
                } else if let Some(volume) = self.device_flush(event) {
                    self.matching.issue_device_flush(volume, event.time);
                }
            }
            kind::REQUEUE => self.give_back(event, issue),
            kind::SPLIT => {
                if let Some(of_range) = self.of_range(event) {
                    self.matching.split(&of_range);
                }
            }
            _ => {}
        }
    }

    /// The event as one with a range, on a known device; `None` if it has no range or the device is
    /// unknown.
    #[inline]
    fn of_range(&self, event: &Event) -> Option<Completion> {
        let meaning = classify(event).filter(|_| event.bytes > 0)?;
        Some(Completion {
            time: event.time,
            volume: self.volumes.known(event.device)?,
            class: meaning.class,
            offset: range_start(event)?,
            bytes: event.bytes,
            flags: meaning.flags,
            pid: event.pid,
            failed: event.failed,
        })
    }

    /// The volume of a flush of the device itself.
    fn device_flush(&self, event: &Event) -> Option<u32> {
        classify(event).filter(|meaning| meaning.class == Class::DeviceFlush)?;
        self.volumes.known(event.device)
    }

    /// Notes that the driver gave a request back.
    fn give_back(&mut self, event: &Event, issue: u8) {
        if issue != kind::ISSUE {
            if let Some(of_range) = self.of_range(event) {
                self.matching.give_back(&of_range);
            } else if let Some(volume) = self.device_flush(event) {
                self.matching.give_back_device_flush(volume);
            }
        }
        // It will be inserted and issued again and is still the same request.
        if issue != kind::QUEUE
            && let Some(meaning) = classify(event)
            && self.requeued.len() < REQUEUED_MAX
        {
            let key = (event.device, meaning.class, event.sector, event.bytes);
            *self.requeued.entry(key).or_default() += 1;
        }
    }

    /// Makes a request of an event that counts as issue for its device.
    #[inline]
    fn take(&mut self, event: &Event, volumes: &mut Vec<Volume>, batch: &mut Batch) {
        let Some(meaning) = classify(event) else {
            return count(&mut self.counts.without_range, || describe_event(event));
        };
        if !self.requeued.is_empty()
            && self.forget_requeued(event.device, meaning.class, event.sector, event.bytes)
        {
            return;
        }
        let offset = if meaning.op == Op::Flush { Some(0) } else { range_start(event) };
        let Some(offset) = offset else {
            return count(&mut self.counts.beyond_reach, || describe_event(event));
        };
        let Some(volume) = self.volumes.number(event.device, volumes) else {
            self.counts.too_many_devices += 1;
            return;
        };
        let row = Row::new(event, meaning.op, meaning.class, meaning.flags, volume, offset);
        if event.kind == kind::QUEUE && self.matching.is_rest_of_split(&row) {
            self.counts.split_rests += 1;
            return;
        }
        if event.kind == kind::QUEUE
            && self.matching.is_second_attempt(&row, self.workers.get(&event.pid).copied())
        {
            self.counts.second_attempts += 1;
            return;
        }
        let start = *self.start.get_or_insert(event.time);
        self.taken += 1;
        self.instants.count(event.kind);
        if self.has_completions {
            self.matching.push(row, event.kind == kind::ISSUE);
        } else {
            batch.push(&row.request(start));
        }
    }

    /// Completes the requests to which a completion belongs.
    #[inline]
    fn complete(&mut self, event: &Event, issue: u8) {
        let volume = self.volumes.known(event.device);
        let offset = range_start(event);
        let meaning = classify(event);
        if !self.requeued.is_empty()
            && let Some(meaning) = meaning
        {
            self.forget_requeued(event.device, meaning.class, event.sector, event.bytes);
        }
        let matched = match (volume, meaning, offset) {
            (Some(volume), Some(meaning), _) if meaning.class == Class::DeviceFlush => {
                self.matching.complete_device_flush(volume, event.time);
                return;
            }
            // A flush's completion lacks the flush flag: it is an empty write.
            (Some(volume), meaning, Some(offset))
                if event.bytes == 0
                    && event.categories & category::WRITE != 0
                    && meaning.is_none_or(|meaning| meaning.class == Class::Flush) =>
            {
                self.matching.complete_flush(volume, offset, event.time);
                return;
            }
            (Some(_), Some(_), Some(_)) if event.bytes > 0 => self.complete_range(event, issue),
            (Some(volume), Some(meaning), Some(offset)) => {
                let (flags, pid) = (meaning.flags, event.pid);
                let (time, class, failed) = (event.time, meaning.class, event.failed);
                let empty =
                    Completion { time, volume, class, offset, bytes: 0, flags, pid, failed };
                self.matching.complete(&empty, false)
            }
            _ => false,
        };
        // An empty completion ends a flush that began under another class; a zone append has its
        // place only in its own completion.
        let counts = event.bytes > 0 && event.categories & category::ZONE == 0;
        if !matched && counts {
            count(&mut self.counts.strays, || describe_event(event));
        }
    }

    /// Completes the requests to which a completion with a range belongs.
    #[inline]
    fn complete_range(&mut self, event: &Event, issue: u8) -> bool {
        let Some(of_range) = self.of_range(event) else { return false };
        if event.refused && issue == kind::QUEUE && self.matching.refuse(&of_range) {
            return true;
        }
        let has_driver =
            self.last_driver == Some(event.device) || self.drivers.contains(&event.device);
        self.matching.complete(&of_range, has_driver)
    }

    /// Figures of the matching, if there are completions.
    pub(in crate::formats) fn matching(&self) -> Option<MatchingFigures> {
        let figures =
            || MatchingFigures { strays: self.counts.strays.0, ..self.matching.figures() };
        self.has_completions.then(figures)
    }

    /// Figures of the driver, if requests are taken at the queue.
    pub(in crate::formats) fn driver(&self) -> Option<DriverFigures> {
        self.matching.driver().filter(|_| self.instants.main() == kind::QUEUE)
    }

    /// Forgets one return of this request by the driver; answers whether there was one.
    fn forget_requeued(&mut self, device: u32, class: Class, sector: u64, bytes: u32) -> bool {
        let key = (device, class, sector, bytes);
        let Some(times) = self.requeued.get_mut(&key) else { return false };
        *times -= 1;
        if *times == 0 {
            self.requeued.remove(&key);
        }
        true
    }

    /// Gives out the oldest request unless it has to be held back; answers whether a request was
    /// given.
    #[inline]
    pub(in crate::formats) fn pop(&mut self, batch: &mut Batch) -> bool {
        let Some((row, unmatched)) = self.matching.pop(self.now) else { return false };
        let request = row.request(self.start.unwrap_or_default());
        if row.refused {
            self.counts.refused += 1;
            self.taken -= 1;
            return true;
        }
        if unmatched {
            count(&mut self.counts.unmatched, || describe_request(&request));
        }
        batch.push(&request);
        true
    }

    /// Ends the events: requests are no longer held back. Answers whether this is the first call.
    pub(in crate::formats) fn close(&mut self) -> bool {
        self.now.take().is_some()
    }

    /// Notes the events that became no request, and the events that count as issue.
    pub(in crate::formats) fn tell(&self, losses: &mut Notes, guesses: &mut Notes) {
        self.instants.tell(guesses);
        for (what, (count, example)) in [
            (NoteKind::Beside.of("requests without a completion"), &self.counts.unmatched),
            (NoteKind::Unreadable.of("completions without a request"), &self.counts.strays),
            (
                NoteKind::Unreadable.of("events of neither a range nor a known command"),
                &self.counts.without_range,
            ),
            (
                NoteKind::Unreadable.of("requests beyond the last possible byte"),
                &self.counts.beyond_reach,
            ),
        ] {
            losses.add(what, *count, example.clone());
        }
        let failed = self.matching.figures().failed;
        losses.add(
            NoteKind::Beside.of("requests that the device failed; they are kept as requests"),
            failed,
            None,
        );
        losses.add(
            NoteKind::Unreadable.of("requests on too many devices"),
            self.counts.too_many_devices,
            None,
        );
        losses.add(
            NoteKind::Beside.of("rests of split requests, queued again"),
            self.counts.split_rests,
            None,
        );
        losses.add(SECOND_ATTEMPTS, self.counts.second_attempts, None);
        losses.add(REFUSED, self.counts.refused, None);
    }

    /// Notes the devices of which no request was read, which is known only at the end.
    pub(in crate::formats) fn tell_devices(&self, losses: &mut Notes) {
        self.instants.tell_devices(losses);
    }
}

/// The first byte of the event's range; `None` if the range reaches beyond 64-bit addresses.
#[inline]
fn range_start(event: &Event) -> Option<u64> {
    let offset = Bytes::from_sectors(event.sector)?.0;
    offset.checked_add(u64::from(event.bytes)).map(|_| offset)
}

/// Counts a case and keeps the first as an example.
fn count(counter: &mut (u64, Option<String>), example: impl FnOnce() -> String) {
    counter.0 += 1;
    counter.1.get_or_insert_with(example);
}

fn describe_event(event: &Event) -> String {
    format!(
        "{} on {} at sector {}, {} bytes, {} ns",
        kind::name(event.kind),
        device_name(event.device),
        event.sector,
        event.bytes,
        event.time
    )
}

fn describe_request(request: &Request) -> String {
    let (op, at) = (request.op.name(), request.issue.as_secs_f64());
    format!("{op} of {} bytes at byte {}, {at:.6} s", request.length.0, request.offset.0)
}
