//! The witness shows that a replay was wrong.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use ioecho_fixture::{LoopDevice, Throttle, or_skip, run as system};

use crate::fixture::Fixture;
use crate::watching::{said, watched_device};

fn reasons(printed: &Value) -> Vec<&str> {
    printed["reasons"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

/// The host may delay requests by this much.
const CALM: [&str; 8] = [
    "--limit",
    "issue-p50=50ms",
    "--limit",
    "issue-p99=150ms",
    "--limit",
    "shift=50ms",
    "--limit",
    "duration=20%",
];

fn checked(fixture: &Fixture, run: &str) -> (Option<i32>, Value) {
    let mut words = vec!["check", run, "--json"];
    words.extend(CALM);
    fixture.checked(&words)
}

fn words<'a>(load: &'a str, device: &'a LoopDevice, run: &'a str) -> Vec<&'a str> {
    vec!["replay", load, "-t", device.path(), "-o", run, "-q", "--witness", "--read-only"]
}

#[test]
fn requests_that_were_left_out_are_missing_at_the_device() {
    let (fixture, device) = or_skip!(watched_device());
    // Half of them lie at one place, and are dropped while another one is in flight there.
    let load = "gen:random?read=0&size=1M&rate=5000&count=2000&area=4M";
    let replay = [
        "replay",
        load,
        "-t",
        device.path(),
        "-o",
        "run",
        "-q",
        "--witness",
        "--destroy",
        device.path(),
        "--conflicts",
        "drop",
    ];
    let told = said(&fixture.ioecho(&replay));
    let dropped = fixture.summary("run")["engine"]["dropped"].as_u64().unwrap();
    assert!(dropped > 0, "{told}");
    let (code, printed) = checked(&fixture, "run");
    assert_eq!(code, Some(22), "{printed}");
    assert!(reasons(&printed).contains(&"missing-requests"), "{printed}");
    assert_eq!(printed["figures"]["missing"].as_u64(), Some(dropped));
    // The run's own results say that it left them out. The others were seen.
    let witness = &fixture.summary("run")["engine"]["witness"];
    assert_eq!(witness["missing"].as_u64(), Some(0), "{witness}");
}

#[test]
fn a_generator_that_was_stopped_for_a_while_is_told_and_not_the_device() {
    let (fixture, device) = or_skip!(watched_device());
    let load = "gen:random?size=4k&rate=500&duration=4s&area=32M";
    let mut running = fixture
        .command(&words(load, &device, "run"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let journal = fixture.path("run/requests.journal");
    while fs::metadata(&journal).map_or(0, |data| data.len()) < 20_000 {
        assert!(begun.elapsed().as_secs() < 20, "the run does not begin");
        sleep(Duration::from_millis(10));
    }
    let signal = |name: &str| system("kill", &[name, &running.id().to_string()]).unwrap();
    signal("-STOP");
    sleep(Duration::from_secs(1));
    signal("-CONT");
    running.wait().unwrap();
    let (code, printed) = checked(&fixture, "run");
    assert_eq!(code, Some(22), "{printed}");
    assert!(reasons(&printed).contains(&"host-stalled"), "{printed}");
    // The recorder was stopped as well. The kernel's buffers held all events meanwhile.
    assert_eq!(printed["figures"]["missing"].as_u64(), Some(0), "{printed}");
}

#[test]
fn a_throttled_device_is_told_as_the_devices_doing() {
    let (fixture, device) = or_skip!(watched_device());
    let throttle = or_skip!(Throttle::new(&device));
    or_skip!(throttle.reads(60));
    let load = "gen:random?size=4k&rate=200&duration=2s&area=32M";
    let mut command = throttle.command(env!("CARGO_BIN_EXE_ioecho"));
    command.args(words(load, &device, "run"));
    let output = command.current_dir(fixture.path("")).output().unwrap();
    let (code, printed) = checked(&fixture, "run");
    assert_eq!(code, Some(22), "{}{printed}", said(&output));
    assert!(reasons(&printed).contains(&"device-limited"), "{printed}");
    assert_eq!(printed["figures"]["missing"].as_u64(), Some(0), "{printed}");
}
