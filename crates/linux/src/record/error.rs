//! Errors of a recording: what, where, and the remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ioecho_trace::Bytes;

use crate::target::TargetError;

use super::interface::Interface;

/// What can be done where an interface of the kernel cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What makes it usable; `None` where nobody knows.
    pub here: Option<String>,
    /// Another interface that may be used where this one cannot.
    pub instead: Option<Interface>,
}

impl Remedy {
    /// What makes this interface usable; there is no other.
    pub(super) fn only(here: &str) -> Self {
        Self { here: Some(here.to_owned()), instead: None }
    }

    /// What makes the ioctls usable, if anything does; tracefs may be there anyway.
    pub(super) fn or_tracefs(here: Option<&str>) -> Self {
        Self { here: here.map(str::to_owned), instead: Some(Interface::Tracefs) }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other =
            self.instead.map(|interface| format!("take the interface {}", interface.name()));
        let ways: Vec<String> = self.here.iter().cloned().chain(other).collect();
        f.write_str(&ways.join("; or "))
    }
}

/// Why a recording cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The path of a device leads to nothing that can be asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Nothing has this path.
    #[error(
        "{}: there is no such file or device\n  = help: `lsblk` lists the block devices",
        .path.display()
    )]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// It is no block device.
    #[error(
        "{}: is a {kind}, and the kernel traces block devices only\n  = help: `lsblk` lists them{}",
        .path.display(), device_below(.path, kind)
    )]
    NoBlockDevice {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// Nothing was named.
    #[error("no device is named\n  = help: `lsblk` lists the block devices")]
    NoDevice,
    /// Two of the devices have requests in common.
    #[error(
        "{}: {name} is named already, by itself or as a part of its disk\n  = help: name each \
         device once; the recording of a disk holds the requests of all its partitions",
        .path.display()
    )]
    Twice {
        /// The path of the second.
        path: PathBuf,
        /// The name of the first.
        name: String,
    },
    /// Buffers of this size would take memory that other programs need.
    #[error(
        "buffers of {asked} for each of {cpus} processors take more than a quarter of the \
         {available} of memory that are available\n  = help: take at most {allowed} for each"
    )]
    Buffer {
        /// What was asked for each processor.
        asked: Bytes,
        /// How many processors have one.
        cpus: usize,
        /// The most that can be had for each.
        allowed: Bytes,
        /// Memory that is available now.
        available: Bytes,
    },
    /// This interface of the kernel cannot be used here.
    #[error("the {} interface cannot be used: {reason}\n  = help: {remedy}", .interface.name())]
    Unavailable {
        /// The interface.
        interface: Interface,
        /// Why not.
        reason: String,
        /// What to do.
        remedy: Remedy,
    },
    /// Somebody else traces the device, and this interface takes one tracer only.
    #[error(
        "{device} is traced already{by}\n  = help: {remedy}; or take the interface tracefs, which \
         many can use at a time"
    )]
    Traced {
        /// The device.
        device: String,
        /// By whom, as words that follow; empty where that is not known.
        by: String,
        /// How to end that.
        remedy: String,
    },
    /// The recording would be written to a device that is recorded.
    #[error(
        "{}: lies on {device}, which is to be recorded{through}: every write of the recording \
         would be recorded again\n  = help: write to another disk, or to memory (/dev/shm)",
        .directory.display()
    )]
    OnRecorded {
        /// The directory.
        directory: PathBuf,
        /// The recorded device.
        device: String,
        /// The layers between, as words that follow; empty where there are none.
        through: String,
    },
    /// The disk has less room than is to be kept free.
    #[error(
        "{}: {left} are left, less than the {reserve} that are to be kept free\n  = help: write to \
         a disk with more room, or keep less of it free",
        .directory.display()
    )]
    Reserve {
        /// The directory that the recording would be written into.
        directory: PathBuf,
        /// What is left for this user.
        left: Bytes,
        /// What is to be kept free.
        reserve: Bytes,
    },
    /// The recording cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused something else.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// What was to be done, as words before the path.
        action: &'static str,
        /// The file of the kernel.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

/// How to come to the device below a file, as words that follow; none where there is none.
fn device_below(path: &Path, kind: &str) -> String {
    if !matches!(kind, "file" | "directory") {
        return String::new();
    }
    let path = path.display();
    format!("; to record what is done to it, record the device of its file system (`df {path}`)")
}

impl RecordError {
    /// The interface that may be used where the one that was tried cannot.
    pub const fn instead(&self) -> Option<Interface> {
        match self {
            Self::Unavailable { remedy, .. } => remedy.instead,
            Self::Traced { .. } => Some(Interface::Tracefs),
            Self::Target(_)
            | Self::Missing { .. }
            | Self::NoBlockDevice { .. }
            | Self::NoDevice
            | Self::Twice { .. }
            | Self::Buffer { .. }
            | Self::OnRecorded { .. }
            | Self::Reserve { .. }
            | Self::Output { .. }
            | Self::System { .. } => None,
        }
    }

    pub(super) fn output(path: &Path, source: io::Error) -> Self {
        Self::Output { path: path.to_owned(), source }
    }

    pub(super) fn system(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::System { action, path: path.to_owned(), source }
    }
}
