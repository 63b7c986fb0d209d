//! Whether the results of the next run fit on the disk.
//!
//! A campaign that fills its disk would try each of its cells in vain. So it ends before the run
//! that may not fit, and goes on where there is room again.

use std::cell::Cell;

use ioecho_trace::Bytes;

use super::store::Store;

/// What a run reserves until its end, and what the campaign itself writes.
const LEAST: u64 = 16 << 20;

/// The space that runs took.
#[derive(Debug, Default)]
pub(super) struct Room {
    largest: Cell<u64>,
}

impl Room {
    /// The space that is free, and the space that is needed, if that is more: twice that of the
    /// largest run so far, beside others that go on.
    pub(super) fn lacking(&self, store: &Store, going: usize) -> Option<(Bytes, Bytes)> {
        let needed = LEAST + 2 * self.largest.get() * (going as u64 + 1);
        // A file system that does not tell is written to until it refuses.
        let free = Self::free(store).filter(|free| *free < needed)?;
        Some((Bytes(free), Bytes(needed)))
    }

    /// The space that is free.
    pub(super) fn free(store: &Store) -> Option<u64> {
        store.place().space().map(|(free, _)| free).ok()
    }

    /// Notes the space that a run took, before which so much was free. Others may write meanwhile,
    /// which makes it larger.
    pub(super) fn count(&self, store: &Store, before: Option<u64>) {
        if let (Some(before), Some(after)) = (before, Self::free(store)) {
            self.largest.set(self.largest.get().max(before.saturating_sub(after)));
        }
    }
}
