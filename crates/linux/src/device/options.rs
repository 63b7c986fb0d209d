//! Options of the back ends, and why they may be refused.
//!
//! An option that is silently ineffective changes the meaning of the figures. So each option is
//! either applied or refused with the reason; only [`Backend::Auto`] may choose, and it states its
//! choice and why.

use std::io;
use std::path::PathBuf;

use ioecho_trace::Bytes;
use serde::{Deserialize, Serialize};

use super::buffers::BUFFER_MEMORY;
use super::ring::IN_FLIGHT_MAX;

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// `io_uring` where it is allowed, or else Linux AIO, or else threads.
    #[default]
    Auto,
    /// `io_uring` or an error.
    Uring,
    /// Linux AIO (`io_submit`) or an error.
    Aio,
    /// Threads.
    Threads,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Uring, Self::Aio, Self::Threads];

    /// As it stands on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Uring => "uring",
            Self::Aio => "aio",
            Self::Threads => "threads",
        }
    }
}

/// The most threads that can be asked for.
pub const THREADS_MAX: u32 = 4096;

/// The least memory for buffers: 1 MiB, which makes the largest request 128 KiB.
pub const BUFFER_MEMORY_MIN: Bytes = Bytes(1 << 20);

/// How a target is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// How requests reach the kernel.
    pub backend: Backend,
    /// How many requests may be in flight, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight_max: u32,
    /// How many threads there are, 1 to [`THREADS_MAX`]; unless told, one for each request in
    /// flight, but no more than 256. Only with threads.
    pub threads: Option<u32>,
    /// Lets a thread of the kernel take requests off the ring (`IORING_SETUP_SQPOLL`): no system
    /// call is needed, but that thread takes a processor. Only with `io_uring`.
    pub sqpoll: bool,
    /// Polls the device for completions in place of interrupts (`IORING_SETUP_IOPOLL`). Only with
    /// `io_uring`, direct I/O and a device whose queue polls.
    pub iopoll: bool,
    /// Registers the buffers with the ring where the kernel allows it, so that it need not look up
    /// their pages for each request. Only with `io_uring`; the others have no such thing.
    pub register_buffers: bool,
    /// Memory that is kept for the data of requests; unless told, [`BUFFER_MEMORY`], but no more
    /// than a quarter of the host's. An eighth of it is the largest request, but that is never more
    /// than [`BUFFER_MAX`](super::BUFFER_MAX).
    pub buffer_memory: Option<Bytes>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            backend: Backend::Auto,
            in_flight_max: 1024,
            threads: None,
            sqpoll: false,
            iopoll: false,
            register_buffers: true,
            buffer_memory: None,
        }
    }
}

impl DeviceOptions {
    /// Refuses what is out of range and what contradicts itself. `memory` is the host's, in bytes.
    pub(super) fn check(&self, memory: u64) -> Result<(), DeviceError> {
        if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight_max) {
            return Err(DeviceError::InFlight { asked: self.in_flight_max });
        }
        if let Some(asked) = self.threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
            return Err(DeviceError::Threads { asked });
        }
        let possible = BUFFER_MEMORY_MIN..=Bytes(memory);
        if let Some(asked) = self.buffer_memory.filter(|bytes| !possible.contains(bytes)) {
            return Err(DeviceError::BufferMemory { asked, memory });
        }
        let uses_ring = matches!(self.backend, Backend::Auto | Backend::Uring);
        let uses_threads = self.backend == Backend::Threads;
        let contradiction = [
            (self.sqpoll && !uses_ring, "SQPOLL", "uring"),
            (self.iopoll && !uses_ring, "IOPOLL", "uring"),
            (self.threads.is_some() && !uses_threads, "a number of threads", "threads"),
        ];
        match contradiction.into_iter().find(|(refused, ..)| *refused) {
            Some((_, option, needs)) => {
                Err(DeviceError::Contradiction { option, backend: self.backend.name(), needs })
            }
            None => Ok(()),
        }
    }

    /// The memory for buffers on a host that has so many bytes.
    pub(super) fn buffer_memory(&self, memory: u64) -> Bytes {
        let default = BUFFER_MEMORY.min(Bytes(memory / 4)).max(BUFFER_MEMORY_MIN);
        self.buffer_memory.unwrap_or(default)
    }

    /// Whether only `io_uring` has these options.
    pub(super) const fn needs_ring(&self) -> bool {
        self.sqpoll || self.iopoll
    }
}

/// Why no device could be made.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// `io_uring` was asked for and is not to be had.
    #[error(
        "io_uring cannot be used here: {reason}\n  = help: use the back end `aio`, `threads` or \
         `auto`"
    )]
    UringUnavailable {
        /// Who forbids it.
        reason: String,
    },
    /// Linux AIO was asked for and is not to be had.
    #[error(
        "Linux AIO cannot be used here: {reason}\n  = help: use the back end `threads` or `auto`"
    )]
    AioUnavailable {
        /// Who forbids it.
        reason: String,
    },
    /// Polled completions were asked for and are not to be had on this target.
    #[error(
        "IOPOLL is not possible on {}: {reason}\n  = help: leave IOPOLL away; NVMe devices poll \
         when their driver was loaded with poll_queues=N",
        path.display()
    )]
    PollUnavailable {
        /// The target.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// An option that the back end asked for does not have.
    #[error(
        "{option} is not possible with the back end `{backend}`\n  = help: use the back end \
         `{needs}`, or leave the option away"
    )]
    Contradiction {
        /// The option.
        option: &'static str,
        /// The back end that was asked for.
        backend: &'static str,
        /// The back end that has the option.
        needs: &'static str,
    },
    /// More requests in flight than a ring can hold.
    #[error(
        "{asked} requests in flight are not possible\n  = help: between 1 and {IN_FLIGHT_MAX} are"
    )]
    InFlight {
        /// How many were asked for.
        asked: u32,
    },
    /// No threads, or too many.
    #[error("{asked} threads are not possible\n  = help: between 1 and {THREADS_MAX} are")]
    Threads {
        /// How many were asked for.
        asked: u32,
    },
    /// Too little memory for buffers, or more than the host has.
    #[error(
        "{} bytes of memory for buffers are not possible\n  = help: between {} and {memory} bytes, \
         the memory of this host, are",
        asked.0, BUFFER_MEMORY_MIN.0
    )]
    BufferMemory {
        /// How much was asked for.
        asked: Bytes,
        /// How much the host has, in bytes.
        memory: u64,
    },
    /// The kernel refused something else.
    #[error("cannot set up the back end {backend}: {source}")]
    System {
        /// Which back end.
        backend: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn refusal(options: DeviceOptions) -> String {
        options.check(GIB).unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_accepted_on_large_and_small_hosts() {
        let options = DeviceOptions::default();
        for (memory, buffers) in [(64 * GIB, 512 << 20), (GIB, 256 << 20), (1 << 20, 1 << 20)] {
            options.check(memory).unwrap();
            assert_eq!(options.buffer_memory(memory), Bytes(buffers));
        }
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let base = DeviceOptions::default();
        for in_flight_max in [0, IN_FLIGHT_MAX + 1] {
            let told = refusal(DeviceOptions { in_flight_max, ..base });
            assert!(told.contains("between 1 and 32768"), "{told}");
        }
        for threads in [0, THREADS_MAX + 1] {
            let told = refusal(DeviceOptions { threads: Some(threads), ..base });
            assert!(told.contains("between 1 and 4096"), "{told}");
        }
        for bytes in [BUFFER_MEMORY_MIN.0 - 1, GIB + 1] {
            let told = refusal(DeviceOptions { buffer_memory: Some(Bytes(bytes)), ..base });
            assert!(told.contains("the memory of this host"), "{told}");
        }
    }

    #[test]
    fn an_option_of_another_back_end_is_refused() {
        let base = DeviceOptions::default();
        for backend in [Backend::Aio, Backend::Threads] {
            let told = refusal(DeviceOptions { backend, sqpoll: true, ..base });
            assert!(told.starts_with("SQPOLL is not possible with the back end"), "{told}");
            let told = refusal(DeviceOptions { backend, iopoll: true, ..base });
            assert!(told.contains("use the back end `uring`"), "{told}");
        }
        for backend in [Backend::Auto, Backend::Aio, Backend::Uring] {
            let told = refusal(DeviceOptions { backend, threads: Some(4), ..base });
            assert!(told.contains("use the back end `threads`"), "{told}");
        }
    }
}
