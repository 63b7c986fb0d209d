//! The users of a target.
//!
//! No single interface shows them all. Mounts are in mountinfo, but not those of other mount
//! namespaces. Device mapper shows in sysfs, a swap file does not. An exclusive claim that shows
//! nowhere (btrfs on its second device, a database) is found only by trying to claim the device,
//! and a writer without a claim only among the descriptors of all processes (`writers`). And all of
//! them may use the same bytes under another name (`elsewhere`).

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dev, Mode, OFlags};
use rustix::io::Errno;

use super::elsewhere;
use super::hazard::Hazard;
use super::unknown::Unknown;
use super::writers::{self, Opened, Writers};
use crate::mounts::{device_number, mounts, swaps};
use crate::sysfs::{self, BlockNode};
use crate::target::{Keeper, loops};

/// Whether this process has opened the target for itself alone already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// It is open for reading at most.
    NotYet,
    /// It is open for writing, a device exclusively.
    Already,
}

/// Who uses the block device at `path`, and whether it has partitions.
pub(super) fn of_device(path: &Path, data: &Metadata, ours: Ours) -> Vec<Hazard> {
    let node = BlockNode::of(data.rdev());
    let is_in_sysfs = node.is_some();
    let partitions = node.as_ref().map(BlockNode::partitions).unwrap_or_default();
    let involved = involved(path, data.rdev(), node, &partitions);
    let mut hazards = users(&involved);
    for device in &involved {
        hazards.extend(behind_loop(&Keeper::Device(device.dev)));
    }

    let (by, unknown) = who_writes(&involved, data.rdev(), None);
    let may_ask = ours == Ours::NotYet && hazards.is_empty();
    if !by.is_empty() || may_ask && is_claimed(path) {
        hazards.push(Hazard::InUse { by });
    }
    hazards.extend(elsewhere::users(data, &involved));
    hazards.extend(unknown.map(|unknown| Hazard::CannotTell { unknown }));
    if !is_in_sysfs {
        hazards.push(Hazard::CannotTell { unknown: Unknown::NoSys });
    }
    if !partitions.is_empty() {
        let partitions = partitions.into_iter().map(|partition| partition.name).collect();
        hazards.push(Hazard::Partitioned { partitions });
    }
    hazards
}

/// Who uses a regular file.
pub(super) fn of_file(file: &File, data: &Metadata, ours: Ours) -> Vec<Hazard> {
    let mut hazards = Vec::new();
    hazards.extend(
        swaps().into_iter().filter(|area| is_file(area, data)).map(|area| Hazard::Swap { area }),
    );
    hazards.extend(behind_loop(&Keeper::of(data)));
    if hazards.is_empty() {
        hazards.extend(of_open_file(file, data, ours));
    }
    if !sysfs::is_there() {
        hazards.push(Hazard::CannotTell { unknown: Unknown::NoSys });
    }
    hazards
}

/// Who has the file open for writing.
fn of_open_file(file: &File, data: &Metadata, ours: Ours) -> Option<Hazard> {
    let lease = lease(file, ours);
    if matches!(lease, Lease::Given) {
        return None;
    }
    // The lease shows that there is a writer, not which.
    let Writers { seen, unknown } =
        writers::of(&[Opened::File { dev: data.dev(), inode: data.ino() }]);
    let by: Vec<String> = seen.iter().map(ToString::to_string).collect();
    let is_written = matches!(lease, Lease::Taken) && ours == Ours::NotYet;
    if is_written || !by.is_empty() {
        return Some(Hazard::InUse { by });
    }
    let unknown = match lease {
        Lease::Refused(error) => Some(Unknown::NoLease { why: error.to_string() }),
        // Somebody has it open, but all visible users only read.
        _ => unknown,
    };
    unknown.map(|unknown| Hazard::CannotTell { unknown })
}

/// A device whose use is use of the target.
pub(super) struct Involved {
    pub(super) dev: Dev,
    pub(super) name: String,
    holders: Vec<String>,
    /// The thread that serves its disk, where a process does.
    server: Option<u64>,
}

impl Involved {
    pub(super) fn new(node: BlockNode) -> Self {
        let server = node.disk().and_then(|disk| disk.number("pid"));
        Self { dev: node.dev, holders: node.holders(), name: node.name, server }
    }
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
        return vec![Involved { dev, name, holders: Vec::new(), server: None }];
    };
    let disk = node.disk().filter(|disk| disk.dev != node.dev);
    [Some(node), disk]
        .into_iter()
        .flatten()
        .chain(partitions.iter().cloned())
        .map(Involved::new)
        .collect()
}

/// Who has mounted one of the devices, swaps to it or has built something on it.
pub(super) fn users(involved: &[Involved]) -> Vec<Hazard> {
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
    }
    // One mount can be seen at the disk and at the partition.
    hazards.dedup();
    hazards
}

/// Whether somebody has claimed the device for himself alone.
pub(super) fn is_claimed(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).err() == Some(Errno::BUSY)
}

/// Who has one of the devices open for writing, or the file with this path, but for the server of a
/// device; and why there may be others.
///
/// The client of a network block device (qemu-nbd, nbd-client, rbd-nbd) must keep it open to make
/// it what it is. The driver tells the number of that thread as the disk's attribute `pid`
/// (drivers/block/nbd.c).
pub(super) fn who_writes(
    involved: &[Involved],
    target: Dev,
    file: Option<(&Path, Opened)>,
) -> (Vec<String>, Option<Unknown>) {
    let mut wanted: Vec<Opened> =
        involved.iter().map(|device| Opened::Device(device.dev)).collect();
    wanted.extend(file.map(|(_, opened)| opened));
    let serves = |pid: u32| {
        involved
            .iter()
            .filter_map(|device| device.server)
            .any(|thread| Path::new(&format!("/proc/{pid}/task/{thread}")).exists())
    };
    // What it has open, where that is another thing than what the target was named.
    let other = |opened: Opened| match opened {
        Opened::Device(dev) => involved
            .iter()
            .find(|device| device.dev == dev && dev != target)
            .map(|device| device.name.clone()),
        Opened::File { .. } => file.map(|(path, _)| path.display().to_string()),
    };
    let Writers { seen, unknown } = writers::of(&wanted);
    let by = seen
        .into_iter()
        .filter(|writer| !serves(writer.pid))
        .map(|writer| match other(writer.opened) {
            Some(other) => format!("{} (pid {}, {other})", writer.name, writer.pid),
            None => writer.to_string(),
        })
        .collect();
    (by, unknown)
}

/// The loop devices that stand on a device or file.
fn behind_loop(keeper: &Keeper) -> Vec<Hazard> {
    loops()
        .into_iter()
        .filter(|one| one.keeper == *keeper)
        .map(|one| Hazard::BackingFile { loop_device: one.node.name })
        .collect()
}

/// Whether `path` is the file with this status, whatever name it has.
fn is_file(path: &Path, data: &Metadata) -> bool {
    let same = |other: Metadata| (other.dev(), other.ino()) == (data.dev(), data.ino());
    fs::metadata(path).is_ok_and(same)
}

/// The kernel's answer to a request for a lease on a file (fcntl(2), `F_SETLEASE`).
enum Lease {
    /// Nobody else has it open in a way that could change it.
    Given,
    /// Somebody has.
    Taken,
    /// It does not answer: not to this user, or not on this file system.
    Refused(std::io::Error),
}

/// Asks for a lease. A lease for reading is refused where anybody has the file open for writing,
/// this process too. So where this process has, one for writing is asked for, which is refused
/// where anybody else has it open at all, for reading too.
///
/// The lease is given back at once. Should somebody open the file in between, the kernel signals
/// this process, with SIGURG as is set first, because that is ignored where SIGIO would end it.
fn lease(file: &File, ours: Ours) -> Lease {
    /// `include/uapi/asm-generic/fcntl.h`; libc does not have it.
    const F_SETSIG: libc::c_int = 10;
    let control = |command, argument: libc::c_int| {
        // SAFETY: both commands take an integer and touch no memory of this process.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    let kind = if ours == Ours::Already { libc::F_WRLCK } else { libc::F_RDLCK };
    match control(F_SETSIG, libc::SIGURG).and_then(|()| control(libc::F_SETLEASE, kind)) {
        Ok(()) => {
            // It ends with the descriptor at the latest.
            let _ = control(libc::F_SETLEASE, libc::F_UNLCK);
            Lease::Given
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => Lease::Taken,
        Err(error) => Lease::Refused(error),
    }
}
