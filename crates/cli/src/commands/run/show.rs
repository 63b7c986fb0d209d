//! What a workload would do: every run with its loads, what it overwrites, and how long it takes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;

use ioecho_trace::units::counted;
use ioecho_trace::workload::model::{Told, Workload};
use ioecho_trace::workload::plan::{Leaf, LeafRate, Plan};
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::print::{Out, visible};
use crate::workload::size_of;

/// The version of the JSON. It changes when a key changes its meaning or goes away.
const JSON_VERSION: u32 = 1;

/// A plan that is shown.
pub(super) struct Shown<'s> {
    pub(super) files: &'s [PathBuf],
    pub(super) workload: &'s Workload,
    pub(super) plan: &'s Plan<'s>,
    pub(super) seed: u64,
}

/// Prints a line with its name in front.
macro_rules! row {
    ($out:expr, $name:expr, $($value:tt)*) => {
        writeln!($out, "{:<14}{}", $name, visible(&format!($($value)*)))
    };
}

impl Shown<'_> {
    /// What the runs overwrite: for each path the loads that write there.
    fn overwritten(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for leaf in self.plan.leaves() {
            for flow in leaf.flows.into_iter().filter(|flow| flow.writes) {
                for path in flow.paths {
                    all.entry(path).or_default().insert(flow.name.clone());
                }
            }
            for file in leaf.files.into_iter().filter(|file| file.writes) {
                all.entry(file.anchor).or_default().insert(file.name);
            }
        }
        all
    }

    pub(super) fn text(&self, out: &mut Out) -> io::Result<()> {
        let Self { workload, plan, .. } = self;
        let names: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        row!(out, "workload", "{}", names.join(", "))?;
        for storage in &workload.storages {
            let size = match size_of(storage) {
                Some(size) => ioecho_trace::Bytes(size).to_string(),
                None => "not on this host".to_owned(),
            };
            row!(out, "storage", "{}: {} ({size})", storage.name, storage.path())?;
        }
        for tree in &workload.trees {
            let files = counted(tree.count(), "file");
            row!(out, "tree", "{}: {} ({files})", tree.name, tree.anchor)?;
        }
        for host in &workload.hosts {
            row!(out, "host", "{}: {}", host.name, host.system)?;
        }
        let overwritten = self.overwritten();
        if overwritten.is_empty() {
            row!(out, "overwritten", "nothing: all loads read")?;
        }
        for (path, flows) in overwritten {
            let flows: Vec<String> = flows.into_iter().collect();
            row!(out, "overwritten", "{path}, by {}", flows.join(", "))?;
        }
        let count = counted(plan.count() as u64, "run");
        row!(out, "runs", "{count}, at most {}; seed {}", plan.time(), self.seed)?;
        for leaf in plan.leaves() {
            leaf_text(out, &leaf)?;
        }
        Ok(())
    }

    pub(super) fn json(&self, out: &mut Out) -> anyhow::Result<()> {
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let told: Vec<_> = self.workload.told.iter().chain(&self.plan.told).map(of_told).collect();
        out.json(&Printed {
            version: JSON_VERSION,
            files,
            seed: self.seed,
            seconds: self.plan.time().as_secs_f64(),
            told,
            overwritten: self.overwritten(),
            runs: Runs(self.plan),
        })?;
        Ok(())
    }
}

fn leaf_text(out: &mut Out, leaf: &Leaf) -> io::Result<()> {
    let mut times = vec![format!("{}", leaf.duration)];
    if leaf.warmup.0 > 0 {
        times.push(format!("after a warm-up of {}", leaf.warmup));
    }
    if leaf.pause.0 > 0 {
        times.push(format!("after a pause of {}", leaf.pause));
    }
    let format = match &leaf.format[..] {
        [] | ["no"] => String::new(),
        words => format!("; format {}", words.join(" ")),
    };
    row!(out, leaf.number, "{} {}: {}{format}", leaf.run, leaf.told(), times.join(" "))?;
    for flow in &leaf.flows {
        let when = if flow.is_closed { "when there is a place" } else { "by their rate" };
        let places = flow.in_flight;
        row!(out, "", "{} on {}, {places} in flight, {when}", flow.name, flow.paths.join(" + "))?;
        row!(out, "", "  {}", flow.line)?;
    }
    for file in &leaf.files {
        let threads = counted(file.threads, "thread");
        row!(out, "", "{} on {}, {threads}: {}", file.name, file.anchor, file.does)?;
        for flow in file.makes.iter().chain(&file.flows) {
            row!(out, "", "  {}", flow.line)?;
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Printed<'p> {
    version: u32,
    files: Vec<String>,
    seed: u64,
    /// How long all runs take at most.
    seconds: f64,
    told: Vec<serde_json::Value>,
    overwritten: BTreeMap<String, BTreeSet<String>>,
    runs: Runs<'p>,
}

/// The runs of a plan, which are printed while they are made.
struct Runs<'p>(&'p Plan<'p>);

impl Serialize for Runs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.count()))?;
        for leaf in self.0.leaves() {
            list.serialize_element(&of_leaf(&leaf))?;
        }
        list.end()
    }
}

fn of_told(told: &Told) -> serde_json::Value {
    json!({ "place": told.place.to_string(), "what": told.what })
}

fn of_leaf(leaf: &Leaf) -> serde_json::Value {
    let flows: Vec<_> = leaf
        .flows
        .iter()
        .map(|flow| {
            json!({
                "name": flow.name,
                "storages": flow.storages,
                "paths": flow.paths,
                "parts": flow.parts,
                "line": flow.line,
                "whole": flow.is_whole,
                "closed": flow.is_closed,
                "in_flight": flow.in_flight,
                "writes": flow.writes,
            })
        })
        .collect();
    let files: Vec<_> = leaf
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name,
                "anchor": file.anchor,
                "files": file.files,
                "does": file.does,
                "threads": file.threads,
                "writes": file.writes,
                "target": file.flows.first().and_then(|flow| flow.paths.first()),
                "makes": file.makes.as_ref().map(|flow| &flow.line),
                "lines": file.flows.iter().map(|flow| &flow.line).collect::<Vec<_>>(),
            })
        })
        .collect();
    let values: serde_json::Map<String, serde_json::Value> =
        leaf.values.iter().map(|(key, value)| ((*key).to_owned(), value.clone().into())).collect();
    let rate = match &leaf.rate {
        LeafRate::Max => json!("max"),
        LeafRate::Fixed(rate) => json!(rate),
        LeafRate::Share { percent, of } => json!({ "percent": percent, "of_run": of }),
        LeafRate::Changing => json!("changing"),
    };
    json!({
        "number": leaf.number,
        "run": leaf.run,
        "values": values,
        "rate": rate,
        "seconds": leaf.duration.as_secs_f64(),
        "warmup_seconds": leaf.warmup.as_secs_f64(),
        "interval_seconds": leaf.interval.as_secs_f64(),
        "pause_seconds": leaf.pause.as_secs_f64(),
        "format": leaf.format,
        "flows": flows,
        "files": files,
    })
}
