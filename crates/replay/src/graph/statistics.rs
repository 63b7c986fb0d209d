//! Figures of a graph.
//!
//! A chain begins with a request without parents, and continues with each request whose last parent
//! to complete belongs to it. Its *length* is the largest number of requests in it that wait for
//! one another in sequence. *Width* is the number of concurrent requests, none of which waits for
//! another: the number in flight, just after each issue.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioecho_trace::log_linear::{Histogram, middle};
use ioecho_trace::{Nanos, Request};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::Waits;

/// Some quantiles of a distribution, and its largest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// 90 % are at most this.
    pub p90: u64,
    /// 99 % are at most this.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// Figures of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Links between them.
    pub links: u64,
    /// The most parents of a request.
    pub parents_max: u64,
    /// Requests without parents, each of which begins a chain.
    pub chains: u64,
    /// Their share of all requests, which remains an open load.
    pub open_share: f64,
    /// The number of requests in sequence in a chain.
    pub length: Spread,
    /// The number of concurrent requests, on average over the requests.
    pub width_mean: f64,
    /// The most concurrent requests.
    pub width_max: u64,
    /// Think times in nanoseconds.
    pub think_ns: Spread,
    /// All think times together, in nanoseconds.
    pub think_sum_ns: u64,
}

/// Counts the figures of a graph. Memory is bounded by the window.
#[derive(Debug)]
pub struct Statistics {
    window_rows: u64,
    /// For each row of the window its chain, its depth in the chain, and the instant of its
    /// completion.
    rows: VecDeque<(u64, u64, i64)>,
    base: u64,
    /// For each chain its length, and its last row.
    chains: FxHashMap<u64, (u64, u64)>,
    lengths: Exact,
    thinks: Exact,
    in_flight: BinaryHeap<Reverse<i64>>,
    widths: u64,
    unswept: u64,
    figures: Figures,
}

/// A distribution with its exact largest value.
#[derive(Debug, Default)]
struct Exact {
    histogram: Histogram<7>,
    max: u64,
}

impl Exact {
    fn record(&mut self, value: u64) {
        self.histogram.record(value);
        self.max = self.max.max(value);
    }

    fn spread(&self) -> Spread {
        let at =
            |share| self.histogram.at(share).map_or(0, |(bin, ..)| middle::<7>(bin).min(self.max));
        Spread { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: self.max }
    }
}

impl Statistics {
    /// Counts a graph whose parents are at most this number of rows away.
    pub fn new(window_rows: u64) -> Self {
        Self {
            window_rows: window_rows.max(1),
            rows: VecDeque::new(),
            base: 0,
            chains: FxHashMap::default(),
            lengths: Exact::default(),
            thinks: Exact::default(),
            in_flight: BinaryHeap::new(),
            widths: 0,
            unswept: 0,
            figures: Figures::default(),
        }
    }

    /// Counts the next request.
    pub fn add(&mut self, request: &Request, waits: Waits<'_>) {
        let start = request.issue.0;
        while self.in_flight.peek().is_some_and(|Reverse(end)| *end <= start) {
            self.in_flight.pop();
        }
        let latency = request.latency.filter(|latency| *latency >= Nanos::ZERO);
        let end = start.saturating_add(latency.map_or(0, |latency| latency.0));
        self.in_flight.push(Reverse(end));
        let width = self.in_flight.len() as u64;
        let figures = &mut self.figures;
        figures.requests += 1;
        figures.links += waits.parents.len() as u64;
        figures.parents_max = figures.parents_max.max(waits.parents.len() as u64);
        figures.width_max = figures.width_max.max(width);
        self.widths += width;
        if let Some(think) = waits.think {
            let think = think.0.max(0) as u64;
            self.thinks.record(think);
            figures.think_sum_ns = figures.think_sum_ns.saturating_add(think);
        }
        self.lengthen(waits, end);
    }

    /// Adds the request to its chain.
    fn lengthen(&mut self, waits: Waits<'_>, end: i64) {
        let known = |row: &u64| self.rows.get(row.checked_sub(self.base)? as usize).copied();
        let (mut chain, mut depth, mut latest) = (waits.row, 0, i64::MIN);
        for (of_parent, parent_depth, parent_end) in waits.parents.iter().filter_map(known) {
            depth = depth.max(parent_depth);
            if parent_end >= latest {
                (chain, latest) = (of_parent, parent_end);
            }
        }
        let depth = depth + 1;
        self.figures.chains += u64::from(waits.parents.is_empty());
        let entry = self.chains.entry(chain).or_default();
        *entry = (entry.0.max(depth), waits.row);
        self.rows.push_back((chain, depth, end));
        while self.rows.len() as u64 > self.window_rows {
            self.rows.pop_front();
            self.base += 1;
        }
        self.unswept += 1;
        if self.unswept > self.window_rows {
            self.unswept = 0;
            let (base, lengths) = (self.base, &mut self.lengths);
            self.chains.retain(|_, (length, last)| {
                let goes_on = *last >= base;
                if !goes_on {
                    lengths.record(*length);
                }
                goes_on
            });
        }
    }

    /// The figures of all counted requests.
    pub fn finish(mut self) -> Figures {
        for (length, _) in std::mem::take(&mut self.chains).into_values() {
            self.lengths.record(length);
        }
        let requests = self.figures.requests.max(1) as f64;
        Figures {
            open_share: self.figures.chains as f64 / requests,
            length: self.lengths.spread(),
            width_mean: self.widths as f64 / requests,
            think_ns: self.thinks.spread(),
            ..self.figures
        }
    }
}
