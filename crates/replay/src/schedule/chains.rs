//! Requests that wait for the completion of others.
//!
//! An application that waited for a request on slow storage waits less on faster storage. So the
//! instant of its next request is only known once the requests that this one waits for, its
//! *parents*, have completed: it is the completion of the last of them, plus a think time. Requests
//! fall due in another order than they are read, and a completion may let any number of them go.
//!
//! Each request that is held counts its parents that have not completed. A completion counts down
//! those that wait for it, which it finds in a list of links. At zero a request's instant is known,
//! and it goes into a heap until that instant. The instants of the last completions are remembered
//! for requests that are read later.
//!
//! Calls on files wait for others whatever decides when they are due ([`Config::linked`]): at their
//! recorded instants none goes before those that it waits for, and without instants each goes when
//! these have completed.
//!
//! Nothing waits for ever: parents have smaller numbers, so of all requests that are held, that of
//! the smallest number waits only for requests that are issued or due. Memory is allocated once.
//! Where any part of it is used up, nothing is taken in until there is room again, which needs no
//! further input for the same reason.
//!
//! A parent whose number was never seen here is one on another target ([`crate::across`]): it is
//! waited for until its completion is told.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::{LateCause, Nanos};

use super::Config;
use crate::plan::{Held, Planned, TimingMode};

/// How many times the look-ahead the distance may be between the oldest request that has not
/// completed and the youngest that is held: with the look-ahead of a run, as far as a journal puts
/// its records back into order.
const SPAN: usize = 16;

/// Parents stand no further before their request than this part of that distance, where they are on
/// another target.
const PARENTS: usize = 4;

/// Links for each request of the look-ahead, on average.
const LINKS: usize = 4;

/// The end of a list of links.
const NONE: u32 = u32::MAX;

/// Before every instant.
const NEVER: Nanos = Nanos(i64::MIN);

/// How many of the last requests are known by number, with this look-ahead.
pub(crate) const fn span(look_ahead: usize) -> usize {
    (SPAN * look_ahead).next_power_of_two()
}

/// The requests that are held, and what is known of those before them.
#[derive(Clone, Debug)]
pub(super) struct Chains {
    /// What is known of the last requests, by number modulo the length.
    seen: Vec<Seen>,
    /// Requests that have not completed.
    nodes: Vec<Node>,
    nodes_max: usize,
    nodes_free: Vec<u32>,
    links: Vec<Link>,
    links_free: Vec<u32>,
    /// Requests whose instants are known: the instant, the number, the node.
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    held: usize,
    next_seq: u64,
    /// No request of a smaller number that was taken in is open.
    oldest: u64,
    /// Requests on other targets that are waited for.
    elsewhere: usize,
    /// What is kept free of the links: as many as one request may need.
    links_kept: usize,
    /// The latest completion of those that `seen` no longer has.
    forgotten: Nanos,
    timing: TimingMode,
    is_over: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    seq: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It has not completed, and this is its node.
    Open(u32),
    /// It is on another target and has not completed, and this is the first of the links to those
    /// that wait for it.
    Elsewhere(u32),
    /// It completed at this instant.
    Done(Nanos),
}

#[derive(Clone, Copy, Debug)]
struct Node {
    planned: Planned,
    /// Parents that have not completed.
    unmet: u32,
    /// The latest completion of the other parents, and the number of the one that completed then.
    last: Nanos,
    last_seq: u64,
    /// It was not taken as due yet.
    is_held: bool,
    /// The first of the links to those that wait for it.
    children: u32,
}

impl Node {
    /// A parent has completed.
    fn has_completed(&mut self, seq: u64, at: Nanos) {
        if at > self.last {
            (self.last, self.last_seq) = (at, seq);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    child: u32,
    next: u32,
}

impl Chains {
    pub(super) fn new(config: &Config) -> Self {
        let nodes_max = config.look_ahead + (config.waiting_max + config.device_slots()) as usize;
        let span = span(config.look_ahead);
        // No request waits for more than there are nodes here, and parents elsewhere.
        let links_kept = nodes_max + span / PARENTS;
        let links = LINKS * config.look_ahead + links_kept;
        Self {
            seen: vec![Seen { seq: u64::MAX, state: State::Done(NEVER) }; span],
            nodes: Vec::with_capacity(nodes_max),
            nodes_max,
            nodes_free: Vec::with_capacity(nodes_max),
            links: vec![Link { child: NONE, next: NONE }; links],
            links_free: (0..links as u32).rev().collect(),
            due: BinaryHeap::with_capacity(config.look_ahead),
            held: 0,
            next_seq: 0,
            oldest: 0,
            elsewhere: 0,
            links_kept,
            forgotten: NEVER,
            timing: config.timing,
            is_over: false,
        }
    }

    /// Requests that are held.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Whether there is memory for one more request with any number of parents.
    pub(super) fn has_room(&self) -> bool {
        let has_node = !self.nodes_free.is_empty() || self.nodes.len() < self.nodes_max;
        let has_links = self.links_free.len() >= self.links_kept;
        let oldest = self.seen[self.place(self.next_seq)];
        has_node && has_links && !matches!(oldest.state, State::Open(_))
    }

    /// Takes the next request and the numbers of its parents, each once. There must be room.
    pub(super) fn offer(&mut self, planned: Planned, parents: &[u64]) {
        let seq = planned.seq;
        debug_assert!(parents.iter().all(|parent| *parent < seq));
        let node =
            Node { planned, unmet: 0, last: NEVER, last_seq: seq, is_held: true, children: NONE };
        let number = if let Some(number) = self.nodes_free.pop() {
            self.nodes[number as usize] = node;
            number
        } else {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        };
        for parent in parents.iter().filter(|parent| **parent < seq) {
            match self.state(*parent) {
                State::Done(at) => self.nodes[number as usize].has_completed(*parent, at),
                State::Open(_) | State::Elsewhere(_) => self.link(*parent, number),
            }
        }
        let place = self.place(seq);
        if let State::Done(at) = self.seen[place].state {
            self.forgotten = self.forgotten.max(at);
        }
        self.seen[place] = Seen { seq, state: State::Open(number) };
        self.next_seq = seq + 1;
        self.held += 1;
        if self.nodes[number as usize].unmet == 0 {
            self.fall_due(number);
        }
    }

    /// The request of this number has completed, or will never be issued. Without what was `lost`
    /// it would have completed so much earlier: where others are due by their own instants, they
    /// are late by their parents only as far as these were not late for nothing.
    pub(super) fn complete(&mut self, seq: u64, at: Nanos, lost: Nanos) {
        let at = if self.timing.has_parents() { at } else { at - lost };
        let place = self.place(seq);
        let Seen { seq: of, state: State::Open(number) } = self.seen[place] else { return };
        if of != seq || self.is_over {
            return;
        }
        self.seen[place].state = State::Done(at);
        self.let_go(self.nodes[number as usize].children, seq, at);
        self.nodes_free.push(number);
    }

    /// The same of a request on another target.
    pub(super) fn complete_elsewhere(&mut self, seq: u64, at: Nanos) {
        let place = self.place(seq);
        let Seen { seq: of, state } = self.seen[place];
        if self.is_over || of != u64::MAX && of > seq {
            return;
        }
        self.seen[place] = Seen { seq, state: State::Done(at) };
        match state {
            State::Elsewhere(children) => {
                debug_assert_eq!(of, seq, "the replays are too far apart");
                self.elsewhere -= 1;
                self.let_go(children, seq, at);
            }
            State::Done(at) => self.forgotten = self.forgotten.max(at),
            State::Open(_) => debug_assert!(false, "request {seq} is on two targets"),
        }
    }

    /// The least number of the requests taken in that have not completed.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        if self.is_over {
            return None;
        }
        let is_open = |seen: &Seen, seq| seen.seq == seq && matches!(seen.state, State::Open(_));
        while self.oldest < self.next_seq {
            if is_open(&self.seen[self.place(self.oldest)], self.oldest) {
                return Some(self.oldest);
            }
            self.oldest += 1;
        }
        None
    }

    /// Whether requests on other targets are waited for.
    pub(super) fn waits_elsewhere(&self) -> bool {
        self.elsewhere > 0 && !self.is_over
    }

    /// Those that this list of links leads to wait for one request less.
    fn let_go(&mut self, children: u32, seq: u64, at: Nanos) {
        let mut next = children;
        while next != NONE {
            let Link { child, next: behind } = self.links[next as usize];
            self.links_free.push(next);
            next = behind;
            let node = &mut self.nodes[child as usize];
            node.has_completed(seq, at);
            node.unmet -= 1;
            if node.unmet == 0 {
                self.fall_due(child);
            }
        }
    }

    /// The first request that is due, which is no longer held then.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Planned> {
        let Reverse((at, _, number)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        self.held -= 1;
        let node = &mut self.nodes[number as usize];
        node.is_held = false;
        Some(node.planned)
    }

    /// The request of the smallest number behind this one that is held.
    pub(super) fn held_after(&self, seq: Option<u64>) -> Option<&Planned> {
        let first = self.next_seq.saturating_sub(self.seen.len() as u64);
        let from = seq.map_or(0, |seq| seq + 1).max(first);
        (from..self.next_seq)
            .find_map(|seq| match self.seen[self.place(seq)] {
                Seen { seq: of, state: State::Open(number) } if of == seq => {
                    Some(&self.nodes[number as usize]).filter(|node| node.is_held)
                }
                _ => None,
            })
            .map(|node| &node.planned)
    }

    /// When the first request is due of those whose instants are known.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Whether a request that is held is due by the schedule before this instant.
    pub(super) fn holds_before(&self, end: Nanos) -> bool {
        let is_due = |node: &Node| node.is_held && node.planned.scheduled < end;
        self.timing.has_schedule() && self.nodes.iter().any(is_due)
    }

    /// Forgets everything that is held, and passes it to `left`. Nothing is offered after that.
    pub(super) fn forget(&mut self, left: &mut dyn FnMut(&Planned)) {
        for node in self.nodes.iter_mut().filter(|node| node.is_held) {
            node.is_held = false;
            left(&node.planned);
        }
        self.due.clear();
        self.held = 0;
        self.is_over = true;
    }

    fn place(&self, seq: u64) -> usize {
        seq as usize & (self.seen.len() - 1)
    }

    /// The state of an earlier request. Of one that is forgotten only an instant is known at which
    /// it had completed; one that was never seen is on another target.
    fn state(&mut self, seq: u64) -> State {
        let place = self.place(seq);
        let seen = self.seen[place];
        if seen.seq == seq {
            return seen.state;
        }
        if seen.seq != u64::MAX && seen.seq > seq {
            return State::Done(self.forgotten);
        }
        if let State::Done(at) = seen.state {
            self.forgotten = self.forgotten.max(at);
        }
        debug_assert!(matches!(seen.state, State::Done(_)), "the replays are too far apart");
        self.elsewhere += 1;
        self.seen[place] = Seen { seq, state: State::Elsewhere(NONE) };
        self.seen[place].state
    }

    /// Lets a request wait for an earlier one, which has not completed.
    fn link(&mut self, parent: u64, child: u32) {
        let Some(link) = self.links_free.pop() else {
            debug_assert!(false, "more parents than requests");
            return;
        };
        let place = self.place(parent);
        let children = match &mut self.seen[place].state {
            State::Open(parent) => &mut self.nodes[*parent as usize].children,
            State::Elsewhere(children) => children,
            State::Done(_) => return,
        };
        self.links[link as usize] = Link { child, next: std::mem::replace(children, link) };
        self.nodes[child as usize].unmet += 1;
    }

    /// All parents have completed, so the instant is known.
    fn fall_due(&mut self, number: u32) {
        let timing = self.timing;
        let Node { planned, last, last_seq, .. } = &mut self.nodes[number as usize];
        let waited_for = (*last > NEVER).then_some(*last);
        if timing.has_parents() {
            if let (Some(think), Some(last)) = (planned.think, waited_for) {
                planned.scheduled = last.saturating_add(think);
                planned.behind = u32::try_from(planned.seq - *last_seq).unwrap_or(0);
            }
        } else if let Some(until) = waited_for.filter(|last| *last > planned.scheduled) {
            planned.held = Some(Held { until, by: LateCause::Conflict });
        }
        let at = if timing.has_due_instants() { planned.scheduled } else { NEVER };
        self.due.push(Reverse((at, planned.seq, number)));
    }
}
