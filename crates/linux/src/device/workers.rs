//! Threads that do one plain system call after another.
//!
//! Some system calls block: Linux AIO has no discard and no order between requests, a polled ring
//! takes only reads and writes, and where nothing else is allowed all requests are blocking calls.
//! They must never run on the issuing thread.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::{Flags, Integrity, Nanos, Op};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};

use super::buffers::Buffer;
use super::targets::Targets;
use super::{CLOSING, expected, outcome};
use crate::clock::MonotonicClock;
use crate::target::{self, TargetKind};
use crate::thread::start_by;

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

/// Rung after each job: an `eventfd` that the issuing thread waits for together with other things.
pub(super) type Bell = Arc<OwnedFd>;

/// Some threads and the way to and from them. Dropping it waits up to ten seconds for the jobs that
/// they have; then it leaves the threads to themselves, each with the buffer that it works on.
pub(super) struct Workers {
    clock: MonotonicClock,
    prepared: Vec<Job>,
    /// Absent only while it is dropped: the workers end when it is gone.
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    in_flight: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// `count` threads for up to `in_flight_max` jobs.
    pub(super) fn new(
        count: u32,
        in_flight_max: u32,
        targets: &Arc<Targets>,
        clock: MonotonicClock,
        bell: Option<&Bell>,
    ) -> io::Result<Self> {
        let (jobs, waiting) = bounded::<Job>(in_flight_max as usize);
        let (finished, done) = bounded(in_flight_max as usize);
        let threads = (0..count)
            .map(|number| {
                let (waiting, finished) = (waiting.clone(), finished.clone());
                let (targets, bell) = (Arc::clone(targets), bell.cloned());
                let builder = Builder::new().name(format!("ioecho-io-{number}")).stack_size(STACK);
                start_by(builder, move || {
                    work(&targets, clock, &waiting, &finished, bell.as_ref());
                })
            })
            .collect::<io::Result<_>>()?;
        let prepared = Vec::with_capacity(in_flight_max as usize);
        Ok(Self { clock, prepared, jobs: Some(jobs), done, in_flight: 0, threads })
    }

    /// How many threads there are.
    pub(super) fn count(&self) -> u32 {
        self.threads.len() as u32
    }

    /// Jobs handed over and not taken back.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Queues a job for the next hand-over.
    pub(super) fn prepare(&mut self, io: &Io, buffer: Option<Buffer>) {
        self.prepared.push(Job { io: *io, buffer });
    }

    /// Hands over what is prepared and answers how many jobs it was.
    pub(super) fn submit(&mut self) -> io::Result<usize> {
        let accepted = self.prepared.len();
        for job in self.prepared.drain(..) {
            let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
            if !sent {
                return Err(io::Error::other("all I/O threads have ended: a bug in ioecho"));
            }
            self.in_flight += 1;
        }
        Ok(accepted)
    }

    /// Takes what is done, without waiting.
    pub(super) fn reap(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) {
        while let Ok(one) = self.done.try_recv() {
            self.in_flight -= 1;
            done(one.completion, one.buffer);
        }
    }

    /// Waits until something is done or the clock reaches `until`, and takes what is done.
    pub(super) fn wait(&mut self, until: Nanos, done: &mut impl FnMut(Completion, Option<Buffer>)) {
        let left = until.saturating_sub(self.clock.now()).0;
        if left > 0 {
            let left = Duration::from_nanos(left as u64);
            let one = match Instant::now().checked_add(left) {
                Some(deadline) => self.done.recv_deadline(deadline).ok(),
                None => self.done.recv().ok(),
            };
            if let Some(one) = one {
                self.in_flight -= 1;
                done(one.completion, one.buffer);
            }
        }
        self.reap(done);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.jobs = None;
        let deadline = self.clock.now() + CLOSING;
        while self.in_flight > 0 && self.clock.now() < deadline {
            self.wait(deadline, &mut |_, _| ());
        }
        if self.in_flight == 0 {
            for thread in self.threads.drain(..) {
                // A worker that panicked has said so already.
                let _ = thread.join();
            }
        }
    }
}

/// A worker's loop: until no more jobs can come, or nobody takes its results.
fn work(
    targets: &Targets,
    clock: MonotonicClock,
    waiting: &Receiver<Job>,
    finished: &Sender<Done>,
    bell: Option<&Bell>,
) {
    for Job { io, mut buffer } in waiting {
        let submitted = clock.now();
        let answer = perform(targets, &io, buffer.as_mut());
        let completed = clock.now();
        let result = answer.map_or_else(|error| -error.raw_os_error(), |moved| moved as i32);
        let outcome = outcome(result, expected(&io));
        let integrity = Integrity::Unchecked;
        let completion = Completion { tag: io.tag, submitted, completed, outcome, integrity };
        if finished.send(Done { completion, buffer }).is_err() {
            return;
        }
        if let Some(bell) = bell {
            // Refused only when nobody has listened for 2^64 jobs.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }
}

/// Does one request and answers how many bytes it moved.
fn perform(targets: &Targets, io: &Io, buffer: Option<&mut Buffer>) -> rustix::io::Result<usize> {
    let (at, io) = targets.of(io);
    let target = &targets.all()[at];
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
        _ => Err(Errno::OPNOTSUPP),
    }
}
