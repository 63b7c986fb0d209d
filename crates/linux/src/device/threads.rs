//! The back end on threads: one plain system call per request, and one thread waiting in it.
//!
//! `io_uring` is forbidden in most containers and on hardened hosts, and a replay must be possible
//! there all the same. The price is a hand-over between threads for every request, and no more
//! requests in flight than there are threads.
//!
//! The instants differ from `io_uring`'s: a worker reads `submitted` just before its own system
//! call and `completed` just after it. So the time that a request waits for a free worker, or that
//! a worker needs to wake up, counts as lateness and not as service time; and the instant that
//! [`Device::submit`] answers is only that of the hand-over to the workers.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};

use super::buffers::{Buffer, Pool};
use super::{BUFFER_MEMORY, expected, moves_data, outcome, supports};
use crate::clock::MonotonicClock;
use crate::target::{self, OpenedTarget, TargetKind};

/// The most workers: beyond it they cost more in switching than they bring in parallel.
const WORKERS_MAX: u32 = 256;

/// Small: a worker only makes system calls.
const STACK: usize = 128 << 10;

struct Job {
    io: Io,
    buffer: Option<Buffer>,
}

struct Done {
    completion: Completion,
    buffer: Option<Buffer>,
}

/// A target driven by threads. Dropping it waits for the requests in flight.
#[derive(Debug)]
pub struct ThreadsDevice {
    target: Arc<OpenedTarget>,
    clock: MonotonicClock,
    prepared: Vec<Job>,
    /// Absent only while it is dropped: the workers end when it is gone.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    in_flight: usize,
    in_flight_max: u32,
    workers: Vec<JoinHandle<()>>,
    pool: Pool,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.io.fmt(f)
    }
}

impl ThreadsDevice {
    /// Drives `target` with `in_flight_max` workers, at most 256; more requests than that wait for
    /// a free one.
    pub fn new(
        target: OpenedTarget,
        in_flight_max: u32,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let in_flight_max = in_flight_max.clamp(1, super::IN_FLIGHT_MAX);
        let target = Arc::new(target);
        let (jobs, waiting) = bounded::<Job>(in_flight_max as usize);
        let (finished, done) = bounded(in_flight_max as usize);
        let workers = (0..in_flight_max.min(WORKERS_MAX))
            .map(|number| {
                let (waiting, finished) = (waiting.clone(), finished.clone());
                let target = Arc::clone(&target);
                Builder::new()
                    .name(format!("ioecho-io-{number}"))
                    .stack_size(STACK)
                    .spawn(move || work(&target, clock, &waiting, &finished))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self {
            target,
            clock,
            prepared: Vec::with_capacity(in_flight_max as usize),
            jobs: Some(jobs),
            done,
            in_flight: 0,
            in_flight_max,
            workers,
            pool: Pool::new(BUFFER_MEMORY, in_flight_max as usize),
        })
    }

    fn finish(&mut self, done: Done, completions: &mut Vec<Completion>) {
        if let Some(buffer) = done.buffer {
            self.pool.give(buffer);
        }
        self.in_flight -= 1;
        completions.push(done.completion);
    }
}

/// A worker's life: until no more jobs can come, or nobody wants to know.
fn work(
    target: &OpenedTarget,
    clock: MonotonicClock,
    waiting: &Receiver<Job>,
    finished: &Sender<Done>,
) {
    for Job { io, mut buffer } in waiting {
        let submitted = clock.now();
        let answer = issue(target, &io, buffer.as_mut());
        let completed = clock.now();
        let result = answer.map_or_else(|error| -error.raw_os_error(), |moved| moved as i32);
        let outcome = outcome(result, expected(&io));
        let integrity = Integrity::Unchecked;
        let completion = Completion { tag: io.tag, submitted, completed, outcome, integrity };
        if finished.send(Done { completion, buffer }).is_err() {
            return;
        }
    }
}

/// Does one request and answers how many bytes it moved.
fn issue(target: &OpenedTarget, io: &Io, buffer: Option<&mut Buffer>) -> rustix::io::Result<usize> {
    let file = &target.file;
    let (offset, length) = (io.offset.0, io.length.0);
    let data = buffer.map_or(&mut [][..], |buffer| buffer.bytes(length as usize));
    let allocate = |mode: FallocateFlags| {
        fallocate(file, mode | FallocateFlags::KEEP_SIZE, offset, length).map(|()| 0)
    };
    match io.op {
        Op::Read => retry_on_intr(|| pread(file, &mut *data, offset)),
        Op::Write => {
            if io.flags.contains(Flags::PREFLUSH) {
                fdatasync(file)?;
            }
            if io.flags.contains(Flags::FUA) {
                let parts = [IoSlice::new(data)];
                retry_on_intr(|| pwritev2(file, &parts, offset, ReadWriteFlags::DSYNC))
            } else {
                retry_on_intr(|| pwrite(file, data, offset))
            }
        }
        Op::Flush => fdatasync(file).map(|()| 0),
        Op::Discard if target.facts().kind == TargetKind::BlockDevice => {
            target::discard(file, offset, length).map(|()| 0)
        }
        Op::Discard => allocate(FallocateFlags::PUNCH_HOLE),
        Op::WriteZeroes => allocate(FallocateFlags::ZERO_RANGE),
        Op::Zone => Err(Errno::OPNOTSUPP),
    }
}

impl Device for ThreadsDevice {
    fn capacity(&self) -> Bytes {
        self.target.facts().capacity
    }

    fn block_size(&self) -> Bytes {
        self.target.facts().logical_block
    }

    /// Of reads and writes. Discards and write-zeroes move no data and may be of any length.
    fn length_max(&self) -> Bytes {
        Bytes(self.pool.length_max() as u64)
    }

    fn supports(&self, op: Op) -> bool {
        supports(&self.target, op)
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let length = expected(io) as usize;
        let mut buffer = moves_data(io.op).then(|| self.pool.take(length));
        if let (Op::Write, Some(buffer)) = (io.op, buffer.as_mut()) {
            payload.fill(io, buffer.bytes(length));
        }
        self.prepared.push(Job { io: *io, buffer });
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let stamp = self.clock.now();
        let accepted = self.prepared.len();
        for job in self.prepared.drain(..) {
            let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
            if !sent {
                return Err(io::Error::other("all I/O threads have ended: a bug in ioecho"));
            }
            self.in_flight += 1;
        }
        Ok((stamp, accepted))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        while let Ok(done) = self.done.try_recv() {
            self.finish(done, completions);
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.in_flight == 0 && until == Nanos::MAX {
            return Ok(());
        }
        let left = until.saturating_sub(self.clock.now()).0;
        if left > 0 {
            let left = Duration::from_nanos(left as u64);
            let done = match Instant::now().checked_add(left) {
                Some(deadline) => self.done.recv_deadline(deadline).ok(),
                None => self.done.recv().ok(),
            };
            if let Some(done) = done {
                self.finish(done, completions);
            }
        }
        self.reap(completions)
    }

    fn concurrency(&self) -> u32 {
        self.workers.len() as u32
    }

    fn describe(&self) -> String {
        let discard = if supports(&self.target, Op::Discard) { "discard" } else { "no discard" };
        let cached = if self.target.facts().direct { "" } else { ", page cache not bypassed" };
        format!(
            "threads: {} workers, {} in flight at most, {discard}{cached}, {}",
            self.workers.len(),
            self.in_flight_max,
            self.pool.describe()
        )
    }
}

impl Drop for ThreadsDevice {
    fn drop(&mut self) {
        self.jobs = None;
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
    }
}
