//! Processes that keep as many requests in flight all the time.
//!
//! A program with a queue depth of 16 issues a request whenever one has completed. To exclusion
//! alone each of its requests seems to have waited for all completions whose successors are still
//! in flight, and a replay that waits for the last of them keeps half as many in flight. So such a
//! process is taken for what it is: as many closed loops as it keeps in flight. Each request
//! belongs to the loop whose last request completed first, and each loop counts as a process of its
//! own.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

/// The closed loops of such processes.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// By process its loops with nothing in flight, that which completed first in front.
    free: FxHashMap<u32, VecDeque<u32>>,
    /// The process of each loop.
    processes: FxHashMap<u32, u32>,
}

impl Slots {
    /// The loop of a request of `process`, by a number that stands for a process. Processes are
    /// numbered from below, so loops are numbered from above.
    pub(super) fn take(&mut self, process: u32) -> u32 {
        if let Some(slot) = self.free.get_mut(&process).and_then(VecDeque::pop_front) {
            return slot;
        }
        let slot = u32::MAX - self.processes.len() as u32;
        self.processes.insert(slot, process);
        slot
    }

    /// Whether this number stands for a loop.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.processes.contains_key(&slot)
    }

    /// A request of this process or loop has completed.
    pub(super) fn complete(&mut self, slot: u32) {
        if let Some(process) = self.processes.get(&slot) {
            self.free.entry(*process).or_default().push_back(slot);
        }
    }

    /// Forgets which requests are in flight.
    pub(super) fn clear(&mut self) {
        self.free.clear();
        self.processes.clear();
    }
}

/// How many requests a process has in flight when it issues one.
#[derive(Debug, Default)]
pub(super) struct Depths {
    /// Requests by the number in flight then, themselves included; the last place has all above.
    counts: Vec<u32>,
}

/// No program keeps more in flight on purpose.
const DEPTH_MAX: usize = 1024;

/// The share of the requests of such a process that are issued with nearly as many in flight.
const STEADY_SHARE: f64 = 0.9;

/// The fewest requests for each one in flight that show it.
const ROUNDS_MIN: u64 = 16;

impl Depths {
    /// A request was issued, with so many in flight.
    pub(super) fn add(&mut self, in_flight: u64) {
        let at = (in_flight as usize).min(DEPTH_MAX);
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    /// Whether as many are in flight all the time. A process that waits for all of a batch comes
    /// from none to all of them again and again.
    pub(super) fn are_steady(&self) -> bool {
        let most = self.counts.len().saturating_sub(1);
        if !(2..DEPTH_MAX).contains(&most) {
            return false;
        }
        let sum = |counts: &[u32]| counts.iter().map(|count| u64::from(*count)).sum::<u64>();
        let (all, near) = (sum(&self.counts), sum(&self.counts[(3 * most).div_ceil(4)..]));
        all >= ROUNDS_MIN * most as u64 && near as f64 >= STEADY_SHARE * all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depths(in_flight: impl IntoIterator<Item = u64>) -> Depths {
        let mut depths = Depths::default();
        in_flight.into_iter().for_each(|count| depths.add(count));
        depths
    }

    #[test]
    fn a_queue_depth_is_told_from_a_batch_and_from_a_single_request() {
        assert!(depths((1..16).chain([16; 500])).are_steady());
        // Two were reaped at once now and then.
        assert!(depths((1..16).chain([15, 16, 16].repeat(200))).are_steady());
        assert!(!depths((1..=16).collect::<Vec<_>>().repeat(100)).are_steady(), "batches");
        assert!(!depths([1; 500]).are_steady(), "one at a time");
        assert!(!depths([1, 2].repeat(500)).are_steady(), "batches of two");
        assert!(depths([1].into_iter().chain([2; 500])).are_steady());
        assert!(!depths((1..16).chain([16; 50])).are_steady(), "too few to tell");
        assert!(!depths([]).are_steady());
    }

    #[test]
    fn a_request_takes_the_loop_that_completed_first() {
        let mut slots = Slots::default();
        let (first, second, other) = (slots.take(7), slots.take(7), slots.take(8));
        assert!(first != second && other != second && other != first);
        slots.complete(second);
        slots.complete(first);
        slots.complete(3);
        assert_eq!((slots.take(7), slots.take(7)), (second, first));
        assert!(![first, second, other].contains(&slots.take(7)));
    }
}
