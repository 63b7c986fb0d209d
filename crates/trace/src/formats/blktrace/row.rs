//! A request that waits for its completion.

use super::classify::Class;
use super::record::Event;
use crate::request::{Flags, Op, Origin, Request};
use crate::units::{Bytes, Nanos, VolumeId};

/// The knowledge about a request's completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// The completion is known, but a better one may come.
    Tentative,
    Done,
    /// The completion is lost: events were lost while the request was in flight.
    Unknown,
}

/// A request that is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// The instant of issue in nanoseconds of the recording's clock.
    pub(super) issue: u64,
    /// The position in bytes.
    pub(super) offset: u64,
    /// The instant of completion in nanoseconds of the recording's clock; meaningless while
    /// waiting.
    pub(super) completed: u64,
    /// The length in bytes.
    pub(super) length: u32,
    /// The number of bytes that no completion covered yet.
    pub(super) left: u32,
    pub(super) volume: u32,
    pub(super) pid: u32,
    cpu: u32,
    op: Op,
    pub(super) class: Class,
    pub(super) flags: Flags,
    pub(super) state: State,
    /// Whether the driver got the request.
    pub(super) driven: bool,
    /// Whether a second attempt at the request was seen.
    pub(super) again: bool,
    /// Whether the request was completed as a part of a larger one, or in parts.
    pub(super) pieced: bool,
    /// Whether a completion of the request was an error.
    pub(super) failed: bool,
    /// Whether a tentative completion is too early unless more is seen: a flush must follow.
    pub(super) is_early: bool,
    /// Whether the completion may be that of another request.
    pub(super) in_doubt: bool,
    /// Whether the kernel refused the request and no second attempt was seen.
    pub(super) refused: bool,
}

impl Row {
    /// The request of an event.
    pub(super) fn new(
        event: &Event,
        op: Op,
        class: Class,
        flags: Flags,
        volume: u32,
        offset: u64,
    ) -> Self {
        let length = if op == Op::Flush { 0 } else { event.bytes };
        Self {
            issue: event.time,
            offset,
            completed: 0,
            length,
            left: length,
            volume,
            pid: event.pid,
            cpu: event.cpu,
            op,
            class,
            flags,
            state: State::Waiting,
            driven: false,
            again: false,
            pieced: false,
            failed: false,
            is_early: false,
            in_doubt: false,
            refused: false,
        }
    }

    /// The request, its instants counted from `start`.
    pub(super) fn request(&self, start: u64) -> Request {
        let latency = || Nanos(self.completed.saturating_sub(self.issue).min(1 << 62) as i64);
        Request {
            issue: Nanos(self.issue.saturating_sub(start).min(1 << 62) as i64),
            op: self.op,
            flags: self.flags,
            offset: Bytes(self.offset),
            length: Bytes(u64::from(self.length)),
            volume: VolumeId(self.volume),
            latency: self.is_complete().then(latency),
            origin: Some(Origin { pid: self.pid, cpu: self.cpu }),
            measured: None,
        }
    }

    /// Whether the completion of the request is known.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Tentative | State::Done)
    }

    /// The first byte behind the range.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}
