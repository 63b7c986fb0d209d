//! Opens only regular files.
//!
//! In a library or a run from someone else, one of the files may be replaced: by a pipe that nobody
//! writes to, by an endless device, or by a link to a file outside. A name that the user types may
//! be anything; a name in a directory may not.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;

use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Source, TraceError};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// Opens a pipe without waiting for its other end; the pipe is then refused.
const READING: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens a file for reading, also through a link.
///
/// # Errors
/// If it cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let file = rustix::fs::open(path, READING, Mode::empty())?;
    regular(file)
}

/// Opens a file below a directory: each of the names is within the one before. None may be a link.
///
/// # Errors
/// If it cannot be opened, one of the names is a link, or it is not a regular file.
pub fn open_below(directory: &Path, names: &[&str]) -> io::Result<File> {
    let way = READING | OFlags::DIRECTORY;
    let mut place = rustix::fs::open(directory, way, Mode::empty())?;
    let (name, above) = names.split_last().ok_or(io::ErrorKind::InvalidInput)?;
    for step in above {
        place = openat(&place, *step, way | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| led_away(error, step))?;
    }
    let file = openat(&place, *name, READING | OFlags::NOFOLLOW, Mode::empty());
    regular(file.map_err(|error| led_away(error, name))?)
}

/// Reads such a file as a whole.
///
/// # Errors
/// As [`open_below`], and if it cannot be read.
pub fn read_below(directory: &Path, names: &[&str]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_below(directory, names)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a regular file as a whole, also through a link.
///
/// # Errors
/// As [`open`], and if it cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a trace in a directory, which the formats themselves would also read from a pipe.
///
/// # Errors
/// As [`open`], and if it is not a trace.
pub fn trace(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    open(path).map_err(|error| TraceError::read(path, error))?;
    formats::open(path, options)
}

fn regular(file: OwnedFd) -> io::Result<File> {
    let file = File::from(file);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"))
}

/// Reports a link as a link, because the system's own message is puzzling.
fn led_away(error: Errno, name: impl AsRef<OsStr>) -> io::Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => {
            let name = name.as_ref().display();
            let text = format!("{name} is a link, or no directory, and leads elsewhere");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_files_are_opened_and_nothing_waits() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink(path("file"), path("link")).unwrap();
        symlink("/dev/zero", path("zeroes")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        for good in ["file", "link"] {
            assert!(open(&path(good)).is_ok(), "{good}");
        }
        for bad in ["pipe", "zeroes", "none", "."] {
            assert!(open(&path(bad)).is_err(), "{bad}");
        }
        assert!(open_below(directory.path(), &["file"]).is_ok());
        for bad in ["link", "pipe", "zeroes", "none", "."] {
            assert!(open_below(directory.path(), &[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_link_leads_out_of_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("load")).unwrap();
        fs::write(path("load/file"), "x").unwrap();
        symlink(path("load"), path("other")).unwrap();
        assert_eq!(read_below(directory.path(), &["load", "file"]).unwrap(), b"x");
        let error = read_below(directory.path(), &["other", "file"]).unwrap_err();
        assert!(error.to_string().contains("other is a link"), "{error}");
        let missing = read_below(directory.path(), &["load", "none"]).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
