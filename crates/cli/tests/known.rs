//! Verification knows more than the writes of the run itself: the writes of prepare, the writes of
//! the earlier runs that it continues, and the data just before they are overwritten.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fixture::{Fixture, said};
use serde_json::Value;

const TARGET_BYTES: u64 = 8 << 20;

/// Writes of 4 KiB to the even blocks of the target's first half, and reads of everything.
fn fixture(rounds: u64) -> Fixture {
    let blocks = TARGET_BYTES / 4096;
    let round =
        (0..blocks / 2).map(|n| (n * 16, 16, 'R')).chain((0..blocks / 4).map(|n| (n * 16, 8, 'W')));
    let all: Vec<_> = (0..rounds).flat_map(|_| round.clone()).collect();
    Fixture::of(all.into_iter(), 20, TARGET_BYTES)
}

impl Fixture {
    /// Replays the load. Returns the exit code and `verify.json` of the first target.
    fn replay(&self, run: &str, options: &[&str]) -> (i32, Value) {
        let mut arguments = vec!["replay", "load", "--target", "target", "--allow-cached"];
        if !options.contains(&"--read-only") {
            arguments.extend(["--destroy", "target"]);
        }
        arguments.extend(["-qo", run]);
        arguments.extend(options);
        let output = self.run(&arguments);
        let path = self.path(run).join("verify.json");
        let json = fs::read(&path).unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let json: Value = serde_json::from_slice(&json).unwrap();
        (output.status.code().unwrap(), json["targets"][0].clone())
    }

    fn summary(&self, run: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(run).join("summary.json")).unwrap()).unwrap()
    }

    fn number(&self, run: &str) -> String {
        let facts = fs::read_to_string(self.path(run).join("run.toml")).unwrap();
        facts.parse::<toml::Table>().unwrap()["run"].as_str().unwrap().to_owned()
    }

    /// Verifies a run later.
    fn verify(&self, run: &str) -> (i32, Value) {
        let output = self.run(&["verify", run, "--json"]);
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        (output.status.code().unwrap(), json["targets"][0].clone())
    }

    /// Changes the target.
    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut data = fs::read(self.path("target")).unwrap();
        change(&mut data);
        fs::write(self.path("target"), data).unwrap();
    }

    fn prepare(&self) {
        let prepare = ["prepare", "target", "--seed", "7", "--allow-cached", "-q"];
        let output = self.run(&[&prepare[..], &["--destroy", "target"]].concat());
        assert!(output.status.success(), "{}", said(&output));
    }
}

fn kinds(target: &Value) -> Vec<(u64, String)> {
    let findings = target["findings"].as_array().unwrap().iter();
    let mut kinds: Vec<_> = findings
        .map(|f| (f["offset"].as_u64().unwrap(), f["kind"].as_str().unwrap().to_owned()))
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn damage_in_what_prepare_wrote_is_found_by_the_reads_of_the_load() {
    let fixture = fixture(1);
    fixture.prepare();
    let (code, target) = fixture.replay("sound", &["--verify", "reads"]);
    assert_ne!(code, 15, "{target}");
    assert!(target["figures"]["prepared"].as_u64() > Some(8000), "{target}");
    assert_eq!(target["figures"]["doubtful"], 0);
    fixture.prepare();
    // In blocks of the second half, which the load only reads.
    let at = |block: u64| (TARGET_BYTES / 2 + block * 4096) as usize;
    fixture.change(|data| {
        data[at(0) + 77] ^= 4;
        data[at(8) + 200..at(8) + 230].fill(0x11);
        data.copy_within(at(24)..at(24) + 512, at(16));
        // The data were zeroed, discarded or lost. Nobody can tell which.
        data[at(32)..at(32) + 512].fill(0);
    });
    let (code, target) = fixture.replay("damaged", &["--verify", "reads"]);
    assert_eq!(code, 15);
    let place = |block: u64, kind: &str| (at(block) as u64, kind.to_owned());
    let expected = [place(0, "flipped"), place(8, "corrupt"), place(16, "misdirected")];
    assert_eq!(kinds(&target), expected);
    assert_eq!(target["figures"]["doubtful"], 1);
}

#[test]
fn what_was_never_prepared_or_trimmed_or_overwritten_since_raises_no_alarm() {
    let fixture = fixture(1);
    fixture.prepare();
    fixture.change(|data| {
        let half = data.len() / 2;
        // One range is discarded. Another holds data of somebody else. A third holds the fill of
        // another part of the disk, because it was moved.
        data[half..half + (1 << 20)].fill(0);
        data[half + (1 << 20)..half + (2 << 20)].fill(0x5A);
    });
    let (code, target) = fixture.replay("run", &["--verify", "reads"]);
    assert_ne!(code, 15, "{target}");
    assert_eq!(kinds(&target), []);
    // A partition begins at 1 MiB of a disk that was filled.
    fixture.prepare();
    fixture.change(|data| data.rotate_left(1 << 20));
    let (code, target) = fixture.replay("shifted", &["--verify", "preread"]);
    assert_ne!(code, 15, "{target}");
    assert_eq!(kinds(&target), []);
}

#[test]
fn a_run_whose_data_a_later_one_replaced_names_that_one() {
    let fixture = fixture(1);
    fixture.replay("first", &["--verify", "reads"]);
    fixture.replay("second", &["--verify", "reads", "--continues", "first"]);
    let output = fixture.run(&["verify", "first"]);
    let note = format!("the run {} wrote some of what is foreign", fixture.number("second"));
    assert!(said(&output).contains(&note), "{}", said(&output));
    assert_eq!(fixture.verify("second").0, 0);
}

#[test]
fn what_is_about_to_be_overwritten_is_read_before_and_told_apart_from_the_load() {
    let fixture = fixture(2);
    let (_, target) = fixture.replay("earlier", &["--verify", "final"]);
    assert_eq!(kinds(&target), []);
    // The first write of the next run overwrites this place.
    fixture.change(|data| data[100] ^= 1);
    let continued = ["--continues", "earlier", "--timing", "afap"];
    let (code, target) =
        fixture.replay("run", &[&["--verify", "preread"][..], &continued].concat());
    assert_eq!(code, 15, "{target}");
    assert_eq!(kinds(&target), [(0, "flipped".to_owned())]);
    let summary = fixture.summary("run");
    let verify = &summary["engine"]["verify"];
    assert_eq!(verify["mode"], "preread");
    let writes = 2 * TARGET_BYTES / 4096 / 4;
    assert_eq!(verify["prereads"], writes, "every write was to a known place");
    assert_eq!(verify["preread_bytes"], writes * 4096);
    assert_eq!(summary["recorded"], 2 * TARGET_BYTES / 4096 * 3 / 4, "no read too many");
    let told = summary["verdict"]["summary"].as_str().unwrap();
    assert!(told.contains("before something was overwritten held up"), "{told}");
    // If only writes look at the data, only they find the damage.
    let writes_only = (0..8).map(|n| (n * 8, 8, 'W'));
    let other = Fixture::of(writes_only, 1000, TARGET_BYTES);
    other.replay("first", &["--verify", "final"]);
    for (mode, expected) in [("final", 0), ("preread", 1)] {
        other.change(|data| data[9 * 512 + 64..10 * 512].fill(3));
        let options = ["--verify", mode, "--continues", "first"];
        let (code, target) = other.replay(mode, &options);
        assert_eq!(kinds(&target).len(), expected, "{mode}: {target}");
        assert_eq!(code == 15, expected == 1);
        if let Some(finding) = target["findings"].get(0) {
            assert_eq!((&finding["look"], &finding["read"]), (&"before-write".into(), &1.into()));
        }
        // The next run continues on a target without damage.
        fs::remove_dir_all(other.path("first")).unwrap();
        other.replay("first", &["--verify", "final"]);
    }
}

#[test]
fn a_line_of_runs_knows_what_each_of_them_wrote() {
    let fixture = fixture(1);
    fixture.replay("a", &["--verify", "final"]);
    // B only reads, so it writes nothing, and knows the writes of A.
    let (code, target) =
        fixture.replay("b", &["--read-only", "--verify", "final", "--continues", "a"]);
    assert_ne!(code, 15, "{target}");
    assert!(target["figures"]["intact"].as_u64() > Some(4000), "{target}");
    let (_, target) =
        fixture.replay("c", &["--verify", "reads", "--continues", "b", "--duration", "20ms"]);
    assert_eq!(kinds(&target), []);
    let (code, target) = fixture.verify("c");
    assert_eq!((code, kinds(&target)), (0, vec![]), "{target}");
    assert!(target["figures"]["intact"].as_u64() >= Some(4096), "all that A wrote: {target}");

    // Data that A wrote are damaged. Both runs say that they are A's.
    fixture.change(|data| data[512..1024].fill(0));
    for (code, target) in [
        fixture.verify("c"),
        fixture.replay("d", &["--read-only", "--verify", "final", "--continues", "c"]),
    ] {
        assert_eq!(code, 15);
        assert_eq!(kinds(&target), [(512, "zeroed".to_owned())]);
        let run = u64::from_str_radix(&fixture.number("a"), 16).unwrap();
        let expected = &target["findings"][0]["expected"][0];
        assert_eq!(expected["run"].as_u64(), Some(run), "{expected}");
        assert!(expected["version"].as_u64().is_some(), "{expected}");
    }
    let told = said(&fixture.run(&["verify", "c"]));
    assert!(told.contains(&format!("in the run {}", fixture.number("a"))), "{told}");
}

#[test]
fn a_run_goes_on_from_one_that_was_killed() {
    let fixture = fixture(20);
    let replay = [
        "replay",
        "load",
        "--target",
        "target",
        "--allow-cached",
        "-qo",
        "killed",
        "--verify",
        "reads",
    ];
    let mut child =
        fixture.command(&replay).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let journal = fixture.path("killed/requests.journal");
    let until = Instant::now() + Duration::from_mins(1);
    while fs::metadata(&journal).map_or(0, |data| data.len()) < 200_000 {
        assert!(Instant::now() < until, "no results after a minute");
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (code, target) = fixture
        .replay("next", &["--verify", "preread", "--continues", "killed", "--timing", "afap"]);
    assert_ne!(code, 15, "{target}");
    assert!(target["figures"]["prereads"].as_u64() > Some(0), "{target}");
    let (code, target) = fixture.verify("next");
    assert_eq!((code, kinds(&target)), (0, vec![]), "{target}");
}

#[test]
fn a_run_on_another_target_or_one_that_is_gone_is_refused() {
    let fixture = fixture(1);
    fixture.replay("a", &["--verify", "reads"]);
    fs::File::create(fixture.path("other")).unwrap().set_len(TARGET_BYTES).unwrap();
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let output = fixture.run(arguments);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(word) && text.contains("= help:"), "{text}");
        assert!(!fixture.path("refused").exists(), "{text}");
    };
    let on = |targets: &[&'static str], run: &'static str| {
        let mut arguments = vec!["replay", "load", "--allow-cached", "-qo", "refused"];
        arguments.extend(targets.iter().flat_map(|target| ["--target", *target]));
        arguments.extend(["--continues", run, "--verify", "reads"]);
        arguments
    };
    refused(&on(&["other"], "a"), 2, "it wrote to");
    refused(&on(&["sim:size=8M"], "a"), 2, "is simulated");
    refused(&on(&["target"], "load"), 3, "is no run");
    let unnamed = ["replay", "load", "--target", "target", "--after", "kill"];
    assert_eq!(fixture.run(&unnamed).status.code(), Some(2));
    // A run cannot be verified if the run that it continues is gone.
    fixture.replay("b", &["--verify", "reads", "--continues", "a"]);
    fs::rename(fixture.path("a"), fixture.path("moved")).unwrap();
    refused(&["verify", "b"], 3, "goes on from the run");
    fixture.replay("a", &["--verify", "reads"]);
    refused(&["verify", "b"], 3, "there is the run");
    fs::remove_dir_all(fixture.path("a")).unwrap();
    fs::rename(fixture.path("moved"), fixture.path("a")).unwrap();
    fs::OpenOptions::new().write(true).open(fixture.path("target")).unwrap().set_len(4096).unwrap();
    refused(&on(&["target"], "a"), 2, "holds 4.00 KiB");
}
