//! Why the calls of a thread are late.
//!
//! A thread that is late may be so because its own calls take too long, or because it waited for a
//! file that another thread had. The first is the storage's. The second is mostly not: four
//! threads on one file do one call at a time, however fast the storage is, and with a file each
//! they would have been in time. The last wait alone does not tell: once calls come too late, each
//! next one inherits that. So a thread knows how much of its lateness it lost by waiting for files.
//! Only where one call of another thread took far longer than calls take, waiting for its file is
//! waiting for the storage.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use ioecho_trace::{LateCause, Nanos};

use crate::plan::Held;

/// A call that would be later than this with a file of its own, too, is late by its own thread: for
/// a verdict it is late either way.
const LATE: Nanos = Nanos::from_millis(1);

/// So many times as long as calls usually take is far longer.
const FAR_LONGER: i64 = 10;

/// How many calls the usual time is a mean of, roughly.
const USUAL_OF: i64 = 16;

/// The last call on a tree that took far longer than others. Threads of different flows tell it to
/// each other; the two numbers may be of two such calls for an instant.
#[derive(Debug, Default)]
pub(super) struct SlowCall {
    until: AtomicI64,
    took: AtomicI64,
}

impl SlowCall {
    fn is(&self, took: Nanos, until: Nanos) {
        self.took.store(took.0, Relaxed);
        self.until.store(until.0, Relaxed);
    }

    /// How much of the time between two instants it took.
    fn within(&self, from: Nanos, to: Nanos) -> Nanos {
        let until = Nanos(self.until.load(Relaxed));
        let began = until - Nanos(self.took.load(Relaxed));
        (to.min(until) - from.max(began)).max(Nanos::ZERO)
    }
}

/// What a thread has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    /// When its last call completed.
    pub(super) last: Nanos,
    /// Whether it has waited since then for what others had.
    pub(super) has_waited: bool,
    /// How late its last call with an instant was.
    late: Nanos,
    /// How much of that it lost by waiting for what others had.
    lost: Nanos,
    /// How long its calls usually take.
    usual: Nanos,
}

impl Waits {
    /// A call of the thread went on between these instants.
    pub(super) fn completed(&mut self, began: Nanos, at: Nanos, slow: &SlowCall) {
        self.last = self.last.max(at);
        self.has_waited = false;
        let took = at.saturating_sub(began);
        if self.usual == Nanos::ZERO {
            self.usual = took;
        }
        let far_longer = Nanos(self.usual.0.saturating_mul(FAR_LONGER));
        if took > LATE && took > far_longer {
            slow.is(took, at);
        }
        // One such call says little of what is usual.
        self.usual += Nanos((took.min(far_longer) - self.usual).0 / USUAL_OF);
    }

    /// What keeps a call that is due at this instant until now; `None` if nothing does.
    pub(super) fn held(&self, due: Nanos, now: Nanos, slow: &SlowCall) -> Option<Held> {
        let until = if self.has_waited { now.max(self.last) } else { self.last };
        let late = until - due;
        if late <= Nanos::ZERO {
            return None;
        }
        let lost = self.lost_of(due, until, slow);
        let own = late - lost;
        let by = if own > LATE || own >= lost { LateCause::InFlightCap } else { LateCause::File };
        Some(Held { until, by })
    }

    /// The same of a call that the thread makes now.
    pub(super) fn makes(&mut self, due: Nanos, now: Nanos, slow: &SlowCall) -> Option<Held> {
        let held = self.held(due, now, slow);
        let until = held.map_or(due, |held| held.until);
        self.lost = self.lost_of(due, until, slow);
        self.late = until - due;
        held
    }

    /// How much of the lateness of a call that is made at `until` is lost by waiting for others.
    ///
    /// What makes a thread later than it was is the cause. Where it catches up, nothing makes it
    /// late, and what is left has the causes that it had.
    fn lost_of(&self, due: Nanos, until: Nanos, slow: &SlowCall) -> Nanos {
        let late = until - due;
        if late <= self.late {
            let left = late.0 as f64 / self.late.0.max(1) as f64;
            return Nanos((self.lost.0 as f64 * left) as i64);
        }
        let from = due.max(self.last);
        let waited = if self.has_waited { until - from } else { Nanos::ZERO };
        let waited = waited - slow.within(from, until);
        self.lost + waited.clamp(Nanos::ZERO, late - self.late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: i64 = 1000;

    /// So many threads that share so few files, each with a call of so long at a time, at an
    /// instant every `every`, for a second; one call may stand still. Answers the causes of the
    /// calls later than a millisecond.
    fn causes(
        threads: usize,
        files: usize,
        takes: i64,
        every: i64,
        stall: Option<(i64, i64)>,
    ) -> [usize; 2] {
        let slow = SlowCall::default();
        let mut all = vec![Waits::default(); threads];
        let mut free = vec![Nanos::ZERO; files];
        let mut late = [0, 0];
        for nth in 0..(1_000_000 * MICRO / every) {
            let due = Nanos(nth * every);
            // Who is free for the longest time takes the next instant, and the next file.
            let thread = (0..threads).min_by_key(|thread| all[*thread].last).unwrap();
            let file = (0..files).min_by_key(|file| free[*file]).unwrap();
            let waits = &mut all[thread];
            let ready = due.max(waits.last);
            let now = ready.max(free[file]);
            waits.has_waited = free[file] > ready;
            let held = waits.makes(due, now, &slow);
            let is_still = stall.is_some_and(|(from, _)| due.0 <= from && from < due.0 + every);
            let end = now + Nanos(if is_still { stall.unwrap().1 } else { takes });
            free[file] = end;
            waits.completed(now, end, &slow);
            if now - due > LATE {
                late[usize::from(held.unwrap().by == LateCause::File)] += 1;
            }
        }
        late
    }

    #[test]
    fn few_files_are_the_cause_where_threads_would_have_been_fast_enough_with_a_file_each() {
        // One call at a time are 2,000 a second, four of them 8,000.
        let [own, by_files] = causes(4, 1, 500 * MICRO, 333 * MICRO, None);
        assert!(own == 0 && by_files > 2900, "{own} {by_files}");
        // Slow calls are no exception if threads enough could make them beside each other.
        let [own, by_files] = causes(16, 1, 5000 * MICRO, 500 * MICRO, None);
        assert!(own * 100 < by_files, "{own} {by_files}");
        // Twice as many files are enough.
        assert_eq!(causes(4, 2, 500 * MICRO, 333 * MICRO, None), [0, 0]);
    }

    #[test]
    fn a_storage_that_four_threads_are_too_few_for_is_the_cause_however_few_files_there_are() {
        for files in 1..=4 {
            let [own, by_files] = causes(4, files, 10_000 * MICRO, 333 * MICRO, None);
            assert!(by_files <= 4 && own > 2900, "{files}: {own} {by_files}");
        }
    }

    #[test]
    fn a_call_that_stands_still_is_the_storages_and_so_is_all_that_it_leaves_to_be_made_up_for() {
        let stall = Some((100_000 * MICRO, 300_000 * MICRO));
        let [own, by_files] = causes(4, 1, 200 * MICRO, 333 * MICRO, stall);
        assert!(own > 900 && by_files * 50 < own, "{own} {by_files}");
    }
}
