//! What calls on files moved, and how much of that memory held.

use serde::{Deserialize, Serialize};

use super::{merging, share};

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
    /// Written to files that were opened neither past the page cache nor to wait for the disk, so
    /// that each of these calls was over when its data were in memory; `None` where a recording
    /// decides who waits.
    pub unsynced_bytes: Option<u64>,
}

impl FileIo {
    /// The share of what was read that was in memory: at least so much, because more is fetched
    /// than is asked for. `None` where it is not known.
    pub fn read_from_memory(&self) -> Option<f64> {
        let fetched = self.fetched_bytes?;
        Some(share(self.read_bytes.saturating_sub(fetched), self.read_bytes))
    }

    /// The share of what was written that nobody waited for. `None` where it is not known.
    pub fn written_to_memory(&self) -> Option<f64> {
        Some(share(self.unsynced_bytes?, self.written_bytes))
    }

    /// Adds what another run moved that went on at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self { read_bytes, fetched_bytes, written_bytes, unsynced_bytes } = other;
        merging::add_each([
            (&mut self.read_bytes, read_bytes),
            (&mut self.written_bytes, written_bytes),
        ]);
        // Not known of one, so not of both together.
        for (mine, theirs) in
            [(&mut self.fetched_bytes, fetched_bytes), (&mut self.unsynced_bytes, unsynced_bytes)]
        {
            let both = mine.zip(*theirs);
            *mine = both.map(|(mine, theirs)| mine.saturating_add(theirs));
        }
    }
}
