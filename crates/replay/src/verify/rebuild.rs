//! The legal content of a target after a run, from the run's records.
//!
//! After a kill, a reboot or a power cut, there is no verifier any more that saw every request. But
//! the records have the instants of submission and completion, which the definition of legal
//! content needs. A power cut loses more: the data in the device's volatile cache, and the end of
//! the records.

use std::iter::Peekable;

use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};
use serde::{Deserialize, Serialize};

use super::entry::Legal;
use super::intents::Intent;
use super::moves::{Ended, HandedOver, torn_moves};
use super::races::{Racing, Span, unending};
use super::unrecorded::Erasing;
use super::{FoundNames, NameBook, Verifier, VerifyConfig, VersionTable, effect, sectors};
use crate::device::Io;

/// What happened between the run and the verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum After {
    /// The process ended or was killed; the host and the target went on.
    #[default]
    Kill,
    /// The power failed: what was in volatile caches is lost.
    PowerCut,
}

impl After {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Kill, Self::PowerCut];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerCut => "power-cut",
        }
    }
}

/// A request of the run, from its records.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Its number.
    pub request: u64,
    /// What it did.
    pub op: Op,
    /// How it was marked.
    pub flags: Flags,
    /// Where on the target.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
    /// When it was submitted, or about to be.
    pub submitted: Nanos,
    /// When it completed; `None` if that was never seen.
    pub completed: Option<Nanos>,
    /// How.
    pub outcome: Outcome,
}

impl Change {
    /// The request.
    const fn io(&self) -> Io {
        let Self { request, op, flags, offset, length, .. } = *self;
        Io { tag: 0, request, scheduled: Nanos::ZERO, op, flags, offset, length }
    }

    /// How it ended, or that nobody saw its end.
    fn ended(&self) -> Outcome {
        if self.completed.is_some() { self.outcome } else { Outcome::Abandoned }
    }
}

/// Until when everything that had completed was made durable: found by looking at all requests once
/// before the state is rebuilt.
#[derive(Clone, Copy, Debug, Default)]
pub struct DurableBefore(Option<Nanos>);

impl DurableBefore {
    /// Takes a request. A completed flush, or write with PREFLUSH, made all requests durable that
    /// had completed before its submission.
    pub fn look(&mut self, change: &Change) {
        let flushes = change.op == Op::Flush || change.flags.contains(Flags::PREFLUSH);
        if flushes && change.outcome == Outcome::Ok && change.completed.is_some() {
            self.0 = self.0.max(Some(change.submitted));
        }
    }

    /// For a run whose data a later run made durable.
    pub const EVERYTHING: Self = Self(Some(Nanos(i64::MAX)));

    /// Whether anything was made durable at all by a flush.
    pub const fn is_any(self) -> bool {
        self.0.is_some()
    }

    /// Whether the change was made durable.
    fn covers(self, change: &Change) -> bool {
        change.flags.contains(Flags::FUA)
            || change.completed.is_some_and(|completed| Some(completed) < self.0)
    }
}

/// The run began with this in its trees: what is not as it must be is told, and the rest is how it
/// goes on from there.
pub fn begin_together(trees: &mut [Rebuild], books: Vec<NameBook>) {
    let found: Vec<FoundNames> = books.iter().map(NameBook::found).collect();
    let mut all: Vec<_> = trees.iter_mut().map(|tree| &mut tree.verifier).zip(&found).collect();
    torn_moves(&mut all, Nanos::ZERO);
    for ((tree, book), found) in trees.iter_mut().zip(books).zip(&found) {
        if tree.verifier.names().is_some() {
            tree.verifier.begun_with(found);
        } else {
            tree.verifier.put_names(book);
        }
    }
}

/// Takes the next change of the tree at this place, whose copies and moves go to that at `to`.
pub fn apply_together(trees: &mut [Rebuild], at: usize, to: Option<usize>, change: &Change) {
    let pair = match to {
        Some(to) if matches!(change.op, Op::Copy | Op::Move) && to != at => {
            let (low, high) = (at.min(to), at.max(to));
            let (before, behind) = trees.split_at_mut(high);
            let (low, high) = (&mut before[low], &mut behind[0]);
            if at < to { (low, high) } else { (high, low) }
        }
        _ => return trees[at].apply(change),
    };
    let (source, other) = pair;
    let outcome = change.ended();
    let is_certain = other.after == After::Kill || other.durable.covers(change);
    let ended = Ended { outcome, is_certain, at: None };
    let (after, durable) = (source.after, source.durable);
    HandedOver::new().follow(
        &change.io(),
        ended,
        (&mut |then| then(&mut source.verifier), &mut |verifier| {
            verifier.apply(change, after, durable);
        }),
        &mut |then| then(&mut other.verifier),
    );
}

/// Rebuilds what the target may hold.
pub struct Rebuild {
    verifier: Verifier,
    after: After,
    durable: DurableBefore,
    next: u64,
}

impl Rebuild {
    /// Begins with a target that was not touched. In `config`, `isolated` asks only that no two
    /// overlapping changes were in flight together: every conflict mode but `allow`.
    pub fn new(
        config: VerifyConfig,
        table: Box<dyn VersionTable + Send>,
        after: After,
        durable: DurableBefore,
    ) -> Self {
        Self { verifier: Verifier::new(config, table, None), after, durable, next: 0 }
    }

    /// Goes on with the run that came next on the same target.
    pub fn go_on(
        verifier: Verifier,
        config: VerifyConfig,
        after: After,
        durable: DurableBefore,
    ) -> Self {
        Self { verifier: verifier.go_on(config, None), after, durable, next: 0 }
    }

    /// Notes a record of the request of this number, on any target, in ascending order. Requests
    /// left out have no record: their data is accepted if it is younger than all known versions,
    /// unless `all_noted` says that every change was noted.
    pub fn record(&mut self, request: u64, all_noted: bool) {
        if request > self.next && !all_noted {
            self.verifier.add_gap(self.next, request - 1);
        }
        self.next = self.next.max(request + 1);
    }

    /// Notes what requests without a record may have left, besides the operations seen in applied
    /// changes.
    pub fn may_leave(&mut self, erasing: Erasing) {
        self.verifier.may_leave(erasing);
    }

    /// Takes the notes on requests below `number`, which has a record of its own and needs none;
    /// returns how many of their changes were in flight.
    pub fn apply_noted(
        &mut self,
        noted: &mut Peekable<impl Iterator<Item = Intent>>,
        number: u64,
    ) -> u64 {
        let mut in_flight = 0;
        while let Some(intent) = noted.next_if(|intent| intent.request < number) {
            let is_over = intent.acknowledged.is_some() || !intent.op.changes_data();
            in_flight += u64::from(!is_over);
            self.apply(&intent.change());
        }
        while noted.next_if(|intent| intent.request == number).is_some() {}
        in_flight
    }

    /// Takes the next change, in the order of the requests' numbers. Reads, flushes and requests
    /// that were never issued change nothing.
    pub fn apply(&mut self, change: &Change) {
        self.verifier.apply(change, self.after, self.durable);
    }

    /// The verifier that knows what the target may hold. `tail_lost` tells that younger requests
    /// than the last one known may have been issued.
    pub fn finish(mut self, tail_lost: bool) -> Verifier {
        if tail_lost {
            self.verifier.add_gap(self.next, u64::MAX);
        }
        self.verifier
    }
}

impl Verifier {
    /// Takes the next change, in the order of the requests' numbers.
    fn apply(&mut self, change: &Change, after: After, durable: DurableBefore) {
        let io = change.io();
        self.origins.issued(io.request);
        let durable = after == After::Kill || durable.covers(change);
        self.name_ended(&io, change.ended(), durable);
        let io = self.versioned(&io);
        let Some(effect) = effect(&io) else { return };
        self.may_leave(Erasing::by(io.op));
        if !change.outcome.was_issued() {
            return;
        }
        let certain = change.outcome == Outcome::Ok && change.completed.is_some() && durable;
        self.put(sectors(&io), effect, certain, change);
    }

    fn may_leave(&mut self, erasing: Erasing) {
        if let Some(unrecorded) = self.unrecorded.last_mut() {
            unrecorded.may_leave(erasing);
        }
    }

    /// Puts a change into the table after the fact.
    fn put(&mut self, range: (u64, u64), effect: Legal, certain: bool, change: &Change) {
        if let Some(races) = &mut self.races {
            let span = match change.completed {
                Some(completed) => {
                    Span { submitted: change.submitted, completed, succeeded: certain }
                }
                None => unending(change.submitted),
            };
            let (start, end) = range;
            let racing = Racing { tag: 0, effect, start, end, span, ended: true };
            races.remember(&racing);
            self.settle(&racing);
        } else if certain {
            let set = self.table.set(range.0, range.1 - range.0, effect.encode());
            self.count_table_error(&set);
        } else {
            self.change(range, |before| {
                let mut after = *before;
                after.add_in_order(effect);
                after
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{MemoryTable, VerifyFigures};
    use ioecho_trace::Integrity::{self, Foreign, Unchecked, Zeroed};

    fn change(request: u64, op: Op, sector: u64) -> Change {
        Change {
            request,
            op,
            flags: Flags::empty(),
            offset: Bytes(sector * 512),
            length: Bytes(512),
            submitted: Nanos(request as i64 * 2),
            completed: Some(Nanos(request as i64 * 2 + 1)),
            outcome: Outcome::Ok,
        }
    }

    /// After a write to sector 0 and another change elsewhere: what is said when sector 0 holds
    /// zeroes, and when it holds what nobody wrote.
    fn said(other: Op, tail_lost: bool) -> ([Integrity; 2], VerifyFigures) {
        let config = VerifyConfig { run: 1, target: 0, isolated: true };
        let (table, durable) = (Box::new(MemoryTable::default()), DurableBefore::default());
        let mut rebuild = Rebuild::new(config, table, After::Kill, durable);
        for change in [change(0, Op::Write, 0), change(1, other, 8)] {
            rebuild.record(change.request, false);
            rebuild.apply(&change);
        }
        let mut verifier = rebuild.finish(tail_lost);
        let io = Io {
            tag: 0,
            request: 0,
            scheduled: Nanos::ZERO,
            op: Op::Read,
            flags: Flags::empty(),
            offset: Bytes(0),
            length: Bytes(512),
        };
        let kinds = [0, 0x77].map(|byte| verifier.check_now(&io, &[byte; 512], Nanos::ZERO));
        (kinds, verifier.figures().clone())
    }

    /// A table on a disk that is full.
    struct Full;

    impl VersionTable for Full {
        fn get(&mut self, _: u64, entries: &mut [u64]) -> std::io::Result<()> {
            entries.fill(0);
            Ok(())
        }

        fn set(&mut self, _: u64, _: u64, _: u64) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn touched_from(&mut self, _: u64) -> std::io::Result<Option<(u64, u64)>> {
            Ok(None)
        }
    }

    #[test]
    fn the_first_error_of_the_table_is_kept() {
        let config = VerifyConfig { run: 1, target: 0, isolated: true };
        let durable = DurableBefore::default();
        let mut rebuild = Rebuild::new(config, Box::new(Full), After::Kill, durable);
        rebuild.apply(&change(0, Op::Write, 0));
        rebuild.apply(&change(1, Op::Write, 0));
        let verifier = rebuild.finish(false);
        assert_eq!(verifier.figures().table_errors, 2);
        let kind = verifier.table_error().map(std::io::Error::kind);
        assert_eq!(kind, Some(std::io::ErrorKind::StorageFull));
    }

    #[test]
    fn what_a_request_without_a_record_may_have_erased_is_no_damage() {
        assert_eq!(said(Op::Write, true).0, [Zeroed, Foreign]);
        let (kinds, figures) = said(Op::WriteZeroes, true);
        assert_eq!((kinds, figures.unrecorded), ([Unchecked, Foreign], 1));
        let (kinds, figures) = said(Op::Discard, true);
        assert_eq!((kinds, figures.unrecorded, figures.undecided), ([Unchecked; 2], 1, 1));
        assert_eq!(said(Op::Discard, false).0, [Zeroed, Foreign]);
    }
}
