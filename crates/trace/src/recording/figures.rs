//! Facts and figures of a recording, a part of the trace's header.
//!
//! To trust a recorded trace one must know whether and when events were lost, how much the recorder
//! slowed the load, and how reliable the latencies are. All numbers are whole, so that a header
//! that is read back is the header that was written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::description::{Device, Interface};

/// The facts about a recording. Intervals are nanoseconds of the trace, whose zero is the first
/// request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// The kernel's interface, or `file` where another recorder's file was read.
    pub interface: Interface,
    /// The reason for this interface, as a phrase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The kernel's release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// The clock of the events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clock: String,
    /// The trace's zero in nanoseconds of `CLOCK_MONOTONIC`; `None` where the events have another
    /// clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_monotonic_ns: Option<u64>,
    /// The instant from which every request was recorded, in nanoseconds; negative before the first
    /// request. `None` where the recorder did not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<i64>,
    /// The instant up to which every request was recorded, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<i64>,
    /// The recorded devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// Events by kind: queued, merged, inserted, issued, completed, split, requeued, remapped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, u64>,
    /// The number of lost events by processor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost: BTreeMap<u32, u64>,
    /// The stretches in which events were lost, in order; if there are many, neighbours are joined.
    /// Gaps of an unknown number of events are joined over all processors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// The resources that the recorder used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The figures of the matching of completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<MatchingFigures>,
    /// The times and the reordering between queue and driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverFigures>,
    /// The reason for the end; `None` where the recorder was killed or another's file does not tell
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the user asked for the end; any other recording may lack its last events. `None`
    /// from earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<bool>,
}

impl Recording {
    /// Whether the calls of a command were recorded, and not the requests of devices.
    pub fn is_of_calls(&self) -> bool {
        self.interface == Interface::Tracefs && self.devices.is_empty()
    }

    /// Whether the user asked for the end. For a recording of an earlier version this follows from
    /// the phrase.
    pub fn was_asked_to_end(&self) -> bool {
        self.stopped
            .as_ref()
            .is_some_and(|why| self.asked.unwrap_or_else(|| why.starts_with(ASKED_TO)))
    }
}

/// The phrase of a recording that ended because somebody asked for it. A colon and the way in which
/// it was asked for may follow.
pub const ASKED_TO: &str = "asked to";

/// A stretch in which events were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The beginning in nanoseconds of the trace; negative before the first request.
    pub from_ns: i64,
    /// The end in nanoseconds of the trace.
    pub to_ns: i64,
    /// The number of lost events; 0 where the kernel did not count them.
    pub events: u64,
}

/// The resources that a recorder took from the machine it watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The processor time of all its threads, in nanoseconds.
    pub cpu_ns: u64,
    /// The duration of the recording, in nanoseconds.
    pub wall_ns: u64,
    /// The number of bytes written.
    pub bytes: u64,
}

impl Cost {
    /// The processor time as a share of one processor: 1 is all of it.
    pub fn cpu_share(&self) -> f64 {
        self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }
}

/// The result of matching completions with requests. A request counts in one of `exact`,
/// `by_pieces` and `unmatched`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchingFigures {
    /// Requests completed by an event of exactly their range (flushes: of their name).
    pub exact: u64,
    /// Requests completed as a part of a larger one, or by several parts: merges and splits.
    pub by_pieces: u64,
    /// Requests without a completion.
    pub unmatched: u64,
    /// Requests with a completion that may be another's, or not the last one: several requests
    /// matched, one that was given up or that nobody saw may have been meant, or a flush was not
    /// seen to end. They count in `exact` or `by_pieces` as well.
    pub ambiguous: u64,
    /// Completions without a request.
    pub strays: u64,
    /// Requests whose completion was an error of the device.
    #[serde(default)]
    pub failed: u64,
}

impl MatchingFigures {
    /// The number of requests.
    pub fn requests(&self) -> u64 {
        self.exact.saturating_add(self.by_pieces).saturating_add(self.unmatched)
    }
}

/// Times and reordering between queue and driver (`Q2D` of `btt`), of requests that have both
/// events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverFigures {
    /// Requests whose handing over to the driver was seen.
    pub seen: u64,
    /// The median of the time from queue to driver, in nanoseconds. Each quantile is the upper end
    /// of a class that is at most 1/32 wide.
    pub p50_ns: u64,
    /// The time that 90 of 100 requests did not exceed, in nanoseconds.
    pub p90_ns: u64,
    /// The time that 99 of 100 requests did not exceed, in nanoseconds.
    pub p99_ns: u64,
    /// The time that 999 of 1000 requests did not exceed, in nanoseconds.
    pub p999_ns: u64,
    /// The longest time, in nanoseconds.
    pub max_ns: u64,
    /// The reordering of requests on their way to the driver.
    pub reordering: Reordering,
}

/// Reordering of a stream between its queue and its driver (RFC 4737, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reordering {
    /// Requests that reached the driver.
    pub of: u64,
    /// Requests that reached the driver behind a request that was queued later (type-P-reordered).
    pub reordered: u64,
    /// The sum of the extents of the reordered requests (section 4.2.2). An extent is the number of
    /// arrivals between a request and the first one that overtook it.
    pub extent_sum: u64,
    /// The greatest extent.
    pub extent_max: u64,
}

impl Reordering {
    /// The share of requests that were reordered (section 3.3's ratio).
    pub fn ratio(&self) -> f64 {
        self.reordered as f64 / self.of.max(1) as f64
    }

    /// The mean extent of the reordered requests.
    pub fn mean_extent(&self) -> f64 {
        self.extent_sum as f64 / self.reordered.max(1) as f64
    }
}
