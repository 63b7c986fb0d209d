//! The calls of one thread on a tree of files.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ioecho_replay::Io;
use ioecho_replay::tree::Tree;
use ioecho_trace::{Bytes, Op, Outcome};
use rustix::fs::{
    Access, AtFlags, Mode, OFlags, RenameFlags, Timestamps, accessat, copy_file_range, fsync,
    mkdirat, openat2, renameat, renameat_with, statat, unlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use rustix::path::Arg;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;

use super::anchor::{Anchor, BENEATH};
use super::inline::{Buffer, Calls, Inline, close_told, transfer};
use crate::MonotonicClock;

/// The most directories of a tree that a thread keeps open.
const KEPT_MAX: usize = 256;

/// Nobody waits for a file to be opened: a FIFO that somebody puts in its place meanwhile would
/// hold the thread for good, out of reach of every end of the run. The calls on what was opened
/// fail then, because a FIFO has no places. A regular file does not mind: its reads and writes are
/// the same.
const AT_ONCE: OFlags = OFlags::NONBLOCK;

/// So much is copied at a time where the kernel does not copy by itself.
const COPY_BYTES: usize = 1 << 20;

/// How files are opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesOptions {
    /// Past the page cache.
    pub direct: bool,
    /// Writes are on the medium when they complete.
    pub sync: bool,
    /// Files are brought to the medium before they are closed.
    pub fsync_at_close: bool,
    /// Whether files are opened to be written.
    pub writes: bool,
    /// The longest read or write.
    pub length_max: u64,
    /// How many directories of a tree are kept open, at least one ([`kept_by_each`]).
    pub kept_max: usize,
}

/// Lets this process have as many descriptors as so many threads want, as far as it may, and
/// answers how many directories of a tree each of them can keep open: all together leave half of
/// the descriptors to others.
pub fn kept_by_each(threads: usize) -> usize {
    // Copies and moves have two trees.
    let threads = 2 * threads.max(1) as u64;
    let wanted = 2 * threads.saturating_mul(KEPT_MAX as u64);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let more = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        // Where that is refused, fewer are kept.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(more), ..limit });
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    usize::try_from(current / 2 / threads).unwrap_or(KEPT_MAX).clamp(1, KEPT_MAX)
}

/// A thread's device: a tree below an anchor.
pub type FilesDevice = Inline<Files>;

/// The calls of a thread.
pub struct Files {
    here: Place,
    /// The other tree of copies and moves.
    there: Option<Place>,
    options: FilesOptions,
    /// The file that is open, by its number.
    open: Option<(u64, OwnedFd)>,
    name: String,
}

/// A tree and its anchor.
struct Place {
    anchor: Anchor,
    tree: Arc<Tree>,
    /// Those that are kept open, each at the place that its number gives.
    directories: Vec<Option<(u64, OwnedFd)>>,
}

impl Place {
    /// Opens a directory of the tree.
    fn opened(&self, directory: u64) -> Result<OwnedFd, Errno> {
        let path = self.tree.geometry.path_of(Some(directory));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let anchor = self.anchor.directory().as_fd();
        retry_on_intr(|| openat2(anchor, path.as_str(), flags, Mode::empty(), BENEATH))
    }

    /// Does something in a directory of the tree, or in the anchor.
    fn within<T>(
        &mut self,
        directory: Option<u64>,
        call: impl Fn(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let Some(directory) = directory else { return call(self.anchor.directory().as_fd()) };
        if let Some(open) = self.kept(directory) {
            match call(open) {
                // It may have been removed and made again since it was opened.
                Err(Errno::NOENT) => self.forget(directory),
                done => return done,
            }
        }
        let open = self.opened(directory)?;
        let done = call(open.as_fd());
        let place = self.place_of(directory);
        self.directories[place] = Some((directory, open));
        done
    }

    /// The directory, if it is kept open.
    fn kept(&self, directory: u64) -> Option<BorrowedFd<'_>> {
        let kept = self.directories[self.place_of(directory)].as_ref();
        kept.filter(|(number, _)| *number == directory).map(|(_, open)| open.as_fd())
    }

    fn forget(&mut self, directory: u64) {
        if self.kept(directory).is_some() {
            let place = self.place_of(directory);
            self.directories[place] = None;
        }
    }

    /// Where a directory is kept.
    fn place_of(&self, directory: u64) -> usize {
        directory as usize % self.directories.len()
    }
}

impl FilesDevice {
    /// The device of a thread.
    pub fn new(
        (anchor, tree): (Anchor, Arc<Tree>),
        there: Option<(Anchor, Arc<Tree>)>,
        options: FilesOptions,
        clock: MonotonicClock,
    ) -> Self {
        let directories = || (0..options.kept_max.max(1)).map(|_| None).collect();
        let place = |(anchor, tree)| Place { anchor, tree, directories: directories() };
        let files = Files {
            here: place((anchor, tree)),
            there: there.map(place),
            options,
            open: None,
            name: String::new(),
        };
        let room_bytes = usize::try_from(options.length_max).unwrap_or(usize::MAX >> 1);
        Self::over(files, room_bytes, clock)
    }
}

impl Files {
    fn flags(&self) -> OFlags {
        let when = |is_set: bool, flag: OFlags| if is_set { flag } else { OFlags::empty() };
        OFlags::CLOEXEC
            | OFlags::NOFOLLOW
            | OFlags::NOCTTY
            | AT_ONCE
            | when(self.options.direct, OFlags::DIRECT)
            | when(self.options.sync, OFlags::SYNC)
    }

    fn open_file(&mut self, file: u64, is_new: bool) -> Result<(), Errno> {
        let access = if is_new || self.options.writes { OFlags::RDWR } else { OFlags::RDONLY };
        let new = if is_new { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
        let flags = self.flags() | access | new;
        let mode = if is_new { Mode::from_raw_mode(0o666) } else { Mode::empty() };
        let directory = self.name_of(file);
        let name = self.name.as_str();
        let open = self
            .here
            .within(directory, |at| retry_on_intr(|| openat2(at, name, flags, mode, BENEATH)))?;
        self.open = Some((file, open));
        Ok(())
    }

    /// Writes the name of a file to [`Self::name`]; returns its directory.
    fn name_of(&mut self, file: u64) -> Option<u64> {
        self.here.tree.geometry.file_name(file, &mut self.name);
        self.here.tree.geometry.directory_of(file)
    }

    fn close(&mut self) -> Result<(), Errno> {
        let Some((_, open)) = self.open.take() else { return Err(Errno::BADF) };
        if self.options.fsync_at_close {
            fsync(&open)?;
        }
        close_told(open)
    }

    /// Reads or writes in the file that is open.
    fn transfer(&self, io: &Io, file: u64, buffer: &mut Buffer) -> Result<Outcome, Errno> {
        let within = self.here.tree.geometry.within(io.offset.0);
        let open = self.open.as_ref().filter(|(number, _)| *number == file);
        let (_, open) = open.ok_or(Errno::BADF)?;
        transfer(open, io, (within, false), buffer)
    }

    /// Does something with the name of a file.
    fn by_name<T>(
        &mut self,
        file: u64,
        call: impl Fn(BorrowedFd<'_>, &str) -> Result<T, Errno>,
    ) -> Result<(), Errno> {
        let directory = self.name_of(file);
        let name = self.name.as_str();
        self.here.within(directory, |at| retry_on_intr(|| call(at, name))).map(|_| ())
    }

    /// Makes or removes a directory.
    fn directory(&mut self, directory: u64, makes: bool) -> Result<(), Errno> {
        let geometry = &self.here.tree.geometry;
        let name = geometry.directory_name(directory).to_string();
        let parent = geometry.parent(directory);
        self.here.forget(directory);
        self.here.within(parent, |at| {
            if makes {
                mkdirat(at, name.as_str(), Mode::from_raw_mode(0o777))
            } else {
                unlinkat(at, name.as_str(), AtFlags::REMOVEDIR)
            }
        })
    }

    /// Copies a file to the other tree.
    fn copy(&mut self, file: u64) -> Result<(), Errno> {
        self.open_for_copy(file)?;
        let Some((_, from)) = self.open.take() else { return Err(Errno::BADF) };
        let name = self.name.clone();
        let Some(there) = &mut self.there else { return Err(Errno::NOENT) };
        let directory = there.tree.geometry.directory_of(file);
        let is_new = there.tree.states.file(file) == ioecho_replay::tree::FileState::Absent;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | AT_ONCE;
        let mode = Mode::from_raw_mode(0o666);
        let to = there.within(directory, |at| {
            let flags = flags | OFlags::CLOEXEC;
            retry_on_intr(|| openat2(at, name.as_str(), flags, mode, BENEATH))
        })?;
        let copied = copy_all(&from, &to);
        if copied.is_err() && is_new {
            // What was copied so far is no file of the tree.
            there.within(directory, |at| unlinkat(at, name.as_str(), AtFlags::empty()))?;
        }
        copied
    }

    fn open_for_copy(&mut self, file: u64) -> Result<(), Errno> {
        let directory = self.name_of(file);
        let name = self.name.as_str();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | AT_ONCE;
        let from = self.here.within(directory, |at| {
            retry_on_intr(|| openat2(at, name, flags, Mode::empty(), BENEATH))
        })?;
        self.open = Some((file, from));
        Ok(())
    }

    /// Moves a file to the other tree.
    fn rename(&mut self, file: u64) -> Result<(), Errno> {
        let directory = self.name_of(file);
        let name = self.name.as_str();
        let Some(there) = &mut self.there else { return Err(Errno::NOENT) };
        let other = there.tree.geometry.directory_of(file);
        let here = &mut self.here;
        // The other directory is opened first, so that both are at hand.
        there.within(other, |_| Ok(()))?;
        here.within(directory, |from| {
            let to = match other.and_then(|other| there.kept(other)) {
                Some(open) => open,
                None => there.anchor.directory().as_fd(),
            };
            match renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
                // A file system that cannot promise it.
                Err(Errno::INVAL | Errno::NOSYS) => renameat(from, name, to, name),
                done => done,
            }
        })
    }
}

fn outcome(error: Errno) -> Outcome {
    Outcome::Error(error.raw_os_error())
}

/// Sets both times of a file to now.
pub(super) fn touch(at: BorrowedFd<'_>, name: impl Arg) -> Result<(), Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    utimensat(at, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

/// Copies all of a file: in the kernel where it can.
fn copy_all(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    let mut copied = 0_u64;
    loop {
        match retry_on_intr(|| copy_file_range(from, None, to, None, 1 << 30)) {
            Ok(0) => return Ok(()),
            Ok(part) => copied += part as u64,
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if copied == 0 => {
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut bytes = vec![0; COPY_BYTES];
    loop {
        // By place, which a FIFO does not have: it is no file without data.
        let part = retry_on_intr(|| pread(from, &mut bytes[..], copied))?;
        if part == 0 {
            return Ok(());
        }
        let end = copied + part as u64;
        while copied < end {
            let left = &bytes[part - (end - copied) as usize..part];
            copied += retry_on_intr(|| pwrite(to, left, copied))? as u64;
        }
    }
}

impl Calls for Files {
    fn capacity(&self) -> Bytes {
        self.here.tree.geometry.extent()
    }

    fn length_max(&self) -> Bytes {
        Bytes(self.options.length_max)
    }

    fn supports(&self, op: Op) -> bool {
        match op {
            Op::Rename | Op::Link | Op::Symlink | Op::Fsync | Op::Truncate | Op::Readdir => false,
            op => matches!(op, Op::Read | Op::Write) || op.is_of_files(),
        }
    }

    fn call(&mut self, io: &Io, buffer: &mut Buffer) -> Outcome {
        let geometry = &self.here.tree.geometry;
        let number = geometry.number_at(io.offset.0);
        let directory = number.wrapping_sub(geometry.files());
        let done = match io.op {
            Op::Read | Op::Write => {
                return self.transfer(io, number, buffer).unwrap_or_else(outcome);
            }
            Op::Create => self.open_file(number, true),
            Op::Open => self.open_file(number, false),
            Op::Close => self.close(),
            Op::Delete => self.by_name(number, |at, name| unlinkat(at, name, AtFlags::empty())),
            Op::Getattr => {
                self.by_name(number, |at, name| statat(at, name, AtFlags::SYMLINK_NOFOLLOW))
            }
            Op::Setattr => self.by_name(number, |at, name| touch(at, name)),
            Op::Access => self
                .by_name(number, |at, name| accessat(at, name, Access::READ_OK, AtFlags::empty())),
            Op::Mkdir => self.directory(directory, true),
            Op::Rmdir => self.directory(directory, false),
            Op::Copy => self.copy(number),
            Op::Move => self.rename(number),
            _ => Err(Errno::OPNOTSUPP),
        };
        done.map_or_else(outcome, |()| Outcome::Ok)
    }

    fn describe(&self) -> &'static str {
        "calls of one thread"
    }
}
