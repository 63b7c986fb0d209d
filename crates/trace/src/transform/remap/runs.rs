//! The touched regions of a volume, as runs of neighbours.
//!
//! A trace may touch any part of a large device in any order, and a single discard may claim all of
//! it. So the runs are held, never a bit for each region, and a run costs sixteen bytes however
//! long it is. There are at most as many runs as requests.

/// The number of runs that are gathered before they are put in order.
const PENDING_MAX: usize = 1 << 16;

/// Regions that are touched.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// First and last region of each run, in order, with at least one region between two.
    ordered: Vec<(u64, u64)>,
    /// Runs that are not in order yet.
    pending: Vec<(u64, u64)>,
    /// For each run, the number of touched regions before it.
    before: Vec<u64>,
    /// The run that was asked for last.
    recent: usize,
}

impl Runs {
    /// Adds the regions from `first` to `last`.
    #[inline]
    pub(super) fn add(&mut self, first: u64, last: u64) {
        match self.pending.last_mut() {
            // Most requests lie where the one before lay, or behind it.
            Some(recent) if first >= recent.0 && first <= recent.1.saturating_add(1) => {
                recent.1 = recent.1.max(last);
            }
            _ => {
                self.pending.push((first, last));
                if self.pending.len() >= PENDING_MAX.max(self.ordered.len()) {
                    self.put_in_order();
                }
            }
        }
    }

    fn put_in_order(&mut self) {
        self.ordered.append(&mut self.pending);
        self.ordered.sort_unstable();
        self.ordered.dedup_by(|next, run| {
            let joins = next.0 <= run.1.saturating_add(1);
            if joins {
                run.1 = run.1.max(next.1);
            }
            joins
        });
    }

    /// Ends the adding of regions.
    pub(super) fn finish(&mut self) {
        self.put_in_order();
        let mut sum = 0_u64;
        for (first, last) in &self.ordered {
            self.before.push(sum);
            // The regions are of at least a byte, so their number is at most 2⁶⁴ − 1 here: the last
            // byte that 64 bits address is never part of a range.
            sum = sum.saturating_add((last - first).saturating_add(1));
        }
        self.pending = Vec::new();
        self.ordered.shrink_to_fit();
    }

    /// The number of touched regions.
    pub(super) fn regions(&self) -> u64 {
        let last = self.ordered.last().zip(self.before.last());
        last.map_or(0, |((first, last), before)| before.saturating_add(last - first + 1))
    }

    /// The number of `region` among the touched regions; `None` if it is not touched.
    #[inline]
    pub(super) fn packed(&mut self, region: u64) -> Option<u64> {
        let inside = |(first, last): (u64, u64)| first <= region && region <= last;
        if !self.ordered.get(self.recent).is_some_and(|run| inside(*run)) {
            self.recent = self.ordered.partition_point(|run| run.1 < region);
        }
        let run = *self.ordered.get(self.recent)?;
        inside(run).then(|| self.before[self.recent] + (region - run.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_region_has_the_number_that_it_has_among_those_touched(
            ranges in proptest::collection::vec((0_u64..2000, 0_u64..20), 0..200),
        ) {
            let (mut runs, mut touched) = (Runs::default(), BTreeSet::new());
            for (first, more) in ranges {
                runs.add(first, first + more);
                touched.extend(first..=first + more);
            }
            runs.finish();
            prop_assert_eq!(runs.regions(), touched.len() as u64);
            for region in 0..2100 {
                let expected = touched.contains(&region)
                    .then(|| touched.range(..region).count() as u64);
                prop_assert_eq!(runs.packed(region), expected);
            }
        }
    }

    #[test]
    fn more_runs_than_are_gathered_are_put_in_order_and_huge_ones_cost_nothing() {
        let mut runs = Runs::default();
        for region in (0..300_000_u64).rev() {
            runs.add(2 * region, 2 * region);
        }
        runs.add(1 << 40, u64::MAX - 1);
        runs.finish();
        assert_eq!(runs.packed(599_998), Some(299_999));
        assert_eq!(runs.packed((1 << 40) + 5), Some(300_005));
        assert_eq!(runs.packed(1), None);
    }
}
