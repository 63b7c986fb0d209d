//! The kernel as a [`Device`](ioecho_replay::Device): three back ends behind one seam.
//!
//! `io_uring` keeps thousands of requests in flight from one thread and is what figures should be
//! taken with. Containers and careful administrators forbid it, so there is Linux AIO, and where
//! that is forbidden too there are threads with plain system calls. All answer the same outcomes
//! for the same events; where the meaning of an instant differs, each documents it.
//!
//! | operation | block device | file |
//! |---|---|---|
//! | read, write | direct I/O | direct I/O |
//! | write with FUA | `RWF_DSYNC` | `RWF_DSYNC` |
//! | write with PREFLUSH | a flush, then the write | the same |
//! | flush | `fdatasync`, with `io_uring` in a thread | the same |
//! | discard | a discard (see the back end) | `FALLOC_FL_PUNCH_HOLE` |
//! | write-zeroes | `FALLOC_FL_ZERO_RANGE` | `FALLOC_FL_ZERO_RANGE` |
//!
//! On a block device `RWF_DSYNC` becomes `REQ_FUA` (`dio_bio_write_op` in block/fops.c); on a write
//! that completes within the system call the kernel adds a flush of its own (`generic_write_sync`),
//! which is always so with threads.

mod aio;
mod aio_context;
mod backend;
mod buffers;
mod drafts;
mod duty;
mod entry;
mod flushers;
mod memory;
mod options;
mod polled;
mod queue;
mod registered;
mod ring;
mod targets;
mod threads;
mod uring;
pub(crate) mod workers;

use ioecho_replay::Io;
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};
use rustix::io::Errno;

use crate::target::{Access, OpenedTarget, TargetKind};

pub use backend::{aio_available, open_device, open_devices, uring_available};
pub use buffers::{BUFFER_MAX, BUFFER_MEMORY};
pub use options::{BUFFER_MEMORY_MIN, Backend, DeviceError, DeviceOptions, THREADS_MAX};
pub use ring::IN_FLIGHT_MAX;

/// How long closing waits for requests in flight before it leaves their memory to them.
const CLOSING: Nanos = Nanos::from_secs(10);

/// Threads for system calls that would block the issuing thread.
const HELPERS: u32 = 8;

/// Whether a request moves data, and so needs a buffer and completes with a number of bytes.
const fn moves_data(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

/// Whether a flush goes before the request itself.
const fn is_ordered(io: &Io) -> bool {
    matches!(io.op, Op::Write) && io.flags.contains(Flags::PREFLUSH)
}

/// How many bytes the kernel must report for the request to be complete.
const fn expected(io: &Io) -> u32 {
    if moves_data(io.op) { io.length.0 as u32 } else { 0 }
}

/// What the kernel's answer means: a number of bytes, or an error number below zero.
fn outcome(result: i32, expected: u32) -> Outcome {
    const UNSUPPORTED: i32 = Errno::OPNOTSUPP.raw_os_error();
    match result {
        ..0 if -result == UNSUPPORTED => Outcome::Unsupported,
        ..0 => Outcome::Error(-result),
        _ if result as u32 >= expected => Outcome::Ok,
        _ => Outcome::Short,
    }
}

/// What can be asked of a target at all. A file system that cannot punch holes or zero a range says
/// so only when asked, as [`Outcome::Unsupported`].
fn supports(target: &OpenedTarget, op: Op) -> bool {
    let writable = target.access() == Access::ReadWrite;
    let facts = target.facts();
    let cannot_discard =
        facts.kind == TargetKind::BlockDevice && facts.discard_max == Some(Bytes(0));
    match op {
        Op::Read | Op::Flush => true,
        Op::Write | Op::WriteZeroes => writable,
        Op::Discard => writable && !cannot_discard,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_kernel_becomes_an_outcome() {
        assert_eq!(outcome(4096, 4096), Outcome::Ok);
        assert_eq!(outcome(512, 4096), Outcome::Short);
        assert_eq!(outcome(0, 4096), Outcome::Short);
        assert_eq!(outcome(0, 0), Outcome::Ok);
        assert_eq!(outcome(-5, 4096), Outcome::Error(5));
        assert_eq!(outcome(-95, 0), Outcome::Unsupported);
    }
}
