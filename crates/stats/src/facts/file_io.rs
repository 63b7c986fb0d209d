//! What calls on files moved, and how much of that memory held.

use serde::{Deserialize, Serialize};

use super::merging;

/// What the calls of a run on files moved, all threads together, and how much of that was in the
/// page cache instead of on the storage. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileIo {
    /// Read by calls (`rchar` of `/proc/PID/io`, `proc_pid_io(5)`).
    pub read_bytes: u64,
    /// Fetched from the storage for that, with what was read ahead (`read_bytes` there); `None`
    /// where the kernel does not count it on a file system of the run.
    pub fetched_bytes: Option<u64>,
    /// Written by calls (`wchar` there).
    pub written_bytes: u64,
    /// By how much more data waited in memory to be written, at the end of the run than before it
    /// (`Dirty` and `Writeback` of `/proc/meminfo`). It is counted for the whole host, so at most
    /// so much of what was written.
    pub unsaved_bytes: u64,
}

impl FileIo {
    /// The share of what was read that was in memory: at least so much, because more is fetched
    /// than is asked for. `None` where it is not known.
    pub fn read_from_memory(&self) -> Option<f64> {
        let fetched = self.fetched_bytes?;
        Some(share(self.read_bytes.saturating_sub(fetched), self.read_bytes))
    }

    /// The share of what was written that was in memory alone at the end, at most.
    pub fn written_to_memory(&self) -> f64 {
        share(self.unsaved_bytes.min(self.written_bytes), self.written_bytes)
    }

    /// Adds what another run moved that went on at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self { read_bytes, fetched_bytes, written_bytes, unsaved_bytes } = other;
        merging::add_each([
            (&mut self.read_bytes, read_bytes),
            (&mut self.written_bytes, written_bytes),
            (&mut self.unsaved_bytes, unsaved_bytes),
        ]);
        // Not known of one, so not of both together.
        let both = self.fetched_bytes.zip(*fetched_bytes);
        self.fetched_bytes = both.map(|(mine, theirs)| mine.saturating_add(theirs));
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
