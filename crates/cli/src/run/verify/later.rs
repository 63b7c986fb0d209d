//! The verification of a run that is over: killed, cut off, or long ago.
//!
//! The run's files say what was written, and when. From them the state that its targets may have
//! is rebuilt, and then the targets are read, and nothing is written to them. Everything is
//! streamed: a run of a billion requests takes no more memory than one of a thousand.

use std::fs::File;
use std::io::BufReader;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::vec::IntoIter;

use ioecho_linux::{Access, DeviceOptions, MonotonicClock, OpenOptions, open_device, target};
use ioecho_replay::journal::{JournalReader, to_request};
use ioecho_replay::verify::{
    After, Change, DurableBefore, Finding, Intent, PassProgress, Rebuild, VerifyConfig,
    VerifyFigures, final_pass,
};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Bytes, Outcome, Request, Source, TraceError};
use serde::Serialize;

use super::{ring, table};
use crate::exit::{self, Coded};
use crate::run::directory::{RunDirectory, targets_of};
use crate::run::settle;

/// Reads in flight.
const DEPTH: u32 = 4;

/// Memory for their data: an eighth of it is the largest read.
const BUFFERS: Bytes = Bytes(16 << 20);

/// How settled results tell that their rows are not in the order of the requests.
const DISORDERED: &str = "results out of the order of issue";

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
    /// Whether all was read.
    pub(crate) complete: bool,
    pub(crate) figures: VerifyFigures,
    /// What was under way when the process ended, and may be there or not.
    pub(crate) in_flight: u64,
    /// What there is to know of how far this goes.
    pub(crate) notes: Vec<String>,
    pub(crate) findings: Vec<Finding>,
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
        Ok(Self {
            number,
            targets: targets(path, &facts)?,
            ordered: plan("conflicts").and_then(toml::Value::as_str) != Some("allow"),
            complete: text("state") == Some("complete") && is_whole(&run),
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
        let intents =
            ring::read(&self.run.intents(usize::from(past.number)), self.number, past.number);
        let (rebuild, in_flight) = self.rebuild(past, after, intents.clone())?;
        let tail_lost = !self.complete && (after == After::PowerCut || intents.is_none());
        let mut verifier = rebuild.finish(tail_lost);
        let clock = MonotonicClock::new();
        let options = DeviceOptions {
            in_flight_max: DEPTH,
            buffer_memory: Some(BUFFERS),
            ..DeviceOptions::default()
        };
        let mut device = open_device(opened, &options, clock)?;
        let pass = final_pass(device.as_mut(), &clock, &mut verifier, stop, progress).map_err(
            |error| {
                let text = format!("{} cannot be verified: {error}", past.path.display());
                Coded::error(exit::TARGET, text)
            },
        )?;
        let figures = verifier.figures().clone();
        Ok(Found {
            target: past.number,
            path: past.path.clone(),
            read: pass.read,
            complete: !pass.stopped,
            in_flight,
            notes: self.notes(after, intents.is_some(), &figures),
            figures,
            findings: verifier.findings().to_vec(),
        })
    }

    /// The state that the target may have, and how many requests were in flight at the end.
    fn rebuild(
        &self,
        past: &PastTarget,
        after: After,
        intents: Option<Vec<Intent>>,
    ) -> anyhow::Result<(Rebuild, u64)> {
        let mut durable = DurableBefore::default();
        if after == After::PowerCut {
            let mut records = Records::open(self)?;
            while let Some((number, request)) = records.next()? {
                if let Some(change) = change(number, &request, past.number) {
                    durable.look(&change);
                }
            }
        }
        let config = VerifyConfig { run: self.number, target: past.number, isolated: self.ordered };
        let versions = self.run.versions(usize::from(past.number));
        let table = table::open(&versions, Bytes(past.capacity))?;
        let mut rebuild = Rebuild::new(config, table, after, durable);
        let has_intents = intents.is_some();
        let mut noted = intents.unwrap_or_default().into_iter().peekable();
        let mut in_flight = 0;
        let mut records = Records::open(self)?;
        while let Some((number, request)) = records.next()? {
            in_flight += apply_noted(&mut rebuild, &mut noted, number);
            // With a note of every change, a request without a record changed nothing.
            rebuild.record(number, has_intents && after == After::Kill);
            if let Some(change) = change(number, &request, past.number) {
                rebuild.apply(&change);
            }
        }
        in_flight += apply_noted(&mut rebuild, &mut noted, u64::MAX);
        Ok((rebuild, in_flight))
    }

    fn notes(&self, after: After, has_intents: bool, figures: &VerifyFigures) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.complete && after == After::Kill && !has_intents {
            notes.push(
                "the run kept no note of what was under way (it did not verify), so what it wrote \
                 in its last tenth of a second is accepted old or new"
                    .to_owned(),
            );
        }
        if after == After::PowerCut {
            notes.push(
                "what no flush and no FUA had made durable is accepted old or new".to_owned(),
            );
        }
        if figures.unrecorded > 0 {
            notes.push(format!(
                "{} sectors hold younger data of the run than its records know: accepted",
                figures.unrecorded
            ));
        }
        if figures.ambiguous > 0 {
            notes.push(format!(
                "{} sectors were written by too many requests at once to tell more than that they \
                 hold data that were written there",
                figures.ambiguous
            ));
        }
        if figures.damaged.count(ioecho_trace::Integrity::Foreign) * 2 > figures.sectors {
            notes.push(
                "most of what the run wrote is not there: the target was used since, or is \
                 another one"
                    .to_owned(),
            );
        }
        notes
    }
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

/// The requests of a run with their numbers, in order.
enum Records {
    Journal { reader: JournalReader<BufReader<File>>, path: PathBuf },
    Settled { source: Box<dyn Source>, batch: Box<Batch>, row: usize, number: u64 },
}

impl Records {
    /// The journal, where there is one: it alone has the numbers of the requests. In the settled
    /// results they are the rows, if none is missing.
    fn open(past: &Past) -> anyhow::Result<Self> {
        let (journal, settled) = (past.run.journal(), past.run.requests());
        if let Ok(file) = File::open(&journal) {
            let reader = JournalReader::new(BufReader::with_capacity(1 << 20, file))
                .map_err(|error| TraceError::read(&journal, error))?;
            return Ok(Self::Journal { reader, path: journal });
        }
        let source = formats::open(&settled, &ReadOptions::default())?;
        if !past.complete || source.header().guesses.iter().any(|note| note.what == DISORDERED) {
            let text = format!(
                "{} was cut off, or lost results, and has been settled since: which request is \
                 which is not known any more\n  = help: verify a run that was killed before \
                 `ioecho report` settles it",
                past.run.path().display()
            );
            return Err(Coded::error(exit::TRACE, text));
        }
        let batch = Box::new(Batch::new(source.header().columns));
        Ok(Self::Settled { source, batch, row: 0, number: 0 })
    }

    fn next(&mut self) -> anyhow::Result<Option<(u64, Request)>> {
        match self {
            Self::Journal { reader, path } => {
                let record = reader.next_record().map_err(|error| TraceError::read(path, error))?;
                Ok(record.map(|record| (record.planned.seq, to_request(&record))))
            }
            Self::Settled { source, batch, row, number } => {
                if *row == batch.len() {
                    if !source.next_batch(batch)? {
                        return Ok(None);
                    }
                    *row = 0;
                }
                let request = batch.get(*row);
                *row += 1;
                *number += 1;
                Ok(Some((*number - 1, request)))
            }
        }
    }
}
