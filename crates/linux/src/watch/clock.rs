//! The clocks of the host against each other.
//!
//! A run is timed by `CLOCK_MONOTONIC`, which never steps. But a wall clock that does is often the
//! trace of a host that was stopped, and a monotonic clock does not count the time of a suspend. So
//! the clocks are read together once in a while, and what one did and another did not is told.

use std::mem::MaybeUninit;

use ioecho_trace::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// A difference between two clocks that changes by less is no step: reading them takes time, and
/// the host may put the reader aside in between.
const STEP: i64 = 1_000_000;

/// By this part of the time that has passed two clocks may drift apart without a step: twice what
/// `adjtimex(2)` corrects a clock by.
const DRIFT: f64 = 1e-3;

/// From this span on the speed of one clock against another is known to some millionths.
const SPEED_SPAN: Nanos = Nanos::from_secs(1);

/// How often the clocks are read for one sample; the closest reading counts.
const TRIES: usize = 3;

/// All clocks at one moment, in nanoseconds since origins of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSample {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: i64,
    /// `CLOCK_REALTIME`.
    pub realtime: i64,
    /// `CLOCK_BOOTTIME`, which goes on in suspend.
    pub boottime: i64,
    /// `CLOCK_MONOTONIC_RAW`, which nobody corrects.
    pub raw: i64,
    /// How long reading them took: they are this far apart at most.
    pub uncertainty: i64,
}

impl ClockSample {
    /// Reads the clocks.
    pub fn now() -> Self {
        let read = |id| {
            let at = clock_gettime(id);
            at.tv_sec.saturating_mul(1_000_000_000).saturating_add(at.tv_nsec)
        };
        let tries = (0..TRIES).map(|_| {
            let monotonic = read(ClockId::Monotonic);
            let realtime = read(ClockId::Realtime);
            let boottime = read(ClockId::Boottime);
            let raw = read(ClockId::MonotonicRaw);
            let uncertainty = read(ClockId::Monotonic) - monotonic;
            Self { monotonic, realtime, boottime, raw, uncertainty }
        });
        tries.min_by_key(|sample| sample.uncertainty).unwrap_or_default()
    }
}

/// What samples of the clocks tell together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockWatch {
    first: ClockSample,
    last: ClockSample,
    /// How many samples there were.
    pub samples: u64,
    /// How often the wall clock jumped against the monotonic one.
    pub steps: u64,
    /// The largest such jump, forwards or, below zero, backwards.
    pub step_max: Nanos,
    /// How long the host slept.
    pub suspended: Nanos,
}

impl ClockWatch {
    /// Takes the next sample.
    pub fn take(&mut self, sample: ClockSample) {
        if self.samples == 0 {
            self.first = sample;
        } else {
            let before = self.last;
            let passed = sample.monotonic.saturating_sub(before.monotonic).max(0);
            let noise = STEP
                .saturating_add((passed as f64 * DRIFT) as i64)
                .saturating_add(sample.uncertainty.max(0))
                .saturating_add(before.uncertainty.max(0));
            let ahead = |at: i64, then: i64| at.saturating_sub(then).saturating_sub(passed);
            let slept = ahead(sample.boottime, before.boottime);
            if slept > noise {
                self.suspended += Nanos(slept);
            }
            // In suspend the wall clock goes on as the boot clock does: that is no step.
            let slept = if slept > noise { slept } else { 0 };
            let jump = ahead(sample.realtime, before.realtime).saturating_sub(slept);
            if jump.saturating_abs() > noise {
                self.steps += 1;
                if jump.saturating_abs() > self.step_max.0.saturating_abs() {
                    self.step_max = Nanos(jump);
                }
            }
        }
        self.last = sample;
        self.samples += 1;
    }

    /// By how many millionths the monotonic clock ran faster than the counter below it; `None` of
    /// less than a second.
    pub fn slew_ppm(&self) -> Option<f64> {
        let monotonic = self.last.monotonic.saturating_sub(self.first.monotonic);
        let raw = self.last.raw.saturating_sub(self.first.raw);
        let enough = Nanos(monotonic.min(raw)) >= SPEED_SPAN;
        enough.then(|| (monotonic as f64 / raw as f64 - 1.0) * 1e6)
    }
}

/// Whether the kernel takes the wall clock for synchronised: `STA_UNSYNC` of `adjtimex(2)` is not
/// set. `None` where it may not be asked.
pub fn is_synchronised() -> Option<bool> {
    let mut state = MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: all bytes zero are a valid `struct timex`, whose `modes` then asks for nothing to be
    // changed; the kernel writes a whole one to the address, which lives through the call.
    let answer = unsafe { libc::adjtimex(state.as_mut_ptr()) };
    if answer < 0 {
        return None;
    }
    // SAFETY: it was zeroed, and written by the call.
    let state = unsafe { state.assume_init() };
    Some(state.status & libc::STA_UNSYNC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// The clocks after so many seconds, none of them disturbed.
    fn at(seconds: i64) -> ClockSample {
        ClockSample {
            monotonic: seconds * S,
            realtime: (1_000_000 + seconds) * S,
            boottime: (50 + seconds) * S,
            raw: seconds * S,
            uncertainty: 1000,
        }
    }

    fn watched(samples: &[ClockSample]) -> ClockWatch {
        let mut watch = ClockWatch::default();
        for sample in samples {
            watch.take(*sample);
        }
        watch
    }

    #[test]
    fn clocks_that_run_together_or_drift_a_little_make_no_step() {
        let drifted = ClockSample { realtime: at(1).realtime + S / 2000, ..at(1) };
        let watch = watched(&[at(0), drifted]);
        assert_eq!((watch.samples, watch.steps, watch.suspended), (2, 0, Nanos::ZERO));
        assert_eq!(watch.slew_ppm(), Some(0.0));
    }

    #[test]
    fn a_step_of_the_wall_clock_is_found_in_either_direction() {
        let ahead = |by: i64, at: ClockSample| ClockSample { realtime: at.realtime + by, ..at };
        let watch = watched(&[at(0), ahead(S, at(1)), ahead(-2 * S, at(2)), ahead(-2 * S, at(3))]);
        assert_eq!((watch.steps, watch.step_max), (2, Nanos(-3 * S)));
    }

    #[test]
    fn a_reading_that_took_long_is_no_step() {
        let put_aside =
            ClockSample { realtime: at(1).realtime + S / 10, uncertainty: S / 10, ..at(1) };
        assert_eq!(watched(&[at(0), put_aside]).steps, 0);
    }

    #[test]
    fn time_in_suspend_is_no_step() {
        let woken = ClockSample {
            realtime: at(1).realtime + 60 * S,
            boottime: at(1).boottime + 60 * S,
            ..at(1)
        };
        let watch = watched(&[at(0), woken]);
        assert_eq!((watch.steps, watch.suspended), (0, Nanos(60 * S)));
    }

    #[test]
    fn a_clock_that_is_corrected_tells_by_how_much() {
        let fast = ClockSample { raw: at(100).raw - S / 20, ..at(100) };
        let slew = watched(&[at(0), fast]).slew_ppm().unwrap();
        assert!((slew - 500.25).abs() < 0.1, "{slew}");
        assert_eq!(watched(&[at(0), at(0)]).slew_ppm(), None);
        assert_eq!(ClockWatch::default().slew_ppm(), None);
    }

    #[test]
    fn absurd_readings_are_borne() {
        let far = ClockSample {
            monotonic: i64::MAX,
            realtime: i64::MIN,
            boottime: i64::MAX,
            raw: i64::MIN,
            uncertainty: i64::MAX,
        };
        let watch = watched(&[at(0), far, at(1), far]);
        assert_eq!(watch.samples, 4);
    }

    #[test]
    fn each_clock_of_this_host_is_read_under_its_own_name() {
        let read = |id| {
            let at = clock_gettime(id);
            at.tv_sec * S + at.tv_nsec
        };
        let clocks =
            || [ClockId::Monotonic, ClockId::Realtime, ClockId::Boottime, ClockId::MonotonicRaw];
        let before = clocks().map(read);
        let sample = ClockSample::now();
        let after = clocks().map(read);
        let taken = [sample.monotonic, sample.realtime, sample.boottime, sample.raw];
        for (clock, ((before, taken), after)) in
            before.into_iter().zip(taken).zip(after).enumerate()
        {
            // The wall clock may be set meanwhile; an hour apart is another clock.
            let margin = if clock == 1 { 3600 * S } else { 0 };
            assert!((before - margin..=after + margin).contains(&taken), "clock {clock}: {taken}");
        }
        assert!((0..=after[0] - before[0]).contains(&sample.uncertainty));
    }
}
