//! The first pass over a trace: facts that the inference of parents needs.
//!
//! **The threshold.** Between the completion of a request and the issue of one that waited for it,
//! the system takes an interrupt, wakes a thread and makes a system call. A request that is issued
//! sooner did not wait. The time differs between hosts, so it is measured on requests that
//! certainly waited: those of a process without other requests in flight. The threshold is the
//! first percentile of their think times, and never more than hfplayer's 10 µs, because a missing
//! link does more harm than an additional one.
//!
//! **Who waits for whom.** Four questions are answered for each process from the order of its
//! requests and of completions (`evidence`):
//!
//! * Which other process hands it work? A database's backend waits for its log writer, and a file
//!   system for its journal; four threads of a benchmark do not wait for each other, although their
//!   requests are equally close. Only its *beginnings* count, which are requests without others of
//!   the process in flight, and only completions that are more recent than its own last one: an
//!   earlier one would have woken it earlier. A process that gets work gives an answer, so a pair
//!   counts in both directions, and the events of both are evidence for both.
//! * Does it wait for its own requests? If its requests come before its own completions as often as
//!   after them, it does not. Such a process is *open*. Requests in bursts are no proof, because
//!   something began the burst; nor is a process that begins late and soon ends, such as a kernel
//!   thread that writes back what a program has just finished.
//! * Does it keep as many in flight all the time? Then each of its requests waits for one other
//!   (`slots`).
//! * Does it wait for anybody after an unusually long pause? A shell that waits for its child does,
//!   and no pair of processes occurs often enough to show it. Without evidence it is assumed: a
//!   wrong link keeps the order of events, a missing one keeps the speed of the old storage.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioecho_trace::log_linear::{Histogram, least};
use ioecho_trace::{Nanos, Request};
use rustc_hash::FxHashMap;

use super::evidence::{Evidence, SPAN_MAX_NS};
use super::processes::{Processes, Ties};
use super::slots::Depths;
use super::{Doubts, NEVER, completion};

/// hfplayer's threshold, and the largest one that is derived from a trace.
pub const THRESHOLD_MAX: Nanos = Nanos(10_000);

/// The least number of think times for deriving a threshold.
const SAMPLES_MIN: u64 = 100;

/// The share of the think times below the threshold.
const SAMPLE_SHARE: f64 = 0.01;

/// The numbers of completions, of beginnings, and of requests of a process that are compared.
const NEAR_MAX: usize = 16;

/// The numbers of pairs of processes, and of processes, that are counted.
const PAIRS_MAX: usize = 1 << 16;

/// The number of requests in flight that are followed.
const IN_FLIGHT_MAX: usize = 1 << 22;

/// From so many pauses on, their evidence decides.
const PAUSES_MIN: u64 = 16;

/// A pause is unusually long if it is at least 16 times the median: so many powers of two.
const UNUSUAL_LOG2: usize = 4;

/// The standard deviations from which on a pair of processes is one of many that hands work on, and
/// those from which on a process is likely to be woken by others.
const SURE: f64 = 4.0;
const LIKELY: f64 = 2.0;

/// The largest coefficient of variation, squared, of the time between requests that come evenly. It
/// is 1 for independent arrivals, and far more for bursts.
const EVEN_MAX: f64 = 4.0;

/// The findings of a first pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Requests of the trace.
    pub requests: u64,
    /// A shorter think time means that the request did not wait.
    pub threshold: Nanos,
    /// The number of think times behind the threshold; 0 if there were too few and hfplayer's was
    /// used.
    pub samples: u64,
    /// The processes, and what they wait for.
    pub processes: Processes,
    /// The number of processes that issued requests; 0 if the trace has no processes.
    pub process_count: u64,
    /// The most requests in flight at once.
    pub in_flight_max: u64,
    /// The smallest window in which every request has completed before it is forgotten.
    pub window_rows: u64,
    /// Whether there were more requests in flight than are followed, so that both values are too
    /// small.
    pub is_cut_off: bool,
    /// Requests with a known completion.
    pub completed: u64,
}

/// A first pass over a trace. Requests come in the order of their issue.
pub struct Survey {
    has_processes: bool,
    requests: u64,
    first: Option<i64>,
    latest: i64,
    in_flight: BinaryHeap<Reverse<(i64, u64, u32)>>,
    processes: FxHashMap<u32, Process>,
    /// The last completions.
    completions: VecDeque<(i64, u32)>,
    beginnings: VecDeque<Beginning>,
    /// By giver and taker: the taker's beginnings and the giver's completions.
    pairs: FxHashMap<(u32, u32), Evidence>,
    thinks: Histogram<7>,
    in_flight_max: usize,
    window_rows: u64,
    is_cut_off: bool,
    doubts: Doubts,
}

/// A request that was issued when its process had nothing in flight.
#[derive(Clone, Copy, Debug)]
struct Beginning {
    start: i64,
    pid: u32,
    /// Completions further away than this tell nothing.
    limit: i64,
    /// Whether it came after an unusual pause.
    is_unusual: bool,
    /// The processes whose nearest completion is counted, which may be repeated.
    seen: [u32; NEAR_MAX],
    seen_count: usize,
}

impl Beginning {
    /// Notes a completion of `giver`; returns whether it is the nearest of that process, and
    /// whether it is the nearest of all.
    fn see(&mut self, giver: u32) -> (bool, bool) {
        let is_first = self.seen_count == 0;
        let is_new = self.seen_count < NEAR_MAX && !self.seen[..self.seen_count].contains(&giver);
        if is_new {
            self.seen[self.seen_count] = giver;
            self.seen_count += 1;
        }
        (is_new, is_first)
    }
}

/// What is known about a process.
#[derive(Debug)]
struct Process {
    in_flight: u64,
    last_end: Option<i64>,
    /// How often it had nothing in flight for so long, by the logarithm.
    pauses: [u32; i64::BITS as usize],
    paused: u64,
    /// Its requests and its own completions.
    own: Evidence,
    /// Its beginnings after unusual pauses and completions of any other process.
    woken: Evidence,
    /// The last requests since its last completion: start, row.
    awaiting: VecDeque<(i64, u64)>,
    gaps: Gaps,
    depths: Depths,
}

/// The time between the requests of a process.
#[derive(Debug, Default)]
struct Gaps {
    first: Option<i64>,
    last: Option<i64>,
    count: f64,
    sum: f64,
    squares: f64,
}

impl Gaps {
    fn add(&mut self, start: i64) {
        if let Some(last) = self.last {
            let gap = start.saturating_sub(last) as f64;
            self.count += 1.0;
            self.sum += gap;
            self.squares += gap * gap;
        }
        self.first = self.first.or(Some(start));
        self.last = Some(start);
    }

    /// Whether requests went on for at least as long as the trace had before the first of them.
    fn outlast(&self, begin: i64) -> bool {
        self.first
            .zip(self.last)
            .is_some_and(|(first, last)| last.saturating_sub(first) >= first.saturating_sub(begin))
    }

    /// Whether requests come evenly, not in bursts.
    fn are_even(&self) -> bool {
        self.count * self.squares <= (1.0 + EVEN_MAX) * self.sum * self.sum
    }
}

impl Process {
    fn new() -> Self {
        Self {
            in_flight: 0,
            last_end: None,
            pauses: [0; i64::BITS as usize],
            paused: 0,
            own: Evidence::default(),
            woken: Evidence::default(),
            awaiting: VecDeque::new(),
            gaps: Gaps::default(),
            depths: Depths::default(),
        }
    }

    /// From this pause on it is unusual; `None` if there are too few to tell.
    fn unusual(&self) -> Option<i64> {
        if self.paused < PAUSES_MIN {
            return None;
        }
        let mut below = 0;
        let median = self.pauses.iter().position(|count| {
            below += u64::from(*count);
            2 * below >= self.paused
        })?;
        // Bin b holds pauses from 2^b on.
        Some(
            1_i64.checked_shl((median + UNUSUAL_LOG2) as u32).filter(|ns| *ns > 0).unwrap_or(NEVER),
        )
    }

    /// Counts a pause; returns whether it was unusual.
    fn pause(&mut self, ns: i64) -> bool {
        let is_unusual = self.unusual().is_some_and(|least| ns >= least);
        self.pauses[ns.max(1).ilog2() as usize] += 1;
        self.paused += 1;
        is_unusual
    }

    /// The pause after which any process may have woken it. What hands it work explains its pauses,
    /// except rare ones.
    fn woken_after(&self, has_givers: bool) -> Option<Nanos> {
        let Some(least) = self.unusual() else { return Some(Nanos::ZERO) };
        let from = least.ilog2() as usize;
        let unusual: u64 = self.pauses[from..].iter().map(|count| u64::from(*count)).sum();
        let is_woken = || !has_givers && self.woken.is_cause(LIKELY);
        (unusual < PAUSES_MIN || is_woken()).then_some(Nanos(least))
    }

    /// A request of row `row` is issued at `start` and takes until `end`.
    fn issue(&mut self, start: i64, end: i64, row: u64) {
        self.gaps.add(start);
        if end == NEVER {
            return;
        }
        self.in_flight += 1;
        self.depths.add(self.in_flight);
        // Completions that are further away than its own are not compared: after it they would
        // belong to later requests.
        let limit = (end - start).min(SPAN_MAX_NS);
        if let Some(last) = self.last_end {
            // Of two events with the same time stamp nobody knows which came first. Stamps in
            // microseconds have many.
            if start == last {
                return;
            }
            if start.saturating_sub(last) <= limit {
                self.own.after(start - last);
            }
        }
        if self.awaiting.len() == NEAR_MAX {
            self.awaiting.pop_front();
        }
        self.awaiting.push_back((start, row));
    }

    /// The request of row `row` completes at `end`.
    fn complete(&mut self, end: i64, row: u64) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.last_end = Some(end);
        for (start, _) in self.awaiting.drain(..).filter(|(_, awaits)| *awaits != row) {
            self.own.before(end.saturating_sub(start));
        }
    }
}

impl Survey {
    /// Begins a pass over a trace with or without processes.
    pub fn new(has_processes: bool) -> Self {
        Self {
            has_processes,
            requests: 0,
            first: None,
            latest: i64::MIN,
            in_flight: BinaryHeap::new(),
            processes: FxHashMap::default(),
            completions: VecDeque::new(),
            beginnings: VecDeque::new(),
            pairs: FxHashMap::default(),
            thinks: Histogram::default(),
            in_flight_max: 0,
            window_rows: 1,
            is_cut_off: false,
            doubts: Doubts::default(),
        }
    }

    /// Takes the next request.
    pub fn push(&mut self, request: &Request) {
        let start = request.issue.0.max(self.latest);
        self.first = self.first.or(Some(start));
        self.latest = start;
        self.complete(start);
        let row = self.requests;
        self.requests += 1;
        let pid = request.origin.filter(|_| self.has_processes).map_or(0, |origin| origin.pid);
        if self.processes.len() < PAIRS_MAX {
            self.processes.entry(pid).or_insert_with(Process::new);
        }
        let mut end = completion(request, start, &mut self.doubts);
        if end != NEVER && self.in_flight.len() >= IN_FLIGHT_MAX {
            self.is_cut_off = true;
            end = NEVER;
        }
        if let Some(process) = self.processes.get_mut(&pid) {
            let last = process.last_end.filter(|_| process.in_flight == 0);
            let begins = last.map(|last| {
                let pause = start.saturating_sub(last).max(0);
                self.thinks.record(pause as u64);
                (pause, process.pause(pause))
            });
            process.issue(start, end, row);
            if let Some((pause, is_unusual)) = begins.filter(|_| self.has_processes) {
                let limit = pause.min(SPAN_MAX_NS);
                let (seen, seen_count) = ([0; NEAR_MAX], 0);
                self.begin(Beginning { start, pid, limit, is_unusual, seen, seen_count });
            }
        }
        if end != NEVER {
            self.in_flight.push(Reverse((end, row, pid)));
            self.in_flight_max = self.in_flight_max.max(self.in_flight.len());
        }
    }

    /// Compares a beginning with the completions before it.
    fn begin(&mut self, mut beginning: Beginning) {
        for (end, giver) in self.completions.iter().rev() {
            let ns = beginning.start.saturating_sub(*end);
            if ns > beginning.limit {
                break;
            }
            if *giver == beginning.pid {
                continue;
            }
            let (is_nearest, is_first) = beginning.see(*giver);
            if is_nearest {
                of_pair(&mut self.pairs, (*giver, beginning.pid), |pair| pair.after(ns));
            }
            if is_first
                && beginning.is_unusual
                && let Some(process) = self.processes.get_mut(&beginning.pid)
            {
                process.woken.after(ns);
            }
        }
        // The completions that follow are counted anew.
        beginning.seen_count = 0;
        keep(&mut self.beginnings, beginning);
    }

    /// Compares a completion with the beginnings before it.
    fn follow(&mut self, end: i64, giver: u32) {
        for beginning in &mut self.beginnings {
            let ns = end.saturating_sub(beginning.start);
            if beginning.pid == giver || ns > beginning.limit {
                continue;
            }
            let (is_nearest, is_first) = beginning.see(giver);
            if is_nearest {
                of_pair(&mut self.pairs, (giver, beginning.pid), |pair| pair.before(ns));
            }
            if is_first
                && beginning.is_unusual
                && let Some(process) = self.processes.get_mut(&beginning.pid)
            {
                process.woken.before(ns);
            }
        }
        keep(&mut self.completions, (end, giver));
    }

    /// Takes the completions until `now`.
    fn complete(&mut self, now: i64) {
        while let Some(Reverse((end, row, pid))) = self.in_flight.peek().copied() {
            if end > now {
                break;
            }
            self.in_flight.pop();
            self.window_rows = self.window_rows.max(self.requests - row);
            if let Some(process) = self.processes.get_mut(&pid) {
                process.complete(end, row);
            }
            if self.has_processes {
                self.follow(end, pid);
            }
        }
    }

    /// The findings.
    pub fn finish(mut self) -> Surveyed {
        self.complete(i64::MAX);
        let samples = self.thinks.count();
        let read_off = match self.thinks.at(SAMPLE_SHARE) {
            Some((bin, ..)) if samples >= SAMPLES_MIN => Some(Nanos(least::<7>(bin) as i64)),
            _ => None,
        };
        Surveyed {
            requests: self.requests,
            threshold: read_off.map_or(THRESHOLD_MAX, |threshold| threshold.min(THRESHOLD_MAX)),
            samples: if read_off.is_some() { samples } else { 0 },
            processes: self.ties(),
            process_count: if self.has_processes { self.processes.len() as u64 } else { 0 },
            in_flight_max: self.in_flight_max as u64,
            window_rows: self.window_rows,
            is_cut_off: self.is_cut_off,
            completed: self.requests
                - self.doubts.without_completion
                - self.doubts.completed_before_issue,
        }
    }

    /// What each process waits for.
    fn ties(&self) -> Processes {
        if !self.has_processes {
            return Processes::unknown(self.processes.values().any(|all| all.depths.are_steady()));
        }
        let untied = self.processes.keys().map(|pid| (*pid, Ties::default()));
        let mut ties: FxHashMap<u32, Ties> = untied.collect();
        let begin = self.first.unwrap_or(0);
        for ((giver, taker), there) in &self.pairs {
            // Few events in either direction may be enough in both.
            let back = self.pairs.get(&(*taker, *giver)).copied().unwrap_or_default();
            if there.is_cause(SURE) || there.and(&back).is_cause(SURE) {
                ties.entry(*taker).or_default().givers.push(*giver);
                ties.entry(*giver).or_default().givers.push(*taker);
            }
        }
        for (pid, of_one) in &mut ties {
            of_one.givers.sort_unstable();
            of_one.givers.dedup();
            let Some(process) = self.processes.get(pid) else { continue };
            of_one.is_deep = process.depths.are_steady();
            let has_givers = !of_one.givers.is_empty();
            of_one.woken_after = process.woken_after(has_givers);
            of_one.is_open = !of_one.is_deep
                && !has_givers
                && process.own.is_independence()
                && process.gaps.are_even()
                && process.gaps.outlast(begin);
        }
        Processes::known(ties)
    }
}

/// Counts for a pair, if there is room for it.
fn of_pair(
    pairs: &mut FxHashMap<(u32, u32), Evidence>,
    pair: (u32, u32),
    add: impl FnOnce(&mut Evidence),
) {
    if let Some(evidence) = pairs.get_mut(&pair) {
        add(evidence);
    } else if pairs.len() < PAIRS_MAX {
        add(pairs.entry(pair).or_default());
    }
}

/// Keeps the last few events.
fn keep<T>(last: &mut VecDeque<T>, event: T) {
    if last.len() == NEAR_MAX {
        last.pop_front();
    }
    last.push_back(event);
}
