//! The owner of each buffer: free, of a draft, of a request in flight, or of a read being verified.
//!
//! Every back end needs the same buffers for the same purposes, and a buffer that gets lost or is
//! given away twice would show as wrong data on somebody's device. So there is one place that gives
//! them out and takes them back.

use ioecho_replay::{Completion, Io, Payload};
use ioecho_trace::{Bytes, Op};

use super::buffers::{Buffer, Pool, Register};
use super::drafts::{Draft, Drafts};
use super::{expected, moves_data};

/// The state of a tag.
#[derive(Debug, Default)]
struct TagState {
    is_read: bool,
    /// Bytes that the request asks for.
    length: u32,
    /// The data of a read that has completed.
    kept: Option<Buffer>,
}

/// There is no memory left for the data of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoMemory;

/// Whether a draft is of what this request writes.
fn is_of(draft: &Draft, io: &Io) -> bool {
    (draft.io.offset, draft.io.length) == (io.offset, io.length)
}

/// Makes a draft up to byte `until`.
fn fill(draft: &mut Draft, io: &Io, until: usize, payload: &mut dyn Payload) {
    if draft.made < until {
        payload.fill_from(io, draft.made, &mut draft.buffer.bytes(until)[draft.made..]);
        draft.made = until;
    }
}

/// The buffers of one device.
#[derive(Debug)]
pub(super) struct Memory {
    pool: Pool,
    drafts: Drafts,
    keeps_data: bool,
    places: Vec<TagState>,
}

impl Memory {
    /// Up to `memory_max` bytes for the data of `in_flight_max` requests.
    pub(super) fn new(memory_max: Bytes, in_flight_max: u32, register: &mut impl Register) -> Self {
        let memory_max = memory_max.0 as usize;
        Self {
            pool: Pool::new(memory_max, in_flight_max as usize, register),
            // Half of the memory stays for requests in flight.
            drafts: Drafts::new(memory_max / 2),
            keeps_data: false,
            places: (0..in_flight_max).map(|_| TagState::default()).collect(),
        }
    }

    /// See [`ioecho_replay::Device::length_max`].
    pub(super) fn length_max(&self) -> Bytes {
        Bytes(self.pool.length_max() as u64)
    }

    /// See [`ioecho_replay::Device::draft`].
    pub(super) fn draft(
        &mut self,
        io: &Io,
        until: Bytes,
        payload: &mut dyn Payload,
        register: &mut impl Register,
    ) -> bool {
        if io.op != Op::Write {
            return false;
        }
        let length = expected(io) as usize;
        let goes_on = self.drafts.get(io.request).is_some_and(|draft| is_of(draft, io));
        if !goes_on {
            self.forget(io.request);
            if !self.drafts.has_room(Pool::size_for(length)) {
                return false;
            }
            let Some(buffer) = self.pool.take_within(length, register) else { return false };
            self.drafts.begin(io, buffer);
        }
        if let Some(draft) = self.drafts.get(io.request) {
            fill(draft, io, length.min(until.0 as usize), payload);
        }
        true
    }

    /// See [`ioecho_replay::Device::forget`].
    pub(super) fn forget(&mut self, request: u64) {
        if let Some(draft) = self.drafts.take(request) {
            self.pool.give(draft.buffer);
        }
    }

    /// The buffer for a request that is about to be issued: for a write filled, by its draft where
    /// there is one. None where the request moves no data. A request that finds no memory cannot be
    /// issued.
    pub(super) fn prepare(
        &mut self,
        io: &Io,
        payload: &mut dyn Payload,
        register: &mut impl Register,
    ) -> Result<Option<Buffer>, NoMemory> {
        self.release(io.tag);
        let place = &mut self.places[io.tag as usize];
        *place = TagState { is_read: io.op == Op::Read, length: expected(io), kept: None };
        if !moves_data(io.op) {
            return Ok(None);
        }
        let length = expected(io) as usize;
        if io.op == Op::Read {
            return self.pool.take(length, register).map(Some).ok_or(NoMemory);
        }
        if let Some(mut draft) = self.drafts.take(io.request) {
            if is_of(&draft, io) {
                fill(&mut draft, io, length, payload);
                return Ok(Some(draft.buffer));
            }
            // Its payload has changed since.
            self.pool.give(draft.buffer);
        }
        let mut buffer = self.pool.take(length, register).ok_or(NoMemory)?;
        payload.fill(io, buffer.bytes(length));
        Ok(Some(buffer))
    }

    /// Takes the buffer of a completed request back, or keeps it where it is to be looked at.
    pub(super) fn finish(&mut self, completion: &Completion, buffer: Option<Buffer>) {
        let Some(buffer) = buffer else { return };
        let place = &mut self.places[completion.tag as usize];
        if self.keeps_data && place.is_read {
            place.kept = Some(buffer);
        } else {
            self.pool.give(buffer);
        }
    }

    /// See [`ioecho_replay::Device::keep_data`].
    pub(super) fn keep_data(&mut self, keep: bool) {
        self.keeps_data = keep;
    }

    /// See [`ioecho_replay::Device::data`].
    pub(super) fn data(&self, tag: u32) -> &[u8] {
        match self.places.get(tag as usize) {
            Some(TagState { kept: Some(buffer), length, .. }) => buffer.data(*length as usize),
            _ => &[],
        }
    }

    /// See [`ioecho_replay::Device::release`].
    pub(super) fn release(&mut self, tag: u32) {
        if let Some(buffer) = self.places.get_mut(tag as usize).and_then(|place| place.kept.take())
        {
            self.pool.give(buffer);
        }
    }

    /// For the run's facts.
    pub(super) fn describe(&self) -> String {
        self.pool.describe()
    }
}

#[cfg(test)]
mod tests {
    use ioecho_trace::{Flags, Integrity, Nanos, Outcome};

    use super::*;
    use crate::device::drafts::{DRAFT_BYTES_MAX, DRAFTS_MAX};

    const MIB: u64 = 1 << 20;

    /// Fills with the lowest byte of the request's number, and counts.
    #[derive(Default)]
    struct Numbered {
        filled: usize,
    }

    impl Payload for Numbered {
        fn fill_from(&mut self, io: &Io, _: usize, buffer: &mut [u8]) {
            self.filled += 1;
            buffer.fill(io.request as u8);
        }
    }

    fn request(op: Op, request: u64, length: u64) -> Io {
        Io {
            tag: 0,
            request,
            scheduled: Nanos::ZERO,
            op,
            flags: Flags::empty(),
            offset: Bytes(request * MIB),
            length: Bytes(length),
        }
    }

    fn completion(tag: u32) -> Completion {
        Completion {
            tag,
            submitted: Nanos::ZERO,
            completed: Nanos::ZERO,
            outcome: Outcome::Ok,
            integrity: Integrity::Unchecked,
        }
    }

    #[test]
    fn a_draft_is_filled_once_and_used_by_its_request() {
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let mut payload = Numbered::default();
        for number in [5, 3, 9, 4] {
            assert!(memory.draft(
                &request(Op::Write, number, 4096),
                Bytes(MIB),
                &mut payload,
                &mut ()
            ));
        }
        for number in [3, 4, 5, 9] {
            let request = request(Op::Write, number, 4096);
            let prepared = memory.prepare(&request, &mut payload, &mut ()).unwrap();
            let mut buffer = prepared.unwrap();
            assert_eq!(buffer.bytes(4096), [number as u8; 4096]);
        }
        assert_eq!(payload.filled, 4);
    }

    #[test]
    fn a_request_that_has_changed_since_is_filled_anew() {
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let mut payload = Numbered::default();
        memory.draft(&request(Op::Write, 1, 4096), Bytes(MIB), &mut payload, &mut ());
        let shorter = request(Op::Write, 1, 512);
        assert!(memory.prepare(&shorter, &mut payload, &mut ()).unwrap().is_some());
        assert_eq!(payload.filled, 2);
    }

    #[test]
    fn a_draft_is_made_in_parts_and_finished_when_its_request_is_due() {
        /// Fills each byte with the number of its block of 4 KiB.
        struct Places;
        impl Payload for Places {
            fn fill_from(&mut self, _: &Io, from: usize, buffer: &mut [u8]) {
                for (place, byte) in (from..).zip(buffer) {
                    *byte = (place / 4096) as u8;
                }
            }
        }
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let io = request(Op::Write, 1, 5 * 4096);
        for until in [4096, 3 * 4096, 2 * 4096] {
            assert!(memory.draft(&io, Bytes(until), &mut Places, &mut ()));
        }
        let mut buffer = memory.prepare(&io, &mut Places, &mut ()).unwrap().unwrap();
        let wanted: Vec<u8> = (0..5).flat_map(|block| [block; 4096]).collect();
        assert_eq!(buffer.bytes(5 * 4096), wanted);
    }

    #[test]
    fn a_forgotten_draft_gives_its_memory_back() {
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let mut payload = Numbered::default();
        let large = |number| request(Op::Write, number, MIB);
        for number in 0..4 {
            assert!(memory.draft(&large(number), Bytes(MIB), &mut payload, &mut ()), "{number}");
        }
        assert!(
            !memory.draft(&large(4), Bytes(MIB), &mut payload, &mut ()),
            "half of the memory is used"
        );
        memory.forget(2);
        memory.forget(2);
        assert!(memory.draft(&large(4), Bytes(MIB), &mut payload, &mut ()));
        assert_eq!(payload.filled, 5, "what has no room is not filled");
    }

    #[test]
    fn drafts_are_bounded_in_number_and_in_bytes() {
        let count = |length| {
            let mut memory = Memory::new(Bytes(512 * MIB), 4, &mut ());
            (0..5000)
                .take_while(|number| {
                    let io = request(Op::Write, *number, length);
                    memory.draft(&io, Bytes(MIB), &mut Numbered::default(), &mut ())
                })
                .count()
        };
        assert_eq!(count(512), DRAFTS_MAX);
        assert_eq!(count(MIB), DRAFT_BYTES_MAX / MIB as usize);
    }

    #[test]
    fn only_writes_are_drafted_and_a_second_draft_replaces_the_first() {
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let mut payload = Numbered::default();
        assert!(!memory.draft(&request(Op::Read, 1, 4096), Bytes(MIB), &mut payload, &mut ()));
        for _ in 0..1000 {
            assert!(memory.draft(&request(Op::Write, 1, 4096), Bytes(MIB), &mut payload, &mut ()));
        }
    }

    #[test]
    fn data_of_reads_are_kept_until_released_and_only_when_asked_for() {
        let mut memory = Memory::new(Bytes(8 * MIB), 4, &mut ());
        let mut payload = Numbered::default();
        let read = request(Op::Read, 1, 4096);
        let buffer = memory.prepare(&read, &mut payload, &mut ()).unwrap();
        memory.finish(&completion(0), buffer);
        assert!(memory.data(0).is_empty());

        memory.keep_data(true);
        let mut buffer = memory.prepare(&read, &mut payload, &mut ()).unwrap();
        buffer.as_mut().unwrap().bytes(4096).fill(7);
        memory.finish(&completion(0), buffer);
        assert_eq!(memory.data(0), [7; 4096]);
        memory.release(0);
        assert!(memory.data(0).is_empty());

        let write = request(Op::Write, 1, 4096);
        let buffer = memory.prepare(&write, &mut payload, &mut ()).unwrap();
        memory.finish(&completion(0), buffer);
        assert!(memory.data(0).is_empty(), "a write brings nothing");
        assert!(memory.data(4).is_empty(), "there is no such tag");
    }
}
