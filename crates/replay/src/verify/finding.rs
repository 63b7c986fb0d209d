//! What verification found, in words and in numbers.

use std::collections::BTreeMap;
use std::fmt;

use ioecho_trace::{Bytes, Integrity, Nanos};
use serde::{Serialize, Serializer};

use super::entry::Legal;
use super::sector::Found;

/// How many findings are kept; all are counted.
pub const FINDINGS_MAX: usize = 10_000;

/// A stretch of sectors that hold what they must not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which of the run's targets, counted from 0.
    pub target: u16,
    /// Where on the target.
    pub offset: Bytes,
    /// How much.
    pub length: Bytes,
    /// What is wrong.
    pub kind: Integrity,
    /// What could have been there.
    pub expected: Vec<Legal>,
    /// What its first sector holds.
    pub found: Found,
    /// The request that read it; `None` if it was read to be verified.
    pub read: Option<u64>,
    /// When it was read, from the start of the replay (of the verification, if that came later).
    pub at: Nanos,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, offset, length, kind, expected, found, read, at } = self;
        write!(f, "{}: {length} at {} of target {target}: ", kind.name(), offset.0)?;
        match found {
            Found::Stamped(stamp) if *kind == Integrity::Foreign => {
                write!(f, "data of the run {:016x}", stamp.run)?;
            }
            Found::Stamped(stamp) if *kind == Integrity::Misdirected => {
                let (request, position) = (stamp.request, stamp.position);
                write!(f, "what request {request} wrote to {position} of target {}", stamp.target)?;
            }
            Found::Stamped(stamp) => write!(f, "what request {} wrote", stamp.request)?,
            Found::Zeroes => write!(f, "zeroes")?,
            Found::Flipped { bit, stamp } => {
                let (byte, bit, request) = (bit / 8, bit % 8, stamp.request);
                write!(f, "what request {request} wrote, with bit {bit} of byte {byte} flipped")?;
            }
            Found::Halves { head, tail, cut } => {
                write!(f, "{cut} bytes of request {head}, and behind them request {tail}")?;
            }
            Found::Damaged { request } => write!(f, "what request {request} wrote, damaged")?,
            Found::Unknown => write!(f, "data that no run of ioecho wrote")?,
        }
        write!(f, ", in place of ")?;
        for (index, legal) in expected.iter().enumerate() {
            let or = if index > 0 { " or " } else { "" };
            match legal {
                Legal::Untouched => write!(f, "{or}what was there before the run")?,
                Legal::Version(request) => write!(f, "{or}what request {request} wrote")?,
                Legal::Zeroes(request) => write!(f, "{or}the zeroes of request {request}")?,
                Legal::Anything(request) => write!(f, "{or}anything, discarded by {request}")?,
                Legal::AtLeast(request) => {
                    write!(f, "{or}what request {request} or a younger one wrote")?;
                }
                Legal::Ambiguous => write!(f, "{or}anything written there")?,
            }
        }
        match read {
            Some(read) => write!(f, " (read by request {read} at {at})"),
            None => write!(f, " (found by the verification at {at})"),
        }
    }
}

/// What was checked, counted in sectors of 512 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyFigures {
    /// Requests whose data were looked at, reads of a final pass aside.
    pub reads: u64,
    /// Sectors that were looked at.
    pub sectors: u64,
    /// Sectors that hold what they may hold, as far as the run knows what that is.
    pub intact: u64,
    /// Sectors that the run never wrote, or discarded.
    pub unknown: u64,
    /// Sectors of which it can be told no more than that they hold something that the run wrote
    /// there, or that was there before.
    pub ambiguous: u64,
    /// Sectors that hold what a request wrote of which there is no record, or zeroes that it may
    /// have left: accepted.
    pub unrecorded: u64,
    /// Sectors that hold what they must not, unless there was a discard of which there is no
    /// record: neither right nor wrong.
    pub undecided: u64,
    /// Sectors with deduplicable data, which cannot be verified.
    pub shared: u64,
    /// Sectors that could not be read when they were to be verified.
    pub unreadable: u64,
    /// Sectors that hold what they must not hold, by what is wrong.
    pub damaged: Damage,
    /// Findings, those included that were not kept.
    pub findings: u64,
    /// Reads that could not be checked because the table could not be read or written.
    pub table_errors: u64,
    /// Changes that passed so many others, or sets so many, that exactness was given up.
    pub given_up: u64,
}

impl VerifyFigures {
    /// Whether anything is wrong with the data.
    pub fn is_damaged(&self) -> bool {
        self.findings > 0 || self.unreadable > 0
    }
}

/// Sectors by what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage([u64; Integrity::ALL.len()]);

impl Damage {
    /// How many sectors have this damage.
    pub fn count(&self, kind: Integrity) -> u64 {
        self.0[kind as usize]
    }

    /// How many have any.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each kind of damage with how many sectors have it; kinds that were not found are left out.
    pub fn iter(&self) -> impl Iterator<Item = (Integrity, u64)> {
        Integrity::ALL.into_iter().map(|kind| (kind, self.count(kind))).filter(|(_, n)| *n > 0)
    }

    pub(crate) fn add(&mut self, kind: Integrity, sectors: u64) {
        self.0[kind as usize] += sectors;
    }
}

impl Serialize for Damage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.iter()
            .map(|(kind, n)| (kind.name(), n))
            .collect::<BTreeMap<_, _>>()
            .serialize(serializer)
    }
}
