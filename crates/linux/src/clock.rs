//! The clock that a replay is timed by.
//!
//! Wall clocks step when they are corrected; a step during a run would look like a latency.
//! `CLOCK_MONOTONIC` never steps, is the clock of the kernel's timers and tracepoints, and is read
//! in the vDSO (about 30 ns) without a system call.

use ioecho_replay::Clock;
use ioecho_trace::Nanos;
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_getres};

use crate::pulse::{self, kernel_now};
use crate::thread::ThreadCpu;
use crate::watch::own_wait;

/// `CLOCK_MONOTONIC`, counted from the moment this clock was made.
///
/// Copies share that moment, so the instants of a device and of the engine can be compared when
/// both hold a copy of one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonotonicClock {
    origin: i64,
}

impl MonotonicClock {
    /// A clock that reads zero now.
    pub fn new() -> Self {
        Self { origin: kernel_now() }
    }

    /// What `CLOCK_MONOTONIC` itself read when this clock read zero, in nanoseconds: add it to an
    /// instant to find the instant in a trace of the kernel.
    pub const fn origin(&self) -> Nanos {
        Nanos(self.origin)
    }

    /// Sleeps until this clock reads `instant`: to an absolute time, so that being put aside on the
    /// way to sleep does not make it longer (`clock_nanosleep(2)`).
    pub fn sleep_until(&self, instant: Nanos) {
        let at = self.origin.saturating_add(instant.0).max(0);
        let request = Timespec { tv_sec: at / 1_000_000_000, tv_nsec: at % 1_000_000_000 };
        // A signal wakes early; any other error would return at once for ever.
        while clock_nanosleep_absolute(ClockId::Monotonic, &request) == Err(Errno::INTR) {}
    }

    /// The unit in which the kernel's timers on this clock count (`clock_getres(2)`): 1 ns with
    /// high-resolution timers, a tick of milliseconds without.
    pub fn resolution() -> Nanos {
        let unit = clock_getres(ClockId::Monotonic);
        Nanos(unit.tv_sec * 1_000_000_000 + unit.tv_nsec)
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Nanos {
        Nanos(kernel_now() - self.origin)
    }

    fn preemptions(&self) -> u64 {
        ThreadCpu::now().map_or(0, |account| account.involuntary_switches)
    }

    fn waited(&self) -> Option<Nanos> {
        own_wait()
    }

    fn stood_still(&self, from: Nanos, to: Nanos) -> Nanos {
        let on_kernel = |at: Nanos| self.origin.saturating_add(at.0);
        pulse::stood_still(on_kernel(from), on_kernel(to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_starts_near_zero_and_never_steps_back() {
        let clock = MonotonicClock::new();
        let mut last = clock.now();
        assert!(last >= Nanos::ZERO);
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn sleeping_ends_no_earlier_than_asked_and_at_once_for_the_past() {
        let clock = MonotonicClock::new();
        let until = clock.now() + Nanos::from_millis(2);
        clock.sleep_until(until);
        assert!(clock.now() >= until);
        clock.sleep_until(Nanos(-1));
        clock.sleep_until(Nanos(i64::MIN));
        assert!(MonotonicClock::resolution() > Nanos::ZERO);
    }

    #[test]
    fn copies_share_their_origin() {
        let clock = MonotonicClock::new();
        let copy = clock;
        let first = clock.now();
        assert!(copy.now() >= first);
        assert_eq!(copy.origin(), clock.origin());
    }
}
