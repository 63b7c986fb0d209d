//! The rule that decides when a request of a replay is issued.
//!
//! It decides what `scheduled` means in the results: the recorded instant, the instant at which the
//! requests that a request waits for let it go, or no more than the instant of its issue. Only in
//! the first two cases can a request be late. So a reader of results needs this mode first, and it
//! is defined here, beside the columns of results, for the engine and for the verdict.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// The rule that decides when a request may be issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimingMode {
    /// At its scheduled instant, whatever the device does (open loop). Overdue requests are issued
    /// as fast as the device takes them.
    #[default]
    Timed,
    /// As soon as there is a place below the cap on requests in flight (closed loop).
    Afap,
    /// As soon as no more requests are in flight than there were in the recording at the issue of
    /// the same request.
    Load,
    /// When the requests that it waits for have completed, plus a think time. A request that waits
    /// for none is issued at its time.
    Dependency,
    /// By the rule of the flow that it belongs to, where a load has flows and at least one of them
    /// has no schedule: when one of the flow's clients is free.
    Flows,
}

impl TimingMode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Timed, Self::Afap, Self::Load, Self::Dependency, Self::Flows];

    /// The modes of a load that is one stream of requests.
    pub const OF_STREAMS: [Self; 4] = [Self::Timed, Self::Afap, Self::Load, Self::Dependency];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timed => "timed",
            Self::Afap => "afap",
            Self::Load => "load",
            Self::Dependency => "dependency",
            Self::Flows => "flows",
        }
    }

    /// Whether the instants at which requests are due are known before the run. Without them no
    /// rate and no duration is demanded.
    pub const fn has_schedule(self) -> bool {
        match self {
            Self::Timed => true,
            Self::Afap | Self::Load | Self::Dependency | Self::Flows => false,
        }
    }

    /// Whether requests have instants at which they are due, known before the run or not. Without
    /// them nothing can be late.
    pub const fn has_due_instants(self) -> bool {
        match self {
            Self::Timed | Self::Dependency | Self::Flows => true,
            Self::Afap | Self::Load => false,
        }
    }

    /// Whether requests wait for the completion of others that the trace names.
    pub const fn has_parents(self) -> bool {
        match self {
            Self::Dependency => true,
            Self::Timed | Self::Afap | Self::Load | Self::Flows => false,
        }
    }

    /// Whether the replay follows the recorded number of requests in flight.
    pub const fn follows_recorded(self) -> bool {
        match self {
            Self::Load => true,
            Self::Timed | Self::Afap | Self::Dependency | Self::Flows => false,
        }
    }
}

impl fmt::Display for TimingMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no [`TimingMode`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no timing; known are timed, afap, load, dependency and flows")]
pub struct UnknownTiming(String);

impl FromStr for TimingMode {
    type Err = UnknownTiming;

    fn from_str(word: &str) -> Result<Self, UnknownTiming> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == word);
        known.ok_or_else(|| UnknownTiming(word.to_owned()))
    }
}

impl<'de> Deserialize<'de> for TimingMode {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_read_by_the_word_that_is_written_and_no_other_word_is() {
        for mode in TimingMode::ALL {
            let text = serde_json::to_string(&mode).unwrap();
            assert_eq!(text, format!("\"{mode}\""));
            assert_eq!(serde_json::from_str::<TimingMode>(&text).unwrap(), mode);
        }
        let error = serde_json::from_str::<TimingMode>("\"Timed\"").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "'Timed' is no timing; known are timed, afap, load, dependency and flows"
            ),
            "{error}"
        );
        assert!(serde_json::from_str::<TimingMode>("1").is_err());
    }
}
