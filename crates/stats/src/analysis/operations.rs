//! How often each operation was asked for, and of how many files.
//!
//! A load on devices is told by its reads and writes. A load on files is most of all opens, looks
//! and removals; what matters of them is their number, and how many files they were about. Such a
//! call has the place of the file or directory that it names and no other (`docs/formats.md`), so
//! the distinct places are the files. They are exact up to [`NAMES_MAX`] for each operation, and
//! estimated from a sample beyond.

use ioecho_trace::{Op, Request};
use serde::{Deserialize, Serialize};

use super::Summary;
use super::event::Event;
use crate::count::sample::{Sample, mix};

/// How many files an operation names that are told apart; beyond, their number is an estimate.
pub const NAMES_MAX: usize = 1 << 14;

/// The standard error of an estimate: that of the smallest sample, which has just been halved.
const ERROR: f64 = 0.012;

/// The requests of an operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OfOp {
    requests: u64,
    failed: u64,
    bytes: u64,
    /// The places of what it names, of operations on files.
    names: Sample<(), NAMES_MAX>,
}

impl OfOp {
    fn merge(&mut self, later: &Self) {
        self.requests = self.requests.saturating_add(later.requests);
        self.failed = self.failed.saturating_add(later.failed);
        self.bytes = self.bytes.saturating_add(later.bytes);
        self.names.merge(&later.names, |(), _| {});
    }
}

/// Counts by operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Operations {
    of: [OfOp; Op::ALL.len()],
}

impl Summary for Operations {
    fn observe(&mut self, request: &Request) {
        self.add(request, &Event::of(request));
    }

    fn merge(&mut self, later: &Self) {
        self.of.iter_mut().zip(&later.of).for_each(|(mine, theirs)| mine.merge(theirs));
    }
}

impl Operations {
    #[inline]
    pub(crate) fn add(&mut self, request: &Request, event: &Event) {
        let of = &mut self.of[request.op as usize];
        of.requests += 1;
        of.failed += u64::from(event.failed);
        of.bytes = of.bytes.saturating_add(event.bytes);
        if request.op.is_of_files() {
            of.names.touch(mix(request.offset.0 ^ mix(request.volume.0.into())), ());
        }
    }

    /// The figures of the operations that occurred. Places of `recorded` files are no files: one
    /// that was opened in two ways has two of them.
    pub fn figures(&self, recorded: bool) -> Vec<OperationFigures> {
        let there = Op::ALL.into_iter().zip(&self.of).filter(|(_, of)| of.requests > 0);
        let figures = |(op, of): (Op, &OfOp)| OperationFigures {
            op,
            requests: of.requests,
            failed: of.failed,
            bytes: of.bytes,
            names: (op.is_of_files() && !recorded).then(|| Named::of(&of.names)),
        };
        there.map(figures).collect()
    }

    /// How many files are named by what is done to files and to open ones; `None` if nothing is.
    pub fn files(&self) -> Option<Named> {
        let is_of_a_file = |op: Op| op.is_of_a_file() || matches!(op, Op::Close | Op::Fsync);
        let mut all = Sample::default();
        for (op, of) in Op::ALL.into_iter().zip(&self.of) {
            if is_of_a_file(op) {
                all.merge(&of.names, |(), _| {});
            }
        }
        Some(Named::of(&all)).filter(|named| named.count > 0)
    }
}

/// A number of files, or of directories.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Named {
    /// How many.
    pub count: u64,
    /// The standard error as a share of `count`; 0 if it is exact.
    pub relative_error: f64,
}

impl Named {
    fn of(sample: &Sample<(), NAMES_MAX>) -> Self {
        let relative_error = if sample.weight() > 1 { ERROR } else { 0.0 };
        Self { count: sample.count(), relative_error }
    }
}

/// What was asked for of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperationFigures {
    /// The operation.
    pub op: Op,
    /// How often it was asked for.
    pub requests: u64,
    /// How many of them came to nothing.
    pub failed: u64,
    /// How much data they were to move; 0 of what moves none.
    pub bytes: u64,
    /// How many files or directories they name; `None` of what devices do, and of recorded files.
    pub names: Option<Named>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::laws::{absurd, assert_laws, load};
    use ioecho_trace::{Bytes, Nanos};
    use proptest::prelude::*;

    fn told(operations: &Operations) -> (Vec<OperationFigures>, Option<Named>) {
        (operations.figures(false), operations.files())
    }

    fn request(op: Op, offset: u64, length: u64) -> Request {
        Request::new(Nanos(0), op, Bytes(offset), Bytes(length))
    }

    proptest! {
        #[test]
        fn laws(load in load(), cuts in (0_usize..120, 0_usize..120)) {
            assert_laws(&Operations::default(), told, &load, cuts);
        }

        #[test]
        fn nothing_absurd_makes_it_fall_over(load in absurd()) {
            let mut operations = Operations::default();
            for request in &load {
                operations.observe(request);
            }
            told(&operations);
        }
    }

    #[test]
    fn a_file_counts_once_however_many_calls_name_it_and_a_directory_is_no_file() {
        let mut operations = Operations::default();
        for round in 0..3 {
            for file in 0..5 {
                let place = file << 16;
                operations.observe(&request(Op::Open, place, 0));
                operations.observe(&request(Op::Read, place + round * 4096, 4096));
                operations.observe(&request(Op::Close, place, 0));
            }
            operations.observe(&request(Op::Delete, 5 << 16, 0));
            operations.observe(&request(Op::Readdir, 9 << 16, 0));
        }
        let (figures, files) = told(&operations);
        assert_eq!(files, Some(Named { count: 6, relative_error: 0.0 }));
        let of = |op| figures.iter().find(|of| of.op == op).unwrap();
        assert_eq!((of(Op::Open).requests, of(Op::Open).names.unwrap().count), (15, 5));
        assert_eq!((of(Op::Read).bytes, of(Op::Read).names), (15 * 4096, None));
        assert_eq!(of(Op::Readdir).names.unwrap().count, 1);
    }

    #[test]
    fn very_many_files_are_estimated_within_the_told_error() {
        let mut operations = Operations::default();
        let files = 300_000;
        for file in 0..files {
            operations.observe(&request(Op::Create, file << 20, 0));
        }
        let found = operations.files().unwrap();
        assert!(found.relative_error > 0.0);
        let off = found.count as f64 / files as f64 - 1.0;
        assert!(off.abs() < 4.0 * found.relative_error, "{off}");
    }

    #[test]
    fn a_load_on_a_device_names_no_file() {
        let mut operations = Operations::default();
        operations.observe(&request(Op::Write, 0, 512));
        operations.observe(&request(Op::Flush, 0, 0));
        assert_eq!(operations.files(), None);
        assert!(operations.figures(false).iter().all(|of| of.names.is_none()));
    }
}
