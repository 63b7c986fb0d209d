//! The buffer of one processor for one device, as a stream of whole records.
//!
//! The kernel returns reserved bytes, and reserves a record before it writes it: a reader on
//! another processor may get half a record. On the same processor this cannot happen, because
//! interrupts are off in between (`__blk_add_trace`, kernel/trace/blktrace.c). So the caller of
//! [`fill`](Relay::fill) must run there, as each of blktrace's threads does.
//!
//! A read may end inside a record. Its rest comes with the next one and is put together here, so
//! that each frame has whole records.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

use crate::record::tracer::Contents;

/// How much is read at a time.
const READ_BYTES: usize = 128 << 10;

/// `BLK_IO_TRACE_MAGIC` without the low byte, which is the version.
const MAGIC: u32 = 0x65_6174;

/// The longest record: header of version 8, and a payload whose length has 16 bits.
pub(super) const RECORD_MAX: usize = 64 + u16::MAX as usize;

/// What is known of a record without understanding it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub(super) time: u64,
    /// Header and payload, in bytes.
    pub(super) length: usize,
    /// Its number on its processor, from 1; 0 for messages, which have none.
    sequence: u32,
}

/// One relay file.
#[derive(Debug)]
pub(super) struct Relay<R = File> {
    file: R,
    buffer: Vec<u8>,
    /// What of the buffer was read and not given on.
    waiting: Range<usize>,
    last_sequence: u32,
    /// Records given on, without messages.
    pub(super) events: u64,
    /// Numbers that were passed over: events that found no room. Kernels before 6.19 count only
    /// what found room, and leave no gap.
    pub(super) missing: u64,
    /// Bytes given on that are no record.
    pub(super) junk: u64,
}

impl<R: Read> Relay<R> {
    pub(super) fn new(file: R) -> Self {
        Self {
            file,
            buffer: vec![0; READ_BYTES + RECORD_MAX],
            waiting: 0..0,
            last_sequence: 0,
            events: 0,
            missing: 0,
            junk: 0,
        }
    }

    pub(super) fn file(&self) -> &R {
        &self.file
    }

    /// Reads as much as there is room for. Answers whether the kernel has no more now.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        self.buffer.copy_within(self.waiting.clone(), 0);
        self.waiting = 0..self.waiting.len();
        while self.waiting.end < self.buffer.len() {
            match self.file.read(&mut self.buffer[self.waiting.end..]) {
                Ok(0) => return Ok(true),
                Ok(read) => self.waiting.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// The next record, if all of it is here. Bytes that are no record count as one, at time zero,
    /// up to the next record: they are passed on unchanged, and the reader reports them.
    pub(super) fn next(&self) -> Option<Record> {
        let bytes = &self.buffer[self.waiting.clone()];
        match head(bytes) {
            Head::Record(record) => (record.length <= bytes.len()).then_some(record),
            Head::Short => None,
            Head::None => {
                let begins = |at: &usize| !matches!(head(&bytes[*at..]), Head::None);
                let length = (1..bytes.len()).find(begins).unwrap_or(bytes.len());
                Some(Record { time: 0, length: length.min(RECORD_MAX), sequence: 0 })
            }
        }
    }

    /// Gives the record on that [`next`](Self::next) has answered.
    pub(super) fn take(&mut self, record: Record, to: &mut [u8]) {
        let from = self.waiting.start..self.waiting.start + record.length;
        self.waiting.start = from.end;
        to[..record.length].copy_from_slice(&self.buffer[from]);
        if record.time == 0 {
            self.junk += record.length as u64;
        }
        if record.sequence == 0 {
            return;
        }
        self.events += 1;
        let step = record.sequence.wrapping_sub(self.last_sequence);
        // The counter begins with the trace; a step back is a damaged record.
        if step < u32::MAX / 2 {
            self.missing += u64::from(step.saturating_sub(1));
            self.last_sequence = record.sequence;
        }
    }
}

/// What whole records hold that were given on, messages not counted.
pub(super) fn contents(chunk: &[u8]) -> Contents {
    let (mut contents, mut at) = (Contents::default(), 0);
    while at < chunk.len() {
        match head(&chunk[at..]) {
            Head::Record(record) => {
                if record.sequence > 0 {
                    contents.events += 1;
                    if contents.events == 1 {
                        contents.first_ns = record.time;
                    }
                    contents.last_ns = record.time;
                }
                at += record.length;
            }
            Head::Short => break,
            Head::None => at += 1,
        }
    }
    contents
}

/// What begins at some place.
enum Head {
    Record(Record),
    /// A record may begin here; too little is known yet.
    Short,
    None,
}

/// Reads the head of a record (`struct blk_io_trace`, `struct blk_io_trace2`), which is in the
/// byte order of this machine.
fn head(bytes: &[u8]) -> Head {
    let Some(word) = bytes.first_chunk().copied().map(u32::from_ne_bytes) else {
        return Head::Short;
    };
    let (header, length_at) = match (word >> 8, word & 0xff) {
        (MAGIC, 7) => (48, 46),
        (MAGIC, 8) => (64, 50),
        _ => return Head::None,
    };
    let Some(bytes) = bytes.get(..header) else { return Head::Short };
    let number = |at: usize| bytes[at..].first_chunk().copied().map_or(0, u32::from_ne_bytes);
    let time = bytes[8..].first_chunk().copied().map_or(0, u64::from_ne_bytes);
    let payload = bytes[length_at..].first_chunk().copied().map_or(0, u16::from_ne_bytes);
    Head::Record(Record {
        time: time.max(1),
        length: header + usize::from(payload),
        sequence: number(4),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A record of version 7 or 8 with a payload of so many bytes.
    pub(in crate::record::blktrace) fn record(
        version: u8,
        sequence: u32,
        time: u64,
        payload: u16,
    ) -> Vec<u8> {
        let (header, length_at) = if version == 7 { (48, 46) } else { (64, 50) };
        let mut bytes = vec![0x5a; header + usize::from(payload)];
        bytes[..4].copy_from_slice(&(MAGIC << 8 | u32::from(version)).to_ne_bytes());
        bytes[4..8].copy_from_slice(&sequence.to_ne_bytes());
        bytes[8..16].copy_from_slice(&time.to_ne_bytes());
        bytes[length_at..length_at + 2].copy_from_slice(&payload.to_ne_bytes());
        bytes
    }

    /// A file that gives its parts one at a time, and nothing between.
    pub(in crate::record::blktrace) struct Parts(pub(in crate::record::blktrace) VecDeque<Vec<u8>>);

    impl Read for Parts {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some(mut part) = self.0.pop_front() else { return Ok(0) };
            let length = part.len().min(buffer.len());
            buffer[..length].copy_from_slice(&part[..length]);
            if length < part.len() {
                self.0.push_front(part.split_off(length));
            }
            Ok(length)
        }
    }

    /// All that comes out, record by record.
    fn drained<R: Read>(relay: &mut Relay<R>) -> Vec<Vec<u8>> {
        let (mut records, mut chunk) = (Vec::new(), vec![0; RECORD_MAX]);
        loop {
            let is_empty = relay.fill().unwrap();
            while let Some(record) = relay.next() {
                relay.take(record, &mut chunk);
                records.push(chunk[..record.length].to_vec());
            }
            if is_empty {
                return records;
            }
        }
    }

    #[test]
    fn records_are_whole_wherever_a_read_ends() {
        let records =
            [record(7, 1, 5, 0), record(8, 2, 6, 16), record(7, 0, 7, 130), record(7, 3, 8, 0)];
        let bytes = records.concat();
        for cut in 0..=bytes.len() {
            let parts = [&bytes[..cut], &[], &bytes[cut..]].map(<[u8]>::to_vec);
            let mut relay = Relay::new(Parts(parts.into()));
            let mut read = drained(&mut relay);
            read.extend(drained(&mut relay));
            read.extend(drained(&mut relay));
            assert_eq!(read, records, "{cut}");
            assert_eq!((relay.events, relay.missing, relay.junk), (3, 0, 0));
        }
    }

    #[test]
    fn what_a_chunk_holds_is_counted_without_messages() {
        let records = [record(7, 0, 3, 130), record(8, 2, 6, 16), record(7, 3, 8, 0)].concat();
        assert_eq!(contents(&records), Contents { events: 2, first_ns: 6, last_ns: 8 });
        assert_eq!(contents(&[b"junk", &records[..]].concat()).events, 2);
        assert_eq!((contents(&[]), contents(&records[..20])), Default::default());
    }

    #[test]
    fn more_than_the_buffer_holds_comes_in_order() {
        let records: Vec<_> = (1..=20_000).map(|n| record(7, n, u64::from(n), 7)).collect();
        let mut relay = Relay::new(Parts([records.concat()].into()));
        assert_eq!(drained(&mut relay), records);
    }

    #[test]
    fn numbers_passed_over_are_events_lost() {
        let records = [record(8, 3, 1, 0), record(8, 4, 2, 0), record(8, 9, 3, 0)];
        let mut relay = Relay::new(Parts([records.concat()].into()));
        drained(&mut relay);
        assert_eq!((relay.events, relay.missing), (3, 6));
    }

    #[test]
    fn what_is_no_record_goes_on_and_is_counted() {
        let (first, last) = (record(7, 1, 1, 0), record(7, 2, 2, 0));
        let bytes = [&first[..], b"junk that is no record", &last[..]].concat();
        let mut relay = Relay::new(Parts([bytes.clone()].into()));
        assert_eq!(drained(&mut relay).concat(), bytes);
        assert_eq!((relay.events, relay.junk), (2, 22));
    }
}
