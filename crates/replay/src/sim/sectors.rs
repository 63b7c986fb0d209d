//! The data of a simulated device.

use std::collections::HashMap;

use ioecho_trace::units::SECTOR;

/// Bytes of a sector of a trace and of a [`SectorStore`].
pub const SECTOR_BYTES: usize = SECTOR as usize;

/// One sector's bytes.
pub(super) type Sector = [u8; SECTOR_BYTES];

/// Sectors of 512 bytes by their number. Those that nobody wrote read as zeroes and take no room.
#[derive(Clone, Debug, Default)]
pub struct SectorStore {
    written: HashMap<u64, Box<Sector>>,
}

impl SectorStore {
    /// What a sector holds.
    pub fn get(&self, sector: u64) -> &[u8; SECTOR_BYTES] {
        self.written.get(&sector).map_or(&[0; SECTOR_BYTES], |bytes| bytes)
    }

    /// What a sector holds, to damage it.
    pub fn get_mut(&mut self, sector: u64) -> &mut [u8; SECTOR_BYTES] {
        self.written.entry(sector).or_insert_with(|| Box::new([0; SECTOR_BYTES]))
    }

    /// Puts bytes into a sector and answers what was there, if somebody had written it.
    pub(super) fn put(&mut self, sector: u64, bytes: &[u8]) -> Option<Box<Sector>> {
        let before = self.written.get(&sector).cloned();
        self.get_mut(sector).copy_from_slice(bytes);
        before
    }

    /// Makes a sector one that nobody wrote; answers what was there.
    pub(super) fn take(&mut self, sector: u64) -> Option<Box<Sector>> {
        self.written.remove(&sector)
    }

    /// Puts a sector back as it was.
    pub(super) fn restore(&mut self, sector: u64, before: Option<Box<Sector>>) {
        match before {
            Some(bytes) => self.written.insert(sector, bytes),
            None => self.written.remove(&sector),
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
        let mut sectors: Vec<u64> = self.written.keys().copied().collect();
        sectors.sort_unstable();
        sectors
    }
}
