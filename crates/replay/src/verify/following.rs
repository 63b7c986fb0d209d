//! Who follows the requests of a lane.
//!
//! A device or file has one lane, and a verifier for itself. A tree of files has a lane for each of
//! its threads, and one of them reads what another wrote: so all of them share one verifier.

use std::sync::{Mutex, PoisonError};

use ioecho_trace::{Integrity, Nanos};

use super::Verifier;
use super::finding::Look;
use crate::device::{Completion, Io};

/// The verifier of a lane: each method is that of [`Verifier`].
#[expect(missing_debug_implementations, reason = "a verifier has none")]
pub enum Following<'a> {
    /// The lane's own.
    Own(&'a mut Verifier),
    /// That of several lanes, each of which has one request in flight, under this tag.
    Shared(&'a Mutex<Verifier>, u32),
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
            // A lane that panicked ends the run, and its results are not used.
            Self::Shared(shared, _) => {
                then(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }

    /// The request under the tag by which the verifier knows it.
    fn tagged(&self, io: &Io) -> Io {
        match self {
            Self::Own(_) => *io,
            Self::Shared(_, tag) => Io { tag: *tag, ..*io },
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
        self.with(|verifier| verifier.abandoned(&io));
    }

    pub fn places(&mut self) -> u64 {
        self.with(|verifier| verifier.places())
    }
}
