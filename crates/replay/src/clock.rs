//! The seam beside the engine: time.

use ioecho_trace::Nanos;

/// A clock that never steps back. Its zero is arbitrary but fixed.
///
/// Implementations: the kernel's `CLOCK_MONOTONIC` (crate `linux`), simulated time
/// ([`crate::sim::SimClock`]).
pub trait Clock {
    /// The instant now.
    fn now(&self) -> Nanos;
}
