//! The clock that a replay is timed by.
//!
//! Wall clocks step when they are corrected; a step in the middle of a run would be a latency that
//! nobody had. `CLOCK_MONOTONIC` never steps, is the clock of the kernel's timers and tracepoints,
//! and is read in the vDSO (about 30 ns) without a system call.

use ioecho_replay::Clock;
use ioecho_trace::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::thread::ThreadCpu;

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
}

/// Nanoseconds since a boot-time origin; 63 bits last for 292 years.
fn kernel_now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
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
    fn copies_share_their_origin() {
        let clock = MonotonicClock::new();
        let copy = clock;
        let first = clock.now();
        assert!(copy.now() >= first);
        assert_eq!(copy.origin(), clock.origin());
    }
}
