//! Whether a device fell behind its load and never caught up.
//!
//! If the number in flight is hardly limited, an overloaded device accepts every request in time
//! and completes it ever later. No request is late, the replay holds its schedule, and all figures
//! depend on the length of the run. The sign is the backlog: response times that grow during the
//! run and are longest when the load ends, while the device never has all done that was asked for.
//! If it has, the load grew, and not the backlog: each burst is larger than the one before.

use ioecho_trace::Nanos;

use crate::timeline::{Cell, Timeline};
use crate::trend::trend;

/// Parts that a run is cut into, at most.
const ROUNDS: usize = 20;

/// Fewer parts with requests have no trend.
const ROUNDS_MIN: usize = 10;

/// Of a load with few requests, a part has so many in the mean: a device that does one request per
/// second has not done hundreds when its queue has grown to a minute.
const REQUESTS_OF_PART: u64 = 5;

/// With fewer requests in a part, their mean is chance. Of a load with few requests, half as many
/// as the parts have in the mean are enough.
const REQUESTS_MIN: u64 = 10;

/// A shorter run shows only its own beginning, unless completions fell behind by much of it.
const RUN_MIN: Nanos = Nanos::from_secs(1);

/// The share of a shorter run by which completions must have fallen behind.
const BEHIND_SHARE_SHORT: f64 = 0.1;

/// Kendall's tau from which on response times grow: in four of five pairs of parts, the later one
/// is slower.
const TAU: f64 = 0.6;

/// The least ratio of the response times at the end to those of the quickest part. Smaller ratios
/// are normal variation of load and device.
const GROWTH: f64 = 4.0;

/// The least number of requests added to the waiting ones. Fewer may come from one burst.
const WAITING_MIN: f64 = 32.0;

/// The share of the run, and the span, by which completions must have fallen behind: the check
/// `duration` allows a run to take that much longer than demanded.
const BEHIND_SHARE: f64 = 0.001;
const BEHIND_MIN_NS: f64 = 5e6;

/// From this ratio of the arrivals in the second half to those in the first, the load grew.
const LOAD_GREW: f64 = 1.2;

/// Response times by when requests were due.
#[derive(Clone, Debug, Default)]
pub(super) struct Backlog {
    line: Timeline<Responses>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Responses {
    count: u64,
    sum_ns: i128,
    /// When the last of these requests was completed.
    done_ns: i64,
}

impl Cell for Responses {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.done_ns = self.done_ns.max(other.done_ns);
    }
}

/// A backlog that grew until the load ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The mean response time of the quickest part of the run.
    pub from: Nanos,
    /// The mean response time of its last tenth.
    pub to: Nanos,
    /// Requests that were added to the waiting ones, by Little's law with the rate of arrival. The
    /// device completes fewer than arrive, so this is an upper bound.
    pub waiting: u64,
    /// Whether it grew from the beginning, or the load did. Otherwise the device became slower
    /// while it ran.
    pub throughout: bool,
}

impl Backlog {
    pub(super) fn observe(&mut self, due: Nanos, response: Nanos) {
        let cell = self.line.at(due);
        cell.count += 1;
        cell.sum_ns += i128::from(response.0.max(0));
        cell.done_ns = cell.done_ns.max(due.saturating_add(response).0);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.line.merge(&other.line);
    }

    /// The growth of the backlog; `None` if there was none, or if it cannot be determined.
    pub(super) fn growth(&self) -> Option<Growth> {
        let cells = self.line.cells();
        let width = self.line.width().0 as f64;
        let span = width * cells.len() as f64;
        let behind_share = if span < RUN_MIN.0 as f64 { BEHIND_SHARE_SHORT } else { BEHIND_SHARE };
        let count: u64 = cells.iter().map(|cell| cell.count).sum();
        let rounds = (count / REQUESTS_OF_PART).clamp(ROUNDS_MIN as u64, ROUNDS as u64);
        let least = (count / rounds / 2).clamp(1, REQUESTS_MIN);
        let of_round = cells.len().div_ceil(rounds as usize).max(1);
        let rounds: Vec<f64> = cells.chunks(of_round).map(|part| mean(part, least)).collect();
        let known = || rounds.iter().copied().filter(|mean| mean.is_finite());
        if known().count() < ROUNDS_MIN {
            return None;
        }
        let (lowest, highest) =
            (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        let tail_from = cells.len().saturating_sub(cells.len().div_ceil(10));
        let tail = &cells[tail_from..];
        let last = mean(tail, 1);
        let arrived: u64 = tail.iter().map(|cell| cell.count).sum();
        let behind = last - lowest;
        // Little's law for the added requests: the rate of arrival times their additional wait.
        let waiting = arrived as f64 / (width * tail.len() as f64) * behind;
        let rises = |rounds: &[f64]| trend(rounds).is_some_and(|trend| trend.tau >= TAU);
        let grew = last >= GROWTH * lowest
            && last >= highest / 2.0
            && behind > (behind_share * span).max(BEHIND_MIN_NS)
            && waiting >= WAITING_MIN
            && !self.was_all_done(tail_from)
            && (rises(&rounds) || rises(&rounds[rounds.len() / 2..]));
        grew.then_some(Growth {
            from: Nanos(lowest as i64),
            to: Nanos(last as i64),
            waiting: waiting as u64,
            throughout: rises(&rounds[..rounds.len() / 2]) || has_grown(cells),
        })
    }

    /// Whether from this part of the axis on a request ever found all done that was due before.
    fn was_all_done(&self, from: usize) -> bool {
        let width = self.line.width().0;
        let mut done_ns = 0;
        for (number, cell) in
            self.line.cells().iter().enumerate().filter(|(_, cell)| cell.count > 0)
        {
            if number >= from && done_ns <= width.saturating_mul(number as i64) {
                return true;
            }
            done_ns = done_ns.max(cell.done_ns);
        }
        false
    }
}

/// Whether more arrived in the second half of these parts than in the first.
fn has_grown(cells: &[Responses]) -> bool {
    let arrived = |part: &[Responses]| part.iter().map(|cell| cell.count).sum::<u64>() as f64;
    let (first, second) = cells.split_at(cells.len() / 2);
    // The halves need not be of one length.
    let rate = |part: &[Responses]| arrived(part) / part.len().max(1) as f64;
    rate(second) > LOAD_GREW * rate(first)
}

/// The mean of these parts, in nanoseconds; not a number (NaN) with fewer requests than this.
fn mean(cells: &[Responses], least: u64) -> f64 {
    let mut all = Responses::default();
    for cell in cells {
        all.merge(cell);
    }
    if all.count < least.max(1) { f64::NAN } else { all.sum_ns as f64 / all.count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of 1000 requests/s for ten seconds; `response` gives the response time for the
    /// millisecond in which a request was due.
    fn of(response: impl Fn(i64) -> f64) -> Option<Growth> {
        let mut backlog = Backlog::default();
        for ms in 0..10_000 {
            backlog.observe(Nanos::from_millis(ms), Nanos((response(ms) * 1e6) as i64));
        }
        backlog.growth()
    }

    #[test]
    fn a_device_that_falls_behind_all_the_time_has_a_backlog_at_the_end() {
        // The device can do ninety-nine of a hundred requests, so each second of load adds 10 ms.
        let grown = of(|ms| 1.0 + ms as f64 / 100.0).unwrap();
        assert!((90..=100).contains(&grown.waiting), "{grown:?}");
        assert!(grown.to > Nanos::from_millis(90) && grown.from < Nanos::from_millis(6));
        assert!(grown.throughout);
        // From the middle on the load is more than the device can do.
        let later = of(|ms| 1.0 + (ms - 6000).max(0) as f64 / 50.0).unwrap();
        assert!(!later.throughout, "{later:?}");
    }

    #[test]
    fn a_load_that_grew_makes_no_device_slower() {
        let mut backlog = Backlog::default();
        for ms in 0..10_000_i64 {
            // From the middle on half as much again arrives, and waits for ever longer.
            let response = Nanos::from_millis(1 + (ms - 6000).max(0) / 50);
            for _ in 0..if ms < 5000 { 2 } else { 3 } {
                backlog.observe(Nanos::from_millis(ms), response);
            }
        }
        assert!(backlog.growth().unwrap().throughout);
    }

    #[test]
    fn stalls_that_are_made_up_for_and_steady_slowness_are_no_backlog() {
        assert_eq!(of(|_| 400.0), None);
        // Stalls of 800 ms every other second, after which the device catches up immediately.
        assert_eq!(of(|ms| (800 - ms % 2000).max(1) as f64), None);
        // One such stall, at the very end.
        assert_eq!(of(|ms| (ms - 9200).max(1) as f64), None);
        // The device fell behind and caught up.
        assert_eq!(of(|ms| 1.0 + (3000 - (ms - 4000).abs()).max(0) as f64 / 10.0), None);
        // Slower from the middle on, and flat there.
        assert_eq!(of(|ms| if ms < 5000 { 1.0 } else { 60.0 + (ms * 37 % 11) as f64 }), None);
        // Ten times slower at the end, and yet no queue in the device.
        assert_eq!(of(|ms| 0.1 + ms as f64 / 10_000.0), None);
    }

    /// So many requests, one every so many microseconds, of a device that does one at a time.
    fn queued(count: i64, every_us: i64, service_us: i64) -> Option<Growth> {
        let (mut backlog, mut free) = (Backlog::default(), 0);
        for due in (0..count).map(|number| number * every_us) {
            free = due.max(free) + service_us;
            backlog.observe(Nanos::from_micros(due), Nanos::from_micros(free - due));
        }
        backlog.growth()
    }

    #[test]
    fn bursts_that_grow_and_are_worked_off_before_the_next_are_no_backlog() {
        // So many requests more each second, of a device that does 1000 in a second.
        let bursts = |more: i64| {
            let (mut backlog, mut free) = (Backlog::default(), 0);
            for second in (0..20).flat_map(|second| (0..second * more).map(move |_| second)) {
                let due = second * 1_000_000;
                free = due.max(free) + 1000;
                backlog.observe(Nanos::from_micros(due), Nanos::from_micros(free - due));
            }
            backlog.growth()
        };
        assert_eq!(bursts(40), None);
        assert!(bursts(120).is_some());
    }

    #[test]
    fn a_short_load_and_one_of_few_requests_can_be_too_much_too() {
        // One request per second of 20 demanded; one of two.
        assert!(queued(60, 50_000, 1_000_000).is_some());
        assert!(queued(120, 500_000, 1_000_000).is_some());
        // 5000 requests per second of 100,000 demanded for 20 ms; of 6000 for 600 ms.
        assert!(queued(2000, 10, 200).is_some());
        assert!(queued(3600, 167, 200).is_some());
        // The device does them all, in one run long and in the other short.
        assert_eq!(queued(60, 50_000, 40_000), None);
        assert_eq!(queued(3600, 167, 160), None);
    }

    #[test]
    fn the_backlog_of_the_parts_is_that_of_the_whole() {
        let mut parts = [Backlog::default(), Backlog::default()];
        let mut whole = Backlog::default();
        for ms in 0..5000 {
            let (due, response) = (Nanos::from_millis(ms), Nanos::from_millis(1 + ms / 10));
            parts[(ms % 2) as usize].observe(due, response);
            whole.observe(due, response);
        }
        let [mut one, other] = parts;
        one.merge(&other);
        assert_eq!(one.growth(), whole.growth());
        assert!(one.growth().is_some());
    }
}
