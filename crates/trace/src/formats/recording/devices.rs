//! The assignment of events to the recorded devices.
//!
//! The kernel's events carry the number of the disk and its sectors, whatever partition a request
//! was sent to. A recording of a partition should have only its requests, with offsets from its
//! beginning.

use rustc_hash::FxHashMap;

use crate::recording::{Description, Device};

/// Bytes of a sector, as the kernel counts.
const SECTOR: u64 = 512;

/// The treatment of a device's events.
#[derive(Clone, Debug, Default)]
struct Rule {
    /// Whether the end of a bio is the completion: there are no requests.
    bio_based: bool,
    /// Number, first sector and the sector behind the last of recorded partitions, where the disk
    /// itself was not recorded.
    partitions: Vec<(u32, u64, u64)>,
}

/// The recorded devices by their number.
#[derive(Clone, Debug, Default)]
pub(super) struct Devices {
    rules: FxHashMap<u32, Rule>,
    /// Partitions of recorded disks: their events are the disk's.
    disks: FxHashMap<u32, u32>,
}

/// The device and the place to which an event belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) device: u32,
    pub(super) sector: u64,
    pub(super) bio_based: bool,
}

impl Devices {
    pub(super) fn of(description: &Description) -> Self {
        let mut devices = Self::default();
        let recorded =
            |number: u32| description.devices.iter().find(|device| device.number == number);
        for device in &description.devices {
            match device.partition_of {
                None => {
                    devices.rules.entry(device.number).or_default().bio_based = device.bio_based;
                }
                Some(disk) if recorded(disk).is_some() => {
                    devices.disks.insert(device.number, disk);
                }
                Some(disk) => {
                    let rule = devices.rules.entry(disk).or_default();
                    rule.bio_based |= device.bio_based;
                    rule.partitions.push(partition(device));
                    devices.disks.insert(device.number, disk);
                }
            }
        }
        devices
    }

    /// Whether both devices are recorded ones, rather than partitions and others.
    pub(super) fn are_recorded(&self, one: u32, other: u32) -> bool {
        self.rules.contains_key(&one) && self.rules.contains_key(&other)
    }

    /// The device and the place of an event on `device`; `None` if it lies in no recorded
    /// partition.
    #[inline]
    pub(super) fn place(&self, device: u32, sector: u64, has_range: bool) -> Option<Location> {
        let device = self.disks.get(&device).copied().unwrap_or(device);
        let Some(rule) = self.rules.get(&device) else {
            return Some(Location { device, sector, bio_based: false });
        };
        if rule.partitions.is_empty() {
            return Some(Location { device, sector, bio_based: rule.bio_based });
        }
        let mut partitions = rule.partitions.iter();
        let found = if has_range {
            partitions.find(|(_, begin, end)| (*begin..*end).contains(&sector))?
        } else {
            // A flush is one of the whole disk and lies nowhere.
            partitions.next()?
        };
        let sector = if has_range { sector - found.1 } else { 0 };
        Some(Location { device: found.0, sector, bio_based: rule.bio_based })
    }
}

/// Number, first sector and the sector behind the last.
fn partition(device: &Device) -> (u32, u64, u64) {
    let begin = device.partition_start.unwrap_or_default().0 / SECTOR;
    let end = device.size.map_or(u64::MAX, |size| begin.saturating_add(size.0 / SECTOR));
    (device.number, begin, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    fn devices(of: Vec<Device>) -> Devices {
        Devices::of(&Description { devices: of, ..Description::default() })
    }

    fn part(number: u32, begin: u64) -> Device {
        Device {
            number,
            partition_of: Some(80),
            partition_start: Some(Bytes(begin * SECTOR)),
            size: Some(Bytes(100 * SECTOR)),
            ..Device::default()
        }
    }

    #[test]
    fn of_a_partition_its_own_requests_are_taken_and_counted_from_its_beginning() {
        let devices = devices(vec![part(81, 1000), part(82, 2000)]);
        let place = |sector| devices.place(80, sector, true).map(|p| (p.device, p.sector));
        assert_eq!(place(1000), Some((81, 0)));
        assert_eq!(place(2099), Some((82, 99)));
        assert_eq!((place(999), place(1100), place(u64::MAX)), (None, None, None));
        let flush = devices.place(80, 0, false).unwrap();
        assert_eq!((flush.device, flush.sector), (81, 0));
    }

    #[test]
    fn of_a_disk_everything_is_taken_whatever_partition_it_was_sent_to() {
        let disk = Device { number: 80, bio_based: true, ..Device::default() };
        let devices = devices(vec![part(81, 1000), disk]);
        for device in [80, 81] {
            let expected = Location { device: 80, sector: 7, bio_based: true };
            assert_eq!(devices.place(device, 7, true), Some(expected));
        }
        assert_eq!(devices.place(9, 7, true).unwrap().device, 9);
    }
}
