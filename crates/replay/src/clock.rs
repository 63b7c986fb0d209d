//! The seam beside the engine: time.

use ioecho_trace::Nanos;

/// A clock that never steps back. Its zero is arbitrary but fixed.
///
/// Implementations: the kernel's `CLOCK_MONOTONIC` (crate `linux`), simulated time
/// ([`crate::sim::SimClock`]).
pub trait Clock {
    /// The instant now.
    fn now(&self) -> Nanos;

    /// How often the host has preempted the calling thread. If the number grows during a slow call,
    /// the host is to blame, not the callee. Zero if unknown.
    fn preemptions(&self) -> u64 {
        0
    }

    /// How long the calling thread was runnable but waited for a processor, if known.
    fn waited(&self) -> Option<Nanos> {
        None
    }

    /// For how much of the time between two instants the whole process is known to have stood
    /// still, stopped or frozen. A call that was slow meanwhile is not to blame.
    fn stood_still(&self, _from: Nanos, _to: Nanos) -> Nanos {
        Nanos::ZERO
    }

    /// Whether time jumps to the next deadline (simulation): then a sleeper need not wake up
    /// regularly, and a month without a request takes no time.
    fn jumps(&self) -> bool {
        false
    }
}
