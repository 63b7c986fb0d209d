//! `run.toml`: the facts of a run.
//!
//! A run's directory is used longer than the version of the program that made it: runs are
//! compared, merged and verified by these facts. So only the types that wrote them read them: an
//! unknown key, a value of another type and a truncated file are errors with a place, and no
//! missing value is guessed. A key that is an `Option` here may be missing, because earlier
//! versions did not write it, or because it has no meaning for such a run.

mod target;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ioecho_linux::HostDescription;
use ioecho_replay::conflict::{ConflictMode, Strong};
use ioecho_replay::engine::PacingMode;
use ioecho_replay::plan::{Alignment, TimingMode, Writes};
use ioecho_replay::verify::After;
use ioecho_stats::required::Requirement;
use ioecho_stats::verdict::{Validity, Verdict};
use ioecho_trace::recording::Interface;
use ioecho_trace::{Header, VerifyMode};
use serde::{Deserialize, Serialize};

pub(crate) use target::TREE_IN_MEMORY;
pub use target::{RealTarget, SimulatedTarget, TargetEntry, TreeEntry};

use super::stored::{self, Unread};

/// The version of `run.toml` and of the directory as a whole. It grows when a key is added, changes
/// its meaning or is removed: a program refuses later versions and reads all earlier ones.
pub const RUN_VERSION: u32 = 1;

/// `run.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFacts {
    /// [`RUN_VERSION`] of the program that wrote it.
    pub version: u32,
    /// The state of the run.
    pub state: State,
    /// The reason why it is incomplete.
    pub reason: Option<String>,
    /// The version of the program; in a merged run, that of all programs if they are the same.
    pub ioecho: Option<String>,
    /// The run's number, or the numbers of the merged runs.
    pub run: RunNumbers,
    /// Wall-clock instants (RFC 3339).
    pub started: String,
    /// When it ended; `None` if it goes on or was killed.
    pub ended: Option<String>,
    /// The command line that repeats the run.
    pub command: Vec<String>,
    /// The replay's time zero on `CLOCK_MONOTONIC`, ns, a clock that the kernel's own traces also
    /// use; `None` in simulation.
    pub zero_monotonic_ns: Option<i64>,
    /// The process, to find out whether it is still alive; `None` in a merged run.
    pub pid: Option<u32>,
    /// The verdict, once it has ended.
    pub verdict: Option<Verdict>,
    /// The run that this one continues.
    pub continues: Option<Continued>,
    /// The plan of the replay.
    pub plan: PlanFacts,
    /// In the order in which results name them.
    pub targets: Vec<TargetEntry>,
    /// The host.
    pub host: HostDescription,
    /// The recording at the devices, if it was asked for.
    pub witness: Option<WitnessEntry>,
    /// The runs of a merged run; empty in a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedEntry>,
    /// Where the replayed trace comes from.
    pub trace: Header,
}

impl RunFacts {
    /// Reads `run.toml`.
    pub fn read(text: &str) -> Result<Self, Unread> {
        let facts: Self = stored::from_toml(text, RUN_VERSION)?;
        // In a merged run, the plan only has the values that all of its runs share.
        let lacking = facts.plan.lacking().filter(|_| facts.merged.is_empty());
        match lacking {
            Some(key) => Err(Unread::Broken {
                key: "plan".to_owned(),
                place: None,
                reason: format!("missing field `{key}`"),
            }),
            None => Ok(facts),
        }
    }

    /// The text of `run.toml`.
    pub fn text(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(&self.without_processes())
    }

    /// The same without the names of processes and files: there may be thousands of them, and the
    /// header of the requests has them too.
    #[must_use]
    pub fn without_processes(&self) -> Self {
        let mut facts = self.clone();
        facts.trace.processes.clear();
        facts.trace.files = None;
        facts.trace.merged.iter_mut().for_each(|other| other.processes.clear());
        facts
    }

    /// The timing of its requests.
    pub fn timing(&self) -> TimingMode {
        self.plan.timing.unwrap_or_default()
    }
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is still going on, or its process was killed.
    Running,
    /// It came to its end.
    Complete,
    /// It ended early.
    Incomplete,
}

impl State {
    /// The state's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }

    /// The state of a run that ended for this reason; the reason is empty if it came to its end.
    pub const fn ended(incomplete: &str) -> Self {
        if incomplete.is_empty() { Self::Complete } else { Self::Incomplete }
    }
}

/// The number of a run, which is written into every sector: 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunNumber(pub u64);

impl fmt::Display for RunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for RunNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = text.len() <= 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_number.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| format!("'{text}' is no number of a run"))
    }
}

/// The separator between the numbers of a merged run's single runs.
const AND: &str = "+";

/// The numbers of the single runs in a run: one, or those of a merged run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunNumbers(pub Vec<RunNumber>);

impl RunNumbers {
    /// The number of a single run; `None` for a merged one.
    pub fn single(&self) -> Option<RunNumber> {
        match self.0[..] {
            [number] => Some(number),
            _ => None,
        }
    }
}

impl fmt::Display for RunNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join(AND))
    }
}

impl FromStr for RunNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(AND).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Stores a type as its displayed word, and reads it by parsing that.
macro_rules! stored_as_word {
    ($($kind:ty),*) => {$(
        impl TryFrom<String> for $kind {
            type Error = <$kind as FromStr>::Err;

            fn try_from(word: String) -> Result<Self, Self::Error> {
                word.parse()
            }
        }

        impl From<$kind> for String {
            fn from(value: $kind) -> Self {
                value.to_string()
            }
        }
    )*};
}

stored_as_word!(RunNumber, RunNumbers);

/// The plan. In a merged run it only has the values that all of its runs share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the keys are those of `ReplaySpec`, which says what they mean")]
pub struct PlanFacts {
    pub trace: Option<PathBuf>,
    pub start_ns: Option<i64>,
    pub duration_ns: Option<i64>,
    pub end_after_ns: Option<i64>,
    pub timing: Option<TimingMode>,
    pub speedup: Option<f64>,
    pub server_speed: Option<f64>,
    /// How it is known which request waited for which, in words.
    pub chains: Option<String>,
    /// The flows in place of a trace, as they are typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Vec<String>>,
    pub iops_scale: Option<f64>,
    pub follow_in_flight: Option<bool>,
    pub bundle_ns: Option<i64>,
    pub writes: Option<Writes>,
    pub sync_writes: Option<bool>,
    pub alignment: Option<Alignment>,
    /// Where the volumes of the trace go, in words; empty if there was no choice.
    pub map: Option<Vec<String>>,
    pub fill_random_percent: Option<u8>,
    pub dedup: Option<f64>,
    /// The size of the blocks that share their content, where that follows from their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_unit_bytes: Option<u64>,
    /// The size of the storage's cache, as the user stated it.
    pub cache_bytes: Option<u64>,
    pub verify: Option<VerifyMode>,
    pub conflicts: Option<ConflictMode>,
    pub strong: Option<Strong>,
    pub in_flight_max: Option<u32>,
    /// The number of failed requests that ends the run.
    pub errors_max: Option<u64>,
    pub start_grace_ns: Option<i64>,
    /// The instant at which the run was to begin, nanoseconds since 1970 (UTC).
    pub start_at_unix_ns: Option<i64>,
    pub pacing: Option<PacingMode>,
    /// How long before a deadline the issuing thread stops sleeping, once measured.
    pub spin_ns: Option<i64>,
    /// Half of the sleeps ended no later than this after their time.
    pub wake_up_p50_ns: Option<i64>,
    /// 99 of 100 sleeps ended no later than this after their time.
    pub wake_up_p99_ns: Option<i64>,
    /// Checks that the run is required to pass.
    pub require: Option<Vec<Requirement>>,
    /// The requested and the actual settings of the host.
    pub host_setup: Option<Vec<String>>,
}

impl PlanFacts {
    /// The first key that this plan lacks although the plan of every single run has it.
    fn lacking(&self) -> Option<&'static str> {
        [
            ("trace", self.trace.is_none()),
            ("timing", self.timing.is_none()),
            ("speedup", self.speedup.is_none()),
            ("writes", self.writes.is_none()),
            ("dedup", self.dedup.is_none()),
            ("verify", self.verify.is_none()),
            ("conflicts", self.conflicts.is_none()),
            ("strong", self.strong.is_none()),
            ("in_flight_max", self.in_flight_max.is_none()),
        ]
        .into_iter()
        .find_map(|(key, is_missing)| is_missing.then_some(key))
    }
}

/// The facts of the run that another one continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continued {
    /// Its number.
    pub run: RunNumber,
    /// Its directory, with links resolved.
    pub path: PathBuf,
    /// What happened between the two runs.
    pub after: After,
}

/// A target and its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessedTarget {
    /// The target, by its place among the run's targets.
    pub target: u32,
    /// The name of its device in the kernel, which the witness uses.
    pub device: String,
}

/// The facts of the witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessEntry {
    /// The interface of the kernel; `None` if nothing could be recorded.
    #[serde(with = "or_empty")]
    pub interface: Option<Interface>,
    /// The reason for this interface.
    pub why: String,
    /// The recorded targets.
    pub targets: Vec<WitnessedTarget>,
    /// Targets without a witness, with the reason.
    pub without: Vec<String>,
    /// The messages of the recorder.
    pub notes: Vec<String>,
    /// The reason, if it ended before the run or could not be converted into a trace.
    pub incomplete: Option<String>,
    /// Events for which the kernel's buffers had no room.
    pub lost: u64,
    /// Processor time of the recorder, ns.
    pub cpu_ns: i64,
    /// The length of witness.parquet.
    pub bytes: Option<u64>,
    /// Its SHA-256.
    pub sha256: Option<String>,
}

/// An optional interface, stored as an empty word if there is none.
mod or_empty {
    use ioecho_trace::recording::Interface;
    use serde::de::IntoDeserializer;
    use serde::de::value::StringDeserializer;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::ref_option, reason = "so serde asks for it")]
    pub(super) fn serialize<S: Serializer>(
        interface: &Option<Interface>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.serialize_str(interface.map_or("", Interface::name))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Interface>, D::Error> {
        let word = String::deserialize(from)?;
        if word.is_empty() {
            return Ok(None);
        }
        let word: StringDeserializer<D::Error> = word.into_deserializer();
        Interface::deserialize(word).map(Some)
    }
}

/// A run that is part of a merged one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedEntry {
    /// Its name.
    pub name: String,
    /// Its number.
    pub run: RunNumbers,
    /// When it started (RFC 3339).
    pub started: String,
    /// The shift of its instants.
    pub shift_ns: i64,
    /// How many requests it has.
    pub requests: u64,
    /// Whether it was valid.
    pub validity: Validity,
    /// Its version, if not all runs of the merged one have the same.
    pub ioecho: Option<String>,
    /// The values of its plan that not all runs share.
    pub plan: Option<PlanFacts>,
    /// The facts of its host that not all runs share.
    pub host: Option<HostDescription>,
}

#[cfg(test)]
mod tests;
