//! A call's beginning and its return become a call that has returned.

use rustc_hash::{FxHashMap, FxHashSet};

use super::lanes::Seen;
use super::layout::{Kind, Layouts, Parts, Value};
use crate::formats::import::{Intake, Told};
use crate::header::{NoteKind, Notes, Topic};
use crate::recording::Calls;
use crate::syscalls::read::{call, is_read_here, is_spawn};
use crate::syscalls::{At, Call, Event, Model};
use crate::units::Nanos;

/// Calls that were never seen to return.
const NEVER_RETURNED: Topic<'static> =
    NoteKind::Unseen.of("calls that had not returned when the recording ended");

/// Ends of calls without their beginning.
const ONLY_ENDS: Topic<'static> =
    NoteKind::Unseen.of("ends of calls that began before the recording, or in a gap of it");

/// Beginnings that another one of the task followed.
const ONLY_BEGINNINGS: Topic<'static> =
    NoteKind::Unseen.of("calls whose end is missing, as in a gap of the recording");

/// Calls without their names.
const UNREAD: Topic<'static> =
    NoteKind::Unseen.of("calls whose names the kernel could not read as they were made, left out");

/// Events that are too short, or are none that was asked for.
const STRANGE: Topic<'static> = NoteKind::Unreadable.of("events that are none of a call or task");

/// A call that has not returned.
struct Begun {
    name: String,
    at: u64,
    parts: Parts,
}

/// The state while events are read.
pub(super) struct Pairing {
    model: Model,
    whose: Calls,
    /// What makes wall time of monotonic time, nanoseconds.
    to_wall: i128,
    begun: FxHashMap<u32, Begun>,
    /// Threads of the recorder.
    recorders: FxHashSet<u32>,
    /// The monotonic instant of the first call that gave a request.
    pub(super) first: Option<u64>,
    lost: Notes,
    is_placed: bool,
}

impl Pairing {
    /// Also tells which request waited for which if `links`.
    pub(super) fn new(whose: Calls, links: bool, to_wall: i128) -> Self {
        let recorders = FxHashSet::from_iter([whose.parent]);
        Self {
            model: Model::new(links),
            whose,
            to_wall,
            begun: FxHashMap::default(),
            recorders,
            first: None,
            lost: Notes::default(),
            is_placed: false,
        }
    }

    fn wall(&self, at: u64) -> Nanos {
        Nanos(i64::try_from(i128::from(at) + self.to_wall).unwrap_or(i64::MAX))
    }

    /// Takes an event.
    pub(super) fn take(&mut self, layouts: &Layouts, seen: &Seen, intake: &mut Intake) {
        if !std::mem::replace(&mut self.is_placed, true) {
            self.place(seen.time, intake);
        }
        let layout = layouts.layout(&seen.data);
        let parts = layout.and_then(|layout| Some((layout, layout.parts(&seen.data)?)));
        let Some((layout, parts)) = parts else {
            self.lost.add(STRANGE, 1, None);
            return;
        };
        let (task, time) = (parts.task, seen.time);
        match layout.kind {
            Kind::Enter => {
                let begun = Begun { name: layout.name.clone(), at: time, parts };
                if self.begun.insert(task, begun).is_some() && !self.recorders.contains(&task) {
                    self.lost.add(ONLY_BEGINNINGS, 1, None);
                }
            }
            Kind::Exit => self.returned(&layout.name, &parts, time, intake),
            Kind::Fork => {
                if let Some(Value::Number(child)) = parts.arguments.first() {
                    self.forked(task, *child as u32, time, intake);
                }
            }
            Kind::End => {
                self.begun.remove(&task);
                if !self.recorders.remove(&task) {
                    self.give(task, (time, None), Call::Exit, Ok(0), intake);
                }
            }
        }
    }

    /// The command begins in the directory of the recorder.
    fn place(&mut self, time: u64, intake: &mut Intake) {
        if let Some(directory) = self.whose.directory.clone() {
            let at = At { path: directory.into_bytes(), ..At::default() };
            let parent = self.whose.parent;
            self.give(parent, (time, None), Call::ChangeDirectory(at), Ok(0), intake);
        }
    }

    /// A call has returned.
    fn returned(&mut self, name: &str, parts: &Parts, time: u64, intake: &mut Intake) {
        let Some(Value::Number(result)) = parts.arguments.first() else { return };
        let result = *result as i64;
        let begun = self.begun.remove(&parts.task);
        if self.recorders.contains(&parts.task) || is_spawn(name) {
            // A task that is made has an event of its own, before it can do anything.
            return;
        }
        let Some(begun) = begun.filter(|begun| begun.name == name) else {
            self.lost.add(ONLY_ENDS, 1, Some(name.to_owned()));
            return;
        };
        let result = match result {
            error @ -4095..=-1 => Err(-error as i32),
            value => Ok(value),
        };
        match call(name, &begun.parts) {
            Ok(Some(call)) => {
                let times = (begun.at, Some(time));
                self.give(parts.task, times, call, result, intake);
            }
            Ok(None) => {}
            Err(_) => self.lost.add(UNREAD, 1, Some(name.to_owned())),
        }
    }

    /// A task has made another one.
    fn forked(&mut self, parent: u32, child: u32, time: u64, intake: &mut Intake) {
        let begun = self.begun.get(&parent).filter(|begun| is_spawn(&begun.name));
        let spawn = begun.and_then(|begun| call(&begun.name, &begun.parts).ok().flatten());
        let spawn = spawn.unwrap_or(Call::Spawn { shares_files: false, shares_directory: false });
        let is_thread = matches!(spawn, Call::Spawn { shares_files: true, .. });
        // A command shares no descriptors with the recorder that starts it.
        if self.recorders.contains(&parent) && (is_thread || parent != self.whose.parent) {
            self.recorders.insert(child);
            return;
        }
        self.give(parent, (time, None), spawn, Ok(i64::from(child)), intake);
    }

    fn give(
        &mut self,
        task: u32,
        (begun, ended): (u64, Option<u64>),
        call: Call,
        result: Result<i64, i32>,
        intake: &mut Intake,
    ) {
        let took = ended.map(|ended| Nanos(ended.saturating_sub(begun) as i64));
        let event = Event { task, begun: self.wall(begun), took, call, result };
        match intake.push_call(&mut self.model, &event) {
            Ok(Some(first)) => {
                let first = i128::from(first.0) - self.to_wall;
                let first = u64::try_from(first).unwrap_or(begun);
                self.first = Some(self.first.map_or(first, |known| known.min(first)));
            }
            Ok(None) => {}
            Err(fault) => self.lost.add(fault.loss, 1, Some(fault.reason.to_owned())),
        }
    }

    pub(super) fn tell(&self, told: &mut Told) {
        let (losses, guesses) = self.model.told();
        losses.iter().chain(self.lost.iter()).for_each(|note| told.losses.add_note(note));
        guesses.iter().for_each(|note| told.guesses.add_note(note));
    }

    /// Ends; tells the names.
    pub(super) fn end(&mut self, intake: &mut Intake) {
        let recorders = &self.recorders;
        let is_of_load =
            |(task, begun): &(&u32, &Begun)| is_read_here(&begun.name) && !recorders.contains(task);
        let left = self.begun.iter().filter(is_of_load).count() as u64;
        self.lost.add(NEVER_RETURNED, left, None);
        intake.header.files = Some(self.model.files());
    }
}
