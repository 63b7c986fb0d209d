//! Errors of a target: its path, the fault, and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use ioecho_trace::Bytes;
use rustix::fs::{Dev, major};
use rustix::io::Errno;

/// The number of all loop devices (`include/uapi/linux/major.h`).
const LOOP_MAJOR: u32 = 7;

/// Why a target cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The path has no characters: an unset variable in a script, mostly.
    #[error(
        "the path of the target is empty\n  = help: name a block device (`lsblk` lists them) or a \
         regular file"
    )]
    Empty,
    /// Nothing has this path.
    #[error(
        "{}: there is no such file or device\n  = help: `lsblk` lists the devices{}",
        .path.display(), file_first(.path)
    )]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It is a directory.
    #[error(
        "{}: is a directory\n  = help: name a block device or a file; make a file with \
         truncate -s SIZE {}/FILE", .path.display(), .path.display()
    )]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// It is a character device, a pipe or a socket.
    #[error(
        "{}: is a {kind}, and requests need an address\n  = help: name a block device (`lsblk` \
         lists them) or a regular file", .path.display()
    )]
    NotAddressable {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The device, the file system or the file forbids writing to all.
    #[error(
        "{}: cannot be opened for writing because it is read-only\n  = help: replay reads only, \
         or make it writable (blockdev --setrw, mount -o remount,rw)", .path.display()
    )]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// This user may not open it.
    #[error(
        "{}: permission denied\n  = help: run as root, or join the group that owns it (`ls -l` \
         shows the group; for disks it is usually `disk`)", .path.display()
    )]
    Denied {
        /// The path.
        path: PathBuf,
    },
    /// Root may not open it either.
    #[error(
        "{}: the system forbids to open it, even to root\n  = help: a security module (SELinux, \
         AppArmor), a container or its device cgroup may stand in the way, or the file's own \
         attributes (lsattr)", .path.display()
    )]
    Forbidden {
        /// The path.
        path: PathBuf,
    },
    /// Something else has claimed the device for itself.
    #[error(
        "{}: is in use by a mount, by swap or by another program\n  = help: unmount it or stop \
         what holds it; `lsblk {}` and `fuser -v {}` may show who", .path.display(),
        .path.display(), .path.display()
    )]
    Busy {
        /// The path.
        path: PathBuf,
    },
    /// Another run of ioecho holds the lock.
    #[error(
        "{}: another run of ioecho uses it\n  = help: two runs on one target disturb each \
         other's figures; wait for the other or stop it", .path.display()
    )]
    Locked {
        /// The path.
        path: PathBuf,
    },
    /// Its path led to something else when it was opened.
    #[error(
        "{}: leads to another device or file than a moment ago, when it was looked at; nothing was \
         touched\n  = help: see what changes it (udev, a script), and name the device itself",
        .path.display()
    )]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// It does not hold a single block.
    #[error(
        "{}: holds {capacity}, less than one block of {block_size}\n  = help: for a file: \
         truncate -s SIZE {}", .path.display(), .path.display()
    )]
    TooSmall {
        /// The path.
        path: PathBuf,
        /// How much it holds.
        capacity: Bytes,
        /// The least that can be addressed.
        block_size: Bytes,
    },
    /// A drive without a disk in it.
    #[error(
        "{}: the drive is there but holds no medium\n  = help: insert one; `lsblk {}` shows its \
         size then", .path.display(), .path.display()
    )]
    NoMedium {
        /// The path.
        path: PathBuf,
    },
    /// A loop device that is detached.
    #[error(
        "{}: is a loop device without a file behind it\n  = help: attach one: losetup {} FILE; \
         `losetup --list` shows those that are attached", .path.display(), .path.display()
    )]
    NoBackingFile {
        /// The path.
        path: PathBuf,
    },
    /// The file system does not bypass the page cache.
    #[error(
        "{}: its file system ({file_system}) has no direct I/O for it, so a replay would measure \
         the page cache\n  = help: use a file on ext4 (without data=journal) or xfs, or a block \
         device; or allow the page cache explicitly, and the run says so", .path.display()
    )]
    DirectRefused {
        /// The path.
        path: PathBuf,
        /// The type of the file system.
        file_system: String,
    },
    /// Anything else that the system refuses.
    #[error("{}: cannot {action}: {source}", .path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl TargetError {
    pub(crate) fn system(path: &Path, action: &'static str, error: Errno) -> Self {
        Self::System { path: path.to_owned(), action, source: error.into() }
    }

    /// What a block device of this number is in want of that holds nothing.
    pub(crate) fn no_medium(path: &Path, number: Dev) -> Self {
        let path = path.to_owned();
        if major(number) == LOOP_MAJOR {
            Self::NoBackingFile { path }
        } else {
            Self::NoMedium { path }
        }
    }

    /// The error of a failed open; `writable` if it was for writing.
    pub(crate) fn opening(path: &Path, writable: bool, error: Errno) -> Self {
        let root = rustix::process::geteuid().is_root();
        Self::opening_as(root, path, writable, error)
    }

    fn opening_as(root: bool, path: &Path, writable: bool, error: Errno) -> Self {
        let path = path.to_owned();
        match error {
            Errno::NOENT if path.as_os_str().is_empty() => Self::Empty,
            Errno::NOENT | Errno::NOTDIR => Self::Missing { path },
            Errno::ISDIR => Self::Directory { path },
            Errno::ROFS if writable => Self::ReadOnly { path },
            Errno::ACCESS | Errno::PERM if root => Self::Forbidden { path },
            Errno::ACCESS | Errno::PERM => Self::Denied { path },
            Errno::BUSY | Errno::TXTBSY => Self::Busy { path },
            Errno::NOMEDIUM | Errno::NXIO => Self::NoMedium { path },
            _ => Self::System { path, action: "open it", source: error.into() },
        }
    }
}

/// How to come to a file at this path, as words that follow; none where no file should be.
fn file_first(path: &Path) -> String {
    if path.starts_with("/dev") {
        return String::new();
    }
    format!("; to replay on a file, make it first: truncate -s SIZE {}", path.display())
}

#[cfg(test)]
mod tests {
    use rustix::fs::makedev;

    use super::*;

    #[test]
    fn nobody_is_told_to_make_a_file_among_the_devices() {
        let missing = |path: &str| TargetError::Missing { path: path.into() }.to_string();
        assert!(missing("image").contains("truncate -s SIZE image"));
        assert!(!missing("/dev/sdx").contains("truncate"));
    }

    #[test]
    fn a_detached_loop_device_is_told_from_an_empty_drive() {
        let told = |number| TargetError::no_medium(Path::new("/dev/x"), number).to_string();
        assert!(told(makedev(7, 0)).contains("losetup /dev/x FILE"));
        assert!(told(makedev(11, 0)).contains("insert one"));
    }

    #[test]
    fn only_who_is_not_root_is_told_to_become_root() {
        let refused = |root, error| {
            TargetError::opening_as(root, Path::new("/dev/sdx"), true, error).to_string()
        };
        for error in [Errno::ACCESS, Errno::PERM] {
            assert!(refused(false, error).contains("run as root"));
            assert!(!refused(true, error).contains("run as root"));
            assert!(refused(true, error).contains("device cgroup"));
        }
    }
}
