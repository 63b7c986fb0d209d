//! A device that becomes slow during a run: a loop device that a control group throttles below the
//! rate of the load.
//!
//! Storage that warms up or fills up is not on every machine, and would take minutes. But the
//! effect that the checks see can be had: service times end at another level than they began.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_fixture::{LoopDevice, Throttle, skipped};

use crate::fixture::{Fixture, grade};

/// Reads a second, all over the device.
const LOAD: &str = "gen:random?size=4k&rate=500&duration=4s&area=64M";

/// A limit below the rate of the load, so that requests queue up. It is only a little below, so
/// that the queue is worked off soon.
const SLOW: u32 = 400;

/// A limit that no load here reaches.
const FREE: u32 = 1_000_000;

/// Begins a replay in the group and returns when requests are issued.
fn begin(fixture: &Fixture, device: &LoopDevice, group: &Throttle, run: &str) -> Child {
    let mut command = group.command(env!("CARGO_BIN_EXE_ioecho"));
    command.args(["replay", LOAD, "-q"]);
    command.args(["-t", device.path(), "--read-only", "-o", run]);
    command.current_dir(fixture.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let replay = command.spawn().unwrap();
    let journal = fixture.path(run).join("requests.journal");
    let begun = Instant::now();
    while !fs::exists(&journal).unwrap() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the run does not begin");
        sleep(Duration::from_millis(5));
    }
    replay
}

/// The grades of steady-state and run-length for a run during which the limit changes after so many
/// milliseconds.
fn graded(rules: [u32; 2], change_ms: u64, run: &str) -> Result<[String; 2], String> {
    let fixture = Fixture::new();
    let device = LoopDevice::new(64 << 20)?;
    let group = Throttle::new(&device)?;
    group.reads(rules[0])?;
    let mut replay = begin(&fixture, &device, &group, run);
    sleep(Duration::from_millis(change_ms));
    let allowed = group.reads(rules[1]);
    replay.wait().unwrap();
    allowed?;
    Ok(["steady-state", "run-length"].map(|name| grade(&fixture.path(run), name)))
}

#[test]
fn a_device_that_turns_slow_in_the_second_half_is_no_steady_state() {
    is_seen([FREE, SLOW], 2600, "turns-slow", |grades| grades == &["suspect", "suspect"]);
}

/// Four seconds show a steady state. They are too few to exclude another level later.
#[test]
fn a_device_that_stays_as_it_is_passes() {
    is_seen([FREE, FREE], 1000, "stays", |grades| grades == &["pass", "not-applicable"]);
}

/// At least one of three runs has this grade. On a busy machine a level is not always stable.
fn is_seen(rules: [u32; 2], change_ms: u64, run: &str, is_so: fn(&[String; 2]) -> bool) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        match graded(rules, change_ms, run) {
            Ok(grades) if is_so(&grades) => return,
            Ok(grades) => seen.push(grades),
            Err(reason) => return skipped(reason),
        }
    }
    panic!("{seen:?}");
}
