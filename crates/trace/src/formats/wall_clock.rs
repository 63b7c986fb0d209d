//! Instants of the wall clock, for formats that have only those.
//!
//! A trace counts from its own start, and a generated one has no date at all; yet some formats have
//! only dates. If the header has no date, a fixed one is written and noted, so that the same trace
//! makes the same file every time.

use super::write::Lost;
use crate::calendar;
use crate::header::Header;
use crate::units::Nanos;

/// The date for the start of a trace without one: 2000-01-01 UTC, in nanoseconds since 1970.
const FIXED_START_NS: i64 = 946_684_800_000_000_000;

const UNKNOWN_START: &str = "date of the start that is not known, written as 2000-01-01";

/// Turns instants of a trace into whole units since an epoch.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    unit_ns: i64,
    /// The start of the trace in units since the epoch.
    start: i128,
    is_known: bool,
}

impl WallClock {
    /// A clock in units of `unit_ns` nanoseconds since an epoch that lies `epoch_units` before
    /// 1970-01-01 UTC, for a trace with this header.
    ///
    /// The start is cut to whole units, so that distances between requests are not.
    pub fn new(header: &Header, unit_ns: i64, epoch_units: i64) -> Self {
        let known = header.started.as_deref().and_then(calendar::unix_ns);
        let start_ns = known.unwrap_or(FIXED_START_NS);
        let start = i128::from(start_ns.div_euclid(unit_ns)) + i128::from(epoch_units);
        Self { unit_ns, start, is_known: known.is_some() }
    }

    /// The instant in whole units, and whether it is exact; `None` if it lies before the epoch.
    #[inline]
    pub fn units(&self, issue: Nanos) -> Option<(u64, bool)> {
        let units = self.start + i128::from(issue.0.div_euclid(self.unit_ns));
        Some((u64::try_from(units).ok()?, issue.0.rem_euclid(self.unit_ns) == 0))
    }

    /// As [`WallClock::new`], with the header that is known when the first request is written;
    /// counts in `lost` if the date is not the trace's own.
    #[cold]
    pub fn begin(header: &Header, unit_ns: i64, epoch_units: i64, lost: &mut Lost) -> Self {
        let clock = Self::new(header, unit_ns, epoch_units);
        if !clock.is_known {
            lost.detail(UNKNOWN_START);
        }
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_start_and_the_units_behind_it() {
        let started = Some("1970-01-01T00:00:01.0000019Z".to_owned());
        let clock = WallClock::new(&Header { started, ..Header::default() }, 1_000, 5);
        assert_eq!(clock.units(Nanos(0)), Some((1_000_006, true)));
        assert_eq!(clock.units(Nanos(2_999)), Some((1_000_008, false)));
        assert_eq!(clock.units(Nanos(-1)), Some((1_000_005, false)));
        assert_eq!(clock.units(Nanos(-2_000_000_000_000)), None);
        let clock = WallClock::new(&Header::default(), 1, 0);
        assert_eq!(clock.units(Nanos::MAX).map(|(ns, _)| ns), Some(10_170_056_836_854_775_807));
    }
}
