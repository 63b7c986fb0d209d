//! The files of a recording as one stream.
//!
//! blktrace writes a file per processor. A request is queued on one processor and completed on
//! another, so the events must first be merged: by time, and at the same instant by sequence
//! number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::feed::Wanted;
use super::gaps::{Coming, Gaps};
use super::notices::Notices;
use super::record::{Event, kind};
use crate::error::TraceError;

/// The events of one processor, or of the whole recording, in the order of their time.
pub(in crate::formats) trait Lane: Send {
    /// The next event by time, of the kinds that are wanted.
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError>;

    /// The number of the processor; `None` for a lane of the whole recording.
    fn cpu(&self) -> Option<u32>;

    /// The number of events of each kind that were read, without passthrough commands.
    fn kinds(&self) -> &[u64; kind::COUNT];

    /// The number of passthrough commands of each kind that were read.
    fn passthrough(&self) -> &[u64; kind::COUNT];

    /// The number of events that came too late to be sorted.
    fn out_of_order(&self) -> u64;

    /// The stretches in which events were lost.
    fn gaps(&self) -> &Gaps;

    /// The place at which the lane broke off, and the reason; `None` if it is whole.
    fn damage(&self) -> Option<String>;

    /// The number of events that were left out because they lie in no recorded partition.
    fn outside(&self) -> u64 {
        0
    }
}

/// All lanes of a recording.
pub(in crate::formats) struct Merge<L> {
    feeds: Vec<L>,
    /// The next event of each feed, by its number.
    heads: Vec<Event>,
    /// The feeds that have a next event, by its time and sequence and the feed's number.
    order: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// The settings of all feeds.
    pub(in crate::formats) wanted: Wanted,
    /// The recorder's notices.
    pub(in crate::formats) notices: Notices,
    /// The stretches in which lanes lost events, as they become known.
    pub(in crate::formats) gaps: Coming,
}

impl<L: Lane> Merge<L> {
    /// Reads the first events of all lanes.
    pub(in crate::formats) fn new(mut feeds: Vec<L>, wanted: Wanted) -> Result<Self, TraceError> {
        let mut notices = Notices::default();
        let mut heads = vec![Event::default(); feeds.len()];
        let mut order = BinaryHeap::with_capacity(feeds.len());
        for (index, feed) in feeds.iter_mut().enumerate() {
            if let Some(event) = feed.next(wanted, &mut notices)? {
                heads[index] = event;
                order.push(Reverse((event.time, event.sequence, index)));
            }
        }
        let mut gaps = Coming::new(feeds.len());
        for (index, feed) in feeds.iter().enumerate() {
            gaps.look(index, feed.gaps());
        }
        Ok(Self { feeds, heads, order, wanted, notices, gaps })
    }

    /// The next event of the recording.
    #[inline]
    pub(in crate::formats) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        let Some(mut first) = self.order.peek_mut() else { return Ok(None) };
        let index = first.0.2;
        let event = self.heads[index];
        let next = self.feeds[index].next(self.wanted, &mut self.notices)?;
        self.gaps.look(index, self.feeds[index].gaps());
        match next {
            Some(next) => {
                self.heads[index] = next;
                *first = Reverse((next.time, next.sequence, index));
            }
            None => drop(PeekMut::pop(first)),
        }
        Ok(Some(event))
    }

    /// The lanes.
    pub(in crate::formats) fn feeds(&self) -> &[L] {
        &self.feeds
    }

    /// The number of events of each kind that were read, without passthrough commands.
    pub(in crate::formats) fn kinds(&self) -> [u64; kind::COUNT] {
        self.sum(L::kinds)
    }

    /// The number of passthrough commands that were read: each is issued once but need not be
    /// inserted.
    pub(in crate::formats) fn passthrough(&self) -> u64 {
        let kinds = self.sum(L::passthrough);
        match kinds[usize::from(kind::ISSUE)] {
            0 => kinds[usize::from(kind::INSERT)],
            issued => issued,
        }
    }

    /// The number of lost events.
    pub(in crate::formats) fn lost(&self) -> u64 {
        self.feeds.iter().fold(0, |sum, feed| sum.saturating_add(feed.gaps().events()))
    }

    /// The places at which lanes broke off, and the reasons, in one sentence; `None` if all are
    /// whole.
    pub(in crate::formats) fn damage(&self) -> Option<String> {
        let damage: Vec<_> = self.feeds.iter().filter_map(L::damage).collect();
        (!damage.is_empty()).then(|| damage.join("; "))
    }

    fn sum(&self, counts: impl Fn(&L) -> &[u64; kind::COUNT]) -> [u64; kind::COUNT] {
        let mut sum = [0; kind::COUNT];
        for feed in &self.feeds {
            for (sum, count) in sum.iter_mut().zip(counts(feed)) {
                *sum += count;
            }
        }
        sum
    }
}
