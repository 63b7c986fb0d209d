//! Whatever tells of a run tells the same: terminal, page, pictures, summary, analysis, comparison,
//! info, lines of intervals, metrics and the check of a witnessed run are held against a recount of
//! the run's requests in Python. (The times of `ioecho check` have one of their own,
//! `check/slow.py`, and so has the analysis, `analysis/`.)

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_fixture::{LoopDevice, can_record, or_skip, skipped};
use program::ioecho;

/// How a run is told of while it goes on.
const TOLD: [&str; 10] = [
    "-o",
    "run",
    "--interval-csv",
    "intervals.csv",
    "--interval-json",
    "intervals.json",
    "--interval-flatfile",
    "intervals.flat",
    "--metrics",
    "metrics.prom",
];

/// Replays, has all that is told of the run written down, and counts its requests again. The exit
/// code of the replay says that it went as it was meant to.
#[track_caller]
fn counts_again(load: &str, replay: &[&str], code: i32) {
    let home = tempfile::tempdir().unwrap();
    let base = ["replay", load, "-q", "-t", "sim:size=16M,service=2ms", "-o", "base"];
    ioecho(home.path(), &base);
    let replayed = ioecho(home.path(), &[&["replay", load][..], &TOLD, replay].concat());
    held(home.path(), &replayed, load, code);
}

/// Holds all that is told of the run in this directory against a recount of its requests, and so
/// its comparison with a run `base` that is there.
#[track_caller]
fn held(home: &Path, replayed: &Output, load: &str, code: i32) {
    let said = String::from_utf8_lossy(&replayed.stderr);
    assert_eq!(replayed.status.code(), Some(code), "{load}: {said}");
    counts(home, replayed, load);
}

/// The same for a run on this host, which may be busy: it ended as it did.
#[track_caller]
fn counts(home: &Path, replayed: &Output, load: &str) {
    fs::write(home.join("printed.txt"), &replayed.stdout).unwrap();
    ioecho(home, &["convert", "run/requests.parquet", "requests.csv"]);
    for (name, arguments) in [
        ("analysis.json", &["analyze", "run", "--json"][..]),
        ("info.json", &["info", "run", "--json"]),
        ("compared.json", &["compare", "run", "base", "--json"]),
    ] {
        let told = ioecho(home, arguments).stdout;
        // Invalid runs are not compared.
        if !told.is_empty() {
            fs::write(home.join(name), told).unwrap();
        }
    }
    let pictures = ["--only", "g000.overview.thrp,g01.latency.realtime,g04.delay.setpoint"];
    let plot = ["plot", "run", "-o", "pictures", "--to", "svg"];
    ioecho(home, &[&plot[..], &pictures].concat());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recount/recount.py");
    let Ok(output) = Command::new("python3").arg("-B").arg(script).arg(home).output() else {
        skipped("there is no python3");
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{load}:\n{told}{failed}");
}

const RANDOM: &str = "gen:random?read=50&size=4k&rate=300&duration=60s&area=16M";
const POISSON: &str = "gen:random?read=50&size=4k&rate=100&dist=poisson&duration=10s&area=16M";

#[test]
fn a_sound_run() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=2ms,units=4"], 0);
}

#[test]
#[ignore = "takes ten minutes and 10 GB: cargo test --release --test recount -- --ignored"]
fn ten_million_requests() {
    let load = "gen:random?read=50&size=4k&rate=20000&duration=500s&area=16M";
    counts_again(load, &["-t", "sim:size=16M,service=100us,units=8"], 0);
}

#[test]
fn a_run_that_is_three_hours_late() {
    let device = "sim:size=16M,service=12s,units=1";
    counts_again(POISSON, &["-t", device], 10);
    counts_again(POISSON, &["-t", device, "--in-flight-max", "1"], 10);
}

#[test]
fn a_device_on_which_a_hundredth_of_the_requests_takes_800_ms_longer() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=1ms,units=4,stall=0.01:800ms"], 0);
}

#[test]
fn requests_that_fail_and_a_device_that_vanishes() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=1ms,errors=0.01,short=0.01"], 14);
    counts_again(RANDOM, &["-t", "sim:size=16M,service=1ms,vanish=20s"], 14);
}

#[test]
fn a_device_that_stops_answering() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=1ms,units=4,hang=0.001"], 13);
}

#[test]
fn a_run_that_is_stopped() {
    let home = tempfile::tempdir().unwrap();
    let load = "gen:random?read=50&size=4k&rate=300&duration=100000s&area=16M";
    let device = ["-t", "sim:size=16M,service=2ms,units=4"];
    // A shell's background job would ignore the signal.
    let run = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_ioecho"), "replay", load])
        .args(TOLD)
        .args(device)
        .current_dir(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_mins(2);
    let lines = || fs::read_to_string(home.path().join("intervals.csv")).unwrap_or_default();
    while lines().lines().count() < 20 {
        assert!(Instant::now() < patience, "no intervals");
        sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert!(kill.success());
    held(home.path(), &run.wait_with_output().unwrap(), load, 13);
}

#[test]
fn a_cap_that_decides() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=8ms,units=4", "--in-flight-max", "2"], 10);
}

#[test]
fn runs_without_a_schedule() {
    let device = "sim:size=16M,service=8ms,units=4";
    counts_again(RANDOM, &["-t", device, "--timing", "afap"], 0);
}

#[test]
fn a_load_that_is_made_faster() {
    counts_again(RANDOM, &["-t", "sim:size=16M,service=8ms,units=4", "--speedup", "4"], 10);
}

#[test]
fn conflicts_that_drop_requests() {
    let hot = "gen:random?read=50&size=4k&rate=3000&duration=20s&area=1M";
    counts_again(hot, &["-t", "sim:size=16M,service=2ms,units=4", "--conflicts", "drop"], 0);
}

#[test]
fn flushes_discards_odd_sizes_and_a_single_request() {
    let home = tempfile::tempdir().unwrap();
    let mut mixed = "issue_ns,op,flags,offset_bytes,length_bytes,volume\n".to_owned();
    for i in 0..3000_u64 {
        // Neither in step with each other nor by chance: what the test sees is always the same.
        let (at, place) = (i * 5_500_000 + i * i % 4_000_000, i * 7919 % 8000 * 512);
        let length = (1 + i * 31 % 99) * 512;
        _ = match i % 10 {
            0..=2 => writeln!(mixed, "{at},flush,,0,0,0"),
            3 => writeln!(mixed, "{at},discard,,{place},65536,0"),
            4..=6 => writeln!(mixed, "{at},read,,{place},{length},0"),
            _ => writeln!(mixed, "{at},write,fua,{place},{length},0"),
        };
    }
    let one = "issue_ns,op,flags,offset_bytes,length_bytes,volume\n5,read,,0,4096,0\n";
    for (name, text) in [("mixed.csv", mixed.as_str()), ("one.csv", one)] {
        let path = home.path().join(name);
        fs::write(&path, text).unwrap();
        counts_again(path.to_str().unwrap(), &["-t", "sim:size=16M,service=2ms,units=4"], 0);
    }
}

#[test]
fn a_run_that_shares_its_device() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let device = or_skip!(LoopDevice::new(64 << 20));
    // Nothing is merged, so that each request of either can be counted.
    or_skip!(device.set("nomerges", "2"));
    let load = "gen:random?read=100&size=4k:50,8k:50&rate=500&duration=3s&area=32M";
    let on = ["-t", device.path(), "--read-only", "--witness"];
    let dry = ioecho(home, &[&["replay", load, "-o", "dry", "--dry-run"], &on[..]].concat());
    or_skip!(can_record(&dry));
    let script = "while :; do dd if=\"$1\" of=/dev/null bs=64k count=256 iflag=direct; done";
    let mut stranger = Command::new("sh")
        .args(["-c", script, "sh", device.path()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let replayed = ioecho(home, &[&["replay", load], &TOLD[..], &on].concat());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    let checked = ioecho(home, &["check", "run", "--json"]).stdout;
    fs::write(home.join("checked.json"), checked).unwrap();
    ioecho(home, &["convert", "run/witness.parquet", "seen.csv"]);
    counts(home, &replayed, load);
}
