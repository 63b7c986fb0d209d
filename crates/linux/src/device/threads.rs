//! The back end on threads: one plain system call per request, and one thread waiting in it.
//!
//! A replay must be possible where neither `io_uring` nor Linux AIO is allowed, and comparable with
//! figures of blkreplay, which also has one thread for each request in flight. The price is a
//! hand-over between threads for every request, and no more requests in flight than there are
//! threads.
//!
//! There is one difference from blkreplay. It assigns its requests to threads beforehand, so that
//! one slow request holds up those behind it while other threads are idle. Here any free thread
//! takes the next request, so requests wait only for the device.
//!
//! The instants differ from `io_uring`'s: a worker reads `submitted` just before its own system
//! call and `completed` just after it. So the time that a request waits for a free worker, or that
//! a worker needs to wake up, counts as lateness and not as service time; and the instant that
//! [`Queue::submit`] answers is only that of the hand-over to the workers.

use std::io;
use std::sync::Arc;

use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::Nanos;

use super::buffers::{Buffer, Register};
use super::queue::Queue;
use super::targets::Targets;
use super::workers::Workers;
use crate::clock::MonotonicClock;

/// The most workers unless told: beyond it they cost more in switching than they bring in parallel.
const WORKERS_DEFAULT: u32 = 256;

/// A target driven by threads.
pub(super) struct ThreadsQueue {
    workers: Workers<Targets>,
    clock: MonotonicClock,
    in_flight_max: u32,
}

impl ThreadsQueue {
    /// Drives `targets` with `threads` workers; more requests than that wait for a free one.
    pub(super) fn new(
        targets: &Arc<Targets>,
        in_flight_max: u32,
        threads: Option<u32>,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let threads = threads.unwrap_or(in_flight_max.min(WORKERS_DEFAULT));
        let workers = Workers::new(threads, in_flight_max, targets, clock, None)?;
        Ok(Self { workers, clock, in_flight_max })
    }
}

impl Register for ThreadsQueue {}

impl Queue for ThreadsQueue {
    fn prepare(&mut self, io: &Io, buffer: Option<Buffer>) {
        self.workers.prepare(io, buffer);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let stamp = self.clock.now();
        Ok((stamp, self.workers.submit()?))
    }

    fn reap(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> io::Result<()> {
        self.workers.reap(done);
        Ok(())
    }

    fn wait(
        &mut self,
        until: Nanos,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()> {
        if self.workers.in_flight() > 0 || until < Nanos::MAX {
            self.workers.wait(until, done);
        }
        Ok(())
    }

    fn concurrency(&self) -> u32 {
        self.workers.count()
    }

    fn describe(&self) -> String {
        let count = self.workers.count();
        let name = if count == 1 { "worker" } else { "workers" };
        format!("threads: {count} {name}, {} in flight at most", self.in_flight_max)
    }
}
