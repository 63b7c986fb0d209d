//! Runs of a family: each knows what all before it wrote, also where one of them was killed.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use fixture::{Fixture, said};
use serde_json::Value;

impl Fixture {
    /// Does a run of the family `kin`; answers the exit code and what was said.
    fn kin(&self, load: &str, target: &str, run: &str, options: &[&str]) -> (i32, String) {
        let words =
            ["replay", load, "--target", target, "--allow-cached", "--family", "kin", "-qo"];
        let output = self.run(&[&words[..], &[run], options].concat());
        (output.status.code().unwrap(), said(&output))
    }

    fn writes(&self, run: &str) {
        let (code, told) = self.kin("load", "target", run, &["--verify=reads", "--destroy=target"]);
        assert!(self.path(run).join("requests.parquet").exists() && code != 15, "{told}");
    }

    /// Reads everything back that the family knows; answers the exit code and the findings.
    fn reads_back(&self, run: &str) -> (i32, Value) {
        let (code, _) = self.kin("load", "target", run, &["--verify=final", "--read-only"]);
        let found = fs::read(self.path(run).join("verify.json")).unwrap();
        (code, serde_json::from_slice::<Value>(&found).unwrap()["targets"][0].clone())
    }

    /// Verifies the family; answers the exit code and the result of its first target.
    fn verified(&self, options: &[&str]) -> (i32, Value) {
        let output = self.run(&[&["verify", "kin", "--json"][..], options].concat());
        let json: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let kept = fs::read(self.path("kin/verify.json")).unwrap();
        assert_eq!(json, serde_json::from_slice::<Value>(&kept).unwrap());
        (output.status.code().unwrap(), json["targets"][0].clone())
    }

    /// Starts a run of the family that never ends, and kills it once it has written something.
    fn killed(&self, run: &str, journal: &str) {
        let journal = format!("--journal={journal}");
        let words = [
            "replay",
            "gen:random?size=4k&read=20&seed=5&area=8M&endless=yes",
            "--timing=afap",
            "--target=target",
            "--destroy=target",
            "--allow-cached",
            "--family=kin",
            "--verify=reads",
            &journal,
            "-qo",
            run,
        ];
        let mut command = self.command(&words);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let journal = self.path(run).join("requests.journal");
        let until = Instant::now() + Duration::from_mins(1);
        while fs::metadata(&journal).map_or(0, |data| data.len()) < 400_000 {
            assert!(Instant::now() < until, "no results after a minute");
            sleep(Duration::from_millis(5));
        }
        let output = self.run(&["verify", "kin"]);
        assert_eq!(output.status.code(), Some(13), "it goes on: {}", said(&output));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Changes a bit of the target, and back.
    fn flip(&self, offset: u64) {
        let file = fs::File::options().read(true).write(true).open(self.path("target")).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
    }
}

/// Writes of 4 KiB to every other block of the first 8 MiB, and reads between them.
fn fixture() -> Fixture {
    let request = |n: u64| (n * 7 % 1000 * 16, 8, if n.is_multiple_of(4) { 'R' } else { 'W' });
    Fixture::of((0..3000).map(request), 30, 16 << 20)
}

/// The place of a block that the load writes.
const WRITTEN: u64 = 7 * 16 * 512;

#[test]
fn a_run_checks_what_the_runs_before_it_wrote_and_the_state_is_what_the_records_say() {
    let fixture = fixture();
    fixture.writes("one");
    fixture.writes("two");
    let (code, target) = fixture.reads_back("three");
    assert!(code != 15, "{target}");
    let known = target["figures"]["intact"].as_u64().unwrap();
    assert!(known >= 6000, "{target}");
    let (code, all) = fixture.verified(&[]);
    assert_eq!((code, &all["figures"]["intact"]), (0, &known.into()), "{all}");

    fixture.flip(WRITTEN + 700);
    let (code, target) = fixture.reads_back("four");
    assert_eq!(code, 15);
    let finding = &target["findings"][0];
    assert_eq!(
        (&finding["kind"], &finding["offset"]),
        (&"flipped".into(), &(WRITTEN + 512).into())
    );
    let (_, by_state) = fixture.verified(&[]);
    assert_eq!(by_state["figures"]["damaged"], serde_json::json!({ "flipped": 1 }));
    // What a state holds follows from the records of all runs.
    let path = fixture.path("kin/versions-0.state");
    let state = fs::read(&path).unwrap();
    for useless in [state[..state.len() - 1].to_vec(), Vec::new()] {
        fs::write(&path, useless).unwrap();
        let (code, by_records) = fixture.verified(&[]);
        assert_eq!(code, 15);
        assert_eq!(by_records["figures"], by_state["figures"]);
        let found = |target: &Value| {
            let finding = &target["findings"][0];
            ["kind", "offset", "length", "expected", "found"].map(|key| finding[key].clone())
        };
        assert_eq!(found(&by_records), found(&by_state));
    }
    // Nothing was flushed, so after a power cut the place may hold what was there before the family
    // was, unless all that was acknowledged must be there. Neither is told by the state.
    let cut = |more: &[&str]| fixture.verified(&[&["--after=power-cut"], more].concat());
    assert_eq!(cut(&[]).0, 0);
    let (code, all) = cut(&["--acknowledged"]);
    assert_eq!((code, &all["figures"]["damaged"]), (15, &by_state["figures"]["damaged"]));
}

#[test]
fn the_runs_of_a_family_have_targets_of_their_own() {
    let fixture = fixture();
    fs::File::create(fixture.path("other")).unwrap().set_len(16 << 20).unwrap();
    fixture.writes("one");
    let other = ["--verify=reads", "--destroy=other"];
    let (code, told) = fixture.kin("load", "other", "two", &other);
    assert!(fixture.path("two/requests.parquet").exists() && code != 15, "{told}");
    fixture.writes("three");
    fixture.flip(WRITTEN + 700);
    let output = fixture.run(&["verify", "kin", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let damaged: Vec<u64> = json["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["figures"]["findings"].as_u64().unwrap())
        .collect();
    assert_eq!((output.status.code(), damaged), (Some(15), vec![1, 0]));
    // A file that has grown is not the one that was written.
    fs::File::options().write(true).open(fixture.path("other")).unwrap().set_len(17 << 20).unwrap();
    let (code, told) = fixture.kin("load", "other", "four", &other);
    assert!(code == 2 && told.contains("and held 16.0 MiB"), "{told}");
    let (code, told) = fixture.kin("load", "sim", "four", &["--verify=reads"]);
    assert!(code == 2 && told.contains("simulated"), "{told}");
    let (code, told) = fixture.kin("load", "target", "four", &["--destroy=target"]);
    assert!(code == 2 && told.contains("leaves nothing for the next"), "{told}");
    assert!(!fixture.path("four").exists());
}

#[test]
fn after_a_kill_the_next_run_goes_on_and_the_family_is_whole() {
    let fixture = fixture();
    fixture.writes("one");
    for killed in ["two", "three"] {
        fixture.killed(killed, "kill");
        let (code, target) = fixture.verified(&[]);
        assert_eq!(code, 0, "{target}");
    }
    let (code, target) = fixture.reads_back("four");
    assert!(code != 15, "{target}");
    assert!(target["figures"]["intact"].as_u64().unwrap() > 6000, "{target}");
    fixture.flip(WRITTEN + 700);
    assert_eq!(fixture.reads_back("five").0, 15);
}

#[test]
fn a_run_that_left_something_due_at_its_end_is_known_after_a_power_cut() {
    let fixture = fixture();
    // More than any host issues, so that the end finds requests that are due and have no row.
    let flow = "--flow=gen:random?size=4k&read=0&area=8M&rate=3M&seed=5&duration=1s;cap=1";
    let words = ["replay", flow, "--target=target", "--destroy=target", "--allow-cached"];
    let more = ["--family=kin", "--verify=reads", "--end-after=300ms", "-qo", "one"];
    let output = fixture.run(&[&words[..], &more].concat());
    let summary = fs::read(fixture.path("one/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let planned = summary["engine"]["planned"].as_u64().unwrap();
    assert!(summary["recorded"].as_u64().unwrap() < planned, "{}", said(&output));
    let (code, target) = fixture.verified(&["--after=power-cut", "--acknowledged"]);
    assert_eq!(code, 0, "{target}");
    assert!(target["figures"]["intact"].as_u64().unwrap() > 0, "{target}");
    assert_eq!(target["figures"]["unrecorded"], 0, "every write has a record");
}

#[test]
fn the_notes_of_a_durable_run_are_trusted_after_a_power_cut() {
    let fixture = fixture();
    // What is in the page cache only is not: younger data than the records know are accepted.
    for (run, journal) in [("one", "kill"), ("two", "durable")] {
        fixture.killed(run, journal);
        let (code, target) = fixture.verified(&["--after=power-cut", "--acknowledged"]);
        assert_eq!(code, 0, "{target}");
        fs::remove_dir_all(fixture.path("kin")).unwrap();
    }
    // A durable ring knows every write.
    let output = fixture.run(&["verify", "two", "--after=power-cut", "--acknowledged", "--json"]);
    let durable: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(durable["targets"][0]["figures"]["unrecorded"], 0);
    let output = fixture.run(&["verify", "two", "--acknowledged"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
