//! The back end on `io_uring`: one thread, thousands of requests in flight.
//!
//! The instants are those of the issuing thread. `submitted` is read just before the system call,
//! once for all requests that it carries: a request in the middle of a large batch reaches the
//! device a little later than its stamp says. `completed` is read when the completion queue is
//! looked at, once for all that it holds: looking late makes requests look slow, so the engine
//! looks often, which costs no system call.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;

use io_uring::IoUring;
use io_uring::types::Timespec;
use ioecho_replay::{Clock, Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Integrity, Nanos, Op};
use rustix::fd::AsRawFd;

use super::buffers::{Buffer, Pool};
use super::entry::{FLUSH_PART, Prepared};
use super::{BUFFER_MEMORY, expected, outcome, ring, supports};
use crate::clock::MonotonicClock;
use crate::target::{OpenedTarget, TargetKind};

/// How long closing waits for requests in flight before it leaves their memory to them.
const CLOSING: Nanos = Nanos::from_secs(10);

/// A request between [`Device::prepare`] and its completion.
#[derive(Debug)]
struct Slot {
    expected: u32,
    /// Entries that have not completed.
    open: u8,
    /// The error of the flush before a write; the write is then cancelled.
    flush: i32,
    result: i32,
    submitted: Nanos,
    buffer: Option<Buffer>,
}

/// A target driven through `io_uring`.
///
/// It may be made in one thread and used in another, but only in the first that uses it. Dropping
/// it waits up to ten seconds for the requests in flight.
pub struct UringDevice {
    ring: IoUring,
    enabled: bool,
    target: OpenedTarget,
    clock: MonotonicClock,
    slots: Vec<Slot>,
    prepared: VecDeque<Prepared>,
    /// How many of `prepared` stand in the submission queue already.
    loaded: usize,
    in_flight: usize,
    pool: Pool,
    options: &'static str,
    discard_command: bool,
}

impl fmt::Debug for UringDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDevice")
            .field("target", &self.target)
            .field("in_flight", &self.in_flight)
            .field("prepared", &self.prepared.len())
            .finish_non_exhaustive()
    }
}

impl UringDevice {
    /// Drives `target` with up to `in_flight_max` requests, at most [`super::IN_FLIGHT_MAX`].
    pub fn new(
        target: OpenedTarget,
        in_flight_max: u32,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let in_flight_max = in_flight_max.clamp(1, ring::IN_FLIGHT_MAX);
        let (ring, options) = ring::make(in_flight_max)?;
        ring.submitter().register_files(&[target.file.as_raw_fd()])?;
        let discard_command = target.facts().kind == TargetKind::BlockDevice
            && supports(&target, Op::Discard)
            && ring::discards_by_command(&target.file);
        let slot = || Slot {
            expected: 0,
            open: 0,
            flush: 0,
            result: 0,
            submitted: Nanos::ZERO,
            buffer: None,
        };
        Ok(Self {
            ring,
            enabled: false,
            target,
            clock,
            slots: (0..in_flight_max).map(|_| slot()).collect(),
            prepared: VecDeque::with_capacity(in_flight_max as usize),
            loaded: 0,
            in_flight: 0,
            pool: Pool::new(BUFFER_MEMORY, in_flight_max as usize),
            options,
            discard_command,
        })
    }

    /// Binds the ring to this thread, once.
    fn enable(&mut self) -> io::Result<()> {
        if !self.enabled {
            self.ring.submitter().register_enable_rings()?;
            self.enabled = true;
        }
        Ok(())
    }

    /// Moves what is prepared into the submission queue as far as it has room; the entries of one
    /// request never part, or the link between them would break.
    fn load(&mut self) {
        let mut queue = self.ring.submission();
        while let Some(request) = self.prepared.get(self.loaded) {
            if queue.capacity() - queue.len() < usize::from(request.parts) {
                break;
            }
            for entry in request.entries() {
                // SAFETY: an entry refers to the registered file, and to the buffer that its slot
                // holds until the completion is seen; `drop` waits for it or leaks the buffer. The
                // slot of a tag in flight is never reused, as the caller of `prepare` promises.
                let pushed = unsafe { queue.push(entry) };
                debug_assert!(pushed.is_ok(), "room was counted before");
            }
            self.loaded += 1;
        }
    }

    /// Appends what stands in the completion queue, without a system call.
    fn collect(&mut self, completions: &mut Vec<Completion>) {
        let mut queue = self.ring.completion();
        if queue.is_empty() {
            return;
        }
        let completed = self.clock.now();
        for done in &mut queue {
            let tag = done.user_data() as u32;
            let slot = &mut self.slots[tag as usize];
            if done.user_data() & FLUSH_PART == 0 {
                slot.result = done.result();
            } else {
                slot.flush = done.result().min(0);
            }
            slot.open -= 1;
            if slot.open > 0 {
                continue;
            }
            if let Some(buffer) = slot.buffer.take() {
                self.pool.give(buffer);
            }
            self.in_flight -= 1;
            let result = if slot.flush < 0 { slot.flush } else { slot.result };
            let outcome = outcome(result, slot.expected);
            let submitted = slot.submitted;
            let integrity = Integrity::Unchecked;
            completions.push(Completion { tag, submitted, completed, outcome, integrity });
        }
    }
}

impl Device for UringDevice {
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
        let mut buffer = super::moves_data(io.op).then(|| self.pool.take(length));
        let address = buffer.as_mut().map_or(std::ptr::null_mut(), Buffer::address);
        if let (Op::Write, Some(buffer)) = (io.op, buffer.as_mut()) {
            payload.fill(io, buffer.bytes(length));
        }
        let request = Prepared::new(io, address, self.discard_command);
        self.slots[io.tag as usize] = Slot {
            expected: expected(io),
            open: request.parts,
            flush: 0,
            result: 0,
            submitted: Nanos::ZERO,
            buffer,
        };
        self.prepared.push_back(request);
    }

    /// One system call carries up to 4096 entries; what does not fit stays prepared for the next
    /// call, so that every request has the stamp of the call that carried it.
    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        self.load();
        if self.loaded == 0 {
            return Ok((self.clock.now(), 0));
        }
        self.enable()?;
        let stamp = self.clock.now();
        for request in self.prepared.iter().take(self.loaded) {
            self.slots[request.tag as usize].submitted = stamp;
        }
        let mut taken = ring::hand_down(&self.ring)?;
        let mut accepted = 0;
        while let Some(request) = self.prepared.front_mut().filter(|_| taken > 0) {
            let parts = usize::from(request.parts);
            if taken < parts {
                // The kernel stopped between a flush and its write; the write goes next time.
                request.parts -= taken as u8;
                break;
            }
            taken -= parts;
            self.prepared.pop_front();
            self.loaded -= 1;
            accepted += 1;
        }
        self.in_flight += accepted;
        Ok((stamp, accepted))
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.collect(completions);
        if self.in_flight == 0 {
            return Ok(());
        }
        let queue = self.ring.submission();
        let put_off = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if put_off {
            ring::flush_completions(&self.ring)?;
            self.collect(completions);
        }
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        let before = completions.len();
        self.reap(completions)?;
        if completions.len() > before || (self.in_flight == 0 && until == Nanos::MAX) {
            return Ok(());
        }
        self.enable()?;
        let left = until.saturating_sub(self.clock.now()).0;
        if left > 0 {
            let (seconds, nanoseconds) = (left / 1_000_000_000, left % 1_000_000_000);
            let timeout = Timespec::new().sec(seconds as u64).nsec(nanoseconds as u32);
            ring::sleep(&self.ring, timeout)?;
            self.reap(completions)?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let discard = match (supports(&self.target, Op::Discard), self.discard_command) {
            (false, _) => "no discard",
            (true, true) => "discard by io_uring command",
            (true, false) => "discard by punching holes",
        };
        let cached = if self.target.facts().direct { "" } else { ", page cache not bypassed" };
        format!(
            "io_uring: {} in flight at most, {}, {discard}{cached}, {}",
            self.slots.len(),
            self.options,
            self.pool.describe()
        )
    }
}

impl Drop for UringDevice {
    fn drop(&mut self) {
        let deadline = self.clock.now() + CLOSING;
        let mut completions = Vec::new();
        while self.in_flight > 0 && self.clock.now() < deadline {
            if self.wait(deadline, &mut completions).is_err() {
                break;
            }
        }
        if self.in_flight > 0 {
            // The kernel may still write to these buffers: they must stay for ever.
            mem::forget(mem::take(&mut self.slots));
        }
        // The kernel takes a ring down behind our back, and until then the ring would hold the
        // target: opening it again exclusively would fail for no visible reason. From another
        // thread than the issuing one this is refused, and the target is free a little later.
        let _ = self.ring.submitter().unregister_files();
    }
}
