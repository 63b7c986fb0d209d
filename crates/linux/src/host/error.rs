//! Refusals of the host, with reasons and remedies.

use std::io;

use super::cpus::CpuList;
use super::realtime::FIFO_MAX;

/// Why the host did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A processor that this host does not have, or that is switched off.
    #[error("processor {cpu} is not there: this host runs {online}\n  = help: name some of those")]
    NoSuchCpu {
        /// The number that was asked for.
        cpu: usize,
        /// Those that are there and on.
        online: CpuList,
    },
    /// Processors that exist, but not for this process.
    #[error(
        "processors {asked} cannot be had: the system leaves only {allowed} to this process\n  = \
         help: name some of those, or widen the cpuset of the container or service \
         (AllowedCPUs=, --cpuset-cpus)"
    )]
    CpusNotAllowed {
        /// What was asked for.
        asked: CpuList,
        /// The part of it that the system grants.
        allowed: CpuList,
    },
    /// A priority that there is not.
    #[error("{asked} is no real-time priority\n  = help: 1 to {FIFO_MAX} are; 1 is enough")]
    Priority {
        /// What was asked for.
        asked: u8,
    },
    /// This user may not raise the priority.
    #[error(
        "the real-time priority {asked} is not permitted (limit {limit})\n  = help: run as root, \
         give the capability CAP_SYS_NICE, or raise the limit (ulimit -r, LimitRTPRIO=)"
    )]
    FifoDenied {
        /// What was asked for.
        asked: u8,
        /// The limit (`RLIMIT_RTPRIO`).
        limit: u64,
    },
    /// Memory may not be locked, or not enough.
    #[error(
        "memory cannot be locked: the limit is {limit}, and a run needs at least {needed}\n  = \
         help: run as root, give the capability CAP_IPC_LOCK, or raise the limit (ulimit -l \
         unlimited, LimitMEMLOCK=infinity)"
    )]
    MemoryLimit {
        /// The limit (`RLIMIT_MEMLOCK`).
        limit: ioecho_trace::Bytes,
        /// The least that a run needs.
        needed: ioecho_trace::Bytes,
    },
    /// `/dev/cpu_dma_latency` cannot be opened or written.
    #[error(
        "/dev/cpu_dma_latency cannot be held: {source}\n  = help: only root may, and the kernel \
         must have CONFIG_CPU_IDLE; without it, boot with idle=poll or set \
         /sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"
    )]
    DmaLatency {
        /// What the kernel said.
        source: io::Error,
    },
    /// Anything else that the kernel refuses.
    #[error("the host refuses to {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl HostError {
    pub(super) fn system(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System { action, source: source.into() }
    }
}
