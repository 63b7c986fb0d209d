//! What a device or a file stands on, device by device.
//!
//! A recording that is written to the device that it records never ends: each write makes events,
//! which make writes. The device need not be named alike: the file may lie on a loop device on a
//! file on the recorded disk. And of devices that stand on each other a recording has every request
//! twice. So a path is followed down through file systems, loop devices and volumes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major};

use crate::mounts::{Mount, device_number, mounts};
use crate::sysfs::BlockNode;
use crate::target::{Keeper, Loop};

/// More devices are not followed.
const DEVICES_MAX: usize = 256;

/// Follows paths and devices down, all by the mounts of one moment.
pub(super) struct Chains {
    mounts: Vec<Mount>,
}

impl Chains {
    pub(super) fn new() -> Self {
        Self { mounts: mounts() }
    }

    /// The device itself and all that it stands on; of a partition its disk too.
    pub(super) fn of_device(&self, dev: Dev) -> Vec<BlockNode> {
        self.follow(vec![dev])
    }

    /// All devices that a file or directory stands on; none where its file system has none.
    pub(super) fn of_path(&self, path: &Path) -> Vec<BlockNode> {
        let Ok(data) = fs::metadata(path) else { return Vec::new() };
        self.follow(self.of_file_system(data.dev(), Some(path)))
    }

    fn follow(&self, mut open: Vec<Dev>) -> Vec<BlockNode> {
        let mut found: Vec<BlockNode> = Vec::new();
        while let Some(dev) = open.pop().filter(|_| found.len() < DEVICES_MAX) {
            if found.iter().any(|node| node.dev == dev) {
                continue;
            }
            let Some(node) = BlockNode::of(dev) else { continue };
            match node.disk().filter(|disk| disk.dev != dev) {
                Some(disk) => open.push(disk.dev),
                None => match Loop::of(&node).map(|one| one.keeper) {
                    Some(Keeper::Device(dev)) => open.push(dev),
                    Some(Keeper::File { dev, .. }) => open.extend(self.of_file_system(dev, None)),
                    Some(Keeper::Unreachable(_)) => {}
                    None => open.extend(node.slaves().iter().map(|slave| slave.dev)),
                },
            }
            found.push(node);
        }
        found
    }

    /// The devices of the file system with this number.
    fn of_file_system(&self, dev: Dev, path: Option<&Path>) -> Vec<Dev> {
        if major(dev) != 0 && BlockNode::of(dev).is_some() {
            return vec![dev];
        }
        // Of btrfs, overlays and others the number is not that of a device.
        let of_it = || self.mounts.iter().filter(|mount| mount.dev == dev);
        let above = |mount: &&Mount| path.is_some_and(|path| path.starts_with(&mount.point));
        let Some(mount) = of_it().find(above).or_else(|| of_it().next()) else { return Vec::new() };
        if mount.kind == "overlay" {
            let mut options = mount.options.split(',');
            let upper = options.find_map(|option| option.strip_prefix("upperdir="));
            let upper = upper.and_then(|upper| Some((upper, fs::metadata(upper).ok()?.dev())));
            // An overlay on an overlay has another number; one on itself there is not.
            return match upper.filter(|(_, below)| *below != dev) {
                Some((upper, below)) => self.of_file_system(below, Some(Path::new(upper))),
                None => Vec::new(),
            };
        }
        let Some(dev) = device_number(&mount.source) else { return Vec::new() };
        if mount.kind == "btrfs" { of_btrfs(dev) } else { vec![dev] }
    }
}

/// All devices of the btrfs file system that this one belongs to.
fn of_btrfs(dev: Dev) -> Vec<Dev> {
    let name = BlockNode::of(dev).map(|node| node.name.replace('/', "!"));
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    for system in entries(PathBuf::from("/sys/fs/btrfs")) {
        let names: Vec<PathBuf> =
            entries(system.path().join("devices")).map(|entry| entry.path()).collect();
        if names
            .iter()
            .any(|path| path.file_name().and_then(|name| name.to_str()) == name.as_deref())
        {
            let number = |path: &PathBuf| {
                crate::sysfs::parse_dev(fs::read_to_string(path.join("dev")).ok()?.trim())
            };
            return names.iter().filter_map(number).collect();
        }
    }
    vec![dev]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_stands_on_no_device() {
        let chains = Chains::new();
        assert_eq!(chains.of_path(Path::new("/proc/self")), []);
        assert_eq!(chains.of_path(Path::new("/nowhere/at/all")), []);
        assert_eq!(chains.of_device(rustix::fs::makedev(0, 1)), []);
    }
}
