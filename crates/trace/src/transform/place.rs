//! Giving requests another place, or another instant.
//!
//! Several transforms do nothing else, and share two rules: a flush has no place, and a request
//! whose place or instant does not fit into 64 bits is dropped and counted, never truncated.

use crate::batch::Batch;
use crate::header::{Header, NoteKind};
use crate::request::{Op, Request};

/// The note on requests without a place.
pub(crate) const NO_PLACE: &str = "requests beyond the end of what 64 bits address";

/// The note on requests without an instant.
pub(crate) const NO_INSTANT: &str = "requests later than 64 bits of nanoseconds";

/// Moves requests and counts those that had to be dropped.
#[derive(Debug)]
pub(crate) struct Mover {
    /// The note on dropped requests.
    why: &'static str,
    keep: Vec<bool>,
    dropped: u64,
    first: Option<String>,
}

impl Mover {
    /// A mover that notes dropped requests as `why`.
    pub(crate) fn new(why: &'static str) -> Self {
        Self { why, keep: Vec::new(), dropped: 0, first: None }
    }

    /// Puts each request with a range at the offset that `place` answers to its volume, offset and
    /// length. Requests without an answer, or with an end beyond 64 bits, are dropped.
    #[inline]
    pub(crate) fn places(
        &mut self,
        batch: &mut Batch,
        mut place: impl FnMut(u32, u64, u64) -> Option<u64>,
    ) {
        self.keep.clear();
        let mut all = true;
        for row in 0..batch.len() {
            let (length, volume) = (batch.length_bytes[row], batch.volume[row]);
            let fits = batch.op[row] == Op::Flush || {
                let to = place(volume, batch.offset_bytes[row], length)
                    .filter(|to| to.checked_add(length).is_some());
                // A dropped request keeps its place, for the note.
                batch.offset_bytes[row] = to.unwrap_or(batch.offset_bytes[row]);
                to.is_some()
            };
            all &= fits;
            self.keep.push(fits);
        }
        if !all {
            self.drop_rows(batch);
        }
    }

    /// Puts each request at the instant that `instant` answers to its own; requests without an
    /// answer are dropped. The answers must never step back.
    #[inline]
    pub(crate) fn instants(
        &mut self,
        batch: &mut Batch,
        mut instant: impl FnMut(i64) -> Option<i64>,
    ) {
        self.keep.clear();
        let mut all = true;
        for issue in &mut batch.issue_ns {
            let to = instant(*issue);
            *issue = to.unwrap_or(*issue);
            all &= to.is_some();
            self.keep.push(to.is_some());
        }
        if !all {
            self.drop_rows(batch);
        }
    }

    /// Drops the requests for which `keep` is false.
    pub(crate) fn only(&mut self, batch: &mut Batch, mut keep: impl FnMut(Op, u64, u64) -> bool) {
        self.keep.clear();
        let rows = batch.op.iter().zip(&batch.offset_bytes).zip(&batch.length_bytes);
        self.keep.extend(rows.map(|((op, offset), length)| keep(*op, *offset, *length)));
        if self.keep.contains(&false) {
            self.drop_rows(batch);
        }
    }

    #[cold]
    fn drop_rows(&mut self, batch: &mut Batch) {
        let gone = self.keep.iter().filter(|keep| !**keep).count();
        if self.first.is_none()
            && let Some(row) = self.keep.iter().position(|keep| !*keep)
        {
            self.first = Some(told(&batch.get(row)));
        }
        self.dropped += gone as u64;
        batch.retain(&self.keep);
    }

    /// Adds the dropped requests to the header's losses.
    pub(crate) fn note(&self, header: &mut Header) {
        header.losses.add(NoteKind::LeftOut.of(self.why), self.dropped, self.first.clone());
    }

    /// As [`Mover::note`], without an example.
    pub(crate) fn note_bare(&self, header: &mut Header) {
        header.losses.add(NoteKind::LeftOut.of(self.why), self.dropped, None);
    }
}

/// A request in a few words, as an example for a note.
pub(crate) fn told(request: &Request) -> String {
    let seconds = crate::units::decimal_seconds(request.issue);
    let (op, length, offset) = (request.op.name(), request.length.0, request.offset.0);
    format!("the {op} of {length} bytes at offset {offset}, issued at {seconds} s")
}
