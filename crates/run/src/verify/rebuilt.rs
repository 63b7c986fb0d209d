//! The possible states of a target after a line of runs, rebuilt from their records.
//!
//! A run that continues another one must know what that one wrote, and the verification of the last
//! run of a line must know the writes of all. Each run is rebuilt separately, starting from the
//! state that the previous one left. The possible losses of a run depend on later events: a kill
//! loses its last records, and a power cut, however late, loses all data that were not made durable
//! before it.

use std::sync::atomic::AtomicBool;

use ioecho_replay::verify::{
    After, Change, DurableBefore, Erasing, Rebuild, Verifier, VerifyConfig, VersionTable,
};
use ioecho_trace::Request;

use super::later::Past;
use super::notes;
use super::records::erasing_of;
use super::ring::{self, Ring};
use super::tree;
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

/// A run of a line, as it concerns a target.
pub(super) struct Link<'a> {
    /// The run's number.
    pub(super) run: u64,
    /// The event after it: before the next run, or before now.
    pub(super) after: After,
    /// Its records, and which of its targets this is, if it had this target.
    pub(super) here: Option<(&'a Past, u16)>,
}

/// What is known of a target before the first run of a line.
pub(super) enum Known {
    /// Nothing; there is a table without entries.
    Nothing(Box<dyn VersionTable + Send>),
    /// What still earlier runs left, and nothing that a power cut can have lost since.
    State(Box<Verifier>),
}

/// The number of a target that a run did not have.
const ELSEWHERE: u16 = u16::MAX;

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
    /// Which of its targets this is.
    target: u16,
    /// The position in the line of the first run from here on after which the power failed, if it
    /// did.
    cut: Option<usize>,
    ring: Ring,
    survey: Survey,
}

/// Rebuilds the possible states of a target after the runs of a line, oldest first.
/// `acknowledged`: a power cut must not have lost what the device had acknowledged, flushed or not.
pub(super) fn rebuilt(
    line: &[Link<'_>],
    known: Known,
    acknowledged: bool,
    stop: &AtomicBool,
) -> Result<Rebuilt> {
    let mut members = Vec::new();
    for (at, link) in line.iter().enumerate() {
        let Some((past, target)) = link.here else {
            members.push(None);
            continue;
        };
        let is_cut = |link: &Link<'_>| link.after == After::PowerCut;
        let cut = line[at..].iter().position(is_cut).map(|behind| at + behind);
        let number = usize::from(target);
        let ring = ring::read(&past.run.intents(number), past.number, target);
        let survey = survey(past, number, link.after, cut.is_some(), &ring, stop)?;
        members.push(Some(Member { past, after: link.after, target, cut, ring, survey }));
    }
    // A run on a tree syncs the file system before it begins.
    let is_flushed = |member: &Option<Member<'_>>| {
        member.as_ref().is_some_and(|it| it.survey.durable.is_any() || it.is_of_files())
    };
    let flushed: Vec<bool> = members.iter().map(is_flushed).collect();
    let (mut notes, mut in_flight, mut damaged) = (Vec::new(), 0, 0);
    let last = members.len().saturating_sub(1);
    let mut known = known;
    for (at, (member, link)) in members.into_iter().zip(line).enumerate() {
        let Some(member) = member else {
            let config = VerifyConfig { run: link.run, target: ELSEWHERE, isolated: true };
            let verifier = match known {
                Known::Nothing(table) => Verifier::new(config, table, None),
                Known::State(known) => known.go_on(config, None),
            };
            known = Known::State(Box::new(verifier));
            continue;
        };
        notes.extend(member.notes(at < last));
        damaged += member.survey.damaged;
        // A flush of a later run also makes the writes of earlier ones durable.
        let later = member.cut.is_some_and(|cut| flushed[at + 1..=cut].contains(&true));
        let durable = if later { DurableBefore::EVERYTHING } else { member.survey.durable };
        let may_lose = member.cut.is_some() && !acknowledged;
        let effective = if may_lose { After::PowerCut } else { After::Kill };
        let config = VerifyConfig {
            run: member.past.number,
            target: member.target,
            isolated: member.past.ordered,
        };
        let rebuild = match known {
            Known::State(known) => Rebuild::go_on(*known, config, effective, durable),
            Known::Nothing(table) => Rebuild::new(config, table, effective, durable),
        };
        let (verifier, flying) = member.rebuild(rebuild)?;
        in_flight += flying;
        known = Known::State(Box::new(verifier));
    }
    let Known::State(verifier) = known else {
        return Err(RunError::new(Kind::Failure, "a line of no runs"));
    };
    Ok(Rebuilt { verifier: *verifier, in_flight, notes, damaged })
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
    if let Ring::Whole { intents, is_durable: true } = ring {
        for intent in intents {
            survey.durable.look(&intent.change());
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
    /// Whether the target is a tree of files.
    fn is_of_files(&self) -> bool {
        self.past.targets.iter().any(|target| target.tree.is_some())
    }

    /// The limits of its records. `is_earlier`: it is not the run that is verified.
    fn notes(&self, is_earlier: bool) -> Vec<String> {
        let Self { past, after, target, ring, survey, .. } = self;
        let mut notes = Vec::new();
        if !past.complete && *after == After::Kill {
            let path = past.run.intents(usize::from(*target));
            notes.extend(notes::of_ring(ring, &path, past.verified));
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
    fn rebuild(self, mut rebuild: Rebuild) -> Result<(Verifier, u64)> {
        let Self { past, after, target, ring, survey, .. } = self;
        if let Some(tree) = past.targets.get(usize::from(target)).and_then(|it| it.tree.as_ref()) {
            rebuild.begin_with(tree::begun(&past.run, past.number, target, tree)?);
        }
        let target = usize::from(target);
        rebuild.may_leave(survey.erasing);
        let is_noted = all_noted(&ring, after);
        let all_noted = is_noted && survey.damaged == 0;
        let tail_lost = (!past.complete && !is_noted) || survey.damaged > 0;
        let intents = if let Ring::Whole { intents, .. } = ring { intents } else { Vec::new() };
        let mut noted = intents.into_iter().peekable();
        let mut in_flight = 0;
        let mut records = past.records()?;
        while let Some((number, request)) = records.next()? {
            in_flight += rebuild.apply_noted(&mut noted, number);
            // If the ring has a note of every change, a request without a record and a note changed
            // nothing.
            rebuild.record(number, all_noted);
            if let Some(change) = change(number, &request, target) {
                rebuild.apply(&change);
            }
        }
        in_flight += rebuild.apply_noted(&mut noted, u64::MAX);
        Ok((rebuild.finish(tail_lost), in_flight))
    }
}

/// Whether the ring has every change without a record. A ring that is only in the page cache may be
/// lost in a power cut.
fn all_noted(ring: &Ring, after: After) -> bool {
    match ring {
        Ring::Whole { is_durable, .. } => after == After::Kill || *is_durable,
        _ => false,
    }
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
