//! A block device in sysfs.
//!
//! A device has many names (links below `/dev/disk`, nodes made by hand), so everything here begins
//! with its number: `/sys/dev/block/MAJOR:MINOR` leads to the one directory of the device.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, major, makedev, minor};

/// A disk or a partition in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockNode {
    /// The device's number.
    pub(crate) dev: Dev,
    /// Its name below `/dev`.
    pub(crate) name: String,
    directory: PathBuf,
}

impl BlockNode {
    /// The device with this number; `None` where it is not a block device (a file system without
    /// one has such numbers too) or where sysfs is not mounted.
    pub(crate) fn of(dev: Dev) -> Option<Self> {
        let link = format!("/sys/dev/block/{}:{}", major(dev), minor(dev));
        Self::at(&fs::canonicalize(link).ok()?)
    }

    fn at(directory: &Path) -> Option<Self> {
        let dev = parse_dev(fs::read_to_string(directory.join("dev")).ok()?.trim())?;
        // The kernel writes '/' in a device's name as '!' (drivers/base/core.c).
        let name = directory.file_name()?.to_str()?.replace('!', "/");
        Some(Self { dev, name, directory: directory.to_owned() })
    }

    /// A device of which no more is known, for sysfs is not there.
    pub(crate) fn without_sysfs(dev: Dev, name: String) -> Self {
        let directory = PathBuf::from(format!("/sys/dev/block/{}:{}", major(dev), minor(dev)));
        Self { dev, name, directory }
    }

    /// Whether the kernel still has a device of this number and name. Needs no descriptor; if
    /// unknown, `true`.
    pub(crate) fn is_there(&self) -> bool {
        let link = format!("/sys/dev/block/{}:{}", major(self.dev), minor(self.dev));
        match fs::read_link(link) {
            Ok(to) => to.file_name() == self.directory.file_name(),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }

    fn is_partition(&self) -> bool {
        self.directory.join("partition").exists()
    }

    /// The disk that this partition is a part of; the device itself where it is none.
    pub(crate) fn disk(&self) -> Option<Self> {
        if self.is_partition() { Self::at(self.directory.parent()?) } else { Some(self.clone()) }
    }

    /// The partitions of this disk that the kernel knows; none for a partition.
    pub(crate) fn partitions(&self) -> Vec<Self> {
        let mut partitions: Vec<Self> = names(&self.directory)
            .iter()
            .filter_map(|name| Self::at(&self.directory.join(name)))
            .filter(Self::is_partition)
            .collect();
        partitions.sort_by_key(|partition| minor(partition.dev));
        partitions
    }

    /// The devices built on this one: device mapper, MD, bcache.
    pub(crate) fn holders(&self) -> Vec<String> {
        names(&self.directory.join("holders"))
    }

    /// The devices that this one is built on: device mapper, MD, bcache.
    pub(crate) fn slaves(&self) -> Vec<Self> {
        let below = self.directory.join("slaves");
        let links = names(&below).into_iter().filter_map(|name| {
            // Links into the directories of the devices themselves.
            fs::canonicalize(below.join(name)).ok()
        });
        links.filter_map(|directory| Self::at(&directory)).collect()
    }

    /// What a directory of the device holds, sorted.
    pub(crate) fn entries(&self, name: &str) -> Vec<String> {
        names(&self.directory.join(name))
    }

    /// An attribute of the device itself, such as `device/model` or `ro`.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.directory.join(name)).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The I/O scheduler that this disk uses.
    pub(crate) fn scheduler(&self) -> Option<String> {
        self.attribute("queue/scheduler").map(|line| chosen(&line))
    }

    /// A numeric attribute of the device itself.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.attribute(name)?.parse().ok()
    }
}

/// Whether sysfs shows the block devices of this host.
pub(crate) fn is_there() -> bool {
    Path::new("/sys/dev/block").is_dir()
}

/// The scheduler in brackets: `none [mq-deadline] kyber`.
fn chosen(line: &str) -> String {
    let inside = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(line, |(name, _)| name).to_owned()
}

/// The backing files of the loop devices in use: the device's name, and the path that it had when
/// it was set up.
pub(crate) fn loop_devices() -> Vec<(String, PathBuf)> {
    names(Path::new("/sys/block"))
        .into_iter()
        .filter(|name| name.starts_with("loop"))
        .filter_map(|name| {
            let file = format!("/sys/block/{name}/loop/backing_file");
            let text = fs::read_to_string(file).ok()?;
            Some((name, PathBuf::from(text.trim_end_matches('\n'))))
        })
        .collect()
}

/// `8:1` as a device number.
pub(crate) fn parse_dev(text: &str) -> Option<Dev> {
    let (major, minor) = text.split_once(':')?;
    Some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// What a directory holds, sorted; nothing where it cannot be read.
fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_use_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!((chosen("none").as_str(), chosen("").as_str()), ("none", ""));
    }

    #[test]
    fn device_numbers_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_dev("259:3"), Some(makedev(259, 3)));
        assert_eq!(parse_dev("259"), None);
        assert_eq!(parse_dev("a:b"), None);
    }

    #[test]
    fn a_number_without_a_block_device_answers_nothing() {
        assert_eq!(BlockNode::of(makedev(0, 1)), None);
    }

    #[test]
    fn partitions_and_their_disk_find_each_other() {
        let sysfs = tempfile::tempdir().unwrap();
        let disk = sysfs.path().join("sda");
        for (directory, dev) in [("", "8:0"), ("sda1", "8:1"), ("sda2", "8:2")] {
            fs::create_dir_all(disk.join(directory).join("holders")).unwrap();
            fs::write(disk.join(directory).join("dev"), format!("{dev}\n")).unwrap();
        }
        for partition in ["sda1", "sda2"] {
            fs::write(disk.join(partition).join("partition"), "1\n").unwrap();
        }
        fs::create_dir(disk.join("sda2/holders/dm-0")).unwrap();

        let disk = BlockNode::at(&disk).unwrap();
        let partitions = disk.partitions();
        assert_eq!(
            partitions.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["sda1", "sda2"]
        );
        assert_eq!(partitions[1].disk().as_ref(), Some(&disk));
        assert_eq!(partitions[1].holders(), ["dm-0"]);
        assert_eq!(disk.disk().as_ref(), Some(&disk));
        assert_eq!(partitions[0].partitions(), []);
    }
}
