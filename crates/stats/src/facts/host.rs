//! The behaviour of the host and the devices during a run, apart from the requests.
//!
//! The kernel counts the requests of a device, the use of the processors and the drift of the
//! clocks. Most of these counters are read once before the first request and once after the last,
//! so that they cost the run nothing; others are sampled once a second.

use serde::{Deserialize, Serialize};

use super::merging;

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

impl HostFacts {
    /// Adds what was read beside another run. The runs have so many targets each, also where
    /// nothing is known of their devices.
    pub(super) fn merge(&mut self, mine: u32, other: &Self, theirs: u32) {
        let Self { devices, clock, cpu, recorder } = other;
        // A list in the order of the targets, so that a device stays with its target.
        let unknown = || DeviceFacts {
            unknown: "nothing was looked at beside this target's run".to_owned(),
            ..DeviceFacts::default()
        };
        merging::behind_each_other(&mut self.devices, mine, devices, theirs, unknown);
        merging::both(&mut self.clock, clock.as_ref(), ClockFacts::merge);
        merging::both(&mut self.cpu, cpu.as_ref(), CpuFacts::merge);
        merging::both(&mut self.recorder, recorder.as_ref(), RecorderFacts::merge);
    }
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
    /// The kernel's counters on it, likewise from the first request to the last.
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

impl ClockFacts {
    /// Adds what was seen of the clocks beside another run, maybe on the same host.
    fn merge(&mut self, other: &Self) {
        let Self {
            source,
            source_after,
            samples,
            steps,
            step_max_ns,
            suspended_ns,
            slew_ppm,
            is_synchronised,
        } = other;
        // All that there were: hosts may differ, and no single one is that of the whole.
        merging::all_words(&mut self.source, source);
        merging::all_words(&mut self.source_after, source_after);
        // Every look is one more.
        self.samples = self.samples.saturating_add(*samples);
        // Two runs on one host see the same step and the same suspend: the most that one saw.
        self.steps = self.steps.max(*steps);
        self.suspended_ns = self.suspended_ns.max(*suspended_ns);
        // Furthest from zero, in either direction.
        let size = |step: i64| (step.unsigned_abs(), step);
        self.step_max_ns = if size(*step_max_ns) > size(self.step_max_ns) {
            *step_max_ns
        } else {
            self.step_max_ns
        };
        self.slew_ppm = merging::furthest(self.slew_ppm, *slew_ppm, |slew| slew);
        // Synchronised only if each is known to be.
        let rank = |known: Option<bool>| match known {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        if rank(*is_synchronised) < rank(self.is_synchronised) {
            self.is_synchronised = *is_synchronised;
        }
    }
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
    /// How many looks found that others, in user mode or behind the hypervisor, had less than a
    /// tenth of the time since the look before, less than two tenths, and so on; empty where nobody
    /// looked. There is about one look a second.
    pub others_by_tenth: Vec<u64>,
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

impl CpuFacts {
    /// Adds what the processors of another run did, maybe on the same host.
    fn merge(&mut self, other: &Self) {
        let Self {
            processors,
            total_ns,
            stolen_ns,
            others_ns,
            others_by_tenth,
            waited_ns,
            governor,
            frequency_min_khz,
            frequency_max_khz,
            throttled,
            pressure_ns,
        } = other;
        // Processor time adds up, and so do its parts, so that their shares stay true. Processors
        // that two runs had in turns count for each, as their time does.
        self.processors = self.processors.saturating_add(*processors);
        for (mine, theirs) in [
            (&mut self.total_ns, total_ns),
            (&mut self.stolen_ns, stolen_ns),
            (&mut self.others_ns, others_ns),
        ] {
            *mine = mine.saturating_add(*theirs);
        }
        // Every look is one more.
        let tenths = self.others_by_tenth.len().max(others_by_tenth.len());
        self.others_by_tenth.resize(tenths, 0);
        for (mine, theirs) in self.others_by_tenth.iter_mut().zip(others_by_tenth) {
            *mine = mine.saturating_add(*theirs);
        }
        // Every run has issuing threads of its own.
        self.waited_ns = merging::known(self.waited_ns, *waited_ns, i64::saturating_add);
        // All that there were, as with the sources of clocks.
        merging::all_words(&mut self.governor, governor);
        // Extremes of extremes. Hosts of different speeds stand apart in each run's own facts.
        self.frequency_min_khz =
            merging::known(self.frequency_min_khz, *frequency_min_khz, u64::min);
        self.frequency_max_khz =
            merging::known(self.frequency_max_khz, *frequency_max_khz, u64::max);
        // Counted for the whole host, which two runs may share: the most that one saw.
        self.throttled = merging::known(self.throttled, *throttled, u64::max);
        self.pressure_ns = merging::known(self.pressure_ns, *pressure_ns, u64::max);
    }
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

impl RecorderFacts {
    /// Adds how the writing of another run's results kept up.
    fn merge(&mut self, other: &Self) {
        let Self { room, peak, write_max_ns } = other;
        // Each run has a ring of its own: that which came nearest to being full, whole.
        let fuller = |peak: u64, room: u64| (peak as f64 / room.max(1) as f64, room);
        let (mine, theirs) = (fuller(self.peak, self.room), fuller(*peak, *room));
        if theirs.0.total_cmp(&mine.0).then(theirs.1.cmp(&mine.1)).is_gt() {
            (self.room, self.peak) = (*room, *peak);
        }
        self.write_max_ns = self.write_max_ns.max(*write_max_ns);
    }
}
