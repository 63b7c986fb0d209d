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

/// The most drafts.
pub(super) const DRAFTS_MAX: usize = 256;

/// The most memory that drafts hold.
pub(super) const DRAFT_BYTES_MAX: usize = 32 << 20;

#[derive(Debug)]
struct Draft {
    io: Io,
    buffer: Buffer,
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

    /// Keeps what `io` writes. There is room, and no draft of the same number.
    pub(super) fn keep(&mut self, io: &Io, buffer: Buffer) {
        let place = self.place(io.request).unwrap_or_else(|place| place);
        self.bytes += buffer.size();
        self.sorted.insert(place, Draft { io: *io, buffer });
    }

    /// Takes the draft of a request out.
    pub(super) fn take(&mut self, request: u64) -> Option<(Io, Buffer)> {
        let Draft { io, buffer } = self.sorted.remove(self.place(request).ok()?)?;
        self.bytes -= buffer.size();
        Some((io, buffer))
    }

    fn place(&self, request: u64) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&request, |draft| draft.io.request)
    }
}
