//! Infers the parents of each request in one pass over the trace.
//!
//! A search among all earlier requests would be quadratic. So the completed requests of each
//! process are kept in the order of completion, and of these only the *front*: those that completed
//! after the latest start of the completed requests of that process. Some request in the front
//! waited for every request that is not in it. Most requests wait for the front of their process
//! and for no other request, so the front's rows are kept sorted, to be copied as they are. One
//! more front, of all processes together, tells who may have woken a process.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ioecho_trace::{Flags, Nanos, Op, Request, VolumeId};
use rustc_hash::FxHashMap;

use super::places::Places;
use super::processes::Processes;
use super::reach::{Beyond, Reach, Single};
use super::slots::Slots;
use super::{Doubts, NEVER, Waits, completion, is_barrier, is_change};

/// The rules for parents.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// A shorter think time means that the request did not wait.
    pub threshold: Nanos,
    /// The number of earlier requests among which parents are searched.
    pub window_rows: u64,
    /// The processes, and what they wait for.
    pub processes: Processes,
}

/// Infers the parents of requests, which must come in the order of their issue.
///
/// Memory is bounded by the window. The time for a request is proportional to its front, which is
/// no longer than the number of requests in flight at one instant, times the logarithm of that. If
/// processes hand work to each other, the fronts of all givers count.
pub struct Inference {
    rules: Rules,
    /// The requests of the window.
    nodes: VecDeque<Node>,
    /// The row of the first request of the window.
    base: u64,
    /// The latest issue.
    latest: i64,
    /// Pending completions, with their rows.
    in_flight: BinaryHeap<Reverse<(i64, u64)>>,
    lines: FxHashMap<u32, Line>,
    slots: Slots,
    /// The completed requests of all processes, if they are known. It is brought up to date when a
    /// process is woken.
    everyone: Line,
    places: Places,
    doubts: Doubts,
    /// Requests since unused entries were last removed.
    unswept: u64,
    candidates: Vec<Candidate>,
    writers: Vec<u64>,
    reach: Reach,
    parents: Vec<u64>,
}

/// A request of the window.
#[derive(Debug)]
struct Node {
    start: i64,
    /// The instant of its completion; [`NEVER`] if unknown.
    end: i64,
    process: u32,
    volume: VolumeId,
    /// Which requests it delays even if their think time is below the threshold.
    holds: Holds,
    /// The bytes that it changes.
    changes: Option<(u64, u64)>,
    beyond: Option<Box<Beyond>>,
}

/// The requests that a request delays even if their think time is below the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nobody,
    /// Those of its own process, because it is a synchronous write.
    Process,
    /// All linked requests on its volume, because it is a barrier.
    Volume,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
struct Member {
    row: u64,
    start: i64,
    end: i64,
    volume: VolumeId,
    holds: Holds,
    /// Whether its node has a reach beyond its start and its process.
    has_beyond: bool,
}

impl Member {
    /// The member as a possible parent; `process` is the one that issued it.
    fn candidate(&self, process: u32, threshold: i64, is_special: bool) -> Candidate {
        let ready = self.end.saturating_add(threshold);
        let single = Single { row: self.row, process, ready };
        Candidate { single, start: self.start, end: self.end, is_special }
    }
}

/// The completed requests of a process.
#[derive(Debug, Default)]
struct Line {
    /// Requests that completed less than the threshold ago, in the order of completion.
    recent: VecDeque<Member>,
    /// Earlier ones for which no other completed request waited, in the order of completion.
    front: VecDeque<Member>,
    /// The rows of the front, the earliest first.
    front_rows: Vec<u64>,
    /// How many members of the front reach further than their start says.
    front_beyonds: usize,
    /// The latest start of the requests that have left `recent`.
    latest_start: Option<i64>,
    /// The latest completion.
    last_end: Option<i64>,
    /// The row of the latest request.
    last_row: u64,
    /// The number of requests in flight.
    in_flight: u64,
    /// When any process may last have woken this one, and the requests of others for which it
    /// waited.
    woken: i64,
    wakers: Vec<Candidate>,
}

/// A possible parent.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    single: Single,
    start: i64,
    end: i64,
    /// Whether it is linked by another rule than that of think times.
    is_special: bool,
}

impl Line {
    /// Moves requests into the front that have been complete for `threshold` at `now`, and forgets
    /// those before row `base`.
    fn advance(&mut self, now: i64, threshold: i64, base: u64) {
        while let Some(member) = self.recent.front().copied() {
            if member.end.saturating_add(threshold) > now {
                break;
            }
            self.recent.pop_front();
            self.latest_start = self.latest_start.max(Some(member.start));
            self.front_beyonds += usize::from(member.has_beyond);
            let at = self.front_rows.partition_point(|row| *row < member.row);
            self.front_rows.insert(at, member.row);
            self.front.push_back(member);
            self.shorten(threshold);
        }
        if self.front_rows.first().is_some_and(|row| *row < base) {
            self.forget(base);
        }
    }

    /// Removes from the front the requests for which some other in it waited.
    fn shorten(&mut self, threshold: i64) {
        while let Some((member, latest)) = self.front.front().zip(self.latest_start) {
            if member.end.saturating_add(threshold) > latest {
                break;
            }
            self.front_beyonds -= usize::from(member.has_beyond);
            if let Ok(at) = self.front_rows.binary_search(&member.row) {
                self.front_rows.remove(at);
            }
            self.front.pop_front();
        }
    }

    /// Forgets the requests before row `base`.
    fn forget(&mut self, base: u64) {
        self.recent.retain(|member| member.row >= base);
        self.front.retain(|member| member.row >= base);
        self.front_rows.retain(|row| *row >= base);
        self.front_beyonds = self.front.iter().filter(|member| member.has_beyond).count();
    }
}

impl Inference {
    /// Makes an inference with these rules; a window of 0 requests counts as 1.
    pub fn new(mut rules: Rules) -> Self {
        rules.window_rows = rules.window_rows.max(1);
        rules.threshold = rules.threshold.max(Nanos::ZERO);
        Self {
            rules,
            nodes: VecDeque::new(),
            base: 0,
            latest: i64::MIN,
            in_flight: BinaryHeap::new(),
            lines: FxHashMap::default(),
            slots: Slots::default(),
            everyone: Line::default(),
            places: Places::default(),
            doubts: Doubts::default(),
            unswept: 0,
            candidates: Vec::new(),
            writers: Vec::new(),
            reach: Reach::default(),
            parents: Vec::new(),
        }
    }

    /// The defects so far.
    pub fn doubts(&self) -> Doubts {
        self.doubts
    }

    /// The rules of this inference.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Takes the next request and returns its parents.
    pub fn push(&mut self, request: &Request) -> Waits<'_> {
        if request.issue.0 < self.latest {
            self.doubts.clock_inversions += 1;
        }
        let start = request.issue.0.max(self.latest);
        self.latest = start;
        self.complete(start);
        self.forget(start);
        let row = self.base + self.nodes.len() as u64;
        let mut process = self.rules.processes.of(request);
        if self.rules.processes.is_deep(process) {
            process = self.slots.take(process);
        }
        self.wake(process, start);
        self.gather(request, process, start);
        self.parents.clear();
        let own = self.lines.get(&process).filter(|_| !self.rules.processes.is_open(process));
        let is_plain = self.candidates.is_empty() && own.is_none_or(|line| line.front_beyonds == 0);
        let (last, beyond) = if is_plain {
            self.parents.extend_from_slice(own.map_or(&[], |line| &line.front_rows));
            (own.and_then(|line| line.front.back()).map(|member| member.end), None)
        } else {
            let front = own.into_iter().flat_map(|line| &line.front);
            let threshold = self.rules.threshold.0;
            self.candidates.extend(front.map(|member| member.candidate(process, threshold, false)));
            let beyond = self.reduce(process, start);
            self.parents.extend(self.candidates.iter().map(|candidate| candidate.single.row));
            self.parents.sort_unstable();
            (self.candidates.iter().map(|candidate| candidate.end).max(), beyond)
        };
        let think = last.map(|end| Nanos(start.saturating_sub(end)));
        self.enter(request, row, process, start, beyond);
        Waits { row, parents: &self.parents, think }
    }

    /// Separates later requests from all earlier ones, because events were lost in between.
    pub fn cut(&mut self) {
        let held =
            self.lines.values().filter(|line| !line.front.is_empty() || !line.recent.is_empty());
        let has_flying = u64::from(!self.in_flight.is_empty());
        self.doubts.gaps += 1;
        self.doubts.cut_chains += (held.count() as u64).max(has_flying);
        self.base += self.nodes.len() as u64;
        self.nodes.clear();
        self.in_flight.clear();
        self.lines.clear();
        self.slots.clear();
        self.everyone = Line::default();
        self.places.clear();
    }

    /// Moves the requests that completed until `now` to the completed ones of their processes.
    fn complete(&mut self, now: i64) {
        while let Some(Reverse((end, row))) = self.in_flight.peek().copied() {
            if end > now {
                break;
            }
            self.in_flight.pop();
            let Some(node) = row.checked_sub(self.base).and_then(|at| self.nodes.get(at as usize))
            else {
                continue;
            };
            if let Some((from, to)) = node.changes {
                self.places.wrote(node.volume, from, to, row);
            }
            let member = Member {
                row,
                start: node.start,
                end,
                volume: node.volume,
                holds: node.holds,
                has_beyond: node.beyond.is_some(),
            };
            self.slots.complete(node.process);
            if let Some(line) = self.lines.get_mut(&node.process) {
                line.in_flight = line.in_flight.saturating_sub(1);
                line.last_end = Some(end);
                line.recent.push_back(member);
            }
            if self.rules.processes.are_known() {
                self.everyone.recent.push_back(member);
            }
        }
    }

    /// Forgets requests that are further away than the window at `now`.
    fn forget(&mut self, now: i64) {
        while self.nodes.len() as u64 > self.rules.window_rows {
            let gone = self.nodes.pop_front();
            self.base += 1;
            if let Some(node) = gone.filter(|node| node.end != NEVER && node.end > now) {
                self.doubts.beyond_window += 1;
                if let Some(line) = self.lines.get_mut(&node.process) {
                    line.in_flight = line.in_flight.saturating_sub(1);
                }
            }
        }
        self.unswept += 1;
        if self.unswept > self.rules.window_rows {
            self.unswept = 0;
            let base = self.base;
            self.in_flight.retain(|Reverse((_, row))| *row >= base);
            self.places.forget(base);
            self.lines.retain(|_, line| line.last_row >= base);
            self.lines.values_mut().for_each(|line| line.forget(base));
            self.everyone.forget(base);
        }
    }

    /// Notes whose completions may have woken `process`, if it issues a request at `start` after an
    /// unusual pause, or its first one of the window.
    fn wake(&mut self, process: u32, start: i64) {
        let processes = &self.rules.processes;
        if !processes.are_known() || processes.is_open(process) {
            return;
        }
        let base = self.base;
        if self.lines.get(&process).is_some_and(|line| line.last_row < base) {
            self.lines.remove(&process);
        }
        if let Some(line) = self.lines.get(&process) {
            let pause = line.last_end.map(|end| start.saturating_sub(end));
            let is_woken = |pause| processes.is_woken_after(process, pause);
            if line.in_flight > 0 || !pause.is_some_and(is_woken) {
                return;
            }
        }
        let threshold = self.rules.threshold.0;
        self.everyone.advance(start, threshold, base);
        let line = self.lines.entry(process).or_default();
        line.woken = start;
        line.wakers.clear();
        for member in &self.everyone.front {
            let of_row = member.row.checked_sub(base).and_then(|at| self.nodes.get(at as usize));
            // Those of linked processes are found without.
            let Some(node) = of_row.filter(|node| !processes.is_linked(node.process, process))
            else {
                continue;
            };
            line.wakers.push(member.candidate(node.process, threshold, true));
        }
    }

    /// Brings the front of `process` up to `start`, and gathers the other possible parents of
    /// `request`.
    fn gather(&mut self, request: &Request, process: u32, start: i64) {
        let threshold = self.rules.threshold.0;
        let base = self.base;
        let barrier = is_barrier(request);
        self.candidates.clear();
        let processes = &self.rules.processes;
        // A process with nothing in flight waited for what completed last, however shortly.
        let is_one = processes.are_known() || self.slots.has(process);
        let is_idle = is_one && self.lines.get(&process).is_none_or(|line| line.in_flight == 0);
        let own = Some(&process).filter(|_| !processes.is_open(process));
        for giver in own.into_iter().chain(processes.givers(process)) {
            let Some(line) = self.lines.get_mut(giver) else { continue };
            line.advance(start, threshold, base);
            if *giver != process {
                let front = line.front.iter();
                self.candidates
                    .extend(front.map(|member| member.candidate(*giver, threshold, false)));
            } else if line.latest_start.is_none_or(|latest| latest < line.woken) {
                let wakers = line.wakers.iter().filter(|waker| waker.single.row >= base);
                self.candidates.extend(wakers);
            }
            let is_itself = processes.is_itself(*giver, process);
            for member in line.recent.iter().filter(|member| member.row >= base) {
                let is_same_volume = member.volume == request.volume;
                let waits = match member.holds {
                    Holds::Volume => is_same_volume || is_itself,
                    Holds::Process => barrier && is_same_volume || is_itself,
                    Holds::Nobody => barrier && is_same_volume,
                };
                if waits || is_idle {
                    self.candidates.push(member.candidate(*giver, threshold, true));
                }
            }
        }
        if request.op == Op::Read {
            self.gather_writers(request, process, start);
        }
    }

    /// Adds the last writers of the bytes that `request` reads, unless another rule links them.
    fn gather_writers(&mut self, request: &Request, process: u32, start: i64) {
        self.writers.clear();
        let (from, to) = (request.offset.0, request.end().0);
        self.places.writers(request.volume, from, to, &mut self.writers);
        self.writers.sort_unstable();
        self.writers.dedup();
        for row in &self.writers {
            let Some(node) = row.checked_sub(self.base).and_then(|at| self.nodes.get(at as usize))
            else {
                continue;
            };
            let ready = node.end.saturating_add(self.rules.threshold.0);
            let is_linked = self.rules.processes.is_linked(node.process, process);
            let is_there = || self.candidates.iter().any(|candidate| candidate.single.row == *row);
            if is_linked && ready <= start || is_there() {
                continue;
            }
            self.candidates.push(Candidate {
                single: Single { row: *row, process: node.process, ready },
                start: node.start,
                end: node.end,
                is_special: true,
            });
        }
    }

    /// Keeps only the candidates that no other candidate leads to; returns the reach of the
    /// request.
    fn reduce(&mut self, process: u32, start: i64) -> Option<Box<Beyond>> {
        self.reach.clear(self.nodes.len());
        for candidate in &self.candidates {
            let own = candidate.single.process;
            if !self.rules.processes.is_open(own) {
                self.reach.raise(own, candidate.start);
            }
            for giver in self.rules.processes.givers(own) {
                self.reach.raise(*giver, candidate.start);
            }
            let at = candidate.single.row.wrapping_sub(self.base) as usize;
            if let Some(beyond) = self.nodes.get(at).and_then(|node| node.beyond.as_deref()) {
                self.reach.join(beyond, self.base);
            }
        }
        let reach = &self.reach;
        self.candidates.retain(|candidate| !reach.has(&candidate.single));
        let processes = &self.rules.processes;
        let is_own = |other| processes.is_linked(other, process);
        let singles = self
            .candidates
            .iter()
            .filter(|candidate| candidate.is_special)
            .map(|candidate| candidate.single);
        // No request of the window was ready before the window's first request began.
        let oldest = self.nodes.front().map_or(i64::MIN, |node| node.start);
        let mut beyond = self.reach.beyond(singles, is_own, oldest)?;
        beyond.singles.retain(|single| !is_own(single.process) || single.ready > start);
        (!beyond.instants.is_empty() || !beyond.singles.is_empty()).then_some(beyond)
    }

    /// Adds the request to the window.
    fn enter(
        &mut self,
        request: &Request,
        row: u64,
        process: u32,
        start: i64,
        beyond: Option<Box<Beyond>>,
    ) {
        let end = completion(request, start, &mut self.doubts);
        let holds = if is_barrier(request) {
            Holds::Volume
        } else if request.op == Op::Write && request.flags.contains(Flags::SYNC) {
            Holds::Process
        } else {
            Holds::Nobody
        };
        let changes = is_change(request).then(|| (request.offset.0, request.end().0));
        let volume = request.volume;
        let line = self.lines.entry(process).or_default();
        line.last_row = row;
        line.in_flight += u64::from(end != NEVER);
        self.nodes.push_back(Node { start, end, process, volume, holds, changes, beyond });
        if end != NEVER {
            self.in_flight.push(Reverse((end, row)));
        }
    }
}
