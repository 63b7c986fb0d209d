//! A real-time priority for the issuing thread.
//!
//! Under `SCHED_FIFO` a thread runs before every ordinary one and as long as it likes (sched(7)).
//! The kernel does not trust such threads: one that never sleeps is stopped for
//! `sched_rt_period_us - sched_rt_runtime_us` of each period, 50 ms in each second by default (and
//! since Linux 6.12 by the *fair server*, as soon as an ordinary thread waits for the processor).
//! A pacing that spins then loses those 50 ms, so a run with both is warned.

use std::fs;
use std::io;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::error::HostError;

/// The highest priority of `SCHED_FIFO` (`sched_get_priority_max(2)` on Linux).
pub const FIFO_MAX: u8 = 99;

/// How the kernel holds real-time threads down (`Documentation/scheduler/sched-rt-group.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RealtimeThrottling {
    /// How long they may run in a period, µs; -1 is as long as they like.
    pub runtime_us: i64,
    /// The period, µs.
    pub period_us: i64,
}

impl RealtimeThrottling {
    /// What this host does; `None` where the kernel does not tell.
    pub fn of_host() -> Option<Self> {
        let number = |name: &str| -> Option<i64> {
            fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?.trim().parse().ok()
        };
        Some(Self {
            runtime_us: number("sched_rt_runtime_us")?,
            period_us: number("sched_rt_period_us")?,
        })
    }

    /// Whether a real-time thread that never sleeps is stopped at times.
    pub fn is_on(&self) -> bool {
        self.runtime_us >= 0 && self.runtime_us < self.period_us
    }

    /// A warning for a spinning real-time thread; `None` if the throttling is off.
    pub fn warning(&self) -> Option<String> {
        self.is_on().then(|| {
            format!(
                "the kernel stops a real-time thread that spins for {} of every {} ms \
                 (kernel.sched_rt_runtime_us = {})\n  = help: sysctl kernel.sched_rt_runtime_us=-1 \
                 for the run, or a pacing that sleeps",
                (self.period_us - self.runtime_us) / 1000,
                self.period_us / 1000,
                self.runtime_us
            )
        })
    }
}

/// The priority of a thread, and what it had before.
#[derive(Debug)]
pub(super) struct Fifo {
    priority: u8,
    before: (libc::c_int, libc::sched_param),
}

impl Fifo {
    pub(super) fn fact(&self) -> String {
        format!("the issuing thread ran under SCHED_FIFO with priority {}", self.priority)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        // Going down is always permitted.
        let _ = set_policy(self.before.0, self.before.1);
    }
}

/// Gives the calling thread a priority under `SCHED_FIFO`. Threads that it starts do not inherit
/// it: they would compete with it.
pub(super) fn raise(priority: u8) -> Result<Fifo, HostError> {
    if !(1..=FIFO_MAX).contains(&priority) {
        return Err(HostError::Priority { asked: priority });
    }
    let before = policy().map_err(|error| HostError::system("tell the priority", error))?;
    let wanted = libc::sched_param { sched_priority: libc::c_int::from(priority) };
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, wanted).map_err(|error| {
        if error.kind() == io::ErrorKind::PermissionDenied {
            let limit = getrlimit(Resource::Rtprio).current.unwrap_or(u64::from(FIFO_MAX));
            HostError::FifoDenied { asked: priority, limit }
        } else {
            HostError::system("raise the priority", error)
        }
    })?;
    Ok(Fifo { priority, before })
}

/// Policy and parameters of the calling thread. The system calls are made directly: musl's
/// functions of these names refuse to act on a thread.
fn policy() -> io::Result<(libc::c_int, libc::sched_param)> {
    // SAFETY: the call takes a number and touches no memory of this process.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    if policy < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel writes one `struct sched_param` to the address, which is one and lives
    // through the call.
    let answer = unsafe { libc::syscall(libc::SYS_sched_getparam, 0, &raw mut parameters) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((policy as libc::c_int, parameters))
}

fn set_policy(policy: libc::c_int, parameters: libc::sched_param) -> io::Result<()> {
    // SAFETY: the kernel reads one `struct sched_param` from the address, which is one and lives
    // through the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_told_with_the_time_that_it_costs() {
        let throttling = RealtimeThrottling { runtime_us: 950_000, period_us: 1_000_000 };
        let warning = throttling.warning().unwrap();
        assert!(warning.contains("for 50 of every 1000 ms"), "{warning}");
        assert!(warning.contains("sched_rt_runtime_us=-1"), "{warning}");
        assert_eq!(RealtimeThrottling { runtime_us: -1, ..throttling }.warning(), None);
        assert_eq!(RealtimeThrottling { runtime_us: 1_000_000, ..throttling }.warning(), None);
    }

    #[test]
    fn a_priority_that_there_is_not_is_refused() {
        for asked in [0, 100] {
            let error = raise(asked).unwrap_err().to_string();
            assert!(error.contains("1 to 99 are"), "{error}");
        }
    }

    #[test]
    fn the_thread_has_the_priority_until_it_is_given_back_or_is_told_the_remedy() {
        let before = policy().unwrap();
        match raise(1) {
            Ok(fifo) => {
                let (now, parameters) = policy().unwrap();
                assert_eq!(now & libc::SCHED_FIFO, libc::SCHED_FIFO);
                assert_eq!(parameters.sched_priority, 1);
                let child = std::thread::spawn(|| policy().unwrap().0).join().unwrap();
                assert_eq!(child, libc::SCHED_OTHER);
                drop(fifo);
                assert_eq!(policy().unwrap().0, before.0);
            }
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
    }
}
