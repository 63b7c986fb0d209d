//! The instants of a recording.

use ioecho_trace::recording::Anchor;
use rustix::time::{ClockId, clock_gettime};

/// Tries for an anchor; between the two readings of one clock nothing should come.
const ATTEMPTS: usize = 5;

/// `CLOCK_MONOTONIC`, which is the clock of the events.
pub(super) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic).max(0) as u64
}

/// This instant by both clocks: of several tries the one that took least, with the wall clock put
/// into its middle.
pub(super) fn anchor() -> Anchor {
    let one = || {
        let before = monotonic_ns();
        let wall_ns = nanoseconds(ClockId::Realtime);
        let took = monotonic_ns().saturating_sub(before);
        (took, Anchor { monotonic_ns: before.saturating_add(took / 2), wall_ns })
    };
    let best = (0..ATTEMPTS).map(|_| one()).min_by_key(|(took, _)| *took);
    best.map_or_else(Anchor::default, |(_, anchor)| anchor)
}

fn nanoseconds(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
