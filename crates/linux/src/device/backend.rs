//! Which back end drives a target.
//!
//! Falling back silently would change what the figures mean, and failing because of a container's
//! filter would help nobody. So the choice is made once, and the reason stands in the run.

use std::io;
use std::sync::Arc;

use io_uring::IoUring;
use ioecho_replay::Device;
use rustix::io::Errno;
use rustix::system::sysinfo;

use super::aio::{self, AioQueue};
use super::options::{Backend, DeviceError, DeviceOptions};
use super::polled::polls;
use super::queue::KernelDevice;
use super::threads::ThreadsQueue;
use super::uring::UringQueue;
use crate::clock::MonotonicClock;
use crate::facts::io_uring_disabled;
use crate::target::OpenedTarget;

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

/// Whether Linux AIO can be used here for so many requests in flight, and if not, why.
///
/// Linux 4.18 is the least: it brought flushes and the waiting for files.
pub fn aio_available(in_flight_max: u32) -> Result<(), String> {
    aio::available(in_flight_max)
}

/// Makes a device of an open target. Its instants are those of `clock`.
///
/// Fails where the options contradict each other, where what was asked for cannot be had here, and
/// where the kernel has no room for it.
pub fn open_device(
    target: OpenedTarget,
    options: &DeviceOptions,
    clock: MonotonicClock,
) -> Result<Box<dyn Device + Send>, DeviceError> {
    let host = sysinfo();
    let host_memory = host.totalram as u64 * u64::from(host.mem_unit);
    options.check(host_memory)?;
    let aio = || aio_available(options.in_flight_max);
    let (backend, note) = choose(options, target.facts().direct, uring_available, aio)?;
    if options.iopoll {
        let path = || target.facts().path.clone();
        polls(&target).map_err(|reason| DeviceError::PollUnavailable { path: path(), reason })?;
    }
    let target = Arc::new(target);
    let (memory, in_flight_max) = (options.buffer_memory(host_memory), options.in_flight_max);
    let refused = |backend| move |source| DeviceError::System { backend, source };
    Ok(match backend {
        Backend::Auto | Backend::Uring => {
            let queue = UringQueue::new(&target, options, memory.0, clock);
            let queue = queue.map_err(refused("io_uring"))?;
            Box::new(KernelDevice::new(target, queue, memory, in_flight_max, note))
        }
        Backend::Aio => {
            let queue = AioQueue::new(&target, in_flight_max, clock).map_err(refused("aio"))?;
            Box::new(KernelDevice::new(target, queue, memory, in_flight_max, note))
        }
        Backend::Threads => {
            let queue = ThreadsQueue::new(&target, in_flight_max, options.threads, clock);
            let queue = queue.map_err(refused("threads"))?;
            Box::new(KernelDevice::new(target, queue, memory, in_flight_max, note))
        }
    })
}

/// The back end to take, and why it is no better one. A better one is only asked for when it comes
/// to that; `direct` tells whether the target is used with direct I/O.
fn choose(
    options: &DeviceOptions,
    direct: bool,
    uring: impl FnOnce() -> Result<(), String>,
    aio: impl FnOnce() -> Result<(), String>,
) -> Result<(Backend, Option<String>), DeviceError> {
    match options.backend {
        Backend::Threads => return Ok((Backend::Threads, None)),
        Backend::Aio => {
            let answer = aio().map_err(|reason| DeviceError::AioUnavailable { reason });
            return answer.map(|()| (Backend::Aio, None));
        }
        Backend::Auto | Backend::Uring => {}
    }
    let no_uring = match uring() {
        Ok(()) => return Ok((Backend::Uring, None)),
        Err(reason) if options.backend == Backend::Uring || options.needs_ring() => {
            return Err(DeviceError::UringUnavailable { reason });
        }
        Err(reason) => format!("no io_uring: {reason}"),
    };
    // Without direct I/O, handing over a request with AIO waits until it is done.
    let aio = if direct { aio() } else { Err("the page cache is not bypassed".to_owned()) };
    Ok(match aio {
        Ok(()) => (Backend::Aio, Some(no_uring)),
        Err(reason) => (Backend::Threads, Some(format!("{no_uring}; no aio: {reason}"))),
    })
}

#[cfg(test)]
mod tests {
    use ioecho_replay::Device as _;

    use super::*;
    use crate::target::{self, Access, OpenOptions};

    const HERE: Result<(), String> = Ok(());

    fn forbidden() -> Result<(), String> {
        Err("forbidden here".to_owned())
    }

    fn options(backend: Backend) -> DeviceOptions {
        DeviceOptions { backend, ..DeviceOptions::default() }
    }

    #[test]
    fn a_refused_ring_is_explained_by_who_refused_it() {
        let told = |errno: Errno, sysctl| reason(&errno.into(), sysctl);
        assert!(told(Errno::PERM, Some(2)).contains("io_uring_disabled=2"));
        assert!(told(Errno::PERM, Some(0)).contains("security filter"));
        assert!(told(Errno::PERM, None).contains("security filter"));
        assert!(told(Errno::NOSYS, None).contains("ENOSYS"));
    }

    #[test]
    fn auto_takes_the_best_that_is_allowed_and_tells_why() {
        let auto = options(Backend::Auto);
        let chosen = choose(&auto, true, || HERE, forbidden).unwrap();
        assert_eq!(chosen, (Backend::Uring, None));
        let (backend, note) = choose(&auto, true, forbidden, || HERE).unwrap();
        assert_eq!(backend, Backend::Aio);
        assert_eq!(note.unwrap(), "no io_uring: forbidden here");
        let (backend, note) = choose(&auto, true, forbidden, forbidden).unwrap();
        assert_eq!(backend, Backend::Threads);
        assert_eq!(note.unwrap(), "no io_uring: forbidden here; no aio: forbidden here");
        let (backend, note) = choose(&auto, false, forbidden, || HERE).unwrap();
        assert_eq!(backend, Backend::Threads);
        assert!(note.unwrap().ends_with("no aio: the page cache is not bypassed"));
    }

    #[test]
    fn what_is_asked_for_by_name_is_had_or_refused() {
        let threads = choose(&options(Backend::Threads), true, || HERE, || HERE).unwrap();
        assert_eq!(threads, (Backend::Threads, None));
        let uring = choose(&options(Backend::Uring), true, forbidden, || HERE).unwrap_err();
        assert!(matches!(uring, DeviceError::UringUnavailable { .. }), "{uring}");
        let aio = choose(&options(Backend::Aio), true, || HERE, forbidden).unwrap_err();
        assert!(matches!(aio, DeviceError::AioUnavailable { .. }), "{aio}");
        let polled = DeviceOptions { sqpoll: true, ..options(Backend::Auto) };
        let polled = choose(&polled, true, forbidden, || HERE).unwrap_err();
        assert!(matches!(polled, DeviceError::UringUnavailable { .. }), "{polled}");
    }

    #[test]
    fn a_device_tells_why_it_is_no_better_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut opening = OpenOptions::new(Access::ReadOnly);
        opening.allow_cached = true;
        let target = Arc::new(target::open(file.path(), opening).unwrap());
        let queue = ThreadsQueue::new(&target, 2, None, MonotonicClock::new()).unwrap();
        let note = Some("no io_uring: forbidden here".to_owned());
        let memory = super::super::BUFFER_MEMORY_MIN;
        let device = KernelDevice::new(target, queue, memory, 2, note);
        assert!(device.describe().starts_with("threads: 2 workers"), "{}", device.describe());
        assert!(device.describe().ends_with("(no io_uring: forbidden here)"));
    }
}
