//! Splits that older kernels record twice.
//!
//! A bio that is too large for the device is split: its first part goes on, the rest is submitted
//! once more. Kernels before 4.12 record the rest as queued anew, although it was queued already as
//! part of the whole (since then `BIO_TRACE_COMPLETION` prevents it, `block/blk-core.c`).
//!
//! On newer kernels, a request that looks like the rest of another is a real one. So no request is
//! taken for a rest if the kernel's version excludes it. Nor is one after a rest went to the
//! driver, or was split further, without having been queued again.

use std::collections::VecDeque;

use super::classify::Class;
use super::pieces::Part;
use super::row::Row;

/// The largest number of splits that are remembered, and the longest time in nanoseconds. The rest
/// of a split bio is queued by the same system call.
const SPLITS_MAX: usize = 64;
const SPLIT_PATIENCE: u64 = 10_000_000;

/// A bio that was split and whose rest may be queued once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// The instant of the split in nanoseconds of the recording's clock.
    pub(super) time: u64,
    pub(super) volume: u32,
    pub(super) class: Class,
    /// The first byte of the rest, and the first byte behind it.
    pub(super) offset: u64,
    pub(super) end: u64,
    /// The number of the request of the whole bio.
    pub(super) serial: u64,
}

/// The last splits.
#[derive(Debug, Default)]
pub(super) struct Splits {
    recent: VecDeque<Split>,
    /// Whether this kernel queues a rest only once, as part of the whole.
    is_once: bool,
}

impl Splits {
    /// Tells that the kernel does not queue rests again.
    pub(super) fn set_once(&mut self) {
        self.is_once = true;
        self.recent.clear();
    }

    /// Forgets all splits, because events are missing.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }

    /// Remembers a split.
    pub(super) fn note(&mut self, split: Split) {
        if self.is_once {
            return;
        }
        if self.recent.len() == SPLITS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(split);
    }

    /// Notes that a piece of a request was processed. If the piece is a rest that was not queued
    /// again, this kernel queues no rests again.
    #[inline]
    pub(super) fn meet(&mut self, part: &Part) {
        let is_rest = |split: &Split| (split.serial, split.offset) == (part.serial, part.begin);
        if self.recent.iter().any(is_rest) {
            self.set_once();
        }
    }

    /// Whether this request is the rest of a split, which is then forgotten. `waits` answers
    /// whether the whole request is still incomplete and of the same process.
    #[inline]
    pub(super) fn take_rest(&mut self, row: &Row, waits: impl Fn(u64) -> bool) -> bool {
        while let Some(split) = self.recent.front()
            && row.issue.saturating_sub(split.time) > SPLIT_PATIENCE
        {
            self.recent.pop_front();
        }
        let same = |split: &Split| {
            (split.volume, split.class, split.offset, split.end)
                == (row.volume, row.class, row.offset, row.end())
                && waits(split.serial)
        };
        let found = self.recent.iter().position(same);
        found.and_then(|found| self.recent.remove(found)).is_some()
    }
}
