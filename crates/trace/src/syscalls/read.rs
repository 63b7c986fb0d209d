//! What a call of this name with these arguments asks for.

use super::arguments::{AT_FDCWD, Returned, descriptor, integer, string};
use crate::syscalls::call::{At, Call, Descriptor, OpenFlags, Told, ToldKind, Whence};

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
pub(super) fn call(name: &[u8], returned: &Returned<'_>) -> Result<Option<Call>, &'static str> {
    let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
    if let Some(other) = OTHERS.iter().find(|other| **other == name) {
        return Ok(Some(Call::Other { name: other }));
    }
    let taken = Taken(returned);
    let found = match name {
        "clone" | "clone3" | "fork" | "vfork" => Some(spawn(name, taken)),
        "execve" | "execveat" => Some(Call::Execute),
        _ => of_descriptors(name, taken).or_else(|| of_names(name, taken)),
    };
    match found {
        None if is_read_here(name) => Err("the arguments of this call do not read as they must"),
        found => Ok(found),
    }
}

/// Whether calls of this name are about files.
pub(super) fn is_read_here(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The names of the calls that are read, but for those in [`OTHERS`].
const NAMES: [&str; 80] = [
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
];

/// The arguments of a call that has returned.
#[derive(Clone, Copy)]
struct Taken<'r>(&'r Returned<'r>);

impl<'r> Taken<'r> {
    fn text(self, at: usize) -> Option<&'r [u8]> {
        self.0.arguments.get(at).copied()
    }

    fn descriptor(self, at: usize) -> Option<Descriptor> {
        descriptor(self.text(at)?)
    }

    fn number(self, at: usize) -> Option<i64> {
        integer(self.text(at)?)
    }

    fn bytes(self, at: usize) -> Option<u64> {
        u64::try_from(self.number(at)?).ok()
    }

    fn mode(self, at: usize) -> Option<u32> {
        u32::try_from(self.number(at)?).ok()
    }

    fn path(self, at: usize) -> Option<Vec<u8>> {
        let (path, is_whole) = string(self.text(at)?)?;
        // No name has a zero in it.
        (is_whole && !path.contains(&0)).then_some(path)
    }

    /// A path from the working directory on.
    fn here(self, at: usize) -> Option<At> {
        Some(At { path: self.path(at)?, ..At::default() })
    }

    /// A path from a descriptor on.
    fn beneath(self, at: usize) -> Option<At> {
        let Descriptor { number, path } = self.descriptor(at)?;
        let directory = (number != AT_FDCWD).then_some(number);
        Some(At { directory, base: path, path: self.path(at + 1)? })
    }

    /// Whether the words of an argument have this one.
    fn has(self, at: usize, word: &str) -> bool {
        let text = self.text(at).unwrap_or_default();
        text.split(|byte| matches!(byte, b'|' | b' ' | b'{' | b'}' | b',' | b'='))
            .any(|part| part == word.as_bytes())
    }
}

/// A task that is made.
fn spawn(name: &str, taken: Taken<'_>) -> Call {
    let has = |word: &str| {
        let all = taken.0.arguments.iter().enumerate();
        name.starts_with("clone") && all.into_iter().any(|(at, _)| has_word(taken, at, word))
    };
    Call::Spawn { shares_files: has("CLONE_FILES"), shares_directory: has("CLONE_FS") }
}

fn has_word(taken: Taken<'_>, at: usize, word: &str) -> bool {
    taken.has(at, word)
}

/// The words of an argument that says how a file is opened.
fn flags(text: &[u8]) -> OpenFlags {
    let mut flags = OpenFlags::default();
    for word in text.split(|byte| *byte == b'|') {
        match word {
            b"O_RDONLY" => flags.read = true,
            b"O_WRONLY" => flags.write = true,
            b"O_RDWR" => (flags.read, flags.write) = (true, true),
            b"O_CREAT" => flags.create = true,
            b"O_EXCL" => flags.exclusive = true,
            b"O_TRUNC" => flags.truncate = true,
            b"O_APPEND" => flags.append = true,
            b"O_DIRECTORY" => flags.directory = true,
            b"O_PATH" => flags.path = true,
            b"O_SYNC" | b"O_DSYNC" => flags.sync = true,
            b"O_DIRECT" => flags.direct = true,
            b"O_NOFOLLOW" => flags.no_follow = true,
            b"O_CLOEXEC" => flags.close_on_exec = true,
            b"O_TMPFILE" | b"__O_TMPFILE" => flags.unnamed = true,
            _ => {}
        }
    }
    flags
}

/// The value of a member of a structure.
fn member<'t>(text: &'t [u8], name: &str) -> Option<&'t [u8]> {
    let at = text.windows(name.len()).position(|part| part == name.as_bytes())? + name.len();
    let end = text[at..].iter().position(|byte| matches!(byte, b',' | b'}' | b' '));
    Some(&text[at..end.map_or(text.len(), |end| at + end)])
}

/// What a structure of attributes tells.
fn told(text: Option<&[u8]>) -> Option<Told> {
    let text = text?;
    let mode = member(text, "_mode=")?;
    let kind = match mode.split(|byte| *byte == b'|').next()? {
        b"S_IFREG" => ToldKind::File,
        b"S_IFDIR" => ToldKind::Directory,
        b"S_IFLNK" => ToldKind::Symlink,
        _ => ToldKind::Other,
    };
    let size = member(text, "_size=").and_then(integer).and_then(|size| u64::try_from(size).ok());
    Some(Told { kind, size })
}

/// Calls on descriptors.
fn of_descriptors(name: &str, taken: Taken<'_>) -> Option<Call> {
    let start = |at: usize| match taken.text(at)? {
        b"NULL" => Some(Whence::Position),
        text => {
            let text = text.strip_prefix(b"[").unwrap_or(text);
            let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
            Some(Whence::Start(u64::try_from(integer(&text[..end])?).ok()?))
        }
    };
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
        "preadv" => Call::Read { from: taken.descriptor(0)?, at: start(3)?, asked: None },
        "preadv2" => {
            Call::Read { from: taken.descriptor(0)?, at: or_position(taken)?, asked: None }
        }
        "write" | "writev" => Call::Write { to: taken.descriptor(0)?, at: Whence::Position },
        "pwrite64" | "pwritev" => {
            Call::Write { to: taken.descriptor(0)?, at: Whence::Start(taken.bytes(3)?) }
        }
        "pwritev2" => Call::Write { to: taken.descriptor(0)?, at: or_position(taken)? },
        "sendfile" => Call::Transfer {
            from: taken.descriptor(1)?,
            from_at: start(2)?,
            to: taken.descriptor(0)?,
            to_at: Whence::Position,
        },
        "copy_file_range" => Call::Transfer {
            from: taken.descriptor(0)?,
            from_at: start(1)?,
            to: taken.descriptor(2)?,
            to_at: start(3)?,
        },
        "lseek" => Call::Seek {
            descriptor: taken.descriptor(0)?,
            from_end: taken.has(2, "SEEK_END") && taken.number(1) == Some(0),
        },
        "dup" | "dup2" => Call::Duplicate { from: taken.descriptor(0)?, close_on_exec: false },
        "dup3" => {
            Call::Duplicate { from: taken.descriptor(0)?, close_on_exec: taken.has(2, "O_CLOEXEC") }
        }
        "fcntl" | "fcntl64" => return control(taken),
        "ioctl" if taken.has(1, "FICLONE") || taken.has(1, "FICLONERANGE") => {
            Call::Other { name: "ioctl(FICLONE)" }
        }
        "fchdir" => Call::ChangeToDescriptor(taken.descriptor(0)?),
        "fstat" | "fstat64" => {
            Call::StatDescriptor { descriptor: taken.descriptor(0)?, told: told(taken.text(1)) }
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
        "fsync" | "fdatasync" => Call::Sync(taken.descriptor(0)?),
        "getdents" | "getdents64" => Call::ReadDirectory(taken.descriptor(0)?),
        "mmap" | "mmap2" => Call::Map {
            descriptor: taken.descriptor(4)?,
            writes: taken.has(2, "PROT_WRITE")
                && (taken.has(3, "MAP_SHARED") || taken.has(3, "MAP_SHARED_VALIDATE")),
        },
        _ => return None,
    })
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
    Some(match taken.text(1)? {
        b"F_DUPFD" => Call::Duplicate { from: descriptor, close_on_exec: false },
        b"F_DUPFD_CLOEXEC" => Call::Duplicate { from: descriptor, close_on_exec: true },
        b"F_SETFD" => {
            Call::CloseOnExec { descriptor: descriptor.number, close: taken.has(2, "FD_CLOEXEC") }
        }
        b"F_SETLK" | b"F_SETLKW" | b"F_OFD_SETLK" | b"F_OFD_SETLKW" => {
            Call::Other { name: "fcntl(F_SETLK)" }
        }
        _ => return None,
    })
}

/// Calls on names.
fn of_names(name: &str, taken: Taken<'_>) -> Option<Call> {
    let opened = || taken.0.path.clone();
    Some(match name {
        "open" => {
            let flags = flags(taken.text(1)?);
            Call::Open { at: taken.here(0)?, flags, mode: taken.mode(2), opened: opened() }
        }
        "creat" => {
            let flags = flags(b"O_WRONLY|O_CREAT|O_TRUNC");
            Call::Open { at: taken.here(0)?, flags, mode: taken.mode(1), opened: opened() }
        }
        "openat" => {
            let flags = flags(taken.text(2)?);
            Call::Open { at: taken.beneath(0)?, flags, mode: taken.mode(3), opened: opened() }
        }
        "openat2" => {
            let how = taken.text(2)?;
            let flags = flags(member(how, "flags=")?);
            let mode = member(how, "mode=").and_then(integer);
            let mode = mode.and_then(|mode| u32::try_from(mode).ok());
            Call::Open { at: taken.beneath(0)?, flags, mode, opened: opened() }
        }
        "chdir" => Call::ChangeDirectory(taken.here(0)?),
        "getcwd" => Call::TellDirectory(taken.path(0).unwrap_or_default()),
        "stat" | "lstat" | "stat64" | "lstat64" => Call::Stat {
            at: taken.here(0)?,
            follow: name.starts_with("stat"),
            told: told(taken.text(1)),
        },
        "newfstatat" | "fstatat64" => return stat_at(taken, 2, 3),
        "statx" => return stat_at(taken, 4, 2),
        "readlink" => Call::ReadLink { at: taken.here(0)?, target: taken.path(1) },
        "readlinkat" => Call::ReadLink { at: taken.beneath(0)?, target: taken.path(2) },
        "access" => Call::Access(taken.here(0)?),
        "faccessat" | "faccessat2" => Call::Access(taken.beneath(0)?),
        "chmod" => attributes(taken.here(0)?, taken.mode(1), true),
        "fchmodat" | "fchmodat2" => attributes(taken.beneath(0)?, taken.mode(2), true),
        "chown" | "utime" | "utimes" => attributes(taken.here(0)?, None, true),
        "lchown" => attributes(taken.here(0)?, None, false),
        "fchownat" => attributes(taken.beneath(0)?, None, !taken.has(4, "AT_SYMLINK_NOFOLLOW")),
        "futimesat" | "utimensat" if taken.text(1) == Some(b"NULL") => {
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
    let rename = |from, to, no_replace, exchange| Call::Rename { from, to, no_replace, exchange };
    Some(match name {
        "rename" => rename(taken.here(0)?, taken.here(1)?, false, false),
        "renameat" => rename(taken.beneath(0)?, taken.beneath(2)?, false, false),
        "renameat2" => rename(
            taken.beneath(0)?,
            taken.beneath(2)?,
            taken.has(4, "RENAME_NOREPLACE"),
            taken.has(4, "RENAME_EXCHANGE"),
        ),
        "link" => Call::Link { from: taken.here(0)?, to: taken.here(1)? },
        "linkat" => Call::Link { from: taken.beneath(0)?, to: taken.beneath(2)? },
        "symlink" => Call::Symlink { target: taken.path(0)?, at: taken.here(1)? },
        "symlinkat" => Call::Symlink { target: taken.path(0)?, at: taken.beneath(1)? },
        _ => return None,
    })
}

fn attributes(at: At, mode: Option<u32>, follow: bool) -> Call {
    Call::SetAttributes { at, mode, follow }
}

/// `newfstatat` and `statx`, whose structure and flags are these arguments: of a name, or of the
/// descriptor itself if there is none.
fn stat_at(taken: Taken<'_>, structure: usize, flags: usize) -> Option<Call> {
    let told = told(taken.text(structure));
    let is_of_descriptor =
        taken.has(flags, "AT_EMPTY_PATH") && matches!(taken.text(1), Some(b"\"\"" | b"NULL"));
    if is_of_descriptor {
        return Some(Call::StatDescriptor { descriptor: taken.descriptor(0)?, told });
    }
    let follow = !taken.has(flags, "AT_SYMLINK_NOFOLLOW");
    Some(Call::Stat { at: taken.beneath(0)?, follow, told })
}
