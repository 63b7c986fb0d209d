//! From lines to calls that have returned.

use rustc_hash::FxHashMap;

use super::arguments::{Returned, returned};
use super::line::{What, split};
use crate::formats::import::{Fault, Intake, LineParser, Said, Told};
use crate::header::{NoteKind, Topic};
use crate::syscalls::read::{call, is_read_here, is_spawn};
use crate::syscalls::{Call, Event, Model};
use crate::units::Nanos;

/// Calls of tasks that nobody has made yet, that are kept until somebody has.
const HELD_MAX: usize = 65_536;

/// Calls that were never seen to return.
const NEVER_RETURNED: Topic<'static> =
    NoteKind::Unseen.of("calls that had not returned when the recording ended");

/// Ends of calls without their beginning.
const ONLY_ENDS: Topic<'static> =
    NoteKind::Unseen.of("ends of calls that began before the recording");

/// Beginnings that another call of the task followed.
const ONLY_BEGINNINGS: Topic<'static> =
    NoteKind::Unseen.of("calls whose end is missing before the next one of their task");

/// A call that was interrupted in print.
struct Begun {
    at: Nanos,
    text: Vec<u8>,
    name: Vec<u8>,
}

/// The state while lines are read.
pub(super) struct Parser {
    model: Model,
    /// The halves of calls, by their task.
    begun: FxHashMap<u32, Begun>,
    /// Calls of tasks of which nobody knows yet who made them.
    held: Vec<Event>,
    /// The task that had no number while it was alone.
    alone: Option<u32>,
    /// Tasks that strace said it had found.
    attached: Vec<u32>,
    is_begun: bool,
    only_ends: u64,
    only_beginnings: u64,
    never_returned: u64,
}

impl Parser {
    /// Also tells which request waited for which if `links`.
    pub(super) fn new(links: bool) -> Self {
        Self {
            model: Model::new(links),
            begun: FxHashMap::default(),
            held: Vec::new(),
            alone: None,
            attached: Vec::new(),
            is_begun: false,
            only_ends: 0,
            only_beginnings: 0,
            never_returned: 0,
        }
    }

    /// A task begins a call. One of its that has not returned never will, as far as the recording
    /// tells: its end is missing.
    fn begins(&mut self, task: u32, new: Option<Begun>) {
        let old = self.begun.remove(&task);
        let is_of_files = |begun: &Begun| named(&begun.name, is_read_here);
        self.only_beginnings += u64::from(old.as_ref().is_some_and(is_of_files));
        let Some(new) = new else { return };
        // Nobody knows which of both an end of this name would belong to.
        if old.is_some_and(|old| old.name == new.name) {
            self.only_beginnings += u64::from(is_of_files(&new));
        } else {
            self.begun.insert(task, new);
        }
    }

    /// The number that a task has here.
    fn task(&mut self, task: Option<u32>) -> u32 {
        let Some(task) = task else { return self.alone.unwrap_or(0) };
        let is_new = !self.model.knows(task) && !self.attached.contains(&task);
        if is_new && self.alone.is_none() && self.model.knows(0) {
            // It got its number in print when another one came.
            self.alone = Some(task);
        }
        if self.alone == Some(task) { 0 } else { task }
    }

    /// Whether somebody is making a task now; if that can be nobody else, it is known who.
    fn maker(&self, task: u32) -> Option<(u32, Option<Call>)> {
        let mut makers = self.begun.iter().filter(|(_, begun)| named(&begun.name, is_spawn));
        let (maker, begun) = makers.next()?;
        if *maker == task {
            return None;
        }
        let arguments = vec![begun.text.as_slice()];
        let none = Returned { arguments, result: Ok(0), path: None, took: None };
        let name = std::str::from_utf8(&begun.name).ok()?;
        let spawn = call(name, &none).ok().flatten();
        Some((*maker, spawn.filter(|_| makers.next().is_none())))
    }

    /// Takes a call that has returned.
    fn take(&mut self, event: Event, intake: &mut Intake) -> Result<(), Fault> {
        if !self.model.knows(event.task) && self.is_begun {
            match self.maker(event.task) {
                Some((maker, Some(spawn))) => {
                    let result = Ok(i64::from(event.task));
                    let made = Event { task: maker, call: spawn, result, ..event.clone() };
                    intake.push_call(&mut self.model, &made)?;
                }
                Some((_, None)) if self.held.len() < HELD_MAX => {
                    self.held.push(event);
                    return Ok(());
                }
                _ => {}
            }
        }
        self.is_begun = true;
        intake.push_call(&mut self.model, &event)?;
        if let (Call::Spawn { .. }, Ok(child)) = (&event.call, event.result)
            && !self.held.is_empty()
        {
            let (theirs, held) = std::mem::take(&mut self.held)
                .into_iter()
                .partition(|held| i64::from(held.task) == child);
            self.held = held;
            let theirs: Vec<Event> = theirs;
            for event in theirs {
                intake.push_call(&mut self.model, &event)?;
            }
        }
        Ok(())
    }

    /// Takes the text of a whole call.
    fn whole(
        &mut self,
        task: u32,
        begun: Nanos,
        ended: Option<Nanos>,
        (name, text): (&[u8], &[u8]),
        intake: &mut Intake,
    ) -> Result<Said, Fault> {
        let Some(returned) = returned(text) else {
            let is_read = named(name, is_read_here);
            // `= ?`: it never returned, or is done again.
            let is_unknown = text.windows(3).any(|part| part == b"= ?");
            if !is_read || is_unknown {
                return Ok(Said::Other);
            }
            return Err(Fault::junk(1, "this call does not end as one that has returned"));
        };
        let Ok(name) = std::str::from_utf8(name) else { return Ok(Said::Other) };
        let found = call(name, &returned).map_err(|reason| Fault::junk(1, reason))?;
        let Some(call) = found else { return Ok(Said::Other) };
        let took = returned.took.or(ended.map(|ended| ended.saturating_sub(begun)));
        let took = took.filter(|took| *took >= Nanos::ZERO);
        self.take(Event { task, begun, took, call, result: returned.result }, intake)?;
        Ok(Said::Request)
    }
}

/// Whether this is so of the name of a call.
fn named(name: &[u8], is_so: fn(&str) -> bool) -> bool {
    std::str::from_utf8(name).is_ok_and(is_so)
}

impl LineParser for Parser {
    fn line(&mut self, line: &[u8], intake: &mut Intake) -> Result<Said, Fault> {
        let line = split(line)?;
        let Some(at) = line.at else {
            if let What::Attached(task) = line.what {
                self.attached.push(task);
            }
            return Ok(Said::Other);
        };
        let task = self.task(line.task);
        match line.what {
            What::Whole(name, text) => {
                self.begins(task, None);
                self.whole(task, at, None, (name, text), intake)
            }
            What::Unfinished(name, text) => {
                let (name, text) = (name.to_vec(), text.to_vec());
                self.begins(task, Some(Begun { at, text, name }));
                Ok(Said::Other)
            }
            What::Resumed(name, rest) => match self.begun.remove(&task) {
                Some(mut begun) if begun.name == name => {
                    begun.text.extend_from_slice(rest);
                    self.whole(task, begun.at, Some(at), (name, &begun.text), intake)
                }
                _ => {
                    self.only_ends += 1;
                    Ok(Said::Other)
                }
            },
            What::Ended => {
                self.begun.remove(&task);
                let (call, result) = (Call::Exit, Ok(0));
                self.take(Event { task, begun: at, took: None, call, result }, intake)?;
                Ok(Said::Other)
            }
            What::Other | What::Attached(_) => Ok(Said::Other),
        }
    }

    fn tell(&self, told: &mut Told) {
        let (losses, guesses) = self.model.told();
        losses.iter().for_each(|note| told.losses.add_note(note));
        guesses.iter().for_each(|note| told.guesses.add_note(note));
        told.losses.add(ONLY_ENDS, self.only_ends, None);
        told.losses.add(ONLY_BEGINNINGS, self.only_beginnings, None);
        told.losses.add(NEVER_RETURNED, self.never_returned, None);
    }

    fn end(&mut self, intake: &mut Intake) {
        for event in std::mem::take(&mut self.held) {
            // Nobody made it, as far as the recording tells.
            let _ = intake.push_call(&mut self.model, &event);
        }
        let is_file_call = |begun: &&Begun| named(&begun.name, is_read_here);
        self.never_returned = self.begun.values().filter(is_file_call).count() as u64;
        intake.header.files = Some(self.model.files());
    }
}
