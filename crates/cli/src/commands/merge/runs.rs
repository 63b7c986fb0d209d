//! Several runs as one system.
//!
//! A storage system is loaded from several hosts, or a load is divided over its parts, and then its
//! users ask for one 99th percentile. That is not the mean of those of the runs, nor their largest:
//! it takes the requests of all. So the requests are put together in the order of their issue, with
//! volumes and targets kept apart, and everything else is made of them as for any run. The verdict
//! is the exception: each run was judged where it ran, with what its engine knew, and the worst of
//! these judgements is that of the whole.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use ioecho_stats::picture::Span;
use ioecho_stats::run_summary::{EngineFacts, RunFigures, RunSummary};
use ioecho_stats::verdict::{Check, Finding, Grade, Validity, Verdict};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Columns, Header, Nanos, Source, VolumeId};

use crate::args::{AlignArg, MergeArgs};
use crate::commands::replay::print_outcome;
use crate::exit::{self, Coded};
use crate::print::Out;
use crate::run::directory::{RUN_VERSION, RunDirectory, targets_of};
use crate::run::{command, settle};

/// A run to be merged.
struct Part {
    name: String,
    facts: toml::Table,
    summary: RunSummary,
    source: Box<dyn Source>,
    /// By how much its instants are moved.
    shift: Nanos,
    /// What is added to its targets' numbers.
    targets: u16,
    /// Its volumes' numbers in the whole, by their own.
    volumes: BTreeMap<u32, u32>,
    batch: Batch,
    row: usize,
}

pub(super) fn run(args: &MergeArgs, out: &mut Out) -> anyhow::Result<u8> {
    let mut parts = Vec::new();
    for path in &args.inputs {
        parts.push(open(path)?);
    }
    refuse_unlike(&parts)?;
    if args.align == Some(AlignArg::Wall) {
        shift_by_wall_clock(&mut parts)?;
    }
    let header = number(&mut parts)?;
    let output = RunDirectory::create(&args.output)?;
    let figures = write_requests(&mut parts, header.clone(), &output)?;
    let mut summary = figures.summary(engine(&parts));
    summary.verdict = verdict(&parts, &figures);
    output.put(&output.summary(), &serde_json::to_vec_pretty(&summary)?)?;
    write_facts(&parts, &header, &summary, &output)?;
    settle::write_report(&output, &settle::page(&output, &summary)?)?;
    out.tells_of_files();
    print_outcome(out, &summary)?;
    writeln!(out, "written       {}", output.path().display())?;
    Ok(exit::OK)
}

fn open(path: &Path) -> anyhow::Result<Part> {
    let unreadable = |text: &str| {
        let name = path.display();
        Coded::error(
            exit::TRACE,
            format!("{name} {text}\n  = help: `ioecho report {name}` settles it"),
        )
    };
    let run = RunDirectory::at(path).ok_or_else(|| unreadable("is no run"))?;
    let facts = run.read_facts()?;
    if !run.summary().exists() || !run.requests().exists() {
        return Err(unreadable("still goes on or was killed: it has no results yet"));
    }
    let summary = settle::read_summary(&run)?;
    let source = formats::open(&run.requests(), &ReadOptions::default())?;
    let batch = Batch::new(source.header().columns);
    let name = path.display().to_string().trim_end_matches('/').to_owned();
    let volumes = BTreeMap::new();
    Ok(Part {
        name,
        facts,
        summary,
        source,
        shift: Nanos::ZERO,
        targets: 0,
        volumes,
        batch,
        row: 0,
    })
}

/// Refuses runs that cannot be one system: the same run twice, or other rules of issue.
fn refuse_unlike(parts: &[Part]) -> anyhow::Result<()> {
    let refuse = |text: String| Err(Coded::error(exit::NOT_COMPARABLE, text));
    for (number, part) in parts.iter().enumerate() {
        let own = part.facts.get("run").and_then(toml::Value::as_str);
        for other in &parts[..number] {
            if own.is_some() && own == other.facts.get("run").and_then(toml::Value::as_str) {
                return refuse(format!(
                    "{} and {} are the same run\n  = help: name each run once",
                    other.name, part.name
                ));
            }
        }
        let (one, other) = (&parts[0].summary.engine, &part.summary.engine);
        if one.timing != other.timing || (one.speedup - other.speedup).abs() > f64::EPSILON {
            return refuse(format!(
                "{} was replayed {} at speed {} and {} {} at speed {}: they are not parts of one \
                 replay\n  = help: `ioecho compare` puts different runs side by side",
                parts[0].name, one.timing, one.speedup, part.name, other.timing, other.speedup
            ));
        }
    }
    Ok(())
}

fn shift_by_wall_clock(parts: &mut [Part]) -> anyhow::Result<()> {
    let mut started = Vec::new();
    for part in &*parts {
        let text = part.facts.get("started").and_then(toml::Value::as_str).unwrap_or_default();
        let instant: jiff::Timestamp = text.parse().map_err(|error| {
            let text = format!(
                "{}: 'started' of its run.toml is not an instant: {error}\n  = help: merge with \
                 --align start",
                part.name
            );
            Coded::error(exit::TRACE, text)
        })?;
        started.push(instant.as_nanosecond());
    }
    let first = started.iter().copied().min().unwrap_or(0);
    for (part, started) in parts.iter_mut().zip(started) {
        part.shift = Nanos(i64::try_from(started - first).unwrap_or(i64::MAX));
    }
    Ok(())
}

/// Gives volumes and targets their numbers in the whole; answers the whole's header.
fn number(parts: &mut [Part]) -> anyhow::Result<Header> {
    let mut header =
        parts.first().map_or_else(Header::default, |part| part.source.header().clone());
    let several = parts.len() > 1;
    header.volumes.clear();
    header.columns = Columns { measured: true, ..Columns::default() };
    let (mut targets, mut next) = (0_usize, 0);
    for part in parts.iter_mut() {
        let own = part.source.header();
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
            Coded::error(exit::USAGE, "more than 65536 targets\n  = help: merge fewer runs")
        })?;
        targets += targets_of(&part.facts).len().max(1);
    }
    header.transforms.push(format!("merge of {} runs", parts.len()));
    header.merged = parts.iter().skip(1).map(|part| part.source.header().clone()).collect();
    Ok(header)
}

/// Writes the requests of all in the order of their issue.
fn write_requests(
    parts: &mut [Part],
    mut header: Header,
    output: &RunDirectory,
) -> anyhow::Result<RunFigures> {
    header.run = Some(output.path().display().to_string());
    let mut sink = output.trace(&output.requests(), &header)?;
    let mut figures = RunFigures::default();
    let mut batch = Batch::new(header.columns);
    let mut next_volume = header.volumes.len() as u32;
    for part in &mut *parts {
        advance(part)?;
    }
    loop {
        let ready = parts.iter().enumerate().filter(|(_, part)| part.row < part.batch.len());
        let first = ready.min_by_key(|(_, part)| {
            Nanos(part.batch.issue_ns()[part.row]).saturating_add(part.shift)
        });
        let Some(part) = first.map(|(index, _)| index).map(|index| &mut parts[index]) else {
            break;
        };
        let mut request = part.batch.get(part.row);
        part.row += 1;
        request.issue = request.issue.saturating_add(part.shift);
        let own = request.volume.0;
        // A header may leave out a volume that its requests name.
        request.volume = VolumeId(*part.volumes.entry(own).or_insert_with(|| {
            next_volume += 1;
            next_volume - 1
        }));
        if let Some(measured) = &mut request.measured {
            measured.scheduled = measured.scheduled.saturating_add(part.shift);
            for instant in [&mut measured.submitted, &mut measured.completed].into_iter().flatten()
            {
                *instant = instant.saturating_add(part.shift);
            }
            measured.target = measured.target.saturating_add(part.targets);
        }
        if part.row == part.batch.len() {
            advance(part)?;
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

fn advance(part: &mut Part) -> anyhow::Result<()> {
    part.row = 0;
    if !part.source.next_batch(&mut part.batch)? {
        part.batch = Batch::default();
    }
    Ok(())
}

/// What the engines did, together. Peaks are those of the fullest run: what was in flight in all of
/// them at one moment no engine has seen.
fn engine(parts: &[Part]) -> EngineFacts {
    let each = || parts.iter().map(|part| &part.summary.engine);
    let sum = |of: fn(&EngineFacts) -> u64| each().map(of).fold(0, u64::saturating_add);
    let most = |of: fn(&EngineFacts) -> i64| each().map(of).max().unwrap_or(0);
    let furthest = each().filter_map(|facts| facts.wraparound_factor);
    let incomplete: Vec<String> = parts
        .iter()
        .filter(|part| !part.summary.engine.incomplete.is_empty())
        .map(|part| format!("{}: {}", part.name, part.summary.engine.incomplete))
        .collect();
    let demanded = parts
        .iter()
        .map(|part| part.shift.0.saturating_add(part.summary.engine.demanded_duration_ns));
    EngineFacts {
        planned: sum(|facts| facts.planned),
        left_out: sum(|facts| facts.left_out),
        wrapped: sum(|facts| facts.wrapped),
        wraparound_factor: furthest.max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs())),
        issued: sum(|facts| facts.issued),
        pushed_back: sum(|facts| facts.pushed_back),
        dropped: sum(|facts| facts.dropped),
        ordered: sum(|facts| facts.ordered),
        in_flight_peak: each().map(|facts| facts.in_flight_peak).max().unwrap_or(0),
        waiting_peak: each().map(|facts| facts.waiting_peak).max().unwrap_or(0),
        abandoned: sum(|facts| facts.abandoned),
        input_stalls: sum(|facts| facts.input_stalls),
        host_stalls: sum(|facts| facts.host_stalls),
        host_stall_max_ns: most(|facts| facts.host_stall_max_ns),
        slow_submissions: sum(|facts| facts.slow_submissions),
        submission_max_ns: most(|facts| facts.submission_max_ns),
        results_lost: sum(|facts| facts.results_lost),
        demanded_duration_ns: demanded.max().unwrap_or(0),
        incomplete: incomplete.join("; "),
        simulated: each().any(|facts| facts.simulated),
        direct: each().all(|facts| facts.direct),
        memory: each().any(|facts| facts.memory),
        speedup: each().next().map_or(1.0, |facts| facts.speedup),
        timing: each().next().map_or_else(String::new, |facts| facts.timing.clone()),
        targets: parts
            .iter()
            .map(|part| targets_of(&part.facts).len().max(1) as u32)
            .sum::<u32>()
            .max(1),
        rounded: sum(|facts| facts.rounded),
        unmapped: sum(|facts| facts.unmapped),
        copies: sum(|facts| facts.copies),
        substituted: sum(|facts| facts.substituted),
        device_errors: sum(|facts| facts.device_errors),
        empty_share: each().filter_map(|facts| facts.empty_share).reduce(f64::max),
        in_flight_max: each().fold(0, |sum, facts| sum.saturating_add(facts.in_flight_max)),
        ..EngineFacts::default()
    }
}

/// The worst of all, each check naming the runs that it is of.
fn verdict(parts: &[Part], figures: &RunFigures) -> Verdict {
    let mut checks: Vec<Check> = Vec::new();
    for check in parts.iter().flat_map(|part| &part.summary.verdict.checks) {
        if checks.iter().all(|known| known.name != check.name) {
            checks.push(merged_check(parts, &check.name));
        }
    }
    let severity = |finding: Finding| match finding {
        Finding::Faithful => 0,
        Finding::DeviceLimited => 1,
        Finding::HostStalled => 2,
        Finding::GeneratorLimited => 3,
        Finding::Incomplete => 4,
        Finding::DataDamaged => 5,
    };
    let validity = parts.iter().map(|part| part.summary.verdict.validity).max();
    let worst = parts.iter().max_by_key(|part| {
        let verdict = &part.summary.verdict;
        (verdict.validity, severity(verdict.finding))
    });
    let finding =
        parts.iter().map(|part| part.summary.verdict.finding).max_by_key(|f| severity(*f));
    let summary = worst.map_or_else(String::new, |part| {
        let (runs, name, of_it) = (parts.len(), &part.name, &part.summary.verdict.summary);
        format!("{runs} runs merged{}; the worst of them is {name}: {of_it}", together(figures))
    });
    Verdict {
        validity: validity.unwrap_or(Validity::Invalid),
        finding: finding.unwrap_or(Finding::Incomplete),
        summary,
        checks,
    }
}

/// How late all requests together were: what a run says of itself is about its own alone.
fn together(figures: &RunFigures) -> String {
    let lateness = figures.picture().spans_of_all(Span::Lateness);
    match lateness.quantile(0.99) {
        Some(p99) => format!(
            ": {} requests in all, 99 % of them issued within {p99} of their time",
            lateness.count()
        ),
        None => String::new(),
    }
}

fn merged_check(parts: &[Part], name: &str) -> Check {
    let found: Vec<(&str, &Check)> = parts
        .iter()
        .filter_map(|part| {
            let checks = part.summary.verdict.checks.iter();
            Some((part.name.as_str(), checks.into_iter().find(|check| check.name == name)?))
        })
        .collect();
    let grade = found.iter().map(|(_, check)| check.grade).max().unwrap_or(Grade::NotApplicable);
    let worst: Vec<&(&str, &Check)> =
        found.iter().filter(|(_, check)| check.grade == grade).collect();
    let told: Vec<String> =
        worst.iter().map(|(run, check)| format!("{run}: {}", check.measured)).collect();
    let first = worst.first().map(|(_, check)| *check);
    Check {
        name: name.to_owned(),
        grade,
        measured: told.join("; "),
        threshold: first.map_or_else(String::new, |check| check.threshold.clone()),
        advice: first.map_or_else(String::new, |check| check.advice.clone()),
    }
}

/// `run.toml` of the whole: the first run's, with the targets of all, and which runs it is made of.
fn write_facts(
    parts: &[Part],
    header: &Header,
    summary: &RunSummary,
    output: &RunDirectory,
) -> anyhow::Result<()> {
    let mut facts = parts.first().map(|part| part.facts.clone()).unwrap_or_default();
    let text = |part: &Part, key: &str| {
        part.facts.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
    };
    let mut set = |key: &str, value: toml::Value| facts.insert(key.to_owned(), value);
    set("version", RUN_VERSION.into());
    let incomplete = &summary.engine.incomplete;
    set("state", if incomplete.is_empty() { "complete" } else { "incomplete" }.into());
    if !incomplete.is_empty() {
        set("reason", incomplete.as_str().into());
    }
    let numbers: Vec<String> = parts.iter().map(|part| text(part, "run")).collect();
    set("run", numbers.join("+").into());
    set("started", parts.iter().map(|part| text(part, "started")).min().unwrap_or_default().into());
    set("ended", parts.iter().map(|part| text(part, "ended")).max().unwrap_or_default().into());
    set("command", command::words().into());
    set("verdict", toml::Value::try_from(&summary.verdict)?);
    let targets: Vec<toml::Value> = parts
        .iter()
        .flat_map(|part| targets_of(&part.facts))
        .map(|target| toml::Value::Table(target.clone()))
        .collect();
    set("targets", targets.into());
    let merged: Vec<toml::Value> = parts
        .iter()
        .map(|part| {
            let mut of = toml::Table::new();
            of.insert("name".to_owned(), part.name.as_str().into());
            of.insert("run".to_owned(), text(part, "run").into());
            of.insert("started".to_owned(), text(part, "started").into());
            of.insert("shift_ns".to_owned(), part.shift.0.into());
            of.insert("requests".to_owned(), (part.summary.recorded as i64).into());
            of.insert("validity".to_owned(), part.summary.verdict.validity.name().into());
            toml::Value::Table(of)
        })
        .collect();
    set("merged", merged.into());
    let mut header = header.clone();
    // TOML has no numbers as keys; the requests' own header has the names.
    header.processes.clear();
    header.merged.iter_mut().for_each(|other| other.processes.clear());
    set("trace", toml::Value::try_from(&header)?);
    facts.remove("target");
    facts.remove("pid");
    // Each run has its own witness and its own zero; the verdict says what they saw.
    facts.remove("witness");
    facts.remove("zero_monotonic_ns");
    output.put(&output.facts_file(), toml::to_string(&facts)?.as_bytes())
}
