//! The verdict: whether a run may be believed, and why.
//!
//! A figure without the proof that it measured what it says is worse than none. So every run ends
//! with a list of named checks, each with its measured value, its threshold and an advice, and with
//! one finding that says whose limits the run met.

use serde::{Deserialize, Serialize};

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// The check does not apply to this run.
    NotApplicable,
    /// The run is sound in this respect.
    Pass,
    /// The threshold is broken, and the device is the cause: a finding, not a fault.
    Limited,
    /// The figures may be distorted; read the reason before using them.
    Suspect,
    /// The figures do not measure what they say.
    Invalid,
}

impl Grade {
    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not applicable",
            Self::Pass => "pass",
            Self::Limited => "limited",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// Whether the figures of a run may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Validity {
    /// They measure what they say.
    Valid,
    /// They may be distorted: read the reasons first.
    Suspect,
    /// They do not measure what they say.
    Invalid,
}

impl Validity {
    /// What the worst of the checks leaves of a run.
    pub fn of(checks: &[Check]) -> Self {
        match checks.iter().map(|check| check.grade).max() {
            Some(Grade::Suspect) => Self::Suspect,
            Some(Grade::Invalid) | None => Self::Invalid,
            Some(Grade::NotApplicable | Grade::Pass | Grade::Limited) => Self::Valid,
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Suspect => "suspect",
            Self::Invalid => "invalid",
        }
    }
}

/// What the run found: damaged data, or whose limits it met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The device gave back data other than those written: the worst that a device can do, whatever
    /// else the run met.
    DataDamaged,
    /// The replay held its schedule.
    Faithful,
    /// There was no schedule to hold: requests were issued as fast as the device took them.
    Unscheduled,
    /// The replay held its schedule, and others loaded the device beside it: a fault of the
    /// measurement.
    ForeignLoad,
    /// The device could not take the load: a finding about the device.
    DeviceLimited,
    /// This program could not issue in time: a fault of the measurement.
    GeneratorLimited,
    /// The host did not let this program run in time: a fault of the measurement.
    HostStalled,
    /// The run ended before its end.
    Incomplete,
}

impl Finding {
    /// Every finding, the best first.
    pub const ALL: [Self; 8] = [
        Self::Faithful,
        Self::Unscheduled,
        Self::DeviceLimited,
        Self::GeneratorLimited,
        Self::HostStalled,
        Self::ForeignLoad,
        Self::Incomplete,
        Self::DataDamaged,
    ];

    /// The word for it, as it is stored.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataDamaged => "data-damaged",
            Self::Faithful => "faithful",
            Self::Unscheduled => "unscheduled",
            Self::ForeignLoad => "foreign-load",
            Self::DeviceLimited => "device-limited",
            Self::GeneratorLimited => "generator-limited",
            Self::HostStalled => "host-stalled",
            Self::Incomplete => "incomplete",
        }
    }
}

/// One named check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The finding, or the other check, that explains why this one is broken: then it is no second
    /// cause, and is not told as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained_by: Option<String>,
}

impl Check {
    /// Whether its threshold is broken, and nothing else that is told explains that.
    pub fn is_cause(&self) -> bool {
        self.grade >= Grade::Limited && self.explained_by.is_none()
    }
}

/// The judgement of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Whether the figures may be used: the worst of the checks decides.
    pub validity: Validity,
    /// Whose limits the run met.
    pub finding: Finding,
    /// One sentence that a person reads first.
    pub summary: String,
    /// Every check.
    pub checks: Vec<Check>,
}

impl Verdict {
    /// The finding, where it says something on a first screen. That a schedule was held is no news
    /// of a run whose figures are invalid, and "faithful" would contradict it.
    pub fn told_finding(&self) -> Option<Finding> {
        let is_praise = matches!(self.finding, Finding::Faithful | Finding::Unscheduled);
        (!is_praise || self.validity != Validity::Invalid).then_some(self.finding)
    }

    /// The check of this name, where it was made.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}
