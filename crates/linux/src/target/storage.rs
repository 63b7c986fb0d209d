//! Where the bytes of a target really are.
//!
//! Two loop devices on one file are one storage under two names, and so are two links to a file, or
//! a disk and its partition. If only names were compared, a file system mounted through one of them
//! could be overwritten through another. So every device is followed down to the keeper of its
//! bytes, a file by its inode or a disk by its number, and to its part of that keeper.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, Mode, OFlags};

use super::ioctl;
use crate::sysfs::{self, BlockNode, loop_devices, parse_dev};

/// The kernel lets loop devices stand on each other; beyond so many they are not followed.
pub(crate) const DEPTH_MAX: u32 = 16;

/// `start` and `size` of a partition in sysfs are in these, whatever the disk's blocks are.
const SECTOR: u64 = 512;

/// What keeps bytes, whatever names lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// A regular file.
    File {
        /// The number of its file system.
        dev: Dev,
        /// Its number there.
        inode: u64,
    },
    /// A block device.
    Device(Dev),
    /// What a loop device stands on where that cannot be reached: the path that the kernel has.
    Unreachable(PathBuf),
}

impl Keeper {
    /// What a path with this status leads to.
    pub(crate) fn of(data: &Metadata) -> Self {
        if data.file_type().is_block_device() {
            Self::Device(data.rdev())
        } else {
            Self::File { dev: data.dev(), inode: data.ino() }
        }
    }

    fn at(path: &Path) -> Self {
        fs::metadata(path)
            .map_or_else(|_| Self::Unreachable(path.to_owned()), |data| Self::of(&data))
    }
}

/// A loop device in use.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    /// The device.
    pub(crate) node: BlockNode,
    /// What it stands on.
    pub(crate) keeper: Keeper,
    /// The path of that, as the kernel has it now.
    path: PathBuf,
    /// Which part of it the device has, in bytes.
    part: Range<u64>,
}

impl Loop {
    /// The loop device that `disk` is, if it is one and has a file.
    pub(crate) fn of(disk: &BlockNode) -> Option<Self> {
        let path = PathBuf::from(disk.attribute("loop/backing_file")?);
        let offset = disk.number("loop/offset").unwrap_or(0);
        let part = part_of_loop(offset, disk.number("loop/sizelimit").unwrap_or(0));
        let told = Path::new("/dev").join(&disk.name);
        let told = loop_status(&told).filter(|(dev, _)| *dev == disk.dev);
        let keeper = told.map_or_else(|| Keeper::at(&path), |(_, status)| keeper_of_loop(&status));
        Some(Self { node: disk.clone(), keeper, path, part })
    }

    /// What the loop device with this name below `/dev` says of itself, where sysfs is not there.
    fn by_itself(name: String) -> Option<Self> {
        let (dev, status) = loop_status(&Path::new("/dev").join(&name))?;
        let path = status.path.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Self {
            node: BlockNode::without_sysfs(dev, name),
            keeper: keeper_of_loop(&status),
            path: PathBuf::from(OsStr::from_bytes(path)),
            part: part_of_loop(status.offset, status.size_limit),
        })
    }
}

fn part_of_loop(offset: u64, size_limit: u64) -> Range<u64> {
    offset..if size_limit == 0 { u64::MAX } else { offset.saturating_add(size_limit) }
}

/// All loop devices in use. Without sysfs, those that have their node below `/dev`.
pub(crate) fn loops() -> Vec<Loop> {
    if !sysfs::is_there() {
        let names = fs::read_dir("/dev").into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        return names.filter(|name| name.starts_with("loop")).filter_map(Loop::by_itself).collect();
    }
    loop_devices()
        .into_iter()
        .filter_map(|(name, _)| {
            let number = fs::read_to_string(format!("/sys/block/{name}/dev")).ok()?;
            Loop::of(&BlockNode::of(parse_dev(number.trim())?)?)
        })
        .collect()
}

/// The number of a loop device, and what it says of itself: the path in sysfs may lead to another
/// file, or to none, where the file was removed or lies in another mount namespace.
fn loop_status(path: &Path) -> Option<(Dev, ioctl::LoopStatus)> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let data = file.metadata().ok().filter(|data| data.file_type().is_block_device())?;
    Some((data.rdev(), ioctl::loop_status(&file).ok()?))
}

fn keeper_of_loop(status: &ioctl::LoopStatus) -> Keeper {
    match status.rdevice {
        0 => Keeper::File { dev: status.device, inode: status.inode },
        device => Keeper::Device(device),
    }
}

/// A part of what keeps bytes in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Storage {
    /// A file, or a disk that is no loop device.
    pub(crate) keeper: Keeper,
    /// In bytes; up to [`u64::MAX`] where it has no end of its own.
    range: Range<u64>,
    /// The path of the keeper, where loop devices lead to it.
    pub(crate) below: Option<PathBuf>,
}

impl Storage {
    /// That of a file or device with this status.
    pub(crate) fn of(data: &Metadata) -> Self {
        match Keeper::of(data) {
            Keeper::Device(dev) => Self::of_device(dev, DEPTH_MAX),
            file => Self::all_of(file),
        }
    }

    fn all_of(keeper: Keeper) -> Self {
        Self { keeper, range: 0..u64::MAX, below: None }
    }

    pub(crate) fn of_device(dev: Dev, depth: u32) -> Self {
        let node = BlockNode::of(dev);
        let Some(disk) = node.as_ref().and_then(BlockNode::disk) else {
            let by_itself = |one: &Loop| one.node.dev == dev && depth > 0;
            return match loops().into_iter().find(by_itself) {
                Some(one) => Self::of_loop(one, &(0..u64::MAX), depth),
                None => Self::all_of(Keeper::Device(dev)),
            };
        };
        let part = node.filter(|node| node.dev != disk.dev).map_or(0..u64::MAX, |partition| {
            let bytes = |name: &str| Some(partition.number(name)?.saturating_mul(SECTOR));
            let start = bytes("start").unwrap_or(0);
            start..bytes("size").map_or(u64::MAX, |size| start.saturating_add(size))
        });
        match Loop::of(&disk).filter(|_| depth > 0) {
            Some(one) => Self::of_loop(one, &part, depth),
            None => Self { range: part, ..Self::all_of(Keeper::Device(disk.dev)) },
        }
    }

    /// That of a part of a loop device.
    fn of_loop(one: Loop, part: &Range<u64>, depth: u32) -> Self {
        let below = match one.keeper {
            Keeper::Device(dev) => Self::of_device(dev, depth - 1),
            file => Self::all_of(file),
        };
        Self {
            keeper: below.keeper,
            range: within(&within(&below.range, &one.part), part),
            below: below.below.or(Some(one.path)),
        }
    }

    /// Whether both are the same bytes.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
        self.keeper == other.keeper && self.range == other.range
    }

    /// Whether both have bytes in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.keeper == other.keeper
            && self.range.start.max(other.range.start) < self.range.end.min(other.range.end)
    }

    /// Whether it is all that the keeper has.
    pub(crate) fn is_whole(&self) -> bool {
        self.range == (0..u64::MAX)
    }

    /// The loop devices, their partitions and what lies below them that have bytes in common with
    /// this.
    pub(crate) fn devices(&self) -> Vec<BlockNode> {
        let bottom = match self.keeper {
            Keeper::Device(dev) => BlockNode::of(dev),
            Keeper::File { .. } | Keeper::Unreachable(_) => None,
        };
        let disks = loops().into_iter().map(|one| one.node).chain(bottom);
        disks
            .flat_map(|disk| {
                let partitions = disk.partitions();
                std::iter::once(disk).chain(partitions)
            })
            .filter(|node| Self::of_device(node.dev, DEPTH_MAX).overlaps(self))
            .collect()
    }
}

/// A part of a part.
fn within(outer: &Range<u64>, inner: &Range<u64>) -> Range<u64> {
    let from = |at: u64| outer.start.saturating_add(at);
    from(inner.start)..from(inner.end).min(outer.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(inode: u64, range: Range<u64>) -> Storage {
        Storage { keeper: Keeper::File { dev: 1, inode }, range, below: None }
    }

    #[test]
    fn storages_overlap_where_bytes_of_one_file_do() {
        let first = storage(7, 0..4096);
        assert!(first.overlaps(&first));
        assert!(first.overlaps(&storage(7, 4095..u64::MAX)));
        assert!(!first.overlaps(&storage(7, 4096..8192)), "next to each other");
        assert!(!first.overlaps(&storage(8, 0..4096)), "another file");
        assert!(!first.overlaps(&storage(7, 100..100)), "nothing");
        assert!(!first.is_whole() && storage(7, 0..u64::MAX).is_whole());
    }

    #[test]
    fn a_part_of_a_part_stays_within_both() {
        assert_eq!(within(&(1000..2000), &(100..200)), 1100..1200);
        assert_eq!(within(&(1000..2000), &(900..u64::MAX)), 1900..2000);
        assert_eq!(within(&(5..u64::MAX), &(0..u64::MAX)), 5..u64::MAX);
    }

    #[test]
    fn two_links_to_a_file_are_one_storage() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        fs::write(&one, "x").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let of = |path: &Path| Storage::of(&fs::metadata(path).unwrap());
        assert!(of(&one).overlaps(&of(&other)));
        fs::copy(&one, directory.path().join("copy")).unwrap();
        assert!(!of(&one).overlaps(&of(&directory.path().join("copy"))));
    }

    #[test]
    fn what_is_gone_is_known_by_its_path() {
        let gone = Path::new("/nowhere/image (deleted)");
        assert_eq!(Keeper::at(gone), Keeper::Unreachable(gone.to_owned()));
    }
}
