//! The end of a run that is ended by time.

use ioecho_trace::{LateCause, Nanos};

use super::Scheduler;
use crate::plan::Planned;

impl Scheduler {
    /// Forgets everything that was not issued, because the instant `end` has come. Passes all of it
    /// to `left`, with whether it was due before `end`, and returns why the first that was due had
    /// not been issued. `gap_cause` is why nothing was issued since the last step. Tell the end of
    /// the input beside it.
    pub fn cut_off(
        &mut self,
        now: Nanos,
        end: Nanos,
        gap_cause: LateCause,
        left: &mut dyn FnMut(&Planned, bool),
    ) -> LateCause {
        self.let_go(end - Nanos(1));
        self.remember(now, gap_cause);
        let has_due_instants = self.config.timing.has_due_instants();
        let is_due = |planned: &Planned| has_due_instants && planned.scheduled < end;
        let cause = match self.ahead.front().filter(|front| is_due(front)) {
            Some(front) => self.past.cause_since(front.scheduled).unwrap_or(gap_cause),
            None if self.flows.as_ref().is_some_and(|flows| flows.is_full_before(end)) => {
                LateCause::InFlightCap
            }
            None if self.waiting() > 0 => LateCause::Conflict,
            None if self.chains.as_ref().is_some_and(|chains| chains.holds_before(end)) => {
                LateCause::Conflict
            }
            None => LateCause::None,
        };
        for planned in self.ahead.drain(..) {
            left(&planned, is_due(&planned));
        }
        for (entry, slot) in self.waiting.iter_mut().zip(0..) {
            if let Some(waiting) = entry.take() {
                // It was due when it began to wait.
                left(&waiting.planned, true);
                self.waiting_ranges.remove(slot, &waiting.planned);
                self.waiting_free.push(slot);
            }
        }
        self.ready.clear();
        if let Some(chains) = &mut self.chains {
            // Where the schedule says when, those that wait for others were due all the same.
            let timed = self.config.timing.has_schedule();
            chains.forget(&mut |planned| left(planned, timed && planned.scheduled < end));
        }
        if let Some(flows) = &mut self.flows {
            flows.forget(&mut |planned, has_instant| {
                left(planned, has_instant && planned.scheduled < end);
            });
        }
        cause
    }
}
