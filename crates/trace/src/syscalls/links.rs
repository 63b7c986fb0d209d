//! Which call had to come before which.
//!
//! A call waits for the call before it of its own task, and the first one of a task for that which
//! made the task. It also waits for calls of other tasks on the same names and files, if these had
//! returned before it was made: what changes a name or a file waits for all that used it since the
//! last change, what uses one for the last change alone. Calls that overlapped in the recording
//! have no order.

use rustc_hash::FxHashMap;

use super::namespace::Inode;
use crate::units::Nanos;

/// What two tasks may do to each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Thing {
    /// That a directory is where it is.
    Directory(Inode),
    /// A name in a directory.
    Name(Inode, Box<[u8]>),
    /// What a file or a directory holds.
    Content(Inode),
    /// The position of an opened file.
    Position(usize),
}

/// A call that others may wait for.
#[derive(Clone, Copy, Debug)]
struct Done {
    task: u32,
    number: u64,
    ended: Nanos,
}

/// Who used a thing, since who changed it.
#[derive(Debug, Default)]
struct Since {
    change: Option<Done>,
    uses: FxHashMap<u32, Done>,
}

/// What a task has waited for.
#[derive(Debug, Default)]
struct Seen {
    last: Option<u64>,
    /// Of other tasks, the latest call that this one surely comes after.
    of: FxHashMap<u32, u64>,
}

/// The calls so far, as far as others may wait for them.
#[derive(Debug, Default)]
pub(super) struct Links {
    things: FxHashMap<Thing, Since>,
    tasks: FxHashMap<u32, Seen>,
    parents: Vec<u64>,
    /// The number of the next call.
    next: u64,
}

/// A call that is being linked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    pub(super) task: u32,
    pub(super) begun: Nanos,
    pub(super) ended: Nanos,
}

impl Links {
    /// A task makes another one, which comes after what it has done so far.
    pub(super) fn spawn(&mut self, parent: u32, child: u32) {
        let Some(seen) = self.tasks.get(&parent) else { return };
        let mut of = seen.of.clone();
        if let Some(last) = seen.last {
            of.insert(parent, last);
        }
        self.tasks.insert(child, Seen { last: seen.last, of });
    }

    /// Links a request to those that it waits for; answers its number and theirs. `things` are used
    /// by it, or changed if that is said of them.
    pub(super) fn link(
        &mut self,
        caller: Caller,
        things: impl Iterator<Item = (Thing, bool)>,
    ) -> (u64, &[u64]) {
        let Caller { task, begun, ended } = caller;
        let number = self.next;
        self.next += 1;
        let Self { things: known, tasks, parents, .. } = self;
        parents.clear();
        let seen = tasks.entry(task).or_default();
        parents.extend(seen.last);
        let mut wait = |done: &Done| {
            let is_seen = seen.of.get(&done.task).is_some_and(|seen| *seen >= done.number);
            if done.task != task && done.ended <= begun && !is_seen {
                parents.push(done.number);
                seen.of.insert(done.task, done.number);
            }
        };
        let this = Done { task, number, ended };
        for (thing, is_change) in things {
            let since = known.entry(thing).or_default();
            since.change.iter().for_each(&mut wait);
            if is_change {
                since.uses.values().for_each(&mut wait);
                since.uses.clear();
                since.change = Some(this);
            } else {
                since.uses.insert(task, this);
            }
        }
        seen.last = Some(number);
        parents.sort_unstable();
        parents.dedup();
        (number, parents.as_slice())
    }

    /// Forgets a task that has ended.
    pub(super) fn exit(&mut self, task: u32) {
        self.tasks.remove(&task);
    }
}
