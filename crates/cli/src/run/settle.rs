//! From the journal to the final files: results in the order of issue, summary, verdict, report.

use ioecho_report::{Chart, Page, Section, charts};
use ioecho_stats::facts::HostFacts;
use ioecho_stats::picture::RunPicture;
use ioecho_stats::run_summary::{EngineFacts, RunFigures, RunSummary, SUMMARY_VERSION};
use ioecho_trace::transform::Load;
use ioecho_trace::units::counted;
use ioecho_trace::{Batch, Columns, Header, Source, Stop, formats};
use serde::Serialize;

use crate::regular;
use crate::run::directory::RunDirectory;
use crate::run::error::{Kind, Result, RunError};
use crate::run::everything::{self, Found};
use crate::run::facts::{RunFacts, TargetEntry};
use crate::run::open::{Files, JournalSource};
use crate::run::witness::{self, Witnessed};
use crate::run::{inside, stored};

/// Turns the journal into `requests.parquet` and writes `summary.json`.
///
/// When the results cannot be written (the disk is full), the journal stays: nothing is lost, and
/// `ioecho report` makes the rest up later.
pub(crate) fn settle(
    run: &RunDirectory,
    trace: &Header,
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
    let mut source = JournalSource::open(run, trace)?;
    let mut header = trace.clone();
    header.columns = Columns { measured: true, ..trace.columns };
    header.run = Some(run.path().display().to_string());
    if !engine.incomplete.is_empty() {
        header.damage = Some(format!("the run is incomplete: {}", engine.incomplete));
    }
    let mut sink = Some(run.trace(&run.requests(), &header)?);
    let mut failure = None;
    let mut figures = RunFigures::default();
    let mut batch = Batch::new(header.columns);
    while source.next_batch(&mut batch)? {
        figures.observe(&batch);
        if let Some(Err(error)) = sink.as_mut().map(|sink| sink.write(&batch)) {
            sink = None;
            failure = Some(error);
        }
    }
    // The journal's header begins with the trace's own notes, which are there already.
    source.losses.iter().for_each(|note| header.losses.add_note(note));
    source.guesses.iter().for_each(|note| header.guesses.add_note(note));
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
    // A lane that was given up could not tell, and the records do.
    engine.pushed_back = engine.pushed_back.max(figures.pushed_back());
    engine.dropped = engine.dropped.max(figures.dropped());
    engine.in_flight_peak = engine.in_flight_peak.max(figures.in_flight_peak());
    engine.witness = witnessed.map(|witnessed| witnessed.facts(run));
    let summary = figures.summary(engine);
    run.put(&run.summary(), &serde_json::to_vec_pretty(&summary)?)?;
    Ok(summary)
}

/// Takes the journal away when everything else is in place, and not before: until then it is what a
/// killed run is recovered from. Where results are missing it stays: it alone knows the numbers of
/// the requests, and `ioecho verify` needs them, for sectors bear the number of the request that
/// wrote them.
pub(crate) fn drop_journal(run: &RunDirectory, engine: &EngineFacts) -> Result<()> {
    if engine.incomplete.is_empty() && engine.results_lost == 0 && run.requests().exists() {
        run.remove(&run.journal())
            .map_err(|error| RunError::from(error).within("removing the journal"))?;
    }
    Ok(())
}

/// Settles a run that was killed; refuses one that still goes on.
pub(crate) fn recover(run: &RunDirectory) -> Result<RunSummary> {
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
    let mut facts = run.read_facts()?;
    let killed = || "the process was killed; results up to that moment are here".to_owned();
    let incomplete = facts.reason.clone().unwrap_or_else(killed);
    let mut figures = RunFigures::default();
    let mut source = JournalSource::open(run, &facts.trace)?;
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
        targets: targets.len() as u32,
        timing: facts.timing(),
        speedup: facts.plan.speedup.unwrap_or(1.0),
        ..figures.engine_facts()
    };
    run.free_reserve();
    run.remove_partial_files();
    let witnessed = Witnessed::recovered(run, &mut facts);
    let summary = settle(run, &facts.trace, engine, witnessed.as_ref())?;
    run.mark_settled(facts, &summary)?;
    run.log("recovered after the process was killed");
    Ok(summary)
}

/// The summary of a settled run.
pub(crate) fn read_summary(run: &RunDirectory) -> Result<RunSummary> {
    let path = run.summary();
    let unreadable = |reason: String| {
        RunError::new(Kind::Trace, format!("cannot read {}: {reason}", path.display()))
    };
    let text = regular::read(&path).map_err(|error| unreadable(error.to_string()))?;
    stored::from_json(&text, SUMMARY_VERSION).map_err(|unread| unreadable(unread.to_string()))
}

/// Everything that the report page shows.
pub(crate) fn page(run: &RunDirectory, summary: &RunSummary) -> Result<Page> {
    let options = formats::ReadOptions::default();
    let found =
        everything::count(&Files, run.path(), &options, &Load::default(), &Stop::default())?;
    page_of(run, summary, &found)
}

/// The same, of what was found already.
pub(crate) fn page_of(run: &RunDirectory, summary: &RunSummary, found: &Found) -> Result<Page> {
    if found.run.recorded() != summary.recorded {
        let text = format!(
            "{} holds {} requests and summary.json tells of {}: they are not of the same run",
            run.requests().display(),
            found.run.recorded(),
            summary.recorded
        );
        return Err(RunError::new(Kind::Trace, text));
    }
    let facts = run.read_facts()?;
    let mut warnings = Vec::new();
    if summary.engine.simulated {
        warnings.push("Simulated: no storage was measured.".to_owned());
    }
    let header = &found.header;
    for (kind, notes) in [("Lost", &header.losses), ("Guessed", &header.guesses)] {
        for note in notes.iter() {
            warnings.push(format!("{kind} when the trace was read: {note}"));
        }
    }
    for (outcome, count) in &summary.outcomes {
        if outcome != "ok" {
            warnings.push(format!("{}: {outcome}", counted(*count, "request")));
        }
    }
    Ok(Page {
        title: title(&facts),
        verdict: Some(summary.verdict.clone()),
        facts: sections(&facts, summary),
        warnings,
        timing: Some(summary.engine.timing),
        verification: summary.engine.verify.clone(),
        targets: names_of_targets(&facts).zip(summary.per_target.iter().cloned()).collect(),
        volumes: charts::volume_names(header),
        picture: found.picture().clone(),
        command: command_of(&facts),
        witness: witness::section(run, &facts, &summary.engine, found.picture().achieved_end()),
        charts: charts::of(&found.analysis, header),
        expert: expert(run, found),
        listings: charts::listings(&found.analysis, header),
        ..Page::default()
    })
}

/// What is folded away: more series of the run, and what the engines told of themselves.
fn expert(run: &RunDirectory, found: &Found) -> Vec<Chart> {
    let mut charts = charts::expert(&found.analysis);
    charts.extend(charts::inside::all(&inside::read(run)));
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// The command that does the run again, as it is typed into a shell.
fn command_of(facts: &RunFacts) -> String {
    facts.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell takes it for one.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The page of a run that goes on: what was made of its results so far.
pub(crate) fn page_so_far(facts: &RunFacts, summary: &RunSummary, picture: RunPicture) -> Page {
    Page {
        title: title(facts),
        verdict: Some(summary.verdict.clone()),
        facts: sections(facts, summary),
        warnings: if summary.engine.simulated {
            vec!["Simulated: no storage was measured.".to_owned()]
        } else {
            Vec::new()
        },
        timing: Some(summary.engine.timing),
        targets: names_of_targets(facts).zip(summary.per_target.iter().cloned()).collect(),
        picture,
        command: command_of(facts),
        ..Page::default()
    }
}

/// The trace and the target.
pub(crate) fn title(facts: &RunFacts) -> String {
    let trace = facts.plan.trace.as_ref().map(|path| path.display().to_string());
    let trace = trace.as_deref().unwrap_or("trace");
    let name = trace.rsplit('/').next().unwrap_or(trace);
    let target = names_of_targets(facts).collect::<Vec<_>>().join(", ");
    format!("{name} → {target}")
}

/// What the run's targets are called, in their order.
fn names_of_targets(facts: &RunFacts) -> impl Iterator<Item = String> {
    facts.targets.iter().map(TargetEntry::name)
}

/// The run's facts as the page lays them out: what was run, on what, from what.
fn sections(facts: &RunFacts, summary: &RunSummary) -> Vec<Section> {
    // Tables and targets have sections of their own.
    let mut run = table(facts);
    run.retain(|key, value| !value.is_table() && key != "targets");
    let several = facts.targets.len() > 1;
    let targets = facts.targets.iter().enumerate().map(|(number, target)| {
        let heading = if several { format!("Target {number}") } else { "Target".to_owned() };
        (heading, table(target))
    });
    let named = |heading: &str, table| (heading.to_owned(), table);
    [named("Run", run), named("Plan", table(&facts.plan))]
        .into_iter()
        .chain(targets)
        .chain([
            named("Trace", table(&facts.trace)),
            named("Engine", table(&summary.engine)),
            named("Host", table(&facts.host)),
        ])
        .chain(watched(&summary.engine.host))
        .map(|(heading, table)| {
            let rows = table
                .iter()
                .filter(|(key, _)| !TOLD_ELSEWHERE.contains(&key.as_str()))
                .map(|(key, value)| (label(key), shown(key, value)))
                .filter(|(_, value)| !value.is_empty())
                .collect();
            Section { heading, rows }
        })
        .collect()
}

/// Facts by the keys that they are stored with.
fn table(facts: &impl Serialize) -> toml::Table {
    toml::Table::try_from(facts).unwrap_or_default()
}

/// What was seen of the host and the devices during the run, a table each.
fn watched(host: &HostFacts) -> Vec<(String, toml::Table)> {
    let named = |heading: &str, table| (heading.to_owned(), table);
    let HostFacts { devices, clock, cpu, recorder } = host;
    let mut all: Vec<_> =
        devices.iter().map(|device| named("Device during the run", table(device))).collect();
    all.extend(clock.iter().map(|clock| named("Clocks during the run", table(clock))));
    all.extend(cpu.iter().map(|cpu| named("Processors during the run", table(cpu))));
    all.extend(recorder.iter().map(|recorder| named("Writing of results", table(recorder))));
    all
}

/// Facts that the page shows in another place, or that only programs need.
pub(crate) const TOLD_ELSEWHERE: [&str; 8] =
    ["columns", "losses", "guesses", "version", "incomplete", "verify", "load", "host"];

pub(crate) fn label(key: &str) -> String {
    key.strip_suffix("_ns").unwrap_or(key).replace('_', " ")
}

/// A value as a person reads it: spans and sizes in their units, the rest as it is.
pub(crate) fn shown(key: &str, value: &toml::Value) -> String {
    use toml::Value;
    const SIZES: [&str; 8] = [
        "capacity",
        "logical_block",
        "physical_block",
        "allocated",
        "memory_total",
        "discard_max",
        "discard_granularity",
        "write_zeroes_max",
    ];
    match value {
        Value::Integer(ns) if key.ends_with("_ns") => ioecho_trace::Nanos(*ns).to_string(),
        Value::Integer(bytes) if SIZES.contains(&key) => {
            ioecho_trace::Bytes(*bytes as u64).to_string()
        }
        Value::String(text) => text.clone(),
        Value::Table(content) if key == "content" => {
            let shares = ["ioecho", "zeroes", "other", "unreadable", "never_written"];
            let shares = shares.iter().filter_map(|key| {
                let share = content.get(*key)?.as_float()?;
                Some(format!("{} {:.1} %", label(key), share * 100.0))
            });
            shares.collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) if items.iter().all(Value::is_str) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
        }
        // The trace's volumes: their names.
        Value::Array(items) => items
            .iter()
            .filter_map(|item| item.get("name").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Table(all) => {
            let all = all.iter().map(|(key, value)| (label(key), shown(key, value), value));
            let parts = all.filter(|(_, text, _)| !text.is_empty()).map(|(label, text, value)| {
                if value.is_table() {
                    format!("{label} ({text})")
                } else {
                    format!("{label} {text}")
                }
            });
            parts.collect::<Vec<_>>().join(", ")
        }
        Value::Float(number) => {
            let text = format!("{number:.3}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        other => other.to_string(),
    }
}

/// Writes the report page of a run.
pub(crate) fn write_report(run: &RunDirectory, page: &Page) -> Result<()> {
    run.put(&run.report(), ioecho_report::html(page)?.as_bytes())
}
