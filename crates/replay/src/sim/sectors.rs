//! The data of a simulated device.

use std::collections::HashMap;

use ioecho_trace::units::SECTOR;

use crate::pattern::{Stamp, expected_sector, read_stamp};

/// Bytes of a sector of a trace and of a [`SectorStore`].
pub const SECTOR_BYTES: usize = SECTOR as usize;

/// One sector's bytes.
pub(super) type Sector = [u8; SECTOR_BYTES];

/// Sectors of 512 bytes by their number. Those that nobody wrote read as zeroes and take no room.
#[derive(Clone, Debug, Default)]
pub struct SectorStore {
    written: HashMap<u64, Box<Sector>>,
    /// Sectors of which their stamp tells all, a tenth of their size; `None` if none are kept so.
    stamped: Option<HashMap<u64, Stamp>>,
}

impl SectorStore {
    /// Keeps of what a load wrote the stamps alone, and makes its sectors anew when they are read:
    /// that takes a tenth of the memory, and more time.
    pub(super) fn by_stamps() -> Self {
        Self { written: HashMap::new(), stamped: Some(HashMap::new()) }
    }

    /// What a sector holds.
    pub fn get(&self, sector: u64) -> [u8; SECTOR_BYTES] {
        let by_stamp = || Some(expected_sector(self.stamped.as_ref()?.get(&sector)?));
        let bytes = self.written.get(&sector).map(|bytes| **bytes);
        bytes.or_else(by_stamp).unwrap_or([0; SECTOR_BYTES])
    }

    /// What a sector holds, if somebody wrote it.
    pub(super) fn copied(&self, sector: u64) -> Option<Box<Sector>> {
        let is_stamped = || self.stamped.as_ref().is_some_and(|it| it.contains_key(&sector));
        let is_written = self.written.contains_key(&sector) || is_stamped();
        is_written.then(|| Box::new(self.get(sector)))
    }

    /// What a sector holds, to damage it.
    pub fn get_mut(&mut self, sector: u64) -> &mut [u8; SECTOR_BYTES] {
        let stamp = self.stamped.as_mut().and_then(|stamped| stamped.remove(&sector));
        let made = || Box::new(stamp.map_or([0; SECTOR_BYTES], |stamp| expected_sector(&stamp)));
        self.written.entry(sector).or_insert_with(made)
    }

    /// Puts bytes into a sector and answers what was there, if somebody had written it.
    pub(super) fn put(&mut self, sector: u64, bytes: &[u8]) -> Option<Box<Sector>> {
        let before = self.take(sector);
        let stamp = self.stamped.as_ref().and_then(|_| read_stamp(bytes));
        match (&mut self.stamped, stamp.filter(|stamp| expected_sector(stamp) == *bytes)) {
            (Some(stamped), Some(stamp)) => {
                stamped.insert(sector, stamp);
            }
            _ => self.get_mut(sector).copy_from_slice(bytes),
        }
        before
    }

    /// Makes a sector one that nobody wrote; answers what was there.
    pub(super) fn take(&mut self, sector: u64) -> Option<Box<Sector>> {
        let stamp = self.stamped.as_mut().and_then(|stamped| stamped.remove(&sector));
        let by_stamp = stamp.map(|stamp| Box::new(expected_sector(&stamp)));
        self.written.remove(&sector).or(by_stamp)
    }

    /// Puts a sector back as it was.
    pub(super) fn restore(&mut self, sector: u64, before: Option<Box<Sector>>) {
        match before {
            Some(bytes) => self.put(sector, &bytes[..]),
            None => self.take(sector),
        };
    }

    /// Exchanges what two sectors hold.
    pub fn swap(&mut self, first: u64, second: u64) {
        let before = self.take(first);
        let other = self.take(second);
        self.restore(first, other);
        self.restore(second, before);
    }

    /// The sectors that somebody wrote, in order.
    pub fn written(&self) -> Vec<u64> {
        let by_stamp = self.stamped.iter().flat_map(HashMap::keys);
        let mut sectors: Vec<u64> = self.written.keys().chain(by_stamp).copied().collect();
        sectors.sort_unstable();
        sectors
    }
}
