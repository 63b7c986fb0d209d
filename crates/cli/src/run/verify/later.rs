//! The verification of a run that is over: killed, cut off, or long ago.
//!
//! The run's files say what was written, and when. From them the state that its targets may have
//! is rebuilt, and then the targets are read, and nothing is written to them. Everything is
//! streamed: a run of a billion requests takes no more memory than one of a thousand.

use std::fs::File;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::vec::IntoIter;

use ioecho_linux::device::uring_available;
use ioecho_linux::{
    Access, Backend, DeviceOptions, MonotonicClock, OpenOptions, open_device, target,
};
use ioecho_replay::verify::{
    After, Change, DurableBefore, Erasing, FinalPass, Finding, Intent, PassProgress, Rebuild,
    VerifyConfig, VerifyFigures, final_pass,
};
use ioecho_trace::{Bytes, Outcome, Request};
use serde::Serialize;

use super::records::{Records, erasing_of};
use super::ring::Ring;
use super::{notes, ring, table};
use crate::exit::{self, Coded};
use crate::run::directory::{RunDirectory, targets_of};
use crate::run::settle;

/// Reads in flight.
const DEPTH: u32 = 4;

/// Memory for their data: an eighth of it is the largest read.
const BUFFERS: Bytes = Bytes(16 << 20);

/// A run, as far as its verification needs it.
pub(crate) struct Past {
    run: RunDirectory,
    /// Its number, which stands in every sector that it wrote.
    pub(crate) number: u64,
    pub(crate) targets: Vec<PastTarget>,
    /// Whether no two overlapping changes were ever in flight together.
    ordered: bool,
    /// Whether it came to its end and has a record of every request.
    complete: bool,
    /// Whether it verified, and so kept rings.
    verified: bool,
    /// What it replayed.
    trace: Option<PathBuf>,
}

/// What a first look at the records of a run tells.
#[derive(Default)]
struct Survey {
    durable: DurableBefore,
    /// Records that are lost in the midst of others.
    damaged: u64,
    /// What requests without a record may have left.
    erasing: Erasing,
}

/// One of its targets.
#[derive(Clone, Debug)]
pub(crate) struct PastTarget {
    /// Its number among those of the run.
    pub(crate) number: u16,
    /// Where it is, or is now.
    pub(crate) path: PathBuf,
    capacity: u64,
    direct: bool,
}

/// What was found on a target.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) target: u16,
    pub(crate) path: PathBuf,
    /// How much was read.
    pub(crate) read: Bytes,
    /// Whether all was read and could be judged.
    pub(crate) complete: bool,
    pub(crate) figures: VerifyFigures,
    /// What was under way when the process ended, and may be there or not.
    pub(crate) in_flight: u64,
    /// What there is to know of how far this goes.
    pub(crate) notes: Vec<String>,
    pub(crate) findings: Vec<Finding>,
}

impl Found {
    /// What there is to say of a target that does not even let go of who looks at it.
    pub(crate) fn nothing(past: &PastTarget) -> Self {
        let note = "the target did not answer, and the verification was told to end";
        Self {
            target: past.number,
            path: past.path.clone(),
            read: Bytes::ZERO,
            complete: false,
            figures: VerifyFigures::default(),
            in_flight: 0,
            notes: vec![note.to_owned()],
            findings: Vec::new(),
        }
    }
}

impl Past {
    /// Reads what the run was.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let run = RunDirectory::at(path).ok_or_else(|| {
            let text = format!(
                "{name} is no run: it holds no run.toml\n  = help: name a directory that `ioecho \
                 replay -o` made"
            );
            Coded::error(exit::TRACE, text)
        })?;
        let facts = run.read_facts()?;
        refuse_running(&run)?;
        let number = facts.get("run").and_then(toml::Value::as_str);
        let number =
            number.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| {
                Coded::error(
                    exit::TRACE,
                    format!("{name}: run.toml does not tell the run's number"),
                )
            })?;
        let plan = |key: &str| facts.get("plan").and_then(|plan| plan.get(key));
        if plan("dedup").and_then(toml::Value::as_float).is_some_and(|dedup| dedup > 1.0) {
            let text = format!(
                "{name} wrote blocks that are equal on purpose (--dedup): they cannot tell where \
                 they belong\n  = help: what is to be verified must be written without --dedup"
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        let text = |key| facts.get(key).and_then(toml::Value::as_str);
        let planned = |key| plan(key).and_then(toml::Value::as_str);
        Ok(Self {
            number,
            targets: targets(path, &facts)?,
            ordered: planned("conflicts") != Some("allow"),
            complete: text("state") == Some("complete") && is_whole(&run),
            verified: planned("verify").is_some_and(|mode| mode != "off"),
            trace: planned("trace").map(PathBuf::from),
            run,
        })
    }

    /// Takes these paths in place of those that the run knew: a device may have another name after
    /// a reboot. As many as the run had targets: one that is not looked at is not intact.
    pub(crate) fn retarget(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        if paths.len() != self.targets.len() {
            let known: Vec<_> =
                self.targets.iter().map(|target| target.path.display().to_string()).collect();
            let text = format!(
                "{} named, and the run wrote to {}: {}\n  = help: name each of them as it is \
                 called now, in this order, or none",
                paths.len(),
                known.len(),
                known.join(", ")
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        for (target, path) in self.targets.iter_mut().zip(paths) {
            target.path.clone_from(path);
        }
        Ok(())
    }

    /// Verifies one of its targets.
    pub(crate) fn verify(
        &self,
        past: &PastTarget,
        after: After,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(PassProgress),
    ) -> anyhow::Result<Found> {
        let allow_cached = !past.direct;
        let options = OpenOptions { allow_cached, ..OpenOptions::new(Access::ReadOnly) };
        let opened = target::open(&past.path, options)?;
        if opened.facts().capacity.0 != past.capacity {
            let text = format!(
                "{} holds {} and the run's target held {}: it is not the same\n  = help: name the \
                 target as it is called now with --target",
                past.path.display(),
                opened.facts().capacity,
                Bytes(past.capacity)
            );
            return Err(Coded::error(exit::TARGET, text));
        }
        let number = usize::from(past.number);
        let ring_path = self.run.intents(number);
        let ring = ring::read(&ring_path, self.number, past.number);
        let survey = self.survey(past, after, &ring, stop)?;
        let mut notes = Vec::new();
        if !self.complete && after == After::Kill {
            notes.extend(notes::of_ring(&ring, &ring_path, self.verified));
        }
        notes.extend(notes::of_damage(survey.damaged, &self.run.journal()));
        let tail_lost = (!self.complete && !all_noted(&ring, after)) || survey.damaged > 0;
        let (rebuild, in_flight) = self.rebuild(past, after, ring, &survey)?;
        let mut verifier = rebuild.finish(tail_lost);
        let clock = MonotonicClock::new();
        let options = DeviceOptions {
            // No choice by trial: the trial waits where no signal reaches it.
            backend: uring_available().map_or(Backend::Auto, |()| Backend::Uring),
            in_flight_max: DEPTH,
            buffer_memory: Some(BUFFERS),
            ..DeviceOptions::default()
        };
        let mut device = open_device(opened, &options, clock)?;
        let pass = if verifier.figures().table_errors > 0 {
            // Whatever is read could not be judged.
            Ok(FinalPass { stopped: true, ..FinalPass::default() })
        } else {
            final_pass(device.as_mut(), &clock, &mut verifier, stop, progress)
        };
        if !pass.as_ref().is_ok_and(|pass| !pass.stopped) {
            // Closing a device waits for its reads in flight: what was found does not.
            thread::spawn(move || drop(device));
        }
        let pass = pass.map_err(|error| {
            let text = format!(
                "{} cannot be verified: {error}\n  = help: see what the kernel says of it \
                 (dmesg), and verify again when it answers",
                past.path.display()
            );
            Coded::error(exit::TARGET, text)
        })?;
        let figures = verifier.figures().clone();
        notes.extend(notes::of_figures(after, &verifier, &self.run.versions(number)));
        let is_judged = figures.table_errors + figures.undecided + survey.damaged == 0;
        Ok(Found {
            target: past.number,
            path: past.path.clone(),
            read: pass.read,
            complete: !pass.stopped && is_judged,
            in_flight,
            notes,
            figures,
            findings: verifier.findings().to_vec(),
        })
    }

    fn records(&self) -> anyhow::Result<Records> {
        Records::open(&self.run, self.number, self.complete)
    }

    /// Looks through the records for what must be known before the state is rebuilt.
    fn survey(
        &self,
        past: &PastTarget,
        after: After,
        ring: &Ring,
        stop: &AtomicBool,
    ) -> anyhow::Result<Survey> {
        let mut survey = Survey::default();
        if after == After::Kill && !self.run.journal().exists() {
            // Settled results have a row for every request, or none of them can be told.
            return Ok(survey);
        }
        let mut records = self.records()?;
        while let Some((number, request)) = records.next()? {
            survey.erasing = survey.erasing.max(Erasing::by(request.op));
            if let Some(change) = change(number, &request, past.number) {
                survey.durable.look(&change);
            }
        }
        survey.damaged = records.damaged(after);
        let all_known = self.complete || all_noted(ring, after);
        if (!all_known || survey.damaged > 0) && survey.erasing < Erasing::Anything {
            survey.erasing = survey.erasing.max(erasing_of(self.trace.as_deref(), stop));
        }
        Ok(survey)
    }

    /// The state that the target may have, and how many requests were in flight at the end.
    fn rebuild(
        &self,
        past: &PastTarget,
        after: After,
        ring: Ring,
        survey: &Survey,
    ) -> anyhow::Result<(Rebuild, u64)> {
        let config = VerifyConfig { run: self.number, target: past.number, isolated: self.ordered };
        let versions = self.run.versions(usize::from(past.number));
        let table = table::open(&versions, Bytes(past.capacity))?;
        let mut rebuild = Rebuild::new(config, table, after, survey.durable);
        rebuild.may_leave(survey.erasing);
        let all_noted = all_noted(&ring, after) && survey.damaged == 0;
        let intents = if let Ring::Whole(intents) = ring { intents } else { Vec::new() };
        let mut noted = intents.into_iter().peekable();
        let mut in_flight = 0;
        let mut records = self.records()?;
        while let Some((number, request)) = records.next()? {
            in_flight += apply_noted(&mut rebuild, &mut noted, number);
            // With a note of every change, a request without a record changed nothing.
            rebuild.record(number, all_noted);
            if let Some(change) = change(number, &request, past.number) {
                rebuild.apply(&change);
            }
        }
        in_flight += apply_noted(&mut rebuild, &mut noted, u64::MAX);
        Ok((rebuild, in_flight))
    }
}

/// Whether the ring tells of every change without a record. It is in the page cache, which a power
/// cut takes away.
fn all_noted(ring: &Ring, after: After) -> bool {
    after == After::Kill && matches!(ring, Ring::Whole(_))
}

/// Applies what was noted of the requests below `number`; answers how many of them were in flight.
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
    // What has a record is told by it.
    while noted.next_if(|intent| intent.request == number).is_some() {}
    in_flight
}

/// The request as a change of this target; `None` if it went to another one, or nowhere.
fn change(number: u64, request: &Request, target: u16) -> Option<Change> {
    let measured = request.measured.filter(|measured| measured.target == target)?;
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

/// Whether the settled results have a row for every request, so that a row is its number.
fn is_whole(run: &RunDirectory) -> bool {
    settle::read_summary(run).is_ok_and(|summary| {
        summary.engine.results_lost == 0 && summary.recorded == summary.engine.planned
    })
}

/// Refuses a run that still goes on.
fn refuse_running(run: &RunDirectory) -> anyhow::Result<()> {
    if File::open(run.journal()).is_ok_and(|journal| journal.try_lock().is_err()) {
        let text = format!(
            "the run {} still goes on\n  = help: wait for its end, or stop it with Ctrl-C",
            run.path().display()
        );
        return Err(Coded::error(exit::INCOMPLETE, text));
    }
    Ok(())
}

fn targets(path: &Path, facts: &toml::Table) -> anyhow::Result<Vec<PastTarget>> {
    let name = path.display();
    let targets = targets_of(facts);
    let mut past = Vec::new();
    for (number, target) in targets.into_iter().enumerate() {
        if target.contains_key("simulated") {
            let text = format!(
                "{name} was simulated: there is nothing left to verify\n  = help: ioecho replay \
                 --verify verifies a simulated target while it is there"
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        let known = target
            .get("canonical")
            .or(target.get("path"))
            .and_then(toml::Value::as_str)
            .zip(target.get("capacity").and_then(toml::Value::as_integer));
        let Some((path, capacity)) = known else {
            let text = format!("{name}: run.toml does not tell the run's targets");
            return Err(Coded::error(exit::TRACE, text));
        };
        past.push(PastTarget {
            number: number as u16,
            path: path.into(),
            capacity: capacity as u64,
            direct: target.get("direct").and_then(toml::Value::as_bool).unwrap_or(true),
        });
    }
    if past.is_empty() {
        let text = format!("{name}: run.toml does not tell the run's targets");
        return Err(Coded::error(exit::TRACE, text));
    }
    Ok(past)
}
