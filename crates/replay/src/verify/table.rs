//! The table of the legal content of every sector.
//!
//! blkreplay keeps two files, for complete and for running requests, and reads them for every
//! request. Here it is one table of eight bytes per sector, which exists only for touched sectors:
//! in memory for simulation and small targets, in a sparse file for large ones.

use std::io;

use rustc_hash::FxHashMap;

/// A table with an entry of eight bytes for every sector of 512 bytes. All are zero at first.
pub trait VersionTable {
    /// Reads the entries of the sectors from `first_sector` on.
    fn get(&mut self, first_sector: u64, entries: &mut [u64]) -> io::Result<()>;

    /// Sets the entries of `count` sectors to `entry`, which is not zero.
    fn set(&mut self, first_sector: u64, count: u64, entry: u64) -> io::Result<()>;

    /// The next stretch of sectors, at or behind `sector`, with entries that were set: its first
    /// sector and the one behind its last. A stretch that is longer may come in parts.
    fn touched_from(&mut self, sector: u64) -> io::Result<Option<(u64, u64)>>;
}

/// Entries on a page of the table in memory: 4 KiB, for 256 KiB of target.
const PAGE: u64 = 512;

/// A table in memory. Takes 1/64 of what was touched, in pages of 4 KiB, which it makes when they
/// are first written: for targets that are small or simulated.
#[derive(Debug, Default)]
pub struct MemoryTable {
    pages: FxHashMap<u64, Box<[u64; PAGE as usize]>>,
    /// The highest existing page; bounds the search for the next one.
    last_page: u64,
}

/// The part of `[first, first + count)` on each page: page, first entry on it, how many.
fn parts(first: u64, count: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = first + count;
    (first / PAGE..end.div_ceil(PAGE)).map(move |page| {
        let from = first.max(page * PAGE);
        let to = end.min((page + 1) * PAGE);
        (page, (from % PAGE) as usize, (to - from) as usize)
    })
}

impl VersionTable for MemoryTable {
    fn get(&mut self, first_sector: u64, entries: &mut [u64]) -> io::Result<()> {
        let mut rest = entries;
        for (page, from, count) in parts(first_sector, rest.len() as u64) {
            let (head, tail) = rest.split_at_mut(count);
            match self.pages.get(&page) {
                Some(page) => head.copy_from_slice(&page[from..from + count]),
                None => head.fill(0),
            }
            rest = tail;
        }
        Ok(())
    }

    fn set(&mut self, first_sector: u64, count: u64, entry: u64) -> io::Result<()> {
        for (page, from, count) in parts(first_sector, count) {
            let entries = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE as usize]));
            entries[from..from + count].fill(entry);
            self.last_page = self.last_page.max(page);
        }
        Ok(())
    }

    fn touched_from(&mut self, sector: u64) -> io::Result<Option<(u64, u64)>> {
        for page in sector / PAGE..=self.last_page {
            let Some(entries) = self.pages.get(&page) else { continue };
            let skip = if page == sector / PAGE { (sector % PAGE) as usize } else { 0 };
            if let Some((from, to)) = first_touched(&entries[skip..]) {
                let base = page * PAGE + skip as u64;
                return Ok(Some((base + from, base + to)));
            }
        }
        Ok(None)
    }
}

/// The first stretch of entries that are not zero: its start and its end.
pub fn first_touched(entries: &[u64]) -> Option<(u64, u64)> {
    let from = entries.iter().position(|entry| *entry != 0)?;
    let length = entries[from..].iter().position(|entry| *entry == 0);
    let to = length.map_or(entries.len(), |length| from + length);
    Some((from as u64, to as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_read_and_found_across_pages() {
        let mut table = MemoryTable::default();
        table.set(500, 600, 7).unwrap();
        let mut entries = [9; 602];
        table.get(499, &mut entries).unwrap();
        assert_eq!((entries[0], entries[1], entries[600], entries[601]), (0, 7, 7, 0));
        assert_eq!(table.touched_from(0).unwrap(), Some((500, 512)));
        assert_eq!(table.touched_from(512).unwrap(), Some((512, 1024)));
        assert_eq!(table.touched_from(1050).unwrap(), Some((1050, 1100)));
        assert_eq!(table.touched_from(1100).unwrap(), None);
    }
}
