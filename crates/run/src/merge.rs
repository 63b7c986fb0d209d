//! Several runs as one system.
//!
//! If a storage system is loaded from several hosts, or a load is divided among its parts, its
//! users ask for one 99th percentile. That is neither the mean of the runs' percentiles nor their
//! maximum: it needs the requests of all. So the requests are merged in the order of their issue,
//! with separate numbers for volumes and targets, and counted again. `stats/merged` defines how the
//! facts and verdicts of several runs merge; this module handles the files and the wording.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use ioecho_linux::HostDescription;
use ioecho_report::Page;
use ioecho_stats::begun::Begun;
use ioecho_stats::merged;
use ioecho_stats::run_summary::{MergedRun, RunFigures, RunSummary};
use ioecho_stats::verdict::Validity;
use ioecho_trace::batch::BATCH_ROWS;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::order::spill::Spill;
use ioecho_trace::wording::Wording;
use ioecho_trace::{Batch, Columns, Header, Measured, Nanos, Source, VolumeId};
use serde::{Deserialize, Serialize};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{MergedEntry, PlanFacts, RUN_VERSION, RunFacts, RunNumbers, State, TargetEntry};
use crate::{page, pass, regular, results};

/// The share of the shortest run during which all must have gone on. Their starts are those of
/// their processes, which prepare their targets for different times.
const TOGETHER: f64 = 0.9;

/// So many runs are read side by side. More are put one behind the other into a temporary file, of
/// which each then needs a small window: an open file of a run takes half a megabyte.
const OPEN_MAX: usize = 16;

/// How many requests of all runs are in memory where they are held in a file.
const WINDOWS_ROWS: usize = 8 * BATCH_ROWS;

/// A run to be merged.
struct Part {
    name: String,
    facts: RunFacts,
    summary: RunSummary,
    header: Header,
    /// Its requests, unless there are too many runs to have them all open.
    source: Option<Box<dyn Source>>,
    /// The file of its requests.
    requests: PathBuf,
    /// The rows of its requests in the temporary file that are not read yet.
    held: Range<u64>,
    /// The shift of its instants.
    shift: Nanos,
    /// When it began, if the clocks of the hosts were compared.
    begun: Option<Begun>,
    /// When its first request was issued, and how long after its time.
    first: Option<(Nanos, Nanos)>,
    /// The number to add to its targets' numbers.
    targets: u16,
    /// The numbers of its volumes in the merged run, by their own numbers.
    volumes: BTreeMap<u32, u32>,
    batch: Batch,
    row: usize,
}

/// What is still told of a run whose requests are merged. Its figures and its verdict go into the
/// merged run: those of a thousand runs are not to be in memory twice.
struct Ended {
    name: String,
    facts: RunFacts,
    shift: Nanos,
    requests: u64,
    validity: Validity,
    took: Nanos,
}

impl Part {
    /// What is still told of it, and the single runs in it.
    fn end(self) -> (Ended, Vec<MergedRun>) {
        let Self { name, facts, summary, shift, begun, first, .. } = self;
        let requests = summary.recorded;
        let validity = summary.verdict.validity;
        let took = Nanos(summary.achieved_duration_ns.max(0));
        let mut runs = MergedRun::all_of(&name, shift, summary);
        if let ([run], Some(begun)) = (&mut runs[..], begun) {
            let first_late_ns = first.map(|(_, late)| late.0);
            run.begun = Some(Begun { first_late_ns, ..begun });
        }
        (Ended { name, facts, shift, requests, validity, took }, runs)
    }

    /// When its next request was issued; `None` at the end.
    fn due(&self) -> Option<Nanos> {
        let issue_ns = self.batch.issue_ns().get(self.row)?;
        Some(Nanos(*issue_ns).saturating_add(self.shift))
    }

    /// Goes on to the next requests.
    fn advance(&mut self, held: Option<&Spill>, window: u64) -> Result<()> {
        self.row = 0;
        let is_there = match (&mut self.source, held) {
            (Some(source), _) => source.next_batch(&mut self.batch)?,
            (None, Some(held)) => {
                let end = self.held.end.min(self.held.start + window);
                let rows = held.read(self.held.start, end, &mut self.batch)?;
                self.held.start += rows;
                rows > 0
            }
            (None, None) => false,
        };
        if !is_there {
            self.batch = Batch::default();
        }
        Ok(())
    }

    /// Looks whether a request is the first that was issued.
    fn looks_at(&mut self, measured: &Measured) {
        let Some(submitted) = measured.submitted else { return };
        if self.first.is_none_or(|(first, _)| submitted < first) {
            self.first = Some((submitted, submitted - measured.scheduled));
        }
    }
}

/// A merged run.
pub struct Merged {
    /// Its directory.
    pub run: RunDirectory,
    /// Its figures and its verdict.
    pub summary: RunSummary,
    /// Its page.
    pub page: Page,
    /// Sentences on what makes the sum of its runs doubtful; the verdict has them, too.
    pub doubts: Vec<String>,
}

/// A run, and when it began on an axis that it shares with others.
#[derive(Clone, Debug)]
pub struct Together {
    /// Its directory.
    pub path: PathBuf,
    /// What it is called in the merged run, such as the name of its host.
    pub name: String,
    /// When it began.
    pub begun: Begun,
}

/// Merges runs that were begun together into one in the new directory `output`, on their common
/// axis of time, and draws its page.
pub fn of_hosts(all: &[Together], output: &Path, command: Vec<String>) -> Result<Merged> {
    let mut parts = Vec::new();
    let first_ns = all.iter().map(|one| one.begun.zero_ns).min().unwrap_or(0);
    for one in all {
        let mut part = open(&one.path, all.len())?;
        part.name.clone_from(&one.name);
        part.shift = Nanos(one.begun.zero_ns.saturating_sub(first_ns));
        part.begun = Some(one.begun.clone());
        parts.push(part);
    }
    refuse_unlike(&parts)?;
    merged(parts, output, command)
}

/// Merges runs into one in the new directory `output`, and draws its page. With `by_wall_clock`,
/// each run keeps its wall-clock time; otherwise all begin at the same instant. `command` is stored
/// as the command line of the merged run.
pub fn runs(
    inputs: &[PathBuf],
    output: &Path,
    by_wall_clock: bool,
    command: Vec<String>,
) -> Result<Merged> {
    let mut parts = Vec::new();
    for path in inputs {
        parts.push(open(path, inputs.len())?);
    }
    refuse_unlike(&parts)?;
    if by_wall_clock {
        shift_by_wall_clock(&mut parts)?;
    }
    merged(parts, output, command)
}

fn merged(mut parts: Vec<Part>, output: &Path, command: Vec<String>) -> Result<Merged> {
    let header = number(&mut parts)?;
    let output = RunDirectory::create(output)?;
    let figures = write_requests(&mut parts, header.clone(), &output)?;
    let (parts, runs): (Vec<_>, Vec<_>) = parts.into_iter().map(Part::end).unzip();
    let summary = merged::summary(runs.into_iter().flatten().collect(), &figures);
    // The page counts them anew, with all else: only one of the two is in memory at a time.
    drop(figures);
    // Runs that were merged before may be unlike in themselves only if somebody wrote them.
    let mut summary = summary.map_err(|_| {
        RunError::new(Kind::NotComparable, "a run was merged of parts that are not of one replay")
    })?;
    let doubts: Vec<String> = apart(&parts).into_iter().chain(shared(&parts)).collect();
    for doubt in &doubts {
        summary.verdict.summary = format!("{} {doubt}", summary.verdict.summary);
    }
    output.put(&output.summary(), &serde_json::to_vec_pretty(&summary)?)?;
    write_facts(&parts, command, &header, &summary, &output)?;
    // Of many runs, what one thread counts takes a quarter of a gigabyte.
    let threads = if parts.len() > OPEN_MAX { 1 } else { pass::threads() };
    drop(parts);
    let page = page::of_run_by(&output, &summary, threads)?;
    page::write(&output, &page)?;
    Ok(Merged { run: output, summary, page, doubts })
}

/// A sentence on runs that did not go on at the same time, by the clocks of their hosts. Nothing is
/// said of simulated runs, which no clock of a host is about.
fn apart(parts: &[Ended]) -> Option<String> {
    let is_simulated = |part: &Ended| part.facts.targets.iter().any(TargetEntry::is_simulated);
    if parts.len() < 2 || parts.iter().any(is_simulated) {
        return None;
    }
    let times = parts.iter().map(|part| {
        let started: jiff::Timestamp = part.facts.started.parse().ok()?;
        Some((started.as_nanosecond(), i128::from(part.took.0)))
    });
    let times: Vec<(i128, i128)> = times.collect::<Option<_>>()?;
    let (together, shortest) = together(&times)?;
    if together as f64 >= TOGETHER * shortest as f64 {
        return None;
    }
    let span = |ns: i128| Nanos(i64::try_from(ns.max(0)).unwrap_or(i64::MAX));
    Some(format!(
        "These runs did not go on at the same time: all of them together for {}, and the shortest \
         took {}. Their sum is that of no system.",
        span(together),
        span(shortest)
    ))
}

/// A sentence on runs that went to one device. Each of them kept its own overlapping requests in
/// order, and knew nothing of those of the others.
fn shared(parts: &[Ended]) -> Option<String> {
    let device = |part: &Ended| {
        let host = part.facts.host.boot_id.clone();
        let real = part.facts.targets.iter().filter_map(|target| match target {
            TargetEntry::Real(target) => Some((host.clone(), target.canonical.clone())),
            TargetEntry::Tree(tree) => Some((host.clone(), tree.anchor.clone())),
            TargetEntry::Simulated(_) => None,
        });
        real.collect::<BTreeSet<_>>()
    };
    let mut seen: BTreeMap<_, usize> = BTreeMap::new();
    for one in parts.iter().flat_map(device) {
        *seen.entry(one).or_default() += 1;
    }
    let ((_, path), runs) = seen.iter().max_by_key(|(_, runs)| **runs).filter(|it| *it.1 > 1)?;
    Some(format!(
        "{runs} of these runs went to {}: each took the requests of the others for foreign load, \
         and overlapping requests of different runs were in no order. One run with all of the load \
         keeps it.",
        path.display()
    ))
}

/// For how long all of these runs, each a beginning and a length, went on together (less than zero
/// if never), and how long the shortest took.
fn together(times: &[(i128, i128)]) -> Option<(i128, i128)> {
    let latest = times.iter().map(|(start, _)| *start).max()?;
    let earliest = times.iter().map(|(start, took)| start + took).min()?;
    Some((earliest - latest, times.iter().map(|(_, took)| *took).min()?))
}

/// Opens one of so many runs.
fn open(path: &Path, of: usize) -> Result<Part> {
    let unreadable = |text: &str| {
        let name = path.display();
        let help = Wording::default().command("report", name.to_string()).text(" settles it");
        RunError::with_help(Kind::Trace, format!("{name} {text}"), help)
    };
    let run = RunDirectory::at(path).ok_or_else(|| unreadable("is no run"))?;
    let mut facts = run.read_facts()?;
    // The trace itself has it.
    facts.trace = Header::default();
    if !run.summary().exists() || !run.requests().exists() {
        return Err(unreadable("still goes on or was killed: it has no results yet"));
    }
    let summary = run.read_summary()?;
    let source = results::open(&run, &ReadOptions::default())?;
    let header = source.header().clone();
    let source = (of <= OPEN_MAX).then_some(source);
    let name = path.display().to_string().trim_end_matches('/').to_owned();
    let volumes = BTreeMap::new();
    Ok(Part {
        name,
        facts,
        summary,
        header,
        source,
        requests: run.requests(),
        held: 0..0,
        shift: Nanos::ZERO,
        begun: None,
        first: None,
        targets: 0,
        volumes,
        batch: Batch::default(),
        row: 0,
    })
}

/// Refuses runs that cannot be one system: the same run twice, or different rules of issue.
fn refuse_unlike(parts: &[Part]) -> Result<()> {
    let refuse = |text: String| Err(RunError::new(Kind::NotComparable, text));
    for (number, part) in parts.iter().enumerate() {
        for other in &parts[..number] {
            if part.facts.run.0.iter().any(|own| other.facts.run.0.contains(own)) {
                return refuse(format!(
                    "{} and {} are the same run, or have one in common\n  = help: name each run \
                     once",
                    other.name, part.name
                ));
            }
        }
        if !part.summary.engine.is_like(&parts[0].summary.engine) {
            return Err(not_one_replay(parts));
        }
    }
    Ok(())
}

/// The error names the first run and the first with different rules of issue.
fn not_one_replay(parts: &[Part]) -> RunError {
    let told = |part: &Part| {
        let engine = &part.summary.engine;
        let mut told = format!("{} at speed {}", engine.timing, engine.speedup);
        if engine.timing.has_parents() {
            told = format!("{told} and server speed {}", engine.server_speed);
        }
        told
    };
    let (one, others) = (&parts[0], &parts[1..]);
    let other = others.iter().find(|part| !part.summary.engine.is_like(&one.summary.engine));
    let other = other.unwrap_or(one);
    let text = format!(
        "{} was replayed {} and {} {}: they are not parts of one replay",
        one.name,
        told(one),
        other.name,
        told(other)
    );
    let help = Wording::default().command("compare", "").text(" puts different runs side by side");
    RunError::with_help(Kind::NotComparable, text, help)
}

fn shift_by_wall_clock(parts: &mut [Part]) -> Result<()> {
    let mut started = Vec::new();
    for part in &*parts {
        let instant: jiff::Timestamp = part.facts.started.parse().map_err(|error| {
            let text =
                format!("{}: 'started' of its run.toml is not an instant: {error}", part.name);
            let help = Wording::from("merge with ").set("align", "start");
            RunError::with_help(Kind::Trace, text, help)
        })?;
        started.push(instant.as_nanosecond());
    }
    let first = started.iter().copied().min().unwrap_or(0);
    for (part, started) in parts.iter_mut().zip(started) {
        part.shift = Nanos(i64::try_from(started - first).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// Gives volumes and targets their numbers in the merged run, and returns its header.
fn number(parts: &mut [Part]) -> Result<Header> {
    let mut header = parts.first().map_or_else(Header::default, |part| part.header.clone());
    let several = parts.len() > 1;
    header.volumes.clear();
    header.columns = Columns { measured: true, ..Columns::default() };
    let (mut targets, mut next) = (0_usize, 0);
    for part in parts.iter_mut() {
        let own = &part.header;
        header.columns.latency |= own.columns.latency;
        header.columns.origin |= own.columns.origin;
        for volume in &own.volumes {
            part.volumes.insert(volume.id.0, next);
            let mut volume = volume.clone();
            volume.id = VolumeId(next);
            if several {
                volume.name = format!("{}:{}", part.name, volume.name);
            }
            header.volumes.push(volume);
            next += 1;
        }
        for (pid, name) in &own.processes {
            header.processes.entry(*pid).or_insert_with(|| name.clone());
        }
        part.targets = u16::try_from(targets).map_err(|_| {
            RunError::new(Kind::Usage, "more than 65536 targets\n  = help: merge fewer runs")
        })?;
        targets += part.summary.engine.targets.max(1) as usize;
    }
    header.transforms.push(format!("merge of {} runs", parts.len()));
    for part in parts.iter().skip(1) {
        let own = &part.header;
        own.losses.iter().for_each(|note| header.losses.add_note(&note.within(&part.name)));
        own.guesses.iter().for_each(|note| header.guesses.add_note(&note.within(&part.name)));
        header.merged.push(own.clone());
    }
    Ok(header)
}

/// The numbers of all single runs.
fn numbers<'a>(all: impl Iterator<Item = &'a RunFacts>) -> RunNumbers {
    RunNumbers(all.flat_map(|facts| facts.run.0.clone()).collect())
}

/// Writes the requests of all runs in the order of their issue.
fn write_requests(
    parts: &mut [Part],
    mut header: Header,
    output: &RunDirectory,
) -> Result<RunFigures> {
    header.run = Some(output.path().display().to_string());
    header.run_number = Some(numbers(parts.iter().map(|part| &part.facts)).to_string());
    let mut sink = output.trace(&output.requests(), &header)?;
    let mut figures = RunFigures::default();
    let mut batch = Batch::new(header.columns);
    let mut next_volume = header.volumes.len() as u32;
    let held = held(parts, header.columns)?;
    let window = (WINDOWS_ROWS / parts.len().max(1)).clamp(1, BATCH_ROWS) as u64;
    for part in &mut *parts {
        part.advance(held.as_ref(), window)?;
    }
    let due = |(index, part): (usize, &Part)| Some(Reverse((part.due()?, index)));
    let mut due: BinaryHeap<_> = parts.iter().enumerate().filter_map(due).collect();
    while let Some(mut first) = due.peek_mut() {
        let Reverse((_, index)) = *first;
        let part = &mut parts[index];
        let mut request = part.batch.get(part.row);
        part.row += 1;
        request.issue = request.issue.saturating_add(part.shift);
        let own = request.volume.0;
        // A header may lack a volume that its requests name.
        request.volume = VolumeId(*part.volumes.entry(own).or_insert_with(|| {
            next_volume += 1;
            next_volume - 1
        }));
        if let Some(measured) = &mut request.measured {
            part.looks_at(measured);
            measured.scheduled = measured.scheduled.saturating_add(part.shift);
            for instant in [&mut measured.submitted, &mut measured.completed].into_iter().flatten()
            {
                *instant = instant.saturating_add(part.shift);
            }
            measured.target = measured.target.saturating_add(part.targets);
        }
        if part.row == part.batch.len() {
            part.advance(held.as_ref(), window)?;
        }
        match part.due() {
            Some(next) => *first = Reverse((next, index)),
            None => _ = PeekMut::pop(first),
        }
        batch.push(&request);
        if batch.is_full() {
            figures.observe(&batch);
            sink.write(&batch)?;
            batch.reset(header.columns);
        }
    }
    if !batch.is_empty() {
        figures.observe(&batch);
        sink.write(&batch)?;
    }
    sink.finish(&header)?;
    Ok(figures)
}

/// The requests of all runs one behind the other, if they are too many to have them all open.
fn held(parts: &mut [Part], columns: Columns) -> Result<Option<Spill>> {
    if parts.iter().all(|part| part.source.is_some()) {
        return Ok(None);
    }
    let mut held = Spill::new(&std::env::temp_dir(), columns)?;
    let mut batch = Batch::default();
    for part in parts {
        let mut source = regular::trace(&part.requests, &ReadOptions::default())?;
        let from = held.rows();
        while source.next_batch(&mut batch)? {
            held.push(&batch)?;
        }
        part.held = from..held.rows();
    }
    Ok(Some(held))
}

/// Writes `run.toml` of the merged run: the values that all runs share, the targets of all, and the
/// list of runs, each with the values of its plan and its host that differ.
fn write_facts(
    parts: &[Ended],
    command: Vec<String>,
    header: &Header,
    summary: &RunSummary,
    output: &RunDirectory,
) -> Result<()> {
    let told = parts.iter().map(|part| told_of(&part.facts)).collect::<Result<Vec<_>>>()?;
    let (alike, otherwise) = common(&told.iter().collect::<Vec<_>>());
    drop(told);
    let Told { ioecho, plan, host } = alike.try_into()?;
    let otherwise: Vec<Told> =
        otherwise.into_iter().map(toml::Table::try_into).collect::<Result<_, _>>()?;
    let merged = parts.iter().zip(otherwise).map(|(part, Told { ioecho, plan, host })| {
        let Ended { name, facts, shift, requests, validity, .. } = part;
        MergedEntry {
            name: name.clone(),
            run: facts.run.clone(),
            started: facts.started.clone(),
            shift_ns: shift.0,
            requests: *requests,
            validity: *validity,
            ioecho,
            plan,
            host,
        }
    });
    let all = || parts.iter().map(|part| &part.facts);
    let incomplete = &summary.engine.incomplete;
    let continues = all().next().and_then(|first| first.continues.as_ref());
    let continues =
        continues.filter(|&one| all().all(|facts| facts.continues.as_ref() == Some(one)));
    output.write_facts(&RunFacts {
        version: RUN_VERSION,
        state: State::ended(incomplete),
        reason: (!incomplete.is_empty()).then(|| incomplete.clone()),
        ioecho,
        run: numbers(all()),
        started: all().map(|facts| facts.started.clone()).min().unwrap_or_default(),
        ended: all().filter_map(|facts| facts.ended.clone()).max(),
        command,
        // Each run has its own witness, time zero and process; the verdict includes what the
        // witnesses saw.
        zero_monotonic_ns: None,
        pid: None,
        witness: None,
        verdict: Some(summary.verdict.clone()),
        continues: continues.cloned(),
        plan: plan.unwrap_or_default(),
        targets: all().flat_map(|facts| facts.targets.clone()).collect(),
        host: host.unwrap_or_default(),
        merged: merged.collect(),
        trace: header.clone(),
    })
}

/// The facts that may be the same in all runs.
#[derive(Deserialize)]
struct Told {
    ioecho: Option<String>,
    plan: Option<PlanFacts>,
    host: Option<HostDescription>,
}

/// The facts of a run, as a table.
fn told_of(facts: &RunFacts) -> Result<toml::Table> {
    /// A [`Told`] that copies nothing.
    #[derive(Serialize)]
    struct Seen<'a> {
        ioecho: &'a Option<String>,
        plan: &'a PlanFacts,
        host: &'a HostDescription,
    }
    let RunFacts { ioecho, plan, host, .. } = facts;
    Ok(toml::Table::try_from(Seen { ioecho, plan, host })?)
}

/// The entries that all tables share, and for each table its other entries.
fn common(all: &[&toml::Table]) -> (toml::Table, Vec<toml::Table>) {
    let mut alike = toml::Table::new();
    let mut otherwise = vec![toml::Table::new(); all.len()];
    let keys: BTreeSet<&String> = all.iter().flat_map(|table| table.keys()).collect();
    for key in keys {
        let values: Vec<Option<&toml::Value>> = all.iter().map(|table| table.get(key)).collect();
        let tables: Option<Vec<&toml::Table>> =
            values.iter().map(|value| value.and_then(toml::Value::as_table)).collect();
        match (values.first().copied().flatten(), tables) {
            (Some(first), _) if values.iter().all(|value| *value == Some(first)) => {
                alike.insert(key.clone(), first.clone());
            }
            (_, Some(tables)) => {
                let (same, others) = common(&tables);
                alike.insert(key.clone(), same.into());
                for (table, other) in otherwise.iter_mut().zip(others) {
                    table.insert(key.clone(), other.into());
                }
            }
            _ => {
                for (table, value) in otherwise.iter_mut().zip(values) {
                    table.extend(value.map(|value| (key.clone(), value.clone())));
                }
            }
        }
    }
    (alike, otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_went_on_together_from_the_latest_start_to_the_earliest_end() {
        assert_eq!(together(&[(0, 60), (5, 60)]), Some((55, 60)));
        assert_eq!(together(&[(0, 600), (100, 60), (90, 100)]), Some((60, 60)));
        assert_eq!(together(&[(0, 60), (1000, 30)]), Some((-940, 30)));
        assert_eq!(together(&[]), None);
    }
}
