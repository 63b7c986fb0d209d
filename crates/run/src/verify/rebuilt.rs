//! The possible states of a target after a line of runs, rebuilt from their records.
//!
//! A run that continues another one must know what that one wrote, and the verification of the last
//! run of a line must know the writes of all. Each run is rebuilt separately, starting from the
//! state that the previous one left. The possible losses of a run depend on later events: a kill
//! loses its last records, and a power cut, however late, loses all data that were not made durable
//! before it.

use std::iter::Peekable;
use std::sync::atomic::AtomicBool;
use std::vec::IntoIter;

use ioecho_replay::verify::{
    After, Change, DurableBefore, Erasing, Intent, Rebuild, Verifier, VerifyConfig, VersionTable,
};
use ioecho_trace::{Outcome, Request};

use super::later::Past;
use super::notes;
use super::records::erasing_of;
use super::ring::{self, Ring};
use crate::error::{Kind, Result, RunError};

/// The rebuilt state of a target.
pub(super) struct Rebuilt {
    pub(super) verifier: Verifier,
    /// Requests that were in flight when the processes ended.
    pub(super) in_flight: u64,
    /// The limits of this state, in sentences.
    pub(super) notes: Vec<String>,
    /// Lost records between others.
    pub(super) damaged: u64,
}

/// The findings of a first pass over a run's records.
#[derive(Default)]
struct Survey {
    durable: DurableBefore,
    /// Lost records between others.
    damaged: u64,
    /// The possible effect of requests without a record.
    erasing: Erasing,
}

/// A run of the line after its first pass.
struct Member<'a> {
    past: &'a Past,
    /// The event after it: before the next run, or before now.
    after: After,
    /// The position in the line of the first run from here on after which the power failed, if it
    /// did.
    cut: Option<usize>,
    ring: Ring,
    survey: Survey,
}

/// Rebuilds the possible states of a target after `past` and the runs that it continues. `after` is
/// the event after the last of them.
pub(super) fn rebuilt(
    past: &Past,
    target: usize,
    after: After,
    table: Box<dyn VersionTable + Send>,
    stop: &AtomicBool,
) -> Result<Rebuilt> {
    let line = past.line(after);
    let mut members = Vec::new();
    for (at, &(past, after)) in line.iter().enumerate() {
        let is_cut = |(_, after): &(&Past, After)| *after == After::PowerCut;
        let cut = line[at..].iter().position(is_cut).map(|behind| at + behind);
        let ring = ring::read(&past.run.intents(target), past.number, target as u16);
        let survey = survey(past, target, after, cut.is_some(), &ring, stop)?;
        members.push(Member { past, after, cut, ring, survey });
    }
    let flushed: Vec<bool> = members.iter().map(|member| member.survey.durable.is_any()).collect();
    let (mut notes, mut in_flight, mut damaged) = (Vec::new(), 0, 0);
    let mut table = Some(table);
    let mut known: Option<Verifier> = None;
    let last = members.len() - 1;
    for (at, member) in members.into_iter().enumerate() {
        notes.extend(member.notes(target, at < last));
        damaged += member.survey.damaged;
        // A flush of a later run also makes the writes of earlier ones durable.
        let later = member.cut.is_some_and(|cut| flushed[at + 1..=cut].contains(&true));
        let durable = if later { DurableBefore::EVERYTHING } else { member.survey.durable };
        let effective = if member.cut.is_some() { After::PowerCut } else { After::Kill };
        let config = VerifyConfig {
            run: member.past.number,
            target: target as u16,
            isolated: member.past.ordered,
        };
        let rebuild = match (known.take(), table.take()) {
            (Some(known), _) => Rebuild::go_on(known, config, effective, durable),
            (None, Some(table)) => Rebuild::new(config, table, effective, durable),
            (None, None) => break,
        };
        let (verifier, flying) = member.rebuild(target, rebuild)?;
        in_flight += flying;
        known = Some(verifier);
    }
    let verifier = known.ok_or_else(|| RunError::new(Kind::Failure, "a line of no runs"))?;
    Ok(Rebuilt { verifier, in_flight, notes, damaged })
}

/// The first pass over the records, for facts that the rebuilding needs. `is_cut`: the power failed
/// at some time after this run.
fn survey(
    past: &Past,
    target: usize,
    after: After,
    is_cut: bool,
    ring: &Ring,
    stop: &AtomicBool,
) -> Result<Survey> {
    let mut survey = Survey::default();
    if !is_cut && !past.run.journal().exists() {
        // Final results have a row for every request, or lack the numbers of all requests.
        return Ok(survey);
    }
    let mut records = past.records()?;
    while let Some((number, request)) = records.next()? {
        survey.erasing = survey.erasing.max(Erasing::by(request.op));
        if let Some(change) = change(number, &request, target) {
            survey.durable.look(&change);
        }
    }
    survey.damaged = records.damaged(after);
    let all_known = past.complete || all_noted(ring, after);
    if (!all_known || survey.damaged > 0) && survey.erasing < Erasing::Anything {
        survey.erasing = survey.erasing.max(erasing_of(past.trace.as_deref(), stop));
    }
    Ok(survey)
}

impl Member<'_> {
    /// The limits of its records. `is_earlier`: it is not the run that is verified.
    fn notes(&self, target: usize, is_earlier: bool) -> Vec<String> {
        let Self { past, after, ring, survey, .. } = self;
        let mut notes = Vec::new();
        if !past.complete && *after == After::Kill {
            notes.extend(notes::of_ring(ring, &past.run.intents(target), past.verified));
        }
        notes.extend(notes::of_damage(survey.damaged, &past.run.journal()));
        if is_earlier {
            let name = past.run.path().display().to_string();
            for note in &mut notes {
                *note = format!("of the earlier run {name}: {note}");
            }
        }
        notes
    }

    /// Applies its records; returns the resulting state, and how many of its requests were in
    /// flight at its end.
    fn rebuild(self, target: usize, mut rebuild: Rebuild) -> Result<(Verifier, u64)> {
        let Self { past, after, ring, survey, .. } = self;
        rebuild.may_leave(survey.erasing);
        let is_noted = all_noted(&ring, after);
        let all_noted = is_noted && survey.damaged == 0;
        let tail_lost = (!past.complete && !is_noted) || survey.damaged > 0;
        let intents = if let Ring::Whole(intents) = ring { intents } else { Vec::new() };
        let mut noted = intents.into_iter().peekable();
        let mut in_flight = 0;
        let mut records = past.records()?;
        while let Some((number, request)) = records.next()? {
            in_flight += apply_noted(&mut rebuild, &mut noted, number);
            // If the ring has a note of every change, a request without a record and a note changed
            // nothing.
            rebuild.record(number, all_noted);
            if let Some(change) = change(number, &request, target) {
                rebuild.apply(&change);
            }
        }
        in_flight += apply_noted(&mut rebuild, &mut noted, u64::MAX);
        Ok((rebuild.finish(tail_lost), in_flight))
    }
}

/// Whether the ring has every change without a record. The ring is in the page cache, so a power
/// cut may lose it.
fn all_noted(ring: &Ring, after: After) -> bool {
    after == After::Kill && matches!(ring, Ring::Whole(_))
}

/// Applies the notes on requests below `number`; returns how many of these were in flight.
fn apply_noted(rebuild: &mut Rebuild, noted: &mut Peekable<IntoIter<Intent>>, number: u64) -> u64 {
    let mut in_flight = 0;
    while let Some(intent) = noted.next_if(|intent| intent.request < number) {
        let Intent { request, op, flags, offset, length, issued, acknowledged, .. } = intent;
        let (completed, outcome) = match acknowledged {
            Some((completed, outcome)) => (Some(completed), outcome),
            None => (None, Outcome::Abandoned),
        };
        in_flight += u64::from(acknowledged.is_none());
        let submitted = issued;
        rebuild.apply(&Change {
            request,
            op,
            flags,
            offset,
            length,
            submitted,
            completed,
            outcome,
        });
    }
    // A request with a record does not need its note.
    while noted.next_if(|intent| intent.request == number).is_some() {}
    in_flight
}

/// The request as a change of this target; `None` if it went to another target, or was not issued.
fn change(number: u64, request: &Request, target: usize) -> Option<Change> {
    let measured = request.measured.filter(|measured| usize::from(measured.target) == target)?;
    Some(Change {
        request: number,
        op: request.op,
        flags: request.flags,
        offset: measured.target_offset?,
        length: request.length,
        submitted: measured.submitted.unwrap_or(measured.scheduled),
        completed: measured.completed,
        outcome: measured.outcome,
    })
}
