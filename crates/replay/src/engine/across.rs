//! What a replay tells those on the other targets of its run, and hears from them.
//!
//! A completion there may let a request go here. It wakes nobody, so the engine looks whenever it
//! decides, and sleeps only for moments while anything waits for it.

use super::{Engine, Input};
use crate::clock::Clock;
use crate::schedule::Record;

impl<C: Clock> Engine<'_, C> {
    /// Lets go what waited for requests that have ended on other targets.
    pub(super) fn hear_across(&mut self, input: &mut dyn Input) {
        if let Some(across) = input.across() {
            across.take(&mut |seq, at| self.scheduler.ended_elsewhere(seq, at));
        }
    }

    /// Tells what has ended here, and up to where everything has.
    pub(super) fn tell_across(&mut self, input: &mut dyn Input) {
        if input.across().is_none() {
            return;
        }
        let next = input.next_seq();
        let floor = self.scheduler.oldest().unwrap_or(next);
        let now = self.clock.now();
        let Some(across) = input.across() else { return };
        for Record { planned, measured } in &self.records {
            across.tell(planned.seq, measured.completed.unwrap_or(planned.scheduled));
        }
        across.reached(floor, !self.records.is_empty(), now);
    }
}
