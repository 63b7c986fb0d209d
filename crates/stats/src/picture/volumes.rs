//! The sonar diagram of each volume.
//!
//! A host writes to a log, a table and a swap device at once, and one diagram of all of them does
//! not show which is slow. So the diagram is also kept by volume. Most recordings have one volume,
//! which costs nothing: its diagram is that of the whole until a second one turns up.
//!
//! The [`VOLUMES_MAX`] volumes with the lowest numbers are kept apart, the rest is one more.
//! Numbers are given in the order in which volumes turn up in a recording. The lowest, not the
//! busiest, because the lowest of the whole are also among the lowest of every part, so that parts
//! merge exactly.

use std::collections::BTreeMap;

use super::Class;
use crate::raster::Raster;

/// How many volumes have a diagram of their own.
pub const VOLUMES_MAX: usize = 16;

/// A raster for each [`Class`].
pub type Sonar = [Raster; Class::COUNT];

/// The diagrams of several volumes; of one volume, its number alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Volumes {
    /// The only volume so far.
    only: Option<u32>,
    /// Empty as long as there is one volume.
    apart: BTreeMap<u32, Sonar>,
    others: Option<Box<Sonar>>,
}

impl Volumes {
    /// The diagram that a request of this volume goes into; `None` where that of the whole will do.
    /// `whole` is that diagram, without this request.
    #[inline]
    pub(super) fn of(&mut self, volume: u32, whole: &Sonar) -> Option<&mut Sonar> {
        if self.apart.is_empty() && *self.only.get_or_insert(volume) == volume {
            return None;
        }
        Some(self.of_several(volume, whole))
    }

    fn of_several(&mut self, volume: u32, whole: &Sonar) -> &mut Sonar {
        self.divide(whole);
        if self.apart.len() >= VOLUMES_MAX && !self.apart.contains_key(&volume) {
            if self.apart.last_key_value().is_some_and(|(last, _)| *last < volume) {
                return self.others.get_or_insert_default();
            }
            if let Some((_, last)) = self.apart.pop_last() {
                merge(self.others.get_or_insert_default(), &last);
            }
        }
        self.apart.entry(volume).or_default()
    }

    /// Gives the only volume so far a diagram of its own.
    fn divide(&mut self, whole: &Sonar) {
        if self.apart.is_empty()
            && let Some(only) = self.only
        {
            self.apart.insert(only, whole.clone());
        }
    }

    /// Adds those of another part. `mine` and `theirs` are the diagrams of both wholes.
    pub(super) fn merge(&mut self, mine: &Sonar, other: &Self, theirs: &Sonar) {
        let Some(only) = other.only else { return };
        if self.only.is_none() {
            self.clone_from(other);
            return;
        }
        if self.apart.is_empty() && other.apart.is_empty() && self.only == other.only {
            return;
        }
        if other.apart.is_empty() {
            merge(self.of_several(only, mine), theirs);
        }
        for (volume, theirs) in &other.apart {
            merge(self.of_several(*volume, mine), theirs);
        }
        if let Some(theirs) = &other.others {
            merge(self.others.get_or_insert_default(), theirs);
        }
    }

    /// Volumes with their diagrams, none where there is one volume; without a number, the others.
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<u32>, &Sonar)> {
        let several = self.apart.len() > 1 || self.others.is_some();
        let apart = self.apart.iter().map(|(volume, sonar)| (Some(*volume), sonar));
        let others = self.others.as_deref().map(|sonar| (None, sonar));
        apart.chain(others).filter(move |_| several)
    }
}

fn merge(mine: &mut Sonar, theirs: &Sonar) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.merge(theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::Nanos;
    use proptest::prelude::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Counted {
        whole: Sonar,
        volumes: Volumes,
    }

    impl Counted {
        fn of(requests: &[(u32, i64)]) -> Self {
            let mut counted = Self::default();
            for (volume, at) in requests {
                let at = Nanos(*at);
                if let Some(sonar) = counted.volumes.of(*volume, &counted.whole) {
                    sonar[0].at(at).record(Nanos(500));
                }
                counted.whole[0].at(at).record(Nanos(500));
            }
            counted
        }

        fn totals(&self) -> Vec<(Option<u32>, u64)> {
            self.volumes.all().map(|(volume, sonar)| (volume, sonar[0].total())).collect()
        }
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole_and_nothing_is_lost(
            requests in proptest::collection::vec((0_u32..40, 0_i64..5_000_000_000), 0..120),
            cut in 0_usize..120,
        ) {
            let whole = Counted::of(&requests);
            let (first, second) = requests.split_at(cut.min(requests.len()));
            let (mut first, second) = (Counted::of(first), Counted::of(second));
            first.volumes.merge(&first.whole, &second.volumes, &second.whole);
            prop_assert_eq!(first.totals(), whole.totals());
            let sum: u64 = whole.totals().iter().map(|(_, total)| total).sum();
            prop_assert!(whole.totals().is_empty() || sum == requests.len() as u64);
            prop_assert!(whole.totals().len() <= VOLUMES_MAX + 1);
        }
    }

    #[test]
    fn one_volume_has_no_diagram_of_its_own() {
        assert_eq!(Counted::of(&[(7, 0), (7, 1), (7, 2)]).totals(), []);
    }

    #[test]
    fn what_the_first_volume_did_before_the_second_came_is_its_own() {
        let counted = Counted::of(&[(7, 0), (7, 1), (3, 2)]);
        assert_eq!(counted.totals(), [(Some(3), 1), (Some(7), 2)]);
    }
}
