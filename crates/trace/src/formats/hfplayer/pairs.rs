//! Arrivals that wait for their completion.
//!
//! In a capture the line of a completion may come long after that of the arrival: the published
//! sample has all arrivals first. So arrivals are held back, up to a bound, and leave in their
//! order, with their latency if the completion came in time.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::formats::import::{Fault, Intake};
use crate::header::NoteKind;
use crate::request::Request;
use crate::units::Nanos;

/// The largest number of requests that are held back.
const HELD_MAX: usize = 65_536;

/// Requests that are held back.
#[derive(Default)]
pub(super) struct Pairs {
    held: VecDeque<Held>,
    /// The number of requests that have left: also the number of the first one that is held.
    left: u64,
    /// The number of the waiting request, by its running number in the capture.
    waiting: FxHashMap<u64, u64>,
    /// Whether the file has completions on lines of their own.
    has_completions: bool,
    /// Whether so many arrivals came without a completion that the file is taken to have none.
    gave_up: bool,
    /// The number of arrivals that left without a completion.
    alone: u64,
}

struct Held {
    request: Request,
    /// The running number by which the completion will name the request, as long as the request
    /// waits.
    sequence: Option<u64>,
}

impl Pairs {
    /// Takes a request; with a `sequence` the request waits for the completion that names it.
    #[inline]
    pub(super) fn arrive(
        &mut self,
        request: Request,
        sequence: Option<u64>,
        intake: &mut Intake,
    ) -> Result<(), Fault> {
        let sequence = sequence.filter(|_| !self.gave_up);
        if self.held.is_empty() && sequence.is_none() {
            return intake.push(&request);
        }
        // An invalid request is refused now, while its line is known.
        if request.length.0 == 0 || request.offset.0.checked_add(request.length.0).is_none() {
            return intake.push(&request);
        }
        if let Some(sequence) = sequence {
            self.waiting.insert(sequence, self.left + self.held.len() as u64);
        }
        self.held.push_back(Held { request, sequence });
        if self.held.len() > HELD_MAX {
            if self.has_completions {
                self.leave(intake)?;
            } else {
                self.gave_up = true;
                return self.leave_all(intake);
            }
        }
        self.leave_complete(intake)
    }

    /// Takes the completion of `sequence` at `instant`.
    pub(super) fn complete(
        &mut self,
        sequence: u64,
        instant: Nanos,
        intake: &mut Intake,
    ) -> Result<(), Fault> {
        self.has_completions = true;
        self.gave_up = false;
        let held = self
            .waiting
            .remove(&sequence)
            .and_then(|number| self.held.get_mut(number.checked_sub(self.left)? as usize));
        let Some(held) = held else {
            intake.header.losses.add(
                NoteKind::Unreadable.of("completions without an arrival"),
                1,
                None,
            );
            return Ok(());
        };
        held.sequence = None;
        if instant >= held.request.issue {
            held.request.latency = Some(instant.saturating_sub(held.request.issue));
        } else {
            intake.header.losses.add(
                NoteKind::Beside.of("latencies of completions before their arrival"),
                1,
                None,
            );
        }
        self.leave_complete(intake)
    }

    /// Gives all held requests at the end of the file.
    pub(super) fn end(&mut self, intake: &mut Intake) {
        // Requests were checked on arrival.
        let _ = self.leave_all(intake);
        if self.has_completions {
            intake.header.losses.add(
                NoteKind::Beside.of("latencies of arrivals without a completion"),
                self.alone,
                None,
            );
        }
        self.alone = 0;
    }

    fn leave_complete(&mut self, intake: &mut Intake) -> Result<(), Fault> {
        while self.held.front().is_some_and(|held| held.sequence.is_none()) {
            self.leave(intake)?;
        }
        Ok(())
    }

    fn leave_all(&mut self, intake: &mut Intake) -> Result<(), Fault> {
        while !self.held.is_empty() {
            self.leave(intake)?;
        }
        Ok(())
    }

    fn leave(&mut self, intake: &mut Intake) -> Result<(), Fault> {
        let Some(held) = self.held.pop_front() else { return Ok(()) };
        if let Some(sequence) = held.sequence {
            self.alone += 1;
            // A number that was used again waits for the later one.
            if self.waiting.get(&sequence) == Some(&self.left) {
                self.waiting.remove(&sequence);
            }
        }
        self.left += 1;
        intake.push(&held.request)
    }
}
