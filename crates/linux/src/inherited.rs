//! Descriptors that the process got from the one that started it.
//!
//! A number on the command line may be that of no open file, or of one that cannot be read or
//! written. It must neither be taken from whoever else in the process uses it, nor be passed on to
//! programs that this process starts: the other side would wait for their end too.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

/// Duplicates are made with no smaller number: the first three are the standard streams.
const FIRST: RawFd = 3;

/// A duplicate of the open descriptor of this number, from 3 on, which must be open for this
/// access. Programs that are started later do not get the descriptor itself either.
///
/// # Errors
/// If there is no such descriptor, or it is not open for the access.
pub fn inherited(number: RawFd, access: Use) -> io::Result<File> {
    if number < FIRST {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the descriptor is used within this function only. If its number is that of no open
    // file, the kernel says so (EBADF). Nothing else in this process closes descriptors that it
    // did not open.
    let theirs = unsafe { BorrowedFd::borrow_raw(number) };
    let mine: OwnedFd = fcntl_dupfd_cloexec(theirs, FIRST)?;
    fcntl_setfd(theirs, FdFlags::CLOEXEC)?;
    let mode = fcntl_getfl(&mine)? & OFlags::ACCMODE;
    let is_open_for_it = match access {
        Use::Reading => mode != OFlags::WRONLY,
        Use::Writing => mode != OFlags::RDONLY,
    };
    if is_open_for_it { Ok(mine.into()) } else { Err(Errno::BADF.into()) }
}

/// What a descriptor is to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is read.
    Reading,
    /// It is written to.
    Writing,
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_pipe_is_taken_by_its_number_from_the_side_that_it_has() {
        let (reader, writer) = io::pipe().unwrap();
        let (from, to) = (reader.as_raw_fd(), writer.as_raw_fd());
        let mut mine = inherited(to, Use::Writing).unwrap();
        mine.write_all(b"armed\n").unwrap();
        drop((mine, writer));
        let mut text = String::new();
        inherited(from, Use::Reading).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "armed\n");
        assert!(inherited(from, Use::Writing).is_err());
        assert!(inherited(99_999, Use::Reading).is_err());
        assert!(inherited(0, Use::Reading).is_err());
    }
}
