//! Which rates this host can pace, measured before a run needs to know.
//!
//! A generator that cannot keep the asked rate on its host is late, and a late generator looks like
//! a slow device. So the host is measured with the engine itself: how late it wakes a thread
//! ([`near_distance`]), how long it stops one that runs ([`spin_gaps`]), and which rates the engine
//! keeps against a device that takes no time at all ([`pace_limit`], and in a few milliseconds
//! [`quick_cost`]).
//!
//! Everything here sees the world through [`Clock`] and two functions, so that it is tested in
//! simulated time like the engine.

mod gaps;
mod null;
mod pace;
mod wake;

use ioecho_trace::Nanos;
use serde::Serialize;

use crate::clock::Clock;

pub use gaps::{Gaps, spin_gaps};
pub use null::NullDevice;
pub use pace::{LADDER, PacePlan, PacedRate, Spacing, highest_kept, pace_limit, quick_cost};
pub use wake::{NEAR_MAX, NEAR_MIN, NearDistance, near_distance};

/// What a measurement needs of the host.
pub struct Host<'a, C> {
    /// The time.
    pub clock: &'a C,
    /// Sleeps until the clock reads the instant, as the engine would.
    pub sleep_until: &'a mut dyn FnMut(Nanos),
    /// The processor time of the calling thread so far.
    pub cpu_time: &'a dyn Fn() -> Nanos,
}

/// A distribution of spans in a few quantiles (nearest rank).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many spans.
    pub count: usize,
    /// The median.
    #[serde(rename = "p50_ns")]
    pub p50: Nanos,
    /// 99 of 100 are no longer.
    #[serde(rename = "p99_ns")]
    pub p99: Nanos,
    /// 999 of 1000 are no longer.
    #[serde(rename = "p99_9_ns")]
    pub p99_9: Nanos,
    /// The longest.
    #[serde(rename = "max_ns")]
    pub max: Nanos,
}

impl Spread {
    /// The quantiles of these spans, which are sorted on the way; zeroes if there are none.
    pub fn of(spans: &mut [Nanos]) -> Self {
        spans.sort_unstable();
        Self {
            count: spans.len(),
            p50: quantile(spans, 0.5),
            p99: quantile(spans, 0.99),
            p99_9: quantile(spans, 0.999),
            max: spans.last().copied().unwrap_or_default(),
        }
    }
}

/// The least of the sorted spans that at least this share of them does not exceed.
fn quantile(sorted: &[Nanos], share: f64) -> Nanos {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

/// What one look at the clock takes: the mean of the best of some rounds, so that what the host
/// takes meanwhile does not count.
pub fn clock_cost(clock: &impl Clock) -> Nanos {
    const ROUNDS: usize = 16;
    const LOOKS: i64 = 64;
    let rounds = (0..ROUNDS).map(|_| {
        let before = clock.now();
        for _ in 1..LOOKS {
            std::hint::black_box(clock.now());
        }
        Nanos((clock.now() - before).0 / LOOKS)
    });
    rounds.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;

    #[test]
    fn quantiles_are_of_the_nearest_rank() {
        let mut spans: Vec<Nanos> = (1..=1000).rev().map(Nanos).collect();
        let spread = Spread::of(&mut spans);
        assert_eq!((spread.count, spread.p50), (1000, Nanos(500)));
        assert_eq!((spread.p99, spread.p99_9, spread.max), (Nanos(990), Nanos(999), Nanos(1000)));
        let one = Spread::of(&mut [Nanos(7)]);
        assert_eq!((one.p50, one.p99, one.max), (Nanos(7), Nanos(7), Nanos(7)));
        assert_eq!(Spread::of(&mut []), Spread::default());
    }

    #[test]
    fn a_look_at_the_clock_takes_what_it_takes() {
        assert_eq!(clock_cost(&SimClock::new(Nanos(30))), Nanos(30));
    }
}
