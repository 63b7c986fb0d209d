//! The recorded calls of an application, made again below an anchor.
//!
//! The path of a call is looked up within it, as it was when it was recorded. A call that failed in
//! the recording because of its names must fail again; then it has done what it did.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ioecho_replay::Io;
use ioecho_trace::recorded::{OpenWord, PLACE_BYTES, Place, RecordedFiles};
use ioecho_trace::{Bytes, Op, Outcome};
use rustix::fs::{
    Access, AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, accessat, chmodat, fstat, fsync,
    ftruncate, linkat, mkdirat, openat2, renameat, renameat_with, statat, symlinkat, unlinkat,
};
use rustix::io::{Errno, pread, retry_on_intr};

use super::anchor::{Anchor, BENEATH};
use super::before::Above;
use super::device::touch;
use super::inline::{Buffer, Calls, Inline, close_told, transfer};
use crate::MonotonicClock;

/// The longest read or write that is one call here.
const LENGTH_MAX: u64 = 1 << 30;

/// Room for the data of most calls.
pub(super) const ROOM_BYTES: usize = 1 << 20;

/// A device for recorded calls on files.
pub type RecordedDevice = Inline<Recorded>;

/// Renames what no file may be replaced by. Where the file system does not know such a rename (NFS,
/// many in user space), it is made as `mv` makes it there: the other name is looked for first.
fn rename_unless_there(
    from: (BorrowedFd<'_>, &str),
    to: (BorrowedFd<'_>, &str),
) -> Result<(), Errno> {
    match renameat_with(from.0, from.1, to.0, to.1, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {}
        done => return done,
    }
    match statat(to.0, to.1, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(from.0, from.1, to.0, to.1),
        Err(error) => Err(error),
    }
}

/// Whether the file system of an anchor knows a rename that replaces nothing. It is asked with a
/// directory of its own, because the kernel answers for names that are there.
///
/// # Errors
///
/// If nothing can be made there.
pub fn knows_no_replace(anchor: &Anchor) -> std::io::Result<bool> {
    const PROBES: [&str; 2] = ["ioecho.probe", "ioecho.probed"];
    let (at, [first, second]) = (anchor.directory(), PROBES);
    mkdirat(at, first, Mode::from_raw_mode(0o700))?;
    let renamed = renameat_with(at, first, at, second, RenameFlags::NOREPLACE);
    unlinkat(at, if renamed.is_ok() { second } else { first }, AtFlags::REMOVEDIR)?;
    Ok(!matches!(renamed, Err(Errno::INVAL | Errno::NOSYS)))
}

/// The recorded calls, of one thread or of several.
pub struct Recorded {
    anchor: Anchor,
    files: Arc<RecordedFiles>,
    /// What is open, by the number of its place. No lock is held during a call: what is closed
    /// meanwhile ends with the last call on it, as in the kernel.
    open: Vec<Mutex<Option<Arc<OwnedFd>>>>,
}

impl RecordedDevice {
    /// A device for calls below an anchor.
    pub fn new(anchor: Anchor, files: Arc<RecordedFiles>, clock: MonotonicClock) -> Self {
        Self::over(Recorded::new(anchor, files), ROOM_BYTES, clock)
    }
}

impl Recorded {
    /// Calls below an anchor.
    pub(super) fn new(anchor: Anchor, files: Arc<RecordedFiles>) -> Self {
        let open = files.places.iter().map(|_| Mutex::default()).collect();
        Self { anchor, files, open }
    }

    /// Opens the file of a place; as something that is there already if it `is_there`.
    fn opened(&self, place: &Place, is_there: bool) -> Result<OwnedFd, Errno> {
        let has = |word| place.open.contains(&word);
        let access = match (has(OpenWord::Read), has(OpenWord::Write)) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        // A FIFO that somebody puts in the place of a file must not hold the thread.
        let at_once = OFlags::NOCTTY | OFlags::NONBLOCK;
        let mut flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | at_once;
        for (word, flag, makes) in [
            (OpenWord::Create, OFlags::CREATE, true),
            (OpenWord::Exclusive, OFlags::EXCL, true),
            (OpenWord::Truncate, OFlags::TRUNC, true),
            (OpenWord::Append, OFlags::APPEND, false),
            (OpenWord::Directory, OFlags::DIRECTORY, false),
            (OpenWord::Sync, OFlags::SYNC, false),
        ] {
            if has(word) && !(makes && is_there) {
                flags |= flag;
            }
        }
        if has(OpenWord::Path) {
            let of_kind = flags & OFlags::DIRECTORY;
            flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW | of_kind;
        }
        let mode = if flags.contains(OFlags::CREATE) {
            Mode::from_raw_mode(place.mode.unwrap_or(0o666))
        } else {
            Mode::empty()
        };
        let path = if place.path.is_empty() { "." } else { place.path.as_str() };
        let anchor = self.anchor.directory();
        retry_on_intr(|| openat2(anchor, path, flags, mode, BENEATH))
    }

    /// Does something with what is open in a place; a file that was open before the recording is
    /// opened now.
    fn with<T>(
        &self,
        number: usize,
        place: &Place,
        call: impl FnOnce(&OwnedFd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let known = self.at(number).clone();
        let open = if let Some(open) = known {
            open
        } else {
            let opened = Arc::new(self.opened(place, true)?);
            // Two calls may open it at once; then one of both descriptors is closed again.
            Arc::clone(self.at(number).get_or_insert(opened))
        };
        call(&open)
    }

    /// What is open in a place.
    fn at(&self, number: usize) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.open[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file of a place by a recorded call.
    fn open(&self, number: usize, place: &Place) -> Done {
        // What was open here before is closed: its end was not recorded.
        let before = self.at(number).take();
        drop(before);
        let open = self.opened(place, false)?;
        if place.fails.is_none() {
            *self.at(number) = Some(Arc::new(open));
        }
        Ok(Outcome::Ok)
    }

    /// Closes what is open in a place.
    fn close(&self, number: usize, place: &Place) -> Result<(), Errno> {
        self.with(number, place, |_| Ok(()))?;
        let open = self.at(number).take().ok_or(Errno::BADF)?;
        // Another call is still at work on it, and will close it.
        Arc::into_inner(open).map_or(Ok(()), close_told)
    }

    /// Reads or writes.
    fn transfer(
        &self,
        io: &Io,
        (number, within): (usize, u64),
        place: &Place,
        buffer: &mut Buffer,
    ) -> Done {
        self.with(number, place, |open| {
            if io.length.0 > 0 {
                return transfer(open, io, within, buffer);
            }
            // A read at the end of a file.
            let moved = retry_on_intr(|| pread(open, &mut *buffer.part(1), within))?;
            Ok(if moved == 0 { Outcome::Ok } else { Outcome::Unlike })
        })
    }

    /// Changes the permissions of a file, or sets its times.
    fn set(&self, place: &Place) -> Result<(), Errno> {
        let Some(mode) = place.mode else {
            let above = Above::of(&self.anchor, &place.path)?;
            let (directory, name) = above.get();
            return touch(directory, name);
        };
        // By name it would follow a link, and that might lead out of the anchor.
        let path = if place.path.is_empty() { "." } else { place.path.as_str() };
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat2(self.anchor.directory(), path, flags, Mode::empty(), BENEATH)?;
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        chmodat(CWD, name, Mode::from_raw_mode(mode), AtFlags::empty())
    }

    /// Changes the size of a file.
    fn truncate(&self, number: usize, size: u64, place: &Place) -> Result<(), Errno> {
        if !place.open.is_empty() {
            return self.with(number, place, |open| ftruncate(open, size));
        }
        let open = vec![OpenWord::Write];
        let file = self.opened(&Place { open, ..place.clone() }, true)?;
        ftruncate(file, size)
    }

    /// Renames, or gives one more name.
    fn to_other(&self, op: Op, place: &Place) -> Result<(), Errno> {
        let other = place.to.as_deref().unwrap_or_default();
        if op == Op::Symlink {
            let above = Above::of(&self.anchor, &place.path)?;
            let (directory, name) = above.get();
            return symlinkat(other, directory, name);
        }
        if !ioecho_trace::recorded::is_beneath(other) {
            return Err(Errno::INVAL);
        }
        let (from, to) = (Above::of(&self.anchor, &place.path)?, Above::of(&self.anchor, other)?);
        let ((from, name), (to, other)) = (from.get(), to.get());
        if op == Op::Link {
            return linkat(from, name, to, other, AtFlags::empty());
        }
        let has = |word| place.open.contains(&word);
        let flags = match (has(OpenWord::NoReplace), has(OpenWord::Exchange)) {
            (true, _) => return rename_unless_there((from, name), (to, other)),
            (_, true) => RenameFlags::EXCHANGE,
            _ => return renameat(from, name, to, other),
        };
        renameat_with(from, name, to, other, flags)
    }

    /// Does something with a name.
    fn by_name(&self, op: Op, place: &Place) -> Result<(), Errno> {
        let above = Above::of(&self.anchor, &place.path)?;
        let (directory, name) = above.get();
        match op {
            Op::Mkdir => {
                let mode = Mode::from_raw_mode(place.mode.unwrap_or(0o777));
                mkdirat(directory, name, mode)
            }
            Op::Rmdir => unlinkat(directory, name, AtFlags::REMOVEDIR),
            Op::Delete => unlinkat(directory, name, AtFlags::empty()),
            Op::Getattr => statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(drop),
            Op::Access => accessat(directory, name, Access::READ_OK, AtFlags::empty()),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    /// Reads names of a directory.
    fn read_names(&self, number: usize, place: &Place, buffer: &mut Buffer) -> Result<(), Errno> {
        self.with(number, place, |open| {
            let mut names = RawDir::new(open.as_fd(), buffer.names());
            names.next().transpose().map(drop)
        })
    }

    /// Makes a call. What it writes or reads lies in the buffer.
    pub(super) fn make(&self, io: &Io, buffer: &mut Buffer) -> Outcome {
        let Some((place, within)) = self.files.at(io.offset.0) else { return Outcome::Unsupported };
        let number = (io.offset.0 / PLACE_BYTES) as usize;
        let done = match io.op {
            Op::Read | Op::Write => self.transfer(io, (number, within), place, buffer),
            Op::Create | Op::Open => self.open(number, place),
            Op::Close => ok(self.close(number, place)),
            Op::Getattr if !place.open.is_empty() => {
                ok(self.with(number, place, |open| fstat(open).map(drop)))
            }
            Op::Fsync => ok(self.with(number, place, |open| fsync(open))),
            Op::Readdir => ok(self.read_names(number, place, buffer)),
            Op::Truncate => ok(self.truncate(number, within, place)),
            Op::Setattr => ok(self.set(place)),
            op @ (Op::Rename | Op::Link | Op::Symlink) => ok(self.to_other(op, place)),
            op => ok(self.by_name(op, place)),
        };
        match (done, place.fails) {
            (Ok(outcome), None) => outcome,
            (Err(error), fails) if fails == Some(error.raw_os_error()) => Outcome::Ok,
            (Err(error), _) => Outcome::Error(error.raw_os_error()),
            (Ok(_), Some(_)) => Outcome::Unlike,
        }
    }
}

/// What a call has come to.
type Done = Result<Outcome, Errno>;

fn ok(done: Result<(), Errno>) -> Done {
    done.map(|()| Outcome::Ok)
}

impl Calls for Recorded {
    fn capacity(&self) -> Bytes {
        Bytes(i64::MAX as u64)
    }

    fn length_max(&self) -> Bytes {
        Bytes(LENGTH_MAX)
    }

    fn supports(&self, op: Op) -> bool {
        matches!(op, Op::Read | Op::Write) || op.is_of_files() && !matches!(op, Op::Copy | Op::Move)
    }

    fn call(&mut self, io: &Io, buffer: &mut Buffer) -> Outcome {
        self.make(io, buffer)
    }

    fn describe(&self) -> &'static str {
        "recorded calls, one at a time"
    }
}
