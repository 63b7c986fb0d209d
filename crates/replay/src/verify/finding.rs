//! Findings of verification, and their figures.

use std::collections::BTreeMap;
use std::fmt;

use ioecho_trace::{Bytes, Integrity, Nanos};
use serde::{Serialize, Serializer};

use super::entry::Legal;
use super::sector::SectorContent;
use crate::fill::seed_of;
use crate::pattern::Stamp;

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
    /// Where in a file, if the target is a tree of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<InFile>,
    /// What is wrong.
    pub kind: Integrity,
    /// What could have been there.
    pub expected: Vec<Expected>,
    /// What its first sector holds.
    pub found: SectorContent,
    /// The request that read it, or that caused the read; `None` in a pass over everything.
    pub read: Option<u64>,
    /// Why it was read.
    pub look: Look,
    /// When it was read, from the start of the replay (of the verification, if that came later).
    pub at: Nanos,
    /// The run that found it, or whose data are verified.
    #[serde(skip)]
    pub own: u64,
}

/// A place in a file of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InFile {
    /// The file's path below the anchor.
    pub path: String,
    /// How far it lies in the file.
    pub offset: Bytes,
    /// The path of the file that the data were written to, if that is another one of this tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub belongs_to: Option<String>,
}

/// Who wrote something, in words.
struct By {
    run: u64,
    request: u64,
    /// The run that tells of it.
    own: u64,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, request, own } = self;
        if run == own {
            write!(f, "request {request}")
        } else if seed_of(*run).is_some() {
            write!(f, "prepare ({run:016x})")
        } else {
            write!(f, "request {request} of the run {run:016x}")
        }
    }
}

/// Why something was read that is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// The load reads it.
    Load,
    /// It is about to be overwritten (`--verify preread`).
    BeforeWrite,
    /// It was just written (`--verify paranoia`).
    AfterWrite,
    /// Everything is read that was written.
    Pass,
}

/// The legal content of a sector in a finding, with the number of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Expected {
    /// By the run itself, or by nobody.
    Own(Legal),
    /// By a run that it continues.
    Earlier {
        /// What.
        #[serde(flatten)]
        legal: Legal,
        /// The run.
        run: u64,
    },
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Own(legal) | Self::Earlier { legal, .. }) = self;
        match legal {
            Legal::Untouched => write!(f, "what was there before the run")?,
            Legal::Version(request) => write!(f, "what request {request} wrote")?,
            Legal::Zeroes(request) => write!(f, "the zeroes of request {request}")?,
            Legal::Anything(request) => write!(f, "anything, discarded by {request}")?,
            Legal::AtLeast(request) => write!(f, "what request {request} or a younger one wrote")?,
            Legal::Ambiguous => write!(f, "anything written there")?,
            Legal::Moved(request) => {
                write!(f, "what request {request} wrote in the tree that the file came from")?;
            }
        }
        match self {
            Self::Own(_) => Ok(()),
            Self::Earlier { run, .. } => write!(f, " in the run {run:016x}"),
        }
    }
}

impl Finding {
    /// The other run whose whole sector, written for this place, was found instead of data of this
    /// run or its predecessors. If that run came later, nothing was lost.
    pub fn other_run(&self) -> Option<u64> {
        match self.found {
            SectorContent::Stamped(stamp) if self.kind == Integrity::Foreign => Some(stamp.run),
            _ => None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, offset, length, kind, expected, found, read, look, at, .. } = self;
        let by = |run, request| By { run, request, own: self.own };
        match &self.file {
            None => {
                write!(f, "{}: {length} at {} of target {}: ", kind.name(), offset.0, target + 1)?;
            }
            Some(InFile { path, offset, .. }) => {
                write!(f, "{}: {length} at {} of {path}: ", kind.name(), offset.0)?;
            }
        }
        let belongs_to = self.file.as_ref().and_then(|file| file.belongs_to.as_deref());
        match found {
            SectorContent::Stamped(stamp) if *kind == Integrity::Foreign => {
                write!(f, "data of the run {:016x}", stamp.run)?;
            }
            SectorContent::Stamped(stamp) if stamp.shared => {
                let Stamp { run, request, position, .. } = stamp;
                write!(f, "content {request} of the run {run:016x}, from {position} on")?;
            }
            SectorContent::Stamped(stamp) => {
                write!(f, "what {} wrote", by(stamp.run, stamp.request))?;
                match belongs_to {
                    _ if *kind != Integrity::Misdirected => {}
                    Some(path) => write!(f, " to {path}")?,
                    None => write!(f, " to {} of target {}", stamp.position, stamp.target + 1)?,
                }
            }
            SectorContent::Zeroes => write!(f, "zeroes")?,
            SectorContent::Flipped { bit, stamp } => {
                let (byte, bit, by) = (bit / 8, bit % 8, by(stamp.run, stamp.request));
                write!(f, "what {by} wrote, with bit {bit} of byte {byte} flipped")?;
            }
            SectorContent::Halves { head, run, tail, tail_run, cut } => {
                let (head, tail) = (by(*run, *head), by(*tail_run, *tail));
                write!(f, "{cut} bytes of {head}, and behind them {tail}")?;
            }
            SectorContent::Damaged { request, run } => {
                write!(f, "what {} wrote, damaged", by(*run, *request))?;
            }
            SectorContent::Unknown => write!(f, "data that no run of ioecho wrote")?,
        }
        write!(f, ", in place of ")?;
        for (index, expected) in expected.iter().enumerate() {
            let or = if index > 0 { " or " } else { "" };
            write!(f, "{or}{expected}")?;
        }
        match (look, read) {
            (Look::BeforeWrite, Some(write)) => {
                write!(f, " (read at {at}, before request {write} was to overwrite it)")
            }
            (Look::AfterWrite, Some(write)) => {
                write!(f, " (read at {at}, after request {write} had written it)")
            }
            (Look::Load, Some(read)) => write!(f, " (read by request {read} at {at})"),
            _ => write!(f, " (found by the verification at {at})"),
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
    /// Sectors with legal content, as far as the run knows it.
    pub intact: u64,
    /// Of those, sectors that the run never wrote, with a whole stamp of prepare for this place.
    pub prepared: u64,
    /// Sectors that the run never wrote, or discarded.
    pub unknown: u64,
    /// Sectors that the run never wrote, without a stamp among others that prepare wrote: either
    /// data of prepare was lost, or somebody has overwritten or discarded it since.
    pub doubtful: u64,
    /// Sectors that hold some version of the run for this place, or the earlier content; more
    /// cannot be decided.
    pub ambiguous: u64,
    /// Sectors with data of a request without a record, or with zeroes that such a request may have
    /// left: accepted.
    pub unrecorded: u64,
    /// Sectors with content that only an unrecorded discard could explain: neither right nor wrong.
    pub undecided: u64,
    /// Sectors with deduplicable data, which cannot be verified.
    pub shared: u64,
    /// Reads before overwriting, which are not part of the load.
    pub prereads: u64,
    /// How much they read.
    pub preread_bytes: u64,
    /// The sum of their durations, ns: the time for which they held up the load's requests.
    pub preread_ns: u64,
    /// Sectors that could not be read when they were to be verified.
    pub unreadable: u64,
    /// Sectors that hold what they must not hold, by what is wrong.
    pub damaged: Damage,
    /// Findings, those included that were not kept.
    pub findings: u64,
    /// Names of a tree of files that were looked at, and are there or should be: each once.
    #[serde(skip_serializing_if = "is_none")]
    pub names: u64,
    /// Names that are not as they must be, by what is wrong.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub damaged_names: BTreeMap<&'static str, u64>,
    /// Reads that could not be checked because the table could not be read or written.
    pub table_errors: u64,
    /// How often exactness was given up, because too many changes raced or too many sets were
    /// needed.
    pub given_up: u64,
}

impl VerifyFigures {
    /// Whether anything is wrong with the data, or with names.
    pub fn is_damaged(&self) -> bool {
        self.findings > 0 || self.unreadable > 0 || !self.damaged_names.is_empty()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_none(count: &u64) -> bool {
    *count == 0
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
