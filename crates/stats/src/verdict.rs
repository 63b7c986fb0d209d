//! The verdict: whether a run may be believed, and why.
//!
//! A figure without the proof that it measured what it says is worse than none. So every run ends
//! with a list of named checks, each with its measured value, its threshold and an advice, and with
//! one finding that says whose limits the run met.

use serde::{Deserialize, Serialize};

/// How a check, and a run as a whole, came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The check does not apply to this run.
    NotApplicable,
    /// The run is sound in this respect.
    Pass,
    /// The figures may be distorted; read the reason before using them.
    Suspect,
    /// The figures do not measure what they say.
    Invalid,
}

/// Whose limits the run met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The replay held its schedule.
    Faithful,
    /// The device could not take the load: a finding about the device.
    DeviceLimited,
    /// This program could not issue in time: a fault of the measurement.
    GeneratorLimited,
    /// The host did not let this program run in time: a fault of the measurement.
    HostStalled,
    /// The run ended before its end.
    Incomplete,
}

/// One named check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its stable name, such as `lateness` or `duration`.
    pub name: String,
    /// How it came out.
    pub grade: Grade,
    /// What was measured, with its unit.
    pub measured: String,
    /// What it was held against.
    pub threshold: String,
    /// What it means and what to do; empty where the check passed.
    pub advice: String,
}

/// The judgement of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst grade of all checks.
    pub grade: Grade,
    /// Whose limits the run met.
    pub finding: Finding,
    /// One sentence that a person reads first.
    pub summary: String,
    /// Every check.
    pub checks: Vec<Check>,
}
