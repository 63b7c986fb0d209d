//! How long the host stops a running thread.
//!
//! A spinning thread reads the clock again and again, without gaps, until the host stops it: an
//! interrupt, another thread, the hypervisor. No program can prevent that; it can only be measured,
//! and it limits the accuracy of everything measured on this host.

use ioecho_trace::Nanos;
use serde::Serialize;

use crate::clock::Clock;

/// An absence from this length on counts: interrupts of a calm host take less.
const GAP: Nanos = Nanos::from_micros(10);

/// Absences of a thread that kept reading the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// How long it was watched.
    #[serde(rename = "watched_ns")]
    pub watched: Nanos,
    /// How often it was away for 10 µs and longer.
    pub count: u64,
    /// The longest absence.
    #[serde(rename = "longest_ns")]
    pub longest: Nanos,
    /// All absences together.
    #[serde(rename = "sum_ns")]
    pub sum: Nanos,
    /// Their share of the time, 0 to 1.
    pub share: f64,
}

/// Spins for `span` and counts the absences.
pub fn spin_gaps(clock: &impl Clock, span: Nanos) -> Gaps {
    let began = clock.now();
    let mut last = began;
    let mut gaps = Gaps::default();
    while last - began < span {
        let now = clock.now();
        let gap = now - last;
        if gap >= GAP {
            gaps.count += 1;
            gaps.longest = gaps.longest.max(gap);
            gaps.sum += gap;
        }
        last = now;
    }
    gaps.watched = last - began;
    gaps.share = gaps.sum.0 as f64 / gaps.watched.0.max(1) as f64;
    gaps
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that takes 1 µs for a look, and 100 µs for every 100th.
    #[derive(Default)]
    struct Stumbling(Cell<i64>, Cell<u32>);

    impl Clock for Stumbling {
        fn now(&self) -> Nanos {
            self.1.set(self.1.get() + 1);
            self.0
                .set(self.0.get() + if self.1.get().is_multiple_of(100) { 100_000 } else { 1_000 });
            Nanos(self.0.get())
        }
    }

    #[test]
    fn absences_are_counted_and_ordinary_looks_are_not() {
        let gaps = spin_gaps(&Stumbling::default(), Nanos::from_micros(1990));
        assert_eq!((gaps.count, gaps.longest), (10, Nanos::from_micros(100)));
        assert_eq!(gaps.sum, Nanos::from_micros(1000));
        assert_eq!(gaps.watched, Nanos::from_micros(1990));
        assert!((gaps.share - 1000.0 / 1990.0).abs() < 1e-9);
    }
}
