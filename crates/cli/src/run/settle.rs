//! From the journal to the final files: results in the order of issue, summary, verdict, report.

use std::fs::{self, File};

use ioecho_report::{Chart, Page, Section, charts};
use ioecho_stats::facts::HostFacts;
use ioecho_stats::picture::RunPicture;
use ioecho_stats::run_summary::{EngineFacts, RunFigures, RunSummary, SUMMARY_VERSION};
use ioecho_trace::transform::Load;
use ioecho_trace::units::counted;
use ioecho_trace::{Batch, Columns, Header, Source, Stop, TimingMode, formats};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::run::directory::{RunDirectory, targets_of};
use crate::run::ends::MEMORY;
use crate::run::error::{Kind, Result, RunError};
use crate::run::everything::{self, Found};
use crate::run::inside;
use crate::run::open::{Files, JournalSource};
use crate::run::witness::{self, Witnessed};

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
    let mut source = JournalSource::open(run)?;
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
    header.losses = merged(&header.losses, &source.losses);
    header.guesses = merged(&header.guesses, &source.guesses);
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

fn merged(
    ours: &ioecho_trace::header::Notes,
    theirs: &ioecho_trace::header::Notes,
) -> ioecho_trace::header::Notes {
    let mut all = ours.clone();
    for note in theirs.iter() {
        all.add(&note.what, note.count, note.examples.first().cloned());
    }
    all
}

/// Settles a run that was killed; refuses one that still goes on.
pub(crate) fn recover(run: &RunDirectory) -> Result<RunSummary> {
    let path = run.journal();
    let journal = File::open(&path).map_err(|error| {
        RunError::new(Kind::Trace, format!("{} holds no results: {error}", run.path().display()))
    })?;
    if journal.try_lock().is_err() {
        let text = format!(
            "the run {} still goes on\n  = help: wait for its end, or stop it with Ctrl-C",
            run.path().display()
        );
        return Err(RunError::new(Kind::Incomplete, text));
    }
    let facts = run.read_facts()?;
    let known = facts.get("reason").and_then(toml::Value::as_str);
    let reason =
        known.unwrap_or("the process was killed; results up to that moment are here").to_owned();
    let mut figures = RunFigures::default();
    let mut source = JournalSource::open(run)?;
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch)? {
        figures.observe(&batch);
    }
    let timing = timing_of(run, &facts)?;
    let targets = targets_of(&facts);
    let speedup = facts.get("plan").and_then(|plan| plan.get("speedup"));
    let engine = EngineFacts {
        incomplete: reason.clone(),
        simulated: targets.iter().any(|target| target.contains_key("simulated")),
        direct: targets
            .iter()
            .all(|target| target.get("direct").and_then(toml::Value::as_bool).unwrap_or(false)),
        memory: targets.iter().any(|target| {
            let kind = target.get("file_system").and_then(toml::Value::as_str);
            kind.is_some_and(|kind| MEMORY.contains(&kind))
        }),
        targets: targets.len() as u32,
        timing,
        speedup: speedup.and_then(toml::Value::as_float).unwrap_or(1.0),
        ..figures.engine_facts()
    };
    run.free_reserve();
    run.remove_partial_files();
    let header = run.trace_header().unwrap_or_default();
    let mut facts = facts;
    let witnessed = Witnessed::recovered(run, &mut facts, timing);
    let summary = settle(run, &header, engine, witnessed.as_ref())?;
    run.mark_settled(facts, &summary)?;
    run.log("recovered after the process was killed");
    Ok(summary)
}

/// When the requests of a run were issued, as its `run.toml` says. Runs made before there was a
/// choice say nothing of it and went by the schedule.
pub(crate) fn timing_of(run: &RunDirectory, facts: &toml::Table) -> Result<TimingMode> {
    let Some(word) = facts.get("plan").and_then(|plan| plan.get("timing")) else {
        return Ok(TimingMode::Timed);
    };
    word.clone().try_into().map_err(|error: toml::de::Error| {
        let file = run.facts_file();
        let text = format!(
            "cannot read {}: plan.timing: {}\n  = help: use the ioecho that made it, or a \
             newer one",
            file.display(),
            error.message()
        );
        RunError::new(Kind::Trace, text)
    })
}

/// The summary of a settled run.
pub(crate) fn read_summary(run: &RunDirectory) -> Result<RunSummary> {
    /// What decides whether the rest can be understood.
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let path = run.summary();
    let unreadable = |reason: String| {
        RunError::new(Kind::Trace, format!("cannot read {}: {reason}", path.display()))
    };
    let text = fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
    let Versioned { version } = from_json(&text).map_err(unreadable)?;
    if version != SUMMARY_VERSION {
        return Err(unreadable(format!(
            "it is of version {version}, and this program knows version {SUMMARY_VERSION}\n  = \
             help: use the ioecho that made it, or a newer one"
        )));
    }
    from_json(&text).map_err(unreadable)
}

/// Reads JSON as what wrote it; an error says at which key.
fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let found = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        match error.path().to_string().as_str() {
            "." => error.inner().to_string(),
            key => format!("{key}: {}", error.inner()),
        }
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(found)
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
fn command_of(facts: &toml::Table) -> String {
    let words = facts.get("command").and_then(toml::Value::as_array);
    let words = words.into_iter().flatten().filter_map(toml::Value::as_str);
    words.map(quoted).collect::<Vec<_>>().join(" ")
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
pub(crate) fn page_so_far(facts: &toml::Table, summary: &RunSummary, picture: RunPicture) -> Page {
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
pub(crate) fn title(facts: &toml::Table) -> String {
    let text = |table: &str, key: &str| facts.get(table)?.get(key)?.as_str();
    let trace = text("plan", "trace").unwrap_or("trace");
    let name = trace.rsplit('/').next().unwrap_or(trace);
    let target = names_of_targets(facts).collect::<Vec<_>>().join(", ");
    format!("{name} → {target}")
}

/// What the run's targets are called, in their order.
fn names_of_targets(facts: &toml::Table) -> impl Iterator<Item = String> {
    targets_of(facts).into_iter().map(|target| {
        let named = target.get("path").or(target.get("simulated")).and_then(toml::Value::as_str);
        named.unwrap_or("target").to_owned()
    })
}

/// The run's facts as the page lays them out: what was run, on what, from what.
fn sections(facts: &toml::Table, summary: &RunSummary) -> Vec<Section> {
    let engine = toml::Table::try_from(&summary.engine).unwrap_or_default();
    let watched = watched(&summary.engine.host);
    let top: toml::Table = facts
        .iter()
        .filter(|(key, value)| !value.is_table() && *key != "targets")
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let table = |key: &str| facts.get(key).and_then(toml::Value::as_table);
    let targets = targets_of(facts);
    let several = targets.len() > 1;
    let targets = targets.into_iter().enumerate().map(|(number, target)| {
        (if several { format!("Target {number}") } else { "Target".to_owned() }, Some(target))
    });
    let named = |heading: &str, table| (heading.to_owned(), table);
    [named("Run", Some(&top)), named("Plan", table("plan"))]
        .into_iter()
        .chain(targets)
        .chain([
            named("Trace", table("trace")),
            named("Engine", Some(&engine)),
            named("Host", table("host")),
        ])
        .chain(watched.iter().map(|(heading, table)| (heading.clone(), Some(table))))
        .filter_map(|(heading, table)| {
            let rows = table?
                .iter()
                .filter(|(key, _)| !TOLD_ELSEWHERE.contains(&key.as_str()))
                .map(|(key, value)| (label(key), shown(key, value)))
                .filter(|(_, value)| !value.is_empty())
                .collect();
            Some(Section { heading, rows })
        })
        .collect()
}

/// What was seen of the host and the devices during the run, a table each.
fn watched(host: &HostFacts) -> Vec<(String, toml::Table)> {
    fn table(heading: &str, facts: &impl Serialize) -> (String, toml::Table) {
        (heading.to_owned(), toml::Table::try_from(facts).unwrap_or_default())
    }
    let HostFacts { devices, clock, cpu, recorder } = host;
    let mut all: Vec<_> =
        devices.iter().map(|device| table("Device during the run", device)).collect();
    all.extend(clock.iter().map(|clock| table("Clocks during the run", clock)));
    all.extend(cpu.iter().map(|cpu| table("Processors during the run", cpu)));
    all.extend(recorder.iter().map(|recorder| table("Writing of results", recorder)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timing_that_nobody_knows_is_refused_with_file_and_key_and_none_is_that_of_old_runs() {
        let home = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(home.path()).unwrap();
        let of = |text: &str| timing_of(&run, &text.parse().unwrap());
        assert_eq!(of("[plan]\ntiming = 'load'").unwrap(), TimingMode::Load);
        assert_eq!(of("version = 1").unwrap(), TimingMode::Timed);
        for odd in ["[plan]\ntiming = 'sometimes'", "[plan]\ntiming = 7"] {
            let error = of(odd).unwrap_err().to_string();
            assert!(error.contains("run.toml: plan.timing: "), "{error}");
        }
    }
}
