//! What a thread's calls on files moved, and what the storage saw of it.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::thread::{Pid, gettid};

/// Threads that make calls for another one.
#[derive(Clone, Debug, Default)]
pub struct Helpers(Arc<Mutex<Vec<Pid>>>);

impl Helpers {
    /// Adds the calling thread.
    pub(crate) fn join(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(gettid());
    }

    /// What all of them and the calling thread have moved so far; `None` where that is not known
    /// of each.
    pub fn moved(&self) -> Option<FileIoState> {
        let helpers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |helper: &Pid| FileIoState::of(&format!("self/task/{helper}"));
        helpers.iter().try_fold(FileIoState::of("thread-self")?, |sum, helper| {
            let FileIoState { read_bytes, fetched_bytes, written_bytes } = of(helper)?;
            Some(FileIoState {
                read_bytes: sum.read_bytes + read_bytes,
                fetched_bytes: sum.fetched_bytes + fetched_bytes,
                written_bytes: sum.written_bytes + written_bytes,
            })
        })
    }
}

/// Counters of threads. Bytes.
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
    /// The counters of a thread now, by its name below `/proc`; `None` where the kernel has none
    /// or does not tell this program.
    fn of(thread: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{thread}/io")).ok()?)
    }

    fn parse(io: &str) -> Option<Self> {
        Some(Self {
            read_bytes: number(io, "rchar")?,
            fetched_bytes: number(io, "read_bytes")?,
            written_bytes: number(io, "wchar")?,
        })
    }

    /// What was counted since an earlier look at the same threads.
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
