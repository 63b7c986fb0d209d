//! The writing side of a run: a thread that stores every result.
//!
//! The engine must never wait for a disk, and no result may be lost without notice. So results pass
//! through a ring that holds at least a second of them; results that do not fit are counted. The
//! thread appends them to the journal and passes them to the system every tenth of a second, so a
//! killed run loses no more than that.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_replay::Record;
use ioecho_replay::engine::ResultSink;
use ioecho_replay::engine::telemetry::Telemetry;
use ioecho_replay::joint::Joint;
use ioecho_replay::journal::{Row, lateness, of_row, seal, succeeded, unsealed};
use ioecho_replay::verify::INTENTS_MAX;
use ioecho_stats::facts::RecorderFacts;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::directory::RunDirectory;
use crate::observer::{Counter, Moments};
use crate::telemetry::{self, TelemetrySender, TelemetryWriter};

/// Results in a ring: at 100,000 requests/s more than a second.
const RING: usize = 1 << 17;

/// The same of many lanes, such as those of threads on files, whose calls take microseconds.
const RING_OF_MANY: usize = 1 << 13;

/// So many lanes are many.
const MANY: usize = 8;

/// How long the thread sleeps when there is nothing to write.
const IDLE_NAP: Duration = Duration::from_millis(5);

/// The same once nothing has come for [`LONG_AFTER`]. A run may be armed for minutes before it
/// begins, beside hundreds of others on one host: those naps of all would take its processors. A
/// ring must not be full before the thread looks again, so that of many lanes, which has less room,
/// gets a shorter one.
const LONG_NAP: Duration = Duration::from_millis(50);
const LONG_NAP_OF_MANY: Duration = Duration::from_millis(20);

/// See [`LONG_NAP`].
const LONG_AFTER: Duration = Duration::from_secs(1);

/// How often buffered results are passed to the system.
const FLUSH_EVERY: Duration = Duration::from_millis(100);

/// How often results are synced to the disk if they are to survive a power cut.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The most results that are in the journal and not on its disk while a durable ring relies on it.
/// With those in the ring of results, and some more on their way, they are fewer than a ring of
/// intents has slots, so that what is overwritten there is on the disk here.
const UNSYNCED_MAX: u64 = 1 << 15;

const _: () = assert!(RING as u64 + 2 * UNSYNCED_MAX < INTENTS_MAX as u64);

/// Results that are taken from a ring at once.
const GO: usize = 4096;

/// The size of the buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// The engine's end of the ring.
pub(crate) struct RingSink {
    producer: Producer<Row>,
    /// How many results there is room for.
    room: usize,
    /// Results that did not fit.
    pub(crate) lost: u64,
    /// In simulated time the writer's real time must not count, so the engine waits for it.
    pub(crate) blocking: bool,
    /// The engine's end of the telemetry, if it was asked for.
    telemetry: Option<TelemetrySender>,
    /// The places of the lane's targets, where there are several: results are those of a target.
    pub(crate) joint: Option<Joint>,
}

/// A result with the number of its target and its place there.
fn of_target(record: &Record, joint: &Joint) -> Record {
    let mut record = *record;
    record.planned = joint.planned(&record.planned);
    record.measured.target = record.planned.target;
    record.measured.target_offset = record.measured.target_offset.map(|place| joint.place(place).1);
    record
}

impl ResultSink for RingSink {
    fn record(&mut self, record: &Record) -> bool {
        while self.blocking && self.producer.is_full() && !self.producer.is_abandoned() {
            thread::yield_now();
        }
        let pushed = match &self.joint {
            None => self.producer.push(unsealed(record)),
            Some(joint) => self.producer.push(unsealed(&of_target(record, joint))),
        };
        self.lost += u64::from(pushed.is_err());
        pushed.is_ok()
    }

    fn telemetry(&mut self, interval: &Telemetry) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.send(interval);
        }
    }

    /// In simulated time the level of the ring depends on the host and not on the run.
    fn level(&self) -> Option<u64> {
        (!self.blocking).then(|| (self.room - self.producer.slots()) as u64)
    }
}

/// The writer's results.
pub(crate) struct WriterEnd {
    /// Results that are in the journal.
    pub(crate) written: u64,
    /// Results that could not be written.
    pub(crate) lost: u64,
    /// The first error, after which the run was stopped.
    pub(crate) error: Option<io::Error>,
    /// The most results that waited in a ring.
    pub(crate) peak: usize,
    /// The longest time that passing results to the system took.
    pub(crate) write_max: Duration,
    /// How many results a ring has room for.
    room: usize,
}

impl WriterEnd {
    /// The writer's performance, for the verdict.
    pub(crate) fn facts(&self) -> RecorderFacts {
        RecorderFacts {
            room: self.room as u64,
            peak: self.peak as u64,
            write_max_ns: i64::try_from(self.write_max.as_nanos()).unwrap_or(i64::MAX),
        }
    }
}

/// The settings for storing results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriterOptions {
    /// The number of recorders.
    pub(crate) targets: usize,
    /// How many of them are those of threads on files.
    pub(crate) threads: usize,
    /// Whether results should survive a power cut: then they are synced to the disk once a second.
    pub(crate) durable: bool,
    /// Whether a durable ring relies on the journal: then no more than [`UNSYNCED_MAX`] results
    /// wait for that.
    pub(crate) is_relied_on: bool,
    /// Whether the engines write telemetry.
    pub(crate) telemetry: bool,
    /// Whether the run uses the host's clock.
    pub(crate) real: bool,
}

/// Starts the thread. It ends after everything is written, once the recorders are dropped or
/// `ended` says that the remaining ones send nothing more. When the disk is full it stops the run,
/// frees the reserve and continues.
pub(crate) fn spawn(
    run: &RunDirectory,
    journal: File,
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    options: WriterOptions,
    moments: Arc<Mutex<Moments>>,
    counter: Option<Box<dyn Counter>>,
) -> io::Result<(JoinHandle<WriterEnd>, Vec<RingSink>)> {
    let (senders, telemetry) =
        options.telemetry.then(|| telemetry::rings(run, options.targets, options.real)).unzip();
    let mut senders = senders.unwrap_or_default().into_iter();
    let room = match options.threads {
        // What is on its way here must have its notes, and the ring of those has so many places.
        threads if options.durable && threads > 0 => RING / threads.next_power_of_two(),
        threads if threads > MANY => RING_OF_MANY,
        _ => RING,
    };
    let (recorders, consumers): (Vec<_>, Vec<_>) = (0..options.targets)
        .map(|_| {
            let (producer, consumer) = RingBuffer::new(room);
            let telemetry = senders.next();
            let sink =
                RingSink { producer, room, lost: 0, blocking: false, telemetry, joint: None };
            (sink, consumer)
        })
        .unzip();
    let writer = Writer {
        journal,
        run: run.clone(),
        stop,
        ended,
        buffer: Vec::with_capacity(BUFFER_BYTES),
        buffered: 0,
        durable: options.durable,
        unsynced_max: if options.is_relied_on { UNSYNCED_MAX } else { u64::MAX },
        unsynced: 0,
        synced: Instant::now(),
        counter,
        telemetry,
        end: WriterEnd {
            written: 0,
            lost: 0,
            error: None,
            peak: 0,
            write_max: Duration::ZERO,
            room,
        },
    };
    let thread =
        ioecho_linux::thread::start("ioecho-writer", move || writer.work(consumers, &moments))?;
    Ok((thread, recorders))
}

struct Writer {
    journal: File,
    run: RunDirectory,
    stop: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    buffer: Vec<u8>,
    buffered: u64,
    durable: bool,
    /// So many results may be written and not synced.
    unsynced_max: u64,
    unsynced: u64,
    synced: Instant,
    /// Counts results into intervals, if needed.
    counter: Option<Box<dyn Counter>>,
    /// Writes the engines' telemetry, if it was asked for.
    telemetry: Option<TelemetryWriter>,
    end: WriterEnd,
}

impl Writer {
    fn work(mut self, mut consumers: Vec<Consumer<Row>>, moments: &Mutex<Moments>) -> WriterEnd {
        let (mut flushed, mut came) = (Instant::now(), Instant::now());
        let long = if self.end.room < RING { LONG_NAP_OF_MANY } else { LONG_NAP };
        loop {
            let abandoned =
                self.ended.load(Relaxed) || consumers.iter().all(Consumer::is_abandoned);
            // Read before the rings, so that all results up to a lane's present are in its ring.
            let running: Vec<bool> =
                consumers.iter().map(|consumer| !consumer.is_abandoned()).collect();
            let clock = self.counter.as_ref().and_then(|counter| counter.clock(&running));
            let counts = consumers.iter_mut().map(|consumer| self.take(consumer, moments));
            let counts: Vec<usize> = counts.collect();
            let taken: usize = counts.iter().sum();
            if let (Some(counter), Some(now)) = (&mut self.counter, clock)
                && counts.iter().all(|count| *count < GO)
            {
                counter.close_until(now);
            }
            if self.buffer.len() >= BUFFER_BYTES / 2 || flushed.elapsed() >= FLUSH_EVERY {
                self.flush();
                if let Some(telemetry) = &mut self.telemetry {
                    telemetry.write();
                }
                flushed = Instant::now();
            }
            if taken == 0 {
                if abandoned {
                    self.flush();
                    if let Some(counter) = &mut self.counter {
                        counter.finish();
                    }
                    for text in self.telemetry.map(TelemetryWriter::finish).unwrap_or_default() {
                        self.run.log(&text);
                    }
                    return self.end;
                }
                let is_long = came.elapsed() >= LONG_AFTER;
                thread::sleep(if is_long { long } else { IDLE_NAP });
            } else {
                came = Instant::now();
            }
        }
    }

    fn take(&mut self, consumer: &mut Consumer<Row>, moments: &Mutex<Moments>) -> usize {
        let waiting = consumer.slots();
        self.end.peak = self.end.peak.max(waiting);
        let count = waiting.min(GO);
        let Ok(chunk) = consumer.read_chunk(count) else { return 0 };
        if count == 0 {
            return 0;
        }
        let mut moments = moments.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Where they lie: this thread takes processor time from those that make the load.
        let (first, second) = chunk.as_slices();
        let from = self.buffer.len();
        self.buffer.extend_from_slice(first.as_flattened());
        self.buffer.extend_from_slice(second.as_flattened());
        chunk.commit_all();
        self.buffered += count as u64;
        for row in self.buffer[from..].as_chunks_mut().0 {
            seal(row);
            moments.completed += u64::from(succeeded(row));
            lateness(row).inspect(|lateness| moments.lateness.record(*lateness));
            if let Some(counter) = &mut self.counter
                && let Some(record) = of_row(row)
            {
                counter.add(&record);
            }
        }
        count
    }

    fn flush(&mut self) {
        let begun = Instant::now();
        let mut result = self.write();
        if let Err(error) = &result {
            self.stop.store(true, Relaxed);
            self.run.log(&format!("results cannot be written, the run is stopped: {error}"));
            if self.run.free_reserve() {
                self.end.error = result.err();
                result = self.write();
            }
        }
        match result {
            Ok(()) => {
                self.end.written += self.buffered;
                self.unsynced += self.buffered;
                let is_much = self.unsynced >= self.unsynced_max;
                if self.durable && (is_much || self.synced.elapsed() >= SYNC_EVERY) {
                    let synced = self.journal.sync_data();
                    if let Err(error) = synced
                        && self.unsynced_max != u64::MAX
                    {
                        // What a durable ring overwrites must be here.
                        self.stop.store(true, Relaxed);
                        self.end.error.get_or_insert(error);
                    }
                    // Otherwise a later verification finds what is missing, and reports it.
                    self.synced = Instant::now();
                    self.unsynced = 0;
                }
            }
            Err(error) => {
                self.end.lost += self.buffered;
                self.end.error.get_or_insert(error);
            }
        }
        let took = begun.elapsed();
        self.end.write_max = self.end.write_max.max(took);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.wrote(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        }
        self.buffer.clear();
        self.buffered = 0;
    }

    /// Writes the buffer. After a partial failure the written part is removed from the buffer, so
    /// the next call continues there and no record is torn.
    fn write(&mut self) -> io::Result<()> {
        let mut done = 0;
        let result = loop {
            if done == self.buffer.len() {
                break Ok(());
            }
            match self.journal.write(&self.buffer[done..]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.buffer.drain(..done);
        result
    }
}
