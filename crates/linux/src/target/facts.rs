//! Facts of a target, as stored in the run.
//!
//! Two disks of one size can differ by all that matters: a write cache, a scheduler, a block size
//! that turns every small write into a read. A reader of the figures must be able to see it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ioecho_trace::Bytes;
use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

use super::storage::{Keeper, Storage};
use crate::mounts::{Mount, mounts};
use crate::sysfs::BlockNode;

/// What kind of thing a target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A disk, a partition or a virtual block device.
    BlockDevice,
    /// A regular file.
    File,
}

/// The facts of a target when it was opened. What the kernel does not tell is absent.
///
/// For a file, what is told about the queue (from `model` on) is that of the device below its file
/// system, where there is a single one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFacts {
    /// The path as it was given.
    pub path: PathBuf,
    /// The path without links.
    pub canonical: PathBuf,
    /// Device or file.
    pub kind: TargetKind,
    /// `MAJOR:MINOR` of the device, or of the file system that holds the file.
    pub device: String,
    /// How much can be addressed, in bytes: a device's size (`BLKGETSIZE64`), a file's length
    /// rounded down to whole blocks.
    pub capacity: Bytes,
    /// Offsets and lengths must be multiples of this many bytes (`BLKSSZGET`; for files see
    /// [`open`](crate::target::open())).
    pub logical_block: Bytes,
    /// What the device writes without reading first, in bytes (`BLKPBSZGET`); for a file that of
    /// the device below it, or else the file system's block (`st_blksize`).
    pub physical_block: Bytes,
    /// Whether the page cache is bypassed (`O_DIRECT`).
    pub direct: bool,
    /// Bytes that a file really occupies; less than its length where it has holes, which are read
    /// faster than any disk.
    pub allocated: Option<Bytes>,
    /// The type of the file system that holds a file.
    pub file_system: Option<String>,
    /// Where that file system is mounted.
    pub mount_point: Option<PathBuf>,
    /// The device's model.
    pub model: Option<String>,
    /// For a loop device: the file behind it.
    pub backing_file: Option<PathBuf>,
    /// The I/O scheduler in use (`queue/scheduler`).
    pub scheduler: Option<String>,
    /// Whether the device says that it has turning disks (`queue/rotational`).
    pub rotational: Option<bool>,
    /// Requests that its queue takes (`queue/nr_requests`).
    pub nr_requests: Option<u64>,
    /// Largest request that is not split, in KiB (`queue/max_sectors_kb`).
    pub max_sectors_kb: Option<u64>,
    /// `write back` or `write through` (`queue/write_cache`).
    pub write_cache: Option<String>,
    /// Largest discard in bytes, zero where it cannot discard (`queue/discard_max_bytes`).
    pub discard_max: Option<Bytes>,
    /// What it discards in, in bytes (`queue/discard_granularity`).
    pub discard_granularity: Option<Bytes>,
    /// Largest write-zeroes in bytes, zero where the kernel writes the zeroes itself
    /// (`queue/write_zeroes_max_bytes`).
    pub write_zeroes_max: Option<Bytes>,
    /// `none`, `host-aware` or `host-managed` (`queue/zoned`).
    pub zoned: Option<String>,
    /// The device or file itself, whatever its path.
    keeper: Keeper,
    /// Where its bytes really are.
    pub(super) storage: Storage,
}

/// The numbers that only the opened target can tell.
pub(super) struct Geometry {
    pub(super) capacity: u64,
    pub(super) logical_block: u64,
    pub(super) physical_block: u64,
    pub(super) direct: bool,
}

impl TargetFacts {
    pub(super) fn collect(
        path: &Path,
        canonical: PathBuf,
        data: &Metadata,
        kind: TargetKind,
        geometry: &Geometry,
    ) -> Self {
        let dev = if kind == TargetKind::BlockDevice { data.rdev() } else { data.dev() };
        let disk = BlockNode::of(dev).and_then(|node| node.disk());
        let text = |name: &str| disk.as_ref()?.attribute(name);
        let number = |name: &str| disk.as_ref()?.number(name);
        let mount = (kind == TargetKind::File).then(|| mount_of(&canonical, dev)).flatten();
        Self {
            path: path.to_owned(),
            kind,
            device: format!("{}:{}", major(dev), minor(dev)),
            capacity: Bytes(geometry.capacity),
            logical_block: Bytes(geometry.logical_block),
            physical_block: Bytes(geometry.physical_block),
            direct: geometry.direct,
            allocated: (kind == TargetKind::File).then(|| Bytes(data.blocks() * 512)),
            file_system: mount.as_ref().map(|mount| mount.kind.clone()),
            mount_point: mount.map(|mount| mount.point),
            model: text("device/model"),
            backing_file: text("loop/backing_file").map(PathBuf::from),
            scheduler: disk.as_ref().and_then(BlockNode::scheduler),
            rotational: number("queue/rotational").map(|flag| flag != 0),
            nr_requests: number("queue/nr_requests"),
            max_sectors_kb: number("queue/max_sectors_kb"),
            write_cache: text("queue/write_cache"),
            discard_max: number("queue/discard_max_bytes").map(Bytes),
            discard_granularity: number("queue/discard_granularity").map(Bytes),
            write_zeroes_max: number("queue/write_zeroes_max_bytes").map(Bytes),
            zoned: text("queue/zoned"),
            keeper: Keeper::of(data),
            storage: Storage::of(data),
            canonical,
        }
    }

    /// Whether both are one device or file with the same bytes behind it: what was opened first and
    /// what its path led to later.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.keeper == other.keeper && self.storage.is_same_as(&other.storage)
    }

    /// Whether both targets have bytes in common, by whatever names they were opened: two links to
    /// one file, two loop devices on it, a disk and its partition.
    pub fn shares_bytes_with(&self, other: &Self) -> bool {
        self.storage.overlaps(&other.storage)
    }
}

/// File systems whose files have device numbers that are not their mount's: those of subvolumes,
/// or of the layers below.
const OWN_NUMBERS: [&str; 3] = ["btrfs", "bcachefs", "overlay"];

/// The mount that holds a file.
pub(super) fn mount_of(file: &Path, dev: u64) -> Option<Mount> {
    holder(mounts(), file, dev)
}

/// Among the mounts of a file's device the innermost one that is above it, and the last of several
/// at one place, which hides the others.
fn holder(mounts: Vec<Mount>, file: &Path, dev: u64) -> Option<Mount> {
    let is_of = |mount: &Mount| mount.dev == dev || OWN_NUMBERS.contains(&mount.kind.as_str());
    let above = mounts.into_iter().filter(|mount| file.starts_with(&mount.point));
    above.filter(is_of).max_by_key(|mount| mount.point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_held_by_the_innermost_mount_of_its_device_and_btrfs_has_numbers_of_its_own() {
        let mount = |point: &str, kind: &str, dev| Mount {
            dev,
            point: PathBuf::from(point),
            kind: kind.to_owned(),
            source: PathBuf::from("none"),
            options: String::new(),
        };
        let mounts = || {
            let pool = mount("/pool", "btrfs", 39);
            vec![mount("/", "ext4", 8), pool, mount("/pool/a", "xfs", 9)]
        };
        let of = |file, dev| Some(holder(mounts(), Path::new(file), dev)?.kind);
        assert_eq!(of("/x", 8).as_deref(), Some("ext4"));
        assert_eq!(of("/pool/x", 40).as_deref(), Some("btrfs"));
        assert_eq!(of("/pool/a/x", 9).as_deref(), Some("xfs"));
        assert_eq!(of("/x", 77), None);
    }
}
