//! The targets that a device drives: one, or several side by side.

use std::io::IoSlice;

use ioecho_replay::Io;
use ioecho_replay::joint::Joint;
use ioecho_trace::{Bytes, Flags, Op, Outcome};
use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2, retry_on_intr};

use super::buffers::Buffer;
use super::workers::Serve;
use super::{expected, outcome, supports};
use crate::target::{OpenedTarget, TargetKind, discard};

/// Opened targets, and where each lies among the places of the device.
#[derive(Debug)]
pub(super) struct Targets {
    all: Vec<OpenedTarget>,
    joint: Joint,
}

impl Targets {
    /// These targets, in the order of their places; `joint` has as many.
    pub(super) fn new(all: Vec<OpenedTarget>, joint: Joint) -> Self {
        Self { all, joint }
    }

    /// One target.
    pub(super) fn one(target: OpenedTarget) -> Self {
        let joint = Joint::new([(0, target.facts().capacity)]);
        Self { all: vec![target], joint }
    }

    /// The targets.
    pub(super) fn all(&self) -> &[OpenedTarget] {
        &self.all
    }

    /// The target of a request by its number among these, and the request as it is asked for it.
    #[inline]
    pub(super) fn of(&self, io: &Io) -> (usize, Io) {
        self.joint.apart(io)
    }

    /// Where the last of them ends.
    pub(super) fn capacity(&self) -> Bytes {
        self.joint.end()
    }

    /// What offsets and lengths must be multiples of on all of them.
    pub(super) fn logical_block(&self) -> Bytes {
        let blocks = self.all.iter().map(|target| target.facts().logical_block);
        blocks.max().unwrap_or(Bytes(1))
    }

    /// Whether all of them can be asked for this.
    pub(super) fn supports(&self, op: Op) -> bool {
        self.all.iter().all(|target| supports(target, op))
    }

    /// Whether all of them are used with direct I/O.
    pub(super) fn are_direct(&self) -> bool {
        self.all.iter().all(|target| target.facts().direct)
    }

    /// Does one request and answers how many bytes it moved.
    fn perform(&self, io: &Io, buffer: Option<&mut Buffer>) -> rustix::io::Result<usize> {
        let (at, io) = self.of(io);
        let target = &self.all[at];
        let file = &target.file;
        let (offset, length) = (io.offset.0, io.length.0);
        let data = buffer.map_or(&mut [][..], |buffer| buffer.bytes(length as usize));
        let allocate = |mode: FallocateFlags| {
            fallocate(file, mode | FallocateFlags::KEEP_SIZE, offset, length).map(|()| 0)
        };
        match io.op {
            Op::Read => retry_on_intr(|| pread(file, &mut *data, offset)),
            Op::Write => {
                if io.flags.contains(Flags::PREFLUSH) {
                    fdatasync(file)?;
                }
                if io.flags.contains(Flags::FUA) {
                    let parts = [IoSlice::new(data)];
                    retry_on_intr(|| pwritev2(file, &parts, offset, ReadWriteFlags::DSYNC))
                } else {
                    retry_on_intr(|| pwrite(file, data, offset))
                }
            }
            Op::Flush => fdatasync(file).map(|()| 0),
            Op::Discard if target.facts().kind == TargetKind::BlockDevice => {
                discard(file, offset, length).map(|()| 0)
            }
            Op::Discard => allocate(FallocateFlags::PUNCH_HOLE),
            Op::WriteZeroes => allocate(FallocateFlags::ZERO_RANGE),
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

impl Serve for Targets {
    type Memory = Option<Buffer>;

    fn serve(&self, io: &Io, memory: &mut Option<Buffer>) -> Outcome {
        let answer = self.perform(io, memory.as_mut());
        let result = answer.map_or_else(|error| -error.raw_os_error(), |moved| moved as i32);
        outcome(result, expected(io))
    }
}
