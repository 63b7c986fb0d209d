//! Where a replay stood still.
//!
//! A generator that is stopped for a second and does not catch up has every later request a second
//! late. The median, the duration and a straight line through the errors then attribute the effect
//! of a moment to the whole replay. So such moments are detected: pauses without requests that were
//! longer than in the schedule.

use super::figures::StallFigures;
use super::matching::difference;

/// How many places are remembered.
const PLACES_MAX: usize = 1 << 16;

/// Stalls among requests that come in the order in which the device saw them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stalls {
    beyond_ns: i64,
    /// The last instant at which one was seen, and the latest that was due before.
    last: Option<(i64, i64)>,
    figures: StallFigures,
    /// Before which instants of what was asked for: after which request.
    places: Vec<i64>,
}

impl Stalls {
    /// Stalls are what is longer than `beyond_ns`.
    pub(super) fn new(beyond_ns: i64) -> Self {
        Self {
            beyond_ns,
            figures: StallFigures { beyond_ns, ..StallFigures::default() },
            ..Self::default()
        }
    }

    /// Takes a request that was due at `at` and seen at `seen`.
    pub(super) fn push(&mut self, at: i64, seen: i64) {
        let Some((last_seen, latest)) = self.last else {
            self.last = Some((seen, at));
            return;
        };
        let wanted = difference(at, latest).max(0);
        let stall = difference(difference(seen, last_seen), wanted);
        if stall > self.beyond_ns {
            let figures = &mut self.figures;
            figures.stalls += 1;
            figures.total_ns = figures.total_ns.saturating_add(stall);
            if stall > figures.longest_ns {
                (figures.longest_ns, figures.longest_at_ns) = (stall, latest);
            }
            if self.places.len() < PLACES_MAX {
                self.places.push(latest);
            }
        }
        self.last = Some((seen.max(last_seen), at.max(latest)));
    }

    pub(super) fn figures(&self) -> StallFigures {
        self.figures.clone()
    }

    /// After which instants of what was asked for; empty where there are too many.
    pub(super) fn places(&self) -> &[i64] {
        if self.figures.stalls > PLACES_MAX as u64 { &[] } else { &self.places }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_still_is_a_stall_whether_it_catches_up_or_not() {
        for catches_up in [false, true] {
            let mut stalls = Stalls::new(1000);
            for n in 0..100 {
                let at = n * 100;
                let behind = if n >= 40 { 5000 } else { 0 };
                let seen =
                    if catches_up { at.max(if n >= 40 { 8900 } else { 0 }) } else { at + behind };
                stalls.push(at, seen);
            }
            let found = stalls.figures();
            assert_eq!((found.stalls, found.longest_at_ns), (1, 3900), "{found:?}");
            assert_eq!(found.longest_ns, if catches_up { 4900 } else { 5000 });
            assert_eq!(stalls.places(), [3900]);
        }
    }

    #[test]
    fn one_request_that_is_held_back_and_the_ends_of_time_are_none() {
        let mut stalls = Stalls::new(1000);
        for (at, seen) in [(0, 0), (200, 200), (300, 300), (100, 2_000 - 1_000), (1_200, 1_200)] {
            stalls.push(at, seen);
        }
        assert_eq!(stalls.figures().stalls, 0);
        stalls.push(i64::MIN, i64::MAX);
        stalls.push(i64::MAX, i64::MIN);
        assert_eq!(stalls.figures().stalls, 1);
    }
}
