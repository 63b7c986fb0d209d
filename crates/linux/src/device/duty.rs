//! When a thread that waits for a flush spins, and when it sleeps.
//!
//! A thread that sleeps wakes tens of microseconds late, on a busy processor hundreds, and every
//! write that is due within that time overtakes the flush. A thread that spins is there at once but
//! takes a processor, which the storage stack may need as well. So a thread spins only shortly
//! around the announced instant, one thread at a time, and within a budget.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use ioecho_replay::schedule::LATENESS_TOLERATED;
use ioecho_trace::Nanos;

/// How long after its due time a flush is still waited for by spinning: handing over earlier
/// requests takes part of this time, and beyond it the flush counts as late.
const PAST: Nanos = LATENESS_TOLERATED;

/// The least that a thread is ready before a flush is due, unless another one spins until then.
const LEAD_MIN: Nanos = Nanos::from_micros(100);

/// Of so many processors' time one is spent on spinning at most.
const SHARE: i64 = 4;

/// How far ahead that share may be spent, counted in time until it is paid back.
const CREDIT: Nanos = Nanos::from_millis(40);

/// A flush that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// From when on a thread is to be ready.
    from: Nanos,
    /// From when on no thread waits for it.
    over: Nanos,
}

/// The current duty of a thread that waits for a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Sleeps until then, unless it is woken.
    Sleep(Nanos),
    /// Looks for it again and again.
    Spin,
    /// Waits for another one: this one has come, or will come too late.
    Over,
}

impl Expected {
    /// A flush that is due then; `near` is how long before an instant the issuing thread ends its
    /// sleep. Until the flush `before` it is due another thread spins for that.
    ///
    /// That distance covers nine wake-ups of ten. If the issuing thread wakes late, requests are
    /// late but in order; if a flush thread wakes late, its flush is overtaken. So a flush thread
    /// wakes twice as early.
    pub(super) fn new(due: Nanos, near: Nanos, before: Nanos) -> Self {
        let lead = near.saturating_add(near).max(LEAD_MIN);
        let from = due.saturating_sub(lead).max(before.min(due));
        Self { from, over: due.saturating_add(PAST) }
    }

    /// What to do about it now.
    pub(super) fn duty(&self, now: Nanos, budget: &Budget) -> Duty {
        match now {
            _ if self.is_over(now) => Duty::Over,
            _ if now < self.from => Duty::Sleep(self.from),
            _ if budget.allows(now) => Duty::Spin,
            _ => Duty::Sleep(self.over),
        }
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_over(&self, now: Nanos) -> bool {
        now >= self.over
    }

    /// From when on a thread is to be ready for it.
    pub(super) const fn from(&self) -> Nanos {
        self.from
    }

    /// Whether a flush that came now was this one.
    pub(super) fn is_met(&self, now: Nanos) -> bool {
        now >= self.from
    }
}

/// The budget of spinning for one target: a quarter of one processor, of which some ten
/// milliseconds may be spent in one go. A load of thousands of flushes a second would otherwise
/// take a whole one, and without spinning a flush is only a wake-up late.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// When everything spent is paid back, ns.
    even: AtomicI64,
}

impl Budget {
    fn allows(&self, now: Nanos) -> bool {
        self.even.load(Relaxed) <= now.saturating_add(CREDIT).0
    }

    /// A thread has spun from then to then. Where two say so at once one of them may go uncounted:
    /// that is rare, for they spin one at a time.
    pub(super) fn spend(&self, began: Nanos, ended: Nanos) {
        let span = ended.saturating_sub(began).0.max(0);
        let even = self.even.load(Relaxed).max(began.0);
        self.even.store(even.saturating_add(span.saturating_mul(SHARE)), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Nanos = Nanos::from_micros(60);
    const LEAD: Nanos = Nanos::from_micros(120);

    fn at(micros: i64) -> Nanos {
        Nanos::from_micros(micros)
    }

    #[test]
    fn a_thread_sleeps_until_the_lead_and_spins_until_shortly_past_the_instant() {
        let budget = Budget::default();
        let flush = Expected::new(at(1000), NEAR, Nanos(i64::MIN));
        assert_eq!(flush.duty(at(0), &budget), Duty::Sleep(at(880)));
        assert_eq!(flush.duty(at(880), &budget), Duty::Spin);
        assert_eq!(flush.duty(at(1099), &budget), Duty::Spin);
        assert_eq!(flush.duty(at(1100), &budget), Duty::Over);
        assert!(!flush.is_met(at(879)) && flush.is_met(at(880)));
        let soon = Expected::new(at(1000), Nanos(1), Nanos(i64::MIN));
        assert_eq!(soon.duty(at(0), &budget), Duty::Sleep(at(900)));
    }

    #[test]
    fn nobody_spins_for_a_flush_before_the_one_before_it_is_due() {
        let budget = Budget::default();
        let second = Expected::new(at(1020), NEAR, at(1000));
        assert_eq!(second.duty(at(990), &budget), Duty::Sleep(at(1000)));
        assert_eq!(second.duty(at(1000), &budget), Duty::Spin);
        let together = Expected::new(at(1000), NEAR, at(1000));
        assert_eq!(together.duty(at(999), &budget), Duty::Sleep(at(1000)));
        // Instants out of order do not put it off.
        let earlier = Expected::new(at(1000), NEAR, at(5000));
        assert_eq!(earlier.duty(at(1000), &budget), Duty::Spin);
    }

    #[test]
    fn spinning_never_takes_more_than_a_quarter_of_a_processor() {
        let budget = Budget::default();
        let (mut spun, mut asleep) = (Nanos::ZERO, 0);
        // 10,000 flushes a second for two seconds.
        for number in 1..=20_000 {
            let due = at(number * 100);
            let flush = Expected::new(due, NEAR, at((number - 1) * 100));
            match flush.duty(flush.from(), &budget) {
                Duty::Spin => {
                    budget.spend(flush.from(), due);
                    spun += due - flush.from();
                }
                _ => asleep += 1,
            }
        }
        assert!(spun > Nanos::from_millis(490) && spun < Nanos::from_millis(512), "{spun}");
        assert!(asleep > 0);
        // A pause pays it back.
        assert!(budget.allows(Nanos::from_secs(3)));
    }

    #[test]
    fn two_thousand_flushes_a_second_are_all_spun_for() {
        let budget = Budget::default();
        for number in 1..=20_000 {
            let due = at(number * 500);
            let flush = Expected::new(due, NEAR, Nanos::ZERO);
            assert_eq!(flush.duty(due - LEAD, &budget), Duty::Spin, "{number}");
            budget.spend(due - LEAD, due);
        }
    }

    #[test]
    fn instants_at_the_ends_of_time_are_held_there() {
        let budget = Budget::default();
        let never = Expected::new(Nanos::MAX, Nanos::MAX, Nanos(i64::MIN));
        assert_eq!(never.duty(Nanos(-5), &budget), Duty::Sleep(Nanos::ZERO));
        assert_eq!(never.duty(Nanos::MAX, &budget), Duty::Over);
        let long_ago = Expected::new(Nanos(i64::MIN), Nanos::MAX, Nanos(i64::MIN));
        assert_eq!(long_ago.duty(Nanos::ZERO, &budget), Duty::Over);
        budget.spend(Nanos(i64::MIN), Nanos::MAX);
        assert!(!budget.allows(Nanos::ZERO));
    }
}
