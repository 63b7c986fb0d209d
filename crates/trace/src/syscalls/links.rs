//! Which call had to come before which.
//!
//! A call waits for the call before it of its own task, and the first one of a task for that which
//! made the task. It also waits for calls of other tasks on the same names and files, if these had
//! returned before it was made: what changes a name or a file waits for all that used it since the
//! last change, what uses one for the last change alone. Calls that overlapped in the recording
//! have no order, so who comes after changes that overlapped waits for all of them.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::namespace::Inode;
use crate::units::Nanos;

/// A call waits for none that is more calls before it than this: a replay looks no further back
/// than twice as far.
const BACK_MAX: u64 = 1 << 17;

/// So many of the latest calls are looked at for one that stands in for those further back.
const LATEST: usize = 256;

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
    /// The last change, and those that it overlapped.
    changes: Vec<Done>,
    /// By the task.
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
    /// The latest calls, in the order in which they returned.
    latest: VecDeque<Done>,
    /// The number of the next call.
    next: u64,
    /// Calls so far that would have waited for one further back than [`BACK_MAX`].
    pub(super) too_far: u64,
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
        let Self { things: known, tasks, parents, latest, .. } = self;
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
            since.changes.iter().for_each(&mut wait);
            if is_change {
                since.uses.values().for_each(&mut wait);
                let overlaps = |done: &Done| done.task != task && done.ended > begun;
                since.uses.retain(|_, done| overlaps(done));
                since.changes.retain(overlaps);
                since.changes.push(this);
            } else {
                since.uses.insert(task, this);
            }
        }
        seen.last = Some(number);
        let named = parents.len();
        parents.retain(|parent| number - parent <= BACK_MAX);
        if parents.len() < named {
            self.too_far += 1;
            let stands_in = latest.iter().rev().find(|done| done.ended <= begun);
            parents.extend(stands_in.map(|done| done.number));
        }
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back(this);
        parents.sort_unstable();
        parents.dedup();
        (number, parents.as_slice())
    }

    /// Forgets a task that has ended.
    pub(super) fn exit(&mut self, task: u32) {
        self.tasks.remove(&task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THING: Thing = Thing::Content(7);

    /// Links a call of a task that lasts from `begun` to `ended`.
    fn linked(links: &mut Links, task: u32, (begun, ended): (i64, i64), changes: bool) -> Vec<u64> {
        let caller = Caller { task, begun: Nanos(begun), ended: Nanos(ended) };
        links.link(caller, [(THING, changes)].into_iter()).1.to_vec()
    }

    #[test]
    fn who_comes_after_changes_that_overlapped_waits_for_all_of_them() {
        let mut links = Links::default();
        assert!(linked(&mut links, 1, (0, 10), true).is_empty());
        assert!(linked(&mut links, 2, (5, 15), true).is_empty());
        assert!(linked(&mut links, 3, (7, 17), false).is_empty());
        // A use waits for the changes, a change for the use too.
        assert_eq!(linked(&mut links, 4, (20, 30), false), [0, 1]);
        assert_eq!(linked(&mut links, 5, (40, 50), true), [0, 1, 2, 3]);
        assert_eq!(linked(&mut links, 6, (60, 70), false), [4]);
    }

    #[test]
    fn what_is_too_far_back_is_stood_in_for_by_the_latest_call_that_had_returned() {
        let mut links = Links::default();
        linked(&mut links, 1, (0, 1), true);
        let mut now = 1;
        for _ in 0..BACK_MAX {
            let caller = Caller { task: 2, begun: Nanos(now), ended: Nanos(now + 1) };
            links.link(caller, std::iter::empty());
            now += 1;
        }
        // The very last one overlaps it.
        assert_eq!(linked(&mut links, 1, (now - 1, now + 9), false), [BACK_MAX - 1]);
        assert_eq!((links.too_far, links.next), (1, BACK_MAX + 2));
    }
}
