//! Putting submissions and completions into the order of time.
//!
//! A trace is in the order in which its requests were issued or due, but the number in flight at
//! the submission of a request depends on the submissions and completions of the others. Since
//! nothing is submitted before it is due, all submissions before the instant at which a row is due
//! are known when that row is read: they are taken out of a heap in their order, and completions
//! out of another. Only requests that wait or are in flight at that instant are held, not the
//! trace.
//!
//! A part of a trace does not know what was in flight when it began. So it keeps its first rows as
//! they are and counts them only when nothing can come before them; merged behind another part,
//! they are read again as its continuation. What the former part had in flight is then seen by
//! [`HEAD`] rows of the volume; requests that outlast so many others are missing in the levels
//! after them, until they are back.
//!
//! Rows in another order (of a run without a schedule on several targets, say) are taken as they
//! come: a submission before an earlier row counts at that row's instant. The number of waiting
//! requests is bounded; beyond [`PENDING_MAX`] the earliest counts as submitted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::{LateCause, Op, Request};
use serde::{Deserialize, Serialize};

use super::event::{Event, GROUPS, Group};

/// How many first rows of a part and volume are kept to be read again, unless there are too many
/// volumes: then as many as [`HEAD_MIN`].
pub(crate) const HEAD: usize = 4096;

/// How many first rows are kept however many volumes there are.
pub(crate) const HEAD_MIN: usize = 128;

/// How many requests may be due and not submitted at the same instant.
pub(crate) const PENDING_MAX: usize = 1 << 20;

/// The data kept of a request until it is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) scheduled: i64,
    pub(crate) submitted: i64,
    pub(crate) completed: Option<i64>,
    pub(crate) service: Option<i64>,
    pub(crate) response: Option<i64>,
    pub(crate) delay: Option<i64>,
    pub(crate) group: Group,
    pub(crate) op: Op,
    pub(crate) volume: u32,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) pid: Option<u32>,
    pub(crate) late_cause: LateCause,
}

impl Row {
    /// `None` of a request that was never submitted, or of which that is not known.
    pub(crate) fn of(request: &Request, event: &Event) -> Option<Self> {
        Some(Self {
            scheduled: event.scheduled,
            submitted: event.submitted?,
            completed: event.completed,
            service: event.service(),
            response: event.response(),
            delay: event.delay(),
            group: event.group,
            op: request.op,
            volume: event.volume,
            offset: request.offset.0,
            length: request.length.0,
            pid: request.origin.map(|origin| origin.pid),
            late_cause: request.measured.map_or(LateCause::None, |measured| measured.late_cause),
        })
    }
}

/// The levels on a request's volume at its submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Levels {
    /// Requests in flight, itself included.
    pub(crate) flying: u32,
    /// Of these, the ones of its own group.
    pub(crate) own: u32,
    /// Requests that were due and not submitted.
    pub(crate) waiting: u32,
}

/// Receives the levels at each submission, and where they rise before it.
pub(crate) trait Witness {
    /// A request fell due at this instant and has to wait, with so many that wait, itself included.
    fn fell_due(&mut self, scheduled: i64, waiting: u32);

    fn submitted(&mut self, row: &Row, levels: Levels);
}

/// Ignores the levels.
struct Nobody;

impl Witness for Nobody {
    fn fell_due(&mut self, _: i64, _: u32) {}

    fn submitted(&mut self, _: &Row, _: Levels) {}
}

/// Requests that wait or are in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Queue {
    /// Submission, number in the order of arrival, and place in `rows`.
    pending: BinaryHeap<Reverse<(i64, u64, u32)>>,
    rows: Vec<Row>,
    free: Vec<u32>,
    arrived: u64,
    flying: Flying,
}

/// What is in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Flying {
    /// Completions and groups.
    back: BinaryHeap<Reverse<(i64, u8)>>,
    levels: [u32; GROUPS],
}

impl Queue {
    fn arrive(&mut self, row: &Row, witness: &mut impl Witness) {
        self.advance(row.scheduled, witness);
        if row.submitted <= row.scheduled {
            self.flying.submit(row, self.pending.len(), witness);
            return;
        }
        if self.pending.len() >= PENDING_MAX {
            self.first_out(witness);
        }
        let place = if let Some(place) = self.free.pop() {
            self.rows[place as usize] = *row;
            place
        } else {
            self.rows.push(*row);
            self.rows.len() as u32 - 1
        };
        self.pending.push(Reverse((row.submitted, self.arrived, place)));
        self.arrived += 1;
        witness.fell_due(row.scheduled, count(self.pending.len()));
    }

    /// Submits what goes out up to an instant.
    #[inline]
    fn advance(&mut self, now: i64, witness: &mut impl Witness) {
        while self.pending.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            self.first_out(witness);
        }
    }

    fn first_out(&mut self, witness: &mut impl Witness) {
        if let Some(Reverse((_, _, place))) = self.pending.pop() {
            self.free.push(place);
            self.flying.submit(&self.rows[place as usize], self.pending.len(), witness);
        }
    }

    fn drain(&mut self, witness: &mut impl Witness) {
        while !self.pending.is_empty() {
            self.first_out(witness);
        }
    }
}

impl Flying {
    /// Submits a row while so many others are waiting.
    fn submit(&mut self, row: &Row, waiting: usize, witness: &mut impl Witness) {
        while let Some(Reverse((at, group))) = self.back.peek().copied()
            && at <= row.submitted
        {
            self.back.pop();
            let level = &mut self.levels[usize::from(group) % GROUPS];
            *level = level.saturating_sub(1);
        }
        let group = row.group.index();
        let own = self.levels[group] + 1;
        let levels = Levels { flying: count(self.back.len() + 1), own, waiting: count(waiting) };
        witness.submitted(row, levels);
        // A request that never completed is not in flight for later ones, because its end is
        // unknown.
        if let Some(completed) = row.completed {
            self.levels[group] = own;
            self.back.push(Reverse((completed, group as u8)));
        }
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The submissions of a volume in the order of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sweep {
    head: Vec<Row>,
    /// Whether the head is full.
    is_begun: bool,
    /// What is left of the head when it is full, and everything behind it.
    queue: Queue,
}

impl Sweep {
    /// Adds a row; answers whether it is among the first ones, of which `limit` are kept.
    #[inline]
    pub(crate) fn add(&mut self, row: &Row, limit: usize, witness: &mut impl Witness) -> bool {
        if self.is_begun {
            self.queue.arrive(row, witness);
            return false;
        }
        self.head.push(*row);
        if self.head.len() >= limit {
            self.begin();
        }
        true
    }

    fn begin(&mut self) {
        self.is_begun = true;
        self.head.shrink_to_fit();
        for row in &self.head {
            self.queue.arrive(row, &mut Nobody);
        }
    }

    /// How many first rows are kept.
    pub(crate) fn head_rows(&self) -> usize {
        self.head.len()
    }

    /// Goes on with a later part of the same volume. What the parts have told their witnesses is
    /// merged besides.
    pub(crate) fn merge(&mut self, later: &Self, limit: usize, witness: &mut impl Witness) {
        // How many rows of its own it has had waiting, whose numbers come first.
        let waited = || self.head.iter().filter(|row| row.submitted > row.scheduled).count();
        let known = if self.is_begun { self.queue.arrived } else { waited() as u64 };
        for row in &later.head {
            self.add(row, limit, witness);
        }
        if !later.is_begun {
            return;
        }
        if !self.is_begun {
            // Both heads together are shorter than one may be, but what follows them is told.
            self.begin();
        }
        // The later part tells of those of its rows that are still waiting, and goes on from there.
        self.queue.pending.retain(|Reverse((_, number, _))| *number < known);
        self.queue.drain(witness);
        self.queue = later.queue.clone();
    }

    /// Tells of everything that was not told yet.
    pub(crate) fn finish(&self, witness: &mut impl Witness) {
        let mut first = Queue::default();
        for row in &self.head {
            first.arrive(row, witness);
        }
        if self.is_begun {
            self.queue.clone().drain(witness);
        } else {
            first.drain(witness);
        }
    }
}
