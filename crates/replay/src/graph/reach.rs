//! The ancestors of a request, in a compact form.
//!
//! A link from a request is redundant if a longer path leads from it to the same descendant. A
//! request has too many ancestors to store. But its ancestors within one process, by the rule of
//! think times, are all requests that had completed by some instant: the latest start of the
//! request or of an ancestor that is linked to that process. So one instant per process describes
//! all of them, and the ancestors by other rules beyond that instant are a short list.

use rustc_hash::FxHashMap;

/// An ancestor that completed after the instant of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Single {
    pub(super) row: u64,
    pub(super) process: u32,
    /// The instant of its completion plus the threshold, in nanoseconds.
    pub(super) ready: i64,
}

/// The ancestors of a request that do not follow from its start and its process.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// For each process, the instant up to which all ready requests are ancestors.
    pub(super) instants: Vec<(u32, i64)>,
    pub(super) singles: Vec<Single>,
}

/// The joint ancestors of several requests.
#[derive(Debug, Default)]
pub(super) struct Reach {
    instants: FxHashMap<u32, i64>,
    singles: Vec<Single>,
}

impl Reach {
    pub(super) fn clear(&mut self) {
        self.instants.clear();
        self.singles.clear();
    }

    /// Adds all requests of `process` that were ready at `instant`.
    #[inline]
    pub(super) fn raise(&mut self, process: u32, instant: i64) {
        let known = self.instants.entry(process).or_insert(i64::MIN);
        *known = (*known).max(instant);
    }

    /// Adds the ancestors of one of the requests.
    pub(super) fn join(&mut self, beyond: &Beyond) {
        for (process, instant) in &beyond.instants {
            self.raise(*process, *instant);
        }
        self.singles.extend_from_slice(&beyond.singles);
    }

    /// Sorts the list of single requests for searching.
    pub(super) fn settle(&mut self) {
        self.singles.sort_unstable();
        self.singles.dedup();
    }

    /// Whether the instant of its process includes `single`.
    #[inline]
    pub(super) fn covers(&self, single: &Single) -> bool {
        self.instants.get(&single.process).is_some_and(|instant| single.ready <= *instant)
    }

    /// Whether `single` is an ancestor.
    #[inline]
    pub(super) fn has(&self, single: &Single) -> bool {
        self.covers(single) || self.singles.binary_search(single).is_ok()
    }

    /// The ancestors to store for a request. Instants are stored if they are later than `oldest`
    /// and `is_own` does not include their process. Single requests are stored, from `singles` and
    /// from before, if no instant includes them and they are not before row `base`.
    pub(super) fn beyond(
        &self,
        singles: impl Iterator<Item = Single>,
        is_own: impl Fn(u32) -> bool,
        oldest: i64,
        base: u64,
    ) -> Option<Box<Beyond>> {
        let instants: Vec<_> = self
            .instants
            .iter()
            .filter(|(process, instant)| **instant > oldest && !is_own(**process))
            .map(|(process, instant)| (*process, *instant))
            .collect();
        let mut singles: Vec<_> = singles
            .chain(self.singles.iter().copied())
            .filter(|single| single.row >= base && !self.covers(single))
            .collect();
        singles.sort_unstable();
        singles.dedup();
        let has_any = !instants.is_empty() || !singles.is_empty();
        has_any.then(|| Box::new(Beyond { instants, singles }))
    }
}
