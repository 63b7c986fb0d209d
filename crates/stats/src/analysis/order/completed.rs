//! Turns in the order of completion, which the device chose.
//!
//! blkreplay's g43, which sorts the whole result by completion. Requests submitted later complete
//! later than now, so all completions before now can be counted in order, and only requests in
//! flight are held.
//!
//! A part does not know what was in flight when it began. So it holds back its first [`HEAD`]
//! completions, and when parts are merged, requests in flight at the cut are sorted in among them.
//! A request that outlasts as many others of its volume is put behind them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::tally::{Neighbours, Tallies};

/// How many first completions of a volume are held back.
pub(super) const HEAD: usize = 1024;

/// How many requests of a volume may be in flight; beyond, the earliest is taken to be back.
const FLYING_MAX: usize = 1 << 17;

/// A completion. The order is that of completion and then that of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Completion {
    at: i64,
    number: u64,
    begin: u64,
    end: u64,
    is_write: bool,
}

/// The completions of a volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Completions {
    /// Requests with a completion so far.
    requests: u64,
    flying: BinaryHeap<Reverse<Completion>>,
    head: Vec<Completion>,
    /// The neighbours among what was counted behind the head.
    neighbours: Neighbours,
}

/// When a request completed, of those of which that is known; not before it was issued.
fn completed(now: i64, request: &Request) -> Option<i64> {
    let completed = match &request.measured {
        Some(measured) => measured.completed?.0,
        None => now.saturating_add(request.latency?.0),
    };
    Some(completed.max(now))
}

impl Completions {
    #[inline]
    pub(super) fn observe(
        &mut self,
        tallies: &mut Tallies,
        now: i64,
        kind: usize,
        request: &Request,
    ) {
        let Some(at) = completed(now, request) else { return };
        while self.flying.peek().is_some_and(|Reverse(first)| first.at < now)
            || self.flying.len() >= FLYING_MAX
        {
            let Some(Reverse(first)) = self.flying.pop() else { break };
            self.pass(tallies, first);
        }
        let (begin, end) = (request.offset.0, request.end().0);
        let number = self.requests;
        self.flying.push(Reverse(Completion { at, number, begin, end, is_write: kind == 1 }));
        self.requests += 1;
    }

    fn pass(&mut self, tallies: &mut Tallies, next: Completion) {
        if self.head.len() < HEAD {
            self.head.push(next);
        } else {
            count(&mut self.neighbours, tallies, &next);
        }
    }

    /// Adds the completions of a later part.
    pub(super) fn join(&mut self, tallies: &mut Tallies, later: &Self) {
        if later.requests == 0 {
            return;
        }
        let renumbered = |of: &Completion| Completion { number: of.number + self.requests, ..*of };
        let mut first: Vec<_> = later.head.iter().map(renumbered).collect();
        let flying: Vec<_> = later.flying.iter().map(|Reverse(of)| renumbered(of)).collect();
        self.requests = self.requests.saturating_add(later.requests);
        // Before the first that is still in flight nothing else can come.
        let last = first.last().copied();
        for Reverse(before) in std::mem::take(&mut self.flying) {
            let is_back = last.is_some_and(|last| before <= last) || later.head.len() >= HEAD;
            if is_back {
                first.push(before);
            } else {
                self.flying.push(Reverse(before));
            }
        }
        first.sort_unstable();
        for next in first {
            self.pass(tallies, next);
        }
        if later.head.len() >= HEAD {
            self.neighbours.join(tallies, &later.neighbours);
        }
        self.flying.extend(flying.into_iter().map(Reverse));
    }

    /// Counts what was held back and what is still in flight.
    pub(super) fn finish(&self, tallies: &mut Tallies) {
        let mut neighbours = Neighbours::default();
        for next in &self.head {
            count(&mut neighbours, tallies, next);
        }
        neighbours.join(tallies, &self.neighbours);
        let mut flying: Vec<_> = self.flying.iter().map(|Reverse(of)| *of).collect();
        flying.sort_unstable();
        for next in &flying {
            count(&mut neighbours, tallies, next);
        }
    }
}

fn count(neighbours: &mut Neighbours, tallies: &mut Tallies, next: &Completion) {
    neighbours.observe(tallies, next.at, usize::from(next.is_write), (next.begin, next.end));
}
