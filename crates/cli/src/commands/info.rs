//! `ioecho info`: the contents of a trace or a run.

mod described;
mod recorded;

use std::io::{self, Write};
use std::path::Path;

use ioecho_run::directory::RunDirectory;
use ioecho_run::facts::RunFacts;
use ioecho_run::{directory, open};
use ioecho_stats::histogram::Summary;
use ioecho_stats::trace_summary::{TraceFigures, TraceSummary};
use ioecho_stats::verdict::Verdict;
use ioecho_trace::header::Imported;
use ioecho_trace::units::{counted, has_whole_second};
use ioecho_trace::{Batch, Bytes, Header, Nanos, Source};
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::commands::interrupt::stop_on_signals;
use crate::exit;
use crate::opened;
use crate::print::{Out, visible};
use crate::workload::{form_of, variables};

/// The version of the JSON. It changes when a key changes its meaning or goes away.
const INFO_VERSION: u32 = 2;

/// How many volumes the text lists.
const VOLUMES_SHOWN: usize = 32;

/// How many request sizes the text lists.
const SIZES_SHOWN: usize = 8;

pub(crate) fn run(args: &InfoArgs, out: &mut Out) -> anyhow::Result<u8> {
    let form = form_of(&args.file).filter(|_| args.read.format.is_none());
    let variables = variables(&args.variables, form)?;
    if let Some(form) = form {
        return described::run(&args.file, variables, form, args.json, out);
    }
    let load = args.load.asked();
    open::refuse_endless(&args.file, &load)?;
    let stop = stop_on_signals()?;
    let mut source = opened::trace_until(&stop, &args.file, &args.read.options(), &load)?;
    let mut batch = Batch::new(source.header().columns);
    let mut summary = TraceSummary::default();
    while source.next_batch(&mut batch)? {
        summary.observe(&batch);
    }
    let (header, figures) = (source.header(), summary.figures());
    let run = directory::facts_of(&args.file)?;
    if args.json {
        out.json(&json_of(header, &figures, run.as_ref())?)?;
    } else {
        print_text(out, &args.file, header, &figures, run.as_ref())?;
    }
    let damaged = header.damage.is_some();
    Ok(if damaged { exit::DAMAGED } else { exit::OK })
}

/// The JSON output. The keys are stable. An unknown value is `null` or missing.
fn json_of(
    header: &Header,
    figures: &TraceFigures,
    run: Option<&RunFacts>,
) -> serde_json::Result<Value> {
    let volume_name = |id| header.volumes.iter().find(|volume| volume.id == id);
    let volumes: Vec<Value> = figures
        .per_volume
        .iter()
        .map(|(id, count)| {
            let volume = volume_name(*id);
            json!({
                "id": id,
                "name": volume.map(|volume| &volume.name),
                "size": volume.and_then(|volume| volume.size),
                "requests": count.requests,
                // Places of recorded operations on files are numbers of names.
                "extent": header.files.is_none().then_some(count.extent),
            })
        })
        .collect();
    let mut all = serde_json::to_value(figures)?;
    if let (Value::Object(all), Value::Object(header)) = (&mut all, serde_json::to_value(header)?) {
        all.remove("per_volume");
        all.extend(header);
        all.insert("version".to_owned(), INFO_VERSION.into());
        all.insert("volumes".to_owned(), Value::Array(volumes));
        if let Some(run) = run {
            all.insert("run".to_owned(), without_nulls(serde_json::to_value(run)?));
        }
    }
    Ok(all)
}

/// A value as `run.toml` stores it. Unknown values are missing there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            let known = all.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(known.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Value::Array(all) => Value::Array(all.into_iter().map(without_nulls).collect()),
        plain => plain,
    }
}

/// Prints one line of the text.
macro_rules! row {
    ($out:expr, $name:expr, $($value:tt)*) => {
        writeln!($out, "{:<14}{}", $name, visible(&format!($($value)*)))
    };
}

fn print_text(
    mut out: impl Write,
    file: &Path,
    header: &Header,
    figures: &TraceFigures,
    run: Option<&RunFacts>,
) -> io::Result<()> {
    print_provenance(&mut out, file, header, run)?;
    let TraceFigures { requests, reads, writes, .. } = *figures;
    let share = |part: u64| part as f64 * 100.0 / requests.max(1) as f64;
    row!(out, "requests", "{requests}")?;
    row!(out, "reads", "{reads} ({:.1} %), {}", share(reads), Bytes(figures.bytes_read))?;
    row!(out, "writes", "{writes} ({:.1} %), {}", share(writes), Bytes(figures.bytes_written))?;
    for (name, count) in [
        ("flushes", figures.flushes),
        ("discards", figures.discards),
        ("write-zeroes", figures.write_zeroes),
        ("zone ops", figures.zone_operations),
    ] {
        if count > 0 {
            row!(out, name, "{count} ({:.1} %)", share(count))?;
        }
    }
    for (name, count) in &figures.file_operations {
        row!(out, name, "{count} ({:.1} %)", share(*count))?;
    }
    if !figures.flags.is_empty() {
        let flags: Vec<String> =
            figures.flags.iter().map(|(name, count)| format!("{name} {count}")).collect();
        row!(out, "flags", "{}", flags.join(", "))?;
    }
    let duration = Nanos(figures.duration_ns);
    let first = Nanos(figures.first_issue_ns).as_secs_f64();
    let from = if first == 0.0 { String::new() } else { format!(", from {first:.9} s on") };
    row!(out, "duration", "{duration} ({:.9} s{from})", duration.as_secs_f64())?;
    if let Some(replayed) = replayed_in(file, duration) {
        row!(out, "", "by the instants of its load, as the rates below; replayed in {replayed}")?;
    }
    row!(
        out,
        "mean rate",
        "{:.1} requests/s, {}/s",
        figures.mean_requests_per_s,
        Bytes(figures.mean_bytes_per_s as u64)
    )?;
    let peak = figures.peak;
    let begin = Nanos(figures.first_issue_ns);
    // The fullest part of a second says nothing beside a mean rate.
    if has_whole_second(begin, Nanos(begin.0.saturating_add(duration.0))) {
        row!(
            out,
            "peak second",
            "{} at {} s; {} at {} s",
            counted(peak.requests_per_s, "request"),
            peak.requests_at_s,
            Bytes(peak.bytes_per_s),
            peak.bytes_at_s
        )?;
    }
    if figures.duration_ns > 60_000_000_000 {
        row!(
            out,
            "peak minute",
            "{}: --start {}s --duration 1m",
            counted(peak.requests_per_minute, "request"),
            peak.minute_at_s
        )?;
    }
    print_sizes(&mut out, figures)?;
    print_volumes(&mut out, header, figures)?;
    if let (Some(max), Some(mean)) = (figures.in_flight_max, figures.in_flight_mean) {
        let least = if figures.in_flight_uncounted > 0 { "at least " } else { "" };
        row!(out, "in flight", "mean {mean:.2}, max {least}{max} (as recorded)")?;
    }
    print_latencies(&mut out, figures)?;
    print_notes(&mut out, header)
}

/// How long the replay of a run took, where that is not what its load takes by its own instants.
fn replayed_in(run: &Path, duration: Nanos) -> Option<Nanos> {
    let summary = RunDirectory::at(run)?.read_summary().ok()?;
    let took = Nanos(summary.achieved_duration_ns);
    let apart = took.0.abs_diff(duration.0);
    (apart > duration.0.unsigned_abs() / 100).then_some(took)
}

/// The volumes, and how far each is used. Of recorded operations on files, whose places are numbers
/// of names, that is which files there are.
fn print_volumes(out: &mut impl Write, header: &Header, figures: &TraceFigures) -> io::Result<()> {
    if let Some(files) = &header.files {
        row!(out, "files", "there before: {}", files.found())?;
        return row!(out, "", "calls on {}", counted(files.names() as u64, "name"));
    }
    for (id, count) in figures.per_volume.iter().take(VOLUMES_SHOWN) {
        let volume = header.volumes.iter().find(|volume| volume.id == *id);
        let name = volume.map(|volume| volume.name.as_str()).filter(|name| !name.is_empty());
        let name = name.map_or(String::new(), |name| format!(" ({name})"));
        let size = volume.and_then(|volume| volume.size);
        let size = size.map_or(String::new(), |size| format!(" of {size}"));
        row!(
            out,
            "volume",
            "{}{name}: {}, used up to {}{size}",
            id.0,
            counted(count.requests, "request"),
            count.extent
        )?;
    }
    if figures.per_volume.len() > VOLUMES_SHOWN {
        let more = figures.per_volume.len() - VOLUMES_SHOWN;
        row!(out, "", "and {} more (--json lists them)", counted(more as u64, "volume"))?;
    }
    Ok(())
}

fn print_provenance(
    out: &mut impl Write,
    file: &Path,
    header: &Header,
    run: Option<&RunFacts>,
) -> io::Result<()> {
    row!(out, "file", "{}", file.display())?;
    row!(out, "origin", "{}, {}", header.source, header.format)?;
    for (name, value) in [
        ("description", &header.description),
        ("recorder", &header.recorder),
        ("event", &header.event),
        ("started", &header.started),
        ("licence", &header.license),
    ] {
        if let Some(value) = value {
            row!(out, name, "{value}")?;
        }
    }
    if let Some(imported) = &header.imported {
        let Imported { unit, units, requests } = imported;
        row!(out, "read", "{units} {unit}, which made {}", counted(*requests, "request"))?;
    }
    for (name, value) in header.recording.iter().flat_map(recorded::rows) {
        row!(out, name, "{value}")?;
    }
    for transform in &header.transforms {
        row!(out, "transform", "{transform}")?;
    }
    if let Some(run) = run {
        let reason = run.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
        row!(out, "run", "{}{reason}", run.state.name())?;
        row!(out, "verdict", "{}", verdict_of(run, file))?;
    }
    Ok(())
}

/// The verdict on a run in a line. Figures of a run are never shown without it.
pub(crate) fn verdict_of(run: &RunFacts, file: &Path) -> String {
    match &run.verdict {
        Some(Verdict { validity, summary, .. }) => {
            format!("{}. {summary}{}", validity.name().to_uppercase(), host_owned(file))
        }
        None => format!("none yet; if the run was killed: ioecho report {}", file.display()),
    }
}

/// A sentence on the percentiles of response times that are not the device's, where some are.
fn host_owned(run: &Path) -> String {
    let summary = RunDirectory::at(run).and_then(|run| run.read_summary().ok());
    let from = summary.and_then(|summary| summary.host_owned_from);
    from.map_or(String::new(), |from| {
        format!(" Response times from p{} on are the host's, not the device's.", from * 100.0)
    })
}

fn print_sizes(out: &mut impl Write, figures: &TraceFigures) -> io::Result<()> {
    let (Some(min), Some(max)) = (figures.length_min, figures.length_max) else {
        return Ok(());
    };
    let mean = Bytes(figures.length_mean.unwrap_or_default() as u64);
    row!(out, "sizes", "min {min}, mean {mean}, max {max}")?;
    let with_range = figures.requests - figures.flushes;
    let listed = &figures.sizes[..figures.sizes.len().min(SIZES_SHOWN)];
    let shown: Vec<String> = listed
        .iter()
        .map(|size| {
            let share = size.requests as f64 * 100.0 / with_range.max(1) as f64;
            let name = size.length.to_string();
            // Two sizes that differ only in their last digits must not look like one size that is
            // listed twice.
            let is_alone = listed.iter().filter(|of| of.length.to_string() == name).count() == 1;
            let is_exact = name.parse() == Ok(size.length);
            let name = if is_alone || is_exact { name } else { format!("{} B", size.length.0) };
            format!("{name} {share:.1} %")
        })
        .collect();
    row!(out, "", "{}", shown.join(", "))?;
    row!(out, "aligned", "{:.1} % to 4 KiB", figures.aligned_4k_share * 100.0)
}

fn print_latencies(out: &mut impl Write, figures: &TraceFigures) -> io::Result<()> {
    let mut line = |name: &str, summary: &Option<Summary>| -> io::Result<()> {
        let Some(summary) = summary else { return Ok(()) };
        let [p50, _, p99, p999, _] = summary.quantiles();
        let known = [("p50", p50), ("p99", p99), ("p99.9", p999)].into_iter();
        let told = known.filter_map(|(name, ns)| Some(format!("{name} {}, ", Nanos(ns? as i64))));
        let (told, max) = (told.collect::<String>(), Nanos(summary.max_ns as i64));
        row!(out, name, "{told}max {max} (of {})", summary.count)
    };
    line("latency", &figures.latency)?;
    let Some(measured) = &figures.measured else { return Ok(()) };
    line("lateness", &measured.lateness)?;
    line("service time", &measured.service_time)?;
    line("response time", &measured.response_time)?;
    row!(out, "pushed back", "{}", measured.pushed_back)?;
    let outcomes: Vec<String> =
        measured.outcomes.iter().map(|(name, count)| format!("{name} {count}")).collect();
    row!(out, "outcomes", "{}", outcomes.join(", "))
}

fn print_notes(out: &mut impl Write, header: &Header) -> io::Result<()> {
    let has_gaps = header.recording.as_ref().is_some_and(|recording| !recording.gaps.is_empty());
    let lost = if has_gaps { "nobody knows how many events, in the gaps" } else { "nothing" };
    for (kind, notes, none) in
        [("lost", &header.losses, lost), ("guessed", &header.guesses, "nothing")]
    {
        if notes.is_empty() {
            row!(out, kind, "{none}")?;
        }
        for note in notes.iter() {
            row!(out, kind, "{note}")?;
            for example in &note.examples {
                row!(out, "", "| {example}")?;
            }
        }
    }
    if let Some(damage) = &header.damage {
        row!(out, "damaged", "{damage}")?;
    }
    Ok(())
}
