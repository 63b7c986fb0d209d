//! Vdbench's report files, from the stored results of the runs.
//!
//! Everything is counted anew from what every run has stored, so the files say the same as our own
//! pages, and can be made again. Response times are those of the calls (our service times), as
//! there; our pages have those that a user waits for, and percentiles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use ioecho_campaign::rate::Part as RateOf;
use ioecho_campaign::workload::targets;
use ioecho_run::directory::RunDirectory;
use ioecho_run::facts::TargetEntry;
use ioecho_run::verify::later::TargetFindings;
use ioecho_run::verify::subject::FAMILY_PLACE;
use ioecho_stats::interval::Interval;
use ioecho_stats::run_summary::RunSummary;
use ioecho_trace::Nanos;
use ioecho_trace::workload::plan::{Leaf, LeafRate, PlannedFlow};
use jiff::Timestamp;

use super::count::{Division, Part, count};
use super::errors::{ErrorLog, TOLD};
use super::layout::{self, Share};
use super::operations;
use crate::commands::campaign::described::{Done, Results};
use crate::commands::run::Finished;
use crate::run::live::{About, flatfile};

/// The name of the error log.
const ERRORS: &str = "errorlog";

/// Names that are those of other files in the directory.
const TAKEN: [&str; 8] =
    ["summary", "totals", "flatfile", "histogram", "skew", ERRORS, "report", "parmfile"];

/// Writes all report files.
pub(super) fn write(finished: &Finished<'_>) -> anyhow::Result<()> {
    let results = Results::of(finished.store)?;
    let mut reports = Reports::default();
    for (at, leaf) in finished.leaves.iter().enumerate() {
        let Some(done) = results.done.get(at).and_then(Option::as_ref) else {
            reports.not_done(leaf);
            continue;
        };
        let rate = requested(leaf, &results.done);
        reports.run(leaf, done, rate, finished)?;
    }
    let (errors, told) = ErrorLog::of(&results, finished.store)?.text(finished.store)?;
    for (name, text) in reports.files(errors) {
        results.put(&name, text.as_bytes())?;
    }
    results.put(TOLD, &told)
}

/// Writes what reading data back has found behind what the runs found themselves. Their other
/// reports are as they were.
pub(super) fn read_back(store: &Path, found: &[TargetFindings]) -> anyhow::Result<()> {
    let results = Results::of(store)?;
    let mut log = ErrorLog::of(&results, store)?;
    log.read_back(found, &store.join(FAMILY_PLACE).join("verify.json").display());
    let (text, told) = log.text(store)?;
    results.put(&format!("{ERRORS}.html"), layout::page(ERRORS, &text).as_bytes())?;
    results.put(TOLD, &told)
}

/// The rate that a run was asked for; none if it was as fast as possible, or changed.
fn requested(leaf: &Leaf, done: &[Option<Done>]) -> Option<f64> {
    match leaf.rate {
        LeafRate::Fixed(rate) => Some(rate),
        LeafRate::Share { percent, of } => {
            let reached = done.get(of - 1)?.as_ref()?.iops?;
            Some(RateOf { share: 100.0, percent, run: of }.of(reached))
        }
        LeafRate::Max | LeafRate::Changing => None,
    }
}

/// The load of a flow: its name without those of its storages.
fn work_of(flow: &PlannedFlow) -> &str {
    let of_storages = format!("@{}", flow.storages.join("+"));
    flow.name.strip_suffix(of_storages.as_str()).unwrap_or(&flow.name)
}

/// The storage of a flow's request to this target: of several as one volume, the one that lies
/// there.
fn storage_of<'f>(flow: &'f PlannedFlow, target: Option<&String>) -> Option<&'f String> {
    let mut places = flow.paths.iter().zip(&flow.storages);
    let there = places.find(|(path, _)| Some(*path) == target).map(|(_, name)| name);
    there.or(flow.storages.first())
}

/// A line of the flat file: the columns that every run has, and those of runs on files.
struct Flat {
    line: String,
    operations: String,
}

/// The texts of the files so far.
#[derive(Default)]
struct Reports {
    summary: String,
    totals: String,
    flatfile: Vec<Flat>,
    /// Whether a run was one on files.
    has_files: bool,
    histogram: String,
    skew: String,
    /// The intervals of each storage and of each load, by the names of their files.
    parts: BTreeMap<String, String>,
    /// The same of their histograms.
    histograms: BTreeMap<String, String>,
}

impl Reports {
    /// A run without a result.
    fn not_done(&mut self, leaf: &Leaf) {
        let line = format!("No result: RD={}; {}\n\n", layout::escaped(&leaf.run), leaf.told());
        self.summary.push_str(&line);
        self.totals.push_str(&line);
    }

    fn run(
        &mut self,
        leaf: &Leaf,
        done: &Done,
        rate: Option<f64>,
        finished: &Finished<'_>,
    ) -> anyhow::Result<()> {
        let run = RunDirectory::at(&done.run)
            .ok_or_else(|| anyhow::anyhow!("{} is no run", done.run.display()))?;
        let facts = run.read_facts()?;
        self.has_files |= facts.targets.iter().any(TargetEntry::is_of_files);
        let started = facts.started.parse::<Timestamp>().unwrap_or_default();
        let division = division(leaf, started, ended(leaf, &run.read_summary()?));
        // All first, then the storages, then the loads.
        let storages = once(leaf.flows.iter().flat_map(|flow| &flow.storages).map(String::as_str));
        let works = once(leaf.flows.iter().map(work_of));
        let targets = targets(leaf);
        let at = |names: &[&str], name: &str| names.iter().position(|other| *other == name);
        let parts_of = |number: u16, target: u16| {
            let Some(flow) = leaf.flows.get(usize::from(number).wrapping_sub(1)) else {
                return vec![0];
            };
            let storage = storage_of(flow, targets.get(usize::from(target)));
            let storage = storage.and_then(|name| at(&storages, name));
            let work = at(&works, work_of(flow));
            let storage = storage.map(|at| 1 + at);
            let work = work.map(|at| 1 + storages.len() + at);
            [Some(0), storage, work].into_iter().flatten().collect()
        };
        let parts = count(&run, division, &parts_of, 1 + storages.len() + works.len())?;
        let Some((all, rest)) = parts.split_first() else { return Ok(()) };
        let (of_storages, of_works) = rest.split_at(storages.len());
        let begun = begun(leaf, &division);
        let table = table(all, &division);
        let _ = writeln!(self.summary, "{begun}{table}");
        let average = layout::average_of(division.first, division.last());
        let averaged = layout::line(&all.measured, &average);
        let names = layout::names(division.epoch_ns);
        let of_files = layout::operations(&[(average, &all.measured)]);
        let _ = writeln!(self.totals, "{begun}{names}{averaged}{of_files}");
        let about = about(leaf, finished);
        self.flat(leaf, all, &division, rate, &about);
        let _ = writeln!(self.histogram, "{begun}{}", layout::histograms(&all.bins));
        self.skews(leaf, &begun, all, (&storages, of_storages), (&works, of_works));
        let each = storages.iter().zip(of_storages).chain(works.iter().zip(of_works));
        for (name, part) in each {
            self.part(name, &begun, part, &division);
        }
        Ok(())
    }

    /// The lines of the flat file.
    fn flat(
        &mut self,
        leaf: &Leaf,
        all: &Part,
        division: &Division,
        rate: Option<f64>,
        about: &About,
    ) {
        let asked = |interval: &Interval| {
            let mut asked = interval.clone();
            asked.demanded = rate.map(|rate| (rate * interval.seconds()).round() as u64);
            asked
        };
        let intervals = intervals(all, division);
        for interval in &intervals {
            let name = interval.number.to_string();
            let line = flatfile::line_of(&asked(interval), &leaf.run, &name, about);
            self.flatfile.push(Flat { line, operations: operations::of_interval(interval) });
        }
        let name = layout::average_of(division.first, division.last());
        let line = flatfile::line_of(&asked(&all.measured), &leaf.run, &name, about);
        let measured = intervals.get(division.first as usize - 1..).unwrap_or_default();
        let operations = operations::of_average(&all.measured, measured, division.width);
        self.flatfile.push(Flat { line, operations });
    }

    /// The flat file. Its lines have the columns of operations on files if any run was on files.
    fn flatfile(&self) -> String {
        let of_files =
            |columns: &str| if self.has_files { columns.to_owned() } else { String::new() };
        let mut text = format!("{}{}\n", flatfile::header(), of_files(&operations::names()));
        for Flat { line, operations } in &self.flatfile {
            let _ = writeln!(text, "{line}{}", of_files(operations));
        }
        text
    }

    fn skews(
        &mut self,
        leaf: &Leaf,
        begun: &str,
        all: &Part,
        storages: (&[&str], &[Part]),
        works: (&[&str], &[Part]),
    ) {
        let asked = shares(leaf);
        let of_storages: Vec<Share<'_>> =
            storages.0.iter().zip(storages.1).map(|(name, part)| row(name, part, None)).collect();
        let of_works: Vec<Share<'_>> = works
            .0
            .iter()
            .zip(works.1)
            .map(|(name, part)| row(name, part, asked.get(*name).copied()))
            .collect();
        self.skew.push_str(begun);
        self.skew.push_str(&layout::shares("SD", &of_storages, &all.measured));
        self.skew.push('\n');
        self.skew.push_str(&layout::shares("WD", &of_works, &all.measured));
        self.skew.push('\n');
    }

    /// The intervals and the histogram of a storage or a load.
    fn part(&mut self, name: &str, begun: &str, part: &Part, division: &Division) {
        let file = file_of(name);
        let intervals = self.parts.entry(file.clone()).or_default();
        let _ = writeln!(intervals, "{begun}{}", table(part, division));
        let histogram = self.histograms.entry(file).or_default();
        let _ = writeln!(histogram, "{begun}{}", layout::histograms(&part.bins));
    }

    /// The files with their names.
    fn files(self, errors: String) -> Vec<(String, String)> {
        let names: BTreeSet<&String> = self.parts.keys().collect();
        let of_all = ["totals", "histogram", "skew", "flatfile", ERRORS].map(str::to_owned);
        let links = of_all.iter().chain(names).map(|name| {
            let name = layout::escaped(name);
            format!("<a href=\"{name}.html\">{name}</a>\n")
        });
        let links: String = links.collect();
        let summary = format!("{links}\n{}", self.summary);
        let flatfile = self.flatfile();
        let pages = [
            ("summary", summary),
            ("totals", self.totals),
            ("histogram", self.histogram),
            ("skew", self.skew),
            ("flatfile", flatfile),
            (ERRORS, errors),
        ];
        let pages = pages.into_iter().map(|(name, text)| (name.to_owned(), text));
        let histograms =
            self.histograms.into_iter().map(|(name, text)| (format!("{name}.histogram"), text));
        let all = pages.chain(self.parts).chain(histograms);
        all.map(|(name, text)| (format!("{name}.html"), layout::page(&name, &text))).collect()
    }
}

/// The share of a part, with what was asked for in percent.
fn row<'r>(name: &'r str, part: &'r Part, requested: Option<f64>) -> Share<'r> {
    Share { name, interval: &part.measured, requested }
}

/// All intervals of a part, also those in which nothing happened.
fn intervals(part: &Part, division: &Division) -> Vec<Interval> {
    let interval = |number: u64| {
        let empty = || division.interval(number);
        part.intervals.get(&number).cloned().unwrap_or_else(empty)
    };
    (1..=division.last()).map(interval).collect()
}

/// The intervals of a part, and their average.
fn table(part: &Part, division: &Division) -> String {
    let all = intervals(part, division);
    let average = layout::average_of(division.first, division.last());
    let rows = all.iter().map(|interval| (interval.number.to_string(), interval));
    let rows: Vec<(String, &Interval)> = rows.chain([(average, &part.measured)]).collect();
    let lines = rows.iter().map(|(name, interval)| layout::line(interval, name));
    let names = layout::names(division.epoch_ns);
    names + &lines.collect::<String>() + &layout::operations(&rows)
}

/// The line with which a run begins.
fn begun(leaf: &Leaf, division: &Division) -> String {
    let loops: Vec<String> =
        leaf.values.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let loops = if loops.is_empty() { "None".to_owned() } else { loops.join(" ") };
    format!(
        "{} Starting RD={}; I/O rate: {}; elapsed={}; For loops: {}\n\n",
        layout::time_of(division.epoch_ns),
        layout::escaped(&leaf.run),
        leaf.rate,
        leaf.duration.as_secs_f64(),
        layout::escaped(&loops)
    )
}

/// When a run ended: as it was asked to, or with its last request where that is not asked for by
/// time. What makes a tree ends when that is made.
fn ended(leaf: &Leaf, summary: &RunSummary) -> Nanos {
    let asked = leaf.warmup.saturating_add(leaf.duration);
    let last = summary.per_flow.iter().map(|flow| flow.last_completed_ns).max();
    match last {
        Some(last) if !leaf.has_end || leaf.ends_by_data() => Nanos(last.max(1)),
        _ => asked,
    }
}

/// How a run that ended then is divided into intervals. Its first interval is left out of averages,
/// or all that lie in its warm-up, as there; of a run of one interval nothing is.
fn division(leaf: &Leaf, started: Timestamp, end: Nanos) -> Division {
    let width = Nanos(leaf.interval.0.max(1));
    let epoch_ns = i64::try_from(started.as_nanosecond()).unwrap_or_default();
    let division = Division { width, end, first: 1, epoch_ns };
    let in_warmup = (leaf.warmup.0.max(0) as u64).div_ceil(width.0 as u64);
    let first = in_warmup.max(1) + 1;
    Division { first: if first <= division.last() { first } else { 1 }, ..division }
}

/// Names in their order, each once.
fn once<'l>(all: impl Iterator<Item = &'l str>) -> Vec<&'l str> {
    let mut seen = BTreeSet::new();
    all.filter(|name| seen.insert(*name)).collect()
}

/// The shares of the loads that are asked for, in percent, where there are any.
fn shares(leaf: &Leaf) -> BTreeMap<&str, f64> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for flow in &leaf.flows {
        if let Some(share) = flow.share {
            *shares.entry(work_of(flow)).or_default() += share;
        }
    }
    shares
}

/// What lines of the flat file need besides.
fn about(leaf: &Leaf, finished: &Finished<'_>) -> About {
    let mut places: BTreeMap<&String, u64> = BTreeMap::new();
    for flow in &leaf.flows {
        for storage in &flow.storages {
            *places.entry(storage).or_default() += flow.in_flight;
        }
    }
    let sizes = places.keys().filter_map(|name| (finished.size_of)(name));
    let ratio = leaf.compress.unwrap_or(1.0).max(1.0);
    About {
        capacity: sizes.fold(0, u64::saturating_add),
        in_flight_max: places.values().max().copied().unwrap_or(0) as u32,
        fill_random: (100.0 / ratio).round() as u8,
        dedup: leaf.dedup.unwrap_or(1.0),
        ..About::default()
    }
}

/// The name of the file of a storage or a load, in letters that names of files have.
fn file_of(name: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '+');
    let name: String = name.chars().map(|c| if is_part(c) { c } else { '_' }).take(100).collect();
    if TAKEN.contains(&name.as_str()) { format!("{name}_") } else { name }
}
