//! Threads that issue flushes and are awake when these fall due.
//!
//! The kernel gives `IORING_OP_FSYNC` to a worker thread of its own in any case (`io_uring/sync.c`
//! asks for `REQ_F_FORCE_ASYNC`). Waking that worker takes tens of microseconds and at times
//! hundreds, for it may have to wait for the processor on which the issuing thread spins; requests
//! due after the flush overtake it meanwhile. The results would not show this: the ring took the
//! flush in time, and the delay would count as the device's.
//!
//! Threads of ioecho can be woken before the flush falls due, and read the clock just before their
//! system call. The issuing thread announces flushes ([`Flushers::expect`]); each free thread takes
//! one of these, in order, sleeps until shortly before it and spins until it comes
//! ([`super::duty`]). Any free thread can take any flush: the announced one only decides when a
//! thread is awake. The state of a thread is one word, which the issuing thread changes to hand
//! over a flush: no lock, and no system call if the thread spins.
//!
//! No flush waits for another: if all threads are busy, the ring takes the next.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use ioecho_replay::Clock;
use ioecho_trace::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::fdatasync;

use super::duty::{Budget, Duty, Expected};
use super::targets::Targets;
use crate::clock::MonotonicClock;
use crate::thread::{start_by, wake_promptly};

/// Small: a flusher only makes system calls.
const STACK: usize = 128 << 10;

/// How many announced flushes are kept; further announcements are ignored. As many as there are
/// requests in the look-ahead of a replay.
const EXPECTED_MAX: usize = 1 << 12;

/// How long later requests wait at most for a thread to take a flush: longer than nearly all
/// threads take to wake up.
const TAKING_MAX: Nanos = Nanos::from_micros(500);

/// The time from there until the flush is in the device's queue.
const CALL: Nanos = Nanos::from_micros(5);

/// Is in a flush, or has just begun to live.
const BUSY: u64 = 0;
/// Sleeps until it is woken.
const IDLE: u64 = 1;
/// Sleeps until a flush that it knows of is due.
const AWAITING: u64 = 2;
/// Looks for a flush again and again.
const SPINNING: u64 = 3;
/// Was given the flush of the request whose tag stands below, and has not taken it yet. The number
/// of its target stands above.
const GIVEN: u64 = 1 << 32;
const TARGET_SHIFT: u32 = 33;

/// A flush that is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flushed {
    pub(super) tag: u32,
    /// Just before the system call.
    pub(super) submitted: Nanos,
    /// Just behind it.
    pub(super) completed: Nanos,
    /// Zero, or an error number below it.
    pub(super) result: i32,
}

/// A flusher, as the others see it.
#[derive(Debug, Default)]
struct Flusher {
    /// What it is at.
    state: AtomicU64,
    /// When the flush that it awaits is near, ns.
    from: AtomicI64,
}

impl Flusher {
    /// Goes from one state to another; answers `false` if it was not at that one.
    fn moves(&self, from: u64, to: u64) -> bool {
        self.state.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }

    /// Whether it was given a flush that it has not taken yet.
    fn is_given(&self) -> bool {
        self.state.load(SeqCst) & GIVEN != 0
    }
}

/// State shared by the issuing thread and the flushers.
struct Shared {
    targets: Arc<Targets>,
    clock: MonotonicClock,
    places: Vec<Flusher>,
    expected: Receiver<Expected>,
    budget: Budget,
    done: Sender<Flushed>,
    /// Whether the next flush that is done is to ring the bell.
    listening: AtomicBool,
    bell: OwnedFd,
    stop: AtomicBool,
}

/// Some threads, and the way to and from them. Whoever drops it has waited for the flushes in
/// flight; if there are some all the same, the threads are left to themselves.
pub(super) struct Flushers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    expected: Sender<Expected>,
    done: Receiver<Flushed>,
    in_flight: usize,
    /// When the last flush was handed over, until that has been waited for.
    handed_over: Option<Nanos>,
    /// Whether it was not taken yet when that was looked at.
    was_given: bool,
    spins: bool,
    /// When the last flush that is known of is due.
    last_due: Nanos,
    /// Which thread is looked at first for the next one.
    next: usize,
}

impl Flushers {
    /// `count` threads.
    pub(super) fn new(
        count: u32,
        targets: &Arc<Targets>,
        clock: MonotonicClock,
    ) -> io::Result<Self> {
        let (expected, to_expect) = bounded(EXPECTED_MAX);
        // Where nobody takes what is done, a thread waits with the next, and is not free meanwhile.
        let (finished, done) = bounded(count as usize);
        let shared = Arc::new(Shared {
            targets: Arc::clone(targets),
            clock,
            places: (0..count).map(|_| Flusher::default()).collect(),
            expected: to_expect,
            budget: Budget::default(),
            done: finished,
            listening: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            stop: AtomicBool::new(false),
        });
        let mut flushers = Self {
            shared,
            threads: Vec::with_capacity(count as usize),
            expected,
            done,
            in_flight: 0,
            handed_over: None,
            was_given: false,
            // The issuing thread needs the only processor.
            spins: thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
            last_due: Nanos(i64::MIN),
            next: 0,
        };
        for number in 0..count as usize {
            let shared = Arc::clone(&flushers.shared);
            let builder = Builder::new().name(format!("ioecho-flush-{number}")).stack_size(STACK);
            let thread = start_by(builder, move || shared.serve(number));
            // Where there can be no more, dropping them ends those that there are.
            flushers.threads.push(thread?);
        }
        Ok(flushers)
    }

    /// How many threads there are.
    pub(super) fn count(&self) -> usize {
        self.threads.len()
    }

    /// Flushes handed over and not taken back.
    pub(super) const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether a thread has nothing to do.
    pub(super) fn has_free(&self) -> bool {
        let is_free = |state: u64| matches!(state, IDLE | AWAITING | SPINNING);
        (0..self.threads.len()).any(|number| is_free(self.state(number)))
    }

    /// Announces a flush that will be due, for which a thread must be awake ([`Expected::new`]).
    /// Flushes are announced in order.
    pub(super) fn expect(&mut self, due: Nanos, near: Nanos) {
        let flush = Expected::new(due, near, self.last_due);
        if !self.spins || self.expected.try_send(flush).is_err() {
            return;
        }
        self.last_due = due;
        // Who waits for one already, or is in one, takes the next by itself afterwards.
        let count = self.threads.len();
        let order = (self.next..count).chain(0..self.next);
        if let Some(idle) = order.into_iter().find(|number| self.state(*number) == IDLE) {
            self.threads[idle].thread().unpark();
            self.next = (idle + 1) % count;
        }
    }

    /// Has the target `at` flushed for the request of this tag; answers `false` where no thread is
    /// free.
    pub(super) fn hand_over(&mut self, tag: u32, at: usize) -> bool {
        let ways = [SPINNING, IDLE, AWAITING];
        // A thread may go from one state to another between two looks.
        let taken = loop {
            if ways.into_iter().any(|state| self.hand_to(state, tag, at)) {
                break true;
            }
            if !self.has_free() {
                break false;
            }
        };
        self.in_flight += usize::from(taken);
        if taken {
            self.handed_over = Some(self.shared.clock.now());
        }
        taken
    }

    /// Hands the flush to a thread in that state. Of several it takes the one that waits for this
    /// flush: the first that should be awake by now. If there is none, it takes the one whose own
    /// flush is farthest in the future, so that it is back by then; otherwise each flush would take
    /// the thread of a later one.
    fn hand_to(&self, state: u64, tag: u32, at: usize) -> bool {
        let given = GIVEN | (at as u64) << TARGET_SHIFT | u64::from(tag);
        let now = self.shared.clock.now().0;
        let is_at = |number: &usize| self.state(*number) == state;
        let wakes = |number: usize| (self.shared.places[number].from.load(Relaxed), number);
        let at = || (0..self.threads.len()).filter(is_at).map(wakes);
        let ready = at().filter(|(from, _)| *from <= now).min();
        let Some((_, number)) = ready.or_else(|| at().max()) else { return false };
        if !self.shared.places[number].moves(state, given) {
            return false;
        }
        if state != SPINNING {
            self.threads[number].thread().unpark();
        }
        true
    }

    /// Whether the flushes that were handed over are in the device's queue, as far as this is
    /// known: later requests must not get there first. A woken thread may need the processor of
    /// this thread, so this one yields it; it does not block here, or completions would be seen
    /// late.
    pub(super) fn is_settled(&mut self) -> bool {
        let Some(handed_over) = self.handed_over else { return true };
        let mut now = self.shared.clock.now();
        let is_given = self.shared.places.iter().any(Flusher::is_given);
        if is_given && now < handed_over.saturating_add(TAKING_MAX) {
            self.was_given = true;
            thread::yield_now();
            return false;
        }
        let since = if self.was_given { now } else { handed_over };
        while now < since.saturating_add(CALL) {
            std::hint::spin_loop();
            now = self.shared.clock.now();
        }
        (self.handed_over, self.was_given) = (None, false);
        true
    }

    fn state(&self, number: usize) -> u64 {
        self.shared.places[number].state.load(SeqCst)
    }

    /// A flush that is done, if there is one.
    pub(super) fn take_done(&mut self) -> Option<Flushed> {
        if self.in_flight == 0 {
            return None;
        }
        let flushed = self.done.try_recv().ok()?;
        self.in_flight -= 1;
        Some(flushed)
    }

    /// What becomes readable when a flush is done while somebody listens.
    pub(super) fn bell(&self) -> i32 {
        self.shared.bell.as_raw_fd()
    }

    /// Makes the bell silent again.
    pub(super) fn silence(&self) {
        // Refused only where it has not been rung.
        let _ = rustix::io::read(&self.shared.bell, &mut [0; 8]);
    }

    /// Whether the next finished flush rings the bell. A caller that begins to listen must check
    /// for finished flushes before it sleeps.
    pub(super) fn listen(&self, listening: bool) {
        self.shared.listening.store(listening, SeqCst);
    }
}

impl Drop for Flushers {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        if self.in_flight == 0 {
            for thread in self.threads.drain(..) {
                // One that panicked has said so already.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// A flusher's life.
    fn serve(&self, number: usize) {
        wake_promptly();
        let place = &self.places[number];
        let mut expected = None;
        while let Some((tag, at)) = self.await_flush(place, &mut expected) {
            let submitted = self.clock.now();
            let answer = fdatasync(&self.targets.all()[at].file);
            let completed = self.clock.now();
            let result = answer.map_or_else(|error| -error.raw_os_error(), |()| 0);
            if self.done.send(Flushed { tag, submitted, completed, result }).is_err() {
                return;
            }
            if self.listening.swap(false, SeqCst) {
                // Refused only when nobody has listened for 2^64 flushes.
                let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
            }
            expected = expected.filter(|flush: &Expected| !flush.is_met(submitted));
        }
    }

    /// Waits for a flush, asleep or awake: the tag of its request and the number of its target;
    /// `None` when there will be none any more. `expected` is
    /// the one that this thread knows of.
    fn await_flush(
        &self,
        place: &Flusher,
        expected: &mut Option<Expected>,
    ) -> Option<(u32, usize)> {
        // A thread that is not busy may be given a flush at any moment.
        let mut was = BUSY;
        loop {
            let now = self.clock.now();
            let duty = self.duty(now, expected);
            place.from.store(expected.map_or(0, |flush| flush.from().0), Relaxed);
            let is = match duty {
                None => IDLE,
                Some(Duty::Spin) => SPINNING,
                Some(_) => AWAITING,
            };
            if place.moves(was, is) {
                was = is;
            } else {
                let given = place.state.load(SeqCst);
                if given & GIVEN != 0 && place.moves(given, BUSY) {
                    return Some((given as u32, (given >> TARGET_SHIFT) as usize));
                }
                continue;
            }
            if self.stop.load(SeqCst) {
                return None;
            }
            match duty {
                // Announcements before this thread was idle did not wake it.
                None if !self.expected.is_empty() => {}
                None => thread::park(),
                Some(Duty::Sleep(until)) => {
                    let left = until.saturating_sub(self.clock.now()).0.max(0);
                    thread::park_timeout(Duration::from_nanos(left.unsigned_abs()));
                }
                Some(_) => self.spin(&place.state, now, *expected),
            }
        }
    }

    /// What to do about the flush that the thread waits for, which is the next one if it has none;
    /// `None` if none is known.
    fn duty(&self, now: Nanos, expected: &mut Option<Expected>) -> Option<Duty> {
        loop {
            let flush = match *expected {
                Some(flush) => flush,
                None => *expected.insert(self.expected.try_recv().ok()?),
            };
            match flush.duty(now, &self.budget) {
                Duty::Over => *expected = None,
                duty => return Some(duty),
            }
        }
    }

    /// Looks for the flush until it is there or nobody waits for it any more.
    fn spin(&self, state: &AtomicU64, began: Nanos, expected: Option<Expected>) {
        let mut now = began;
        while state.load(SeqCst) == SPINNING
            && expected.is_some_and(|flush| !flush.is_over(now))
            && !self.stop.load(SeqCst)
        {
            // The issuing thread may want the very processor that this one is on.
            thread::yield_now();
            now = self.clock.now();
        }
        self.budget.spend(began, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{self, Access, OpenOptions};

    const COUNT: u32 = 5000;

    #[test]
    fn every_flush_is_done_once_however_threads_sleep_and_spin() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut opening = OpenOptions::new(Access::ReadOnly);
        opening.allow_cached = true;
        let targets = Arc::new(Targets::one(target::open(file.path(), opening).unwrap()));
        let clock = MonotonicClock::new();
        let mut flushers = Flushers::new(3, &targets, clock).unwrap();
        let mut times = vec![0; COUNT as usize];
        let deadline = clock.now() + Nanos::from_secs(60);
        let mut take = |flushers: &mut Flushers| {
            while let Some(done) = flushers.take_done() {
                assert!(done.submitted <= done.completed && done.result == 0, "{done:?}");
                times[done.tag as usize] += 1;
            }
            assert!(clock.now() < deadline, "{} in flight", flushers.in_flight());
        };
        for tag in 0..COUNT {
            let ahead = Nanos::from_micros(i64::from(tag % 7) * 20);
            flushers.expect(clock.now() + ahead, Nanos::from_micros(i64::from(tag % 3) * 10));
            while !flushers.hand_over(tag, 0) {
                take(&mut flushers);
                thread::yield_now();
            }
        }
        while flushers.in_flight() > 0 {
            take(&mut flushers);
            thread::yield_now();
        }
        assert!(times.iter().all(|times| *times == 1));
        assert_eq!(flushers.count(), 3);
    }
}
