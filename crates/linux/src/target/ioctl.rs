//! The ioctls on block devices that rustix does not offer (`include/uapi/linux/fs.h` and `loop.h`).

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `BLKGETSIZE64`. The header says `size_t` for its argument's type, and the kernel writes 64 bits.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);

/// `BLKDISCARD`: two 64-bit numbers, start and length in bytes.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// `LOOP_GET_STATUS64`: older than the scheme that numbers ioctls by their direction and size.
const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// The beginning of the kernel's `struct loop_info64`, and room for all of it.
#[repr(C)]
pub(super) struct LoopStatus {
    /// The number of the file system that holds the file.
    pub(super) device: u64,
    /// The file's number there.
    pub(super) inode: u64,
    /// Where the file is a device, its number; zero otherwise.
    pub(super) rdevice: u64,
    /// Where in the file the device begins, in bytes.
    pub(super) offset: u64,
    /// How many bytes of the file the device has at most; zero for all.
    pub(super) size_limit: u64,
    _numbers: [u64; 2],
    /// The path that the file had, with a zero behind it, as far as it fits.
    pub(super) path: [u8; 64],
    _rest: [u64; 14],
}

// The kernel copies so many bytes.
const _: () = assert!(size_of::<LoopStatus>() == 232);

/// The device's size in bytes.
pub(crate) fn size<Fd: AsFd>(device: Fd) -> Result<u64> {
    // SAFETY: the opcode is that of a getter, for which the kernel writes a `u64`
    // (`put_u64` in block/ioctl.c).
    unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }
}

/// Tells the device that a range is no longer needed, and waits until it has taken note.
pub(crate) fn discard<Fd: AsFd>(device: Fd, offset: u64, length: u64) -> Result<()> {
    // SAFETY: the kernel reads two `u64` from the argument (`blk_ioctl_discard` in block/ioctl.c)
    // and writes nothing.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new([offset, length])) }
}

/// What a loop device stands on.
///
/// The kernel's `huge_encode_dev`, which the numbers of devices come in, agrees with the C
/// library's `makedev` for all numbers that the kernel has: 12 bits of major and 20 of minor.
pub(super) fn loop_status<Fd: AsFd>(device: Fd) -> Result<LoopStatus> {
    // SAFETY: the opcode is that of a getter, for which the kernel writes a `struct loop_info64`
    // (`loop_get_status64` in drivers/block/loop.c); the type is as large, and any bytes make one.
    unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopStatus>::new()) }
}
