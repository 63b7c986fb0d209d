//! Recorded calls that are made beside each other.
//!
//! What programs do at the same time loads a file system in another way than the same calls one
//! after the other. So each call that may be made has a thread of its own: any of a pool, because a
//! recording knows thousands of tasks, few of which are there at a time. Which calls may be made is
//! the scheduler's to decide, by their links.
//!
//! To wake a thread takes longer than most calls do. So a call that all others wait for is made by
//! the engine's own thread, and so are calls that were quick lately ([`Lately`]): then a program
//! that works alone, or in memory, is replayed as fast as if there were no pool.

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

/// Calls that take less than this are quick: a thread that is woken for one, and wakes the engine
/// with its result, takes longer.
const QUICK: Nanos = Nanos::from_micros(20);

/// Calls that move more than this are never taken for quick.
const LENGTH_QUICK: u64 = 64 << 10;

/// So many quick calls are made at a time, while the engine does nothing else: less than makes
/// others late.
const OWN_MAX: usize = 4;

/// A device for recorded calls on files, several at a time.
pub struct OverlappingDevice {
    on: Arc<Shared>,
    workers: Workers<Shared>,
    clock: MonotonicClock,
    rooms: Vec<Room>,
    prepared: Vec<(Io, Room)>,
    /// Those that the engine's own thread makes next.
    own: Vec<(Io, Room)>,
    /// What has come of such calls.
    done: Vec<Completion>,
    /// Whether all others wait for the call that comes next.
    is_alone: bool,
    lately: Lately,
}

/// Where the data of a call lies.
struct Room {
    buffer: Buffer,
    /// Of which operation it is, if that may be quick.
    op: Option<Op>,
}

impl Room {
    fn new() -> Self {
        Self { buffer: Buffer::new(ROOM_BYTES), op: None }
    }
}

/// How long calls of each operation took lately: a mean in which the last ones weigh most.
///
/// What is in memory takes microseconds, what waits for a disk or a server a thousand times as
/// long. One slow call makes its operation slow for some two dozen calls, so a file system that
/// begins to wait holds up the engine's own thread once.
struct Lately([i64; Op::ALL.len()]);

impl Lately {
    /// Nothing is known, so nothing is quick.
    fn new() -> Self {
        Self([2 * QUICK.0; Op::ALL.len()])
    }

    fn is_quick(&self, op: Op) -> bool {
        self.0[usize::from(op.code())] < QUICK.0
    }

    /// Learns from a call that has ended, and puts its room back.
    fn take(&mut self, completion: &Completion, room: Room, rooms: &mut Vec<Room>) {
        if let Some(op) = room.op {
            let mean = &mut self.0[usize::from(op.code())];
            *mean += ((completion.completed - completion.submitted).0 - *mean) / 8;
        }
        rooms.push(room);
    }
}

/// What the workers share.
struct Shared {
    recorded: Recorded,
    helpers: Helpers,
}

impl Serve for Shared {
    type Memory = Room;

    fn begin(&self) {
        wake_promptly();
        self.helpers.join();
    }

    fn serve(&self, io: &Io, memory: &mut Room) -> Outcome {
        self.recorded.make(io, &mut memory.buffer)
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
        let most = in_flight_max as usize;
        Ok(Self {
            on,
            workers,
            clock,
            // The system gives memory to them as calls first touch it.
            rooms: (0..most).map(|_| Room::new()).collect(),
            prepared: Vec::with_capacity(most),
            own: Vec::with_capacity(most),
            done: Vec::with_capacity(most),
            is_alone: false,
            lately: Lately::new(),
        })
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
        let mut room = self.rooms.pop().unwrap_or_else(Room::new);
        let length = io.length.0 as usize;
        if matches!(io.op, Op::Read | Op::Write) {
            room.buffer.make_room(length);
        }
        if io.op == Op::Write {
            payload.fill(io, room.buffer.part(length.next_multiple_of(ALIGNMENT)));
        }
        room.op = (io.op != Op::Fsync && io.length.0 <= LENGTH_QUICK).then_some(io.op);
        self.prepared.push((*io, room));
    }

    fn serves_next(&mut self) -> bool {
        self.is_alone = true;
        true
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let is_alone = std::mem::take(&mut self.is_alone);
        let stamp = self.clock.now();
        for (io, room) in self.prepared.drain(..) {
            let is_quick = room.op.is_some_and(|op| self.lately.is_quick(op));
            if is_alone || is_quick && self.own.len() < OWN_MAX {
                self.own.push((io, room));
            } else {
                self.workers.prepare(&io, room);
            }
        }
        // Theirs go on meanwhile.
        let handed = self.workers.submit()?;
        let made = self.own.len();
        for (io, mut room) in self.own.drain(..) {
            let completion = served(&*self.on, self.clock, &io, &mut room);
            self.lately.take(&completion, room, &mut self.rooms);
            self.done.push(completion);
        }
        Ok((stamp, handed + made))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.done);
        let Self { workers, rooms, lately, .. } = self;
        workers.reap(&mut |completion, room| {
            lately.take(&completion, room, rooms);
            completions.push(completion);
        });
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_empty() {
            let Self { workers, rooms, lately, .. } = self;
            workers.wait(until, &mut |completion, room| {
                lately.take(&completion, room, rooms);
                completions.push(completion);
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
