//! Splits that older kernels record twice.
//!
//! A bio that is too large for the device is split: its first part goes on, the rest is submitted
//! once more. Kernels before 4.12 record the rest as queued anew, although it was queued already as
//! part of the whole (since then `BIO_TRACE_COMPLETION` prevents it, `block/blk-core.c`).

use std::collections::VecDeque;

use super::classify::Class;
use super::row::Row;

/// How many splits are remembered, and for how long, in nanoseconds: the rest of a split bio is
/// queued by the same system call.
const SPLITS_MAX: usize = 64;
const SPLIT_PATIENCE: u64 = 10_000_000;

/// A bio that was split and whose rest may be queued once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Split {
    /// When, in nanoseconds of the recording's clock.
    pub(super) time: u64,
    pub(super) volume: u32,
    pub(super) class: Class,
    /// Where the rest begins and ends, in bytes.
    pub(super) offset: u64,
    pub(super) end: u64,
    /// The number of the whole's request.
    pub(super) serial: u64,
}

/// The last splits.
#[derive(Debug, Default)]
pub(super) struct Splits(VecDeque<Split>);

impl Splits {
    /// Remembers a split.
    pub(super) fn note(&mut self, split: Split) {
        if self.0.len() == SPLITS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(split);
    }

    /// Whether this request is the rest of a split whose whole, says `waits`, is not yet complete
    /// and of the same process. Such a split is forgotten.
    #[inline]
    pub(super) fn take_rest(&mut self, row: &Row, waits: impl Fn(u64) -> bool) -> bool {
        while let Some(split) = self.0.front()
            && row.issue.saturating_sub(split.time) > SPLIT_PATIENCE
        {
            self.0.pop_front();
        }
        let same = |split: &Split| {
            (split.volume, split.class, split.offset, split.end)
                == (row.volume, row.class, row.offset, row.end())
                && waits(split.serial)
        };
        let found = self.0.iter().position(same);
        found.and_then(|found| self.0.remove(found)).is_some()
    }
}
