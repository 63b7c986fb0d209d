//! Verification beside the engine.
//!
//! The verifier must see every request before it is issued and every completion before the
//! scheduler does, or a request that overlaps could be issued in between. A write that is read
//! again stays in flight for the scheduler until that read has completed, so nothing that overlaps
//! it comes in between either.

use ioecho_trace::{Flags, Nanos, Op, Outcome};

use super::Verification;
use crate::device::{Completion, Device, Io, Payload};
use crate::plan::Planned;
use crate::schedule::Config;

/// What is known of the requests in flight, by tag.
pub(super) struct Audit<'a> {
    verify: Verification<'a>,
    flying: Vec<Option<Io>>,
    /// The completion of a write that is being read again.
    held: Vec<Option<Completion>>,
}

impl<'a> Audit<'a> {
    pub(super) fn new(verify: Verification<'a>, config: &Config) -> Self {
        let slots = config.device_slots() as usize;
        Self { verify, flying: vec![None; slots], held: vec![None; slots] }
    }

    /// A request is about to be handed over.
    pub(super) fn issued(&mut self, io: &Io, now: Nanos) {
        self.verify.verifier.issued(io, now);
        self.flying[io.tag as usize] = Some(*io);
    }

    /// Looks at what completed, and takes out writes that are to be read again; answers how many
    /// reads it prepared for that.
    pub(super) fn take(
        &mut self,
        device: &mut dyn Device,
        payload: &mut dyn Payload,
        completions: &mut Vec<Completion>,
    ) -> usize {
        let mut prepared = 0;
        completions.retain_mut(|completion| {
            let tag = completion.tag as usize;
            let Some(io) = self.flying[tag].take() else { return true };
            let data = if io.op == Op::Read { device.data(completion.tag) } else { &[] };
            completion.integrity = self.verify.verifier.completed(&io, completion, data);
            device.release(completion.tag);
            if let Some(write) = self.held[tag].take() {
                *completion = Completion { integrity: completion.integrity, ..write };
                return true;
            }
            let again = self.verify.reread_writes && io.op == Op::Write;
            if !again || completion.outcome != Outcome::Ok {
                return true;
            }
            let read = Io { op: Op::Read, flags: Flags::empty(), ..io };
            self.held[tag] = Some(*completion);
            self.issued(&read, completion.completed);
            device.prepare(&read, payload);
            prepared += 1;
            false
        });
        prepared
    }

    /// A request is given up.
    pub(super) fn abandoned(&mut self, planned: &Planned) {
        self.verify.verifier.abandoned(&planned.io(0));
    }
}
