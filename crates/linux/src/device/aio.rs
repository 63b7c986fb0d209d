//! The back end on Linux AIO, for hosts that forbid `io_uring`.
//!
//! Container run-times and hardened hosts filter `io_uring` out, but nearly all let `io_submit`
//! pass: it is twenty years old and databases need it. With direct I/O on a block device it keeps
//! thousands of requests in flight from one thread, as `io_uring` does, and completions are read
//! from memory without a system call. What is different:
//!
//! - `io_submit` may wait: on a file whose blocks are not allocated, or where the device's queue is
//!   full. The engine sees it as a slow hand-over.
//! - Without direct I/O it always waits, until all is done. [`Backend::Auto`] takes threads then.
//! - There are no discards, no write-zeroes and no order between a flush and a write: these
//!   requests go to a few threads, and their instants are those of the thread (see `threads`).
//!
//! The instants of the others are as those of `io_uring`.
//!
//! [`Backend::Auto`]: super::Backend::Auto

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::{Flags, Integrity, Nanos, Op, Outcome};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::aio_context::{Block, Context, Event};
use super::buffers::{Buffer, Register};
use super::queue::Queue;
use super::targets::Targets;
use super::workers::{Bell, Workers};
use super::{CLOSING, HELPERS, expected, is_ordered, moves_data, outcome};
use crate::clock::MonotonicClock;

#[derive(Debug, Default)]
struct Slot {
    expected: u32,
    submitted: Nanos,
    buffer: Option<Buffer>,
}

/// A target driven through Linux AIO. Dropping it waits up to ten seconds for the requests in
/// flight.
pub(super) struct AioQueue {
    context: Context,
    targets: Arc<Targets>,
    clock: MonotonicClock,
    /// One for each tag.
    slots: Vec<Slot>,
    in_flight: usize,
    /// Requests that the kernel refused when they were handed over.
    refused: Vec<(u32, Errno)>,
    helpers: Workers<Targets>,
    /// Rung by the helpers; the context reports it as a completion.
    bell: Bell,
    is_listening: bool,
}

/// Whether Linux AIO can be used here for so many requests, and if not, why.
pub(super) fn available(in_flight_max: u32) -> Result<(), String> {
    let set_up = || -> io::Result<()> {
        let bell = bell()?;
        let mut context = Context::new(in_flight_max as usize + 1)?;
        // SAFETY: the block points to no memory.
        unsafe { context.submit_alone(0, Block::readable(bell.as_raw_fd())) }
    };
    set_up().map_err(|error| reason(&error))
}

/// The cause of the refusal.
pub(super) fn reason(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOSYS) => "the kernel is built without it, or a filter hides it (ENOSYS)",
        Some(Errno::PERM | Errno::ACCESS) => "a security filter forbids it (EPERM)",
        Some(Errno::AGAIN) => "the sysctl fs.aio-max-nr allows no more requests (EAGAIN)",
        Some(Errno::INVAL) => "the kernel is older than 4.18",
        _ => return error.to_string(),
    }
    .to_owned()
}

fn bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

impl AioQueue {
    /// Drives `targets` with up to `in_flight_max` requests.
    pub(super) fn new(
        targets: &Arc<Targets>,
        in_flight_max: u32,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let bell = Arc::new(bell()?);
        let count = HELPERS.min(in_flight_max);
        let helpers = Workers::new(count, in_flight_max, targets, clock, Some(&bell))?;
        Ok(Self {
            // One more for the bell.
            context: Context::new(in_flight_max as usize + 1)?,
            targets: Arc::clone(targets),
            clock,
            slots: (0..in_flight_max).map(|_| Slot::default()).collect(),
            in_flight: 0,
            refused: Vec::with_capacity(in_flight_max as usize),
            helpers,
            bell,
            is_listening: false,
        })
    }

    /// Makes the context report when a helper has done something.
    fn listen(&mut self) {
        if !self.is_listening && self.helpers.in_flight() > 0 {
            let (number, file) = (self.slots.len(), self.bell.as_raw_fd());
            // SAFETY: the block points to no memory.
            let told = unsafe { self.context.submit_alone(number, Block::readable(file)) };
            // After a failure it is tried again before the next sleep, and every sleep is bounded.
            self.is_listening = told.is_ok();
        }
    }

    /// Takes what has completed; sleeps for up to `left_ns` before, if asked to.
    fn take(
        &mut self,
        left_ns: Option<i64>,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<bool> {
        let mut found = false;
        let Self { context, slots, in_flight, clock, bell, is_listening, .. } = self;
        let mut completed = None;
        let is_busy = *in_flight > 0 || *is_listening;
        let take = |event: Event| {
            let tag = event.number();
            let Some(slot) = slots.get_mut(tag) else {
                // Emptied before the helpers' results are taken, so that nothing is missed.
                let _ = rustix::io::read(&*bell, &mut [0; 8]);
                *is_listening = false;
                return;
            };
            *in_flight -= 1;
            found = true;
            let completion = Completion {
                tag: tag as u32,
                submitted: slot.submitted,
                completed: *completed.get_or_insert_with(|| clock.now()),
                outcome: outcome(event.result(), slot.expected),
                integrity: Integrity::Unchecked,
            };
            done(completion, slot.buffer.take());
        };
        match left_ns {
            Some(left) => context.wait(left, take)?,
            None if is_busy => context.reap(take)?,
            None => {}
        }
        if self.helpers.in_flight() > 0 {
            self.helpers.reap(&mut |completion, buffer| {
                found = true;
                done(completion, buffer);
            });
        }
        for (tag, errno) in self.refused.drain(..) {
            let slot = &mut self.slots[tag as usize];
            self.in_flight -= 1;
            found = true;
            let submitted = slot.submitted;
            let completion = Completion {
                tag,
                submitted,
                completed: submitted,
                outcome: refusal(errno),
                integrity: Integrity::Unchecked,
            };
            done(completion, slot.buffer.take());
        }
        Ok(found)
    }
}

/// The outcome of a request that the kernel did not accept.
fn refusal(errno: Errno) -> Outcome {
    outcome(-errno.raw_os_error(), 0)
}

impl Register for AioQueue {}

impl Queue for AioQueue {
    fn prepare(&mut self, io: &Io, mut buffer: Option<Buffer>) {
        if is_ordered(io) || !(moves_data(io.op) || io.op == Op::Flush) {
            self.helpers.prepare(io, buffer);
            return;
        }
        let (at, io) = &self.targets.of(io);
        let file = self.targets.all()[*at].file.as_raw_fd();
        let memory = buffer.as_mut().map_or(std::ptr::null_mut(), Buffer::address);
        let block = match io.op {
            Op::Read => Block::read(file, memory, io.length.0, io.offset.0),
            Op::Write => {
                let durable = io.flags.contains(Flags::FUA);
                Block::write(file, memory, io.length.0, io.offset.0, durable)
            }
            _ => Block::flush(file),
        };
        let slot = Slot { expected: expected(io), submitted: Nanos::ZERO, buffer };
        self.slots[io.tag as usize] = slot;
        self.context.prepare(io.tag as usize, block);
    }

    /// One system call. Where the kernel refuses a request at once, that request has the error for
    /// its outcome, and the rest stays prepared for the next call.
    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let helped = self.helpers.submit()?;
        let stamp = self.clock.now();
        let Self { context, slots, refused, .. } = self;
        let mut accepted = 0;
        if context.has_queued() {
            let taken = |tag: usize| slots[tag].submitted = stamp;
            // SAFETY: a block points to the buffer that its slot holds until the completion is
            // seen; `drop` waits for it or leaks the buffer. The slot of a tag in flight is never
            // reused, as the caller of `prepare` promises.
            accepted = match unsafe { context.submit(taken) } {
                Ok(accepted) => accepted,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR) => 0,
                    Some(errno) => {
                        let tag = context.take_first();
                        slots[tag].submitted = stamp;
                        refused.push((tag as u32, errno));
                        1
                    }
                    None => return Err(error),
                },
            };
        }
        self.in_flight += accepted;
        Ok((stamp, helped + accepted))
    }

    fn reap(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> io::Result<()> {
        self.take(None, done).map(drop)
    }

    fn wait(
        &mut self,
        until: Nanos,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()> {
        let in_flight = self.in_flight + self.helpers.in_flight();
        if self.take(None, done)? || (in_flight == 0 && until == Nanos::MAX) {
            return Ok(());
        }
        let left = until.saturating_sub(self.clock.now()).0;
        if left > 0 {
            if self.in_flight == 0 {
                self.helpers.wait(until, done);
                return Ok(());
            }
            self.listen();
            self.take(Some(left), done)?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let ring = if self.context.reads_ring() {
            "completions read from its ring"
        } else {
            "completions fetched by system call"
        };
        format!(
            "aio: {} in flight at most, {ring}, discards, write-zeroes and ordered writes by {} \
             threads",
            self.slots.len(),
            self.helpers.count()
        )
    }
}

impl Drop for AioQueue {
    fn drop(&mut self) {
        let deadline = self.clock.now() + CLOSING;
        while self.in_flight > 0 && self.clock.now() < deadline {
            if self.wait(deadline, &mut |_, _| ()).is_err() {
                break;
            }
        }
        if self.in_flight > 0 {
            // The kernel may still write to these buffers: they must stay for ever. Destroying the
            // context would wait for the requests.
            mem::forget(mem::take(&mut self.slots));
            self.context.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::Bytes;

    use super::*;
    use crate::device::buffers::Pool;
    use crate::target::{self, Access, OpenOptions};

    const COUNT: u32 = 300;

    fn read(tag: u32) -> Io {
        Io {
            tag,
            request: u64::from(tag),
            scheduled: Nanos::ZERO,
            op: Op::Read,
            flags: Flags::empty(),
            offset: Bytes(0),
            length: Bytes(4096),
        }
    }

    #[test]
    fn completions_are_fetched_where_the_ring_is_unknown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut opening = OpenOptions::new(Access::ReadOnly);
        opening.allow_cached = true;
        let targets = Arc::new(Targets::one(target::open(file.path(), opening).unwrap()));
        if let Err(reason) = available(COUNT) {
            ioecho_fixture::skipped(reason);
            return;
        }
        let clock = MonotonicClock::new();
        let mut queue = AioQueue::new(&targets, COUNT, clock).unwrap();
        assert!(queue.describe().contains("read from its ring"), "{}", queue.describe());
        queue.context.forget_ring();
        assert!(queue.describe().contains("fetched by system call"));
        let mut pool = Pool::new(4 << 20, 0, &mut ());
        for tag in 0..COUNT {
            queue.prepare(&read(tag), pool.take(4096, &mut ()));
        }
        let mut accepted = 0;
        let mut seen = vec![0; COUNT as usize];
        while seen.iter().sum::<usize>() < COUNT as usize {
            accepted += queue.submit().unwrap().1;
            let until = clock.now() + Nanos::from_secs(10);
            let count = |done: Completion, _| seen[done.tag as usize] += 1;
            queue.wait(until, &mut { count }).unwrap();
        }
        assert_eq!(accepted, COUNT as usize);
        assert!(seen.iter().all(|times| *times == 1));
    }

    #[test]
    fn a_refusal_is_explained_by_who_refused() {
        let told = |errno: Errno| reason(&errno.into());
        assert!(told(Errno::NOSYS).contains("ENOSYS"));
        assert!(told(Errno::PERM).contains("security filter"));
        assert!(told(Errno::AGAIN).contains("fs.aio-max-nr"));
        assert!(told(Errno::INVAL).contains("4.18"));
        assert!(told(Errno::IO).contains("os error 5"));
    }
}
