//! Calls on names.

use super::{
    Asked, EEXIST, EINVAL, EISDIR, ENOENT, ENOTEMPTY, Ended, Give, IMPOSSIBLE, Model, NO_FILE,
    READ_LINKS, WHITEOUT,
};
use crate::recorded::{OpenWord, Place, shown};
use crate::request::Op;
use crate::syscalls::call::{At, Call, Event, Told, ToldKind};
use crate::syscalls::links::{Access, Thing};
use crate::syscalls::namespace::{Entry, Found, Inode, Kind};

impl Model {
    /// Takes a call on names.
    pub(super) fn take_of_names(&mut self, event: &Event, give: &mut Give<'_>) {
        match &event.call {
            Call::Stat { at, follow, told } => self.stat(event, at, *follow, *told, give),
            Call::ReadLink { at, target } => self.read_link(event, at, target.as_deref(), give),
            Call::Access(at) => {
                self.on_there(event, Op::Access, at, true, None, give);
            }
            Call::SetAttributes { at, mode, follow } => {
                let mode = mode.map(|mode| self.given(mode));
                self.on_there(event, Op::Setattr, at, *follow, mode, give);
            }
            Call::Truncate { at, size } => self.truncate(event, at, *size, give),
            Call::MakeDirectory { at, mode } => {
                let mode = mode.map(|mode| self.made_with(event.task, mode));
                self.make(event, Op::Mkdir, at, (mode, None), Kind::Directory, give);
            }
            Call::Symlink { target, at } => {
                let text = Some(target.as_slice());
                self.make(event, Op::Symlink, at, (None, text), Kind::Symlink, give);
            }
            Call::RemoveDirectory(at) => {
                self.remove(event, Op::Rmdir, at, Kind::Directory, give);
            }
            Call::Unlink(at) => self.remove(event, Op::Delete, at, Kind::File, give),
            Call::Rename { from, to, no_replace, exchange, whiteout } => {
                if *whiteout && event.result.is_ok() {
                    self.losses.add(WHITEOUT, 1, None);
                }
                self.rename(event, (from, to), (*no_replace, *exchange), give);
            }
            Call::Link { from, to, follow } => self.link(event, from, *follow, to, give),
            _ => {}
        }
    }

    /// Learns of the names what a failed call tells.
    pub(super) fn failed(&mut self, found: &Found, error: i32, kind: Kind) {
        match error {
            ENOENT => self.names.missed(found),
            EEXIST => {
                self.names.there(found, kind);
            }
            EISDIR => {
                let inode = self.names.there(found, Kind::Directory);
                self.names.told(inode, Kind::Directory);
            }
            _ => {}
        }
    }

    /// A call on a name that leaves it as it is; answers what it stands for if the call succeeded.
    fn on_there(
        &mut self,
        event: &Event,
        op: Op,
        at: &At,
        follow: bool,
        mode: Option<u32>,
        give: &mut Give<'_>,
    ) -> Option<Inode> {
        let ended = self.outcome(event)?;
        let fails = ended.fails();
        let mut found = self.locate(event, at, follow)?;
        let mut inode = None;
        match ended {
            Ended::Failing(error) => self.failed(&found, error, Kind::File),
            Ended::Well => {
                inode = Some(self.names.is_there(&mut found, Kind::File));
            }
        }
        let things = self.things_of(&found, false);
        let place = Place { path: shown(&found.path), mode, fails, ..Place::default() };
        self.ask(event, Asked { op, place, things }, 0, give);
        inode
    }

    fn stat(
        &mut self,
        event: &Event,
        at: &At,
        follow: bool,
        told: Option<Told>,
        give: &mut Give<'_>,
    ) {
        if told.is_some_and(|told| told.kind == ToldKind::Other) {
            self.losses.add(NO_FILE, 1, None);
            return;
        }
        if let Some(inode) = self.on_there(event, Op::Getattr, at, follow, None, give) {
            self.learn(inode, told);
        }
    }

    fn read_link(&mut self, event: &Event, at: &At, target: Option<&[u8]>, give: &mut Give<'_>) {
        // There is such a name, and it is no link.
        let is_no_link = event.result == Err(EINVAL);
        let result = if is_no_link { Ok(0) } else { event.result };
        let event = Event { result, ..event.clone() };
        let Some(inode) = self.on_there(&event, Op::Getattr, at, false, None, give) else {
            return;
        };
        self.guesses.add(READ_LINKS, 1, None);
        if is_no_link {
            return;
        }
        let length = event.result.ok().and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or_default().min(LINK_BYTES_MAX);
        let unknown = vec![b'x'; length];
        self.names.links(inode, target.unwrap_or(&unknown));
    }

    fn truncate(&mut self, event: &Event, at: &At, size: u64, give: &mut Give<'_>) {
        let Some(ended) = self.outcome(event) else { return };
        let fails = ended.fails();
        let Some(mut found) = self.locate(event, at, true) else { return };
        let mut changed = None;
        match ended {
            Ended::Failing(error) => self.failed(&found, error, Kind::File),
            Ended::Well => {
                let inode = self.names.is_there(&mut found, Kind::File);
                let node = self.names.node_mut(inode);
                node.size = size;
                node.changed = true;
                changed = Some((Thing::Content(inode), Access::Change));
            }
        }
        let mut things = self.things_of(&found, false);
        things.extend(changed);
        let place = Place { path: shown(&found.path), fails, ..Place::default() };
        self.ask(event, Asked { op: Op::Truncate, place, things }, size, give);
    }

    fn make(
        &mut self,
        event: &Event,
        op: Op,
        at: &At,
        (mode, text): (Option<u32>, Option<&[u8]>),
        kind: Kind,
        give: &mut Give<'_>,
    ) {
        let Some(ended) = self.outcome(event) else { return };
        let fails = ended.fails();
        let Some(mut found) = self.locate(event, at, false) else { return };
        match ended {
            Ended::Failing(error) => self.failed(&found, error, kind),
            Ended::Well => {
                let inode = self.made(&mut found, kind);
                if let Some(text) = text {
                    self.names.links(inode, text);
                }
            }
        }
        let things = self.things_of(&found, fails.is_none());
        let to = text.map(shown);
        let place = Place { path: shown(&found.path), to, mode, fails, ..Place::default() };
        self.ask(event, Asked { op, place, things }, 0, give);
    }

    fn remove(&mut self, event: &Event, op: Op, at: &At, kind: Kind, give: &mut Give<'_>) {
        let Some(ended) = self.outcome(event) else { return };
        let fails = ended.fails();
        let Some(mut found) = self.locate(event, at, false) else { return };
        if fails == Some(ENOTEMPTY) && !self.holds_names(&found) {
            // What is in it was never seen, so a replay would remove it.
            self.leave_out(event, ENOTEMPTY);
            return;
        }
        match ended {
            Ended::Failing(error) => self.failed(&found, error, kind),
            Ended::Well => {
                let inode = self.names.is_there(&mut found, kind);
                self.names.told(inode, kind);
            }
        }
        let mut things = self.things_of(&found, fails.is_none());
        things.extend(Self::is_full(&found, fails));
        if fails.is_none() {
            self.names.remove(&found);
        }
        let place = Place { path: shown(&found.path), fails, ..Place::default() };
        self.ask(event, Asked { op, place, things }, 0, give);
    }

    /// Whether a directory is known to hold names.
    fn holds_names(&self, found: &Found) -> bool {
        found.inode().is_some_and(|inode| self.names.node(inode).holds_names())
    }

    /// Makes a name that a call made.
    pub(super) fn made(&mut self, found: &mut Found, kind: Kind) -> Inode {
        let inode = self.names.make(found, kind);
        found.entry = Some(Entry::Is(inode));
        found.directory = Some(self.names.parent(inode));
        inode
    }

    /// What a call is about that failed because a directory holds names.
    fn is_full(found: &Found, fails: Option<i32>) -> Option<(Thing, Access)> {
        let inode = found.inode().filter(|_| matches!(fails, Some(ENOTEMPTY | EEXIST)))?;
        Some((Thing::Entries(inode), Access::Use))
    }

    fn rename(
        &mut self,
        event: &Event,
        (from, to): (&At, &At),
        (no_replace, exchange): (bool, bool),
        give: &mut Give<'_>,
    ) {
        let Some(fails) = self.outcome(event).map(Ended::fails) else { return };
        let Some(mut old) = self.locate(event, from, false) else { return };
        let Some(mut new) = self.locate(event, to, false) else { return };
        let place = Place {
            path: shown(&old.path),
            to: Some(shown(&new.path)),
            open: [(no_replace, OpenWord::NoReplace), (exchange, OpenWord::Exchange)]
                .into_iter()
                .filter_map(|(is_set, word)| is_set.then_some(word))
                .collect(),
            fails,
            ..Place::default()
        };
        let is_unlike = fails == Some(ENOENT) && self.is_done(&old, &new);
        if is_unlike || fails == Some(ENOTEMPTY) && !self.holds_names(&new) {
            self.leave_out(event, fails.unwrap_or_default());
            return;
        }
        if fails.is_none() {
            let inode = self.names.is_there(&mut old, Kind::File);
            let above = self.names.directory_of(&new);
            new.directory = Some(above);
            let other = exchange.then(|| self.names.is_there(&mut new, Kind::File));
            let is_above =
                |inode| old.directory.is_some_and(|old| self.names.is_within(old, inode));
            if self.names.is_within(above, inode) || other.is_some_and(is_above) {
                self.impossible(&old, &new);
                return;
            }
        }
        let mut things = self.things_of(&old, fails.is_none());
        things.extend(self.things_of(&new, fails.is_none()));
        things.extend(Self::is_full(&new, fails));
        match (fails, old.inode()) {
            (None, Some(inode)) => {
                match new.inode().filter(|_| exchange) {
                    Some(other) => self.names.name(&old, other),
                    // Two names of one file: the kernel does nothing.
                    None if new.inode() == Some(inode) => return,
                    None => self.names.remove(&old),
                }
                self.names.name(&new, inode);
            }
            (Some(EEXIST), _) => {
                self.names.there(&new, Kind::File);
            }
            _ => {}
        }
        self.ask(event, Asked { op: Op::Rename, place, things }, 0, give);
    }

    /// Whether a call on two names would be done: the old one is there, and so is the directory of
    /// the new one.
    fn is_done(&self, old: &Found, new: &Found) -> bool {
        let is_one = |inode| self.names.node(inode).kind == Kind::Directory;
        old.inode().is_some() && new.directory.is_some_and(is_one)
    }

    /// Counts a call that cannot have been done as it stands.
    fn impossible(&mut self, old: &Found, new: &Found) {
        let example = format!("/{} to /{}", shown(&old.path), shown(&new.path));
        self.losses.add(IMPOSSIBLE, 1, Some(example));
    }

    fn link(&mut self, event: &Event, from: &At, follow: bool, to: &At, give: &mut Give<'_>) {
        let Some(fails) = self.outcome(event).map(Ended::fails) else { return };
        let Some(mut old) = self.locate(event, from, follow) else { return };
        let Some(mut new) = self.locate(event, to, false) else { return };
        match fails {
            Some(EEXIST) => {
                self.names.is_there(&mut new, Kind::File);
            }
            Some(ENOENT) if self.is_done(&old, &new) => {
                self.leave_out(event, ENOENT);
                return;
            }
            Some(_) => {}
            None => {
                let inode = self.names.is_there(&mut old, Kind::File);
                let above = self.names.directory_of(&new);
                new.directory = Some(above);
                let is_one = self.names.node(inode).kind == Kind::Directory;
                if is_one || self.names.is_within(above, inode) {
                    self.impossible(&old, &new);
                    return;
                }
                self.names.name(&new, inode);
            }
        }
        let mut things = self.things_of(&old, false);
        things.extend(self.things_of(&new, fails.is_none()));
        let (path, to) = (shown(&old.path), Some(shown(&new.path)));
        let place = Place { path, to, fails, ..Place::default() };
        self.ask(event, Asked { op: Op::Link, place, things }, 0, give);
    }
}

/// No link says more (`PATH_MAX`).
const LINK_BYTES_MAX: usize = 4095;
