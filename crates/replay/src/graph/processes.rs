//! For whom the requests of a process wait.
//!
//! Threads of a benchmark do not wait for each other, a database waits for its log writer, and an
//! interrupt handler waits for nobody. A first pass over the trace tells them apart ([`survey`]),
//! and the inference asks here.
//!
//! [`survey`]: super::survey

use ioecho_trace::{Nanos, Request};
use rustc_hash::{FxHashMap, FxHashSet};

/// What the requests of a process wait for, besides what they read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// The processes that hand work to it, in ascending order.
    pub givers: Vec<u32>,
    /// Whether it issues requests without waiting for any.
    pub is_open: bool,
    /// Whether it keeps as many requests in flight all the time: each waits for one other.
    pub is_deep: bool,
    /// If it had nothing in flight for so long, any process may have woken it. `None`: none did.
    pub woken_after: Option<Nanos>,
}

/// The processes of a trace, and what they wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    are_known: bool,
    ties: FxHashMap<u32, Ties>,
}

impl Processes {
    /// Processes of a trace that records them, with their ties. A process without ties waits for
    /// its own requests. One that is open hands no work to another and gets none: who waits for
    /// nobody gives no answers. The same holds for one that keeps as many in flight all the time.
    pub fn known(ties: impl IntoIterator<Item = (u32, Ties)>) -> Self {
        let mut ties: FxHashMap<u32, Ties> = ties.into_iter().collect();
        let is_apart = |ties: &Ties| ties.is_open || ties.is_deep;
        let apart: FxHashSet<u32> =
            ties.iter().filter(|(_, ties)| is_apart(ties)).map(|(process, _)| *process).collect();
        for (process, of_one) in &mut ties {
            of_one.givers.retain(|giver| giver != process && !apart.contains(giver));
            if apart.contains(process) {
                of_one.givers.clear();
            }
        }
        Self { are_known: true, ties }
    }

    /// Those of a trace that does not record them: all requests count as those of process 0, which
    /// may keep as many in flight all the time. Whether it is open is not known: several processes
    /// that think for long look alike.
    pub fn unknown(is_deep: bool) -> Self {
        let ties = Ties { is_deep, ..Ties::default() };
        Self { are_known: false, ties: FxHashMap::from_iter([(0, ties)]) }
    }

    /// Processes of a trace that records them, with these pairs of giver and taker.
    pub fn with_pairs(pairs: &[(u32, u32)]) -> Self {
        let mut ties: FxHashMap<u32, Ties> = FxHashMap::default();
        for (giver, taker) in pairs.iter().filter(|(giver, taker)| giver != taker) {
            ties.entry(*taker).or_default().givers.push(*giver);
        }
        for of_one in ties.values_mut() {
            of_one.givers.sort_unstable();
            of_one.givers.dedup();
        }
        Self { are_known: true, ties }
    }

    /// Whether the trace has the process of each request.
    pub fn are_known(&self) -> bool {
        self.are_known
    }

    /// The pairs of giver and taker.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let pair = |(taker, ties): (&u32, &Ties)| -> Vec<_> {
            ties.givers.iter().map(|giver| (*giver, *taker)).collect()
        };
        let mut pairs: Vec<_> = self.ties.iter().flat_map(pair).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The processes that issue requests without waiting for any.
    pub fn open(&self) -> Vec<u32> {
        self.those(|ties| ties.is_open)
    }

    /// The processes that keep as many requests in flight all the time.
    pub fn deep(&self) -> Vec<u32> {
        self.those(|ties| ties.is_deep)
    }

    fn those(&self, are: impl Fn(&Ties) -> bool) -> Vec<u32> {
        let those = self.ties.iter().filter(|(_, ties)| are(ties));
        let mut those: Vec<_> = those.map(|(process, _)| *process).collect();
        those.sort_unstable();
        those
    }

    /// The process of a request; the same for all requests if the trace has no processes.
    pub(super) fn of(&self, request: &Request) -> u32 {
        request.origin.filter(|_| self.are_known).map_or(0, |origin| origin.pid)
    }

    /// The processes that hand work to `taker`.
    pub(super) fn givers(&self, taker: u32) -> &[u32] {
        self.ties.get(&taker).map_or(&[], |ties| &ties.givers)
    }

    /// Whether requests of `process` do not wait for each other.
    pub(super) fn is_open(&self, process: u32) -> bool {
        self.ties.get(&process).is_some_and(|ties| ties.is_open)
    }

    /// Whether `process` keeps as many requests in flight all the time.
    pub(super) fn is_deep(&self, process: u32) -> bool {
        self.ties.get(&process).is_some_and(|ties| ties.is_deep)
    }

    /// Whether any process may have woken `process` after `wait` without requests in flight.
    pub(super) fn is_woken_after(&self, process: u32, wait: i64) -> bool {
        let ties = self.ties.get(&process);
        ties.and_then(|ties| ties.woken_after).is_some_and(|least| wait >= least.0)
    }

    /// Whether requests of `taker` may wait for requests of `giver`.
    pub(super) fn is_linked(&self, giver: u32, taker: u32) -> bool {
        if giver == taker { !self.is_open(taker) } else { self.givers(taker).contains(&giver) }
    }

    /// Whether both are the same known process, which waits for its own requests.
    pub(super) fn is_itself(&self, giver: u32, taker: u32) -> bool {
        self.are_known && giver == taker && !self.is_open(taker)
    }
}
