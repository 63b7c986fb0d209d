//! What may be seen, by definition: a list of everything that was ever done, searched through.

use ioecho_replay::Io;
use ioecho_replay::pattern::{SplitMix64, Stamp, expected_sector};
use ioecho_replay::verify::Change;
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

pub(crate) const RUN: u64 = 0xFEED;
pub(crate) const SECTORS: u64 = 24;

/// A request with everything that became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) io: Io,
    pub(crate) submitted: i64,
    /// `None` while in flight.
    pub(crate) completed: Option<i64>,
    pub(crate) outcome: Outcome,
    /// Whether the definition takes it as a success: certain to be there.
    pub(crate) certain: bool,
}

impl Done {
    /// What a later verification reads of it in the results.
    pub(crate) fn change(&self) -> Change {
        Change {
            request: self.io.request,
            op: self.io.op,
            flags: self.io.flags,
            offset: self.io.offset,
            length: self.io.length,
            submitted: Nanos(self.submitted),
            completed: self.completed.map(Nanos),
            outcome: self.outcome,
        }
    }

    pub(crate) fn covers(&self, sector: u64) -> bool {
        let first = self.io.offset.0 / 512;
        (first..first + self.io.length.0 / 512).contains(&sector)
    }

    pub(crate) fn overlaps(&self, other: &Io) -> bool {
        self.io.offset < other.offset + other.length
            && other.offset < self.io.offset + self.io.length
    }
}

/// What a sector holds or may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Before,
    Zeroes,
    Anything,
    Version(u64),
}

/// What the definition says of a sector for a read of these instants.
pub(crate) fn legal(history: &[Done], sector: u64, submitted: i64, completed: i64) -> Vec<Content> {
    let here: Vec<&Done> = history
        .iter()
        .filter(|done| done.io.op.changes_data() && done.covers(sector))
        .filter(|done| done.completed.is_none() || done.outcome.was_issued())
        .filter(|done| done.submitted <= completed)
        .collect();
    let hides = |other: &Done, ended: i64| {
        other.certain
            && other.completed.is_some_and(|completed| completed < submitted)
            && other.submitted > ended
    };
    let mut legal = Vec::new();
    if !here.iter().any(|other| hides(other, i64::MIN)) {
        legal.push(Content::Before);
    }
    for done in &here {
        let ended = done.completed.unwrap_or(i64::MAX);
        if !here.iter().any(|other| hides(other, ended)) {
            legal.push(match done.io.op {
                Op::Write => Content::Version(done.io.request),
                Op::WriteZeroes => Content::Zeroes,
                _ => Content::Anything,
            });
        }
    }
    legal
}

/// Whether what was found may be there.
pub(crate) fn permits(legal: &[Content], found: Content) -> bool {
    legal.contains(&Content::Anything)
        || legal.contains(&found)
        || (found == Content::Zeroes && legal.contains(&Content::Before))
}

/// The bytes of a sector with this content.
pub(crate) fn bytes(content: Content, sector: u64) -> [u8; 512] {
    match content {
        Content::Before | Content::Anything => [0x77; 512],
        Content::Zeroes => [0; 512],
        Content::Version(request) => expected_sector(&Stamp {
            run: RUN,
            target: 0,
            position: sector * 512,
            request,
            scheduled: Nanos(request as i64),
            index: 0,
            random: 100,
            shared: false,
        }),
    }
}

/// A request of any kind to a place among the few sectors that there are.
pub(crate) fn any_io(random: &mut SplitMix64, request: u64, tag: u32) -> Io {
    let op = match random.below(20) {
        0..=8 => Op::Write,
        9..=16 => Op::Read,
        17 => Op::WriteZeroes,
        18 => Op::Discard,
        _ => Op::Flush,
    };
    let first = random.below(SECTORS);
    let count = 1 + random.below((SECTORS - first).min(6));
    let (offset, length) = if op == Op::Flush { (0, 0) } else { (first * 512, count * 512) };
    Io {
        tag,
        request,
        scheduled: Nanos(request as i64),
        op,
        flags: if random.below(8) == 0 { Flags::FUA } else { Flags::empty() },
        offset: Bytes(offset),
        length: Bytes(length),
    }
}

pub(crate) fn any_outcome(random: &mut SplitMix64) -> Outcome {
    match random.below(24) {
        0 => Outcome::Error(5),
        1 => Outcome::Short,
        2 => Outcome::Unsupported,
        _ => Outcome::Ok,
    }
}
