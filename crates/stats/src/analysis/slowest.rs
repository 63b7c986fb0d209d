//! The slowest requests, with their circumstances.
//!
//! A percentile says that one request in ten thousand took a second, and the next question is
//! always which one: a huge one, one of many in flight, the first after a pause? So the slowest are
//! kept with all their columns. Two lists merge to the list of both.

use std::cmp::Reverse;

use ioecho_trace::{LateCause, Op};
use serde::{Deserialize, Serialize};

use super::event::Group;
use super::seconds::Seconds;
use super::sweep::{Levels, Row};

/// How many are kept.
pub const SLOWEST: usize = 100;

/// A slow request. Instants are nanoseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slow {
    /// When it was due; of a load when it was issued.
    pub scheduled_ns: i64,
    /// When it was submitted.
    pub submitted_ns: i64,
    /// When it came back.
    pub completed_ns: Option<i64>,
    /// Completed − submitted.
    pub service_ns: i64,
    /// Completed − scheduled.
    pub response_ns: i64,
    /// Submitted − scheduled; `None` of a load.
    pub lateness_ns: Option<i64>,
    /// Why it was late.
    pub late_cause: LateCause,
    /// What it asked for.
    pub op: Op,
    /// Whether it was pushed back, with its kind.
    pub group: Group,
    /// The volume of the trace.
    pub volume: u32,
    /// Where it began on it.
    pub offset: u64,
    /// How many bytes it covered.
    pub length: u64,
    /// The process that issued it, where it is known.
    pub pid: Option<u32>,
    /// Requests in flight on its volume when it was submitted, itself included.
    pub in_flight: u32,
    /// Of these, the ones of its own group.
    pub in_flight_own: u32,
    /// Requests due on its volume and not submitted by then.
    pub waiting: u32,
    /// Requests due in the second of its submission, on all volumes.
    pub due_in_second: u64,
    /// Requests that came back in that second, on all volumes.
    pub completed_in_second: u64,
}

impl Slow {
    fn of(row: &Row, levels: Levels) -> Option<Self> {
        Some(Self {
            scheduled_ns: row.scheduled,
            submitted_ns: row.submitted,
            completed_ns: row.completed,
            service_ns: row.service?,
            response_ns: row.response?,
            lateness_ns: row.delay,
            late_cause: row.late_cause,
            op: row.op,
            group: row.group,
            volume: row.volume,
            offset: row.offset,
            length: row.length,
            pid: row.pid,
            in_flight: levels.flying,
            in_flight_own: levels.own,
            waiting: levels.waiting,
            due_in_second: 0,
            completed_in_second: 0,
        })
    }

    /// Looks up the second around its submission.
    pub(crate) fn count_around(&mut self, seconds: &Seconds) {
        let second = seconds.of_instant(self.submitted_ns);
        self.due_in_second = second.demanded_requests();
        self.completed_in_second = second.achieved_requests();
    }
}

/// The longest first; of equals the earliest, so that parts in any order make the same list.
type Order = (Reverse<i64>, i64, i64, u32, u64, u64, u8, u32);

fn order(slow: &Slow, value: i64) -> Order {
    let Slow { submitted_ns, scheduled_ns, volume, offset, length, op, in_flight, .. } = slow;
    let op = op.code();
    (Reverse(value), *submitted_ns, *scheduled_ns, *volume, *offset, *length, op, *in_flight)
}

/// A list in [`Order`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Top(Vec<Slow>);

impl Top {
    /// Whether a value has a place in the list.
    fn admits(&self, value: i64, of: fn(&Slow) -> i64) -> bool {
        self.0.len() < SLOWEST || self.0.last().is_some_and(|last| value >= of(last))
    }

    fn insert(&mut self, slow: Slow, of: fn(&Slow) -> i64) {
        let place = order(&slow, of(&slow));
        let at = self.0.partition_point(|other| order(other, of(other)) <= place);
        self.0.insert(at, slow);
        self.0.truncate(SLOWEST);
    }
}

/// The slowest by service time and by response time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slowest {
    service: Top,
    response: Top,
}

const SERVICE: fn(&Slow) -> i64 = |slow| slow.service_ns;
const RESPONSE: fn(&Slow) -> i64 = |slow| slow.response_ns;

impl Slowest {
    #[inline]
    pub(crate) fn add(&mut self, row: &Row, levels: Levels) {
        let (Some(service), Some(response)) = (row.service, row.response) else { return };
        let by_service = self.service.admits(service, SERVICE);
        // Of a load both are the same.
        let by_response = row.delay.is_some() && self.response.admits(response, RESPONSE);
        if !by_service && !by_response {
            return;
        }
        let Some(slow) = Slow::of(row, levels) else { return };
        if by_response {
            self.response.insert(slow.clone(), RESPONSE);
        }
        if by_service {
            self.service.insert(slow, SERVICE);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        other.service.0.iter().for_each(|slow| self.service.insert(slow.clone(), SERVICE));
        other.response.0.iter().for_each(|slow| self.response.insert(slow.clone(), RESPONSE));
    }

    pub(crate) fn by_service(&self) -> &[Slow] {
        &self.service.0
    }

    pub(crate) fn by_response(&self) -> &[Slow] {
        &self.response.0
    }
}
