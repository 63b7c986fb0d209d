//! The instants of a request, for a load and for a run alike.
//!
//! A load knows when a request was issued and perhaps how long it took; a run knows when it was
//! due, when it went out and when it came back. Every summary over time needs the same instants of
//! both, so they are defined once, here.

use ioecho_trace::{Measured, Op, Outcome, Request};
use serde::{Deserialize, Serialize};

use super::subset::Subset;

/// Groups of requests: blkreplay's colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Group {
    /// Reads that waited for nobody.
    Read = 0,
    /// Writes that waited for nobody.
    Write = 1,
    /// Reads that overlapped a request in flight and waited for it.
    PushedRead = 2,
    /// Writes that overlapped a request in flight and waited for it.
    PushedWrite = 3,
    /// Everything else, such as flushes and discards.
    Other = 4,
}

impl Group {
    /// Every group, in the order of its number.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Write, Self::PushedRead, Self::PushedWrite, Self::Other];

    /// The group of a request.
    pub const fn of(op: Op, pushed_back: bool) -> Self {
        match (op, pushed_back) {
            (Op::Read, false) => Self::Read,
            (Op::Write, false) => Self::Write,
            (Op::Read, true) => Self::PushedRead,
            (Op::Write, true) => Self::PushedWrite,
            _ => Self::Other,
        }
    }

    /// The name in legends and JSON.
    pub fn name(self) -> &'static str {
        Subset::from(self).name()
    }
}

/// How many groups there are.
pub(crate) const GROUPS: usize = Group::ALL.len();

/// A request on the axis of time. Instants are nanoseconds from the start, never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) group: Group,
    /// Bytes of reads and writes; zero of what moves no data.
    pub(crate) bytes: u64,
    pub(crate) volume: u32,
    /// When it was due: of a run its schedule, of a load its issue.
    pub(crate) scheduled: i64,
    /// When it went out: of a run when it was submitted, of a load its issue if its latency is
    /// known.
    pub(crate) submitted: Option<i64>,
    /// When it came back, not before it went out.
    pub(crate) completed: Option<i64>,
    /// When it would have come back if it had taken as long as when it was recorded; of runs only.
    pub(crate) recorded: Option<i64>,
    /// Whether it came back in full.
    pub(crate) done: bool,
    /// Whether it came to nothing: answered with an error, never issued, abandoned.
    pub(crate) failed: bool,
    /// Whether a replay measured it.
    pub(crate) measured: bool,
}

impl Event {
    pub(crate) fn of(request: &Request) -> Self {
        let moves_data = matches!(request.op, Op::Read | Op::Write);
        let bytes = if moves_data { request.length.0 } else { 0 };
        let (pushed, times) = match &request.measured {
            Some(measured) => (measured.pushed_back, Times::of_run(request, measured)),
            None => (false, Times::of_load(request)),
        };
        Self {
            group: Group::of(request.op, pushed),
            bytes,
            volume: request.volume.0,
            scheduled: times.scheduled,
            submitted: times.submitted,
            completed: times.completed,
            recorded: times.recorded,
            done: times.done,
            failed: times.failed,
            measured: request.measured.is_some(),
        }
    }

    /// Completed − submitted, of requests that completed in full: a quick error is not a quick
    /// answer.
    pub(crate) fn service(&self) -> Option<i64> {
        Some(self.completed.filter(|_| self.done)?.saturating_sub(self.submitted?))
    }

    /// Completed − scheduled, of requests that came back in full.
    pub(crate) fn response(&self) -> Option<i64> {
        Some(self.completed.filter(|_| self.done)?.saturating_sub(self.scheduled))
    }

    /// Submitted − scheduled, of requests of a run.
    pub(crate) fn delay(&self) -> Option<i64> {
        let submitted = self.submitted.filter(|_| self.measured)?;
        Some(submitted.saturating_sub(self.scheduled))
    }

    /// The last instant that it has.
    pub(crate) fn end(&self) -> i64 {
        self.completed.max(self.submitted).unwrap_or(0).max(self.scheduled)
    }
}

struct Times {
    scheduled: i64,
    submitted: Option<i64>,
    completed: Option<i64>,
    recorded: Option<i64>,
    done: bool,
    failed: bool,
}

impl Times {
    fn of_run(request: &Request, measured: &Measured) -> Self {
        let scheduled = measured.scheduled.0.max(0);
        let submitted = measured.submitted.map(|at| at.0.max(0));
        let completed = measured.completed.map(|at| at.0.max(submitted.unwrap_or(0)));
        let latency = request.latency.map(|latency| latency.0.max(0));
        Self {
            scheduled,
            submitted,
            completed,
            recorded: latency.map(|latency| scheduled.saturating_add(latency)),
            done: measured.outcome == Outcome::Ok,
            failed: measured.outcome != Outcome::Ok,
        }
    }

    fn of_load(request: &Request) -> Self {
        let issue = request.issue.0.max(0);
        let completed = request.latency.map(|latency| issue.saturating_add(latency.0.max(0)));
        Self {
            scheduled: issue,
            submitted: completed.map(|_| issue),
            completed,
            recorded: None,
            done: completed.is_some(),
            failed: false,
        }
    }
}
