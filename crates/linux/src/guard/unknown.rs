//! Questions that the guard cannot answer.
//!
//! Seeing no user of a target is meaningful only if every user can be seen. In a container, without
//! root, without /sys, most programs that may write to a disk are invisible. So an unanswered
//! question counts as a hazard, until the user, who may know more, names the target.

use std::fmt;

use ioecho_trace::units::counted;
use serde::Serialize;

/// A question about a target that cannot be answered here. Its [`Display`](fmt::Display) is a
/// sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "unknown", rename_all = "kebab-case")]
pub enum Unknown {
    /// /proc is not mounted: neither mounts nor processes show.
    NoProc,
    /// The processes of this pid namespace alone show.
    OtherNamespaces,
    /// There are processes that this user may not look at.
    OtherUsers,
    /// /sys does not have the device, or is not mounted.
    NoSys,
    /// What a loop device stands on: its own node is not there or does not answer, and the path
    /// that the kernel has leads nowhere.
    BelowLoop {
        /// Its name below `/dev`.
        loop_device: String,
    },
    /// The kernel does not say whether somebody has the file open for writing.
    NoLease {
        /// What it says.
        why: String,
    },
    /// Too little of the target could be read.
    Contents {
        /// So many places could be.
        places: u64,
    },
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProc => write!(
                f,
                "cannot tell who has it mounted or open for writing: /proc is not mounted here; \
                 mount it (mount -t proc proc /proc)"
            ),
            Self::OtherNamespaces => write!(
                f,
                "cannot tell who has it open for writing: the processes outside of this container \
                 are not visible; run ioecho outside, or with the host's processes in sight \
                 (docker run --pid=host)"
            ),
            Self::OtherUsers => write!(
                f,
                "cannot tell who has it open for writing: this user may not look at the processes \
                 of all others; run ioecho as root (with CAP_SYS_PTRACE)"
            ),
            Self::NoSys => write!(
                f,
                "cannot tell what is built on it and which loop devices lead to it: /sys does not \
                 show the devices; mount it (mount -t sysfs sysfs /sys)"
            ),
            Self::BelowLoop { loop_device } => write!(
                f,
                "cannot tell whether the loop device {loop_device} leads to the same bytes: \
                 /dev/{loop_device} does not tell what it holds, because the node is not there or \
                 the file system of its file does not answer; make the node, run ioecho where \
                 both are, or detach the device (losetup -d /dev/{loop_device})"
            ),
            Self::NoLease { why } => write!(
                f,
                "cannot tell who has it open for writing: the kernel gives no lease on it \
                 ({why}); run ioecho as root or as the owner of the file, and on a file system \
                 of this host"
            ),
            Self::Contents { places } => write!(
                f,
                "cannot tell what it holds: in the time that a look may take {} of it could be \
                 read; see whether it is slow or damaged (dmesg)",
                counted(*places, "place")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_said_with_the_reason_and_the_remedy() {
        let told = Unknown::OtherUsers.to_string();
        assert!(told.starts_with("cannot tell who") && told.contains("run ioecho as root"));
        let told = Unknown::NoLease { why: "Permission denied".to_owned() }.to_string();
        assert!(told.contains("(Permission denied)") && told.contains("the owner"), "{told}");
        let told = Unknown::BelowLoop { loop_device: "loop3".to_owned() }.to_string();
        assert!(told.contains("/dev/loop3 does not tell"), "{told}");
    }
}
