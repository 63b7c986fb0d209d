//! Results become intervals.
//!
//! An interval may be closed when no result of it can come any more: when every lane's own clock
//! has passed its end and the rings have been emptied since. Lanes on simulated targets have clocks
//! of their own that may be far apart, so several intervals are open at a time; but not any number
//! of them. What comes for a closed one (a request that the device gave up late, a lane far behind)
//! counts in the oldest that is open: no sum loses it.

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

/// Open intervals at most; each may hold some megabytes of histograms.
const OPEN_MAX: usize = 16;

/// So many intervals without any result have a line each; a longer gap has one line in all.
const GAP_MAX: i64 = 1000;

/// Optional columns that the picture of a run draws.
const DRAWN: Columns =
    Columns { latency: true, origin: false, measured: true, dependencies: false };

/// The figures of the whole run so far, for whoever draws or judges them.
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

/// What counts results into intervals.
pub(crate) struct Tally {
    width: i64,
    controls: Vec<Arc<Control>>,
    /// Where requests have instants at which they are due.
    demand: Option<Arc<Mutex<Demand>>>,
    board: Arc<Board>,
    portrait: Option<Portrait>,
    simulated: bool,
    open: BTreeMap<i64, Interval>,
    /// The oldest open interval.
    next: i64,
    /// The last instant that any result told of.
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

    /// In simulated time the wall clock says when an interval was closed, no more.
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
        // What was never issued, or never answered, counts when that became known: now.
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

    /// Closes everything, the last interval where the run ended.
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
mod tests;
