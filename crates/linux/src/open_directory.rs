//! A directory that is kept open while files are written into it.
//!
//! A path may lead elsewhere a moment later: somebody removes the directory, moves it, or puts a
//! link in its place. Files written by the path would then go to the wrong place, or overwrite
//! somebody's data. So the directory is opened once, all files are made through that descriptor, no
//! link in it is followed, and now and then it is checked that the path still leads to it.
//!
//! The owner of a directory can also replace the names in it. So files that root writes in another
//! user's directory may end up anywhere; [`OpenDirectory::stranger`] returns that user.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{
    self,
    ErrorKind::{AlreadyExists, NotADirectory, NotFound},
    Write as _,
};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, fstatvfs, mkdirat, open, openat, renameat, unlinkat};
use rustix::process::geteuid;

/// How much of a name is kept in that of its draft: names have at most 255 bytes.
const NAME_BYTES: usize = 200;

/// An open directory. Copies share it.
#[derive(Clone, Debug)]
pub struct OpenDirectory {
    directory: Arc<File>,
    path: PathBuf,
}

impl OpenDirectory {
    /// Opens the directory at `path`, which must not be a link to one.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::opened(path, OFlags::NOFOLLOW)
    }

    /// Opens the directory at `path`, or the one that a link there leads to.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::opened(path, OFlags::empty())
    }

    fn opened(path: &Path, flags: OFlags) -> io::Result<Self> {
        let flags = flags | OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = Arc::new(File::from(open(path, flags, Mode::empty())?));
        Ok(Self { directory, path: path.to_owned() })
    }

    /// The directory that is open here, and was opened by this path.
    pub(crate) fn of(directory: OwnedFd, path: &Path) -> Self {
        Self { directory: Arc::new(File::from(directory)), path: path.to_owned() }
    }

    /// The directory that a file of this path lies in, and the file's name there.
    pub fn of_file(path: &Path) -> io::Result<(Self, OsString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((Self::at(above(path))?, name.to_owned()))
    }

    /// Makes the directory in the one above it, which is there, and opens it.
    pub fn make(path: &Path) -> io::Result<Self> {
        let (above, name) = Self::of_file(path)?;
        let made = above.make_in(&name)?;
        Ok(Self { path: path.to_owned(), ..made })
    }

    /// Makes a directory in this one, and opens it.
    pub fn make_in(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let name = name.as_ref();
        mkdirat(&*self.directory, name, Mode::from_raw_mode(0o777))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&*self.directory, name, flags, Mode::empty())?;
        Ok(Self { directory: Arc::new(File::from(directory)), path: self.path.join(name) })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of another user who owns it and could replace the files in it, if that matters:
    /// if root writes, or if it lies where anybody may make directories. The user who became root
    /// by sudo does not count as another.
    pub fn stranger(&self) -> io::Result<Option<u32>> {
        let owner = self.directory.metadata()?.uid();
        let own = geteuid().as_raw();
        let caller = || std::env::var("SUDO_UID").ok()?.parse::<u32>().ok();
        if owner == own || owner == 0 || own == 0 && caller() == Some(owner) {
            return Ok(None);
        }
        let above = rustix::fs::statat(&*self.directory, "..", AtFlags::empty())?;
        let is_anybodys = Mode::from_raw_mode(above.st_mode).contains(Mode::SVTX);
        Ok((own == 0 || is_anybodys).then_some(owner))
    }

    /// Makes a file in it, or empties the one that is there.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC)
    }

    /// Makes a file in it, to be read as well, where there is nothing of this name.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Opens a file in it to write behind its end, and makes it if it is not there. Refuses what is
    /// no file, and a file that has another name too, which may be that of somebody's data.
    pub fn append(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK;
        let file = self.open_file(name.as_ref(), flags)?;
        Self::is_its_own(&file)?;
        Ok(file)
    }

    /// Opens the file of this name to write over it from its beginning, and makes it if it is not
    /// there, on the same terms as [`append`](Self::append). What it held is gone then.
    pub fn write_over(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        let file = self.open_file(name.as_ref(), flags)?;
        Self::is_its_own(&file)?;
        file.set_len(0)?;
        Ok(file)
    }

    fn is_its_own(file: &File) -> io::Result<()> {
        let data = file.metadata()?;
        if data.is_file() && data.nlink() == 1 {
            return Ok(());
        }
        let text = if data.is_file() {
            "it is a file with a second name, by which it may be somebody's data"
        } else {
            "it is no file"
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// Opens a file in it to read it.
    pub fn read(&self, name: &str) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDONLY)
    }

    fn open_file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&*self.directory, name, flags, mode)?))
    }

    /// Replaces the file of this name by these bytes in one step: a reader gets, at any moment,
    /// either all of them or the earlier content. The bytes reach the disk before the name does.
    /// The permissions of a replaced file are kept.
    pub fn put(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.give(name.as_ref(), bytes, true)
    }

    /// The same without waiting for the disk, for files that are replaced every second.
    pub fn put_soon(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.give(name.as_ref(), bytes, false)
    }

    fn give(&self, name: &OsStr, bytes: &[u8], to_disk: bool) -> io::Result<()> {
        let (draft, mut file) = self.draft(name)?;
        let mut write = || {
            let there = rustix::fs::statat(&*self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(there) = there.as_ref().map(|there| there.st_mode)
                && rustix::fs::FileType::from_raw_mode(there).is_file()
            {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(there))?;
            }
            file.write_all(bytes)?;
            if to_disk {
                file.sync_all()?;
            }
            self.rename(&draft, name)
        };
        // The error that matters is the one at hand.
        write().inspect_err(|_| _ = self.remove(&draft))
    }

    /// A new file beside the one of this name, and what it is called: `.NAME.PID.partial`, or with
    /// a number where somebody has taken that.
    fn draft(&self, name: &OsStr) -> io::Result<(OsString, File)> {
        let bytes = name.as_bytes();
        let short = &bytes[..bytes.len().min(NAME_BYTES)];
        let process = std::process::id();
        for number in 0_u32..1 << 16 {
            let ending = match number {
                0 => format!(".{process}.partial"),
                _ => format!(".{process}.{number}.partial"),
            };
            let draft = OsStr::from_bytes(&[b".", short, ending.as_bytes()].concat()).to_owned();
            match self.create_new(&draft) {
                Err(error) if error.kind() == AlreadyExists => {}
                made => return Ok((draft, made?)),
            }
        }
        Err(AlreadyExists.into())
    }

    /// Gives a file in it another name, which is taken away from whatever has it.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&*self.directory, from.as_ref(), &*self.directory, to.as_ref())?)
    }

    /// Gives a file in it a name in another directory of the same file system.
    pub fn move_to(&self, from: impl AsRef<OsStr>, to: &Self, name: &OsStr) -> io::Result<()> {
        Ok(renameat(&*self.directory, from.as_ref(), &*to.directory, name)?)
    }

    /// Removes a file, or a link, in it.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&*self.directory, name.as_ref(), AtFlags::empty())?)
    }

    /// The directory itself, for whoever locks it.
    pub fn file(&self) -> &File {
        &self.directory
    }

    /// Brings the names of its files to the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    /// How many bytes its file system has left for this user, and in all.
    pub fn space(&self) -> io::Result<(u64, u64)> {
        let answer = fstatvfs(&*self.directory)?;
        let bytes = |blocks: u64| blocks.saturating_mul(answer.f_frsize);
        Ok((bytes(answer.f_bavail), bytes(answer.f_blocks)))
    }

    /// What happened to it, if its path no longer leads to it, as a phrase.
    pub fn misplaced(&self) -> Option<String> {
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

/// The directory that a path lies in, by a name that can be opened.
fn above(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
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
        let place = OpenDirectory::open(&path).unwrap();
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
        assert!(OpenDirectory::open(&path).is_err(), "a link is no place");
        fs::remove_dir_all(&moved).unwrap();
        let told = place.misplaced().unwrap();
        assert!(told.contains("removed its directory"), "{told}");
        assert!(place.create("00000.cpu1").is_err());
    }

    #[test]
    fn what_is_planted_where_a_file_goes_is_never_followed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("precious"), "precious").unwrap();
        let place = OpenDirectory::open(directory.path()).unwrap();
        let draft = format!(".x.{}.partial", std::process::id());
        for name in ["x", &draft, "log", "new"] {
            std::os::unix::fs::symlink(path("precious"), path(name)).unwrap();
        }
        place.put("x", b"bytes").unwrap();
        assert!(!path("x").is_symlink() && fs::read(path("x")).unwrap() == b"bytes");
        place.append("log").unwrap_err();
        place.write_over("log").unwrap_err();
        place.create_new("new").unwrap_err();
        fs::hard_link(path("precious"), path("hard")).unwrap();
        place.append("hard").unwrap_err();
        place.write_over("hard").unwrap_err();
        assert_eq!(fs::read(path("precious")).unwrap(), b"precious");
        assert!(path(&draft).is_symlink(), "nor is it taken away");
    }

    #[test]
    fn a_file_that_is_put_keeps_the_permissions_of_the_one_before() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        OpenDirectory::open(directory.path()).unwrap().put("x", b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_directory_of_another_user_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("theirs");
        let place = OpenDirectory::make(&path).unwrap();
        assert_eq!(place.stranger().unwrap(), None);
        assert_eq!(OpenDirectory::make(&path).unwrap_err().kind(), AlreadyExists);
        // Only root can give a directory away.
        if std::os::unix::fs::chown(&path, Some(65533), None).is_ok() {
            assert_eq!(place.stranger().unwrap(), Some(65533));
        }
    }
}
