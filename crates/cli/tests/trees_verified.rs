//! Verification of trees of files: killed in the midst, read back, and damaged by hand, in contents
//! and in names.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "trees_verified/limits.rs"]
mod limits;
#[path = "fixture/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_replay::pattern::{SplitMix64, Stamp, expected_sector, read_stamp};
use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

const SECTOR: usize = 512;

/// 480 files of up to 64 KiB.
const SHAPE: &str = "depth=2&width=4&files=30&size=16k:50,64k:50";

/// All that changes a tree, and reads.
const FLOWS: [&str; 4] = [
    "write=files:write?size=4k&access=sequential&select=random;threads=2",
    "remove=files:delete?select=random;threads=1",
    "make=files:create?select=random;threads=1",
    "read=files:read?size=8k&access=random&select=random;threads=1",
];

struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        Self { directory: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The words of a replay in the family of this home.
    fn line(run: &str, flows: &[&str], more: &[&str]) -> Vec<String> {
        let mut line: Vec<String> =
            ["replay", "-q", "--family=family", "--destroy=anchor"].map(str::to_owned).to_vec();
        line.push(format!("--output={run}"));
        line.push(format!("--target=tree:anchor?{SHAPE}"));
        line.extend(flows.iter().map(|flow| format!("--flow={flow}")));
        line.extend(more.iter().map(|word| (*word).to_owned()));
        line
    }

    fn does(&self, line: &[String]) -> (i32, String) {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = ioecho(self.directory.path(), &words);
        (output.status.code().unwrap(), said(&output))
    }

    /// A replay that finds no damage, however the host was busy meanwhile.
    fn replays(&self, run: &str, flows: &[&str], more: &[&str]) {
        let (code, told) = self.does(&Self::line(run, flows, more));
        assert!(matches!(code, 0 | 10 | 11 | 12 | 14), "{code}: {told}");
        assert!(!told.contains("warning: anchor"), "{told}");
    }

    /// Makes the whole tree.
    fn makes(&self) {
        let make = "make=files:format?do=mkdir,fill&size=16k;threads=2";
        self.replays("made", &[make], &["--verify=reads"]);
    }

    /// Kills a run some time after its first results.
    fn kills(&self, run: &str, more: &[&str], after: Duration) {
        self.is_killed(run, &Self::line(run, &FLOWS, more), after);
    }

    /// The same of the replay of this line.
    fn is_killed(&self, run: &str, line: &[String], after: Duration) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(line).current_dir(self.directory.path());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let journal = self.path(run).join("requests.journal");
        let until = Instant::now() + Duration::from_mins(1);
        while fs::metadata(&journal).map_or(0, |journal| journal.len()) < 4096 {
            assert!(Instant::now() < until, "no results after a minute");
            assert!(child.try_wait().unwrap().is_none(), "{run} has ended");
            sleep(Duration::from_millis(2));
        }
        sleep(after);
        assert!(child.try_wait().unwrap().is_none(), "{run} has ended");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Reads all back: the exit code, what was said, and the result.
    fn verifies(&self) -> (i32, String, Value) {
        let (code, told) = self.does(&["verify", "family", "-q"].map(str::to_owned));
        let json = fs::read(self.path("family/verify.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        (code, told, json["targets"][0].clone())
    }

    fn is_intact(&self) -> Value {
        let (code, told, found) = self.verifies();
        assert_eq!(code, 0, "{told}");
        found
    }
}

#[test]
fn what_threads_made_is_there_and_is_what_they_wrote() {
    let home = Home::new();
    home.makes();
    let made = home.is_intact();
    assert!(made["figures"]["intact"].as_u64().unwrap() > 10_000, "{made}");
    assert_eq!(made["figures"]["names"], 480 + 4 + 16, "{made}");
    home.replays("mixed", &FLOWS, &["--verify=final", "--end-after=500ms"]);
    // How many files are left depends on whose threads are faster; directories stay.
    let left = home.is_intact()["figures"]["names"].as_u64().unwrap();
    assert!((20..=500).contains(&left), "{left}");
    // A run alone is as good as a family of one.
    let line = ["replay", "-q", "--output=alone", "--target=tree:other?files=9", "--verify=final"];
    let make = "--flow=make=files:format?do=mkdir,fill&size=4k;threads=1";
    let line: Vec<String> = line.into_iter().chain([make]).map(str::to_owned).collect();
    assert_eq!(home.does(&line).0, 0);
    let (code, told) = home.does(&["verify", "alone", "-q"].map(str::to_owned));
    assert_eq!(code, 0, "{told}");
    fs::remove_file(home.path("other/vdb.1_1.dir/vdb_f0004.file")).unwrap();
    let (code, told) = home.does(&["verify", "alone", "-q"].map(str::to_owned));
    assert_eq!(code, 15, "{told}");
    assert!(told.contains("lost: vdb.1_1.dir/vdb_f0004.file"), "{told}");
}

#[test]
fn files_that_threads_share_are_removed_beside_them_and_nothing_is_damaged() {
    let home = Home::new();
    let of_four = |line: Vec<String>| {
        line.into_iter().map(|word| word.replace(SHAPE, "width=2&files=2&size=64k")).collect()
    };
    let make = ["make=files:format?do=mkdir,fill&size=16k;threads=1"];
    let line: Vec<String> = of_four(Home::line("made", &make, &["--verify=reads"]));
    let (code, told) = home.does(&line);
    assert!(matches!(code, 0 | 10 | 11 | 12 | 14), "{code}: {told}");
    let flows = [
        "shared=files:mixed?size=512&access=shared&select=random;threads=3",
        "remove=files:delete?select=random;threads=1",
        "make=files:create?select=random;threads=1",
        "write=files:write?size=16k&select=random;threads=1",
    ];
    let more = ["--verify=final", "--end-after=500ms"];
    let line: Vec<String> = of_four(Home::line("mixed", &flows, &more));
    let (code, told) = home.does(&line);
    assert!(matches!(code, 0 | 10 | 11 | 12 | 14), "{code}: {told}");
    assert!(told.contains(", 0 damaged,") && !told.contains("errno"), "{told}");
}

/// How often a run is killed; the environment may ask for more.
fn times() -> u32 {
    std::env::var("IOECHO_KILLS").ok().and_then(|times| times.parse().ok()).unwrap_or(6)
}

#[test]
fn whenever_threads_are_killed_nothing_is_missed_and_nothing_is_false() {
    let home = Home::new();
    home.makes();
    let mut random = SplitMix64(3);
    let mut in_flight = 0;
    for turn in 0..times() {
        let journal = if turn % 3 == 2 { "--journal=durable" } else { "--journal=kill" };
        let more = ["--verify=reads", journal, "--end-after=60s"];
        home.kills(&format!("r{turn}"), &more, Duration::from_millis(random.below(150)));
        let found = home.is_intact();
        in_flight += found["in_flight"].as_u64().unwrap();
        // Each name once, in however many runs it was.
        assert!((20..=500).contains(&found["figures"]["names"].as_u64().unwrap()), "{found}");
        assert!(found["notes"].as_array().unwrap().is_empty(), "{found}");
    }
    assert!(in_flight > 0, "nothing was ever in flight");
}

/// What damage leaves in a sector, from its content and an older one.
type Damage = fn(&mut [u8], &[u8], &mut SplitMix64);

fn older(sector: &mut [u8], before: &[u8], _: &mut SplitMix64) {
    sector.copy_from_slice(before);
}

fn half(sector: &mut [u8], before: &[u8], _: &mut SplitMix64) {
    sector[256..].copy_from_slice(&before[256..]);
}

fn bit(sector: &mut [u8], _: &[u8], random: &mut SplitMix64) {
    sector[64 + random.below(440) as usize] ^= 1 << random.below(8);
}

fn zeroes(sector: &mut [u8], _: &[u8], _: &mut SplitMix64) {
    sector.fill(0);
}

/// What was written to the file behind.
fn elsewhere(sector: &mut [u8], _: &[u8], _: &mut SplitMix64) {
    let stamp = read_stamp(sector).unwrap();
    let position = stamp.position ^ (1 << 16);
    sector.copy_from_slice(&expected_sector(&Stamp { position, ..stamp }));
}

fn foreign(sector: &mut [u8], _: &[u8], random: &mut SplitMix64) {
    sector.fill_with(|| random.below(256) as u8);
}

/// The paths of all files of the tree, and their contents.
fn contents(anchor: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![anchor.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "file") {
                let name = path.strip_prefix(anchor).unwrap().to_str().unwrap().to_owned();
                all.insert(name, fs::read(path).unwrap());
            }
        }
    }
    all
}

/// A tree that was made, and every file of which was written once more.
fn written_twice(home: &Home) -> BTreeMap<String, Vec<u8>> {
    home.makes();
    let before = contents(&home.path("anchor"));
    let write = "write=files:write?size=16k&once=yes;threads=2";
    home.replays("again", &[write], &["--verify=reads"]);
    assert_eq!(before.len(), 480);
    before
}

#[test]
fn six_kinds_of_damage_are_named_by_file_and_offset() {
    let home = Home::new();
    let before = written_twice(&home);
    let sound = contents(&home.path("anchor"));
    let paths: Vec<&String> = sound.keys().collect();
    let kinds: [(&str, Damage); 6] = [
        ("stale", older),
        ("torn", half),
        ("flipped", bit),
        ("zeroed", zeroes),
        ("misdirected", elsewhere),
        ("foreign", foreign),
    ];
    let mut random = SplitMix64(11);
    let mut damaged = sound.clone();
    let mut places: BTreeMap<(String, u64), &str> = BTreeMap::new();
    for (kind, damage) in kinds {
        for _ in 0..20 {
            // One sector of a write each: neighbours could be taken for one finding.
            let (path, at) = loop {
                let path = paths[random.below(paths.len() as u64) as usize];
                let sectors = (sound[path].len() / SECTOR) as u64;
                let at = random.below(sectors);
                let is_apart = |(other, place): &(String, u64)| {
                    other != path || (place / SECTOR as u64).abs_diff(at) > 32
                };
                if places.keys().all(is_apart) {
                    break (path, at as usize);
                }
            };
            let range = at * SECTOR..(at + 1) * SECTOR;
            let sector = &mut damaged.get_mut(path).unwrap()[range.clone()];
            damage(sector, &before[path][range], &mut random);
            places.insert((path.clone(), (at * SECTOR) as u64), kind);
        }
    }
    for (path, data) in &damaged {
        if *data != sound[path] {
            fs::write(home.path("anchor").join(path), data).unwrap();
        }
    }
    let (code, told, found) = home.verifies();
    assert_eq!(code, 15, "{told}");
    let named = |finding: &Value| {
        assert_eq!(finding["length"].as_u64(), Some(SECTOR as u64), "{finding}");
        let path = finding["file"]["path"].as_str().unwrap().to_owned();
        let kind = finding["kind"].as_str().unwrap().to_owned();
        ((path, finding["file"]["offset"].as_u64().unwrap()), kind)
    };
    let named: BTreeMap<_, _> = found["findings"].as_array().unwrap().iter().map(named).collect();
    assert_eq!(named.keys().collect::<Vec<_>>(), places.keys().collect::<Vec<_>>());
    for (place, kind) in &places {
        // A single old sector of a write whose others arrived is a torn write.
        let is_right = named[place] == *kind || *kind == "stale" && named[place] == "torn";
        assert!(is_right, "{place:?}: {kind} is named {}", named[place]);
    }
    for (path, data) in &sound {
        fs::write(home.path("anchor").join(path), data).unwrap();
    }
    home.is_intact();
}

/// The names of a result, each with all that is said of it.
fn names(found: &Value) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let listed = |key: &str| found[key].as_array().cloned().unwrap_or_default();
    for name in listed("names") {
        let path = name["path"].as_str().unwrap().to_owned();
        all.entry(path).or_default().push(name["kind"].as_str().unwrap().to_owned());
    }
    for finding in listed("findings") {
        let path = finding["file"]["path"].as_str().unwrap().to_owned();
        all.entry(path).or_default().push(finding["kind"].as_str().unwrap().to_owned());
    }
    all
}

#[test]
fn names_that_are_lost_extra_of_other_size_or_kind_or_swapped_are_named() {
    let home = Home::new();
    let before = written_twice(&home);
    // Some are removed, so that names can be there which must not.
    let remove = "remove=files:delete?once=yes&select=random;threads=1;requests=100";
    home.replays("removed", &[remove], &["--verify=reads"]);
    home.is_intact();
    let anchor = home.path("anchor");
    let there: Vec<String> = contents(&anchor).into_keys().collect();
    assert_eq!(there.len(), 380);
    let mut random = SplitMix64(5);
    let mut left: Vec<String> = there.clone();
    let mut take = || left.swap_remove(random.below(left.len() as u64) as usize);
    let mut damaged: BTreeMap<String, &str> = BTreeMap::new();
    for turn in 0..20 {
        let path = take();
        fs::remove_file(anchor.join(&path)).unwrap();
        damaged.insert(path, "lost");
        let path = take();
        let file = fs::File::options().write(true).open(anchor.join(&path)).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2 - 1024 * (turn % 3)).unwrap();
        damaged.insert(path, "truncated");
        let path = take();
        let file = fs::File::options().write(true).open(anchor.join(&path)).unwrap();
        file.set_len(file.metadata().unwrap().len() + 1 + 5000 * (turn % 3)).unwrap();
        damaged.insert(path, "grown");
        let path = take();
        fs::remove_file(anchor.join(&path)).unwrap();
        match turn % 3 {
            0 => fs::create_dir(anchor.join(&path)).unwrap(),
            1 => std::os::unix::fs::symlink("vdb_f0001.file", anchor.join(&path)).unwrap(),
            _ => drop(std::os::unix::net::UnixListener::bind(anchor.join(&path)).unwrap()),
        }
        damaged.insert(path, "wrong-kind");
        let (one, other) = (take(), take());
        fs::rename(anchor.join(&one), anchor.join("aside")).unwrap();
        fs::rename(anchor.join(&other), anchor.join(&one)).unwrap();
        fs::rename(anchor.join("aside"), anchor.join(&other)).unwrap();
        damaged.insert(one, "misdirected");
        damaged.insert(other, "misdirected");
    }
    let mut absent: Vec<&String> = before.keys().filter(|path| !there.contains(path)).collect();
    for _ in 0..20 {
        let path = absent.swap_remove(random.below(absent.len() as u64) as usize);
        fs::write(anchor.join(path), "whoever").unwrap();
        damaged.insert(path.clone(), "extra");
    }
    let (code, told, found) = home.verifies();
    assert_eq!(code, 15, "{told}");
    assert_eq!(found["figures"]["names"], 380 + 20 + 20, "also what is lost, and what is extra");
    let named = names(&found);
    assert_eq!(named.keys().collect::<Vec<_>>(), damaged.keys().collect::<Vec<_>>());
    for (path, kind) in &damaged {
        assert!(named[path].iter().any(|named| named == kind), "{path}: {kind}, {:?}", named[path]);
        let is_swapped = *kind == "misdirected";
        assert!(is_swapped || named[path].len() == 1, "{path}: {:?}", named[path]);
    }
    // A directory takes all that lies in it along.
    fs::remove_dir_all(anchor.join("vdb.1_1.dir")).unwrap();
    fs::write(anchor.join("vdb.1_1.dir"), "no directory").unwrap();
    let (_, _, found) = home.verifies();
    let named = names(&found);
    assert_eq!(named["vdb.1_1.dir"], ["wrong-kind"]);
    assert_eq!(named["vdb.1_1.dir/vdb.2_1.dir"], ["lost"]);
    let gone = there.iter().filter(|path| path.starts_with("vdb.1_1.dir/"));
    assert!(gone.into_iter().all(|path| named[path] == ["lost"]));
}

/// The words of a replay on two trees of one shape, of which files go from one to the other.
fn between(run: &str, flows: &[&str], more: &[&str]) -> Vec<String> {
    let mut line: Vec<String> =
        ["replay", "-q", "--family=family", "--destroy=here", "--destroy=there"]
            .map(str::to_owned)
            .to_vec();
    line.push(format!("--output={run}"));
    line.extend(["here", "there"].map(|anchor| format!("--target=tree:{anchor}?{SHAPE}")));
    line.extend(flows.iter().map(|flow| format!("--flow={flow}")));
    line.extend(more.iter().map(|word| (*word).to_owned()));
    line
}

/// What is done to both trees; the first is full, and the other has its directories alone.
const MAKE_BOTH: [&str; 2] = [
    "here=files:format?do=mkdir,fill&size=16k;threads=1;on=1",
    "there=files:format?do=mkdir;threads=1;on=2",
];

/// Files go to and fro, and are written meanwhile.
const TO_AND_FRO: [&str; 8] = [
    "fill=files:fill?size=4k&select=random;threads=1;on=1",
    "go=files:move?to=2&select=random;threads=2;on=1",
    "come=files:move?to=1&select=random;threads=1;on=2",
    "copy=files:copy?to=1&select=random;threads=1;on=2",
    "write=files:write?size=4k&access=random&select=random;threads=1;on=2",
    "write1=files:write?size=16k&select=random;threads=1;on=1",
    "read=files:read?size=8k&select=random;threads=1;on=2",
    "remove=files:delete?select=random;threads=1;on=1",
];

impl Home {
    /// A replay that finds no damage, however the host was busy meanwhile.
    fn goes(&self, line: &[String]) {
        let (code, told) = self.does(line);
        assert!(matches!(code, 0 | 10 | 11 | 12 | 14), "{code}: {told}");
        assert!(!told.contains("warning: "), "{told}");
    }

    /// Reads both trees back: the exit code, and the results.
    fn both(&self, what: &str) -> (i32, String, [Value; 2]) {
        let (code, told) = self.does(&["verify", what, "-q"].map(str::to_owned));
        let json = fs::read(self.path(what).join("verify.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        (code, told, [json["targets"][0].clone(), json["targets"][1].clone()])
    }
}

#[test]
fn moved_files_are_verified_where_they_are_and_moves_by_halves_are_torn() {
    let home = Home::new();
    let reads = &["--verify=reads"][..];
    home.goes(&between("made", &MAKE_BOTH, reads));
    let go = "go=files:move?to=2&once=yes&select=random;threads=2;on=1;requests=100";
    let write = "write=files:write?size=4k&access=random&select=random;threads=1;on=2;requests=300";
    home.goes(&between("moved", &[go, write], &["--verify=final"]));
    let (code, told, found) = home.both("family");
    assert_eq!(code, 0, "{told}");
    let looked: u64 = found.iter().map(|it| it["figures"]["names"].as_u64().unwrap()).sum();
    assert_eq!(looked, 480 + 2 * (4 + 16));
    let (here, there) = (home.path("here"), home.path("there"));
    let mut moved: Vec<String> = contents(&there).into_keys().collect();
    assert_eq!(moved.len(), 200);
    let mut random = SplitMix64(9);
    let mut take = || moved.swap_remove(random.below(moved.len() as u64) as usize);
    let mut damaged = [BTreeMap::new(), BTreeMap::new()];
    for _ in 0..20 {
        let (in_both, in_neither, flipped, undone) = (take(), take(), take(), take());
        fs::copy(there.join(&in_both), here.join(&in_both)).unwrap();
        damaged[0].insert(in_both, "torn");
        fs::remove_file(there.join(&in_neither)).unwrap();
        damaged[1].insert(in_neither, "torn");
        let mut bytes = fs::read(there.join(&flipped)).unwrap();
        bytes[512 * 3 + 100] ^= 4;
        fs::write(there.join(&flipped), bytes).unwrap();
        damaged[1].insert(flipped, "flipped");
        // As if it had never been moved: that is whole.
        fs::rename(there.join(&undone), here.join(&undone)).unwrap();
        damaged[0].insert(undone.clone(), "extra");
        damaged[1].insert(undone, "lost");
    }
    let (code, told, found) = home.both("family");
    assert_eq!(code, 15, "{told}");
    for (found, damaged) in found.iter().zip(&damaged) {
        let named = names(found);
        let expected = damaged.iter().map(|(path, kind)| (path.clone(), vec![(*kind).to_owned()]));
        assert_eq!(named, expected.collect::<BTreeMap<_, _>>());
    }
    // The records say the same as the states that were kept.
    for name in ["versions-0", "versions-1", "names-0"] {
        fs::remove_file(home.path("family").join(format!("{name}.state"))).unwrap();
    }
    let (_, _, again) = home.both("family");
    assert_eq!(again.each_ref().map(names), found.each_ref().map(names));
    // The next run tells of it as it begins, and goes on from there.
    let read = "read=files:read?size=16k&once=yes;threads=1;on=1;requests=5";
    let other = "other=files:read?size=16k&once=yes;threads=1;on=2;requests=5";
    let (code, told) = home.does(&between("later", &[read, other], reads));
    assert!(code == 15 && told.contains("torn: "), "{code}: {told}");
}

#[test]
fn of_files_that_nobody_wrote_the_names_are_intact_and_nothing_else_is_said() {
    let home = Home::new();
    let plain: Vec<String> = between("made", &MAKE_BOTH, &[]);
    home.goes(&plain.into_iter().filter(|word| word != "--family=family").collect::<Vec<_>>());
    let go = "go=files:move?to=2&once=yes;threads=1;on=1;requests=20";
    home.goes(&between("moved", &[go], &["--verify=final"]));
    let (code, told, found) = home.both("moved");
    assert_eq!(code, 0, "{told}");
    assert!(found.iter().all(|it| it["figures"]["intact"] == 0), "{found:?}");
    assert!(told.contains("verdict       its names are intact; of data nothing"), "{told}");
}

#[test]
fn whenever_threads_that_move_files_are_killed_nothing_is_false() {
    let home = Home::new();
    home.goes(&between("made", &MAKE_BOTH, &["--verify=reads"]));
    let mut random = SplitMix64(4);
    let mut intact = 0;
    for turn in 0..times() / 2 {
        let journal = if turn % 3 == 2 { "--journal=durable" } else { "--journal=kill" };
        let run = format!("r{turn}");
        let line = between(&run, &TO_AND_FRO, &["--verify=reads", journal, "--end-after=60s"]);
        home.is_killed(&run, &line, Duration::from_millis(random.below(150)));
        let (code, told, found) = home.both("family");
        assert_eq!(code, 0, "{told}");
        intact += found.iter().map(|it| it["figures"]["intact"].as_u64().unwrap()).sum::<u64>();
    }
    assert!(intact > 10_000, "{intact}");
    // A move by half is seen behind that, too. What can be moved is, so that there are some.
    let all = ["go=files:move?to=2&once=yes;threads=1;on=1"];
    home.goes(&between("last", &all, &["--verify=reads"]));
    let (here, there) = (home.path("here"), home.path("there"));
    let (first, other) = (contents(&here), contents(&there));
    let only_there = other.keys().filter(|path| !first.contains_key(*path));
    let damaged: Vec<String> = only_there.take(3).cloned().collect();
    for path in &damaged {
        fs::copy(there.join(path), here.join(path)).unwrap();
    }
    let (code, told, found) = home.both("family");
    assert_eq!((code, damaged.len()), (15, 3), "{told}");
    let named = names(&found[0]);
    for path in &damaged {
        // What was removed here since, or never moved, is no half of a move.
        assert!(matches!(named[path][0].as_str(), "torn" | "extra"), "{named:?}");
    }
    assert!(names(&found[1]).is_empty(), "{found:?}");
}

/// A workload of three operations on a tree that is made first, with Vdbench's words.
const FILE: &str = "fsd=fsd1,anchor=anchor,depth=2,width=3,files=20,size=16k\n\
    fwd=default,fsd=fsd1,xfersize=4k,threads=2\n\
    fwd=write,operation=write,fileio=sequential,fileselect=random\n\
    fwd=read,operation=read,fileio=random,fileselect=random\n\
    fwd=remove,operation=delete,fileselect=random,threads=1\n\
    fwd=make,operation=create,fileselect=random,threads=1\n\
    rd=one,fwd=(write,read,remove,make),fwdrate=max,format=restart,elapsed=30,interval=1\n";

/// A workload with Vdbench's arguments; the exit code and what was said.
fn vdbench(home: &Home, more: &str) -> (i32, String) {
    let words = ["vdbench", "-f", "a.vdb", "-o", "out", "--seed", "7", "--quiet"].into_iter();
    let words: Vec<String> = words.chain(more.split_whitespace()).map(str::to_owned).collect();
    for _ in 0..100 {
        let (code, told) = home.does(&words);
        // A run that was killed may take a moment to go.
        if code != 13 || !told.contains("goes on") {
            return (code, told);
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the killed run goes on");
}

/// The process of a run of the workload that has results, if there is one.
fn worker(home: &Home) -> Option<String> {
    let below = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    };
    let attempts = below(home.path("out/cells")).flat_map(below);
    let runs = attempts.map(|attempt| attempt.join("run"));
    let text = |run: &Path| fs::read_to_string(run.join("run.toml")).unwrap_or_default();
    let goes_on = |run: &PathBuf| {
        let journal = fs::metadata(run.join("requests.journal"));
        let has_results = journal.is_ok_and(|journal| journal.len() > 100_000);
        has_results && !run.join("summary.json").exists() && text(run).contains("remove@fsd1")
    };
    let run = runs.into_iter().find(goes_on)?;
    let facts: toml::Table = text(&run).parse().ok()?;
    Some(facts.get("pid")?.as_integer()?.to_string())
}

#[test]
fn a_killed_workload_on_files_is_read_back_with_vdbenchs_arguments() {
    let home = Home::new();
    fs::write(home.path("a.vdb"), FILE).unwrap();
    let words = ["vdbench", "-f", "a.vdb", "-o", "out", "--seed", "7", "--quiet", "-jn"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(words).current_dir(home.directory.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_mins(1);
    let worker = loop {
        assert!(Instant::now() < until, "no results after a minute");
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        if let Some(worker) = worker(&home) {
            break worker;
        }
        sleep(Duration::from_millis(5));
    };
    child.kill().unwrap();
    assert!(Command::new("kill").args(["-9", &worker]).status().unwrap().success());
    child.wait().unwrap();
    let (code, told) = vdbench(&home, "-jro");
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("verdict       intact"), "{told}");
    // Goes on where it was, with the format that finds its tree.
    let (code, told) = vdbench(&home, "-jrn -e 1");
    assert!(matches!(code, 0 | 40), "{code}: {told}");
    let anchor = home.path("anchor");
    let (path, _) = contents(&anchor).into_iter().find(|(_, data)| data.len() > 4096).unwrap();
    fs::remove_file(anchor.join(&path)).unwrap();
    let (code, told) = vdbench(&home, "-jro");
    assert_eq!(code, 15, "{told}");
    assert!(told.contains(&format!("lost: {path}")), "{told}");
    let log = fs::read_to_string(home.path("out/errorlog.html")).unwrap();
    assert!(log.contains("1 lost") && log.contains(&path), "{log}");
    // Who goes on after that must repair it first.
    let (code, told) = vdbench(&home, "-jrn -e 1");
    assert_eq!(code, 15, "{told}");
}

#[test]
fn a_tree_in_memory_is_verified_with_the_same_words_and_what_it_lies_about_is_named() {
    let home = Home::new();
    let make = "fill=files:format?do=mkdir,fill&size=4k;threads=3";
    let verified = |run: &str, calls: &str, verify: &str| {
        let shape = "depth=2&width=2&files=5&size=4k:50,20k:50&found=nothing";
        let target = format!("--target=sim:tree?{shape}&calls=model=exp,{calls}");
        let (output, verify) = (format!("--output={run}"), format!("--verify={verify}"));
        let words = ["replay", "-q", "--end-after=100ms", &target, &output, &verify].into_iter();
        let flows = FLOWS.into_iter().chain([make]).map(|flow| format!("--flow={flow}"));
        let (code, told) = home.does(&words.map(str::to_owned).chain(flows).collect::<Vec<_>>());
        let json = fs::read(home.path(run).join("verify.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        (code, told, json["targets"][0].clone())
    };
    for verify in ["reads", "final", "preread", "paranoia"] {
        let (code, told, found) = verified(verify, "seed=5", verify);
        assert_eq!(code, 0, "{told}");
        assert_eq!(found["complete"], verify != "reads", "{found}");
        assert!(found["figures"]["intact"].as_u64().unwrap() > 500, "{found}");
        assert!(names(&found).is_empty(), "{found}");
    }
    // Each story has lies of its own: together they have all kinds.
    let mut kinds: Vec<String> = Vec::new();
    for seed in 5..9 {
        let run = format!("lies-{seed}");
        let (code, told, found) = verified(&run, &format!("seed={seed},lies=0.02"), "final");
        assert_eq!(code, 15, "{told}");
        kinds.extend(names(&found).into_values().flatten());
    }
    let has = |kind: &str| kinds.iter().any(|it| it == kind);
    assert!(has("stale") && has("flipped") && has("lost") && has("extra"), "{kinds:?}");
    // So do two of them, of which files go from one to the other.
    let moved = |run: &str, calls: &str| {
        let target = |found: &str| {
            let shape = format!("depth=2&width=2&files=5&size=4k:50,20k:50&found={found}");
            format!("--target=sim:tree?{shape}&calls=model=exp,seed=5{calls}")
        };
        let words = ["replay", "-q", "--end-after=100ms", "--verify=final"].map(str::to_owned);
        let targets = ["full", "directories"].map(target);
        let output = [format!("--output={run}")];
        let flows = TO_AND_FRO.map(|flow| format!("--flow={flow}"));
        let words = words.into_iter().chain(targets).chain(output).chain(flows);
        let (code, told) = home.does(&words.collect::<Vec<_>>());
        let json = fs::read(home.path(run).join("verify.json")).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        (code, told, json["targets"].clone())
    };
    let (code, told, found) = moved("moved", "");
    assert_eq!(code, 0, "{told}");
    let intact = |number: usize| found[number]["figures"]["intact"].as_u64().unwrap();
    assert!(found[0]["complete"] == true && intact(0) + intact(1) > 50, "{found}");
    let (code, told, found) = moved("halved", ",lies=0.05");
    assert_eq!(code, 15, "{told}");
    let kinds = (0..2).flat_map(|number| names(&found[number]).into_values().flatten());
    assert!(kinds.into_iter().any(|kind| kind == "torn"), "{found}");
    // A described workload does so of each of its runs.
    let file = FILE.replace("elapsed=30", "elapsed=1").replace("threads=2", "threads=1");
    fs::write(home.path("a.vdb"), file).unwrap();
    let run = |output: &str, target: &str| {
        let words = ["run", "a.vdb", "-q", "--seed=7", "--verify=final", output, target];
        home.does(&words.map(str::to_owned))
    };
    let (code, told) = run("--output=sound", "--target=fsd1=sim:service=5ms");
    assert!(matches!(code, 0 | 10), "{code}: {told}");
    let (code, told) = run("--output=lying", "--target=fsd1=sim:service=5ms,lies=0.05");
    assert_eq!(code, 15, "{told}");
}

#[test]
fn what_cannot_be_verified_of_trees_is_refused() {
    let home = Home::new();
    let refused = |target: &str, flow: &str, reason: &str| {
        let words = ["replay", "-q", "--output=no", "--verify=reads", target, flow];
        let (code, told) = home.does(&words.map(str::to_owned));
        assert_eq!(code, 2, "{told}");
        assert!(told.contains(reason), "{told}");
    };
    let make = "--flow=m=files:format?do=mkdir,fill&size=4k;threads=1";
    refused("--target=tree:a?files=3&size=700", make, "sectors of 512 bytes");
    let odd = "--flow=m=files:format?do=mkdir,fill&size=700;threads=1";
    refused("--target=tree:a?files=3&size=4k", odd, "sectors of 512 bytes");
    let many = "--flow=m=files:format?do=mkdir,fill&size=4k;threads=200";
    refused("--target=tree:a?files=3&size=4k", many, "128 threads");
    refused("--target=sim:tree?files=3&size=700", make, "sectors of 512 bytes");
    let two = |shape: &str, flow: &str, reason: &str| {
        let targets = ["--target=sim:tree?files=3&size=4k", shape];
        let words = ["replay", "-q", "--output=no", "--verify=reads", flow].into_iter();
        let (code, told) = home.does(&words.chain(targets).map(str::to_owned).collect::<Vec<_>>());
        assert_eq!((code, told.contains(reason)), (2, true), "{told}");
    };
    let go = "--flow=m=files:move?to=2&once=yes;threads=1;on=1";
    two("--target=sim:tree?files=4&size=4k", go, "a tree of another shape");
    home.makes();
    let family = ["replay", "-q", "--output=no", "--verify=reads", "--family=family"];
    let other = ["--target=tree:anchor?files=7&size=4k", "--destroy=anchor", make];
    let words: Vec<String> = family.into_iter().chain(other).map(str::to_owned).collect();
    let (code, told) = home.does(&words);
    assert_eq!((code, told.contains("in its earlier runs")), (2, true), "{told}");
    fs::write(
        home.path("a.vdb"),
        format!("validate=yes\n{}", FILE.replace("elapsed=30", "elapsed=1,forfiles=(2,3)")),
    )
    .unwrap();
    let (code, told) = vdbench(&home, "");
    assert_eq!((code, told.contains("another shape")), (2, true), "{told}");
}
