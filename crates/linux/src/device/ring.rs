//! Setting up a ring.
//!
//! The best options of `io_uring` are younger than the kernels that people run, and a kernel
//! answers an unknown option only with EINVAL. So the options are tried from the best downwards.

use std::io;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{Builder, IoUring, opcode, types};
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// The most requests in flight: half of what the kernel's largest completion queue holds
/// (`IORING_MAX_CQ_ENTRIES`, `io_uring/io_uring.c`), for a write with PREFLUSH takes two places.
pub const IN_FLIGHT_MAX: u32 = 32_768;

/// The most entries of one system call: more would delay seeing completions.
const SUBMISSIONS_MAX: u32 = 4096;

/// For how long the thread of the kernel looks for requests before it sleeps, in milliseconds: the
/// kernel's own default. Waking it takes a system call, and time.
const SQPOLL_IDLE_MS: u32 = 1000;

/// `IORING_ENTER_GETEVENTS` and `IORING_ENTER_EXT_ARG` (`include/uapi/linux/io_uring.h`).
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// `BLOCK_URING_CMD_DISCARD`, `_IO(0x12, 0)` (`include/uapi/linux/blkdev.h`, Linux 6.12).
pub(super) const BLOCK_URING_CMD_DISCARD: u32 = 0x1200;

/// A set of options: its name with the Linux that brought it, and how to ask for it.
type Options = (&'static str, fn(&mut Builder));

/// From the best to none.
const OPTIONS: &[Options] = &[
    ("single issuer, deferred task work (6.1)", |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        builder.setup_submit_all();
    }),
    ("single issuer, cooperative task work (6.0)", |builder| {
        builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
        builder.setup_submit_all();
    }),
    ("cooperative task work (5.19)", |builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    }),
    ("no options", |_| {}),
];

/// The same where a thread of the kernel takes the requests: then there is no task whose work could
/// be deferred.
const SQPOLL_OPTIONS: &[Options] = &[
    ("SQPOLL, which takes a processor, single issuer (6.0)", |builder| {
        builder.setup_sqpoll(SQPOLL_IDLE_MS).setup_single_issuer().setup_submit_all();
    }),
    ("SQPOLL, which takes a processor", |builder| {
        builder.setup_sqpoll(SQPOLL_IDLE_MS);
    }),
];

/// A disabled ring for so many requests in flight, and which options the kernel accepted. The
/// thread that enables it is the one that may use it.
pub(super) fn make(
    in_flight_max: u32,
    sqpoll: bool,
    iopoll: bool,
) -> io::Result<(IoUring, &'static str)> {
    let options = if sqpoll { SQPOLL_OPTIONS } else { OPTIONS };
    let places = (in_flight_max.clamp(1, IN_FLIGHT_MAX) * 2).next_power_of_two();
    let mut refused = io::Error::from(Errno::INVAL);
    for (name, set) in options {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(places.max(64)).setup_r_disabled();
        if iopoll {
            builder.setup_iopoll();
        }
        set(&mut builder);
        match builder.build(places.min(SUBMISSIONS_MAX)) {
            Ok(ring) => return Ok((ring, name)),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => refused = error,
            Err(error) => return Err(error),
        }
    }
    Err(refused)
}

/// Refuses a ring of a kernel older than 5.11, which brought the waiting with a time-out
/// (`IORING_FEAT_EXT_ARG`).
pub(super) fn check(ring: &IoUring) -> io::Result<()> {
    if ring.params().is_feature_ext_arg() && ring.params().is_feature_nodrop() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than 5.11"))
    }
}

/// Sleeps in the kernel until a completion is there or `timeout` has passed; either is success, and
/// so is a signal. Submits nothing.
pub(super) fn sleep(ring: &IoUring, timeout: Timespec) -> io::Result<()> {
    let arguments = SubmitArgs::new().timespec(&timeout);
    // SAFETY: with EXT_ARG the kernel reads a `struct io_uring_getevents_arg` from the address,
    // which `SubmitArgs` is (repr(transparent)); it and the time it points to outlive the call.
    let answer = unsafe {
        let flags = ENTER_GETEVENTS | ENTER_EXT_ARG;
        ring.submitter().enter(0, 1, flags, Some(&arguments))
    };
    forgive(answer, &[Errno::TIME, Errno::INTR, Errno::AGAIN, Errno::BUSY]).map(drop)
}

/// Lets the kernel post deferred task work and completions that did not fit.
pub(super) fn flush_completions(ring: &IoUring) -> io::Result<()> {
    // SAFETY: no argument is passed, and nothing is submitted.
    let answer = unsafe { ring.submitter().enter::<libc::sigset_t>(0, 0, ENTER_GETEVENTS, None) };
    forgive(answer, &[Errno::INTR, Errno::AGAIN, Errno::BUSY]).map(drop)
}

/// Hands the submission queue to the kernel and answers how many entries it took. That it can take
/// none now (EAGAIN: no memory; EBUSY: completions wait to be fetched) is no error.
///
/// What has completed by then is posted by the same call: a device that completes at once would
/// cost a second one otherwise.
pub(super) fn hand_down(ring: &mut IoUring) -> io::Result<usize> {
    let entries = ring.submission().len() as u32;
    // SAFETY: no argument is passed. The entries were pushed as `push` demands.
    let answer =
        unsafe { ring.submitter().enter::<libc::sigset_t>(entries, 0, ENTER_GETEVENTS, None) };
    forgive(answer, &[Errno::INTR, Errno::AGAIN, Errno::BUSY])
}

/// Wakes the thread of the kernel that takes requests, if it sleeps.
pub(super) fn wake(ring: &IoUring) -> io::Result<()> {
    forgive(ring.submit(), &[Errno::INTR, Errno::AGAIN, Errno::BUSY]).map(drop)
}

fn forgive(answer: io::Result<usize>, errors: &[Errno]) -> io::Result<usize> {
    answer.or_else(|error| match Errno::from_io_error(&error) {
        Some(errno) if errors.contains(&errno) => Ok(0),
        _ => Err(error),
    })
}

/// The arguments of that command: the length stands in `addr3`, which is where the command area of
/// an entry begins; the offset stands in `addr`.
pub(super) fn discard_area(length: u64) -> [u8; 16] {
    let mut area = [0; 16];
    area[..8].copy_from_slice(&length.to_ne_bytes());
    area
}

/// Whether the kernel knows the discard command on this block device.
///
/// A discard of no bytes tells: a kernel that knows the command finds the length invalid, one that
/// does not says that it is unsupported. Nothing is discarded either way (`blkdev_cmd_discard`
/// in block/ioctl.c).
pub(super) fn discards_by_command<Fd: AsFd>(device: Fd) -> bool {
    let answer = || -> io::Result<i32> {
        let mut ring = IoUring::new(2)?;
        // Not registered: this ring would hold the device for a while after it is gone.
        let device = types::Fd(device.as_fd().as_raw_fd());
        let command = opcode::UringCmd16::new(device, BLOCK_URING_CMD_DISCARD)
            .addr(Some(0))
            .cmd(discard_area(0))
            .build();
        // SAFETY: the command refers to no memory, and the device is open until it has completed.
        unsafe { ring.submission().push(&command) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        Ok(ring.completion().next().map_or(0, |completion| completion.result()))
    };
    answer().is_ok_and(|result| result == -Errno::INVAL.raw_os_error())
}
