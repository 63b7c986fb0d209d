//! The offset between a recording's time zero and a run's.
//!
//! Both use `CLOCK_MONOTONIC`, which begins at the boot of a host. A recording of another host, or
//! of another boot, has another zero, and aligning it by that clock would be wrong by days.

use ioecho_trace::Header;

/// How long before and after a run its recording may begin: an hour, in nanoseconds.
const ABOUT_NS: i64 = 3_600_000_000_000;

/// The recording's zero minus the run's, in nanoseconds; `None` if one of them is unknown, or if
/// the recording was not made near the time of the run. `zero_ns` is the run's zero on
/// `CLOCK_MONOTONIC`, `duration_ns` its duration, as far as known.
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
