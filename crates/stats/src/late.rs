//! The definition of a late request, and the causes of lateness.
//!
//! All figures on late requests (the verdict, the picture, the lines during a run) must count the
//! same requests, or they contradict each other.

use ioecho_trace::{LateCause, Nanos};
use serde::{Deserialize, Serialize};

/// Lateness beyond this breaks the schedule for the verdict.
pub const LATE: Nanos = Nanos::from_millis(1);

/// Where so few requests are late that it may be chance, that counts for nothing while none is late
/// by more than this. A general-purpose host lets other threads go first for up to ten milliseconds
/// (a tick at 100 Hz), and so makes a request late now and then.
pub(crate) const HARDLY_LATE: Nanos = Nanos::from_millis(10);

/// The causes of lateness in the device.
pub(crate) const DEVICE: [LateCause; 3] =
    [LateCause::Conflict, LateCause::InFlightCap, LateCause::Submission];

/// Requests late by more than [`LATE`] for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateShare {
    /// Their number.
    pub requests: u64,
    /// The sum of their lateness.
    pub lateness_ns: i64,
}

/// A cause of lateness in a word or two.
pub fn cause_name(cause: LateCause) -> &'static str {
    match cause {
        LateCause::None => "unexplained",
        known => known.name(),
    }
}
