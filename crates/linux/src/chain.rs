//! The devices below a device or a file.
//!
//! A recording that is written to the device that it records never ends: each write makes events,
//! which make writes. The connection may be indirect: the file may lie on a loop device over a file
//! on the recorded disk. And a recording of stacked devices has every request twice. So a path is
//! followed down through file systems, loop devices and volumes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major};

use crate::mounts::{Mount, device_number, mounts};
use crate::sysfs::BlockNode;
use crate::target::{Keeper, Loop};

/// More devices are not followed.
const DEVICES_MAX: usize = 256;

/// File systems over several disks, whose files do not show which disk they are on.
const HIDING: [&str; 3] = ["btrfs", "bcachefs", "zfs"];

/// Follows paths and devices down, all by the mounts of one moment.
pub(crate) struct Chains {
    mounts: Vec<Mount>,
}

impl Chains {
    pub(crate) fn new() -> Self {
        Self { mounts: mounts() }
    }

    /// The device itself and all that it stands on; of a partition its disk too.
    pub(crate) fn of_device(&self, dev: Dev) -> Vec<BlockNode> {
        self.follow(vec![dev])
    }

    /// All devices that a file or directory stands on; none where its file system has none.
    pub(crate) fn of_path(&self, path: &Path) -> Vec<BlockNode> {
        let Ok(data) = fs::metadata(path) else { return Vec::new() };
        self.follow(self.of_file_system(data.dev(), Some(path)))
    }

    /// The file system of a file or directory, if it is on disks but none of them was found.
    pub(crate) fn unseen(&self, path: &Path) -> Option<&str> {
        let kind = mount_of(&self.mounts, path).map(|mount| mount.kind.as_str())?;
        (HIDING.contains(&kind) && self.of_path(path).is_empty()).then_some(kind)
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
                    Some(Keeper::File { dev, .. }) => {
                        let path = node.attribute("loop/backing_file").map(PathBuf::from);
                        // Another file may have the name by now, or in this mount namespace.
                        let path = path
                            .filter(|path| fs::metadata(path).is_ok_and(|data| data.dev() == dev));
                        open.extend(self.of_file_system(dev, path.as_deref()));
                    }
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
        let mount = of_it().find(above).or_else(|| of_it().next());
        // Files of a btrfs subvolume have a number of their own, which no mount has.
        let mount = mount.or_else(|| mount_of(&self.mounts, path?));
        let Some(mount) = mount else { return Vec::new() };
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
        // bcachefs names all of its devices.
        let sources = mount.source.to_str().filter(|_| mount.kind == "bcachefs");
        if let Some(sources) = sources {
            return sources.split(':').filter_map(|one| device_number(Path::new(one))).collect();
        }
        let Some(dev) = device_number(&mount.source) else { return Vec::new() };
        if mount.kind == "btrfs" { of_btrfs(dev) } else { vec![dev] }
    }
}

/// The mount that a path lies in: the deepest above it, and of several in one place the last.
fn mount_of<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let path = fs::canonicalize(path).ok()?;
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count())
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
    fn a_path_lies_in_the_deepest_mount_above_it() {
        let mount = |point: &str, kind: &str| Mount {
            dev: rustix::fs::makedev(0, 44),
            point: PathBuf::from(point),
            kind: kind.to_owned(),
            source: PathBuf::from("none"),
            options: String::new(),
        };
        let mounts = [
            mount("/", "ext4"),
            mount("/proc", "btrfs"),
            mount("/proc", "zfs"),
            mount("/pro", "x"),
        ];
        let kind = |path| Some(mount_of(&mounts, Path::new(path))?.kind.as_str());
        assert_eq!(kind("/proc/self"), Some("zfs"), "the upper one of two");
        assert_eq!(kind("/"), Some("ext4"));
        assert_eq!(kind("/nowhere/at/all"), None);
    }

    #[test]
    fn what_is_in_memory_stands_on_no_device() {
        let chains = Chains::new();
        assert_eq!(chains.of_path(Path::new("/proc/self")), []);
        assert_eq!(chains.of_path(Path::new("/nowhere/at/all")), []);
        assert_eq!(chains.of_device(rustix::fs::makedev(0, 1)), []);
    }
}
