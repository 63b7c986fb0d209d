//! What a call of this name with these arguments asks for.
//!
//! One recorder prints arguments as words, another gives numbers. What they mean is the same, and
//! is said here once, of [`Arguments`].

use super::call::{At, Call, Descriptor, OpenFlags, Told, Whence, WriteFlags};

/// The working directory in place of a descriptor (`fcntl.h`).
pub const AT_FDCWD: i32 = -100;

/// The arguments of a call that has returned, by their positions, however a recorder tells them.
pub trait Arguments {
    /// A descriptor, or [`AT_FDCWD`].
    fn descriptor(&self, at: usize) -> Option<Descriptor>;

    /// A number.
    fn number(&self, at: usize) -> Option<i64>;

    /// A name, if it is told whole.
    fn path(&self, at: usize) -> Option<Vec<u8>>;

    /// Whether it is a pointer to nothing.
    fn is_null(&self, at: usize) -> bool;

    /// Whether this word of C is among the flags.
    fn has(&self, at: usize, word: &str) -> bool;

    /// Whether it is this word of C.
    fn is(&self, at: usize, word: &str) -> bool;

    /// Whether this word is among the flags of a call that makes a task.
    fn spawns_with(&self, word: &str) -> bool;

    /// How a file is opened.
    fn open_flags(&self, at: usize) -> Option<OpenFlags>;

    /// How a file is opened, and its permissions, in a `struct open_how`.
    fn open_how(&self, at: usize) -> Option<(OpenFlags, Option<u32>)>;

    /// The position behind a pointer, or that of the descriptor where it points to nothing.
    fn pointed(&self, at: usize) -> Option<Whence>;

    /// What a structure of attributes tells.
    fn told(&self, at: usize) -> Option<Told>;

    /// The path of the descriptor that was returned, if it is told.
    fn opened(&self) -> Option<Vec<u8>>;
}

/// Calls on files that no operation of a trace stands for.
const OTHERS: [&str; 37] = [
    "statfs",
    "fstatfs",
    "flock",
    "fadvise64",
    "readahead",
    "sync_file_range",
    "syncfs",
    "sync",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "mknod",
    "mknodat",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "unshare",
    "setns",
    "io_submit",
    "io_uring_enter",
    "io_uring_setup",
    "name_to_handle_at",
    "open_by_handle_at",
    "swapon",
    "splice",
    "tee",
    "vmsplice",
];

/// What a call asks for; `Ok(None)` if it is not about files.
///
/// # Errors
///
/// With a reason, if it is and does not read as it must.
pub fn call(name: &str, arguments: &dyn Arguments) -> Result<Option<Call>, &'static str> {
    if let Some(other) = OTHERS.iter().find(|other| **other == name) {
        return Ok(Some(Call::Other { name: other }));
    }
    let taken = Taken(arguments);
    let found = match name {
        "clone" | "clone3" | "fork" | "vfork" => Some(spawn(name, taken)),
        "umask" => taken.mode(0).map(|mask| Call::Mask(mask & 0o777)),
        "execve" | "execveat" => Some(Call::Execute),
        _ => of_descriptors(name, taken).or_else(|| of_names(name, taken)),
    };
    match found {
        None if is_read_here(name) => Err("the arguments of this call do not read as they must"),
        found => Ok(found),
    }
}

/// Whether this call makes a task.
pub fn is_spawn(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

/// Whether calls of this name are about files.
pub fn is_read_here(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The names of all calls that a recording should hold.
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().chain(OTHERS).chain(["fcntl", "ioctl", "msync", "sendfile64"])
}

/// The names of the calls that are read, but for those in [`OTHERS`].
const NAMES: [&str; 81] = [
    "open",
    "openat",
    "openat2",
    "creat",
    "close",
    "close_range",
    "read",
    "pread64",
    "readv",
    "preadv",
    "preadv2",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "sendfile",
    "copy_file_range",
    "lseek",
    "dup",
    "dup2",
    "dup3",
    "chdir",
    "fchdir",
    "getcwd",
    "stat",
    "lstat",
    "fstat",
    "newfstatat",
    "fstatat64",
    "stat64",
    "lstat64",
    "fstat64",
    "statx",
    "readlink",
    "readlinkat",
    "access",
    "faccessat",
    "faccessat2",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchown",
    "fchownat",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "truncate",
    "ftruncate",
    "truncate64",
    "ftruncate64",
    "fallocate",
    "fsync",
    "fdatasync",
    "getdents",
    "getdents64",
    "mmap",
    "mmap2",
    "clone",
    "clone3",
    "fork",
    "vfork",
    "execve",
    "execveat",
    "umask",
];

/// Arguments, with what follows from them.
#[derive(Clone, Copy)]
struct Taken<'r>(&'r dyn Arguments);

impl Taken<'_> {
    fn descriptor(self, at: usize) -> Option<Descriptor> {
        self.0.descriptor(at)
    }

    fn number(self, at: usize) -> Option<i64> {
        self.0.number(at)
    }

    fn has(self, at: usize, word: &str) -> bool {
        self.0.has(at, word)
    }

    fn is(self, at: usize, word: &str) -> bool {
        self.0.is(at, word)
    }

    fn bytes(self, at: usize) -> Option<u64> {
        u64::try_from(self.number(at)?).ok()
    }

    fn mode(self, at: usize) -> Option<u32> {
        u32::try_from(self.number(at)?).ok()
    }

    /// A path from the working directory on.
    fn here(self, at: usize) -> Option<At> {
        Some(At { path: self.0.path(at)?, ..At::default() })
    }

    /// A path from a descriptor on.
    fn beneath(self, at: usize) -> Option<At> {
        let Descriptor { number, path } = self.descriptor(at)?;
        let directory = (number != AT_FDCWD).then_some(number);
        Some(At { directory, base: path, path: self.0.path(at + 1)? })
    }
}

/// A task that is made.
fn spawn(name: &str, taken: Taken<'_>) -> Call {
    let has = |word: &str| name.starts_with("clone") && taken.0.spawns_with(word);
    Call::Spawn { shares_files: has("CLONE_FILES"), shares_directory: has("CLONE_FS") }
}

/// Calls on descriptors.
fn of_descriptors(name: &str, taken: Taken<'_>) -> Option<Call> {
    Some(match name {
        "close" => {
            let number = taken.descriptor(0)?.number;
            Call::Close { first: number, last: number }
        }
        "close_range" if taken.number(2) == Some(0) => {
            let last = taken.number(1)?.min(i64::from(i32::MAX));
            Call::Close { first: taken.descriptor(0)?.number, last: i32::try_from(last).ok()? }
        }
        "close_range" => Call::Other { name: "close_range" },
        "read" => {
            Call::Read { from: taken.descriptor(0)?, at: Whence::Position, asked: taken.bytes(2) }
        }
        "readv" => Call::Read { from: taken.descriptor(0)?, at: Whence::Position, asked: None },
        "pread64" => Call::Read {
            from: taken.descriptor(0)?,
            at: Whence::Start(taken.bytes(3)?),
            asked: taken.bytes(2),
        },
        "preadv" => Call::Read {
            from: taken.descriptor(0)?,
            at: Whence::Start(taken.bytes(3)?),
            asked: None,
        },
        "preadv2" => {
            Call::Read { from: taken.descriptor(0)?, at: or_position(taken)?, asked: None }
        }
        "write" | "writev" => write(taken, Whence::Position)?,
        "pwrite64" | "pwritev" => write(taken, Whence::Start(taken.bytes(3)?))?,
        "pwritev2" => {
            let has = |word| taken.has(4, word);
            let how =
                WriteFlags { append: has("RWF_APPEND"), sync: has("RWF_DSYNC") || has("RWF_SYNC") };
            Call::Write { to: taken.descriptor(0)?, at: or_position(taken)?, how }
        }
        "sendfile" => Call::Transfer {
            from: taken.descriptor(1)?,
            from_at: taken.0.pointed(2)?,
            to: taken.descriptor(0)?,
            to_at: Whence::Position,
        },
        "copy_file_range" => Call::Transfer {
            from: taken.descriptor(0)?,
            from_at: taken.0.pointed(1)?,
            to: taken.descriptor(2)?,
            to_at: taken.0.pointed(3)?,
        },
        "lseek" => Call::Seek {
            descriptor: taken.descriptor(0)?,
            from_end: taken.is(2, "SEEK_END") && taken.number(1) == Some(0),
        },
        "dup" | "dup2" => Call::Duplicate { from: taken.descriptor(0)?, close_on_exec: false },
        "dup3" => {
            Call::Duplicate { from: taken.descriptor(0)?, close_on_exec: taken.has(2, "O_CLOEXEC") }
        }
        "fcntl" | "fcntl64" => return control(taken),
        "ioctl" if taken.is(1, "FICLONE") || taken.is(1, "FICLONERANGE") => {
            Call::Other { name: "ioctl(FICLONE)" }
        }
        "fchdir" => Call::ChangeToDescriptor(taken.descriptor(0)?),
        "fstat" | "fstat64" => {
            Call::StatDescriptor { descriptor: taken.descriptor(0)?, told: taken.0.told(1) }
        }
        "fchmod" => Call::SetOfDescriptor { descriptor: taken.descriptor(0)?, mode: taken.mode(1) },
        "fchown" => Call::SetOfDescriptor { descriptor: taken.descriptor(0)?, mode: None },
        "ftruncate" | "ftruncate64" => Call::TruncateDescriptor {
            descriptor: taken.descriptor(0)?,
            size: taken.bytes(1)?,
            only_grows: false,
        },
        "fallocate" if taken.number(1) == Some(0) => Call::TruncateDescriptor {
            descriptor: taken.descriptor(0)?,
            size: taken.bytes(2)?.checked_add(taken.bytes(3)?)?,
            only_grows: true,
        },
        "fallocate" => Call::Other { name: "fallocate" },
        "fsync" | "fdatasync" => {
            Call::Sync { descriptor: taken.descriptor(0)?, data_only: name == "fdatasync" }
        }
        "getdents" | "getdents64" => Call::ReadDirectory(taken.descriptor(0)?),
        "mmap" | "mmap2" => Call::Map {
            descriptor: taken.descriptor(4)?,
            writes: taken.has(2, "PROT_WRITE")
                && (taken.has(3, "MAP_SHARED") || taken.has(3, "MAP_SHARED_VALIDATE")),
        },
        "msync" if taken.has(2, "MS_SYNC") => Call::SyncMapped,
        _ => return None,
    })
}

/// A write without flags.
fn write(taken: Taken<'_>, at: Whence) -> Option<Call> {
    Some(Call::Write { to: taken.descriptor(0)?, at, how: WriteFlags::default() })
}

/// The position of `preadv2` and `pwritev2`, where −1 is that of the descriptor.
fn or_position(taken: Taken<'_>) -> Option<Whence> {
    match taken.number(3)? {
        -1 => Some(Whence::Position),
        position => Some(Whence::Start(u64::try_from(position).ok()?)),
    }
}

/// `fcntl`.
fn control(taken: Taken<'_>) -> Option<Call> {
    let descriptor = taken.descriptor(0)?;
    let is = |words: &[&str]| words.iter().any(|word| taken.is(1, word));
    if is(&["F_DUPFD"]) {
        Some(Call::Duplicate { from: descriptor, close_on_exec: false })
    } else if is(&["F_DUPFD_CLOEXEC"]) {
        Some(Call::Duplicate { from: descriptor, close_on_exec: true })
    } else if is(&["F_SETFD"]) {
        let close = taken.has(2, "FD_CLOEXEC");
        Some(Call::CloseOnExec { descriptor: descriptor.number, close })
    } else if is(&["F_SETFL"]) {
        let (append, direct) = (taken.has(2, "O_APPEND"), taken.has(2, "O_DIRECT"));
        Some(Call::SetStatus { descriptor, append, direct })
    } else if is(&["F_SETLK", "F_SETLKW", "F_OFD_SETLK", "F_OFD_SETLKW"]) {
        Some(Call::Other { name: "fcntl(F_SETLK)" })
    } else {
        None
    }
}

/// Calls on names.
fn of_names(name: &str, taken: Taken<'_>) -> Option<Call> {
    let opened = || taken.0.opened();
    Some(match name {
        "open" => {
            let flags = taken.0.open_flags(1)?;
            let mode = taken.mode(2).filter(|_| flags.create || flags.unnamed);
            Call::Open { at: taken.here(0)?, flags, mode, opened: opened() }
        }
        "creat" => {
            let flags =
                OpenFlags { write: true, create: true, truncate: true, ..OpenFlags::default() };
            Call::Open { at: taken.here(0)?, flags, mode: taken.mode(1), opened: opened() }
        }
        "openat" => {
            let flags = taken.0.open_flags(2)?;
            // Without a new file there is no such argument.
            let mode = taken.mode(3).filter(|_| flags.create || flags.unnamed);
            Call::Open { at: taken.beneath(0)?, flags, mode, opened: opened() }
        }
        "openat2" => {
            let (flags, mode) = taken.0.open_how(2)?;
            Call::Open { at: taken.beneath(0)?, flags, mode, opened: opened() }
        }
        "chdir" => Call::ChangeDirectory(taken.here(0)?),
        "getcwd" => Call::TellDirectory(taken.0.path(0).unwrap_or_default()),
        "stat" | "lstat" | "stat64" | "lstat64" => Call::Stat {
            at: taken.here(0)?,
            follow: name.starts_with("stat"),
            told: taken.0.told(1),
        },
        "newfstatat" | "fstatat64" => return stat_at(taken, 2, 3),
        "statx" => return stat_at(taken, 4, 2),
        "readlink" => Call::ReadLink { at: taken.here(0)?, target: taken.0.path(1) },
        "readlinkat" => Call::ReadLink { at: taken.beneath(0)?, target: taken.0.path(2) },
        "access" => Call::Access(taken.here(0)?),
        "faccessat" | "faccessat2" => Call::Access(taken.beneath(0)?),
        "chmod" => attributes(taken.here(0)?, taken.mode(1), true),
        "fchmodat" | "fchmodat2" => {
            attributes(taken.beneath(0)?, taken.mode(2), !taken.has(3, "AT_SYMLINK_NOFOLLOW"))
        }
        "chown" | "utime" | "utimes" => attributes(taken.here(0)?, None, true),
        "lchown" => attributes(taken.here(0)?, None, false),
        "fchownat" => attributes(taken.beneath(0)?, None, !taken.has(4, "AT_SYMLINK_NOFOLLOW")),
        "futimesat" | "utimensat" if taken.0.is_null(1) => {
            Call::SetOfDescriptor { descriptor: taken.descriptor(0)?, mode: None }
        }
        "futimesat" | "utimensat" => {
            attributes(taken.beneath(0)?, None, !taken.has(3, "AT_SYMLINK_NOFOLLOW"))
        }
        "mkdir" => Call::MakeDirectory { at: taken.here(0)?, mode: taken.mode(1) },
        "mkdirat" => Call::MakeDirectory { at: taken.beneath(0)?, mode: taken.mode(2) },
        "rmdir" => Call::RemoveDirectory(taken.here(0)?),
        "unlink" => Call::Unlink(taken.here(0)?),
        "unlinkat" if taken.has(2, "AT_REMOVEDIR") => Call::RemoveDirectory(taken.beneath(0)?),
        "unlinkat" => Call::Unlink(taken.beneath(0)?),
        "truncate" | "truncate64" => Call::Truncate { at: taken.here(0)?, size: taken.bytes(1)? },
        _ => return of_two_names(name, taken),
    })
}

/// Calls on two names.
fn of_two_names(name: &str, taken: Taken<'_>) -> Option<Call> {
    let rename = |from, to, has: &dyn Fn(&str) -> bool| Call::Rename {
        from,
        to,
        no_replace: has("RENAME_NOREPLACE"),
        exchange: has("RENAME_EXCHANGE"),
        whiteout: has("RENAME_WHITEOUT"),
    };
    let nothing = |_: &str| false;
    Some(match name {
        "rename" => rename(taken.here(0)?, taken.here(1)?, &nothing),
        "renameat" => rename(taken.beneath(0)?, taken.beneath(2)?, &nothing),
        "renameat2" => rename(taken.beneath(0)?, taken.beneath(2)?, &|word| taken.has(4, word)),
        "link" => Call::Link { from: taken.here(0)?, to: taken.here(1)?, follow: false },
        "linkat" => {
            let follow = taken.has(4, "AT_SYMLINK_FOLLOW");
            Call::Link { from: taken.beneath(0)?, to: taken.beneath(2)?, follow }
        }
        "symlink" => Call::Symlink { target: taken.0.path(0)?, at: taken.here(1)? },
        "symlinkat" => Call::Symlink { target: taken.0.path(0)?, at: taken.beneath(1)? },
        _ => return None,
    })
}

fn attributes(at: At, mode: Option<u32>, follow: bool) -> Call {
    Call::SetAttributes { at, mode, follow }
}

/// `newfstatat` and `statx`, whose structure and flags are these arguments: of a name, or of the
/// descriptor itself if there is none.
fn stat_at(taken: Taken<'_>, structure: usize, flags: usize) -> Option<Call> {
    let told = taken.0.told(structure);
    let is_unnamed = || taken.0.is_null(1) || taken.0.path(1).is_some_and(|path| path.is_empty());
    let is_of_descriptor = taken.has(flags, "AT_EMPTY_PATH") && is_unnamed();
    let descriptor = taken.descriptor(0)?;
    if is_of_descriptor && descriptor.number != AT_FDCWD {
        return Some(Call::StatDescriptor { descriptor, told });
    }
    let follow = !taken.has(flags, "AT_SYMLINK_NOFOLLOW");
    Some(Call::Stat { at: taken.beneath(0)?, follow, told })
}
