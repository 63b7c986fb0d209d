//! What must be known of a trace before its first parent is found.
//!
//! **The threshold.** Between the completion of a request and one that waited for it lies a time in
//! which an interrupt is taken, a thread woken and a system call made. What comes sooner did not
//! wait. How long that takes is different on every host, so it is read off those that certainly
//! waited: requests of a process that had nothing else in flight. The first percentile of their
//! think times is taken, and never more than hfplayer's 10 µs: a dependency that is overlooked does
//! more harm than one too many.
//!
//! **Who hands work to whom.** A database's backend waits for its log writer, and a file system for
//! its journal; four threads of a benchmark do not wait for each other, though their requests come
//! as close. What tells them apart is the direction: where work is handed on, a request that its
//! process begins with comes *behind* completions of the other's far more often than before them.
//! Of processes that do not know of each other it comes as often on either side, whatever the load
//! does. So both sides are counted, within 50 µs, and a difference of four standard deviations that
//! is also a half counts as a hand-over. (In a difference of counts a and b of independent events
//! the variance is a + b.)

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioecho_trace::log_linear::{Histogram, least};
use ioecho_trace::{Nanos, Request};
use rustc_hash::FxHashMap;

use super::{Doubts, NEVER, completion};

/// hfplayer's threshold, and the most that is read off a trace.
pub const THRESHOLD_MAX: Nanos = Nanos(10_000);

/// From how many think times a threshold is read off.
const SAMPLES_MIN: u64 = 100;

/// Which share of the think times lies below the threshold.
const SAMPLE_SHARE: f64 = 0.01;

/// How close a request comes to a completion that it may have to do with, in nanoseconds.
const NEAR_NS: i64 = 50_000;

/// How many completions, and how many requests, of the last 50 µs are looked at.
const NEAR_MAX: usize = 16;

/// How many pairs of processes, and how many processes, are looked at.
const PAIRS_MAX: usize = 1 << 16;

/// How many requests in flight are followed.
const IN_FLIGHT_MAX: usize = 1 << 22;

/// From how many hand-overs on they count.
const HAND_OVERS_MIN: u64 = 8;

/// Whom a request is linked to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    are_known: bool,
    /// For a process those that hand work to it.
    givers: FxHashMap<u32, Vec<u32>>,
}

impl Processes {
    /// Processes that are recorded, and of which these pairs hand work on: the giver stands first.
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

    /// Whether the trace says who issued a request.
    pub fn are_known(&self) -> bool {
        self.are_known
    }

    /// The pairs that hand work on, the giver first.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        let pair = |(taker, givers): (&u32, &Vec<u32>)| -> Vec<_> {
            givers.iter().map(|giver| (*giver, *taker)).collect()
        };
        let mut pairs: Vec<_> = self.givers.iter().flat_map(pair).collect();
        pairs.sort_unstable();
        pairs
    }

    /// The process of a request; one and the same for all where none is recorded.
    pub(super) fn of(&self, request: &Request) -> u32 {
        request.origin.filter(|_| self.are_known).map_or(0, |origin| origin.pid)
    }

    /// Those that hand work to `taker`.
    pub(super) fn givers(&self, taker: u32) -> &[u32] {
        self.givers.get(&taker).map_or(&[], Vec::as_slice)
    }

    /// Whether what `giver` did keeps `taker` waiting.
    pub(super) fn is_linked(&self, giver: u32, taker: u32) -> bool {
        giver == taker || self.givers(taker).contains(&giver)
    }

    /// Whether both are one known process.
    pub(super) fn is_itself(&self, giver: u32, taker: u32) -> bool {
        self.are_known && giver == taker
    }
}

/// What a first pass found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Requests of the trace.
    pub requests: u64,
    /// Below which a think time means that nobody waited.
    pub threshold: Nanos,
    /// How many think times that was read off; 0 where there were too few and hfplayer's was taken.
    pub samples: u64,
    /// Who hands work to whom.
    pub processes: Processes,
    /// Processes that issued requests; 0 where none is recorded.
    pub process_count: u64,
    /// The most requests in flight at once.
    pub in_flight_max: u64,
    /// The smallest window in which nothing is still in flight when it is forgotten.
    pub window_rows: u64,
    /// Whether more was in flight than is followed, so that both are larger still.
    pub is_cut_off: bool,
    /// Requests whose completion is known.
    pub completed: u64,
}

/// A first pass over a trace. Requests come in the order of their issue.
pub struct Survey {
    has_processes: bool,
    requests: u64,
    latest: i64,
    in_flight: BinaryHeap<Reverse<(i64, u64, u32)>>,
    processes: FxHashMap<u32, Process>,
    /// The last completions, and the last requests that a process began with.
    completions: VecDeque<(i64, u32)>,
    beginnings: VecDeque<(i64, u32)>,
    /// By giver and taker: how often a beginning of the taker came behind a completion of the
    /// giver, and how often before one.
    pairs: FxHashMap<(u32, u32), (u64, u64)>,
    thinks: Histogram<7>,
    in_flight_max: usize,
    window_rows: u64,
    is_cut_off: bool,
    doubts: Doubts,
}

/// What is in flight of a process.
#[derive(Debug, Default)]
struct Process {
    in_flight: u64,
    last_end: Option<i64>,
}

impl Survey {
    /// Begins a pass over a trace that says who issued a request, or does not.
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

    /// A process that had nothing in flight issues a request.
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

    /// Takes the completions up to `now`.
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

    /// What was found.
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

/// Keeps the last few.
fn keep(last: &mut VecDeque<(i64, u32)>, event: (i64, u32)) {
    if last.len() == NEAR_MAX {
        last.pop_front();
    }
    last.push_back(event);
}

/// Whether so many beginnings behind completions, and so many before, are a hand-over.
fn is_hand_over(behind: u64, before: u64) -> bool {
    let (more, less) = (behind as f64, before as f64);
    behind >= HAND_OVERS_MIN && more >= 2.0 * less && more - less >= 4.0 * (more + less).sqrt()
}
