//! The two ioctls on block devices that rustix does not offer (`include/uapi/linux/fs.h`).

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `BLKGETSIZE64`. The header says `size_t` for its argument's type, and the kernel writes 64 bits.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);

/// `BLKDISCARD`: two 64-bit numbers, start and length in bytes.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

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
