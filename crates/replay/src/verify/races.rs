//! Writes that may have raced with something.
//!
//! If overlapping requests may be in flight together, a read may return one of a set of versions,
//! which depends on instants. A write is remembered until every request that was in flight together
//! with it has completed; then it goes into the table. All memory is allocated at the start: if a
//! request hangs and too many others pass it, sectors become ambiguous, and no false alarm is
//! raised.

use std::collections::VecDeque;

use ioecho_trace::Nanos;

use super::entry::Legal;
use crate::device::Io;
use crate::interval::IntervalSet;

/// Writes remembered at once.
const RACING_MAX: usize = 1 << 16;

/// Writes whose instants are kept when they are in the table already.
const HISTORY: usize = 1 << 17;

/// Long before and long after everything.
const NEVER: Nanos = Nanos(i64::MAX);
const EVER: Nanos = Nanos(i64::MIN);

/// When a change began and ended, and whether it succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) submitted: Nanos,
    pub(crate) completed: Nanos,
    pub(crate) succeeded: bool,
}

impl Span {
    /// Whether this change replaces the other: it began after the other had ended. In the same
    /// instant they raced.
    pub(crate) fn supersedes(&self, other: &Self) -> bool {
        self.succeeded && other.completed < self.submitted
    }
}

/// A change of data that is in flight, or was together with something that still is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Racing {
    pub(crate) tag: u32,
    /// The content that it leaves.
    pub(crate) effect: Legal,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) span: Span,
    /// It is in flight no more: completed, or given up.
    pub(crate) ended: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Flying {
    /// The number of its issue.
    issue: u64,
    /// The version that it writes, or would write.
    version: u64,
    /// Where a change is kept.
    slot: Option<u32>,
}

/// The changes of one target that may race.
#[derive(Debug)]
pub(crate) struct Races {
    slots: Vec<Option<Racing>>,
    free: Vec<u32>,
    /// Slots in the order of issue.
    order: VecDeque<u32>,
    ranges: IntervalSet,
    /// By tag.
    flying: Vec<Option<Flying>>,
    /// Everything in flight in the order of issue, and some that is no more.
    issues: VecDeque<(u64, u32, Nanos)>,
    issued: u64,
    in_flight: usize,
    /// Changes that hang while too many others pass.
    pub(crate) hanging: Vec<Racing>,
    /// Requests with their instants, by the lowest bits of their numbers.
    history: Vec<Option<(u64, Span)>>,
    /// Changes that are not in the history ended by then.
    forgotten_until: Nanos,
    /// Ambiguous changes ended by then.
    ambiguous_until: Nanos,
}

impl Races {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![None; RACING_MAX],
            free: (0..RACING_MAX as u32).rev().collect(),
            order: VecDeque::with_capacity(RACING_MAX),
            ranges: IntervalSet::new(RACING_MAX),
            flying: vec![None; RACING_MAX],
            issues: VecDeque::with_capacity(4 * RACING_MAX),
            issued: 0,
            in_flight: 0,
            hanging: Vec::with_capacity(64),
            history: vec![None; HISTORY],
            forgotten_until: EVER,
            ambiguous_until: EVER,
        }
    }

    /// Takes a request down that is about to be issued, with a version in place of its number;
    /// `effect` is what a change leaves. Returns a change that was given up for lack of room: the
    /// content of its range is unknown.
    pub(crate) fn issue(
        &mut self,
        io: &Io,
        (start, end): (u64, u64),
        effect: Option<Legal>,
        now: Nanos,
    ) -> Option<Racing> {
        let given_up = if effect.is_some() && self.free.is_empty() { self.give_up() } else { None };
        let tag = io.tag;
        let slot = effect.and_then(|effect| {
            let slot = self.free.pop()?;
            let span = Span { submitted: now, completed: NEVER, succeeded: false };
            let ended = false;
            self.slots[slot as usize] = Some(Racing { tag, effect, start, end, span, ended });
            self.ranges.insert(slot, start, end);
            self.order.push_back(slot);
            Some(slot)
        });
        if self.flying.len() <= tag as usize {
            self.flying.resize(tag as usize + 1, None);
        }
        self.flying[tag as usize] = Some(Flying { issue: self.issued, version: io.request, slot });
        if self.issues.len() == 4 * RACING_MAX {
            let flying = &self.flying;
            self.issues.retain(|(issue, tag, _)| is_flying(flying, *tag, *issue));
        }
        self.issues.push_back((self.issued, tag, now));
        self.issued += 1;
        self.in_flight += 1;
        given_up
    }

    /// The tag of a request in flight by its number, because the tag of one that is given up is
    /// lost.
    pub(crate) fn tag_of(&self, version: u64) -> Option<u32> {
        let is_it = |flying: &Option<Flying>| flying.is_some_and(|f| f.version == version);
        self.flying.iter().position(is_it).map(|tag| tag as u32)
    }

    /// A request has ended, with this outcome: completed at the instants of `span`, or, without
    /// any, given up. Answers a change that had been given up for want of room.
    pub(crate) fn end(&mut self, tag: u32, span: Option<Span>, issued: bool) -> Option<Racing> {
        let flying = self.flying.get_mut(tag as usize).and_then(Option::take)?;
        self.in_flight -= 1;
        let slot = flying.slot? as usize;
        let kept = self.slots[slot].is_some_and(|racing| {
            racing.tag == tag && racing.effect.version() == Some(flying.version)
        });
        if !kept {
            let at = self.hanging.iter().position(|racing| racing.tag == tag)?;
            let racing = self.hanging.swap_remove(at);
            let completed = span.map_or(NEVER, |span| span.completed);
            self.ambiguous_until = self.ambiguous_until.max(completed);
            return Some(racing);
        }
        if !issued {
            // Refused before anything was done: it was never there.
            self.ranges.remove(slot as u32);
            self.slots[slot] = None;
        } else if let Some(racing) = &mut self.slots[slot] {
            racing.span = span.unwrap_or(unending(racing.span.submitted));
            racing.ended = true;
        }
        None
    }

    /// The next change, in order of issue, that can no longer race with any request in flight.
    pub(crate) fn settle(&mut self) -> Option<Racing> {
        let oldest = self.oldest_issue();
        loop {
            let slot = *self.order.front()?;
            let Some(racing) = self.slots[slot as usize] else {
                self.order.pop_front();
                self.free.push(slot);
                continue;
            };
            let completed = racing.span.completed;
            let seen = completed != NEVER && oldest.is_some_and(|oldest| completed >= oldest);
            if !racing.ended || seen {
                return None;
            }
            self.forget_front();
            self.remember(&racing);
            return Some(racing);
        }
    }

    /// Keeps the instants of a change that goes into the table.
    pub(crate) fn remember(&mut self, racing: &Racing) {
        let Some(request) = racing.effect.version() else { return };
        let place = &mut self.history[request as usize % HISTORY];
        if let Some((_, evicted)) = place.replace((request, racing.span)) {
            self.forgotten_until = self.forgotten_until.max(evicted.completed);
        }
    }

    /// Tells that something became ambiguous that ended no later than this.
    pub(crate) fn keep_ambiguous_until(&mut self, completed: Nanos) {
        self.ambiguous_until = self.ambiguous_until.max(completed);
    }

    /// When the write behind an entry of the table began and ended, as far as it is known.
    pub(crate) fn span_of(&self, legal: Legal) -> Span {
        let long_ago = Span { submitted: EVER, completed: EVER, succeeded: true };
        match legal {
            Legal::Untouched => long_ago,
            Legal::Ambiguous => Span { completed: self.ambiguous_until, ..long_ago },
            _ => match legal.version().map(|request| (request, request as usize % HISTORY)) {
                Some((request, at)) => match self.history[at] {
                    Some((known, span)) if known == request => span,
                    _ => Span { completed: self.forgotten_until, ..long_ago },
                },
                None => long_ago,
            },
        }
    }

    /// Calls `visit` with every change remembered that overlaps the range.
    pub(crate) fn for_each(&self, start: u64, end: u64, mut visit: impl FnMut(&Racing)) {
        self.ranges.for_each_overlap(start, end, &mut |slot| {
            if let Some(racing) = &self.slots[slot as usize] {
                visit(racing);
            }
        });
    }

    /// Whether any change is remembered or hangs in the range.
    pub(crate) fn is_any(&self, start: u64, end: u64) -> bool {
        self.ranges.overlaps(start, end) || self.hangs(start, end)
    }

    /// Whether a change hangs somewhere in the range.
    pub(crate) fn hangs(&self, start: u64, end: u64) -> bool {
        self.hanging.iter().any(|racing| racing.start < end && start < racing.end)
    }

    fn oldest_issue(&mut self) -> Option<Nanos> {
        if self.in_flight == 0 {
            self.issues.clear();
        }
        while let Some(&(issue, tag, now)) = self.issues.front() {
            if is_flying(&self.flying, tag, issue) {
                return Some(now);
            }
            self.issues.pop_front();
        }
        None
    }

    fn forget_front(&mut self) -> Option<Racing> {
        let slot = self.order.pop_front()?;
        self.free.push(slot);
        let racing = self.slots[slot as usize].take()?;
        self.ranges.remove(slot);
        Some(racing)
    }

    fn give_up(&mut self) -> Option<Racing> {
        let racing = self.forget_front()?;
        if racing.ended {
            self.ambiguous_until = self.ambiguous_until.max(racing.span.completed);
        } else {
            self.hanging.push(racing);
        }
        Some(racing)
    }
}

fn is_flying(flying: &[Option<Flying>], tag: u32, issue: u64) -> bool {
    flying.get(tag as usize).copied().flatten().is_some_and(|flying| flying.issue == issue)
}

/// The span of a change that never ended: it may be there, and nothing younger removes it.
pub(crate) const fn unending(submitted: Nanos) -> Span {
    Span { submitted, completed: NEVER, succeeded: false }
}
