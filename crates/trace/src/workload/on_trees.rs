//! What of loads on trees is refused, or told, before any of them is run.
//!
//! The words of a FWD are for all of its operations, and not every operation has a use for each.
//! What changes nothing, or a tree that cannot be, must not wait for the first run to be found: its
//! results would have the label of another load.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Description;
use super::able::{Spot, spot};
use super::fault::Faults;
use super::files::{is_of_directories, removes_after, stays, tasks, transfers};
use super::keys::Section;
use super::model::{FileWork, Loop, Run, Told, Tree, Value, Workload};
use super::plan::Plan;

/// Loops over settings that a load on a tree does not have.
const OF_STORAGES: [&str; 6] = ["read-hits", "write-hits", "seek", "hit-area", "shift", "align"];

/// Loops over settings that a load on a storage does not have.
const OF_TREES: [&str; 7] = ["depth", "width", "files", "sizes", "total", "working-set", "each-op"];

/// Refuses what the loads of a run on trees cannot do, and loops that change nothing.
pub(super) fn check(workload: &Workload, run: &Run, faults: &mut Faults, told: &mut Vec<Told>) {
    let works = run.file_works.iter().map(|at| &workload.file_works[*at]);
    for work in works {
        refuse_copies(work, run, faults);
        refuse_shares(work, run, faults);
        tell_renamed(work, run, told);
        for tree in work.trees.iter().map(|at| &workload.trees[*at]) {
            refuse_sizes(tree, run, faults);
        }
    }
    for each in &run.loops {
        let Some(why) = why_idle(workload, run, each) else { continue };
        let what = format!("the loop over '{}' changes nothing: {why}", each.key);
        if each.values.len() > 1 {
            faults.impossible(&run.place, what, "take it out, or give it one value");
        } else {
            told.push(Told { place: run.place.clone(), what });
        }
    }
}

/// Each set of operations that a load has in this run.
fn ops<'w>(work: &'w FileWork, run: &'w Run) -> Vec<Vec<&'static str>> {
    let looped: Vec<Vec<&'static str>> = values(run, "each-op")
        .filter_map(|value| match value {
            Value::Word(op) => Some(vec![*op]),
            _ => None,
        })
        .collect();
    match (looped.is_empty(), run.ops.is_empty()) {
        (false, _) => looped,
        (true, false) => vec![run.ops.clone()],
        (true, true) => vec![work.ops.clone()],
    }
}

/// The shares of reads that a load has in this run.
fn shares(work: &FileWork, run: &Run) -> Vec<Option<f64>> {
    let looped: Vec<Option<f64>> = values(run, "read")
        .filter_map(|value| match value {
            Value::Decimal(percent) => Some(Some(*percent)),
            _ => None,
        })
        .collect();
    if looped.is_empty() { vec![work.read] } else { looped }
}

fn values<'r>(run: &'r Run, key: &'static str) -> impl Iterator<Item = &'r Value> {
    run.loops.iter().filter(move |it| it.key == key).flat_map(|it| &it.values)
}

/// A tree of a file of runs knows no other one.
fn refuse_copies(work: &FileWork, run: &Run, faults: &mut Faults) {
    let is_copy = |op: &&'static str| matches!(*op, "copy" | "move");
    if !ops(work, run).iter().flatten().any(is_copy) {
        return;
    }
    let place = if work.ops.iter().any(is_copy) { &work.place } else { &run.place };
    let reason = "copies and moves are not run from a file of runs yet";
    let help = "leave them out, or replay such a flow by itself: files:copy?to=2";
    faults.impossible(place, reason, help);
}

/// A share of reads is that of one load. Where a file asks for reads and for writes as well, nobody
/// knows which of the two it means.
fn refuse_shares(work: &FileWork, run: &Run, faults: &mut Faults) {
    let of_data = |ops: &Vec<&str>| ops.len() > 1 && ops.iter().any(is_of_share);
    let has_share = shares(work, run).iter().any(Option::is_some);
    if has_share && ops(work, run).iter().any(of_data) {
        let reason = format!("'{}' has a share of reads, and reads or writes apart", work.name);
        let help = "ask for read alone with this share, or for each operation in a load of its own";
        faults.impossible(&work.place, reason, help);
    }
}

fn is_of_share(op: &&str) -> bool {
    matches!(*op, "read" | "write")
}

/// Tells of a loop over operations in which a load reads and writes where the loop says one of
/// both.
fn tell_renamed(work: &FileWork, run: &Run, told: &mut Vec<Told>) {
    let is_looped = values(run, "each-op").next().is_some();
    let shares = shares(work, run);
    let is_other = |ops: &Vec<&'static str>| {
        ops.iter().any(is_of_share) && shares.iter().any(|read| tasks(ops, *read) != *ops)
    };
    let what =
        format!("'{}' reads and writes by its share of reads in all of its loops", work.name);
    if is_looped && ops(work, run).iter().any(is_other) {
        told.push(Told { place: run.place.clone(), what });
    }
}

/// The largest of the trees that the loops of a run make must be possible.
fn refuse_sizes(tree: &Tree, run: &Run, faults: &mut Faults) {
    let mut largest = tree.clone();
    let mut place = &tree.place;
    for each in &run.loops {
        let number = |value: &&Value| match value {
            Value::Number(number) | Value::Size(number) => *number,
            _ => 0,
        };
        if let ("depth" | "width" | "files" | "sizes", Some(value)) =
            (each.key, each.values.iter().max_by_key(number))
        {
            largest.set(each.key, value);
            place = &run.place;
        }
    }
    if let Err(reason) = largest.levels() {
        let reason = format!("the tree '{}' is not possible: {reason}", tree.name);
        faults.impossible(place, reason, "take smaller numbers: depth, width, files or sizes");
    }
}

/// Why a loop changes nothing in any load of a run.
fn why_idle(workload: &Workload, run: &Run, each: &Loop) -> Option<&'static str> {
    let on_trees = !run.file_works.is_empty();
    if on_trees && OF_STORAGES.contains(&each.key) {
        return Some("loads on trees have no such setting");
    }
    if !on_trees && OF_TREES.contains(&each.key) {
        return Some("loads on storages have no such setting");
    }
    let mut works = run.file_works.iter().map(|at| &workload.file_works[*at]);
    let has_data = |work: &FileWork| tasks_of(work, run).iter().any(|task| transfers(task));
    let is_of_data = matches!(each.key, "read" | "size");
    let is_idle = on_trees && is_of_data && !works.any(has_data);
    is_idle.then_some("no load of the run reads or writes")
}

/// Everything that a load does in a run.
fn tasks_of(work: &FileWork, run: &Run) -> BTreeSet<&'static str> {
    let shares = shares(work, run);
    let each = |ops: Vec<&'static str>| {
        shares.iter().flat_map(|read| tasks(&ops, *read)).collect::<Vec<_>>()
    };
    ops(work, run).into_iter().flat_map(each).collect()
}

/// Tells of the settings of loads on trees that none of their operations has a use for; of one that
/// a default gives to several loads only if none has, and once.
pub(super) fn tell_idle(description: &Description, plan: &Plan<'_>, told: &mut Vec<Told>) {
    let works = &description.workload.file_works;
    let mut done: HashMap<&str, (&FileWork, BTreeSet<&'static str>)> = HashMap::new();
    for run in plan.runs() {
        for work in run.file_works.iter().map(|at| &works[*at]) {
            let (_, tasks) = done.entry(&work.name).or_insert_with(|| (work, BTreeSet::new()));
            tasks.extend(tasks_of(work, run));
        }
    }
    let mut found: BTreeMap<Spot, Option<Told>> = BTreeMap::new();
    for definition in description.definitions.iter().filter(|it| it.section == Section::FileWork) {
        let Some((work, tasks)) = done.get(definition.name.as_str()) else { continue };
        for entry in &definition.entries {
            let (key, place) = (entry.key.name, &entry.place);
            let told = why_unused(key, work, tasks).map(|why| Told {
                place: place.clone(),
                what: format!("{key}= counts for nothing in '{}': {why}", work.name),
            });
            let kept = found.entry(spot(place)).or_insert_with(|| told.clone());
            *kept = kept.take().filter(|_| told.is_some());
        }
    }
    told.extend(found.into_values().flatten());
}

/// Why a setting of a load that does this changes nothing.
fn why_unused(key: &str, work: &FileWork, tasks: &BTreeSet<&'static str>) -> Option<String> {
    let any = |is: fn(&str) -> bool| tasks.iter().any(|task| is(task));
    let has = |word: &str| work.access.contains(&word);
    let is_used = match key {
        "rdpct" | "xfersizes" | "stopafter" => any(transfers),
        "fileio" => {
            let removes = tasks.iter().any(|task| removes_after(work, task));
            any(transfers) || removes || has("shared") && any(stays)
        }
        "fileselect" => {
            any(|task| !is_of_directories(task)) || work.select.iter().any(|word| word == "once")
        }
        _ => true,
    };
    let tasks: Vec<&str> = tasks.iter().copied().collect();
    (!is_used).then(|| format!("it is no setting of {}", tasks.join(", ")))
}
