//! The recorded block devices, and which events belong to them.
//!
//! An event carries the kernel's number of a device, but not always of the device that was named.
//! Requests to a partition are queued under its own number (under its disk's before Linux 5.12) and
//! from there on go by the disk's number and the disk's sectors. And a device without a request
//! queue (device mapper, zram) has no requests at all, only the bios that make them elsewhere.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ioecho_trace::Bytes;
use ioecho_trace::recording::Device;
use rustix::fs::{Dev, major, minor};

use super::error::RecordError;
use crate::chain::Chains;
use crate::sysfs::BlockNode;
use crate::target::{TargetError, status};

/// `start` and `size` of a device in sysfs are in these, whatever its blocks are.
const SECTOR: u64 = 512;

/// A block device that is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    path: PathBuf,
    node: BlockNode,
    disk: BlockNode,
    bio_based: bool,
    /// Of a partition: its first sector and how many it has.
    part: Option<(u64, u64)>,
    sequence: Option<u64>,
}

impl Target {
    /// The device at `path`, by whatever name.
    pub fn at(path: &Path) -> Result<Self, RecordError> {
        let data = status(path).map_err(|error| match error {
            // What helps there, a file to replay on, is nothing to record.
            TargetError::Missing { path } => RecordError::Missing { path },
            other => other.into(),
        })?;
        if !data.file_type().is_block_device() {
            let kind = data.file_type();
            let kind = match (kind.is_file(), kind.is_dir(), kind.is_char_device()) {
                (true, ..) => "file",
                (_, true, _) => "directory",
                (.., true) => "character device",
                _ => "pipe or socket",
            };
            return Err(RecordError::NoBlockDevice { path: path.to_owned(), kind });
        }
        let found = BlockNode::of(data.rdev()).and_then(|node| Some((node.disk()?, node)));
        let Some((disk, node)) = found else {
            let source = std::io::Error::other("no driver has this device now");
            return Err(RecordError::system("find in sysfs", path, source));
        };
        if node.number("size") == Some(0) {
            return Err(TargetError::no_medium(path, data.rdev()).into());
        }
        let number = |name: &str| node.number(name).unwrap_or(0);
        let part = (disk.dev != node.dev).then(|| (number("start"), number("size")));
        // Only what has a request queue of its own has hardware queues (block/blk-mq-sysfs.c).
        let bio_based = disk.entries("mq").is_empty();
        let sequence = disk.number("diskseq");
        Ok(Self { path: path.to_owned(), node, disk, bio_based, part, sequence })
    }

    /// The path that it was named by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in the kernel, such as `sda2`.
    pub fn name(&self) -> &str {
        &self.node.name
    }

    /// Its size now, in bytes; zero where it has lost its medium.
    pub fn size(&self) -> Bytes {
        Bytes(self.node.number("size").unwrap_or(0).saturating_mul(SECTOR))
    }

    /// Whether it has no request queue of its own: then only bios are seen of it.
    pub const fn is_bio_based(&self) -> bool {
        self.bio_based
    }

    /// Whether requests to it pass an I/O scheduler, where they are inserted. With `none` and
    /// without a request queue most of them go to the driver at once, and no event says so.
    pub fn has_scheduler(&self) -> bool {
        !self.bio_based && self.disk.scheduler().is_some_and(|scheduler| scheduler != "none")
    }

    /// Whether it is a part of a disk, with that disk's name.
    pub fn disk_of_partition(&self) -> Option<&str> {
        self.part.map(|_| self.disk.name.as_str())
    }

    /// Its number.
    pub(super) const fn dev(&self) -> Dev {
        self.node.dev
    }

    /// The number of its disk, which is its own where it is a disk.
    pub(super) const fn disk_dev(&self) -> Dev {
        self.disk.dev
    }

    /// Of a partition: its first sector and how many it has.
    pub(super) const fn part(&self) -> Option<(u64, u64)> {
        self.part
    }

    /// The numbers that requests to it are queued under.
    pub(super) fn queued_under(&self) -> Vec<Dev> {
        let partitions = self.disk.partitions();
        let partitions = partitions.into_iter().filter(|_| self.part.is_none());
        std::iter::once(self.node.dev).chain(partitions.map(|node| node.dev)).collect()
    }

    /// Why it is no longer the device that it was, if it is not: it was taken away, or its number
    /// belongs to another medium now.
    pub(super) fn loss(&self) -> Option<String> {
        let name = self.name();
        match BlockNode::of(self.node.dev).filter(|node| node.name == self.node.name) {
            // If it cannot be asked, for lack of a free descriptor, it still counts as there.
            None if self.node.is_there() => return None,
            None => return Some(format!("{name} was removed")),
            Some(now) if now.number("size") == Some(0) => {
                return Some(format!("{name} lost its medium"));
            }
            Some(_) => {}
        }
        let disk = BlockNode::of(self.disk.dev)?;
        // The kernel counts up whenever a number gets another medium (Linux 5.15).
        let is_other = self.sequence.is_some() && disk.number("diskseq") != self.sequence;
        is_other.then(|| format!("{name} is another device now"))
    }

    /// Whether somebody traces it by the ioctls of blktrace (kernel/trace/blktrace.c,
    /// `sysfs_blk_trace_attr_show`).
    pub(super) fn is_traced_by_blktrace(&self) -> bool {
        self.node.number("trace/enable") == Some(1)
    }

    /// What a recording says of it; behind a disk come its partitions, under whose numbers requests
    /// to it may be queued.
    pub(super) fn describe(&self, chains: &Chains) -> Vec<Device> {
        let partitions = self.disk.partitions().into_iter().filter(|_| self.part.is_none());
        let nodes = std::iter::once(self.node.clone()).chain(partitions);
        nodes.map(|node| self.describe_node(&node, chains)).collect()
    }

    fn describe_node(&self, node: &BlockNode, chains: &Chains) -> Device {
        let attribute = |name: &str| self.disk.number(name).map(|bytes| bytes as u32);
        let sectors =
            |name: &str| node.number(name).map(|count| Bytes(count.saturating_mul(SECTOR)));
        let below = chains.of_device(node.dev).into_iter();
        let below = below.filter(|below| below.dev != node.dev).map(|below| below.name).collect();
        let is_part = node.dev != self.disk.dev;
        Device {
            name: node.name.clone(),
            number: kernel_number(node.dev),
            size: sectors("size").filter(|size| size.0 > 0),
            logical_block: attribute("queue/logical_block_size"),
            physical_block: attribute("queue/physical_block_size"),
            bio_based: self.bio_based,
            partition_of: is_part.then(|| kernel_number(self.disk.dev)),
            partition_start: sectors("start").filter(|_| is_part),
            above: above(node, chains),
            below,
        }
    }

    /// The others that it must not be recorded together with: itself, its disk and its partitions.
    fn shares_with(&self, other: &Self) -> bool {
        self.disk.dev == other.disk.dev
            && (self.node.dev == other.node.dev || self.part.is_none() || other.part.is_none())
    }
}

/// Refuses none, and two that are one.
pub(super) fn check(targets: &[Target]) -> Result<(), RecordError> {
    if targets.is_empty() {
        return Err(RecordError::NoDevice);
    }
    for (index, target) in targets.iter().enumerate() {
        if let Some(other) = targets[..index].iter().find(|other| other.shares_with(target)) {
            let (path, name) = (target.path.clone(), other.name().to_owned());
            return Err(RecordError::Twice { path, name });
        }
    }
    Ok(())
}

/// Refuses to record what the recording itself would be written to.
pub(super) fn check_place(targets: &[Target], directory: &Path) -> Result<(), RecordError> {
    let chain = Chains::new().of_path(directory);
    let names = |until: usize| -> Vec<&str> {
        chain.iter().take(until).map(|node| node.name.as_str()).collect()
    };
    for target in targets {
        if let Some(at) = chain.iter().position(|node| node.dev == target.dev()) {
            let through = match names(at).join(", ") {
                names if names.is_empty() => String::new(),
                names => format!(" (through {names})"),
            };
            return Err(RecordError::OnRecorded {
                directory: std::path::absolute(directory).unwrap_or_else(|_| directory.into()),
                device: target.name().to_owned(),
                through,
            });
        }
    }
    Ok(())
}

/// The disks that stand on a device, directly or through others.
fn above(node: &BlockNode, chains: &Chains) -> Vec<String> {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let disks = disks.filter_map(|entry| {
        let number = fs::read_to_string(entry.path().join("dev")).ok()?;
        BlockNode::of(crate::sysfs::parse_dev(number.trim())?)
    });
    let mut names: Vec<String> = disks
        .filter(|disk| disk.dev != node.dev)
        .filter(|disk| chains.of_device(disk.dev).iter().any(|below| below.dev == node.dev))
        .map(|disk| disk.name)
        .collect();
    names.sort();
    names
}

/// The number of a device as the kernel has it in events (`MKDEV`, `include/linux/kdev_t.h`).
pub(super) fn kernel_number(dev: Dev) -> u32 {
    major(dev) << 20 | minor(dev) & 0xf_ffff
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernel() {
        assert_eq!(kernel_number(makedev(8, 1)), 8 << 20 | 1);
        assert_eq!(kernel_number(makedev(259, 70_000)), (259 << 20) + 70_000);
    }

    #[test]
    fn what_is_no_block_device_is_refused_by_what_it_is() {
        let refused = |path: &str| Target::at(Path::new(path)).unwrap_err().to_string();
        assert!(refused("/dev/null").contains("is a character device"));
        assert!(!refused("/dev/null").contains("df"));
        assert!(refused("/proc").contains("is a directory"));
        assert!(refused("/proc/self/status").contains("is a file"));
        assert!(refused("/nowhere").contains("there is no such"));
        assert!(matches!(check(&[]), Err(RecordError::NoDevice)));
    }
}
