//! Whether the results of the next run fit on the disk.
//!
//! A campaign that fills its disk would try each of its cells in vain. So it ends before the run
//! that may not fit, and goes on where there is room again.

use std::cell::Cell;

use super::store::Store;

/// What a run reserves until its end, and what the campaign itself writes.
const LEAST: u64 = 16 << 20;

/// The space that runs took.
#[derive(Debug, Default)]
pub(super) struct Room {
    largest: Cell<u64>,
}

impl Room {
    /// Whether twice the largest run so far would fit.
    pub(super) fn is_enough(&self, store: &Store) -> bool {
        // A file system that does not tell is written to until it refuses.
        let free = store.place().space().map_or(u64::MAX, |(free, _)| free);
        free >= LEAST + 2 * self.largest.get()
    }

    /// Notes the space that something took. Others may write meanwhile, which makes it larger.
    pub(super) fn counted<T>(&self, store: &Store, run: impl FnOnce() -> T) -> T {
        let free = || store.place().space().map(|(free, _)| free).ok();
        let before = free();
        let came = run();
        if let (Some(before), Some(after)) = (before, free()) {
            self.largest.set(self.largest.get().max(before.saturating_sub(after)));
        }
        came
    }
}
