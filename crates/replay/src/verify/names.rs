//! What must be there of a tree of files: names, and the sizes of files.
//!
//! A file system that loses a name, or makes one file of two, completes every call without an
//! error. So each call that changes names is followed as a write is: what has completed must be
//! there, and what was in flight at a kill may be there or not. Nearly every name is in one certain
//! state, so eight bytes do for it; the few others stand in a map.

use std::io::{self, Read, Write};

use ioecho_trace::{Op, Outcome};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::stored::{Reading, Writing, wrong};
use crate::device::Io;
use crate::pattern::SECTOR_BYTES;
use crate::tree::Geometry;

/// A name that is not there.
const ABSENT: u64 = u64::MAX;

/// The largest size of a file.
const SIZE_MAX: u64 = u64::MAX - 2;

/// The kernel's error numbers.
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const ELOOP: i32 = 40;
const EXDEV: i32 = 18;

const MAGIC: &[u8; 16] = b"IOECHO-NAMES-003";

/// Of books as earlier versions wrote them: without what is of another kind, and without moves.
const MAGIC_WITHOUT_OTHERS: &[u8; 16] = b"IOECHO-NAMES-002";
const MAGIC_WITHOUT_MOVES: &[u8; 16] = b"IOECHO-NAMES-001";

/// What may be there under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MayBe {
    /// Nothing.
    pub absent: bool,
    /// A directory, or a file of at least and at most so many bytes.
    pub bytes: Option<(u64, u64)>,
}

impl MayBe {
    /// Nothing is there.
    pub const NOTHING: Self = Self { absent: true, bytes: None };

    /// It is there, and a file has so many bytes.
    pub const fn there(bytes: u64) -> Self {
        Self { absent: false, bytes: Some((bytes, bytes)) }
    }

    /// Either of both.
    fn or(self, other: Self) -> Self {
        let bytes = match (self.bytes, other.bytes) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        Self { absent: self.absent || other.absent, bytes }
    }

    /// The state, if it is the only one.
    const fn certain(self) -> Option<u64> {
        match self {
            Self { absent: true, bytes: None } => Some(ABSENT),
            Self { absent: false, bytes: Some((least, most)) } if least == most => Some(least),
            _ => None,
        }
    }

    /// What a call leaves that succeeds and ends at this byte of a file.
    fn after(self, op: Op, end: u64) -> Self {
        let (least, most) = self.bytes.unwrap_or((0, SIZE_MAX));
        match op {
            Op::Create | Op::Mkdir => Self::there(0),
            Op::Delete | Op::Rmdir | Op::Move => Self::NOTHING,
            Op::Write => Self { absent: false, bytes: Some((least.max(end), most.max(end))) },
            // Whoever has used it has seen it.
            Op::Read => {
                let (least, most) = (least.max(end), most.max(end));
                Self { absent: false, bytes: Some((least, most)) }
            }
            Op::Open | Op::Getattr | Op::Setattr | Op::Access | Op::Copy => {
                Self { absent: false, bytes: Some((least, most)) }
            }
            _ => self,
        }
    }
}

/// Whether a call that ended so may have done anything. Some errors say that it did nothing.
fn may_have_done(op: Op, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Error(ENOENT | EEXIST | ENOTDIR) => false,
        // Both trees are not on one file system.
        Outcome::Error(EXDEV) => op != Op::Move,
        outcome => outcome.was_issued(),
    }
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NameDamage {
    /// It is not there, and must be.
    Lost,
    /// It is there, and must not be.
    Extra,
    /// A file is shorter than it must be.
    Truncated,
    /// A file is longer than it may be.
    Grown,
    /// It names something of another kind: a directory, a file, a link.
    WrongKind,
    /// A move to another tree was done by half: it is there in both trees, or in neither.
    Torn,
}

impl NameDamage {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Lost, Self::Extra, Self::Truncated, Self::Grown, Self::WrongKind, Self::Torn];

    /// The name in messages, JSON and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Extra => "extra",
            Self::Truncated => "truncated",
            Self::Grown => "grown",
            Self::WrongKind => "wrong-kind",
            Self::Torn => "torn",
        }
    }
}

/// What was found under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundName {
    /// Nothing.
    Nothing,
    /// A file of so many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// Something that is neither, or a file in place of a directory.
    Other,
}

/// What is below an anchor.
#[derive(Debug)]
pub struct FoundNames {
    /// The size of each file, and 0 of each directory, behind the files.
    known: Vec<u64>,
    /// What is of another kind.
    others: FxHashMap<u64, FoundName>,
    files: u64,
}

impl FoundNames {
    /// Nothing of a tree.
    pub fn nothing(geometry: &Geometry) -> Self {
        let names = geometry.files() + geometry.directories();
        Self {
            known: vec![ABSENT; names as usize],
            others: FxHashMap::default(),
            files: geometry.files(),
        }
    }

    /// A file is there.
    pub fn add_file(&mut self, file: u64, bytes: u64) {
        self.known[file as usize] = bytes.min(SIZE_MAX);
    }

    /// A directory is there.
    pub fn add_directory(&mut self, directory: u64) {
        self.known[(self.files + directory) as usize] = 0;
    }

    /// Under the name of a file there is something else.
    pub fn add_other_file(&mut self, file: u64, found: FoundName) {
        self.others.insert(file, found);
    }

    /// Under the name of a directory there is something else.
    pub fn add_other_directory(&mut self, directory: u64) {
        self.others.insert(self.files + directory, FoundName::Other);
    }

    /// How long a file is, if it is there.
    pub(super) fn size(&self, file: u64) -> Option<u64> {
        self.known.get(file as usize).copied().filter(|size| *size != ABSENT)
    }

    /// What is there under the name of this number, directories behind the files.
    pub(super) fn get(&self, number: u64) -> FoundName {
        match (self.others.get(&number), self.known[number as usize]) {
            (Some(other), _) => *other,
            (None, ABSENT) => FoundName::Nothing,
            (None, bytes) if number < self.files => FoundName::File(bytes),
            (None, _) => FoundName::Directory,
        }
    }
}

/// The move that was the last to change a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moved {
    /// Its version, which it has in both trees.
    pub(super) version: u64,
    /// The first of the moves between the same two trees, before which it was certain whether the
    /// name is here.
    pub(super) since: u64,
    /// Whether it brought the file here.
    pub(super) came: bool,
}

/// What may be there of a tree.
#[derive(Debug)]
pub struct NameBook {
    geometry: Geometry,
    known: Vec<u64>,
    unsure: FxHashMap<u64, MayBe>,
    /// What the run found of another kind under names: that is no file or directory of the tree,
    /// and was told when it was found.
    others: FxHashMap<u64, FoundName>,
    /// Names that nothing has changed since they were moved.
    moves: FxHashMap<u64, Moved>,
}

impl NameBook {
    /// Of a tree of which this was found.
    pub fn of(geometry: Geometry, found: &FoundNames) -> Self {
        let mut book = Self {
            geometry,
            known: found.known.clone(),
            unsure: FxHashMap::default(),
            others: found.others.clone(),
            moves: FxHashMap::default(),
        };
        // What is of another kind is nothing that the tree has.
        found.others.keys().for_each(|number| book.known[*number as usize] = ABSENT);
        book
    }

    /// The tree's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// How many names there are, those of directories behind those of files.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// What may be there under the name of this number.
    pub(super) fn may_be(&self, number: u64) -> MayBe {
        if let Some(unsure) = self.unsure.get(&number) {
            return *unsure;
        }
        match self.known.get(number as usize) {
            Some(&bytes) if bytes != ABSENT => MayBe::there(bytes),
            _ => MayBe::NOTHING,
        }
    }

    fn put(&mut self, number: u64, may_be: MayBe) {
        let Some(known) = self.known.get_mut(number as usize) else { return };
        match may_be.certain() {
            Some(state) => {
                *known = state;
                if !self.unsure.is_empty() {
                    self.unsure.remove(&number);
                }
            }
            None => {
                self.unsure.insert(number, may_be);
            }
        }
    }

    /// The name that a call goes to, and the byte of the file at which it ends.
    fn place(&self, io: &Io) -> (u64, u64) {
        let number = self.geometry.number_at(io.offset.0);
        (number, self.geometry.within(io.offset.0) + io.length.0)
    }

    /// The call as it concerns the contents of files: a new file reads as zeroes.
    pub(super) fn in_contents(&self, io: &Io) -> Io {
        if io.op != Op::Create {
            return *io;
        }
        let size = self.geometry.size(self.geometry.number_at(io.offset.0));
        let length = size.next_multiple_of(SECTOR_BYTES as u64);
        Io { length: ioecho_trace::Bytes(length), ..*io }
    }

    /// Whether all of what is read must be there.
    pub(super) fn covers(&self, io: &Io) -> bool {
        let (number, end) = self.place(io);
        let MayBe { absent, bytes } = self.may_be(number);
        !absent && bytes.is_some_and(|(least, _)| least >= end)
    }

    /// A call of this version has ended, or never will. `is_certain`: if it succeeded, what it did
    /// is there.
    pub(super) fn apply(&mut self, io: &Io, version: u64, outcome: Outcome, is_certain: bool) {
        let (number, end) = self.place(io);
        // A copy changes a name of the other tree.
        let changes = io.op.changes_names() && io.op != Op::Copy || io.op == Op::Write;
        let before = self.may_be(number);
        let after = before.after(io.op, end);
        if changes && io.op != Op::Write && may_have_done(io.op, outcome) {
            self.is_changed(number, version, (io.op == Op::Move).then_some(false));
        }
        match outcome {
            Outcome::Ok if is_certain => {
                if changes && !self.others.is_empty() {
                    self.others.remove(&number);
                }
                self.put(number, after);
            }
            // That it was seen then says nothing of what a power cut has left.
            Outcome::Ok if !changes => {}
            outcome if !changes || !may_have_done(io.op, outcome) => {}
            _ if after == before => {}
            _ => self.put(number, before.or(after)),
        }
    }

    /// A file that is `there` in another tree was copied or moved here by a call of this version,
    /// or that has failed. Answers whether anything may have come.
    pub(super) fn arrive(
        &mut self,
        (number, version): (u64, u64),
        (op, there): (Op, MayBe),
        outcome: Outcome,
        is_certain: bool,
    ) -> bool {
        if !may_have_done(op, outcome) {
            return false;
        }
        self.is_changed(number, version, (op == Op::Move).then_some(true));
        if outcome == Outcome::Ok && is_certain && !self.others.is_empty() {
            self.others.remove(&number);
        }
        let before = self.may_be(number);
        let (least, most) = there.bytes.unwrap_or((0, SIZE_MAX));
        let whole = MayBe { absent: false, bytes: Some((least, most)) };
        self.put(
            number,
            match (outcome, op) {
                (Outcome::Ok, _) if is_certain => whole,
                (_, Op::Move) => before.or(whole),
                // Some of it.
                _ => before.or(MayBe { absent: false, bytes: Some((0, most)) }),
            },
        );
        true
    }

    /// A call of this version may have changed a name. `came`: it was a move, from here or here.
    fn is_changed(&mut self, number: u64, version: u64, came: Option<bool>) {
        let before = if self.moves.is_empty() { None } else { self.moves.remove(&number) };
        let Some(came) = came else { return };
        let MayBe { absent, bytes } = self.may_be(number);
        let is_settled = absent != bytes.is_some();
        let since = if is_settled { Some(version) } else { before.map(|before| before.since) };
        if let Some(since) = since {
            self.moves.insert(number, Moved { version, since, came });
        }
    }

    /// The names that nothing has changed since they were moved, each with its move, in order.
    pub(super) fn moved(&self) -> Vec<(u64, Moved)> {
        let mut moved: Vec<_> =
            self.moves.iter().map(|(number, moved)| (*number, *moved)).collect();
        moved.sort_unstable_by_key(|(number, _)| *number);
        moved
    }

    /// The move of a name, if that was the last to change it.
    pub(super) fn moved_last(&self, number: u64) -> Option<Moved> {
        if self.moves.is_empty() { None } else { self.moves.get(&number).copied() }
    }

    /// What is wrong with a name that was found, or was not, against what must be: where a move was
    /// the last to change it, that was not wholly done.
    pub(super) fn met(&self, number: u64, kind: NameDamage) -> NameDamage {
        match (kind, self.moved_last(number)) {
            (NameDamage::Lost, Some(Moved { came: true, .. }))
            | (NameDamage::Extra, Some(Moved { came: false, .. })) => NameDamage::Torn,
            (kind, _) => kind,
        }
    }

    /// What the end of a move to this tree says of the name here, if that is not as it must be.
    pub(super) fn contradicts_arrival(&self, number: u64, op: Op, outcome: Outcome) -> bool {
        let is_in_the_way = op == Op::Move && outcome == Outcome::Error(EEXIST);
        is_in_the_way && self.must_be_free(number)
    }

    /// What the end of a call says of the name it went to, if that is not as it must be.
    pub(super) fn contradicts(&self, io: &Io, outcome: Outcome) -> Option<(NameDamage, FoundName)> {
        let (number, end) = self.place(io);
        let may_be = self.may_be(number);
        let must_be = !may_be.absent;
        let makes = matches!(io.op, Op::Create | Op::Mkdir);
        match outcome {
            // It may speak of either tree.
            Outcome::Error(_) if matches!(io.op, Op::Copy | Op::Move) => None,
            Outcome::Error(ENOENT | ENOTDIR) if must_be && !makes => {
                Some((NameDamage::Lost, FoundName::Nothing))
            }
            Outcome::Error(EISDIR) if must_be => {
                Some((NameDamage::WrongKind, FoundName::Directory))
            }
            Outcome::Error(ELOOP) if must_be => Some((NameDamage::WrongKind, FoundName::Other)),
            Outcome::Error(EEXIST) if makes && self.must_be_free(number) => {
                Some((NameDamage::Extra, FoundName::Other))
            }
            Outcome::Short if io.op == Op::Read && must_be => {
                let is_long = may_be.bytes.is_some_and(|(least, _)| least >= end);
                is_long.then_some((NameDamage::Truncated, FoundName::Other))
            }
            _ => None,
        }
    }

    /// Whether nothing may be there under a name, also of another kind.
    fn must_be_free(&self, number: u64) -> bool {
        self.may_be(number).bytes.is_none() && !self.others.contains_key(&number)
    }

    /// What is wrong with a name under which this was found, if anything is. What was of another
    /// kind when the run began, and is still, is no more than it was then.
    pub(super) fn judge(&self, number: u64, found: FoundName) -> Option<NameDamage> {
        if !self.others.is_empty() && self.others.get(&number) == Some(&found) {
            return None;
        }
        let MayBe { absent, bytes } = self.may_be(number);
        let is_file = number < self.geometry.files();
        match (found, bytes) {
            (FoundName::Nothing, _) => (!absent).then_some(NameDamage::Lost),
            (_, None) => Some(NameDamage::Extra),
            (FoundName::File(size), Some((least, most))) if is_file => match size {
                size if size < least => Some(NameDamage::Truncated),
                size if size > most => Some(NameDamage::Grown),
                _ => None,
            },
            (FoundName::Directory, Some(_)) if !is_file => None,
            _ => Some(NameDamage::WrongKind),
        }
    }

    /// What is certainly there.
    pub(super) fn found(&self) -> FoundNames {
        let mut known = self.known.clone();
        self.unsure.keys().for_each(|number| known[*number as usize] = ABSENT);
        FoundNames { known, others: self.others.clone(), files: self.geometry.files() }
    }

    /// From here on what was found is there, and nothing else.
    pub(super) fn adopt(&mut self, found: &FoundNames) {
        let geometry = self.geometry.clone();
        *self = Self::of(geometry, found);
    }

    /// The path of a name below the anchor.
    pub(super) fn path(&self, number: u64) -> String {
        self.geometry.path(number)
    }

    /// A number for a state; most files have their size.
    fn encode(&self, number: usize) -> u64 {
        match self.known[number] {
            ABSENT => 0,
            bytes if self.size(number) == Some(bytes) => 1,
            bytes => bytes + 2,
        }
    }

    fn size(&self, number: usize) -> Option<u64> {
        let is_file = (number as u64) < self.geometry.files();
        is_file.then(|| self.geometry.size(number as u64))
    }

    /// Writes it down: 16 bytes `IOECHO-NAMES-003`; how many names; stretches of names in one
    /// state, how many and which (0 absent, 1 a file of its size, otherwise two more than its
    /// size), until zero; how many are uncertain, of each its number, whether it may be absent,
    /// whether it may be there, and its least and largest size; how many have not changed since
    /// they were moved, of each its number, the version of the move, that of the first of several
    /// in doubt, and whether it came here; how many are of another kind, of each its number and
    /// whether that is a directory; the CRC-32C of all before. `IOECHO-NAMES-002` has none of
    /// another kind, `IOECHO-NAMES-001` no moves either. Numbers have eight bytes, little-endian.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn store(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut writing = Writing::new(out);
        writing.bytes(MAGIC)?;
        writing.number(self.count())?;
        let mut at = 0;
        while at < self.known.len() {
            let state = self.encode(at);
            let rest = at..self.known.len();
            let end = rest.into_iter().find(|next| self.encode(*next) != state);
            let end = end.unwrap_or(self.known.len());
            writing.number((end - at) as u64)?;
            writing.number(state)?;
            at = end;
        }
        writing.number(0)?;
        let mut unsure: Vec<_> = self.unsure.iter().collect();
        unsure.sort_unstable_by_key(|(number, _)| **number);
        writing.number(unsure.len() as u64)?;
        for (number, MayBe { absent, bytes }) in unsure {
            let (least, most) = bytes.unwrap_or_default();
            let flags = [u64::from(*absent), u64::from(bytes.is_some())];
            for value in [*number].into_iter().chain(flags).chain([least, most]) {
                writing.number(value)?;
            }
        }
        let moved = self.moved();
        writing.number(moved.len() as u64)?;
        for (number, Moved { version, since, came }) in moved {
            for value in [number, version, since, u64::from(came)] {
                writing.number(value)?;
            }
        }
        let mut others: Vec<_> = self.others.iter().collect();
        others.sort_unstable_by_key(|(number, _)| **number);
        writing.number(others.len() as u64)?;
        for (number, other) in others {
            writing.number(*number)?;
            writing.number(u64::from(*other == FoundName::Directory))?;
        }
        writing.finish()
    }

    /// What was written down of a tree of this shape.
    ///
    /// # Errors
    ///
    /// If that cannot be read, is not whole, or is of another tree.
    pub fn restore(geometry: Geometry, input: &mut dyn Read) -> io::Result<Self> {
        let names = geometry.files() + geometry.directories();
        let mut book = Self {
            known: Vec::with_capacity(names as usize),
            unsure: FxHashMap::default(),
            others: FxHashMap::default(),
            moves: FxHashMap::default(),
            geometry,
        };
        let mut reading = Reading::new(input);
        let magic = reading.bytes::<16>()?;
        let has_others = magic == *MAGIC;
        let has_moves = has_others || magic == *MAGIC_WITHOUT_OTHERS;
        if !(has_moves || magic == *MAGIC_WITHOUT_MOVES) || reading.number()? != names {
            return Err(wrong());
        }
        loop {
            let count = reading.count(names - book.count())?;
            if count == 0 {
                break;
            }
            let state = reading.number()?;
            for _ in 0..count {
                let size = book.size(book.known.len()).unwrap_or(0);
                book.known.push(match state {
                    0 => ABSENT,
                    1 => size,
                    state => state - 2,
                });
            }
        }
        for _ in 0..reading.count(names)? {
            let number = reading.count(names.saturating_sub(1))?;
            let (absent, is_there) = (reading.count(1)? == 1, reading.count(1)? == 1);
            let (least, most) = (reading.number()?, reading.number()?);
            let bytes = is_there.then_some((least, most));
            book.unsure.insert(number, MayBe { absent, bytes });
        }
        let moved = if has_moves { reading.count(names)? } else { 0 };
        for _ in 0..moved {
            let number = reading.count(names.saturating_sub(1))?;
            let (version, since) = (reading.number()?, reading.number()?);
            let came = reading.count(1)? == 1;
            book.moves.insert(number, Moved { version, since, came });
        }
        let others = if has_others { reading.count(names)? } else { 0 };
        for _ in 0..others {
            let number = reading.count(names.saturating_sub(1))?;
            let is_directory = reading.count(1)? == 1;
            let other = if is_directory { FoundName::Directory } else { FoundName::Other };
            book.others.insert(number, other);
        }
        reading.finish()?;
        if book.count() == names { Ok(book) } else { Err(wrong()) }
    }
}
