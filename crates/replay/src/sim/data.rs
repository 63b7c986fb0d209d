//! The data of a simulated device that stores it.
//!
//! A real device gives no promise on a request that is in flight: it may have done nothing of it,
//! all, or a part, and of two overlapping writes in flight together either may win. So every
//! request takes effect in up to two pieces, each at an instant of its own between submission and
//! completion. A failed or unanswered one may have done either piece or none, a short one the
//! first. Discarded ranges keep what they held or read as zeroes, as real ones do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;

use ioecho_trace::{Flags, Op, Outcome};

use super::mischief::{Mischief, MischiefKind, Misdeed};
use super::sectors::{SECTOR_BYTES, Sector, SectorStore};
use crate::device::{Io, Payload};
use crate::pattern::SplitMix64;

/// Until when a request that is never answered may still take effect, ns.
const HANGING_NS: i64 = 1_000_000_000;

/// A piece of a request and the instant at which it happens; the order of its fields is the order
/// of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: i64,
    order: u64,
    tag: u32,
    /// Sectors of the request, counted from its first.
    from: u64,
    to: u64,
    /// Whether everything done before is safe from a loss of power from now on.
    durable: bool,
}

/// A request in flight and its data.
#[derive(Clone, Debug, Default)]
struct Slot {
    io: Option<Io>,
    data: Vec<u8>,
    /// The sector where a write goes: its own, or another.
    lands: u64,
    /// Whether a read returns the previous content.
    stale: bool,
}

/// When and how a request ends, as the device knows at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) submitted_ns: i64,
    pub(super) completes_ns: i64,
    pub(super) outcome: Outcome,
    pub(super) hangs: bool,
    /// From then on the device is gone.
    pub(super) vanishes_ns: i64,
}

/// The data of a simulated device, at rest and in flight.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) sectors: SectorStore,
    pub(super) misdeeds: Vec<Misdeed>,
    pub(super) mischief: Mischief,
    pub(super) keep: bool,
    capacity: u64,
    /// Of files: how many sectors lie between the beginnings of two.
    each: Option<u64>,
    /// The content of sectors before their last change.
    before: HashMap<u64, Box<Sector>>,
    /// The last durable content of sectors that changed since.
    volatile: HashMap<u64, Option<Box<Sector>>>,
    slots: Vec<Slot>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    random: SplitMix64,
}

impl Held {
    /// Nothing written, on a device of so many sectors.
    pub(super) fn new(capacity: u64, seed: u64) -> Self {
        Self {
            sectors: SectorStore::default(),
            misdeeds: Vec::new(),
            mischief: Mischief::default(),
            keep: false,
            capacity,
            each: None,
            before: HashMap::new(),
            volatile: HashMap::new(),
            slots: Vec::new(),
            events: BinaryHeap::new(),
            order: 0,
            random: SplitMix64(seed),
        }
    }

    /// What is held are so many files, the beginnings of which lie so many sectors apart. They are
    /// many, and nobody cuts their power.
    pub(super) fn holds_files(&mut self, files: u64, each: u64) {
        self.sectors = SectorStore::by_stamps();
        self.capacity = files * each;
        self.each = Some(each);
    }

    fn slot(&mut self, tag: u32) -> &mut Slot {
        let tag = tag as usize;
        if tag >= self.slots.len() {
            self.slots.resize_with(tag + 1, Slot::default);
        }
        &mut self.slots[tag]
    }

    /// Takes the data of a write, or makes room for those of a read.
    pub(super) fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        let slot = self.slot(io.tag);
        slot.io = Some(*io);
        slot.lands = io.offset.sectors();
        slot.stale = false;
        slot.data.clear();
        if matches!(io.op, Op::Read | Op::Write) {
            slot.data.resize(io.length.0 as usize, 0);
        }
        if io.op == Op::Write {
            payload.fill(io, &mut slot.data);
        }
    }

    /// Plans which pieces of the request take effect, and when.
    pub(super) fn submitted(&mut self, io: &Io, ending: &Ending) {
        if io.op == Op::Flush || io.flags.contains(Flags::PREFLUSH) {
            let done = ending.outcome == Outcome::Ok && !ending.hangs;
            if done {
                self.plan(io, ending, 0..0, true);
            }
        }
        let count = io.length.0.div_ceil(SECTOR_BYTES as u64);
        if count == 0 {
            return;
        }
        let succeeds = ending.outcome == Outcome::Ok
            && !ending.hangs
            && ending.completes_ns < ending.vanishes_ns;
        if succeeds && self.misbehave(io, count, ending) {
            return;
        }
        let cut = self.random.below(count + 1);
        for (index, piece) in [0..cut, cut..count].into_iter().enumerate() {
            let happens = match ending.outcome {
                _ if ending.hangs => self.random.below(2) == 0,
                Outcome::Ok => true,
                Outcome::Short => index == 0,
                _ => self.random.below(2) == 0,
            };
            if happens && !piece.is_empty() {
                self.plan(io, ending, piece, false);
            }
        }
    }

    /// Lets a piece happen at some instant before the request completes, if the device is still
    /// there then.
    fn plan(&mut self, io: &Io, ending: &Ending, piece: Range<u64>, durable: bool) {
        let from = ending.submitted_ns;
        let to = if ending.hangs { from + HANGING_NS } else { ending.completes_ns };
        let at_ns = from + self.random.below((to - from).max(0) as u64 + 1) as i64;
        self.order += 1;
        let (order, tag) = (self.order, io.tag);
        let event = Event { at_ns, order, tag, from: piece.start, to: piece.end, durable };
        if at_ns < ending.vanishes_ns {
            self.events.push(Reverse(event));
        }
    }

    /// Falsifies the request if it was drawn for that; returns whether all its pieces are planned.
    fn misbehave(&mut self, io: &Io, count: u64, ending: &Ending) -> bool {
        let is_read = io.op == Op::Read;
        if !matches!(io.op, Op::Read | Op::Write)
            || self.mischief.share <= 0.0
            || self.random.unit() >= self.mischief.share
        {
            return false;
        }
        let fits = |kind: &&MischiefKind| {
            kind.is_of_reads() == is_read && (count > 1 || **kind != MischiefKind::TornWrite)
        };
        let kinds: Vec<_> = self.mischief.kinds.iter().filter(fits).copied().collect();
        if kinds.is_empty() {
            return false;
        }
        let kind = kinds[self.random.below(kinds.len() as u64) as usize];
        let first = io.offset.sectors();
        let one = self.random.below(count);
        let (mut sectors, mut landed) = (first..first + count, None);
        match kind {
            MischiefKind::LostWrite => {}
            MischiefKind::TornWrite => {
                // Either end of it arrives, never all.
                let cut = 1 + self.random.below(count - 1);
                let front = self.random.below(2) == 0;
                let arrives = if front { 0..cut } else { cut..count };
                sectors = if front { first + cut..first + count } else { first..first + cut };
                self.plan(io, ending, arrives, false);
            }
            MischiefKind::MisdirectedWrite => {
                let Some(place) = self.another_place(first, count) else { return false };
                self.slot(io.tag).lands = place;
                landed = Some(place);
                self.plan(io, ending, 0..count, false);
            }
            MischiefKind::FlippedBit => {
                let bit = self.random.below(8 * SECTOR_BYTES as u64) as usize;
                let data = &mut self.slot(io.tag).data;
                data[one as usize * SECTOR_BYTES + bit / 8] ^= 1 << (bit % 8);
                sectors = first + one..first + one + 1;
                self.plan(io, ending, 0..count, false);
            }
            MischiefKind::ZeroedSector => {
                let from = one as usize * SECTOR_BYTES;
                self.slot(io.tag).data[from..from + SECTOR_BYTES].fill(0);
                sectors = first + one..first + one + 1;
                self.plan(io, ending, 0..count, false);
            }
            MischiefKind::StaleRead => {
                // Written down when it happens, if there is anything older to bring.
                self.slot(io.tag).stale = true;
                self.plan(io, ending, 0..count, false);
                return true;
            }
        }
        self.misdeeds.push(Misdeed { kind, request: io.request, sectors, landed });
        true
    }

    /// Another place for so many sectors that touches not one of its own, in steps of its size; of
    /// files the same place in another one.
    fn another_place(&mut self, first: u64, count: u64) -> Option<u64> {
        if let Some(each) = self.each {
            let other = self.random.below((self.capacity / each).max(1));
            return (other != first / each).then_some(other * each + first % each);
        }
        let places = self.capacity / count;
        (0..8)
            .map(|_| self.random.below(places.max(1)) * count)
            .find(|place| place + count <= first || first + count <= *place)
            .filter(|place| place + count <= self.capacity)
    }

    /// Executes all events until then.
    pub(super) fn pass_until(&mut self, now_ns: i64) {
        while let Some(&Reverse(event)) = self.events.peek()
            && event.at_ns <= now_ns
        {
            self.events.pop();
            if event.durable {
                self.volatile.clear();
            } else {
                self.happen(&event);
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        let mut slot = std::mem::take(self.slot(event.tag));
        if let Some(io) = slot.io {
            let first = io.offset.sectors();
            match io.op {
                Op::Read if slot.stale => self.read_stale(&io, &mut slot.data, event),
                Op::Read => {
                    for n in event.from..event.to {
                        piece_mut(&mut slot.data, n).copy_from_slice(&self.sectors.get(first + n));
                    }
                }
                Op::Write => {
                    let durable = io.flags.contains(Flags::FUA);
                    for n in event.from..event.to {
                        let before = self.sectors.put(slot.lands + n, piece(&slot.data, n));
                        self.changed(slot.lands + n, before, durable);
                    }
                }
                Op::WriteZeroes => self.clear(first + event.from..first + event.to),
                // The drive may or may not forget.
                Op::Discard if self.random.below(2) == 0 => {
                    self.clear(first + event.from..first + event.to);
                }
                _ => {}
            }
        }
        *self.slot(event.tag) = slot;
    }

    /// Makes sectors such that nobody wrote.
    pub(super) fn clear(&mut self, range: Range<u64>) {
        for sector in range {
            let before = self.sectors.take(sector);
            self.changed(sector, before, false);
        }
    }

    /// What these sectors hold, of those that somebody wrote.
    pub(super) fn copied(&self, range: Range<u64>) -> Vec<Option<Box<Sector>>> {
        range.map(|sector| self.sectors.copied(sector)).collect()
    }

    /// Makes sectors, from this one on, those that were copied elsewhere.
    pub(super) fn take_over(&mut self, first: u64, copied: Vec<Option<Box<Sector>>>) {
        for (sector, bytes) in (first..).zip(copied) {
            let before = match bytes {
                Some(bytes) => self.sectors.put(sector, &bytes[..]),
                None => self.sectors.take(sector),
            };
            self.changed(sector, before, false);
        }
    }

    /// Keeps what a sector held: the last version for stale reads, the last safe one for a loss of
    /// power.
    fn changed(&mut self, sector: u64, before: Option<Box<Sector>>, durable: bool) {
        if durable {
            self.volatile.remove(&sector);
        } else if self.each.is_none() {
            self.volatile.entry(sector).or_insert_with(|| before.clone());
        }
        if let Some(before) = before
            && self.mischief.kinds.contains(&MischiefKind::StaleRead)
        {
            self.before.insert(sector, before);
        }
    }

    fn read_stale(&mut self, io: &Io, data: &mut [u8], event: &Event) {
        let first = io.offset.sectors();
        let mut stale: Option<Range<u64>> = None;
        for n in event.from..event.to {
            let (sector, now) = (first + n, self.sectors.get(first + n));
            let older = self.before.get(&sector).filter(|older| older[..] != now[..]);
            if older.is_some() {
                let from = stale.map_or(sector, |range| range.start);
                stale = Some(from..sector + 1);
            }
            let brings = older.map_or(&now[..], |older| &older[..]);
            piece_mut(data, n).copy_from_slice(brings);
        }
        if let Some(sectors) = stale {
            let kind = MischiefKind::StaleRead;
            self.misdeeds.push(Misdeed { kind, request: io.request, sectors, landed: None });
        }
    }

    /// The data of a read that has completed.
    pub(super) fn data(&mut self, tag: u32) -> &[u8] {
        let keep = self.keep;
        let slot = self.slot(tag);
        let read = slot.io.is_some_and(|io| io.op == Op::Read);
        if keep && read { &slot.data } else { &[] }
    }

    /// Power fails: whatever is in flight stops, and each sector that is not safe holds what it
    /// held last or what it held when it was safe.
    pub(super) fn cut_power(&mut self) {
        self.events.clear();
        let mut volatile: Vec<_> = self.volatile.drain().collect();
        volatile.sort_unstable_by_key(|(sector, _)| *sector);
        for (sector, safe) in volatile {
            if self.random.below(2) == 0 {
                self.sectors.restore(sector, safe);
            }
        }
    }
}

fn piece(data: &[u8], n: u64) -> &[u8] {
    let from = n as usize * SECTOR_BYTES;
    &data[from..from + SECTOR_BYTES]
}

fn piece_mut(data: &mut [u8], n: u64) -> &mut [u8] {
    let from = n as usize * SECTOR_BYTES;
    &mut data[from..from + SECTOR_BYTES]
}

#[cfg(test)]
mod tests;
