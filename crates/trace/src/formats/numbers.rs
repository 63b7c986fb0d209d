//! Numbers for volumes, for formats that call a volume by a number.
//!
//! Volumes become known while a trace is read, so a volume gets its number at its first request and
//! keeps it. A name that is a number stays; any other gets a free number, because two volumes under
//! one number would be one to a reader of the file.

use rustc_hash::{FxHashMap, FxHashSet};

use super::write::Lost;
use crate::header::{Header, Volume};
use crate::units::VolumeId;

/// The loss of a name.
pub(super) const RENAMED: &str = "names of volumes, which become numbers";

/// The number of volumes that are found by their place in a table.
const TABLE_MAX: usize = 1 << 16;

/// The numbers of the volumes seen so far.
#[derive(Debug)]
pub(super) struct Numbers {
    /// The largest number that the format can express; at least the largest [`VolumeId`].
    max: u64,
    /// The numbers of volumes with small ids.
    table: Vec<Option<u64>>,
    others: FxHashMap<VolumeId, u64>,
    taken: FxHashSet<u64>,
    /// The number of volumes of the header that were looked at.
    seen: usize,
}

impl Numbers {
    /// Numbers up to `max`, which is at least the largest 32-bit number.
    pub(super) fn up_to(max: u64) -> Self {
        Self {
            max: max.max(u64::from(u32::MAX)),
            table: Vec::new(),
            others: FxHashMap::default(),
            taken: FxHashSet::default(),
            seen: 0,
        }
    }

    /// The number of volume `id`. `header` is the trace's header, with the volumes known by now.
    #[inline]
    pub(super) fn of(&mut self, id: VolumeId, header: &Header, lost: &mut Lost) -> u64 {
        match self.table.get(id.0 as usize) {
            Some(Some(number)) => *number,
            _ => self.met(id, header, lost),
        }
    }

    #[cold]
    fn met(&mut self, id: VolumeId, header: &Header, lost: &mut Lost) -> u64 {
        if let Some(number) = self.others.get(&id) {
            return *number;
        }
        // First the volumes whose names are numbers, so that no other volume takes those.
        let new = header.volumes.get(self.seen..).unwrap_or_default();
        self.seen = header.volumes.len();
        for volume in new {
            if let Some(number) = self.own(volume).filter(|number| !self.taken.contains(number)) {
                self.settle(volume.id, number);
            }
        }
        for volume in new {
            if self.known(volume.id).is_some() {
                continue;
            }
            if !volume.name.is_empty() && volume.name != volume.id.0.to_string() {
                lost.detail(RENAMED);
            }
            let number = self.free(volume.id);
            self.settle(volume.id, number);
        }
        if let Some(number) = self.known(id) {
            return number;
        }
        let number = self.free(id);
        self.settle(id, number);
        number
    }

    fn known(&self, id: VolumeId) -> Option<u64> {
        let in_table = self.table.get(id.0 as usize).copied().flatten();
        in_table.or_else(|| self.others.get(&id).copied())
    }

    /// The volume's name as a number; `None` if it is not one.
    fn own(&self, volume: &Volume) -> Option<u64> {
        let number: u64 = volume.name.parse().ok()?;
        (number <= self.max && number.to_string() == volume.name).then_some(number)
    }

    /// A number that no volume has: the volume's id, or the next free one.
    fn free(&self, id: VolumeId) -> u64 {
        let from = u64::from(id.0);
        let behind = (from..=self.max).chain(0..from).find(|number| !self.taken.contains(number));
        // There are no more volumes than ids, and no fewer numbers.
        behind.unwrap_or(from)
    }

    fn settle(&mut self, id: VolumeId, number: u64) {
        self.taken.insert(number);
        let place = id.0 as usize;
        if place < TABLE_MAX {
            if self.table.len() <= place {
                self.table.resize(place + 1, None);
            }
            self.table[place] = Some(number);
        } else {
            self.others.insert(id, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(names: &[&str]) -> Header {
        let volume = |(id, name): (usize, &&str)| Volume {
            id: VolumeId(id as u32),
            name: (*name).to_owned(),
            size: None,
        };
        Header { volumes: names.iter().enumerate().map(volume).collect(), ..Header::default() }
    }

    #[test]
    fn names_that_are_numbers_stay_however_late_they_become_known() {
        let mut lost = Lost::default();
        let mut numbers = Numbers::up_to(u64::from(u32::MAX));
        assert_eq!(numbers.of(VolumeId(0), &header(&["419"]), &mut lost), 419);
        let all = header(&["419", "725", "0"]);
        assert_eq!(numbers.of(VolumeId(1), &all, &mut lost), 725);
        assert_eq!(numbers.of(VolumeId(2), &all, &mut lost), 0);
        assert!(lost.into_notes().is_empty());
    }

    #[test]
    fn no_two_volumes_get_one_number_and_names_that_are_lost_are_counted() {
        let mut lost = Lost::default();
        let mut numbers = Numbers::up_to(u64::from(u32::MAX));
        let names = ["sda", "1", "01", "1", "4294967296", "", "70000"];
        let all = header(&names);
        let mut given: Vec<_> = (0..names.len() as u32 + 2)
            .chain([70_000, u32::MAX])
            .map(|id| numbers.of(VolumeId(id), &all, &mut lost))
            .collect();
        assert_eq!(given[1], 1);
        assert_eq!(given, {
            let again = (0..names.len() as u32 + 2).chain([70_000, u32::MAX]);
            again.map(|id| numbers.of(VolumeId(id), &all, &mut lost)).collect::<Vec<_>>()
        });
        let count = given.len();
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), count);
        assert_eq!(lost.into_notes().count_of(RENAMED), 4);
    }

    #[test]
    fn a_number_that_was_given_away_is_not_given_to_the_volume_of_that_name() {
        let mut lost = Lost::default();
        let mut numbers = Numbers::up_to(u64::from(u32::MAX));
        assert_eq!(numbers.of(VolumeId(0), &header(&["sda"]), &mut lost), 0);
        assert_eq!(numbers.of(VolumeId(1), &header(&["sda", "0"]), &mut lost), 1);
        assert_eq!(lost.into_notes().count_of(RENAMED), 2);
    }
}
