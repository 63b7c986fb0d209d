//! The end of a run after a time that was asked for.

use ioecho_trace::units::counted;
use ioecho_trace::{LateCause, Nanos};
use serde::{Deserialize, Serialize};

/// What was left of the load when a run came to the end that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndedAfter {
    /// The time from the replay's zero after which nothing more was issued.
    pub after_ns: i64,
    /// Requests that were due by then and were not issued. Each is in `planned`, none is recorded.
    pub not_issued: u64,
    /// How long the first of them had been due: so far the run lay behind.
    pub behind_ns: i64,
    /// How long they had been due, added up.
    pub lateness_ns: i64,
    /// Why the first was not issued; of several targets on the one that lay behind most.
    pub cause: LateCause,
}

impl EndedAfter {
    /// The end in words: `ended after 1 min, as was asked for`.
    pub fn told(&self) -> String {
        let end = format!("ended after {}, as was asked for", Nanos(self.after_ns));
        if self.not_issued == 0 {
            return end;
        }
        format!(
            "{end}; {} not issued though due by then, the first for {}",
            counted(self.not_issued, "request"),
            Nanos(self.behind_ns)
        )
    }

    /// Adds the end of another run that went on at the same time.
    pub(super) fn merge(&mut self, other: &Self) {
        let Self { after_ns, not_issued, behind_ns, lateness_ns, cause } = *other;
        // The cause of the run that lay behind most.
        let rank = |ended: &Self| (ended.behind_ns, ended.cause as u8);
        if rank(other) > rank(self) {
            self.cause = cause;
        }
        // Where the last run ended.
        self.after_ns = self.after_ns.max(after_ns);
        self.not_issued = self.not_issued.saturating_add(not_issued);
        self.behind_ns = self.behind_ns.max(behind_ns);
        self.lateness_ns = self.lateness_ns.saturating_add(lateness_ns);
    }
}
