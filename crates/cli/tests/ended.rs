//! What a single run needs so that many can be made of it: an end after a time that was asked for,
//! the figure that shows what was left in the device, and repeats.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::fs;
use std::path::Path;

use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

/// A hundred thousand requests a second at most.
const DEVICE: &str = "sim:size=1G,model=const,units=8,service=80us,bandwidth=1T";

/// Replays into `run`; answers the exit code, what was said, and the summary.
fn replay(home: &Path, arguments: &[&str]) -> (i32, String, Value) {
    let output = ioecho(home, &[&["replay", "-q", "-v", "-o", "run"], arguments].concat());
    let summary = fs::read(home.join("run/summary.json")).unwrap_or_else(|_| {
        panic!("{}", said(&output));
    });
    (output.status.code().unwrap(), said(&output), serde_json::from_slice(&summary).unwrap())
}

fn check<'a>(summary: &'a Value, name: &str) -> &'a Value {
    let checks = summary["verdict"]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn a_device_that_was_asked_for_120_percent_drains_for_20_percent_longer() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&rate=120k&duration=200ms&area=1G";
    let (_, told, summary) = replay(home.path(), &[load, "-t", DEVICE]);
    let drain = summary["drain_percent"].as_f64().unwrap();
    assert!((19.5..20.5).contains(&drain), "{drain}: {told}");
    assert!(told.contains("\ndrain         20 % of the demanded duration"), "{told}");
    let page = fs::read_to_string(home.path().join("run/report.html")).unwrap();
    assert!(page.contains("drain 20\u{a0}%"));

    let half = load.replace("120k", "60k");
    ioecho(home.path(), &["replay", &half, "-q", "-t", DEVICE, "-o", "half"]);
    let arguments = ["compare", "half", "run", "--allow", "load,schedule,complete,valid"];
    let text = said(&ioecho(home.path(), &arguments));
    let row = text.lines().find(|line| line.starts_with("drain ")).expect(&text);
    assert!(row.contains("20 %") && row.ends_with("not judged"), "{row}");
    let json = ioecho(home.path(), &[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["pairs"][0]["drain_percent"][1].as_f64(), Some(drain));
}

#[test]
fn without_a_schedule_there_is_no_drain() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&rate=1k&duration=1s&area=1G";
    let (_, told, summary) = replay(home.path(), &[load, "-t", DEVICE, "--timing", "afap"]);
    assert!(summary.get("drain_percent").is_none(), "{summary}");
    assert!(!told.contains("\ndrain "), "{told}");
}

#[test]
fn a_load_without_an_end_ends_when_it_was_asked_to_and_the_run_is_whole() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&rate=1k&endless=yes&area=1G";
    let (code, told, summary) = replay(home.path(), &[load, "-t", DEVICE, "--end-after", "500ms"]);
    assert_eq!(code, 0, "{told}");
    let engine = &summary["engine"];
    assert_eq!((engine["planned"].as_u64(), summary["recorded"].as_u64()), (Some(500), Some(500)));
    assert_eq!(engine["ended_after"]["after_ns"], 500_000_000);
    assert_eq!(engine["ended_after"]["not_issued"], 0);
    assert_eq!(engine["incomplete"], "");
    assert_eq!(check(&summary, "complete")["measured"], "ended after 500 ms, as was asked for");
    for name in ["complete", "accounted", "duration"] {
        assert_eq!(check(&summary, name)["grade"], "pass", "{name}");
    }
    assert!(told.contains("ended after 500 ms as was asked for"), "{told}");
    let facts = fs::read_to_string(home.path().join("run/run.toml")).unwrap();
    assert!(facts.contains("state = \"complete\"\n"), "{facts}");
    assert!(facts.contains("end_after_ns = 500000000\n"), "{facts}");
}

#[test]
fn each_target_of_a_run_without_a_schedule_goes_on_until_the_end() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&endless=yes&area=1G&volumes=2";
    let slow = "sim:size=1G,model=const,units=1,service=1ms,bandwidth=1T";
    let fast = "sim:size=1G,model=const,units=1,service=100us,bandwidth=1T";
    let afap = ["--timing", "afap", "--in-flight-max", "1", "--end-after", "400ms"];
    let (code, told, summary) =
        replay(home.path(), &[&[load, "-t", slow, "-t", fast][..], &afap].concat());
    assert_eq!(code, 0, "{told}");
    let completed: Vec<u64> = summary["per_target"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| target["requests"].as_u64().unwrap())
        .collect();
    assert!((398..=401).contains(&completed[0]), "{completed:?}");
    assert!((3_900..=4_001).contains(&completed[1]), "{completed:?}");
    assert_eq!(summary["engine"]["planned"], summary["recorded"]);
    assert_eq!(check(&summary, "accounted")["grade"], "pass", "{told}");
}

#[test]
fn what_a_slow_device_leaves_at_the_end_is_no_part_of_what_it_did() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&rate=2k&endless=yes&area=1G";
    let slow = "sim:size=1G,model=const,units=1,service=1ms,bandwidth=1T";
    let options = ["--in-flight-max", "4", "--end-after", "1s"];
    let (code, told, summary) = replay(home.path(), &[&[load, "-t", slow][..], &options].concat());
    assert_eq!(code, 10, "{told}");
    let left = &summary["engine"]["ended_after"];
    let not_issued = left["not_issued"].as_u64().unwrap();
    assert!((990..=1_005).contains(&not_issued), "{left}");
    assert_eq!(summary["engine"]["planned"].as_u64(), Some(2_000));
    assert_eq!(summary["recorded"].as_u64().unwrap() + not_issued, 2_000);
    assert_eq!(left["cause"], "in-flight-cap");
    assert_eq!(check(&summary, "accounted")["grade"], "pass", "{told}");
    let duration = check(&summary, "duration");
    assert_eq!(duration["grade"], "limited", "{duration}");
    assert!(duration["measured"].as_str().unwrap().contains("behind when it was ended"));
}

#[test]
fn a_load_that_is_over_before_the_end_was_replayed_to_its_own() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=100&size=4k&rate=1k&duration=100ms&area=1G";
    let (_, _, summary) = replay(home.path(), &[load, "-t", DEVICE, "--end-after", "1h"]);
    assert!(summary["engine"].get("ended_after").is_none(), "{summary}");
    assert_eq!(check(&summary, "complete")["measured"], "ran to its end");
}

#[test]
fn what_has_no_end_can_be_foretold() {
    let home = TempDir::new().unwrap();
    let load = "gen:random?read=50&size=4k&rate=1k&endless=yes&area=1G";
    let foretell = |more: &[&str]| {
        let output =
            ioecho(home.path(), &[&["replay", load, "-t", DEVICE, "--dry-run"], more].concat());
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    let ended = foretell(&["--end-after", "2s"]);
    assert!(ended.contains("end           after 2.00 s"), "{ended}");
    assert!(ended.contains("would replay  2000 requests"), "{ended}");
    let afap = foretell(&["--end-after", "2s", "--timing", "afap"]);
    assert!(afap.contains("would replay  a load without an end"), "{afap}");
    assert!(afap.contains("overwritten   as much as it comes to"), "{afap}");
    assert!(foretell(&["--read-only"]).contains("overwritten   nothing"));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// A second of a load that the device takes.
const LOAD: &str = "gen:random?read=100&size=4k&rate=2k&duration=1s&area=1G";

#[test]
fn runs_follow_one_another_and_are_told_together() {
    let home = TempDir::new().unwrap();
    let runs = ["replay", LOAD, "-q", "-t", DEVICE, "--runs", "3", "-o", "all"];
    let output = ioecho(home.path(), &runs);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let mut numbers = Vec::new();
    for number in ["1", "2", "3"] {
        assert!(told.contains(&format!("run           {number} of 3\n")), "{told}");
        let run = home.path().join("all").join(number);
        let facts = fs::read_to_string(run.join("run.toml")).unwrap();
        let facts: toml::Table = facts.parse().unwrap();
        assert_eq!(facts["state"].as_str(), Some("complete"));
        numbers.push(facts["run"].as_str().unwrap().to_owned());
    }
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "each is a run of its own");
    let last = told.lines().find(|line| line.starts_with("over 3 runs")).expect(&told);
    assert!(last.contains("median IOPS 2001 (2001 … 2001)"), "{last}");
    assert!(last.contains("p99 of the response time 80.1 µs (80.1 µs … 80.1 µs)"), "{last}");
    assert!(told.contains("with 75 % confidence"), "{told}");
    // They can be compared like any others.
    let again = ioecho(home.path(), &["compare", "all/1,all/2", "all/3"]);
    assert!(again.status.success(), "{}", said(&again));
    let used = ioecho(home.path(), &runs);
    assert_eq!(used.status.code(), Some(7), "{}", said(&used));
}

#[test]
fn the_worst_run_is_what_a_script_hears_of_and_a_damaged_one_is_the_last() {
    let home = TempDir::new().unwrap();
    let many = "gen:random?read=100&size=4k&rate=20k&duration=1s&area=1G";
    let slow = "sim:size=1G,model=const,units=1,service=1ms,bandwidth=1T";
    let limited = ["replay", many, "-q", "-t", slow, "--runs", "2", "-o", "limited"];
    assert_eq!(ioecho(home.path(), &limited).status.code(), Some(10));
    assert!(home.path().join("limited/2/summary.json").exists());
    let lying = format!("{DEVICE},lies=1");
    let write = "gen:random?read=50&size=4k&rate=1k&duration=1s&area=1M";
    let verify = ["--verify", "final", "--runs", "3", "-o", "damaged"];
    let output =
        ioecho(home.path(), &[&["replay", write, "-q", "-t", &lying][..], &verify].concat());
    assert_eq!(output.status.code(), Some(15), "{}", said(&output));
    assert!(said(&output).contains("run 1 of 3 is the last"), "{}", said(&output));
    assert!(!home.path().join("damaged/2").exists());
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let home = TempDir::new().unwrap();
    for more in [
        &["--continues", "run"][..],
        &["--start-at", "+1h"],
        &["--gate", "3"],
        &["--metrics", "run.prom"],
        &["--interval-csv", "-"],
    ] {
        let arguments = [&["replay", LOAD, "-t", DEVICE, "--runs", "2"], more].concat();
        let output = ioecho(home.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", said(&output));
    }
    let output = ioecho(home.path(), &["replay", "-", "-t", DEVICE, "--runs", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("can be read only once"), "{}", said(&output));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
