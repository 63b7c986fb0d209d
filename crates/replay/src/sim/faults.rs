//! Reported faults of a simulated device: errors, short transfers, stalls, silence.
//!
//! A replay meets these once a year on real storage and must then do the right thing, so here they
//! come as often as a test or a user wants. They are drawn from a sequence of their own: switching
//! one on changes no service time of the requests that it spares.

use std::fmt;

use ioecho_trace::{Nanos, Outcome};

use crate::pattern::SplitMix64;

/// `EIO` of `errno.h`: what a disk with a bad sector answers.
pub(super) const EIO: i32 = 5;
/// `ENODEV` of `errno.h`: the error of a device that is gone.
pub(crate) const ENODEV: i32 = 19;

/// How often what goes wrong. Shares are of all requests, each drawn on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// The share of requests that end with an I/O error (`EIO`).
    pub error_share: f64,
    /// The share of reads and writes that move only a part of what was asked for.
    pub short_share: f64,
    /// The share of requests that take [`Faults::stall`] longer than the device worked on them.
    pub stall_share: f64,
    /// How much longer.
    pub stall: Nanos,
    /// The share of requests that are never answered.
    pub hang_share: f64,
    /// From this long after its first request on the device is gone: requests in flight then and
    /// all later ones end with `ENODEV`.
    pub vanish: Option<Nanos>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "errors={}", self.error_share)?;
        if self.short_share > 0.0 {
            write!(f, ", short={}", self.short_share)?;
        }
        if self.stall_share > 0.0 {
            write!(f, ", stall={}:{}", self.stall_share, self.stall)?;
        }
        if self.hang_share > 0.0 {
            write!(f, ", hang={}", self.hang_share)?;
        }
        self.vanish.map_or(Ok(()), |after| write!(f, ", vanish={after}"))
    }
}

/// What was decided on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) outcome: Outcome,
    pub(super) hangs: bool,
    pub(super) longer_ns: i64,
}

impl Faults {
    /// Decides on one request. Faults with a share of zero draw no random number.
    pub(super) fn decide(&self, transfers: bool, random: &mut SplitMix64) -> Fate {
        let mut happens = |share: f64| share > 0.0 && random.unit() < share;
        let hangs = happens(self.hang_share);
        let fails = happens(self.error_share);
        let is_short = happens(self.short_share) && transfers;
        let stalls = happens(self.stall_share);
        let outcome = match (fails, is_short) {
            (true, _) => Outcome::Error(EIO),
            (false, true) => Outcome::Short,
            (false, false) => Outcome::Ok,
        };
        Fate { outcome, hangs, longer_ns: if stalls { self.stall.0 } else { 0 } }
    }
}
