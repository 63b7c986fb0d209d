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
    met: Met,
}

/// The rows that are in the list of single requests. The ancestors of the candidates are mostly the
/// same, so they are sorted out before anything else is done with them.
#[derive(Debug, Default)]
struct Met {
    /// By the lowest bits of the row, the round in which it was met last. No two rows of a window
    /// share a place.
    rounds: Vec<u32>,
    round: u32,
}

impl Met {
    /// Forgets all; from now on rows lie within a span of so many.
    fn clear(&mut self, span: usize) {
        if self.rounds.len() < span || self.round == u32::MAX {
            self.rounds.clear();
            self.rounds.resize(span.next_power_of_two(), 0);
            self.round = 0;
        }
        self.round += 1;
    }

    #[inline]
    fn place(&self, row: u64) -> usize {
        row as usize & (self.rounds.len() - 1)
    }

    /// Whether the row is met for the first time.
    #[inline]
    fn is_new(&mut self, row: u64) -> bool {
        let place = self.place(row);
        let before = std::mem::replace(&mut self.rounds[place], self.round);
        before != self.round
    }

    #[inline]
    fn has(&self, row: u64) -> bool {
        self.rounds[self.place(row)] == self.round
    }
}

impl Reach {
    /// Forgets all ancestors; the next ones lie within a window of so many rows.
    pub(super) fn clear(&mut self, window: usize) {
        self.instants.clear();
        self.singles.clear();
        self.met.clear(window);
    }

    /// Adds all requests of `process` that were ready at `instant`.
    #[inline]
    pub(super) fn raise(&mut self, process: u32, instant: i64) {
        let known = self.instants.entry(process).or_insert(i64::MIN);
        *known = (*known).max(instant);
    }

    /// Adds the ancestors of one of the requests, but those before row `base`.
    pub(super) fn join(&mut self, beyond: &Beyond, base: u64) {
        for (process, instant) in &beyond.instants {
            self.raise(*process, *instant);
        }
        for single in &beyond.singles {
            if single.row >= base && self.met.is_new(single.row) {
                self.singles.push(*single);
            }
        }
    }

    /// Whether the instant of its process includes `single`.
    #[inline]
    fn covers(&self, single: &Single) -> bool {
        self.instants.get(&single.process).is_some_and(|instant| single.ready <= *instant)
    }

    /// Whether `single` of the window is an ancestor.
    #[inline]
    pub(super) fn has(&self, single: &Single) -> bool {
        self.met.has(single.row) || self.covers(single)
    }

    /// The ancestors to store for a request. Instants are stored if they are later than `oldest`
    /// and `is_own` does not include their process. Single requests are stored, from before and
    /// from `singles`, which are no ancestors so far, if no instant includes them.
    pub(super) fn beyond(
        &self,
        singles: impl Iterator<Item = Single>,
        is_own: impl Fn(u32) -> bool,
        oldest: i64,
    ) -> Option<Box<Beyond>> {
        let instants: Vec<_> = self
            .instants
            .iter()
            .filter(|(process, instant)| **instant > oldest && !is_own(**process))
            .map(|(process, instant)| (*process, *instant))
            .collect();
        let singles: Vec<_> = singles
            .chain(self.singles.iter().copied())
            .filter(|single| !self.covers(single))
            .collect();
        let has_any = !instants.is_empty() || !singles.is_empty();
        has_any.then(|| Box::new(Beyond { instants, singles }))
    }
}
