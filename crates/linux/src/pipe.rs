//! Opening a named pipe without being held up by it.
//!
//! Opening a pipe for writing blocks in the kernel until somebody reads, and a signal whose handler
//! only sets a flag does not end that. So it is opened without blocking, and a caller that wants to
//! wait for a reader tries again.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a named pipe to write to it; `None` while nobody has it open to read. Writes still wait
/// for a slow reader.
///
/// # Errors
///
/// The pipe cannot be opened.
pub fn open_to_write(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(pipe) => {
            let flags = rustix::fs::fcntl_getfl(&pipe)?;
            rustix::fs::fcntl_setfl(&pipe, flags - OFlags::NONBLOCK)?;
            Ok(Some(pipe.into()))
        }
        // fifo(7): there is no reader.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
