//! blkreplay's linear bursts.
//!
//! Every second a burst begins, and each is larger than the one before by the slope. The second k
//! has slope · k requests, all at once. So the time axis shows the first burst that the storage
//! cannot complete in time. In the published `bursts-ultrafine.readwrite` the requests of a burst
//! are a nanosecond apart, the slope is 10, and the second 0 has one request.

use crate::arguments::{ArgumentError, Arguments};
use crate::units::Nanos;

/// The bursts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    every: i64,
    gap: i64,
    slope: u64,
    first: u64,
    /// The number of the current burst, and the number of its requests that were issued.
    burst: u64,
    issued: u64,
}

impl Bursts {
    pub(super) fn parse(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        let positive = |span: Option<Nanos>, name: &str, default| match span {
            None => Ok(default),
            Some(span) if span > Nanos::ZERO => Ok(span.0),
            Some(_) => Err(ArgumentError::new(format!("{name} must be longer than nothing"))),
        };
        let every = positive(arguments.setting("every")?, "every", 1_000_000_000)?;
        let gap = arguments.setting::<Nanos>("gap")?.map_or(1, |gap| gap.0);
        let slope = arguments.setting("slope")?.unwrap_or(10);
        let first = arguments.setting("first")?.unwrap_or(0);
        if slope == 0 && first == 0 {
            return Err(ArgumentError::new("slope: without a slope, 'first' must say how many"));
        }
        Ok(Self { every, gap, slope, first, burst: 0, issued: 0 })
    }

    /// The bursts in words.
    pub(super) fn told(&self) -> String {
        let (every, gap) = (Nanos(self.every), Nanos(self.gap));
        let Self { slope, first, .. } = self;
        let from = if *first > 0 { format!(" from {first} on") } else { String::new() };
        format!("in bursts{from}, {slope} more every {every}, {gap} apart within a burst")
    }

    /// The next instant; `None` at the end of time.
    #[inline]
    pub(super) fn next(&mut self) -> Option<i64> {
        let requests = self.slope.saturating_mul(self.burst).saturating_add(self.first).max(1);
        let start = i64::try_from(self.burst).ok()?.checked_mul(self.every)?;
        // A burst that takes longer than the time until the next one ends there.
        let within = i64::try_from(self.issued).ok()?.checked_mul(self.gap)?;
        let now = start.checked_add(within)?;
        self.issued += 1;
        if self.issued >= requests || within.saturating_add(self.gap) > self.every {
            self.burst += 1;
            self.issued = 0;
        }
        Some(now)
    }
}
