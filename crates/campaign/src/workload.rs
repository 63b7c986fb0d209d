//! A described workload as a campaign: each of its runs is a listed run.
//!
//! What a description means was settled when it was planned: every run with the lines of its
//! loads. Here that is only written down, in the words of a campaign, so that one executor, one
//! store and one page serve both.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use ioecho_trace::workload::model::General;
use ioecho_trace::workload::plan::{Leaf, LeafRate, PlannedFlow};
use ioecho_trace::{JournalMode, Nanos, VerifyMode};

use crate::file::Proof;
use crate::place::{Refused, Result};
use crate::plan::is_simulated;

/// How many names of storages make the name of several together.
const NAMES_MAX: usize = 4;

/// The longest name of a flow.
const NAME_MAX: usize = 90;

/// The name of the family of all runs, in the directory of the results.
const FAMILY: &str = "family";

/// After so many requests that failed, or sectors that are not as they must be, a run that verifies
/// ends: Vdbench's number.
const ERRORS_MAX: u64 = 50;

/// How the data of runs are verified.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verification {
    /// How much is looked at.
    pub mode: VerifyMode,
    /// What the notes must survive.
    pub journal: JournalMode,
}

impl From<&General> for Verification {
    fn from(general: &General) -> Self {
        Self { mode: general.verification(), journal: general.journal_mode() }
    }
}

/// Names the storages of a plan: a path is one device, whatever names lead to it.
#[derive(Debug, Default)]
struct Devices {
    /// The name of each path, and what tells it from others.
    names: BTreeMap<String, (String, Proof)>,
    /// The names of several together, by their paths.
    groups: BTreeMap<Vec<String>, String>,
}

impl Devices {
    fn of(leaves: &[Leaf], proof_of: &dyn Fn(&str) -> Proof) -> Self {
        let mut devices = Self::default();
        for leaf in leaves {
            for flow in &leaf.flows {
                let named = flow.paths.iter().zip(&flow.storages);
                for (path, name) in named {
                    if !devices.names.contains_key(path) {
                        let named = (devices.single(name), proof_of(path));
                        devices.names.insert(path.clone(), named);
                    }
                }
            }
            let paths = targets(leaf);
            if paths.len() > 1 && !devices.groups.contains_key(&paths) {
                let name = devices.group(&paths);
                devices.groups.insert(paths, name);
            }
        }
        devices
    }

    /// A name for a path that none has yet: a tree of another shape is another device.
    fn single(&self, name: &str) -> String {
        let is_taken = |name: &String| self.names.values().any(|(other, _)| other == name);
        let numbered = (2..).map(|number| format!("{name} #{number}"));
        let mut all = [name.to_owned()].into_iter().chain(numbered);
        all.find(|name| !is_taken(name)).unwrap_or_default()
    }

    /// A name for several paths that none has yet.
    fn group(&self, paths: &[String]) -> String {
        let names: Vec<&str> = paths.iter().map(|path| self.names[path].0.as_str()).collect();
        let name = match &names[..] {
            [first, .., last] if names.len() > NAMES_MAX => {
                format!("{first} to {last} ({})", names.len())
            }
            names => names.join("+"),
        };
        let is_taken = |name: &String| {
            self.groups.values().any(|other| other == name)
                || self.names.values().any(|(other, _)| other == name)
        };
        let numbered = (2..).map(|number| format!("{name} #{number}"));
        let mut all = [name.clone()].into_iter().chain(numbered);
        all.find(|name| !is_taken(name)).unwrap_or(name)
    }

    fn name(&self, paths: &[String]) -> &str {
        match paths {
            [path] => &self.names[path].0,
            paths => &self.groups[paths],
        }
    }

    fn write(&self, text: &mut String) {
        text.push_str("\n[devices]\n");
        for (path, (name, proof)) in &self.names {
            let Proof { serial, wwn, uuid, backing } = proof;
            let facts = [("serial", serial), ("wwn", wwn), ("uuid", uuid), ("backing", backing)];
            let facts = facts.into_iter().filter_map(|(key, fact)| Some((key, fact.as_ref()?)));
            let mut set = format!("path = {}", quoted(&escaped(path)));
            for (key, fact) in facts {
                let _ = write!(set, ", {key} = {}", quoted(fact));
            }
            let _ = writeln!(text, "{} = {{ {set} }}", quoted(name));
        }
        for (paths, name) in &self.groups {
            let of: Vec<String> = paths.iter().map(|path| quoted(&self.names[path].0)).collect();
            let _ = writeln!(text, "{} = {{ of = [{}] }}", quoted(name), of.join(", "));
        }
    }
}

/// The paths of the storages of a run, each once, in the order in which its loads name them.
pub fn targets(leaf: &Leaf) -> Vec<String> {
    let mut seen = HashSet::new();
    let paths = leaf.flows.iter().flat_map(|flow| &flow.paths);
    paths.filter(|path| seen.insert(path.as_str())).cloned().collect()
}

/// The names of the devices that a campaign of these runs gives to these paths.
pub fn names_of(leaves: &[Leaf], paths: &BTreeSet<String>) -> Vec<String> {
    let devices = Devices::of(leaves, &|_| Proof::default());
    let named = paths.iter().filter_map(|path| devices.names.get(path));
    named.map(|(name, _)| name.clone()).collect()
}

/// The text of a campaign of these runs. `proof_of` tells what a path leads to has to prove.
///
/// # Errors
///
/// If two runs are the same.
pub fn written(
    name: &str,
    seed: u64,
    leaves: &[Leaf],
    verification: Verification,
    proof_of: &dyn Fn(&str) -> Proof,
) -> Result<String> {
    let devices = Devices::of(leaves, proof_of);
    let mut text = format!("name = {}\norder = \"written\"\nseed = {seed}\n", quoted(name));
    devices.write(&mut text);
    // Requests of described loads may overlap, as those of any clients do. Where data are verified
    // no two that overlap are in flight together, so one version is right and no other.
    let conflicts = if verification.mode.is_on() { "partial" } else { "allow" };
    let _ = write!(text, "\n[replay]\nconflicts = {}\n", quoted(conflicts));
    if verification.mode.is_on() {
        // A run that has seen too much is the last one.
        let that = quoted("finding != data-damaged or check.complete = pass");
        let _ = write!(text, "\n[[expect]]\nthat = {that}\nabort = true\n");
    }
    let mut names = Names::default();
    let mut seen = HashSet::new();
    for leaf in leaves {
        let at = at(leaf, &mut names);
        if !seen.insert(at.clone()) {
            let reason = format!("two runs of '{}' are the same: {}", leaf.run, leaf.told());
            return Err(Refused::new(&leaf.place, reason, "take the second value out"));
        }
        let values: Vec<String> =
            at.iter().map(|(key, value)| format!("{} = {}", quoted(key), quoted(value))).collect();
        let _ = writeln!(text, "\n[[run]]\nat = {{ {} }}", values.join(", "));
        if let Some(most) = leaf.stop_curve {
            let unless = format!("mean.all.response > {}ns", most.0);
            let _ = writeln!(text, "unless = {}", quoted(&unless));
        }
        text.push_str("[run.set]\n");
        let paths = targets(leaf);
        let _ = writeln!(text, "device = {}", quoted(devices.name(&paths)));
        text.push_str("flow = [\n");
        for flow in flows(leaf, &paths) {
            let _ = writeln!(text, "  {},", quoted(&flow));
        }
        text.push_str("]\n");
        for (key, value) in settings(leaf).into_iter().chain(verified(leaf, verification)) {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
    Ok(text)
}

/// Names of runs: two definitions of one name are two.
#[derive(Default)]
struct Names {
    given: HashMap<(String, usize), String>,
    counts: HashMap<String, usize>,
}

impl Names {
    fn of(&mut self, leaf: &Leaf) -> String {
        let definition = (format!("{}:{}", leaf.place.file, leaf.run), leaf.place.line);
        if let Some(name) = self.given.get(&definition) {
            return name.clone();
        }
        let count = self.counts.entry(leaf.run.clone()).or_default();
        *count += 1;
        let name = if *count == 1 { leaf.run.clone() } else { format!("{} #{count}", leaf.run) };
        self.given.insert(definition, name.clone());
        name
    }
}

/// The values by which a run is known.
fn at(leaf: &Leaf, names: &mut Names) -> Vec<(String, String)> {
    let run = ("run".to_owned(), names.of(leaf));
    let values = leaf.values.iter().map(|(key, value)| ((*key).to_owned(), value.clone()));
    let rate = match &leaf.rate {
        LeafRate::Share { percent, .. } => format!("{percent}%"),
        other => other.to_string(),
    };
    [run].into_iter().chain(values).chain([("rate".to_owned(), rate)]).collect()
}

/// The flows of a run as they are typed.
fn flows(leaf: &Leaf, paths: &[String]) -> Vec<String> {
    let mut names = HashSet::new();
    let typed = |flow: &PlannedFlow| {
        let name = name_of(flow, &mut names);
        let is_recorded = !flow.line.starts_with("gen:");
        let line = if is_recorded { escaped(&flow.line) } else { flow.line.clone() };
        let mut text = format!("{name}={line}");
        let places = if flow.is_closed { "threads" } else { "cap" };
        let _ = write!(text, ";{places}={}", flow.in_flight);
        if let Some(share) = flow.share.filter(|_| flow.is_closed) {
            let _ = write!(text, ";share={share}");
        }
        let number = |path: &String| 1 + paths.iter().position(|it| it == path).unwrap_or(0);
        if let ([_, _, ..], [], Some(path)) = (paths, &flow.parts[..], flow.paths.first()) {
            let _ = write!(text, ";on={}", number(path));
        }
        for (at, (path, (from, length))) in flow.paths.iter().zip(&flow.parts).enumerate() {
            let key = if at == 0 { ";on=" } else { "+" };
            let _ = write!(text, "{key}{},to={from},length={length}", number(path));
        }
        let ends = ["data", "read-data", "written-data"].into_iter().zip(leaf.data);
        let ends = ends.filter(|_| leaf.ends_by_data());
        for (key, end) in ends.filter_map(|(key, end)| Some((key, end?))) {
            let _ = write!(text, ";{key}={end}");
        }
        if leaf.ends_by_data() && leaf.flows.len() > 1 {
            text.push_str(";ends=together");
        }
        text
    };
    leaf.flows.iter().map(typed).collect()
}

/// The name of a flow in the letters that names of flows have; no two are alike.
fn name_of(flow: &PlannedFlow, taken: &mut HashSet<String>) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '#' | '@' | '+');
    let plain = flow.name.chars().map(|c| if is_part(c) { c } else { '_' });
    let mut name = String::new();
    for c in plain {
        if name.len() + c.len_utf8() <= NAME_MAX {
            name.push(c);
        }
    }
    let numbered = (2..).map(|number| format!("{name}#{number}"));
    let mut all = [name.clone()].into_iter().chain(numbered);
    let found = all.find(|name| taken.insert(name.clone()));
    found.unwrap_or(name)
}

/// What else a run is asked for, as it stands in a file.
fn settings(leaf: &Leaf) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let whole = leaf.warmup.saturating_add(leaf.duration);
    if leaf.has_end {
        all.push(("end-after", quoted(&typed(whole))));
    }
    if leaf.warmup > Nanos::ZERO {
        all.push(("warmup", quoted(&typed(leaf.warmup))));
    }
    if leaf.pause > Nanos::ZERO {
        all.push(("start-grace", quoted(&typed(leaf.pause))));
    }
    let writes = leaf.flows.iter().any(|flow| flow.writes);
    if let Some(ratio) = leaf.compress.filter(|ratio| writes && *ratio > 1.0) {
        all.push(("fill-random", format!("{}", (100.0 / ratio).round())));
    }
    if let Some(ratio) = leaf.dedup.filter(|ratio| writes && *ratio > 1.0) {
        all.push(("dedup", format!("{ratio}")));
        all.push(("dedup-unit", quoted(&leaf.dedup_unit.to_string())));
    }
    if leaf.flows.iter().any(|flow| flow.writes && flow.is_sync) {
        all.push(("sync-writes", "true".to_owned()));
    }
    all
}

/// What a run is asked for of its data, and when it has seen enough.
fn verified(leaf: &Leaf, verification: Verification) -> Vec<(&'static str, String)> {
    let Verification { mode, journal } = verification;
    let is_real = leaf.flows.iter().flat_map(|flow| &flow.paths).all(|path| !is_simulated(path));
    let writes = leaf.flows.iter().any(|flow| flow.writes);
    // What is simulated has no data behind its run, and none before it.
    let verifies = mode.is_on() && (is_real || writes);
    let mut all = Vec::new();
    if let Some(most) = leaf.errors_max.or(verifies.then_some(ERRORS_MAX)) {
        all.push(("on-error", quoted(&most.max(1).to_string())));
    }
    if !verifies {
        return all;
    }
    all.push(("verify", quoted(mode.name())));
    if is_real {
        all.push(("family", quoted(FAMILY)));
        all.push(("journal", quoted(journal.name())));
    }
    all
}

/// A span of time as it is typed.
fn typed(span: Nanos) -> String {
    match span.0 % 1_000_000_000 {
        0 => format!("{}s", span.0 / 1_000_000_000),
        _ => format!("{}ns", span.0),
    }
}

/// A text in which braces are only braces.
fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default().replace('\u{7f}', "\\u007F")
}
