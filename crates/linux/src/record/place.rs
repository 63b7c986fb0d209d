//! The directory that a recording is written into, held on to.
//!
//! A path may lead elsewhere a moment later: somebody removes the directory, moves it, or puts a
//! link in its place. What is written by the path would then go where nobody looks for it, or over
//! what belongs to others. So the directory is opened once, all files are made in that very one,
//! and now and then it is asked whether the path still leads to it.

use std::fs::{self, File};
use std::io::{
    self,
    ErrorKind::{NotADirectory, NotFound},
};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, fstatvfs, open, openat};

/// An open directory. Copies share it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    directory: Arc<File>,
    path: PathBuf,
}

impl Place {
    /// Opens the directory at `path`, which must not be a link to one.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = Arc::new(File::from(open(path, flags, Mode::empty())?));
        Ok(Self { directory, path: path.to_owned() })
    }

    /// The path that it was opened by.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a file in it, or empties the one that is there.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
    }

    /// Opens a file in it to write behind its end, and makes it if it is not there.
    pub(super) fn append(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)
    }

    /// Opens a file in it to read it.
    pub(super) fn read(&self, name: &str) -> io::Result<File> {
        self.open_file(name, OFlags::RDONLY)
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&*self.directory, name, flags, mode)?))
    }

    /// Brings the names of its files to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    /// How many bytes its file system has left for this user, and in all.
    pub(super) fn space(&self) -> io::Result<(u64, u64)> {
        let answer = fstatvfs(&*self.directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(answer.f_frsize);
        Ok((bytes(answer.f_bavail), bytes(answer.f_blocks)))
    }

    /// What became of it where its path no longer leads to it, as a phrase.
    pub(super) fn misplaced(&self) -> Option<String> {
        let own = self.directory.metadata().ok()?;
        let there = fs::symlink_metadata(&self.path);
        let is_same = |there: &fs::Metadata| (there.dev(), there.ino()) == (own.dev(), own.ino());
        match &there {
            Ok(there) if is_same(there) => return None,
            // A server that does not answer for a moment has not moved anything.
            Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => return None,
            _ => {}
        }
        let path = self.path.display();
        let now = fs::read_link(format!("/proc/self/fd/{}", self.directory.as_raw_fd()));
        let now = now.ok().filter(|now| fs::symlink_metadata(now).as_ref().is_ok_and(is_same));
        Some(match now {
            Some(now) => format!(
                "somebody moved its directory {path} to {}, where what was recorded is",
                now.display()
            ),
            None => format!("somebody removed its directory {path} with what was recorded"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_moved_or_removed_is_told_and_what_takes_its_place_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let (path, other) = (parent.path().join("recording"), parent.path().join("other"));
        fs::create_dir(&path).unwrap();
        fs::create_dir(&other).unwrap();
        let place = Place::open(&path).unwrap();
        assert_eq!(place.misplaced(), None);
        let moved = parent.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let told = place.misplaced().unwrap();
        assert!(told.contains("moved its directory") && told.ends_with("recorded is"), "{told}");
        assert!(told.contains(moved.to_str().unwrap()), "{told}");
        place.create("00000.cpu0").unwrap();
        assert!(moved.join("00000.cpu0").is_file());
        assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
        assert!(Place::open(&path).is_err(), "a link is no place");
        fs::remove_dir_all(&moved).unwrap();
        let told = place.misplaced().unwrap();
        assert!(told.contains("removed its directory"), "{told}");
        assert!(place.create("00000.cpu1").is_err());
    }
}
