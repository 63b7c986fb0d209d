//! Trees in memory, in simulated time: whatever calls fail or never end, nothing is called damage,
//! and of a tree that lies every lie that is still there is named, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use ioecho_replay::pattern::{Fill, Pattern, SplitMix64, read_stamp};
use ioecho_replay::sim::{Mischief, MischiefKind, SimClock, SimDevice, SimSpec};
use ioecho_replay::tree::{
    Call, Clients, FileFlow, FileLoad, Geometry, InMemory, NameMischief, Names, Next, Tree,
};
use ioecho_replay::verify::{
    After, Change, DurableBefore, Following, FoundNames, Look, MemoryTable, NameBook, Rebuild,
    Sharing, Verifier, VerifyConfig, apply_together, begin_together, torn_moves,
};
use ioecho_replay::{Clock, Completion, Device, Io};
use ioecho_trace::{Bytes, Flags, Nanos, Op, Outcome};

const SEEDS: u64 = 1000;

/// All that changes a tree, and reads.
const LOADS: [(&str, u32); 7] = [
    ("files:format?do=mkdir,fill&size=1k", 2),
    ("files:write?size=1k&select=random", 1),
    ("files:write?size=512&access=random&select=random", 1),
    ("files:read?size=512&select=random", 2),
    ("files:delete?select=random", 1),
    ("files:create?select=random", 1),
    ("files:rmdir?", 1),
];

/// What calls that were acknowledged leave on a file system that does what it says.
struct Honest {
    geometry: Geometry,
    /// Of each file its size, and who wrote its sectors.
    files: Vec<Option<(u64, BTreeMap<u64, u64>)>>,
    directories: Vec<bool>,
}

impl Honest {
    fn new(geometry: &Geometry) -> Self {
        Self {
            geometry: geometry.clone(),
            files: vec![None; geometry.files() as usize],
            directories: vec![false; geometry.directories() as usize],
        }
    }

    fn call(&mut self, io: &Io) {
        let number = self.geometry.number_at(io.offset.0);
        let directory = number.wrapping_sub(self.geometry.files()) as usize;
        let within = self.geometry.within(io.offset.0);
        match io.op {
            Op::Mkdir => self.directories[directory] = true,
            Op::Rmdir => self.directories[directory] = false,
            Op::Create => self.files[number as usize] = Some((0, BTreeMap::new())),
            Op::Delete => self.files[number as usize] = None,
            Op::Write => {
                let (size, sectors) = self.files[number as usize].as_mut().unwrap();
                let end = within + io.length.0;
                *size = (*size).max(end);
                sectors.extend((within / 512..end / 512).map(|sector| (sector, io.request)));
            }
            _ => {}
        }
    }

    /// What is wrong with the names of a tree, by number.
    fn wrong_names(&self, names: &Names) -> BTreeSet<(u64, &'static str)> {
        let mut wrong = BTreeSet::new();
        for (number, file) in (0..).zip(&self.files) {
            let size = file.as_ref().map(|(size, _)| *size);
            match (size, names.file(number)) {
                (Some(_), None) => wrong.insert((number, "lost")),
                (None, Some(_)) => wrong.insert((number, "extra")),
                (Some(size), Some(found)) if found < size => wrong.insert((number, "truncated")),
                (Some(size), Some(found)) if found > size => wrong.insert((number, "grown")),
                _ => false,
            };
        }
        for (number, there) in (0..).zip(&self.directories) {
            let is_there = names.has_directory(number);
            let number = self.geometry.files() + number;
            match (*there, is_there) {
                (true, false) => wrong.insert((number, "lost")),
                (false, true) => wrong.insert((number, "extra")),
                _ => false,
            };
        }
        wrong
    }

    /// The sectors of files that do not hold what was written there.
    fn wrong_sectors(&self, device: &mut InMemory) -> BTreeSet<u64> {
        let mut wrong = BTreeSet::new();
        for (file, known) in (0..).zip(&self.files) {
            let Some((size, sectors)) = known else { continue };
            let mut data = vec![0; *size as usize];
            let Some(read) = device.read(file, 0, &mut data) else { continue };
            let first = self.geometry.place_of_file(file) / 512;
            for (sector, data) in (0..).zip(data[..read].chunks_exact(512)) {
                let stamp = read_stamp(data);
                let wrote = stamp.filter(|stamp| stamp.position == (first + sector) * 512);
                let holds = match sectors.get(&sector) {
                    Some(request) => wrote.is_some_and(|stamp| stamp.request == *request),
                    None => data.iter().all(|byte| *byte == 0),
                };
                if !holds {
                    wrong.insert(first + sector);
                }
            }
        }
        wrong
    }
}

/// Threads on a tree in memory that was verified all the while, and what is there afterwards.
struct Story {
    device: InMemory,
    verifier: Verifier,
    honest: Honest,
    /// How calls ended.
    outcomes: BTreeSet<i32>,
}

/// A call in flight.
type Flying = (usize, Call, Io);

/// What threads share.
type Place = (Arc<Tree>, SimClock);

/// Several trees, on one clock, whose threads hand files from one to the next.
struct Forest {
    stories: Vec<Story>,
    trees: Vec<Arc<Tree>>,
    clock: SimClock,
    /// What was asked for, and of which tree, as records have it.
    changes: BTreeMap<u64, (usize, Change)>,
}

impl Story {
    /// A tree of which nothing is there, on a device of this description.
    fn new(seed: u64, spec: &str, capacity: u64, is_isolated: bool) -> (Self, Place) {
        let clock = SimClock::new(Nanos(20));
        let (mut all, mut trees) = Self::some(1, seed, spec, capacity, is_isolated, &clock);
        (all.remove(0), (trees.remove(0), clock))
    }

    /// So many trees of one shape, each of which hands files to the next, and the last to the
    /// first.
    fn some(
        count: usize,
        seed: u64,
        spec: &str,
        capacity: u64,
        is_isolated: bool,
        clock: &SimClock,
    ) -> (Vec<Self>, Vec<Arc<Tree>>) {
        let sizes = ["1k", "2k", "512:50,4k:50", "1k-4k/512"];
        let size = sizes[(seed % 4) as usize];
        let geometry: Geometry = format!("depth=2&width=2&files=2&size={size}").parse().unwrap();
        let trees: Vec<_> = (0..count).map(|_| Arc::new(Tree::new(geometry.clone()))).collect();
        let names = |tree: &Arc<Tree>| Names::of(tree, Bytes(capacity), u64::MAX);
        let names: Vec<_> = trees.iter().map(|tree| Arc::new(Mutex::new(names(tree)))).collect();
        let spec: SimSpec = format!("service=50us,{spec},seed={seed}").parse().unwrap();
        let stories = names.iter().enumerate().map(|(target, its)| {
            let device = SimDevice::new(spec, clock.clone()).with_data();
            let mut verifier = Verifier::new(
                VerifyConfig { run: seed + 1, target: target as u16, isolated: is_isolated },
                Box::new(MemoryTable::default()),
                None,
            );
            let found = FoundNames::of(&its.lock().unwrap());
            verifier.put_names(NameBook::of(geometry.clone(), &found));
            let other = (count > 1).then(|| Arc::clone(&names[(target + 1) % count]));
            let device = InMemory::new(device, Arc::clone(its), other);
            let honest = Honest::new(&geometry);
            Self { device, verifier, honest, outcomes: BTreeSet::new() }
        });
        (stories.collect(), trees)
    }

    /// Lets threads make so many calls, and all of them end that ever do.
    fn goes_on(&mut self, seed: u64, at: &Place, loads: &[(&str, u32)], calls: u64) {
        let (tree, clock) = at;
        let clients = |(number, (line, threads)): (usize, &(&str, u32))| {
            let load = FileLoad { seed: seed + number as u64, ..line.parse().unwrap() };
            let flow = FileFlow::new(load, Arc::clone(tree), None).unwrap();
            Clients::new(Arc::new(flow), 0, *threads)
        };
        let mut clients: Vec<Clients> = loads.iter().enumerate().map(clients).collect();
        let mut pattern = Pattern::new(seed + 1);
        let mut flying: BTreeMap<u32, Flying> = BTreeMap::new();
        let (mut request, mut done) = (0, Vec::new());
        self.device.keep_data(true);
        loop {
            for (flow, clients) in clients.iter_mut().enumerate() {
                while request < calls
                    && let Next::Call(call) = clients.poll(Nanos::ZERO)
                {
                    let tag = flow as u32 * 4 + call.client;
                    let (flags, scheduled) = (Flags::empty(), Nanos::ZERO);
                    let (offset, length) = (Bytes(call.place), Bytes(call.length));
                    let io = Io { tag, request, scheduled, op: call.op, flags, offset, length };
                    self.device.prepare(&io, &mut pattern);
                    flying.insert(tag, (flow, call, io));
                    request += 1;
                    let now = clock.now();
                    self.verifier.issued(&io, now);
                }
            }
            self.device.submit().unwrap();
            if self.device.device_mut().next_completion() == Nanos::MAX {
                break;
            }
            self.device.wait(Nanos::MAX, &mut done).unwrap();
            for completion in done.drain(..) {
                let (flow, call, io) = flying.remove(&completion.tag).unwrap();
                self.ended(&io, &completion);
                let Completion { outcome, submitted, completed, .. } = completion;
                clients[flow].completed(call.client, outcome, submitted, completed);
            }
        }
        for (_, _, io) in flying.values() {
            self.verifier.abandoned(io);
        }
    }

    fn ended(&mut self, io: &Io, completion: &Completion) {
        let data = self.device.data(io.tag);
        self.verifier.completed(io, completion, data);
        self.outcomes.insert(completion.outcome.code());
        if completion.outcome == Outcome::Ok {
            self.honest.call(io);
        }
    }

    /// Looks at all that is there.
    fn looks(&mut self) {
        let found = FoundNames::of(&self.device.names());
        let never = AtomicBool::new(false);
        let now = || Nanos::ZERO;
        let pass = self.verifier.look_at_tree(&found, &mut self.device, &now, &never, &mut |_| {});
        assert!(!pass.unwrap().stopped);
        assert_eq!(self.verifier.figures().unreadable, 0);
    }

    /// All names that something was said of, by number.
    fn told_names(&self) -> BTreeSet<(u64, &'static str)> {
        let geometry = &self.honest.geometry;
        let files = (0..geometry.files()).map(|file| {
            let mut name = String::new();
            geometry.file_name(file, &mut name);
            format!("{}{name}", geometry.path_of(geometry.directory_of(file)))
        });
        let directories = (0..geometry.directories())
            .map(|directory| geometry.path_of(Some(directory)).trim_end_matches('/').to_owned());
        let numbers: BTreeMap<String, u64> = files.chain(directories).zip(0..).collect();
        let findings = self.verifier.name_findings().iter();
        findings.map(|finding| (numbers[&finding.path], finding.kind.name())).collect()
    }
}

#[test]
fn whatever_calls_fail_or_never_end_a_sound_tree_is_never_accused() {
    let (mut intact, mut outcomes) = (0, BTreeSet::new());
    for seed in 0..SEEDS {
        let mut random = SplitMix64(seed ^ 0xA5);
        let faults = ["errors=0", "errors=0.1", "short=0.1", "hang=0.005", "vanish=4ms"];
        let faults = faults[random.below(5) as usize];
        let capacity = if random.below(4) == 0 { 4 << 10 } else { 1 << 40 };
        // Threads in one file at the same time race.
        let shares = random.below(3) == 0;
        let more = [
            ("files:mixed?size=512&access=shared&select=random", 2),
            ("files:write?size=512&then-delete=yes&select=random", 1),
        ];
        let loads = [&LOADS[..], if shares { &more[..] } else { &[] }].concat();
        let (mut story, place) = Story::new(seed, faults, capacity, !shares);
        story.goes_on(seed, &place, &loads, 50 + random.below(200));
        story.looks();
        let told = story.verifier.findings();
        assert!(told.is_empty(), "seed {seed}, {faults}: {}", told[0]);
        let told = story.told_names();
        assert!(told.is_empty(), "seed {seed}, {faults}: {told:?}");
        intact += story.verifier.figures().intact;
        outcomes.append(&mut story.outcomes);
    }
    assert!(intact > 20 * SEEDS, "only {intact} sectors were looked at");
    let errors = [5, 19, 28].map(|error| Outcome::Error(error).code());
    assert!(errors.iter().all(|error| outcomes.contains(error)), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Short.code()), "{outcomes:?}");
    // No name is gone or there already, whoever shares files that others remove.
    let errs = [2, 17].map(|error| Outcome::Error(error).code());
    assert!(!errs.iter().any(|error| outcomes.contains(error)), "{outcomes:?}");
}

/// A way to lie, and what it may be called.
#[derive(Clone, Copy, Debug)]
enum Lie {
    OfData(MischiefKind),
    OfNames(NameMischief),
}

impl Lie {
    fn nth(n: u64) -> Self {
        // The last goes with two trees.
        let n = n as usize % (MischiefKind::ALL.len() + NameMischief::ALL.len() - 1);
        match MischiefKind::ALL.get(n) {
            Some(kind) => Self::OfData(*kind),
            None => Self::OfNames(NameMischief::ALL[n - MischiefKind::ALL.len()]),
        }
    }

    fn words(self) -> &'static [&'static str] {
        match self {
            Self::OfData(MischiefKind::LostWrite) => &["zeroed", "stale"],
            Self::OfData(MischiefKind::TornWrite) => &["torn", "zeroed", "stale"],
            Self::OfData(MischiefKind::MisdirectedWrite) => &["misdirected", "zeroed", "stale"],
            Self::OfData(MischiefKind::FlippedBit) => &["flipped"],
            Self::OfData(MischiefKind::ZeroedSector) => &["zeroed"],
            Self::OfData(MischiefKind::StaleRead) => &["stale", "torn", "misdirected"],
            Self::OfNames(NameMischief::Lost) => &["lost"],
            Self::OfNames(NameMischief::Kept) => &["extra"],
            Self::OfNames(NameMischief::Short) => &["truncated"],
            Self::OfNames(NameMischief::Half) => &["torn"],
        }
    }
}

#[test]
fn whatever_a_tree_lies_about_is_named_and_nothing_else() {
    let mut named: BTreeMap<(String, &str), u64> = BTreeMap::new();
    for seed in 0..SEEDS {
        let lie = Lie::nth(seed);
        let (data, names) = match lie {
            Lie::OfData(kind) => {
                let share = if kind == MischiefKind::StaleRead { 0.5 } else { 0.15 };
                (Mischief { share, kinds: vec![kind] }, (0.0, Vec::new()))
            }
            // A tree that loses much has little left to lose.
            Lie::OfNames(kind) => {
                let share = if kind == NameMischief::Lost { 0.1 } else { 0.3 };
                (Mischief::default(), (share, vec![kind]))
            }
        };
        let (mut story, place) = Story::new(seed, "errors=0", 1 << 40, true);
        story.device = story.device.misbehaving(data, names);
        story.goes_on(seed, &place, &LOADS, 50 + seed % 200);
        story.looks();
        let is_read = |found: &&ioecho_replay::verify::Finding| found.look == Look::Load;
        let (wrong, wrong_names) = (
            story.honest.wrong_sectors(&mut story.device),
            story.honest.wrong_names(&story.device.names()),
        );
        let sectors = |looks: bool| -> BTreeSet<u64> {
            let findings = story.verifier.findings().iter();
            let its = findings.filter(|found| is_read(found) != looks);
            its.flat_map(|it| (it.offset.0 / 512)..(it.offset + it.length).0 / 512).collect()
        };
        assert_eq!(sectors(true), wrong, "seed {seed}, {lie:?}");
        let told = story.told_names();
        assert!(told.is_superset(&wrong_names), "seed {seed}, {lie:?}: {told:?} {wrong_names:?}");
        // Nobody else is blamed, also while the threads were at work.
        let lied = story.device.misdeeds().iter().map(|misdeed| misdeed.number);
        let lied: BTreeSet<u64> = lied.collect();
        assert!(told.iter().all(|(number, _)| lied.contains(number)), "seed {seed}: {told:?}");
        let touched = story.device.device_mut().misdeeds().iter().flat_map(|misdeed| {
            let size = misdeed.sectors.end - misdeed.sectors.start;
            misdeed.sectors.clone().chain(misdeed.landed.map_or(0..0, |at| at..at + size))
        });
        let touched: BTreeSet<u64> = touched.collect();
        assert!(sectors(false).is_subset(&touched), "seed {seed}, {lie:?}");
        let kinds = story.verifier.findings().iter().map(|found| found.kind.name());
        for word in kinds.chain(told.iter().map(|(_, word)| *word)) {
            assert!(lie.words().contains(&word), "seed {seed}: {lie:?} is called {word}");
            *named.entry((format!("{lie:?}"), word)).or_default() += 1;
        }
    }
    for lie in (0..9).map(Lie::nth) {
        let often = named.get(&(format!("{lie:?}"), lie.words()[0])).copied().unwrap_or(0);
        assert!(often > 10, "{lie:?} was named {often} times: {named:?}");
    }
}

/// A call of which nobody has seen the end.
fn unended(io: &Io, submitted: Nanos) -> Change {
    let Io { request, op, flags, offset, length, .. } = *io;
    let (completed, outcome) = (None, Outcome::Abandoned);
    Change { request, op, flags, offset, length, submitted, completed, outcome }
}

/// What is done to each of several trees.
const LOADS_OF_SOME: [(&str, u32); 8] = [
    ("files:format?do=mkdir,fill&size=1k", 2),
    ("files:write?size=512&access=random&select=random", 1),
    ("files:read?size=512&select=random", 1),
    ("files:delete?select=random", 1),
    ("files:create?select=random", 1),
    ("files:write?size=1k&select=random", 1),
    ("files:move?to=2&select=random", 2),
    ("files:copy?to=2&select=random", 1),
];

impl Forest {
    fn new(count: usize, seed: u64, spec: &str, capacity: u64) -> Self {
        let clock = SimClock::new(Nanos(20));
        let (stories, trees) = Story::some(count, seed, spec, capacity, true, &clock);
        Self { stories, trees, clock, changes: BTreeMap::new() }
    }

    /// Lets threads make so many calls, and all of them end that ever do.
    fn goes_on(&mut self, seed: u64, loads: &[(&str, u32)], calls: u64) {
        let Self { stories, trees, clock, changes } = self;
        let next = |tree: usize| (tree + 1) % trees.len();
        let mut all: Vec<(usize, Clients)> = Vec::new();
        for tree in 0..trees.len() {
            for (line, threads) in loads {
                let seed = seed + all.len() as u64;
                let to = line.contains("to=").then(|| Arc::clone(&trees[next(tree)]));
                let load = FileLoad { seed, ..line.parse().unwrap() };
                let flow = FileFlow::new(load, Arc::clone(&trees[tree]), to);
                all.push((tree, Clients::new(Arc::new(flow.unwrap()), 0, *threads)));
            }
        }
        let nobody = || {
            let config = VerifyConfig { run: 0, target: 0, isolated: true };
            Verifier::new(config, Box::new(MemoryTable::default()), None)
        };
        let taken = |story: &mut Story| std::mem::replace(&mut story.verifier, nobody());
        let verifiers: Vec<Mutex<Verifier>> =
            stories.iter_mut().map(|story| Mutex::new(taken(story))).collect();
        let following = |tree: usize| {
            Following::Shared(Sharing::new(&verifiers[tree], None, Some(&verifiers[next(tree)])))
        };
        let mut following: Vec<Following<'_>> = (0..trees.len()).map(following).collect();
        let mut patterns: Vec<Pattern> = (0..trees.len())
            .map(|tree| Pattern::with_fill(seed + 1, tree as u16, Fill::default()))
            .collect();
        let mut flying: BTreeMap<(usize, u32), Flying> = BTreeMap::new();
        let (mut request, mut done) = (0, Vec::new());
        for story in stories.iter_mut() {
            story.device.keep_data(true);
        }
        loop {
            for (flow, (tree, clients)) in all.iter_mut().enumerate() {
                while request < calls
                    && let Next::Call(call) = clients.poll(Nanos::ZERO)
                {
                    let tag = flow as u32 * 4 + call.client;
                    let (flags, scheduled) = (Flags::empty(), Nanos::ZERO);
                    let (offset, length) = (Bytes(call.place), Bytes(call.length));
                    let io = Io { tag, request, scheduled, op: call.op, flags, offset, length };
                    stories[*tree].device.prepare(&io, &mut patterns[*tree]);
                    flying.insert((*tree, tag), (flow, call, io));
                    request += 1;
                    following[*tree].issued(&io, clock.now());
                    changes.insert(io.request, (*tree, unended(&io, clock.now())));
                }
            }
            for story in stories.iter_mut() {
                story.device.submit().unwrap();
            }
            let completes = |story: &mut Story| story.device.device_mut().next_completion();
            let first = (0..stories.len()).map(|tree| (completes(&mut stories[tree]), tree)).min();
            let Some((_, tree)) = first.filter(|(at, _)| *at < Nanos::MAX) else { break };
            stories[tree].device.wait(Nanos::MAX, &mut done).unwrap();
            for completion in done.drain(..) {
                let (flow, call, io) = flying.remove(&(tree, completion.tag)).unwrap();
                following[tree].completed(&io, &completion, stories[tree].device.data(io.tag));
                stories[tree].outcomes.insert(completion.outcome.code());
                let (_, change) = changes.get_mut(&io.request).unwrap();
                change.completed = Some(completion.completed);
                change.outcome = completion.outcome;
                if completion.outcome == Outcome::Ok {
                    match io.op {
                        Op::Copy | Op::Move => {
                            let number = stories[tree].honest.geometry.number_at(io.offset.0);
                            let file = stories[tree].honest.files[number as usize].clone();
                            stories[next(tree)].honest.files[number as usize] = file;
                            if io.op == Op::Move {
                                stories[tree].honest.files[number as usize] = None;
                            }
                        }
                        _ => stories[tree].honest.call(&io),
                    }
                }
                let Completion { outcome, submitted, completed, .. } = completion;
                all[flow].1.completed(call.client, outcome, submitted, completed);
            }
        }
        for ((tree, _), (_, _, io)) in &flying {
            following[*tree].abandoned(io);
        }
        drop(following);
        for (story, verifier) in stories.iter_mut().zip(verifiers) {
            story.verifier = verifier.into_inner().unwrap();
        }
    }

    /// The verifiers are rebuilt from the records, as if the threads had been killed.
    fn is_killed(&mut self, seed: u64, after: After) {
        let rebuild = |(target, story): (usize, &Story)| {
            let config = VerifyConfig { run: seed + 1, target: target as u16, isolated: true };
            let rebuild = Rebuild::new(
                config,
                Box::new(MemoryTable::default()),
                after,
                DurableBefore::default(),
            );
            let geometry = story.honest.geometry.clone();
            let nothing = FoundNames::nothing(&geometry);
            (rebuild, NameBook::of(geometry, &nothing))
        };
        let (mut rebuilds, books): (Vec<_>, Vec<_>) =
            self.stories.iter().enumerate().map(rebuild).unzip();
        begin_together(&mut rebuilds, books);
        for (request, (tree, change)) in &self.changes {
            for rebuild in &mut rebuilds {
                rebuild.record(*request, true);
            }
            let next = (tree + 1) % rebuilds.len();
            apply_together(&mut rebuilds, *tree, Some(next), change);
        }
        for (story, rebuild) in self.stories.iter_mut().zip(rebuilds) {
            story.verifier = rebuild.finish(false);
        }
    }

    /// Looks at all that is there.
    fn looks(&mut self) {
        let names = |story: &Story| FoundNames::of(&story.device.names());
        let found: Vec<FoundNames> = self.stories.iter().map(names).collect();
        let mut all: Vec<_> =
            self.stories.iter_mut().map(|story| &mut story.verifier).zip(&found).collect();
        torn_moves(&mut all, Nanos::ZERO);
        self.stories.iter_mut().for_each(Story::looks);
    }
}

#[test]
fn whatever_copies_and_moves_fail_or_never_end_sound_trees_are_never_accused() {
    let (mut intact, mut outcomes) = (0, BTreeSet::new());
    for seed in 0..SEEDS / 2 {
        let mut random = SplitMix64(seed ^ 0x5A);
        let faults = ["errors=0", "errors=0.1", "short=0.1", "hang=0.005", "vanish=1ms"];
        let faults = faults[random.below(5) as usize];
        let capacity = if random.below(4) == 0 { 4 << 10 } else { 1 << 40 };
        let mut forest = Forest::new(2 + (seed % 2) as usize, seed, faults, capacity);
        forest.goes_on(seed, &LOADS_OF_SOME, 200 + random.below(400));
        for after in [None, Some(After::Kill), Some(After::PowerCut)] {
            if let Some(after) = after {
                forest.is_killed(seed, after);
            }
            forest.looks();
            for story in &mut forest.stories {
                let told = story.verifier.findings();
                assert!(told.is_empty(), "seed {seed}, {faults}, {after:?}: {}", told[0]);
                let told = story.verifier.name_findings();
                assert!(told.is_empty(), "seed {seed}, {faults}, {after:?}: {}", told[0]);
                intact += story.verifier.figures().intact;
                outcomes.append(&mut story.outcomes);
            }
        }
    }
    assert!(intact > 20 * SEEDS, "only {intact} sectors were looked at");
    let errors = [5, 19, 28].map(|error| Outcome::Error(error).code());
    assert!(errors.iter().all(|error| outcomes.contains(error)), "{outcomes:?}");
}

#[test]
fn every_move_that_is_done_by_half_is_called_torn_and_nothing_else() {
    let mut named: BTreeMap<bool, u64> = BTreeMap::new();
    for seed in 0..SEEDS / 4 {
        let mut forest = Forest::new(2, seed, "errors=0", 1 << 40);
        let halves = |story: Story| {
            let names = (0.2, vec![NameMischief::Half]);
            Story { device: story.device.misbehaving(Mischief::default(), names), ..story }
        };
        forest.stories = forest.stories.into_iter().map(halves).collect();
        forest.goes_on(seed, &LOADS_OF_SOME, 200 + seed % 300);
        forest.looks();
        let lied: Vec<BTreeSet<u64>> = forest
            .stories
            .iter()
            .map(|story| story.device.misdeeds().iter().map(|misdeed| misdeed.number).collect())
            .collect();
        for (tree, story) in forest.stories.iter_mut().enumerate() {
            assert_eq!(story.verifier.findings(), [], "seed {seed}");
            assert_eq!(story.honest.wrong_sectors(&mut story.device), BTreeSet::new());
            let (wrong, told) =
                (story.honest.wrong_names(&story.device.names()), story.told_names());
            for (number, kind) in &told {
                assert_eq!(*kind, "torn", "seed {seed}: {told:?}");
                let is_half = lied.iter().any(|lied| lied.contains(number));
                assert!(is_half, "seed {seed}: file {number} of tree {tree}");
            }
            for (number, kind) in wrong {
                assert!(told.contains(&(number, "torn")), "seed {seed}: {number} is {kind}");
                *named.entry(kind == "extra").or_default() += 1;
            }
        }
        // Whoever looks later sees the same.
        forest.is_killed(seed, After::Kill);
        forest.looks();
        for story in &mut forest.stories {
            let wrong = story.honest.wrong_names(&story.device.names());
            let wrong: BTreeSet<_> =
                wrong.into_iter().map(|(number, _)| (number, "torn")).collect();
            assert_eq!(story.told_names(), wrong, "seed {seed}");
        }
    }
    assert!(named.len() == 2 && named.values().all(|often| *often > 50), "{named:?}");
}

#[test]
fn whatever_trees_do_to_data_is_named_wherever_the_files_have_been_moved() {
    let mut named: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..SEEDS / 4 {
        let kinds = &MischiefKind::ALL[..5];
        let kind = kinds[seed as usize % kinds.len()];
        let mut forest = Forest::new(2, seed, "errors=0", 1 << 40);
        let lies = |story: Story| {
            let data = Mischief { share: 0.2, kinds: vec![kind] };
            Story { device: story.device.misbehaving(data, (0.0, Vec::new())), ..story }
        };
        forest.stories = forest.stories.into_iter().map(lies).collect();
        forest.goes_on(seed, &LOADS_OF_SOME, 200 + seed % 300);
        for is_later in [false, true] {
            if is_later {
                forest.is_killed(seed, After::Kill);
            }
            forest.looks();
            for story in &mut forest.stories {
                let findings = story.verifier.findings().iter();
                let found = findings.filter(|found| found.look != Look::Load);
                let sectors =
                    found.clone().flat_map(|it| it.offset.0 / 512..(it.offset + it.length).0 / 512);
                let told: BTreeSet<u64> = sectors.collect();
                let words: Vec<&str> = found.map(|found| found.kind.name()).collect();
                let wrong = story.honest.wrong_sectors(&mut story.device);
                assert_eq!(told, wrong, "seed {seed}, {kind:?}, later: {is_later}");
                for word in words {
                    let may_be = Lie::OfData(kind).words();
                    assert!(may_be.contains(&word), "seed {seed}: {kind:?} is called {word}");
                    *named.entry(word).or_default() += 1;
                }
                assert_eq!(story.verifier.name_findings(), [], "seed {seed}");
            }
        }
    }
    for word in ["zeroed", "stale", "torn", "misdirected", "flipped"] {
        assert!(named.get(word).is_some_and(|often| *often > 5), "{word}: {named:?}");
    }
}
