//! The columns of a trace that hold the parents of each request.
//!
//! A request has any number of parents, so they are not part of a `Request`, which is copied by the
//! million. They are columns of a batch, and only if the reader was asked for them: parents are
//! named by number, and a transform that leaves out, doubles or merges requests does not update
//! these numbers.

use crate::units::Nanos;

/// Stands for the number of a request that has none.
const NO_ID: u64 = u64::MAX;

/// The parents of a request and its think time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<'a> {
    /// The number by which other requests name this one.
    pub id: u64,
    /// The time from the completion of the last parent to the issue of this request. `None` if the
    /// request has no parents, or if the trace does not contain this time.
    pub think: Option<Nanos>,
    /// The numbers of the requests that must have completed before this one is issued.
    pub parents: &'a [u64],
}

/// Columns of [`Dependency`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DependencyColumns {
    pub(crate) id: Vec<u64>,
    pub(crate) think: Vec<Option<Nanos>>,
    /// For each row, the end of its parents in `parents`.
    pub(crate) ends: Vec<usize>,
    pub(crate) parents: Vec<u64>,
}

impl DependencyColumns {
    pub(crate) fn clear(&mut self) {
        self.id.clear();
        self.think.clear();
        self.ends.clear();
        self.parents.clear();
    }

    pub(crate) fn push(&mut self, dependency: Dependency<'_>) {
        self.id.push(dependency.id);
        self.think.push(dependency.think);
        self.parents.extend_from_slice(dependency.parents);
        self.ends.push(self.parents.len());
    }

    /// Adds a row with an unknown dependency.
    pub(crate) fn push_unknown(&mut self) {
        self.push(Dependency { id: NO_ID, think: None, parents: &[] });
    }

    /// Sets the dependency of the last row.
    pub(crate) fn set_last(&mut self, dependency: Dependency<'_>) {
        self.truncate(self.id.len().saturating_sub(1));
        self.push(dependency);
    }

    /// The dependency of row `row`.
    pub(crate) fn get(&self, row: usize) -> Dependency<'_> {
        let parents = &self.parents[self.start(row)..self.ends[row]];
        Dependency { id: self.id[row], think: self.think[row], parents }
    }

    fn start(&self, row: usize) -> usize {
        row.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    pub(crate) fn append(&mut self, other: &Self, from: usize, to: usize) {
        for row in from..to {
            self.push(other.get(row));
        }
    }

    /// Adds rows with unknown dependencies until there are `rows`.
    pub(crate) fn resize(&mut self, rows: usize) {
        while self.id.len() < rows {
            self.push_unknown();
        }
    }

    /// Keeps the rows for which `keep` returns true.
    pub(crate) fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        let mut kept = Self::default();
        for row in (0..self.id.len()).filter(|row| keep(*row)) {
            kept.push(self.get(row));
        }
        *self = kept;
    }

    fn truncate(&mut self, rows: usize) {
        self.id.truncate(rows);
        self.think.truncate(rows);
        self.ends.truncate(rows);
        self.parents.truncate(self.ends.last().copied().unwrap_or(0));
    }
}
