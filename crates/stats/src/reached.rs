//! The requests of a run in the terms of the kernel's counters, so that both can be compared.
//!
//! A replay knows the requests that it handed over; the kernel knows those that the device got.
//! Between the two lie merges, splits, full queues and other users of the device, and none of them
//! shows in a latency. So the records are counted here in the kernel's terms: requests and bytes of
//! each kind, how long they were, how they lay to blocks of any size, and how many were in flight.

use ioecho_trace::{Flags, Measured, Op, Request};

/// The unit in which the block layer counts lengths.
const SECTOR: u64 = 512;

/// Lengths up to so many sectors (2 MiB) are counted exactly, longer ones by powers of two: no
/// request queue of Linux takes more in one piece by default (`max_sectors_kb`).
const EXACT_SECTORS: usize = 4096;

/// Depths beyond this are counted as this: more than any run keeps in flight.
const DEPTH_MAX: usize = 1 << 15;

/// Powers of two that an offset and a length may be multiples of; the last stands for all above.
const BOUNDARIES: usize = 33;

/// Requests of one kind that reached a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// How many.
    pub requests: u64,
    /// How many bytes they covered.
    pub bytes: u64,
}

impl Reach {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn merge(&mut self, other: &Self) {
        let Self { requests, bytes } = other;
        self.requests += requests;
        self.bytes = self.bytes.saturating_add(*bytes);
    }
}

/// The requests that reached one of the run's targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetReach {
    /// Reads.
    pub reads: Reach,
    /// Writes.
    pub writes: Reach,
    /// Discards.
    pub discards: Reach,
    /// Write-zeroes, which the kernel counts as writes.
    pub zeroes: Reach,
    /// Flushes that the load has, those that a write brings along included.
    pub flushes: u64,
    /// Writes that must be on stable storage when they complete.
    pub forced: u64,
    /// Requests by length in sectors; the last hold the powers of two beyond.
    lengths: Vec<u64>,
    /// Writes by the largest power of two that offset and length are multiples of.
    write_boundaries: Vec<u64>,
    /// Submissions by the number then in flight.
    depths: Vec<u64>,
}

impl TargetReach {
    fn observe(&mut self, request: &Request, measured: &Measured) {
        let length = request.length.0;
        let offset = measured.target_offset.unwrap_or(request.offset).0;
        count(&mut self.depths, (measured.in_flight as usize).min(DEPTH_MAX), 1);
        self.flushes += u64::from(request.op == Op::Flush);
        match request.op {
            Op::Read => self.reads.add(length),
            Op::Write => {
                self.writes.add(length);
                self.flushes += u64::from(request.flags.contains(Flags::PREFLUSH));
                self.forced += u64::from(request.flags.contains(Flags::FUA));
                let boundary = (offset | length).trailing_zeros() as usize;
                count(&mut self.write_boundaries, boundary.min(BOUNDARIES - 1), 1);
            }
            Op::Discard => self.discards.add(length),
            Op::WriteZeroes => self.zeroes.add(length),
            _ => {}
        }
        if matches!(request.op, Op::Read | Op::Write) {
            count(&mut self.lengths, length_index(length), 1);
        }
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            reads,
            writes,
            discards,
            zeroes,
            flushes,
            forced,
            lengths,
            write_boundaries,
            depths,
        } = other;
        self.reads.merge(reads);
        self.writes.merge(writes);
        self.discards.merge(discards);
        self.zeroes.merge(zeroes);
        self.flushes += flushes;
        self.forced += forced;
        for (mine, theirs) in [
            (&mut self.lengths, lengths),
            (&mut self.write_boundaries, write_boundaries),
            (&mut self.depths, depths),
        ] {
            theirs.iter().enumerate().for_each(|(index, more)| count(mine, index, *more));
        }
    }

    /// Requests that the kernel counts as reads, writes or discards.
    pub fn requests(&self) -> u64 {
        let parts = [self.reads, self.writes, self.discards, self.zeroes];
        parts.iter().map(|part| part.requests).sum()
    }

    /// Bytes of them that move: of reads and writes.
    pub fn bytes(&self) -> u64 {
        self.reads.bytes.saturating_add(self.writes.bytes)
    }

    /// Into how many more pieces than there are reads and writes a queue cuts them that takes at
    /// most `limit` bytes in one; none where there is no limit.
    pub fn pieces_beyond(&self, limit: u64) -> u64 {
        if limit == 0 {
            return 0;
        }
        let more = |(index, requests): (usize, &u64)| {
            let pieces = length_of(index).div_ceil(limit).max(1);
            requests.saturating_mul(pieces - 1)
        };
        self.lengths.iter().enumerate().map(more).fold(0, u64::saturating_add)
    }

    /// Writes of which offset or length is no multiple of `block`, which must be a power of two; of
    /// any other number its largest power of two counts.
    pub fn misaligned_writes(&self, block: u64) -> u64 {
        let needed = if block == 0 { 0 } else { block.trailing_zeros() as usize };
        self.write_boundaries.iter().take(needed.min(BOUNDARIES - 1)).sum()
    }

    /// Submissions.
    pub fn submissions(&self) -> u64 {
        self.depths.iter().sum()
    }

    /// Submissions that left more than `depth` in flight.
    pub fn deeper_than(&self, depth: u64) -> u64 {
        let from = usize::try_from(depth).unwrap_or(usize::MAX).saturating_add(1);
        self.depths.get(from..).unwrap_or_default().iter().sum()
    }

    /// Most in flight after a submission.
    pub fn deepest(&self) -> u64 {
        self.depths.len().saturating_sub(1) as u64
    }
}

/// What reached the run's targets, fed request by request; merges with that of another part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    targets: Vec<Option<Box<TargetReach>>>,
    /// Requests submitted before they were due: the clock ran backwards, or the engine is wrong.
    pub early: u64,
    /// Requests that completed before they were submitted.
    pub backwards: u64,
}

impl Reached {
    /// Counts a request.
    pub fn observe(&mut self, request: &Request, measured: &Measured) {
        let Some(submitted) = measured.submitted.filter(|_| measured.outcome.was_issued()) else {
            return;
        };
        self.early += u64::from(submitted < measured.scheduled);
        self.backwards += u64::from(measured.completed.is_some_and(|at| at < submitted));
        self.at(measured.target).observe(request, measured);
    }

    /// Adds what another part of the run counted.
    pub fn merge(&mut self, other: &Self) {
        let Self { targets, early, backwards } = other;
        self.early += early;
        self.backwards += backwards;
        for (number, theirs) in (0..=u16::MAX).zip(targets) {
            if let Some(theirs) = theirs {
                self.at(number).merge(theirs);
            }
        }
    }

    /// The requests that reached a target; `None` if none did.
    pub fn target(&self, number: usize) -> Option<&TargetReach> {
        self.targets.get(number)?.as_deref()
    }

    fn at(&mut self, target: u16) -> &mut TargetReach {
        let number = usize::from(target);
        if self.targets.len() <= number {
            self.targets.resize(number + 1, None);
        }
        self.targets[number].get_or_insert_default()
    }
}

fn count(counts: &mut Vec<u64>, index: usize, more: u64) {
    if counts.len() <= index {
        counts.resize(index + 1, 0);
    }
    counts[index] = counts[index].saturating_add(more);
}

/// Where a length is counted.
fn length_index(bytes: u64) -> usize {
    let sectors = bytes.div_ceil(SECTOR);
    match usize::try_from(sectors) {
        Ok(sectors) if sectors <= EXACT_SECTORS => sectors,
        _ => EXACT_SECTORS + (64 - (sectors - 1).leading_zeros()) as usize,
    }
}

/// The length that is counted there, rounded up.
fn length_of(index: usize) -> u64 {
    match index.checked_sub(EXACT_SECTORS) {
        None | Some(0) => index as u64 * SECTOR,
        Some(power) => (1_u64 << power.min(54)) * SECTOR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::{Bytes, Nanos};

    fn counted(requests: &[(Op, u64, u64, u32)]) -> Reached {
        let mut reached = Reached::default();
        for &(op, offset, length, in_flight) in requests {
            let request = Request::new(Nanos::ZERO, op, Bytes(offset), Bytes(length));
            reached.observe(&request, &measured(in_flight));
        }
        reached
    }

    fn measured(in_flight: u32) -> Measured {
        Measured { in_flight, ..Measured::done(Nanos::ZERO, Nanos(5), Nanos(9)) }
    }

    #[test]
    fn a_request_longer_than_the_queue_takes_is_cut_into_pieces() {
        let reached = counted(&[(Op::Read, 0, 8192, 1), (Op::Write, 0, 20480, 1)]);
        let target = reached.target(0).unwrap();
        assert_eq!(target.pieces_beyond(8192), 2);
        assert_eq!(target.pieces_beyond(4096), 1 + 4);
        assert_eq!(target.pieces_beyond(1 << 20), 0);
        assert_eq!(target.pieces_beyond(0), 0);
        assert_eq!((target.requests(), target.bytes()), (2, 28672));
    }

    #[test]
    fn long_and_absurd_lengths_stay_within_bounds() {
        let reached = counted(&[(Op::Write, 0, 16 << 20, 1), (Op::Read, u64::MAX, u64::MAX, 1)]);
        let target = reached.target(0).unwrap();
        assert!(target.pieces_beyond(1 << 20) >= 15);
        assert!(target.lengths.len() <= EXACT_SECTORS + 65);
        assert_eq!(target.bytes(), u64::MAX);
    }

    #[test]
    fn a_write_is_misaligned_where_its_offset_or_its_length_is() {
        let reached = counted(&[
            (Op::Write, 4096, 4096, 1),
            (Op::Write, 512, 4096, 1),
            (Op::Write, 4096, 512, 1),
            (Op::Read, 512, 512, 1),
        ]);
        let target = reached.target(0).unwrap();
        assert_eq!(target.misaligned_writes(4096), 2);
        assert_eq!(target.misaligned_writes(512), 0);
        assert_eq!(target.misaligned_writes(0), 0);
    }

    #[test]
    fn submissions_are_counted_by_what_was_in_flight() {
        let reached = counted(&[(Op::Read, 0, 1, 1), (Op::Read, 0, 1, 8), (Op::Read, 0, 1, 9)]);
        let target = reached.target(0).unwrap();
        assert_eq!((target.submissions(), target.deeper_than(8), target.deepest()), (3, 1, 9));
        assert_eq!(target.deeper_than(u64::MAX), 0);
    }

    #[test]
    fn instants_in_the_wrong_order_are_counted() {
        let request = Request::new(Nanos::ZERO, Op::Read, Bytes(0), Bytes(512));
        let mut reached = Reached::default();
        reached.observe(&request, &Measured { completed: Some(Nanos(4)), ..measured(1) });
        reached.observe(&request, &Measured { scheduled: Nanos(6), ..measured(1) });
        assert_eq!((reached.backwards, reached.early), (1, 1));
    }

    #[test]
    fn parts_of_a_run_add_up_to_the_whole() {
        let one = [(Op::Read, 0, 4096, 3), (Op::Flush, 0, 0, 4)];
        let other = [(Op::Discard, 0, 1 << 30, 2), (Op::Write, 512, 1024, 7)];
        let mut parts = counted(&one);
        parts.merge(&counted(&other));
        assert_eq!(parts, counted(&[one, other].concat()));
        let mut alone = Reached::default();
        alone.merge(&parts);
        assert_eq!(alone, parts);
    }
}
