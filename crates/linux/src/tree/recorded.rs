//! The recorded calls of an application, made again below an anchor.
//!
//! The path of a call is looked up within it, as it was when it was recorded. A call that failed in
//! the recording because of its names must fail again; then it has done what it did.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::sync::Arc;

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

/// Room for the names that one call reads, as the C library gives it.
const NAMES_BYTES: usize = 32 << 10;

/// Room for the data of most calls.
const ROOM_BYTES: usize = 1 << 20;

/// A device for recorded calls on files.
pub type RecordedDevice = Inline<Recorded>;

/// The recorded calls.
pub struct Recorded {
    anchor: Anchor,
    files: Arc<RecordedFiles>,
    names: Vec<u8>,
    /// What is open, by the number of its place.
    open: Vec<Option<OwnedFd>>,
}

impl RecordedDevice {
    /// A device for calls below an anchor.
    pub fn new(anchor: Anchor, files: Arc<RecordedFiles>, clock: MonotonicClock) -> Self {
        let open = files.places.iter().map(|_| None).collect();
        let names = Vec::with_capacity(NAMES_BYTES);
        Self::over(Recorded { anchor, files, names, open }, ROOM_BYTES, clock)
    }
}

impl Recorded {
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
            flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
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

    /// What is open in a place; a file that was open before the recording is opened now.
    fn handle(&mut self, number: usize, place: &Place) -> Result<&OwnedFd, Errno> {
        if self.open[number].is_none() {
            self.open[number] = Some(self.opened(place, true)?);
        }
        self.open[number].as_ref().ok_or(Errno::BADF)
    }

    /// Reads or writes.
    fn transfer(
        &mut self,
        io: &Io,
        (number, within): (usize, u64),
        place: &Place,
        buffer: &mut Buffer,
    ) -> Done {
        let open = self.handle(number, place)?;
        if io.length.0 == 0 {
            // A read at the end of a file.
            let moved = retry_on_intr(|| pread(open, &mut *buffer.part(1), within))?;
            return Ok(if moved == 0 { Outcome::Ok } else { Outcome::Unlike });
        }
        transfer(open, io, within, buffer)
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
    fn truncate(&mut self, number: usize, size: u64, place: &Place) -> Result<(), Errno> {
        if !place.open.is_empty() {
            return ftruncate(self.handle(number, place)?, size);
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
            (true, _) => RenameFlags::NOREPLACE,
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
    fn read_names(&mut self, number: usize, place: &Place) -> Result<(), Errno> {
        self.handle(number, place)?;
        let Some(open) = self.open[number].as_ref() else { return Err(Errno::BADF) };
        let mut names = RawDir::new(open.as_fd(), self.names.spare_capacity_mut());
        names.next().transpose().map(drop)
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
        let files = Arc::clone(&self.files);
        let Some((place, within)) = files.at(io.offset.0) else { return Outcome::Unsupported };
        let number = (io.offset.0 / PLACE_BYTES) as usize;
        let done = match io.op {
            Op::Read | Op::Write => self.transfer(io, (number, within), place, buffer),
            Op::Create | Op::Open => {
                // What was open here before is closed: its end was not recorded.
                self.open[number] = None;
                self.opened(place, false).map(|open| {
                    if place.fails.is_none() {
                        self.open[number] = Some(open);
                    }
                    Outcome::Ok
                })
            }
            Op::Close => {
                let open = self.handle(number, place).map(|_| ());
                let open = open.and_then(|()| self.open[number].take().ok_or(Errno::BADF));
                ok(open.and_then(close_told))
            }
            Op::Getattr if !place.open.is_empty() => {
                ok(self.handle(number, place).and_then(fstat).map(drop))
            }
            Op::Fsync => ok(self.handle(number, place).and_then(fsync)),
            Op::Readdir => ok(self.read_names(number, place)),
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
    fn describe(&self) -> &'static str {
        "recorded calls, one at a time"
    }
}
