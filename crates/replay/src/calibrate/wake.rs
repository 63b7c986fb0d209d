//! How near to a deadline a thread may sleep.
//!
//! A sleeping thread is woken late, by 5 µs on one host and by 200 µs on another. If the engine
//! sleeps until too near a deadline, it is late by that; if it spins from too far away, it takes
//! the processor from the threads that do the I/O. So the distance is measured where and when it is
//! needed.

use ioecho_trace::Nanos;
use serde::Serialize;

use super::{Spread, quantile};
use crate::clock::Clock;

/// The shortest distance: going to sleep and waking up takes as long.
pub const NEAR_MIN: Nanos = Nanos::from_micros(20);

/// The longest distance: a host that wakes threads later than this does so at random, and spinning
/// would not help.
pub const NEAR_MAX: Nanos = Nanos::from_micros(500);

/// How often it is tried, and how long that may take altogether.
const TRIES: usize = 40;
const TIME_MAX: Nanos = Nanos::from_millis(28);

/// The deadlines lie so far ahead: the first so far, and each of four so much farther.
const AHEAD: Nanos = Nanos::from_micros(200);
const AHEAD_STEP: Nanos = Nanos::from_micros(75);

/// The distance is the 90th percentile of lateness, half as much again, and the reading of the
/// clock afterwards. Later wake-ups are stalls, which no reasonable distance covers: on a shared
/// host they may be one in twenty, so a higher quantile of 40 wake-ups would be luck.
const COVERED: f64 = 0.9;
const HALF_AGAIN: i64 = 2;
const MARGIN: Nanos = Nanos::from_micros(5);

/// How a host wakes threads, and what follows for the pacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct NearDistance {
    /// Sleep until this long before a deadline, then spin.
    #[serde(rename = "near_ns")]
    pub near: Nanos,
    /// How late the thread was woken.
    pub wake_up: Spread,
}

/// Measures it with `sleep`, which sleeps until the clock reads the instant given, in the way that
/// the run will sleep (with a device, by waiting on it). Takes less than 30 ms, unless a single
/// sleep takes longer.
pub fn near_distance(mut sleep: impl FnMut(Nanos), clock: &impl Clock) -> NearDistance {
    let began = clock.now();
    let mut late = Vec::with_capacity(TRIES);
    for turn in 0..TRIES {
        let now = clock.now();
        if now - began > TIME_MAX {
            break;
        }
        // Different distances avoid a beat with the kernel's tick.
        let until = now + AHEAD + Nanos(AHEAD_STEP.0 * (turn % 5) as i64);
        sleep(until);
        late.push((clock.now() - until).max(Nanos::ZERO));
    }
    let wake_up = Spread::of(&mut late);
    let covered = quantile(&late, COVERED);
    let near = Nanos(covered.0 + covered.0 / HALF_AGAIN) + MARGIN;
    NearDistance { near: near.clamp(NEAR_MIN, NEAR_MAX), wake_up }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimClock;

    /// Measures a host that wakes the thread late by what `lateness_us` says for each turn.
    fn measured(lateness_us: impl Fn(usize) -> i64) -> (NearDistance, Nanos) {
        let clock = SimClock::new(Nanos(20));
        let mut turn = 0;
        let sleep = |until: Nanos| {
            clock.advance_to(until + Nanos::from_micros(lateness_us(turn)));
            turn += 1;
        };
        let distance = near_distance(sleep, &clock);
        (distance, clock.now())
    }

    #[test]
    fn the_distance_covers_the_usual_wake_up_with_a_margin() {
        let (distance, took) = measured(|turn| 25 + (turn % 10) as i64);
        assert!(distance.near > distance.wake_up.p99, "{distance:?}");
        assert!(distance.near < Nanos::from_micros(70), "{distance:?}");
        assert_eq!(distance.wake_up.count, 40);
        assert!(took < Nanos::from_millis(30), "{took}");
    }

    #[test]
    fn a_few_stalls_do_not_make_it_spin_for_ever() {
        let calm = measured(|_| 30).0.near;
        let stalled = measured(|turn| if turn % 13 == 5 { 4_000 } else { 30 }).0;
        assert!(stalled.near - calm < Nanos::from_micros(1), "{stalled:?}");
        assert!(stalled.wake_up.max >= Nanos::from_millis(4), "{stalled:?}");
    }

    #[test]
    fn a_host_that_wakes_at_once_or_far_too_late_gives_the_limits() {
        assert_eq!(measured(|_| 0).0.near, NEAR_MIN);
        let (late, took) = measured(|_| 3_000);
        assert_eq!(late.near, NEAR_MAX);
        assert!(late.wake_up.count < 12, "{late:?}");
        assert!(took < Nanos::from_millis(33), "{took}");
    }
}
