//! The time without completions although requests were waiting.
//!
//! Without a schedule the next request is issued when there is a place for it. While the device
//! stalls, no request is issued, so a stall of an hour is one slow request among millions, and no
//! percentile of requests shows it: coordinated omission. Only the time shows it.

use ioecho_trace::Nanos;

use crate::timeline::{Cell, Timeline};

/// A pause is at least this many mean distances between completions long.
const MEAN_DISTANCES: f64 = 100.0;

/// Shorter pauses do not count, at any rate.
const PAUSE_MIN: Nanos = Nanos::from_millis(10);

/// The instants of completions.
#[derive(Clone, Debug, Default)]
pub(super) struct Standstill {
    line: Timeline<Ends>,
}

/// The first and the last completion in a span of time, and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ends {
    count: u64,
    first: Nanos,
    last: Nanos,
}

impl Cell for Ends {
    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let is_empty = self.count == 0;
        self.first = if is_empty { other.first } else { self.first.min(other.first) };
        self.last = if is_empty { other.last } else { self.last.max(other.last) };
        self.count += other.count;
    }
}

/// The pauses without completions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pauses {
    /// The number of pauses.
    pub pauses: u64,
    /// The sum of all pauses.
    pub total: Nanos,
    /// The longest pause.
    pub longest: Nanos,
    /// The beginning of the longest pause.
    pub longest_at: Nanos,
    /// From the beginning of the run to the last completion.
    pub span: Nanos,
}

impl Pauses {
    /// The pauses' share of the run.
    pub fn share(&self) -> f64 {
        self.total.0 as f64 / self.span.0.max(1) as f64
    }
}

impl Standstill {
    pub(super) fn observe(&mut self, completed: Nanos) {
        self.line.at(completed).merge(&Ends { count: 1, first: completed, last: completed });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.line.merge(&other.line);
    }

    /// The pauses; `None` of a run without completions.
    pub(super) fn pauses(&self) -> Option<Pauses> {
        let cells = self.line.cells();
        let all: u64 = cells.iter().map(|cell| cell.count).sum();
        let span = cells.iter().filter(|cell| cell.count > 0).map(|cell| cell.last).max()?;
        // Pauses between two completions in the same bucket are not seen.
        let width = self.line.width();
        let usual = Nanos((span.0 as f64 / all.max(1) as f64 * MEAN_DISTANCES) as i64);
        let least = usual.max(PAUSE_MIN).max(width);
        let mut found = Pauses { span, ..Pauses::default() };
        let mut before = Nanos::ZERO;
        for cell in cells.iter().filter(|cell| cell.count > 0) {
            let pause = cell.first.saturating_sub(before);
            if pause > least {
                found.pauses += 1;
                found.total += pause;
                if pause > found.longest {
                    (found.longest, found.longest_at) = (pause, before);
                }
            }
            before = cell.last;
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instants_us: impl Iterator<Item = i64>) -> Pauses {
        let mut standstill = Standstill::default();
        instants_us.for_each(|at| standstill.observe(Nanos::from_micros(at)));
        standstill.pauses().unwrap()
    }

    #[test]
    fn a_second_in_which_nothing_is_done_is_found_and_measured() {
        // A request each 100 us for 2 s, then nothing for a second, then 2 s more.
        let steady = || (1..=20_000).map(|n| n * 100);
        let pauses = of(steady().chain(steady().map(|at| at + 3_000_000)));
        assert_eq!((pauses.pauses, pauses.longest_at), (1, Nanos::from_secs(2)));
        assert_eq!(pauses.longest, Nanos::from_micros(1_000_100));
        assert!((pauses.share() - 0.2).abs() < 0.001, "{pauses:?}");
    }

    #[test]
    fn a_device_that_is_only_slow_does_not_stand_still() {
        assert_eq!(of((1..1000).map(|n| n * 20_000)).pauses, 0);
        assert_eq!(Standstill::default().pauses(), None);
    }

    #[test]
    fn pauses_of_the_parts_are_those_of_the_whole() {
        let mut parts = [Standstill::default(), Standstill::default()];
        let mut whole = Standstill::default();
        for n in 0..5000 {
            let at = Nanos::from_micros(n * 100 + if n > 2500 { 700_000 } else { 0 });
            parts[(n % 2) as usize].observe(at);
            whole.observe(at);
        }
        let [mut one, other] = parts;
        one.merge(&other);
        assert_eq!(one.pauses(), whole.pauses());
        assert_eq!(one.pauses().unwrap().pauses, 1);
    }
}
