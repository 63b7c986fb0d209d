//! A request in the language of `io_uring`.

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags as EntryFlags};
use io_uring::types::{Fd, Fixed, FsyncFlags};
use ioecho_replay::Io;
use ioecho_trace::{Flags, Op};
use rustix::fs::FallocateFlags;
use rustix::io::ReadWriteFlags;

use super::buffers::Buffer;
use super::is_ordered;
use super::ring::{BLOCK_URING_CMD_DISCARD, discard_area};

/// Marks the completion of the flush that goes before a write with PREFLUSH. The tag of the request
/// stands in the lower half.
pub(super) const FLUSH_PART: u64 = 1 << 32;

/// Marks the completion of the bell.
pub(super) const BELL: u64 = 1 << 33;

/// Whose request an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A request of the caller's.
    Request,
    /// One that is a flush or begins with one.
    FlushFirst,
    /// The write of a request whose flush has completed: internal to the queue.
    AfterFlush,
    /// The poll of the bell: internal to the queue.
    Bell,
}

/// Something that the kernel has not taken.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) role: Role,
    /// The request's tag.
    pub(super) tag: u32,
    /// The number of its target.
    pub(super) at: u16,
    /// Entries that the kernel has not taken.
    pub(super) parts: u8,
    first: Entry,
    /// What goes behind a flush that stands first.
    pub(super) second: Option<Entry>,
}

impl Prepared {
    /// `at` is the place of the target in the ring's table of files. `buffer` must stay valid until
    /// the request has completed; a request that moves no data has none.
    pub(super) fn new(
        io: &Io,
        at: usize,
        buffer: Option<&mut Buffer>,
        has_discard_command: bool,
    ) -> Self {
        let (tag, file, at) = (u64::from(io.tag), Fixed(at as u32), at as u16);
        let role = if io.begins_with_flush() { Role::FlushFirst } else { Role::Request };
        let entry = build(io, file, buffer, has_discard_command).user_data(tag);
        if is_ordered(io) {
            let first = flush(file).flags(EntryFlags::IO_LINK).user_data(tag | FLUSH_PART);
            Self { role, tag: io.tag, at, parts: 2, first, second: Some(entry) }
        } else {
            Self { role, tag: io.tag, at, parts: 1, first: entry, second: None }
        }
    }

    /// The write of the request of this tag, whose flush has completed.
    pub(super) fn after_flush(tag: u32, write: Entry) -> Self {
        Self { role: Role::AfterFlush, tag, at: 0, parts: 1, first: write, second: None }
    }

    /// Completes once when this file can be read from.
    pub(super) fn bell(file: i32) -> Self {
        let poll = opcode::PollAdd::new(Fd(file), libc::POLLIN as u32).build().user_data(BELL);
        Self { role: Role::Bell, tag: 0, at: 0, parts: 1, first: poll, second: None }
    }

    /// Whether it is internal to the queue.
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.role, Role::AfterFlush | Role::Bell)
    }

    /// Its entries, in order. Where there are two the first is a flush that the second waits for.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        std::iter::once(&self.first).chain(&self.second)
    }
}

/// What the request asks the kernel for, apart from a flush before it.
///
/// Without the discard command, punching a hole in a block device unmaps it too, but as
/// `REQ_OP_WRITE_ZEROES` (`blkdev_fallocate` in block/fops.c), and devices that cannot do this
/// answer that it is unsupported.
fn build(io: &Io, file: Fixed, buffer: Option<&mut Buffer>, has_discard_command: bool) -> Entry {
    let (offset, length) = (io.offset.0, io.length.0);
    let registered = buffer.as_ref().and_then(|buffer| buffer.registered());
    let memory = buffer.map_or(std::ptr::null_mut(), Buffer::address);
    let allocate = |mode: FallocateFlags| {
        let mode = (mode | FallocateFlags::KEEP_SIZE).bits() as i32;
        opcode::Fallocate::new(file, length).offset(offset).mode(mode).build()
    };
    match io.op {
        Op::Read => match registered {
            Some(index) => {
                opcode::ReadFixed::new(file, memory, length as u32, index).offset(offset).build()
            }
            None => opcode::Read::new(file, memory, length as u32).offset(offset).build(),
        },
        Op::Write => {
            let fua = io.flags.contains(Flags::FUA);
            let flags = if fua { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
            let flags = flags.bits() as i32;
            if let Some(index) = registered {
                let write = opcode::WriteFixed::new(file, memory, length as u32, index);
                write.offset(offset).rw_flags(flags).build()
            } else {
                let write = opcode::Write::new(file, memory, length as u32);
                write.offset(offset).rw_flags(flags).build()
            }
        }
        Op::Flush => flush(file),
        Op::Discard if has_discard_command => {
            let command = opcode::UringCmd16::new(file, BLOCK_URING_CMD_DISCARD);
            command.addr(Some(offset)).cmd(discard_area(length)).build()
        }
        Op::Discard => allocate(FallocateFlags::PUNCH_HOLE),
        Op::WriteZeroes => allocate(FallocateFlags::ZERO_RANGE),
        _ => unreachable!("a request that the device does not support was prepared"),
    }
}

fn flush(file: Fixed) -> Entry {
    opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build()
}
