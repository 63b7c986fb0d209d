//! What of a description cannot be run yet.
//!
//! A description is planned and shown with everything that its language can say. A run of it must
//! not differ from what it says, so what the engine cannot do yet is refused at its place, with the
//! remedy, and what has no part in a run is told.

use std::collections::HashSet;

use super::Description;
use super::definitions::{Definition, Entry};
use super::fault::Faults;
use super::keys::Section;
use super::model::{Extent, Storage, Told};
use super::plan::{Leaf, LeafRate, Plan, PlannedFlow, SizeOf};
use crate::place::Place;
use crate::units::Nanos;

/// The most runs that are done from one file: the results of each are a directory.
const RUNS_MAX: usize = 10_000;

/// The longest pause before a run.
const PAUSE_MAX: Nanos = Nanos::from_secs(3600);

/// Units of equal data are multiples of so many bytes.
const DEDUP_UNIT: u64 = 4096;

/// The largest unit of equal data, in bytes.
const DEDUP_UNIT_MAX: u64 = 1 << 30;

/// Keys that are refused unless their value is `no`: the reason and the remedy.
const LATER: &[(Section, &str, &str, &str)] = &[
    (Section::General, "startcmd", NO_COMMANDS, RUN_IT),
    (Section::General, "endcmd", NO_COMMANDS, RUN_IT),
    (Section::General, "loop", "the runs are done once", "take it out, and run the file again"),
    (Section::General, "timeout", "no run is ended by a time-out", "take it out"),
    (Section::General, "formatsds", "storages are not filled first", "fill them with prepare"),
    (Section::General, "pattern", "data are made here", "take it out"),
    (Section::General, "deduphotsets", DEDUP, "take it out"),
    (Section::General, "dedupflipflop", DEDUP, "take it out"),
    (Section::General, "dedupacross", DEDUP, "take it out"),
    (Section::Storage, "replay", NO_REPLAY, NO_REPLAY_HELP),
    (Section::Storage, "dedupratio", OF_ALL, "write it on a line before sd="),
    (Section::Storage, "dedupunit", OF_ALL, "write it on a line before sd="),
    (Section::Storage, "dedupsets", OF_ALL, "take it out"),
    (Section::Storage, "deduphotsets", OF_ALL, "take it out"),
    (Section::Storage, "dedupflipflop", OF_ALL, "take it out"),
    (Section::Work, "priority", "no load goes before another", "take it out"),
    (Section::Run, "startcmd", NO_COMMANDS, RUN_IT),
    (Section::Run, "endcmd", NO_COMMANDS, RUN_IT),
    (Section::Run, "replay", NO_REPLAY, NO_REPLAY_HELP),
    (Section::Tree, "mask", "files and directories have the usual names", "take it out"),
    (Section::FileWork, "target", "only copies and moves go to another tree", "take it out"),
];

const NO_COMMANDS: &str = "commands of a file are not run";
const RUN_IT: &str = "run it yourself, and take it out";
const ONLY: &str = "name the runs that are to be done, and leave out the others";
const DEDUP: &str = "equal data follow from dedupratio alone";
const OF_ALL: &str = "all storages of a run have data of one kind";
const NO_REPLAY: &str = "recordings are not replayed from a file of runs";
const NO_REPLAY_HELP: &str = "replay it by itself, and take it out";

/// Keys that have no part in a run, with the reason.
const TOLD: &[(&str, &str)] = &[
    ("histogram", "histograms have bins of their own"),
    ("report", "each run has all reports"),
    ("report_run_totals", "each run has all reports"),
    ("monitor", "the runs are ended as those of any campaign"),
    ("messagescan", "the kernel's messages are not read"),
    ("showlba", "requests.parquet has every place"),
    ("abort_failed_skew", "shares are kept by the engine"),
    ("compressionseed", "data have the seeds of their requests"),
    ("dedupsets", "how often equal data are written follows from dedupratio alone"),
];

/// What is told of the runs of a plan. `is_local` says that this host does what others would.
///
/// # Errors
///
/// Everything that cannot be run, at its place.
pub(super) fn check(
    description: &Description,
    plan: &Plan<'_>,
    size_of: SizeOf<'_>,
    is_local: bool,
) -> Result<Vec<Told>, Faults> {
    let mut check = Check { description, faults: Faults::default(), told: Vec::new() };
    check.definitions(plan);
    super::on_trees::tell_idle(description, plan, &mut check.told);
    super::verified::check(description, plan, &mut check.faults, &mut check.told);
    check.hosts(is_local);
    if plan.count() > RUNS_MAX {
        let reason = format!("these are {} runs, and at most {RUNS_MAX} are done", plan.count());
        let place = plan.runs().next().map_or(Place::outside("the file"), |run| run.place.clone());
        check.faults.impossible(&place, reason, ONLY);
    }
    if check.faults.is_empty() {
        check.leaves(plan, size_of);
    }
    if check.faults.is_empty() { Ok(check.told) } else { Err(check.faults) }
}

struct Check<'d> {
    description: &'d Description,
    faults: Faults,
    told: Vec<Told>,
}

impl Check<'_> {
    /// Looks at every key of the definitions that the runs use.
    fn definitions(&mut self, plan: &Plan<'_>) {
        let workload = &self.description.workload;
        let mut used: HashSet<Spot> = HashSet::new();
        for run in plan.runs() {
            used.insert(spot(&run.place));
            used.extend(run.works.iter().map(|at| spot(&workload.works[*at].place)));
            for work in run.file_works.iter().map(|at| &workload.file_works[*at]) {
                used.insert(spot(&work.place));
                used.extend(work.trees.iter().map(|at| spot(&workload.trees[*at].place)));
            }
        }
        for leaf in plan.leaves().take(RUNS_MAX) {
            let names: HashSet<&String> =
                leaf.flows.iter().flat_map(|flow| &flow.storages).collect();
            let storages = workload.storages.iter().filter(|it| names.contains(&it.name));
            used.extend(storages.map(|storage| spot(&storage.place)));
        }
        for definition in &self.description.definitions {
            let is_used =
                definition.section == Section::General || used.contains(&spot(&definition.place));
            for entry in definition.entries.iter().filter(|_| is_used) {
                self.entry(definition, entry);
            }
        }
    }

    fn entry(&mut self, definition: &Definition, entry: &Entry) {
        let Definition { section, .. } = definition;
        let name = entry.key.name;
        let is_no = entry.items.iter().all(|item| item.text.eq_ignore_ascii_case("no"));
        let later = LATER.iter().find(|(its, key, ..)| its == section && *key == name);
        if let Some((_, _, reason, help)) = later.filter(|_| !is_no) {
            self.faults.impossible(&entry.place, *reason, *help);
        }
        let told = TOLD.iter().find(|(key, _)| *key == name && *section == Section::General);
        let told = told.map(|(_, why)| *why).or(match (section, name) {
            (Section::Storage, "journal") => Some("what a journal notes is kept with the results"),
            (Section::Tree, "journal") => Some("without validate= nothing is kept there"),
            (Section::Tree, "shared") if !is_no => Some("one host has all of its files"),
            (Section::Run, "format") if definition.get("fwd").is_none() => {
                Some("a device is not formatted")
            }
            _ => None,
        });
        if let Some(why) = told {
            let what = format!("{name}= counts for nothing in a run: {why}");
            self.told.push(Told { place: entry.place.clone(), what });
        }
        match (section, name) {
            (Section::General, "data_errors") => {
                let is_count = self.description.workload.general.errors_max.is_some();
                if !is_count {
                    let reason = "failed requests end a run by their number alone";
                    self.faults.impossible(&entry.place, reason, "write a number: data_errors=5");
                }
            }
            (Section::General, "dedupunit") => {
                let unit = self.description.workload.general.dedup_unit.unwrap_or(DEDUP_UNIT);
                let is_whole = unit.is_multiple_of(DEDUP_UNIT);
                if !is_whole || !(DEDUP_UNIT..=DEDUP_UNIT_MAX).contains(&unit) {
                    let reason = "equal data have a unit of a multiple of 4k, at most 1g";
                    self.faults.impossible(&entry.place, reason, "write dedupunit=4k");
                }
            }
            (Section::Storage | Section::Work, "openflags") => {
                let has = |flags: &[&str]| {
                    entry.items.iter().any(|item| flags.contains(&item.text.as_str()))
                };
                if has(&["fsync"]) && !has(&["o_sync", "o_dsync"]) {
                    let reason = "nothing is flushed at the end of a run";
                    let help = "write o_dsync: each write is on the medium when it completes";
                    self.faults.impossible(&entry.place, reason, help);
                }
            }
            _ => {}
        }
    }

    /// Other hosts take no part yet.
    fn hosts(&mut self, is_local: bool) {
        let workload = &self.description.workload;
        let is_here = |system: &str| matches!(system, "localhost" | "127.0.0.1" | "::1");
        let others: HashSet<&str> = workload
            .hosts
            .iter()
            .filter(|host| host.name != "default" && !is_here(&host.system))
            .map(|host| host.name.as_str())
            .collect();
        let definitions = self.description.definitions.iter();
        let mut hosts = definitions
            .filter(|it| it.section == Section::Host && others.contains(it.name.as_str()));
        let Some(first) = hosts.next() else { return };
        if is_local {
            let what = "this host does what the others would, once".to_owned();
            self.told.push(Told { place: first.place.clone(), what });
            return;
        }
        let reason = "other hosts take no part in the runs of a file yet";
        let help = "say that this host is to do all of it (local)";
        self.faults.impossible(&first.place, reason, help);
    }

    /// Looks at every run.
    fn leaves(&mut self, plan: &Plan<'_>, size_of: SizeOf<'_>) {
        let mut sized = HashSet::new();
        for leaf in plan.leaves() {
            let named = leaf.flows.iter().flat_map(|flow| &flow.storages);
            let new: HashSet<&String> = named.filter(|name| !sized.contains(*name)).collect();
            let storages = self.description.workload.storages.iter();
            for storage in storages.filter(|it| new.contains(&it.name)) {
                self.size(storage, size_of(storage));
            }
            sized.extend(new.into_iter().cloned());
            self.leaf(&leaf);
            self.files(&leaf);
            for flow in &leaf.flows {
                self.flow(&leaf, flow);
            }
        }
    }

    fn size(&mut self, storage: &Storage, found: Option<u64>) {
        let Storage { name, place, size, .. } = storage;
        let path = storage.path();
        match (found, size) {
            (None, _) => {
                let reason = format!("{path} is not on this host, or has no size");
                let help = format!(
                    "make it first, or let a target such as {name}=sim:size=64G stand in for it"
                );
                self.faults.impossible(place, reason, help);
            }
            (Some(found), Some(Extent::Bytes(size))) if *size > found => {
                let reason = format!("{path} has {found} bytes, and size= asks for {size}");
                self.faults.impossible(place, reason, "write a smaller size=, or leave it out");
            }
            (Some(_), _) => {}
        }
    }

    fn leaf(&mut self, leaf: &Leaf) {
        let mut syncs = leaf.flows.iter().filter(|flow| flow.writes).map(|flow| flow.is_sync);
        if let Some(first) = syncs.next()
            && syncs.any(|is_sync| is_sync != first)
        {
            let reason = "some loads of this run write synchronously, and others do not";
            self.faults.impossible(&leaf.place, reason, "give all of them the same openflags=");
        }
        let has_data = leaf.data.iter().any(Option::is_some);
        let is_told = self.told.last().is_some_and(|told| told.place == leaf.place);
        if has_data && !leaf.ends_by_data() && !is_told {
            let what = "maxdata= and its kin count for nothing in a run: no host moves so much in \
                        its time"
                .to_owned();
            self.told.push(Told { place: leaf.place.clone(), what });
        }
        if leaf.pause > PAUSE_MAX {
            let reason = format!("a pause of {} is too long", leaf.pause);
            self.faults.impossible(&leaf.place, reason, "a pause is at most an hour");
        }
        if leaf.flows.is_empty() && leaf.files.is_empty() {
            let reason = "this run has no load on a storage";
            self.faults.impossible(&leaf.place, reason, ONLY);
        }
    }

    /// Looks at the loads on trees.
    fn files(&mut self, leaf: &Leaf) {
        if leaf.files.is_empty() {
            return;
        }
        let mut refuse = |reason: &str, help: &str| {
            self.faults.impossible(&leaf.place, reason, help);
        };
        if !matches!(leaf.rate, LeafRate::Max | LeafRate::Fixed(_)) {
            refuse("rates of loads on trees do not change yet", "write numbers, or max");
        }
        if !leaf.flows.is_empty() {
            refuse("a run is one on storages or on trees", "make two runs of it");
        }
        if leaf.ends_by_data() {
            refuse("an amount of data ends no run on trees yet", "take maxdata= out");
        }
        let flows = leaf.files.iter().flat_map(|file| &file.flows);
        let mut paths: Vec<(&str, &str)> = Vec::new();
        for flow in flows {
            for (name, path) in flow.storages.iter().zip(&flow.paths) {
                if paths.iter().any(|(other, at)| other == name && at != path) {
                    refuse(
                        "loads of this run open the files of one tree in different ways",
                        "give all of them the same openflags=",
                    );
                    return;
                }
                paths.push((name, path));
            }
        }
        if leaf.format.contains(&"complete") {
            let what = "format=complete is not checked: a run takes its tree as it finds it";
            self.told.push(Told { place: leaf.place.clone(), what: what.to_owned() });
        }
    }

    fn flow(&mut self, leaf: &Leaf, flow: &PlannedFlow) {
        let PlannedFlow { name, place, storages, line, share, .. } = flow;
        let mut refuse = |reason: String, help: &str| self.faults.impossible(place, reason, help);
        let is_joined = storages.len() > 1;
        if is_joined && self.description.workload.general.verification().is_on() {
            let reason =
                format!("'{name}' has several storages as one volume: nothing is verified");
            refuse(reason, "take validate= and journal= out, or concatenatesds=");
        }
        if is_joined && !line.starts_with(crate::generate::PREFIX) {
            let reason = format!("'{name}' replays a trace on several storages as one volume");
            refuse(reason, "replay it by itself, with a map of its volumes");
        }
        if flow.has_own_rate && matches!(leaf.rate, LeafRate::Share { .. }) {
            let reason = "in a curve all loads have their share of its rate";
            refuse(reason.to_owned(), "take iorate= out of the wd, or run it without the curve");
        }
        let is_recorded = !line.starts_with(crate::generate::PREFIX);
        if is_recorded && !flow.is_closed {
            let reason = format!("'{name}' has the instants of a recording, and no rate");
            refuse(reason, "run it at rate = \"max\"");
        }
        if line.contains(';') {
            refuse(format!("the name of the load of '{name}' holds a ';'"), "rename it");
        }
        if flow.is_closed && share.is_some_and(|share| share < 1e-6) {
            refuse(format!("'{name}' has no share of the rate"), "leave it out, or give it a skew");
        }
    }
}

/// A place that can be looked up.
pub(super) type Spot = (std::sync::Arc<str>, usize, usize);

pub(super) fn spot(place: &Place) -> Spot {
    (place.file.clone(), place.line, place.column)
}
