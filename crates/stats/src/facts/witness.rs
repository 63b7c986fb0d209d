//! What the device saw of a run, for the verdict.
//!
//! The engine knows only when it handed a request over; a recording made during the run shows when
//! the device got it. These are its figures that the verdict needs; `ioecho check` has the others.

use serde::{Deserialize, Serialize};

use super::merging;
use crate::fidelity::FidelityFigures;

/// What a recording made beside a run says of it. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WitnessFacts {
    /// Why there is none though one was asked for; empty where there is one.
    pub failure: String,
    /// Requests of the run, issued or not.
    pub asked: u64,
    /// Requests that the device saw, in whatever form.
    pub found: u64,
    /// Of these, in pieces.
    pub split: u64,
    /// Of these, as parts of others.
    pub merged: u64,
    /// Requests that the run issued and the device never saw. Flushes that the kernel ends above a
    /// device without a volatile cache are not among them.
    pub missing: u64,
    /// Requests that the run issued where the recorder could see nothing, because events were lost.
    pub not_witnessed: u64,
    /// Requests that the device saw while the run went on and that the run did not issue.
    pub extra: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// Whether recording and run count from the same instant; otherwise a constant delay does not
    /// show.
    pub absolute: bool,
    /// The median of the delay, where it is known.
    pub shift_ns: Option<i64>,
    /// Error of issue at the device, early or late, less that median: half of the requests.
    pub issue_p50_ns: i64,
    /// 99 of 100.
    pub issue_p99_ns: i64,
    /// 999 of 1,000.
    pub issue_p999_ns: i64,
    /// The largest.
    pub issue_max_ns: i64,
    /// Requests that reached the device more than a millisecond late.
    pub late: u64,
    /// Of these, those that were handed over in time and held back on their way.
    pub held_back: u64,
    /// Requests that came after a later one (RFC 4737, Type-P-Reordered).
    pub reordered: u64,
    /// Of these, those that the engine held back for the device's sake: they are a finding about
    /// the device.
    pub reordered_held_back: u64,
    /// Of the others, those that were due more than a millisecond before one that came first.
    pub reordered_apart: u64,
    /// Mean extent of these (RFC 4737, section 4.2), in requests.
    pub extent_mean: f64,
    /// Mean number of the run's requests in flight on the device, where completions were seen.
    pub in_flight_mean: Option<f64>,
}

impl WitnessFacts {
    /// What a comparison found; the recorder lost so many events. The comparison must have been
    /// asked for what is later than [`LATE`](crate::late::LATE), as it is by default.
    pub fn of(figures: &FidelityFigures, lost_events: u64) -> Self {
        let issue = figures.issue.clone().unwrap_or_default();
        let late = figures.late.clone().unwrap_or_default();
        let order = figures.order.clone().unwrap_or_default();
        let not_issued: u64 = figures.not_issued.values().sum();
        Self {
            failure: String::new(),
            asked: figures.asked.requests,
            found: figures.found,
            split: figures.split,
            merged: figures.merged,
            missing: figures.missing_counted().saturating_sub(not_issued),
            not_witnessed: figures.not_witnessed,
            extra: figures.extra_counted(),
            lost_events,
            absolute: figures.absolute,
            shift_ns: figures.shift_ns,
            issue_p50_ns: issue.p50_ns,
            issue_p99_ns: issue.p99_ns,
            issue_p999_ns: issue.p999_ns,
            issue_max_ns: issue.max_ns,
            late: late.requests,
            held_back: late.held_back,
            reordered: order.reordered,
            reordered_held_back: order.held_back,
            reordered_apart: order.apart,
            extent_mean: order.extent_mean,
            in_flight_mean: figures.seen.in_flight_mean,
        }
    }

    /// Adds what was recorded beside another run.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self {
            failure,
            asked,
            found,
            split,
            merged,
            missing,
            not_witnessed,
            extra,
            lost_events,
            absolute,
            shift_ns,
            issue_p50_ns,
            issue_p99_ns,
            issue_p999_ns,
            issue_max_ns,
            late,
            held_back,
            reordered,
            reordered_held_back,
            reordered_apart,
            extent_mean,
            in_flight_mean,
        } = other;
        // If the witness of one run failed, the whole is without proof.
        merging::all_words(&mut self.failure, failure);
        // Every request was asked for in one run: sums.
        for (mine, theirs) in [
            (&mut self.asked, asked),
            (&mut self.found, found),
            (&mut self.split, split),
            (&mut self.merged, merged),
            (&mut self.missing, missing),
            (&mut self.not_witnessed, not_witnessed),
            (&mut self.extra, extra),
            (&mut self.lost_events, lost_events),
            (&mut self.late, late),
            (&mut self.held_back, held_back),
            (&mut self.reordered, reordered),
            (&mut self.reordered_held_back, reordered_held_back),
            (&mut self.reordered_apart, reordered_apart),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
        // If run and recording count from one instant, this is a constant delay: the largest
        // counts. Otherwise it is only the distance of two clocks.
        (self.absolute, self.shift_ns) = (self.absolute, self.shift_ns).max((*absolute, *shift_ns));
        // Percentiles do not merge, but if 99 of 100 requests of each run lie within a bound, so do
        // 99 of 100 of all: the largest is an upper bound.
        for (mine, theirs) in [
            (&mut self.issue_p50_ns, issue_p50_ns),
            (&mut self.issue_p99_ns, issue_p99_ns),
            (&mut self.issue_p999_ns, issue_p999_ns),
            (&mut self.issue_max_ns, issue_max_ns),
        ] {
            *mine = (*mine).max(*theirs);
        }
        // The largest mean: neither run's sum is kept.
        self.extent_mean = self.extent_mean.max(*extent_mean);
        // Of runs on devices of their own; the check goes by each run's own.
        self.in_flight_mean = merging::furthest(self.in_flight_mean, *in_flight_mean, |mean| mean);
    }

    /// Facts of a witness that was asked for and could not be had.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { failure: why.into(), ..Self::default() }
    }

    /// Whether there is anything to judge by.
    pub fn is_there(&self) -> bool {
        self.failure.is_empty() && self.found > 0
    }

    /// The share of the requests seen that reached the device more than a millisecond late.
    pub fn late_share(&self) -> f64 {
        if self.found == 0 { 0.0 } else { self.late as f64 / self.found as f64 }
    }

    /// No request reached the device later than this, a constant delay included.
    pub fn delay_max_ns(&self) -> i64 {
        let constant = self.shift_ns.filter(|_| self.absolute).unwrap_or(0).max(0);
        self.issue_max_ns.saturating_add(constant)
    }

    /// At most 1 % of the requests were later than this at the device, a constant delay included.
    pub fn delay_p99_ns(&self) -> i64 {
        let constant = self.shift_ns.filter(|_| self.absolute).unwrap_or(0).max(0);
        self.issue_p99_ns.saturating_add(constant)
    }
}
