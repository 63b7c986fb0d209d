//! Events that the recorder lost.
//!
//! When the kernel's buffers are full, events are dropped, and a trace with holes looks like a calm
//! disk. Each processor numbers the events of each device; a number that is missing is a lost
//! event. (Kernels before the second record layout counted up only when the event found room, so
//! their losses leave no gap, and only the running `blktrace` knew of them.)

use rustc_hash::FxHashMap;

/// The largest number of counters; garbage that looks like ever new devices must not fill the
/// memory.
const COUNTERS_MAX: usize = 1 << 16;

/// A number that is smaller than the last by more than this belongs to a new recording in the same
/// file.
const STEP_BACK_MAX: u32 = 4096;

/// The counters of one file, one for each processor and device.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    last: FxHashMap<(u32, u32), u32>,
    current: Option<((u32, u32), u32)>,
    lost: u64,
}

impl Sequences {
    /// Notes the number of the next event of the file.
    #[inline]
    pub(super) fn note(&mut self, cpu: u32, device: u32, sequence: u32) {
        match &mut self.current {
            Some((key, last)) if *key == (cpu, device) => {
                if last.wrapping_add(1) == sequence {
                    *last = sequence;
                } else {
                    step(last, sequence, &mut self.lost);
                }
            }
            _ => self.change((cpu, device), sequence),
        }
    }

    /// The number of missing sequence numbers.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Switches to the counter of another processor or device.
    fn change(&mut self, key: (u32, u32), sequence: u32) {
        if let Some((key, last)) = self.current.take() {
            self.last.insert(key, last);
        }
        match self.last.get(&key) {
            Some(&last) => {
                let mut last = last;
                step(&mut last, sequence, &mut self.lost);
                self.current = Some((key, last));
            }
            // The first number seen is the base: earlier events were before the recording.
            None if self.last.len() < COUNTERS_MAX => self.current = Some((key, sequence)),
            None => {}
        }
    }
}

/// Advances a counter and counts the numbers that it jumped over.
fn step(last: &mut u32, sequence: u32, missing: &mut u64) {
    let ahead = sequence.wrapping_sub(*last);
    if ahead == 0 {
        return;
    }
    if ahead < 1 << 31 {
        *missing += u64::from(ahead - 1);
        *last = sequence;
    } else if ahead.wrapping_neg() <= STEP_BACK_MAX {
        // The event was counted as lost when its successor came first.
        *missing = missing.saturating_sub(1);
    } else {
        *last = sequence;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(events: &[(u32, u32, u32)]) -> u64 {
        let mut sequences = Sequences::default();
        for &(cpu, device, sequence) in events {
            sequences.note(cpu, device, sequence);
        }
        sequences.lost()
    }

    #[test]
    fn the_first_number_is_the_base_and_gaps_count() {
        assert_eq!(lost(&[(0, 1, 700), (0, 1, 701), (0, 1, 705)]), 3);
    }

    #[test]
    fn processors_and_devices_count_apart() {
        assert_eq!(lost(&[(0, 1, 5), (1, 1, 90), (0, 2, 7), (0, 1, 6), (1, 1, 92)]), 1);
    }

    #[test]
    fn an_event_that_comes_late_is_not_lost() {
        assert_eq!(lost(&[(0, 1, 1), (0, 1, 3), (0, 1, 2), (0, 1, 4)]), 0);
    }

    #[test]
    fn a_counter_may_wrap_and_may_start_anew() {
        assert_eq!(lost(&[(0, 1, u32::MAX), (0, 1, 0), (0, 1, 1)]), 0);
        assert_eq!(lost(&[(0, 1, 900_000), (0, 1, 1), (0, 1, 2)]), 0);
    }
}
