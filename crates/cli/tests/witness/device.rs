//! The kernel's record of a run at its device agrees with the results of the run.

use std::fs;

use ioecho_fixture::{LoopDevice, or_skip};

use crate::fixture::{Fixture, grade};
use crate::watching::{LOAD, counted, said, watched_device};

/// Replays on a target that may be destroyed, with a witness.
fn replay(fixture: &Fixture, target: &str, run: &str, more: &[&str]) -> String {
    let mut words =
        vec!["replay", LOAD, "-t", target, "-o", run, "-q", "--destroy", target, "--witness"];
    words.extend(more);
    said(&fixture.ioecho(&words))
}

/// Every request of the run was seen at its place, and no other request was.
fn every_request_was_seen(fixture: &Fixture, run: &str, said: &str) {
    assert!(fixture.path(run).join("witness.parquet").exists(), "{said}");
    assert!(!fixture.path(run).join("witness.recording").exists());
    let witness = &fixture.summary(run)["engine"]["witness"];
    assert_eq!(witness["failure"], "", "{said}");
    let numbers = ["asked", "found", "missing", "extra", "split", "merged", "lost_events"];
    let numbers = numbers.map(|key| witness[key].as_u64().unwrap());
    assert_eq!(numbers, [1500, 1500, 0, 0, 0, 0, 0], "{witness}");
    // Both have the same clock: the device sees a request after it was submitted.
    assert_eq!(witness["absolute"], true);
    let (code, printed) = counted(fixture, run);
    assert_eq!(code, Some(0), "{printed}");
    let figures = &printed["figures"];
    assert_eq!((figures["found"].as_u64(), figures["missing"].as_u64()), (Some(1500), Some(0)));
    assert!(figures["submission_lag"]["min_ns"].as_i64().unwrap() >= 0, "{figures}");
    assert!(figures["completion_lag"]["min_ns"].as_i64().unwrap() >= 0, "{figures}");
}

#[test]
fn every_request_of_a_run_on_a_loop_device_is_seen_by_its_witness() {
    let (fixture, device) = or_skip!(watched_device());
    let said = replay(&fixture, device.path(), "run", &[]);
    every_request_was_seen(&fixture, "run", &said);
    let facts = fixture.facts("run");
    assert!(facts["zero_monotonic_ns"].as_integer().unwrap() > 0);
    let name = device.path().trim_start_matches("/dev/");
    let targets = facts["witness"]["targets"].as_array().unwrap();
    assert_eq!(targets.len(), 1);
    assert_eq!(targets[0]["device"].as_str(), Some(name));
    let page = fixture.text("run/report.html");
    assert!(page.contains("As the device saw it") && page.contains("At the device: in flight"));
    // A page that is made again shows the same.
    fs::remove_file(fixture.path("run/report.html")).unwrap();
    assert!(fixture.ioecho(&["report", "run"]).status.code().is_some());
    assert!(fixture.text("run/report.html").contains("As the device saw it"));
    // A witness is an ordinary trace.
    let info = fixture.ioecho(&["info", "run/witness.parquet"]);
    assert!(info.status.success(), "{}", self::said(&info));
}

#[test]
fn a_partition_is_seen_by_the_places_in_it() {
    let (fixture, device) = or_skip!(watched_device());
    let partition = or_skip!(device.partition(1, 2048, 80 * 1024));
    let said = replay(&fixture, &partition, "run", &[]);
    every_request_was_seen(&fixture, "run", &said);
}

#[test]
fn each_of_two_devices_has_its_own_requests() {
    let (fixture, first) = or_skip!(watched_device());
    let second = or_skip!(LoopDevice::new(64 << 20));
    let map =
        [format!("0={},from=0,length=16M", first.path()), format!("0={},from=16M", second.path())];
    let words = [
        "replay",
        LOAD,
        "--map",
        &map[0],
        "--map",
        &map[1],
        "-o",
        "run",
        "-q",
        "--destroy",
        first.path(),
        "--destroy",
        second.path(),
        "--witness",
    ];
    let told = said(&fixture.ioecho(&words));
    every_request_was_seen(&fixture, "run", &told);
    assert_eq!(fixture.facts("run")["witness"]["targets"].as_array().unwrap().len(), 2);
}

#[test]
fn a_dry_run_names_the_witness_and_leaves_nothing() {
    let (fixture, device) = or_skip!(watched_device());
    let words =
        ["replay", LOAD, "-t", device.path(), "-o", "run", "--read-only", "--witness", "--dry-run"];
    let told = said(&fixture.ioecho(&words));
    let name = device.path().trim_start_matches("/dev/");
    assert!(told.lines().any(|line| line.starts_with("witness ") && line.contains(name)), "{told}");
    assert!(!fixture.path("run").exists());
    let instances = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let names: Vec<_> = instances.map(|one| one.file_name().into_string().unwrap()).collect();
    let own = format!("ioecho-{}-", std::process::id());
    assert!(names.iter().all(|name| !name.starts_with(&own)), "{names:?}");
}

#[test]
fn a_file_has_no_witness_and_a_run_on_it_goes_on_without() {
    let fixture = Fixture::new();
    fs::File::create(fixture.path("target")).unwrap().set_len(32 << 20).unwrap();
    let load = "gen:random?read=60&size=4k&rate=1000&count=100&area=32M";
    let words = ["replay", load, "-t", "target", "-o", "run", "-q", "--allow-cached", "--witness"];
    let told = said(&fixture.ioecho(&words));
    assert!(told.contains("target is a file"), "{told}");
    assert!(!fixture.path("run/witness.parquet").exists());
    let witness = &fixture.summary("run")["engine"]["witness"];
    assert!(witness["failure"].as_str().unwrap().contains("target is a file"), "{witness}");
    assert_eq!(grade(&fixture.path("run"), "witness"), "suspect");
    let without = fixture.facts("run")["witness"]["without"].as_array().unwrap().clone();
    assert_eq!(without.len(), 1);
    assert!(fixture.text("run/report.html").contains("target is a file"));
    let checked = fixture.ioecho(&["check", "run"]);
    assert_eq!(checked.status.code(), Some(20));
    assert!(said(&checked).contains("though one was asked for: target is a file"), "{told}");
}

#[test]
fn what_nobody_can_witness_is_refused_before_anything_is_done() {
    let fixture = Fixture::new();
    let refused = |words: &[&str]| {
        let output = fixture.ioecho(words);
        assert!(!fixture.path("run").exists(), "{}", said(&output));
        (output.status.code(), said(&output))
    };
    let (code, told) = refused(&["replay", LOAD, "-t", "sim:size=64M", "-o", "run", "--witness"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("simulated target"), "{told}");
    fs::File::create(fixture.path("target")).unwrap().set_len(32 << 20).unwrap();
    let words = ["replay", LOAD, "-t", "target", "-o", "run", "--witness", "--verify", "final"];
    let (code, told) = refused(&words);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--witness"), "{told}");
}

#[test]
fn a_witness_that_would_be_written_to_its_own_device_is_refused_and_leaves_nothing() {
    let (fixture, device) = or_skip!(watched_device());
    // The run's directory lies on the device that would be recorded.
    or_skip!(ioecho_fixture::run("mkfs.ext4", &["-q", "-F", device.path()]));
    let mount = fixture.path("mount");
    fs::create_dir(&mount).unwrap();
    or_skip!(ioecho_fixture::run("mount", &[device.path(), mount.to_str().unwrap()]));
    let words =
        ["replay", LOAD, "-t", device.path(), "-o", "mount/run", "--read-only", "-q", "--witness"];
    let output = fixture.ioecho(&words);
    let left = mount.join("run").exists();
    ioecho_fixture::run("umount", &[mount.to_str().unwrap()]).unwrap();
    assert!(!output.status.success(), "{}", said(&output));
    assert!(!left, "{}", said(&output));
}
