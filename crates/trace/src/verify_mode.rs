//! The amount of verification while a load is replayed.
//!
//! Reading back takes time and bandwidth from the load, so there are levels. The engine verifies by
//! them, and a verdict counts the run's own reads by them. So they are defined here, beside the
//! columns of results.

use serde::{Deserialize, Serialize};

/// The data that a run verifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyMode {
    /// Nothing is verified; the data can still be verified later.
    #[default]
    Off,
    /// Every read of the load.
    Reads,
    /// Every read, and at the end everything that was written.
    Final,
    /// As final, and data of known content is read before it is overwritten.
    Preread,
    /// As final, and every write is read again as soon as it has completed.
    Paranoia,
}

impl VerifyMode {
    /// All modes.
    pub const ALL: [Self; 5] = [Self::Off, Self::Reads, Self::Final, Self::Preread, Self::Paranoia];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Reads => "reads",
            Self::Final => "final",
            Self::Preread => "preread",
            Self::Paranoia => "paranoia",
        }
    }

    /// Whether anything is verified.
    pub const fn is_on(self) -> bool {
        match self {
            Self::Off => false,
            Self::Reads | Self::Final | Self::Preread | Self::Paranoia => true,
        }
    }

    /// Whether at the end everything that was written is read.
    pub const fn ends_with_a_look(self) -> bool {
        match self {
            Self::Off | Self::Reads => false,
            Self::Final | Self::Preread | Self::Paranoia => true,
        }
    }
}

/// What the notes of a run that verifies must survive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalMode {
    /// The end of the process: they are in the page cache.
    #[default]
    Kill,
    /// A power cut: they are on the disk before a write is issued.
    Durable,
}

impl JournalMode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Kill, Self::Durable];

    /// The name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Durable => "durable",
        }
    }

    /// Whether the notes survive a power cut.
    pub const fn is_durable(self) -> bool {
        matches!(self, Self::Durable)
    }
}
