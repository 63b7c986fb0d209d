//! The scheduler: decides which requests to issue now, and when to be asked again.
//!
//! Faults of a scheduler show once in a million requests, under a load that cannot be repeated. So
//! this one is a pure state machine: its inputs are the time and the completions, its outputs are
//! requests to issue, results to record and the next instant at which it must be asked again. It
//! never reads a clock, sleeps, or does I/O, and a seed repeats a run exactly.
//!
//! A request's way: *look-ahead* (planned, not yet due) → due → either *in flight*, or *waiting*
//! for those that it conflicts with → completed. Requests enter in the order of their due time, and
//! due requests are decided on in that order. Where requests wait for the completion of others
//! ([`Config::has_parents`]), they enter in the order of their numbers and fall due in another
//! (`chains`). Where a load has flows, each has a queue of
//! its own (`flows`).
//!
//! Each waiting request has a counter of the requests, in flight or already waiting, that it
//! conflicts with. Each completion counts down the waiting requests that it conflicts with. This is
//! exact: no request that conflicts with a waiting one can overtake it, so every completion that
//! conflicts with it was counted. At zero it is issued. Hence overlapping requests keep their
//! order, whatever the device does.
//!
//! Invariants (checked in `tests/simulation.rs`): every request is recorded exactly once; no two
//! conflicting requests are in flight together except under `allow`; conflicting requests are
//! issued in the order in which they fall due; nothing is issued before it is due.

mod chains;
mod config;
mod cut;
mod flows;
mod past;

use std::collections::VecDeque;

use ioecho_trace::{Integrity, LateCause, Measured, Nanos, Outcome};

use crate::conflict::{ConflictMode, Ranges};
use crate::device::{Completion, Io};
use crate::flow::{FlowConfig, Numbering};
use crate::plan::Planned;
use chains::Chains;
pub(crate) use chains::span;
pub use config::{Config, IN_FLIGHT};
use flows::Flows;
use past::Past;

/// Lateness up to this needs no cause: a timer's wake-up and one step of the engine take as much.
pub const LATENESS_TOLERATED: Nanos = Nanos::from_micros(100);

/// A generator that needs more than so many times as long as a stall of the host took to make up
/// for it has hardly any speed to spare, and is too slow by itself.
const MADE_UP_WITHIN: i64 = 4;

/// The result of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The planned request.
    pub planned: Planned,
    /// Its measurements.
    pub measured: Measured,
}

/// When the scheduler must be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At this instant, or at a completion before it.
    At(Nanos),
    /// At the next completion: everything due is blocked.
    Completion,
    /// As soon as there is more input.
    Input,
    /// Never: everything is done.
    Finished,
}

/// Counters of what the scheduler did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests issued.
    pub issued: u64,
    /// Requests that had to wait for one that they overlap.
    pub pushed_back: u64,
    /// Requests left out on conflict.
    pub dropped: u64,
    /// Requests that held up everything behind them on conflict (mode `ordering`).
    pub ordered: u64,
    /// The largest number in flight together.
    pub in_flight_peak: u32,
    /// The largest number waiting together.
    pub waiting_peak: u32,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    planned: Planned,
    in_flight: u32,
    pushed_back: bool,
    late_cause: LateCause,
    /// The cause if it was submitted late although it was handed over in time.
    within: LateCause,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    planned: Planned,
    /// Requests in flight or waiting that must complete first.
    blockers: u32,
}

/// The state machine.
#[derive(Clone, Debug)]
pub struct Scheduler {
    config: Config,
    /// The look-ahead; where requests wait for others, those of it that are due.
    ahead: VecDeque<Planned>,
    /// The rest of it, where requests wait for others.
    chains: Option<Box<Chains>>,
    /// The rest of it, where the load has flows.
    flows: Option<Box<Flows>>,
    input_ended: bool,

    /// By tag: ordinary requests first, those once pushed back behind them.
    flying: Vec<Option<Flying>>,
    free: Vec<u32>,
    free_pushed: Vec<u32>,
    in_flight: u32,
    flying_ranges: Ranges,

    waiting: Vec<Option<Waiting>>,
    waiting_free: Vec<u32>,
    waiting_ranges: Ranges,
    /// Waiting requests that are no longer blocked, in the order in which they became free.
    ready: VecDeque<u32>,

    /// Why the first request of the look-ahead could not go at the last step, and when that was.
    held_up: Option<LateCause>,
    stepped_at: Nanos,
    /// Whether there was no room then for requests that may fall due before those that are held.
    was_full: bool,
    past: Past,
    /// Why the last request that was due by the schedule was late, if it was.
    behind: LateCause,
    /// How much of the lateness that there is now a host that stood still has left behind.
    host_debt: Nanos,
    /// Until when that is believed.
    host_debt_until: Nanos,
    /// One more than the number of the last request of the current bundle, and when that one is
    /// due.
    bundle_end: u64,
    bundle_release: Nanos,
    /// The last request that was counted for holding up those behind it.
    ordered_last: Option<u64>,
    concurrency: u32,
    counts: Counts,
}

impl Scheduler {
    /// A scheduler with nothing to do yet.
    pub fn new(config: Config) -> Self {
        let slots = config.device_slots();
        let waiting_max = config.waiting_max as usize;
        Self {
            config,
            ahead: VecDeque::with_capacity(config.look_ahead),
            chains: config.has_parents().then(|| Box::new(Chains::new(&config))),
            flows: None,
            input_ended: false,
            flying: vec![None; slots as usize],
            free: (0..config.in_flight_max).rev().collect(),
            free_pushed: (config.in_flight_max..slots).rev().collect(),
            in_flight: 0,
            flying_ranges: Ranges::new(config.strong, slots as usize),
            waiting: vec![None; waiting_max],
            waiting_free: (0..config.waiting_max).rev().collect(),
            waiting_ranges: Ranges::new(config.strong, waiting_max),
            ready: VecDeque::with_capacity(waiting_max),
            held_up: None,
            stepped_at: Nanos(i64::MIN),
            was_full: false,
            past: Past::new(),
            behind: LateCause::None,
            host_debt: Nanos::ZERO,
            host_debt_until: Nanos::ZERO,
            bundle_end: 0,
            bundle_release: Nanos::ZERO,
            ordered_last: None,
            concurrency: u32::MAX,
            counts: Counts::default(),
        }
    }

    /// A scheduler of flows. Each has a queue and a cap of its own; the cap of all should be no
    /// lower than those together, or flows wait for each other.
    pub fn with_flows(config: Config, flows: Vec<FlowConfig>, numbering: Numbering) -> Self {
        let flows = Box::new(Flows::new(flows, numbering));
        let look_ahead = flows.look_ahead();
        Self { flows: Some(flows), ..Self::new(Config { look_ahead, ..config }) }
    }

    /// How it behaves.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many more planned requests the look-ahead takes.
    pub fn room(&self) -> usize {
        let held = match (&self.chains, &self.flows) {
            (Some(chains), _) if chains.has_room() => chains.held(),
            (Some(_), _) => return 0,
            (None, Some(flows)) => flows.held(),
            (None, None) => 0,
        };
        self.config.look_ahead - self.ahead.len() - held
    }

    /// Hands over the next planned request. They come in order of `scheduled`; there must be room.
    pub fn offer(&mut self, planned: Planned) {
        self.offer_after(planned, &[]);
    }

    /// The same of a request that waits for the requests of these numbers, each named once. Nothing
    /// waits unless the [configuration](Config::has_parents) says so.
    pub fn offer_after(&mut self, planned: Planned, parents: &[u64]) {
        debug_assert!(self.room() > 0);
        match &mut self.chains {
            Some(chains) => chains.offer(planned, parents),
            None => self.ahead.push_back(planned),
        }
    }

    /// The request of this number, on another target, has ended: those that wait for it wait no
    /// longer.
    pub fn ended_elsewhere(&mut self, seq: u64, at: Nanos) {
        if let Some(chains) = &mut self.chains {
            chains.complete_elsewhere(seq, at);
        }
    }

    /// Whether requests wait for others on other targets.
    pub fn waits_elsewhere(&self) -> bool {
        self.chains.as_ref().is_some_and(|chains| chains.waits_elsewhere())
    }

    /// The least number of the requests handed over that have not ended, where requests wait for
    /// others.
    pub fn oldest(&mut self) -> Option<u64> {
        self.chains.as_mut()?.oldest()
    }

    /// Whether a request that was not handed over yet may be due before all those that were.
    pub fn is_hungry(&self) -> bool {
        !self.input_ended
            && match (&self.chains, &self.flows) {
                (Some(_), _) => self.room() > 0,
                (None, Some(flows)) => flows.is_hungry(),
                (None, None) => false,
            }
    }

    /// Tells that no more requests come. After a stop the rest of the look-ahead is forgotten.
    pub fn end_input(&mut self, forget_look_ahead: bool) {
        self.input_ended = true;
        if forget_look_ahead {
            self.ahead.clear();
            if let Some(chains) = &mut self.chains {
                chains.forget(&mut |_| {});
            }
            if let Some(flows) = &mut self.flows {
                flows.forget(&mut |_, _| {});
            }
        }
    }

    /// The planned request that falls due first of those behind the request of this number; where
    /// requests wait for others, that of the smallest number, which is near it.
    pub fn planned_after(&self, seq: Option<u64>) -> Option<&Planned> {
        if let Some(chains) = &self.chains {
            return chains.held_after(seq);
        }
        let index = match seq {
            None => 0,
            Some(seq) => self.ahead.partition_point(|planned| planned.seq <= seq),
        };
        self.ahead.get(index)
    }

    /// Holds so many planned requests at least whose numbers are known, where that can be. To be
    /// called before any is offered.
    pub fn look_ahead_numbered(&mut self, count: usize) {
        if let Some(flows) = &mut self.flows {
            flows.look_ahead_numbered(count);
            self.config.look_ahead = flows.look_ahead();
        }
    }

    /// The requests that come next, in their order, as far as they are known with their numbers.
    pub fn upcoming(&self) -> impl Iterator<Item = &Planned> {
        self.ahead.iter().chain(self.flows.iter().flat_map(|flows| flows.upcoming()))
    }

    /// The planned request that falls due last of those held.
    pub fn planned_last(&self) -> Option<&Planned> {
        self.ahead.back()
    }

    /// Whether planned requests wait to fall due.
    pub fn has_planned(&self) -> bool {
        !self.ahead.is_empty() || self.holds()
    }

    /// Whether requests wait for others, or for an instant that depends on others.
    fn holds(&self) -> bool {
        self.chains.as_ref().is_some_and(|chains| chains.held() > 0)
            || self.flows.as_ref().is_some_and(|flows| flows.held() > 0)
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Requests waiting for others.
    pub fn waiting(&self) -> u32 {
        self.config.waiting_max - self.waiting_free.len() as u32
    }

    /// Advances to `now`.
    ///
    /// Processes `completions` first, then appends due requests to `submissions` and results to
    /// `records`. `gap_cause` is why nothing was issued since the last step: the cause of lateness
    /// of requests that fell due in between and were not held up otherwise.
    pub fn step(
        &mut self,
        now: Nanos,
        gap_cause: LateCause,
        completions: &[Completion],
        submissions: &mut Vec<Io>,
        records: &mut Vec<Record>,
    ) -> Wake {
        self.take(completions, records);
        self.let_go(now);
        self.remember(now, gap_cause);
        self.issue_ready(now, submissions);
        self.issue_due(now, gap_cause, submissions, records);
        self.stepped_at = now;
        self.was_full = self.chains.is_some() && !self.input_ended && self.room() == 0;
        self.wake(now)
    }

    /// Takes completions without deciding on anything: the next step does, with what they brought.
    pub fn take(&mut self, completions: &[Completion], records: &mut Vec<Record>) {
        for completion in completions {
            self.complete(completion, records);
        }
    }

    /// Moves what waited for others or for a place of its flow, and is due, into the look-ahead.
    fn let_go(&mut self, now: Nanos) {
        if let Some(chains) = &mut self.chains {
            while let Some(planned) = chains.take_due(now) {
                self.ahead.push_back(planned);
            }
        }
        if let Some(flows) = &mut self.flows {
            while let Some(planned) = flows.take_due(now) {
                self.ahead.push_back(planned);
            }
        }
    }

    /// A request is no longer to be waited for. Without what was `lost` it would have ended so much
    /// earlier.
    fn has_ended(&mut self, planned: &Planned, at: Nanos, lost: Nanos) {
        if let Some(chains) = &mut self.chains {
            chains.complete(planned.seq, at, lost);
        }
        if let Some(flows) = &mut self.flows {
            flows.complete(planned.flow, at);
        }
    }

    /// Notes why due requests were not issued earlier.
    fn remember(&mut self, now: Nanos, gap_cause: LateCause) {
        let front = self.ahead.front().map(|planned| planned.scheduled);
        if self.was_full {
            // What there was no room for may have fallen due nevertheless.
            let until = front.map_or(now, |due| due.clamp(self.stepped_at, now));
            self.past.add(until, LateCause::Input);
        }
        let is_early = front.is_some_and(|due| due > now);
        if is_early || front.is_none() && self.holds() {
            self.behind = LateCause::None;
            self.host_debt = Nanos::ZERO;
            if is_early || gap_cause == LateCause::Host && !self.was_full {
                self.past.clear();
            } else if !self.was_full {
                self.past.add(now, gap_cause);
            }
            return;
        }
        let was_away = now.saturating_sub(self.stepped_at) > LATENESS_TOLERATED;
        let cause = match self.held_up {
            Some(cause) => cause,
            None if was_away || gap_cause != LateCause::Host => gap_cause,
            // The engine was not away: it was still catching up on earlier lateness, or had too
            // much to do.
            None if self.behind != LateCause::None => self.behind,
            None => LateCause::Generator,
        };
        if cause == LateCause::Host
            && let Some(front) = self.ahead.front()
        {
            let since = self.stepped_at.max(front.scheduled);
            self.host_debt = self.host_debt.saturating_add(now.saturating_sub(since));
            let time = Nanos(self.host_debt.0.saturating_mul(MADE_UP_WITHIN));
            self.host_debt_until = now.saturating_add(time);
        }
        self.past.add(now, cause);
    }

    /// Whether a request that is late by so much would be in time but for a host that stood still.
    ///
    /// After a stall the trace is read and requests are prepared as fast as can be, and each waits
    /// for those before it. As long as none is later than the stall was long, the stall is all that
    /// is made up for, and no slowness of the generator.
    fn is_of_a_stall(&mut self, now: Nanos, late_by: Nanos, cause: LateCause) -> bool {
        if late_by <= LATENESS_TOLERATED || now > self.host_debt_until {
            self.host_debt = Nanos::ZERO;
        }
        let is_own = matches!(cause, LateCause::Input | LateCause::Generator);
        is_own && late_by <= self.host_debt
    }

    /// Sets the cause for a request that was handed over later than decided, unless it has one
    /// already.
    pub fn explain(&mut self, tag: u32, cause: LateCause) {
        if let Some(flying) = &mut self.flying[tag as usize]
            && flying.late_cause == LateCause::None
        {
            flying.late_cause = cause;
        }
    }

    /// Sets the cause for a request that may have been late within the hand-over: of those handed
    /// over together, only those behind a long one are.
    pub fn explain_within(&mut self, tag: u32, cause: LateCause) {
        if let Some(flying) = &mut self.flying[tag as usize] {
            flying.within = cause;
        }
    }

    /// Tells how many requests the device hands to the kernel at a time.
    pub fn set_concurrency(&mut self, concurrency: u32) {
        self.concurrency = concurrency;
    }

    /// Gives up everything in flight, at the end of a run whose device does not answer, and forgets
    /// what waits.
    pub fn abandon(&mut self, records: &mut Vec<Record>) {
        for flying in self.flying.iter_mut().filter_map(Option::take) {
            let measured = Measured {
                scheduled: flying.planned.scheduled,
                submitted: None,
                completed: None,
                target_offset: Some(flying.planned.offset),
                in_flight: flying.in_flight,
                outcome: Outcome::Abandoned,
                pushed_back: flying.pushed_back,
                late_cause: flying.late_cause,
                target: flying.planned.target,
                integrity: Integrity::Unchecked,
                behind: flying.planned.behind,
                flow: flying.planned.flow,
            };
            records.push(Record { planned: flying.planned, measured });
        }
        // What still waits was never issued, like the look-ahead behind it.
        self.waiting.fill(None);
        self.in_flight = 0;
    }

    fn complete(&mut self, completion: &Completion, records: &mut Vec<Record>) {
        let tag = completion.tag;
        let Some(flying) = &self.flying[tag as usize] else {
            debug_assert!(false, "completion of tag {tag}, which is not in flight");
            return;
        };
        let planned = flying.planned;
        let measured = Measured {
            scheduled: flying.planned.scheduled,
            submitted: Some(completion.submitted),
            completed: Some(completion.completed),
            target_offset: Some(flying.planned.offset),
            in_flight: flying.in_flight,
            outcome: completion.outcome,
            pushed_back: flying.pushed_back,
            late_cause: self.late_cause(flying, completion.submitted),
            target: flying.planned.target,
            integrity: completion.integrity,
            behind: flying.planned.behind,
            flow: flying.planned.flow,
        };
        records.push(Record { planned, measured });
        self.flying[tag as usize] = None;
        self.in_flight -= 1;
        let ordinary = tag < self.config.in_flight_max;
        if ordinary {
            self.free.push(tag);
        } else {
            self.free_pushed.push(tag);
        }
        if self.config.conflicts != ConflictMode::Allow {
            self.flying_ranges.remove(tag, &planned);
            self.count_down(&planned);
        }
        let lost = lost(&planned, measured.late_cause, completion.submitted);
        self.has_ended(&planned, completion.completed, lost);
    }

    /// Why the request was submitted late. A request handed over in time but submitted late waited
    /// for requests that the device was working on, or for a thread that the host did not run.
    fn late_cause(&self, flying: &Flying, submitted: Nanos) -> LateCause {
        if flying.late_cause != LateCause::None {
            return flying.late_cause;
        }
        let rest = if flying.within != LateCause::None {
            flying.within
        } else if flying.in_flight > self.concurrency {
            LateCause::InFlightCap
        } else {
            LateCause::Host
        };
        let rest = flows::held_by(&flying.planned, submitted).unwrap_or(rest);
        late(submitted, &flying.planned, rest)
    }

    /// Tells every waiting request that conflicts with the completed one.
    fn count_down(&mut self, completed: &Planned) {
        let Self { waiting, waiting_ranges, ready, .. } = self;
        waiting_ranges.for_each_conflict(completed, |slot| {
            if let Some(entry) = &mut waiting[slot as usize]
                && entry.blockers > 0
            {
                entry.blockers -= 1;
                if entry.blockers == 0 {
                    ready.push_back(slot);
                }
            }
        });
    }

    fn issue_ready(&mut self, now: Nanos, submissions: &mut Vec<Io>) {
        while !self.free_pushed.is_empty()
            && let Some(slot) = self.ready.pop_front()
            && let Some(waiting) = self.waiting[slot as usize].take()
            && let Some(tag) = self.free_pushed.pop()
        {
            self.waiting_ranges.remove(slot, &waiting.planned);
            self.waiting_free.push(slot);
            let cause = late(now, &waiting.planned, LateCause::Conflict);
            self.launch(tag, waiting.planned, true, cause, submissions);
        }
    }

    fn issue_due(
        &mut self,
        now: Nanos,
        gap_cause: LateCause,
        submissions: &mut Vec<Io>,
        records: &mut Vec<Record>,
    ) {
        self.held_up = None;
        while let Some(&(mut planned)) = self.ahead.front()
            && self.front_is_due(now)
        {
            if !self.config.timing.has_due_instants() {
                // There is no schedule: it is due when there is a place for it.
                planned.scheduled = now;
            }
            if let Some(outcome) = planned.refusal {
                self.leave_out(now, planned, outcome, records);
                continue;
            }
            if self.conflicts(&planned) {
                match self.config.conflicts {
                    ConflictMode::Drop => {
                        self.counts.dropped += 1;
                        self.leave_out(now, planned, Outcome::Dropped, records);
                        continue;
                    }
                    ConflictMode::Partial => {
                        if !self.push_back(&planned) {
                            self.held_up = Some(LateCause::Conflict);
                            return;
                        }
                        self.ahead.pop_front();
                        continue;
                    }
                    ConflictMode::Ordering => {
                        self.counts.ordered += u64::from(self.ordered_last != Some(planned.seq));
                        self.ordered_last = Some(planned.seq);
                        self.held_up = Some(LateCause::Conflict);
                        return;
                    }
                    ConflictMode::Allow => {}
                }
            }
            let Some(tag) = self.place_for(&planned) else {
                self.held_up = Some(LateCause::InFlightCap);
                return;
            };
            self.ahead.pop_front();
            let is_old = planned.scheduled <= self.stepped_at;
            let since = |past: &mut Past| {
                is_old.then(|| past.cause_since(planned.scheduled)).flatten().unwrap_or(gap_cause)
            };
            let held = self.held_since(&planned, now);
            let cause = held.unwrap_or_else(|| since(&mut self.past));
            let late_by = now.saturating_sub(planned.scheduled);
            let is_of_a_stall = self.is_of_a_stall(now, late_by, cause);
            self.behind = late(now, &planned, if is_of_a_stall { LateCause::Host } else { cause });
            self.launch(tag, planned, false, self.behind, submissions);
        }
    }

    /// Records the first request of the look-ahead, which is not issued. Those that wait for it
    /// wait no longer.
    fn leave_out(
        &mut self,
        now: Nanos,
        planned: Planned,
        outcome: Outcome,
        records: &mut Vec<Record>,
    ) {
        self.ahead.pop_front();
        records.push(refused(planned, outcome));
        self.has_ended(&planned, planned.scheduled, Nanos::ZERO);
        self.let_go(now);
    }

    /// Whether the first request of the look-ahead may be issued as far as time goes.
    fn front_is_due(&mut self, now: Nanos) -> bool {
        self.release() <= now
    }

    /// When the first request of the look-ahead is to be issued: when it is due, or when the last
    /// of its bundle is.
    fn release(&mut self) -> Nanos {
        let Some(front) = self.ahead.front().copied() else { return Nanos::MAX };
        if !self.config.timing.has_due_instants() {
            return Nanos::ZERO;
        }
        if self.config.bundle == Nanos::ZERO || self.chains.is_some() || self.flows.is_some() {
            return front.scheduled;
        }
        if self.bundle_end <= front.seq {
            let until = front.scheduled + self.config.bundle;
            let bundle = self.ahead.iter().take_while(|planned| planned.scheduled <= until);
            if let Some(last) = bundle.last() {
                self.bundle_end = last.seq + 1;
                self.bundle_release = last.scheduled;
            }
        }
        self.bundle_release
    }

    /// A free place below all ceilings.
    fn place_for(&mut self, planned: &Planned) -> Option<u32> {
        let recorded = planned.recorded_in_flight;
        let ceiling = match self.config {
            // The trace does not tell.
            _ if recorded == 0 => u32::MAX,
            Config { timing, .. } if timing.follows_recorded() => recorded,
            Config { follow_in_flight: true, .. } => recorded.next_power_of_two(),
            _ => u32::MAX,
        };
        if self.in_flight >= ceiling { None } else { self.free.pop() }
    }

    /// Whether the request conflicts with any in flight or, where order among those waiting must be
    /// kept, with any that waits.
    fn conflicts(&self, planned: &Planned) -> bool {
        self.config.conflicts != ConflictMode::Allow
            && (self.flying_ranges.conflicts(planned) || self.waiting_ranges.conflicts(planned))
    }

    /// Puts the request among those waiting; `false` if there is no room.
    fn push_back(&mut self, planned: &Planned) -> bool {
        let Some(slot) = self.waiting_free.pop() else {
            return false;
        };
        let mut blockers = 0;
        self.flying_ranges.for_each_conflict(planned, |_| blockers += 1);
        self.waiting_ranges.for_each_conflict(planned, |_| blockers += 1);
        self.waiting[slot as usize] = Some(Waiting { planned: *planned, blockers });
        self.waiting_ranges.insert(slot, planned);
        self.counts.pushed_back += 1;
        self.counts.waiting_peak = self.counts.waiting_peak.max(self.waiting());
        true
    }

    fn launch(
        &mut self,
        tag: u32,
        planned: Planned,
        pushed_back: bool,
        late_cause: LateCause,
        submissions: &mut Vec<Io>,
    ) {
        self.in_flight += 1;
        self.counts.issued += 1;
        self.counts.in_flight_peak = self.counts.in_flight_peak.max(self.in_flight);
        if self.config.conflicts != ConflictMode::Allow {
            self.flying_ranges.insert(tag, &planned);
        }
        let in_flight = self.in_flight;
        self.flying[tag as usize] =
            Some(Flying { planned, in_flight, pushed_back, late_cause, within: LateCause::None });
        submissions.push(planned.io(tag));
    }

    fn wake(&mut self, now: Nanos) -> Wake {
        let busy = self.in_flight > 0 || self.waiting() > 0;
        let of_flows = self.flows.as_mut().and_then(|flows| flows.next_due(now));
        let of_chains = self.chains.as_ref().and_then(|chains| chains.next_due());
        if !self.ahead.is_empty() {
            // Due requests that are still here are blocked by requests in flight.
            if self.front_is_due(now) { Wake::Completion } else { Wake::At(self.release()) }
        } else if let Some(due) = of_chains.or(of_flows) {
            Wake::At(due)
        } else if self.holds() && !self.is_hungry() {
            Wake::Completion
        } else if !self.input_ended {
            Wake::Input
        } else if busy {
            Wake::Completion
        } else {
            Wake::Finished
        }
    }
}

/// How much of the lateness of a request is neither the device's nor that of requests that it
/// waited for. Whatever waits for it is late by so much without the device being slow.
fn lost(planned: &Planned, cause: LateCause, submitted: Nanos) -> Nanos {
    if matches!(cause, LateCause::InFlightCap | LateCause::Submission) {
        return Nanos::ZERO;
    }
    let waited = planned.held.map_or(Nanos::ZERO, |held| held.until - planned.scheduled);
    (submitted - planned.scheduled - waited).max(Nanos::ZERO)
}

/// The cause of the lateness, if there is any to speak of.
fn late(now: Nanos, planned: &Planned, cause: LateCause) -> LateCause {
    if now.saturating_sub(planned.scheduled) > LATENESS_TOLERATED { cause } else { LateCause::None }
}

/// The record of a request that is never issued.
fn refused(planned: Planned, outcome: Outcome) -> Record {
    let measured = Measured {
        scheduled: planned.scheduled,
        submitted: None,
        completed: None,
        target_offset: None,
        in_flight: 0,
        outcome,
        pushed_back: false,
        late_cause: LateCause::None,
        target: planned.target,
        integrity: Integrity::Unchecked,
        behind: planned.behind,
        flow: planned.flow,
    };
    Record { planned, measured }
}

#[cfg(test)]
mod tests;
