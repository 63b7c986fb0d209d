//! The pages that were touched, and a sample of them when there are too many.
//!
//! Pages that lie next to each other are mostly used together, so four of them share a place in
//! the table: a request then finds its pages in one place of memory instead of several.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::analysis::place::is_sampled;

/// Pages of a group, as a power of two.
pub(super) const GROUP_SHIFT: u32 = 2;

/// Pages of a group.
pub(super) const GROUP: usize = 1 << GROUP_SHIFT;

/// An instant that never was.
pub(super) const NEVER: i64 = -1;

/// What is known of a page; of reads first, then of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Page {
    pub(super) first: [i64; 2],
    pub(super) last: [i64; 2],
    pub(super) count: [u32; 2],
}

impl Default for Page {
    fn default() -> Self {
        Self { first: [NEVER; 2], last: [NEVER; 2], count: [0; 2] }
    }
}

impl Page {
    /// When it was last touched.
    #[inline]
    pub(super) fn touched(&self) -> i64 {
        self.last[0].max(self.last[1])
    }

    /// When it was first touched.
    pub(super) fn begun(&self) -> i64 {
        match self.first {
            [NEVER, write] => write,
            [read, NEVER] => read,
            [read, write] => read.min(write),
        }
    }
}

/// Pages that lie next to each other. The bits say of each page whether its first and its last
/// touch was a write: instants alone leave it open when both came at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) pages: [Page; GROUP],
    pub(super) began_with_write: u8,
    pub(super) ended_with_write: u8,
}

/// Groups by key. Those whose key begins with `halved` zeros are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub(super) struct Table {
    limit: usize,
    halved: u32,
    places: FxHashMap<u64, u32>,
    keys: Vec<u64>,
    groups: Vec<Group>,
}

/// A [`Table`] as it is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows {
    limit: u64,
    halved: u32,
    rows: Vec<(u64, Group)>,
}

impl From<Rows> for Table {
    fn from(rows: Rows) -> Self {
        let mut table = Self::new(rows.limit as usize);
        table.halved = rows.halved;
        for (key, group) in rows.rows {
            if let Some(place) = table.place(key) {
                table.groups[place] = group;
            }
        }
        table
    }
}

impl From<Table> for Rows {
    fn from(table: Table) -> Self {
        let rows = table.keys.into_iter().zip(table.groups).collect();
        Self { limit: table.limit as u64, halved: table.halved, rows }
    }
}

impl Table {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.clamp(1, 1 << 30),
            halved: 0,
            places: FxHashMap::default(),
            keys: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// How often the sample was halved: one group in 2^halved is in it.
    #[inline]
    pub(super) fn halved(&self) -> u32 {
        self.halved
    }

    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Group)> {
        self.keys.iter().copied().zip(&self.groups)
    }

    #[inline]
    pub(super) fn group(&mut self, place: usize) -> &mut Group {
        &mut self.groups[place]
    }

    /// The place of a group, made where there was none; `None` of those outside the sample.
    #[inline]
    pub(super) fn place(&mut self, key: u64) -> Option<usize> {
        if !is_sampled(key, self.halved) {
            return None;
        }
        let next = self.groups.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            return self.add(key);
        }
        Some(place as usize)
    }

    #[cold]
    fn add(&mut self, key: u64) -> Option<usize> {
        self.keys.push(key);
        self.groups.push(Group::default());
        if self.groups.len() <= self.limit {
            return Some(self.groups.len() - 1);
        }
        while self.groups.len() > self.limit && self.halved < 63 {
            self.halve_to(self.halved + 1);
        }
        self.places.get(&key).map(|place| *place as usize)
    }

    /// Makes the sample one in 2^halved, if it is larger.
    pub(super) fn halve_to(&mut self, halved: u32) {
        if halved <= self.halved {
            return;
        }
        self.halved = halved;
        let mut kept = 0;
        for at in 0..self.keys.len() {
            let key = self.keys[at];
            if is_sampled(key, halved) {
                self.keys[kept] = key;
                self.groups[kept] = self.groups[at];
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.groups.truncate(kept);
        self.places.clear();
        self.places.extend(self.keys.iter().enumerate().map(|(at, key)| (*key, at as u32)));
    }
}
