//! What a thread's calls on files moved, and what the storage saw of it.

use std::fs;

/// Counters of the calling thread. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileIoState {
    /// Read by its calls (`rchar` of `/proc/PID/io`, `proc_pid_io(5)`).
    pub read_bytes: u64,
    /// Fetched from the storage for it (`read_bytes` there). The kernel counts this where a file
    /// system hands requests to a block device, and NFS counts it too; others leave it at zero.
    pub fetched_bytes: u64,
    /// Written by its calls (`wchar` there).
    pub written_bytes: u64,
}

impl FileIoState {
    /// The counters now; `None` where the kernel has none or does not tell this thread.
    pub fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/io").ok()?)
    }

    fn parse(io: &str) -> Option<Self> {
        Some(Self {
            read_bytes: number(io, "rchar")?,
            fetched_bytes: number(io, "read_bytes")?,
            written_bytes: number(io, "wchar")?,
        })
    }

    /// What was counted since an earlier look of the same thread.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            fetched_bytes: self.fetched_bytes.saturating_sub(before.fetched_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

/// The number in the line `NAME: NUMBER`.
fn number(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: &str = "rchar: 8192\nwchar: 4096\nsyscr: 2\nsyscw: 1\nread_bytes: 512\n\
                      write_bytes: 0\ncancelled_write_bytes: 0\n";
    #[test]
    fn the_counters_are_found_by_their_names() {
        let state = FileIoState::parse(IO).unwrap();
        assert_eq!([state.read_bytes, state.fetched_bytes, state.written_bytes], [8192, 512, 4096]);
        assert_eq!(state.since(&state), FileIoState::default());
        assert_eq!(FileIoState::parse("rchar: many\n"), None);
    }
}
