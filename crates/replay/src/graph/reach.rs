//! What lies behind a request.
//!
//! Whether a link is redundant is a question of reach: does another way lead there? The ancestors
//! of a request are too many to be kept. But those of one process that it reaches by the rule of
//! think times are all that had completed by some instant (the latest start, among the request and
//! its ancestors, of one that the process is linked to). So an instant for each process says all of
//! them, and what the other rules add beyond that instant is a short list.

use rustc_hash::FxHashMap;

/// A request that is reached though it completed after the instant of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Single {
    pub(super) row: u64,
    pub(super) process: u32,
    /// When it completed, and the threshold later: in nanoseconds.
    pub(super) ready: i64,
}

/// What is reached by way of a request beyond what its start and its process say.
#[derive(Debug, Default)]
pub(super) struct Beyond {
    /// For a process the instant by which what was ready is reached.
    pub(super) instants: Vec<(u32, i64)>,
    pub(super) singles: Vec<Single>,
}

/// What several requests reach together.
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

    /// All of `process` that was ready at `instant` is reached.
    #[inline]
    pub(super) fn raise(&mut self, process: u32, instant: i64) {
        let known = self.instants.entry(process).or_insert(i64::MIN);
        *known = (*known).max(instant);
    }

    /// What lies beyond one of the requests is reached.
    pub(super) fn join(&mut self, beyond: &Beyond) {
        for (process, instant) in &beyond.instants {
            self.raise(*process, *instant);
        }
        self.singles.extend_from_slice(&beyond.singles);
    }

    /// Makes the list of single requests fit to be searched.
    pub(super) fn settle(&mut self) {
        self.singles.sort_unstable();
        self.singles.dedup();
    }

    /// Whether `single` is reached by the instant of its process.
    #[inline]
    pub(super) fn covers(&self, single: &Single) -> bool {
        self.instants.get(&single.process).is_some_and(|instant| single.ready <= *instant)
    }

    /// Whether `single` is reached at all.
    #[inline]
    pub(super) fn has(&self, single: &Single) -> bool {
        self.covers(single) || self.singles.binary_search(single).is_ok()
    }

    /// What is to be kept of it for a request: of the instants what `is_own` does not say of their
    /// process and what is later than `oldest`, and of these single requests and those of before
    /// what is not covered and not before row `base`.
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
