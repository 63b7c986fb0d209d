//! Events that are nearly in the order of their time.
//!
//! Every recorder writes some events a few places late: an interrupt may come between reading the
//! clock and writing, and programs that merge the files of several processors do not wait for late
//! ones. So a small number of events is held back and sorted by time; a still later event gets its
//! predecessor's time and is counted.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::record::Event;

/// The number of events that are held back: kernels were seen to displace events by a few places.
pub(in crate::formats) const WINDOW: usize = 1024;

/// Events that are brought into the order of their time.
#[derive(Debug, Default)]
pub(in crate::formats) struct Order {
    window: VecDeque<Event>,
    /// Events that came behind an event of a later time.
    late: BinaryHeap<Reverse<Late>>,
    arrivals: u64,
    /// The time of the last event in `window` and of the last one given out.
    newest: u64,
    given: u64,
    /// The number of events that came too late for the window.
    pub(in crate::formats) too_late: u64,
}

/// An event that came late, ordered by time and then by arrival.
#[derive(Debug)]
struct Late {
    event: Event,
    arrival: u64,
}

impl Order {
    /// The number of events that are held back.
    #[inline]
    pub(in crate::formats) fn len(&self) -> usize {
        self.window.len() + self.late.len()
    }

    /// Takes the next event as it comes.
    #[inline]
    pub(in crate::formats) fn push(&mut self, event: Event) {
        if event.time >= self.newest {
            self.newest = event.time;
            self.window.push_back(event);
        } else {
            self.arrivals += 1;
            self.late.push(Reverse(Late { event, arrival: self.arrivals }));
        }
    }

    /// The next event by time of those held back.
    #[inline]
    pub(in crate::formats) fn pop(&mut self) -> Option<Event> {
        let late = match (self.window.front(), self.late.peek()) {
            (_, None) => false,
            (Some(first), Some(Reverse(late))) => late.event.time < first.time,
            (None, Some(_)) => true,
        };
        let event = if late {
            self.late.pop().map(|Reverse(late)| late.event)
        } else {
            self.window.pop_front()
        };
        let mut event = event?;
        if event.time < self.given {
            event.time = self.given;
            self.too_late += 1;
        }
        self.given = event.time;
        Some(event)
    }
}

impl Ord for Late {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.event.time, self.arrival).cmp(&(other.event.time, other.arrival))
    }
}

impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Late {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Late {}
