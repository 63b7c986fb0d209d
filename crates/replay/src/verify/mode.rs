//! How much is verified while a load is replayed.
//!
//! Reading back costs the load time and the device bandwidth, so it is asked for in steps, each of
//! which does all that the one before it does.

use serde::{Deserialize, Serialize};

/// What a run verifies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyMode {
    /// Nothing; what is written can be verified later all the same.
    #[default]
    Off,
    /// Every read of the load.
    Reads,
    /// Every read, and at the end everything that was written.
    Final,
    /// As final, and what is known is read before it is overwritten.
    Preread,
    /// As final, and every write is read again as soon as it has completed.
    Paranoia,
}

impl VerifyMode {
    /// All of them.
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
