//! The seam beside the engine: time.

use ioecho_trace::Nanos;

/// A clock that never steps back. Its zero is arbitrary but fixed.
///
/// Implementations: the kernel's `CLOCK_MONOTONIC` (crate `linux`), simulated time
/// ([`crate::sim::SimClock`]).
pub trait Clock {
    /// The instant now.
    fn now(&self) -> Nanos;

    /// How often the host has put the calling thread aside although it wanted to run. Where that
    /// number grows over a slow call, the host is to blame and not what was called. A clock that
    /// does not know answers zero.
    fn preemptions(&self) -> u64 {
        0
    }

    /// How long the calling thread has stood ready and waited for a processor, where that is known.
    fn waited(&self) -> Option<Nanos> {
        None
    }

    /// Whether nobody waits while time passes: then who sleeps need not wake to look around, and
    /// a month without a request is over at once.
    fn jumps(&self) -> bool {
        false
    }
}
