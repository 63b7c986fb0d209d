//! A witness that was damaged, removed or changed proves nothing, and the results say so.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use ioecho_fixture::{LoopDevice, or_skip};

use crate::fixture::{Fixture, check};
use crate::watching::{LOAD, counted, said, watched_device};

/// A run with a witness.
fn witnessed() -> Result<(Fixture, LoopDevice), String> {
    let (fixture, device) = watched_device()?;
    let words = [
        "replay",
        LOAD,
        "-t",
        device.path(),
        "-o",
        "run",
        "-q",
        "--destroy",
        device.path(),
        "--witness",
    ];
    let told = said(&fixture.ioecho(&words));
    assert!(fixture.path("run/witness.parquet").exists(), "{told}");
    Ok((fixture, device))
}

/// The figures without the names of files.
fn figures(printed: &Value) -> Value {
    printed["figures"].clone()
}

#[test]
fn a_run_its_witness_and_the_file_of_its_witness_say_the_same() {
    let (fixture, _device) = or_skip!(witnessed());
    let (code, own) = counted(&fixture, "run");
    assert_eq!(code, Some(0), "{own}");
    let absolute = fixture.path("run/witness.parquet");
    for seen in ["run/witness.parquet", "./run/../run/witness.parquet", absolute.to_str().unwrap()]
    {
        let (_, named) = fixture.checked(&["check", "run", seen, "--json"]);
        assert_eq!(figures(&named), figures(&own), "{seen}");
    }
    // The figures behind the verdict are the same again.
    let facts = &fixture.summary("run")["engine"]["witness"];
    let (ours, issue) = (&own["figures"], &own["figures"]["issue"]);
    for (told, counted) in [
        ("asked", &ours["asked"]["requests"]),
        ("found", &ours["found"]),
        ("missing", &ours["missing"]),
        ("not_witnessed", &ours["not_witnessed"]),
        ("shift_ns", &ours["shift_ns"]),
        ("issue_p50_ns", &issue["p50_ns"]),
        ("issue_p999_ns", &issue["p999_ns"]),
        ("issue_max_ns", &issue["max_ns"]),
        ("late", &ours["late"]["requests"]),
        ("reordered", &ours["order"]["reordered"]),
        ("reordered_held_back", &ours["order"]["held_back"]),
        ("reordered_apart", &ours["order"]["apart"]),
    ] {
        assert_eq!(&facts[told], counted, "{told}");
    }
    let during = ours["extra"].as_u64().unwrap() - ours["extra_outside"].as_u64().unwrap();
    assert_eq!(facts["extra"].as_u64(), Some(during));
    // Another recording of the device with the same content gives the same result.
    let copy = fixture.path("copy.parquet");
    fs::copy(&absolute, &copy).unwrap();
    let (_, named) = fixture.checked(&["check", "run", copy.to_str().unwrap(), "--json"]);
    assert_eq!(figures(&named), figures(&own));
}

#[test]
fn a_witness_that_was_changed_or_taken_away_is_told_and_proves_nothing() {
    let (fixture, _device) = or_skip!(witnessed());
    let witness = fixture.path("run/witness.parquet");
    let sound = fs::read(&witness).unwrap();
    let page = || {
        let told = said(&fixture.ioecho(&["report", "run"]));
        (fixture.text("run/report.html"), told)
    };
    assert!(page().0.contains("At the device: in flight"));
    // A flipped bit in the first row group, one in the footer, and a cut end.
    for at in [64, sound.len() / 2, sound.len() - 40] {
        let mut flipped = sound.clone();
        flipped[at] ^= 4;
        fs::write(&witness, &flipped).unwrap();
        let output = fixture.ioecho(&["check", "run"]);
        let code = output.status.code();
        assert!(matches!(code, Some(3 | 4)), "byte {at}: {code:?} {}", said(&output));
        assert!(page().0.contains("SHA-256 is not that of run.toml"), "byte {at}");
    }
    fs::write(&witness, &sound[..sound.len() / 2]).unwrap();
    let output = fixture.ioecho(&["check", "run"]);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{}", said(&output));
    assert!(page().0.contains("witness.parquet was changed"));
    fs::remove_file(&witness).unwrap();
    let output = fixture.ioecho(&["check", "run"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(said(&output).contains("no longer there"), "{}", said(&output));
    let (page, told) = page();
    assert!(page.contains("witness.parquet is no longer there"), "{told}");
}

/// The size of all files in a directory, in bytes.
fn bytes_in(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// A run with a witness that is killed in its middle, once both have kept a part. On a busy machine
/// that takes a while.
fn killed() -> Result<(Fixture, LoopDevice), String> {
    /// What the kernel says of a thousand requests, and a result of each, at the least.
    const SEEN: u64 = 512 << 10;
    const REPLAYED: u64 = 128 << 10;
    let (fixture, device) = watched_device()?;
    let load = "gen:random?size=4k&rate=1000&duration=90s&area=32M";
    let words =
        ["replay", load, "-t", device.path(), "-o", "run", "-q", "--read-only", "--witness"];
    let mut running = fixture.command(&words).spawn().map_err(|error| error.to_string())?;
    let begun = Instant::now();
    let replayed = || fs::metadata(fixture.path("run/requests.journal")).map_or(0, |of| of.len());
    while bytes_in(&fixture.path("run/witness.recording")) < SEEN || replayed() < REPLAYED {
        assert!(begun.elapsed() < Duration::from_secs(80), "nothing is kept of the run");
        sleep(Duration::from_millis(50));
    }
    running.kill().map_err(|error| error.to_string())?;
    running.wait().map_err(|error| error.to_string())?;
    Ok((fixture, device))
}

#[test]
fn what_a_killed_witness_did_not_see_is_not_missing() {
    let (fixture, _device) = or_skip!(killed());
    let before = fixture.ioecho(&["check", "run"]);
    assert_eq!(before.status.code(), Some(4), "{}", said(&before));
    assert!(said(&before).contains("`ioecho report run`"), "{}", said(&before));
    let told = said(&fixture.ioecho(&["report", "run"]));
    assert!(fixture.path("run/witness.parquet").exists(), "{told}");
    let (code, printed) = counted(&fixture, "run");
    let figures = &printed["figures"];
    assert_eq!(figures["missing"].as_u64(), Some(0), "{printed}");
    assert!(figures["found"].as_u64() > Some(500), "{printed}");
    let unseen = figures["not_witnessed"].as_u64().unwrap();
    // The run itself is incomplete.
    assert_eq!(code, Some(4), "{printed}");
    let engine = &fixture.summary("run")["engine"]["witness"];
    assert_eq!(engine["not_witnessed"].as_u64(), Some(unseen), "{engine}");
}

#[test]
fn a_killed_witness_that_cannot_be_converted_is_told_on_the_page() {
    let (fixture, _device) = or_skip!(killed());
    fs::write(fixture.path("run/witness.recording/recording.json"), "{}").unwrap();
    let told = said(&fixture.ioecho(&["report", "run"]));
    let page = fixture.text("run/report.html");
    assert!(page.contains("The witness is incomplete: it stays in witness.recording"), "{told}");
    assert_eq!(check(&fixture.path("run"), "witness")["grade"], "suspect");
    let output = fixture.ioecho(&["check", "run"]);
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
}

#[test]
fn a_device_that_went_away_under_its_run_is_told_as_that() {
    let (fixture, device) = or_skip!(watched_device());
    let load = "gen:random?size=4k&rate=500&duration=4s&area=32M";
    let words =
        ["replay", load, "-t", device.path(), "-o", "run", "-q", "--read-only", "--witness"];
    let mut running = fixture.command(&words).spawn().unwrap();
    sleep(Duration::from_millis(1500));
    let detached = device.detach();
    running.wait().unwrap();
    or_skip!(detached);
    let facts = fixture.facts("run");
    let why = facts["witness"].get("incomplete").and_then(|why| why.as_str()).unwrap_or_default();
    if why.is_empty() {
        // The kernel removes the device only after its last user. So nothing was lost while the run
        // went on, and the run and its witness are complete.
        let check = fixture.command(&["check", "run", "--json"]).output().unwrap();
        let seen: Value = serde_json::from_slice(&check.stdout).unwrap();
        assert_eq!(facts["state"].as_str(), Some("complete"));
        assert_eq!(seen["figures"]["missing"], 0, "{seen:#}");
    } else {
        assert!(why.contains("the device went away"), "{why}");
    }
}

#[test]
fn witnessed_runs_are_merged_and_compared_and_what_was_seen_stands_in_the_verdict() {
    let (fixture, device) = or_skip!(witnessed());
    let again = [
        "replay",
        LOAD,
        "-t",
        device.path(),
        "-o",
        "again",
        "-q",
        "--destroy",
        device.path(),
        "--witness",
    ];
    fixture.ioecho(&again);
    let merged = fixture.ioecho(&["merge", "run", "again", "-o", "both"]);
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    let seen = check(&fixture.path("both"), "witness");
    assert!(seen["measured"].as_str().unwrap().contains("the device saw"), "{seen}");
    // Neither witness covers the whole, and no message says that one was lost.
    assert!(!fixture.facts("both").contains_key("witness"));
    assert!(!fixture.text("both/report.html").contains("no longer there"));
    let checked = fixture.ioecho(&["check", "both"]);
    assert_eq!(checked.status.code(), Some(20), "{}", said(&checked));
    let compared = fixture.ioecho(&["compare", "run", "again", "--json"]);
    assert!(matches!(compared.status.code(), Some(0 | 20)), "{}", said(&compared));
}
