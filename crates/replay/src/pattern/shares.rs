//! Blocks that are equal on purpose, where what they hold follows from their place.
//!
//! Each sector of such a block says how blocks are shared on its target. So anybody can tell what
//! belongs to a place without knowing the run that wrote it, and such data can be verified: what is
//! elsewhere, of another run, torn or lost is found. That a place is written again by the same run
//! changes nothing there.

use ioecho_trace::Nanos;

use super::BLOCK_BYTES;

/// Equal blocks lie so many bytes apart at least, so that compression alone does not find them.
const APART_BYTES: u64 = 4 << 20;

/// And so many blocks, so that any ratio can be kept.
const APART_LEAST: u64 = 64;

/// How blocks are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// The size of a block in units of 4 KiB.
    unit: u32,
    /// So many blocks have as many contents as lie between two that are equal.
    cycle: u32,
}

impl Shares {
    /// Blocks of so many bytes, of which so many share a content on average.
    pub(super) fn new(unit_bytes: u64, ratio: f64) -> Self {
        let unit = (unit_bytes / BLOCK_BYTES as u64).clamp(1, u64::from(u32::MAX)) as u32;
        let apart = Self { unit, cycle: 0 }.apart();
        let cycle = ((apart as f64 * ratio).round() as u64).max(apart);
        Self { unit, cycle: cycle.min(u64::from(u32::MAX)) as u32 }
    }

    /// What a sector says of it, where others have their instant.
    pub(super) const fn told(self) -> Nanos {
        Nanos(((self.cycle as i64) << 32) | self.unit as i64)
    }

    /// The same from there; `None` if it says nothing.
    pub(super) fn of(told: Nanos) -> Option<Self> {
        let shares = Self { unit: told.0 as u32, cycle: (told.0 >> 32) as u32 };
        let is_some = shares.unit > 0 && u64::from(shares.cycle) >= shares.apart();
        is_some.then_some(shares)
    }

    const fn unit_bytes(self) -> u64 {
        self.unit as u64 * BLOCK_BYTES as u64
    }

    fn apart(self) -> u64 {
        (APART_BYTES / self.unit_bytes().max(1)).max(APART_LEAST)
    }

    /// What belongs to a place: the number of the content, and the offset in the block.
    pub(super) fn at(self, place: u64) -> (u64, u64) {
        let (block, within) = (place / self.unit_bytes(), place % self.unit_bytes());
        (content(block, self.apart(), u64::from(self.cycle)), within)
    }
}

/// The number of the content of a block, where so many others lie between two that are equal.
pub(super) const fn content(block: u64, apart: u64, cycle: u64) -> u64 {
    block / cycle * apart + block % cycle % apart
}
