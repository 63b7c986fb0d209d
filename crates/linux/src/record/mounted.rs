//! Where the kernel's own file systems are.
//!
//! Tracefs is mounted by every larger distribution, and not in a small system or a container. It
//! may also be found below debugfs only. If it is not mounted, mounting it for everybody would
//! change the observed system. A mount that is attached nowhere (fsmount(2), since Linux 5.2) is
//! seen by this process alone and ends with it.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::mounts::mounts;

/// Where a file system of the kernel was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KernelMount {
    /// Here.
    At(PathBuf),
    /// Here, but this user may not look into it.
    Closed(PathBuf),
}

/// Where tracefs is: where it is mounted, or else where only this process sees it.
pub(super) fn tracefs() -> io::Result<KernelMount> {
    let below = match place_of("debugfs") {
        // Debugfs mounts it below itself as soon as somebody looks.
        Some(KernelMount::At(debugfs)) => {
            let tracing = debugfs.join("tracing");
            tracing.join("events").exists().then_some(KernelMount::At(tracing))
        }
        _ => None,
    };
    match (place_of("tracefs"), below) {
        (Some(KernelMount::At(place)), _) | (_, Some(KernelMount::At(place))) => {
            Ok(KernelMount::At(place))
        }
        (Some(closed), _) => Ok(closed),
        _ => private(),
    }
}

/// Where a file system of this kind is mounted: at the usual place of several, if it is among them.
fn place_of(kind: &str) -> Option<KernelMount> {
    let places = mounts().into_iter().filter(|mount| mount.kind == kind).map(|mount| mount.point);
    let mut places: Vec<KernelMount> = places
        .map(|point| match fs::read_dir(&point) {
            Ok(_) => KernelMount::At(point),
            Err(_) => KernelMount::Closed(point),
        })
        .collect();
    places.sort_by_key(|place| match place {
        KernelMount::At(point) => (0, !point.starts_with("/sys")),
        KernelMount::Closed(point) => (1, !point.starts_with("/sys")),
    });
    places.into_iter().next()
}

/// The root of a file system of this kind in a mount that is attached nowhere: seen by this process
/// alone, and gone when it is closed.
pub(super) fn detached(kind: &str) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Tracefs in a mount of this process alone, which lasts until the process ends.
fn private() -> io::Result<KernelMount> {
    static MOUNT: OnceLock<OwnedFd> = OnceLock::new();
    let mount = if let Some(mount) = MOUNT.get() {
        mount
    } else {
        let made = detached("tracefs")?;
        MOUNT.get_or_init(|| made)
    };
    Ok(KernelMount::At(PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()))))
}
