//! The board that shows the state of a running run.
//!
//! The writer's thread puts up closed intervals and must never wait for a reader. Readers take what
//! they can. So the board keeps three things: the whole run in one interval, the last intervals for
//! panels, and a short queue for lines. When the queue is full, its newest intervals are merged. In
//! simulated time the writer may wait, because it delays nobody. There every interval gets its
//! line.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ioecho_stats::interval::Interval;
use ioecho_stats::picture::Span;
use ioecho_stats::raster::Column;
use ioecho_trace::Nanos;

/// How many intervals may wait for their lines.
const QUEUE: usize = 8;

/// How many past intervals the panels can draw.
pub(crate) const RECENT: usize = 600;

/// The contents of the board.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The run so far, up to the last closed interval.
    pub(crate) whole: Interval,
    /// The last intervals without their histograms, the newest last.
    pub(crate) recent: VecDeque<Glance>,
    /// The newest interval.
    pub(crate) last: Interval,
    /// Whether the run has ended, so that no more intervals come.
    pub(crate) ended: bool,
    queue: VecDeque<Interval>,
}

/// The figures of an interval that panels draw.
#[derive(Clone, Debug, Default)]
#[cfg_attr(not(feature = "live"), expect(dead_code, reason = "there are no panels to draw it"))]
pub(crate) struct Glance {
    pub(crate) demanded_per_s: Option<f64>,
    pub(crate) completed_per_s: f64,
    /// Requests in flight when the interval was closed.
    pub(crate) in_flight: u32,
    /// The most requests in flight at any submission in the interval. There may be a peak between
    /// two looks.
    pub(crate) in_flight_max: u32,
    /// How late the latest request was issued.
    pub(crate) lateness_max: Option<Nanos>,
    pub(crate) sonar: Column,
}

impl Glance {
    fn at(interval: &Interval) -> Self {
        Self {
            demanded_per_s: interval.demanded_per_s(),
            completed_per_s: interval.completed_per_s(),
            in_flight: interval.in_flight,
            in_flight_max: interval.in_flight_max.max(interval.in_flight),
            lateness_max: interval.spans_of_all(Span::Lateness).max(),
            sonar: interval.sonar.clone(),
        }
    }
}

/// The board.
#[derive(Debug)]
pub(crate) struct Board {
    state: Mutex<State>,
    moved: Condvar,
    /// Whether the writer waits while the queue is full.
    waits: bool,
    /// Whether a thread takes intervals from the queue.
    queues: bool,
}

impl Board {
    pub(crate) fn new(waits: bool, queues: bool) -> Self {
        Self { state: Mutex::default(), moved: Condvar::new(), waits, queues }
    }

    /// Reads the board. The writer waits meanwhile, so `look` must be short.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts up a closed interval.
    pub(crate) fn put(&self, interval: Interval) {
        let mut state = self.look();
        state.whole.merge(&interval);
        if self.queues {
            while self.waits && state.queue.len() >= QUEUE && !state.ended {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.queue.len() < QUEUE {
                state.queue.push_back(interval.clone());
            } else if let Some(newest) = state.queue.back_mut() {
                newest.merge(&interval);
            }
        }
        state.recent.push_back(Glance::at(&interval));
        if state.recent.len() > RECENT {
            state.recent.pop_front();
        }
        state.last = interval;
        drop(state);
        self.moved.notify_all();
    }

    /// The next interval that waits for its line, or `None` when the run has ended and none waits.
    pub(crate) fn next(&self) -> Option<Interval> {
        let mut state = self.look();
        loop {
            if let Some(interval) = state.queue.pop_front() {
                drop(state);
                self.moved.notify_all();
                return Some(interval);
            }
            if state.ended {
                return None;
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No more intervals come.
    pub(crate) fn end(&self) {
        self.look().ended = true;
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Interval {
        let at = |n: u64| Nanos::from_secs(n as i64);
        let mut interval = Interval::between(number, at(number - 1), at(number));
        interval.requests = number;
        interval
    }

    #[test]
    fn a_slow_reader_gets_wider_intervals_and_misses_no_request() {
        let board = Board::new(false, true);
        (1..=100).for_each(|number| board.put(second(number)));
        board.end();
        let lines: Vec<Interval> = std::iter::from_fn(|| board.next()).collect();
        assert_eq!(lines.len(), QUEUE);
        assert_eq!(lines.iter().map(|line| line.requests).sum::<u64>(), 5050);
        let last = lines.last().unwrap();
        assert_eq!((last.number, last.end), (QUEUE as u64, Nanos::from_secs(100)));
        assert!(lines.is_sorted_by(|a, b| a.end == b.start));
    }

    #[test]
    fn in_simulated_time_the_writer_waits_and_every_interval_gets_its_line() {
        let board = std::sync::Arc::new(Board::new(true, true));
        let theirs = std::sync::Arc::clone(&board);
        let writer = std::thread::spawn(move || {
            (1..=100).for_each(|number| theirs.put(second(number)));
            theirs.end();
        });
        let lines = std::iter::from_fn(|| board.next()).count();
        writer.join().unwrap();
        assert_eq!(lines, 100);
    }

    #[test]
    fn panels_look_back_only_so_far() {
        let board = Board::new(false, false);
        (1..=2 * RECENT as u64).for_each(|number| board.put(second(number)));
        let state = board.look();
        assert_eq!(state.recent.len(), RECENT);
        assert_eq!(state.last.number, 2 * RECENT as u64);
        assert_eq!(state.whole.end, Nanos::from_secs(2 * RECENT as i64));
    }
}
