//! The causes that delayed a late request since it was due.
//!
//! After a stall of seconds the look-ahead holds only the first of the requests that fell due in
//! it; the others are taken in step by step, and may then also wait for a place below the cap. The
//! last cause would be the wrong one for such a request. So the past is kept as stretches, each
//! with its cause, and a request gets the cause that took most of its delay.

use std::collections::VecDeque;

use ioecho_trace::{LateCause, Nanos};

/// Stretches that are kept. Beyond them the oldest are forgotten.
const STRETCHES: usize = 64;

/// The stretches of the past in which requests that are not issued yet may have fallen due.
#[derive(Clone, Debug)]
pub(super) struct Past {
    /// The end of each, and why nothing went out in it; neighbours differ in that.
    stretches: VecDeque<(Nanos, LateCause)>,
}

impl Past {
    pub(super) fn new() -> Self {
        Self { stretches: VecDeque::with_capacity(STRETCHES) }
    }

    /// Adds what lies between the last stretch and `until`.
    pub(super) fn add(&mut self, until: Nanos, cause: LateCause) {
        if let Some((end, last)) = self.stretches.back_mut()
            && *last == cause
        {
            *end = until;
            return;
        }
        if self.stretches.len() == STRETCHES {
            self.stretches.pop_front();
        }
        self.stretches.push_back((until, cause));
    }

    /// Forgets everything: nothing of it is still to be issued.
    pub(super) fn clear(&mut self) {
        self.stretches.clear();
    }

    /// The cause that took most of the time since this instant. The instants that are asked for
    /// never step back.
    pub(super) fn cause_since(&mut self, due: Nanos) -> Option<LateCause> {
        while self.stretches.pop_front_if(|(end, _)| *end < due).is_some() {}
        let mut took = [Nanos::ZERO; LateCause::ALL.len()];
        let mut from = due;
        for (end, cause) in &self.stretches {
            took[*cause as usize] += *end - from;
            from = *end;
        }
        let longest = LateCause::ALL.into_iter().max_by_key(|cause| took[*cause as usize])?;
        (took[longest as usize] > Nanos::ZERO).then_some(longest)
    }
}
