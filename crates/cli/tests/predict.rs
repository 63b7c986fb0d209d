//! Predictions are held against replays on the simulated device that they are about.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::path::Path;

use program::ioecho;
use serde_json::Value;

/// The device that is learnt, and that the predictions are about.
const DEVICE: &str = "sim:model=ssd,size=1G,units=4,read=200us,program=500us";

fn json(directory: &Path, arguments: &[&str]) -> Value {
    let output = ioecho(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The mean service time of a run, ns.
fn mean_of(directory: &Path, run: &str) -> u64 {
    let text = std::fs::read(directory.join(run).join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&text).unwrap();
    summary["service_time"]["all"]["mean_ns"].as_u64().unwrap()
}

#[track_caller]
fn within(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() <= share, "{found} for {expected}");
}

#[test]
fn a_load_is_predicted_on_the_device_of_a_run_of_another_load() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let learnt = "gen:random?read=60&size=4k&rate=6000&dist=poisson&duration=20s&area=1G&seed=1";
    ioecho(home, &["replay", learnt, "-q", "-t", DEVICE, "-o", "known"]);
    for (n, rate) in ["2000", "5000"].iter().enumerate() {
        let load = format!(
            "gen:random?read=60&size=4k&rate={rate}&dist=poisson&duration=20s&area=1G&seed=7"
        );
        let truth = format!("truth{n}");
        ioecho(home, &["replay", &load, "-q", "-t", DEVICE, "-o", &truth]);
        let arguments = ["predict", &load, "--device", "known", "--timing", "timed", "--json"];
        let told = json(home, &arguments);
        let mean = told["predicted"]["service_time"]["mean_ns"].as_f64().unwrap();
        within(mean, mean_of(home, &truth) as f64, 0.15);
        // Its own run is done again nearly as it was.
        let fit = &told["fit"];
        let known = fit["mean"]["measured_ns"].as_f64().unwrap();
        within(fit["mean"]["predicted_ns"].as_f64().unwrap(), known, 0.1);
        assert_eq!(known as u64, mean_of(home, "known"));
    }
}

#[test]
fn a_closed_loop_is_as_fast_on_a_learnt_device() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load = "gen:random?read=60&size=4k&rate=6000&count=40000&area=1G&seed=1";
    let afap = ["--timing", "afap", "--in-flight-max", "16"];
    let replay = |run| {
        let run = ["replay", load, "-q", "-t", DEVICE, "-o", run];
        ioecho(home, &[&run[..], &afap].concat())
    };
    replay("known");
    let predict = ["predict", load, "--device", "known", "--json"];
    let told = json(home, &[&predict[..], &afap].concat());
    let duration = &told["fit"]["duration"];
    let measured = duration["measured_ns"].as_f64().unwrap();
    within(told["predicted"]["duration_ns"].as_f64().unwrap(), measured, 0.05);
    within(duration["predicted_ns"].as_f64().unwrap(), measured, 0.05);
}

#[test]
fn a_described_device_is_that_of_a_simulated_replay() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load = "gen:random?read=60&size=4k&rate=2000&count=10000&area=1G&seed=1";
    ioecho(home, &["replay", load, "-q", "-t", DEVICE, "-o", "run"]);
    let predict =
        ["predict", load, "--device", DEVICE, "--timing", "timed", "-o", "kept", "--json"];
    let told = json(home, &predict);
    assert_eq!(told["predicted"]["service_time"]["mean_ns"].as_u64(), Some(mean_of(home, "run")));
    assert_eq!(mean_of(home, "kept"), mean_of(home, "run"));
    assert!(told["fit"].is_null() && home.join("kept/report.html").exists());
}

#[test]
fn what_is_learnt_from_an_invalid_run_is_doubted_and_an_open_loop_tells_response_times() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load = "gen:random?read=60&size=4k&rate=2000&count=2000&area=1G&seed=1";
    let failing = format!("{DEVICE},errors=0.2");
    for (device, run) in [(DEVICE, "sound"), (failing.as_str(), "failed")] {
        ioecho(home, &["replay", load, "-q", "-t", device, "-o", run]);
    }
    let told = |run: &str| ioecho(home, &["predict", load, "--device", run, "--timing", "timed"]);
    let said = |run: &str| String::from_utf8(told(run).stderr).unwrap();
    assert!(said("failed").contains("warning: the figures of failed are invalid"));
    assert!(!said("sound").contains("invalid"));
    let printed = String::from_utf8(told("sound").stdout).unwrap();
    assert!(printed.contains("\nresponse time mean "), "{printed}");
}

#[test]
fn a_replay_on_a_learnt_device_warns_of_what_the_run_never_did() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load = |read: &str| format!("gen:random?read={read}&size=4k&rate=500&count=500&area=1G");
    for (read, run) in [("100", "of-reads"), ("50", "of-both")] {
        ioecho(home, &["replay", &load(read), "-q", "-t", DEVICE, "-o", run]);
    }
    let warned = |run: &str| {
        let target = format!("sim:learnt={run}");
        let output = format!("on-{run}");
        let replay = ["replay", &load("50"), "-q", "-t", &target, "-o", &output];
        String::from_utf8(ioecho(home, &replay).stderr).unwrap()
    };
    let said = warned("of-reads");
    assert!(said.contains("had no write: each takes as long as whatever it had"), "{said}");
    assert!(!warned("of-both").contains("had no"));
}

#[test]
fn a_device_of_twice_the_speed_takes_half_as_long_for_what_waits_for_it() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load = "gen:random?read=60&size=4k&rate=6000&count=20000&area=1G&seed=1";
    let afap = ["--timing", "afap", "--in-flight-max", "16"];
    let replay = ["replay", load, "-q", "-t", DEVICE, "-o", "known"];
    ioecho(home, &[&replay[..], &afap].concat());
    for device in [DEVICE, "known"] {
        let took = |speed: &str| {
            let predict = ["predict", load, "--device", device, "--storage-speed", speed, "--json"];
            json(home, &[&predict[..], &afap].concat())["predicted"]["duration_ns"]
                .as_f64()
                .unwrap()
        };
        within(took("1") / took("2"), 2.0, 0.02);
        within(took("1") / took("0.5"), 0.5, 0.02);
    }
}

#[test]
fn a_run_teaches_nothing_about_what_it_did_not_do() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let load =
        |read: u32| format!("gen:random?read={read}&size=4k&rate=2000&count=2000&area=1G&seed=1");
    for (read, run) in [(100, "reads"), (0, "writes"), (50, "both")] {
        ioecho(home, &["replay", &load(read), "-q", "-t", DEVICE, "-o", run]);
    }
    for (read, run, words) in [(50, "reads", "writes, and the run"), (50, "writes", "reads, and")] {
        let predict = ["predict", &load(read), "--device", run, "--timing", "timed"];
        let output = ioecho(home, &predict);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(words) && said.contains("reads and writes"), "{said}");
    }
    // Of other operations it is only told.
    std::fs::write(
        home.join("flushes.csv"),
        "issue_ns,op,flags,offset_bytes,length_bytes\n0,write,,0,4096\n1000000,flush,,0,0\n",
    )
    .unwrap();
    let timed = ["--timing", "timed"];
    let predict = ["predict", "flushes.csv", "--device", "both"];
    let told = json(home, &[&predict[..], &timed, &["--json"]].concat());
    assert_eq!(told["unseen"], serde_json::json!([{ "operation": "flush", "requests": 1 }]));
    let text = ioecho(home, &[&predict[..], &timed].concat()).stdout;
    assert!(String::from_utf8_lossy(&text).contains("flush (1): the run had none"));
}

#[test]
fn what_is_no_run_teaches_no_device() {
    let home = tempfile::tempdir().unwrap();
    let load = "gen:random?rate=100&count=10&area=1G";
    for (device, text) in [
        ("nowhere", "no directory of a run"),
        ("sim:learnt=x,units=3", "'units' has no effect"),
        ("sim:model=nothing", "model 'nothing' is not known"),
    ] {
        let predict = ["predict", load, "--device", device, "--timing", "timed"];
        let output = ioecho(home.path(), &predict);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(text), "{device}: {said}");
    }
}
