//! Which back end drives a target.
//!
//! A silent fallback would change the meaning of the figures, and failing because of a container's
//! filter would not help. So the choice is made once, and the run's facts state the reason.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use io_uring::IoUring;
use ioecho_replay::Device;
use ioecho_replay::joint::Joint;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::system::sysinfo;

use super::aio::{self, AioQueue};
use super::options::{Backend, DeviceError, DeviceOptions};
use super::polled::polls;
use super::queue::KernelDevice;
use super::ring;
use super::targets::Targets;
use super::threads::ThreadsQueue;
use super::uring::UringQueue;
use crate::clock::MonotonicClock;
use crate::facts::io_uring_disabled;
use crate::target::OpenedTarget;

/// Whether `io_uring` can be used here, and if not, why.
pub fn uring_available() -> Result<(), String> {
    let ring = IoUring::new(2).and_then(|ring| ring::check(&ring));
    ring.map_err(|error| reason(&error, io_uring_disabled()))
}

/// Why a ring was refused: `sysctl` is the value of `kernel.io_uring_disabled`.
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
        (Some(Errno::NOMEM), _) => {
            "there is no memory for its rings, or RLIMIT_MEMLOCK is used up (ENOMEM)".to_owned()
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

/// Why a target is driven with AIO although `io_uring` is available.
const WAITS: &str = "no io_uring: this target does not take requests without waiting (RWF_NOWAIT), \
                     so the kernel would hand each to a thread, late and out of order";

/// Whether `io_uring` issues requests to the target itself. Where a driver may wait (`zram` and
/// others without a request queue), the kernel hands each request to a thread of its own instead
/// (`io-wq`), which makes them late and unordered. A read with `RWF_NOWAIT` shows it: such a driver
/// fails it with `EOPNOTSUPP` (preadv2(2)).
fn takes_requests_without_waiting(target: &OpenedTarget) -> bool {
    const PAGE: usize = 4096;
    let mut memory = vec![0; 2 * PAGE];
    let skip = memory.as_ptr().align_offset(PAGE).min(PAGE);
    let page = &mut memory[skip..skip + PAGE];
    let length = PAGE.min(target.facts().capacity.0 as usize);
    let mut parts = [IoSliceMut::new(&mut page[..length])];
    let answer = preadv2(&target.file, &mut parts, 0, ReadWriteFlags::NOWAIT);
    answer != Err(Errno::OPNOTSUPP)
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
    open_all(Targets::one(target), options, clock)
}

/// The same of several open targets, each at its place of `joint`, which has as many. They share
/// what a device has: a ring, its buffers and its cap on requests in flight.
pub fn open_devices(
    targets: Vec<OpenedTarget>,
    joint: Joint,
    options: &DeviceOptions,
    clock: MonotonicClock,
) -> Result<Box<dyn Device + Send>, DeviceError> {
    open_all(Targets::new(targets, joint), options, clock)
}

fn open_all(
    targets: Targets,
    options: &DeviceOptions,
    clock: MonotonicClock,
) -> Result<Box<dyn Device + Send>, DeviceError> {
    let host = sysinfo();
    let host_memory = host.totalram as u64 * u64::from(host.mem_unit);
    options.check(host_memory)?;
    let targets = Arc::new(targets);
    let (memory, in_flight_max) = (options.buffer_memory(host_memory), options.in_flight_max);
    // Only making it proves that it is possible, because limits depend on the size.
    let (mut ring, mut context) = (None, None);
    let uring = || {
        let made = UringQueue::new(&targets, options, memory.0, clock);
        ring = Some(made.map_err(|error| reason(&error, io_uring_disabled()))?);
        Ok(())
    };
    let mut aio = || {
        aio_available(1)?;
        let made = AioQueue::new(&targets, in_flight_max, clock);
        context = Some(made.map_err(|error| aio::reason(&error))?);
        Ok(())
    };
    let direct = targets.are_direct();
    let waits = options.backend == Backend::Auto
        && direct
        && !options.needs_ring()
        && aio_available(1).is_ok()
        && !targets.all().iter().all(takes_requests_without_waiting);
    let note = if waits {
        Some(match aio() {
            Ok(()) => WAITS.to_owned(),
            // Nobody asked for it by name, so threads take its place.
            Err(reason) => format!("{WAITS}; no aio: {reason}"),
        })
    } else {
        choose(options, direct, uring, aio)?
    };
    if options.iopoll {
        for target in targets.all() {
            let path = || target.facts().path.clone();
            polls(target)
                .map_err(|reason| DeviceError::PollUnavailable { path: path(), reason })?;
        }
    }
    if let Some(queue) = ring {
        return Ok(Box::new(KernelDevice::new(targets, queue, memory, in_flight_max, note)));
    }
    if let Some(queue) = context {
        return Ok(Box::new(KernelDevice::new(targets, queue, memory, in_flight_max, note)));
    }
    let queue = ThreadsQueue::new(&targets, in_flight_max, options.threads, clock)
        .map_err(|source| DeviceError::System { backend: "threads", source })?;
    Ok(Box::new(KernelDevice::new(targets, queue, memory, in_flight_max, note)))
}

/// Makes the first back end of the options that can be made, or none if threads are to be used.
/// Also returns why no better one was made. `direct` tells whether the target is used with direct
/// I/O.
fn choose(
    options: &DeviceOptions,
    direct: bool,
    uring: impl FnOnce() -> Result<(), String>,
    aio: impl FnOnce() -> Result<(), String>,
) -> Result<Option<String>, DeviceError> {
    match options.backend {
        Backend::Threads => return Ok(None),
        Backend::Aio => {
            aio().map_err(|reason| DeviceError::AioUnavailable { reason })?;
            return Ok(None);
        }
        Backend::Auto | Backend::Uring => {}
    }
    let no_uring = match uring() {
        Ok(()) => return Ok(None),
        Err(reason) if options.backend == Backend::Uring || options.needs_ring() => {
            return Err(DeviceError::UringUnavailable { reason });
        }
        Err(reason) => format!("no io_uring: {reason}"),
    };
    // Without direct I/O, handing over a request with AIO waits until it is done.
    let aio = if direct { aio() } else { Err("the page cache is not bypassed".to_owned()) };
    Ok(Some(match aio {
        Ok(()) => no_uring,
        Err(reason) => format!("{no_uring}; no aio: {reason}"),
    }))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use ioecho_replay::Device as _;

    use super::*;
    use crate::target::{self, Access, OpenOptions};

    #[test]
    fn a_refused_ring_is_explained_by_who_refused_it() {
        let told = |errno: Errno, sysctl| reason(&errno.into(), sysctl);
        assert!(told(Errno::PERM, Some(2)).contains("io_uring_disabled=2"));
        assert!(told(Errno::PERM, Some(0)).contains("security filter"));
        assert!(told(Errno::PERM, None).contains("security filter"));
        assert!(told(Errno::NOSYS, None).contains("ENOSYS"));
        assert!(told(Errno::NOMEM, None).contains("RLIMIT_MEMLOCK"));
    }

    /// What was made, in order of the attempts, and the note.
    fn chosen(
        options: &DeviceOptions,
        direct: bool,
        uring: Result<(), &str>,
        aio: Result<(), &str>,
    ) -> (Vec<Backend>, Result<Option<String>, DeviceError>) {
        let made = RefCell::new(vec![]);
        let make = |backend, answer: Result<(), &str>| {
            answer.map(|()| made.borrow_mut().push(backend)).map_err(str::to_owned)
        };
        let uring = || make(Backend::Uring, uring);
        let aio = || make(Backend::Aio, aio);
        let note = choose(options, direct, uring, aio);
        (made.into_inner(), note)
    }

    const HERE: Result<(), &str> = Ok(());
    const FORBIDDEN: Result<(), &str> = Err("forbidden here");

    fn options(backend: Backend) -> DeviceOptions {
        DeviceOptions { backend, ..DeviceOptions::default() }
    }

    #[test]
    fn auto_takes_the_best_that_is_allowed_and_tells_why() {
        let auto = options(Backend::Auto);
        let (made, note) = chosen(&auto, true, HERE, FORBIDDEN);
        assert_eq!((made, note.unwrap()), (vec![Backend::Uring], None));
        let (made, note) = chosen(&auto, true, FORBIDDEN, HERE);
        assert_eq!(made, [Backend::Aio]);
        assert_eq!(note.unwrap().unwrap(), "no io_uring: forbidden here");
        let (made, note) = chosen(&auto, true, FORBIDDEN, FORBIDDEN);
        assert_eq!(made, []);
        assert_eq!(note.unwrap().unwrap(), "no io_uring: forbidden here; no aio: forbidden here");
        let (made, note) = chosen(&auto, false, FORBIDDEN, HERE);
        assert_eq!(made, []);
        assert!(note.unwrap().unwrap().ends_with("no aio: the page cache is not bypassed"));
    }

    #[test]
    fn what_is_asked_for_by_name_is_had_or_refused() {
        let (made, note) = chosen(&options(Backend::Threads), true, HERE, HERE);
        assert_eq!((made, note.unwrap()), (vec![], None));
        let (made, note) = chosen(&options(Backend::Aio), false, HERE, HERE);
        assert_eq!((made, note.unwrap()), (vec![Backend::Aio], None));
        let error = chosen(&options(Backend::Uring), true, FORBIDDEN, HERE).1.unwrap_err();
        assert!(matches!(error, DeviceError::UringUnavailable { .. }), "{error}");
        let error = chosen(&options(Backend::Aio), true, HERE, FORBIDDEN).1.unwrap_err();
        assert!(matches!(error, DeviceError::AioUnavailable { .. }), "{error}");
        let polled = DeviceOptions { sqpoll: true, ..options(Backend::Auto) };
        let error = chosen(&polled, true, FORBIDDEN, HERE).1.unwrap_err();
        assert!(matches!(error, DeviceError::UringUnavailable { .. }), "{error}");
    }

    #[test]
    fn a_device_tells_why_it_is_no_better_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        let mut opening = OpenOptions::new(Access::ReadOnly);
        opening.allow_cached = true;
        let targets = Arc::new(Targets::one(target::open(file.path(), opening).unwrap()));
        let queue = ThreadsQueue::new(&targets, 2, None, MonotonicClock::new()).unwrap();
        let note = Some("no io_uring: forbidden here".to_owned());
        let memory = super::super::BUFFER_MEMORY_MIN;
        let device = KernelDevice::new(targets, queue, memory, 2, note);
        assert!(device.describe().starts_with("threads: 2 workers"), "{}", device.describe());
        assert!(device.describe().ends_with("(no io_uring: forbidden here)"));
    }
}
