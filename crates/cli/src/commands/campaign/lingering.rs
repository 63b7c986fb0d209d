//! A run that has ended, and whose process does not go.
//!
//! A thread that waits for a device in the kernel hears no signal, so a process whose device holds
//! a request for ever has ended as far as it can, results and all, and is never taken away. Whoever
//! waits for it is to know why; and if somebody wants the end, it is waited for no longer, so that
//! what was set up is undone as far as that is possible.

use std::fs;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::print::tell;

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the kernel may take for what a process had in its hands.
const GOES_WITHIN: Duration = Duration::from_secs(10);

/// Looks whether a child is such a process.
pub(super) struct Lingering {
    pid: u32,
    looked: Instant,
    /// Since when its first thread has ended.
    since: Option<Instant>,
    is_told: bool,
}

impl Lingering {
    pub(super) fn of(child: &Child) -> Self {
        Self { pid: child.id(), looked: Instant::now(), since: None, is_told: false }
    }

    /// Whether it has ended and does not go, of a child that is still there. That is told once.
    pub(super) fn is_so(&mut self) -> bool {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            self.since = if self.has_ended() { self.since.or(Some(self.looked)) } else { None };
        }
        let is_so = self.since.is_some_and(|since| since.elapsed() >= GOES_WITHIN);
        if is_so && !std::mem::replace(&mut self.is_told, true) {
            tell(&format!(
                "warning: the replay has ended, but its process {} is kept by a request that its \
                 device does not answer: it is waited for until the device answers or is taken \
                 away\n  = help: what it measured is stored; Ctrl-C ends the campaign, and what \
                 cannot be undone then is told",
                self.pid
            ));
        }
        is_so
    }

    /// Whether its first thread has ended, and another one not (`proc_pid_stat(5)`).
    fn has_ended(&self) -> bool {
        let stat = PathBuf::from(format!("/proc/{}/stat", self.pid));
        let text = fs::read_to_string(stat).unwrap_or_default();
        text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;

    use super::*;

    /// Its first thread ends and another one stays, as if it hung in the kernel.
    const SCRIPT: &str = "import ctypes, threading, time\n\
                          threading.Thread(target=time.sleep, args=(600,)).start()\n\
                          ctypes.CDLL(None).pthread_exit(None)\n";

    #[test]
    fn a_process_that_has_ended_and_does_not_go_is_noticed() {
        let child = Command::new("python3").args(["-c", SCRIPT]).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else {
            return ioecho_fixture::skipped("there is no python3");
        };
        let mut lingering = Lingering::of(&child);
        assert!(!lingering.is_so(), "it has just begun");
        let begun = Instant::now();
        while !lingering.is_so() && child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_mins(5));
            thread::sleep(Duration::from_millis(100));
        }
        assert!(begun.elapsed() >= GOES_WITHIN, "it may take that long to go");
        assert!(child.try_wait().unwrap().is_none(), "it is still there");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
