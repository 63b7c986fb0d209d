//! Validation of data across the runs of a described workload, with Vdbench's arguments: killed,
//! read back, and damaged by hand in six ways.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::collections::{BTreeMap, BTreeSet};
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
const BYTES: usize = 16 << 20;

/// Two runs over a small file: the second reads, and checks, what the first wrote.
const FILE: &str = "sd=sd1,lun=$lun,threads=8\nwd=fill,sd=sd1,seekpct=eof,rdpct=0,xfersize=16k\n\
    wd=mix,sd=sd1,rdpct=40,xfersize=4k\n\
    rd=one,wd=fill,iorate=max,elapsed=5\nrd=two,wd=mix,iorate=max,elapsed=1\n";

struct Home {
    directory: TempDir,
}

impl Home {
    fn new(file: &str) -> Self {
        let home = Self { directory: TempDir::new().unwrap() };
        fs::write(home.path("a.vdb"), file).unwrap();
        fs::File::create(home.path("file")).unwrap().set_len(BYTES as u64).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn line(&self, more: &str) -> Vec<String> {
        let lun = format!("lun={}", self.path("file").display());
        let words = ["vdbench", "-f", "a.vdb", "-o", "out", lun.as_str(), "--seed", "7"];
        let words = words.into_iter().chain(["--quiet", "--destroy", "sd1"]);
        words.chain(more.split_whitespace()).map(str::to_owned).collect()
    }

    fn vdbench(&self, more: &str) -> (i32, String) {
        let line = self.line(more);
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let output = ioecho(self.directory.path(), &words);
        (output.status.code().unwrap(), said(&output))
    }

    /// Does runs that find no damage, however the host was busy meanwhile.
    fn does(&self, more: &str) {
        let (code, told) = self.vdbench(more);
        assert!(matches!(code, 0 | 40), "{code}: {told}");
    }

    /// The result of the last read-back of all data.
    fn findings(&self) -> Value {
        let json = fs::read(self.path("out/family/verify.json")).unwrap();
        serde_json::from_slice::<Value>(&json).unwrap()["targets"][0].clone()
    }

    /// The directories of all runs that began, by their attempts.
    fn runs(&self) -> Vec<PathBuf> {
        let below = |path: PathBuf| {
            let entries = fs::read_dir(path).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
        };
        let attempts = below(self.path("out/cells")).flat_map(below);
        attempts.map(|attempt| attempt.join("run")).filter(|run| run.exists()).collect()
    }
}

/// Kills a workload in the midst of its run 'two': first the run, then who started it.
fn killed(home: &Home, more: &str, records: u64) {
    let line = home.line(more);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(&line).current_dir(home.directory.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_mins(1);
    let journal =
        |run: &Path| fs::metadata(run.join("requests.journal")).map_or(0, |journal| journal.len());
    loop {
        assert!(Instant::now() < until, "no results after a minute");
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        let runs = home.runs();
        let facts = |run: &Path| fs::read_to_string(run.join("run.toml")).unwrap_or_default();
        let goes_on =
            |run: &&PathBuf| !run.join("summary.json").exists() && facts(run).contains("mix@sd1");
        if let Some(run) = runs.iter().find(goes_on).filter(|run| journal(run) > records) {
            let facts = facts(run);
            let facts: toml::Table = facts.parse().unwrap();
            let pid = facts["pid"].as_integer().unwrap().to_string();
            child.kill().unwrap();
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            break;
        }
        sleep(Duration::from_millis(5));
    }
    child.wait().unwrap();
}

/// Whether nobody verifies or runs there any more: a killed process may take a moment to go.
fn read_back(home: &Home, more: &str) -> (i32, String) {
    for _ in 0..100 {
        let (code, told) = home.vdbench(more);
        if code != 13 || !told.contains("goes on") {
            return (code, told);
        }
        sleep(Duration::from_millis(20));
    }
    panic!("the killed run goes on");
}

/// What damage leaves in a sector, from its content and that of another.
type Damage = fn(&mut [u8], &[u8], &mut SplitMix64);

fn stamp_of(sector: &[u8]) -> Stamp {
    read_stamp(sector).unwrap()
}

/// An older version of the same sector; only the run of before can tell which it was.
fn older(sector: &mut [u8], other: &[u8], _: &mut SplitMix64) {
    sector.copy_from_slice(other);
}

fn half(sector: &mut [u8], other: &[u8], _: &mut SplitMix64) {
    sector[256..].copy_from_slice(&other[256..]);
}

fn bit(sector: &mut [u8], _: &[u8], random: &mut SplitMix64) {
    sector[64 + random.below(440) as usize] ^= 1 << random.below(8);
}

fn zeroes(sector: &mut [u8], _: &[u8], _: &mut SplitMix64) {
    sector.fill(0);
}

fn elsewhere(sector: &mut [u8], _: &[u8], _: &mut SplitMix64) {
    let stamp = stamp_of(sector);
    let position = (stamp.position + 8 * SECTOR as u64 * 3) % BYTES as u64;
    sector.copy_from_slice(&expected_sector(&Stamp { position, ..stamp }));
}

fn foreign(sector: &mut [u8], _: &[u8], random: &mut SplitMix64) {
    sector.fill_with(|| random.below(256) as u8);
}

#[test]
fn a_killed_workload_is_read_back_and_six_kinds_of_damage_are_named() {
    let home = Home::new(FILE);
    // The file as the first run left it is what a lost write of the second would show.
    home.does("-jn -e 3 --only one");
    let before = fs::read(home.path("file")).unwrap();
    assert!(fs::read_to_string(home.path("out/errorlog.html")).unwrap().contains("No errors"));
    killed(&home, "-jn -e 30", 300_000);
    let (code, told) = read_back(&home, "-jro");
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("verdict       intact"), "{told}");
    let intact = home.findings()["figures"]["intact"].as_u64().unwrap();
    assert!(intact as usize > BYTES / SECTOR * 9 / 10, "{}", home.findings());

    let sound = fs::read(home.path("file")).unwrap();
    let first_run = stamp_of(&before[8 * SECTOR..][..SECTOR]).run;
    // Sectors of which the second run wrote a version, and was not in flight with another: they are
    // older than what its ring may hold as under way.
    let rewritten: Vec<usize> = (8..BYTES / SECTOR)
        .filter(|sector| {
            let data = &sound[sector * SECTOR..][..SECTOR];
            let stamp = read_stamp(data);
            stamp.is_some_and(|stamp| stamp.run != first_run && stamp.request > 64)
        })
        .collect();
    let under_way = home.findings()["in_flight"].as_u64().unwrap();
    assert!(under_way <= 8);
    let kinds: [(&str, Damage); 6] = [
        ("stale", older),
        ("torn", half),
        ("flipped", bit),
        ("zeroed", zeroes),
        ("misdirected", elsewhere),
        ("foreign", foreign),
    ];
    let mut random = SplitMix64(11);
    let mut data = sound.clone();
    let mut places = BTreeMap::new();
    for (kind, damage) in kinds {
        for _ in 0..20 {
            // One sector of a block each: neighbours could be taken for one finding.
            let at = loop {
                let at = rewritten[random.below(rewritten.len() as u64) as usize];
                let is_apart = |place: &usize| place.abs_diff(at) > 16;
                if places.keys().all(is_apart) {
                    break at;
                }
            };
            let range = at * SECTOR..(at + 1) * SECTOR;
            damage(&mut data[range.clone()], &before[range], &mut random);
            places.insert(at, kind);
        }
    }
    fs::write(home.path("file"), &data).unwrap();
    let (code, told) = read_back(&home, "-jro");
    assert_eq!(code, 15, "{told}");
    let found: BTreeMap<usize, (String, u64)> = home.findings()["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let at = finding["offset"].as_u64().unwrap() as usize / SECTOR;
            let kind = finding["kind"].as_str().unwrap().to_owned();
            (at, (kind, finding["length"].as_u64().unwrap()))
        })
        .collect();
    let named: BTreeMap<usize, &str> =
        found.iter().map(|(at, (kind, _))| (*at, kind.as_str())).collect();
    assert!(found.values().all(|(_, length)| *length == SECTOR as u64), "{found:?}");
    assert_eq!(named.keys().collect::<Vec<_>>(), places.keys().collect::<Vec<_>>());
    for (at, kind) in &places {
        // A single old sector of a write whose others arrived is a torn write.
        let is_right = named[at] == *kind || *kind == "stale" && named[at] == "torn";
        assert!(is_right, "sector {at}: {} is named {}", kind, named[at]);
    }
    let log = || fs::read_to_string(home.path("out/errorlog.html")).unwrap();
    let told = "file; Data Validation: 120 sectors not as written: ";
    assert!(log().contains(told) && log().contains(" 20 zeroed"), "{}", log());
    assert!(log().contains("and 100 more, in out/family/verify.json"), "{}", log());
    // Who goes on after that must repair it first.
    let (code, told) = home.vdbench("-jrn");
    assert_eq!(code, 15, "{told}");
    assert!(log().contains("120 sectors not as written"), "{}", log());
    fs::write(home.path("file"), &sound).unwrap();
    home.does("-jrn -e 2");
    assert!(log().contains("No errors"), "{}", log());
}

#[test]
fn a_run_ends_at_the_number_of_errors_and_is_the_last_one() {
    let file = format!("data_errors=3\nvalidate=yes\n{FILE}rd=three,wd=mix,iorate=max,elapsed=1\n");
    let home = Home::new(&file);
    home.does("-e 2 --only one");
    let mut data = fs::read(home.path("file")).unwrap();
    for sector in (8..BYTES / SECTOR).step_by(8) {
        data[sector * SECTOR + 100] ^= 1;
    }
    fs::write(home.path("file"), &data).unwrap();
    let before = home.runs().len();
    let (code, told) = home.vdbench("-e 30 --only two,three");
    assert_eq!(code, 15, "{told}");
    assert_eq!(home.runs().len(), before + 1, "the third run was not done");
    let log = fs::read_to_string(home.path("out/errorlog.html")).unwrap();
    assert!(log.contains("RD=two; Data Validation: ") && log.contains("flipped"), "{log}");
    let output = ioecho(home.directory.path(), &["verify", "out"]);
    assert_eq!(output.status.code(), Some(15), "{}", said(&output));
}

#[test]
fn data_that_are_equal_on_purpose_are_verified_across_runs() {
    let home = Home::new(&format!("dedupratio=2,dedupunit=4k\n{FILE}"));
    home.does("-v --only one");
    let image = fs::read(home.path("file")).unwrap();
    let distinct: BTreeSet<&[u8]> = image.chunks(4096).collect();
    let blocks = image.len() / 4096;
    assert!(distinct.len().abs_diff(blocks / 2) < 16, "{} of {blocks}", distinct.len());
    home.does("-v --only two");
    let verify = || {
        let output = ioecho(home.directory.path(), &["verify", "out"]);
        (output.status.code().unwrap(), said(&output))
    };
    let (code, told) = verify();
    assert_eq!(code, 0, "{told}");
    let mut image = fs::read(home.path("file")).unwrap();
    image[(5 << 20) + 700] ^= 4;
    fs::write(home.path("file"), image).unwrap();
    let (code, told) = verify();
    assert_eq!((code, told.contains("flipped")), (15, true), "{told}");
}

#[test]
fn what_makes_no_sense_with_validation_is_refused_at_its_place() {
    let home = Home::new("");
    for (general, reason) in [
        ("validate=perhaps", "a.vdb:1:1: validate= has no word 'perhaps'"),
        ("journal=later", "a.vdb:1:1: journal= has no word 'later'"),
    ] {
        fs::write(home.path("a.vdb"), format!("{general}\n{FILE}")).unwrap();
        let (code, told) = home.vdbench("");
        assert_eq!((code, told.contains(reason)), (2, true), "{general}: {told}");
    }
    fs::write(home.path("a.vdb"), FILE).unwrap();
    let (code, told) = home.vdbench("-jro");
    assert_eq!((code, told.contains("no journal of earlier runs")), (3, true), "{told}");
    assert!(!home.path("out").exists());
}
