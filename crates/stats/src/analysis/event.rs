//! The instants of a request, for a load and for a run alike.
//!
//! A load knows when a request was issued and perhaps how long it took; a run knows when it was
//! due, when it went out and when it came back. Every summary over time needs the same instants of
//! both, so they are defined once, here.

use ioecho_trace::{Measured, Op, Outcome, Request};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::subset::Subset;

/// Groups of requests: blkreplay's colours, and the operations on files, each of which takes its
/// own time. The word of a group is its name in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Reads that waited for nobody.
    Read,
    /// Writes that waited for nobody.
    Write,
    /// Reads that overlapped a request in flight and waited for it.
    PushedRead,
    /// Writes that overlapped a request in flight and waited for it.
    PushedWrite,
    /// Everything else that devices do, such as flushes and discards.
    Other,
    /// An operation that only file systems have.
    OfFiles(Op),
}

/// How many groups there are beside the operations on files.
const OF_DEVICES: usize = 5;

impl Group {
    /// How many groups there are.
    pub const COUNT: usize = OF_DEVICES + Op::ALL.len() - Op::OF_DEVICES.len();

    /// Every group, by its [`index`](Self::index).
    pub const ALL: [Self; Self::COUNT] = {
        let mut all = [Self::Read; Self::COUNT];
        [all[1], all[2]] = [Self::Write, Self::PushedRead];
        [all[3], all[4]] = [Self::PushedWrite, Self::Other];
        let mut at = OF_DEVICES;
        while at < Self::COUNT {
            all[at] = Self::OfFiles(Op::ALL[at - OF_DEVICES + Op::OF_DEVICES.len()]);
            at += 1;
        }
        all
    };

    /// The group of a request.
    pub const fn of(op: Op, pushed_back: bool) -> Self {
        match (op, pushed_back) {
            (Op::Read, false) => Self::Read,
            (Op::Write, false) => Self::Write,
            (Op::Read, true) => Self::PushedRead,
            (Op::Write, true) => Self::PushedWrite,
            (op, _) if op.is_of_files() => Self::OfFiles(op),
            _ => Self::Other,
        }
    }

    /// Its place in [`Group::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::PushedRead => 2,
            Self::PushedWrite => 3,
            Self::Other => 4,
            Self::OfFiles(op) => OF_DEVICES + op as usize - Op::OF_DEVICES.len(),
        }
    }

    /// The name in legends.
    pub const fn name(self) -> &'static str {
        Subset::of(self).name()
    }

    /// A single word for it, as in JSON and in rows of databases.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::PushedRead => "pushed-read",
            Self::PushedWrite => "pushed-write",
            Self::Other => "other",
            Self::OfFiles(op) => op.name(),
        }
    }
}

/// People read words; what a part keeps for a merge is the number.
impl Serialize for Group {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.serialize_str(self.word())
        } else {
            to.serialize_u8(self.index() as u8)
        }
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let found = if from.is_human_readable() {
            let word = String::deserialize(from)?;
            Self::ALL.into_iter().find(|group| group.word() == word)
        } else {
            Self::ALL.get(usize::from(u8::deserialize(from)?)).copied()
        };
        found.ok_or_else(|| D::Error::custom("there is no such group"))
    }
}

/// How many groups there are.
pub(crate) const GROUPS: usize = Group::COUNT;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_on_files_is_a_group_of_its_own_and_each_group_is_in_its_place() {
        for (index, group) in Group::ALL.into_iter().enumerate() {
            assert_eq!(group.index(), index, "{group:?}");
            let text = serde_json::to_string(&group).unwrap();
            assert_eq!(text, format!("\"{}\"", group.word()));
            assert_eq!(serde_json::from_str::<Group>(&text).unwrap(), group);
        }
        for op in Op::ALL.into_iter().filter(|op| op.is_of_files()) {
            for pushed_back in [false, true] {
                let group = Group::of(op, pushed_back);
                assert_eq!((group, group.word()), (Group::OfFiles(op), op.name()));
            }
        }
        assert_eq!([Op::Flush, Op::Zone].map(|op| Group::of(op, false)), [Group::Other; 2]);
    }
}
