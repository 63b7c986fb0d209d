//! Files that are copied or moved from one tree to another.
//!
//! Such a file bears the stamps of the tree in which it was written. Requests of a run have their
//! numbers in one row across its trees, so a version says which request wrote it, whatever its
//! tree. So when a copy or a move has ended, the verifier of the other tree takes over what the
//! sectors of the file may hold, as [`Legal::Moved`], and goes on from there: nothing else has to
//! know where a file has been. The file is in the hands of one thread meanwhile, in both trees.
//!
//! A move is whole or it is not done. So both trees keep the version of the move that was the last
//! to change a name; as long as that is the same, the name is in one of them.

use ioecho_trace::{Nanos, Op, Outcome};

use super::entry::Legal;
use super::names::{FoundName, FoundNames, MayBe, Moved, NameBook, NameDamage};
use super::origins::Member;
use super::sets::Alternatives;
use super::{PART_SECTORS, Verifier};
use crate::device::Io;
use crate::pattern::SECTOR_BYTES;

/// How a verifier is reached.
pub(super) type Reach<'r> = &'r mut dyn FnMut(&mut dyn FnMut(&mut Verifier));

/// A file on its way from one tree to another, as far as its source knows it. It is kept from one
/// call to the next, so that it need not be allocated anew.
#[derive(Debug)]
pub(super) struct HandedOver {
    file: u64,
    /// What may be there of it in its source.
    name: MayBe,
    /// Whether there was certainly nothing of its name in the other tree.
    is_new: bool,
    /// The runs of its source.
    line: Vec<Member>,
    /// What its next sectors may hold: from where on, how many, and what.
    stretches: Vec<(u64, u64, Alternatives)>,
    next: u64,
    end: u64,
}

/// How a copy or a move ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// Whether what it did is there, if it succeeded.
    pub(super) is_certain: bool,
    /// When; `None` if that is read from a record, so that what it met was told when it ended.
    pub(super) at: Option<Nanos>,
}

impl HandedOver {
    pub(super) fn new() -> Self {
        let (line, stretches) = (Vec::new(), Vec::new());
        Self { file: 0, name: MayBe::NOTHING, is_new: false, line, stretches, next: 0, end: 0 }
    }

    /// Follows the end of a copy or move in both trees. `source` is the end of the call there.
    pub(super) fn follow(
        &mut self,
        io: &Io,
        ended: Ended,
        (source, end_there): (Reach<'_>, &mut dyn FnMut(&mut Verifier)),
        other: Reach<'_>,
    ) {
        source(&mut |verifier| {
            self.begin(verifier, io);
            end_there(verifier);
        });
        let mut comes = false;
        other(&mut |verifier| comes = verifier.name_arrived(io, self, ended));
        while comes && self.next < self.end {
            source(&mut |verifier| self.read(verifier));
            other(&mut |verifier| verifier.data_arrived(io, self, ended));
        }
    }

    /// Begins with the file as it is before anything is known of the call's end.
    fn begin(&mut self, source: &Verifier, io: &Io) {
        let Some(book) = source.names() else { return };
        let geometry = book.geometry();
        self.file = geometry.number_at(io.offset.0);
        self.name = book.may_be(self.file);
        self.line.clear();
        self.line.extend_from_slice(source.origins.line());
        let sector = SECTOR_BYTES as u64;
        self.next = geometry.place_of_file(self.file) / sector;
        self.end = self.next + geometry.size(self.file).div_ceil(sector);
    }

    /// Reads what the next sectors may hold.
    fn read(&mut self, source: &mut Verifier) {
        let count = ((self.end - self.next) as usize).min(PART_SECTORS);
        let mut entries = std::mem::take(&mut source.entries);
        let known = source.table.get(self.next, &mut entries[..count]);
        source.count_table_error(&known);
        self.stretches.clear();
        for stretch in entries[..count].chunk_by(|a, b| a == b) {
            let may_hold = match known {
                Ok(()) => source.sets.open(stretch[0]),
                Err(_) => Alternatives::one(Legal::Ambiguous),
            };
            let length = stretch.len() as u64;
            self.stretches.push((self.next, length, may_hold));
            self.next += length;
        }
        source.entries = entries;
    }
}

/// What a sector of the other tree may hold that held this in its source. Where that is not one of
/// a few known writes, nothing is said of it there.
fn taken_over(held: &Alternatives, version: u64) -> Alternatives {
    let mut taken = Alternatives::none();
    for legal in held.as_slice() {
        taken.add(match *legal {
            Legal::Version(version) | Legal::Moved(version) => Legal::Moved(version),
            Legal::Zeroes(_) | Legal::Anything(_) => *legal,
            Legal::Untouched | Legal::AtLeast(_) | Legal::Ambiguous => Legal::Anything(version),
        });
    }
    taken
}

impl Verifier {
    /// A copy or move to this tree has ended, or never will: what that does to the name. Answers
    /// whether anything may have come.
    fn name_arrived(&mut self, io: &Io, handed: &mut HandedOver, ended: Ended) -> bool {
        self.origins.issued(io.request);
        let version = self.origins.version(io.request);
        let Some(tree) = &mut self.tree else { return false };
        if handed.file >= tree.book.geometry().files() {
            return false;
        }
        let Ended { outcome, is_certain, at } = ended;
        if tree.book.contradicts_arrival(handed.file, io.op, outcome) {
            let kind = tree.book.met(handed.file, NameDamage::Extra);
            if let Some(at) = at {
                self.tell_name(handed.file, kind, FoundName::Other, Some(io.request), at);
            }
            return false;
        }
        handed.is_new = tree.book.may_be(handed.file) == MayBe::NOTHING;
        let (name, what) = ((handed.file, version), (io.op, handed.name));
        tree.book.arrive(name, what, outcome, is_certain)
    }

    /// What may be in the sectors of the file that were read last.
    fn data_arrived(&mut self, io: &Io, handed: &HandedOver, ended: Ended) {
        let version = self.origins.version(io.request);
        let are_same = self.origins.learn(&handed.line);
        let is_certain = ended.outcome == Outcome::Ok && ended.is_certain;
        for (first, count, held) in &handed.stretches {
            let range = (*first, first + count);
            let taken = match io.op {
                // Some of it, and perhaps holes.
                Op::Copy if !is_certain => Alternatives::one(Legal::Anything(version)),
                _ if !are_same => Alternatives::one(Legal::Anything(version)),
                _ => taken_over(held, version),
            };
            let replaces = is_certain || handed.is_new || io.op == Op::Copy;
            self.change(range, |before| {
                if replaces {
                    return taken;
                }
                let mut either = *before;
                taken.as_slice().iter().for_each(|legal| either.add(*legal));
                either
            });
        }
    }
}

/// Tells of moves between these trees, of which this was found, that were done by half: nothing
/// else has changed the name since, and it is in both of them, or in neither. Call this before the
/// names of each are looked at: those of moves that were not done at all are told apart then.
pub fn torn_moves(trees: &mut [(&mut Verifier, &FoundNames)], at: Nanos) {
    let moved = |verifier: &Verifier| verifier.names().map(NameBook::moved).unwrap_or_default();
    for (verifier, _) in trees.iter_mut() {
        verifier.tree.iter_mut().for_each(|tree| tree.unmoved.clear());
    }
    for source in 0..trees.len() {
        let left = moved(trees[source].0).into_iter().filter(|(_, moved)| !moved.came);
        for (file, moved) in left.collect::<Vec<_>>() {
            let came = Some(Moved { came: true, ..moved });
            let is_other = |(verifier, _): &(&mut Verifier, &FoundNames)| {
                verifier.names().is_some_and(|book| book.moved_last(file) == came)
            };
            let Some(other) = trees.iter().position(is_other) else { continue };
            let (here, there) = (trees[source].1.get(file), trees[other].1.get(file));
            let (teller, found) = match (here, there) {
                (FoundName::Nothing, FoundName::Nothing) => (other, there),
                (FoundName::Nothing, _) => continue,
                (_, FoundName::Nothing) => {
                    for tree in [source, other] {
                        trees[tree].0.tree.iter_mut().for_each(|it| {
                            it.unmoved.insert(file);
                        });
                    }
                    continue;
                }
                _ => (source, here),
            };
            trees[teller].0.tell_name(file, NameDamage::Torn, found, None, at);
        }
    }
}
