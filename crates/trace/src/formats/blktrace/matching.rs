//! Which request a completion completes.
//!
//! A recording names no requests: a completion says only where on the device something ended. What
//! was queued there may have been merged with its neighbours, so one completion covers many
//! requests, or split, so one request needs many completions. Requests wait here, in the order of
//! their issue, until theirs was seen or there is no hope left.
//!
//! The rules, for requests and completions of one class on one device:
//!
//! * A completion of exactly the range of a waiting request completes it; of several, the oldest.
//! * Any other completion is laid out from its first byte to its last with the waiting requests,
//!   each byte once, as the requests were when they were merged.
//! * A request of which a part completed is complete when nothing of it is left.
//! * A flush has no range: the oldest is completed.
//! * A write that the kernel took apart into flush, data and flush is complete when the kernel says
//!   so with a last, empty completion (`block/blk-flush.c`); that it was taken apart shows in the
//!   data's completion, which lacks the request's flush or FUA mark.

use std::collections::{BTreeSet, VecDeque};

use super::classify::Class;
use super::driver::Driver;
use super::row::{Row, State};
use super::splits::{Split, Splits};
use crate::recording::{DriverFigures, MatchingFigures};
use crate::request::Flags;

/// How many requests are held back, waiting ones and those behind them: some 60 MB.
const ROWS_MAX: usize = 1 << 20;

/// How many requests may wait for a completion.
const WAITING_MAX: usize = 1 << 16;

/// How long a request waits, in nanoseconds of the trace: as long as the kernel waits for a command
/// before it acts (30 seconds unless the driver says otherwise, `block/blk-mq.c`).
const PATIENCE: u64 = 30_000_000_000;

/// How long a request that seems complete waits for a better completion, in nanoseconds.
const TENTATIVE_PATIENCE: u64 = 1_000_000_000;

/// How many waiting requests around a place are looked at before the search is given up.
const SEARCH_MAX: usize = 32;

/// How many writes may wait for the end of their flush sequence.
const SEQUENCES_MAX: usize = 256;

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion {
    pub(super) time: u64,
    pub(super) volume: u32,
    pub(super) class: Class,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) flags: Flags,
    /// Whether it was an error.
    pub(super) failed: bool,
}

/// The waiting requests of one class on one device, by position and then by age.
#[derive(Debug, Default)]
struct Waiting {
    rows: BTreeSet<(u64, u64)>,
    /// No request here was ever longer, in bytes; bounds the search for what covers a place.
    longest: u64,
    /// Flushes before this one have a tentative completion.
    tentative_before: u64,
}

/// A waiting request that has a byte.
#[derive(Clone, Copy, Debug)]
struct Found {
    serial: u64,
    /// The first byte behind it.
    end: u64,
    /// Whether another one came into question as well.
    others: bool,
}

/// The requests between their issue and their completion.
#[derive(Debug, Default)]
pub(super) struct Matching {
    rows: VecDeque<Row>,
    /// The serial number of the first row.
    base: u64,
    /// By volume and class.
    waiting: Vec<Waiting>,
    waiting_count: usize,
    /// Volume, offset, end and serial number of writes whose data is complete.
    sequences: VecDeque<(u32, u64, u64, u64)>,
    splits: Splits,
    driver: Driver,
    figures: MatchingFigures,
    /// Places of requests that one event covers.
    covered: Vec<u64>,
}

impl Matching {
    /// Adds the next request.
    pub(super) fn push(&mut self, row: Row) {
        let slot = slot(row.volume, row.class);
        if self.waiting.len() <= slot {
            self.waiting.resize_with(slot + 1, Waiting::default);
        }
        let waiting = &mut self.waiting[slot];
        waiting.rows.insert((row.offset, self.base + self.rows.len() as u64));
        waiting.longest = waiting.longest.max(u64::from(row.length));
        self.waiting_count += 1;
        self.rows.push_back(row);
    }

    /// Takes a completion with a range; answers whether it completed anything.
    pub(super) fn complete(&mut self, completion: &Completion) -> bool {
        let slot = slot(completion.volume, completion.class);
        if self.waiting.len() <= slot {
            return false;
        }
        let is_meant = |row: &Row| row.length == completion.bytes && row.left == row.length;
        let (exact, others) = self.at(slot, completion.offset, is_meant);
        if let Some(serial) = exact {
            self.figures.ambiguous += u64::from(others);
            self.credit(slot, serial, completion.bytes, completion);
            return true;
        }
        self.complete_pieces(slot, completion)
    }

    /// The oldest waiting request that begins at `offset` and is meant, and whether there is
    /// another such.
    #[inline]
    fn at(&self, slot: usize, offset: u64, is_meant: impl Fn(&Row) -> bool) -> (Option<u64>, bool) {
        let mut found = None;
        for &(begin, serial) in self.waiting[slot].rows.range((offset, 0)..).take(SEARCH_MAX) {
            if begin != offset {
                break;
            }
            if self.row(serial).is_some_and(&is_meant) {
                if found.is_some() {
                    return (found, true);
                }
                found = Some(serial);
            }
        }
        (found, false)
    }

    /// Notes that the driver got what lies in a range. A merged request covers several; of a
    /// request that was split the first piece counts.
    pub(super) fn hand_over(&mut self, event: &Completion) {
        let slot = slot(event.volume, event.class);
        if self.waiting.len() <= slot {
            return;
        }
        let is_meant = |row: &Row| row.length == event.bytes && !row.driven;
        if let (Some(serial), _) = self.at(slot, event.offset, is_meant) {
            self.drive(serial, event);
            return;
        }
        let end = event.offset.saturating_add(u64::from(event.bytes));
        let mut covered = std::mem::take(&mut self.covered);
        covered.clear();
        self.lay_out(slot, event.offset, end, |serial, _| covered.push(serial));
        // A request that was merged before another one did not overtake it.
        covered.sort_unstable();
        for &serial in &covered {
            self.drive(serial, event);
        }
        self.covered = covered;
    }

    fn drive(&mut self, serial: u64, event: &Completion) {
        if let Some(row) = self.rows.get_mut(serial.saturating_sub(self.base) as usize)
            && !row.driven
        {
            row.driven = true;
            self.driver.note(row.volume, serial, event.time.saturating_sub(row.issue));
        }
    }

    /// Lays the completion's range out with waiting requests.
    fn complete_pieces(&mut self, slot: usize, completion: &Completion) -> bool {
        let end = completion.offset.saturating_add(u64::from(completion.bytes));
        let (mut cursor, mut touched, mut is_ambiguous) = (completion.offset, false, false);
        // One after the other: what is complete no longer has the bytes behind.
        while let Some((from, found)) = self.next_piece(slot, cursor, end) {
            let until = found.end.min(end);
            is_ambiguous |= found.others;
            if let Some(row) = self.rows.get_mut((found.serial - self.base) as usize) {
                row.pieced = true;
            }
            self.credit(slot, found.serial, (until - from) as u32, completion);
            (cursor, touched) = (until, true);
        }
        self.figures.ambiguous += u64::from(is_ambiguous);
        touched
    }

    /// Lays a range out with waiting requests and tells the serial number and the bytes of each.
    fn lay_out(&self, slot: usize, begin: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let mut cursor = begin;
        while let Some((from, found)) = self.next_piece(slot, cursor, end) {
            let until = found.end.min(end);
            each(found.serial, until - from);
            cursor = until;
        }
    }

    /// The waiting request that has the first byte from `cursor` on that any has, and that byte.
    fn next_piece(&self, slot: usize, cursor: u64, end: u64) -> Option<(u64, Found)> {
        if cursor >= end {
            return None;
        }
        if let Some(found) = self.find(slot, cursor, end) {
            return Some((cursor, found));
        }
        // A hole: its request was queued before the recording began, or was lost. An empty request
        // at a place has no byte of it.
        let rows = &self.waiting[slot].rows;
        let later = rows.range((cursor + 1, 0)..(end, 0)).take(SEARCH_MAX);
        later.map(|&(at, _)| at).find_map(|at| Some((at, self.find(slot, at, end)?)))
    }

    /// The waiting request that has the byte at `cursor`: best the oldest that begins there and
    /// does not reach beyond `end`, else one that begins there, else one that covers it.
    fn find(&self, slot: usize, cursor: u64, end: u64) -> Option<Found> {
        let waiting = &self.waiting[slot];
        let mut longer = None;
        let mut fitting: Option<Found> = None;
        for &(offset, serial) in waiting.rows.range((cursor, 0)..).take(SEARCH_MAX) {
            if offset != cursor {
                break;
            }
            let Some(row) = self.row(serial).filter(|row| row.length > 0) else { continue };
            let found = Found { serial, end: row.end(), others: false };
            if row.end() > end {
                longer = longer.or(Some(found));
            } else if let Some(first) = fitting {
                return Some(Found { others: true, ..first });
            } else {
                fitting = Some(found);
            }
        }
        let before = || {
            waiting
                .rows
                .range(..(cursor, 0))
                .rev()
                .take(SEARCH_MAX)
                .take_while(|(offset, _)| offset + waiting.longest > cursor)
                .filter_map(|&(_, serial)| {
                    Some(Found { serial, end: self.row(serial)?.end(), others: false })
                })
                .find(|found| found.end > cursor)
        };
        fitting.or(longer).or_else(before)
    }

    /// Counts `bytes` of a waiting request as complete.
    fn credit(&mut self, slot: usize, serial: u64, bytes: u32, completion: &Completion) {
        let Some(row) = self.rows.get_mut((serial - self.base) as usize) else { return };
        row.left = row.left.saturating_sub(bytes);
        row.failed |= completion.failed;
        if row.left > 0 {
            return;
        }
        row.completed = completion.time;
        // The device never saw a mark that the completion lacks: the kernel did its work.
        let marks = row.flags & (Flags::PREFLUSH | Flags::FUA);
        let taken_apart = !completion.flags.contains(marks);
        row.state = if taken_apart { State::Tentative } else { State::Done };
        let (volume, offset, end) = (row.volume, row.offset, row.end());
        if self.waiting[slot].rows.remove(&(offset, serial)) {
            self.waiting_count -= 1;
        }
        if taken_apart {
            if self.sequences.len() == SEQUENCES_MAX {
                self.sequences.pop_front();
            }
            self.sequences.push_back((volume, offset, end, serial));
        }
    }

    /// Takes the completion of a whole flush: of an empty write, or of a write's flush sequence.
    /// Kernels say the latter at the write's first sector or, older ones, behind its last.
    pub(super) fn complete_flush(&mut self, volume: u32, offset: u64, time: u64) {
        let mut sequences = self.sequences.iter();
        let found = sequences.position(|&(its_volume, begin, end, _)| {
            its_volume == volume && (begin == offset || end == offset)
        });
        if let Some((.., serial)) = found.and_then(|found| self.sequences.remove(found)) {
            self.settle(serial, time, State::Done);
        } else if offset == 0 {
            self.complete_oldest(slot(volume, Class::Flush), time);
        }
    }

    /// Takes the completion of the flush machinery's own request. It may serve many flushes, each
    /// of which is completed in its own name just after; where that is not recorded, this is known.
    pub(super) fn complete_device_flush(&mut self, volume: u32, time: u64) {
        if self.complete_oldest(slot(volume, Class::DeviceFlush), time) {
            return;
        }
        let next = self.base + self.rows.len() as u64;
        let Some(waiting) = self.waiting.get_mut(slot(volume, Class::Flush)) else { return };
        let from = waiting.tentative_before;
        waiting.tentative_before = next;
        for &(_, serial) in waiting.rows.range((0, from)..) {
            if let Some(row) = self.rows.get_mut(serial.saturating_sub(self.base) as usize) {
                (row.completed, row.state) = (time, State::Tentative);
            }
        }
    }

    fn complete_oldest(&mut self, slot: usize, time: u64) -> bool {
        let Some(waiting) = self.waiting.get_mut(slot) else { return false };
        let Some((_, serial)) = waiting.rows.pop_first() else { return false };
        self.figures.ambiguous += u64::from(!waiting.rows.is_empty());
        self.waiting_count -= 1;
        self.settle(serial, time, State::Done);
        true
    }

    fn settle(&mut self, serial: u64, time: u64, state: State) {
        // A row that was already given away has a smaller number than the first.
        let index = serial.checked_sub(self.base);
        if let Some(row) = index.and_then(|index| self.rows.get_mut(index as usize)) {
            (row.completed, row.state) = (time, state);
        }
    }

    /// Notes that a bio was split: `bytes` from `offset` are its first part.
    pub(super) fn split(&mut self, volume: u32, class: Class, offset: u64, bytes: u32, time: u64) {
        let (slot, rest) = (slot(volume, class), offset.saturating_add(u64::from(bytes)));
        if self.waiting.len() <= slot {
            return;
        }
        // The newest: it was queued a moment ago.
        let waiting = &self.waiting[slot];
        let covering = waiting.rows.range(..(offset + 1, 0)).rev().take(SEARCH_MAX);
        let bio = covering
            .filter_map(|&(_, serial)| Some((serial, self.row(serial)?.end())))
            .filter(|&(_, end)| end > rest)
            .max_by_key(|&(serial, _)| serial);
        if let Some((serial, end)) = bio {
            self.splits.note(Split { time, volume, class, offset: rest, end, serial });
        }
    }

    /// Whether this request is the rest of a split bio that is part of a request that is here.
    #[inline]
    pub(super) fn is_rest_of_split(&mut self, row: &Row) -> bool {
        let (rows, base) = (&self.rows, self.base);
        self.splits.take_rest(row, |serial| {
            let index = serial.checked_sub(base);
            let whole = index.and_then(|index| rows.get(index as usize));
            whole.is_some_and(|whole| whole.state == State::Waiting && whole.pid == row.pid)
        })
    }

    /// Whether this request is the second attempt at one that is here. io_uring first asks not to
    /// wait; where the kernel would have to, for a place in the queue or because it has to split,
    /// it forgets the request that it has queued, and a worker queues it once more.
    pub(super) fn is_second_attempt(&mut self, row: &Row, served: u32) -> bool {
        let slot = slot(row.volume, row.class);
        if self.waiting.len() <= slot {
            return false;
        }
        let is_meant = |first: &Row| {
            (first.length, first.left, first.pid) == (row.length, first.length, served)
                && !first.driven
                && !first.again
        };
        let (Some(serial), _) = self.at(slot, row.offset, is_meant) else { return false };
        if let Some(first) = self.rows.get_mut(serial.saturating_sub(self.base) as usize) {
            first.again = true;
        }
        true
    }

    /// The oldest request, if it need not be held back any longer at the instant `now` (`None` when
    /// nothing more will come), and whether its completion is unknown.
    #[inline]
    pub(super) fn pop(&mut self, now: Option<u64>) -> Option<(Row, bool)> {
        let row = self.rows.front()?;
        let crowded = self.rows.len() >= ROWS_MAX || self.waiting_count > WAITING_MAX;
        let waited =
            |since: u64, patience: u64| now.is_none_or(|now| now.saturating_sub(since) > patience);
        let ready = match row.state {
            State::Done => true,
            State::Tentative => waited(row.completed, TENTATIVE_PATIENCE),
            State::Waiting => waited(row.issue, PATIENCE),
        };
        if !ready && !crowded {
            return None;
        }
        let row = *row;
        if row.state != State::Done {
            let waiting = &mut self.waiting[slot(row.volume, row.class)].rows;
            if waiting.remove(&(row.offset, self.base)) {
                self.waiting_count -= 1;
            }
        }
        self.rows.pop_front();
        self.base += 1;
        match row.state {
            State::Waiting => self.figures.unmatched += 1,
            _ if row.pieced => self.figures.by_pieces += 1,
            _ => self.figures.exact += 1,
        }
        self.figures.failed += u64::from(row.failed);
        Some((row, row.state == State::Waiting))
    }

    /// How completions were found so far.
    pub(super) fn figures(&self) -> MatchingFigures {
        self.figures
    }

    /// What was seen of the driver so far, if anything.
    pub(super) fn driver(&self) -> Option<DriverFigures> {
        self.driver.figures()
    }

    fn row(&self, serial: u64) -> Option<&Row> {
        self.rows.get(serial.checked_sub(self.base)? as usize)
    }
}

/// The place of a class on a device in the list of waiting requests.
fn slot(volume: u32, class: Class) -> usize {
    volume as usize * Class::COUNT + class as usize
}
