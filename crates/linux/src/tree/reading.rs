//! Reading back the files of a tree.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use ioecho_replay::tree::Geometry;
use ioecho_replay::verify::ReadFiles;
use rustix::fs::{Mode, OFlags, openat2};
use rustix::io::{Errno, pread, retry_on_intr};

use super::anchor::{Anchor, BENEATH};
use super::inline::{ALIGNMENT, Buffer};

/// Reads files below an anchor, and changes nothing.
pub struct FilesReader {
    anchor: Anchor,
    geometry: Geometry,
    /// Past the page cache.
    direct: bool,
    buffer: Buffer,
    open: Option<(u64, OwnedFd)>,
}

impl FilesReader {
    /// A reader of a tree; reads are at most so long.
    pub fn new(anchor: Anchor, geometry: Geometry, direct: bool, length_max: usize) -> Self {
        let buffer = Buffer::new(length_max);
        Self { anchor, geometry, direct, buffer, open: None }
    }

    fn opened(&mut self, file: u64) -> Result<OwnedFd, Errno> {
        let mut path = self.geometry.path_of(self.geometry.directory_of(file));
        let mut name = String::new();
        self.geometry.file_name(file, &mut name);
        path.push_str(&name);
        // Whatever has come there since, nobody waits for it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags | if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        let anchor = self.anchor.directory().as_fd();
        retry_on_intr(|| openat2(anchor, path.as_str(), flags, Mode::empty(), BENEATH))
    }
}

impl ReadFiles for FilesReader {
    fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        if self.open.as_ref().is_none_or(|(number, _)| *number != file) {
            self.open = Some((file, self.opened(file)?));
        }
        let Some((_, open)) = &self.open else { return Ok(0) };
        let whole = into.len().next_multiple_of(ALIGNMENT);
        let buffer = self.buffer.part(whole);
        let mut done = 0;
        while done < into.len() {
            match retry_on_intr(|| pread(open, &mut buffer[done..], at + done as u64))? {
                0 => break,
                read => done += read,
            }
            // Only the end of a file ends a direct read elsewhere.
            if self.direct && !done.is_multiple_of(ALIGNMENT) {
                break;
            }
        }
        let done = done.min(into.len());
        into[..done].copy_from_slice(&buffer[..done]);
        Ok(done)
    }
}
