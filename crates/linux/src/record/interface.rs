//! Which of the two ways of the kernel to tell of block events is taken.
//!
//! Since 2006 there are the ioctls of blktrace with their files in debugfs, and since 2010 the same
//! events as tracepoints. What is locked down (Secure Boot) refuses the first, for debugfs may
//! change the kernel, and allows the second. So a recorder that has only one of them cannot record
//! on half of the machines, and what it could not do must be said rather than worked around.

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
