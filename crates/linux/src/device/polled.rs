//! Whether a target's completions can be polled for.
//!
//! A ring with IOPOLL on a queue that does not poll works all the same: the kernel clears the flag
//! from each request, completes by interrupt, and the process spins for nothing. The figures would
//! then claim polling that did not happen. So it is checked beforehand.

use std::io;

use io_uring::{IoUring, opcode, types};
use rustix::fd::AsRawFd;
use rustix::io::Errno;

use super::buffers::{Pool, Register};
use crate::sysfs::{BlockNode, parse_dev};
use crate::target::OpenedTarget;

/// Tells nobody of the one buffer that is used once.
struct Unregistered;

impl Register for Unregistered {}

/// Whether polling works on this target, and if not, what is missing.
pub(super) fn polls(target: &OpenedTarget) -> Result<(), String> {
    let facts = target.facts();
    if !facts.direct {
        return Err("the page cache is not bypassed".to_owned());
    }
    let node = parse_dev(&facts.device).and_then(BlockNode::of);
    let Some(disk) = node.and_then(|node| node.disk()) else {
        return Err("no block device lies below it".to_owned());
    };
    // Documentation/ABI/stable/sysfs-block; older kernels let it be switched.
    if disk.number("queue/io_poll") != Some(1) {
        return Err(format!("the queue of {} does not poll (queue/io_poll is not 1)", disk.name));
    }
    match read_polled(target) {
        Ok(0..) => Ok(()),
        Ok(error) if error == -Errno::OPNOTSUPP.raw_os_error() => {
            Err("its file system does not poll".to_owned())
        }
        Ok(error) => Err(io::Error::from_raw_os_error(-error).to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads the first block by a polled ring; answers the number of bytes, or an error number below
/// zero.
fn read_polled(target: &OpenedTarget) -> io::Result<i32> {
    let length = target.facts().logical_block.0 as usize;
    let buffer = Pool::new(length * 8, 0, &mut Unregistered).take(length, &mut Unregistered);
    let mut buffer = buffer.ok_or(Errno::NOMEM)?;
    let mut ring: IoUring = IoUring::builder().setup_iopoll().build(2)?;
    let file = types::Fd(target.file.as_raw_fd());
    let read = opcode::Read::new(file, buffer.address(), length as u32).build();
    // SAFETY: the buffer is of that length, and the call below waits until the read has completed.
    unsafe { ring.submission().push(&read) }.map_err(io::Error::other)?;
    if let Err(error) = ring.submit_and_wait(1) {
        // The kernel may still write to it.
        std::mem::forget(buffer);
        return Err(error);
    }
    Ok(ring.completion().next().map_or(0, |completion| completion.result()))
}
