//! The contents of the page for a run, and for a trace without a run's directory: a load, or the
//! results of a run. `ioecho_report` decides how they look.

use std::path::Path;

use ioecho_report::{Chart, Listing, Page, Section, Subject, charts};
use ioecho_stats::facts::HostFacts;
use ioecho_stats::headline::Headline;
use ioecho_stats::picture::RunPicture;
use ioecho_stats::run_summary::{Finished, FlowFigures, Percentiles, PhaseFigures, RunSummary};
use ioecho_stats::verdict::Validity;
use ioecho_trace::header::{Note, NoteKind};
use ioecho_trace::units::{counted, three_digits, two_digits};
use ioecho_trace::{Bytes, Header, Nanos};
use serde::Serialize;

use crate::directory::RunDirectory;
use crate::error::Result;
use crate::everything::{self, AllFigures};
use crate::facts::{RunFacts, TargetEntry};
use crate::{extent, pass, results, telemetry, witness};

/// The contents of a trace's page; `command` is the command line that makes it.
pub fn of_trace(path: &Path, found: &AllFigures, command: &[String]) -> Page {
    let header = &found.header;
    Page {
        subject: if found.is_run() { Subject::Run } else { Subject::Load },
        title: name_of(path),
        command: command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
        facts: vec![Section { heading: "Trace".to_owned(), rows: facts(found) }],
        warnings: warnings(header),
        volumes: charts::volume_names(header),
        picture: found.picture().clone(),
        extremes: found.analysis.throughput.extremes.clone(),
        charts: charts::of(&found.analysis, header),
        expert: charts::expert(&found.analysis, &found.header),
        listings: charts::listings(&found.analysis, header, &extent::files(&[], header)),
        ..Page::default()
    }
}

/// The last part of a path.
pub fn name_of(path: &Path) -> String {
    let name = path.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_owned()));
    let name = name.or_else(|| path.file_name().map(ToOwned::to_owned));
    name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The losses and guesses of reading a trace, and the place where it broke off.
pub fn warnings(header: &Header) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(damage) = &header.damage {
        warnings.push(format!("The trace ends before its end: {damage}"));
    }
    for (kind, notes) in [("Lost", &header.losses), ("Guessed", &header.guesses)] {
        for note in notes.iter() {
            warnings.push(format!("{kind} when the trace was read: {note}"));
        }
    }
    warnings
}

fn facts(found: &AllFigures) -> Vec<(String, String)> {
    let table = toml::Table::try_from(&found.header).unwrap_or_default();
    let zero = found.origin.get().filter(|origin| origin.0 != 0).map(|origin| {
        let text = format!("{:.9} s of the trace's own time", origin.as_secs_f64());
        ("zero of this page".to_owned(), text)
    });
    let rows = table
        .iter()
        .filter(|(key, _)| !TOLD_ELSEWHERE.contains(&key.as_str()) && *key != "processes")
        .map(|(key, value)| (label(key), shown(key, value)))
        .filter(|(_, value)| !value.is_empty());
    zero.into_iter().chain(rows).collect()
}

/// The contents of a run's page.
pub fn of_run(run: &RunDirectory, summary: &RunSummary) -> Result<Page> {
    of_run_by(run, summary, pass::threads())
}

/// The same, by so many threads, each of which needs memory of its own.
pub fn of_run_by(run: &RunDirectory, summary: &RunSummary, threads: usize) -> Result<Page> {
    of_found(run, summary, &everything::count_run(run, threads)?)
}

/// The same, with figures that were already counted.
pub fn of_found(run: &RunDirectory, summary: &RunSummary, found: &AllFigures) -> Result<Page> {
    if found.run.recorded() != summary.recorded {
        return Err(results::unlike(&run.requests(), found.run.recorded(), summary.recorded));
    }
    let facts = run.read_facts()?;
    let mut warnings = Vec::new();
    if summary.engine.simulated {
        warnings.push("Simulated: no storage was measured.".to_owned());
    }
    let header = &found.header;
    for (kind, notes) in [("Lost", &header.losses), ("Guessed", &header.guesses)] {
        // Threads on files end their calls in any order, which their results are sorted out of.
        let is_usual = |note: &&Note| summary.engine.files && note.kind == NoteKind::Order;
        for note in notes.iter().filter(|note| !is_usual(note)) {
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
        headline: Some(Headline::of(summary, &found.picture().finish())),
        stamp: stamp(summary),
        picture: found.picture().clone(),
        extremes: found.analysis.throughput.extremes.clone(),
        command: command_of(&facts),
        witness: witness::section(run, &facts, &summary.engine, found.picture().achieved_end()),
        charts: charts::of(&found.analysis, header),
        expert: expert(run, found),
        listings: of_flows(summary)
            .into_iter()
            .chain(of_phases(summary))
            .chain(critical_path(summary))
            .chain(charts::listings(
                &found.analysis,
                header,
                &extent::files(&facts.targets, header),
            ))
            .collect(),
        ..Page::default()
    })
}

/// The flows of a run, side by side.
fn of_flows(summary: &RunSummary) -> Option<Listing> {
    if summary.per_flow.is_empty() {
        return None;
    }
    let columns = [
        "flow",
        "issued by",
        "requests",
        "per second",
        "ended before the run, after",
        "failed",
        "late",
        "read",
        "written",
        "response 50 %",
        "response 99 %",
        "response max",
        "service 50 %",
        "lateness 99 %",
    ];
    let span = |spans: &Option<Percentiles>, of: fn(&Percentiles) -> Option<u64>| {
        let ns = spans.as_ref().and_then(of);
        ns.map_or("–".to_owned(), |ns| Nanos(i64::try_from(ns).unwrap_or(i64::MAX)).to_string())
    };
    let row = |flow: &FlowFigures| {
        let who = match flow.threads {
            Some(threads) => counted(threads.into(), "waiting client"),
            None => "its load's instants".to_owned(),
        };
        let ended = flow.ended_before(summary.achieved_duration_ns);
        vec![
            flow.name.clone(),
            who,
            flow.requests.to_string(),
            two_digits(flow.per_second),
            ended.map_or_else(|| "–".to_owned(), |after| after.to_string()),
            flow.failed.to_string(),
            flow.late.to_string(),
            Bytes(flow.bytes_read).to_string(),
            Bytes(flow.bytes_written).to_string(),
            span(&flow.response_time, |all| Some(all.p50_ns)),
            span(&flow.response_time, |all| all.p99_ns),
            span(&flow.response_time, |all| Some(all.max_ns)),
            span(&flow.service_time, |all| Some(all.p50_ns)),
            span(&flow.lateness, |all| all.p99_ns),
        ]
    };
    Some(Listing {
        heading: "Flows".to_owned(),
        note:
            "Response times count from the instant at which a request was due. A waiting client's \
               next request is due when its last has completed and it has thought: such times are \
               those of so many clients, and of nobody who comes meanwhile."
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: summary.per_flow.iter().map(row).collect(),
    })
}

/// The phases of a run on files, with the rates until the first and the last of its threads had
/// finished.
fn of_phases(summary: &RunSummary) -> Option<Listing> {
    if summary.per_phase.is_empty() {
        return None;
    }
    let has_flows = summary.per_phase.iter().any(|phase| phase.flow.is_some());
    let columns = [
        "phase",
        "threads",
        "calls",
        "failed",
        "begun at",
        "first finished after",
        "calls by then",
        "per second",
        "last finished after",
        "per second",
        "data per second",
    ];
    let row = |phase: &PhaseFigures| {
        let rate = |finished: &Finished| finished.per_second.map(three_digits);
        let span = |ns: i64| Nanos(ns).to_string();
        let data = |finished: &Finished| {
            let rate = finished.bytes_per_second().filter(|_| finished.bytes > 0)?;
            Some(format!("{}/s", Bytes(rate as u64)))
        };
        let (first, last) = (phase.first.as_ref(), phase.last.as_ref());
        let never = || "never".to_owned();
        let unknown = || "–".to_owned();
        vec![
            phase.told(has_flows),
            phase.threads.to_string(),
            phase.calls.to_string(),
            phase.failed.to_string(),
            span(phase.begun_ns),
            first.map_or_else(never, |first| span(first.after_ns)),
            first.map_or_else(unknown, |first| first.completed.to_string()),
            first.and_then(rate).unwrap_or_else(unknown),
            last.map_or_else(never, |last| span(last.after_ns)),
            last.and_then(rate).unwrap_or_else(unknown),
            last.and_then(data).unwrap_or_else(unknown),
        ]
    };
    Some(Listing {
        heading: "Phases".to_owned(),
        note:
            "A phase is an operation of a flow, and begins with the first of its calls. A thread \
               has finished when its last such call has ended. Until the first has finished all \
               of them work: that rate is the storage's; until the last has, somebody waits. Rates \
               are of calls that completed in full until then, since the phase began; of more than \
               4096 calls those by the first are counted in steps of a 1024th of the run or less."
                .to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: summary.per_phase.iter().map(row).collect(),
    })
}

/// What a run in which requests waited for others spent its time on.
fn critical_path(summary: &RunSummary) -> Option<Listing> {
    let path = summary.critical_path?;
    let length = path.length_ns().max(1) as f64;
    let span = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX)).to_string();
    let row = |(name, ns): (&str, u64)| {
        vec![name.to_owned(), span(ns), format!("{} %", two_digits(100.0 * ns as f64 / length))]
    };
    let rest = path.length_ns().saturating_sub(path.device_ns());
    let note = format!(
        "The run ended when its last request had completed, which had waited for another one, and \
         so on: {} one after the other. Faster storage shortens the device's part alone; on \
         storage that takes no time, these requests would still take {}. The slowest of them took \
         the device {} (request {}).",
        counted(path.requests, "request"),
        span(rest),
        span(path.slowest_ns),
        path.slowest_row
    );
    Some(Listing {
        heading: "Critical path".to_owned(),
        note,
        columns: ["on the path", "time", "share"].map(str::to_owned).to_vec(),
        rows: path.parts().into_iter().map(row).collect(),
    })
}

/// The folded part: more series of the run, and the telemetry of the engines.
fn expert(run: &RunDirectory, found: &AllFigures) -> Vec<Chart> {
    let mut charts = charts::expert(&found.analysis, &found.header);
    charts.extend(charts::telemetry::all(&telemetry::read(run)));
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// The command that repeats the run, for a shell.
fn command_of(facts: &RunFacts) -> String {
    facts.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word, quoted for a shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The page of a run that is still going on, with its results so far.
pub fn so_far(facts: &RunFacts, summary: &RunSummary, picture: RunPicture) -> Page {
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
        stamp: stamp(summary),
        picture,
        command: command_of(facts),
        ..Page::default()
    }
}

/// The stamp across every picture of a run whose figures are not those of a storage, or are not
/// valid.
pub fn stamp(summary: &RunSummary) -> String {
    let engine = &summary.engine;
    let stamps = [
        (summary.verdict.validity == Validity::Invalid, "INVALID"),
        (engine.simulated, "SIMULATED"),
        (engine.memory, "MEMORY, NO STORAGE"),
        (!engine.direct && !engine.simulated, "PAGE CACHE"),
    ];
    stamps
        .into_iter()
        .find(|(holds, _)| *holds)
        .map_or(String::new(), |(_, stamp)| stamp.to_owned())
}

/// The trace and the target.
pub fn title(facts: &RunFacts) -> String {
    let trace = facts.plan.trace.as_ref().map(|path| path.display().to_string());
    let trace = trace.as_deref().unwrap_or("trace");
    let name = trace.rsplit('/').next().unwrap_or(trace);
    let target = names_of_targets(facts).collect::<Vec<_>>().join(", ");
    format!("{name} → {target}")
}

/// The names of the run's targets, in their order.
fn names_of_targets(facts: &RunFacts) -> impl Iterator<Item = String> {
    facts.targets.iter().map(TargetEntry::name)
}

/// The run's facts as sections of the page: what was run, on which targets, from which trace.
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

/// Facts as a table with their stored keys.
fn table(facts: &impl Serialize) -> toml::Table {
    toml::Table::try_from(facts).unwrap_or_default()
}

/// The observations of the host and of the devices during the run, one table each.
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

/// Facts that the page shows elsewhere, or that only programs need.
const TOLD_ELSEWHERE: [&str; 8] =
    ["columns", "losses", "guesses", "version", "incomplete", "verify", "load", "host"];

fn label(key: &str) -> String {
    key.strip_suffix("_ns").unwrap_or(key).replace('_', " ")
}

/// A value for a person: spans and sizes in their units, others unchanged.
fn shown(key: &str, value: &toml::Value) -> String {
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
        Value::Integer(ns) if key.ends_with("_ns") => Nanos(*ns).to_string(),
        Value::Integer(bytes) if SIZES.contains(&key) => Bytes(*bytes as u64).to_string(),
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
        // The names of the trace's volumes.
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
pub fn write(run: &RunDirectory, page: &Page) -> Result<()> {
    run.put(&run.report(), ioecho_report::html(page)?.as_bytes())
}
