//! The first pass over a trace: facts that the inference of parents needs.
//!
//! **The threshold.** Between the completion of a request and the issue of one that waited for it,
//! the system takes an interrupt, wakes a thread and makes a system call. A request that is issued
//! sooner did not wait. The time differs between hosts, so it is measured on requests that
//! certainly waited: those of a process without other requests in flight. The threshold is the
//! first percentile of their think times, and never more than hfplayer's 10 µs, because a missing
//! link does more harm than an additional one.
//!
//! **Hand-over of work.** A database's backend waits for its log writer, and a file system for its
//! journal; four threads of a benchmark do not wait for each other, although their requests are
//! equally close. The direction distinguishes the two cases: if work is handed over, the first
//! request of a process comes *after* completions of the other process far more often than before
//! them. For independent processes both are equally frequent, under any load. So both are counted,
//! within 50 µs, and a hand-over is a difference of at least four standard deviations and at least
//! half of the larger count. (For a difference of counts a and b of independent events the variance
//! is a + b.)

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioecho_trace::log_linear::{Histogram, least};
use ioecho_trace::{Nanos, Request};
use rustc_hash::FxHashMap;

use super::{Doubts, NEVER, completion};

/// hfplayer's threshold, and the largest one that is derived from a trace.
pub const THRESHOLD_MAX: Nanos = Nanos(10_000);

/// The least number of think times for deriving a threshold.
const SAMPLES_MIN: u64 = 100;

/// The share of the think times below the threshold.
const SAMPLE_SHARE: f64 = 0.01;

/// The distance at which a request may be related to a completion, in nanoseconds.
const NEAR_NS: i64 = 50_000;

/// The numbers of completions, and of requests, of the last 50 µs that are compared.
const NEAR_MAX: usize = 16;

/// The numbers of pairs of processes, and of processes, that are counted.
const PAIRS_MAX: usize = 1 << 16;

/// The number of requests in flight that are followed.
const IN_FLIGHT_MAX: usize = 1 << 22;

/// The least number of hand-overs that count.
const HAND_OVERS_MIN: u64 = 8;

/// The links between processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    are_known: bool,
    /// For each process the processes that hand work to it.
    givers: FxHashMap<u32, Vec<u32>>,
}

impl Processes {
    /// Processes of a trace that records them, with these pairs of giver and taker.
    pub fn known(pairs: &[(u32, u32)]) -> Self {
        let mut givers: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (giver, taker) in pairs.iter().filter(|(giver, taker)| giver != taker) {
            givers.entry(*taker).or_default().push(*giver);
        }
        for of_one in givers.values_mut() {
            of_one.sort_unstable();
            of_one.dedup();
        }
        Self { are_known: true, givers }
    }

    /// Whether the trace has the process of each request.
    pub fn are_known(&self) -> bool {
        self.are_known
    }

    /// The pairs of giver and taker.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let pair = |(taker, givers): (&u32, &Vec<u32>)| -> Vec<_> {
            givers.iter().map(|giver| (*giver, *taker)).collect()
        };
        let mut pairs: Vec<_> = self.givers.iter().flat_map(pair).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The process of a request; the same for all requests if the trace has no processes.
    pub(super) fn of(&self, request: &Request) -> u32 {
        request.origin.filter(|_| self.are_known).map_or(0, |origin| origin.pid)
    }

    /// The processes that hand work to `taker`.
    pub(super) fn givers(&self, taker: u32) -> &[u32] {
        self.givers.get(&taker).map_or(&[], Vec::as_slice)
    }

    /// Whether requests of `taker` may wait for requests of `giver`.
    pub(super) fn is_linked(&self, giver: u32, taker: u32) -> bool {
        giver == taker || self.givers(taker).contains(&giver)
    }

    /// Whether both are the same known process.
    pub(super) fn is_itself(&self, giver: u32, taker: u32) -> bool {
        self.are_known && giver == taker
    }
}

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
    /// The processes that hand work to each other.
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
    latest: i64,
    in_flight: BinaryHeap<Reverse<(i64, u64, u32)>>,
    processes: FxHashMap<u32, Process>,
    /// The last completions, and the last requests with which a process began.
    completions: VecDeque<(i64, u32)>,
    beginnings: VecDeque<(i64, u32)>,
    /// By giver and taker: how often the taker's first request came after a completion of the
    /// giver, and how often before one.
    pairs: FxHashMap<(u32, u32), (u64, u64)>,
    thinks: Histogram<7>,
    in_flight_max: usize,
    window_rows: u64,
    is_cut_off: bool,
    doubts: Doubts,
}

/// The requests in flight of a process.
#[derive(Debug, Default)]
struct Process {
    in_flight: u64,
    last_end: Option<i64>,
}

impl Survey {
    /// Begins a pass over a trace with or without processes.
    pub fn new(has_processes: bool) -> Self {
        Self {
            has_processes,
            requests: 0,
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
        self.latest = start;
        self.complete(start);
        let row = self.requests;
        self.requests += 1;
        let pid = request.origin.filter(|_| self.has_processes).map_or(0, |origin| origin.pid);
        let has_room = self.processes.len() < PAIRS_MAX;
        if let Some(process) = self.processes.get_mut(&pid) {
            if process.in_flight == 0 {
                if let Some(end) = process.last_end {
                    self.thinks.record(start.saturating_sub(end).max(0) as u64);
                }
                self.begin(start, pid);
            }
        } else if has_room {
            self.processes.insert(pid, Process::default());
            self.begin(start, pid);
        }
        let end = completion(request, start, &mut self.doubts);
        if end == NEVER {
            return;
        }
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            self.is_cut_off = true;
            return;
        }
        self.in_flight.push(Reverse((end, row, pid)));
        self.in_flight_max = self.in_flight_max.max(self.in_flight.len());
        if let Some(process) = self.processes.get_mut(&pid) {
            process.in_flight += 1;
        }
    }

    /// Notes the first request of a process without requests in flight.
    fn begin(&mut self, start: i64, pid: u32) {
        if !self.has_processes {
            return;
        }
        for (end, giver) in &self.completions {
            if *giver != pid && start.saturating_sub(*end) <= NEAR_NS {
                count(&mut self.pairs, (*giver, pid), |(behind, _)| *behind += 1);
            }
        }
        keep(&mut self.beginnings, (start, pid));
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
                process.in_flight = process.in_flight.saturating_sub(1);
                process.last_end = Some(end);
            }
            if !self.has_processes {
                continue;
            }
            for (start, taker) in &self.beginnings {
                if *taker != pid && end.saturating_sub(*start) <= NEAR_NS {
                    count(&mut self.pairs, (pid, *taker), |(_, before)| *before += 1);
                }
            }
            keep(&mut self.completions, (end, pid));
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
        let handed: Vec<_> = self
            .pairs
            .iter()
            .filter(|(_, (behind, before))| is_hand_over(*behind, *before))
            .map(|(pair, _)| *pair)
            .collect();
        let processes =
            if self.has_processes { Processes::known(&handed) } else { Processes::default() };
        Surveyed {
            requests: self.requests,
            threshold: read_off.map_or(THRESHOLD_MAX, |threshold| threshold.min(THRESHOLD_MAX)),
            samples: if read_off.is_some() { samples } else { 0 },
            processes,
            process_count: if self.has_processes { self.processes.len() as u64 } else { 0 },
            in_flight_max: self.in_flight_max as u64,
            window_rows: self.window_rows,
            is_cut_off: self.is_cut_off,
            completed: self.requests
                - self.doubts.without_completion
                - self.doubts.completed_before_issue,
        }
    }
}

/// Counts for a pair, if there is room for it.
fn count(
    pairs: &mut FxHashMap<(u32, u32), (u64, u64)>,
    pair: (u32, u32),
    add: impl FnOnce(&mut (u64, u64)),
) {
    if let Some(counts) = pairs.get_mut(&pair) {
        add(counts);
    } else if pairs.len() < PAIRS_MAX {
        add(pairs.entry(pair).or_default());
    }
}

/// Keeps the last few events.
fn keep(last: &mut VecDeque<(i64, u32)>, event: (i64, u32)) {
    if last.len() == NEAR_MAX {
        last.pop_front();
    }
    last.push_back(event);
}

/// Whether these counts, of first requests after and before completions, are a hand-over.
fn is_hand_over(behind: u64, before: u64) -> bool {
    let (more, less) = (behind as f64, before as f64);
    behind >= HAND_OVERS_MIN && more >= 2.0 * less && more - less >= 4.0 * (more + less).sqrt()
}
