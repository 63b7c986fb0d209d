//! The back end on `io_uring`: one thread, thousands of requests in flight.
//!
//! The instants are those of the issuing thread. `submitted` is read just before the system call,
//! once for all requests that it carries: a request in the middle of a large batch reaches the
//! device a little later than its stamp says. `completed` is read when the completion queue is
//! looked at, once for all that it holds: looking late makes requests look slow, so the engine
//! looks often, which costs no system call.
//!
//! Flushes are different: the kernel would give each to a worker thread, which comes late to it. So
//! threads of ioecho issue them ([`super::flushers`]), and the instants of a flush are those of
//! that thread, just before and after its system call. Requests before a flush are handed to the
//! kernel before it, later ones after it. A write with PREFLUSH is handed to the ring when its
//! flush has completed, by the issuing thread: a write in one of those threads would wait for its
//! end, and with FUA make the kernel flush again (`generic_write_sync`). `IORING_OP_FSYNC`, linked
//! to the write where there is one, remains for the flush that finds none of the threads free.
//!
//! Two options change that. With SQPOLL there is no system call: `submitted` is read just before
//! the requests become visible to the thread of the kernel that takes them, and the time of that
//! thread counts as service time. With IOPOLL every check for completions is a system call that
//! asks the device, and waiting is polling; a few threads issue the requests that a polled ring
//! does not take (flushes, discards, write-zeroes, writes with PREFLUSH).

use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::mem;
use std::sync::Arc;

use io_uring::IoUring;
use io_uring::squeue::Entry;
use io_uring::types::Timespec;
use ioecho_replay::{Clock, Completion, Io};
use ioecho_trace::{Integrity, Nanos, Op};
use rustix::fd::AsRawFd;

use super::buffers::{Buffer, Register};
use super::entry::{BELL, FLUSH_PART, Prepared, Role};
use super::flushers::{Flushed, Flushers};
use super::options::DeviceOptions;
use super::queue::Queue;
use super::registered::Registered;
use super::targets::Targets;
use super::workers::Workers;
use super::{CLOSING, HELPERS, expected, is_ordered, moves_data, outcome, ring};
use crate::clock::MonotonicClock;
use crate::target::{OpenedTarget, TargetKind};

/// How long the queue sleeps at most if nothing wakes it for a finished flush.
const DEAF_NAP_NS: i64 = 1_000_000;

/// How often it tries to arm the bell before it sleeps.
const LISTENING_TRIES: usize = 4;

/// A request between [`Queue::prepare`] and its completion.
#[derive(Debug, Default)]
struct Slot {
    expected: u32,
    /// Entries that have not completed.
    open: u8,
    /// The error of the flush before a write; the write is then cancelled.
    flush: i32,
    result: i32,
    submitted: Nanos,
    buffer: Option<Buffer>,
    /// The write to submit to the ring when its flush, issued by a flusher, has completed.
    write: Option<Entry>,
}

impl Slot {
    /// The completion of the request of this tag.
    fn completion(&self, tag: u32, result: i32, completed: Nanos) -> Completion {
        Completion {
            tag,
            submitted: self.submitted,
            completed,
            outcome: outcome(result, self.expected),
            integrity: Integrity::Unchecked,
        }
    }
}

/// A target driven through `io_uring`, by the first thread that uses it.
///
/// Dropping it waits up to ten seconds for the requests in flight.
pub(super) struct UringQueue {
    ring: IoUring,
    enabled: bool,
    targets: Arc<Targets>,
    clock: MonotonicClock,
    slots: Vec<Slot>,
    prepared: VecDeque<Prepared>,
    /// How many of `prepared` stand in the submission queue already.
    loaded: usize,
    /// How many of `prepared` are internal to the queue.
    own: usize,
    /// Requests that the ring or a flusher has taken and that are not complete.
    in_flight: usize,
    options: &'static str,
    registered: Registered,
    discard_command: bool,
    /// Whether a thread of the kernel takes the requests.
    sqpoll: bool,
    /// Whether completions must be asked for. With SQPOLL as well, that thread asks.
    polls: bool,
    /// For requests that a polled ring does not take.
    helpers: Option<Workers<Targets>>,
    /// Where there are no helpers.
    flushers: Option<Flushers>,
    /// Whether the ring tells when the flushers' bell rings.
    has_bell: bool,
}

impl UringQueue {
    /// Drives `targets` as the options say, which have been checked; the buffers will take up to
    /// `memory_max` bytes.
    pub(super) fn new(
        targets: &Arc<Targets>,
        options: &DeviceOptions,
        memory_max: u64,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let DeviceOptions { in_flight_max, sqpoll, iopoll, .. } = *options;
        let (ring, name) = ring::make(in_flight_max, sqpoll, iopoll)?;
        ring::check(&ring)?;
        let files: Vec<_> = targets.all().iter().map(|target| target.file.as_raw_fd()).collect();
        ring.submitter().register_files(&files)?;
        let registered = Registered::new(&ring, options.register_buffers, memory_max);
        let is_device = |target: &OpenedTarget| {
            target.facts().kind == TargetKind::BlockDevice
                && ring::discards_by_command(&target.file)
        };
        let discard_command =
            !iopoll && targets.supports(Op::Discard) && targets.all().iter().all(is_device);
        let threads = HELPERS.min(in_flight_max);
        let helpers = iopoll.then(|| Workers::new(threads, in_flight_max, targets, clock, None));
        let flushers = (!iopoll).then(|| Flushers::new(threads, targets, clock));
        Ok(Self {
            ring,
            enabled: false,
            targets: Arc::clone(targets),
            clock,
            slots: (0..in_flight_max).map(|_| Slot::default()).collect(),
            // One more for the bell.
            prepared: VecDeque::with_capacity(in_flight_max as usize + 1),
            loaded: 0,
            own: 0,
            in_flight: 0,
            options: name,
            registered,
            discard_command,
            sqpoll,
            polls: iopoll && !sqpoll,
            helpers: helpers.transpose()?,
            flushers: flushers.transpose()?,
            has_bell: false,
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

    /// Has the first request flushed by a flusher, if it begins with a flush and one is free.
    fn flush_first(&mut self) -> bool {
        let Some(flushers) = self.flushers.as_mut().filter(|_| self.loaded == 0) else {
            return false;
        };
        let first = self.prepared.pop_front_if(|first| {
            first.role == Role::FlushFirst && flushers.hand_over(first.tag, usize::from(first.at))
        });
        let Some(request) = first else { return false };
        self.slots[request.tag as usize].write = request.second;
        self.in_flight += 1;
        true
    }

    /// Moves prepared requests, or only the internal ones, into the submission queue as far as it
    /// has room; the entries of one request never part, or the link between them would break.
    /// Answers the instant just before the entries become visible to the kernel, and whether it
    /// stopped before a flush that is for a flusher.
    fn load(&mut self, only_own: bool) -> (Nanos, bool) {
        let mut is_before_flush = false;
        let mut queue = self.ring.submission();
        while let Some(request) = self.prepared.get(self.loaded) {
            // A first one has been offered to the flushers.
            let may_be_flushed = self.loaded > 0 && request.role == Role::FlushFirst;
            is_before_flush =
                may_be_flushed && self.flushers.as_ref().is_some_and(Flushers::has_free);
            if is_before_flush
                || (only_own && !request.is_own())
                || queue.capacity() - queue.len() < usize::from(request.parts)
            {
                break;
            }
            for entry in request.entries() {
                // SAFETY: an entry refers to a registered file, and to the buffer that its slot
                // holds until the completion is seen; `drop` waits for it or leaks the buffer. The
                // slot of a tag in flight is never reused, as the caller of `prepare` promises. The
                // bell refers to no memory.
                let pushed = unsafe { queue.push(entry) };
                debug_assert!(pushed.is_ok(), "room was counted before");
            }
            self.loaded += 1;
        }
        let stamp = self.clock.now();
        drop(queue);
        (stamp, is_before_flush)
    }

    /// Hands what is loaded to the kernel, and answers how many requests of the caller's it took.
    fn hand_down(&mut self, stamp: Nanos) -> io::Result<usize> {
        if self.sqpoll {
            // They are the kernel's already, whatever waking its thread answers.
            let loaded = self.prepared.iter().take(self.loaded);
            let entries = loaded.map(|request| usize::from(request.parts)).sum();
            let accepted = self.accept(entries, stamp);
            ring::wake(&self.ring)?;
            return Ok(accepted);
        }
        let entries = ring::hand_down(&mut self.ring)?;
        Ok(self.accept(entries, stamp))
    }

    /// Notes that the kernel has taken so many entries, and answers how many requests of the
    /// caller's are complete by that.
    fn accept(&mut self, mut entries: usize, stamp: Nanos) -> usize {
        let mut accepted = 0;
        while let Some(request) = self.prepared.front_mut().filter(|_| entries > 0) {
            if !request.is_own() {
                self.slots[request.tag as usize].submitted = stamp;
            }
            let parts = usize::from(request.parts);
            if entries < parts {
                // The kernel stopped between a flush and its write; the write goes next time.
                request.parts -= entries as u8;
                break;
            }
            entries -= parts;
            if request.is_own() {
                self.own -= 1;
                self.has_bell |= request.role == Role::Bell;
            } else {
                accepted += 1;
            }
            self.prepared.pop_front();
            self.loaded -= 1;
        }
        self.in_flight += accepted;
        accepted
    }

    /// Prepares an internal entry, before requests that the caller has not handed over yet.
    fn prepare_own(&mut self, own: Prepared) {
        let own_before = self.prepared.iter().skip(self.loaded).take_while(|other| other.is_own());
        self.prepared.insert(self.loaded + own_before.count(), own);
        self.own += 1;
    }

    /// Hands internal entries to the kernel. Those behind requests that the caller hands over go
    /// with these.
    fn hand_down_own(&mut self) -> io::Result<()> {
        let is_alone = self.prepared.iter().take(self.loaded).all(Prepared::is_own);
        if self.own > 0 && is_alone {
            self.enable()?;
            let (stamp, _) = self.load(true);
            self.hand_down(stamp)?;
        }
        Ok(())
    }

    /// Makes the ring report when a flusher has finished, if it can.
    fn listen(&mut self) -> io::Result<()> {
        let Some(flushers) = self.flushers.as_ref().filter(|flushers| flushers.in_flight() > 0)
        else {
            return Ok(());
        };
        if !self.has_bell {
            let bell = Prepared::bell(flushers.bell());
            self.prepare_own(bell);
            self.hand_down_own()?;
        }
        if let Some(flushers) = self.flushers.as_ref().filter(|_| self.has_bell) {
            flushers.listen(true);
        }
        Ok(())
    }

    /// Whether a finished flush would end a sleep, or no flush is in progress.
    fn is_heard(&self) -> bool {
        self.has_bell || self.flushers.as_ref().is_none_or(|flushers| flushers.in_flight() == 0)
    }

    /// Takes finished requests and submits their successors; returns whether there were any.
    fn look(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> io::Result<bool> {
        let found = self.collect(done);
        self.hand_down_own()?;
        Ok(found)
    }

    /// Takes what stands in the completion queue and what helpers and flushers have done, without a
    /// system call; answers whether there was something.
    fn collect(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> bool {
        let mut found = false;
        if let Some(helpers) = self.helpers.as_mut().filter(|helpers| helpers.in_flight() > 0) {
            helpers.reap(&mut |completion, buffer| {
                found = true;
                done(completion, buffer);
            });
        }
        found |= self.collect_ring(done);
        while let Some(flushed) = self.flushers.as_mut().and_then(Flushers::take_done) {
            found |= self.finish_flush(flushed, done);
        }
        found
    }

    fn collect_ring(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> bool {
        let mut found = false;
        let mut queue = self.ring.completion();
        if queue.is_empty() {
            return false;
        }
        let completed = self.clock.now();
        for entry in &mut queue {
            if entry.user_data() == BELL {
                // Before what the flushers have done is taken, so that nothing is missed.
                self.has_bell = false;
                self.flushers.iter().for_each(Flushers::silence);
                continue;
            }
            let tag = entry.user_data() as u32;
            let slot = &mut self.slots[tag as usize];
            if entry.user_data() & FLUSH_PART == 0 {
                slot.result = entry.result();
            } else {
                slot.flush = entry.result().min(0);
            }
            slot.open -= 1;
            if slot.open > 0 {
                continue;
            }
            self.in_flight -= 1;
            found = true;
            let result = if slot.flush < 0 { slot.flush } else { slot.result };
            done(slot.completion(tag, result, completed), slot.buffer.take());
        }
        found
    }

    /// Takes a flush that a flusher has done: the end of its request, unless there is a write to
    /// follow. Answers whether it is.
    fn finish_flush(
        &mut self,
        flushed: Flushed,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> bool {
        let Flushed { tag, submitted, completed, result } = flushed;
        let slot = &mut self.slots[tag as usize];
        slot.submitted = submitted;
        let write = slot.write.take().filter(|_| result >= 0);
        if let Some(write) = write {
            slot.open = 1;
            self.prepare_own(Prepared::after_flush(tag, write));
            return false;
        }
        self.in_flight -= 1;
        done(slot.completion(tag, result, completed), slot.buffer.take());
        true
    }

    fn helped(&self) -> usize {
        self.helpers.as_ref().map_or(0, Workers::in_flight)
    }

    /// Sleeps until something has completed or so much time has passed.
    fn sleep(
        &mut self,
        left_ns: i64,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()> {
        let mut is_done = false;
        for _ in 0..LISTENING_TRIES {
            self.listen()?;
            // Flushes finished before this thread listened rang no bell. It may also have rung in
            // between, and must then be armed again.
            is_done = self.look(done)? || self.own > 0;
            if is_done || self.is_heard() {
                break;
            }
        }
        if !is_done {
            let left = if self.is_heard() { left_ns } else { left_ns.min(DEAF_NAP_NS) };
            let (seconds, nanoseconds) = (left / 1_000_000_000, left % 1_000_000_000);
            let timeout = Timespec::new().sec(seconds as u64).nsec(nanoseconds as u32);
            ring::sleep(&self.ring, timeout)?;
        }
        if let Some(flushers) = &self.flushers {
            flushers.listen(false);
        }
        // The kernel has posted all that there was: nothing else needs to be asked for.
        self.look(done).map(drop)
    }

    /// Looks again and again until something has completed or the clock reaches `until`.
    fn poll(
        &mut self,
        until: Nanos,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()> {
        while self.clock.now() < until {
            ring::flush_completions(&self.ring)?;
            if self.collect(done) {
                break;
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Register for UringQueue {
    fn register(&mut self, address: *mut u8, length: usize) -> Option<u16> {
        self.registered.add(&self.ring, address, length)
    }
}

impl Queue for UringQueue {
    fn prepare(&mut self, io: &Io, mut buffer: Option<Buffer>) {
        let is_taken = moves_data(io.op) && !is_ordered(io);
        if let Some(helpers) = self.helpers.as_mut().filter(|_| !is_taken) {
            helpers.prepare(io, buffer);
            return;
        }
        let (at, io) = &self.targets.of(io);
        let request = Prepared::new(io, *at, buffer.as_mut(), self.discard_command);
        let (expected, open) = (expected(io), request.parts);
        self.slots[io.tag as usize] = Slot { expected, open, buffer, ..Slot::default() };
        self.prepared.push_back(request);
    }

    /// One system call carries up to 4096 entries, none of them behind a flush that a flusher does,
    /// and none before the last such flush is in the device's queue. What does not fit stays
    /// prepared for the next call, so that every request has the stamp of the system call that
    /// carried it. What is answered is the first of these.
    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        let mut accepted = match self.helpers.as_mut() {
            Some(helpers) => helpers.submit()?,
            None => 0,
        };
        let mut first = None;
        while !self.prepared.is_empty() {
            if self.flushers.as_mut().is_some_and(|flushers| !flushers.is_settled()) {
                break;
            }
            if self.flush_first() {
                accepted += 1;
                continue;
            }
            self.enable()?;
            let (stamp, is_before_flush) = self.load(false);
            accepted += self.hand_down(stamp)?;
            first.get_or_insert(stamp);
            if self.loaded > 0 || !is_before_flush {
                break;
            }
        }
        Ok((first.unwrap_or_else(|| self.clock.now()), accepted))
    }

    fn expect(&mut self, due: Nanos, near: Nanos) {
        if let Some(flushers) = &mut self.flushers {
            flushers.expect(due, near);
        }
    }

    fn reap(&mut self, done: &mut impl FnMut(Completion, Option<Buffer>)) -> io::Result<()> {
        self.look(done)?;
        if self.in_flight == 0 {
            return Ok(());
        }
        let queue = self.ring.submission();
        let is_put_off = self.polls || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if is_put_off {
            ring::flush_completions(&self.ring)?;
            self.look(done)?;
        }
        Ok(())
    }

    fn wait(
        &mut self,
        until: Nanos,
        done: &mut impl FnMut(Completion, Option<Buffer>),
    ) -> io::Result<()> {
        let in_flight = self.in_flight + self.helped();
        if self.look(done)? || (in_flight == 0 && until == Nanos::MAX) {
            return Ok(());
        }
        self.enable()?;
        let left = until.saturating_sub(self.clock.now()).0;
        if left <= 0 {
            return self.reap(done);
        }
        match self.helpers.as_mut() {
            Some(helpers) if self.in_flight == 0 => helpers.wait(until, done),
            // The ring cannot wake this thread for what a helper has done.
            Some(helpers) if self.polls || helpers.in_flight() > 0 => self.poll(until, done)?,
            // The kernel has no room for a write whose flush has completed: ask again.
            _ if self.own > 0 => {}
            _ => self.sleep(left, done)?,
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let mut text = format!(
            "io_uring: {} in flight at most, {}, {}",
            self.slots.len(),
            self.options,
            self.registered.describe()
        );
        if let Some(flushers) = &self.flushers {
            let _ = write!(text, ", flushes by {} threads", flushers.count());
        }
        if let Some(helpers) = &self.helpers {
            let count = helpers.count();
            let _ = write!(
                text,
                ", IOPOLL, which takes a processor, other requests than reads and writes by \
                 {count} threads"
            );
        } else if self.targets.supports(Op::Discard) {
            let command = self.discard_command;
            let way = if command { "by io_uring command" } else { "by punching holes" };
            text.push_str(", discard ");
            text.push_str(way);
        }
        text
    }
}

impl Drop for UringQueue {
    fn drop(&mut self) {
        let deadline = self.clock.now() + CLOSING;
        while self.in_flight > 0 && self.clock.now() < deadline {
            if self.wait(deadline, &mut |_, _| ()).is_err() {
                break;
            }
        }
        let flushing = self.flushers.as_ref().map_or(0, Flushers::in_flight);
        if self.in_flight > flushing {
            // The kernel may still write to these buffers: they must stay for ever.
            mem::forget(mem::take(&mut self.slots));
        }
        // The kernel takes a ring down behind our back, and until then the ring would hold the
        // target: opening it again exclusively would fail for no visible reason. From another
        // thread than the issuing one this is refused, and the target is free a little later.
        let _ = self.ring.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Bytes, Flags, Outcome};

    use super::*;
    use crate::device::buffers::Pool;
    use crate::device::uring_available;
    use crate::target::{self, Access, OpenOptions};

    const MIB: u64 = 1 << 20;

    /// A queue that polls needs no device that does: the kernel completes by interrupt then, and
    /// all that is different is how completions are looked for.
    fn every_operation_completes(sqpoll: bool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(MIB).unwrap();
        let opened = target::open(file.path(), OpenOptions::new(Access::ReadWrite));
        let (Ok(()), Ok(opened)) = (uring_available(), opened) else {
            ioecho_fixture::skipped("no io_uring or no direct I/O here");
            return;
        };
        let targets = Arc::new(Targets::one(opened));
        let clock = MonotonicClock::new();
        let options =
            DeviceOptions { in_flight_max: 8, iopoll: true, sqpoll, ..DeviceOptions::default() };
        let mut queue = UringQueue::new(&targets, &options, MIB, clock).unwrap();
        assert!(queue.describe().contains("IOPOLL"), "{}", queue.describe());
        let mut pool = Pool::new(MIB as usize, 0, &mut queue);
        let ops = [Op::Write, Op::Read, Op::Write, Op::Flush, Op::Discard, Op::Write];
        for (tag, op) in (0..).zip(ops) {
            let flags = if tag == 2 { Flags::PREFLUSH } else { Flags::empty() };
            let length = Bytes(if op == Op::Flush { 0 } else { 4096 });
            let (request, scheduled) = (u64::from(tag), Nanos::ZERO);
            let offset = Bytes(request * 4096);
            let io = Io { tag, request, scheduled, op, flags, offset, length };
            let buffer = moves_data(op).then(|| pool.take(4096, &mut queue)).flatten();
            queue.prepare(&io, buffer);
        }
        assert_eq!(queue.submit().unwrap().1, ops.len());
        let mut outcomes = vec![];
        let deadline = clock.now() + Nanos::from_secs(30);
        while outcomes.len() < ops.len() {
            assert!(clock.now() < deadline, "{outcomes:?}");
            queue.wait(deadline, &mut |done, _| outcomes.push((done.tag, done.outcome))).unwrap();
            queue.reap(&mut |done, _| outcomes.push((done.tag, done.outcome))).unwrap();
        }
        outcomes.sort_by_key(|(tag, _)| *tag);
        let (tags, told): (Vec<u32>, Vec<Outcome>) = outcomes.iter().copied().unzip();
        assert_eq!(tags, [0, 1, 2, 3, 4, 5], "each once");
        // A file system that does not poll refuses reads and writes alike, and one in memory
        // discards. A flush is a helper's, which does not poll.
        let transfers = [told[0], told[1], told[2], told[5]];
        let all = |expected| transfers == [expected; 4];
        assert!(all(Outcome::Ok) || all(Outcome::Unsupported), "{outcomes:?}");
        assert_eq!(told[3], Outcome::Ok);
        assert!(matches!(told[4], Outcome::Ok | Outcome::Unsupported), "{outcomes:?}");
        let until = clock.now() + Nanos::from_millis(20);
        queue.wait(until, &mut |done, _| panic!("{done:?} was not asked for")).unwrap();
        assert!(clock.now() >= until, "nothing can have woken it early");
    }

    #[test]
    fn a_polled_ring_and_its_helpers_complete_every_operation() {
        every_operation_completes(false);
    }

    #[test]
    fn a_ring_that_a_thread_of_the_kernel_polls_completes_every_operation() {
        every_operation_completes(true);
    }
}
