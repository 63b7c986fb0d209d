//! Order: which requests came after one that should have come later.
//!
//! RFC 4737, *Packet Reordering Metrics*. The requests asked for are numbered in the order of their
//! instants; those of the same instant have the same number, because they have no order. Section
//! 3.3: a request is *Type-P-Reordered* if its number is smaller than the largest that came before
//! (the RFC's `NextExp` less one). Section 4.1: their share of all that came. Section 4.2: the
//! *extent* of a reordered request at place `i` is `i - j`, where `j` is the first place at which a
//! larger number came. Section 4.6: what comes between two reordered requests is a reordering-free
//! run.

use std::collections::VecDeque;

use ioecho_trace::Nanos;

use super::figures::OrderFigures;
use crate::late::LATE;

/// How many new maxima are remembered. An extent that reaches back further counts from the oldest
/// one, and is thus the least that it can be.
const RECORDS_MAX: usize = 1 << 20;

/// Counts the order of numbers that come one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    came: u64,
    /// Numbers larger than all before, each with its place.
    records: VecDeque<(u64, u64)>,
    reordered: u64,
    held_back: u64,
    apart: u64,
    /// When the request with the largest number was due.
    latest: i64,
    extent_sum: u128,
    extent_max: u64,
    /// How far the numbers of reordered requests lie below the largest before them.
    displacement_sum: u128,
    displacement_max: u64,
    runs: u64,
    run: u64,
    run_max: u64,
}

impl Order {
    /// Takes the next number, of a request that was due at `at`; `is_held_back` if the engine held
    /// it back. Answers whether it is reordered.
    pub(super) fn push(&mut self, number: u64, at: i64, is_held_back: bool) -> bool {
        let place = self.came;
        self.came += 1;
        match self.records.back() {
            Some(&(highest, _)) if number < highest => {
                let first = self.records.partition_point(|&(record, _)| record <= number);
                let extent = place - self.records[first].1;
                self.reordered += 1;
                self.held_back += u64::from(is_held_back);
                let is_apart = Nanos(self.latest.saturating_sub(at)) > LATE;
                self.apart += u64::from(is_apart && !is_held_back);
                self.extent_sum += u128::from(extent);
                self.extent_max = self.extent_max.max(extent);
                self.displacement_sum += u128::from(highest - number);
                self.displacement_max = self.displacement_max.max(highest - number);
                self.runs += u64::from(self.run > 0);
                self.run = 0;
                true
            }
            last => {
                if last.is_none_or(|&(highest, _)| number > highest) {
                    if self.records.len() == RECORDS_MAX {
                        self.records.pop_front();
                    }
                    self.records.push_back((number, place));
                    self.latest = at;
                }
                self.run += 1;
                self.run_max = self.run_max.max(self.run);
                false
            }
        }
    }

    /// Counts what came to another device as well. Nothing can come to this one any longer.
    pub(super) fn join(&mut self, other: &Self) {
        self.came += other.came;
        self.reordered += other.reordered;
        self.held_back += other.held_back;
        self.apart += other.apart;
        self.extent_sum += other.extent_sum;
        self.extent_max = self.extent_max.max(other.extent_max);
        self.displacement_sum += other.displacement_sum;
        self.displacement_max = self.displacement_max.max(other.displacement_max);
        self.runs += u64::from(self.run > 0) + other.runs;
        self.run = other.run;
        self.run_max = self.run_max.max(other.run_max);
    }

    pub(super) fn figures(&self) -> OrderFigures {
        let mean = |sum: u128| {
            if self.reordered == 0 { 0.0 } else { sum as f64 / self.reordered as f64 }
        };
        let in_order = self.came - self.reordered;
        let runs = self.runs + u64::from(self.run > 0);
        OrderFigures {
            reordered: self.reordered,
            held_back: self.held_back,
            apart: self.apart,
            ratio: if self.came == 0 { 0.0 } else { self.reordered as f64 / self.came as f64 },
            extent_mean: mean(self.extent_sum),
            extent_max: self.extent_max,
            displacement_mean: mean(self.displacement_sum),
            displacement_max: self.displacement_max,
            free_runs: runs,
            free_run_mean: if runs == 0 { 0.0 } else { in_order as f64 / runs as f64 },
            free_run_max: self.run_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(numbers: &[u64]) -> OrderFigures {
        let mut order = Order::default();
        for number in numbers {
            order.push(*number, *number as i64, false);
        }
        order.figures()
    }

    #[test]
    fn the_example_of_the_rfc_comes_out_as_there() {
        // Section 7.1 of the RFC, table 1: packet 4 comes behind 5 to 8, so its extent is 4.
        let found = order(&[1, 2, 3, 5, 6, 7, 8, 4, 9, 10]);
        assert_eq!((found.reordered, found.extent_max), (1, 4));
        assert!((found.ratio - 0.1).abs() < 1e-12 && (found.extent_mean - 4.0).abs() < 1e-12);
        assert_eq!(found.displacement_max, 4);
        assert_eq!((found.free_runs, found.free_run_max), (2, 7));
    }

    #[test]
    fn what_is_due_at_almost_the_same_instant_is_not_apart() {
        let apart = |between: i64, is_held_back| {
            let mut order = Order::default();
            order.push(1, between, false);
            order.push(2, between, false);
            assert!(order.push(0, 0, is_held_back));
            order.figures().apart
        };
        assert_eq!([apart(LATE.0, false), apart(LATE.0 + 1, false)], [0, 1]);
        assert_eq!(apart(LATE.0 + 1, true), 0);
    }

    #[test]
    fn a_late_one_does_not_make_those_behind_it_late() {
        // What hfplayer's metrics.py gets wrong: it takes the late one for the new beginning.
        let found = order(&[1, 9, 2, 10, 11]);
        assert_eq!((found.reordered, found.extent_max, found.displacement_max), (1, 1, 7));
    }

    #[test]
    fn requests_of_the_same_instant_have_no_order() {
        assert_eq!(order(&[3, 3, 3, 4, 3]).reordered, 1);
        assert_eq!(order(&[3, 3, 3]).reordered, 0);
    }

    #[test]
    fn nothing_and_one_request_are_in_order() {
        assert_eq!(order(&[]), OrderFigures::default());
        assert_eq!(order(&[7]).reordered, 0);
    }

    #[test]
    fn swapped_neighbours_have_the_extent_one() {
        let found = order(&[1, 0, 3, 2, 5, 4]);
        assert_eq!((found.reordered, found.extent_max), (3, 1));
        assert!((found.ratio - 0.5).abs() < 1e-12 && (found.extent_mean - 1.0).abs() < 1e-12);
    }
}
