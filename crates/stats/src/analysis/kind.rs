//! Reads, writes, and both.
//!
//! Half of all figures are made three times, for these kinds. Requests of other kinds move no data
//! and are counted elsewhere.

use ioecho_trace::Op;
use serde::{Deserialize, Serialize};

/// A value of reads, of writes, and of both together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByKind<T> {
    /// Of reads.
    pub reads: T,
    /// Of writes.
    pub writes: T,
    /// Of reads and writes.
    pub all: T,
}

impl<T> ByKind<T> {
    /// The three values made of the names that legends use.
    pub fn of(mut make: impl FnMut(Kind, &str) -> T) -> Self {
        Self {
            reads: make(Kind::Reads, "reads"),
            writes: make(Kind::Writes, "writes"),
            all: make(Kind::All, "all"),
        }
    }

    /// The value of a kind.
    pub fn get(&self, kind: Kind) -> &T {
        match kind {
            Kind::Reads => &self.reads,
            Kind::Writes => &self.writes,
            Kind::All => &self.all,
        }
    }

    /// The value of a kind, to be changed.
    pub fn get_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Reads => &mut self.reads,
            Kind::Writes => &mut self.writes,
            Kind::All => &mut self.all,
        }
    }
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Reads alone.
    Reads,
    /// Writes alone.
    Writes,
    /// Reads and writes.
    All,
}

impl Kind {
    /// Reads or writes; `None` of an operation that moves no data.
    pub const fn of(op: Op) -> Option<Self> {
        match op {
            Op::Read => Some(Self::Reads),
            Op::Write => Some(Self::Writes),
            _ => None,
        }
    }
}
