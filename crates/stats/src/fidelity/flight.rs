//! How many requests are in the device, and when there are none.
//!
//! A generator that is late leaves the device idle while requests are due; a device that is slow
//! does not. So idle spans show the cause of a late request where nothing else does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many idle spans are remembered.
const SPANS_MAX: usize = 1 << 16;

/// Requests in flight, swept in the order of their issue.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    ends: BinaryHeap<Reverse<i64>>,
    /// The latest end of what was issued so far.
    last_end: Option<i64>,
    /// Begin and end of an idle span, and the idle time up to its end.
    idle: VecDeque<(i64, i64, i64)>,
    peak: u64,
}

impl Flight {
    /// Takes a request; one whose end is unknown counts as ended at once.
    pub(super) fn push(&mut self, at: i64, latency: Option<i64>) {
        while self.ends.peek().is_some_and(|end| end.0 <= at) {
            self.ends.pop();
        }
        if self.ends.is_empty()
            && let Some(last) = self.last_end.filter(|last| *last < at)
        {
            let before = self.idle.back().map_or(0, |span| span.2);
            if self.idle.len() == SPANS_MAX {
                self.idle.pop_front();
            }
            self.idle.push_back((last, at, before.saturating_add(at.saturating_sub(last))));
        }
        let end = at.saturating_add(latency.unwrap_or(0).max(0));
        self.last_end = Some(self.last_end.map_or(end, |last| last.max(end)));
        if latency.is_some() {
            self.ends.push(Reverse(end));
            self.peak = self.peak.max(self.ends.len() as u64);
        }
    }

    /// Most requests in flight together.
    pub(super) fn peak(&self) -> u64 {
        self.peak
    }

    /// When the last request ended.
    pub(super) fn last_end(&self) -> Option<i64> {
        self.last_end
    }

    /// For how long the device was idle between `from` and the last request, in nanoseconds.
    pub(super) fn idle_since(&self, from: i64) -> i64 {
        let first = self.idle.partition_point(|span| span.1 <= from);
        let (Some(first), Some(last)) = (self.idle.get(first), self.idle.back()) else { return 0 };
        let before = first.2.saturating_sub(first.1.saturating_sub(first.0));
        let skipped = from.saturating_sub(first.0).max(0);
        last.2.saturating_sub(before).saturating_sub(skipped).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_what_no_request_covers() {
        let mut flight = Flight::default();
        for (at, latency) in [(0, 10), (5, 20), (100, 10), (200, 50), (210, 5)] {
            flight.push(at, Some(latency));
        }
        // Idle from 25 to 100 and from 110 to 200.
        assert_eq!(flight.idle_since(0), 165);
        assert_eq!(flight.idle_since(50), 140);
        assert_eq!(flight.idle_since(105), 90);
        assert_eq!(flight.idle_since(150), 50);
        assert_eq!(flight.idle_since(205), 0);
        assert_eq!((flight.peak(), flight.last_end()), (2, Some(250)));
    }

    #[test]
    fn instants_at_the_ends_of_time_do_no_harm() {
        let mut flight = Flight::default();
        flight.push(i64::MIN, Some(i64::MAX));
        flight.push(i64::MAX, Some(i64::MAX));
        flight.push(i64::MAX, None);
        assert!(flight.idle_since(i64::MIN) >= 0);
    }
}
