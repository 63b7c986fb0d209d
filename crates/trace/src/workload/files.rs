//! A load on a tree of files as the lines of a replay: the tree as its target, and a flow for each
//! operation.
//!
//! As with loads on storages, what a description means must be visible, and each of its runs must
//! be one that anybody can type. A tree that is made first is made by a replay of its own, with its
//! own results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::flow::seconds;
use super::model::{FileWork, General, Run, Sizes, Tree, Value, plain};
use super::plan::{FileFlow, Leaf, LeafRate, PlannedFlow};
use crate::generate::{FILES_PREFIX, FORMAT, files_task};
use crate::units::Nanos;

/// The threads and the lengths of requests that make a tree, if nothing is said.
const FORMAT_THREADS: u64 = 8;
const FORMAT_SIZE: u64 = 64 << 10;

/// Vdbench's mean of a skewed choice: so many times it fits into all files.
const SKEW: &str = "3";

/// The axis that tells the replays of a run from each other.
pub const PHASE: &str = "phase";

/// A load on a tree, with everything that loops decide.
pub(super) struct OnTree<'w> {
    pub(super) work: &'w FileWork,
    pub(super) run: &'w Run,
    pub(super) general: &'w General,
    /// The load that makes trees, if it is described.
    pub(super) format: Option<&'w FileWork>,
    pub(super) tree: Tree,
    pub(super) sizes: Sizes,
    pub(super) threads: u64,
    /// What is done, in the words of a flow.
    pub(super) tasks: Vec<&'static str>,
    /// Percent of reads of `mixed`.
    pub(super) read: Option<f64>,
    /// Its part of the rate.
    pub(super) share: f64,
    /// Whether loads have the shares of the rate that the file gives them.
    pub(super) is_skewed: bool,
    pub(super) seed: u64,
}

impl Tree {
    /// Applies the value of a loop.
    pub(super) fn set(&mut self, key: &str, value: &Value) {
        match (key, value) {
            ("depth", Value::Number(depth)) => self.depth = *depth,
            ("width", Value::Number(width)) => self.width = *width,
            ("files", Value::Number(files)) => self.files = *files,
            ("sizes", Value::Size(size)) => self.sizes = Sizes::only(*size),
            ("total", Value::Size(size)) => self.total = Some(*size),
            ("working-set", Value::Size(size)) => self.working_set = Some(*size),
            _ => {}
        }
    }

    /// The tree as a target, without what is found there.
    fn target(&self, general: &General, open: &[&str]) -> String {
        let Self { depth, width, files, .. } = self;
        let mut text = match &self.instead {
            Some(_) => "sim:tree?".to_owned(),
            None => format!("tree:{}?", self.anchor),
        };
        let _ =
            write!(text, "depth={depth}&width={width}&files={files}&size={}", self.sizes_text());
        if self.everywhere {
            text.push_str("&everywhere=yes");
        }
        for (key, bytes) in [("total", self.total), ("working-set", self.working_set)] {
            if let Some(bytes) = bytes {
                let _ = write!(text, "&{key}={}", plain(bytes));
            }
        }
        let has = |words: &[&str]| open.iter().any(|word| words.contains(word));
        let words = [
            ("direct", has(&["o_direct", "directio"])),
            ("sync", has(&["o_sync", "o_dsync"])),
            ("fsync", has(&["fsync"])),
        ];
        let words: Vec<&str> = words.iter().filter(|(_, is)| *is).map(|(word, _)| *word).collect();
        // In memory there is no page cache.
        if !words.is_empty() && self.instead.is_none() {
            let _ = write!(text, "&open={}", words.join(","));
        }
        match &self.instead {
            Some(calls) if !calls.is_empty() => {
                let _ = write!(text, "&calls={calls}");
            }
            None if general.create_anchors => text.push_str("&parents=yes"),
            _ => {}
        }
        text
    }

    fn sizes_text(&self) -> String {
        match &self.sizes {
            Sizes::Mix(mix) if mix.len() == 1 && mix[0].1 <= 0.0 => {
                format!("{}:0", plain(mix[0].0))
            }
            sizes => sizes.to_string(),
        }
    }
}

impl OnTree<'_> {
    /// How its files are opened.
    fn open(&self) -> Vec<&'static str> {
        let Self { work, run, tree, .. } = self;
        tree.open.iter().chain(&work.open).chain(&run.open).copied().collect()
    }

    /// Its flows, one for each operation.
    pub(super) fn flows(&self, rate: &LeafRate, span: Nanos) -> Vec<PlannedFlow> {
        let tasks = &self.tasks;
        let target = self.tree.target(self.general, &self.open());
        let each = self.share / tasks.len().max(1) as f64;
        let flow = |task: &&'static str| {
            let mut line = self.line(task, matches!(rate, LeafRate::Fixed(_)));
            if let LeafRate::Fixed(rate) = rate {
                let dist = match self.run.arrival {
                    super::model::Arrival::Poisson => "poisson",
                    super::model::Arrival::Uniform => "uniform",
                    super::model::Arrival::Constant => "constant",
                };
                let rate = (rate * each).max(1e-6);
                let _ = write!(line, "&rate={rate:.6}&dist={dist}&duration={}", seconds(span));
            }
            let is_closed = matches!(rate, LeafRate::Max);
            let several = if tasks.len() > 1 { format!(" {task}") } else { String::new() };
            PlannedFlow {
                name: format!("{}@{}{several}", self.work.name, self.tree.name),
                place: self.work.place.clone(),
                storages: vec![self.tree.name.clone()],
                paths: vec![target.clone()],
                parts: Vec::new(),
                line,
                is_whole: true,
                is_closed,
                in_flight: self.threads,
                writes: !matches!(*task, "read" | "open" | "close" | "getattr" | "access")
                    || removes_after(self.work, task),
                is_sync: false,
                share: (is_closed && self.is_skewed).then_some(each * 100.0),
                has_own_rate: false,
            }
        };
        tasks.iter().map(flow).collect()
    }

    /// The load in one line, of which each setting has an effect: a FWD has words for all of its
    /// operations, and not every operation has a use for each. `has_instants`: so have its
    /// requests.
    fn line(&self, task: &str, has_instants: bool) -> String {
        let FileWork { access, select, stop_after, .. } = self.work;
        let transfers = transfers(task);
        let is_of_directories = is_of_directories(task);
        let stays = stays(task);
        let selects = |word: &str| select.iter().any(|other| other == word);
        let mut line = format!("{FILES_PREFIX}{task}?");
        if transfers {
            let _ = write!(line, "size={}&", self.sizes);
        }
        if let Some(read) = self.read.filter(|_| task == "mixed") {
            let _ = write!(line, "read={read}&");
        }
        let does = |word: &str| access.contains(&word);
        let way = match () {
            () if does("random") && does("shared") && stays && !selects("once") => Some("shared"),
            () if does("random") && transfers => Some("random"),
            () if does("sequentialnz") && transfers => Some("from-anywhere"),
            () => None,
        };
        if let Some(way) = way {
            let _ = write!(line, "access={way}&");
        }
        if removes_after(self.work, task) {
            line.push_str("then-delete=yes&");
        }
        for (number, word) in select.iter().enumerate() {
            let _ = match word.as_str() {
                // Directories are taken in order, and have no states.
                "random" | "poisson" | "full" | "empty" | "notfull" if is_of_directories => Ok(()),
                // It takes those and no others.
                "full" if matches!(task, "read" | "mixed" | "copy") => Ok(()),
                "notfull" if task == "create" => Ok(()),
                "random" => write!(line, "select=random&"),
                "sequentialnz" => write!(line, "select=from-anywhere&"),
                // Where each is chosen once, none is chosen more often.
                "poisson" if selects("once") => write!(line, "select=random&"),
                "poisson" => {
                    let by = select.get(number + 1).map_or(SKEW, String::as_str);
                    write!(line, "select=skewed&skew={by}&")
                }
                "once" => write!(line, "once=yes&"),
                "full" | "empty" => write!(line, "only={word}&"),
                "notfull" => write!(line, "only=not-full&"),
                _ => Ok(()),
            };
        }
        // Whole, a file is gone through anyway, and it has no more, unless places are at random.
        let is_whole = |stop: &&String| {
            let percent = stop.strip_suffix('%').and_then(|part| part.parse::<f64>().ok());
            let is_beyond = |percent: f64| percent > 100.0 && !does("random");
            percent.is_some_and(|it| (it - 100.0).abs() < f64::EPSILON || is_beyond(it))
        };
        if let Some(stop) = stop_after.as_ref().filter(|stop| transfers && !is_whole(stop)) {
            let _ = write!(line, "stop-after={stop}&");
        }
        let is_chosen = line.contains("select=");
        let several = way.is_some() || self.sizes.are_several() || task == "mixed";
        let is_drawn = transfers && several;
        if is_chosen || is_drawn || has_instants {
            let _ = write!(line, "seed={}", self.seed);
        }
        line.truncate(line.trim_end_matches(['&', '?']).len());
        line
    }

    /// The flow that makes its tree, if the run asks for that.
    pub(super) fn making(&self) -> Option<PlannedFlow> {
        let has = |word: &str| self.run.format.contains(&word);
        let asks = |words: &[&str]| words.iter().any(|word| has(word));
        let keeps = asks(&["restart", "directories", "no"]);
        let removes = asks(&["yes", "clean"]) || asks(&["only", "once", "limited"]) && !keeps;
        let makes = asks(&["yes", "restart", "only", "once", "directories", "limited"]);
        let makes = makes && !asks(&["clean", "no"]);
        let mut steps = Vec::new();
        if removes {
            steps.extend(["delete", "rmdir"]);
        }
        if makes {
            steps.push("mkdir");
            if !has("directories") {
                steps.push("fill");
            }
        }
        if steps.is_empty() || has("no") {
            return None;
        }
        let sizes = match self.format {
            Some(format) => format.sizes.clone(),
            None => Sizes::only(self.general.format_size.unwrap_or(FORMAT_SIZE)),
        };
        let mut line = format!("{FILES_PREFIX}{FORMAT}?do={}", steps.join(","));
        if steps.contains(&"fill") {
            let _ = write!(line, "&size={sizes}");
            if sizes.are_several() {
                let _ = write!(line, "&seed={}", self.seed);
            }
        }
        Some(PlannedFlow {
            name: format!("format@{}", self.tree.name),
            place: self.run.place.clone(),
            storages: vec![self.tree.name.clone()],
            paths: vec![self.tree.target(self.general, &self.open())],
            parts: Vec::new(),
            line,
            is_whole: true,
            is_closed: true,
            in_flight: self.format.map_or(FORMAT_THREADS, |format| format.threads),
            writes: true,
            is_sync: false,
            share: None,
            has_own_rate: false,
        })
    }
}

/// What these operations with this share of reads are, in the words of a flow: a share of reads is
/// that of one load which reads and writes.
pub(super) fn tasks(ops: &[&'static str], read: Option<f64>) -> Vec<&'static str> {
    match (ops, read) {
        ([], None) => vec!["read"],
        ([] | ["read" | "write"], Some(read)) => vec![match read {
            read if read <= 0.0 => "write",
            read if read >= 100.0 => "read",
            _ => "mixed",
        }],
        (ops, _) => ops.to_vec(),
    }
}

/// Whether a task reads or writes the data of files.
pub(super) fn transfers(task: &str) -> bool {
    matches!(task, "read" | "write" | "mixed")
}

pub(super) fn is_of_directories(task: &str) -> bool {
    matches!(task, "mkdir" | "rmdir")
}

/// Whether a task works on a file that is there and stays.
pub(super) fn stays(task: &str) -> bool {
    transfers(task) || matches!(task, "open" | "close" | "getattr" | "setattr" | "access")
}

/// Whether a task of a load removes files when it has gone through them.
pub(super) fn removes_after(work: &FileWork, task: &str) -> bool {
    let opens = transfers(task) || matches!(task, "create" | "open" | "close");
    opens && work.access.contains(&"delete")
}

/// What of each simulated tree is there, as the runs so far would have left it: a simulation has
/// nothing that lasts from one replay to the next.
#[derive(Debug, Default)]
struct Left(BTreeMap<String, &'static str>);

impl Left {
    /// What is found where a flow goes, and what it leaves.
    fn find(&mut self, flow: &PlannedFlow) -> &'static str {
        let name = flow.storages.first().cloned().unwrap_or_default();
        let task = files_task(&flow.line).unwrap_or_default();
        let steps = flow
            .line
            .split_once("?do=")
            .filter(|_| task == FORMAT)
            .map(|(_, rest)| rest.split('&').next().unwrap_or_default())
            .map(|steps| steps.split(',').collect::<Vec<_>>());
        // A tree that nothing has made is one that is there, unless it is about to be made.
        let first = if steps.is_some() { "nothing" } else { "full" };
        let found = *self.0.entry(name.clone()).or_insert(first);
        let left = match (&steps, task, found) {
            (Some(steps), ..) if steps.contains(&"fill") => "full",
            (Some(steps), ..) if steps.contains(&"mkdir") => "directories",
            (Some(_), ..) | (_, "rmdir", "directories") => "nothing",
            (_, "mkdir", "nothing") | (_, "delete", _) => "directories",
            (_, "create", "nothing" | "directories") => "empty",
            (_, "write", "empty") => "full",
            (_, _, found) => found,
        };
        self.0.insert(name, left);
        found
    }
}

/// The replays of a plan's runs: a run on trees that makes them first is two.
pub fn replays(leaves: impl Iterator<Item = Leaf>) -> Vec<Leaf> {
    let mut left = Left::default();
    let mut all: Vec<Leaf> = Vec::new();
    for mut leaf in leaves {
        let files: Vec<FileFlow> = std::mem::take(&mut leaf.files);
        if files.is_empty() {
            all.push(leaf);
            continue;
        }
        let makes = files.iter().filter_map(|file| file.makes.clone());
        let mut makes: Vec<PlannedFlow> = makes.collect();
        let is_first = !all.iter().any(|other| other.run == leaf.run && other.place == leaf.place);
        let is_wanted = is_first || !leaf.format.contains(&"once");
        if !makes.is_empty() && is_wanted {
            for flow in &mut makes {
                suppose(flow, &mut left);
            }
            let mut values = leaf.values.clone();
            values.push((PHASE, "format".to_owned()));
            let has_end = leaf.format.contains(&"limited");
            let (warmup, rate) = (Nanos::ZERO, LeafRate::Max);
            all.push(Leaf { flows: makes, values, rate, has_end, warmup, ..leaf.clone() });
            leaf.pause = Nanos::ZERO;
        }
        if !leaf.format.contains(&"only") {
            leaf.flows = files.into_iter().flat_map(|file| file.flows).collect();
            // What a run finds is the same for all of its loads.
            let found: Vec<&str> = leaf.flows.iter().map(|flow| left.find(flow)).collect();
            let mut of_tree: BTreeMap<String, &str> = BTreeMap::new();
            for (flow, found) in leaf.flows.iter_mut().zip(found) {
                let name = flow.storages.first().cloned().unwrap_or_default();
                let found = *of_tree.entry(name).or_insert(found);
                flow.paths.iter_mut().for_each(|path| put(path, found));
            }
            all.push(leaf);
        }
    }
    all
}

fn suppose(flow: &mut PlannedFlow, left: &mut Left) {
    let found = left.find(flow);
    flow.paths.iter_mut().for_each(|path| put(path, found));
}

/// Adds what is found to a tree in memory.
fn put(path: &mut String, found: &str) {
    if path.starts_with("sim:") {
        let _ = write!(path, "&found={found}");
    }
}
