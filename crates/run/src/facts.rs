//! `run.toml`: what a run says of itself.
//!
//! A run's directory outlives the program that made it, and by what it says runs are compared,
//! merged and verified. So it is read by the types that wrote it, and by nothing else: a key that
//! nobody knows, a value of another type and a file that was cut short are errors with a place, and
//! nothing that is missing is guessed. A key that is an `Option` here may be missing: earlier
//! versions did not write it, or it says nothing of such a run.

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

pub use target::{RealTarget, SimulatedTarget, TargetEntry};

use super::stored::{self, Unread};

/// The version of `run.toml` and of the directory as a whole. It grows when a key is added, changes
/// its meaning or goes away: a program refuses what it does not know, and reads all before it.
pub const RUN_VERSION: u32 = 1;

/// `run.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFacts {
    /// [`RUN_VERSION`] of the program that made it.
    pub version: u32,
    /// How far it has come.
    pub state: State,
    /// Why it is incomplete.
    pub reason: Option<String>,
    /// The version of the program; of a merged run that of all programs, where it is one.
    pub ioecho: Option<String>,
    /// Its number, or those of the runs that it was merged of.
    pub run: RunNumbers,
    /// Wall-clock instants (RFC 3339).
    pub started: String,
    /// When it ended; none of a run that goes on or was killed.
    pub ended: Option<String>,
    /// The command line that repeats the run.
    pub command: Vec<String>,
    /// The replay's time zero on `CLOCK_MONOTONIC`, ns, by which the kernel's own traces count too;
    /// none in simulation.
    pub zero_monotonic_ns: Option<i64>,
    /// The process, for whoever wonders whether it still lives; none of a merged run.
    pub pid: Option<u32>,
    /// The verdict, once it has ended.
    pub verdict: Option<Verdict>,
    /// The run that this one goes on from.
    pub continues: Option<Continued>,
    /// What was to be done.
    pub plan: PlanFacts,
    /// In the order in which results name them.
    pub targets: Vec<TargetEntry>,
    /// The host.
    pub host: HostDescription,
    /// What was recorded of it at the devices, where that was asked for.
    pub witness: Option<WitnessEntry>,
    /// The runs that a merged one is made of; none of a single run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedEntry>,
    /// Where the replayed trace comes from.
    pub trace: Header,
}

impl RunFacts {
    /// Reads `run.toml`.
    pub fn read(text: &str) -> Result<Self, Unread> {
        let facts: Self = stored::from_toml(text, RUN_VERSION)?;
        // Of a merged run the plan has what all of its runs say alike.
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

    /// The same without the names of processes: there may be thousands of them, and the requests'
    /// own header has them.
    #[must_use]
    pub fn without_processes(&self) -> Self {
        let mut facts = self.clone();
        facts.trace.processes.clear();
        facts.trace.merged.iter_mut().for_each(|other| other.processes.clear());
        facts
    }

    /// When its requests were issued.
    pub fn timing(&self) -> TimingMode {
        self.plan.timing.unwrap_or_default()
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It goes on, or its process was killed.
    Running,
    /// It came to its end.
    Complete,
    /// It ended before its end.
    Incomplete,
}

impl State {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }

    /// Of a run that ended for this reason, which is empty where it came to its end.
    pub const fn ended(incomplete: &str) -> Self {
        if incomplete.is_empty() { Self::Complete } else { Self::Incomplete }
    }
}

/// The number of a run, as it stands in every sector that it wrote: 16 hexadecimal digits.
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

/// Between the numbers of the runs of which a merged one is made.
const AND: &str = "+";

/// The numbers of the single runs that a run is made of: one, or those of a merged run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunNumbers(pub Vec<RunNumber>);

impl RunNumbers {
    /// The number of a single run; `None` of a merged one.
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

/// Lets a type be stored as the word that it is displayed as and parsed from.
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

/// The plan. Of a merged run it has what all of its runs say alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the keys are those of `ReplaySpec`, which says what they mean")]
pub struct PlanFacts {
    pub trace: Option<PathBuf>,
    pub start_ns: Option<i64>,
    pub duration_ns: Option<i64>,
    pub timing: Option<TimingMode>,
    pub speedup: Option<f64>,
    pub iops_scale: Option<f64>,
    pub follow_in_flight: Option<bool>,
    pub bundle_ns: Option<i64>,
    pub writes: Option<Writes>,
    pub sync_writes: Option<bool>,
    pub alignment: Option<Alignment>,
    /// Where the volumes of the trace go, in words; empty where there was no choice.
    pub map: Option<Vec<String>>,
    pub fill_random_percent: Option<u8>,
    pub dedup: Option<f64>,
    /// The storage's cache, as its user named it.
    pub cache_bytes: Option<u64>,
    pub verify: Option<VerifyMode>,
    pub conflicts: Option<ConflictMode>,
    pub strong: Option<Strong>,
    pub in_flight_max: Option<u32>,
    /// How many failed requests end the run.
    pub errors_max: Option<u64>,
    pub start_grace_ns: Option<i64>,
    pub pacing: Option<PacingMode>,
    /// How long before a deadline the issuing thread stops sleeping, once that was measured.
    pub spin_ns: Option<i64>,
    /// Half of the sleeps ended no later than this after their time.
    pub wake_up_p50_ns: Option<i64>,
    /// 99 of 100 sleeps ended no later than this after their time.
    pub wake_up_p99_ns: Option<i64>,
    /// Checks that the run is required to pass.
    pub require: Option<Vec<Requirement>>,
    /// What the host was asked for and gave.
    pub host_setup: Option<Vec<String>>,
}

impl PlanFacts {
    /// The first key that every plan of a single run has and this one lacks.
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

/// What is said of the run that another one goes on from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continued {
    /// Its number.
    pub run: RunNumber,
    /// Its directory, without links.
    pub path: PathBuf,
    /// What came between the two.
    pub after: After,
}

/// A target and its device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessedTarget {
    /// The target, by its place among the run's targets.
    pub target: u32,
    /// The name of its device in the kernel, by which the witness calls it.
    pub device: String,
}

/// What is said of the witness.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WitnessEntry {
    /// By which interface of the kernel; `None` where nothing could be recorded.
    #[serde(with = "or_empty")]
    pub interface: Option<Interface>,
    /// Why by this one.
    pub why: String,
    /// The recorded targets.
    pub targets: Vec<WitnessedTarget>,
    /// Targets of which there is no witness, and why.
    pub without: Vec<String>,
    /// What the recorder had to say.
    pub notes: Vec<String>,
    /// Why it ended before the run, if it did, or could not be made a trace.
    pub incomplete: Option<String>,
    /// Events that found no room in the kernel's buffers.
    pub lost: u64,
    /// Processor time of the recorder, ns.
    pub cpu_ns: i64,
    /// The length of witness.parquet.
    pub bytes: Option<u64>,
    /// Its SHA-256.
    pub sha256: Option<String>,
}

/// An interface that may be none, which is an empty word in the file.
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

/// A run that a merged one is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MergedEntry {
    /// What it was called.
    pub name: String,
    /// Its number.
    pub run: RunNumbers,
    /// When it began (RFC 3339).
    pub started: String,
    /// By how much its instants were moved.
    pub shift_ns: i64,
    /// How many requests it has.
    pub requests: u64,
    /// Whether it was valid.
    pub validity: Validity,
    /// What it says otherwise than other runs of the whole, or alone.
    pub ioecho: Option<String>,
    /// Of its plan, likewise.
    pub plan: Option<PlanFacts>,
    /// Of its host, likewise.
    pub host: Option<HostDescription>,
}

#[cfg(test)]
mod tests;
