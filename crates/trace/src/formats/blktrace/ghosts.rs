//! Requests that were given up and may still be in flight.
//!
//! Nobody waits for their completions. One that comes nevertheless ends another request at the same
//! place, if there is one. So whatever is matched at such a place is in doubt, until a completion
//! comes for which there is no request, or until the given-up request is too old to be in flight.

use std::collections::BTreeMap;

/// The largest number of ranges that are remembered. Beyond it, all places are in doubt.
const RANGES_MAX: usize = 1 << 12;

/// The number of ranges around a place that are looked at; beyond it, the place is in doubt.
const SEARCH_MAX: usize = 64;

/// The given-up requests of one class on one device.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    /// Maps the first byte and a number to the first byte behind the range, and the instant until
    /// which the request may be in flight, in nanoseconds of the recording's clock.
    ranges: BTreeMap<(u64, u64), (u64, u64)>,
    numbers: u64,
    /// The length of the longest range so far, in bytes; bounds the search.
    longest: u64,
    /// The latest instant of all ranges, and the one until which all places are in doubt.
    until: u64,
    everywhere_until: u64,
}

impl Ghosts {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.everywhere_until == 0
    }

    /// Remembers a range until an instant.
    pub(super) fn add(&mut self, begin: u64, end: u64, now: u64, until: u64) {
        if now > until {
            return;
        }
        self.expire(now);
        if self.ranges.len() == RANGES_MAX {
            self.ranges.retain(|_, (_, until)| *until >= now);
        }
        self.until = self.until.max(until);
        // So few were too old that it would not be worth while to look again soon.
        if self.ranges.len() > RANGES_MAX - RANGES_MAX / 8 {
            self.ranges.clear();
            self.everywhere_until = self.until;
        }
        if self.everywhere_until >= until {
            return;
        }
        self.numbers += 1;
        self.longest = self.longest.max(end - begin);
        self.ranges.insert((begin, self.numbers), (end, until));
    }

    /// Whether a range overlaps a request that may be in flight at the instant `now`.
    pub(super) fn meet(&mut self, begin: u64, end: u64, now: u64) -> bool {
        self.expire(now);
        if self.everywhere_until >= now && self.everywhere_until > 0 {
            return true;
        }
        let from = begin.saturating_sub(self.longest);
        let mut near = self.ranges.range((from, 0)..=(end, u64::MAX));
        let meets = |(&(its_begin, _), &(its_end, until)): (&(u64, u64), &(u64, u64))| {
            let overlaps =
                its_begin < end && its_end > begin || (its_begin, its_end) == (begin, end);
            overlaps && until >= now
        };
        near.by_ref().take(SEARCH_MAX).any(meets) || near.next().is_some()
    }

    /// Forgets a request of exactly this range, because its completion was seen.
    pub(super) fn forget(&mut self, begin: u64, end: u64) {
        let mut here = self.ranges.range((begin, 0)..=(begin, u64::MAX));
        if let Some((&key, _)) = here.find(|(_, (its_end, _))| *its_end == end) {
            self.ranges.remove(&key);
        }
    }

    /// Forgets everything if all of it is too old.
    fn expire(&mut self, now: u64) {
        if now > self.until {
            self.ranges.clear();
            (self.longest, self.everywhere_until) = (0, 0);
        }
    }
}
