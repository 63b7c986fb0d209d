//! The runs of a comparison: their systems, their loads, and the facts in which they differ.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use ioecho_linux::HostDescription;
use ioecho_run::directory::RunDirectory;
use ioecho_run::extent;
use ioecho_run::facts::{PlanFacts, RunFacts, TargetEntry};
use ioecho_run::results;
use ioecho_stats::compare::{
    Blocking, Cut, KnownBy, Obstacle, Replayed, RunProfile, obstacles as found,
};
use ioecho_stats::facts::FlowFacts;
use ioecho_stats::run_summary::RunSummary;
use ioecho_trace::formats::ReadOptions;
use ioecho_trace::{Batch, Source};
use serde::Serialize;

use crate::args::CompareArgs;
use crate::exit::{self, Coded};

/// Facts of a plan that differ between runs of the same plan, because they were measured before the
/// start.
const MEASURED: [&str; 6] =
    ["plan.spin_ns", "plan.wake_up_p50_ns", "plan.wake_up_p99_ns", "pid", "run", "plan.trace"];

/// Longest value of a fact that is shown, in characters.
const SHOWN_MAX: usize = 60;

/// The systems by their names, each with the directories of its runs.
#[derive(Debug)]
pub(super) struct Systems {
    pub(super) systems: Vec<(String, Vec<PathBuf>)>,
}

/// A run with its results.
#[derive(Debug)]
pub(super) struct Member {
    /// The index of its system.
    pub(super) system: usize,
    name: String,
    summary: RunSummary,
    facts: RunFacts,
    pub(super) profile: RunProfile,
}

/// A fact in which the runs differ, with the value of each run.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    pub(super) key: String,
    pub(super) values: Vec<String>,
}

/// The systems that were named on the command line.
pub(super) fn systems(args: &CompareArgs) -> anyhow::Result<Systems> {
    let mut systems: Vec<(String, Vec<PathBuf>)> = Vec::new();
    for text in &args.runs {
        let runs = listed(text);
        let first = runs.first().map_or(text.clone(), |run| run.display().to_string());
        systems.push((first.trim_end_matches('/').to_owned(), runs));
    }
    for text in &args.group {
        let (name, runs) = text.split_once('=').ok_or_else(|| {
            let text = format!(
                "--group {text}: there is no name\n  = help: write it like --group new=RUN1,RUN2"
            );
            Coded::error(exit::USAGE, text)
        })?;
        systems.push((name.to_owned(), listed(runs)));
    }
    for (number, (name, _)) in systems.iter().enumerate() {
        if systems[..number].iter().any(|(other, _)| other == name) {
            let text = format!("{name} is named twice\n  = help: name two different runs");
            return Err(Coded::error(exit::USAGE, text));
        }
    }
    Ok(Systems { systems })
}

/// Splits paths that are joined by commas. If a path with a comma exists, it is one path.
fn listed(text: &str) -> Vec<PathBuf> {
    if Path::new(text).exists() {
        return vec![PathBuf::from(text)];
    }
    text.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// A run whose requests were not read yet.
struct Begun {
    system: usize,
    name: String,
    directory: RunDirectory,
    summary: RunSummary,
    facts: RunFacts,
}

/// Reads every run, several at a time. Also returns whether all replayed the same requests.
pub(super) fn read(systems: &Systems) -> anyhow::Result<(Vec<Member>, bool)> {
    let mut begun = Vec::new();
    for (system, (_, runs)) in systems.systems.iter().enumerate() {
        for path in runs {
            begun.push(begin(system, path)?);
        }
    }
    refuse_the_same_twice(&begun)?;
    let requests = begun.iter().map(|run| run.summary.recorded).max().unwrap_or(0);
    let has_schedule = begun.iter().all(|run| run.summary.engine.has_schedule());
    let demanded = begun.iter().map(|run| run.summary.engine.demanded_duration_ns).max();
    // Where requests are results, no block has the same ones in two runs.
    let are_own = begun.iter().any(|run| {
        let mut flows = run.summary.engine.flows.iter();
        flows.any(|flow| KnownBy::of(flow) != KnownBy::Requests)
    });
    let fewest = begun.iter().map(|run| run.summary.recorded).min().unwrap_or(0);
    let blocking = |run: &Begun| match demanded {
        Some(demanded) if has_schedule && demanded > 0 => {
            Blocking::new(Cut::Time(demanded.saturating_add(1)), requests)
        }
        _ if are_own => {
            Blocking { cut: Cut::Own(run.summary.recorded), ..Blocking::new(Cut::Own(0), fewest) }
        }
        _ => Blocking::new(Cut::Requests(requests), requests),
    };
    let at_once = thread::available_parallelism().map_or(1, usize::from);
    let mut members = Vec::new();
    while !begun.is_empty() {
        let some: Vec<Begun> = begun.drain(..at_once.min(begun.len())).collect();
        let read: Vec<anyhow::Result<Member>> = thread::scope(|scope| {
            let folded = |run: Begun| {
                let blocking = blocking(&run);
                scope.spawn(move || fold(run, blocking))
            };
            let threads: Vec<_> = some.into_iter().map(folded).collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("reading a run panicked")))
            });
            joined.collect()
        });
        for member in read {
            members.push(member?);
        }
    }
    let first = members.first().map(|member| member.profile.load());
    let is_alike = |member: &Member| {
        let load = member.profile.load();
        first.is_some_and(|first| {
            load.content == first.content && (load.schedule == first.schedule || !has_schedule)
        })
    };
    let paired = !are_own && members.iter().all(is_alike);
    Ok((members, paired))
}

/// Refuses a run that is named twice, or a copy of it. It would pass for a repetition with exactly
/// the same latencies.
fn refuse_the_same_twice(runs: &[Begun]) -> anyhow::Result<()> {
    for (number, run) in runs.iter().enumerate() {
        let is_same = |other: &&Begun| other.facts.run == run.facts.run;
        if let Some(other) = runs[..number].iter().find(is_same) {
            let text = format!(
                "{} and {} are the same run\n  = help: name each run once; repeat a run to know \
                 how much it varies",
                other.name, run.name
            );
            return Err(Coded::error(exit::USAGE, text));
        }
    }
    Ok(())
}

fn begin(system: usize, path: &Path) -> anyhow::Result<Begun> {
    let directory = RunDirectory::at(path).ok_or_else(|| {
        let name = path.display();
        let text = format!(
            "{name} is no run: it holds no run.toml\n  = help: name a directory that \
             `ioecho replay -o` made"
        );
        Coded::error(exit::TRACE, text)
    })?;
    let facts = directory.read_facts()?;
    if !directory.summary().exists() {
        let text = format!(
            "{} has no summary: it still goes on, or was killed\n  = help: if it was killed, \
             `ioecho report {}` makes up the rest",
            path.display(),
            path.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    let summary = directory.read_summary()?;
    Ok(Begun { system, name: path.display().to_string(), directory, summary, facts })
}

fn fold(run: Begun, blocking: Blocking) -> anyhow::Result<Member> {
    let mut source = results::open(&run.directory, &ReadOptions::default())?;
    let mut batch = Batch::new(source.header().columns);
    let profile = RunProfile::new(blocking).with_flows(&run.summary.engine.flows);
    let mut profile = profile.with_drain(run.summary.drain_percent);
    while source.next_batch(&mut batch)? {
        profile.observe(&batch);
    }
    let Begun { system, name, summary, facts, .. } = run;
    Ok(Member { system, name, summary, facts, profile })
}

/// The obstacles to a comparison of these runs.
pub(super) fn obstacles(members: &[Member]) -> Vec<Obstacle> {
    let rules: Vec<(String, String)> =
        members.iter().map(|member| (rule(&member.facts), room(member))).collect();
    let replayed: Vec<Replayed<'_>> = members
        .iter()
        .zip(&rules)
        .map(|(member, (conflicts, room))| Replayed {
            name: &member.name,
            summary: &member.summary,
            load: member.profile.load(),
            room,
            conflicts,
        })
        .collect();
    found(&replayed)
}

/// What of the targets decides on what the lines of closed flows make. A load without an area of
/// its own goes over the whole device.
fn room(member: &Member) -> String {
    let is_over_all = |flow: &FlowFacts| {
        KnownBy::of(flow) == KnownBy::Line && !flow.load.split(['?', '&']).any(is_area)
    };
    let over_all = member.summary.engine.flows.iter().any(is_over_all);
    let told = |target: &TargetEntry| {
        let size = || extent::capacity(target).filter(|_| over_all).map(|size| size.to_string());
        extent::shape(target).map(|shape| shape.to_string()).or_else(size)
    };
    member.facts.targets.iter().filter_map(told).collect::<Vec<_>>().join(", ")
}

fn is_area(setting: &str) -> bool {
    setting.starts_with("area=")
}

/// The conflict rule and its strength.
fn rule(facts: &RunFacts) -> String {
    let PlanFacts { conflicts, strong, .. } = &facts.plan;
    let conflicts = conflicts.map(|mode| mode.name().to_owned());
    let strong = strong.map(|strong| strong.level().to_string());
    conflicts.into_iter().chain(strong).collect::<Vec<_>>().join(" ")
}

/// Facts of plan, targets and host in which the runs differ.
pub(super) fn differences(members: &[Member]) -> anyhow::Result<Vec<Difference>> {
    let mut facts: Vec<BTreeMap<String, String>> = Vec::new();
    for Member { facts: RunFacts { ioecho, plan, targets, host, .. }, .. } in members {
        let mut flat = BTreeMap::new();
        let told = toml::Value::try_from(Told { ioecho, plan, targets, host })?;
        flatten("", &told, &mut flat);
        facts.push(flat);
    }
    let mut keys: Vec<&String> = facts.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_unstable();
    keys.dedup();
    let differing = keys.into_iter().filter(|key| !MEASURED.contains(&key.as_str()));
    let differing = differing.filter_map(|key| {
        let values: Vec<String> =
            facts.iter().map(|flat| flat.get(key).cloned().unwrap_or_else(|| "–".into())).collect();
        let is_alike = values.iter().all(|value| *value == values[0]);
        (!is_alike).then(|| Difference { key: key.clone(), values })
    });
    Ok(differing.collect())
}

/// The facts that are compared, with the keys of `run.toml`.
#[derive(Serialize)]
struct Told<'a> {
    ioecho: &'a Option<String>,
    plan: &'a PlanFacts,
    targets: &'a [TargetEntry],
    host: &'a HostDescription,
}

fn flatten(key: &str, value: &toml::Value, flat: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(&key, value, flat);
            }
        }
        toml::Value::Array(items) if items.iter().any(toml::Value::is_table) => {
            for (number, value) in items.iter().enumerate() {
                flatten(&format!("{key}.{number}"), value, flat);
            }
        }
        other => {
            flat.insert(key.to_owned(), shown(other));
        }
    }
}

fn shown(value: &toml::Value) -> String {
    let text = match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    let cut: String = text.chars().take(SHOWN_MAX).collect();
    format!("{cut}…")
}
