//! Makes the final files of a journal: results in the order of issue, summary and verdict.

use std::io;
use std::path::PathBuf;

use ioecho_stats::critical_path::PathFinder;
use ioecho_stats::run_summary::{EngineFacts, RunFigures, RunSummary};
use ioecho_trace::{Batch, Outcome, Source};

use crate::directory::RunDirectory;
use crate::error::{Kind, Result, RunError};
use crate::facts::{RunFacts, TargetEntry};
use crate::flows;
use crate::journaled::{JournalSource, with_header};
use crate::regular;
use crate::witness::Witnessed;

/// Turns the journal into `requests.parquet` and writes `summary.json`.
///
/// If the results cannot be written because the disk is full, the journal stays: nothing is lost,
/// and `ioecho report` completes the run later.
pub(crate) fn finalise(
    run: &RunDirectory,
    facts: &RunFacts,
    engine: EngineFacts,
    witnessed: Option<&Witnessed>,
) -> Result<RunSummary> {
    if !run.path().is_dir() {
        let text = format!(
            "the run's directory {} went away while the run went on, and its results with it",
            run.path().display()
        );
        return Err(RunError::new(Kind::Output, text));
    }
    let mut source = JournalSource::open(run, facts)?;
    let mut header = facts.trace.clone();
    header.columns = source.header().columns;
    header.run = Some(run.path().display().to_string());
    header.run_number = Some(facts.run.to_string());
    if !engine.incomplete.is_empty() {
        header.damage = Some(format!("the run is incomplete: {}", engine.incomplete));
    }
    let mut sink = Some(run.trace(&run.requests(), &header)?);
    let mut failure = None;
    let mut figures = RunFigures::default();
    let mut paths = engine.timing.has_parents().then(PathFinder::default);
    let mut batch = Batch::new(header.columns);
    while source.next_batch(&mut batch)? {
        figures.observe(&batch);
        if let Some(paths) = &mut paths {
            batch.iter().for_each(|request| paths.observe(&request));
        }
        if let Some(Err(error)) = sink.as_mut().map(|sink| sink.write(&batch)) {
            sink = None;
            failure = Some(error);
        }
    }
    // The journal's header begins with the trace's own notes, which are there already.
    source.losses.iter().for_each(|note| header.losses.add_note(note));
    source.guesses.iter().for_each(|note| header.guesses.add_note(note));
    header.files.clone_from(&source.header().files);
    if let Some(Err(error)) = sink.map(|sink| sink.finish(&header)) {
        failure = Some(error);
    }
    let mut engine = engine;
    if let Some(error) = failure {
        run.log(&format!("results stay in the journal: {error}"));
        run.free_reserve();
        if engine.incomplete.is_empty() {
            engine.incomplete =
                format!("results stay in requests.journal, they could not be converted: {error}");
        }
    }
    // A lane that was given up has no totals, but its records show them.
    engine.pushed_back = engine.pushed_back.max(figures.pushed_back());
    engine.dropped = engine.dropped.max(figures.dropped());
    engine.in_flight_peak = engine.in_flight_peak.max(figures.in_flight_peak());
    // Nor did it say how much it had drawn from its flows: what is recorded, and what it waits for.
    let abandoned = figures.picture().failures().filter(|(_, how, _)| *how == Outcome::Abandoned);
    let abandoned: u64 = abandoned.map(|(_, _, count)| count).sum();
    let waits_for = engine.abandoned.saturating_sub(abandoned);
    engine.planned = engine.planned.max(figures.recorded().saturating_add(waits_for));
    engine.witness = witnessed.map(|witnessed| witnessed.facts(run));
    let is_whole = engine.incomplete.is_empty() && figures.recorded() == engine.planned;
    figures.set_critical_path(paths.filter(|_| is_whole).and_then(|paths| paths.finish()));
    let summary = figures.summary(engine);
    run.put(&run.summary(), &serde_json::to_vec_pretty(&summary)?)?;
    Ok(summary)
}

/// Brings the results of a run that verified to the disk: if the power fails later, a verification
/// needs them, and the page cache alone would lose the last of them.
pub(crate) fn sync_results(run: &RunDirectory) -> Result<()> {
    let sync = |path: PathBuf| match regular::open(&path) {
        Ok(file) => file.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    let all = [run.requests(), run.journal(), run.summary()].into_iter().try_for_each(sync);
    all.and_then(|()| run.sync())
        .map_err(|error| RunError::from(error).within("bringing the results to the disk"))
}

/// Removes the journal after everything else is complete: until then it is needed to recover a
/// killed run. If results are missing, it stays: only it contains the numbers of the requests,
/// which `ioecho verify` needs because every written sector contains the number of its request.
pub(crate) fn drop_journal(run: &RunDirectory, engine: &EngineFacts) -> Result<()> {
    if engine.incomplete.is_empty() && engine.results_lost == 0 && run.requests().exists() {
        run.remove(&run.journal())
            .map_err(|error| RunError::from(error).within("removing the journal"))?;
    }
    Ok(())
}

/// Finalises a run that was killed; refuses one that is still going on.
pub fn recover(run: &RunDirectory) -> Result<RunSummary> {
    let path = run.journal();
    let journal = regular::open(&path).map_err(|error| {
        RunError::new(Kind::Trace, format!("{} holds no results: {error}", run.path().display()))
    })?;
    if journal.try_lock().is_err() {
        let text = format!(
            "the run {} still goes on\n  = help: wait for its end, or stop it with Ctrl-C",
            run.path().display()
        );
        return Err(RunError::new(Kind::Incomplete, text));
    }
    let mut facts = with_header(run, run.read_facts()?)?;
    let killed = || "the process was killed; results up to that moment are here".to_owned();
    let incomplete = facts.reason.clone().unwrap_or_else(killed);
    let mut figures = RunFigures::default();
    let mut source = JournalSource::open(run, &facts)?;
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        figures.observe(&batch);
    }
    let targets = &facts.targets;
    let engine = EngineFacts {
        incomplete,
        simulated: targets.iter().any(TargetEntry::is_simulated),
        direct: targets.iter().all(TargetEntry::is_direct),
        memory: targets.iter().any(TargetEntry::is_in_memory),
        files: targets.iter().any(TargetEntry::is_of_files),
        targets: targets.len() as u32,
        timing: facts.timing(),
        speedup: facts.plan.speedup.unwrap_or(1.0),
        server_speed: facts.plan.server_speed.unwrap_or(1.0),
        flows: flows::recovered(&facts),
        ..figures.engine_facts()
    };
    run.free_reserve();
    run.remove_partial_files();
    let witnessed = Witnessed::recovered(run, &mut facts);
    let summary = finalise(run, &facts, engine, witnessed.as_ref())?;
    run.mark_finalised(facts, &summary)?;
    run.log("recovered after the process was killed");
    Ok(summary)
}
