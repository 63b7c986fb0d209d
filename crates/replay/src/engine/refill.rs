//! Filling the look-ahead.

use std::sync::atomic::Ordering::Relaxed;

use ioecho_trace::Nanos;

use super::{Engine, Feed, Feeding, Input, Pacing, REFILL};
use crate::clock::Clock;
use crate::plan::Planned;

impl<C: Clock> Engine<'_, C> {
    /// Fills the look-ahead.
    pub(super) fn refill(&mut self, input: &mut dyn Input, starved: bool) -> Feeding {
        if self.scheduler.flows() > 0 {
            return self.refill_flows(input, starved);
        }
        // With such timing only a request that waits for no other has an instant beforehand.
        let follows = !self.scheduler.config().timing.has_schedule();
        let mut left = self.scheduler.room().min(REFILL);
        while left > 0 && self.scheduler.room() > 0 {
            match input.poll() {
                Feed::Request(planned) | Feed::Found(planned) => {
                    let now = self.now();
                    let is_free = planned.think.is_none() || !follows;
                    if starved && is_free && planned.scheduled < now {
                        self.count_stall();
                    }
                    self.scheduler.offer_after(planned, input.parents());
                    self.announce(&planned);
                    left -= 1;
                }
                Feed::NotYet => return Feeding::NotYet,
                Feed::Ended => {
                    self.scheduler.end_input(false);
                    return Feeding::Ended;
                }
            }
        }
        Feeding::More
    }

    /// Fills the queues of all flows. Each is asked first in its turn: of threads on files, those
    /// asked first would always get the file that was given back.
    fn refill_flows(&mut self, input: &mut dyn Input, starved: bool) -> Feeding {
        let mut left = REFILL;
        let mut feeding = Feeding::More;
        let flows = self.scheduler.flows();
        let first = self.flow_asked % flows;
        self.flow_asked = first + 1;
        let stepped = self.stepped_at();
        for flow in (first..flows).chain(0..first) {
            while left > 0 && self.scheduler.flow_room(flow) > 0 {
                match input.poll_flow(flow, stepped) {
                    Feed::Found(planned) => {
                        let now = self.now();
                        let planned = Planned { scheduled: now, issue: now, ..planned };
                        self.scheduler.offer_to(flow, planned);
                        left -= 1;
                    }
                    Feed::Request(planned) => {
                        let is_awaited = starved && self.scheduler.is_open(flow);
                        let is_held = planned.held.is_some();
                        if is_awaited && !is_held && planned.scheduled < self.now() {
                            self.count_stall();
                        }
                        self.scheduler.offer_to(flow, planned);
                        left -= 1;
                    }
                    Feed::NotYet => {
                        feeding = Feeding::NotYet;
                        break;
                    }
                    Feed::Ended => {
                        if self.scheduler.end_flow(flow) {
                            return Feeding::Ended;
                        }
                        break;
                    }
                }
            }
        }
        feeding
    }

    /// When the last step was.
    pub(super) fn stepped_at(&self) -> Nanos {
        Nanos(self.control.now_ns.load(Relaxed))
    }

    fn count_stall(&mut self) {
        self.totals.input_stalls += 1;
        if let Some(gauges) = &mut self.gauges {
            gauges.open.input_stalls += 1;
        }
    }

    /// Announces to the device when a flush will be due, so that one of its threads can be awake
    /// then. Not without a schedule, because nobody knows that instant yet, and not if the engine
    /// never spins.
    fn announce(&mut self, planned: &Planned) {
        let near = match self.pacing.spin {
            Nanos::ZERO => return,
            // Nothing was measured.
            Nanos::MAX => Pacing::default().spin,
            near => near,
        };
        let timed = self.scheduler.config().timing.has_schedule();
        if timed && planned.refusal.is_none() && planned.io(0).begins_with_flush() {
            self.device.expect(self.start.saturating_add(planned.scheduled), near);
        }
    }
}
