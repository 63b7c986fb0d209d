//! The request: one row of every trace and of every result.
//!
//! Unknown values are absent, never invented: an unknown latency is `None`, not zero.

use bitflags::bitflags;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Nanos, VolumeId};

/// The operation that a request asks of the device. The numbers are those of the native file and
/// never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Op {
    /// Data moves from the device.
    Read = 0,
    /// Data moves to the device.
    Write = 1,
    /// Empty the device's volatile cache. It has no range: offset and length are zero.
    Flush = 2,
    /// Tell the device that the range is no longer needed (trim, unmap).
    Discard = 3,
    /// Make the range read as zeroes without moving data.
    WriteZeroes = 4,
    /// A zone operation (report, reset, open, close, finish, append). Kept, marked, not replayed.
    Zone = 5,
    /// Make a directory.
    Mkdir = 6,
    /// Remove an empty directory.
    Rmdir = 7,
    /// Make a file that is not there, and open it.
    Create = 8,
    /// Open a file that is there.
    Open = 9,
    /// Close a file.
    Close = 10,
    /// Remove a file.
    Delete = 11,
    /// Read the attributes of a file (stat).
    Getattr = 12,
    /// Change the attributes of a file.
    Setattr = 13,
    /// Ask whether a file may be accessed.
    Access = 14,
    /// Copy a file to another name.
    Copy = 15,
    /// Take a file to another name, perhaps on another file system.
    Move = 16,
    /// Give a file another name.
    Rename = 17,
    /// Give a file one more name.
    Link = 18,
    /// Make a name that leads to another.
    Symlink = 19,
    /// Bring the data of a file to stable storage.
    Fsync = 20,
    /// Change the size of a file.
    Truncate = 21,
    /// Read the names in a directory.
    Readdir = 22,
}

impl Op {
    /// Every operation, in the order of its code.
    pub const ALL: [Self; 23] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Discard,
        Self::WriteZeroes,
        Self::Zone,
        Self::Mkdir,
        Self::Rmdir,
        Self::Create,
        Self::Open,
        Self::Close,
        Self::Delete,
        Self::Getattr,
        Self::Setattr,
        Self::Access,
        Self::Copy,
        Self::Move,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::Fsync,
        Self::Truncate,
        Self::Readdir,
    ];

    /// The operations that block devices have: they come first.
    pub const OF_DEVICES: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes, Self::Zone];

    /// The operation with this code in the native file.
    pub const fn from_code(code: u8) -> Option<Self> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }

    /// The code in the native file.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The name in messages, JSON and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Zone => "zone",
            Self::Mkdir => "mkdir",
            Self::Rmdir => "rmdir",
            Self::Create => "create",
            Self::Open => "open",
            Self::Close => "close",
            Self::Delete => "delete",
            Self::Getattr => "getattr",
            Self::Setattr => "setattr",
            Self::Access => "access",
            Self::Copy => "copy",
            Self::Move => "move",
            Self::Rename => "rename",
            Self::Link => "link",
            Self::Symlink => "symlink",
            Self::Fsync => "fsync",
            Self::Truncate => "truncate",
            Self::Readdir => "readdir",
        }
    }

    /// Whether it is asked of a file system, and no block device has it.
    pub const fn is_of_files(self) -> bool {
        self as usize >= Self::OF_DEVICES.len()
    }

    /// Whether it is done once to a whole file, so that its rate is one of files: not what is done
    /// with an open one, nor what is done to directories.
    pub const fn is_of_a_file(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Open
                | Self::Delete
                | Self::Getattr
                | Self::Setattr
                | Self::Access
                | Self::Copy
                | Self::Move
                | Self::Rename
                | Self::Link
                | Self::Symlink
                | Self::Truncate
        )
    }

    /// Whether the operation changes the data on the device.
    pub const fn changes_data(self) -> bool {
        matches!(self, Self::Write | Self::Discard | Self::WriteZeroes | Self::Zone)
    }

    /// Whether the operation changes which names are there, or the size of what they name.
    pub const fn changes_names(self) -> bool {
        matches!(
            self,
            Self::Mkdir
                | Self::Rmdir
                | Self::Create
                | Self::Delete
                | Self::Copy
                | Self::Move
                | Self::Rename
                | Self::Link
                | Self::Symlink
                | Self::Truncate
        )
    }
}

bitflags! {
    /// The marks of a request at its issue. The bits are those of the native file.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u16 {
        /// A process waits for the request (`REQ_SYNC`).
        const SYNC = 1;
        /// The data must be on stable storage when it completes (`REQ_FUA`).
        const FUA = 1 << 1;
        /// The device's cache is flushed first (`REQ_PREFLUSH`).
        const PREFLUSH = 1 << 2;
        /// A file system's own data (`REQ_META`).
        const META = 1 << 3;
        /// Read ahead of demand (`REQ_RAHEAD`).
        const READAHEAD = 1 << 4;
    }
}

/// The process that issued a request, and the processor on which it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The number of the process. Its name, where the recording knew it, stands in the trace's
    /// header.
    pub pid: u32,
    /// The number of the processor on which the request was issued.
    pub cpu: u32,
}

/// The outcome of a replayed request.
///
/// The code of the native file is 0 for success, and the kernel's error number where the device
/// answered with one. Otherwise it is one of the negative numbers below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Completed in full.
    Ok,
    /// The kernel's error number (`errno.h`).
    Error(i32),
    /// Fewer bytes were moved than asked for.
    Short,
    /// It crosses the end of the target even after wrapping; not issued, as in blkreplay.
    Border,
    /// It is not a multiple of the target's block size; not issued.
    Misaligned,
    /// The target or this program cannot do that operation; not issued.
    Unsupported,
    /// It conflicted with a request in flight and the conflict rule was to drop it.
    Dropped,
    /// It is larger than any buffer this program makes; not issued.
    TooLarge,
    /// It was in flight when the run ended, and no completion was seen.
    Abandoned,
    /// It succeeded, and it failed in the recording.
    Unlike,
}

impl Outcome {
    /// The least code of an outcome.
    pub const LEAST_CODE: i32 = Self::Unlike.code();

    /// The code in the native file and in the run's journal.
    pub const fn code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::Error(number) => number,
            Self::Short => -1,
            Self::Border => -2,
            Self::Misaligned => -3,
            Self::Unsupported => -4,
            Self::Dropped => -5,
            Self::TooLarge => -6,
            Self::Abandoned => -7,
            Self::Unlike => -8,
        }
    }

    /// The outcome with this code.
    pub const fn from_code(code: i32) -> Option<Self> {
        match code {
            0 => Some(Self::Ok),
            -1 => Some(Self::Short),
            -2 => Some(Self::Border),
            -3 => Some(Self::Misaligned),
            -4 => Some(Self::Unsupported),
            -5 => Some(Self::Dropped),
            -6 => Some(Self::TooLarge),
            -7 => Some(Self::Abandoned),
            -8 => Some(Self::Unlike),
            1..=i32::MAX => Some(Self::Error(code)),
            _ => None,
        }
    }

    /// The outcome in a word or two; an error number keeps its number.
    pub fn name(self) -> String {
        match self {
            Self::Ok => "ok".to_owned(),
            Self::Error(number) => format!("errno {number}"),
            Self::Short => "short transfer".to_owned(),
            Self::Border => "crosses the end of the target".to_owned(),
            Self::Misaligned => "misaligned for the target".to_owned(),
            Self::Unsupported => "unsupported".to_owned(),
            Self::Dropped => "dropped on conflict".to_owned(),
            Self::TooLarge => "too large".to_owned(),
            Self::Abandoned => "abandoned".to_owned(),
            Self::Unlike => "succeeded unlike the recorded call".to_owned(),
        }
    }

    /// The name, and the meaning of an error number that the block layer answers with.
    pub fn told(self) -> String {
        match self.meaning() {
            Some(meaning) => format!("{} ({meaning})", self.name()),
            None => self.name(),
        }
    }

    /// The same of the outcome with this name; a name that no outcome has stands for itself.
    pub fn told_of(name: &str) -> String {
        Self::from_name(name).map_or_else(|| name.to_owned(), Self::told)
    }

    /// What an error number means on its way from the device: `blk_errors` of the kernel's
    /// `block/blk-core.c`, and what a system call adds to them (`errno.h`).
    const fn meaning(self) -> Option<&'static str> {
        let Self::Error(number) = self else { return None };
        Some(match number {
            1 => "not permitted",
            2 => "no such file or directory",
            5 => "I/O error",
            6 => "no such device or address",
            11 => "would block",
            12 => "no memory or other resource of the kernel",
            13 => "permission denied",
            16 => "device busy",
            17 => "it exists already",
            18 => "on another file system",
            19 => "the device is gone or offline",
            20 => "not a directory",
            21 => "a directory",
            22 => "the kernel refuses the request",
            24 => "too many open files",
            27 => "beyond the end of the file or device",
            28 => "no space left on the device",
            30 => "read-only",
            31 => "too many links",
            36 => "the name is too long",
            39 => "the directory is not empty",
            40 => "a symbolic link stands in the way",
            52 => "reservation conflict",
            61 => "medium error",
            67 => "transport error",
            84 => "protection or checksum error",
            95 => "the device cannot do that",
            110 => "timed out",
            116 => "stale file handle",
            121 => "target error",
            122 => "the quota is exceeded",
            _ => return None,
        })
    }

    /// The outcome with this name, the inverse of [`Outcome::name`].
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("errno ") {
            let number = number.parse().ok().filter(|number| *number > 0)?;
            return Some(Self::Error(number));
        }
        (Self::LEAST_CODE..=0).filter_map(Self::from_code).find(|outcome| outcome.name() == name)
    }

    /// Whether the request reached the device.
    pub const fn was_issued(self) -> bool {
        matches!(self, Self::Ok | Self::Error(_) | Self::Short | Self::Abandoned | Self::Unlike)
    }
}

/// The reason why a request was submitted later than scheduled. The numbers are those of the native
/// file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum LateCause {
    /// It was not late, or by no more than the scheduler's own step.
    #[default]
    None = 0,
    /// It overlapped a request in flight and waited for it (a *pushed-back* request); of recorded
    /// calls on files, it waited for one that it comes after.
    Conflict = 1,
    /// The cap on requests in flight was reached: the device was too slow to free a place.
    InFlightCap = 2,
    /// The system call that hands requests to the kernel took too long.
    Submission = 3,
    /// The trace could not be read fast enough: a fault of the generator.
    Input = 4,
    /// The issuing thread did not run when it should have: a fault of the host.
    Host = 5,
    /// This program was busy preparing other requests, such as the data of large writes.
    Generator = 6,
    /// Reading the trace was delayed, because the backlog of another, slower target had reached its
    /// bound.
    Backlog = 7,
    /// Verification first read the data that the request was about to change.
    Verification = 8,
    /// Its thread waited for a file that another thread of the load had, while the storage was fast
    /// enough for a file each: a limit of the load itself.
    File = 9,
}

impl LateCause {
    /// Every cause, in the order of its code.
    pub const ALL: [Self; 10] = [
        Self::None,
        Self::Conflict,
        Self::InFlightCap,
        Self::Submission,
        Self::Input,
        Self::Host,
        Self::Generator,
        Self::Backlog,
        Self::Verification,
        Self::File,
    ];

    /// The cause with this code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::None),
            1 => Some(Self::Conflict),
            2 => Some(Self::InFlightCap),
            3 => Some(Self::Submission),
            4 => Some(Self::Input),
            5 => Some(Self::Host),
            6 => Some(Self::Generator),
            7 => Some(Self::Backlog),
            8 => Some(Self::Verification),
            9 => Some(Self::File),
            _ => None,
        }
    }

    /// The name in the native file, JSON and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Conflict => "conflict",
            Self::InFlightCap => "in-flight-cap",
            Self::Submission => "submission",
            Self::Input => "input",
            Self::Host => "host",
            Self::Generator => "generator",
            Self::Backlog => "backlog",
            Self::Verification => "verification",
            Self::File => "file",
        }
    }
}

/// The finding of verification about a request's data. The numbers are those of the native file,
/// and larger is worse.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Integrity {
    /// The data were not verified.
    #[default]
    Unchecked = 0,
    /// Every sector holds data that it may hold.
    Intact = 1,
    /// A sector holds the written data but for one bit, which its checksum identifies.
    Flipped = 2,
    /// A sector that this run wrote reads as zeroes.
    Zeroed = 3,
    /// A sector holds neither the written data nor any other data that can be explained.
    Corrupt = 4,
    /// A sector holds data that were not written by this run.
    Foreign = 5,
    /// A sector holds data that were written to another place.
    Misdirected = 6,
    /// Some sectors of a write arrived and others did not.
    Torn = 7,
    /// A sector holds an older version: a write was acknowledged and lost.
    Stale = 8,
    /// A sector holds a version that was never written there, or that failed.
    Phantom = 9,
}

impl Integrity {
    /// Every finding, in the order of its code.
    pub const ALL: [Self; 10] = [
        Self::Unchecked,
        Self::Intact,
        Self::Flipped,
        Self::Zeroed,
        Self::Corrupt,
        Self::Foreign,
        Self::Misdirected,
        Self::Torn,
        Self::Stale,
        Self::Phantom,
    ];

    /// The finding with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in messages, JSON and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Intact => "intact",
            Self::Flipped => "flipped",
            Self::Zeroed => "zeroed",
            Self::Corrupt => "corrupt",
            Self::Foreign => "foreign",
            Self::Misdirected => "misdirected",
            Self::Torn => "torn",
            Self::Stale => "stale",
            Self::Phantom => "phantom",
        }
    }

    /// Whether the data are wrong.
    pub const fn is_damage(self) -> bool {
        !matches!(self, Self::Unchecked | Self::Intact)
    }
}

/// The measurements of one request in a replay. All instants count from the start of the replay.
///
/// * lateness = `submitted` − `scheduled` (blkreplay calls it *delay*);
/// * service time = `completed` − `submitted` (blkreplay: *latency*);
/// * response time = `completed` − `scheduled`: free of coordinated omission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The instant at which the request was due.
    pub scheduled: Nanos,
    /// The instant at which the request was handed to the kernel; `None` if it never was.
    pub submitted: Option<Nanos>,
    /// The instant at which the completion was seen; `None` if it never was.
    pub completed: Option<Nanos>,
    /// The offset on the target in bytes, wrapped. `None` if the request had no place there.
    pub target_offset: Option<Bytes>,
    /// Requests in flight on the device just after this one was submitted, itself included.
    pub in_flight: u32,
    /// The outcome of the request.
    pub outcome: Outcome,
    /// Whether the request waited for another one that it overlapped.
    pub pushed_back: bool,
    /// The reason why the request was late.
    pub late_cause: LateCause,
    /// The number of the run's target that the request went to, counted from 0.
    pub target: u16,
    /// The finding of verification about the data of the request.
    pub integrity: Integrity,
    /// By how many requests it stands behind the one whose completion let it go: of those that it
    /// waited for, the one that completed last. 0 if it waited for none.
    pub behind: u32,
    /// The number of the run's flow that it belongs to, counted from 1. 0 if the run has no flows.
    pub flow: u16,
}

impl Measured {
    /// A request that completed in full, alone on the device, and of which nothing else is known:
    /// it went to the first target, without a place there that is told, and belongs to no flow.
    pub const fn done(scheduled: Nanos, submitted: Nanos, completed: Nanos) -> Self {
        Self {
            scheduled,
            submitted: Some(submitted),
            completed: Some(completed),
            target_offset: None,
            in_flight: 1,
            outcome: Outcome::Ok,
            pushed_back: false,
            late_cause: LateCause::None,
            target: 0,
            integrity: Integrity::Unchecked,
            behind: 0,
            flow: 0,
        }
    }

    /// `submitted − scheduled`; `None` if the request was not submitted.
    pub fn lateness(&self) -> Option<Nanos> {
        self.submitted.map(|submitted| submitted.saturating_sub(self.scheduled))
    }

    /// `completed − submitted`; `None` if the request did not complete.
    pub fn service_time(&self) -> Option<Nanos> {
        Some(self.completed?.saturating_sub(self.submitted?))
    }

    /// `completed − scheduled`; `None` if the request did not complete.
    pub fn response_time(&self) -> Option<Nanos> {
        self.completed.map(|completed| completed.saturating_sub(self.scheduled))
    }
}

/// One request: a row of a trace or of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The instant of issue, counted from the start of the trace.
    pub issue: Nanos,
    /// The operation.
    pub op: Op,
    /// The marks of the request.
    pub flags: Flags,
    /// The position in bytes from the start of the volume.
    pub offset: Bytes,
    /// The length in bytes; zero for a flush.
    pub length: Bytes,
    /// The device of the trace that the request went to.
    pub volume: VolumeId,
    /// The recorded latency, completion − issue; `None` where the recording does not tell it.
    pub latency: Option<Nanos>,
    /// The process and the processor that issued the request; `None` if unknown.
    pub origin: Option<Origin>,
    /// The measurements of a replay; `None` if the trace is not a result.
    pub measured: Option<Measured>,
}

impl Request {
    /// A request with these values and no optional ones.
    pub const fn new(issue: Nanos, op: Op, offset: Bytes, length: Bytes) -> Self {
        Self {
            issue,
            op,
            flags: Flags::empty(),
            offset,
            length,
            volume: VolumeId(0),
            latency: None,
            origin: None,
            measured: None,
        }
    }

    /// The first byte behind the range. Readers refuse ranges for which this overflows.
    pub const fn end(&self) -> Bytes {
        Bytes(self.offset.0.saturating_add(self.length.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_operations_outcomes_and_causes_read_back() {
        for op in Op::ALL {
            assert_eq!(Op::from_code(op.code()), Some(op));
        }
        for code in Outcome::LEAST_CODE..200 {
            let outcome = Outcome::from_code(code).unwrap();
            assert_eq!(outcome.code(), code);
        }
        assert_eq!(Outcome::from_code(Outcome::LEAST_CODE - 1), None);
        for cause in LateCause::ALL {
            assert_eq!(LateCause::from_code(cause as u8), Some(cause));
        }
        for (code, integrity) in Integrity::ALL.into_iter().enumerate() {
            assert_eq!(integrity as usize, code);
            assert_eq!(Integrity::from_code(code as u8), Some(integrity));
        }
        // The lists are complete.
        assert_eq!(Op::from_code(Op::ALL.len() as u8), None);
        assert_eq!(LateCause::from_code(LateCause::ALL.len() as u8), None);
    }
}
