//! The owner of an object in the kernel.
//!
//! A killed process cannot remove its traces from the kernel, where they keep slowing every
//! request. So each object has a name from which the next start can tell whether its owner still
//! lives: the process number and, since numbers are reused, the instant at which the process began.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What all names begin with.
const PREFIX: &str = "ioecho-";

/// A process, told from all others since the last boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// In clock ticks since the boot (`starttime`, `proc_pid_stat(5)`).
    started: u64,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_of(pid).unwrap_or(0) }
    }

    /// The owner in a name as [`new_name`] makes them; `None` where it is no such name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let pid = parts.next()?.parse().ok()?;
        let started = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        // Nothing before, between or behind: `+7` and `007` are numbers to a parser as well.
        let owner = Self { pid, started };
        (owner.name(number) == name).then_some(owner)
    }

    /// The name of the thing that is its `number`-th.
    fn name(self, number: u32) -> String {
        let Self { pid, started } = self;
        format!("{PREFIX}{pid}-{started}-{number}")
    }

    /// Its number.
    pub(super) const fn pid(self) -> u32 {
        self.pid
    }

    /// Whether it still runs.
    pub(super) fn lives(self) -> bool {
        start_of(self.pid) == Some(self.started)
    }
}

/// A name of this process for something in the kernel: `ioecho-PID-START-NUMBER`, each time
/// another.
pub(super) fn new_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    Owner::this().name(NUMBER.fetch_add(1, Relaxed))
}

/// When a process began; `None` where there is none of this number.
fn start_of(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_process() {
        let name = new_name();
        assert_eq!(Owner::of_name(&name), Some(Owner::this()));
        assert!(Owner::this().lives() && Owner::this().started > 0);
        assert_ne!(name, new_name());
    }

    #[test]
    fn a_process_of_the_same_number_from_another_time_is_another() {
        let Owner { pid, started } = Owner::this();
        assert!(!Owner { pid, started: started + 1 }.lives());
        assert!(!Owner { pid: u32::MAX, started }.lives());
    }

    #[test]
    fn names_of_others_have_no_owner() {
        let names = [
            "record",
            "ioecho",
            "ioecho-",
            "ioecho-7",
            "ioecho-7-8",
            "ioecho-x-1-2",
            "xioecho-1-2-3",
            "ioecho-1-2-3-4",
            "ioecho-1-2-3x",
            "ioecho-+1-2-3",
            "ioecho-01-2-3",
            "ioecho-1-2-",
        ];
        for name in names {
            assert_eq!(Owner::of_name(name), None, "{name}");
        }
        assert_eq!(Owner::of_name("ioecho-1-2-3"), Some(Owner { pid: 1, started: 2 }));
    }
}
