//! The common part of the back ends, and its interface to each of them.
//!
//! A target has one size, one block and one memory for its data, whichever way requests reach it.
//! So there is one [`Device`], and the back ends differ below it, as queues: requests with their
//! buffers go in, completions with those buffers come out.

use std::fmt::Write;
use std::io;
use std::sync::Arc;

use ioecho_replay::{Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Integrity, Nanos, Op, Outcome};
use rustix::io::Errno;

use super::buffers::{Buffer, Register};
use super::memory::{Memory, NoMemory};
use super::targets::Targets;

/// A way for requests to reach the kernel. The methods are those of [`Device`] for one that already
/// has its buffers; `done` is called for each completion with the buffer of its request.
///
/// Dropping it waits for the requests in flight, but not for ever.
pub(super) trait Queue: Register {
    /// See [`Device::expect`].
    fn expect(&mut self, due: Nanos, near: Nanos) {
        let _ = (due, near);
    }

    /// See [`Device::prepare`]. Requests that move data have a buffer.
    fn prepare(&mut self, io: &Io, buffer: Option<Buffer>);

    /// See [`Device::submit`].
    fn submit(&mut self) -> io::Result<(Nanos, usize)>;

    /// See [`Device::reap`].
    fn reap(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> io::Result<()>;

    /// See [`Device::wait`].
    fn wait(
        &mut self,
        until: Nanos,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()>;

    /// See [`Device::concurrency`].
    fn concurrency(&self) -> u32 {
        u32::MAX
    }

    /// The back end and its options, for the run's facts.
    fn describe(&self) -> String;
}

/// A target that the kernel drives, as a [`Device`].
///
/// It may be made in one thread and used in another, but only in the first that uses it.
pub(super) struct KernelDevice<Q> {
    // First, so that it is dropped first: it waits for the requests in flight.
    queue: Q,
    memory: Memory,
    /// The tags of requests that are prepared and cannot be issued, for want of memory.
    refused: Vec<u32>,
    /// The outcomes of those that were handed over.
    failed: Vec<Completion>,
    targets: Arc<Targets>,
    /// Why it is this back end and no better one.
    note: Option<String>,
}

impl<Q: Queue> KernelDevice<Q> {
    /// Drives `targets` through `queue`, with up to `memory_max` bytes of buffers.
    pub(super) fn new(
        targets: Arc<Targets>,
        mut queue: Q,
        memory_max: Bytes,
        in_flight_max: u32,
        note: Option<String>,
    ) -> Self {
        let memory = Memory::new(memory_max, in_flight_max, &mut queue);
        Self { queue, memory, refused: Vec::new(), failed: Vec::new(), targets, note }
    }
}

impl<Q: Queue> Device for KernelDevice<Q> {
    fn capacity(&self) -> Bytes {
        self.targets.capacity()
    }

    fn block_size(&self) -> Bytes {
        self.targets.logical_block()
    }

    /// Of reads and writes. Discards and write-zeroes move no data and may be of any length.
    fn length_max(&self) -> Bytes {
        self.memory.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        self.targets.supports(op)
    }

    fn draft(&mut self, io: &Io, until: Bytes, payload: &mut dyn Payload) -> bool {
        self.memory.draft(io, until, payload, &mut self.queue)
    }

    fn forget(&mut self, request: u64) {
        self.memory.forget(request);
    }

    fn expect(&mut self, due: Nanos, near: Nanos) {
        self.queue.expect(due, near);
    }

    fn keep_data(&mut self, keep: bool) {
        self.memory.keep_data(keep);
    }

    fn data(&mut self, tag: u32) -> &[u8] {
        self.memory.data(tag)
    }

    fn release(&mut self, tag: u32) {
        self.memory.release(tag);
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        match self.memory.prepare(io, payload, &mut self.queue) {
            Ok(buffer) => self.queue.prepare(io, buffer),
            Err(NoMemory) => self.refused.push(io.tag),
        }
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let (stamp, taken) = self.queue.submit()?;
        let refused = self.refused.len();
        self.failed.extend(self.refused.drain(..).map(|tag| Completion {
            tag,
            submitted: stamp,
            completed: stamp,
            outcome: Outcome::Error(Errno::NOMEM.raw_os_error()),
            integrity: Integrity::Unchecked,
        }));
        Ok((stamp, taken + refused))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.failed);
        let Self { queue, memory, .. } = self;
        queue.reap(&mut |completion, buffer| {
            memory.finish(&completion, buffer);
            completions.push(completion);
        })
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if !self.failed.is_empty() {
            return self.reap(completions);
        }
        let Self { queue, memory, .. } = self;
        queue.wait(until, &mut |completion, buffer| {
            memory.finish(&completion, buffer);
            completions.push(completion);
        })
    }

    fn concurrency(&self) -> u32 {
        self.queue.concurrency()
    }

    fn describe(&self) -> String {
        let mut text = self.queue.describe();
        if !self.supports(Op::Discard) {
            text.push_str(", no discard");
        }
        if !self.targets.are_direct() {
            text.push_str(", page cache not bypassed");
        }
        text.push_str(", ");
        text.push_str(&self.memory.describe());
        if let Some(note) = &self.note {
            let _ = write!(text, " ({note})");
        }
        text
    }
}
