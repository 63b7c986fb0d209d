//! The possible states of a target after a line of runs, rebuilt from their records.
//!
//! A run that continues another one must know what that one wrote, and the verification of the last
//! run of a line must know the writes of all. Each run is rebuilt separately, starting from the
//! state that the previous one left. The possible losses of a run depend on later events: a kill
//! loses its last records, and a power cut, however late, loses all data that were not made durable
//! before it.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::atomic::AtomicBool;
use std::vec::IntoIter;

use ioecho_replay::verify::{
    After, Change, DurableBefore, Erasing, Intent, Rebuild, Verifier, VerifyConfig, VersionTable,
    apply_together, begin_together,
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

impl Known {
    /// The same behind a run that did not have this target.
    pub(super) fn passed_by(self, run: u64) -> Self {
        let config = VerifyConfig { run, target: ELSEWHERE, isolated: true };
        Self::State(Box::new(match self {
            Self::Nothing(table) => Verifier::new(config, table, None),
            Self::State(known) => known.go_on(config, None),
        }))
    }
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
    /// Which of its targets this is.
    target: u16,
    /// The position in the line of the first run from here on after which the power failed, if it
    /// did.
    cut: Option<usize>,
    ring: Ring,
    survey: Survey,
}

/// A target, and what is known of it.
pub(super) struct Part<'a> {
    /// The runs, oldest first; those of all targets that are rebuilt together.
    pub(super) line: Vec<Link<'a>>,
    /// What is known of it before them.
    pub(super) known: Known,
}

/// A target on its way through the runs.
struct Course<'a> {
    line: Vec<Link<'a>>,
    known: Option<Known>,
    members: VecDeque<Option<Member<'a>>>,
    /// Which of the runs have made durable what was there before.
    flushed: Vec<bool>,
    in_flight: u64,
    notes: Vec<String>,
    damaged: u64,
}

/// Rebuilds the possible states of a target after the runs of a line, oldest first.
/// `acknowledged`: a power cut must not have lost what the device had acknowledged, flushed or not.
pub(super) fn rebuilt(
    line: Vec<Link<'_>>,
    known: Known,
    acknowledged: bool,
    stop: &AtomicBool,
) -> Result<Rebuilt> {
    let all = rebuilt_together(vec![Part { line, known }], acknowledged, stop)?;
    all.into_iter().next().ok_or_else(no_runs)
}

fn no_runs() -> RunError {
    RunError::new(Kind::Failure, "a line of no runs")
}

/// The same of trees of files that hand files to each other: what one of them holds follows from
/// the records of the others, too.
pub(super) fn rebuilt_together(
    parts: Vec<Part<'_>>,
    acknowledged: bool,
    stop: &AtomicBool,
) -> Result<Vec<Rebuilt>> {
    let mut all = Vec::new();
    for part in parts {
        all.push(Course::begin(part, stop)?);
    }
    let runs = all.iter().map(|course| course.line.len()).max().unwrap_or(0);
    for at in 0..runs {
        let (mut here, mut members, mut rebuilds) = (Vec::new(), Vec::new(), Vec::new());
        for (number, course) in all.iter_mut().enumerate() {
            if let Some((member, rebuild)) = course.next(at, acknowledged) {
                here.push(number);
                members.push(member);
                rebuilds.push(rebuild);
            }
        }
        for (number, (verifier, flying)) in here.into_iter().zip(rebuild(members, rebuilds)?) {
            all[number].in_flight += flying;
            all[number].known = Some(Known::State(Box::new(verifier)));
        }
    }
    let end = |course: Course<'_>| {
        let Some(Known::State(verifier)) = course.known else { return Err(no_runs()) };
        let Course { in_flight, notes, damaged, .. } = course;
        Ok(Rebuilt { verifier: *verifier, in_flight, notes, damaged })
    };
    all.into_iter().map(end).collect()
}

impl<'a> Course<'a> {
    /// Looks at all records once.
    fn begin(part: Part<'a>, stop: &AtomicBool) -> Result<Self> {
        let Part { line, known } = part;
        let mut members = VecDeque::new();
        for (at, link) in line.iter().enumerate() {
            let Some((past, target)) = link.here else {
                members.push_back(None);
                continue;
            };
            let is_cut = |link: &Link<'_>| link.after == After::PowerCut;
            let cut = line[at..].iter().position(is_cut).map(|behind| at + behind);
            let number = usize::from(target);
            let ring = ring::read(&past.run.intents(number), past.number, target);
            let survey = survey(past, number, link.after, cut.is_some(), &ring, stop)?;
            members.push_back(Some(Member { past, after: link.after, target, cut, ring, survey }));
        }
        // A run on a tree syncs the file system before it begins.
        let is_flushed = |member: &Option<Member<'_>>| {
            member.as_ref().is_some_and(|it| it.survey.durable.is_any() || it.is_of_files())
        };
        let flushed: Vec<bool> = members.iter().map(is_flushed).collect();
        let (known, notes) = (Some(known), Vec::new());
        Ok(Self { line, known, members, flushed, in_flight: 0, notes, damaged: 0 })
    }

    /// Goes on to the next run, at this place of the line; `None` if it did not have this target.
    fn next(&mut self, at: usize, acknowledged: bool) -> Option<(Member<'a>, Rebuild)> {
        let (known, link) = (self.known.take()?, self.line.get(at)?);
        let Some(member) = self.members.pop_front().flatten() else {
            self.known = Some(known.passed_by(link.run));
            return None;
        };
        self.notes.extend(member.notes(at + 1 < self.line.len()));
        self.damaged += member.survey.damaged;
        // A flush of a later run also makes the writes of earlier ones durable.
        let later = member.cut.is_some_and(|cut| self.flushed[at + 1..=cut].contains(&true));
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
        Some((member, rebuild))
    }
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
}

/// A target of a run whose records are applied.
struct Applied {
    target: usize,
    /// The place among those that are rebuilt together of the tree that its files go to.
    to: Option<usize>,
    noted: Peekable<IntoIter<Intent>>,
    in_flight: u64,
}

/// Applies the records of a run to the targets of these; returns of each the resulting state, and
/// how many of its requests were in flight at its end.
fn rebuild(members: Vec<Member<'_>>, rebuilds: Vec<Rebuild>) -> Result<Vec<(Verifier, u64)>> {
    let Some(past) = members.first().map(|member| member.past) else { return Ok(Vec::new()) };
    let mut rebuilds = rebuilds;
    let mut books = Vec::new();
    for Member { target, .. } in &members {
        if let Some(tree) = past.targets.get(usize::from(*target)).and_then(|it| it.tree.as_ref()) {
            books.push(tree::begun(past, *target, tree)?);
        }
    }
    begin_together(&mut rebuilds, books);
    // What came to one of them stands in the records of another.
    let is_noted = members.iter().all(|member| all_noted(&member.ring, member.after));
    let is_sound = members.iter().all(|member| member.survey.damaged == 0);
    let tail_lost = (!past.complete && !is_noted) || !is_sound;
    let place = |target: u16| members.iter().position(|member| member.target == target);
    let to = |member: &Member<'_>| past.to.get(usize::from(member.target)).copied().flatten();
    let tos: Vec<Option<usize>> = members.iter().map(|member| to(member).and_then(place)).collect();
    let mut all = Vec::new();
    for ((member, to), rebuild) in members.into_iter().zip(tos).zip(&mut rebuilds) {
        rebuild.may_leave(member.survey.erasing);
        let intents = if let Ring::Whole { intents, .. } = member.ring { intents } else { vec![] };
        let (target, noted) = (usize::from(member.target), intents.into_iter().peekable());
        all.push(Applied { target, to, noted, in_flight: 0 });
    }
    let mut records = past.records()?;
    while let Some((number, request)) = records.next()? {
        apply_noted(&mut all, &mut rebuilds, number);
        for rebuild in &mut rebuilds {
            // If the ring has a note of every change, a request without a record and a note changed
            // nothing.
            rebuild.record(number, is_noted && is_sound);
        }
        for (at, one) in all.iter().enumerate() {
            if let Some(change) = change(number, &request, one.target) {
                apply_together(&mut rebuilds, at, one.to, &change);
            }
        }
    }
    apply_noted(&mut all, &mut rebuilds, u64::MAX);
    let end = |(one, rebuild): (Applied, Rebuild)| (rebuild.finish(tail_lost), one.in_flight);
    Ok(all.into_iter().zip(rebuilds).map(end).collect())
}

/// Takes the notes on requests below `number`, in the order of their numbers; that one has a record
/// of its own and needs none.
fn apply_noted(all: &mut [Applied], rebuilds: &mut [Rebuild], number: u64) {
    loop {
        let next = all.iter_mut().enumerate().filter_map(|(at, one)| {
            let noted = one.noted.peek().filter(|intent| intent.request < number)?;
            Some((noted.request, at))
        });
        let Some((_, at)) = next.min() else { break };
        let Some(intent) = all[at].noted.next() else { break };
        let is_over = intent.acknowledged.is_some() || !intent.op.changes_data();
        all[at].in_flight += u64::from(!is_over);
        apply_together(rebuilds, at, all[at].to, &intent.change());
    }
    for one in all {
        while one.noted.next_if(|intent| intent.request == number).is_some() {}
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
