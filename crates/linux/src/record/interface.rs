//! The choice between the kernel's two interfaces for block events.
//!
//! Since 2006 there are the ioctls of blktrace with their files in debugfs, and since 2010 the same
//! events as tracepoints. A kernel that is locked down (Secure Boot) refuses the first, because
//! debugfs can change the kernel, and allows the second. So a recorder with only one of them cannot
//! record on half of the machines; and if one cannot be used, the recording states why.

pub use ioecho_trace::recording::Interface;
use serde::{Deserialize, Serialize};

/// Which interface is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InterfaceChoice {
    /// Tracefs where it can be used, blktrace's ioctls otherwise.
    #[default]
    Auto,
    /// The `block_*` tracepoints (`include/trace/events/block.h`) through a trace instance of its
    /// own (Documentation/trace/ftrace.rst, section Instances), or nothing.
    Tracefs,
    /// `BLKTRACESETUP` and what belongs to it (`include/uapi/linux/blktrace_api.h`), or nothing.
    Blktrace,
}

impl InterfaceChoice {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Tracefs, Self::Blktrace];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Tracefs => "tracefs",
            Self::Blktrace => "blktrace",
        }
    }
}
