//! Verification of a tree of files: its names beside the contents of its files.
//!
//! Contents are those of a volume in which file k lies at k·S, so versions, stamps and misplacement
//! between files need nothing new. A file that is created again begins with zeroes, which voids
//! what was in it before.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};
use rustc_hash::FxHashSet;
use serde::Serialize;

use super::finding::{FINDINGS_MAX, InFile};
use super::names::{FoundName, FoundNames, MayBe, NameBook, NameDamage};
use super::{FinalPass, PassProgress, SectorContent, Verifier};
use crate::device::Io;
use crate::pattern::SECTOR_BYTES;

/// So much is read at a time.
const READ_BYTES: u64 = 1 << 20;

/// Reads begin and end at multiples of so many sectors.
const BLOCK_SECTORS: u64 = 8;

/// A name that is not as it must be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NameFinding {
    /// Which of the run's targets, counted from 0.
    pub target: u16,
    /// Its path below the anchor.
    pub path: String,
    /// What is wrong.
    pub kind: NameDamage,
    /// What may be there.
    pub expected: MayBe,
    /// What is there, as far as that was seen.
    pub found: FoundName,
    /// The request that met with it; `None` when all names were looked at.
    pub request: Option<u64>,
    /// When it was found, from the start of the replay (of the verification, if that came later).
    pub at: Nanos,
    /// Whether it is a directory.
    #[serde(skip)]
    pub is_directory: bool,
}

impl fmt::Display for NameFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, path, kind, expected, found, request, at, is_directory } = self;
        write!(f, "{}: {path} of target {}: ", kind.name(), target + 1)?;
        match found {
            FoundName::Nothing => write!(f, "nothing")?,
            FoundName::File(bytes) => write!(f, "a file of {}", Bytes(*bytes))?,
            FoundName::Directory => write!(f, "a directory")?,
            FoundName::Other => match kind {
                NameDamage::Truncated => write!(f, "a file that ends before")?,
                NameDamage::Extra | NameDamage::Torn => write!(f, "something")?,
                _ => write!(f, "something of another kind")?,
            },
        }
        write!(f, ", in place of ")?;
        match expected.bytes {
            None => write!(f, "nothing")?,
            Some(_) if *is_directory => write!(f, "a directory")?,
            Some((least, most)) if least == most => write!(f, "a file of {}", Bytes(least))?,
            Some((least, most)) => {
                write!(f, "a file of {} to {}", Bytes(least), Bytes(most))?;
            }
        }
        if expected.absent && expected.bytes.is_some() {
            write!(f, " or nothing")?;
        }
        if *kind == NameDamage::Torn {
            write!(
                f,
                "{}",
                match (request, found) {
                    (Some(_), _) => ", after its move from one tree to another",
                    (None, FoundName::Nothing) =>
                        ", and it is not in the other tree of its move either",
                    (None, _) => ", and it is in the other tree of its move, too",
                }
            )?;
        }
        match request {
            Some(request) => write!(f, " (met by request {request} at {at})"),
            None => write!(f, " (found by the verification at {at})"),
        }
    }
}

/// What a verifier knows of a tree.
#[derive(Debug)]
pub(super) struct TreeSide {
    pub(super) book: NameBook,
    findings: Vec<NameFinding>,
    /// Names and what is wrong with them: nothing is told twice.
    told: FxHashSet<(u64, NameDamage)>,
    /// Names that are as if their last move had not been done at all.
    pub(super) unmoved: FxHashSet<u64>,
    looked: Looked,
}

/// The names that were looked at, a bit each: at the begin of a run, by its calls, and at its end
/// the same name may be, and counts once.
#[derive(Debug)]
struct Looked(Box<[u64]>);

impl Looked {
    fn of(names: u64) -> Self {
        Self(vec![0; names.div_ceil(64) as usize].into())
    }

    /// Notes a name; answers whether it was none of them yet.
    fn is_new(&mut self, name: u64) -> bool {
        let Some(word) = self.0.get_mut((name / 64) as usize) else { return false };
        let before = *word;
        *word |= 1 << (name % 64);
        *word != before
    }
}

/// Reads the files of a tree.
pub trait ReadFiles {
    /// Reads from a file; returns how much, which is less only at its end.
    ///
    /// # Errors
    ///
    /// If that cannot be read.
    fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl Verifier {
    /// The target is a tree of files, of which this may be there.
    pub fn put_names(&mut self, book: NameBook) {
        let looked = Looked::of(book.count());
        let side = TreeSide {
            book,
            findings: Vec::new(),
            told: FxHashSet::default(),
            unmoved: FxHashSet::default(),
            looked,
        };
        self.tree = Some(Box::new(side));
        self.origins.are_of_tree();
    }

    /// What may be there of the tree, if it is one.
    pub fn names(&self) -> Option<&NameBook> {
        self.tree.as_ref().map(|tree| &tree.book)
    }

    /// The names that are not as they must be, as far as they are kept.
    pub fn name_findings(&self) -> &[NameFinding] {
        self.tree.as_ref().map_or(&[], |tree| &tree.findings)
    }

    /// What was found is compared with what must be there, and goes on from there: a run begins, or
    /// began, with it.
    pub fn begin_with(&mut self, found: &FoundNames) {
        self.look_at_names(found, Nanos::ZERO);
        if let Some(tree) = &mut self.tree {
            tree.book.adopt(found);
        }
    }

    /// The same of a run in the past, as its records say: they are compared, but nothing is looked
    /// at now.
    pub(super) fn begun_with(&mut self, found: &FoundNames) {
        self.judge_names(found, Nanos::ZERO, false);
        if let Some(tree) = &mut self.tree {
            tree.book.adopt(found);
        }
    }

    /// A call on the tree has ended at this instant.
    pub(super) fn name_completed(&mut self, io: &Io, outcome: Outcome, at: Nanos) {
        let Some(tree) = &mut self.tree else { return };
        if let Some((kind, found)) = tree.book.contradicts(io, outcome) {
            let number = tree.book.geometry().number_at(io.offset.0);
            let kind = tree.book.met(number, kind);
            self.tell_name(number, kind, found, Some(io.request), at);
        }
        self.name_ended(io, outcome, true);
    }

    /// A call on the tree has ended, or never will. `is_certain`: if it succeeded, what it did is
    /// there.
    pub(super) fn name_ended(&mut self, io: &Io, outcome: Outcome, is_certain: bool) {
        if let Some(tree) = &mut self.tree {
            let version = self.origins.version(io.request);
            tree.book.apply(io, version, outcome, is_certain);
        }
    }

    /// Where a sector is in its file, if the target is a tree, and which file its data belong to.
    pub(super) fn in_file(&self, sector: u64, found: &SectorContent) -> Option<InFile> {
        let book = self.names()?;
        let place = sector * SECTOR_BYTES as u64;
        let number = book.geometry().number_at(place);
        let belongs_to = match found {
            SectorContent::Stamped(stamp) if stamp.target == self.config.target => {
                let other = book.geometry().number_at(stamp.position);
                (other != number && other < book.geometry().files()).then(|| book.path(other))
            }
            _ => None,
        };
        let offset = Bytes(book.geometry().within(place));
        Some(InFile { path: book.path(number), offset, belongs_to })
    }

    pub(super) fn tell_name(
        &mut self,
        number: u64,
        kind: NameDamage,
        found: FoundName,
        request: Option<u64>,
        at: Nanos,
    ) {
        let Some(tree) = &mut self.tree else { return };
        self.figures.names += u64::from(tree.looked.is_new(number));
        if !tree.told.insert((number, kind)) {
            return;
        }
        *self.figures.damaged_names.entry(kind.name()).or_default() += 1;
        if tree.findings.len() < FINDINGS_MAX {
            tree.findings.push(NameFinding {
                target: self.config.target,
                path: tree.book.path(number),
                kind,
                expected: tree.book.may_be(number),
                found,
                request,
                at,
                is_directory: number >= tree.book.geometry().files(),
            });
        }
    }

    /// Compares all names with what must be there.
    fn look_at_names(&mut self, found: &FoundNames, at: Nanos) {
        self.judge_names(found, at, true);
    }

    /// `is_looked`: what is there was looked at, and is not read from a record.
    fn judge_names(&mut self, found: &FoundNames, at: Nanos, is_looked: bool) {
        let count = self.tree.as_ref().map_or(0, |tree| tree.book.count());
        for number in 0..count {
            let Some(tree) = &mut self.tree else { return };
            let there = found.get(number);
            if is_looked && there != FoundName::Nothing {
                self.figures.names += u64::from(tree.looked.is_new(number));
            }
            let Some(kind) = tree.book.judge(number, there) else { continue };
            let half = tree.book.met(number, kind);
            let is_told = half != kind && tree.told.contains(&(number, half));
            if !is_told {
                let kind = if tree.unmoved.contains(&number) { kind } else { half };
                self.tell_name(number, kind, there, None, at);
            }
        }
    }

    /// Compares all names of a tree with what must be there, and reads back what was written to its
    /// files. Nothing may be in flight. What cannot be read is counted.
    ///
    /// # Errors
    ///
    /// If the table of versions cannot be read.
    pub fn look_at_tree(
        &mut self,
        found: &FoundNames,
        files: &mut dyn ReadFiles,
        now: &dyn Fn() -> Nanos,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(PassProgress),
    ) -> io::Result<FinalPass> {
        let start = now();
        self.look_at_names(found, Nanos::ZERO);
        let mut done = FinalPass::default();
        let mut buffer = vec![0; READ_BYTES as usize];
        let Some(geometry) = self.names().map(|book| book.geometry().clone()) else {
            return Ok(done);
        };
        for file in 0..geometry.files() {
            let Some(size) = found.size(file) else { continue };
            // What is beyond is told by the size.
            let most = self.names().and_then(|book| book.may_be(file).bytes);
            let size = size.min(most.map_or(0, |(_, most)| most)).min(geometry.size(file));
            let sector = SECTOR_BYTES as u64;
            let first = geometry.place_of_file(file) / sector;
            let (mut at, end) = (first, first + size / sector);
            if self.touched_from(first)?.is_none_or(|(touched, _)| touched >= end) {
                continue;
            }
            while at < end {
                if stop.load(Relaxed) {
                    done.stopped = true;
                    return Ok(done);
                }
                let most = (at + READ_BYTES / sector).min(end);
                let until = if most < end { self.cut(at, most, BLOCK_SECTORS)? } else { end };
                let length = (until - at) * sector;
                let part = &mut buffer[..length as usize];
                let io = reading(at * sector, length);
                match files.read(file, (at - first) * sector, part) {
                    Ok(read) => {
                        let whole = read / SECTOR_BYTES * SECTOR_BYTES;
                        self.check_now(&io, &part[..whole], now() - start);
                        // It has become shorter since it was looked at.
                        self.unreadable(&reading(0, length - whole as u64));
                    }
                    Err(_) => self.unreadable(&io),
                }
                done.read = done.read + io.length;
                at = until;
                progress(PassProgress { read: done.read, position: Bytes(at * sector) });
            }
        }
        Ok(done)
    }
}

/// A read that is no request.
const fn reading(offset: u64, length: u64) -> Io {
    Io {
        tag: 0,
        request: u64::MAX,
        scheduled: Nanos::ZERO,
        op: Op::Read,
        flags: Flags::empty(),
        offset: Bytes(offset),
        length: Bytes(length),
    }
}
