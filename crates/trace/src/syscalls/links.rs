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
//!
//! A task makes one call after the other, so one link to it covers all that it did before. Its last
//! call on a file may overlap with one that comes later where an earlier one had returned: so it is
//! known of each task when its latest calls returned, and the link goes to the latest that had. A
//! task that had ended is waited for as a whole: who has done that once need not ask for each thing
//! again. What lies too far back for any link is kept as one call for each thing.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::namespace::Inode;
use crate::units::Nanos;

/// A call waits for none that is more calls before it than this: a replay looks no further back
/// than twice as far.
const BACK_MAX: u64 = 1 << 17;

/// So many of the latest calls are looked at for one that stands in for those further back.
const LATEST: usize = 256;

/// Of so many others a task knows that it has waited for them.
const SEEN_MAX: usize = 4096;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        use Access::{Entry, Grow, Touch, Use, Write};
        match (self, later) {
            (Use | Touch, Use | Touch) | (Entry, Entry) => Order::Any,
            (Write | Grow | Touch, Write | Grow)
            | (Write | Grow, Touch)
            | (Write, Use)
            | (Use, Write) => Order::IfApart,
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

/// The number of a task here: the recording gives the number of one that has ended to another.
type Task = u32;

/// In place of several tasks whose calls on a thing are too far back for a link.
const LONG_AGO: Task = 0;

/// A call that others may wait for.
#[derive(Clone, Copy, Debug)]
struct Done {
    number: u64,
    /// When it counts as begun.
    issued: Nanos,
    ended: Nanos,
}

/// What a task did to a thing since that was changed: the numbers of its first and its last call
/// that did this.
#[derive(Clone, Copy, Debug)]
struct Span {
    access: Access,
    task: Task,
    first: u64,
    last: u64,
}

/// The latest calls of a task, in its order.
#[derive(Debug, Default)]
struct History {
    calls: VecDeque<Done>,
    has_ended: bool,
}

impl History {
    fn push(&mut self, done: Done) {
        // A clock that was set back does not make a task's calls overlap.
        let last = self.calls.back().map_or(done.ended, |last| last.ended);
        self.calls.push_back(Done { ended: done.ended.max(last), ..done });
    }

    /// The call of this number, unless it was too long ago.
    fn call(&self, number: u64) -> Option<Done> {
        let at = self.calls.binary_search_by_key(&number, |done| done.number).ok()?;
        Some(self.calls[at])
    }

    /// The latest call that had returned at an instant.
    fn returned(&self, at: Nanos) -> Option<Done> {
        let after = self.calls.partition_point(|done| done.ended <= at);
        Some(self.calls[after.checked_sub(1)?])
    }

    /// The call that one which began at an instant waits for, because of those of `span`.
    fn before(&self, span: &Span, order: Order, begun: Nanos) -> Option<Done> {
        let last = self.calls.back().filter(|last| self.has_ended && last.ended <= begun);
        if last.is_some() {
            return last.copied();
        }
        let last = self.call(span.last).unwrap_or(span.long_ago(begun));
        if order == Order::This || last.ended <= begun {
            return Some(last);
        }
        match self.returned(begun) {
            Some(done) => Some(done).filter(|done| done.number >= span.first),
            // What had returned is too long ago, if there was anything.
            None if self.call(span.first).is_none() => Some(Done { number: span.first, ..last }),
            None => None,
        }
    }
}

impl Span {
    /// Where it stands among those on a thing.
    const fn key(&self) -> (Access, Task) {
        (self.access, self.task)
    }

    /// This one and another, which are both too far back for a link.
    fn and(self, other: &Self) -> Self {
        Self { task: LONG_AGO, first: 0, last: self.last.max(other.last), ..self }
    }

    /// Its last call where no more is known of it than that it was long ago.
    const fn long_ago(&self, begun: Nanos) -> Done {
        Done { number: self.last, issued: Nanos(i64::MIN), ended: begun }
    }
}

/// What a task has waited for.
#[derive(Clone, Debug, Default)]
struct Seen {
    last: Option<Done>,
    /// Of other tasks, the latest call that this one surely comes after.
    of: FxHashMap<Task, u64>,
}

impl Seen {
    /// It comes after this call of another task.
    fn comes_after(&mut self, task: Task, number: u64) {
        self.of.insert(task, number);
        if self.of.len() > SEEN_MAX {
            // What is forgotten may be waited for once more.
            let mut numbers: Vec<u64> = self.of.values().copied().collect();
            let half = numbers.len() / 2;
            let oldest = *numbers.select_nth_unstable(half).1;
            self.of.retain(|task, number| *task == LONG_AGO || *number >= oldest);
        }
    }
}

/// The calls so far, as far as others may wait for them.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// In the order of what was done, and of the tasks that did it.
    things: FxHashMap<Thing, Vec<Span>>,
    /// The tasks that are there, by their numbers in the recording.
    tasks: FxHashMap<u32, Task>,
    tasks_so_far: Task,
    /// Of tasks that are there.
    seen: FxHashMap<Task, Seen>,
    /// Also of tasks that have ended, as long as others may wait for their calls.
    histories: FxHashMap<Task, History>,
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
        let seen =
            self.tasks.get(&parent).and_then(|parent| Some((parent, self.seen.get(parent)?)));
        let Some((parent, seen)) = seen else { return };
        let mut seen = seen.clone();
        if let Some(last) = seen.last {
            seen.comes_after(*parent, last.number);
        }
        let child = self.task(child);
        self.seen.insert(child, seen);
    }

    /// The number of a task here.
    fn task(&mut self, task: u32) -> Task {
        *self.tasks.entry(task).or_insert_with(|| {
            self.tasks_so_far += 1;
            self.tasks_so_far
        })
    }

    /// Links a request to those that it waits for. `things` are what it is about, and what it does
    /// to each.
    pub(super) fn link(&mut self, caller: Caller, things: &[(Thing, Access)]) -> Linked<'_> {
        let Caller { task, begun, ended } = caller;
        let task = self.task(task);
        let number = self.next;
        self.next += 1;
        if self.next.is_multiple_of(BACK_MAX) {
            self.forget();
        }
        let Self { things: known, seen, histories, parents, latest, .. } = self;
        parents.clear();
        let seen = seen.entry(task).or_default();
        parents.extend(seen.last.map(|last| last.number));
        let mut issued = seen.last.map_or(begun, |last| begun.max(last.issued));
        for (thing, access) in things {
            let Some(spans) = known.get(thing) else { continue };
            for before in Access::ALL {
                let order = before.before(*access);
                if order == Order::Any {
                    continue;
                }
                for span in of_access(spans, before).iter().filter(|span| span.task != task) {
                    let done = match histories.get(&span.task) {
                        Some(history) => history.before(span, order, begun),
                        None => Some(span.long_ago(begun)),
                    };
                    let of = seen.of.get(&span.task);
                    let is_new = |done: &Done| of.is_none_or(|of| *of < done.number);
                    if let Some(done) = done.filter(is_new) {
                        parents.push(done.number);
                        seen.comes_after(span.task, done.number);
                        issued = issued.max(done.issued);
                    }
                }
            }
        }
        let this = Done { number, issued, ended };
        for (thing, access) in things {
            let spans = match known.get_mut(thing) {
                Some(spans) => spans,
                None => known.entry(thing.clone()).or_insert(Vec::with_capacity(1)),
            };
            done_by(spans, *access, task, number);
        }
        seen.last = Some(this);
        histories.entry(task).or_default().push(this);
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

    /// A task has ended. Its number may be given to another one.
    pub(super) fn exit(&mut self, task: u32) {
        let Some(task) = self.tasks.remove(&task) else { return };
        self.seen.remove(&task);
        if let Some(history) = self.histories.get_mut(&task) {
            history.has_ended = true;
        }
    }

    /// Forgets what is too far back for a link: when calls returned, and which of several tasks it
    /// was that did something to a thing.
    fn forget(&mut self) {
        let from = self.next.saturating_sub(BACK_MAX);
        let is_gone = |number: u64| number < from;
        for spans in self.things.values_mut() {
            let mut long_ago: [Option<Span>; Access::ALL.len()] = Default::default();
            spans.retain(|span| {
                if is_gone(span.last) {
                    let kept = &mut long_ago[span.access as usize];
                    *kept = Some(kept.map_or(*span, |kept| kept.and(span)));
                }
                !is_gone(span.last)
            });
            spans.extend(long_ago.into_iter().flatten());
            spans.sort_unstable_by_key(Span::key);
        }
        self.histories.retain(|_, history| {
            let gone = history.calls.partition_point(|done| is_gone(done.number));
            history.calls.drain(..gone);
            !history.calls.is_empty()
        });
    }
}

/// Those that did this.
fn of_access(spans: &[Span], access: Access) -> &[Span] {
    let from = spans.partition_point(|span| span.access < access);
    let length = spans[from..].partition_point(|span| span.access == access);
    &spans[from..from + length]
}

/// A task has done this to a thing.
fn done_by(spans: &mut Vec<Span>, access: Access, task: Task, number: u64) {
    if access == Access::Change {
        // Who would wait for those before waits for this one.
        spans.clear();
    }
    match spans.binary_search_by_key(&(access, task), Span::key) {
        Ok(at) => spans[at].last = number,
        Err(at) => spans.insert(at, Span { access, task, first: number, last: number }),
    }
}

#[cfg(test)]
mod tests;
