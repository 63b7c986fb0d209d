//! What reads and writes past the page cache must be aligned to in the files of a tree.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use ioecho_replay::tree::{FileState, Tree};
use rustix::fs::{Mode, OFlags, openat, openat2};
use rustix::io::Errno;

use super::anchor::{Anchor, BENEATH};
use crate::target::direct_block;

impl Anchor {
    /// The block to which the kernel aligns what goes past the page cache below this anchor;
    /// `None` where it does not tell. It is asked of a file without a name, or of one of the tree
    /// where nothing is to be made.
    ///
    /// # Errors
    ///
    /// If files there cannot be opened past the page cache.
    pub fn direct_block(&self, tree: &Tree, makes: bool) -> io::Result<Option<u64>> {
        let opened = |flags: OFlags| {
            if makes { self.unnamed(flags).map(Some) } else { self.any(tree, flags) }
        };
        match opened(OFlags::DIRECT) {
            Ok(Some(file)) => direct_block(&File::from(file)),
            // The same file opens otherwise: it is the page cache that it cannot do without.
            Err(Errno::INVAL) if matches!(opened(OFlags::empty()), Ok(Some(_))) => {
                Err(io::ErrorKind::Unsupported.into())
            }
            // There is none, or the calls of the run will tell why it does not open.
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// A file without a name, which is gone when it is closed.
    fn unnamed(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        openat(self.directory(), ".", flags, Mode::from_raw_mode(0o600))
    }

    /// A file of the tree that is there.
    fn any(&self, tree: &Tree, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
        let is_there = |file: &u64| tree.states.file(*file) != FileState::Absent;
        let Some(file) = (0..tree.geometry.files()).find(is_there) else { return Ok(None) };
        let mut name = String::new();
        tree.geometry.file_name(file, &mut name);
        let path = format!("{}{name}", tree.geometry.path_of(tree.geometry.directory_of(file)));
        let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat2(self.directory(), path.as_str(), flags, Mode::empty(), BENEATH).map(Some)
    }
}
