//! The verification of a past run: completed, killed, or interrupted by a power cut.
//!
//! The run's files say what was written, and when. From them this rebuilds the states that its
//! targets may be in, and then reads the targets, without writing to them. Everything is streamed:
//! a run of a billion requests takes no more memory than one of a thousand.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use ioecho_linux::device::uring_available;
use ioecho_linux::{
    Access, Backend, DeviceOptions, MonotonicClock, OpenOptions, open_device, target,
};
use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::verify::{
    After, FinalPass, Finding, NameFinding, PassProgress, Verifier, VerifyFigures, final_pass,
};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, VerifyMode};
use serde::Serialize;

use super::line::{self, Continues};
use super::rebuilt::{Known, Link, Part, Rebuilt, rebuilt, rebuilt_together};
use super::records::Records;
use super::tree::{self, PastTree};
use super::{notes, table};
use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{Continued, RunNumber, State, TargetEntry};
use crate::{regular, tree_target};

/// Reads in flight.
const DEPTH: u32 = 4;

/// The memory for their data; the largest read is an eighth of it.
const BUFFERS: Bytes = Bytes(16 << 20);

/// The part of a run that its verification needs.
#[derive(Clone, Debug)]
pub struct Past {
    pub(super) run: RunDirectory,
    /// Its number, which every sector contains that it wrote.
    pub number: u64,
    /// Its targets.
    pub targets: Vec<PastTarget>,
    /// Whether no two overlapping changes were ever in flight together.
    pub(super) ordered: bool,
    /// Whether it came to its end and has a record of every request.
    pub(super) complete: bool,
    /// Whether the position of a row of its final results is the request's number.
    numbered: bool,
    /// Of each of its targets, which of them its files are copied or moved to.
    pub(super) to: Vec<Option<u16>>,
    /// Whether it verified, and so has rings.
    pub(super) verified: bool,
    /// The trace that it replayed.
    pub(super) trace: Option<PathBuf>,
    /// The run that it continued, as its `run.toml` says.
    pub(super) continued: Option<Continued>,
    /// That run and the ones before it, oldest first.
    earlier: Vec<Continues>,
}

/// What happened between the last run and now, and what of its writes must be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// What happened.
    pub after: After,
    /// After a power cut: everything that the target had acknowledged, flushed or not, as storage
    /// with a protected cache promises.
    pub acknowledged: bool,
}

/// A target of a past run.
#[derive(Clone, Debug)]
pub struct PastTarget {
    /// Its number among the run's targets.
    pub number: u16,
    /// Its path, then or now.
    pub path: PathBuf,
    /// For a loop device: the file behind it.
    pub(super) backing_file: Option<PathBuf>,
    pub(super) capacity: u64,
    /// Whether it was read past the page cache.
    pub(super) direct: bool,
    /// The tree, if it is a tree of files.
    pub(super) tree: Option<PastTree>,
}

/// The findings on a target.
#[derive(Debug, Serialize)]
pub struct TargetFindings {
    /// The target's number among those of the run.
    pub target: u16,
    /// The target's path.
    pub path: PathBuf,
    /// The amount of data that was read.
    pub read: Bytes,
    /// Whether everything was read and could be judged.
    pub complete: bool,
    /// The numbers of sectors in each state.
    pub figures: VerifyFigures,
    /// Requests that were in flight when the process ended; their data may be there or not.
    pub in_flight: u64,
    /// Remarks on the limits of this verification.
    pub notes: Vec<String>,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// The first names of a tree of files that are not as they must be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<NameFinding>,
}

impl TargetFindings {
    /// The result for a target that blocks even its reader.
    pub fn nothing(past: &PastTarget) -> Self {
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
            names: Vec::new(),
        }
    }

    /// What was found when a target was read back. `damaged` counts lost records.
    pub(super) fn of(
        past: &PastTarget,
        verifier: &Verifier,
        pass: &FinalPass,
        damaged: u64,
    ) -> Self {
        let figures = verifier.figures().clone();
        let is_judged = figures.table_errors + figures.undecided + damaged == 0;
        Self {
            target: past.number,
            path: past.path.clone(),
            read: pass.read,
            complete: !pass.stopped && is_judged,
            in_flight: 0,
            notes: Vec::new(),
            figures,
            findings: verifier.findings().to_vec(),
            names: verifier.name_findings().to_vec(),
        }
    }
}

impl Past {
    /// Reads the facts of a run, and of the runs that it continues.
    pub fn open(path: &Path) -> Result<Self> {
        let past = Self::open_alone(path)?;
        Ok(Self { earlier: line::earlier(&past)?, ..past })
    }

    /// Reads the facts of a run alone.
    pub(super) fn open_alone(path: &Path) -> Result<Self> {
        let name = path.display();
        let run = RunDirectory::at(path).ok_or_else(|| {
            RunError::with_help(
                Kind::Trace,
                format!("{name} is no run: it holds no run.toml"),
                "name a directory that a replay made",
            )
        })?;
        let facts = run.read_facts()?;
        refuse_running(&run)?;
        let RunNumber(number) = facts.run.single().ok_or_else(|| {
            let text = format!(
                "{name} was merged of several runs, each with a target and results of its own\n  = \
                 help: verify each of them"
            );
            RunError::new(Kind::Trace, text)
        })?;
        let plan = facts.plan;
        let has_lanes =
            facts.targets.len() > 1 || facts.targets.iter().any(TargetEntry::is_of_files);
        if plan.flows.is_some() && has_lanes && !run.journal().exists() {
            let text = format!(
                "{name} had flows on several targets, or threads on files, whose rows do not say \
                 which request is which"
            );
            let help = Wording::from("its journal says so, which a run keeps with ");
            return Err(RunError::with_help(Kind::Trace, text, help.setting("verify")));
        }
        if plan.dedup.is_some_and(|dedup| dedup > 1.0) && plan.dedup_unit_bytes.is_none() {
            let text = format!(
                "{name} wrote blocks that are equal on purpose: they cannot tell where they belong"
            );
            let help = Wording::from("what is to be verified must be written with ");
            let help = help.setting("verify").text(", or without ").setting("dedup");
            return Err(RunError::with_help(Kind::Usage, text, help));
        }
        let to = facts.targets.iter().map(TargetEntry::to).collect();
        Ok(Self {
            number,
            to,
            targets: targets(path, facts.targets)?,
            ordered: plan.conflicts != Some(ConflictMode::Allow),
            complete: facts.state == State::Complete && has_all_results(&run)?,
            numbered: facts.state == State::Complete && is_numbered(&run)?,
            verified: plan.verify.is_some_and(VerifyMode::is_on),
            trace: plan.trace,
            continued: facts.continues,
            earlier: Vec::new(),
            run,
        })
    }

    /// Verifies a target of the run.
    pub fn verify(
        &self,
        past: &PastTarget,
        since: Since,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(PassProgress),
    ) -> Result<TargetFindings> {
        let number = usize::from(past.number);
        let path = self.run.versions(number);
        if let Some(tree) = &past.tree {
            let is_one = self.to.iter().all(Option::is_none);
            let theirs = self.targets.iter().filter(|it| it.number == past.number || !is_one);
            let mut rebuilt = |all: &[&PastTarget]| {
                let part = |it: &&PastTarget| {
                    let beside = (it.number != past.number).then_some(it.number);
                    let path = table::beside(&path, beside);
                    let known = table::open(&self.run, &path, Bytes(it.capacity))?;
                    let line = self.links(it.number, since.after);
                    Ok(Part { line, known: Known::Nothing(known) })
                };
                let parts = all.iter().map(part).collect::<Result<_>>()?;
                rebuilt_together(parts, since.acknowledged, stop)
            };
            let all: Vec<&PastTarget> = theirs.collect();
            return tree::look((past, tree), &all, since, &path, &mut rebuilt, stop, progress);
        }
        let mut rebuilt = || {
            let table = table::open(&self.run, &path, Bytes(past.capacity))?;
            let links = self.links(past.number, since.after);
            rebuilt(links, Known::Nothing(table), since.acknowledged, stop)
        };
        look(past, since, &path, &mut rebuilt, stop, progress)
    }

    pub(super) fn records(&self) -> Result<Records> {
        Records::open(&self.run, self.number, self.numbered)
    }

    /// The runs that it continues, oldest first, and itself.
    pub(super) fn line(&self) -> impl Iterator<Item = &Self> {
        self.earlier.iter().map(|continues| &continues.past).chain([self])
    }

    /// The same for a target of theirs, each with what happened after it.
    pub(super) fn links(&self, target: u16, after: After) -> Vec<Link<'_>> {
        let earlier = self.earlier.iter().map(|continues| (&continues.past, continues.after));
        let link = |(past, after): (_, _)| {
            let past: &Self = past;
            Link { run: past.number, after, here: Some((past, target)) }
        };
        earlier.chain([(self, after)]).map(link).collect()
    }
}

/// Replaces the paths of targets, because a device may have another name after a reboot. Needs as
/// many paths as there are targets, because an unread target must not count as intact.
pub(super) fn retargeted(targets: &mut [PastTarget], paths: &[PathBuf]) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    if paths.len() != targets.len() {
        let known: Vec<_> =
            targets.iter().map(|target| target.path.display().to_string()).collect();
        let text = format!(
            "{} named, and the run wrote to {}: {}\n  = help: name each of them as it is \
             called now, in this order, or none",
            paths.len(),
            known.len(),
            known.join(", ")
        );
        return Err(RunError::new(Kind::Usage, text));
    }
    for (target, path) in targets.iter_mut().zip(paths) {
        target.path.clone_from(path);
    }
    Ok(())
}

impl PastTarget {
    /// A tree of files below this directory.
    pub(super) fn tree(number: u16, path: PathBuf, tree: PastTree) -> Self {
        let capacity = tree.geometry.extent().0;
        let direct = tree.direct;
        Self { number, path, backing_file: None, capacity, direct, tree: Some(tree) }
    }
}

/// How the legal content of a target is found.
pub(super) type Rebuilding<'a> = &'a mut dyn FnMut() -> Result<Rebuilt>;

/// Reads everything of a target that its runs have touched. `table` is where its versions lie.
pub(super) fn look(
    past: &PastTarget,
    since: Since,
    table: &Path,
    rebuilt: Rebuilding<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(PassProgress),
) -> Result<TargetFindings> {
    let allow_cached = !past.direct;
    let options = OpenOptions { allow_cached, ..OpenOptions::new(Access::ReadOnly) };
    let opened = target::open(&past.path, options)?;
    if opened.facts().capacity.0 != past.capacity {
        let text = format!(
            "{} holds {} and the run's target held {}: it is not the same",
            past.path.display(),
            opened.facts().capacity,
            Bytes(past.capacity)
        );
        let help = Wording::from("name the target as it is called now with ");
        return Err(RunError::with_help(Kind::Target, text, help.setting("target")));
    }
    let Rebuilt { mut verifier, in_flight, mut notes, damaged } = rebuilt()?;
    let clock = MonotonicClock::new();
    let options = DeviceOptions {
        // The back end is not chosen by trial, because a trial may wait where no signal reaches
        // it.
        backend: uring_available().map_or(Backend::Auto, |()| Backend::Uring),
        in_flight_max: DEPTH,
        buffer_memory: Some(BUFFERS),
        ..DeviceOptions::default()
    };
    let mut device = open_device(opened, &options, clock)?;
    let pass = if verifier.figures().table_errors > 0 {
        // The data that it reads could not be judged.
        Ok(FinalPass { stopped: true, ..FinalPass::default() })
    } else {
        final_pass(device.as_mut(), &clock, &mut verifier, stop, progress)
    };
    if !pass.as_ref().is_ok_and(|pass| !pass.stopped) {
        // Closing a device waits for its reads in flight; the findings must not wait.
        thread::spawn(move || drop(device));
    }
    let pass = pass.map_err(|error| {
        let text = format!(
            "{} cannot be verified: {error}\n  = help: see what the kernel says of it \
             (dmesg), and verify again when it answers",
            past.path.display()
        );
        RunError::new(Kind::Target, text)
    })?;
    notes.extend(notes::of_figures(since, &verifier, table));
    Ok(TargetFindings { in_flight, notes, ..TargetFindings::of(past, &verifier, &pass, damaged) })
}

/// Whether the results have every request that was issued.
fn has_all_results(run: &RunDirectory) -> Result<bool> {
    Ok(run.read_summary()?.engine.results_lost == 0)
}

/// Whether the final results have a row for every request, issued or not, so that the row's
/// position is its number.
fn is_numbered(run: &RunDirectory) -> Result<bool> {
    let summary = run.read_summary()?;
    Ok(summary.engine.results_lost == 0 && summary.recorded == summary.engine.planned)
}

/// Refuses a run that is still going on.
fn refuse_running(run: &RunDirectory) -> Result<()> {
    if regular::open(&run.journal()).is_ok_and(|journal| journal.try_lock().is_err()) {
        let text = format!(
            "the run {} still goes on\n  = help: wait for its end, or stop it with Ctrl-C",
            run.path().display()
        );
        return Err(RunError::new(Kind::Incomplete, text));
    }
    Ok(())
}

fn targets(path: &Path, targets: Vec<TargetEntry>) -> Result<Vec<PastTarget>> {
    let name = path.display();
    if targets.is_empty() {
        let text = format!("{name}: run.toml names no target");
        return Err(RunError::new(Kind::Trace, text));
    }
    let past = (0..).zip(targets).map(|(number, target)| match target {
        TargetEntry::Tree(entry) => {
            let (geometry, open) = tree_target::shape(&entry.tree)?;
            let tree = PastTree { geometry, direct: open.direct };
            let path = entry.canonical.unwrap_or(entry.anchor);
            Ok(PastTarget::tree(number, path, tree))
        }
        TargetEntry::Simulated(_) => {
            let text = format!("{name} was simulated: there is nothing left to verify");
            let help = Wording::from("a replay with ")
                .setting("verify")
                .text(" verifies a simulated target while it is there");
            Err(RunError::with_help(Kind::Usage, text, help))
        }
        TargetEntry::Real(target) => Ok(PastTarget {
            number,
            path: target.canonical,
            backing_file: target.backing_file,
            capacity: target.capacity.0,
            direct: target.direct,
            tree: None,
        }),
    });
    past.collect()
}
