//! The end of a replay after a time that was asked for.
//!
//! A load without an end, or one without a schedule, ends only with its input. So a replay can be
//! given an instant from which on nothing more is issued. What had fallen due by then and was not
//! issued was demanded all the same: unless it is counted, a device that fell behind passes for one
//! that kept up.

use ioecho_trace::{LateCause, Nanos, Op};

use super::{Engine, Feed, Feeding, Input, REFILL};
use crate::clock::Clock;

/// What a replay had left when it came to the end that was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutOff {
    /// Requests that were due before the end and were not issued.
    pub requests: u64,
    /// How long before the end the first of them was due: so far the replay lay behind.
    pub behind: Nanos,
    /// How long before the end they were due, added up.
    pub lateness: Nanos,
    /// Why the first was not issued; [`LateCause::None`] if there are none.
    pub cause: LateCause,
}

impl CutOff {
    fn add(&mut self, lateness: Nanos) {
        self.requests += 1;
        self.behind = self.behind.max(lateness);
        self.lateness = self.lateness.saturating_add(lateness);
    }
}

impl<C: Clock> Engine<'_, C> {
    /// Whether the end that was asked for has come, and there is something left.
    pub(super) fn is_to_be_cut_off(&self, now: Nanos, input_ended: bool) -> bool {
        self.pacing.end_after.is_some_and(|end| now >= end)
            && self.totals.cut_off.is_none()
            && (!input_ended || self.scheduler.has_planned() || self.scheduler.waiting() > 0)
    }

    /// Forgets what was not issued, and counts what of it was due. `gap_cause` is why nothing was
    /// issued since the last step.
    pub(super) fn cut_off(&mut self, now: Nanos, gap_cause: LateCause) {
        let Some(end) = self.pacing.end_after else { return };
        let mut cut = CutOff::default();
        let device = &mut *self.device;
        let cause = self.scheduler.cut_off(now, end, gap_cause, &mut |planned, is_due| {
            if planned.op == Op::Write {
                device.forget(planned.seq);
            }
            if is_due {
                cut.add(end - planned.scheduled);
            }
        });
        cut.cause = cause;
        self.totals.cut_off = Some(cut);
    }

    /// Counts what the input still has that was due before the end. Only a schedule tells.
    pub(super) fn count_rest(&mut self, input: &mut dyn Input) -> Feeding {
        if self.scheduler.flows() > 0 {
            return self.count_rest_of_flows(input);
        }
        let timed = self.scheduler.config().timing.has_schedule();
        let (Some(end), Some(cut)) = (self.pacing.end_after, &mut self.totals.cut_off) else {
            return Feeding::Ended;
        };
        for _ in 0..REFILL {
            match input.poll() {
                Feed::Request(planned) if timed && planned.scheduled < end => {
                    if cut.requests == 0 {
                        cut.cause = input.late_cause();
                    }
                    cut.add(end - planned.scheduled);
                }
                Feed::NotYet if timed => return Feeding::NotYet,
                Feed::Request(_) | Feed::Found(_) | Feed::NotYet | Feed::Ended => {
                    self.scheduler.end_input(true);
                    return Feeding::Ended;
                }
            }
        }
        Feeding::More
    }

    /// The same of flows: of those that are open, one after the other.
    fn count_rest_of_flows(&mut self, input: &mut dyn Input) -> Feeding {
        let stepped = self.stepped_at();
        let (Some(end), Some(cut)) = (self.pacing.end_after, &mut self.totals.cut_off) else {
            return Feeding::Ended;
        };
        input.cut_off();
        let mut left = REFILL;
        while self.flow_counted < self.scheduler.flows() {
            let flow = self.flow_counted;
            let feed = if self.scheduler.is_open(flow) {
                input.poll_flow(flow, stepped)
            } else {
                Feed::Ended
            };
            match feed {
                Feed::Request(planned) if planned.scheduled < end => {
                    if cut.requests == 0 {
                        cut.cause = input.late_cause();
                    }
                    cut.add(end - planned.scheduled);
                    left -= 1;
                }
                Feed::NotYet => return Feeding::NotYet,
                Feed::Request(_) | Feed::Found(_) | Feed::Ended => self.flow_counted += 1,
            }
            if left == 0 {
                return Feeding::More;
            }
        }
        self.scheduler.end_input(true);
        Feeding::Ended
    }

    /// An instant to sleep until, or the end that was asked for if that comes first.
    pub(super) fn not_beyond_the_end(&self, until: Nanos, now: Nanos) -> Nanos {
        match self.pacing.end_after {
            Some(end) if now < end => until.min(end),
            _ => until,
        }
    }
}
