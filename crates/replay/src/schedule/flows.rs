//! The requests of flows until they are admitted.
//!
//! Each flow has a queue, so that none waits behind another. Its first request can be admitted from
//! an instant on that the flow alone decides: when it is due, or when a client is free; it takes
//! one of the flow's places and gives it back when it has completed. The instants of all flows
//! stand in one list, of which the earliest is next. Memory is allocated once.
//!
//! A request gets its number when it is admitted, so that numbers are in the order in which the
//! load went to the device. Of a lane with one flow that order is known before, and where somebody
//! needs to know what comes next its requests have their numbers from the beginning.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ioecho_trace::{LateCause, Nanos};

use super::Scheduler;
use crate::flow::{Admission, FlowConfig, Numbering};
use crate::plan::Planned;

/// After every instant.
const NEVER: Nanos = Nanos::MAX;

/// How long to wait for flows of other lanes before looking at the gate again.
const GATE_NAP: Nanos = Nanos::from_micros(20);

/// The flows of a lane.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    all: Vec<Flow>,
    /// From when on the first request of each flow can be admitted.
    next: Vec<Nanos>,
    /// The index of each flow, by its number in the run.
    index: Vec<u16>,
    held: usize,
    next_seq: u64,
    step: u64,
    row: Option<Arc<AtomicU64>>,
    /// The instant of issue of the last admitted request.
    last_issue: Nanos,
    /// Whether a flow of another lane may hold one of these back at a gate.
    waits_for_lanes: bool,
    /// Whether requests have their numbers before they are admitted.
    are_numbered: bool,
}

#[derive(Clone, Debug)]
struct Flow {
    config: FlowConfig,
    queue: VecDeque<Planned>,
    /// How many requests it holds.
    look_ahead: usize,
    /// Requests that were admitted and have not completed.
    taken: u32,
    /// Of a closed loop: since when each client that has no request is free.
    free: BinaryHeap<Reverse<Nanos>>,
    /// When the last place was given back while all were taken.
    full_until: Nanos,
    /// Whether it was held back at the gate when it was last looked at.
    was_held: bool,
    /// When it was held back last.
    held_at: Nanos,
    has_ended: bool,
    /// Whether its shares count no longer in this lane.
    has_left: bool,
}

impl Flow {
    fn new(config: FlowConfig) -> Self {
        let cap = config.cap as usize;
        let mut free = BinaryHeap::with_capacity(cap);
        if matches!(config.admission, Admission::Closed { .. }) {
            free.extend((0..cap).map(|_| Reverse(Nanos::ZERO)));
        }
        Self {
            queue: VecDeque::with_capacity(config.look_ahead()),
            look_ahead: config.look_ahead(),
            taken: 0,
            free,
            full_until: Nanos(i64::MIN),
            was_held: false,
            held_at: Nanos(i64::MIN),
            has_ended: false,
            has_left: false,
            config,
        }
    }

    fn is_full(&self) -> bool {
        self.taken >= self.config.cap
    }

    /// From when on its first request can be admitted.
    fn next(&self) -> Nanos {
        match (self.queue.front(), self.config.admission) {
            (Some(first), Admission::Open | Admission::Threads) if !self.is_full() => {
                first.scheduled
            }
            (Some(_), Admission::Closed { .. }) => self.free.peek().map_or(NEVER, |free| free.0),
            _ => NEVER,
        }
    }

    /// Leaves the gate, once, when nothing of it is left.
    fn leave_gate_at_end(&mut self) {
        if self.has_ended
            && self.queue.is_empty()
            && !self.has_left
            && let Some((gate, member)) = &self.config.gate
        {
            gate.leave(*member);
            self.has_left = true;
        }
    }
}

impl Flows {
    pub(super) fn new(configs: Vec<FlowConfig>, numbering: Numbering) -> Self {
        let last = configs.iter().map(|config| usize::from(config.number)).max().unwrap_or(0);
        let mut index = vec![0; last + 1];
        for (at, config) in configs.iter().enumerate() {
            index[usize::from(config.number)] = at as u16;
        }
        let waits_for_lanes =
            numbering.step > 1 && configs.iter().any(|config| config.gate.is_some());
        Self {
            next: vec![NEVER; configs.len()],
            all: configs.into_iter().map(Flow::new).collect(),
            index,
            held: 0,
            next_seq: numbering.first,
            step: numbering.step,
            row: numbering.row,
            last_issue: Nanos(i64::MIN),
            waits_for_lanes,
            are_numbered: false,
        }
    }

    /// How many flows there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Requests that were not admitted yet.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How many more requests this flow takes.
    pub(super) fn room(&self, flow: usize) -> usize {
        let Flow { look_ahead, queue, has_ended, .. } = &self.all[flow];
        if *has_ended { 0 } else { look_ahead.saturating_sub(queue.len()) }
    }

    /// Whether its requests have due instants before they are admitted.
    pub(super) fn is_open(&self, flow: usize) -> bool {
        self.all[flow].config.admission == Admission::Open
    }

    /// Holds so many requests at least, with their numbers, if there is one flow. Nothing was
    /// offered yet.
    pub(super) fn look_ahead_numbered(&mut self, count: usize) {
        if let ([flow], true) = (&mut self.all[..], count > 0) {
            flow.look_ahead = flow.look_ahead.max(count);
            flow.queue.reserve(flow.look_ahead);
            self.are_numbered = true;
        }
    }

    /// How many requests all of them hold. Where there are none, as for a tree that is only copied
    /// to, there is room for one all the same: without room the input is never asked, and so never
    /// says that it has ended.
    pub(super) fn look_ahead(&self) -> usize {
        self.all.iter().map(|flow| flow.look_ahead).sum::<usize>().max(1)
    }

    /// The requests that come next, as far as they have numbers.
    pub(super) fn upcoming(&self) -> impl Iterator<Item = &Planned> {
        let first = self.all.first().filter(|_| self.are_numbered);
        first.into_iter().flat_map(|flow| &flow.queue)
    }

    fn number(&mut self) -> u64 {
        if let Some(row) = &self.row {
            return row.fetch_add(1, Relaxed);
        }
        self.next_seq += self.step;
        self.next_seq - self.step
    }

    /// Takes the next request of a flow. There must be room.
    pub(super) fn offer(&mut self, flow: usize, planned: Planned) {
        let seq = if self.are_numbered { self.number() } else { planned.seq };
        let one = &mut self.all[flow];
        let planned = Planned { flow: one.config.number, seq, ..planned };
        let is_late = |last: &Planned| last.scheduled > planned.scheduled;
        let is_late = one.queue.back().is_some_and(is_late) && !self.are_numbered;
        let has_instants = !matches!(one.config.admission, Admission::Closed { .. });
        if has_instants && is_late {
            // What a thread on files does next is due before what others wait for.
            let before = |other: &Planned| other.scheduled <= planned.scheduled;
            one.queue.insert(one.queue.partition_point(before), planned);
        } else {
            one.queue.push_back(planned);
        }
        self.held += 1;
        self.next[flow] = self.all[flow].next();
    }

    /// No more requests of this flow come; answers whether that is true of all.
    pub(super) fn end(&mut self, flow: usize) -> bool {
        self.all[flow].has_ended = true;
        self.all[flow].leave_gate_at_end();
        self.all.iter().all(|flow| flow.has_ended)
    }

    /// Whether a flow could admit a request at once and has none.
    pub(super) fn is_hungry(&self) -> bool {
        self.all.iter().any(|flow| flow.queue.is_empty() && !flow.has_ended && !flow.is_full())
    }

    /// The flow whose turn is first of those that no gate holds back, and its instant.
    fn first(&mut self, now: Nanos) -> Option<(usize, Nanos)> {
        let mut first = None;
        let mut passed = None;
        for (index, at) in self.next.iter().enumerate() {
            if *at == NEVER || first.is_some_and(|(_, earliest)| *at >= earliest) {
                continue;
            }
            let flow = &mut self.all[index];
            if let Some((gate, member)) = &flow.config.gate {
                let passed = *passed.get_or_insert_with(|| gate.passed());
                if !gate.is_open_to(*member, passed) {
                    if *at <= now {
                        (flow.was_held, flow.held_at) = (true, now);
                    }
                    continue;
                }
            }
            first = Some((index, *at));
        }
        first
    }

    /// Admits the first request that can be, if any can be by now.
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Planned> {
        let (index, at) = self.first(now).filter(|(_, at)| *at <= now)?;
        let flow = &mut self.all[index];
        let mut planned = flow.queue.pop_front()?;
        flow.taken += 1;
        if let Admission::Closed { .. } = flow.config.admission {
            flow.free.pop();
            planned.scheduled = at;
        }
        // A client that was held back at the gate was free and not to go, and so were all that
        // were free by then.
        if flow.config.admission != Admission::Open && at <= flow.held_at {
            planned.scheduled = now;
        }
        flow.was_held = false;
        if let Some((gate, member)) = &flow.config.gate {
            gate.admit(*member);
        }
        flow.leave_gate_at_end();
        planned.issue = planned.scheduled.max(self.last_issue);
        self.last_issue = planned.issue;
        self.held -= 1;
        self.next[index] = self.all[index].next();
        if !self.are_numbered {
            planned.seq = self.number();
        }
        Some(planned)
    }

    /// A request has completed, or will never be issued: its place is free.
    pub(super) fn complete(&mut self, number: u16, at: Nanos) {
        let index = usize::from(self.index[usize::from(number)]);
        let flow = &mut self.all[index];
        if flow.is_full() {
            flow.full_until = at;
        }
        flow.taken -= 1;
        if let Admission::Closed { think } = flow.config.admission {
            flow.free.push(Reverse(at.saturating_add(think)));
        }
        self.next[index] = flow.next();
    }

    /// When the first request can be admitted of those whose instants are known.
    pub(super) fn next_due(&mut self, now: Nanos) -> Option<Nanos> {
        let first = self.first(now).map(|(_, at)| at);
        let mut held = self.all.iter().zip(&self.next).filter(|(flow, _)| flow.was_held);
        let is_held = self.waits_for_lanes && held.any(|(_, next)| *next != NEVER);
        let look_again = is_held.then(|| now + GATE_NAP);
        first.into_iter().chain(look_again).min()
    }

    /// The cap, if it is why an admitted request was not admitted for most of the time since it was
    /// due.
    fn cap_since(&self, planned: &Planned, now: Nanos) -> Option<LateCause> {
        let flow = &self.all[usize::from(self.index[usize::from(planned.flow)])];
        is_most(flow.full_until, planned, now).then_some(LateCause::InFlightCap)
    }

    /// Whether a flow has no place for a request that was due before this instant.
    pub(super) fn is_full_before(&self, end: Nanos) -> bool {
        let is_due = |flow: &Flow| flow.queue.front().is_some_and(|first| first.scheduled < end);
        let is_open = |flow: &Flow| flow.config.admission == Admission::Open;
        self.all.iter().any(|flow| is_open(flow) && flow.is_full() && is_due(flow))
    }

    /// Forgets everything that was not admitted, and passes it to `left` with whether it has a due
    /// instant.
    pub(super) fn forget(&mut self, left: &mut dyn FnMut(&Planned, bool)) {
        for (flow, next) in self.all.iter_mut().zip(&mut self.next) {
            let has_instant = flow.config.admission == Admission::Open;
            flow.queue.drain(..).for_each(|planned| left(&planned, has_instant));
            flow.has_ended = true;
            flow.leave_gate_at_end();
            *next = NEVER;
        }
        self.held = 0;
    }
}

/// Whether the time since a request was due has mostly passed by this instant.
fn is_most(until: Nanos, planned: &Planned, now: Nanos) -> bool {
    let waited = until.saturating_sub(planned.scheduled);
    waited > Nanos::ZERO && waited.0 > (now - planned.scheduled).0 / 2
}

/// What kept the client of a request, if it did for most of the time since that was due.
pub(super) fn held_by(planned: &Planned, now: Nanos) -> Option<LateCause> {
    let held = planned.held.filter(|held| is_most(held.until, planned, now))?;
    Some(held.by)
}

/// What its engine asks of a scheduler about flows.
impl Scheduler {
    /// How many flows the load has; 0 if it is one stream.
    pub fn flows(&self) -> usize {
        self.flows.as_ref().map_or(0, |flows| flows.len())
    }

    /// Whether any flow has clients, who ask again when they are answered.
    pub fn has_clients(&self) -> bool {
        let has = |flow: &Flow| flow.config.admission != Admission::Open;
        self.flows.as_ref().is_some_and(|flows| flows.all.iter().any(has))
    }

    /// How many more planned requests this flow takes, counted from 0 in the lane.
    pub fn flow_room(&self, flow: usize) -> usize {
        self.flows.as_ref().map_or(0, |flows| flows.room(flow))
    }

    /// Whether the requests of this flow have due instants before they are admitted.
    pub fn is_open(&self, flow: usize) -> bool {
        self.flows.as_ref().is_some_and(|flows| flows.is_open(flow))
    }

    /// What kept a request from being asked for or admitted, if that is why it was not issued for
    /// most of the time since it was due.
    pub(super) fn held_since(&self, planned: &Planned, now: Nanos) -> Option<LateCause> {
        let cap = || self.flows.as_ref().and_then(|flows| flows.cap_since(planned, now));
        held_by(planned, now).or_else(cap)
    }

    /// Hands over the next planned request of a flow. There must be room.
    pub fn offer_to(&mut self, flow: usize, planned: Planned) {
        if let Some(flows) = &mut self.flows {
            flows.offer(flow, planned);
        }
    }

    /// Tells that no more requests of this flow come; answers whether that is true of all.
    pub fn end_flow(&mut self, flow: usize) -> bool {
        self.input_ended = self.flows.as_mut().is_none_or(|flows| flows.end(flow));
        self.input_ended
    }
}
