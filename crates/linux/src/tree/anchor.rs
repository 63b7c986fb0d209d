//! The directory that a tree of files lies in.
//!
//! A typing error in its name must not cost anybody's files. So only names of the tree are ever
//! removed, and only below an anchor that was empty, that bears our mark, or that Vdbench made;
//! what else lies there is left and told. Everything is opened beneath the anchor, and no link is
//! followed, so nothing that somebody puts there leads out of it.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ioecho_replay::tree::{CONTROL, DirectoryName, Geometry, MARKER, Tree, file_number};
use ioecho_replay::verify::{FoundName, FoundNames};
use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, flock, open, openat,
    openat2, statat, syncfs,
};
use rustix::io::Errno;

use super::mark::{Mark, is_draft};
use crate::{OpenDirectory, mounts};

/// How a path below an anchor is resolved.
pub(super) const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What an anchor is before a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorState {
    /// It is not there.
    Absent,
    /// It is an empty directory.
    Empty,
    /// It bears our mark.
    Ours,
    /// What has the name of our mark in it is none, so it is somebody's.
    FalseMark,
    /// Vdbench made it.
    Vdbench,
    /// It is a directory with something in it, such as this, and without a mark.
    Foreign(String),
}

/// What an anchor is.
///
/// # Errors
///
/// If it cannot be looked at, or is no directory.
pub fn inspect(path: &Path) -> io::Result<AnchorState> {
    let entries = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AnchorState::Absent),
        Err(error) => return Err(error),
        Ok(data) if !data.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => fs::read_dir(path)?,
    };
    let is_there = |name: &str| fs::symlink_metadata(path.join(name)).is_ok_and(|it| it.is_file());
    // It would be overwritten, so it decides alone, whatever else is there.
    match fs::symlink_metadata(path.join(MARKER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => {
            let is_ours = is_there(MARKER) && mark_of(path)?.is_some();
            return Ok(if is_ours { AnchorState::Ours } else { AnchorState::FalseMark });
        }
    }
    if is_there(CONTROL) {
        return Ok(AnchorState::Vdbench);
    }
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !is_ours(&name) {
            return Ok(AnchorState::Foreign(name));
        }
    }
    Ok(AnchorState::Empty)
}

/// The directory with the results of the run that changed the tree of this anchor last, as its mark
/// has it.
pub fn changed_by(path: &Path) -> Option<PathBuf> {
    Mark::read(path).ok()??.results
}

/// The marked tree that a path lies in, from its directory upwards. The path need not be there, and
/// leads nowhere else.
pub fn tree_around(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|above| matches!(Mark::read(above), Ok(Some(_))))
}

/// The mark of an anchor. One that its user may not read is none for him.
fn mark_of(path: &Path) -> io::Result<Option<Mark>> {
    match Mark::read(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        read => read,
    }
}

/// An anchor that is open.
#[derive(Clone, Debug)]
pub struct Anchor {
    directory: Arc<OwnedFd>,
    path: PathBuf,
}

/// What was found below an anchor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Files of the tree.
    pub files: u64,
    /// Directories of the tree.
    pub directories: u64,
    /// What is not of the tree.
    pub foreign: u64,
    /// One of those.
    pub example: Option<PathBuf>,
    /// A file of the tree that has another name too, by which it may be somebody's data.
    pub linked: Option<PathBuf>,
}

impl Anchor {
    /// Opens an anchor for a run. If the run changes it, it is made where it is not there, with
    /// those above it if `with_parents`, and marked; and no other run may have it.
    ///
    /// # Errors
    ///
    /// If it cannot be opened or made, or another run works in it.
    pub fn open(path: &Path, changes: bool, with_parents: bool) -> io::Result<Self> {
        if changes && !path.exists() {
            if with_parents { fs::create_dir_all(path) } else { fs::create_dir(path) }?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty())?;
        let lock = if changes {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match flock(&directory, lock) {
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another run works in it"));
            }
            // A file system without locks keeps nobody out.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { directory: Arc::new(directory), path: path.to_owned() })
    }

    /// Marks the anchor as one whose tree may be removed, and as changed last by the run with these
    /// results.
    ///
    /// # Errors
    ///
    /// If the mark cannot be written.
    pub fn mark(&self, tree: &Tree, results: &Path) -> io::Result<()> {
        // In one step: half a mark, such as after a crash, would be none.
        let directory = OpenDirectory::of(self.directory.try_clone()?, &self.path);
        let bytes = Mark::new(&tree.geometry, results).to_bytes();
        directory.put(MARKER, &bytes).or_else(|error| match error.kind() {
            // Its tree may be what fills the file system, and must be removable all the same.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                self.write_over_mark(&bytes).map_err(|_| error)
            }
            _ => Err(error),
        })
    }

    /// Writes over the mark that is there, which needs no room. It is never emptied first.
    fn write_over_mark(&self, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = fs::File::from(openat(&self.directory, MARKER, flags, Mode::empty())?);
        let data = file.metadata()?;
        // By another name it may be the mark of another tree.
        if !data.is_file() || data.nlink() > 1 {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        file.write_all_at(bytes, 0)?;
        file.set_len(bytes.len() as u64)
    }

    /// Brings everything on its file system to the medium.
    ///
    /// # Errors
    ///
    /// If that fails.
    pub fn sync(&self) -> io::Result<()> {
        Ok(syncfs(self.directory.as_fd())?)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The type of the file system that it lies on, and where that is mounted.
    pub fn file_system(&self) -> Option<(String, PathBuf)> {
        let device = fs::metadata(&self.path).ok()?.dev();
        let mount = mounts::mounts().into_iter().rev().find(|mount| mount.dev == device)?;
        Some((mount.kind, mount.point))
    }

    pub(super) fn directory(&self) -> &Arc<OwnedFd> {
        &self.directory
    }

    /// Finds out what of the tree is there. A foreign file keeps its directory from being removed.
    ///
    /// # Errors
    ///
    /// If a directory cannot be read; [`io::ErrorKind::Interrupted`] if `stop` is raised meanwhile.
    pub fn look(&self, tree: &Tree, stop: &AtomicBool) -> io::Result<Found> {
        let mut found = Found::default();
        self.walk(&tree.geometry, stop, &mut |seen| match seen {
            Seen::File { file, bytes, is_linked } => {
                tree.put_file(file, bytes);
                found.files += 1;
                if is_linked {
                    found.linked.get_or_insert_with(|| self.path_of(&tree.geometry, file));
                }
            }
            Seen::Directory { directory } => {
                tree.put_directory(directory);
                found.directories += 1;
            }
            Seen::Foreign { directory, name, .. } => {
                found.foreign += 1;
                found.example.get_or_insert_with(|| {
                    self.path.join(tree.geometry.path_of(directory)).join(name)
                });
                if let Some(directory) = directory {
                    tree.states.add_child(directory);
                }
            }
        })?;
        Ok(found)
    }

    fn path_of(&self, geometry: &Geometry, file: u64) -> PathBuf {
        let mut name = String::new();
        geometry.file_name(file, &mut name);
        self.path.join(geometry.path_of(geometry.directory_of(file))).join(name)
    }

    /// Finds out which names of a tree are there, and what is under them.
    ///
    /// # Errors
    ///
    /// If a directory cannot be read.
    pub fn names(&self, geometry: &Geometry) -> io::Result<FoundNames> {
        let mut found = FoundNames::nothing(geometry);
        self.walk(geometry, &AtomicBool::new(false), &mut |seen| match seen {
            Seen::File { file, bytes, .. } => found.add_file(file, bytes),
            Seen::Directory { directory } => found.add_directory(directory),
            Seen::Foreign { file: Some(file), is_directory: true, .. } => {
                found.add_other_file(file, FoundName::Directory);
            }
            Seen::Foreign { file: Some(file), .. } => found.add_other_file(file, FoundName::Other),
            Seen::Foreign { below: Some(below), .. } => found.add_other_directory(below),
            Seen::Foreign { .. } => {}
        })?;
        Ok(found)
    }

    /// Goes through all that is there, a directory before what lies in it.
    fn walk(
        &self,
        geometry: &Geometry,
        stop: &AtomicBool,
        see: &mut dyn FnMut(Seen<'_>),
    ) -> io::Result<()> {
        let mut left = vec![None];
        while let Some(directory) = left.pop() {
            let path = geometry.path_of(directory);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let at = if path.is_empty() { "." } else { path.as_str() };
            let opened = openat2(self.directory.as_fd(), at, flags, Mode::empty(), BENEATH)?;
            for entry in Dir::read_from(&opened)? {
                let entry = entry?;
                if stop.load(Relaxed) {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let name = entry.file_name().to_string_lossy();
                if matches!(&*name, "." | "..") {
                    continue;
                }
                let data = statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                let kind = FileType::from_raw_mode(data.st_mode);
                let is_directory = kind == FileType::Directory;
                let file =
                    file_number(&name).and_then(|number| geometry.file_in(directory, number));
                let below =
                    DirectoryName::parse(&name).and_then(|name| geometry.child(directory, name));
                match (file, below) {
                    (Some(file), _) if kind == FileType::RegularFile => {
                        let bytes = data.st_size.unsigned_abs();
                        let is_linked = data.st_nlink > 1;
                        see(Seen::File { file, bytes, is_linked });
                    }
                    (_, Some(below)) if is_directory => {
                        see(Seen::Directory { directory: below });
                        left.push(Some(below));
                    }
                    _ if directory.is_some() || !is_ours(&name) => {
                        let name = &*name;
                        see(Seen::Foreign { directory, name, file, below, is_directory });
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Something below an anchor.
enum Seen<'n> {
    /// A file of the tree, and whether it has another name.
    File { file: u64, bytes: u64, is_linked: bool },
    /// A directory of the tree.
    Directory { directory: u64 },
    /// Something else in a directory, or in the anchor. It may have the name of one of the tree's
    /// files or directories, and be of another kind.
    Foreign {
        directory: Option<u64>,
        name: &'n str,
        file: Option<u64>,
        below: Option<u64>,
        is_directory: bool,
    },
}

/// Whether this is a name that an anchor has beside its tree. A file system of its own has
/// `lost+found`.
fn is_ours(name: &str) -> bool {
    [MARKER, CONTROL, "lost+found"].contains(&name) || is_draft(name)
}
