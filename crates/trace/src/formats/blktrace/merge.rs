//! The files of a recording as one stream.
//!
//! blktrace writes a file per processor. A request is queued on one and completed on another, so
//! nothing can be said before they are brought into one order: by time, and where the clock says
//! the same, by number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::feed::{Feed, Wanted};
use super::notices::Notices;
use super::record::{Event, kind};
use crate::error::TraceError;

/// All files of a recording.
pub(super) struct Merge {
    feeds: Vec<Feed>,
    /// The next event of each feed, by its number.
    heads: Vec<Event>,
    /// The feeds that have one, by time, sequence and number.
    order: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// What the feeds are to give out.
    pub(super) wanted: Wanted,
    /// What the recorder said.
    pub(super) notices: Notices,
}

impl Merge {
    /// Reads the first events of all files.
    pub(super) fn new(mut feeds: Vec<Feed>, wanted: Wanted) -> Result<Self, TraceError> {
        let mut notices = Notices::default();
        let mut heads = vec![Event::default(); feeds.len()];
        let mut order = BinaryHeap::with_capacity(feeds.len());
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Some(event) = feed.next(wanted, &mut notices)? {
                heads[index] = event;
                order.push(Reverse((event.time, event.sequence, index)));
            }
        }
        Ok(Self { feeds, heads, order, wanted, notices })
    }

    /// The next event of the recording.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(mut first) = self.order.peek_mut() else { return Ok(None) };
        let index = first.0.2;
        let event = self.heads[index];
        match self.feeds[index].next(self.wanted, &mut self.notices)? {
            Some(next) => {
                self.heads[index] = next;
                *first = Reverse((next.time, next.sequence, index));
            }
            None => drop(PeekMut::pop(first)),
        }
        Ok(Some(event))
    }

    /// The files.
    pub(super) fn feeds(&self) -> &[Feed] {
        &self.feeds
    }

    /// How many events of each kind were read, passthrough commands left out.
    pub(super) fn kinds(&self) -> [u64; kind::COUNT] {
        self.sum(|feed| &feed.kinds)
    }

    /// How many passthrough commands were read: each is issued once but need not be inserted.
    pub(super) fn passthrough(&self) -> u64 {
        let kinds = self.sum(|feed| &feed.passthrough);
        match kinds[usize::from(kind::ISSUE)] {
            0 => kinds[usize::from(kind::INSERT)],
            issued => issued,
        }
    }

    fn sum(&self, counts: impl Fn(&Feed) -> &[u64; kind::COUNT]) -> [u64; kind::COUNT] {
        let mut sum = [0; kind::COUNT];
        for feed in &self.feeds {
            for (sum, count) in sum.iter_mut().zip(counts(feed)) {
                *sum += count;
            }
        }
        sum
    }
}
