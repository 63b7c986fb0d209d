//! Turns and seek distances: the relation of a request to its predecessor.

use serde::{Deserialize, Serialize};

use super::figures::{Seeks, Turns};
use crate::analysis::kind::Kind;
use crate::analysis::shape::{Bins, Quantity};
use crate::analysis::steps::Steps;

/// How far from the end of its predecessor a request may begin to be near: what readahead of 128
/// KiB, the kernel's default, would cover.
pub const NEAR_BYTES: u64 = 128 << 10;

/// Where reads and writes together stand, behind reads and writes.
const ALL: usize = 2;

/// The first and the last request of a volume and kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Ends {
    first_at: i64,
    first_begin: u64,
    last_begin: u64,
    last_end: u64,
}

/// The requests of a volume that others will be neighbours of: of reads, of writes, of both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Neighbours([Option<Ends>; 3]);

/// What is counted of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) turns: u64,
    pub(super) zero: u64,
    pub(super) near: u64,
    forward: Vec<u64>,
    backward: Vec<u64>,
    sum: u128,
}

/// What is counted of reads, of writes, and of both, and the turns in each second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tallies {
    tallies: [Tally; 3],
    /// Requests of the three and then turns of the three.
    steps: Steps<[u64; 6]>,
}

impl Default for Tallies {
    fn default() -> Self {
        Self { tallies: Default::default(), steps: Steps::new(1_000_000_000) }
    }
}

impl Neighbours {
    #[inline]
    pub(super) fn observe(
        &mut self,
        tallies: &mut Tallies,
        at: i64,
        kind: usize,
        (begin, end): (u64, u64),
    ) {
        let step = tallies.steps.at(at);
        for kind in [kind, ALL] {
            let tally = &mut tallies.tallies[kind];
            tally.requests += 1;
            step[kind] += 1;
            match &mut self.0[kind] {
                Some(ends) => {
                    step[3 + kind] += tally.follow(ends, begin);
                    (ends.last_begin, ends.last_end) = (begin, end);
                }
                none => {
                    let last_end = end;
                    *none = Some(Ends {
                        first_at: at,
                        first_begin: begin,
                        last_begin: begin,
                        last_end,
                    });
                }
            }
        }
    }

    /// Makes the first request of a later part a neighbour of the last of this one.
    pub(super) fn join(&mut self, tallies: &mut Tallies, later: &Self) {
        for (kind, (mine, theirs)) in self.0.iter_mut().zip(later.0).enumerate() {
            let Some(theirs) = theirs else { continue };
            let Some(mine) = mine else {
                *mine = Some(theirs);
                continue;
            };
            let turned = tallies.tallies[kind].follow(mine, theirs.first_begin);
            tallies.steps.at(theirs.first_at)[3 + kind] += turned;
            (mine.last_begin, mine.last_end) = (theirs.last_begin, theirs.last_end);
        }
    }
}

impl Tally {
    /// Counts the relation of a request that begins there to its predecessor; returns 1 for a turn.
    #[inline]
    fn follow(&mut self, before: &Ends, begin: u64) -> u64 {
        let distance = begin.abs_diff(before.last_end);
        self.near += u64::from(distance <= NEAR_BYTES);
        self.sum += u128::from(distance);
        if distance == 0 {
            self.zero += 1;
        } else {
            let bins = if begin > before.last_end { &mut self.forward } else { &mut self.backward };
            let bin = distance.ilog2() as usize;
            if bin >= bins.len() {
                bins.resize(bin + 1, 0);
            }
            bins[bin] += 1;
        }
        let turned = u64::from(begin < before.last_begin);
        self.turns += turned;
        turned
    }

    /// Seek distances: the least of each power of two, negative of those that go back, and how many
    /// there are.
    pub(super) fn distances(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let least = |power: usize| 1_i64.checked_shl(power as u32).filter(|least| *least > 0);
        let least = move |power| least(power).unwrap_or(i64::MAX);
        let forward = self.forward.iter().enumerate();
        let backward = self.backward.iter().enumerate();
        let forward = forward.map(move |(power, count)| (least(power), *count));
        let backward = backward.map(move |(power, count)| (-least(power), *count));
        [(0, self.zero)].into_iter().chain(forward).chain(backward)
    }

    fn merge(&mut self, later: &Self) {
        self.requests = self.requests.saturating_add(later.requests);
        self.turns = self.turns.saturating_add(later.turns);
        self.zero = self.zero.saturating_add(later.zero);
        self.near = self.near.saturating_add(later.near);
        self.sum = self.sum.saturating_add(later.sum);
        add(&mut self.forward, &later.forward);
        add(&mut self.backward, &later.backward);
    }
}

/// Adds counts to counts.
pub(super) fn add(mine: &mut Vec<u64>, theirs: &[u64]) {
    if mine.len() < theirs.len() {
        mine.resize(theirs.len(), 0);
    }
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = mine.saturating_add(*theirs);
    }
}

/// Counts by powers of two as bins.
pub(super) fn powers(name: &str, quantity: Quantity, counts: &[u64]) -> Bins {
    let edges = (0..=counts.len()).map(|power| 2_f64.powi(power as i32)).collect();
    Bins { name: name.to_owned(), quantity, edges, counts: counts.to_vec() }
}

const fn column(kind: Kind) -> usize {
    match kind {
        Kind::Reads => 0,
        Kind::Writes => 1,
        Kind::All => ALL,
    }
}

impl Tallies {
    pub(super) fn of(&self, kind: Kind) -> &Tally {
        &self.tallies[column(kind)]
    }

    /// The turns of reads, of writes and of both, each among its own, in equal steps: the beginning
    /// of the first step and the length of each.
    pub(super) fn turns_by_step(&self) -> (i64, i64, impl Iterator<Item = [u64; 3]> + '_) {
        let turns = self.steps.cells().iter().map(|[_, _, _, turns @ ..]| *turns);
        (self.steps.start_ns(), self.steps.step_ns(), turns)
    }

    pub(super) fn merge(&mut self, later: &Self) {
        for (mine, theirs) in self.tallies.iter_mut().zip(&later.tallies) {
            mine.merge(theirs);
        }
        self.steps.merge(&later.steps);
    }

    pub(super) fn turns(&self, kind: Kind, name: &str) -> Turns {
        let tally = self.of(kind);
        let column = column(kind);
        let share = |step: &[u64; 6]| {
            (step[column] > 0).then(|| step[3 + column] as f64 / step[column] as f64)
        };
        Turns {
            requests: tally.requests,
            turns: tally.turns,
            share: tally.turns as f64 / tally.requests.max(1) as f64,
            series: self.steps.series(name, Quantity::new("turns", "1"), share),
        }
    }

    pub(super) fn seeks(&self, kind: Kind, name: &str) -> Seeks {
        let tally = self.of(kind);
        let bins = |way: &str, counts: &[u64]| {
            powers(&format!("{name}, {way}"), Quantity::new("seek distance", "bytes"), counts)
        };
        let count: u64 =
            tally.zero + tally.forward.iter().sum::<u64>() + tally.backward.iter().sum::<u64>();
        Seeks {
            zero: tally.zero,
            forward: bins("forward", &tally.forward),
            backward: bins("backward", &tally.backward),
            mean_bytes: tally.sum as f64 / count.max(1) as f64,
        }
    }
}
