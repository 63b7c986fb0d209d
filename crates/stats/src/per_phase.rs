//! The phases of a load on files: how fast its threads were together, and how far apart they ended.
//!
//! Threads that make files at once do not end at once. Until the first has finished all of them
//! work, so the rate until then is that of the storage under the whole load; the rate until the
//! last has finished is what a user waits for. Both are told, as users of mdtest and elbencho
//! expect it. A phase is an operation of a flow: the `mkdir` of a format, its `create`, the
//! `getattr` of a step.
//!
//! * A phase *begins* with the first of its calls.
//! * A thread has *finished* when the last of its calls has ended, whatever came of it.
//! * A rate is of calls that completed in full until then, by the time since the phase began.
//!
//! All of that is minima, maxima and sums, so parts of a run merge, and so do the runs of several
//! hosts. When the first thread finished is known at the end only. So how many calls had completed
//! by then is known exactly of a phase of up to [`FEW_MAX`] calls; of a longer one it is counted by
//! the steps of an axis ([`Timeline`], at most 2048 of the whole run), and of the step in which the
//! thread finished by its share.

use std::collections::BTreeMap;

use ioecho_trace::{Measured, Nanos, Op, Outcome, Request};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::facts::EngineFacts;
use crate::timeline::Timeline;

/// So many calls of a phase are known one by one.
const FEW_MAX: usize = 4096;

/// The figures of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseFigures {
    /// Which of the run's flows, counted from 1; `None` of a merged run, whose flows have no
    /// numbers in common: there a phase is an operation of all of them.
    pub flow: Option<u16>,
    /// The name of the flow; empty of a merged run.
    pub name: String,
    /// The operation.
    pub operation: Op,
    /// Threads that made such a call.
    pub threads: u32,
    /// Calls that were made.
    pub calls: u64,
    /// Those that did not complete in full.
    pub failed: u64,
    /// When the first call was made, since the start of the run.
    pub begun_ns: i64,
    /// What was done until the first thread had finished; `None` where a call of each never came
    /// back.
    pub first: Option<Finished>,
    /// What was done until the last thread had finished; `None` where a call never came back, so
    /// that a thread has not.
    pub last: Option<Finished>,
}

impl PhaseFigures {
    /// Its name for a reader: the operation, behind the flow where there are flows.
    pub fn told(&self, with_flow: bool) -> String {
        let operation = self.operation.name();
        if with_flow { format!("{}: {operation}", self.name) } else { operation.to_owned() }
    }
}

/// What a phase had done when a thread had finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// When that was, since the phase began.
    pub after_ns: i64,
    /// Calls of all threads that had completed in full.
    pub completed: u64,
    /// Bytes that they had read or written.
    pub bytes: u64,
    /// Those calls per second; `None` where no time had passed.
    pub per_second: Option<f64>,
}

impl Finished {
    fn new(after: Nanos, [completed, bytes]: [u64; 2]) -> Self {
        let seconds = after.0 as f64 / 1e9;
        let per_second = (after.0 > 0).then(|| completed as f64 / seconds);
        Self { after_ns: after.0, completed, bytes, per_second }
    }

    /// Bytes per second; `None` where no time had passed.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.after_ns > 0).then(|| self.bytes as f64 / (self.after_ns as f64 / 1e9))
    }
}

/// The phases of a run, fed request by request.
#[derive(Clone, Debug, Default)]
pub(crate) struct PerPhase {
    phases: FxHashMap<(u16, Op), Phase>,
}

/// A thread: the flow, the target that it works on, and its number there.
type ThreadId = (u16, u16, u32);

#[derive(Clone, Debug, Default)]
struct Phase {
    begun: Option<Nanos>,
    calls: u64,
    failed: u64,
    threads: FxHashMap<ThreadId, Thread>,
    /// Calls that completed in full, and their bytes, by instant of completion.
    completed: Timeline<[u64; 2]>,
    /// The same one by one, in any order; empty where there are too many.
    few: Vec<(Nanos, [u64; 2])>,
    are_many: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Thread {
    /// When the last of its calls ended.
    last: Nanos,
    /// Whether a call never came back.
    is_unanswered: bool,
    /// Calls that completed in full, and their bytes.
    completed: [u64; 2],
}

impl PerPhase {
    /// Only calls of a thread of a flow have a phase.
    pub(crate) fn observe(&mut self, request: &Request, measured: &Measured) {
        // A call that never came back has no instant at which it was made.
        let is_unanswered = measured.outcome == Outcome::Abandoned;
        let made = measured.submitted.or_else(|| is_unanswered.then_some(measured.scheduled));
        let (Some(origin), Some(submitted)) = (request.origin, made) else { return };
        if measured.flow == 0 {
            return;
        }
        let phase = self.phases.entry((measured.flow, request.op)).or_default();
        phase.calls += 1;
        phase.begun = Some(phase.begun.map_or(submitted, |begun| begun.min(submitted)));
        let id = (measured.flow, measured.target, origin.pid);
        let thread = phase.threads.entry(id).or_default();
        let Some(completed) = measured.completed else {
            phase.failed += 1;
            thread.is_unanswered = true;
            return;
        };
        thread.last = thread.last.max(completed);
        if measured.outcome != Outcome::Ok {
            phase.failed += 1;
            return;
        }
        let moves_data = matches!(request.op, Op::Read | Op::Write);
        let amount = [1, if moves_data { request.length.0 } else { 0 }];
        add(&mut thread.completed, amount);
        add(phase.completed.at(completed), amount);
        phase.keep(&[(completed, amount)]);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (key, theirs) in &other.phases {
            self.phases.entry(*key).or_default().merge(theirs);
        }
    }

    /// The phases of a run on files, in the order in which they began.
    pub(crate) fn figures(&self, engine: &EngineFacts) -> Vec<PhaseFigures> {
        if !engine.files {
            return Vec::new();
        }
        let mut phases: BTreeMap<(Option<u16>, Op), Phase> = BTreeMap::new();
        for ((flow, op), phase) in &self.phases {
            let flow = (!engine.flows.is_empty()).then_some(*flow);
            phases.entry((flow, *op)).or_default().merge(phase);
        }
        let of_phase = |((flow, op), phase): ((Option<u16>, Op), Phase)| {
            let facts = engine.flows.iter().find(|facts| Some(facts.flow) == flow);
            phase.figures(flow, facts.map_or("", |facts| &facts.name), op)
        };
        let mut figures: Vec<PhaseFigures> = phases.into_iter().filter_map(of_phase).collect();
        figures.sort_by_key(|phase| phase.begun_ns);
        figures
    }
}

impl Phase {
    fn merge(&mut self, other: &Self) {
        let Self { begun, calls, failed, threads, completed, few, are_many } = other;
        self.begun = [self.begun, *begun].into_iter().flatten().min();
        self.calls = self.calls.saturating_add(*calls);
        self.failed = self.failed.saturating_add(*failed);
        for (id, theirs) in threads {
            let mine = self.threads.entry(*id).or_default();
            mine.last = mine.last.max(theirs.last);
            mine.is_unanswered |= theirs.is_unanswered;
            add(&mut mine.completed, theirs.completed);
        }
        self.completed.merge(completed);
        self.are_many |= are_many;
        self.keep(few);
    }

    /// Keeps some completions one by one, unless that makes them too many.
    fn keep(&mut self, more: &[(Nanos, [u64; 2])]) {
        self.are_many |= self.few.len() + more.len() > FEW_MAX;
        if self.are_many {
            self.few = Vec::new();
        } else {
            self.few.extend_from_slice(more);
        }
    }

    fn figures(&self, flow: Option<u16>, name: &str, operation: Op) -> Option<PhaseFigures> {
        let begun = self.begun?;
        let finished = self.threads.values().filter(|thread| !thread.is_unanswered);
        let first = finished.clone().map(|thread| thread.last).min();
        let have_all = finished.count() == self.threads.len();
        let last = self.threads.values().map(|thread| thread.last).max()?;
        let after = |instant: Nanos| instant.saturating_sub(begun).max(Nanos::ZERO);
        let mut all = [0; 2];
        self.threads.values().for_each(|thread| add(&mut all, thread.completed));
        let by = |first: Nanos| {
            if first == last {
                return all;
            } else if self.are_many {
                return self.until(first, (begun, last), all);
            }
            let mut until = [0; 2];
            let done = self.few.iter().filter(|(at, _)| *at <= first);
            done.for_each(|(_, amount)| add(&mut until, *amount));
            until
        };
        Some(PhaseFigures {
            flow,
            name: name.to_owned(),
            operation,
            threads: u32::try_from(self.threads.len()).unwrap_or(u32::MAX),
            calls: self.calls,
            failed: self.failed,
            begun_ns: begun.0,
            first: first.map(|first| Finished::new(after(first), by(first))),
            last: have_all.then(|| Finished::new(after(last), all)),
        })
    }

    /// What had completed at an instant within a phase that went on from one instant to another,
    /// by the axis: no less than what the threads that had finished had done, and no more than
    /// everything.
    fn until(&self, instant: Nanos, (from, to): (Nanos, Nanos), all: [u64; 2]) -> [u64; 2] {
        let width = self.completed.width().0;
        let at = instant.0.max(0) / width;
        let cells = self.completed.cells();
        let mut until = [0; 2];
        cells.iter().take(at as usize).for_each(|cell| add(&mut until, *cell));
        // That part of the step in which the phase went on.
        let (begins, ends) = ((at * width).max(from.0), ((at + 1) * width).min(to.0));
        let within = (instant.0 - begins) as f64 / (ends - begins).max(1) as f64;
        let share = |amount: u64| (amount as f64 * within.clamp(0.0, 1.0)).round() as u64;
        add(&mut until, cells.get(at as usize).copied().unwrap_or_default().map(share));
        let mut least = [0; 2];
        let finished = self.threads.values().filter(|thread| thread.last <= instant);
        finished.for_each(|thread| add(&mut least, thread.completed));
        std::array::from_fn(|which| until[which].clamp(least[which], all[which]))
    }
}

fn add(mine: &mut [u64; 2], theirs: [u64; 2]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine = mine.saturating_add(theirs);
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Bytes, Origin};
    use proptest::prelude::*;

    use super::*;
    use crate::facts::FlowFacts;

    /// A call of a thread of flow 1 on a target, from one millisecond to another.
    fn call(op: Op, target: u16, thread: u32, from_ms: i64, to_ms: Option<i64>) -> Request {
        let from = Nanos::from_millis(from_ms);
        let measured = Measured {
            submitted: to_ms.is_some().then_some(from),
            completed: to_ms.map(Nanos::from_millis),
            target_offset: Some(Bytes(0)),
            outcome: if to_ms.is_some() { Outcome::Ok } else { Outcome::Abandoned },
            target,
            flow: 1,
            ..Measured::done(from, from, from)
        };
        Request {
            measured: Some(measured),
            origin: Some(Origin { pid: thread, cpu: 0 }),
            ..Request::new(Nanos::from_millis(from_ms), op, Bytes(0), Bytes(4096))
        }
    }

    fn of(calls: &[Request]) -> PerPhase {
        let mut phases = PerPhase::default();
        for call in calls {
            phases.observe(call, call.measured.as_ref().unwrap());
        }
        phases
    }

    fn engine() -> EngineFacts {
        let flow = FlowFacts { flow: 1, name: "format".to_owned(), ..FlowFacts::default() };
        EngineFacts { files: true, flows: vec![flow], ..EngineFacts::default() }
    }

    /// One thread makes a file each 10 ms until 1.1 s, the other until 2.1 s, from 100 ms on.
    fn two_threads() -> Vec<Request> {
        let of = |thread: u32, calls: i64| {
            (0..calls).map(move |n| call(Op::Create, 0, thread, 100 + n * 10, Some(110 + n * 10)))
        };
        of(0, 100).chain(of(1, 200)).collect()
    }

    #[test]
    fn the_rates_until_the_first_and_until_the_last_thread_finished_are_told_from_the_first_call() {
        let calls = [vec![call(Op::Mkdir, 0, 0, 20, Some(60))], two_threads()].concat();
        let figures = of(&calls).figures(&engine());
        let told: Vec<_> = figures.iter().map(|one| (&*one.name, one.operation)).collect();
        assert_eq!(told, [("format", Op::Mkdir), ("format", Op::Create)]);
        let mkdir = &figures[0];
        assert_eq!((mkdir.threads, mkdir.begun_ns, mkdir.failed), (1, 20_000_000, 0));
        assert_eq!(mkdir.last, mkdir.first, "one thread is the first and the last");
        assert_eq!(mkdir.first.unwrap().per_second, Some(25.0));
        let create = &figures[1];
        assert_eq!((create.flow, create.threads, create.calls), (Some(1), 2, 300));
        let last = create.last.unwrap();
        assert_eq!((last.after_ns, last.completed), (2_000_000_000, 300));
        assert_eq!(last.per_second, Some(150.0));
        let first = create.first.unwrap();
        assert_eq!(first.after_ns, 1_000_000_000);
        // Both had made a hundred.
        assert_eq!(first.completed, 200);
        assert_eq!(first.per_second, Some(200.0));
    }

    #[test]
    fn of_a_long_phase_what_was_done_by_the_first_is_right_to_a_step_of_the_axis() {
        let of_thread = |thread: u32, calls: i64| {
            (0..calls).map(move |n| call(Op::Getattr, 0, thread, 100 + n, Some(101 + n)))
        };
        let calls: Vec<Request> = of_thread(0, 3_000).chain(of_thread(1, 6_000)).collect();
        let phase = &of(&calls).figures(&engine())[0];
        let (first, last) = (phase.first.unwrap(), phase.last.unwrap());
        assert_eq!((first.after_ns, last.after_ns), (3_000_000_000, 6_000_000_000));
        assert_eq!(last.completed, 9_000);
        // A step has four milliseconds, in which both threads make four calls.
        assert!(first.completed.abs_diff(6_000) <= 8, "{first:?}");
    }

    #[test]
    fn calls_that_failed_end_a_thread_but_are_no_rate_and_one_that_never_came_back_ends_none() {
        let mut failed = call(Op::Delete, 0, 1, 0, Some(900));
        failed.measured.as_mut().unwrap().outcome = Outcome::Error(5);
        let calls = [call(Op::Delete, 0, 0, 0, Some(500)), failed];
        let phase = &of(&calls).figures(&engine())[0];
        assert_eq!((phase.failed, phase.first.unwrap().completed), (1, 1));
        let last = phase.last.unwrap();
        assert_eq!((last.after_ns, last.completed), (900_000_000, 1));
        let calls = [calls.to_vec(), vec![call(Op::Delete, 0, 2, 10, None)]].concat();
        let phase = &of(&calls).figures(&engine())[0];
        assert_eq!((phase.threads, phase.calls, phase.failed), (3, 3, 2));
        assert_eq!((phase.first.unwrap().after_ns, phase.last), (500_000_000, None));
        // A thread that hangs has not finished, however early its last answer came.
        let calls = [call(Op::Delete, 0, 0, 0, Some(10)), call(Op::Delete, 0, 0, 10, None)];
        let phase = &of(&calls).figures(&engine())[0];
        assert_eq!((phase.calls, phase.failed, phase.first, phase.last), (2, 1, None, None));
    }

    #[test]
    fn the_threads_of_several_hosts_are_one_phase_and_each_counts() {
        // Thread 0 of the second host works on another target.
        let mut other = two_threads();
        for call in &mut other {
            call.measured.as_mut().unwrap().target = 1;
        }
        other.push(call(Op::Create, 1, 0, 100, Some(4_100)));
        let mut both = of(&two_threads());
        both.merge(&of(&other));
        // A merged run has no flows in common.
        let phase = &both.figures(&EngineFacts { flows: Vec::new(), ..engine() })[0];
        assert_eq!((phase.flow, phase.threads, phase.calls), (None, 4, 601));
        assert_eq!(phase.first.unwrap().after_ns, 1_000_000_000, "the first of all");
        assert_eq!(phase.last.unwrap().after_ns, 4_000_000_000, "the last of all");
    }

    #[test]
    fn a_load_on_devices_has_no_phases() {
        let phases = of(&two_threads());
        assert!(phases.figures(&EngineFacts { files: false, ..engine() }).is_empty());
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_whole(
            calls in proptest::collection::vec(
                (0_usize..3, 0_u16..2, 0_u32..3, 0_i64..9_000, 0_i64..4_000), 1..60),
            cut in 0_usize..60,
        ) {
            let ops = [Op::Create, Op::Write, Op::Delete];
            let all: Vec<Request> = calls
                .iter()
                .map(|(op, target, thread, from, took)| {
                    call(ops[*op], *target, *thread, *from, Some(from + took))
                })
                .collect();
            let (one, other) = all.split_at(cut.min(all.len()));
            let mut merged = of(other);
            merged.merge(&of(one));
            let whole = of(&all).figures(&engine());
            prop_assert_eq!(merged.figures(&engine()), whole.clone());
            for phase in whole {
                let (first, last) = (phase.first.unwrap(), phase.last.unwrap());
                prop_assert!(first.after_ns <= last.after_ns);
                prop_assert!(first.completed <= last.completed);
                prop_assert!(first.completed >= 1);
                prop_assert_eq!(last.completed + phase.failed, phase.calls);
            }
        }
    }
}
