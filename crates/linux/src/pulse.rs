//! Whether the process as a whole stood still.
//!
//! A process that is stopped or frozen (`SIGSTOP`, the freezer of a control group, a debugger)
//! within a system call finds that the call took long, and no clock of the calling thread tells
//! that from a slow device. But its other threads stood still too. So a thread that does nothing
//! else beats many times a second, and what lies between two beats that are far apart is the
//! host's.
//!
//! That is a property of the process, and so is what is kept here: whoever beats says that the
//! process runs.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ioecho_trace::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// How often a thread is to beat.
pub const EVERY: Duration = Duration::from_millis(20);

/// Two beats so far apart are a standstill: the second one is late by more than a thread has to
/// wait for its turn, except on a host that nobody should measure on.
const STANDSTILL_NS: i64 = 50_000_000;

/// How many threads beat.
static BEATING: AtomicUsize = AtomicUsize::new(0);
/// The last beat, on `CLOCK_MONOTONIC`.
static LAST: AtomicI64 = AtomicI64::new(0);
/// The last standstill: its begin and its end.
static STOOD_STILL: [AtomicI64; 2] = [AtomicI64::new(0), AtomicI64::new(0)];

/// Nanoseconds since a boot-time origin; 63 bits last for 292 years.
pub(crate) fn kernel_now() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A thread that beats, until this value is dropped.
#[derive(Debug)]
pub struct Pulse(());

impl Pulse {
    /// Begins to beat.
    pub fn begin() -> Self {
        if BEATING.fetch_add(1, SeqCst) == 0 {
            LAST.store(kernel_now(), SeqCst);
        }
        Self(())
    }

    /// Beats.
    pub fn beat(&self) {
        let now = kernel_now();
        let last = LAST.swap(now, SeqCst);
        if now - last >= STANDSTILL_NS {
            STOOD_STILL[0].store(last, SeqCst);
            STOOD_STILL[1].store(now, SeqCst);
        }
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        BEATING.fetch_sub(1, SeqCst);
    }
}

/// For how much of the time between two instants on `CLOCK_MONOTONIC` nobody beat, as far as that
/// was a standstill. Zero where nobody is to beat.
pub(crate) fn stood_still(from: i64, to: i64) -> Nanos {
    if BEATING.load(SeqCst) == 0 {
        return Nanos::ZERO;
    }
    let last = LAST.load(SeqCst);
    let [begun, ended] = [0, 1].map(|end: usize| STOOD_STILL[end].load(SeqCst));
    let within = |begin: i64, end: i64| (to.min(end) - from.max(begin)).max(0);
    // The thread that beats may be the later one to go on.
    let lasting = if to - last >= STANDSTILL_NS { within(last, to) } else { 0 };
    Nanos(lasting + within(begun, ended))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because what it tests is of the whole process.
    #[test]
    fn what_lies_between_beats_far_apart_is_a_standstill() {
        let now = kernel_now();
        assert_eq!(stood_still(now - 1_000_000_000, now), Nanos::ZERO);
        let pulse = Pulse::begin();
        pulse.beat();
        let last = kernel_now();
        // Nobody beats for 300 ms, as it looks from then.
        let then = last + 300_000_000;
        let told = stood_still(last, then).0;
        assert!((290_000_000..=300_000_000).contains(&told), "{told}");
        // Half of a span that began earlier.
        let told = stood_still(last - 300_000_000, then).0;
        assert!((300_000_000..=310_000_000).contains(&told), "{told}");
        assert_eq!(stood_still(last, last + 40_000_000), Nanos::ZERO);
        // Once the thread goes on, the standstill is remembered.
        LAST.store(last - 400_000_000, SeqCst);
        pulse.beat();
        let told = stood_still(last - 400_000_000, last).0;
        assert!((400_000_000..=410_000_000).contains(&told), "{told}");
        drop(pulse);
        assert_eq!(stood_still(last - 400_000_000, last), Nanos::ZERO);
    }
}
