//! Reasons not to write to a target, as sentences.

use std::fmt;
use std::path::PathBuf;

use ioecho_trace::Bytes;
use serde::Serialize;

use super::unknown::Unknown;

/// One reason not to write to a target. Its [`Display`](fmt::Display) is a sentence with the
/// remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "hazard", rename_all = "kebab-case")]
pub enum Hazard {
    /// The device, one of its partitions or the disk that it is on is mounted.
    Mounted {
        /// What is mounted: a name below `/dev`.
        device: String,
        /// Where.
        at: PathBuf,
    },
    /// It is swapped to.
    Swap {
        /// The swap area: a path.
        area: PathBuf,
    },
    /// Device mapper, MD or bcache is built on it.
    Held {
        /// What is held: a name below `/dev`.
        device: String,
        /// The device that is built on it.
        by: String,
    },
    /// It is the backing file or device of a loop device.
    BackingFile {
        /// The loop device.
        loop_device: String,
    },
    /// Somebody has claimed the device, or has the device or file open for writing.
    InUse {
        /// Who, as far as /proc tells: `python3 (pid 123)`, with the device's name below `/dev`
        /// where that is another one than the target, or the file's path: `python3 (pid 123,
        /// sda1)`.
        by: Vec<String>,
    },
    /// Its bytes are those of something in use, which the hazards before this one describe.
    Elsewhere {
        /// The file or disk that keeps them.
        below: PathBuf,
    },
    /// One of the other hazards may exist unseen. A user who knows better may name the target.
    CannotTell {
        /// What cannot be told, and why.
        unknown: Unknown,
    },
    /// The disk has partitions.
    Partitioned {
        /// Their names below `/dev`.
        partitions: Vec<String>,
    },
    /// It is a member of a set of devices, which becomes useless without it.
    PartOf {
        /// What it is a part of.
        what: String,
        /// Where the signature is; absent where blkid found it.
        at: Option<Bytes>,
    },
    /// It begins or ends as a file system, a partition table or the like does.
    Signature {
        /// What it looks like.
        what: String,
        /// Where the signature is; absent where blkid found it.
        at: Option<Bytes>,
    },
    /// It holds data that are neither zeroes nor ioecho's own.
    HoldsData {
        /// The first place where such data were seen.
        at: Bytes,
    },
}

impl Hazard {
    /// Whether the user may overrule it by naming the target. Never for a target in use: writing
    /// would corrupt data in somebody's memory, and an exclusive open fails anyway.
    pub const fn can_be_named(&self) -> bool {
        match self {
            Self::Mounted { .. }
            | Self::Swap { .. }
            | Self::Held { .. }
            | Self::BackingFile { .. }
            | Self::InUse { .. }
            | Self::Elsewhere { .. } => false,
            Self::CannotTell { .. }
            | Self::Partitioned { .. }
            | Self::PartOf { .. }
            | Self::Signature { .. }
            | Self::HoldsData { .. } => true,
        }
    }

    /// Whether it may pass in a moment, like the open files of a killed process: if there are only
    /// such hazards, the caller checks again.
    pub const fn may_pass(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::Elsewhere { .. })
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at } => {
                write!(f, "{device} is mounted at {}; unmount it first", at.display())
            }
            Self::Swap { area } => {
                let area = area.display();
                write!(f, "{area} is in use as swap; swapoff it first")
            }
            Self::Held { device, by } => {
                write!(f, "{device} is held by {by}, which is built on it; take {by} down first")
            }
            Self::BackingFile { loop_device } => write!(
                f,
                "it is behind the loop device {loop_device}; detach it first (losetup -d \
                 /dev/{loop_device}), or replay on /dev/{loop_device}"
            ),
            Self::InUse { by } if !by.is_empty() => {
                write!(f, "it is open for writing in {}; stop that first", by.join(", "))
            }
            Self::InUse { .. } => write!(
                f,
                "something else uses it: another program, or a mount that is not visible from \
                 here; stop it first (lsof may know it)"
            ),
            Self::Elsewhere { below } => write!(
                f,
                "what is written to it is written to {}, and so to what was just named",
                below.display()
            ),
            Self::CannotTell { unknown } => unknown.fmt(f),
            Self::Partitioned { partitions } => {
                write!(f, "the disk has partitions: {}", partitions.join(", "))
            }
            Self::PartOf { what, at } => {
                write!(f, "it is a part of {}{}", what, Position(*at))
            }
            Self::Signature { what, at } => {
                write!(f, "it carries the signature of {}{}", what, Position(*at))
            }
            Self::HoldsData { at } => {
                write!(f, "it holds data that ioecho did not write{}", Position(Some(*at)))
            }
        }
    }
}

struct Position(Option<Bytes>);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, " (at byte {})", at.0),
            None => write!(f, " (says blkid)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_use_can_never_be_named_and_what_is_at_rest_can() {
        let mounted = Hazard::Mounted { device: "sda1".to_owned(), at: PathBuf::from("/home") };
        assert!(!mounted.can_be_named());
        assert!(!Hazard::InUse { by: Vec::new() }.can_be_named());
        assert!(!Hazard::Elsewhere { below: PathBuf::from("/image") }.can_be_named());
        assert!(Hazard::Partitioned { partitions: Vec::new() }.can_be_named());
        assert!(Hazard::CannotTell { unknown: Unknown::NoProc }.can_be_named());
        assert!(Hazard::HoldsData { at: Bytes(0) }.can_be_named());
    }

    #[test]
    fn only_what_a_process_has_open_may_pass_by_itself() {
        let mounted = Hazard::Mounted { device: "sda1".to_owned(), at: PathBuf::from("/home") };
        assert!(!mounted.may_pass());
        assert!(!Hazard::HoldsData { at: Bytes(0) }.may_pass());
        assert!(Hazard::InUse { by: Vec::new() }.may_pass());
    }

    #[test]
    fn a_hazard_is_a_sentence_with_what_and_where() {
        let mounted = Hazard::Mounted { device: "sda1".to_owned(), at: PathBuf::from("/home") };
        assert_eq!(mounted.to_string(), "sda1 is mounted at /home; unmount it first");
        let signature = Hazard::Signature { what: "an xfs".to_owned(), at: Some(Bytes(0)) };
        assert_eq!(signature.to_string(), "it carries the signature of an xfs (at byte 0)");
        let by = vec!["dd (pid 7)".to_owned(), "python3 (pid 123, sda1)".to_owned()];
        let expected = "it is open for writing in dd (pid 7), python3 (pid 123, sda1); stop that \
                        first";
        assert_eq!(Hazard::InUse { by }.to_string(), expected);
    }
}
