//! The pages that were touched, and a sample of them when there are too many.
//!
//! Memory latency limits the counting of pages: with random accesses, every look-up in the table
//! waits for it. Pages that lie next to each other are mostly used together, so four of them share
//! a place. Data needed at every touch lies close together, apart from data needed only for
//! merging. And the index holds only place numbers and bits of keys, so that it stays in the cache.

use serde::{Deserialize, Serialize};

use crate::count::sample::is_sampled;

/// Pages of a group, as a power of two.
pub(super) const GROUP_SHIFT: u32 = 2;

/// Pages of a group.
pub(super) const GROUP: usize = 1 << GROUP_SHIFT;

/// An instant that never was.
pub(super) const NEVER: i64 = -1;

/// What is known of a page; of reads first, then of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Page {
    pub(super) first: [i64; 2],
    pub(super) last: [i64; 2],
    pub(super) count: [u32; 2],
    /// Whether the first and the last touch was a write: instants leave it open when both came at
    /// once.
    pub(super) began_with_write: bool,
    pub(super) ended_with_write: bool,
}

impl Page {
    /// When it was last touched.
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

/// The data that every touch of a group needs, by page, in two neighbouring cache lines.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(128))]
struct Group {
    key: u64,
    last: [[i64; 2]; GROUP],
    count: [[u32; 2]; GROUP],
    /// A bit for each page.
    began_with_write: u8,
    ended_with_write: u8,
}

/// When pages were first read and written.
type First = [[i64; 2]; GROUP];

/// Groups by key. Those whose key begins with `halved` zeros are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Rows", into = "Rows")]
pub(super) struct Table {
    limit: usize,
    halved: u32,
    /// Zero, or 32 bits of a key and, below, one more than the number of its place. The number of
    /// entries is a power of two, and at least twice that of the groups.
    index: Vec<u64>,
    groups: Vec<Group>,
    first: Vec<First>,
}

/// A page as it is written down: first and last instants, counts, and began and ended with a write.
type Row = (u64, u8, [i64; 2], [i64; 2], [u32; 2], bool, bool);

/// A [`Table`] as it is written down: its pages with the key of their group and number within it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rows {
    limit: u64,
    halved: u32,
    pages: Vec<Row>,
}

impl From<Rows> for Table {
    fn from(rows: Rows) -> Self {
        let mut table = Self::new(rows.limit as usize);
        table.halve_to(rows.halved);
        for (key, at, first, last, count, began_with_write, ended_with_write) in rows.pages {
            if let Some(place) = table.place(key) {
                let page = Page { first, last, count, began_with_write, ended_with_write };
                table.set(place, usize::from(at) % GROUP, &page);
            }
        }
        table
    }
}

impl From<Table> for Rows {
    fn from(table: Table) -> Self {
        let mut pages = Vec::new();
        for place in 0..table.len() {
            for at in 0..GROUP {
                let page = table.page(place, at);
                let Page { first, last, count, began_with_write, ended_with_write } = page;
                if page.touched() != NEVER {
                    let key = table.key(place);
                    let at = at as u8;
                    pages.push((key, at, first, last, count, began_with_write, ended_with_write));
                }
            }
        }
        Self { limit: table.limit as u64, halved: table.halved, pages }
    }
}

/// Beyond so many groups there will be many.
const FEW: usize = 1 << 12;

/// For so many groups there is room from then on: 64 MiB.
const RESERVED_MAX: usize = 1 << 19;

/// The smallest index.
const INDEX_MIN: usize = 1 << 10;

/// Where a key is looked for first; the index is longer than none.
const fn slot(key: u64, index: usize) -> usize {
    // The high bits are alike in a sample.
    key as usize & (index - 1)
}

/// The bits of a key that stand in the index.
const fn tag(key: u64) -> u64 {
    key << 8 & (u64::MAX << 32)
}

impl Table {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.clamp(1, 1 << 30),
            halved: 0,
            index: vec![0; INDEX_MIN],
            groups: Vec::new(),
            first: Vec::new(),
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

    pub(super) fn key(&self, place: usize) -> u64 {
        self.groups[place].key
    }

    pub(super) fn page(&self, place: usize, at: usize) -> Page {
        let group = &self.groups[place];
        Page {
            first: self.first[place][at],
            last: group.last[at],
            count: group.count[at],
            began_with_write: group.began_with_write >> at & 1 != 0,
            ended_with_write: group.ended_with_write >> at & 1 != 0,
        }
    }

    pub(super) fn set(&mut self, place: usize, at: usize, page: &Page) {
        let group = &mut self.groups[place];
        self.first[place][at] = page.first;
        group.last[at] = page.last;
        group.count[at] = page.count;
        let bit = 1_u8 << at;
        group.began_with_write =
            group.began_with_write & !bit | u8::from(page.began_with_write) << at;
        group.ended_with_write =
            group.ended_with_write & !bit | u8::from(page.ended_with_write) << at;
    }

    /// Reads and writes of every page, by group.
    pub(super) fn groups_counts(&self) -> impl Iterator<Item = [[u32; 2]; GROUP]> + '_ {
        self.groups.iter().map(|group| group.count)
    }

    /// Reads and writes of every page.
    pub(super) fn counts(&self) -> impl Iterator<Item = [u32; 2]> + '_ {
        self.groups.iter().flat_map(|group| group.count)
    }

    /// Marks a page as read or written, and answers when it was last read and written before, and
    /// whether the last touch was a write.
    #[inline]
    pub(super) fn touch(
        &mut self,
        place: usize,
        at: usize,
        kind: usize,
        now: i64,
    ) -> ([i64; 2], bool) {
        let group = &mut self.groups[place];
        let before = group.last[at];
        let was_write = group.ended_with_write >> at & 1 != 0;
        group.last[at][kind] = before[kind].max(now);
        group.count[at][kind] = group.count[at][kind].saturating_add(1);
        group.ended_with_write = group.ended_with_write & !(1 << at) | (kind as u8) << at;
        if before[kind] == NEVER {
            self.first[place][at][kind] = now;
            if before == [NEVER; 2] {
                group.began_with_write |= (kind as u8) << at;
            }
        }
        (before, was_write)
    }

    /// Something of the index where a key is looked for, so that it is at hand.
    #[inline]
    pub(super) fn reach(&self, key: u64) -> u64 {
        self.index[slot(key, self.index.len())]
    }

    /// Something of that line of a place that the search for its key leaves out.
    #[inline]
    pub(super) fn reach_place(&self, place: usize) -> u8 {
        self.groups[place].ended_with_write
    }

    /// The place of a group, made where there was none; `None` of those outside the sample.
    #[inline]
    pub(super) fn place(&mut self, key: u64) -> Option<usize> {
        if !is_sampled(key, self.halved) {
            return None;
        }
        self.find(key).or_else(|| self.add(key))
    }

    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let mut at = slot(key, self.index.len());
        loop {
            let entry = self.index[at];
            if entry == 0 {
                return None;
            }
            let place = (entry as u32 - 1) as usize;
            if entry & !0xFFFF_FFFF == tag(key) && self.groups[place].key == key {
                return Some(place);
            }
            at = (at + 1) & (self.index.len() - 1);
        }
    }

    fn add(&mut self, key: u64) -> Option<usize> {
        if self.groups.len() == FEW {
            // Aligned memory is copied whenever it grows. Reserved but unused memory costs nothing.
            self.groups.reserve_exact((self.limit.min(RESERVED_MAX) + 1).saturating_sub(FEW));
        }
        self.groups.push(Group {
            key,
            last: [[NEVER; 2]; GROUP],
            count: [[0; 2]; GROUP],
            began_with_write: 0,
            ended_with_write: 0,
        });
        self.first.push([[NEVER; 2]; GROUP]);
        let place = self.groups.len() - 1;
        if self.groups.len() * 2 > self.index.len() {
            self.index = vec![0; self.index.len() * 2];
            self.index_all();
        } else {
            self.enter(place);
        }
        if self.groups.len() <= self.limit {
            return Some(place);
        }
        while self.groups.len() > self.limit && self.halved < 63 {
            self.halve_to(self.halved + 1);
        }
        self.find(key)
    }

    /// Puts a place into the index.
    fn enter(&mut self, place: usize) {
        let key = self.groups[place].key;
        let mut at = slot(key, self.index.len());
        while self.index[at] != 0 {
            at = (at + 1) & (self.index.len() - 1);
        }
        self.index[at] = tag(key) | (place as u64 + 1);
    }

    #[cold]
    fn index_all(&mut self) {
        for place in 0..self.groups.len() {
            self.enter(place);
        }
    }

    /// Makes the sample one in 2^halved, if it is larger.
    pub(super) fn halve_to(&mut self, halved: u32) {
        if halved <= self.halved {
            return;
        }
        self.halved = halved;
        let mut kept = 0;
        for at in 0..self.groups.len() {
            if is_sampled(self.groups[at].key, halved) {
                self.groups[kept] = self.groups[at];
                self.first[kept] = self.first[at];
                kept += 1;
            }
        }
        self.groups.truncate(kept);
        self.first.truncate(kept);
        self.index.fill(0);
        self.index_all();
    }
}
