//! The fullest of any number of windows.
//!
//! If there are too many windows, they are summed in pairs, and the largest sum does not show the
//! largest window: a burst of a second disappears in the mean of a minute. So the fullest window is
//! remembered separately. The first and last windows of a part may continue in another part, so
//! [`ENDS`] of them stay open at either end; of the others only the fullest of each kind is kept.
//!
//! That is exact for parts cut in time, and for instants that go back by less than [`ENDS`]
//! windows. If two parts by volume have both closed the same windows, their sum is unknown: then
//! the largest known value is a lower bound, and marked so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many windows stay open at either end.
const ENDS: usize = 1 << 12;

/// A window with many pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Full {
    pub(super) pages: u64,
    /// Its number, from instant zero.
    pub(super) window: u64,
}

impl Full {
    /// The fuller, and of those alike the earlier.
    pub(super) fn or(self, other: Self) -> Self {
        if (other.pages, self.window) > (self.pages, other.window) { other } else { self }
    }
}

/// The fullest windows: by pages that are read, written, and either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fullest {
    /// Pages of each open window.
    open: BTreeMap<u64, [u64; 3]>,
    /// From and to which window others are closed; several of parts just put together.
    closed: Vec<(u64, u64)>,
    /// The fullest of the closed ones.
    full: [Full; 3],
    /// Whether something came to windows that are closed.
    is_torn: bool,
}

impl Fullest {
    /// Adds the pages that are new in a window.
    pub(super) fn add(&mut self, window: u64, pages: [u64; 3]) {
        if self.is_closed(window) {
            self.is_torn = true;
            return;
        }
        let counts = self.open.entry(window).or_default();
        for (count, pages) in counts.iter_mut().zip(pages) {
            *count = count.saturating_add(pages);
        }
        if self.open.len() > 4 * ENDS {
            self.settle();
        }
    }

    /// Takes pages of one kind back.
    pub(super) fn take(&mut self, window: u64, kind: usize, pages: u64) {
        match self.open.get_mut(&window) {
            Some(counts) => counts[kind] = counts[kind].saturating_sub(pages),
            None => self.is_torn = true,
        }
    }

    /// Adds a later part, or one of other volumes. Closes nothing: pages may have to be taken back.
    pub(super) fn merge(&mut self, later: &Self) {
        let overlap = |a: &(u64, u64), b: &(u64, u64)| a.0 <= b.1 && b.0 <= a.1;
        self.is_torn |= later.is_torn
            || self.closed.iter().any(|mine| later.closed.iter().any(|other| overlap(mine, other)));
        self.closed.extend(&later.closed);
        let lost = self.open.keys().any(|window| self.is_closed(*window));
        self.is_torn |= lost;
        for (full, theirs) in self.full.iter_mut().zip(later.full) {
            *full = full.or(theirs);
        }
        for (window, pages) in &later.open {
            let counts = self.open.entry(*window).or_default();
            for (count, more) in counts.iter_mut().zip(pages) {
                *count = count.saturating_add(*more);
            }
        }
        self.is_torn |= later.open.keys().any(|window| self.is_closed(*window));
    }

    fn is_closed(&self, window: u64) -> bool {
        self.closed.iter().any(|(from, to)| (*from..=*to).contains(&window))
    }

    /// Closes all windows but those at the ends.
    pub(super) fn settle(&mut self) {
        if self.open.len() <= 2 * ENDS && self.closed.len() < 2 {
            return;
        }
        let keep = ENDS.min(self.open.len());
        let mut from = self.closed.iter().map(|range| range.0).min();
        let mut to = self.closed.iter().map(|range| range.1).max();
        if self.open.len() > 2 * ENDS {
            let first = self.open.keys().nth(keep).copied();
            let last = self.open.keys().rev().nth(keep).copied();
            from = from.into_iter().chain(first).min();
            to = to.into_iter().chain(last).max();
        }
        let (Some(from), Some(to)) = (from, to) else { return };
        let mut between = self.open.split_off(&from);
        let mut behind = match to.checked_add(1) {
            Some(next) => between.split_off(&next),
            None => BTreeMap::new(),
        };
        self.open.append(&mut behind);
        for (window, pages) in between {
            for (full, pages) in self.full.iter_mut().zip(pages) {
                *full = full.or(Full { pages, window });
            }
        }
        self.closed = vec![(from, to)];
    }

    /// The fullest window of a kind, and whether it is known to be.
    pub(super) fn of(&self, kind: usize) -> (Full, bool) {
        let open =
            self.open.iter().map(|(window, pages)| Full { pages: pages[kind], window: *window });
        (open.fold(self.full[kind], Full::or), !self.is_torn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(counts: &[u64], from: u64) -> Fullest {
        let mut fullest = Fullest::default();
        for (window, count) in (from..).zip(counts) {
            fullest.add(window, [*count, 0, *count]);
        }
        fullest
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn the_fullest_window_is_found_however_the_trace_is_cut(
            peak in 0_u64..60_000,
            cuts in proptest::collection::vec(0_usize..60_000, 0..4),
        ) {
            let mut counts = vec![7; 60_000];
            counts[peak as usize] = 9;
            let mut cuts = [vec![0, 60_000], cuts].concat();
            cuts.sort_unstable();
            let mut whole = Fullest::default();
            for part in cuts.windows(2) {
                whole.merge(&of(&counts[part[0]..part[1]], part[0] as u64));
                whole.settle();
            }
            prop_assert_eq!(whole.of(0), (Full { pages: 9, window: peak }, true));
            prop_assert!(whole.open.len() <= 4 * ENDS);
        }
    }

    #[test]
    fn a_window_in_two_parts_is_the_sum_of_both_less_what_is_taken_back() {
        let mut one = of(&[1, 2, 6], 10);
        one.merge(&of(&[5, 3], 12));
        one.take(12, 0, 2);
        one.settle();
        assert_eq!(one.of(0), (Full { pages: 9, window: 12 }, true));
    }

    #[test]
    fn windows_that_two_parts_have_closed_are_not_known_together() {
        let mut one = of(&vec![3; 60_000], 0);
        one.merge(&of(&vec![4; 60_000], 0));
        one.settle();
        assert!(!one.of(0).1);
        assert!(one.of(0).0.pages >= 4);
    }
}
