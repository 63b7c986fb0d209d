//! How a scheduler is to behave.

use std::ops::RangeInclusive;

use ioecho_trace::Nanos;

use crate::conflict::{ConflictMode, Strong};
use crate::plan::TimingMode;

/// How many requests may be in flight on a target at most: the possible caps.
pub const IN_FLIGHT: RangeInclusive<u32> = 1..=16384;

/// How the scheduler is to behave.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// What to do on conflict.
    pub conflicts: ConflictMode,
    /// What a conflict is.
    pub strong: Strong,
    /// The cap on requests in flight, those once pushed back not counted.
    pub in_flight_max: u32,
    /// The cap on requests in flight that had been pushed back: they do not count against the
    /// ordinary cap, so that a hot spot does not throttle the rest of the load.
    pub pushed_in_flight_max: u32,
    /// How many requests may wait for others. When as many wait, nothing more is issued.
    pub waiting_max: u32,
    /// How many planned requests are held before they are due.
    pub look_ahead: usize,
    /// What decides when a request may be issued.
    pub timing: TimingMode,
    /// Whether requests wait for the completion of others also where these do not decide when they
    /// are due: a call on files must find what the calls before it have made.
    pub linked: bool,
    /// Whether requests in flight are held below what the recording had in flight when the request
    /// was issued there, rounded up to a power of two: hfplayer's control against *response-time
    /// thrashing*. A late request makes those after it overdue; issued all at once they double the
    /// queue and multiply the response time without any gain. The rounding lets the replay catch up
    /// slowly. (Haghdoost et al., "hfplayer", 2017, section 2.)
    pub follow_in_flight: bool,
    /// Requests due within this of each other are issued together, when the last of them is due:
    /// none is early. With zero each is issued when it is due; requests that are already due go
    /// together all the same.
    pub bundle: Nanos,
}

impl Config {
    /// A configuration with this cap on requests in flight, blkreplay's conflict rules, and
    /// everything else in proportion.
    pub fn with_in_flight_max(in_flight_max: u32) -> Self {
        Self {
            conflicts: ConflictMode::default(),
            strong: Strong::default(),
            in_flight_max,
            pushed_in_flight_max: in_flight_max,
            waiting_max: 1 << 16,
            look_ahead: 1 << 12,
            timing: TimingMode::default(),
            linked: false,
            follow_in_flight: false,
            bundle: Nanos::ZERO,
        }
    }

    /// Whether requests wait for the completion of others.
    pub const fn has_parents(&self) -> bool {
        self.timing.has_parents() || self.linked
    }

    /// How many requests a device must be able to hold.
    pub fn device_slots(&self) -> u32 {
        self.in_flight_max + self.pushed_in_flight_max
    }
}
