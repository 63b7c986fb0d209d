//! What is done next, as a pure state machine.
//!
//! An event comes in (a run has ended, somebody asks for the end) and actions come out (run this
//! cell, this cell is settled, it is over). Nothing here waits or reads a clock, so the same code
//! is simulated from seeds: whatever is killed, fails or is stopped, each cell is done once or has
//! a reason.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::attempt::{End, Measured};
use crate::course::{holds_of_all, holds_of_any};
use crate::file::{FLOW, Parallel};
use crate::place::Result;
use crate::plan::{Cell, Ground, Plan, Step};
use crate::rate::Part;
use crate::search::{Bisection, Next, Votes, is_same};
use crate::share::Share;
use crate::template::filled;

/// The figure of which other runs have a part.
const RATE: &str = "iops";

/// The state of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// There is no result yet.
    Missing,
    /// It runs.
    Running,
    /// It has a result, made by the attempt of this number.
    Done(u32, Box<Measured>),
    /// It has no result, for this reason.
    Failed(String),
    /// It was not run, for this reason.
    Skipped(String),
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The process begins, or goes on.
    Begin,
    /// The attempt at the cell of this number ended after so many seconds.
    Ended(usize, End, f64),
    /// Somebody asks for the end.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Run this cell; the attempt has this number.
    Run(usize, u32),
    /// This cell is settled.
    Settled(usize),
    /// Nothing more is to be done.
    Over(Over),
}

/// Why a campaign is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Every cell is settled.
    Complete,
    /// Somebody asked for the end.
    Stopped,
    /// The next runs would take longer than the budget.
    Budget,
    /// The next runs would end after the deadline.
    Deadline,
    /// The results of the next run may not fit on the disk.
    NoRoom,
    /// An expectation that ends the campaign does not hold.
    Aborted,
    /// The machine could not be left as it was found, so nothing more is set up on it.
    Left,
}

/// Whether it is a cell's turn.
enum Turn {
    Now,
    /// What runs must end first.
    Later,
    /// It is skipped, for this reason.
    Out(String),
}

/// The attempts at a cell that have ended, by their numbers.
pub type Attempts = BTreeMap<u32, End>;

/// The state machine.
pub struct Executor<'p> {
    plan: &'p Plan,
    ground: &'p dyn Ground,
    /// The cells, with those that searches asked for.
    cells: Vec<Cell>,
    states: Vec<State>,
    attempts: BTreeMap<String, Attempts>,
    /// The result of each branch's search.
    found: Vec<Option<Next>>,
    votes: Vec<Votes>,
    /// The step that is under way.
    at: usize,
    /// The running cells, each with the number of its attempt.
    running: Vec<(usize, u32)>,
    spent_s: f64,
    /// The time until the deadline.
    left_s: Option<f64>,
    /// The share of the runs that are done here.
    share: Share,
    is_stopped: bool,
    is_aborted: bool,
}

impl<'p> Executor<'p> {
    /// Begins where earlier attempts, by the keys of their cells, ended. They took so many seconds.
    pub fn new(
        plan: &'p Plan,
        ground: &'p dyn Ground,
        attempts: BTreeMap<String, Attempts>,
        spent_s: f64,
    ) -> Self {
        let branches = plan.branches.len();
        let mut executor = Self {
            plan,
            ground,
            cells: plan.cells.clone(),
            states: Vec::new(),
            attempts,
            found: vec![None; branches],
            votes: vec![Votes::new(); branches],
            at: 0,
            running: Vec::new(),
            spent_s,
            left_s: None,
            share: Share::default(),
            is_stopped: false,
            is_aborted: false,
        };
        executor.states = executor.cells.iter().map(|cell| executor.known(cell)).collect();
        executor
    }

    /// The same, of which only a share is done here.
    #[must_use]
    pub fn with_share(self, share: Share) -> Self {
        Self { share, ..self }
    }

    /// Tells how much time is left until the deadline. Nothing here reads a clock.
    pub fn tell_time_left(&mut self, seconds: Option<f64>) {
        self.left_s = seconds;
    }

    /// The cells, with those that searches asked for.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The state of each cell.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    /// The result of each branch's search, if there is one.
    pub fn found(&self) -> &[Option<Next>] {
        &self.found
    }

    /// The attempts at a cell that have ended.
    pub fn attempts(&self, cell: &Cell) -> Option<&Attempts> {
        self.attempts.get(&cell.key)
    }

    /// A cell as it is run: rates that are parts of another run's are numbers by now.
    pub fn resolved(&self, cell: usize) -> Cell {
        let mut cell = self.cells[cell].clone();
        let base = cell.identity.base.as_ref().and_then(|key| self.reached(key).ok());
        let Some(reached) = base else { return cell };
        let rate = |name: &str| Part::read(name).map(|part| part.typed(reached));
        if let Some(flow) = cell.identity.replay.get_mut(FLOW) {
            *flow = flow.map(&|text| filled(text, &rate));
        }
        cell
    }

    /// Whether a cell has the run of whose rate it has a part: not before that is settled.
    fn based(&self, cell: usize) -> Turn {
        let Some(key) = &self.cells[cell].identity.base else { return Turn::Now };
        let of_base = self.cells.iter().zip(&self.states).find(|(base, _)| base.key == *key);
        let is_open =
            of_base.is_some_and(|(_, state)| matches!(state, State::Missing | State::Running));
        if is_open && !self.running.is_empty() {
            return Turn::Later;
        }
        self.reached(key).map_or_else(Turn::Out, |_| Turn::Now)
    }

    /// The requests per second of the cell with this key; the error says why there are none.
    fn reached(&self, key: &str) -> std::result::Result<f64, String> {
        let at = self.cells.iter().position(|cell| cell.key == key);
        let Some(at) = at else { return Err("the run whose rate counts is not there".to_owned()) };
        let name = self.cells[at].name();
        match &self.states[at] {
            State::Done(_, measured) => match measured.figures.get(RATE) {
                Some(rate) if *rate > 0.0 => Ok(*rate),
                _ => Err(format!("{name} reached no rate")),
            },
            _ => Err(format!("{name} has no result")),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.plan
    }

    /// What is to be done after an event.
    ///
    /// # Errors
    ///
    /// If the next run of a search cannot be planned.
    pub fn step(&mut self, event: Event) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        match event {
            Event::Begin => {}
            Event::Stop => self.is_stopped = true,
            Event::Ended(cell, end, seconds) => {
                let Some(at) = self.running.iter().position(|(it, _)| *it == cell) else {
                    return Ok(actions);
                };
                let (_, attempt) = self.running.remove(at);
                self.spent_s += seconds;
                self.is_stopped |= end == End::Stopped;
                let key = self.cells[cell].key.clone();
                self.attempts.entry(key).or_default().insert(attempt, end);
                self.states[cell] = self.known(&self.cells[cell]);
                self.is_aborted |= self.aborts(cell);
                if self.states[cell] != State::Missing {
                    actions.push(Action::Settled(cell));
                }
            }
        }
        while let Some(next) = self.next(&mut actions)? {
            let is_over = matches!(next, Action::Over(_));
            actions.push(next);
            if is_over {
                break;
            }
        }
        Ok(actions)
    }

    /// The next cell to run, or the end; `None` if what runs must end first. Cells that are skipped
    /// on the way are settled.
    fn next(&mut self, actions: &mut Vec<Action>) -> Result<Option<Action>> {
        let plan = self.plan;
        // The repeat of the first cell that is not settled.
        let (mut at, mut open) = (self.at, None);
        while let Some(step) = plan.steps.get(at) {
            if !self.running.is_empty() && plan.file.parallel == Parallel::One {
                return Ok(None);
            }
            let (branch, repeat) = match step {
                Step::Cell(cell) => (self.cells[*cell].branch, self.cells[*cell].repeat),
                Step::Search(branch) => (*branch, 1),
            };
            // A repeat is finished before the next one begins.
            if open.is_some_and(|open| open != repeat) {
                break;
            }
            let cell = match step {
                _ if !self.share.has(&plan.branches[branch], repeat) => None,
                Step::Cell(cell) => Some(*cell),
                Step::Search(branch) => self.searched(*branch)?,
            };
            let is_open =
                |cell: &usize| matches!(self.states[*cell], State::Missing | State::Running);
            let Some(cell) = cell.filter(is_open) else {
                at += 1;
                self.at = if open.is_none() { at } else { self.at };
                continue;
            };
            match self.turn(cell) {
                Turn::Out(reason) => {
                    self.states[cell] = State::Skipped(reason);
                    actions.push(Action::Settled(cell));
                }
                Turn::Later => (at, open) = (at + 1, Some(repeat)),
                Turn::Now => match self.ended() {
                    Some(over) => return Ok(self.running.is_empty().then_some(Action::Over(over))),
                    None => return Ok(Some(self.begin(cell))),
                },
            }
        }
        let over = if self.is_aborted { Over::Aborted } else { Over::Complete };
        Ok(self.running.is_empty().then_some(Action::Over(over)))
    }

    /// Begins an attempt at a cell.
    fn begin(&mut self, cell: usize) -> Action {
        let attempts = self.attempts.get(&self.cells[cell].key);
        let last = attempts.and_then(|all| all.keys().next_back());
        let attempt = last.map_or(1, |last| last + 1);
        self.running.push((cell, attempt));
        self.states[cell] = State::Running;
        Action::Run(cell, attempt)
    }

    /// Whether it is the turn of a cell that has no result yet.
    fn turn(&self, cell: usize) -> Turn {
        let is_in_use =
            |(other, _): &(usize, u32)| self.cells[*other].shares_a_host(&self.cells[cell]);
        if self.running.iter().any(is_in_use) {
            return Turn::Later;
        }
        match self.climbed(cell) {
            Turn::Now => {}
            other => return other,
        }
        match self.unstopped(cell) {
            Turn::Now => self.based(cell),
            other => other,
        }
    }

    /// Whether a run that has a part of a rate is done: not if one before it that has a part of the
    /// same met its condition, nor before those are settled.
    fn unstopped(&self, cell: usize) -> Turn {
        let Cell { repeat, identity, point, .. } = &self.cells[cell];
        let listed = self.plan.listed_at(point);
        let Some(unless) = listed.and_then(|run| run.unless.as_ref()) else { return Turn::Now };
        let before = self.cells[..cell].iter().zip(&self.states);
        let is_like = |it: &Cell| it.repeat == *repeat && it.identity.base == identity.base;
        for (other, state) in before.filter(|(it, _)| is_like(it)) {
            match state {
                State::Done(_, measured) if holds_of_any(unless, other, measured) => {
                    return Turn::Out(format!("stopped at {}", other.name()));
                }
                State::Missing | State::Running if !self.running.is_empty() => return Turn::Later,
                State::Skipped(reason) => return Turn::Out(reason.clone()),
                State::Done(..) | State::Missing | State::Running | State::Failed(_) => {}
            }
        }
        Turn::Now
    }

    /// Why nothing more may begin.
    fn ended(&self) -> Option<Over> {
        if self.is_aborted {
            return Some(Over::Aborted);
        }
        if self.is_stopped {
            return Some(Over::Stopped);
        }
        let budget = self.plan.file.budget.map(ioecho_trace::Nanos::as_secs_f64);
        let done = self.states.iter().filter(|state| matches!(state, State::Done(..))).count();
        let each = if done == 0 { 0.0 } else { self.spent_s / done as f64 };
        // A repeat that would not be finished is not begun: half of one cannot be compared.
        let per_repeat = self.plan.cells.len() / self.plan.file.repeats.max(1) as usize;
        let begins_repeat = per_repeat > 0
            && self.at.is_multiple_of(per_repeat)
            && self.at > 0
            && self.running.is_empty();
        let runs = if begins_repeat { per_repeat } else { 1 };
        // What runs already takes its time as well.
        let needed = each * (runs + self.running.len()) as f64;
        if budget.is_some_and(|budget| self.spent_s + needed > budget) {
            return Some(Over::Budget);
        }
        let repeat = self.cells[..per_repeat.min(self.cells.len())].iter();
        let turns = if begins_repeat { self.plan.turns(repeat) } else { 1 };
        self.left_s.is_some_and(|left| each * turns as f64 > left).then_some(Over::Deadline)
    }

    /// The state of a cell after its attempts.
    fn known(&self, cell: &Cell) -> State {
        let Some(attempts) = self.attempts.get(&cell.key) else { return State::Missing };
        let (mut faults, mut last) = (0, String::new());
        for (number, end) in attempts {
            match end {
                End::Measured(measured) => match measured.fault() {
                    None => return State::Done(*number, Box::new(measured.clone())),
                    Some(finding) => {
                        faults += 1;
                        finding.name().clone_into(&mut last);
                    }
                },
                End::Fault(reason) => {
                    faults += 1;
                    last.clone_from(reason);
                }
                End::Failed(reason) => return State::Failed(reason.clone()),
                End::Stopped => {}
            }
        }
        if faults <= self.plan.file.retries {
            return State::Missing;
        }
        State::Failed(format!("{last}, after {faults} attempts"))
    }

    /// Whether the result of a cell ends the campaign.
    fn aborts(&self, cell: usize) -> bool {
        let State::Done(_, measured) = &self.states[cell] else { return false };
        let mut expectations = self.plan.file.expectations.iter().filter(|it| it.abort);
        expectations.any(|it| !holds_of_all(&it.that, &self.cells[cell], measured))
    }

    /// Whether a cell is climbed to: not if a lower one of its branch and repeat met the condition,
    /// nor before they are settled.
    fn climbed(&self, cell: usize) -> Turn {
        let Some(ladder) = &self.plan.file.ladder else { return Turn::Now };
        let Cell { branch, repeat, .. } = self.cells[cell];
        // Within a branch, cells with lower values stand before those with higher ones.
        let before = self.cells[..cell].iter().zip(&self.states);
        for (other, state) in before.filter(|(it, _)| it.branch == branch && it.repeat == repeat) {
            let value = other.setting(&ladder.axis).unwrap_or_default();
            match state {
                State::Done(_, measured) if holds_of_any(&ladder.stop, other, measured) => {
                    return Turn::Out(format!("stopped at {}={value}", ladder.axis));
                }
                State::Skipped(reason) => return Turn::Out(reason.clone()),
                State::Missing | State::Running if !self.running.is_empty() => return Turn::Later,
                State::Done(..) | State::Missing | State::Running | State::Failed(_) => {}
            }
        }
        Turn::Now
    }

    /// The cell that the search of a branch needs next; `None` if the search has ended.
    fn searched(&mut self, branch: usize) -> Result<Option<usize>> {
        let plan = self.plan;
        let Some(search) = &plan.file.search else { return Ok(None) };
        let bisection =
            Bisection { between: search.between, precision: search.precision, votes: search.votes };
        loop {
            let value = match bisection.next(&self.votes[branch]) {
                Next::Try(value) => value,
                found => {
                    self.found[branch] = Some(found);
                    return Ok(None);
                }
            };
            let votes = &mut self.votes[branch];
            if !votes.iter().any(|(other, _)| is_same(*other, value)) {
                votes.push((value, Vec::new()));
            }
            let cast =
                votes.iter().find(|(other, _)| is_same(*other, value)).map_or(0, |it| it.1.len());
            let probe = plan.probe(branch, value, cast as u32 + 1, self.ground)?;
            let known = self.cells.iter().position(|cell| cell.key == probe.key);
            let cell = known.unwrap_or(self.cells.len());
            if known.is_none() {
                let state = self.known(&probe);
                self.states.push(state);
                self.cells.push(probe);
            }
            let vote = match &self.states[cell] {
                State::Done(_, measured) => {
                    holds_of_any(&search.until, &self.cells[cell], measured)
                }
                State::Missing | State::Running => return Ok(Some(cell)),
                // Without this run the search has no answer.
                State::Failed(_) | State::Skipped(_) => return Ok(None),
            };
            for (other, cast) in &mut self.votes[branch] {
                if is_same(*other, value) {
                    cast.push(vote);
                }
            }
        }
    }
}
