//! Trees: names as Vdbench gives them, and loads that never err about what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

use super::flow::shuffled;
use super::*;
use crate::clock::Clock;
use crate::device::{Completion, Device, Io};
use crate::pattern::{Pattern, SplitMix64};
use crate::sim::{SimClock, SimDevice, SimSpec};

fn geometry(line: &str) -> Geometry {
    line.parse().unwrap()
}

#[test]
fn names_and_places_follow_from_numbers_as_vdbench_has_them() {
    let tree = geometry("depth=2&width=3&files=2&size=8k");
    assert_eq!((tree.directories(), tree.files()), (3 + 9, 18));
    assert_eq!(tree.path_of(Some(0)), "vdb.1_1.dir/");
    assert_eq!(tree.path_of(Some(2)), "vdb.1_3.dir/");
    assert_eq!(tree.path_of(Some(3)), "vdb.1_1.dir/vdb.2_1.dir/");
    assert_eq!(tree.path_of(Some(11)), "vdb.1_3.dir/vdb.2_3.dir/");
    let mut name = String::new();
    tree.file_name(17, &mut name);
    assert_eq!((name.as_str(), tree.directory_of(17)), ("vdb_f0002.file", Some(11)));
    assert_eq!(tree.place_of_file(17), 17 * 8192);
    assert_eq!(tree.place_of_directory(1), (18 + 1) * 8192);
    assert_eq!(tree.extent(), Bytes(30 * 8192));
    assert_eq!((tree.number_at(17 * 8192 + 5), tree.within(17 * 8192 + 5)), (17, 5));
    let flat = geometry("depth=0&files=3");
    assert_eq!((flat.directories(), flat.files(), flat.directory_of(2)), (0, 3, None));
    let all = geometry("depth=2&width=2&files=5&everywhere=yes");
    assert_eq!((all.files(), all.directory_of(0), all.directory_of(29)), (30, Some(0), Some(5)));
}

#[test]
fn what_a_directory_holds_is_told_from_its_names() {
    for line in [
        "depth=3&width=3&files=4",
        "depth=2&width=2&files=3&everywhere=yes",
        "depth=0&files=7",
        "depth=1&width=12&files=1200",
    ] {
        let tree = geometry(line);
        for directory in 0..tree.directories() {
            let name = tree.directory_name(directory);
            assert_eq!(DirectoryName::parse(&name.to_string()), Some(name));
            assert_eq!(tree.child(tree.parent(directory), name), Some(directory), "{line}");
            assert!(tree.parent(directory).is_none_or(|parent| parent < directory));
        }
        let mut name = String::new();
        for file in 0..tree.files() {
            tree.file_name(file, &mut name);
            let number = file_number(&name).unwrap();
            assert_eq!(tree.file_in(tree.directory_of(file), number), Some(file), "{line}");
            assert_eq!(tree.file_of(&tree.path(file)), Some(file), "{line}");
        }
        let last = tree.files() - 1;
        assert_eq!(tree.file_in(tree.directory_of(last), tree.files() + 1), None);
        assert_eq!(tree.file_of(&format!("x/{}", tree.path(last))), None);
    }
    for foreign in ["vdb_f1.file", "vdb_f0000.file", "vdb_f0001.fil", "x", "vdb_f00001.file"] {
        assert_eq!(file_number(foreign), None, "{foreign}");
    }
    for foreign in ["vdb.1.dir", "vdb.01_1.dir", "vdb.1_1.di", "vdb.1_+1.dir", ".."] {
        assert_eq!(DirectoryName::parse(foreign), None, "{foreign}");
    }
}

#[test]
fn sizes_have_their_shares_and_limits_count_the_first_files() {
    let tree = geometry("files=10000&size=4k:75,64k:25");
    let large = (0..10_000).filter(|file| tree.size(*file) == 65_536).count();
    assert!(large.abs_diff(2500) < 150, "{large}");
    let average = geometry("files=10000&size=64k:0");
    let sum: u64 = (0..10_000).map(|file| average.size(file)).sum();
    assert!((sum / 10_000).abs_diff(65_536) < 1000, "{}", sum / 10_000);
    assert!((0..10_000).all(|file| average.size(file) < 1 << 17));
    let some = geometry("width=10&files=100&size=1M&total=64M&working-set=10M");
    assert_eq!((some.files(), some.used()), (64, 10));
    for (line, reason) in [
        ("depth=30&width=30", "directories"),
        ("width=1000000&files=1000000", "files"),
        ("size=0-", "no size"),
        ("size=4k:1,8k:x", "share"),
        ("colour=blue", "colour"),
        ("depth=x", "depth"),
    ] {
        let error = line.parse::<Geometry>().unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
    for line in ["depth=2&width=3&files=4&size=4k:75,64k:25&everywhere=yes&total=1M", "size=9k:0"] {
        assert_eq!(geometry(&geometry(line).to_string()), geometry(line), "{line}");
    }
}

#[test]
fn a_shuffle_names_each_number_once() {
    for among in [1, 2, 3, 17, 1000] {
        let all: BTreeSet<u64> = (0..among).map(|nth| shuffled(nth, among, 7)).collect();
        assert_eq!(all.len() as u64, among);
    }
    assert_ne!(
        (0..100).map(|nth| shuffled(nth, 100, 7)).collect::<Vec<_>>(),
        (0..100).collect::<Vec<_>>()
    );
}

/// A simulated run of loads on trees without the engine.
struct Story {
    trees: Vec<Arc<Tree>>,
    names: Vec<Arc<Mutex<Names>>>,
    flows: Vec<Arc<FileFlow>>,
    clock: SimClock,
    /// How often each operation ended so.
    counts: BTreeMap<(&'static str, i32), u64>,
    capacity: u64,
    /// How many threads may have been stopped with a file that they had just made.
    open: u64,
}

impl Story {
    fn new(lines: &[&str], found: Found) -> Self {
        let tree = |line: &&str| {
            let tree = Tree::new(geometry(line));
            tree.suppose(found);
            Arc::new(tree)
        };
        Self {
            trees: lines.iter().map(tree).collect(),
            names: Vec::new(),
            flows: Vec::new(),
            clock: SimClock::new(Nanos(20)),
            counts: BTreeMap::new(),
            capacity: u64::MAX / 2,
            open: 0,
        }
    }

    /// Does these loads with so many threads each on the first tree, for so many calls; the last
    /// tree is the other one of copies and moves.
    fn does(&mut self, loads: &[&str], threads: u32, calls: usize, spec: &str) -> &mut Self {
        let (first, last) = (&self.trees[0], self.trees.last().unwrap());
        let flow = |line: &&str| {
            let load: FileLoad = line.parse().unwrap();
            let to = load.to.is_some().then(|| Arc::clone(last));
            Arc::new(FileFlow::new(load, Arc::clone(first), to).unwrap())
        };
        self.flows = loads.iter().map(flow).collect();
        let names = |tree: &Arc<Tree>| Names::of(tree, Bytes(self.capacity), u64::MAX);
        self.names = self.trees.iter().map(|tree| Arc::new(Mutex::new(names(tree)))).collect();
        let device = SimDevice::new(spec.parse::<SimSpec>().unwrap(), self.clock.clone());
        let other = (self.names.len() > 1).then(|| Arc::clone(self.names.last().unwrap()));
        let mut device = InMemory::new(device, Arc::clone(&self.names[0]), other);
        let mut clients: Vec<Clients> =
            self.flows.iter().map(|flow| Clients::new(Arc::clone(flow), 0, threads)).collect();
        let mut tags: Vec<Option<(usize, Call)>> = vec![None; loads.len() * threads as usize];
        let (mut left, mut pattern, mut done) = (calls, Pattern::new(1), Vec::new());
        let mut idle = 0;
        loop {
            let mut has_ended = true;
            for (flow, clients) in clients.iter_mut().enumerate() {
                while left > 0 {
                    match clients.poll(Nanos::ZERO) {
                        Next::Call(call) => {
                            let tag = tags.iter().position(Option::is_none).unwrap();
                            let busy = tags.iter().flatten();
                            let holds = busy
                                .filter(|(it, other)| *it == flow && other.client == call.client);
                            assert_eq!(holds.count(), 0, "a thread has one call at a time");
                            tags[tag] = Some((flow, call));
                            device.prepare(&io(tag, &call), &mut pattern);
                            left -= 1;
                        }
                        Next::NotYet => {
                            has_ended = false;
                            break;
                        }
                        Next::Ended => break,
                    }
                }
            }
            device.submit().unwrap();
            if tags.iter().all(Option::is_none) {
                if has_ended || left == 0 {
                    break;
                }
                idle += 1;
                assert!(idle < 100, "all wait, and nobody works");
                continue;
            }
            idle = 0;
            device.wait(Nanos::MAX, &mut done).unwrap();
            for Completion { tag, outcome, submitted, completed, .. } in done.drain(..) {
                let (flow, call) = tags[tag as usize].take().unwrap();
                *self.counts.entry((call.op.name(), outcome.code())).or_default() += 1;
                clients[flow].completed(call.client, outcome, submitted, completed);
            }
        }
        self.open = if left == 0 { loads.len() as u64 * u64::from(threads) } else { 0 };
        assert!(self.clock.now() > Nanos::ZERO);
        self
    }

    fn count(&self, op: Op, outcome: i32) -> u64 {
        self.counts.get(&(op.name(), outcome)).copied().unwrap_or(0)
    }

    /// Everything succeeded.
    fn is_clean(&self) {
        let failed: Vec<_> = self.counts.iter().filter(|((_, code), _)| *code != 0).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    /// What threads take to be there is what is there.
    fn agrees(&self) {
        for (tree, names) in self.trees.iter().zip(&self.names) {
            let states = &tree.states;
            let known = states.count(FileState::THERE) + states.directories_there();
            let there = names.lock().unwrap().count();
            assert!(known <= there && there <= known + self.open, "{known} {there}");
        }
    }
}

fn io(tag: usize, call: &Call) -> Io {
    Io {
        tag: tag as u32,
        request: 0,
        scheduled: Nanos::ZERO,
        op: call.op,
        flags: Flags::empty(),
        offset: Bytes(call.place),
        length: Bytes(call.length),
    }
}

const SIM: &str = "model=exp,service=100us,units=4";
const MAKE: &str = "files:format?do=mkdir,fill&size=8k";
const TREE: &str = "depth=2&width=3&files=5&size=20k:50,4k:50";

#[test]
fn a_format_makes_every_directory_and_file_once_and_a_clean_one_removes_them() {
    for threads in [1, 3, 16] {
        let mut story = Story::new(&[TREE], Found::Nothing);
        story.does(&[MAKE], threads, usize::MAX, SIM).is_clean();
        assert_eq!((story.count(Op::Mkdir, 0), story.count(Op::Create, 0)), (12, 45));
        assert_eq!(story.count(Op::Close, 0), 45);
        story.agrees();
        assert_eq!(story.trees[0].states.count(FileState::Full as u8), 45);
        let bytes: u64 = (0..45).map(|file| story.trees[0].geometry.size(file)).sum();
        assert_eq!(story.names[0].lock().unwrap().bytes(), bytes);
        let all = "files:format?do=delete,rmdir,mkdir,fill&size=8k";
        story.does(&[all], threads, usize::MAX, SIM).is_clean();
        assert_eq!((story.count(Op::Delete, 0), story.count(Op::Create, 0)), (45, 90));
        story.does(&["files:format?do=delete,rmdir"], threads, usize::MAX, SIM).is_clean();
        assert_eq!((story.count(Op::Delete, 0), story.count(Op::Rmdir, 0)), (90, 24));
        story.agrees();
        assert_eq!(story.names[0].lock().unwrap().count(), 0);
    }
}

#[test]
fn reads_go_through_files_as_they_are_asked_to() {
    let tree = "width=2&files=4&size=20k";
    let count = |load: &str, calls: usize| {
        let mut story = Story::new(&[tree], Found::Full);
        story.does(&[load], 2, calls, SIM).is_clean();
        story.agrees();
        (story.count(Op::Open, 0), story.count(Op::Read, 0), story.count(Op::Close, 0))
    };
    assert_eq!(count("files:read?size=4k&once=yes", usize::MAX), (8, 40, 8));
    assert_eq!(count("files:read?size=16k&once=yes", usize::MAX), (8, 16, 8));
    assert_eq!(count("files:read?size=4k&once=yes&select=random", usize::MAX), (8, 40, 8));
    assert_eq!(count("files:read?size=4k&once=yes&access=random", usize::MAX), (8, 40, 8));
    assert_eq!(count("files:read?size=4k&once=yes&stop-after=2", usize::MAX), (8, 16, 8));
    assert_eq!(count("files:read?size=4k&once=yes&stop-after=40%", usize::MAX), (8, 16, 8));
    assert_eq!(count("files:open?once=yes", usize::MAX), (8, 0, 8));
    let (opened, read, _) = count("files:read?size=4k", 7000);
    assert!(opened.abs_diff(1000) < 4 && read.abs_diff(5000) < 20, "{opened} {read}");
}

#[test]
fn a_load_that_runs_out_of_files_ends_and_says_of_what() {
    let mut story = Story::new(&[TREE], Found::Nothing);
    story.does(&["files:read?size=4k"], 3, usize::MAX, SIM);
    assert_eq!(story.flows[0].why_ended(), Some("no file has its data"));
    let mut story = Story::new(&[TREE], Found::Directories);
    story.does(&["files:create?select=random"], 3, usize::MAX, SIM).is_clean();
    assert_eq!(story.count(Op::Create, 0), 45);
    assert!(story.flows[0].why_ended().unwrap().starts_with("no file is left to make"));
    story.does(&["files:rmdir"], 3, usize::MAX, SIM).is_clean();
    assert_eq!((story.count(Op::Rmdir, 0), story.flows[0].why_ended().is_some()), (0, true));
}

#[test]
fn what_ran_out_is_what_the_task_asked_for_also_where_each_file_is_chosen_once() {
    let why = |load: &str, other: Found| {
        let mut story = Story::new(&[TREE, TREE], Found::Nothing);
        story.trees[0].suppose(Found::Full);
        story.trees[1].suppose(other);
        story.does(&[load], 2, 10_000, SIM).is_clean();
        story.flows[0].why_ended()
    };
    for once in ["", "&once=yes"] {
        let why = |load: &str, other: Found| why(&format!("{load}{once}"), other);
        let with_data = "no file is there without its data";
        assert_eq!(why("files:write?only=empty", Found::Nothing), Some(with_data));
        let beneath = "no file is left whose directory is in the other tree";
        assert_eq!(why("files:copy?to=2", Found::Nothing), Some(beneath));
        assert!(why("files:move?to=2", Found::Nothing).unwrap().starts_with(beneath));
        let full = "the other tree has all of its files already";
        assert_eq!(why("files:move?to=2", Found::Full), Some(full));
    }
    // All were moved, and none is left.
    assert_eq!(why("files:move?to=2", Found::Directories), Some("no file is there"));
    for load in ["files:move?to=2&once=yes", "files:copy?to=2&once=yes", "files:read?once=yes"] {
        assert_eq!(why(load, Found::Directories), None, "{load}: each was chosen once");
    }
}

#[test]
fn loads_that_change_a_tree_at_once_never_err_about_what_is_there() {
    let loads = [
        "files:create?select=random&seed=1",
        "files:delete?select=random&seed=2",
        "files:write?size=4k&select=random&seed=3",
        "files:read?size=4k&select=skewed&skew=5&seed=4",
        "files:mixed?size=4k&read=70&access=random&select=random&seed=5",
        "files:getattr?select=random&seed=6",
        "files:copy?to=2&select=random&seed=7",
        "files:move?to=2&select=random&seed=8",
        "files:mkdir",
        "files:rmdir",
    ];
    for seed in 0..40 {
        let mut random = SplitMix64(seed);
        let some: Vec<&str> = loads.into_iter().filter(|_| random.below(2) == 0).collect();
        let found = [Found::Full, Found::Empty, Found::Directories][random.below(3) as usize];
        let mut story = Story::new(&[TREE, TREE], found);
        let spec = format!("{SIM},seed={seed}");
        story.does(&some, 1 + random.below(6) as u32, 3000, &spec).is_clean();
        story.agrees();
    }
}

#[test]
fn a_full_disk_fails_writes_alone_and_leaves_what_the_threads_know() {
    let mut story = Story::new(&["width=3&files=5&size=16k"], Found::Nothing);
    story.capacity = 100 << 10;
    story.does(&[MAKE], 4, usize::MAX, SIM);
    let full = Outcome::Error(28).code();
    assert!(story.count(Op::Write, full) > 0 && story.count(Op::Create, full) == 0);
    assert_eq!((story.count(Op::Create, 0), story.count(Op::Close, 0)), (15, 15));
    story.agrees();
    assert!(story.trees[0].states.count(FileState::Full as u8) <= 6);
    story.does(&["files:format?do=delete,rmdir"], 4, usize::MAX, SIM);
    assert_eq!(story.names[0].lock().unwrap().count(), 0);
}

#[test]
fn calls_that_fail_of_themselves_leave_what_the_threads_know() {
    for seed in 0..20 {
        let mut story = Story::new(&[TREE], Found::Nothing);
        let spec = format!("{SIM},errors=0.2,seed={seed}");
        story.does(&[MAKE, "files:delete?select=random"], 3, 2000, &spec);
        story.agrees();
        assert_eq!(story.count(Op::Create, Outcome::Error(17).code()), 0);
        assert_eq!(story.count(Op::Delete, Outcome::Error(2).code()), 0);
    }
}

/// Threads on several trees, each a lane of its own, whose calls end in any order.
struct Several {
    trees: Vec<Arc<Tree>>,
    threads: Vec<Clients>,
    /// The calls of threads that have one.
    calls: BTreeMap<usize, Call>,
    random: SplitMix64,
    /// How many calls each thread made.
    made: Vec<u64>,
}

impl Several {
    /// Loads on trees, each with the number of its tree and of the other of copies and moves.
    fn new(seed: u64, trees: &[Found], loads: &[(usize, &str, usize, u32)]) -> Self {
        let tree = |found: &Found| {
            let tree = Tree::new(geometry("depth=0&files=5&size=4k"));
            tree.suppose(*found);
            Arc::new(tree)
        };
        let trees: Vec<_> = trees.iter().map(tree).collect();
        let mut threads = Vec::new();
        for (own, line, other, count) in loads {
            let load = FileLoad { seed, ..line.parse().unwrap() };
            let to = load.to.is_some().then(|| Arc::clone(&trees[*other]));
            let flow = Arc::new(FileFlow::new(load, Arc::clone(&trees[*own]), to).unwrap());
            threads.extend((0..*count).map(|thread| Clients::new(Arc::clone(&flow), thread, 1)));
        }
        let made = vec![0; threads.len()];
        Self { trees, threads, calls: BTreeMap::new(), random: SplitMix64(seed), made }
    }

    /// Lets threads go on for so many steps; answers which of them have ended.
    fn goes_on(&mut self, steps: u64) -> BTreeSet<usize> {
        let mut ended = BTreeSet::new();
        for at in 1..=steps {
            let thread = self.random.below(self.threads.len() as u64) as usize;
            if let Some(call) = self.calls.remove(&thread) {
                let now = Nanos(at as i64);
                self.threads[thread].completed(call.client, Outcome::Ok, now, now);
                continue;
            }
            match self.threads[thread].poll(Nanos(at as i64)) {
                Next::Call(call) => {
                    self.calls.insert(thread, call);
                    self.made[thread] += 1;
                }
                Next::NotYet => {}
                Next::Ended => drop(ended.insert(thread)),
            }
        }
        ended
    }

    fn files(&self, tree: usize) -> u64 {
        self.trees[tree].states.count(FileState::THERE)
    }
}

#[test]
fn threads_wait_for_files_that_loads_on_other_trees_hand_back() {
    for seed in 0..200 {
        // Two of either direction for five files: a tree is empty again and again.
        let loads = [
            (0, "files:move?to=2&select=random", 1, 4),
            (1, "files:move?to=1&select=random", 0, 4),
        ];
        let mut several = Several::new(seed, &[Found::Full, Found::Directories], &loads);
        assert_eq!(several.goes_on(4000), BTreeSet::new(), "seed {seed}");
        assert!(several.made.iter().all(|calls| *calls > 50), "seed {seed}: {:?}", several.made);
        assert_eq!(several.files(0) + several.files(1), 5, "seed {seed}");
        // The same round three trees, and where the files are made anew in another.
        let loads = [
            (0, "files:move?to=2&select=random", 1, 2),
            (1, "files:move?to=3&select=random", 2, 2),
            (2, "files:delete?select=random", 2, 1),
            (2, "files:move?to=1&select=random", 0, 2),
            (1, "files:create?select=random", 1, 1),
        ];
        let found = [Found::Full, Found::Directories, Found::Directories];
        let mut several = Several::new(seed, &found, &loads);
        assert_eq!(several.goes_on(6000), BTreeSet::new(), "seed {seed}");
    }
}

#[test]
fn threads_that_wait_for_each_other_alone_end() {
    for seed in 0..200 {
        let round = [
            (0, "files:move?to=2&select=random", 1, 3),
            (1, "files:move?to=3&select=random", 2, 2),
            (2, "files:move?to=1&select=random", 0, 3),
            (1, "files:copy?to=1&select=random", 0, 1),
        ];
        let mut several = Several::new(seed, &[Found::Directories; 3], &round);
        assert_eq!(several.goes_on(600).len(), 9, "seed {seed}: there is no file at all");
        // What is removed is not made again, so that all run out of it.
        let loads = [&round[..3], &[(1, "files:delete?select=random", 1, 2)]].concat();
        let mut several = Several::new(seed, &[Found::Full; 3], &loads);
        assert_eq!(several.goes_on(8000).len(), 10, "seed {seed}: no file is left");
        assert_eq!([0, 1, 2].map(|tree| several.files(tree)), [0; 3]);
    }
}

#[test]
fn threads_end_where_no_load_that_goes_on_can_give_them_files() {
    for seed in 0..200 {
        // Whoever writes to the other tree makes none in this one.
        let loads = [
            (0, "files:move?to=2&select=random", 1, 3),
            (1, "files:write?size=4k&select=random", 1, 1),
        ];
        let mut several = Several::new(seed, &[Found::Full, Found::Directories], &loads);
        let ended = several.goes_on(2000);
        assert!(ended.is_superset(&BTreeSet::from([0, 1, 2])), "seed {seed}: {ended:?}");
        assert!(!ended.contains(&3), "seed {seed}: it has five files to write");
        // A full tree takes more as soon as something is removed there.
        let loads = [
            (0, "files:move?to=2&select=random", 1, 2),
            (1, "files:delete?select=random", 1, 1),
            (0, "files:create?select=random", 0, 1),
        ];
        let mut several = Several::new(seed, &[Found::Full; 2], &loads);
        assert_eq!(several.goes_on(3000), BTreeSet::new(), "seed {seed}");
    }
}

#[test]
fn nothing_goes_to_a_tree_that_has_vanished() {
    for op in [Op::Move, Op::Copy] {
        let tree = |found: Found| {
            let tree = Tree::new(geometry("depth=0&files=40&size=8k"));
            tree.suppose(found);
            Arc::new(Mutex::new(Names::of(&tree, Bytes(1 << 40), u64::MAX)))
        };
        let (source, other) = (tree(Found::Full), tree(Found::Directories));
        let clock = SimClock::new(Nanos(20));
        let device = |spec: &str| SimDevice::new(spec.parse().unwrap(), clock.clone());
        let calls = "model=const,units=1,service=100us,bandwidth=100000G";
        let mut sound = InMemory::new(device(calls), Arc::clone(&source), Some(Arc::clone(&other)));
        // Nobody works on it but those that bring files.
        let _gone =
            InMemory::new(device(&format!("{calls},vanish=1950us")), Arc::clone(&other), None);
        let (mut pattern, mut done, mut ok) = (Pattern::new(1), Vec::new(), 0);
        let place = |file: u64| source.lock().unwrap().geometry().place_of_file(file);
        for file in 0..40 {
            let (client, due, held) = (0, None, None);
            let call = Call { op, place: place(file), length: 0, client, due, held };
            sound.prepare(&io(0, &call), &mut pattern);
            sound.submit().unwrap();
            sound.wait(Nanos::MAX, &mut done).unwrap();
            let Completion { outcome, completed, .. } = done.pop().unwrap();
            let is_there = completed < Nanos::from_micros(1950);
            let expected = if is_there { Outcome::Ok } else { Outcome::Error(19) };
            assert_eq!(outcome, expected, "{op:?} of file {file} at {completed}");
            ok += u64::from(is_there);
        }
        assert!((15..25).contains(&ok), "{ok}");
        let left = if op == Op::Move { 40 - ok } else { 40 };
        let counts = [&source, &other].map(|names| names.lock().unwrap().count());
        assert_eq!(counts, [left, ok]);
    }
}

#[test]
fn requests_with_a_rate_have_the_instants_of_one_process_for_all_threads() {
    let tree = Arc::new(Tree::new(geometry("files=100&size=8k")));
    tree.suppose(Found::Full);
    let line = "files:read?size=4k&select=random&rate=1000&dist=constant&duration=1s";
    let flow = Arc::new(FileFlow::new(line.parse().unwrap(), tree, None).unwrap());
    let mut lanes: Vec<Clients> =
        (0..4).map(|lane| Clients::new(Arc::clone(&flow), lane, 1)).collect();
    let (mut reads, mut opens) = (Vec::new(), 0);
    let mut ended = BTreeSet::new();
    while ended.len() < 4 {
        for (lane, clients) in lanes.iter_mut().enumerate() {
            match clients.poll(Nanos::ZERO) {
                Next::Call(call) => {
                    let due = call.due.unwrap();
                    match call.op {
                        Op::Read => reads.push(due),
                        Op::Open => opens += 1,
                        _ => {}
                    }
                    clients.completed(call.client, Outcome::Ok, due, due + Nanos(5));
                }
                Next::NotYet => panic!("files are enough for all"),
                Next::Ended => drop(ended.insert(lane)),
            }
        }
    }
    reads.sort();
    assert_eq!(reads.len(), 1000);
    assert!(reads.windows(2).all(|pair| pair[1] - pair[0] == Nanos::from_millis(1)));
    assert!(opens >= 500);
}

#[test]
fn a_load_is_refused_with_the_reason() {
    for (line, reason) in [
        ("files:fly", "none of read"),
        ("files:read?size=0", "no length"),
        ("files:copy", "to=TREE"),
        ("files:read?to=2", "to=TREE"),
        ("files:read?skew=2", "select=skewed"),
        ("files:read?rate=5", "rate and duration"),
        ("files:read?stop-after=0", "stop-after"),
        ("files:read?colour=blue", "colour"),
        ("files:format?do=make", "do: 'make'"),
    ] {
        let error = line.parse::<FileLoad>().unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn a_tree_is_supposed_no_further_when_that_is_asked_for() {
    let tree = Tree::new(geometry("width=10&files=10"));
    tree.suppose_until(Found::Full, &AtomicBool::new(true));
    assert_eq!(tree.states.count(FileState::Full as u8), 0);
    tree.suppose_until(Found::Full, &AtomicBool::new(false));
    assert_eq!(tree.states.count(FileState::Full as u8), 100);
}
