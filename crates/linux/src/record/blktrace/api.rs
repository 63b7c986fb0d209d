//! The five ioctls of block tracing, as the kernel's headers have them.
//!
//! They are as old as 2006, and one structure had no room for what came after: 16 bits of
//! categories, all of them used. So there is a second one since Linux 6.19, which a kernel that
//! does not know it answers with the same errors as any other unknown ioctl. Sources:
//! `include/uapi/linux/blktrace_api.h`, `include/uapi/linux/fs.h`, and for what they do
//! `kernel/trace/blktrace.c`.

use std::os::fd::AsFd;

use rustix::io::{Errno, Result};
use rustix::ioctl::{NoArg, Opcode, Updater, ioctl, opcode};

/// `BLKTRACESETUP`, `BLKTRACESTART`, `BLKTRACESTOP`, `BLKTRACETEARDOWN`.
const SETUP: Opcode = opcode::read_write::<SetupV1>(0x12, 115);
const START: Opcode = opcode::none(0x12, 116);
const STOP: Opcode = opcode::none(0x12, 117);
const TEARDOWN: Opcode = opcode::none(0x12, 118);

/// `BLKTRACESETUP2`.
const SETUP2: Opcode = opcode::read_write::<SetupV2>(0x12, 142);

/// `struct blk_user_trace_setup`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct SetupV1 {
    name: [u8; 32],
    categories: u16,
    buffer_bytes: u32,
    buffers: u32,
    start_sector: u64,
    end_sector: u64,
    pid: u32,
}

/// `struct blk_user_trace_setup2`.
#[repr(C)]
#[derive(Clone, Copy)]
struct SetupV2 {
    name: [u8; 64],
    categories: u64,
    buffer_bytes: u32,
    buffers: u32,
    start_sector: u64,
    end_sector: u64,
    pid: u32,
    flags: u32,
    reserved: [u64; 11],
}

// The kernel copies so many bytes, and the numbers of the ioctls hold them.
const _: () = assert!(size_of::<SetupV1>() == 72 && size_of::<SetupV2>() == 192);

/// How a trace is to be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    /// Bytes of one sub-buffer; a processor has [`sub_buffers`](Self::sub_buffers) of them.
    pub(super) sub_buffer_bytes: u32,
    /// How many sub-buffers each processor has.
    pub(super) sub_buffers: u32,
    /// The sectors of 512 bytes to look at, the first and the last; both zero for all.
    pub(super) sectors: (u64, u64),
}

/// What was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    /// What the kernel calls the device's directory below `block` in debugfs.
    pub(super) name: String,
    /// Which layout its records have: 7 (`struct blk_io_trace`) or 8 (`struct blk_io_trace2`).
    pub(super) record_version: u8,
}

/// Sets a trace up that does not run yet; with the second structure where the kernel has it.
///
/// All categories are asked for. The kernel lets an event pass that has *any* of them, and each
/// has one for its direction, so nothing can be left out that would be wanted less.
///
/// # Errors
///
/// `EBUSY` where somebody traces the device already, `ENOENT` where it has no directory in debugfs,
/// `ENOTTY` and others where the kernel has no block tracing.
pub(super) fn set_up<Fd: AsFd>(device: Fd, setup: &Setup) -> Result<Attached> {
    let mut second = SetupV2 {
        name: [0; 64],
        categories: u64::MAX,
        buffer_bytes: setup.sub_buffer_bytes,
        buffers: setup.sub_buffers,
        start_sector: setup.sectors.0,
        end_sector: setup.sectors.1,
        pid: 0,
        flags: 0,
        reserved: [0; 11],
    };
    // SAFETY: the kernel reads and writes a `struct blk_user_trace_setup2`, whose layout and size
    // the type has, and which any bytes make.
    match unsafe { ioctl(&device, Updater::<SETUP2, SetupV2>::new(&mut second)) } {
        Ok(()) => return Ok(Attached { name: text(&second.name), record_version: 8 }),
        Err(error) if !is_unknown(error) => return Err(error),
        Err(_) => {}
    }
    let mut first = SetupV1 {
        categories: u16::MAX,
        buffer_bytes: setup.sub_buffer_bytes,
        buffers: setup.sub_buffers,
        start_sector: setup.sectors.0,
        end_sector: setup.sectors.1,
        ..SetupV1::default()
    };
    // SAFETY: the kernel reads and writes a `struct blk_user_trace_setup`, whose layout and size
    // the type has, and which any bytes make.
    unsafe { ioctl(&device, Updater::<SETUP, SetupV1>::new(&mut first)) }?;
    Ok(Attached { name: text(&first.name), record_version: 7 })
}

/// Lets events come.
pub(super) fn start<Fd: AsFd>(device: Fd) -> Result<()> {
    // SAFETY: the kernel takes no argument and touches no memory of this process.
    unsafe { ioctl(device, NoArg::<START>::new()) }
}

/// Lets no more events come, and makes readable what is in the buffers.
pub(super) fn stop<Fd: AsFd>(device: Fd) -> Result<()> {
    // SAFETY: the kernel takes no argument and touches no memory of this process.
    unsafe { ioctl(device, NoArg::<STOP>::new()) }
}

/// Takes the trace out of the kernel, with what is still in its buffers, whoever set it up.
pub(super) fn tear_down<Fd: AsFd>(device: Fd) -> Result<()> {
    // SAFETY: the kernel takes no argument and touches no memory of this process.
    unsafe { ioctl(device, NoArg::<TEARDOWN>::new()) }
}

/// What an ioctl answers that the kernel or, asked in turn, the device's driver does not know.
fn is_unknown(error: Errno) -> bool {
    matches!(error, Errno::NOTTY | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// The name before the first zero.
fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_kernels_headers() {
        assert_eq!(SETUP, 0xC048_1273);
        assert_eq!((START, STOP, TEARDOWN), (0x1274, 0x1275, 0x1276));
        // 192 bytes, read and written, type 0x12, number 142.
        assert_eq!(SETUP2, 0xC0C0_128E);
    }

    #[test]
    fn what_is_no_block_device_is_refused_and_not_taken_for_traced() {
        let file = tempfile::tempfile().unwrap();
        let setup = Setup { sub_buffer_bytes: 4096, sub_buffers: 2, sectors: (0, 0) };
        assert_eq!(set_up(&file, &setup).unwrap_err(), Errno::NOTTY);
        assert_eq!(start(&file).unwrap_err(), Errno::NOTTY);
    }

    #[test]
    fn a_name_ends_at_its_first_zero() {
        assert_eq!(text(b"sda\0junk"), "sda");
        assert_eq!(text(b"full"), "full");
    }
}
