//! Payloads of writes made ahead of their time.
//!
//! Filling a large write takes longer than issuing it, and a request that falls due while another
//! is being filled is late. So this work is done in the idle time before requests fall due, and its
//! results are kept here.
//!
//! Requests are drafted nearly in the order in which they fall due and used in the same order. So a
//! sorted queue serves: a number is found by halving, and is put in and taken out near an end.

use std::collections::VecDeque;

use ioecho_replay::Io;

use super::buffers::Buffer;

/// The most drafts: as many as a lane holds of requests that are not due.
pub(super) const DRAFTS_MAX: usize = 4096;

/// The most memory that drafts hold: what a kernel writes back at once, which is a burst of many
/// large writes.
pub(super) const DRAFT_BYTES_MAX: usize = 128 << 20;

/// What a request will write, or the first part of it.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) io: Io,
    pub(super) buffer: Buffer,
    /// Bytes that are made.
    pub(super) made: usize,
}

/// The drafts, sorted by the number of their request.
#[derive(Debug)]
pub(super) struct Drafts {
    sorted: VecDeque<Draft>,
    bytes: usize,
    bytes_max: usize,
}

impl Drafts {
    /// No drafts, and room for [`DRAFTS_MAX`] in at most `bytes_max` of memory.
    pub(super) fn new(bytes_max: usize) -> Self {
        let sorted = VecDeque::with_capacity(DRAFTS_MAX);
        Self { sorted, bytes: 0, bytes_max: bytes_max.min(DRAFT_BYTES_MAX) }
    }

    /// Whether a buffer of so many bytes has a place.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.sorted.len() < DRAFTS_MAX && self.bytes + bytes <= self.bytes_max
    }

    /// Keeps a draft of what `io` writes, with nothing made. There is room, and no draft of the
    /// same number.
    pub(super) fn begin(&mut self, io: &Io, buffer: Buffer) -> &mut Draft {
        let place = self.place(io.request).unwrap_or_else(|place| place);
        self.bytes += buffer.size();
        self.sorted.insert(place, Draft { io: *io, buffer, made: 0 });
        &mut self.sorted[place]
    }

    /// The draft of a request.
    pub(super) fn get(&mut self, request: u64) -> Option<&mut Draft> {
        let place = self.place(request).ok()?;
        self.sorted.get_mut(place)
    }

    /// Takes the draft of a request out.
    pub(super) fn take(&mut self, request: u64) -> Option<Draft> {
        let draft = self.sorted.remove(self.place(request).ok()?)?;
        self.bytes -= draft.buffer.size();
        Some(draft)
    }

    fn place(&self, request: u64) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&request, |draft| draft.io.request)
    }
}
