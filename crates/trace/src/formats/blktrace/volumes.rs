//! The devices of a recording.
//!
//! Events name their device by the kernel's number. A trace numbers its volumes itself, in the
//! order in which requests to them appear.

use rustc_hash::FxHashMap;

use crate::header::Volume;
use crate::units::VolumeId;

/// The largest number of volumes; garbage must not fill the memory with them.
const VOLUMES_MAX: usize = 1 << 14;

/// The volumes by device number.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    numbers: FxHashMap<u32, u32>,
    last: Option<(u32, u32)>,
}

impl Volumes {
    /// The volume of a device that has one; `None` if no request went to the device.
    #[inline]
    pub(super) fn known(&self, device: u32) -> Option<u32> {
        match self.last {
            Some((last, volume)) if last == device => Some(volume),
            _ => self.numbers.get(&device).copied(),
        }
    }

    /// The volume of a device; a new one if the device has none, `None` if there are too many.
    #[inline]
    pub(super) fn number(&mut self, device: u32, volumes: &mut Vec<Volume>) -> Option<u32> {
        if let Some(volume) = self.known(device) {
            self.last = Some((device, volume));
            return Some(volume);
        }
        if volumes.len() >= VOLUMES_MAX {
            return None;
        }
        let volume = volumes.len() as u32;
        let (id, name) = (VolumeId(volume), device_name(device));
        volumes.push(Volume { id, name, size: None });
        self.numbers.insert(device, volume);
        self.last = Some((device, volume));
        Some(volume)
    }
}

/// Major and minor number: `dev_t` has 20 bits of minor number (`include/linux/kdev_t.h`).
pub(in crate::formats) fn device_name(device: u32) -> String {
    format!("{}:{}", device >> 20, device & 0xf_ffff)
}
