//! A system call, whatever recorded it.

use crate::units::Nanos;

/// A call that has returned, or the end of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The task (thread) that made it.
    pub task: u32,
    /// When it was made.
    pub begun: Nanos,
    /// How long it took, if that is known.
    pub took: Option<Nanos>,
    /// What was asked for.
    pub call: Call,
    /// What it returned, or the number of its error.
    pub result: Result<i64, i32>,
}

impl Event {
    /// The two halves of its time: it does two things, one after the other, and nobody knows when
    /// it began the second.
    pub(super) fn halves(&self) -> (Self, Self) {
        let half = self.took.map(|took| Nanos(took.0 / 2));
        let rest = self.took.zip(half).map(|(took, half)| took - half);
        let begun = self.begun.saturating_add(half.unwrap_or_default());
        (Self { took: half, ..self.clone() }, Self { begun, took: rest, ..self.clone() })
    }
}

/// Where a path begins, and the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The descriptor of the directory that a relative path begins at; `None` is the working
    /// directory.
    pub directory: Option<i32>,
    /// The path of that directory, if the recording tells it.
    pub base: Option<Vec<u8>>,
    /// The path.
    pub path: Vec<u8>,
}

/// From where a position counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// From the position that the descriptor has.
    Position,
    /// From the beginning of the file.
    Start(u64),
}

/// A descriptor, and the path of what it stands for if the recording tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number.
    pub number: i32,
    /// The path.
    pub path: Option<Vec<u8>>,
}

/// The kind and the size of a file, as a call told them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kind.
    pub kind: ToldKind,
    /// The size in bytes.
    pub size: Option<u64>,
}

/// The kind of what a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A pipe, a device, a socket.
    Other,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// To be read.
    pub read: bool,
    /// To be written.
    pub write: bool,
    /// `O_CREAT`.
    pub create: bool,
    /// `O_EXCL`.
    pub exclusive: bool,
    /// `O_TRUNC`.
    pub truncate: bool,
    /// `O_APPEND`.
    pub append: bool,
    /// `O_DIRECTORY`.
    pub directory: bool,
    /// `O_PATH`.
    pub path: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_DSYNC` without `O_SYNC`.
    pub data_sync: bool,
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_NOFOLLOW`.
    pub no_follow: bool,
    /// `O_CLOEXEC`.
    pub close_on_exec: bool,
    /// `O_TMPFILE`: a file without a name.
    pub unnamed: bool,
}

/// What a single write asks for (`RWF_APPEND`, `RWF_DSYNC`, `RWF_SYNC`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteFlags {
    /// It goes to the end of the file.
    pub append: bool,
    /// It returns when it is on the medium.
    pub sync: bool,
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opens or makes a file; returns a descriptor.
    Open {
        /// Where.
        at: At,
        /// How.
        flags: OpenFlags,
        /// The permissions of a new one.
        mode: Option<u32>,
        /// The path of what was opened, with all links followed, if the recording tells it.
        opened: Option<Vec<u8>>,
    },
    /// Closes descriptors, from the first to the last.
    Close {
        /// The first.
        first: i32,
        /// The last.
        last: i32,
    },
    /// Reads; returns how many bytes.
    Read {
        /// Where from.
        from: Descriptor,
        /// From which position.
        at: Whence,
        /// How many bytes were asked for, if that is known.
        asked: Option<u64>,
    },
    /// Writes; returns how many bytes.
    Write {
        /// Where to.
        to: Descriptor,
        /// To which position.
        at: Whence,
        /// How else.
        how: WriteFlags,
    },
    /// Moves bytes from one descriptor to another; returns how many.
    Transfer {
        /// Where from.
        from: Descriptor,
        /// From which position.
        from_at: Whence,
        /// Where to.
        to: Descriptor,
        /// To which position.
        to_at: Whence,
    },
    /// Sets the position of a descriptor; returns it.
    Seek {
        /// The descriptor.
        descriptor: Descriptor,
        /// Whether it counts from the end.
        from_end: bool,
    },
    /// Makes a descriptor for what another stands for; returns it.
    Duplicate {
        /// The other.
        from: Descriptor,
        /// Whether a program that is started does not get it.
        close_on_exec: bool,
    },
    /// Says whether a program that is started gets a descriptor.
    CloseOnExec {
        /// The descriptor.
        descriptor: i32,
        /// Whether it does not get it.
        close: bool,
    },
    /// Changes how a descriptor's file is open.
    SetStatus {
        /// The descriptor.
        descriptor: Descriptor,
        /// Whether writes go to the end.
        append: bool,
        /// Whether reads and writes go past the page cache.
        direct: bool,
    },
    /// Says which permissions new names never get; returns those that they did not before.
    Mask(u32),
    /// Makes a task; returns its number.
    Spawn {
        /// Whether it shares descriptors.
        shares_files: bool,
        /// Whether it shares the working directory.
        shares_directory: bool,
    },
    /// Starts another program in this task.
    Execute,
    /// The task ends.
    Exit,
    /// Goes to a directory.
    ChangeDirectory(At),
    /// Goes to the directory of a descriptor.
    ChangeToDescriptor(Descriptor),
    /// Tells the working directory.
    TellDirectory(Vec<u8>),
    /// Reads attributes by name, following links or not.
    Stat {
        /// Of what.
        at: At,
        /// Whether a link at the end is followed.
        follow: bool,
        /// What it told.
        told: Option<Told>,
    },
    /// Reads attributes by descriptor.
    StatDescriptor {
        /// Of what.
        descriptor: Descriptor,
        /// What it told.
        told: Option<Told>,
    },
    /// Asks what a symbolic link says; returns how many bytes that has.
    ReadLink {
        /// Of what.
        at: At,
        /// What it says, if the recording tells it whole.
        target: Option<Vec<u8>>,
    },
    /// Asks whether a file may be accessed.
    Access(At),
    /// Changes attributes by name.
    SetAttributes {
        /// Of what.
        at: At,
        /// The new permissions, if these are changed.
        mode: Option<u32>,
        /// Whether a link at the end is followed.
        follow: bool,
    },
    /// Changes attributes by descriptor.
    SetOfDescriptor {
        /// Of what.
        descriptor: Descriptor,
        /// The new permissions, if these are changed.
        mode: Option<u32>,
    },
    /// Makes a directory.
    MakeDirectory {
        /// Where.
        at: At,
        /// Its permissions.
        mode: Option<u32>,
    },
    /// Removes a directory.
    RemoveDirectory(At),
    /// Removes a name.
    Unlink(At),
    /// Gives a file another name.
    Rename {
        /// The old one.
        from: At,
        /// The new one.
        to: At,
        /// Whether the new one must not be there.
        no_replace: bool,
        /// Whether both change places.
        exchange: bool,
        /// Whether a mark of an overlay stays where the old one was (`RENAME_WHITEOUT`).
        whiteout: bool,
    },
    /// Gives a file one more name.
    Link {
        /// The old one.
        from: At,
        /// The new one.
        to: At,
        /// Whether a link at the end of the old one is followed.
        follow: bool,
    },
    /// Makes a symbolic link.
    Symlink {
        /// What it says.
        target: Vec<u8>,
        /// Its name.
        at: At,
    },
    /// Changes the size of a file by name.
    Truncate {
        /// Of what.
        at: At,
        /// The size.
        size: u64,
    },
    /// Changes the size of a file by descriptor.
    TruncateDescriptor {
        /// Of what.
        descriptor: Descriptor,
        /// The size.
        size: u64,
        /// Whether it only ever grows.
        only_grows: bool,
    },
    /// Brings a file to stable storage.
    Sync {
        /// What.
        descriptor: Descriptor,
        /// Whether only as much as it takes to read it again (`fdatasync`).
        data_only: bool,
    },
    /// Reads names of a directory; returns how many bytes they have.
    ReadDirectory(Descriptor),
    /// Maps a file into memory.
    Map {
        /// What.
        descriptor: Descriptor,
        /// Whether what is written there goes to the file.
        writes: bool,
    },
    /// Brings to stable storage what was written through a mapping (`msync` with `MS_SYNC`).
    SyncMapped,
    /// Something on files that no operation stands for.
    Other {
        /// What it is called.
        name: &'static str,
    },
}

impl Call {
    /// What it is called, in the words of C without what only tells variants apart.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Close { .. } => "close",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::Transfer { .. } => "copy",
            Self::Seek { .. } => "lseek",
            Self::Duplicate { .. } => "dup",
            Self::CloseOnExec { .. } | Self::SetStatus { .. } => "fcntl",
            Self::Mask(_) => "umask",
            Self::Spawn { .. } => "clone",
            Self::Execute => "execve",
            Self::Exit => "exit",
            Self::ChangeDirectory(_) => "chdir",
            Self::ChangeToDescriptor(_) => "fchdir",
            Self::TellDirectory(_) => "getcwd",
            Self::Stat { .. } => "stat",
            Self::StatDescriptor { .. } => "fstat",
            Self::ReadLink { .. } => "readlink",
            Self::Access(_) => "access",
            Self::SetAttributes { mode: Some(_), .. } => "chmod",
            Self::SetAttributes { mode: None, .. } => "chown or utime",
            Self::SetOfDescriptor { mode: Some(_), .. } => "fchmod",
            Self::SetOfDescriptor { mode: None, .. } => "fchown or futime",
            Self::MakeDirectory { .. } => "mkdir",
            Self::RemoveDirectory(_) => "rmdir",
            Self::Unlink(_) => "unlink",
            Self::Rename { .. } => "rename",
            Self::Link { .. } => "link",
            Self::Symlink { .. } => "symlink",
            Self::Truncate { .. } => "truncate",
            Self::TruncateDescriptor { .. } => "ftruncate",
            Self::Sync { .. } => "fsync",
            Self::ReadDirectory(_) => "getdents",
            Self::Map { .. } => "mmap",
            Self::SyncMapped => "msync",
            Self::Other { name } => name,
        }
    }

    /// The name that it is about, or the first one.
    pub const fn at(&self) -> Option<&At> {
        match self {
            Self::Open { at, .. }
            | Self::ChangeDirectory(at)
            | Self::Stat { at, .. }
            | Self::ReadLink { at, .. }
            | Self::Access(at)
            | Self::SetAttributes { at, .. }
            | Self::MakeDirectory { at, .. }
            | Self::RemoveDirectory(at)
            | Self::Unlink(at)
            | Self::Rename { from: at, .. }
            | Self::Link { from: at, .. }
            | Self::Symlink { at, .. }
            | Self::Truncate { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The descriptor that it is about, or the first one.
    pub const fn descriptor(&self) -> Option<&Descriptor> {
        match self {
            Self::Read { from: descriptor, .. }
            | Self::Write { to: descriptor, .. }
            | Self::Transfer { from: descriptor, .. }
            | Self::Seek { descriptor, .. }
            | Self::Duplicate { from: descriptor, .. }
            | Self::SetStatus { descriptor, .. }
            | Self::ChangeToDescriptor(descriptor)
            | Self::StatDescriptor { descriptor, .. }
            | Self::SetOfDescriptor { descriptor, .. }
            | Self::TruncateDescriptor { descriptor, .. }
            | Self::Sync { descriptor, .. }
            | Self::ReadDirectory(descriptor)
            | Self::Map { descriptor, .. } => Some(descriptor),
            _ => None,
        }
    }

    /// Whether it makes its name where that is not there.
    pub const fn makes(&self) -> bool {
        match self {
            Self::Open { flags, .. } => flags.create,
            Self::MakeDirectory { .. } | Self::Symlink { .. } => true,
            _ => false,
        }
    }
}
