//! Threads on a tree of files that are killed, or lose their power, at any moment: what is left is
//! never called damage, and what is damaged by hand is named, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ioecho_replay::pattern::{Pattern, SplitMix64};
use ioecho_replay::tree::{Call, Clients, FileFlow, FileLoad, Geometry, Next, Tree};
use ioecho_replay::verify::{
    After, Change, DurableBefore, FoundName, FoundNames, MemoryTable, NameBook, NameDamage,
    ReadFiles, Rebuild, Verifier, VerifyConfig, VersionTable, begin_together,
};
use ioecho_replay::{Completion, Io, Payload as _};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

const SEEDS: u64 = 400;

const ENOENT: i32 = 2;
const EEXIST: i32 = 17;

/// All that changes a tree, and reads.
const LOADS: [(&str, u32); 7] = [
    ("files:format?do=mkdir,fill&size=1k", 2),
    ("files:write?size=512&select=random", 1),
    ("files:write?size=1k&access=random&select=random", 1),
    ("files:read?size=512&select=random", 1),
    ("files:delete?select=random", 1),
    ("files:create?select=random", 1),
    ("files:getattr?select=random", 1),
];

/// A file system.
#[derive(Clone)]
struct Disk {
    geometry: Geometry,
    files: Vec<Option<Vec<u8>>>,
    directories: Vec<bool>,
}

impl Disk {
    fn new(geometry: &Geometry) -> Self {
        Self {
            geometry: geometry.clone(),
            files: vec![None; geometry.files() as usize],
            directories: vec![false; geometry.directories() as usize],
        }
    }

    fn has(&self, directory: Option<u64>) -> bool {
        directory.is_none_or(|directory| self.directories[directory as usize])
    }

    /// Does a call; `data` is what is written.
    fn call(&mut self, io: &Io, data: &[u8]) -> Outcome {
        let number = self.geometry.number_at(io.offset.0);
        let within = self.geometry.within(io.offset.0) as usize;
        let directory = number.wrapping_sub(self.geometry.files());
        let file = self.files.get(number as usize).and_then(Option::as_ref);
        let done = match io.op {
            Op::Mkdir if self.directories[directory as usize] => Err(EEXIST),
            Op::Mkdir if !self.has(self.geometry.parent(directory)) => Err(ENOENT),
            Op::Mkdir => {
                self.directories[directory as usize] = true;
                Ok(())
            }
            Op::Create if file.is_some() => Err(EEXIST),
            Op::Create if !self.has(self.geometry.directory_of(number)) => Err(ENOENT),
            Op::Create => {
                self.files[number as usize] = Some(Vec::new());
                Ok(())
            }
            _ if file.is_none() => Err(ENOENT),
            Op::Delete => {
                self.files[number as usize] = None;
                Ok(())
            }
            Op::Write => {
                let file = self.files[number as usize].as_mut().unwrap();
                let end = within + data.len();
                file.resize(file.len().max(end), 0);
                file[within..end].copy_from_slice(data);
                Ok(())
            }
            Op::Read if file.unwrap().len() < within + io.length.0 as usize => {
                return Outcome::Short;
            }
            _ => Ok(()),
        };
        done.map_or_else(Outcome::Error, |()| Outcome::Ok)
    }

    fn found(&self) -> FoundNames {
        let mut found = FoundNames::nothing(&self.geometry);
        for (number, file) in (0..).zip(&self.files) {
            if let Some(file) = file {
                found.add_file(number, file.len() as u64);
            }
        }
        let there = (0..).zip(&self.directories).filter(|(_, there)| **there);
        there.for_each(|(number, _)| found.add_directory(number));
        found
    }

    /// The tree as a run finds it.
    fn tree(&self) -> Arc<Tree> {
        let tree = Tree::new(self.geometry.clone());
        let there = (0..).zip(&self.directories).filter(|(_, there)| **there);
        there.for_each(|(number, _)| tree.put_directory(number));
        for (number, file) in (0..).zip(&self.files) {
            if let Some(file) = file {
                tree.put_file(number, file.len() as u64);
            }
        }
        Arc::new(tree)
    }
}

impl ReadFiles for Disk {
    fn read(&mut self, file: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let file = self.files[file as usize].as_ref().ok_or(io::ErrorKind::NotFound)?;
        let rest = file.get(at as usize..).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// A call in flight.
struct Flying {
    flow: usize,
    call: Call,
    io: Io,
    data: Vec<u8>,
    submitted: Nanos,
}

/// What is left of a run.
struct Killed {
    book: NameBook,
    changes: Vec<Change>,
    /// The disk after each call.
    history: Vec<Disk>,
}

/// Threads work on the disk, and are killed; the verifier that went along has found nothing.
fn run(seed: u64, disk: &mut Disk, config: VerifyConfig, verifier: &mut Verifier) -> Killed {
    let mut random = SplitMix64(seed);
    let tree = disk.tree();
    let found = disk.found();
    let book = NameBook::of(disk.geometry.clone(), &found);
    if verifier.names().is_some() {
        verifier.begin_with(&found);
    } else {
        verifier.put_names(NameBook::of(disk.geometry.clone(), &found));
    }
    let loads = LOADS.iter().enumerate().map(|(number, (line, threads))| {
        let load = FileLoad { seed: seed + number as u64, ..line.parse().unwrap() };
        let flow = FileFlow::new(load, Arc::clone(&tree), None).unwrap();
        Clients::new(Arc::new(flow), 0, *threads)
    });
    let mut loads: Vec<Clients> = loads.collect();
    let mut pattern = Pattern::new(config.run);
    let mut flying: Vec<Flying> = Vec::new();
    let (mut changes, mut history) = (Vec::new(), vec![disk.clone()]);
    let mut now = 0;
    for request in 0..random.below(300) {
        now += 1;
        let flow = random.below(loads.len() as u64) as usize;
        if let Next::Call(call) = loads[flow].poll(Nanos(now)) {
            let io = Io {
                tag: flow as u32 * 4 + call.client,
                request,
                scheduled: Nanos(now),
                op: call.op,
                flags: Flags::empty(),
                offset: Bytes(call.place),
                length: Bytes(call.length),
            };
            let mut data = Vec::new();
            if io.op == Op::Write {
                data = vec![0; io.length.0 as usize];
                pattern.fill(&io, &mut data);
            }
            verifier.issued(&io, Nanos(now));
            flying.push(Flying { flow, call, io, data, submitted: Nanos(now) });
        }
        while flying.len() > 3 || !flying.is_empty() && random.below(3) == 0 {
            now += 1;
            let done = flying.swap_remove(random.below(flying.len() as u64) as usize);
            let Flying { flow, call, io, data, submitted } = done;
            let outcome = disk.call(&io, &data);
            assert_eq!(outcome, Outcome::Ok, "{call:?}");
            history.push(disk.clone());
            let read = if io.op == Op::Read {
                let mut read = vec![0; io.length.0 as usize];
                let geometry = disk.geometry.clone();
                let number = geometry.number_at(io.offset.0);
                disk.read(number, geometry.within(io.offset.0), &mut read).unwrap();
                read
            } else {
                Vec::new()
            };
            let completed = Nanos(now);
            let integrity = Integrity::Unchecked;
            let completion = Completion { tag: io.tag, submitted, completed, outcome, integrity };
            verifier.completed(&io, &completion, &read);
            changes.push(change(&io, submitted, Some(completed), outcome));
            loads[flow].completed(call.client, outcome, submitted, completed);
        }
    }
    assert!(!verifier.figures().is_damaged(), "{:?}", verifier.name_findings());
    for Flying { io, data, submitted, .. } in flying {
        changes.push(change(&io, submitted, None, Outcome::Abandoned));
        let part = match random.below(3) {
            0 => continue,
            1 => random.below(data.len() as u64 / 512 + 1) as usize * 512,
            _ => data.len(),
        };
        if part > 0 || io.op != Op::Write {
            disk.call(&io, &data[..part]);
            history.push(disk.clone());
        }
    }
    changes.sort_by_key(|change| change.request);
    Killed { book, changes, history }
}

fn change(io: &Io, submitted: Nanos, completed: Option<Nanos>, outcome: Outcome) -> Change {
    let Io { request, op, flags, offset, length, .. } = *io;
    Change { request, op, flags, offset, length, submitted, completed, outcome }
}

/// What may be there behind a run, from its records.
fn rebuilt(rebuild: Rebuild, killed: &Killed) -> Verifier {
    let mut rebuild = rebuild;
    begin_together(std::slice::from_mut(&mut rebuild), vec![again(&killed.book)]);
    for change in &killed.changes {
        rebuild.record(change.request, true);
        rebuild.apply(change);
    }
    rebuild.finish(false)
}

/// A book that was stored and restored.
fn again(book: &NameBook) -> NameBook {
    let mut bytes = Vec::new();
    book.store(&mut bytes).unwrap();
    NameBook::restore(book.geometry().clone(), &mut &bytes[..]).unwrap()
}

fn table() -> Box<dyn VersionTable + Send> {
    Box::new(MemoryTable::default())
}

/// All that is said of the disk: of each path the kinds of damage.
fn said(
    verifier: &mut Verifier,
    disk: &mut Disk,
) -> (BTreeMap<String, BTreeSet<&'static str>>, u64) {
    let (never, found) = (AtomicBool::new(false), disk.found());
    let now = || Nanos::ZERO;
    let pass = verifier.look_at_tree(&found, disk, &now, &never, &mut |_| {}).unwrap();
    assert!(!pass.stopped);
    let mut all: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for name in verifier.name_findings() {
        all.entry(name.path.clone()).or_default().insert(name.kind.name());
    }
    for finding in verifier.findings() {
        let path = finding.file.as_ref().unwrap().path.clone();
        all.entry(path).or_default().insert(finding.kind.name());
    }
    assert_eq!(verifier.figures().unreadable, 0);
    // What is there, and what should be, each once, in however many runs.
    let there =
        disk.files.iter().flatten().count() + disk.directories.iter().filter(|it| **it).count();
    let lost = verifier.name_findings().iter().filter(|name| name.kind == NameDamage::Lost).count();
    assert_eq!(verifier.figures().names, (there + lost) as u64);
    (all, verifier.figures().intact)
}

const fn config(run: u64) -> VerifyConfig {
    VerifyConfig { run, target: 0, isolated: true }
}

/// Two runs, one after the other, on one disk; both are killed.
fn two_runs(seed: u64) -> (Disk, [Killed; 2]) {
    let sizes = ["1k", "2k", "512:50,4k:50", "1k-4k/512"];
    let size = sizes[(seed % 4) as usize];
    let geometry: Geometry = format!("depth=2&width=2&files=2&size={size}").parse().unwrap();
    let mut disk = Disk::new(&geometry);
    let mut verifier = Verifier::new(config(2 * seed + 1), table(), None);
    let first = run(seed, &mut disk, config(2 * seed + 1), &mut verifier);
    let rebuild =
        Rebuild::new(config(2 * seed + 1), table(), After::Kill, DurableBefore::default());
    let mut verifier = rebuilt(rebuild, &first).go_on(config(2 * seed + 2), None);
    let second = run(seed + 7_777, &mut disk, config(2 * seed + 2), &mut verifier);
    (disk, [first, second])
}

/// What may be there after both runs, the second of which ended so.
fn after(seed: u64, [first, second]: &[Killed; 2], after: After) -> Verifier {
    let durable = DurableBefore::default();
    let rebuild = Rebuild::new(config(2 * seed + 1), table(), After::Kill, durable);
    let verifier = rebuilt(rebuild, first);
    rebuilt(Rebuild::go_on(verifier, config(2 * seed + 2), after, durable), second)
}

#[test]
fn what_a_kill_leaves_of_a_tree_is_never_damage() {
    let mut intact = 0;
    for seed in 0..SEEDS {
        let (mut disk, killed) = two_runs(seed);
        let (told, sectors) = said(&mut after(seed, &killed, After::Kill), &mut disk);
        assert!(told.is_empty(), "seed {seed}: {told:?}");
        intact += sectors;
    }
    assert!(intact > 5 * SEEDS, "only {intact} sectors were looked at");
}

#[test]
fn what_a_power_cut_leaves_of_a_tree_is_never_damage() {
    for seed in 0..SEEDS {
        let (_, killed) = two_runs(seed);
        let mut random = SplitMix64(seed ^ 0x99);
        let history = &killed[1].history;
        let mut disk = history[random.below(history.len() as u64) as usize].clone();
        let (told, _) = said(&mut after(seed, &killed, After::PowerCut), &mut disk);
        assert!(told.is_empty(), "seed {seed}: {told:?}");
    }
}

/// Damages one thing of which one state alone is legal; answers its path and what must be said.
fn damage(seed: u64, disk: &mut Disk, unsure: &BTreeSet<u64>) -> Option<(String, &'static str)> {
    let mut random = SplitMix64(seed ^ 0xDA);
    let geometry = disk.geometry.clone();
    let number = random.below(geometry.files());
    let directory = geometry.directory_of(number);
    let is_sure = !unsure.contains(&number)
        && directory.is_none_or(|directory| !unsure.contains(&(geometry.files() + directory)));
    if !is_sure {
        return None;
    }
    let mut name = String::new();
    geometry.file_name(number, &mut name);
    let path = format!("{}{name}", geometry.path_of(directory));
    let is_beneath = disk.has(directory);
    let file = &mut disk.files[number as usize];
    let kind = match (random.below(4), file.as_mut()) {
        (_, None) if !is_beneath => return None,
        (_, None) => {
            *file = Some(Vec::new());
            "extra"
        }
        (0, _) => {
            *file = None;
            "lost"
        }
        (1, Some(data)) if !data.is_empty() => {
            data.truncate(random.below(data.len() as u64) as usize);
            "truncated"
        }
        (2, Some(data)) => {
            data.resize(data.len() + 1 + random.below(900) as usize, 7);
            "grown"
        }
        (_, Some(data)) if !data.is_empty() => {
            let at = random.below(data.len() as u64) as usize;
            data[at] ^= 1 << random.below(8);
            "flipped"
        }
        _ => return None,
    };
    Some((path, kind))
}

#[test]
fn what_is_damaged_in_a_tree_is_named_and_nothing_else() {
    let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
    for seed in 0..2 * SEEDS {
        let (mut disk, killed) = two_runs(seed);
        let geometry = disk.geometry.clone();
        let in_flight = killed[1].changes.iter().filter(|change| change.completed.is_none());
        let unsure = in_flight.map(|change| geometry.number_at(change.offset.0)).collect();
        let Some((path, kind)) = damage(seed, &mut disk, &unsure) else { continue };
        let (told, _) = said(&mut after(seed, &killed, After::Kill), &mut disk);
        assert_eq!(told.keys().collect::<Vec<_>>(), [&path], "seed {seed}: {kind}: {told:?}");
        // A hole that does not read as zeroes any more holds what nobody wrote.
        let is_right = told[&path].contains(kind)
            || kind == "flipped"
                && told[&path].iter().all(|it| ["foreign", "corrupt"].contains(it));
        assert!(is_right, "seed {seed}: {kind}: {told:?}");
        *kinds.entry(kind).or_default() += 1;
    }
    assert!(kinds.len() == 5 && kinds.values().all(|count| *count > 20), "{kinds:?}");
}

#[test]
fn a_call_that_meets_with_a_wrong_name_is_a_finding() {
    let geometry: Geometry = "depth=0&files=5&size=1k".parse().unwrap();
    let mut found = FoundNames::nothing(&geometry);
    (0..3).for_each(|file| found.add_file(file, 1024));
    found.add_other_file(4, FoundName::Directory);
    let told = |op: Op, file: u64, outcome: Outcome| {
        let mut verifier = Verifier::new(config(1), table(), None);
        verifier.put_names(NameBook::of(geometry.clone(), &found));
        let length = Bytes(if op == Op::Read { 1024 } else { 0 });
        let offset = Bytes(geometry.place_of_file(file));
        let (scheduled, flags) = (Nanos::ZERO, Flags::empty());
        let io = Io { tag: 0, request: 5, scheduled, op, flags, offset, length };
        verifier.issued(&io, Nanos(1));
        let integrity = Integrity::Unchecked;
        let (submitted, completed) = (Nanos(1), Nanos(2));
        let completion = Completion { tag: 0, submitted, completed, outcome, integrity };
        // Twice is not told twice.
        verifier.completed(&io, &completion, &[]);
        verifier.completed(&io, &completion, &[]);
        let found = verifier.name_findings();
        assert_eq!(verifier.figures().names, found.len() as u64, "it was looked at");
        found.iter().map(|it| it.kind.name()).collect::<Vec<_>>()
    };
    assert_eq!(told(Op::Open, 0, Outcome::Error(ENOENT)), ["lost"]);
    assert_eq!(told(Op::Delete, 1, Outcome::Error(ENOENT)), ["lost"]);
    assert_eq!(told(Op::Create, 3, Outcome::Error(EEXIST)), ["extra"]);
    assert_eq!(told(Op::Read, 2, Outcome::Short), ["truncated"]);
    assert_eq!(told(Op::Open, 2, Outcome::Error(40)), ["wrong-kind"]);
    assert!(told(Op::Open, 2, Outcome::Error(13)).is_empty(), "no permission is no damage");
    assert!(told(Op::Open, 2, Outcome::Ok).is_empty());
    assert!(told(Op::Create, 1, Outcome::Error(EEXIST)).is_empty(), "the load errs, not the tree");
    assert!(told(Op::Create, 4, Outcome::Error(EEXIST)).is_empty(), "it was there before the run");
}

#[test]
fn what_is_of_another_kind_is_told_once_and_no_later_run_tells_it_again() {
    let geometry: Geometry = "depth=1&width=2&files=2&size=1k".parse().unwrap();
    let mut disk = Disk::new(&geometry);
    disk.directories.fill(true);
    disk.files.fill(Some(vec![0; 1024]));
    let book = NameBook::of(geometry.clone(), &disk.found());
    let mut verifier = Verifier::new(config(1), table(), None);
    verifier.put_names(again(&book));
    // A directory comes in place of a file, and a file in place of a directory.
    disk.files[0] = None;
    disk.files[2] = None;
    disk.files[3] = None;
    disk.directories[1] = false;
    let mut found = disk.found();
    found.add_other_file(0, FoundName::Directory);
    found.add_other_directory(1);
    let mut look = |verifier: &mut Verifier| {
        let (never, now) = (AtomicBool::new(false), || Nanos::ZERO);
        verifier.look_at_tree(&found, &mut disk, &now, &never, &mut |_| {}).unwrap();
        let told = verifier.name_findings().iter().map(|it| (it.path.clone(), it.kind.name()));
        told.collect::<Vec<_>>()
    };
    let expected = [
        ("vdb.1_1.dir/vdb_f0001.file", "wrong-kind"),
        ("vdb.1_2.dir/vdb_f0001.file", "lost"),
        ("vdb.1_2.dir/vdb_f0002.file", "lost"),
        ("vdb.1_2.dir", "wrong-kind"),
    ]
    .map(|(path, kind)| (path.to_owned(), kind));
    let mut next = verifier.go_on(config(2), None);
    next.begin_with(&found);
    assert_eq!(look(&mut next), expected);
    // It stays known in what is written down for the next run.
    let kept = again(next.names().unwrap());
    let mut later = Verifier::new(config(3), table(), None);
    later.put_names(again(&kept));
    later.begin_with(&found);
    assert!(look(&mut later).is_empty());
    // So do the records of the run that found it.
    let rebuild = Rebuild::new(config(1), table(), After::Kill, DurableBefore::default());
    let mut rebuild = [rebuild];
    begin_together(&mut rebuild, vec![book]);
    let [first] = rebuild;
    let verifier = first.finish(false);
    let go_on = Rebuild::go_on(verifier, config(2), After::Kill, DurableBefore::default());
    let mut rebuild = [go_on];
    begin_together(&mut rebuild, vec![kept]);
    let [second] = rebuild;
    assert_eq!(look(&mut second.finish(false)), expected);
}

#[test]
fn a_name_that_was_of_another_kind_is_one_like_any_other_once_it_is_made() {
    let geometry: Geometry = "depth=0&files=1&size=1k".parse().unwrap();
    let mut found = FoundNames::nothing(&geometry);
    found.add_other_file(0, FoundName::Other);
    let mut verifier = Verifier::new(config(1), table(), None);
    verifier.put_names(NameBook::of(geometry.clone(), &found));
    for (request, op) in [(0, Op::Create), (1, Op::Delete)] {
        let (scheduled, flags, offset) = (Nanos::ZERO, Flags::empty(), Bytes::ZERO);
        let io = Io { tag: 0, request, scheduled, op, flags, offset, length: Bytes::ZERO };
        verifier.issued(&io, Nanos(1));
        let (submitted, completed, outcome) = (Nanos(1), Nanos(2), Outcome::Ok);
        let integrity = Integrity::Unchecked;
        let completion = Completion { tag: 0, submitted, completed, outcome, integrity };
        verifier.completed(&io, &completion, &[]);
    }
    verifier.begin_with(&found);
    let told: Vec<_> = verifier.name_findings().iter().map(|it| it.kind.name()).collect();
    assert_eq!(told, ["extra"]);
}
