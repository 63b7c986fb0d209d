//! Which call had to come before which.
//!
//! A call waits for the call before it of its own task, and the first one of a task for that which
//! made the task. It also waits for calls of other tasks on the same names and files, so that each
//! finds in a replay what it found: what changes a name waits for all that used it since the last
//! change, what uses one for the last change.
//!
//! Calls that overlapped in the recording may be replayed in either order only where nothing hangs
//! on which came first: writes to one file have no order among each other, but a name that is made
//! has one with whoever looks for it. What overlapped counts as done in the order in which it
//! returned, because that is the order in which the names were followed (`model`). A call that
//! began before one that it waits for counts as begun when that one began: so parents stand before
//! their children in the order of the instants too, and there is no cycle.
//!
//! Two calls that overlapped may have been done in the other order. Nothing tells that but what
//! they returned, which is not asked here: such a name is taken as one that was there, or that
//! appeared (told), and a replay may meet another error than the recording.

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
    /// What a file holds.
    Content(Inode),
    /// Whether a directory holds names.
    Entries(Inode),
    /// The position of an opened file.
    Position(usize),
}

/// What a call does to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Access {
    /// Its result depends on what it finds.
    Use,
    /// It is about the file whatever that holds: its attributes, an opening, a close.
    Touch,
    /// It adds a name to a directory or takes one away, beside others that do.
    Entry,
    /// It writes what lies within the file.
    Write,
    /// It writes beyond the end of the file.
    Grow,
    /// It changes the thing.
    Change,
}

impl Access {
    /// All.
    const ALL: [Self; 6] =
        [Self::Use, Self::Touch, Self::Entry, Self::Write, Self::Grow, Self::Change];

    /// A change of what is changed if this call `changes` it, and a use otherwise.
    pub(super) const fn changing(changes: bool) -> Self {
        if changes { Self::Change } else { Self::Use }
    }

    /// How a call that does this stands to a later one that does that.
    const fn before(self, later: Self) -> Order {
        use Access::{Change, Entry, Grow, Touch, Use, Write};
        match (self, later) {
            (Use | Touch, Use | Touch) | (Entry, Entry) => Order::Any,
            (Write | Grow | Touch, Write | Grow)
            | (Write | Grow | Change, Touch)
            | (Write, Use)
            | (Use, Write)
            | (Touch, Change) => Order::IfApart,
            _ => Order::This,
        }
    }
}

/// In which order two calls may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// In either.
    Any,
    /// In that of the recording if one had returned before the other was made.
    IfApart,
    /// In that of the recording.
    This,
}

/// A call that others may wait for.
#[derive(Clone, Copy, Debug)]
struct Done {
    task: u32,
    number: u64,
    /// When it counts as begun.
    issued: Nanos,
    ended: Nanos,
}

/// Who did something to a thing: of each task the last call that did this, since a change.
#[derive(Debug, Default)]
struct Since {
    calls: [FxHashMap<u32, Done>; Access::ALL.len()],
}

/// What a task has waited for.
#[derive(Debug, Default)]
struct Seen {
    last: Option<Done>,
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
    /// Calls so far that count as begun later than they were made.
    pub(super) begun_later: u64,
}

/// What a request waits for.
#[derive(Debug)]
pub(super) struct Linked<'a> {
    /// Its number.
    pub(super) number: u64,
    /// When it counts as begun: not before any of those that it waits for.
    pub(super) issued: Nanos,
    /// The numbers of those that it waits for.
    pub(super) parents: &'a [u64],
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
            of.insert(parent, last.number);
        }
        self.tasks.insert(child, Seen { last: seen.last, of });
    }

    /// Links a request to those that it waits for. `things` are what it is about, and what it does
    /// to each.
    pub(super) fn link(&mut self, caller: Caller, things: &[(Thing, Access)]) -> Linked<'_> {
        let Caller { task, begun, ended } = caller;
        let number = self.next;
        self.next += 1;
        let Self { things: known, tasks, parents, latest, .. } = self;
        parents.clear();
        let seen = tasks.entry(task).or_default();
        parents.extend(seen.last.map(|last| last.number));
        let mut issued = seen.last.map_or(begun, |last| begun.max(last.issued));
        for (thing, access) in things {
            let Some(since) = known.get(thing) else { continue };
            for (before, calls) in Access::ALL.into_iter().zip(&since.calls) {
                let order = before.before(*access);
                if order == Order::Any {
                    continue;
                }
                for done in calls.values().filter(|done| done.task != task) {
                    let is_seen = seen.of.get(&done.task).is_some_and(|of| *of >= done.number);
                    if !is_seen && (order == Order::This || done.ended <= begun) {
                        parents.push(done.number);
                        seen.of.insert(done.task, done.number);
                        issued = issued.max(done.issued);
                    }
                }
            }
        }
        let this = Done { task, number, issued, ended };
        for (thing, access) in things {
            let since = known.entry(thing.clone()).or_default();
            if *access == Access::Change {
                // Who would wait for those before waits for this one.
                since.calls.iter_mut().for_each(FxHashMap::clear);
            }
            since.calls[*access as usize].insert(task, this);
        }
        seen.last = Some(this);
        let named = parents.len();
        parents.retain(|parent| number - parent <= BACK_MAX);
        if parents.len() < named {
            self.too_far += 1;
            let stands_in = latest.iter().rev().find(|done| done.ended <= begun);
            parents.extend(stands_in.map(|done| done.number));
        }
        if issued > begun {
            self.begun_later += 1;
        }
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back(this);
        parents.sort_unstable();
        parents.dedup();
        Linked { number, issued, parents }
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

    /// Links a call of a task that lasts from `begun` to `ended`; answers whom it waits for and
    /// when it counts as begun.
    fn linked(
        links: &mut Links,
        task: u32,
        (begun, ended): (i64, i64),
        access: Access,
    ) -> (Vec<u64>, i64) {
        let caller = Caller { task, begun: Nanos(begun), ended: Nanos(ended) };
        let linked = links.link(caller, &[(THING, access)]);
        (linked.parents.to_vec(), linked.issued.0)
    }

    #[test]
    fn calls_that_overlapped_wait_for_each_other_where_the_order_tells() {
        use Access::{Change, Grow, Touch, Use, Write};
        let mut links = Links::default();
        assert_eq!(linked(&mut links, 1, (0, 10), Change), (vec![], 0));
        // It returned later, so it came after; and not before the other began.
        assert_eq!(linked(&mut links, 2, (-5, 15), Change), (vec![0], 0));
        assert_eq!(linked(&mut links, 3, (7, 17), Use), (vec![1], 7));
        assert_eq!(linked(&mut links, 4, (8, 18), Touch), (vec![], 8));
        assert_eq!(linked(&mut links, 5, (9, 19), Write), (vec![1], 9));
        assert_eq!(linked(&mut links, 6, (10, 20), Grow), (vec![1, 2], 10));
        assert_eq!(linked(&mut links, 7, (11, 21), Write), (vec![1], 11));
        // What had returned is waited for, whatever it did.
        assert_eq!(linked(&mut links, 8, (30, 40), Write), (vec![1, 2, 3, 4, 5, 6], 30));
        assert_eq!(linked(&mut links, 9, (50, 60), Change), (vec![1, 2, 3, 4, 5, 6, 7], 50));
        assert_eq!(linked(&mut links, 1, (70, 80), Use), (vec![0, 8], 70));
        assert_eq!(links.begun_later, 1);
    }

    #[test]
    fn names_are_made_beside_each_other_and_all_of_them_before_who_finds_a_directory_full() {
        let mut links = Links::default();
        linked(&mut links, 1, (0, 5), Access::Entry);
        assert!(linked(&mut links, 2, (10, 15), Access::Entry).0.is_empty());
        assert_eq!(linked(&mut links, 3, (12, 20), Access::Use).0, [0, 1]);
        assert_eq!(linked(&mut links, 4, (19, 30), Access::Entry).0, [2]);
    }

    #[test]
    fn what_is_too_far_back_is_stood_in_for_by_the_latest_call_that_had_returned() {
        let mut links = Links::default();
        linked(&mut links, 1, (0, 1), Access::Change);
        let mut now = 1;
        for _ in 0..BACK_MAX {
            let caller = Caller { task: 2, begun: Nanos(now), ended: Nanos(now + 1) };
            links.link(caller, &[]);
            now += 1;
        }
        // The very last one overlaps it.
        let (parents, _) = linked(&mut links, 1, (now - 1, now + 9), Access::Change);
        assert_eq!(parents, [BACK_MAX - 1]);
        assert_eq!((links.too_far, links.next), (1, BACK_MAX + 2));
    }
}
