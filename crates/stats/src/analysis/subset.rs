//! The requests that a figure is of.
//!
//! A legend says it in words, and a chart decides by it which colour a line has and which line lies
//! at the bottom. A decision must not hang on the text of a legend, so it is a type here.

use std::fmt;

use ioecho_trace::Op;
use serde::{Serialize, Serializer};

use super::event::Group;
use super::shape::Series;

/// The requests that a figure is of: a group, several groups together, or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subset {
    /// Reads; where pushed-back reads have a figure of their own, without them.
    Reads,
    /// Writes; where pushed-back writes have a figure of their own, without them.
    Writes,
    /// Reads that overlapped a request in flight and waited for it.
    PushedReads,
    /// Writes that overlapped a request in flight and waited for it.
    PushedWrites,
    /// All requests that overlapped a request in flight and waited for it.
    PushedBack,
    /// Everything that neither reads nor writes, such as flushes and discards; where operations on
    /// files have figures of their own, without them.
    Other,
    /// An operation that only file systems have.
    OfFiles(Op),
    /// All requests.
    #[default]
    All,
}

impl Subset {
    /// The name in legends and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::PushedReads => "pushed reads",
            Self::PushedWrites => "pushed writes",
            Self::PushedBack => "pushed back",
            Self::Other => "other",
            Self::OfFiles(op) => op.name(),
            Self::All => "all",
        }
    }

    /// The requests of a group.
    pub const fn of(group: Group) -> Self {
        match group {
            Group::Read => Self::Reads,
            Group::Write => Self::Writes,
            Group::PushedRead => Self::PushedReads,
            Group::PushedWrite => Self::PushedWrites,
            Group::Other => Self::Other,
            Group::OfFiles(op) => Self::OfFiles(op),
        }
    }
}

impl From<Group> for Subset {
    fn from(group: Group) -> Self {
        Self::of(group)
    }
}

impl fmt::Display for Subset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Subset {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

/// A value over time, of some requests. In JSON the name of the series says which.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct SeriesOf {
    /// The requests.
    #[serde(skip)]
    pub of: Subset,
    /// The values, under the name of the requests.
    pub series: Series,
}
