//! Who follows the requests of a lane.
//!
//! A device or file has one lane, and a verifier for itself. A tree of files has a lane for each of
//! its threads, and one of them reads what another wrote: so all of them share one verifier. A
//! thread that copies or moves files to another tree shares that tree's verifier, too.

use std::sync::{Mutex, PoisonError};

use ioecho_trace::{Integrity, Nanos, Op, Outcome};

use super::Verifier;
use super::finding::Look;
use super::moves::{Ended, HandedOver};
use crate::device::{Completion, Io};

/// The verifier of a lane: each method is that of [`Verifier`].
#[expect(missing_debug_implementations, reason = "a verifier has none")]
pub enum Following<'a> {
    /// The lane's own.
    Own(&'a mut Verifier),
    /// That of several lanes.
    Shared(Sharing<'a>),
}

/// A verifier that several lanes share.
#[expect(missing_debug_implementations, reason = "a verifier has none")]
pub struct Sharing<'a> {
    verifier: &'a Mutex<Verifier>,
    /// The tag of the lane's only request there.
    tag: Option<u32>,
    /// That of the tree to which the lane copies or moves files, and the file on its way there.
    other: Option<(&'a Mutex<Verifier>, HandedOver)>,
}

impl<'a> Sharing<'a> {
    /// The verifier of a lane that has one request in flight, under this tag, or several under
    /// their own; `other` is that of the tree to which it copies or moves files.
    pub fn new(
        verifier: &'a Mutex<Verifier>,
        tag: Option<u32>,
        other: Option<&'a Mutex<Verifier>>,
    ) -> Self {
        Self { verifier, tag, other: other.map(|other| (other, HandedOver::new())) }
    }

    /// Follows the end of a copy or move; `end_there` is that in the lane's own tree.
    fn hand_over(&mut self, io: &Io, ended: Ended, end_there: &mut dyn FnMut(&mut Verifier)) {
        let Some((other, handed)) = &mut self.other else {
            return end_there(&mut locked(self.verifier));
        };
        let source = &mut |then: &mut dyn FnMut(&mut Verifier)| then(&mut locked(self.verifier));
        let other = &mut |then: &mut dyn FnMut(&mut Verifier)| then(&mut locked(other));
        handed.follow(io, ended, (source, end_there), other);
    }
}

/// A lane that panicked ends the run, and its results are not used.
fn locked(verifier: &Mutex<Verifier>) -> std::sync::MutexGuard<'_, Verifier> {
    verifier.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> From<&'a mut Verifier> for Following<'a> {
    fn from(verifier: &'a mut Verifier) -> Self {
        Self::Own(verifier)
    }
}

#[expect(missing_docs, reason = "`Verifier` says what each of them is")]
impl Following<'_> {
    fn with<T>(&mut self, then: impl FnOnce(&mut Verifier) -> T) -> T {
        match self {
            Self::Own(verifier) => then(verifier),
            Self::Shared(shared) => then(&mut locked(shared.verifier)),
        }
    }

    /// The request under the tag by which the verifier knows it.
    fn tagged(&self, io: &Io) -> Io {
        match self {
            Self::Own(_) => *io,
            Self::Shared(shared) => Io { tag: shared.tag.unwrap_or(io.tag), ..*io },
        }
    }

    pub fn issued(&mut self, io: &Io, now: Nanos) {
        let io = self.tagged(io);
        self.with(|verifier| verifier.issued(&io, now));
    }

    pub fn notes_ahead(&mut self) -> usize {
        match self {
            Self::Own(verifier) => verifier.notes_ahead(),
            // What a thread does next depends on how its last call ended.
            Self::Shared(..) => 0,
        }
    }

    pub fn commit(&mut self, upcoming: &mut dyn Iterator<Item = Io>, now: Nanos) {
        self.with(|verifier| verifier.commit(upcoming, now));
    }

    pub fn end(&mut self) {
        self.with(Verifier::end);
    }

    pub fn rest(&mut self) {
        self.with(Verifier::rest);
    }

    pub fn result_lost(&mut self, request: u64) {
        self.with(|verifier| verifier.result_lost(request));
    }

    pub fn knows(&mut self, io: &Io) -> bool {
        self.with(|verifier| verifier.knows(io))
    }

    pub fn completed(&mut self, io: &Io, completion: &Completion, data: &[u8]) -> Integrity {
        let io = self.tagged(io);
        if let Self::Shared(shared) = self
            && matches!(io.op, Op::Copy | Op::Move)
        {
            let (outcome, at) = (completion.outcome, Some(completion.completed));
            let mut integrity = Integrity::Unchecked;
            shared.hand_over(&io, Ended { outcome, is_certain: true, at }, &mut |verifier| {
                integrity = verifier.completed(&io, completion, data);
            });
            return integrity;
        }
        self.with(|verifier| verifier.completed(&io, completion, data))
    }

    pub fn looked(
        &mut self,
        io: &Io,
        completion: &Completion,
        data: &[u8],
        look: Look,
    ) -> Integrity {
        let io = self.tagged(io);
        self.with(|verifier| verifier.looked(&io, completion, data, look))
    }

    pub fn abandoned(&mut self, io: &Io) {
        let io = self.tagged(io);
        if let Self::Shared(shared) = self
            && matches!(io.op, Op::Copy | Op::Move)
        {
            let ended = Ended { outcome: Outcome::Abandoned, is_certain: false, at: None };
            return shared.hand_over(&io, ended, &mut |verifier| verifier.abandoned(&io));
        }
        self.with(|verifier| verifier.abandoned(&io));
    }

    pub fn places(&mut self) -> u64 {
        self.with(|verifier| verifier.places())
    }
}
