//! What counts as late, and for which cause.
//!
//! Every figure that tells of late requests (the verdict, the picture, the lines of a run that goes
//! on) must mean the same requests by it, or two of them contradict each other.

use ioecho_trace::{LateCause, Nanos};
use serde::{Deserialize, Serialize};

/// Lateness beyond this breaks the schedule for the verdict.
pub const LATE: Nanos = Nanos::from_millis(1);

/// The causes of lateness that are the device's doing.
pub(crate) const DEVICE: [LateCause; 3] =
    [LateCause::Conflict, LateCause::InFlightCap, LateCause::Submission];

/// Requests late by more than [`LATE`] for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateShare {
    /// How many.
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
