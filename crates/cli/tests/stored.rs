//! Directories of runs that other versions wrote, and directories that no version wrote.
//!
//! Results must stay readable for ever, or an update loses a year of measurements. `data/1aed565`
//! holds four directories as the binary of that commit wrote them (without their pages): a run on a
//! file, a run on two simulated targets, a run that was killed with SIGKILL, and the first two
//! merged. The files `target` and `other` are the targets of the first and the third.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A directory with copies of them.
struct Old(tempfile::TempDir);

impl Old {
    fn new() -> Self {
        let old = Self(tempfile::tempdir().unwrap());
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/1aed565");
        for name in ["real", "simulated", "killed", "merged"] {
            fs::create_dir(old.path(name)).unwrap();
            for file in fs::read_dir(data.join(name)).unwrap() {
                let file = file.unwrap();
                fs::copy(file.path(), old.path(name).join(file.file_name())).unwrap();
            }
        }
        for name in ["target", "other"] {
            fs::copy(data.join(name), old.path(name)).unwrap();
        }
        old
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        program.args(arguments).current_dir(self.0.path()).output().unwrap()
    }

    /// The output of a command that returns this code.
    fn answers(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    fn json(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn facts(&self, run: &str) -> toml::Table {
        self.text(&format!("{run}/run.toml")).parse().unwrap()
    }
}

#[test]
fn runs_that_an_earlier_version_wrote_are_told_as_it_told_them() {
    let old = Old::new();
    for (run, requests, state, code) in [
        ("real", 60, "complete", 0),
        ("simulated", 60, "complete", 0),
        ("killed", 18, "running", 4),
        ("merged", 120, "complete", 0),
    ] {
        let facts = old.facts(run);
        let told = old.json(&["info", run, "--json"], code);
        assert_eq!(told["requests"], requests, "{run}");
        assert_eq!(told["run"], serde_json::to_value(&facts).unwrap(), "{run}: every key of it");
        let text = old.answers(&["info", run], code);
        assert!(text.contains(&format!("run           {state}")), "{text}");
        let analysis = old.json(&["analyze", run, "--json"], code);
        let verdict = facts.get("verdict").map(|verdict| serde_json::to_value(verdict).unwrap());
        assert_eq!(analysis.get("verdict").cloned(), verdict, "{run}");
    }
}

#[test]
fn runs_that_an_earlier_version_wrote_get_their_pages() {
    let old = Old::new();
    for (run, shown) in [
        ("real", ["load → target", "write back"]),
        ("simulated", ["load → sim:size=64M,service=80us, sim:size=64M", "Target 1"]),
        ("merged", ["load → target, sim:size=64M,service=80us", "Target 2"]),
        ("killed", ["slow → other", "the process was killed"]),
    ] {
        let before = old.facts(run);
        old.answers(&["report", run], 0);
        let page = old.text(&format!("{run}/report.html"));
        for words in shown {
            assert!(page.contains(words), "{run} shows nothing of {words}");
        }
        if run != "killed" {
            assert_eq!(old.facts(run), before, "a page changes nothing in run.toml");
        }
    }
    // The other results of the killed run were rebuilt, and no file was lost.
    let facts = old.facts("killed");
    assert_eq!(facts["state"].as_str(), Some("incomplete"));
    assert_eq!(facts["verdict"]["finding"].as_str(), Some("incomplete"));
    assert_eq!(facts["plan"]["timing"].as_str(), Some("timed"));
    let summary: Value = serde_json::from_str(&old.text("killed/summary.json")).unwrap();
    assert_eq!((&summary["recorded"], &summary["engine"]["direct"]), (&18.into(), &true.into()));
}

#[test]
fn runs_that_an_earlier_version_wrote_are_merged_compared_checked_and_verified() {
    let old = Old::new();
    old.answers(&["merge", "real", "simulated", "-o", "again"], 0);
    let (again, before) = (old.facts("again"), old.facts("merged"));
    for key in ["run", "started", "ended", "targets", "state"] {
        assert_eq!(again[key], before[key], "{key}");
    }
    let summary: Value = serde_json::from_str(&old.text("again/summary.json")).unwrap();
    assert_eq!(summary["recorded"], 120);
    assert_eq!(summary["engine"]["verify"]["sectors"], 320, "what the real one verified");
    let part = old.answers(&["merge", "merged", "real", "-o", "never"], 20);
    assert!(part.contains("have one in common"), "{part}");

    let unlike = old.answers(&["compare", "real", "simulated"], 20);
    assert!(unlike.contains("another wraparound factor"), "{unlike}");
    let told = old.json(&["compare", "real", "simulated", "--allow", "wraparound", "--json"], 0);
    let differences = told["differences"].as_array().unwrap();
    let of = |key: &str| differences.iter().find(|one| one["key"] == key);
    assert_eq!(of("plan.verify").unwrap()["values"], serde_json::json!(["reads", "off"]));
    assert_eq!(of("targets.0.capacity").unwrap()["values"], serde_json::json!(["32768", "–"]));
    let twice = old.answers(&["compare", "real", "real"], 2);
    assert!(twice.contains("named twice") || twice.contains("the same run"), "{twice}");

    assert!(old.answers(&["check", "real"], 20).contains("has no witness"));
    assert!(old.answers(&["check", "simulated", "real"], 20).contains("has no witness"));

    for (run, target, sectors) in [("real", "target", 64), ("killed", "other", 48)] {
        let told = old.json(&["verify", run, "--target", target, "--json"], 0);
        assert_eq!(told["targets"][0]["figures"]["intact"], sectors, "{run}: {told}");
    }
    let mut damaged = fs::read(old.path("target")).unwrap();
    damaged[5000] ^= 1;
    fs::write(old.path("target"), damaged).unwrap();
    old.json(&["verify", "real", "--target", "target", "--json"], 15);
    let simulated = old.answers(&["verify", "simulated"], 2);
    assert!(simulated.contains("there is nothing left to verify"), "{simulated}");
    let merged = old.answers(&["verify", "merged"], 3);
    assert!(merged.contains("verify each of them"), "{merged}");
}

#[test]
fn a_directory_that_does_not_say_what_it_must_is_refused_by_file_and_key_whoever_asks() {
    let old = Old::new();
    let sound = old.text("real/run.toml");
    let change = |from: &str, to: &str| {
        assert!(sound.contains(from), "{from}");
        sound.replacen(from, to, 1)
    };
    let commands = |words: &str| {
        for command in [
            &["info", "real"][..],
            &["report", "real"],
            &["analyze", "real"],
            &["plot", "real", "-o", "pictures"],
            &["compare", "real", "simulated"],
            &["merge", "real", "simulated", "-o", "whole"],
            &["verify", "real", "--target", "target"],
            &["check", "real"],
            &["convert", "real", "x.parquet"],
            &["replay", "real", "--target", "sim:size=1G", "-qo", "next"],
        ] {
            let said = old.answers(command, 3);
            assert!(said.contains("real/run.toml: ") && said.contains(words), "{said}");
            assert!(said.contains("= help: use "), "{said}");
        }
        for made in ["pictures", "whole", "x.parquet", "next", "real/report.html"] {
            assert!(!old.path(made).exists(), "{made}");
        }
    };
    let plan = sound.lines().position(|line| line == "[plan]").unwrap();
    let place = format!("(line {}, column 10)", plan + 3);
    for (text, words) in [
        (change("[plan]\n", "[plan]\ntempo = 3\n"), "unknown field `tempo`"),
        (change("pid = ", "pit = "), "unknown field `pit`"),
        (change("timing = \"timed\"", "timing = 7"), "plan.timing: invalid type: integer"),
        (change("timing = \"timed\"", "timing = \"sometimes\""), &*place),
        (change("timing = \"timed\"\n", ""), "plan: missing field `timing`"),
        (change("capacity = 32768", "capacity = -1"), "targets[0].capacity: invalid value"),
        (change("state = \"complete\"", "state = \"finished\""), "state: unknown variant"),
        (change("version = 1\n", "version = 99\n"), "version 99, and this program knows version 1"),
        (change("version = 1\n", ""), "missing field `version`"),
        (sound[..sound.find("[host]").unwrap()].to_owned(), "missing field `host`"),
        (sound[..sound.find("hostname").unwrap() + 5].to_owned(), "column 6)"),
        (String::new(), "missing field `version`"),
        ("\0".repeat(100), "real/run.toml"),
    ] {
        fs::write(old.path("real/run.toml"), &text).unwrap();
        commands(words);
    }
    fs::write(old.path("real/run.toml"), sound.as_bytes()).unwrap();
    old.answers(&["info", "real"], 0);
}
