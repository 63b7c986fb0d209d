//! Recorded calls that are made beside each other.
//!
//! What programs do at the same time loads a file system in another way than the same calls one
//! after the other. So each call that may be made has a thread of its own: any of a pool, because a
//! recording knows thousands of tasks, few of which are there at a time. Which calls may be made is
//! the scheduler's to decide, by their links.
//!
//! To wake a thread takes longer than most calls do. So a call that all others wait for is made by
//! the engine's own thread: then a program that works alone is replayed as fast as if there were
//! no pool.

use std::io;
use std::sync::Arc;

use ioecho_replay::{Clock as _, Completion, Device, Io, Payload};
use ioecho_trace::recorded::RecordedFiles;
use ioecho_trace::{Bytes, Nanos, Op, Outcome};

use super::anchor::Anchor;
use super::inline::{ALIGNMENT, Buffer, Calls as _};
use super::recorded::{ROOM_BYTES, Recorded};
use crate::MonotonicClock;
use crate::device::workers::{Serve, Workers, served};
use crate::thread::wake_promptly;
use crate::watch::Helpers;

/// A device for recorded calls on files, several at a time.
pub struct OverlappingDevice {
    on: Arc<Shared>,
    workers: Workers<Shared>,
    clock: MonotonicClock,
    /// Memory for the data of calls.
    buffers: Vec<Buffer>,
    /// Whether the next call is made by the engine's own thread.
    is_alone: bool,
    /// The call that was made so.
    done: Option<Completion>,
}

/// What the workers share.
struct Shared {
    recorded: Recorded,
    helpers: Helpers,
}

impl Serve for Shared {
    type Memory = Buffer;

    fn begin(&self) {
        wake_promptly();
        self.helpers.join();
    }

    fn serve(&self, io: &Io, memory: &mut Buffer) -> Outcome {
        self.recorded.make(io, memory)
    }
}

impl OverlappingDevice {
    /// A device that makes so many calls below an anchor at a time.
    ///
    /// # Errors
    ///
    /// If there can be no more threads.
    pub fn new(
        anchor: Anchor,
        files: Arc<RecordedFiles>,
        in_flight_max: u32,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let recorded = Recorded::new(anchor, files);
        let on = Arc::new(Shared { recorded, helpers: Helpers::default() });
        let workers = Workers::new(in_flight_max, in_flight_max, &on, clock, None)?;
        // Memory that no call has touched yet takes no room.
        let buffers = (0..in_flight_max).map(|_| Buffer::new(ROOM_BYTES)).collect();
        Ok(Self { on, workers, clock, buffers, is_alone: false, done: None })
    }

    /// The threads that make calls beside that of the engine.
    pub fn helpers(&self) -> Helpers {
        self.on.helpers.clone()
    }
}

impl Device for OverlappingDevice {
    fn capacity(&self) -> Bytes {
        self.on.recorded.capacity()
    }

    fn block_size(&self) -> Bytes {
        Bytes(1)
    }

    fn length_max(&self) -> Bytes {
        self.on.recorded.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        self.on.recorded.supports(op)
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let mut buffer = self.buffers.pop().unwrap_or_else(|| Buffer::new(ROOM_BYTES));
        let length = io.length.0 as usize;
        if matches!(io.op, Op::Read | Op::Write) {
            buffer.make_room(length);
        }
        if io.op == Op::Write {
            payload.fill(io, buffer.part(length.next_multiple_of(ALIGNMENT)));
        }
        self.workers.prepare(io, buffer);
    }

    fn serves_next(&mut self) -> bool {
        self.is_alone = true;
        true
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let alone = std::mem::take(&mut self.is_alone).then(|| self.workers.take_back()).flatten();
        if let Some((io, mut buffer)) = alone {
            let completion = served(&*self.on, self.clock, &io, &mut buffer);
            self.buffers.push(buffer);
            self.done = Some(completion);
            return Ok((completion.submitted, 1));
        }
        let stamp = self.clock.now();
        Ok((stamp, self.workers.submit()?))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.extend(self.done.take());
        let Self { workers, buffers, .. } = self;
        workers.reap(&mut |completion, buffer| {
            completions.push(completion);
            buffers.push(buffer);
        });
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_none() {
            let Self { workers, buffers, .. } = self;
            workers.wait(until, &mut |completion, buffer| {
                completions.push(completion);
                buffers.push(buffer);
            });
        }
        self.reap(completions)
    }

    fn concurrency(&self) -> u32 {
        self.workers.count()
    }

    fn describe(&self) -> String {
        format!("recorded calls, up to {} at a time", self.workers.count())
    }
}
