//! Which requests must not be in flight together, and which have to wait for which.
//!
//! If two requests to the same place are in flight together, storage may execute either first. In
//! the recording one of them came first, and the file system that issued them had made sure of it.
//! A replay that lets them race ("damaged I/O" in blkreplay's manual) measures something that never
//! happens and cannot verify what it wrote.
//!
//! blkreplay checks a request against everything that it has already queued for the future, so on a
//! fast and idle device it pushes back thousands of requests that never overlap anything in time,
//! and inverts writes. Here a request is checked when it falls due, against the requests in flight
//! then and those that already wait, so none is pushed back needlessly, and overlapping requests
//! never change their order.

use serde::{Deserialize, Serialize};

use ioecho_trace::Op;

use crate::interval::IntervalSet;
use crate::plan::Planned;

/// What to do with a request that conflicts with one in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictMode {
    /// Issue it all the same.
    Allow,
    /// Leave it out.
    Drop,
    /// Push it back until those that it conflicts with have completed; others overtake it.
    #[default]
    Partial,
    /// Issue nothing more until those that it conflicts with have completed: order is kept.
    Ordering,
}

impl ConflictMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Drop, Self::Partial, Self::Ordering];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Drop => "drop",
            Self::Partial => "partial",
            Self::Ordering => "ordering",
        }
    }
}

/// Which pairs of overlapping requests conflict: blkreplay's `--strong`. It is stored as its level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum Strong {
    /// 0: only two writes.
    WriteWrite,
    /// 1: all but two reads.
    #[default]
    AllButReads,
    /// 2: all.
    All,
}

/// A number that is no level of [`Strong`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no level of conflicts; known are 0, 1 and 2")]
pub struct UnknownLevel(u8);

impl TryFrom<u8> for Strong {
    type Error = UnknownLevel;

    fn try_from(level: u8) -> Result<Self, UnknownLevel> {
        match level {
            0 => Ok(Self::WriteWrite),
            1 => Ok(Self::AllButReads),
            2 => Ok(Self::All),
            other => Err(UnknownLevel(other)),
        }
    }
}

impl From<Strong> for u8 {
    fn from(strong: Strong) -> Self {
        strong.level()
    }
}

impl Strong {
    /// The number on the command line and in results.
    pub const fn level(self) -> u8 {
        match self {
            Self::WriteWrite => 0,
            Self::AllButReads => 1,
            Self::All => 2,
        }
    }

    /// Whether requests of these operations conflict where they overlap. Discards and write-zeroes
    /// count as writes; a flush has no range and conflicts with nothing.
    pub fn conflict(self, a: Op, b: Op) -> bool {
        if a == Op::Flush || b == Op::Flush {
            return false;
        }
        match self {
            Self::WriteWrite => a.changes_data() && b.changes_data(),
            Self::AllButReads => a.changes_data() || b.changes_data(),
            Self::All => true,
        }
    }
}

/// The ranges of a group of requests, reads and writes apart, each under a slot of the group.
#[derive(Clone, Debug)]
pub struct Ranges {
    strong: Strong,
    reads: IntervalSet,
    writes: IntervalSet,
}

impl Ranges {
    /// Room for requests in slots `0..capacity`.
    pub fn new(strong: Strong, capacity: usize) -> Self {
        Self { strong, reads: IntervalSet::new(capacity), writes: IntervalSet::new(capacity) }
    }

    fn set(&mut self, op: Op) -> &mut IntervalSet {
        if op.changes_data() { &mut self.writes } else { &mut self.reads }
    }

    /// Adds the request under `slot`. A request without a range is not kept.
    pub fn insert(&mut self, slot: u32, request: &Planned) {
        if request.op != Op::Flush {
            self.set(request.op).insert(slot, request.offset.0, request.end().0);
        }
    }

    /// Takes the request under `slot` away.
    pub fn remove(&mut self, slot: u32, request: &Planned) {
        if request.op != Op::Flush {
            self.set(request.op).remove(slot);
        }
    }

    /// The sets that `op` can conflict with.
    fn opponents(&self, op: Op) -> impl Iterator<Item = &IntervalSet> {
        let with_reads = self.strong.conflict(op, Op::Read);
        let with_writes = self.strong.conflict(op, Op::Write);
        let reads = (with_reads && !self.reads.is_empty()).then_some(&self.reads);
        let writes = (with_writes && !self.writes.is_empty()).then_some(&self.writes);
        reads.into_iter().chain(writes)
    }

    /// Whether the request conflicts with any in the group.
    pub fn conflicts(&self, request: &Planned) -> bool {
        self.opponents(request.op).any(|set| set.overlaps(request.offset.0, request.end().0))
    }

    /// Calls `visit` with the slot of every request in the group that the request conflicts with.
    pub fn for_each_conflict(&self, request: &Planned, mut visit: impl FnMut(u32)) {
        for set in self.opponents(request.op) {
            set.for_each_overlap(request.offset.0, request.end().0, &mut visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_strengths_are_those_of_blkreplay() {
        use Op::{Flush, Read, Write};
        let table = |strong: Strong| {
            [
                strong.conflict(Read, Read),
                strong.conflict(Read, Write),
                strong.conflict(Write, Write),
            ]
        };
        assert_eq!(table(Strong::WriteWrite), [false, false, true]);
        assert_eq!(table(Strong::AllButReads), [false, true, true]);
        assert_eq!(table(Strong::All), [true, true, true]);
        assert!(!Strong::All.conflict(Flush, Write));
    }

    #[test]
    fn a_discard_counts_as_a_write() {
        assert!(Strong::WriteWrite.conflict(Op::Discard, Op::Write));
    }
}
