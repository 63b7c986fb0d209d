//! The verification of a run that is over: killed, cut off, or long ago.
//!
//! The run's files say what was written, and when. From them the state that its targets may have
//! is rebuilt, and then the targets are read, and nothing is written to them. Everything is
//! streamed: a run of a billion requests takes no more memory than one of a thousand.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use ioecho_linux::device::uring_available;
use ioecho_linux::{
    Access, Backend, DeviceOptions, MonotonicClock, OpenOptions, open_device, target,
};
use ioecho_replay::conflict::ConflictMode;
use ioecho_replay::verify::{After, FinalPass, Finding, PassProgress, VerifyFigures, final_pass};
use ioecho_trace::wording::Wording;
use ioecho_trace::{Bytes, VerifyMode};
use serde::Serialize;

use super::line::{self, Continues};
use super::rebuilt::{Rebuilt, rebuilt};
use super::records::Records;
use super::{notes, table};
use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{Continued, RunNumber, State, TargetEntry};
use crate::regular;

/// Reads in flight.
const DEPTH: u32 = 4;

/// Memory for their data: an eighth of it is the largest read.
const BUFFERS: Bytes = Bytes(16 << 20);

/// A run, as far as its verification needs it.
#[derive(Clone, Debug)]
pub struct Past {
    pub(super) run: RunDirectory,
    /// Its number, which stands in every sector that it wrote.
    pub number: u64,
    /// What it wrote to.
    pub targets: Vec<PastTarget>,
    /// Whether no two overlapping changes were ever in flight together.
    pub(super) ordered: bool,
    /// Whether it came to its end and has a record of every request.
    pub(super) complete: bool,
    /// Whether it verified, and so kept rings.
    pub(super) verified: bool,
    /// What it replayed.
    pub(super) trace: Option<PathBuf>,
    /// The run that it goes on from, as it noted it.
    pub(super) continued: Option<Continued>,
    /// The same and those before it, oldest first.
    earlier: Vec<Continues>,
}

/// One of its targets.
#[derive(Clone, Debug)]
pub struct PastTarget {
    /// Its number among those of the run.
    pub number: u16,
    /// Where it is, or is now.
    pub path: PathBuf,
    /// For a loop device: the file behind it.
    pub(super) backing_file: Option<PathBuf>,
    pub(super) capacity: u64,
    direct: bool,
}

/// What was found on a target.
#[derive(Debug, Serialize)]
pub struct TargetFindings {
    /// The target's number among those of the run.
    pub target: u16,
    /// Where the target is.
    pub path: PathBuf,
    /// How much was read.
    pub read: Bytes,
    /// Whether all was read and could be judged.
    pub complete: bool,
    /// How many sectors are how.
    pub figures: VerifyFigures,
    /// What was under way when the process ended, and may be there or not.
    pub in_flight: u64,
    /// What there is to know of how far this goes.
    pub notes: Vec<String>,
    /// What is wrong, the first of it.
    pub findings: Vec<Finding>,
}

impl TargetFindings {
    /// What there is to say of a target that does not even let go of who looks at it.
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
        }
    }
}

impl Past {
    /// Reads what the run was, and what the runs were that it goes on from.
    pub fn open(path: &Path) -> Result<Self> {
        let past = Self::open_alone(path)?;
        Ok(Self { earlier: line::earlier(&past)?, ..past })
    }

    /// Reads what the run was.
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
        if plan.dedup.is_some_and(|dedup| dedup > 1.0) {
            let text = format!(
                "{name} wrote blocks that are equal on purpose: they cannot tell where they belong"
            );
            let help = Wording::from("what is to be verified must be written without ");
            return Err(RunError::with_help(Kind::Usage, text, help.setting("dedup")));
        }
        Ok(Self {
            number,
            targets: targets(path, facts.targets)?,
            ordered: plan.conflicts != Some(ConflictMode::Allow),
            complete: facts.state == State::Complete && is_whole(&run)?,
            verified: plan.verify.is_some_and(VerifyMode::is_on),
            trace: plan.trace,
            continued: facts.continues,
            earlier: Vec::new(),
            run,
        })
    }

    /// Takes these paths in place of those that the run knew: a device may have another name after
    /// a reboot. As many as the run had targets: one that is not looked at is not intact.
    pub fn retarget(&mut self, paths: &[PathBuf]) -> Result<()> {
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
            return Err(RunError::new(Kind::Usage, text));
        }
        for (target, path) in self.targets.iter_mut().zip(paths) {
            target.path.clone_from(path);
        }
        Ok(())
    }

    /// Verifies one of its targets.
    pub fn verify(
        &self,
        past: &PastTarget,
        after: After,
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
        let number = usize::from(past.number);
        let table = table::open(&self.run, &self.run.versions(number), Bytes(past.capacity))?;
        let Rebuilt { mut verifier, in_flight, mut notes, damaged } =
            rebuilt(self, number, after, table, stop)?;
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
            RunError::new(Kind::Target, text)
        })?;
        let figures = verifier.figures().clone();
        notes.extend(notes::of_figures(after, &verifier, &self.run.versions(number)));
        let is_judged = figures.table_errors + figures.undecided + damaged == 0;
        Ok(TargetFindings {
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

    pub(super) fn records(&self) -> Result<Records> {
        Records::open(&self.run, self.number, self.complete)
    }

    /// The runs that it goes on from, oldest first, and itself, each with what came after it.
    pub(super) fn line(&self, after: After) -> Vec<(&Self, After)> {
        let earlier = self.earlier.iter().map(|continues| (&continues.past, continues.after));
        earlier.chain([(self, after)]).collect()
    }
}

/// Whether the finalised results have a row for every request, so that a row is its number.
fn is_whole(run: &RunDirectory) -> Result<bool> {
    let summary = run.read_summary()?;
    Ok(summary.engine.results_lost == 0 && summary.recorded == summary.engine.planned)
}

/// Refuses a run that still goes on.
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
        }),
    });
    past.collect()
}
