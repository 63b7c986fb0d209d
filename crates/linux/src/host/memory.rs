//! Memory that stays.
//!
//! If a page was paged out, or never touched, the request that needs it waits for a page fault, and
//! for a read from swap, possibly on the target itself. `mlockall(2)` brings every page in and
//! keeps it. But with it an allocation beyond the limit fails, in the middle of a run: so a limit
//! that a run may reach is refused at its start.

use std::sync::{Mutex, PoisonError};

use ioecho_trace::Bytes;
use rustix::mm::{MlockAllFlags, mlockall, munlockall};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use super::error::HostError;

/// Memory that a run may need: buffers of 512 MiB, its queues, and the libraries'.
const NEEDED: Bytes = Bytes(1 << 30);

/// How many hold it locked: it is one memory, and several issuing threads ask for it.
static HOLDERS: Mutex<usize> = Mutex::new(0);

/// Memory is locked as long as one of these lives.
#[derive(Debug)]
pub(super) struct LockedMemory(());

impl LockedMemory {
    #[expect(clippy::unused_self, reason = "only what is locked can say so")]
    pub(super) fn fact(&self) -> String {
        "all memory was locked (mlockall)".to_owned()
    }
}

impl Drop for LockedMemory {
    fn drop(&mut self) {
        let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        *holders -= 1;
        if *holders == 0 {
            // It cannot fail where locking did not.
            let _ = munlockall();
        }
    }
}

/// Locks all memory of the process, that of now and that to come.
pub(super) fn lock() -> Result<LockedMemory, HostError> {
    let unlimited =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let limit = getrlimit(Resource::Memlock).current;
    check(unlimited, limit)?;
    let mut holders = HOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)
        .map_err(|error| HostError::system("lock memory", error))?;
    *holders += 1;
    Ok(LockedMemory(()))
}

/// Whether the limit (none is unlimited) leaves room for a run.
fn check(unlimited: bool, limit: Option<u64>) -> Result<(), HostError> {
    match limit {
        Some(limit) if !unlimited && limit < NEEDED.0 => {
            Err(HostError::MemoryLimit { limit: Bytes(limit), needed: NEEDED })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse().unwrap()
    }

    #[test]
    fn memory_stays_locked_until_the_last_who_asked_has_done() {
        let one = ioecho_fixture::or_skip!(lock());
        let other = lock().unwrap();
        drop(one);
        assert!(locked_kib() > 0);
        drop(other);
        assert_eq!(locked_kib(), 0);
    }

    #[test]
    fn a_limit_that_a_run_may_reach_is_refused_before_it_starts() {
        let error = check(false, Some(8 << 20)).unwrap_err().to_string();
        assert!(error.contains("the limit is 8.00 MiB"), "{error}");
        assert!(error.contains("ulimit -l unlimited"), "{error}");
        assert!(check(true, Some(8 << 20)).is_ok());
        assert!(check(false, Some(4 << 30)).is_ok());
        assert!(check(false, None).is_ok());
    }
}
