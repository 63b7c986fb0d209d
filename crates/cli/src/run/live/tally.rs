//! Adds results to intervals.
//!
//! An interval is closed when no more results of it can come. That is so when every lane's clock
//! has passed its end and the rings were emptied after that. Simulated targets have clocks of their
//! own that may be far apart, so several intervals are open at a time, up to a limit. A late result
//! for a closed interval (of a request that the device gave up late, or of a lane that is far
//! behind) counts in the oldest open interval. So every sum is complete.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use ioecho_replay::Record;
use ioecho_replay::engine::Control;
use ioecho_replay::journal::to_request;
use ioecho_run::observer::Counter;
use ioecho_run::observer::Demand;
use ioecho_stats::interval::Interval;
use ioecho_stats::run_summary::RunFigures;
use ioecho_trace::{Batch, Columns, Nanos};

use crate::run::live::board::Board;

/// How many intervals may be open. Each may hold some megabytes of histograms.
const OPEN_MAX: usize = 16;

/// So many intervals in a row without results have a line each. A longer gap has only one line.
const GAP_MAX: i64 = 1000;

/// The optional columns that the picture of a run needs.
const DRAWN: Columns =
    Columns { latency: true, origin: false, measured: true, dependencies: false };

/// The figures of the whole run so far, for drawing and judging.
#[derive(Debug)]
pub(crate) struct Portrait {
    batch: Batch,
    figures: Arc<Mutex<RunFigures>>,
}

impl Portrait {
    pub(crate) fn new(figures: Arc<Mutex<RunFigures>>) -> Self {
        Self { batch: Batch::new(DRAWN), figures }
    }

    fn add(&mut self, record: &Record) {
        self.batch.push(&to_request(record));
        if self.batch.is_full() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let mut figures = self.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        figures.observe(&self.batch);
        self.batch.reset(DRAWN);
    }
}

/// Counts results into intervals.
pub(crate) struct Tally {
    width: i64,
    controls: Vec<Arc<Control>>,
    /// Whether requests have instants at which they are due.
    demand: Option<Arc<Mutex<Demand>>>,
    board: Arc<Board>,
    portrait: Option<Portrait>,
    simulated: bool,
    open: BTreeMap<i64, Interval>,
    /// The oldest open interval.
    next: i64,
    /// The latest instant in any result.
    last: i64,
}

impl Tally {
    pub(crate) fn new(width: Nanos, controls: Vec<Arc<Control>>, board: Arc<Board>) -> Self {
        Self {
            width: width.0.max(1),
            controls,
            demand: None,
            board,
            portrait: None,
            simulated: false,
            open: BTreeMap::new(),
            next: 0,
            last: 0,
        }
    }

    pub(crate) fn with_demand(self, demand: Arc<Mutex<Demand>>) -> Self {
        Self { demand: Some(demand), ..self }
    }

    pub(crate) fn with_portrait(self, portrait: Portrait) -> Self {
        Self { portrait: Some(portrait), ..self }
    }

    /// In simulated time the wall clock only says when an interval was closed.
    pub(crate) fn simulated(self, simulated: bool) -> Self {
        Self { simulated, ..self }
    }

    /// Closes all intervals before the one with the number `limit`.
    fn close(&mut self, limit: i64, now: i64) {
        while self.next < limit {
            let first = self.open.first_key_value().map_or(limit, |(first, _)| *first);
            let until = match first.min(limit) {
                gap if gap - self.next > GAP_MAX => gap,
                _ => self.next + 1,
            };
            let figures = self.open.remove(&self.next).unwrap_or_default();
            let end = until.saturating_mul(self.width);
            self.put(figures, until, end, now);
        }
    }

    fn put(&mut self, mut interval: Interval, until: i64, end: i64, now: i64) {
        if let Some(portrait) = &mut self.portrait {
            portrait.flush();
        }
        if self.demand.is_none() {
            interval.forget_schedule();
        }
        let demand = self.demand.as_ref().and_then(|demand| demand.lock().ok());
        let ago = if self.simulated { 0 } else { now.saturating_sub(end).max(0) };
        let in_flight = self.controls.iter().map(|control| control.in_flight.load(Relaxed));
        interval.number = self.next as u64 + 1;
        interval.start = Nanos(self.next.saturating_mul(self.width));
        interval.end = Nanos(end);
        interval.epoch_ns = wall_clock().saturating_sub(ago);
        interval.demanded = demand.map(|mut demand| demand.due_in_intervals_before(until));
        interval.in_flight = in_flight.fold(0, u32::saturating_add);
        self.next = until;
        self.board.put(interval);
    }
}

impl Counter for Tally {
    fn clock(&self, running: &[bool]) -> Option<i64> {
        let lanes = self.controls.iter().zip(running).filter(|(_, running)| **running);
        lanes.map(|(control, _)| control.now_ns.load(Relaxed)).min()
    }

    fn add(&mut self, record: &Record) {
        let Record { planned, measured } = record;
        // A request without a submission or a completion counts at the instant at which that became
        // known.
        let at = measured.completed.map_or(i64::MIN, |at| at.0);
        self.last = self.last.max(at).max(measured.submitted.map_or(0, |at| at.0));
        let number = at.div_euclid(self.width).max(self.next);
        self.open.entry(number).or_default().observe(planned.op, planned.length, measured);
        if let Some(portrait) = &mut self.portrait {
            portrait.add(record);
        }
        while self.open.len() > OPEN_MAX
            && let Some((oldest, _)) = self.open.first_key_value()
        {
            self.close(*oldest + 1, self.last);
        }
    }

    fn close_until(&mut self, now: i64) {
        self.close(now.div_euclid(self.width), now);
    }

    /// Closes all intervals. The last one ends with the run.
    fn finish(&mut self) {
        let clocks = self.controls.iter().map(|control| control.now_ns.load(Relaxed));
        let end = clocks.max().unwrap_or(0).max(self.last);
        let newest = self.open.last_key_value().map_or(0, |(newest, _)| *newest);
        self.close(newest.max(end.div_euclid(self.width)), end);
        let start = self.next.saturating_mul(self.width);
        let figures = self.open.remove(&self.next);
        if figures.is_some() || end > start {
            let mut figures = figures.unwrap_or_default();
            figures.partial = true;
            self.put(figures, self.next + 1, end.max(start), end);
        }
    }
}

/// Nanoseconds since 1970 (UTC).
pub(crate) fn wall_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "tally_tests.rs"]
pub(crate) mod tests;
