//! Who uses a target.
//!
//! No single place knows it. Mounts are in mountinfo, but not those of other mount namespaces;
//! device mapper shows in sysfs, a swap file does not; and what claims a device exclusively without
//! showing anywhere (btrfs on its second device, a database) is found only by asking for the same;
//! and who writes without having claimed anything, only among the descriptors of all processes
//! (`writers`).

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, Mode, OFlags};
use rustix::io::Errno;

use super::hazard::Hazard;
use super::writers;
use crate::mounts::{device_number, mounts, swaps};
use crate::sysfs::{BlockNode, loop_devices};

/// Who uses the block device at `path`, and whether it has partitions.
pub(super) fn of_device(path: &Path, data: &Metadata) -> Vec<Hazard> {
    let node = BlockNode::of(data.rdev());
    let partitions = node.as_ref().map(BlockNode::partitions).unwrap_or_default();
    let server = node.as_ref().and_then(BlockNode::disk).and_then(|disk| disk.number("pid"));
    let involved = involved(path, data.rdev(), node, &partitions);
    let mut hazards = users(&involved);

    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    let claimed = rustix::fs::open(path, flags, Mode::empty()).err() == Some(Errno::BUSY);
    let by = writers(&involved, data.rdev(), server);
    if !by.is_empty() || claimed && hazards.is_empty() {
        hazards.push(Hazard::InUse { by });
    }
    if !partitions.is_empty() {
        let partitions = partitions.into_iter().map(|partition| partition.name).collect();
        hazards.push(Hazard::Partitioned { partitions });
    }
    hazards
}

/// Who uses a regular file.
pub(super) fn of_file(file: &File, data: &Metadata) -> Vec<Hazard> {
    let mut hazards = Vec::new();
    hazards.extend(
        swaps().into_iter().filter(|area| is_file(area, data)).map(|area| Hazard::Swap { area }),
    );
    hazards.extend(behind_loop(|backing| is_file(backing, data)));
    if hazards.is_empty() && is_open_for_writing(file) {
        hazards.push(Hazard::InUse { by: Vec::new() });
    }
    hazards
}

/// A device whose use is use of the target.
struct Involved {
    dev: Dev,
    name: String,
    holders: Vec<String>,
}

/// The target itself, its partitions, and the disk that it is a partition of; not that disk's other
/// partitions.
fn involved(
    path: &Path,
    dev: Dev,
    node: Option<BlockNode>,
    partitions: &[BlockNode],
) -> Vec<Involved> {
    let Some(node) = node else {
        let name = path.display().to_string();
        return vec![Involved { dev, name, holders: Vec::new() }];
    };
    let disk = node.disk().filter(|disk| disk.dev != node.dev);
    [Some(node), disk]
        .into_iter()
        .flatten()
        .chain(partitions.iter().cloned())
        .map(|node| Involved { dev: node.dev, holders: node.holders(), name: node.name })
        .collect()
}

fn users(involved: &[Involved]) -> Vec<Hazard> {
    let mounts = mounts();
    let swaps: Vec<(PathBuf, Option<Dev>)> =
        swaps().into_iter().map(|area| (area.clone(), device_number(&area))).collect();
    let mut hazards = Vec::new();
    for device in involved {
        hazards.extend(
            mounts.iter().filter(|mount| mount.is_of(device.dev)).map(|mount| Hazard::Mounted {
                device: device.name.clone(),
                at: mount.point.clone(),
            }),
        );
        hazards.extend(
            swaps
                .iter()
                .filter(|(_, dev)| *dev == Some(device.dev))
                .map(|(area, _)| Hazard::Swap { area: area.clone() }),
        );
        hazards.extend(
            device
                .holders
                .iter()
                .map(|by| Hazard::Held { device: device.name.clone(), by: by.clone() }),
        );
        hazards.extend(behind_loop(|backing| device_number(backing) == Some(device.dev)));
    }
    // One mount can be seen at the disk and at the partition.
    hazards.dedup();
    hazards
}

/// Who has one of the devices open for writing, but for the server of the device.
///
/// The client of a network block device (qemu-nbd, nbd-client, rbd-nbd) must keep it open to make
/// it what it is. The driver tells the number of that thread as the disk's attribute `pid`
/// (drivers/block/nbd.c).
fn writers(involved: &[Involved], target: Dev, server: Option<u64>) -> Vec<String> {
    let devices: Vec<Dev> = involved.iter().map(|device| device.dev).collect();
    let serves = |pid: u32| {
        server.is_some_and(|thread| Path::new(&format!("/proc/{pid}/task/{thread}")).exists())
    };
    writers::of(&devices)
        .into_iter()
        .filter(|writer| !serves(writer.pid))
        .map(|writers::Writer { name, pid, dev }| {
            match involved.iter().find(|device| device.dev == dev && dev != target) {
                Some(other) => format!("{name} (pid {pid}, {})", other.name),
                None => format!("{name} (pid {pid})"),
            }
        })
        .collect()
}

fn behind_loop(is_target: impl Fn(&Path) -> bool) -> Vec<Hazard> {
    loop_devices()
        .into_iter()
        .filter(|(_, backing)| is_target(backing))
        .map(|(loop_device, _)| Hazard::BackingFile { loop_device })
        .collect()
}

/// Whether `path` is the file with this status, whatever name it has.
fn is_file(path: &Path, data: &Metadata) -> bool {
    let same = |other: Metadata| (other.dev(), other.ino()) == (data.dev(), data.ino());
    fs::metadata(path).is_ok_and(same)
}

/// Whether anybody has the file open for writing: the kernel then refuses a read lease on it
/// (fcntl(2), `F_SETLEASE`). Where leases do not exist, nobody is seen.
///
/// The lease is given back at once. Should somebody open the file in between, the kernel signals
/// this process, with SIGURG as is set first, because that is ignored where SIGIO would end it.
fn is_open_for_writing(file: &File) -> bool {
    /// `include/uapi/asm-generic/fcntl.h`; libc does not have it.
    const F_SETSIG: libc::c_int = 10;
    let control = |command, argument: libc::c_int| {
        // SAFETY: both commands take an integer and touch no memory of this process.
        unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }
    };
    if control(F_SETSIG, libc::SIGURG) != 0 {
        return false;
    }
    if control(libc::F_SETLEASE, libc::F_RDLCK) != 0 {
        let error = std::io::Error::last_os_error();
        return Errno::from_io_error(&error) == Some(Errno::AGAIN);
    }
    control(libc::F_SETLEASE, libc::F_UNLCK);
    false
}
