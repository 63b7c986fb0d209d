//! The facts on a load, as in `load.toml` and `library.json`.
//!
//! `ioecho library verify` counts everything again that can be counted. The user's own facts stand
//! beside the counts, unchanged.

use ioecho_stats::analysis::steadiness::SteadyFigures;
use ioecho_stats::trace_summary::TraceFigures;
use ioecho_trace::Header;
use serde::{Deserialize, Serialize};

use super::name::Name;

/// The facts on a load. The keys are stable (docs/library.md). Unknown values are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    /// [`super::LIBRARY_VERSION`].
    pub(crate) version: u32,
    pub(crate) name: Name,
    /// The description of the load, by the user who added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The origin of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    /// The licence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) license: Option<String>,
    /// When it was added (RFC 3339).
    pub(crate) added: String,
    /// The version of the program that added it.
    pub(crate) ioecho: String,
    /// The size of `load.parquet`.
    pub(crate) file_bytes: u64,
    /// The SHA-256 of `load.parquet`.
    pub(crate) sha256: String,
    /// The SHA-256 of the requests, which does not depend on the file ([`super::RequestsHash`]).
    pub(crate) requests_sha256: String,
    pub(crate) requests: u64,
    /// From the first issue to the last.
    pub(crate) duration_ns: i64,
    /// The end of the furthest request on any volume. A target must be at least as large.
    pub(crate) extent_bytes: u64,
    pub(crate) mean_requests_per_s: f64,
    /// Most requests in one second.
    pub(crate) peak_requests_per_s: u64,
    /// Where the recording is incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) damage: Option<String>,
    /// The transforms of the recording, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) transforms: Vec<String>,
    pub(crate) mix: Mix,
    pub(crate) recorded: Recorded,
    /// When the recorded service times were steady. Missing if the load has no service times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) steady: Option<Steady>,
}

/// The start of the steady state of service times by SNIA's criterion. Missing if they were never
/// steady. This is an estimate: another device becomes steady at another time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Steady {
    /// Of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reads_from_ns: Option<i64>,
    /// Of writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writes_from_ns: Option<i64>,
}

impl Steady {
    /// The result of the analysis, if the load has service times.
    pub(crate) fn of(figures: &SteadyFigures) -> Option<Self> {
        let from = |kind: &str| figures.kinds.iter().find(|of| of.kind == kind)?.steady_from_ns;
        (!figures.kinds.is_empty())
            .then(|| Self { reads_from_ns: from("reads"), writes_from_ns: from("writes") })
    }
}

/// Requests and bytes by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mix {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    #[serde(default)]
    pub(crate) flushes: u64,
    #[serde(default)]
    pub(crate) discards: u64,
    #[serde(default)]
    pub(crate) write_zeroes: u64,
    #[serde(default)]
    pub(crate) zone_operations: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

/// The facts on the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    /// The device or devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<String>,
    /// The size of all devices together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    /// The program that recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recorder: Option<String>,
    /// The event that counts as the issue of a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
    /// When the recording began (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<String>,
}

/// The number, or the largest one that both TOML and every reader of JSON can store.
const fn whole(number: u64) -> u64 {
    if number > i64::MAX as u64 { i64::MAX as u64 } else { number }
}

impl Facts {
    /// Whether two facts are the same. Rates may differ in their last bit: not every format keeps
    /// it, and another version may add up in another order.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.mean_requests_per_s, other.mean_requests_per_s);
        let is_near = (mine - theirs).abs() <= mine.abs() * 1e-9;
        is_near && Self { mean_requests_per_s: mine, ..other.clone() } == *self
    }

    /// Fills in the counts: requests, duration, extent, mean and peak rate, mix.
    pub(crate) fn count(&mut self, figures: &TraceFigures) {
        let extents = figures.per_volume.iter().map(|(_, volume)| volume.extent.0);
        self.requests = figures.requests;
        self.duration_ns = figures.duration_ns;
        self.extent_bytes = whole(extents.max().unwrap_or(0));
        self.mean_requests_per_s = figures.mean_requests_per_s;
        self.peak_requests_per_s = figures.peak.requests_per_s;
        self.mix = Mix {
            reads: figures.reads,
            writes: figures.writes,
            flushes: figures.flushes,
            discards: figures.discards,
            write_zeroes: figures.write_zeroes,
            zone_operations: figures.zone_operations,
            bytes_read: whole(figures.bytes_read),
            bytes_written: whole(figures.bytes_written),
        };
    }
}

impl Recorded {
    /// Fills in the facts in a trace's header.
    pub(crate) fn of(header: &Header) -> Self {
        let recording = header.recording.as_ref();
        let names = header.volumes.iter().map(|volume| volume.name.as_str());
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let sizes = header.volumes.iter().map(|volume| volume.size);
        let size = sizes.map(|size| size.map(|size| size.0));
        let size = size.reduce(|sum, size| Some(sum?.saturating_add(size?))).flatten();
        Self {
            device: (!names.is_empty()).then(|| names.join(", ")),
            size_bytes: size.filter(|size| *size > 0).map(whole),
            kernel: recording.map(|of| of.kernel.clone()).filter(|kernel| !kernel.is_empty()),
            recorder: header.recorder.clone(),
            event: header.event.clone(),
            started: header.started.clone(),
        }
    }
}
