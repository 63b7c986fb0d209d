//! Opening a target.
//!
//! A replay that goes through the page cache measures memory, so `O_DIRECT` is always asked for,
//! and a file system that refuses it makes an error and not a slower path. A device that somebody
//! else uses is destroyed by writing, so it is opened exclusively (`O_EXCL`, open(2)).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_trace::Bytes;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::error::TargetError;
use super::facts::{Geometry, TargetFacts, TargetKind, mount_of};
use super::ioctl;
use super::storage::Storage;
use crate::sysfs::BlockNode;

/// How long [`claim`] waits for what a process leaves that has just ended.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long it waits between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether a replay may change its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The target is never opened for writing: nothing that goes wrong can change it.
    ReadOnly,
    /// Writes, discards and write-zeroes go through.
    ReadWrite,
}

/// How to open a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether it may be changed.
    pub access: Access,
    /// Whether a block device is claimed for this process alone. Nothing can be mounted or opened
    /// exclusively on it meanwhile.
    pub exclusive: bool,
    /// Whether to go on through the page cache where the file system refuses `O_DIRECT`.
    pub allow_cached: bool,
}

impl OpenOptions {
    /// Exclusive when writing, shared when only reading, never through the page cache.
    pub const fn new(access: Access) -> Self {
        Self { access, exclusive: matches!(access, Access::ReadWrite), allow_cached: false }
    }
}

/// An open target. Closing it gives it free.
#[derive(Debug)]
pub struct OpenedTarget {
    pub(crate) file: File,
    /// For a loop device: what keeps its bytes, for the lock.
    below: Option<File>,
    facts: TargetFacts,
    access: Access,
}

impl OpenedTarget {
    /// What it is.
    pub const fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    /// Whether it may be changed.
    pub const fn access(&self) -> Access {
        self.access
    }

    /// Keeps other runs of ioecho away until this target is closed.
    ///
    /// The lock is an exclusive flock(2) on the device's own node, which is also how udev is kept
    /// from probing a device in use (<https://systemd.io/BLOCK_DEVICE_LOCKING>). The file below a
    /// loop device is locked too, for it may be a target itself or lie below another loop device;
    /// shared where the device has only a part of it, for the other parts are others'.
    pub fn lock(&self) -> Result<(), TargetError> {
        let path = &self.facts.path;
        let locked = || TargetError::Locked { path: path.clone() };
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(locked()),
            Err(error) => return Err(TargetError::system(path, "lock it", error)),
        }
        let Some(below) = &self.below else { return Ok(()) };
        let operation = if self.facts.storage.is_whole() {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(below, operation) {
            Err(Errno::WOULDBLOCK) => Err(locked()),
            // Not every file system has locks, and the device's own is held.
            _ => Ok(()),
        }
    }
}

/// Opens a target as [`open`] does and locks it, for the run that is to use it.
///
/// The kernel closes the files of a killed process some time after its end. So a target that is in
/// use is tried again for a second before it is refused.
pub fn claim(path: &Path, options: OpenOptions) -> Result<OpenedTarget, TargetError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match open(path, options).and_then(|opened| opened.lock().map(|()| opened)) {
            Err(TargetError::Busy { .. } | TargetError::Locked { .. })
                if Instant::now() < deadline =>
            {
                sleep(PAUSE);
            }
            answer => return answer,
        }
    }
}

/// Opens the block device or regular file at `path`.
///
/// The block size of a file is what direct I/O on it must be aligned to: what its file system says
/// (`STATX_DIOALIGN`, Linux 6.1); where it does not say, 512 bytes if a direct read of 512 bytes
/// goes through, or else the file system's own block (`st_blksize`).
pub fn open(path: &Path, options: OpenOptions) -> Result<OpenedTarget, TargetError> {
    let writable = options.access == Access::ReadWrite;
    let data = status(path)?;
    let kind = kind_of(path, &data)?;
    let block = kind == TargetKind::BlockDevice;
    if block && writable && BlockNode::of(data.rdev()).is_some_and(|n| n.number("ro") == Some(1)) {
        return Err(TargetError::ReadOnly { path: path.to_owned() });
    }

    let mut flags = OFlags::CLOEXEC | if writable { OFlags::RDWR } else { OFlags::RDONLY };
    if block && options.exclusive {
        flags |= OFlags::EXCL;
    }
    let canonical = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let try_open = |flags| rustix::fs::open(path, flags, Mode::empty());
    let opened = try_open(flags | OFlags::DIRECT).and_then(|file| {
        let file = File::from(file);
        // ext4 with data=journal, among others, opens the file and goes through the page cache.
        let is_cached = !block && direct_io(&file) == DirectIo::Cannot;
        if is_cached { Err(Errno::INVAL) } else { Ok(file) }
    });
    let (file, direct) = match opened {
        Ok(file) => (file, true),
        // open(2): a file system without direct I/O answers EINVAL.
        Err(Errno::INVAL) if options.allow_cached => {
            let file = try_open(flags).map_err(|e| TargetError::opening(path, writable, e))?;
            (File::from(file), false)
        }
        Err(Errno::INVAL) if !block => {
            let mount = mount_of(&canonical, data.dev());
            let file_system = mount.map_or_else(|| "of unknown type".to_owned(), |m| m.kind);
            return Err(TargetError::DirectRefused { path: path.to_owned(), file_system });
        }
        Err(error) => return Err(TargetError::opening(path, writable, error)),
    };

    let system = |error: io::Error| TargetError::System {
        path: path.to_owned(),
        action: "ask for its geometry",
        source: error,
    };
    let data = file.metadata().map_err(system)?;
    let geometry = if block {
        device_geometry(&file, direct).map_err(system)?
    } else {
        file_geometry(&file, &data, direct)
    };
    if block && geometry.capacity == 0 {
        return Err(TargetError::no_medium(path, data.rdev()));
    }
    if geometry.capacity < geometry.logical_block {
        return Err(TargetError::TooSmall {
            path: path.to_owned(),
            capacity: Bytes(data.len()),
            block_size: Bytes(geometry.logical_block),
        });
    }
    let facts = TargetFacts::collect(path, canonical, &data, kind, &geometry);
    let below = open_below(&facts.storage);
    Ok(OpenedTarget { file, below, facts, access: options.access })
}

/// Opens what keeps the bytes of a loop device; nothing where it is out of reach, or the path that
/// the kernel has for it leads elsewhere from here.
fn open_below(storage: &Storage) -> Option<File> {
    let path = storage.below.as_ref()?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let is_it = Storage::of(&file.metadata().ok()?).keeper == storage.keeper;
    is_it.then_some(file)
}

/// stat(2) with the errors of a target.
pub(crate) fn status(path: &Path) -> Result<fs::Metadata, TargetError> {
    fs::metadata(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(errno) => TargetError::opening(path, false, errno),
        None => TargetError::System { path: path.to_owned(), action: "find it", source: error },
    })
}

/// Block device or file; anything else is no target.
pub(crate) fn kind_of(path: &Path, data: &fs::Metadata) -> Result<TargetKind, TargetError> {
    let kind = data.file_type();
    let path = path.to_owned();
    if kind.is_block_device() {
        Ok(TargetKind::BlockDevice)
    } else if kind.is_file() {
        Ok(TargetKind::File)
    } else if kind.is_dir() {
        Err(TargetError::Directory { path })
    } else if kind.is_char_device() {
        Err(TargetError::NotAddressable { path, kind: "character device" })
    } else if kind.is_fifo() {
        Err(TargetError::NotAddressable { path, kind: "pipe" })
    } else {
        Err(TargetError::NotAddressable { path, kind: "socket" })
    }
}

/// How many bytes a target holds.
pub(crate) fn size_of(file: &File, kind: TargetKind) -> rustix::io::Result<u64> {
    match kind {
        TargetKind::BlockDevice => ioctl::size(file),
        TargetKind::File => Ok(rustix::fs::fstat(file)?.st_size as u64),
    }
}

fn device_geometry(file: &File, direct: bool) -> io::Result<Geometry> {
    Ok(Geometry {
        capacity: ioctl::size(file)?,
        logical_block: u64::from(rustix::fs::ioctl_blksszget(file)?),
        physical_block: u64::from(rustix::fs::ioctl_blkpbszget(file)?),
        direct,
    })
}

fn file_geometry(file: &File, data: &fs::Metadata, direct: bool) -> Geometry {
    let logical_block = match direct_io(file) {
        _ if !direct => 512,
        DirectIo::Aligned(alignment) => alignment,
        DirectIo::Untold | DirectIo::Cannot if reads_512(file) => 512,
        DirectIo::Untold | DirectIo::Cannot => data.blksize(),
    };
    let disk = BlockNode::of(data.dev()).and_then(|node| node.disk());
    let physical = disk.and_then(|disk| disk.number("queue/physical_block_size"));
    Geometry {
        capacity: data.len() / logical_block * logical_block,
        logical_block,
        physical_block: physical.unwrap_or_else(|| data.blksize()),
        direct,
    }
}

/// What direct I/O on an open file or device must be aligned to, as far as the kernel tells.
pub(crate) fn block_of(file: &File, kind: TargetKind) -> u64 {
    let told = match kind {
        TargetKind::BlockDevice => rustix::fs::ioctl_blksszget(file).ok().map(u64::from),
        TargetKind::File => match direct_io(file) {
            DirectIo::Aligned(alignment) => Some(alignment),
            DirectIo::Untold | DirectIo::Cannot => None,
        },
    };
    told.or_else(|| file.metadata().ok().map(|data| data.blksize())).unwrap_or(512)
}

/// The block of direct I/O on an open file, if the kernel tells.
///
/// # Errors
///
/// If it goes through the page cache whatever is asked for.
pub(crate) fn direct_block(file: &File) -> io::Result<Option<u64>> {
    match direct_io(file) {
        DirectIo::Aligned(block) => Ok(Some(block)),
        DirectIo::Untold => Ok(None),
        DirectIo::Cannot => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// What the kernel tells of direct I/O on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectIo {
    /// Nothing: the kernel is older than Linux 6.1, or the file system does not say.
    Untold,
    /// It goes through the page cache, whether or not `O_DIRECT` is refused.
    Cannot,
    /// Offsets and lengths must be multiples of so many bytes.
    Aligned(u64),
}

/// `stx_dio_offset_align` of statx(2), at least a sector; zero means that the file cannot.
fn direct_io(file: &File) -> DirectIo {
    let Ok(answer) = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return DirectIo::Untold;
    };
    match answer.stx_dio_offset_align {
        _ if answer.stx_mask & StatxFlags::DIOALIGN.bits() == 0 => DirectIo::Untold,
        0 => DirectIo::Cannot,
        bytes => DirectIo::Aligned(u64::from(bytes).max(512)),
    }
}

/// Whether direct I/O in sectors of 512 bytes goes through.
fn reads_512(file: &File) -> bool {
    let mut page = Box::new(AlignedPage([0; 4096]));
    let sector = &mut page.0[..512];
    rustix::io::pread(file, sector, 0).is_ok()
}

/// A buffer that satisfies the memory alignment of direct I/O anywhere.
#[repr(C, align(4096))]
struct AlignedPage([u8; 4096]);
