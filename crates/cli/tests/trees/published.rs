//! Published parameter files for file systems, where `IOECHO_DATA` says they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ioecho_replay::pattern::Pattern;
use ioecho_replay::sim::{SimClock, SimDevice, SimSpec};
use ioecho_replay::tree::{Call, Clients, FileFlow, Found, InMemory, Names, Next, Tree};
use ioecho_replay::{Completion, Device as _, Io};
use ioecho_trace::workload::files::replays;
use ioecho_trace::workload::plan::{Asked, Leaf, Plan};
use ioecho_trace::workload::{self, Description, Input, Reading};
use ioecho_trace::{Bytes, Flags, Nanos};
use tempfile::TempDir;

use super::does;

/// Calls that are made of a format, and of a load.
const CALLS: [usize; 2] = [20_000, 4_000];

/// The tree in memory of a flow's target, and the file system that it lies in.
fn in_memory(path: &str, clock: &SimClock) -> (Arc<Tree>, InMemory) {
    let settings = path.strip_prefix("sim:tree?").unwrap();
    let is_other =
        |part: &&str| ["calls=", "found=", "open="].iter().any(|key| part.starts_with(key));
    let (other, shape): (Vec<&str>, Vec<&str>) = settings.split('&').partition(is_other);
    let found = other.iter().find_map(|part| part.strip_prefix("found=")).unwrap();
    let found = Found::WORDS.iter().find(|(word, _)| *word == found).unwrap().1;
    let tree = Arc::new(Tree::new(shape.join("&").parse().unwrap()));
    tree.suppose(found);
    let names = Arc::new(Mutex::new(Names::of(&tree, Bytes(1 << 60), u64::MAX)));
    let calls = "model=exp,units=10,service=100us,bandwidth=1T".parse::<SimSpec>().unwrap();
    (tree, InMemory::new(SimDevice::new(calls, clock.clone()), names, None))
}

/// Makes the calls of a run's threads in memory, so many at most; returns how often each operation
/// ended so.
fn calls_of(leaf: &Leaf, most: usize) -> BTreeMap<(&'static str, i32), usize> {
    let clock = SimClock::new(Nanos(20));
    let mut trees = BTreeMap::new();
    let paths: Vec<&str> = leaf.flows.iter().map(|flow| flow.paths[0].as_str()).collect();
    for path in &paths {
        trees.entry(*path).or_insert_with(|| in_memory(path, &clock));
    }
    let mut threads: Vec<Clients> = Vec::new();
    for (flow, path) in leaf.flows.iter().zip(&paths) {
        let tree = Arc::clone(&trees[path].0);
        let shared = FileFlow::new(flow.line.parse().unwrap(), tree, None).unwrap();
        threads.push(Clients::new(Arc::new(shared), 0, u32::try_from(flow.in_flight).unwrap()));
    }
    let (mut counts, mut left) = (BTreeMap::new(), most);
    let mut pattern = Pattern::new(1);
    let mut asked: BTreeMap<(&str, u32), (usize, Call)> = BTreeMap::new();
    loop {
        for (flow, path) in paths.iter().enumerate() {
            while left > 0
                && let Next::Call(call) = threads[flow].poll(Nanos::ZERO)
            {
                let tag = (0..u32::MAX).find(|tag| !asked.contains_key(&(*path, *tag))).unwrap();
                let io = Io {
                    tag,
                    request: 0,
                    scheduled: Nanos::ZERO,
                    op: call.op,
                    flags: Flags::empty(),
                    offset: Bytes(call.place),
                    length: Bytes(call.length),
                };
                asked.insert((*path, tag), (flow, call));
                trees.get_mut(path).unwrap().1.prepare(&io, &mut pattern);
                left -= 1;
            }
        }
        if asked.is_empty() {
            return counts;
        }
        for (path, (_, device)) in &mut trees {
            let mut done = Vec::new();
            device.submit().unwrap();
            if asked.keys().any(|(of, _)| of == path) {
                device.wait(Nanos::MAX, &mut done).unwrap();
            }
            for Completion { tag, outcome, submitted, completed, .. } in done {
                let (flow, call) = asked.remove(&(*path, tag)).unwrap();
                *counts.entry((call.op.name(), outcome.code())).or_default() += 1;
                threads[flow].completed(call.client, outcome, submitted, completed);
            }
        }
    }
}

/// The published files that are complete and have loads on trees.
fn published() -> Option<Vec<(PathBuf, Description)>> {
    let files = ioecho_fixture::recording("vdbench-parmfiles")?;
    let mut files: Vec<PathBuf> =
        fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let name = file.to_str().unwrap().to_owned();
        let input = Input { name, bytes: fs::read(&file).ok()? };
        let none = |_: &str, _: &str| Err("no file is included".to_owned());
        let read = workload::read(&[input], &Reading::default(), &none).ok()?;
        (!read.workload.file_works.is_empty()).then_some((file, read))
    };
    Some(files.into_iter().filter_map(read).collect())
}

/// Published files, where `IOECHO_DATA` says they are: no run of those that are complete makes a
/// call that fails, neither where its trees are made nor in its loads.
#[test]
fn loads_of_published_files_never_err_about_their_trees() {
    let Some(files) = published() else { return };
    let (mut done, mut made, mut wrong) = (0, 0, Vec::new());
    for (file, mut description) in files {
        description.workload.put_instead("*", "sim").unwrap();
        description.workload.shrink(1000);
        let asked = Asked { seed: 1, only: Vec::new(), from: None };
        let Ok(plan) = Plan::new(&description.workload, asked, &|_| None) else { continue };
        if let Err(faults) = description.check_runs(&plan, &|_| None, true) {
            wrong.push(format!("{}: {faults}", file.display()));
            continue;
        }
        let first = plan.leaves().next().unwrap();
        let of_first = plan.leaves().filter(|leaf| leaf.run == first.run).take(2);
        for leaf in replays(of_first).iter().take(3) {
            let is_format = leaf.values.iter().any(|(key, _)| *key == "phase");
            let counts = calls_of(leaf, CALLS[usize::from(!is_format)]);
            // Some have nothing to do, such as those that remove what is not there.
            made += usize::from(counts.values().sum::<usize>() > 0);
            if counts.keys().any(|(_, outcome)| *outcome != 0) {
                wrong.push(format!("{}: {:?}: {counts:?}", file.display(), leaf.values));
            }
        }
        done += 1;
    }
    assert!(wrong.is_empty(), "{} of {done}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(done >= 29 && made >= done, "{done} files have loads on trees, {made} make calls");
}

/// The same by the program, each of the first runs of each file to its end, with all its results.
/// No figure is called into doubt but those of a load that found nothing to do: four files make
/// what their own format has made, or read a directory in which there is no file.
#[test]
fn published_files_of_trees_run_in_simulation() {
    let Some(files) = published() else { return };
    let home = TempDir::new().unwrap();
    let (mut done, mut idle, mut wrong) = (0, 0, Vec::new());
    for (number, (file, description)) in files.into_iter().enumerate() {
        let only = &description.workload.runs[0].name;
        let store = format!("{number}.s");
        let device = "*=sim:model=exp,units=10,service=100us,bandwidth=1T";
        let words = [
            &["run", "-q", file.to_str().unwrap(), "-t", device, "--local", "--seed", "1"][..],
            &["--only", only, "-o", &store, "--shrink", "100000", "--set", "elapsed=5ms"],
            &["--set", "warmup=0s", "--set", "pause=0s"],
        ];
        let (code, told) = does(&home, &words.concat());
        let (mut has_idle, mut has_doubtful) = (false, false);
        for cell in fs::read_dir(home.path().join(&store).join("cells")).unwrap() {
            let told = fs::read_to_string(cell.unwrap().path().join("1/output.txt")).unwrap();
            let found_nothing = told.contains("; threads of it ended")
                && told.contains("nothing was replayed: no request was issued. [INVALID]");
            has_idle |= found_nothing;
            has_doubtful |= !found_nothing && !told.contains("[faithful, VALID]");
        }
        let expected = if has_idle { 14 } else { 0 };
        let are_all = told.contains(" 0 failed, 0 skipped, 0 missing");
        if code != expected || has_doubtful || !are_all {
            wrong.push(format!("{}: {code}: {told}", file.display()));
        }
        idle += u32::from(has_idle);
        done += 1;
    }
    assert!(wrong.is_empty(), "{} of {done}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(idle, 4, "files of which a run finds nothing to do");
    assert!(done >= 29, "only {done} files have loads on trees");
}
