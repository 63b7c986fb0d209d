//! Users of a target's bytes under another name.
//!
//! Suppose that a file system is mounted through one loop device, and a second loop device has the
//! same file: the second is not mounted, held or claimed, but writing to it destroys the file
//! system. So for a loop device everything that leads to the same bytes is checked: the other loop
//! devices, the layers below them, and the file itself.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::hazard::Hazard;
use super::unknown::Unknown;
use super::users::{self, Involved, is_claimed, who_writes};
use super::writers::Opened;
use crate::mounts::swaps;
use crate::target::{Keeper, Storage, loops};

/// Users of the bytes of the block device with this status through other devices than those already
/// checked. None if no loop device is involved.
pub(super) fn users(data: &Metadata, seen: &[Involved]) -> Vec<Hazard> {
    let storage = Storage::of(data);
    let Some(below) = &storage.below else { return Vec::new() };
    let mut claimable = Vec::new();
    let mut others = Vec::new();
    for node in storage.devices() {
        if seen.iter().any(|device| device.dev == node.dev) {
            continue;
        }
        // A disk is busy as long as any of its partitions is: only those that overlap count.
        if node.partitions().is_empty() {
            claimable.push(Path::new("/dev").join(&node.name));
        }
        others.push(Involved::new(node));
    }

    let mut hazards = users::users(&others);
    let file = match storage.keeper {
        Keeper::File { dev, inode } => {
            let is_it = |area: Metadata| Keeper::of(&area) == storage.keeper;
            let areas = swaps().into_iter().filter(|area| fs::metadata(area).is_ok_and(is_it));
            hazards.extend(areas.map(|area| Hazard::Swap { area }));
            Some((below.as_path(), Opened::File { dev, inode }))
        }
        Keeper::Device(_) | Keeper::Unreachable(_) => None,
    };
    // Invisible users were already reported for the target itself.
    let (by, _) = who_writes(&others, data.rdev(), file);
    if !by.is_empty() || hazards.is_empty() && claimable.iter().any(|path| is_claimed(path)) {
        hazards.push(Hazard::InUse { by });
    }
    if !hazards.is_empty() {
        hazards.push(Hazard::Elsewhere { below: below.clone() });
    }
    // Where it is not known what a loop device stands on, it may be the same.
    hazards.extend(
        loops()
            .into_iter()
            .filter(|one| matches!(one.keeper, Keeper::Unreachable(_)))
            .filter(|one| !others.iter().any(|known| known.dev == one.node.dev))
            .map(|one| Unknown::BelowLoop { loop_device: one.node.name })
            .map(|unknown| Hazard::CannotTell { unknown }),
    );
    hazards
}
