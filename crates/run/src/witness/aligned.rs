//! How far a recording's zero lies behind a run's.
//!
//! Both count by `CLOCK_MONOTONIC`, which is a clock of one host since its boot: a recording of
//! another host, or of another boot, counts from elsewhere, and to align it by that clock would be
//! wrong by days.

use ioecho_trace::Header;

/// How long before and after a run a recording of it begins at most: an hour, in nanoseconds.
const ABOUT_NS: i64 = 3_600_000_000_000;

/// How far the recording's zero lies behind the run's, in nanoseconds; `None` where one of the two
/// is not known, or of a recording that was not made about the time of the run. `zero_ns` is the
/// run's zero on `CLOCK_MONOTONIC`, `duration_ns` how long it took, as far as that is known.
pub fn shift(zero_ns: Option<i64>, recording: &Header, duration_ns: u64) -> Option<i64> {
    let recording = recording.recording.as_ref()?.zero_monotonic_ns?;
    let shift = i64::try_from(i128::from(recording) - i128::from(zero_ns?)).ok()?;
    let latest = i64::try_from(duration_ns).unwrap_or(i64::MAX).saturating_add(ABOUT_NS);
    (-ABOUT_NS..=latest).contains(&shift).then_some(shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ioecho_trace::recording::Recording;

    #[test]
    fn a_clock_of_another_host_or_boot_is_not_that_of_the_run() {
        let of = |run: i64, zero: u64, duration: u64| {
            let recording = Recording { zero_monotonic_ns: Some(zero), ..Recording::default() };
            let header = Header { recording: Some(recording), ..Header::default() };
            shift(Some(run), &header, duration)
        };
        let hour = 3_600_000_000_000;
        let ours = 5 * hour as i64;
        assert_eq!(of(ours, 5 * hour + 7, 0), Some(7));
        assert_eq!(of(ours, 4 * hour, 0), Some(-ABOUT_NS));
        assert_eq!(of(ours, 4 * hour - 1, 0), None);
        assert_eq!(of(ours, 8 * hour, 2 * hour), Some(3 * ABOUT_NS));
        assert_eq!(of(ours, 8 * hour + 1, 2 * hour), None);
        assert_eq!(of(0, u64::MAX, u64::MAX), None);
        assert_eq!(of(i64::MIN, u64::MAX, u64::MAX), None);
        assert_eq!(shift(Some(0), &Header::default(), 0), None);
    }
}
