//! The journal: the results of a run while it runs.
//!
//! A Parquet file is unreadable until its footer is written, and a run that is killed never writes
//! one. So results are appended to a plain file of fixed-size records, in the order of their
//! completion, which is readable up to its last whole record at any moment; when the run ends (or
//! later, if it was killed) it is put into the order of issue and becomes the native file.
//!
//! Layout, little-endian: 16 bytes `IOECHO-JOURNAL-5`, 8 the run's number, then records of
//! [`RECORD_BYTES`]:
//!
//! ```text
//!   0 8 seq        8 8 scheduled   16 8 issue      24 8 submitted   32 8 completed
//!  40 8 offset    48 8 length      56 8 latency    64 8 offset on the target
//!  72 4 volume    76 4 pid         80 4 cpu        84 4 in flight   88 4 outcome
//!  92 2 flags     94 1 op
//!  95 1 bits: 1 pushed back, 2 origin known; bits 4..7 cause of lateness
//!  96 2 target    98 1 integrity  99 1 zero
//! 100 4 behind
//! 104 2 flow     106 2 zero
//! 108 4 CRC-32C of the 108 bytes before
//! ```
//!
//! Version 4 has no flow, and version 3 no `behind` either, so their checksums stand four and eight
//! bytes earlier.
//!
//! Instants in ns as in [`ioecho_trace::Measured`]; an unknown one is the smallest 64-bit number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};

use ioecho_trace::{
    Bytes, Flags, Integrity, LateCause, Measured, Nanos, Op, Origin, Outcome, Request, VolumeId,
};

use crate::plan::Planned;
use crate::schedule::Record;

/// How a journal begins, and how those of the versions before did.
const JOURNAL_MAGIC: &[u8; 16] = b"IOECHO-JOURNAL-5";
const JOURNAL_MAGIC_4: &[u8; 16] = b"IOECHO-JOURNAL-4";
const JOURNAL_MAGIC_3: &[u8; 16] = b"IOECHO-JOURNAL-3";

/// The size of what is before the records.
pub const JOURNAL_HEADER_BYTES: usize = 24;

/// The size of a record.
pub const RECORD_BYTES: usize = 112;

/// The sizes of records of versions 4 and 3.
const RECORD_BYTES_4: usize = 108;
const RECORD_BYTES_3: usize = 104;

/// The size of the record's checksum, with which it ends.
const CRC_BYTES: usize = 4;

/// Where the instants and the outcome stand that are looked at on the way.
const SCHEDULED_AT: usize = 8;
const SUBMITTED_AT: usize = 24;
const OUTCOME_AT: usize = 88;

/// Where `behind` stands.
const BEHIND_AT: usize = 100;

/// Where the flow stands.
const FLOW_AT: usize = 104;

const UNKNOWN: i64 = i64::MIN;
const PUSHED_BACK: u8 = 1;
const ORIGIN_KNOWN: u8 = 2;

/// The bytes before the records, for a run of this number.
pub fn header(run: u64) -> [u8; JOURNAL_HEADER_BYTES] {
    let mut bytes = [0; JOURNAL_HEADER_BYTES];
    bytes[..JOURNAL_MAGIC.len()].copy_from_slice(JOURNAL_MAGIC);
    bytes[JOURNAL_MAGIC.len()..].copy_from_slice(&run.to_le_bytes());
    bytes
}

/// A record as the journal has it. On its way there it has no checksum yet: the thread that makes
/// the load passes half as many bytes on as the record itself has, and the one that writes seals
/// them.
pub type Row = [u8; RECORD_BYTES];

/// The record's bytes, with their checksum.
pub fn encode(record: &Record) -> Row {
    let mut row = unsealed(record);
    seal(&mut row);
    row
}

/// Adds the checksum.
pub fn seal(row: &mut Row) {
    let crc = crc32c::crc32c(&row[..RECORD_BYTES - CRC_BYTES]);
    row[RECORD_BYTES - CRC_BYTES..].copy_from_slice(&crc.to_le_bytes());
}

/// The record's bytes without a checksum.
pub fn unsealed(record: &Record) -> Row {
    let Record { planned, measured } = record;
    let instant = |value: Option<Nanos>| value.map_or(UNKNOWN, |nanos| nanos.0);
    let origin = planned.origin.unwrap_or_default();
    let mut bits = (measured.late_cause as u8) << 4;
    bits |= if measured.pushed_back { PUSHED_BACK } else { 0 };
    bits |= if planned.origin.is_some() { ORIGIN_KNOWN } else { 0 };
    let mut bytes = [0; RECORD_BYTES];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&planned.seq.to_le_bytes());
    put(&planned.scheduled.0.to_le_bytes());
    put(&planned.issue.0.to_le_bytes());
    put(&instant(measured.submitted).to_le_bytes());
    put(&instant(measured.completed).to_le_bytes());
    put(&planned.trace_offset.0.to_le_bytes());
    put(&planned.length.0.to_le_bytes());
    put(&instant(planned.latency).to_le_bytes());
    let target = measured.target_offset.map_or(UNKNOWN, |offset| offset.0 as i64);
    put(&target.to_le_bytes());
    put(&planned.volume.0.to_le_bytes());
    put(&origin.pid.to_le_bytes());
    put(&origin.cpu.to_le_bytes());
    put(&measured.in_flight.to_le_bytes());
    put(&measured.outcome.code().to_le_bytes());
    put(&planned.flags.bits().to_le_bytes());
    put(&[planned.op.code(), bits]);
    put(&measured.target.to_le_bytes());
    put(&[measured.integrity as u8, 0]);
    put(&measured.behind.to_le_bytes());
    put(&measured.flow.to_le_bytes());
    bytes
}

/// By how much the request was submitted after it was due; `None` if it was not submitted.
pub fn lateness(row: &Row) -> Option<Nanos> {
    let instant = |at: usize| i64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"));
    let (scheduled, submitted) = (instant(SCHEDULED_AT), instant(SUBMITTED_AT));
    (submitted != UNKNOWN).then(|| Nanos(submitted).saturating_sub(Nanos(scheduled)))
}

/// Whether the request succeeded.
pub fn succeeded(row: &Row) -> bool {
    row[OUTCOME_AT..OUTCOME_AT + 4] == Outcome::Ok.code().to_le_bytes()
}

/// The record that these bytes hold, of this version or of versions 3 and 4; `None` if they hold
/// none.
pub fn decode(bytes: &[u8]) -> Option<Record> {
    if ![RECORD_BYTES, RECORD_BYTES_4, RECORD_BYTES_3].contains(&bytes.len()) {
        return None;
    }
    let (row, crc) = bytes.split_at(bytes.len() - CRC_BYTES);
    let is_whole = crc32c::crc32c(row).to_le_bytes() == crc;
    is_whole.then(|| of_row(bytes)).flatten()
}

/// The same of bytes that were made by [`unsealed`], whatever their checksum.
pub fn of_row(bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let instant = |at: usize| (word(at) != UNKNOWN).then_some(Nanos(word(at)));
    let crc_at = bytes.len() - CRC_BYTES;
    let behind = if crc_at > BEHIND_AT { half(BEHIND_AT) } else { 0 };
    let quarter = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let flow = if crc_at > FLOW_AT { quarter(FLOW_AT) } else { 0 };
    let bits = bytes[95];
    let target = quarter(96);
    let target_offset = instant(64).map(|at| Bytes(at.0 as u64));
    let trace_offset = Bytes(word(40) as u64);
    let origin = Origin { pid: half(76), cpu: half(80) };
    let outcome = Outcome::from_code(half(88) as i32)?;
    let scheduled = Nanos(word(8));
    let planned = Planned {
        seq: word(0) as u64,
        scheduled,
        issue: Nanos(word(16)),
        op: Op::from_code(bytes[94])?,
        flags: Flags::from_bits(quarter(92))?,
        trace_offset,
        offset: target_offset.unwrap_or(trace_offset),
        length: Bytes(word(48) as u64),
        volume: VolumeId(half(72)),
        latency: instant(56),
        recorded_in_flight: 0,
        target,
        origin: (bits & ORIGIN_KNOWN != 0).then_some(origin),
        refusal: (!outcome.was_issued()).then_some(outcome),
        think: None,
        behind,
        flow,
        held: None,
    };
    let measured = Measured {
        scheduled,
        submitted: instant(24),
        completed: instant(32),
        target_offset,
        in_flight: half(84),
        outcome,
        pushed_back: bits & PUSHED_BACK != 0,
        late_cause: LateCause::from_code(bits >> 4)?,
        target,
        integrity: Integrity::from_code(bytes[98])?,
        behind,
        flow,
    };
    Some(Record { planned, measured })
}

/// The record as a row of a trace: the trace's request, with what was measured of it.
pub fn to_request(record: &Record) -> Request {
    let Record { planned, measured } = record;
    Request {
        issue: planned.issue,
        op: planned.op,
        flags: planned.flags,
        offset: planned.trace_offset,
        length: planned.length,
        volume: planned.volume,
        latency: planned.latency,
        origin: planned.origin,
        measured: Some(*measured),
    }
}

/// How many records are held back to put them into order. A request that completes after more than
/// this many younger ones comes out of order, and is counted.
const REORDER_MAX: usize = 1 << 20;

/// The same where records are ordered by their instants of issue, which have gaps.
const REORDER_BY_ISSUE: usize = 1 << 18;

/// What decides in which order records are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalOrder {
    /// Their numbers, which have no gaps.
    Number,
    /// Their instants of issue: the lanes of flows number their requests each for itself.
    Issue,
}

/// Reads a journal and gives its records in order.
pub struct JournalReader<R> {
    reader: R,
    order: JournalOrder,
    /// Held back until every earlier one was given; the first first.
    held: BinaryHeap<Reverse<(u64, u64, HeldRecord)>>,
    /// The least number, or instant of issue, that is in order.
    next: u64,
    ended: bool,
    /// The size of its records.
    record_bytes: usize,
    /// The number of the run that wrote it.
    pub run: u64,
    /// Records that are no records, and the bytes of a last one that is not whole.
    pub damaged_records: u64,
    /// How many of them no whole record has followed yet. At the end of the journal, a single one
    /// may be a write interrupted by a kill.
    pub damaged_last: u64,
    /// Records given after a younger one.
    pub disordered: u64,
}

/// A record that is ignored in comparisons, because the number before it decides.
struct HeldRecord(Record);

impl PartialEq for HeldRecord {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for HeldRecord {}
impl PartialOrd for HeldRecord {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for HeldRecord {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<R: Read> JournalReader<R> {
    /// A reader, if `reader` gives a journal.
    pub fn new(mut reader: R) -> io::Result<Self> {
        let (mut magic, mut run) = ([0; JOURNAL_MAGIC.len()], [0; 8]);
        reader.read_exact(&mut magic)?;
        reader.read_exact(&mut run)?;
        let record_bytes = match &magic {
            JOURNAL_MAGIC => RECORD_BYTES,
            JOURNAL_MAGIC_4 => RECORD_BYTES_4,
            JOURNAL_MAGIC_3 => RECORD_BYTES_3,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "not a journal of ioecho")),
        };
        let held = BinaryHeap::new();
        Ok(Self {
            reader,
            order: JournalOrder::Number,
            held,
            next: 0,
            ended: false,
            record_bytes,
            run: u64::from_le_bytes(run),
            damaged_records: 0,
            damaged_last: 0,
            disordered: 0,
        })
    }

    /// The same in another order than that of the numbers.
    #[must_use]
    pub fn ordered_by(self, order: JournalOrder) -> Self {
        Self { order, ..self }
    }

    /// The place of a record in the order, and of one that may follow it.
    fn place(&self, record: &Record) -> (u64, u64) {
        match self.order {
            JournalOrder::Number => (record.planned.seq, record.planned.seq + 1),
            JournalOrder::Issue => {
                let issue = record.planned.issue.0.max(0).unsigned_abs();
                (issue, issue)
            }
        }
    }

    /// Whether the first of those held back, whose place this is, may be given.
    fn may_give(&self, place: u64) -> bool {
        match self.order {
            JournalOrder::Number => place <= self.next || self.held.len() >= REORDER_MAX,
            JournalOrder::Issue => self.held.len() >= REORDER_BY_ISSUE,
        }
    }

    /// The next record; `None` at the end.
    pub fn next_record(&mut self) -> io::Result<Option<Record>> {
        loop {
            let may_give = match self.held.peek() {
                Some(Reverse((place, ..))) => self.ended || self.may_give(*place),
                None => false,
            };
            if may_give {
                let record = self.held.pop().map(|Reverse((.., held))| held.0);
                if let Some(record) = &record {
                    let (place, next) = self.place(record);
                    self.disordered += u64::from(place < self.next);
                    self.next = self.next.max(next);
                }
                return Ok(record);
            }
            if self.ended {
                return Ok(None);
            }
            self.read_one()?;
        }
    }

    fn read_one(&mut self) -> io::Result<()> {
        let mut whole = [0; RECORD_BYTES];
        let bytes = &mut whole[..self.record_bytes];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.reader.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if filled < bytes.len() {
            self.ended = true;
            self.damaged_records += u64::from(filled > 0);
            self.damaged_last += u64::from(filled > 0);
        } else if let Some(record) = decode(bytes) {
            self.damaged_last = 0;
            let (place, _) = self.place(&record);
            self.held.push(Reverse((place, record.planned.seq, HeldRecord(record))));
        } else {
            self.damaged_records += 1;
            self.damaged_last += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN: u64 = 0x1234_5678_9ABC_DEF0;

    fn record(seq: u64) -> Record {
        let planned = Planned {
            seq,
            scheduled: Nanos(seq as i64 * 10),
            issue: Nanos(seq as i64 * 20),
            op: Op::Write,
            flags: Flags::FUA | Flags::SYNC,
            trace_offset: Bytes(seq * 8192),
            offset: Bytes(seq * 4096),
            length: Bytes(4096),
            volume: VolumeId(2),
            latency: seq.is_multiple_of(2).then_some(Nanos(5)),
            recorded_in_flight: 0,
            target: (seq % 3) as u16,
            origin: seq.is_multiple_of(3).then_some(Origin { pid: 7, cpu: 1 }),
            refusal: None,
            think: None,
            behind: seq as u32 % 7,
            flow: seq as u16 % 5,
            held: None,
        };
        let measured = Measured {
            scheduled: planned.scheduled,
            submitted: Some(Nanos(1)),
            completed: (!seq.is_multiple_of(5)).then_some(Nanos(2)),
            target_offset: Some(Bytes(seq * 4096)),
            in_flight: 4,
            outcome: if seq.is_multiple_of(5) { Outcome::Abandoned } else { Outcome::Error(5) },
            pushed_back: seq.is_multiple_of(4),
            late_cause: LateCause::Conflict,
            target: planned.target,
            integrity: Integrity::Torn,
            behind: planned.behind,
            flow: planned.flow,
        };
        Record { planned, measured }
    }

    fn read_all(journal: &[u8]) -> (Vec<Record>, u64) {
        let mut reader = JournalReader::new(journal).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push(record);
        }
        (records, reader.damaged_records)
    }

    fn journal(seqs: &[u64]) -> Vec<u8> {
        let mut bytes = header(RUN).to_vec();
        for seq in seqs {
            bytes.extend(encode(&record(*seq)));
        }
        bytes
    }

    #[test]
    fn a_row_tells_what_its_record_does_before_it_is_sealed() {
        for seq in 0..6 {
            let mut one = record(seq);
            one.measured.submitted = (seq % 2 == 0).then_some(Nanos(seq as i64 * 13));
            one.measured.outcome = [Outcome::Ok, one.measured.outcome][seq as usize % 2];
            let row = unsealed(&one);
            assert_eq!(lateness(&row), one.measured.lateness());
            assert_eq!(succeeded(&row), one.measured.outcome == Outcome::Ok);
            assert_eq!(of_row(&row), Some(one));
            assert_eq!((decode(&row), decode(&encode(&one))), (None, Some(one)));
        }
    }

    #[test]
    fn records_come_back_in_the_order_of_their_numbers() {
        let (records, damaged) = read_all(&journal(&[2, 0, 1, 5, 3, 4]));
        assert_eq!(records, (0..6).map(record).collect::<Vec<_>>());
        assert_eq!(damaged, 0);
        assert_eq!(JournalReader::new(&journal(&[])[..]).unwrap().run, RUN);
    }

    #[test]
    fn records_of_several_lanes_come_back_in_the_order_of_their_issue() {
        let mut bytes = header(RUN).to_vec();
        // Two lanes, one of which is ten times as fast.
        let numbers =
            (0..40_u64).map(|n| (2 * n, n * 10)).chain((0..4).map(|n| (2 * n + 1, n * 100)));
        for (seq, issue) in numbers {
            let one = record(seq);
            let planned = Planned { issue: Nanos(issue as i64), ..one.planned };
            bytes.extend(encode(&Record { planned, ..one }));
        }
        let mut reader = JournalReader::new(&bytes[..]).unwrap().ordered_by(JournalOrder::Issue);
        let mut issues = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            issues.push(record.planned.issue);
        }
        assert!(issues.len() == 44 && issues.is_sorted());
        assert_eq!(reader.disordered, 0);
    }

    #[test]
    fn journals_of_versions_3_and_4_are_read() {
        for (magic, end) in [(JOURNAL_MAGIC_3, BEHIND_AT), (JOURNAL_MAGIC_4, FLOW_AT)] {
            let mut bytes = header(RUN).to_vec();
            bytes[..magic.len()].copy_from_slice(magic);
            for seq in 0..4 {
                let old = &encode(&record(seq))[..end];
                bytes.extend(old);
                bytes.extend(crc32c::crc32c(old).to_le_bytes());
            }
            let without = |seq| {
                let Record { planned, measured } = record(seq);
                let behind = if end > BEHIND_AT { planned.behind } else { 0 };
                Record {
                    planned: Planned { behind, flow: 0, ..planned },
                    measured: Measured { behind, flow: 0, ..measured },
                }
            };
            assert_eq!(read_all(&bytes), ((0..4).map(without).collect(), 0));
        }
    }

    #[test]
    fn a_journal_cut_anywhere_gives_every_whole_record() {
        let whole = journal(&[0, 1, 2, 3]);
        for cut in JOURNAL_HEADER_BYTES..whole.len() {
            let (records, damaged) = read_all(&whole[..cut]);
            let kept = cut - JOURNAL_HEADER_BYTES;
            assert_eq!(records.len(), kept / RECORD_BYTES);
            assert_eq!(damaged, u64::from(!kept.is_multiple_of(RECORD_BYTES)));
        }
    }

    #[test]
    fn damage_inside_is_told_apart_from_a_cut_at_the_end() {
        let whole = journal(&[0, 1, 2, 3]);
        let damage = |record: usize, length: usize| {
            let mut damaged = whole[..length].to_vec();
            damaged[JOURNAL_HEADER_BYTES + record * RECORD_BYTES + 50] ^= 4;
            let mut reader = JournalReader::new(&damaged[..]).unwrap();
            while reader.next_record().unwrap().is_some() {}
            (reader.damaged_records, reader.damaged_last)
        };
        assert_eq!(damage(1, whole.len()), (1, 0));
        assert_eq!(damage(3, whole.len()), (1, 1));
        assert_eq!(damage(1, whole.len() - 1), (2, 1));
        assert_eq!(damage(2, whole.len() - 1), (2, 2));
    }

    #[test]
    fn a_request_that_never_completed_leaves_a_gap_and_nothing_else() {
        let (records, _) = read_all(&journal(&[3, 1, 4]));
        assert_eq!(records.iter().map(|r| r.planned.seq).collect::<Vec<_>>(), [1, 3, 4]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut journal = header(RUN).to_vec();
            journal.extend(bytes);
            read_all(&journal);
        }
    }
}
