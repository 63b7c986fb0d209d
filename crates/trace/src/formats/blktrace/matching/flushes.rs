//! Flushes, and writes that the kernel takes apart because of them.
//!
//! A flush has no range, and one flush of the device serves many that were queued (Linux
//! `block/blk-flush.c`). Each of those has its own completion just after, and so has a write that
//! was split into flush, data and flush: an empty one. Not every recording has these. So a flush is
//! taken for complete with the flush of the device that began after it was queued, and a write with
//! its data, or with the flush of the device that began after its data was complete, until its own
//! completion comes.
//!
//! * On a device on which own completions were seen, each is waited for as for any other. A request
//!   whose own one never comes is in doubt.
//! * On other devices, requests leave after a second. They are in doubt if a flush must have
//!   followed and its end was not seen, or if several flushes of the device were under way.
//!
//! The kernel chooses the flushes that it serves a moment before the event of the device's flush.
//! On devices without own completions, one that is queued within this moment seems to be complete
//! one flush too early.

use std::collections::VecDeque;

use super::{Matching, PATIENCE, Slot, TENTATIVE_PATIENCE, peek, row};
use crate::formats::blktrace::classify::Class;
use crate::formats::blktrace::pieces::Part;
use crate::formats::blktrace::row::{Row, State};
use crate::request::Flags;

/// The largest number of writes that wait for the end of their flush sequence.
const SEQUENCES_MAX: usize = 256;

/// The largest number of flushes of one device that are under way. The kernel has one at a time for
/// each of its queues.
const ISSUED_MAX: usize = 1 << 12;

/// A write whose data is complete.
#[derive(Clone, Copy, Debug)]
struct Sequence {
    volume: u32,
    begin: u64,
    end: u64,
    serial: u64,
}

/// A flush of the device that is under way.
#[derive(Clone, Copy, Debug)]
struct Issued {
    /// The number of the next request.
    next: u64,
    /// The instant of its beginning, in nanoseconds of the recording's clock.
    time: u64,
    /// Whether another one was under way when one ended: it may have been that one.
    is_mixed: bool,
}

/// The flushes of one device.
#[derive(Debug, Default)]
struct Machinery {
    issued: VecDeque<Issued>,
    /// Flushes with a smaller number than this have a tentative completion.
    tentative_before: u64,
    /// Whether a flush of the device was seen.
    is_seen: bool,
    /// Whether own completions of flushes, and of writes, were seen.
    ends_flushes: bool,
    ends_writes: bool,
}

/// The flushes of all devices.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    devices: Vec<Machinery>,
    sequences: VecDeque<Sequence>,
    /// Whether own completions of writes have the place after the last sector, as older kernels
    /// report them, or the first sector.
    is_behind: Option<bool>,
}

impl Flushes {
    fn device(&mut self, volume: u32) -> &mut Machinery {
        let volume = volume as usize;
        if self.devices.len() <= volume {
            self.devices.resize_with(volume + 1, Machinery::default);
        }
        &mut self.devices[volume]
    }

    /// Forgets what is under way, because events are missing.
    pub(super) fn forget(&mut self) {
        self.sequences.clear();
        self.devices.iter_mut().for_each(|device| device.issued.clear());
    }

    /// Whether a request with a tentative completion is one on whose device such requests have
    /// their own.
    fn has_own(&self, row: &Row) -> bool {
        self.devices.get(row.volume as usize).is_some_and(|device| match row.class {
            Class::Flush => device.ends_flushes,
            _ => device.ends_writes,
        })
    }

    /// The time that a request with a tentative completion waits for a better one, in nanoseconds.
    pub(super) fn patience(&self, row: &Row) -> u64 {
        let device = self.devices.get(row.volume as usize);
        let is_seen = device.is_some_and(|device| device.is_seen);
        if self.has_own(row) || row.is_early && is_seen { PATIENCE } else { TENTATIVE_PATIENCE }
    }

    /// Whether a tentative completion that nothing better came for may be too early.
    pub(super) fn is_doubtful(&self, row: &Row) -> bool {
        row.is_early || self.has_own(row)
    }
}

impl Matching {
    /// Notes that the data of a write is complete whose flushes are the kernel's work.
    /// `is_flushed`: the device itself has made it durable, so no flush follows.
    pub(super) fn begin_sequence(&mut self, part: Part, time: u64, is_flushed: bool) {
        self.settle(part.serial, time, State::Tentative);
        let Some(row) = row(&mut self.rows, self.base, part.serial) else { return };
        row.is_early = !is_flushed;
        let (volume, begin, end) = (row.volume, row.offset, row.end());
        let sequences = &mut self.flushes.sequences;
        if sequences.len() == SEQUENCES_MAX {
            sequences.pop_front();
        }
        sequences.push_back(Sequence { volume, begin, end, serial: part.serial });
    }

    /// Takes the completion of a whole flush: of an empty write, or of a write's flush sequence.
    /// Kernels report a sequence at the write's first sector; older ones, after its last sector.
    pub(in crate::formats::blktrace) fn complete_flush(
        &mut self,
        volume: u32,
        offset: u64,
        time: u64,
    ) {
        if let Some(serial) = self.end_sequence(volume, offset) {
            self.flushes.device(volume).ends_writes = true;
            self.settle(serial, time, State::Done);
        } else if offset == 0 {
            let is_one = self.complete_oldest(volume, Class::Flush, time);
            let device = self.flushes.device(volume);
            if is_one {
                device.ends_flushes = true;
            } else if device.ends_flushes {
                let slot = self.slot(volume, Class::Flush);
                self.doubt_recent(slot, 0, 0, time);
            }
        }
    }

    /// The write whose flush sequence ends at this place.
    fn end_sequence(&mut self, volume: u32, offset: u64) -> Option<u64> {
        let Flushes { sequences, is_behind, .. } = &mut self.flushes;
        let begins = |sequence: &Sequence| *is_behind != Some(true) && sequence.begin == offset;
        let ends = |sequence: &Sequence| *is_behind != Some(false) && sequence.end == offset;
        let fits =
            |sequence: &Sequence| sequence.volume == volume && (begins(sequence) || ends(sequence));
        let first = sequences.iter().position(fits)?;
        let found = sequences.iter().position(|one| fits(one) && begins(one)).unwrap_or(first);
        let rivals = sequences.iter().filter(|one| fits(one)).count();
        if rivals > 1 {
            for rival in sequences.iter().filter(|one| fits(one)) {
                if let Some(row) = row(&mut self.rows, self.base, rival.serial) {
                    row.in_doubt = true;
                }
            }
        } else {
            *is_behind = Some(!begins(&sequences[found]));
        }
        sequences.remove(found).map(|sequence| sequence.serial)
    }

    /// Notes that the device began to flush.
    pub(in crate::formats::blktrace) fn issue_device_flush(&mut self, volume: u32, time: u64) {
        let next = self.base + self.rows.len() as u64;
        let device = self.flushes.device(volume);
        device.is_seen = true;
        if device.issued.len() == ISSUED_MAX {
            device.issued.pop_front();
        }
        device.issued.push_back(Issued { next, time, is_mixed: false });
    }

    /// Notes that the driver gave a flush of the device back.
    pub(in crate::formats::blktrace) fn give_back_device_flush(&mut self, volume: u32) {
        self.flushes.device(volume).issued.pop_back();
    }

    /// Takes the completion of the flush machinery's own request. It may serve many flushes, each
    /// of which has its own completion just after; if those are not recorded, this one counts.
    pub(in crate::formats::blktrace) fn complete_device_flush(&mut self, volume: u32, time: u64) {
        if self.complete_oldest(volume, Class::DeviceFlush, time) {
            return;
        }
        let next = self.base + self.rows.len() as u64;
        let device = self.flushes.device(volume);
        device.is_seen = true;
        if device.issued.len() > 1 {
            device.issued.iter_mut().for_each(|issued| issued.is_mixed = true);
        }
        let issued = device.issued.pop_front();
        let before = issued.map_or(next, |issued| issued.next);
        let from = device.tentative_before;
        device.tentative_before = from.max(before);
        // Without the event of its beginning, this flush may have begun before theirs were queued.
        let is_early = issued.is_none_or(|issued| issued.is_mixed);
        let slot = self.slot(volume, Class::Flush);
        let waiting = self.slots[slot].queued.from(0, from);
        let mut served: Vec<_> =
            waiting.map(|part| part.serial).take_while(|serial| *serial < before).collect();
        if let Some(Issued { time: begun, .. }) = issued {
            let (rows, base) = (&self.rows, self.base);
            let is_after = |serial: u64| {
                peek(rows, base, serial).is_some_and(|row| row.is_early && row.completed <= begun)
            };
            let sequences = self.flushes.sequences.iter().filter(|one| one.volume == volume);
            served.extend(sequences.map(|one| one.serial).filter(|serial| is_after(*serial)));
        }
        for serial in served {
            self.settle(serial, time, State::Tentative);
            if let Some(row) = row(&mut self.rows, self.base, serial) {
                row.is_early = is_early;
            }
        }
    }

    fn complete_oldest(&mut self, volume: u32, class: Class, time: u64) -> bool {
        let slot = self.slot(volume, class);
        let Slot { queued, ghosts, .. } = &mut self.slots[slot];
        let waiting: Vec<_> = queued.at(0).collect();
        let Some(&oldest) = waiting.first() else {
            ghosts.forget(0, 0);
            return false;
        };
        queued.remove(oldest);
        // A flush has no place that could stay in doubt.
        if waiting.len() > 1 || ghosts.meet(0, 0, time) {
            self.mark(&waiting);
        }
        self.recent.note(time, oldest.serial, slot, 0, 0);
        self.settle(oldest.serial, time, State::Done);
        true
    }
}

/// Whether a completion shows that the kernel took a write apart, because it lacks a flag that the
/// request had; and if so, whether it has the mark that the device made the data durable, or the
/// request did not ask for that.
pub(super) fn taken_apart(asked: Flags, seen: Flags) -> Option<bool> {
    let marks = asked & (Flags::PREFLUSH | Flags::FUA);
    (!seen.contains(marks)).then(|| seen.contains(asked & Flags::FUA))
}
