//! Where the kernel's own file systems are.
//!
//! Tracefs is mounted by every larger distribution, and not in a small system or a container. It
//! may also be found below debugfs only. If it is not mounted, mounting it for everybody would
//! change the observed system. A mount that is attached nowhere (fsmount(2), since Linux 5.2) is
//! seen by this process alone and ends with it.
//!
//! What somebody else has mounted, somebody else may unmount (`umount -l`) while it is in use, and
//! every path below it is gone at once. An open directory stays. So a file system is looked for
//! once and reached by its open directory from then on.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{FsWord, Mode, OFlags, fstatfs};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::mounts::mounts;

/// A kind of file system: its name, and the number by which `statfs(2)` tells it.
type Kind = (&'static str, FsWord);

const TRACEFS: Kind = ("tracefs", 0x7472_6163);
const DEBUGFS: Kind = ("debugfs", 0x6462_6720);

/// A file system of the kernel that is held open.
#[derive(Clone, Debug)]
pub(super) struct Held {
    root: Arc<OwnedFd>,
    /// Where it was found.
    point: PathBuf,
}

impl Held {
    /// Opens what is mounted here; `None` if that is no file system of this kind, or no more.
    fn open(path: &Path, point: PathBuf, (_, number): Kind) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
            root => root?,
        };
        let is_it = fstatfs(&root)?.f_type == number;
        Ok(is_it.then(|| Self { root: Arc::new(root), point }))
    }

    /// How this process reaches a file of it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.root.as_raw_fd())).join(name)
    }

    /// How people name this file.
    pub(super) fn named(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.point.clone() } else { self.point.join(name) }
    }
}

/// Where a file system of the kernel was found.
#[derive(Clone, Debug)]
pub(super) enum KernelMount {
    /// It can be used.
    At(Held),
    /// Here, but this user may not look into it.
    Closed(PathBuf),
}

/// Where tracefs is: where it is mounted, or else where only this process sees it.
pub(super) fn tracefs() -> io::Result<KernelMount> {
    let below = match place_of(DEBUGFS) {
        // Debugfs mounts it below itself as soon as somebody looks.
        Some(KernelMount::At(debugfs)) => {
            let (path, point) = (debugfs.path("tracing"), debugfs.named("tracing"));
            Held::open(&path, point, TRACEFS).ok().flatten()
        }
        _ => None,
    };
    match (place_of(TRACEFS), below) {
        (Some(KernelMount::At(place)), _) | (_, Some(place)) => Ok(KernelMount::At(place)),
        (Some(closed), _) => Ok(closed),
        _ => private(),
    }
}

/// Where a file system of this kind is mounted: at the usual place of several, if it is among them.
fn place_of(kind: Kind) -> Option<KernelMount> {
    let mounts = mounts().into_iter().filter(|mount| mount.kind == kind.0);
    let mut points: Vec<PathBuf> = mounts.map(|mount| mount.point).collect();
    points.sort_by_key(|point| !point.starts_with("/sys"));
    let mut closed = None;
    for point in points {
        match Held::open(&point, point.clone(), kind) {
            Ok(Some(held)) => return Some(KernelMount::At(held)),
            // It was unmounted meanwhile.
            Ok(None) => {}
            Err(_) => closed = closed.or(Some(KernelMount::Closed(point))),
        }
    }
    closed
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
    static MOUNT: OnceLock<Arc<OwnedFd>> = OnceLock::new();
    let root = if let Some(root) = MOUNT.get() {
        root
    } else {
        let made = detached(TRACEFS.0)?;
        MOUNT.get_or_init(|| Arc::new(made))
    };
    // It is mounted nowhere, so its files have no path for others.
    let point = PathBuf::from(TRACEFS.0);
    Ok(KernelMount::At(Held { root: root.clone(), point }))
}
