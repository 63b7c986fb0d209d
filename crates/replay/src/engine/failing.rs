//! Failures that end a replay.
//!
//! A client asks again as soon as it is answered. One whose requests fail at once would go on
//! failing as fast as the processor lets it, and fill the disk with records that say the same. So a
//! load with clients ends when nothing has succeeded for a long row of requests: sooner where the
//! error says that the target is not there any more.

use ioecho_trace::Outcome;
use std::sync::atomic::Ordering::Relaxed;

use super::Engine;
use crate::clock::Clock;

/// So many failures in a row end a load with clients.
const IN_A_ROW_MAX: u64 = 1_000_000;

/// So many in a row that all say that the target is gone.
const GONE_MAX: u64 = 1_000;

/// What the kernel answers where the target is gone: `ENXIO`, `ENODEV`, `ESHUTDOWN`.
const GONE: [i32; 3] = [6, 19, 108];

/// Why a load ended of which nothing succeeded any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hopeless {
    /// Its last requests, which all failed.
    pub in_a_row: u64,
    /// How the last of them ended.
    pub last: Outcome,
    /// Whether all of them said that the target is gone.
    pub is_gone: bool,
}

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InARow {
    failed: u64,
    gone: u64,
}

impl InARow {
    /// Counts a request that has ended so; answers whether there is no hope any more.
    fn count(&mut self, outcome: Outcome) -> Option<Hopeless> {
        if outcome == Outcome::Ok {
            *self = Self::default();
            return None;
        }
        let is_gone = matches!(outcome, Outcome::Error(number) if GONE.contains(&number));
        self.failed += 1;
        self.gone = if is_gone { self.gone + 1 } else { 0 };
        let hopeless = |in_a_row, is_gone| Some(Hopeless { in_a_row, last: outcome, is_gone });
        match (self.gone >= GONE_MAX, self.failed >= IN_A_ROW_MAX) {
            (true, _) => hopeless(self.gone, true),
            (_, true) => hopeless(self.failed, false),
            _ => None,
        }
    }
}

impl<C: Clock> Engine<'_, C> {
    /// Counts the requests that have just failed, and ends the replay if they are too many.
    pub(super) fn count_failures(&mut self) {
        for completion in &self.completions {
            if !matches!(completion.outcome, Outcome::Ok | Outcome::Unsupported) {
                self.totals.errors += 1;
            }
            if self.has_clients && self.totals.hopeless.is_none() {
                self.totals.hopeless = self.in_a_row.count(completion.outcome);
            }
        }
        if self.totals.hopeless.is_some() {
            self.control.stop.store(true, Relaxed);
        }
        if let Some(max) = self.pacing.errors_max {
            let damaged = self.audit.as_mut().map_or(0, super::Audit::places);
            if self.totals.errors + damaged >= max && !self.totals.too_many_errors {
                self.totals.too_many_errors = true;
                self.control.stop.store(true, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENODEV: Outcome = Outcome::Error(19);
    const EIO: Outcome = Outcome::Error(5);

    fn row(outcomes: impl Iterator<Item = Outcome>) -> Option<Hopeless> {
        let mut row = InARow::default();
        outcomes.fold(None, |hopeless, outcome| hopeless.or(row.count(outcome)))
    }

    #[test]
    fn a_row_of_failures_is_hopeless_only_if_nothing_succeeds_meanwhile() {
        let gone = |n: usize| std::iter::repeat_n(ENODEV, n);
        let failed = |n: usize| std::iter::repeat_n(EIO, n);
        let well = || std::iter::once(Outcome::Ok);
        assert_eq!(row(gone(999).chain(well()).chain(gone(999))), None);
        assert_eq!(row(gone(999).chain(failed(1)).chain(gone(999))), None);
        assert_eq!(row(failed(999_999).chain(well()).chain(failed(999_999))), None);
        let hopeless = row(failed(10).chain(gone(1000))).unwrap();
        assert_eq!((hopeless.in_a_row, hopeless.is_gone), (1000, true));
        let hopeless = row(failed(1_000_000)).unwrap();
        assert_eq!((hopeless.in_a_row, hopeless.is_gone, hopeless.last), (1_000_000, false, EIO));
    }
}
