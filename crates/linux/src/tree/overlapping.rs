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
use crate::thread::{mask_nothing, wake_promptly};
use crate::watch::Helpers;

/// Calls that take less than this are quick: a thread that is woken for one, and wakes the engine
/// with its result, takes longer.
const QUICK: Nanos = Nanos::from_micros(20);

/// Calls that move more than this are never taken for quick.
const LENGTH_QUICK: u64 = 64 << 10;

/// So many quick calls are made at a time, while the engine does nothing else: less than makes
/// others late.
const OWN_MAX: usize = 4;

/// A call that takes longer counts as one of this length: its operation is slow for some two dozen
/// calls afterwards.
const LONG: Nanos = Nanos::from_millis(3);

/// A device for recorded calls on files, several at a time.
pub struct OverlappingDevice {
    on: Arc<Shared>,
    workers: Workers<Shared>,
    clock: MonotonicClock,
    prepared: Vec<(Io, Room)>,
    /// Those that the engine's own thread makes next.
    own: Vec<(Io, Room)>,
    /// What has come of such calls.
    done: Vec<Completion>,
    /// Whether all others wait for the call that comes next.
    is_alone: bool,
    /// How long the last of them took together, that not all others waited for.
    kept: Nanos,
    ended: Ended,
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
/// begins to wait holds up the engine's own thread once for each operation. What waited meanwhile
/// is late by the replay ([`Device::kept`]).
struct Lately([i64; Op::ALL.len()]);

impl Lately {
    /// Nothing is known, so nothing is quick.
    fn new() -> Self {
        Self([2 * QUICK.0; Op::ALL.len()])
    }

    fn is_quick(&self, op: Op) -> bool {
        self.0[usize::from(op.code())] < QUICK.0
    }

    /// Learns how long a call took.
    fn learn(&mut self, op: Op, took: Nanos) {
        let mean = &mut self.0[usize::from(op.code())];
        *mean += (took.min(LONG).0 - *mean) / 8;
    }
}

/// What is left of calls that have ended: rooms for others, and how long they took.
struct Ended {
    rooms: Vec<Room>,
    lately: Lately,
}

impl Ended {
    fn take(&mut self, completion: &Completion, room: Room) {
        if let Some(op) = room.op {
            self.lately.learn(op, completion.completed - completion.submitted);
        }
        // A long call would keep its memory from the page cache, which is measured.
        self.rooms.push(if room.buffer.is_longer(ROOM_BYTES) { Room::new() } else { room });
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
        mask_nothing();
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
            prepared: Vec::with_capacity(most),
            own: Vec::with_capacity(most),
            done: Vec::with_capacity(most),
            is_alone: false,
            kept: Nanos::ZERO,
            // The system gives memory to rooms as calls first touch it.
            ended: Ended { rooms: (0..most).map(|_| Room::new()).collect(), lately: Lately::new() },
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
        let mut room = self.ended.rooms.pop().unwrap_or_else(Room::new);
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
            let is_quick = room.op.is_some_and(|op| self.ended.lately.is_quick(op));
            if is_alone || is_quick && self.own.len() < OWN_MAX {
                self.own.push((io, room));
            } else {
                self.workers.prepare(&io, room);
            }
        }
        // Theirs go on meanwhile.
        let mut handed = self.workers.submit()?;
        let (mut own, mut took) = (self.own.drain(..), Nanos::ZERO);
        // One that was not quick shows that the next ones may not be either.
        for (io, mut room) in own.by_ref() {
            let completion = served(&*self.on, self.clock, &io, &mut room);
            self.ended.take(&completion, room);
            self.done.push(completion);
            handed += 1;
            took = completion.completed - stamp;
            if completion.completed - completion.submitted > QUICK {
                break;
            }
        }
        own.for_each(|(io, room)| self.workers.prepare(&io, room));
        self.kept = if is_alone { Nanos::ZERO } else { took };
        Ok((stamp, handed + self.workers.submit()?))
    }

    fn kept(&self) -> Nanos {
        self.kept
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.append(&mut self.done);
        let Self { workers, ended, .. } = self;
        workers.reap(&mut |completion, room| {
            ended.take(&completion, room);
            completions.push(completion);
        });
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        if self.done.is_empty() {
            let Self { workers, ended, .. } = self;
            workers.wait(until, &mut |completion, room| {
                ended.take(&completion, room);
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

#[cfg(test)]
mod tests {
    use ioecho_replay::pattern::Pattern;
    use ioecho_trace::Flags;
    use ioecho_trace::recorded::{OpenWord, PLACE_BYTES, Place};

    use super::*;

    const FILES: usize = 3;

    fn io(tag: u32, op: Op, place: usize, length: u64) -> Io {
        let offset = Bytes(place as u64 * PLACE_BYTES);
        let (request, scheduled, flags) = (u64::from(tag), Nanos::ZERO, Flags::empty());
        Io { tag, request, scheduled, op, flags, offset, length: Bytes(length) }
    }

    fn device(directory: &std::path::Path) -> OverlappingDevice {
        let open = vec![OpenWord::Read, OpenWord::Write, OpenWord::Create, OpenWord::Exclusive];
        let place = |n: usize| Place {
            path: format!("{n}"),
            open: open.clone(),
            mode: Some(0o600),
            ..Place::default()
        };
        let places = (0..FILES).map(place).collect();
        let files = Arc::new(RecordedFiles { places, ..RecordedFiles::default() });
        let anchor = Anchor::open(directory, true, false).unwrap();
        OverlappingDevice::new(anchor, files, 4, MonotonicClock::new()).unwrap()
    }

    /// Makes calls beside each other; answers the tags and outcomes, by tag.
    fn does(device: &mut OverlappingDevice, calls: &[Io]) -> Vec<(u32, Outcome)> {
        for io in calls {
            device.prepare(io, &mut Pattern::new(1));
        }
        assert_eq!(device.submit().unwrap().1, calls.len());
        let mut done = Vec::new();
        while done.len() < calls.len() {
            device.wait(Nanos::MAX, &mut done).unwrap();
        }
        let mut all: Vec<_> = done.iter().map(|one| (one.tag, one.outcome)).collect();
        all.sort_unstable_by_key(|(tag, _)| *tag);
        all
    }

    #[test]
    fn calls_go_on_beside_each_other_also_on_one_opened_file() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut device = device(directory.path());
        let ok =
            |tags: std::ops::Range<u32>| tags.map(|tag| (tag, Outcome::Ok)).collect::<Vec<_>>();
        let made = [io(0, Op::Create, 0, 0), io(1, Op::Create, 1, 0), io(2, Op::Create, 2, 0)];
        assert_eq!(does(&mut device, &made), ok(0..3));
        // Whether threads make calls or the engine's own does: it may from the moment on when they
        // were quick.
        for _ in 0..100 {
            let written = [
                io(0, Op::Write, 0, 5000),
                io(1, Op::Write, 0, 200_000),
                io(2, Op::Getattr, 0, 0),
                io(3, Op::Fsync, 1, 0),
            ];
            assert_eq!(does(&mut device, &written), ok(0..4));
        }
        let read = [io(0, Op::Read, 0, 200_000), io(1, Op::Read, 1, 0), io(2, Op::Read, 1, 1)];
        let told = [(0, Outcome::Ok), (1, Outcome::Ok), (2, Outcome::Short)];
        assert_eq!(does(&mut device, &read), told);
        assert_eq!(
            does(&mut device, &[0, 1, 2].map(|n| io(n, Op::Close, n as usize, 0))),
            ok(0..3)
        );
        // A place that nothing is open in is opened as something that is there.
        assert_eq!(does(&mut device, &[io(0, Op::Close, 0, 0)]), ok(0..1));
        let (_, again) = does(&mut device, &[io(0, Op::Create, 0, 0)])[0];
        assert_eq!(again, Outcome::Error(17));
        assert_eq!(device.ended.rooms.len(), 4);
        let moved = device.helpers().moved();
        assert!(moved.is_none_or(|moved| moved.written_bytes >= 100 * 205_000), "{moved:?}");
    }

    #[test]
    fn a_call_that_all_others_wait_for_has_ended_when_it_is_handed_over() {
        let directory = tempfile::TempDir::new().unwrap();
        let mut device = device(directory.path());
        for _ in 0..20 {
            device.prepare(&io(0, Op::Fsync, 0, 0), &mut Pattern::new(1));
            assert!(device.serves_next());
            assert_eq!(device.submit().unwrap().1, 1);
            let mut done = Vec::new();
            device.reap(&mut done).unwrap();
            assert_eq!(done.len(), 1);
        }
    }

    #[test]
    fn an_operation_is_quick_when_its_last_calls_were() {
        let mut lately = Lately::new();
        let mut take = |micros: i64| {
            lately.learn(Op::Open, Nanos::from_micros(micros));
            [lately.is_quick(Op::Open), lately.is_quick(Op::Mkdir)]
        };
        assert_eq!(take(5), [false; 2]);
        assert_eq!([0; 10].map(|_| take(5)).last(), Some(&[true, false]));
        for micros in [3000, 30_000_000] {
            assert_eq!(take(micros), [false; 2]);
            assert_eq!([0; 15].map(|_| take(5)).last(), Some(&[false; 2]));
            assert_eq!([0; 30].map(|_| take(5)).last(), Some(&[true, false]));
        }
    }
}
