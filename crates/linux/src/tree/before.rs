//! What a recorded load found, made again before it is replayed.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_replay::pattern::SplitMix64;
use ioecho_trace::recorded::{Before, BeforeKind, RecordedFiles};
use rustix::fs::{Mode, OFlags, fdatasync, mkdirat, openat2, symlinkat, syncfs};
use rustix::io::{Errno, retry_on_intr, write};

use super::anchor::{Anchor, BENEATH};

/// So much is written at a time.
const PIECE_BYTES: usize = 1 << 20;

/// So much of a file is written before it is brought to the disk.
const UNSYNCED_BYTES: u64 = 64 << 20;

/// A block of most file systems.
const BLOCK_BYTES: u64 = 4096;

/// How many bytes that needs at least: of each file its data in whole blocks, and a block for each
/// name.
pub fn needed_before(files: &RecordedFiles) -> u64 {
    let of = |before: &Before| match before.kind {
        BeforeKind::File => before.size.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES),
        _ => BLOCK_BYTES,
    };
    files.before.iter().map(of).fold(0, u64::saturating_add)
}

/// What was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in the files.
    pub bytes: u64,
}

/// The directory that a name lies in, and its last part.
pub(super) enum Above<'a> {
    /// The anchor itself.
    Anchor(BorrowedFd<'a>, &'a [u8]),
    /// A directory below it.
    Below(OwnedFd, &'a [u8]),
}

impl<'a> Above<'a> {
    /// Opens the directory that a name lies in.
    pub(super) fn of(anchor: &'a Anchor, path: &'a [u8]) -> Result<Self, Errno> {
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            let name = if path.is_empty() { b".".as_slice() } else { path };
            return Ok(Self::Anchor(anchor.directory().as_fd(), name));
        };
        let (above, name) = (&path[..slash], &path[slash + 1..]);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open =
            retry_on_intr(|| openat2(anchor.directory(), above, flags, Mode::empty(), BENEATH))?;
        Ok(Self::Below(open, name))
    }

    /// Both.
    pub(super) fn get(&self) -> (BorrowedFd<'_>, &[u8]) {
        match self {
            Self::Anchor(directory, name) => (*directory, name),
            Self::Below(directory, name) => (directory.as_fd(), name),
        }
    }
}

/// Makes what was there before a recorded load below an anchor, and brings it to the disk, so that
/// writing it back does not disturb the load. It ends early, with [`io::ErrorKind::Interrupted`],
/// when that is asked for: what was there may be large, and its storage slow.
///
/// # Errors
///
/// With the name that could not be made. What was made until then is left.
pub fn make_before(
    anchor: &Anchor,
    files: &RecordedFiles,
    stop: &AtomicBool,
) -> Result<Made, (String, io::Error)> {
    let mut made = Made::default();
    // Data that no file system packs.
    let mut random = SplitMix64(0x696f_6563_686f);
    let mut piece = vec![0; PIECE_BYTES];
    piece.chunks_mut(8).for_each(|part| part.copy_from_slice(&random.next_u64().to_le_bytes()));
    for before in &files.before {
        let target = before.target.as_deref().map(|text| files.name(text));
        let names = (&*files.name(&before.path), target.as_deref());
        make(anchor, before, names, &piece, stop, &mut made)
            .map_err(|error| (before.path.clone(), error.into()))?;
    }
    // A file system that cannot bring all of it down does so when it likes.
    let _ = syncfs(anchor.directory());
    Ok(made)
}

/// Makes one of them, of this name and with this text of a link.
fn make(
    anchor: &Anchor,
    before: &Before,
    (path, target): (&[u8], Option<&[u8]>),
    piece: &[u8],
    stop: &AtomicBool,
    made: &mut Made,
) -> Result<(), Errno> {
    go_on(stop)?;
    let above = Above::of(anchor, path)?;
    let (directory, name) = above.get();
    match before.kind {
        BeforeKind::Directory => {
            mkdirat(directory, name, Mode::from_raw_mode(0o755))?;
            made.directories += 1;
        }
        BeforeKind::Symlink => {
            let text = target.filter(|text| !text.is_empty());
            symlinkat(text.unwrap_or(b"unknown"), directory, name)?;
            made.links += 1;
        }
        BeforeKind::File => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            let file = retry_on_intr(|| openat2(directory, name, flags, mode, BENEATH))?;
            let mut left = before.size;
            let mut unsynced = 0;
            while left > 0 {
                go_on(stop)?;
                // The end must not have to wait for gigabytes, during which nobody is asked.
                if unsynced >= UNSYNCED_BYTES {
                    fdatasync(&file)?;
                    unsynced = 0;
                }
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
                let written = retry_on_intr(|| write(&file, &piece[..length]))? as u64;
                (left, unsynced) = (left - written, unsynced + written);
            }
            made.files += 1;
            made.bytes += before.size;
        }
    }
    Ok(())
}

fn go_on(stop: &AtomicBool) -> Result<(), Errno> {
    if stop.load(Relaxed) { Err(Errno::INTR) } else { Ok(()) }
}
