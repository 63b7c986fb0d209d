//! The writes that were in flight when a process was killed.
//!
//! The journal of results is a tenth of a second behind, and knows nothing of requests in flight.
//! So after a kill the journal does not show which of them may have reached the target, and which
//! younger ones must have. So a ring on disk notes every change before it is issued, and again when
//! it has completed. After a kill between any two of these steps the ring is correct: a change
//! without a note was not issued; an unacknowledged one may be there or not; an acknowledged one
//! must be. The page cache outlives a process but not a power cut.
//!
//! A *durable* ring outlives that too: the notes of a step of the engine are on the disk, in one
//! synced write together with the acknowledgements before, before the step's changes are issued. It
//! also *announces* the changes that come next, as far as they are known, so that not every step
//! waits for a disk. An announced change that was not issued counts as in flight after a cut; at
//! the end of a run such notes are withdrawn.
//!
//! Layout, little-endian: 64 bytes `IOECHO-INTENTS-1`, then 8 run, 4 slots, 2 target, 1 whether it
//! is durable, zeroes up to byte 60, 4 CRC-32C of the 60 bytes before. Then slots of 64 bytes:
//!
//! ```text
//!   0 8 order of issue, from 1     8 8 request      16 8 offset      24 8 length
//!  32 8 issued, ns                40 8 completed, ns; the smallest number while in flight
//!  48 4 outcome                   52 2 flags        54 1 op          55 5 zero
//!  60 4 CRC-32C of the 60 bytes before
//! ```
//!
//! A slot is reused only when its change was acknowledged. There are more slots than results that
//! can be on their way to the journal, so an overwritten change is in the journal; the slot of one
//! whose result was lost on that way is never used again.

use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::rebuild::Change;
use crate::device::Io;

/// Notes every request that changes data before it is issued, and again when it has completed. The
/// notes survive the end of the process.
pub trait Intents {
    /// The request is about to be issued.
    fn note(&mut self, io: &Io, now: Nanos);

    /// The request, noted before, has completed.
    fn acknowledge(&mut self, io: &Io, completed: Nanos, outcome: Outcome);

    /// Whether flushes are noted too: after a power cut what they made durable counts.
    fn takes_flushes(&self) -> bool {
        false
    }

    /// Up to so many requests to come are announced, if they are known; 0: none are.
    fn notes_ahead(&self) -> usize {
        0
    }

    /// The requests noted since the last time are handed over now: their notes are written before,
    /// and what must survive a power cut is on the disk. `upcoming` are those that come next.
    fn commit(&mut self, upcoming: &mut dyn Iterator<Item = Io>, now: Nanos) {
        let _ = (upcoming, now);
    }

    /// Nothing more is issued.
    fn end(&mut self) {}

    /// Nothing is handed over for a while: acknowledgements that wait for the next notes are
    /// written now.
    fn rest(&mut self) {}

    /// The result of this request, acknowledged or not, is lost on its way to the journal: its note
    /// is all that tells of it, and must stay.
    fn keep(&mut self, request: u64) {
        let _ = request;
    }
}

/// How many requests to come are looked at for changes to announce. At 200,000 requests/s they are
/// those of five milliseconds; a sync takes a part of one.
pub const NOTED_AHEAD: usize = 1024;

/// How many changes a ring holds: 16 MiB.
pub const INTENTS_MAX: u32 = 1 << 18;

/// The size of a slot.
pub const INTENT_BYTES: usize = 64;

/// The size of what is before the slots.
pub const INTENTS_HEADER_BYTES: usize = 64;

const MAGIC: &[u8; 16] = b"IOECHO-INTENTS-1";
const CRC_AT: usize = 60;
const IN_FLIGHT: i64 = i64::MIN;

/// The header of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentsHeader {
    /// The run's number.
    pub run: u64,
    /// How many slots there are.
    pub slots: u32,
    /// Which of the run's targets.
    pub target: u16,
    /// Whether its notes were on the disk before their changes were issued.
    pub is_durable: bool,
}

impl IntentsHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; INTENTS_HEADER_BYTES] {
        let mut bytes = [0; INTENTS_HEADER_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..24].copy_from_slice(&self.run.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.slots.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.target.to_le_bytes());
        bytes[30] = u8::from(self.is_durable);
        seal(bytes)
    }

    /// The header that these bytes hold, if they hold one.
    pub fn decode(bytes: &[u8; INTENTS_HEADER_BYTES]) -> Option<Self> {
        let whole = seal(*bytes) == *bytes && bytes[..16] == *MAGIC;
        whole.then(|| Self {
            run: word(bytes, 16),
            slots: word(bytes, 24) as u32,
            target: u16::from_le_bytes([bytes[28], bytes[29]]),
            is_durable: bytes[30] != 0,
        })
    }
}

/// One change as the ring holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its place in the order of issue, counted from 1.
    pub order: u64,
    /// The request.
    pub request: u64,
    /// What it does.
    pub op: Op,
    /// How it was marked.
    pub flags: Flags,
    /// Where on the target.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
    /// When it was about to be issued.
    pub issued: Nanos,
    /// When and how it completed; `None` as long as it has not.
    pub acknowledged: Option<(Nanos, Outcome)>,
}

impl Intent {
    /// What it says of the target.
    pub fn change(&self) -> Change {
        let Self { request, op, flags, offset, length, issued, acknowledged, .. } = *self;
        let (completed, outcome) = match acknowledged {
            Some((completed, outcome)) => (Some(completed), outcome),
            None => (None, Outcome::Abandoned),
        };
        let submitted = issued;
        Change { request, op, flags, offset, length, submitted, completed, outcome }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; INTENT_BYTES] {
        let (completed, outcome) = match self.acknowledged {
            Some((completed, outcome)) => (completed.0, outcome),
            None => (IN_FLIGHT, Outcome::Abandoned),
        };
        let mut bytes = [0; INTENT_BYTES];
        let words = [self.order, self.request, self.offset.0, self.length.0];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&self.issued.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&completed.to_le_bytes());
        bytes[48..52].copy_from_slice(&outcome.code().to_le_bytes());
        bytes[52..54].copy_from_slice(&self.flags.bits().to_le_bytes());
        bytes[54] = self.op.code();
        seal(bytes)
    }

    /// The change that a slot holds; `None` if it was never used or is not whole.
    pub fn decode(bytes: &[u8; INTENT_BYTES]) -> Option<Self> {
        if seal(*bytes) != *bytes || word(bytes, 0) == 0 {
            return None;
        }
        let completed = word(bytes, 40) as i64;
        let outcome = Outcome::from_code(word(bytes, 48) as u32 as i32)?;
        Some(Self {
            order: word(bytes, 0),
            request: word(bytes, 8),
            op: Op::from_code(bytes[54])?,
            flags: Flags::from_bits(u16::from_le_bytes([bytes[52], bytes[53]]))?,
            offset: Bytes(word(bytes, 16)),
            length: Bytes(word(bytes, 24)),
            issued: Nanos(word(bytes, 32) as i64),
            acknowledged: (completed != IN_FLIGHT).then_some((Nanos(completed), outcome)),
        })
    }
}

fn word(bytes: &[u8; 64], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn seal(mut bytes: [u8; 64]) -> [u8; 64] {
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Which change is in which slot: the part of a ring that needs no disk.
#[derive(Debug)]
pub struct RingSlots {
    /// Slots whose change is in flight, or has no other record.
    busy: Vec<bool>,
    /// The last change under each tag.
    by_tag: Vec<Option<(u32, Intent)>>,
    /// Changes that were announced and not issued yet, by their requests.
    announced: FxHashMap<u64, (u32, Intent)>,
    next: u32,
    order: u64,
}

impl RingSlots {
    /// A ring of [`INTENTS_MAX`] slots, for requests with tags below `tags`.
    pub fn new(tags: u32) -> Self {
        Self::of(INTENTS_MAX, tags)
    }

    /// A ring of so many slots.
    pub fn of(slots: u32, tags: u32) -> Self {
        Self {
            busy: vec![false; slots as usize],
            by_tag: vec![None; tags as usize],
            announced: FxHashMap::with_capacity_and_hasher(NOTED_AHEAD, FxBuildHasher),
            next: 0,
            order: 0,
        }
    }

    /// Notes a change that is about to be issued: the slot to write, and what. `None` if every slot
    /// is in flight.
    pub fn note(&mut self, io: &Io, now: Nanos) -> Option<(u32, [u8; INTENT_BYTES])> {
        let (slot, intent) = self.take(io, now)?;
        self.remember(io.tag, (slot, intent));
        Some((slot, intent.encode()))
    }

    /// Notes a change that is to come: the slot to write, and what. `None` if that was done before,
    /// or there is no room.
    pub fn announce(&mut self, io: &Io, now: Nanos) -> Option<(u32, [u8; INTENT_BYTES])> {
        if self.announced.contains_key(&io.request) {
            return None;
        }
        let (slot, intent) = self.take(io, now)?;
        self.announced.insert(io.request, (slot, intent));
        Some((slot, intent.encode()))
    }

    /// Whether a change that is about to be issued was announced: then its note is there already.
    pub fn was_announced(&mut self, io: &Io) -> bool {
        let Some(noted) = self.announced.remove(&io.request) else { return false };
        let Intent { op, offset, length, flags, .. } = noted.1;
        // Otherwise it is noted as it is; the first note says no more than that it may be there.
        let is_it = (op, offset, length, flags) == (io.op, io.offset, io.length, io.flags);
        if is_it {
            self.remember(io.tag, noted);
        }
        is_it
    }

    /// What was announced is never issued: the slots to write, and what.
    pub fn withdraw(&mut self) -> impl Iterator<Item = (u32, [u8; INTENT_BYTES])> {
        let busy = &mut self.busy;
        self.announced.drain().map(|(_, (slot, mut intent))| {
            busy[slot as usize] = false;
            intent.acknowledged = Some((intent.issued, Outcome::Dropped));
            (slot, intent.encode())
        })
    }

    fn remember(&mut self, tag: u32, noted: (u32, Intent)) {
        if self.by_tag.len() <= tag as usize {
            self.by_tag.resize(tag as usize + 1, None);
        }
        self.by_tag[tag as usize] = Some(noted);
    }

    /// Takes a slot for a change.
    fn take(&mut self, io: &Io, now: Nanos) -> Option<(u32, Intent)> {
        let slots = self.busy.len() as u32;
        let free = (0..slots)
            .map(|step| (self.next + step) % slots)
            .find(|slot| !self.busy[*slot as usize])?;
        self.next = (free + 1) % slots;
        self.order += 1;
        let intent = Intent {
            order: self.order,
            request: io.request,
            op: io.op,
            flags: io.flags,
            offset: io.offset,
            length: io.length,
            issued: now,
            acknowledged: None,
        };
        self.busy[free as usize] = true;
        Some((free, intent))
    }

    /// Acknowledges the change noted under this tag: the slot to write, and what.
    pub fn acknowledge(
        &mut self,
        io: &Io,
        completed: Nanos,
        outcome: Outcome,
    ) -> Option<(u32, [u8; INTENT_BYTES])> {
        let (slot, intent) = self.by_tag.get_mut(io.tag as usize)?.as_mut()?;
        if intent.acknowledged.is_some() {
            return None;
        }
        self.busy[*slot as usize] = false;
        intent.acknowledged = Some((completed, outcome));
        Some((*slot, intent.encode()))
    }

    /// Keeps the note of this request for good. Its tag was not used again since.
    pub fn keep(&mut self, request: u64) {
        let mut last = self.by_tag.iter().flatten();
        if let Some((slot, _)) = last.find(|(_, intent)| intent.request == request) {
            self.busy[*slot as usize] = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(tag: u32, request: u64) -> Io {
        Io {
            tag,
            request,
            scheduled: Nanos(0),
            op: Op::Write,
            flags: Flags::FUA,
            offset: Bytes(request * 4096),
            length: Bytes(4096),
        }
    }

    #[test]
    fn a_change_is_in_flight_until_it_is_acknowledged() {
        let mut ring = RingSlots::new(2);
        let (slot, bytes) = ring.note(&io(1, 40), Nanos(7)).unwrap();
        let noted = Intent::decode(&bytes).unwrap();
        assert_eq!((noted.order, noted.request, noted.offset), (1, 40, Bytes(163_840)));
        assert_eq!((noted.flags, noted.issued, noted.acknowledged), (Flags::FUA, Nanos(7), None));
        let (same, bytes) = ring.acknowledge(&io(1, 40), Nanos(9), Outcome::Error(5)).unwrap();
        let acknowledged = Some((Nanos(9), Outcome::Error(5)));
        assert_eq!(same, slot);
        assert_eq!(Intent::decode(&bytes), Some(Intent { acknowledged, ..noted }));
    }

    #[test]
    fn a_slot_in_flight_is_never_used_again() {
        let mut ring = RingSlots::new(2);
        let (hanging, _) = ring.note(&io(0, 0), Nanos(0)).unwrap();
        for request in 1..u64::from(INTENTS_MAX) + 10 {
            let (slot, _) = ring.note(&io(1, request), Nanos(0)).unwrap();
            assert_ne!(slot, hanging);
            ring.acknowledge(&io(1, request), Nanos(1), Outcome::Ok).unwrap();
        }
    }

    #[test]
    fn a_change_whose_result_was_lost_stays_in_the_ring() {
        let mut ring = RingSlots::of(8, 2);
        let (kept, _) = ring.note(&io(0, 0), Nanos(0)).unwrap();
        ring.acknowledge(&io(0, 0), Nanos(1), Outcome::Ok).unwrap();
        ring.keep(0);
        // Of a read, or of what is long gone, there is nothing to keep.
        ring.keep(77);
        for request in 1..20 {
            let (slot, _) = ring.note(&io(1, request), Nanos(0)).unwrap();
            assert_ne!(slot, kept);
            ring.acknowledge(&io(1, request), Nanos(1), Outcome::Ok).unwrap();
        }
        for request in 20..27 {
            ring.note(&io(1, request), Nanos(0)).unwrap();
            ring.acknowledge(&io(1, request), Nanos(1), Outcome::Ok).unwrap();
            ring.keep(request);
        }
        assert_eq!(ring.note(&io(1, 27), Nanos(0)), None, "there is no room left");
    }

    #[test]
    fn what_was_announced_is_issued_with_its_note_or_withdrawn() {
        let mut ring = RingSlots::of(8, 2);
        let (slot, bytes) = ring.announce(&io(0, 5), Nanos(1)).unwrap();
        assert_eq!(Intent::decode(&bytes).unwrap().acknowledged, None);
        assert_eq!(ring.announce(&io(0, 5), Nanos(2)), None, "once is enough");
        ring.announce(&io(0, 6), Nanos(2)).unwrap();
        assert!(ring.was_announced(&io(1, 5)) && !ring.was_announced(&io(1, 5)));
        let (same, _) = ring.acknowledge(&io(1, 5), Nanos(3), Outcome::Ok).unwrap();
        assert_eq!(same, slot);
        let other = Io { length: Bytes(512), ..io(0, 6) };
        assert!(!ring.was_announced(&other), "its note says something else");
        ring.announce(&io(0, 7), Nanos(4)).unwrap();
        let withdrawn: Vec<_> = ring.withdraw().map(|(_, bytes)| bytes).collect();
        let withdrawn = withdrawn.iter().map(|bytes| Intent::decode(bytes).unwrap().change());
        let told: Vec<_> = withdrawn.map(|it| (it.request, it.outcome.was_issued())).collect();
        assert_eq!(told, [(7, false)]);
    }

    #[test]
    fn what_is_not_whole_is_no_change() {
        let mut ring = RingSlots::new(1);
        let (_, bytes) = ring.note(&io(0, 3), Nanos(0)).unwrap();
        for bit in 0..INTENT_BYTES * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Intent::decode(&damaged), None);
        }
        assert_eq!(Intent::decode(&[0; INTENT_BYTES]), None);
        let header = IntentsHeader { run: 5, slots: 9, target: 2, is_durable: true };
        assert_eq!(IntentsHeader::decode(&header.encode()), Some(header));
        assert_eq!(IntentsHeader::decode(&[0; INTENTS_HEADER_BYTES]), None);
    }
}
