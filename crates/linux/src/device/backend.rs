//! Which back end drives a target.
//!
//! Falling back silently would change what the figures mean, and failing because of a container's
//! filter would help nobody. So the choice is made once, and the reason stands in the run.

use std::io;

use io_uring::IoUring;
use ioecho_replay::{Completion, Device, Io, Payload};
use ioecho_trace::{Bytes, Nanos, Op};
use rustix::io::Errno;

use super::ring::IN_FLIGHT_MAX;
use super::{ThreadsDevice, UringDevice};
use crate::clock::MonotonicClock;
use crate::facts::io_uring_disabled;
use crate::target::OpenedTarget;

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// `io_uring` where it is allowed, or else threads.
    #[default]
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// Threads.
    Threads,
}

/// Why no device could be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// `io_uring` was asked for and is not to be had.
    #[error(
        "io_uring cannot be used here: {reason}\n  = help: use the back end `threads` or `auto`"
    )]
    UringUnavailable {
        /// Who forbids it.
        reason: String,
    },
    /// More requests in flight than a ring can hold.
    #[error(
        "{asked} requests in flight are not possible\n  = help: between 1 and {IN_FLIGHT_MAX} are"
    )]
    InFlight {
        /// How many were asked for.
        asked: u32,
    },
    /// The kernel refused something else.
    #[error("cannot set up the back end {backend}: {source}")]
    System {
        /// Which back end.
        backend: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Whether `io_uring` can be used here, and if not, why.
///
/// Linux 5.11 is the least: it brought the waiting with a time-out (`IORING_FEAT_EXT_ARG`).
pub fn uring_available() -> Result<(), String> {
    match IoUring::new(2) {
        Ok(ring) if ring.params().is_feature_ext_arg() && ring.params().is_feature_nodrop() => {
            Ok(())
        }
        Ok(_) => Err("the kernel is older than 5.11".to_owned()),
        Err(error) => Err(reason(&error, io_uring_disabled())),
    }
}

/// Who refused a ring: `sysctl` is the value of `kernel.io_uring_disabled`.
fn reason(error: &io::Error, sysctl: Option<u32>) -> String {
    match (Errno::from_io_error(error), sysctl) {
        (Some(Errno::NOSYS), _) => {
            "the kernel is built without it, older than 5.1, or a filter hides it (ENOSYS)"
                .to_owned()
        }
        (Some(Errno::PERM), Some(2)) => {
            "forbidden by the sysctl kernel.io_uring_disabled=2".to_owned()
        }
        (Some(Errno::PERM), Some(1)) => {
            "the sysctl kernel.io_uring_disabled=1 allows it only to CAP_SYS_ADMIN and the group \
             kernel.io_uring_group"
                .to_owned()
        }
        (Some(Errno::PERM | Errno::ACCESS), _) => {
            "a security filter forbids it, as containers do by default (EPERM)".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Makes a device of an open target, for up to `in_flight_max` requests (1 to [`IN_FLIGHT_MAX`]).
/// Its instants are those of `clock`.
pub fn open_device(
    target: OpenedTarget,
    backend: Backend,
    in_flight_max: u32,
    clock: MonotonicClock,
) -> Result<Box<dyn Device + Send>, DeviceError> {
    if !(1..=IN_FLIGHT_MAX).contains(&in_flight_max) {
        return Err(DeviceError::InFlight { asked: in_flight_max });
    }
    let threads = |target| {
        ThreadsDevice::new(target, in_flight_max, clock)
            .map_err(|source| DeviceError::System { backend: "threads", source })
    };
    let uring = |target| {
        UringDevice::new(target, in_flight_max, clock)
            .map_err(|source| DeviceError::System { backend: "io_uring", source })
    };
    match (backend, uring_available()) {
        (Backend::Threads, _) => Ok(Box::new(threads(target)?)),
        (_, Ok(())) => Ok(Box::new(uring(target)?)),
        (Backend::Uring, Err(reason)) => Err(DeviceError::UringUnavailable { reason }),
        (Backend::Auto, Err(reason)) => Ok(Box::new(Fallback { device: threads(target)?, reason })),
    }
}

/// Threads in place of `io_uring`, with the reason.
struct Fallback {
    device: ThreadsDevice,
    reason: String,
}

impl Device for Fallback {
    fn capacity(&self) -> Bytes {
        self.device.capacity()
    }

    fn block_size(&self) -> Bytes {
        self.device.block_size()
    }

    fn length_max(&self) -> Bytes {
        self.device.length_max()
    }

    fn supports(&self, op: Op) -> bool {
        self.device.supports(op)
    }

    fn prepare(&mut self, io: &Io, payload: &mut dyn Payload) {
        self.device.prepare(io, payload);
    }

    fn submit(&mut self) -> io::Result<(Nanos, usize)> {
        self.device.submit()
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.device.reap(completions)
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.device.wait(until, completions)
    }

    fn concurrency(&self) -> u32 {
        self.device.concurrency()
    }

    fn describe(&self) -> String {
        format!("{} (no io_uring: {})", self.device.describe(), self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{self, Access, OpenOptions};

    #[test]
    fn a_refused_ring_is_explained_by_who_refused_it() {
        let told = |errno: Errno, sysctl| reason(&errno.into(), sysctl);
        assert!(told(Errno::PERM, Some(2)).contains("io_uring_disabled=2"));
        assert!(told(Errno::PERM, Some(0)).contains("security filter"));
        assert!(told(Errno::PERM, None).contains("security filter"));
        assert!(told(Errno::NOSYS, None).contains("ENOSYS"));
    }

    #[test]
    fn the_fallback_tells_its_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut options = OpenOptions::new(Access::ReadOnly);
        options.allow_cached = true;
        let opened = target::open(file.path(), options).unwrap();
        let device = ThreadsDevice::new(opened, 2, MonotonicClock::new()).unwrap();
        let fallback = Fallback { device, reason: "forbidden here".to_owned() };
        assert!(fallback.describe().starts_with("threads: 2 workers"));
        assert!(fallback.describe().ends_with("(no io_uring: forbidden here)"));
    }
}
