//! The targets that a device drives: one, or several side by side.

use ioecho_replay::Io;
use ioecho_replay::joint::Joint;
use ioecho_trace::{Bytes, Op};

use super::supports;
use crate::target::OpenedTarget;

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
}
