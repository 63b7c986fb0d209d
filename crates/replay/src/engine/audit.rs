//! Verification beside the engine.
//!
//! The verifier must see every request before it is issued and every completion before the
//! scheduler does, or a request that overlaps could be issued in between. A write that is read back
//! stays in flight for the scheduler until that read has completed, so no overlapping request comes
//! in between either.
//!
//! The same holds for reads before a change: they use the tag of the request, which the scheduler
//! already counts as in flight. The record describes the request alone: it is submitted when the
//! reads have ended, and their duration is lateness, with its own cause.

use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

use super::Verification;
use crate::device::{Completion, Device, Io, Payload};
use crate::plan::Planned;
use crate::schedule::{Config, LATENESS_TOLERATED};
use crate::verify::Look;

/// The largest read before a change: discards may be of any size.
const PREREAD_MAX: u64 = 16 << 20;

/// What is known of the requests in flight, by tag.
pub(super) struct Audit<'a> {
    verify: Verification<'a>,
    flying: Vec<Option<Flying>>,
    /// Requests that the reads before them made late.
    pub(super) held_up: Vec<u32>,
}

/// A tag in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    /// The request that the device got.
    io: Io,
    stage: Stage,
    /// The worst that was found before the request of the load.
    integrity: Integrity,
}

/// How far a request of the load has come.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The data that this request will change is being read.
    Before(Io),
    /// It is in flight itself.
    Itself,
    /// It has ended like this, and is read again.
    After(Completion),
}

impl<'a> Audit<'a> {
    pub(super) fn new(verify: Verification<'a>, config: &Config) -> Self {
        let slots = config.device_slots() as usize;
        Self { verify, flying: vec![None; slots], held_up: Vec::with_capacity(slots) }
    }

    /// Called before a request is handed over; returns what the device must do first.
    pub(super) fn begin(&mut self, io: &Io, now: Nanos, device: &dyn Device) -> Io {
        let reads = self.verify.preread && io.op.changes_data();
        let read = if reads { self.next_read(io, io.offset, device) } else { None };
        match read {
            Some(read) => self.issue(read, Stage::Before(*io), Integrity::Unchecked, now),
            None => self.issue(*io, Stage::Itself, Integrity::Unchecked, now),
        }
    }

    fn issue(&mut self, io: Io, stage: Stage, integrity: Integrity, now: Nanos) -> Io {
        self.verify.verifier.issued(&io, now);
        self.flying[io.tag as usize] = Some(Flying { io, stage, integrity });
        io
    }

    /// How many requests to come are of use at [`Audit::commit`].
    pub(super) fn notes_ahead(&mut self) -> usize {
        self.verify.verifier.notes_ahead()
    }

    /// Called before everything that has begun is handed over; `upcoming` comes next.
    pub(super) fn commit<'p>(&mut self, upcoming: impl Iterator<Item = &'p Planned>, now: Nanos) {
        let upcoming = upcoming.filter(|planned| planned.refusal.is_none());
        self.verify.verifier.commit(&mut upcoming.map(|planned| planned.io(0)), now);
    }

    /// Called when nothing more is issued.
    pub(super) fn end(&mut self) {
        self.verify.verifier.end();
    }

    /// Called before the engine sleeps.
    pub(super) fn rest(&mut self) {
        self.verify.verifier.rest();
    }

    /// The result of a request was not taken.
    pub(super) fn result_lost(&mut self, planned: &Planned) {
        self.verify.verifier.result_lost(planned.seq);
    }

    /// Checks the completions, and removes those that are not of the load; returns how many
    /// requests it prepared instead.
    pub(super) fn take(
        &mut self,
        device: &mut dyn Device,
        payload: &mut dyn Payload,
        completions: &mut Vec<Completion>,
    ) -> usize {
        let mut prepared = 0;
        completions.retain_mut(|completion| {
            let Some(flying) = self.flying[completion.tag as usize].take() else { return true };
            let next = self.completed(&flying, completion, device);
            device.release(completion.tag);
            let Some((io, stage, integrity)) = next else { return true };
            let io = self.issue(io, stage, integrity, completion.completed);
            device.prepare(&io, payload);
            prepared += 1;
            false
        });
        prepared
    }

    /// Judges the data of a completion; returns the next request under its tag. If there is none,
    /// the completion is that of the load's request.
    fn completed(
        &mut self,
        flying: &Flying,
        completion: &mut Completion,
        device: &mut dyn Device,
    ) -> Option<(Io, Stage, Integrity)> {
        let Flying { io, stage, integrity } = *flying;
        let verifier = &mut self.verify.verifier;
        let data = if io.op == Op::Read { device.data(completion.tag) } else { &[] };
        match stage {
            Stage::Before(change) => {
                let found = verifier.looked(&io, completion, data, Look::BeforeWrite);
                let integrity = integrity.max(found);
                if let Some(read) = self.next_read(&change, io.offset + io.length, device) {
                    return Some((read, Stage::Before(change), integrity));
                }
                if completion.completed.saturating_sub(change.scheduled) > LATENESS_TOLERATED {
                    self.held_up.push(completion.tag);
                }
                Some((change, Stage::Itself, integrity))
            }
            Stage::Itself => {
                completion.integrity = verifier.completed(&io, completion, data).max(integrity);
                let again = self.verify.reread_writes && io.op == Op::Write;
                if !again || completion.outcome != Outcome::Ok {
                    return None;
                }
                let read = Io { op: Op::Read, flags: Flags::empty(), ..io };
                Some((read, Stage::After(*completion), completion.integrity))
            }
            Stage::After(write) => {
                let found = verifier.looked(&io, completion, data, Look::AfterWrite);
                *completion = Completion { integrity: found.max(integrity), ..write };
                None
            }
        }
    }

    /// The next read, from `offset` on, of data with known content that `change` will change.
    fn next_read(&mut self, change: &Io, offset: Bytes, device: &dyn Device) -> Option<Io> {
        let block = device.block_size().0.max(1);
        let most = (device.length_max().0.min(PREREAD_MAX) / block * block).max(block);
        let end = change.offset.0 + change.length.0;
        let pieces = (offset.0..end).step_by(most as usize).map(|from| Io {
            op: Op::Read,
            flags: Flags::empty(),
            offset: Bytes(from),
            length: Bytes(most.min(end - from)),
            ..*change
        });
        let verifier = &mut self.verify.verifier;
        pieces.into_iter().find(|read| verifier.knows(read))
    }

    /// At how many places data are not as they must be.
    pub(super) fn places(&mut self) -> u64 {
        self.verify.verifier.places()
    }

    /// A request is given up.
    pub(super) fn abandoned(&mut self, planned: &Planned) {
        let io = planned.io(0);
        let is_it = |flying: &&Flying| flying.io.request == io.request;
        let reading = self.flying.iter().flatten().find(is_it).filter(|flying| {
            // The request itself was never issued, or has ended.
            matches!(flying.stage, Stage::Before(_) | Stage::After(_))
        });
        self.verify.verifier.abandoned(&reading.map_or(io, |flying| flying.io));
    }
}
