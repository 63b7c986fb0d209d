//! What the host and the devices did around a run, beside the requests themselves.
//!
//! The kernel counts what a device was given, what a processor was taken for and how its clocks ran
//! against each other. Most of these counters are read once before the first request and once after
//! the last, so that they cost the run nothing; what only shows meanwhile is sampled once a second.

use serde::{Deserialize, Serialize};

/// Facts that were read from the host and the kernel before, during and after a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostFacts {
    /// Each target's device, in the order of the targets; none where nobody looked.
    pub devices: Vec<DeviceFacts>,
    /// The clocks; `None` where nobody looked.
    pub clock: Option<ClockFacts>,
    /// The processors; `None` where nobody looked.
    pub cpu: Option<CpuFacts>,
    /// The writing of results; `None` where nobody looked.
    pub recorder: Option<RecorderFacts>,
}

/// The block device of a target: itself, or the one below a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceFacts {
    /// Its name in the kernel, such as `sda` or `loop3`; empty where the target has no single one.
    pub name: String,
    /// Why nothing is known of it; empty where it is.
    pub unknown: String,
    /// Whether the target is a file on it, so that a file system lies between.
    pub is_file: bool,
    /// The I/O scheduler in use when the run began (`queue/scheduler`).
    pub scheduler: String,
    /// The same at the end.
    pub scheduler_after: String,
    /// Requests that the queue takes: `queue/nr_requests` for each hardware queue (`mq`), no more
    /// than `device/queue_depth` where the device says one.
    pub queue_limit: Option<u64>,
    /// The longest request that is not cut, in bytes (`queue/max_sectors_kb`).
    pub request_max: Option<u64>,
    /// The longest that the device could take, in bytes (`queue/max_hw_sectors_kb`).
    pub request_max_hardware: Option<u64>,
    /// The longest that is not cut though its memory is scattered over pages, in bytes
    /// (`queue/max_segments`).
    pub request_max_scattered: Option<u64>,
    /// What is written without reading first, in bytes: the largest block of all layers.
    pub block: u64,
    /// What has that block, in words.
    pub block_of: String,
    /// The best length of a request, in bytes (`queue/optimal_io_size`); zero where none is said.
    pub optimal: u64,
    /// Where the target begins on its disk, in bytes; zero for a disk.
    pub partition_start: u64,
    /// `write back` or `write through` (`queue/write_cache`) at the beginning.
    pub write_cache: String,
    /// The same at the end.
    pub write_cache_after: String,
    /// Whether a cache is known to lose what is not flushed, whatever `write_cache` says: the page
    /// cache below a loop device, or what the device itself says of its cache.
    pub is_volatile: Option<bool>,
    /// Whether it takes writes that go through its cache (`queue/fua`).
    pub fua: Option<bool>,
    /// The largest discard, zero where it takes none (`queue/discard_max_bytes`).
    pub discard_max: Option<u64>,
    /// What the kernel counted on it from the first request to the last.
    pub counted: Option<CountedFacts>,
    /// The disk that a partition is a part of, and what lies below a loop device or a stacked one.
    pub layers: Vec<LayerFacts>,
}

/// A device below another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LayerFacts {
    /// Its name in the kernel.
    pub name: String,
    /// Whether it has the target's requests one to one: the disk of a partition.
    pub is_disk: bool,
    /// Whether a file system lies above it, whose journal is written on it too.
    pub is_below_file: bool,
    /// What the kernel counted on it from the first request to the last.
    pub counted: Option<CountedFacts>,
}

/// What the kernel counted on a device in a span of time (`Documentation/block/stat.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CountedFacts {
    /// Reads that completed.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes that completed.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Discards that completed.
    pub discards: u64,
    /// Flushes that completed.
    pub flushes: u64,
    /// Requests that were put together with one that waited already.
    pub merges: u64,
    /// The span in which they were counted.
    pub span_ns: i64,
}

impl CountedFacts {
    /// Reads, writes and discards.
    pub fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.discards)
    }

    /// Bytes read and written.
    pub fn bytes(&self) -> u64 {
        self.read_bytes.saturating_add(self.write_bytes)
    }
}

/// How the clocks of the host ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClockFacts {
    /// What the kernel reads the time from when the run began.
    pub source: String,
    /// The same at the end.
    pub source_after: String,
    /// How often the clocks were held against each other.
    pub samples: u64,
    /// How often the wall clock jumped against the clock of the run.
    pub steps: u64,
    /// The largest such jump, in either direction.
    pub step_max_ns: i64,
    /// How long the host slept in suspend.
    pub suspended_ns: i64,
    /// By how many millionths the run's clock was made faster (or slower, below zero) than the
    /// counter below it; `None` where the run was too short to tell.
    pub slew_ppm: Option<f64>,
    /// Whether the kernel takes the wall clock for synchronised (`adjtimex(2)`).
    pub is_synchronised: Option<bool>,
}

/// What the processors of the run did; those it was pinned to, or else all that it may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CpuFacts {
    /// How many there are.
    pub processors: u64,
    /// All their time in the run.
    pub total_ns: i64,
    /// Of that, what the hypervisor gave to other guests.
    pub stolen_ns: i64,
    /// Of that, what other programs spent in user mode.
    pub others_ns: i64,
    /// How long the issuing threads stood ready and waited for a processor.
    pub waited_ns: Option<i64>,
    /// The frequency governor; empty where nothing is scaled.
    pub governor: String,
    /// The lowest mean frequency of a sample, in kHz.
    pub frequency_min_khz: Option<u64>,
    /// The highest mean frequency of a sample, in kHz.
    pub frequency_max_khz: Option<u64>,
    /// How often a processor was throttled because it was hot; `None` where the kernel counts none.
    pub throttled: Option<u64>,
    /// How long some thread of the host waited for a processor (`/proc/pressure/cpu`); `None` where
    /// the kernel counts none.
    pub pressure_ns: Option<u64>,
}

/// How the writing of results kept up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecorderFacts {
    /// Results that can wait for the writer.
    pub room: u64,
    /// Most that ever waited.
    pub peak: u64,
    /// The longest that handing results to the system took.
    pub write_max_ns: i64,
}
