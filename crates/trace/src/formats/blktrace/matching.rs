//! The assignment of completions to requests.
//!
//! A recording names no requests: a completion has only its place on the device. Queued requests
//! may have been merged, so one completion covers many. They may have been split, so one request
//! needs many completions. Others may be in flight at the same place. Requests wait here, in the
//! order of their issue, until their completion is seen or they are given up.
//!
//! The rules, for requests and completions of one class on one device:
//!
//! * Queued requests wait for the driver, in pieces if they were split (`pieces`). A request of the
//!   driver is a chain of whole pieces.
//! * A completion ends the request of the driver that begins at its first byte, or the first part
//!   of it (`driven`). If the driver's events are not recorded, or the device has no request queue,
//!   the completion is matched with the queued requests.
//! * A request is complete when nothing of it is left.
//! * If several match, the oldest is taken; all of them are in doubt. Until they complete, so is
//!   every request that is matched at their place, or could have been (`doubt`).
//! * Requests in flight when events were lost get no completion: the one that is seen may be
//!   another's.
//! * What is matched at the place of a request that was given up is in doubt, because that one's
//!   completion may come yet (`ghosts`).
//! * After the recording's beginning, and after events were lost, requests may be in flight that
//!   nobody saw. An event that is one too many tells of them, and puts what was matched at its
//!   place before into doubt (`recent`).
//! * A flush has no range: the oldest is completed. A write that the kernel split into flush, data
//!   and flush is complete at a last, empty completion (`flushes`).

mod flushes;

use std::collections::{BTreeSet, VecDeque};

use self::flushes::{Flushes, taken_apart};
use super::classify::Class;
use super::doubt::Doubts;
use super::driven::{Driven, Ended, InDriver};
use super::driver::Driver;
use super::ghosts::Ghosts;
use super::pieces::{Part, Pieces, SEARCH_MAX, Taken};
use super::recent::Recent;
use super::row::{Row, State};
use super::splits::{Split, Splits};
use crate::recording::{DriverFigures, MatchingFigures};
use crate::request::Flags;

/// The largest number of requests that are held back, waiting ones and those behind them: some 60
/// MB.
const ROWS_MAX: usize = 1 << 20;

/// The largest number of requests that wait for a completion.
const WAITING_MAX: usize = 1 << 16;

/// The largest number of requests of the driver that are remembered.
const DRIVEN_MAX: usize = 1 << 18;

/// The least number of further requests of the driver before the remembered ones are swept again.
const SWEEP_MIN: usize = 1 << 10;

/// The longest time that a request waits, in nanoseconds of the trace. The kernel waits as long for
/// a command before it acts (30 seconds unless the driver says otherwise, `block/blk-mq.c`). For as
/// long again, the completion of a request that was given up may come.
const PATIENCE: u64 = 30_000_000_000;

/// The time after a refusal within which the same thread tries a request again, in nanoseconds. The
/// thread does so at once, in the same call; a later request is a new one.
const AGAIN_PATIENCE: u64 = 1_000_000;

/// The time that a request that seems complete waits for a better completion, in nanoseconds.
const TENTATIVE_PATIENCE: u64 = 1_000_000_000;

/// A completion, or another event with a range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) time: u64,
    pub(super) volume: u32,
    pub(super) class: Class,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) flags: Flags,
    pub(super) pid: u32,
    /// Whether the completion was an error.
    pub(super) failed: bool,
}

impl Completion {
    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes))
    }
}

/// Requests of one class on one device.
#[derive(Debug, Default)]
struct Slot {
    /// Requests that the driver has not got; all requests if the driver is not recorded.
    queued: Pieces,
    in_driver: InDriver,
    doubts: Doubts,
    ghosts: Ghosts,
}

impl Slot {
    fn is_doubtful(&self) -> bool {
        !self.doubts.is_empty() || !self.ghosts.is_empty()
    }
}

/// The requests between their issue and their completion.
#[derive(Debug, Default)]
pub(super) struct Matching {
    rows: VecDeque<Row>,
    /// The serial number of the first row.
    base: u64,
    /// The slots by volume and class.
    slots: Vec<Slot>,
    waiting_count: usize,
    /// The number of requests that the driver got, and the number at which the remembered ones are
    /// swept.
    numbers: u64,
    sweep_at: u64,
    /// Whether no more requests can be remembered until the next sweep.
    is_full: bool,
    flushes: Flushes,
    splits: Splits,
    /// Slot, offset and serial number of requests that the kernel refused because it would have had
    /// to wait.
    refused: BTreeSet<(usize, u64, u64)>,
    driver: Driver,
    figures: MatchingFigures,
    /// The pieces that one event covers.
    taken: Taken,
    /// The instant until which events are missing, by the recording's clock.
    lost_until: Option<u64>,
    recent: Recent,
}

impl Matching {
    /// Adds the next request; `in_driver` if the driver has it.
    pub(super) fn push(&mut self, mut row: Row, in_driver: bool) {
        let serial = self.base + self.rows.len() as u64;
        let part = Part { serial, begin: row.offset, end: row.end() };
        let (slot, time) = (self.slot(row.volume, row.class), row.issue);
        row.in_doubt = self.lost_until.is_some();
        let is_driven = in_driver && row.length > 0;
        self.waiting_count += 1;
        self.rows.push_back(row);
        if is_driven {
            let driven = Driven { end: part.end, time, first: Some(part), more: vec![] };
            self.remember(slot, part.begin, driven);
        } else {
            self.slots[slot].queued.insert(part);
        }
    }

    /// Takes a completion with a range; returns whether it completed anything. `has_driver`: the
    /// recording has the driver's events of this device.
    pub(super) fn complete(&mut self, completion: &Completion, has_driver: bool) -> bool {
        let slot = self.slot(completion.volume, completion.class);
        if has_driver && completion.bytes > 0 {
            if let Some(ended) = self.end_driven(slot, completion) {
                return self.complete_driven(slot, ended, completion);
            }
            // A request may fail before the driver has it.
            if !completion.failed {
                self.take_stray(slot, completion);
                return false;
            }
        }
        let mut taken = std::mem::take(&mut self.taken);
        self.take_queued(slot, completion, &mut taken);
        let mut touched = false;
        for part in &taken.parts {
            touched |= self.credit(*part, taken.parts.len() == 1, completion);
        }
        if taken.parts.is_empty() {
            self.take_stray(slot, completion);
        }
        self.taken = taken;
        touched
    }

    /// Takes a completion that belongs to no request: that of one that was given up, or of one that
    /// nobody saw.
    fn take_stray(&mut self, slot: usize, completion: &Completion) {
        let (begin, end) = (completion.offset, completion.end());
        self.slots[slot].ghosts.forget(begin, end);
        self.doubt_recent(slot, begin, end, completion.time);
    }

    /// Puts what was matched lately in a range into doubt, because a request was there that nobody
    /// saw.
    fn doubt_recent(&mut self, slot: usize, begin: u64, end: u64, now: u64) {
        let (rows, base, figures) = (&mut self.rows, self.base, &mut self.figures);
        self.recent.tell(now, slot, (begin, end), |serial| match row(rows, base, serial) {
            Some(row) => row.in_doubt = true,
            None => figures.ambiguous += 1,
        });
    }

    /// The request of the driver to which a completion belongs.
    fn end_driven(&mut self, slot: usize, completion: &Completion) -> Option<Ended> {
        let (rows, base) = (&self.rows, self.base);
        let lives = |driven: &Driven| driven.parts().any(|part| waits(rows, base, part.serial));
        let mut rivals = Vec::new();
        let rival = |begin: u64, driven: &Driven| {
            // Parts without a known request count as rivals too, and their place is in doubt.
            rivals.extend(driven.parts());
            rivals.extend(driven.parts().next().map(|part| Part {
                end: driven.end,
                begin,
                ..part
            }));
        };
        let (begin, end) = (completion.offset, completion.end());
        let ended = self.slots[slot].in_driver.take(begin, end, lives, rival);
        if !rivals.is_empty() {
            self.doubt(slot, &rivals);
        }
        ended
    }

    /// Completes the parts of a driver's request that the completion covers.
    fn complete_driven(&mut self, slot: usize, ended: Ended, completion: &Completion) -> bool {
        let Ended { begin, driven } = ended;
        let done = completion.end();
        debug_assert!(begin == completion.offset && done <= driven.end);
        if self.slots[slot].is_doubtful() {
            let parts: Vec<_> = driven.parts().collect();
            self.touch(slot, &parts, completion.time);
            self.forget_ghosts(slot, &parts, completion);
        }
        let is_alone = driven.more.is_empty();
        let mut touched = false;
        for part in driven.parts().filter(|part| part.begin < done) {
            touched |= self.credit(Part { end: part.end.min(done), ..part }, is_alone, completion);
        }
        if done < driven.end {
            let left = driven.parts().filter(|part| part.end > done);
            let more = left.map(|part| Part { begin: part.begin.max(done), ..part }).collect();
            self.remember(slot, done, Driven { first: None, more, ..driven });
        }
        touched
    }

    /// Forgets what was given up and is complete now: the parts of a request of the driver that
    /// nobody waits for.
    fn forget_ghosts(&mut self, slot: usize, parts: &[Part], completion: &Completion) {
        let (rows, base) = (&self.rows, self.base);
        let ghosts = &mut self.slots[slot].ghosts;
        if parts.is_empty() {
            ghosts.forget(completion.offset, completion.end());
        }
        for part in parts.iter().filter(|part| !waits(rows, base, part.serial)) {
            ghosts.forget(part.begin, part.end);
        }
    }

    /// Notes that the driver got the requests in a range. A merged request covers several; a split
    /// request counts as handed over with its first piece.
    pub(super) fn hand_over(&mut self, event: &Completion) {
        let slot = self.slot(event.volume, event.class);
        let (begin, end) = (event.offset, event.end());
        let mut taken = std::mem::take(&mut self.taken);
        self.take_queued(slot, event, &mut taken);
        if taken.parts.is_empty() && self.slots[slot].in_driver.holds(begin, end) {
            // Either a second hand-over without an event of giving it back, or another request
            // whose queueing was not recorded.
            let same = self.slots[slot].in_driver.parts_of(begin, end);
            self.doubt(slot, &same);
        } else {
            let covered: u64 = taken.parts.iter().map(|part| part.end - part.begin).sum();
            if covered < end - begin {
                self.doubt_recent(slot, begin, end, event.time);
            }
            let mut parts = taken.parts.iter().copied();
            let first = parts.next();
            let driven = Driven { end, time: event.time, first, more: parts.collect() };
            self.remember(slot, begin, driven);
        }
        // A request that was merged before another one did not overtake it.
        taken.parts.sort_unstable_by_key(|part| part.serial);
        for part in &taken.parts {
            self.splits.meet(part);
            self.drive(part.serial, slot, event);
        }
        self.taken = taken;
    }

    fn drive(&mut self, serial: u64, slot: usize, event: &Completion) {
        if let Some(row) = row(&mut self.rows, self.base, serial)
            && !row.driven
        {
            row.driven = true;
            self.recent.note(event.time, serial, slot, row.offset, row.end());
            self.driver.note(row.volume, serial, event.time.saturating_sub(row.issue));
        }
    }

    /// Notes that the driver gave a request back: the request waits again, and may be merged.
    pub(super) fn give_back(&mut self, event: &Completion) {
        let slot = self.slot(event.volume, event.class);
        if let Some(ended) = self.end_driven(slot, event) {
            let (rows, base) = (&self.rows, self.base);
            for part in ended.driven.parts().filter(|part| waits(rows, base, part.serial)) {
                self.slots[slot].queued.insert(part);
            }
        }
    }

    /// Remembers a request of the driver. If there is no room, what it consists of is given up, and
    /// its completion may end another request.
    fn remember(&mut self, slot: usize, begin: u64, driven: Driven) {
        if self.has_room(driven.time) {
            self.slots[slot].in_driver.insert(begin, self.numbers, driven);
            return;
        }
        let now = driven.time;
        self.slots[slot].ghosts.add(begin, driven.end, now, now.saturating_add(2 * PATIENCE));
        for part in driven.parts() {
            if waits(&self.rows, self.base, part.serial) {
                self.settle(part.serial, now, State::Unknown);
            }
        }
    }

    /// Counts a request of the driver; answers whether it can be remembered. Now and then, requests
    /// that are no longer waited for are forgotten.
    fn has_room(&mut self, now: u64) -> bool {
        self.numbers += 1;
        if self.numbers < self.sweep_at {
            return !self.is_full;
        }
        let (rows, base) = (&self.rows, self.base);
        let keep = |driven: &Driven| {
            let is_known = driven.parts().next().is_some();
            driven.parts().any(|part| waits(rows, base, part.serial))
                || !is_known && now.saturating_sub(driven.time) <= PATIENCE
        };
        let mut kept = 0;
        for slot in &mut self.slots {
            slot.in_driver.retain(keep);
            kept += slot.in_driver.len();
        }
        let room = DRIVEN_MAX.saturating_sub(kept);
        self.is_full = room < SWEEP_MIN;
        self.sweep_at = self.numbers + room.max(SWEEP_MIN) as u64;
        !self.is_full
    }

    /// Takes the queued pieces that an event covers. If several chains match, or the place is in
    /// doubt, their requests are doubtful.
    fn take_queued(&mut self, slot: usize, event: &Completion, taken: &mut Taken) {
        let (begin, end) = (event.offset, event.end());
        self.slots[slot].queued.take(begin, end, taken);
        if !taken.rivals.is_empty() {
            self.doubt(slot, &taken.rivals);
        }
        if self.slots[slot].is_doubtful() {
            // Pieces of an earlier match may be the wrong ones, and then this chain is too: any
            // piece that it leaves here may belong to the request that went.
            let left = self.slots[slot].queued.within(begin, end);
            let parts: Vec<_> = taken.parts.iter().copied().chain(left).collect();
            self.touch(slot, &parts, event.time);
        }
    }

    fn doubt(&mut self, slot: usize, parts: &[Part]) {
        self.mark(parts);
        self.slots[slot].doubts.add(parts);
    }

    /// Marks the requests of these parts as doubtful.
    fn mark(&mut self, parts: &[Part]) {
        for part in parts {
            if let Some(row) = row(&mut self.rows, self.base, part.serial) {
                row.in_doubt = true;
            }
        }
    }

    fn touch(&mut self, slot: usize, parts: &[Part], now: u64) {
        let (rows, base) = (&self.rows, self.base);
        let Slot { doubts, ghosts, .. } = &mut self.slots[slot];
        let is_haunted = parts.iter().any(|part| ghosts.meet(part.begin, part.end, now));
        let is_in_doubt = doubts.touch(parts, |serial| waits(rows, base, serial));
        if is_haunted || is_in_doubt {
            self.mark(parts);
        }
    }

    /// Counts a part of a request as complete; returns whether that request was waiting.
    fn credit(&mut self, part: Part, is_alone: bool, completion: &Completion) -> bool {
        let Some(row) = row(&mut self.rows, self.base, part.serial) else { return false };
        if row.state != State::Waiting {
            return false;
        }
        let bytes = part.end - part.begin;
        row.pieced |= !is_alone || bytes != u64::from(row.length);
        row.left = u64::from(row.left).saturating_sub(bytes) as u32;
        row.failed |= completion.failed;
        let slot = slot(row.volume, row.class);
        self.recent.note(completion.time, part.serial, slot, row.offset, row.end());
        if row.left > 0 {
            return true;
        }
        // If the completion lacks a flag, the device never saw that flag: the kernel did its work.
        match taken_apart(row.flags, completion.flags) {
            Some(is_flushed) => self.begin_sequence(part, completion.time, is_flushed),
            None => self.settle(part.serial, completion.time, State::Done),
        }
        true
    }

    fn settle(&mut self, serial: u64, time: u64, state: State) {
        // A row that was already given away has a smaller number than the first.
        if let Some(row) = row(&mut self.rows, self.base, serial)
            && row.state != State::Unknown
        {
            self.waiting_count -= usize::from(row.state == State::Waiting);
            (row.completed, row.state) = (time, state);
        }
    }

    /// Notes that a bio was split: `bytes` from `offset` are its first part.
    pub(super) fn split(&mut self, event: &Completion) {
        let slot = self.slot(event.volume, event.class);
        let rest = event.end();
        // The newest, preferably of the same process: the split bio was queued a moment ago.
        let bios = self.slots[slot].queued.reaching(event.offset, rest);
        let (rows, base) = (&self.rows, self.base);
        let is_own =
            |part: &Part| peek(rows, base, part.serial).is_some_and(|row| row.pid == event.pid);
        let Some(&bio) = bios.iter().max_by_key(|part| (is_own(part), part.serial)) else { return };
        let likely = bios.iter().filter(|part| is_own(part) == is_own(&bio)).count();
        if likely > 1 {
            self.doubt(slot, &bios);
        }
        self.splits.meet(&bio);
        self.slots[slot].queued.cut(bio, rest);
        self.splits.note(Split {
            time: event.time,
            volume: event.volume,
            class: event.class,
            offset: rest,
            end: bio.end,
            serial: bio.serial,
        });
    }

    /// Tells the matching that from now on rests of split requests are not queued again.
    pub(super) fn queues_once(&mut self) {
        self.splits.set_once();
    }

    /// Whether this request is the rest of a split bio whose request waits here.
    #[inline]
    pub(super) fn is_rest_of_split(&mut self, row: &Row) -> bool {
        let (rows, base) = (&self.rows, self.base);
        self.splits.take_rest(row, |serial| {
            let whole = peek(rows, base, serial);
            whole.is_some_and(|whole| whole.state == State::Waiting && whole.pid == row.pid)
        })
    }

    /// Notes that the kernel refused a request because it would have had to wait; returns whether
    /// it waits here.
    pub(super) fn refuse(&mut self, event: &Completion) -> bool {
        let slot = self.slot(event.volume, event.class);
        let end = event.end();
        let exact = self.slots[slot].queued.at(event.offset).filter(|part| part.end == end);
        let (rows, base) = (&self.rows, self.base);
        let of_row = |part: &Part| {
            let row = peek(rows, base, part.serial)?;
            (row.left == row.length && u64::from(row.length) == part.end - part.begin)
                .then_some(row.pid)
        };
        // It is refused by the call that queued it.
        let whole = exact
            .filter_map(|part| Some((part, of_row(&part)?)))
            .max_by_key(|(part, pid)| (*pid == event.pid, part.serial));
        let Some((whole, _)) = whole else { return false };
        self.slots[slot].queued.remove(whole);
        if let Some(row) = row(&mut self.rows, self.base, whole.serial) {
            row.refused = true;
        }
        self.refused.insert((slot, whole.begin, whole.serial));
        true
    }

    /// Whether this request is the second attempt at one that waits here. io_uring first asks the
    /// kernel not to wait; if the kernel would have to (for a place in the queue, or to split), it
    /// refuses the queued request, and a worker, which serves the thread `served`, queues it again.
    /// If the device is throttled, both are queued by a thread of the kernel's (`served` is 0;
    /// `block/blk-throttle.c`, `blk_throtl_dispatch_work_fn`).
    pub(super) fn is_second_attempt(&mut self, row: &Row, served: Option<u32>) -> bool {
        let slot = self.slot(row.volume, row.class);
        let (begin, end) = (row.offset, row.end());
        let (rows, base) = (&self.rows, self.base);
        let is_same = |serial: &u64| {
            peek(rows, base, *serial).is_some_and(|first| {
                let is_at_once = row.issue.saturating_sub(first.issue) <= AGAIN_PATIENCE;
                first.end() == end && (first.pid == row.pid && is_at_once || served.is_some())
            })
        };
        // The oldest of the last refused ones.
        let here = self.refused.range((slot, begin, 0)..=(slot, begin, u64::MAX)).rev();
        let here = here.take(SEARCH_MAX).map(|(.., serial)| *serial);
        if let Some(serial) = here.filter(is_same).last()
            && let Some(first) = self::row(&mut self.rows, self.base, serial)
        {
            (first.refused, first.again) = (false, true);
            self.refused.remove(&(slot, begin, serial));
            self.slots[slot].queued.insert(Part { serial, begin, end });
            return true;
        }
        // If refusals are not recorded, the worker's name decides.
        let Some(served) = served.filter(|served| *served != 0) else { return false };
        let (rows, base) = (&self.rows, self.base);
        let is_meant = |part: &Part| {
            peek(rows, base, part.serial).is_some_and(|first| {
                (first.length, first.left, first.pid) == (row.length, first.length, served)
                    && part.end == row.end()
                    && !first.driven
                    && !first.again
            })
        };
        let first = self.slots[slot].queued.at(row.offset).find(is_meant);
        let first = first.and_then(|part| self::row(&mut self.rows, self.base, part.serial));
        first.map(|first| first.again = true).is_some()
    }

    /// Events are missing from now on until the instant `until`: requests in flight now and then
    /// cannot be told from those whose events were lost.
    pub(super) fn lose(&mut self, until: u64) {
        let until = self.lost_until.map_or(until, |other| other.max(until));
        self.give_up(until);
        self.lost_until = Some(until);
    }

    /// Advances the time to `now`: a stretch of lost events may be over.
    #[inline]
    pub(super) fn at(&mut self, now: u64) {
        let is_over = self.lost_until.is_some_and(|until| now > until);
        if is_over {
            self.lost_until = None;
            self.give_up(now);
        }
        if is_over || self.recent.is_unopened() {
            self.recent.open(now, now.saturating_add(PATIENCE));
        }
    }

    /// Gives up all waiting requests; events are missing until the instant `lost_until`.
    fn give_up(&mut self, lost_until: u64) {
        let until = lost_until.saturating_add(PATIENCE);
        for row in self.rows.iter_mut().filter(|row| row.state != State::Done) {
            if row.state == State::Waiting {
                let ghosts = &mut self.slots[slot(row.volume, row.class)].ghosts;
                ghosts.add(row.offset, row.end(), row.issue, until);
            }
            row.state = State::Unknown;
        }
        self.waiting_count = 0;
        for slot in &mut self.slots {
            slot.queued.clear();
            slot.in_driver.clear();
            slot.doubts.clear();
        }
        self.flushes.forget();
        self.refused.clear();
        self.splits.forget();
    }

    /// The oldest request, and whether its completion is unknown. `None` if the request must be
    /// held back at the instant `now`; a `now` of `None` means that no event will follow.
    #[inline]
    pub(super) fn pop(&mut self, now: Option<u64>) -> Option<(Row, bool)> {
        let row = self.rows.front()?;
        let crowded = self.rows.len() >= ROWS_MAX || self.waiting_count > WAITING_MAX;
        let waited =
            |since: u64, patience: u64| now.is_none_or(|now| now.saturating_sub(since) > patience);
        let ready = match row.state {
            State::Done | State::Unknown => true,
            State::Tentative => waited(row.completed, self.flushes.patience(row)),
            State::Waiting => waited(row.issue, PATIENCE),
        };
        if !ready && !crowded {
            return None;
        }
        let mut row = *row;
        if matches!(row.state, State::Waiting | State::Tentative) {
            self.leave(&mut row, now);
        }
        self.rows.pop_front();
        self.base += 1;
        let is_known = row.is_complete();
        if row.in_doubt || !is_known {
            self.recent.settle(self.base - 1);
        }
        match row.state {
            // The refused request is left out.
            _ if row.refused => {}
            _ if !is_known => self.figures.unmatched += 1,
            _ if row.pieced => self.figures.by_pieces += 1,
            _ => self.figures.exact += 1,
        }
        self.figures.ambiguous += u64::from(is_known && row.in_doubt);
        self.figures.failed += u64::from(row.failed);
        Some((row, !is_known))
    }

    /// Forgets the first request, which is not complete beyond doubt; `now` as for `pop`.
    fn leave(&mut self, row: &mut Row, now: Option<u64>) {
        let whole = Part { serial: self.base, begin: row.offset, end: row.end() };
        let slot = slot(row.volume, row.class);
        let waits = row.state == State::Waiting;
        self.slots[slot].queued.forget(whole);
        if row.refused {
            self.refused.remove(&(slot, whole.begin, whole.serial));
        } else if let Some(now) = now.filter(|_| waits || row.class == Class::Flush) {
            let until = row.issue.saturating_add(2 * PATIENCE);
            self.slots[slot].ghosts.add(whole.begin, whole.end, now, until);
        }
        if waits {
            self.slots[slot].in_driver.forget(whole);
            self.waiting_count -= 1;
        } else {
            row.in_doubt |= self.flushes.is_doubtful(row);
        }
    }

    /// Figures of the matching so far.
    pub(super) fn figures(&self) -> MatchingFigures {
        self.figures
    }

    /// Figures of the driver so far, if it was recorded.
    pub(super) fn driver(&self) -> Option<DriverFigures> {
        self.driver.figures()
    }

    /// The numbers of remembered requests: those of the driver, those that keep a place in doubt,
    /// and refused ones.
    #[cfg(test)]
    pub(super) fn held(&self) -> [usize; 3] {
        let driven = self.slots.iter().map(|slot| slot.in_driver.len()).sum();
        let in_doubt = self.slots.iter().map(|slot| slot.doubts.len()).sum();
        [driven, in_doubt, self.refused.len()]
    }

    /// The numbers of the last requests that are, or need not be, counted as doubtful.
    #[cfg(test)]
    pub(super) fn settled(&self) -> impl Iterator<Item = u64> {
        self.recent.settled()
    }

    /// The place of a class on a device among the slots.
    #[inline]
    fn slot(&mut self, volume: u32, class: Class) -> usize {
        let slot = slot(volume, class);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, Slot::default);
        }
        slot
    }
}

/// A row by its number.
#[inline]
fn row(rows: &mut VecDeque<Row>, base: u64, serial: u64) -> Option<&mut Row> {
    rows.get_mut(serial.checked_sub(base)? as usize)
}

/// As `row`, for reading only.
#[inline]
fn peek(rows: &VecDeque<Row>, base: u64, serial: u64) -> Option<&Row> {
    rows.get(serial.checked_sub(base)? as usize)
}

/// Whether a request is held back and waits for its completion.
fn waits(rows: &VecDeque<Row>, base: u64, serial: u64) -> bool {
    peek(rows, base, serial).is_some_and(|row| row.state == State::Waiting)
}

/// The place of a class on a device in the list of waiting requests.
fn slot(volume: u32, class: Class) -> usize {
    volume as usize * Class::COUNT + class as usize
}
