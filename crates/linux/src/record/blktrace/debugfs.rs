//! The directory in debugfs where the relay files appear.
//!
//! debugfs is often not mounted, and a recorder that mounts it for everybody leaves a hole behind:
//! many an administrator has unmounted it on purpose. A mount that is attached nowhere (fsmount(2),
//! since Linux 5.2) is seen by this process alone and ends with it, however it ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::mounts::mounts;
use crate::record::mounted::detached;

/// The root of debugfs.
#[derive(Debug)]
pub(super) struct Debugfs {
    root: OwnedFd,
    /// What it is called in messages.
    pub(super) path: PathBuf,
}

/// What tells one file from all others: the number of its file system, and its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// `st_dev`.
    pub(super) dev: u64,
    /// `st_ino`. debugfs gives every file a new one, and does not use one twice soon.
    pub(super) inode: u64,
    /// When the kernel made it, which is not needed to tell it from others.
    pub(super) made: SystemTime,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        (self.dev, self.inode) == (other.dev, other.inode)
    }
}

impl Eq for Identity {}

impl Debugfs {
    /// The one that is mounted, or else one that only this process sees.
    pub(super) fn open() -> io::Result<Self> {
        let mounted = mounts().into_iter().rev().filter(|mount| mount.kind == "debugfs");
        for mount in mounted {
            if let Ok(root) = directory(CWD, &mount.point) {
                return Ok(Self { root, path: mount.point });
            }
        }
        Ok(Self { root: detached("debugfs")?, path: PathBuf::from("debugfs:") })
    }

    /// Opens a file of a device's directory for reading.
    pub(super) fn open_file(&self, device: &str, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.root, within(device, name), flags, Mode::empty());
        Ok(File::from(file?))
    }

    /// Which file it is; `None` where there is none.
    pub(super) fn identity(&self, device: &str, name: &str) -> io::Result<Option<Identity>> {
        match rustix::fs::statat(&self.root, within(device, name), AtFlags::empty()) {
            Ok(status) => {
                // Nobody writes to these files, so they are as old as their contents.
                let since =
                    Duration::new(status.st_mtime.max(0) as u64, status.st_mtime_nsec as u32);
                let made = SystemTime::UNIX_EPOCH + since;
                Ok(Some(Identity { dev: status.st_dev, inode: status.st_ino, made }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The processors that a device has a relay file for, in order.
    pub(super) fn cpus(&self, device: &str) -> io::Result<Vec<u32>> {
        let names = rustix::fs::Dir::new(directory(&self.root, &within(device, ""))?)?;
        let mut cpus = Vec::new();
        for entry in names {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            cpus.extend(name.strip_prefix("trace").and_then(|cpu| cpu.parse::<u32>().ok()));
        }
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// A file's path as messages have it.
    pub(super) fn show(&self, device: &str, name: &str) -> PathBuf {
        self.path.join(within(device, name))
    }
}

/// Where the kernel puts the files of a device, below the root of debugfs.
fn within(device: &str, name: &str) -> PathBuf {
    Path::new("block").join(device).join(name)
}

fn directory<Fd: std::os::fd::AsFd>(at: Fd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}
