//! Calls on what is open, and those that open it.

use super::{
    Asked, DATA_SYNC, Ended, Give, IN_ONE, MAPPED, MAPPED_TO_WRITE, Model, NAMELESS, NO_FILE,
    NOT_THE_LAST, OPEN_BEFORE, OTHERS, STATUS, TAKEN_AS_MADE, UNNAMED, is_of_kernel, is_told,
    words,
};
use crate::recorded::{OpenWord, Place, shown};
use crate::request::Op;
use crate::syscalls::call::{At, Call, Descriptor, Event, OpenFlags, Told, ToldKind, Whence};
use crate::syscalls::links::{Access, Thing};
use crate::syscalls::namespace::{Found, Inode, Kind, ROOT};
use crate::syscalls::tasks::{Opened, Opening};

/// What a call is done to, if it is a file.
#[derive(Clone, Copy)]
struct On {
    opening: Opening,
    inode: Inode,
    place: usize,
}

impl Model {
    /// Takes a call that opens a file.
    pub(super) fn open(
        &mut self,
        event: &Event,
        at: &At,
        flags: OpenFlags,
        mode: Option<u32>,
        opened: Option<&[u8]>,
        give: &mut Give<'_>,
    ) {
        let Some(fails) = self.outcome(event).map(Ended::fails) else { return };
        if flags.unnamed {
            self.losses.add(UNNAMED, 1, None);
            return;
        }
        let follow = !(flags.no_follow || flags.create && flags.exclusive);
        let Some(mut found) = self.found_opened(event, at, follow, opened) else { return };
        let is_made = flags.create && found.inode().is_none();
        // Nobody depends on what a flag would have done.
        let mode = mode.filter(|_| is_made || flags.create && fails.is_some());
        let place = Place {
            path: shown(&found.path),
            open: words(flags),
            mode: mode.map(|mode| self.made_with(event.task, mode)),
            fails,
            ..Place::default()
        };
        let op = if flags.create { Op::Create } else { Op::Open };
        if let Some(error) = fails {
            self.failed(&found, error, Kind::File);
            let things = self.things_of(&found, false);
            return self.ask(event, Asked { op, place, things }, 0, give);
        }
        let Some(descriptor) = event.result.ok().and_then(|number| i32::try_from(number).ok())
        else {
            return;
        };
        if is_made && found.entry.is_none() && !flags.exclusive {
            self.guesses.add(TAKEN_AS_MADE, 1, Some(place.path.clone()));
        }
        let kind = if flags.directory { Kind::Directory } else { Kind::File };
        let inode = if is_made {
            self.made(&mut found, kind)
        } else {
            self.names.is_there(&mut found, kind)
        };
        self.names.told(inode, kind);
        if flags.truncate && !flags.path {
            let node = self.names.node_mut(inode);
            node.size = 0;
            node.changed = true;
        }
        let closed = self.tasks.close(event.task, descriptor, descriptor);
        self.closed_by_end(event, &closed, give);
        let Some(place) = self.opened_place(place) else { return };
        let status = (flags.append, flags.direct);
        self.tasks.open(event.task, descriptor, (inode, place), status, flags.close_on_exec);
        let mut things = self.things_of(&found, is_made);
        things.push((Thing::Position(place), Access::Change));
        let cuts = flags.truncate && !flags.path;
        things.push((Thing::Content(inode), if cuts { Access::Change } else { Access::Touch }));
        let op = if is_made { Op::Create } else { Op::Open };
        self.row(event, op, (place, 0, 0), &things, give);
    }

    /// What a call opened: the path that the recording tells of it leads past links that nobody
    /// knows.
    fn found_opened(
        &mut self,
        event: &Event,
        at: &At,
        follow: bool,
        opened: Option<&[u8]>,
    ) -> Option<Found> {
        match opened {
            Some(path) if is_told(path) => {
                // It may tell the working directory.
                self.base(event.task, at)?;
                let path = At { path: path.to_vec(), ..At::default() };
                self.locate(event, &path, false)
            }
            // A pipe, a socket, a file that was deleted meanwhile.
            Some(path) if !path.starts_with(b"/") => {
                self.losses.add(NO_FILE, 1, None);
                None
            }
            _ => self.locate(event, at, follow),
        }
    }

    /// Takes a call on descriptors.
    pub(super) fn take_of_descriptor(&mut self, event: &Event, give: &mut Give<'_>) {
        match &event.call {
            Call::Close { first, last } => self.close(event, *first, *last, give),
            Call::Duplicate { from, close_on_exec } => {
                let Some(to) = event.result.ok().and_then(|to| i32::try_from(to).ok()) else {
                    return;
                };
                self.known(event.task, from);
                let closed = self.tasks.duplicate(event.task, from.number, to, *close_on_exec);
                self.closed_by_end(event, &closed, give);
            }
            Call::CloseOnExec { descriptor, close } => {
                if event.result.is_ok() {
                    self.tasks.set_close_on_exec(event.task, *descriptor, *close);
                }
            }
            _ if event.result.is_err() => {
                self.outcome_of_descriptor(event);
            }
            Call::Read { from, at, asked } => {
                if let Some(on) = self.on(event.task, from) {
                    self.read(event, on, *at, *asked, give);
                }
            }
            Call::Write { to, at, how } => {
                if let Some(on) = self.on(event.task, to) {
                    self.write(event, on, (*at, how.append), give);
                }
            }
            Call::SetStatus { descriptor, append, direct } => {
                if let Some(on) = self.known(event.task, descriptor) {
                    let opened = self.tasks.opened_mut(on.opening);
                    if (opened.append, opened.direct) != (*append, *direct) {
                        (opened.append, opened.direct) = (*append, *direct);
                        self.losses.add(STATUS, 1, None);
                    }
                }
            }
            Call::Transfer { from, from_at, to, to_at } => {
                let (from, to) = (self.known(event.task, from), self.known(event.task, to));
                let does_both = from.is_some() && to.is_some() && event.result != Ok(0);
                let (reads, writes) = if does_both {
                    self.guesses.add(IN_ONE, 1, None);
                    event.halves()
                } else {
                    (event.clone(), event.clone())
                };
                if let Some(on) = from {
                    self.read(&reads, on, *from_at, None, give);
                }
                if let Some(on) = to {
                    self.write(&writes, on, (*to_at, false), give);
                }
            }
            Call::Seek { descriptor, from_end } => {
                if let (Ok(position), Some(on)) = (event.result, self.on(event.task, descriptor)) {
                    let position = position.unsigned_abs();
                    self.tasks.opened_mut(on.opening).position = position;
                    if *from_end {
                        self.names.sized(on.inode, position);
                    }
                }
            }
            Call::Map { descriptor, writes } => {
                if self.known(event.task, descriptor).is_some() {
                    let what = if *writes { MAPPED_TO_WRITE } else { MAPPED };
                    self.losses.add(what, 1, None);
                }
            }
            _ => self.take_of_opened(event, give),
        }
    }

    /// Takes a call on a descriptor that moves no data and succeeded.
    fn take_of_opened(&mut self, event: &Event, give: &mut Give<'_>) {
        match &event.call {
            Call::StatDescriptor { descriptor, told } => {
                if told.is_some_and(|told| told.kind == ToldKind::Other) {
                    self.losses.add(NO_FILE, 1, None);
                    return;
                }
                if let Some(on) = self.on(event.task, descriptor) {
                    self.learn(on.inode, *told);
                    self.by_opening(event, Op::Getattr, on, 0, Access::Touch, give);
                }
            }
            Call::SetOfDescriptor { descriptor, mode } => {
                if let Some(on) = self.on(event.task, descriptor) {
                    // It is done by name.
                    let Some(found) = self.names.found(on.inode) else {
                        self.losses.add(NAMELESS, 1, None);
                        return;
                    };
                    let mut things = self.things_of(&found, false);
                    things.push((Thing::Position(on.place), Access::Use));
                    let mode = mode.map(|mode| self.given(mode));
                    let place = Place { path: shown(&found.path), mode, ..Place::default() };
                    self.ask(event, Asked { op: Op::Setattr, place, things }, 0, give);
                }
            }
            Call::TruncateDescriptor { descriptor, size, only_grows } => {
                if let Some(on) = self.on(event.task, descriptor) {
                    if *only_grows && *size <= self.names.node(on.inode).size {
                        self.losses.add(OTHERS, 1, Some("fallocate".to_owned()));
                        return;
                    }
                    let node = self.names.node_mut(on.inode);
                    node.size = *size;
                    node.changed = true;
                    self.by_opening(event, Op::Truncate, on, *size, Access::Change, give);
                }
            }
            Call::Sync { descriptor, data_only } => {
                if let Some(on) = self.on(event.task, descriptor) {
                    if *data_only {
                        self.guesses.add(DATA_SYNC, 1, None);
                    }
                    self.by_opening(event, Op::Fsync, on, 0, Access::Touch, give);
                }
            }
            Call::ReadDirectory(descriptor) => {
                if let Some(on) = self.on(event.task, descriptor) {
                    self.names.told(on.inode, Kind::Directory);
                    let things = [(Thing::Position(on.place), Access::Change)];
                    self.row(event, Op::Readdir, (on.place, 0, 0), &things, give);
                }
            }
            _ => {}
        }
    }

    /// Counts a call on a descriptor that failed.
    fn outcome_of_descriptor(&mut self, event: &Event) {
        if let Err(error) = event.result {
            self.leave_out(event, error);
        }
    }

    /// Takes over what a call told of a file.
    pub(super) fn learn(&mut self, inode: Inode, told: Option<Told>) {
        let Some(Told { kind, size }) = told else { return };
        match kind {
            ToldKind::Directory => self.names.told(inode, Kind::Directory),
            ToldKind::Symlink => self.names.told(inode, Kind::Symlink),
            ToldKind::File => {
                if let Some(size) = size {
                    self.names.sized(inode, size);
                }
            }
            ToldKind::Other => {}
        }
    }

    fn by_opening(
        &mut self,
        event: &Event,
        op: Op,
        on: On,
        within: u64,
        access: Access,
        give: &mut Give<'_>,
    ) {
        let things = [(Thing::Position(on.place), Access::Use), (Thing::Content(on.inode), access)];
        self.row(event, op, (on.place, within, 0), &things, give);
    }

    /// The file that a descriptor stands for; counted if there is none.
    fn on(&mut self, task: u32, descriptor: &Descriptor) -> Option<On> {
        let known = self.known(task, descriptor);
        if known.is_none() {
            self.losses.add(NO_FILE, 1, None);
        }
        known
    }

    /// The file that a descriptor stands for, also if it was open before the recording and that
    /// tells its path.
    fn known(&mut self, task: u32, descriptor: &Descriptor) -> Option<On> {
        let on = |model: &Self, opening| {
            let Opened { inode, place, .. } = *model.tasks.opened(opening);
            On { opening, inode, place }
        };
        if let Some(opening) = self.tasks.opening(task, descriptor.number) {
            return Some(on(self, opening));
        }
        let path = descriptor.path.as_deref().filter(|path| is_told(path))?;
        if is_of_kernel(&path[1..]) {
            return None;
        }
        let found = self.names.walk(ROOT, path, false);
        if found.name.is_empty() {
            return None;
        }
        self.guesses.add(OPEN_BEFORE, 1, Some(shown(path)));
        let inode = self.names.there(&found, Kind::File);
        let open = vec![OpenWord::Read, OpenWord::Write];
        let place = Place { path: shown(&found.path), open, ..Place::default() };
        let place = self.opened_place(place)?;
        let opening =
            self.tasks.open(task, descriptor.number, (inode, place), (false, false), false);
        self.tasks.opened_mut(opening).position = self.names.node(inode).size;
        Some(on(self, opening))
    }

    fn close(&mut self, event: &Event, first: i32, last: i32, give: &mut Give<'_>) {
        // A close that reports an error closes too.
        let is_known = first == last && self.tasks.opening(event.task, first).is_some();
        let closed = self.tasks.close(event.task, first, last);
        if is_known && closed.is_empty() {
            self.losses.add(NOT_THE_LAST, 1, None);
        }
        for opened in &closed {
            self.close_opened(event, opened, give);
        }
    }

    fn read(&mut self, event: &Event, on: On, at: Whence, asked: Option<u64>, give: &mut Give<'_>) {
        let Some(length) = event.result.ok().and_then(|length| u64::try_from(length).ok()) else {
            return;
        };
        let opened = self.tasks.opened_mut(on.opening);
        let (from, moves) = match at {
            Whence::Start(from) => (from, false),
            Whence::Position => (opened.position, true),
        };
        let Some(end) = from.checked_add(length) else { return };
        if moves {
            opened.position = end;
        }
        let is_file = self.names.node(on.inode).kind == Kind::File;
        if length > 0 {
            self.names.needs(on.inode, end);
        }
        // Fewer bytes than were asked for: the file ends there.
        if is_file && length > 0 && asked.is_some_and(|asked| asked > length) {
            self.names.sized(on.inode, end);
        }
        let things = [
            (Thing::Position(on.place), Access::changing(moves)),
            (Thing::Content(on.inode), Access::Use),
        ];
        self.row(event, Op::Read, (on.place, from, length), &things, give);
    }

    /// A write; one that appends goes to the end whatever it says of where.
    fn write(&mut self, event: &Event, on: On, (at, append): (Whence, bool), give: &mut Give<'_>) {
        let Some(length) = event.result.ok().and_then(|length| u64::try_from(length).ok()) else {
            return;
        };
        if length == 0 {
            return;
        }
        let size = self.names.node(on.inode).size;
        let opened = self.tasks.opened_mut(on.opening);
        let append = append || opened.append;
        let (from, moves) = match at {
            Whence::Start(from) if !append => (from, false),
            Whence::Start(_) => (size, false),
            Whence::Position if append => (size, true),
            Whence::Position => (opened.position, true),
        };
        let Some(end) = from.checked_add(length) else { return };
        if moves {
            opened.position = end;
        }
        let node = self.names.node_mut(on.inode);
        node.size = size.max(end);
        node.changed = true;
        let access = if end > size { Access::Grow } else { Access::Write };
        let things = [
            (Thing::Position(on.place), Access::changing(moves)),
            (Thing::Content(on.inode), access),
        ];
        self.row(event, Op::Write, (on.place, from, length), &things, give);
    }
}
