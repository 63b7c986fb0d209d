//! The threads of a load on files: each takes a file, does what the load says, and gives it back.
//!
//! A thread has one call at a time, and its next depends on how that ended: a file that could not
//! be opened is not read. So a call is made only when the one before has completed.

use std::sync::Arc;

use ioecho_trace::workload::model::Sizes;
use ioecho_trace::{LateCause, Nanos, Op, Outcome};

use super::Tree;
use super::flow::{Chosen, FileFlow};
use super::geometry::pick;
use super::load::{Access, Select, StopAfter, Task};
use super::states::{Claim, FileState, taken};
use super::waits::Waits;
use crate::pattern::SplitMix64;
use crate::plan::Held;

/// Where a file is gone on with: at multiples of so many bytes.
const SECTOR: u64 = 512;

/// Candidates that are looked at in one go, where each is chosen once.
const AT_ONCE: u64 = 1 << 16;

/// A call on a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What to do.
    pub op: Op,
    /// Where: in a file, or the place of a file or directory.
    pub place: u64,
    /// How much is read or written.
    pub length: u64,
    /// The thread, counted from 0 in its load.
    pub client: u32,
    /// When it is due; `None`: as soon as it is asked for, because its thread waited for what
    /// others had, which no rate asked of it.
    pub due: Option<Nanos>,
    /// What kept its thread beyond that instant.
    pub held: Option<Held>,
}

impl Call {
    /// A call that nobody makes, but that was due at this instant.
    pub const fn counted(due: Nanos) -> Self {
        Self { op: Op::Read, place: 0, length: 0, client: 0, due: Some(due), held: None }
    }
}

/// What the threads of a load do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This.
    Call(Call),
    /// Something, but not before another call has completed.
    NotYet,
    /// Nothing any more.
    Ended,
}

/// Threads of a load.
pub struct Clients {
    flow: Arc<FileFlow>,
    /// The number of the first.
    first: u32,
    all: Vec<Client>,
    /// Those that have no call, in the order in which theirs ended.
    ready: Vec<u32>,
    living: usize,
    /// When they were last asked.
    asked: Nanos,
}

struct Client {
    random: SplitMix64,
    visit: Option<Visit>,
    /// A candidate that another thread had.
    held: Option<(Task, u64)>,
    /// When its next call is due, where it has not found anything yet.
    due: Option<Nanos>,
    /// The state of the tree in which it found nothing.
    stuck: Option<u64>,
    waits: Waits,
}

/// What a thread does with a file or directory.
#[derive(Clone, Copy, Debug)]
struct Visit {
    task: Task,
    number: u64,
    /// What the file is.
    state: FileState,
    size: u64,
    step: Step,
    at: u64,
    left_bytes: u64,
    left_requests: u64,
    /// When its next call is due, of a load with instants.
    due: Option<Nanos>,
    /// How much the last read or write was, and whether it was a write.
    last: (u64, bool),
    /// What the file in the other tree was.
    other: FileState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Open,
    Transfer,
    Close,
    Single(Op),
}

/// How beginning with something ended.
enum Begun {
    Visit(Visit),
    /// What it needs nobody can make but other threads, which may wait themselves.
    Wait,
    /// What it needs another thread has, and gives back.
    Busy,
    Over,
}

impl Visit {
    /// What is done in an open file.
    const fn inside(&self) -> Step {
        if self.left_bytes > 0 && self.left_requests > 0 { Step::Transfer } else { Step::Close }
    }
}

impl Clients {
    /// So many threads of a load, numbered from `first`.
    pub fn new(flow: Arc<FileFlow>, first: u32, count: u32) -> Self {
        let client = |number: u32| Client {
            random: SplitMix64(SplitMix64(flow.load.seed ^ u64::from(number) << 40).next_u64()),
            visit: None,
            held: None,
            due: None,
            stuck: None,
            waits: Waits::default(),
        };
        let all = (first..first + count).map(client).collect();
        (0..count).for_each(|_| flow.supplier.set_living(true));
        let ready = (0..count).collect();
        Self { flow, first, all, ready, living: count as usize, asked: Nanos::ZERO }
    }

    /// The load.
    pub fn flow(&self) -> &Arc<FileFlow> {
        &self.flow
    }

    /// The next call of any thread, which is asked for now.
    pub fn poll(&mut self, now: Nanos) -> Next {
        self.asked = now;
        let (mut is_stuck, mut is_busy) = (false, false);
        let mut at = 0;
        // Who waits for the longest time is asked first: what is given back is not taken again by
        // the thread that had it.
        while at < self.ready.len() {
            let number = self.ready[at];
            if self.all[number as usize].visit.is_none() {
                // Those that hold back the others are asked all the same.
                if (is_stuck || is_busy) && self.all[number as usize].held.is_none() {
                    self.set_stuck(number, is_stuck);
                    self.all[number as usize].waits.has_waited = true;
                    at += 1;
                    continue;
                }
                match self.begin(number) {
                    Begun::Visit(visit) => self.all[number as usize].visit = Some(visit),
                    Begun::Wait => {
                        is_stuck = true;
                        self.all[number as usize].waits.has_waited = true;
                        at += 1;
                        continue;
                    }
                    Begun::Busy => {
                        is_busy = true;
                        self.all[number as usize].waits.has_waited = true;
                        at += 1;
                        continue;
                    }
                    Begun::Over => {
                        self.end(at);
                        continue;
                    }
                }
            }
            if let Some(call) = self.call(number) {
                self.ready.remove(at);
                return Next::Call(call);
            }
            // It has left its file: it looks for another.
        }
        if self.living == 0 { Next::Ended } else { Next::NotYet }
    }

    /// Why nothing is made of what is due: threads wait for what others have, or all have a call. A
    /// thread that does neither has only to be asked: what keeps it then is the host. So it is
    /// where no rate is asked of the threads, because then nothing is due before it is asked for.
    pub fn late_cause(&self) -> LateCause {
        if !self.flow.is_open() {
            return LateCause::Host;
        }
        if self.ready.is_empty() {
            return LateCause::InFlightCap;
        }
        let slow = &self.flow.tree.slow;
        let ready = || self.ready.iter().map(|number| &self.all[*number as usize]);
        let held = |client: &Client| Some(client.waits.held(client.due?, self.asked, slow)?.by);
        let waits = || ready().any(|client| client.waits.has_waited);
        let rest = || if waits() { LateCause::File } else { LateCause::Host };
        ready().find_map(held).unwrap_or_else(rest)
    }

    /// When a request is due that nobody will make any more; `None` if there is none.
    pub fn rest(&mut self) -> Option<Nanos> {
        let held =
            |client: &mut Client| client.due.take().or_else(|| client.visit.as_mut()?.due.take());
        self.all.iter_mut().find_map(held).or_else(|| self.flow.next_arrival())
    }

    fn end(&mut self, at: usize) {
        let number = self.ready.remove(at);
        self.living -= 1;
        self.set_stuck(number, false);
        self.flow.supplier.set_living(false);
    }

    /// A thread that may change a tree has found nothing, or goes on. Answers whether it had not
    /// found nothing in what is there now.
    fn set_stuck(&mut self, number: u32, is_stuck: bool) -> bool {
        let flow = &self.flow;
        if !flow.load.changes() {
            return false;
        }
        let stuck = &mut self.all[number as usize].stuck;
        if is_stuck {
            let lacks_other = flow.current().is_some_and(|task| flow.lacks_other(task));
            let (state, is_new) = flow.supplier.add_stuck(*stuck, lacks_other);
            *stuck = Some(state);
            return is_new;
        }
        if let Some(state) = stuck.take() {
            flow.supplier.remove_stuck(state);
        }
        false
    }

    /// Looks for something to work on.
    fn begin(&mut self, number: u32) -> Begun {
        let due = self.all[number as usize].due.take().or_else(|| self.flow.next_arrival());
        if self.flow.is_open() && due.is_none() {
            return Begun::Over;
        }
        self.flow.set_active(true);
        let begun =
            if self.flow.load.once { self.take_each(number) } else { self.take_any(number) };
        match begun {
            Begun::Visit(visit) => {
                self.set_stuck(number, false);
                self.flow.has_found();
                Begun::Visit(Visit { due, ..visit })
            }
            other => {
                if self.flow.load.once && matches!(other, Begun::Over) {
                    self.flow.chose_all();
                }
                self.all[number as usize].due = due;
                self.flow.set_active(false);
                other
            }
        }
    }

    /// The next thing, where each is chosen once.
    fn take_each(&mut self, number: u32) -> Begun {
        let (flow, client) = (&self.flow, &mut self.all[number as usize]);
        for _ in 0..AT_ONCE {
            let was_held = client.held.is_some();
            let chosen = match client.held.take() {
                Some((task, candidate)) => Chosen::This(task, candidate),
                None => flow.choose(&mut client.random),
            };
            let (task, candidate) = match chosen {
                Chosen::This(task, candidate) => (task, candidate),
                Chosen::Over => return Begun::Over,
                Chosen::Exhausted => {
                    // This thread is active itself, and has nothing.
                    flow.set_active(false);
                    let is_next = flow.advance();
                    flow.set_active(true);
                    match flow.current() {
                        None => return Begun::Over,
                        Some(_) if is_next => continue,
                        Some(_) => return Begun::Wait,
                    }
                }
            };
            let claim = match self.flow.take(task, candidate, &mut client.random) {
                Ok(visit) => {
                    if was_held {
                        flow.set_waiting(false);
                    }
                    return Begun::Visit(visit);
                }
                Err(claim) => claim,
            };
            // What lies in a directory may be going, and one that it lies in may be coming.
            let may_go = claim == Claim::Occupied && !flow.is_active_alone();
            if may_go || claim == Claim::Busy {
                client.held = Some((task, candidate));
                if !was_held {
                    flow.set_waiting(true);
                }
                return Begun::Wait;
            }
            if was_held {
                flow.set_waiting(false);
            }
        }
        Begun::Wait
    }

    /// Anything that fits.
    fn take_any(&mut self, number: u32) -> Begun {
        let Some(task) = self.flow.current() else { return Begun::Over };
        loop {
            match self.take_one(number, task) {
                Ok(visit) => return Begun::Visit(visit),
                // Whoever has it goes on, and this thread behind it: others may count on both.
                Err(true) => {
                    self.set_stuck(number, false);
                    return Begun::Busy;
                }
                Err(false) => {}
            }
            // What has changed since it looked, and before others know that it found nothing,
            // nobody tells it of.
            if self.set_stuck(number, true) {
                continue;
            }
            if self.flow.may_find(task) {
                return Begun::Wait;
            }
            self.flow.ran_out(task);
            return Begun::Over;
        }
    }

    /// Anything that fits this task, or whether another thread has something that does.
    fn take_one(&mut self, number: u32, task: Task) -> Result<Visit, bool> {
        let (flow, client) = (&self.flow, &mut self.all[number as usize]);
        let among = flow.candidates(task);
        let mut is_busy = false;
        let is_in_order = task.is_of_directories()
            || matches!(flow.load.select, Select::Sequential | Select::FromAnywhere);
        if !flow.has_candidates(task) {
            return Err(false);
        }
        let mut candidate = 0;
        for nth in 0..among {
            candidate = if nth > 0 && !is_in_order {
                (candidate + 1) % among
            } else if let Chosen::This(_, chosen) = flow.choose(&mut client.random) {
                chosen
            } else {
                break;
            };
            match flow.take(task, candidate, &mut client.random) {
                Ok(visit) => return Ok(visit),
                Err(claim) => is_busy |= claim == Claim::Busy,
            }
        }
        Err(is_busy)
    }

    /// The next call of a thread's visit; `None` if there is none any more.
    fn call(&mut self, number: u32) -> Option<Call> {
        let client = &mut self.all[number as usize];
        let flow = &self.flow;
        let visit = client.visit.as_mut()?;
        let geometry = &flow.tree.geometry;
        let is_found = !flow.is_open() && client.waits.has_waited;
        // What the load's rate asks for has an instant.
        let mut instant = None;
        let (mut within, mut length) = (0, 0);
        let op = match visit.step {
            Step::Create | Step::Open => {
                // The first transfer is due together with it.
                let has_more = visit.inside() == Step::Transfer;
                instant = if has_more { visit.due } else { visit.due.take() };
                if visit.step == Step::Create { Op::Create } else { Op::Open }
            }
            Step::Close => Op::Close,
            Step::Single(op) => {
                instant = visit.due.take();
                op
            }
            Step::Transfer => {
                instant = visit.due.take().or_else(|| flow.next_arrival());
                if flow.is_open() && instant.is_none() {
                    visit.step = Step::Close;
                    Op::Close
                } else {
                    let is_write = flow.is_write(visit.task, &mut client.random);
                    (within, length) = flow.transfer(visit, &mut client.random);
                    visit.last = (length, is_write);
                    visit.at = within;
                    if is_write { Op::Write } else { Op::Read }
                }
            }
        };
        let place = if visit.task.is_of_directories() {
            geometry.place_of_directory(visit.number)
        } else {
            geometry.place_of_file(visit.number) + within
        };
        let held = instant.and_then(|due| client.waits.makes(due, self.asked, &flow.tree.slow));
        let due = instant.or((!is_found).then_some(client.waits.last));
        Some(Call { op, place, length, client: self.first + number, due, held })
    }

    /// The call of a thread went on between these instants.
    pub fn completed(&mut self, client: u32, outcome: Outcome, began: Nanos, at: Nanos) {
        let number = client - self.first;
        let thread = &mut self.all[number as usize];
        thread.waits.completed(began, at, &self.flow.tree.slow);
        self.ready.push(number);
        let Some(visit) = &mut thread.visit else { return };
        if self.flow.passed(visit, outcome == Outcome::Ok) {
            thread.visit = None;
            self.flow.set_active(false);
        }
    }
}

impl FileFlow {
    /// Whether anything is in a state that a task wants.
    pub(super) fn has_candidates(&self, task: Task) -> bool {
        let (there, all) = (self.tree.states.directories_there(), self.candidates(task));
        match task {
            Task::Mkdir => there < all,
            Task::Rmdir => there > 0,
            _ => self.tree.states.count(task.wants() & self.load.only) > 0,
        }
    }

    /// Takes a candidate for a task.
    fn take(&self, task: Task, number: u64, random: &mut SplitMix64) -> Result<Visit, Claim> {
        let states = &self.tree.states;
        let geometry = &self.tree.geometry;
        let mut visit = Visit {
            task,
            number,
            state: FileState::Absent,
            size: 0,
            step: task.single().map_or(Step::Open, Step::Single),
            at: 0,
            left_bytes: 0,
            left_requests: u64::MAX,
            due: None,
            last: (0, false),
            other: FileState::Absent,
        };
        match task {
            Task::Mkdir => {
                taken(states.claim_absent_directory(number))?;
                let parent = geometry.parent(number).map(|parent| states.reserve_child(parent));
                parent.map_or(Ok(FileState::Full), taken).inspect_err(|_| {
                    states.release_directory(number, false);
                })?;
                return Ok(visit);
            }
            Task::Rmdir => return taken(states.claim_empty_directory(number)).map(|_| visit),
            _ => {}
        }
        let wanted = task.wants() & self.load.only;
        visit.state = taken(if self.shares(task) {
            states.enter(number, wanted)
        } else if self.load.then_delete || task.removes() {
            states.claim_to_remove(number, wanted)
        } else {
            states.claim(number, wanted)
        })?;
        let is_new = visit.state == FileState::Absent;
        let whole = if is_new { self.tree.reserve(number) } else { Ok(()) };
        let whole = whole.and_then(|()| match (task, &self.to) {
            (Task::Copy | Task::Move, Some(to)) => {
                let unreserve = |_: &Claim| {
                    if is_new {
                        self.tree.unreserve(number);
                    }
                };
                take_other(task, to, number).inspect_err(unreserve)
            }
            _ => Ok(FileState::Absent),
        });
        visit.other = whole.inspect_err(|_| self.leave(&visit))?;
        visit.size = geometry.size(number);
        if visit.step == Step::Open && is_new {
            visit.step = Step::Create;
        }
        self.measure(&mut visit, random);
        Ok(visit)
    }

    /// Decides how much of a file is gone through.
    fn measure(&self, visit: &mut Visit, random: &mut SplitMix64) {
        let load = &self.load;
        let size = visit.size;
        let reads_or_writes =
            matches!(visit.task, Task::Read | Task::Write | Task::Mixed | Task::Fill);
        if !reads_or_writes {
            return;
        }
        let goes_on = matches!(visit.task, Task::Write | Task::Fill)
            && visit.state == FileState::Empty
            && load.access == Access::Sequential;
        visit.at = match load.access {
            // A write that was interrupted may have ended anywhere.
            _ if goes_on => self.tree.states.written(visit.number).min(size) / SECTOR * SECTOR,
            Access::FromAnywhere => {
                let length = load.sizes.largest().clamp(1, size.max(1));
                random.below((size / length).max(1)) * length
            }
            _ => 0,
        };
        visit.left_bytes = size - visit.at;
        match load.stop_after {
            None => {}
            Some(StopAfter::Requests(requests)) => visit.left_requests = requests,
            Some(StopAfter::Percent(percent)) => {
                let part = ((size as f64 * percent / 100.0) as u64).max(1);
                let is_random = matches!(load.access, Access::Random | Access::Shared);
                visit.left_bytes = if is_random { part } else { part.min(visit.left_bytes) };
            }
        }
        // At random places a number of requests decides alone.
        let is_random = matches!(load.access, Access::Random | Access::Shared);
        if is_random && visit.left_requests < u64::MAX && size > 0 {
            visit.left_bytes = u64::MAX;
        }
    }

    /// Whether the next transfer of a task is a write.
    fn is_write(&self, task: Task, random: &mut SplitMix64) -> bool {
        match task {
            Task::Mixed => random.unit() * 100.0 >= self.load.read,
            Task::Read => false,
            _ => true,
        }
    }

    /// Where in the file the next transfer is, and how long.
    fn transfer(&self, visit: &Visit, random: &mut SplitMix64) -> (u64, u64) {
        let length = match &self.load.sizes {
            Sizes::Mix(mix) => match &mix[..] {
                [(size, _)] => *size,
                mix => pick(mix, random.unit()),
            },
            Sizes::Range { least, most, step } => {
                least + random.below((most - least) / step + 1) * step
            }
        };
        match self.load.access {
            Access::Random | Access::Shared => {
                let length = length.min(visit.size);
                (random.below((visit.size / length).max(1)) * length, length)
            }
            _ => (visit.at, length.min(visit.size - visit.at)),
        }
    }

    /// Goes on behind a call that has ended; answers whether the visit is over.
    fn passed(&self, visit: &mut Visit, is_ok: bool) -> bool {
        match visit.step {
            Step::Create if is_ok => {
                visit.state = FileState::Empty;
                visit.step = visit.inside();
            }
            Step::Open if is_ok => visit.step = visit.inside(),
            Step::Create => {
                self.tree.unreserve(visit.number);
                self.leave(visit);
                return true;
            }
            Step::Open => {
                self.leave(visit);
                return true;
            }
            Step::Transfer => {
                let (length, was_write) = visit.last;
                if is_ok && was_write {
                    self.tree.states.wrote(visit.number, visit.at + length);
                }
                if !matches!(self.load.access, Access::Random | Access::Shared) {
                    visit.at += length;
                }
                visit.left_requests = visit.left_requests.saturating_sub(1);
                visit.left_bytes = visit.left_bytes.saturating_sub(length);
                visit.step = if is_ok { visit.inside() } else { Step::Close };
            }
            Step::Close => {
                let is_whole = self.tree.states.written(visit.number) >= visit.size;
                visit.state = if is_whole { FileState::Full } else { FileState::Empty };
                if self.load.then_delete {
                    visit.step = Step::Single(Op::Delete);
                    return false;
                }
                self.leave(visit);
                if visit.task.changes() {
                    self.changed();
                }
                return true;
            }
            Step::Single(op) => {
                self.single_passed(visit, op, is_ok);
                return true;
            }
        }
        false
    }

    /// Whether several threads may be in one file.
    fn shares(&self, task: Task) -> bool {
        self.load.access == Access::Shared && task.is_inside()
    }

    fn leave(&self, visit: &Visit) {
        if self.shares(visit.task) {
            self.tree.states.leave(visit.number);
        } else {
            self.tree.states.release(visit.number, visit.state);
        }
    }

    fn single_passed(&self, visit: &mut Visit, op: Op, is_ok: bool) {
        let (tree, number) = (&*self.tree, visit.number);
        match op {
            Op::Mkdir | Op::Rmdir => {
                tree.states.release_directory(number, is_ok == (op == Op::Mkdir));
                if is_ok == (op == Op::Rmdir)
                    && let Some(parent) = tree.geometry.parent(number)
                {
                    tree.states.remove_child(parent);
                }
            }
            Op::Delete if is_ok => {
                visit.state = FileState::Absent;
                tree.unreserve(number);
                self.leave(visit);
            }
            Op::Copy | Op::Move => {
                self.other_passed(visit, op, is_ok);
                self.leave(visit);
            }
            _ => self.leave(visit),
        }
        // Only now can others take it.
        if is_ok && (visit.task.changes() || op.changes_names()) {
            self.changed();
        }
    }

    /// A copy or a move has ended.
    fn other_passed(&self, visit: &mut Visit, op: Op, is_ok: bool) {
        let Some(to) = &self.to else { return };
        let (states, number) = (&to.states, visit.number);
        let there = match (is_ok, op) {
            (true, Op::Copy) => {
                states.wrote(number, visit.size);
                let is_whole = visit.size >= to.geometry.size(number);
                if is_whole { FileState::Full } else { FileState::Empty }
            }
            (true, _) => {
                states.wrote(number, self.tree.states.written(number));
                visit.state
            }
            // A copy that failed leaves no file that it made.
            (false, _) if visit.other == FileState::Absent => {
                to.unreserve(number);
                FileState::Absent
            }
            (false, _) => FileState::Empty,
        };
        states.release(number, there);
        if is_ok && op == Op::Move {
            visit.state = FileState::Absent;
            self.tree.unreserve(number);
        }
    }
}

/// Takes the file of the same number in another tree.
fn take_other(task: Task, to: &Tree, number: u64) -> Result<FileState, Claim> {
    if number >= to.geometry.files() {
        return Err(Claim::Unfit);
    }
    let absent = FileState::Absent as u8;
    let wanted = if task == Task::Move { absent } else { absent | FileState::THERE };
    let state = taken(to.states.claim(number, wanted))?;
    if state == FileState::Absent {
        to.reserve(number).inspect_err(|_| to.states.release(number, state))?;
    }
    Ok(state)
}
