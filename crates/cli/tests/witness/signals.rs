//! A run with a witness that is ended by a signal leaves nothing in the kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_fixture::{LoopDevice, or_skip, run as system, trace_instances};

use crate::fixture::Fixture;
use crate::watching::watched_device;

const LOAD: &str = "gen:random?rate=200&duration=60s&area=4M";

/// Sends a run two signals with a pause between them. Returns its exit code and its remains in the
/// kernel.
fn ended_twice(
    fixture: &Fixture,
    device: &LoopDevice,
    pause: Duration,
) -> (Option<i32>, Vec<PathBuf>) {
    let words =
        ["replay", LOAD, "-t", device.path(), "-o", "run", "-q", "--witness", "--read-only"];
    let mut command = fixture.command(&words);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (pid, begun) = (running.id(), Instant::now());
    // A run without a result may have nothing to convert. The header of a journal has 24 bytes.
    let journal_bytes =
        || fs::metadata(fixture.path("run/requests.journal")).map_or(0, |it| it.len());
    while journal_bytes() <= 24 || trace_instances::of(pid).is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(1));
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(300));
    system("kill", &["-TERM", &pid.to_string()]).unwrap();
    sleep(pause);
    // The run may have ended by now.
    let _ = system("kill", &["-INT", &pid.to_string()]);
    (running.wait().unwrap().code(), trace_instances::of(pid))
}

#[test]
fn two_signals_at_once_are_one_wish_to_end() {
    let (fixture, device) = or_skip!(watched_device());
    let (code, left) = ended_twice(&fixture, &device, Duration::from_millis(2));
    assert_eq!(left, Vec::<PathBuf>::new());
    assert_eq!(code, Some(13), "the run has ended well, and early");
    assert!(fixture.path("run/witness.parquet").is_file());
    assert!(fixture.path("run/summary.json").is_file());
}
