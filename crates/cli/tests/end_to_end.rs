//! The whole program, from the command line to its files.
//!
//! No test here asserts how long anything takes: on a busy machine the verdict says that a run was
//! late. Tests that need root or a loop device are skipped with a message if there is none.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use fixture::{Fixture, said};
use ioecho_fixture::skipped;

impl Fixture {
    fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let output = self.run(arguments);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)))
    }

    fn facts(&self, run: &str) -> toml::Table {
        fs::read_to_string(self.path(run).join("run.toml")).unwrap().parse().unwrap()
    }

    /// Waits until the run has written results.
    fn wait_for_results(&self, run: &str) {
        let journal = self.path(run).join("requests.journal");
        let until = Instant::now() + Duration::from_mins(1);
        while fs::metadata(&journal).map_or(0, |data| data.len()) < 4096 {
            assert!(Instant::now() < until, "no results after a minute");
            sleep(Duration::from_millis(20));
        }
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n")
}

/// Runs a program of the system; `None` if it fails.
fn system(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Undoes a change when the test ends, even if it fails.
struct Undo(Vec<Vec<String>>);

impl Undo {
    fn then(&mut self, command: &[&str]) {
        self.0.push(command.iter().map(|&word| word.to_owned()).collect());
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for command in self.0.iter().rev() {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            system(words[0], &words[1..]);
        }
    }
}

const SIM: &str = "sim:size=16M,units=8,service=50us";

#[test]
fn a_simulated_replay_is_faithful_and_its_result_is_a_trace_again() {
    let fixture = Fixture::regular(3000, 500);
    let output = fixture.run(&["replay", "load", "--target", SIM, "-o", "run", "-q"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let summary = fs::read(fixture.path("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["verdict"]["finding"], "faithful");
    assert_eq!(summary["recorded"], 3000);
    assert_eq!(fixture.facts("run")["state"].as_str(), Some("complete"));
    assert!(!fixture.path("run/requests.journal").exists());
    let report = fs::read_to_string(fixture.path("run/report.html")).unwrap();
    assert!(report.contains("Simulated: no storage was measured."));

    let trace = fixture.json(&["info", "--json", "load"]);
    let result = fixture.json(&["info", "--json", "run"]);
    for key in ["requests", "reads", "writes", "bytes_read", "bytes_written", "duration_ns"] {
        assert_eq!(trace[key], result[key], "{key}");
    }
    let again = fixture.run(&["replay", "run", "--target", SIM, "-o", "again", "-q"]);
    assert_eq!(code(&again), 0, "{}", said(&again));

    // The second of them is half as long as the first, and a mean is of both.
    let analysed = said(&fixture.run(&["analyze", "run"]));
    assert!(analysed.contains("in 2 windows of 1.00 s: mean "), "{analysed}");

    // As a host that was away for some of the run leaves it.
    let path = fixture.path("run/summary.json");
    let owned = fs::read_to_string(&path).unwrap();
    let owned = owned.replacen("\"late\":", "\"host_owned_from\": 0.999, \"late\":", 1);
    fs::write(path, owned).unwrap();
    let told = "Response times from p99.9 on are the host's, not the device's.";
    for command in ["info", "analyze"] {
        assert!(said(&fixture.run(&[command, "run"])).contains(told), "{command}");
        assert!(!said(&fixture.run(&[command, "again"])).contains(told), "{command}");
    }
}

#[test]
fn a_load_survives_the_way_through_the_native_format() {
    let fixture = Fixture::regular(3000, 500);
    assert_eq!(code(&fixture.run(&["convert", "load", "a.parquet"])), 0);
    assert_eq!(code(&fixture.run(&["convert", "a.parquet", "b.load.gz"])), 0);
    assert_eq!(code(&fixture.run(&["convert", "b.load.gz", "c.load"])), 0);
    let lines = |name: &str| -> Vec<Vec<String>> {
        let text = fs::read_to_string(fixture.path(name)).unwrap();
        let data = text.lines().filter(|line| line.matches(';').count() == 5).skip(1);
        data.map(|line| line.split(';').map(|field| field.trim().to_owned()).collect()).collect()
    };
    assert_eq!(lines("load"), lines("c.load"));
}

#[test]
fn a_damaged_native_file_is_told_and_is_no_panic_to_the_user() {
    let fixture = Fixture::regular(3, 500);
    assert_eq!(code(&fixture.run(&["convert", "load", "a.parquet"])), 0);
    let mut bytes = fs::read(fixture.path("a.parquet")).unwrap();
    // These are the encodings in the header of the first page (parquet.thrift, compact): delta,
    // RLE, RLE. The test writes a dictionary in the place of delta. There is no dictionary, so the
    // library panics.
    let encodings = [0x15, 0x0a, 0x15, 0x06, 0x15, 0x06];
    let place = bytes.windows(6).position(|window| window == encodings).unwrap();
    bytes[place + 1] = 0x10;
    fs::write(fixture.path("a.parquet"), bytes).unwrap();
    for (arguments, expected) in
        [(&["info", "a.parquet"][..], 4), (&["info", "--strict", "a.parquet"], 3)]
    {
        let output = fixture.run(arguments);
        assert_eq!(code(&output), expected);
        assert!(said(&output).contains("checksum"), "{}", said(&output));
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
    }
}

#[test]
fn a_part_is_replayed_in_the_traces_own_time() {
    let fixture = Fixture::regular(4000, 1000);
    let arguments = [
        "replay",
        "load",
        "--target",
        SIM,
        "--start",
        "1s",
        "--duration",
        "500ms",
        "--speedup",
        "2",
    ];
    let output = fixture.run(&[&arguments[..], &["-o", "run", "-q"]].concat());
    assert_eq!(code(&output), 0, "{}", said(&output));
    let summary = fs::read(fixture.path("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["recorded"], 500);
    assert_eq!(summary["engine"]["demanded_duration_ns"], 249_500_000);
}

#[test]
fn a_real_file_is_replayed_by_every_back_end_and_written_recognisably() {
    for backend in ["uring", "aio", "threads"] {
        let fixture = Fixture::regular(300, 100);
        let arguments = ["replay", "load", "--target", "target", "--backend", backend];
        let output =
            fixture.run(&[&arguments[..], &["--allow-cached", "-o", "run", "-q"]].concat());
        if code(&output) == 5 {
            skipped(said(&output));
            continue;
        }
        let summary = fs::read(fixture.path("run/summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!(summary["recorded"], 300, "{}", said(&output));
        assert_eq!(summary["outcomes"]["ok"], 300);
        let target = fs::read(fixture.path("target")).unwrap();
        let written = target.chunks(512).filter(|sector| sector.starts_with(b"IOECHO\0\x02"));
        assert_eq!(written.count(), 100 * 8, "a hundred writes of eight sectors");
    }
}

#[test]
fn a_read_only_replay_leaves_the_target_as_it_was() {
    let fixture = Fixture::regular(300, 100);
    fs::write(fixture.path("target"), vec![7; 1 << 20]).unwrap();
    let arguments = ["replay", "load", "--target", "target", "--read-only", "--allow-cached"];
    fixture.run(&[&arguments[..], &["-o", "run", "-q"]].concat());
    assert!(fs::read(fixture.path("target")).unwrap() == vec![7; 1 << 20]);
    let summary = fs::read(fixture.path("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!((&summary["recorded"], &summary["engine"]["left_out"]), (&200.into(), &100.into()));
}

#[test]
fn somebodys_data_are_refused_untouched_until_they_are_named() {
    let fixture = Fixture::regular(300, 100);
    fs::write(fixture.path("target"), vec![b'x'; 1 << 20]).unwrap();
    let replay = ["replay", "load", "--target", "target", "--allow-cached", "-o", "run", "-q"];
    let output = fixture.run(&replay);
    assert_eq!(code(&output), 6, "{}", said(&output));
    assert!(said(&output).contains("--destroy target"), "{}", said(&output));
    assert!(fs::read(fixture.path("target")).unwrap() == vec![b'x'; 1 << 20]);
    assert!(!fixture.path("run").exists());

    let other = fixture.run(&[&replay[..], &["--destroy", "load"]].concat());
    assert_eq!(code(&other), 2, "{}", said(&other));
    fixture.run(&[&replay[..], &["--destroy", "target"]].concat());
    assert!(fs::read(fixture.path("target")).unwrap().starts_with(b"IOECHO"));
}

#[test]
fn a_dry_run_says_what_would_be_overwritten_and_touches_nothing() {
    let fixture = Fixture::regular(300, 100);
    let output = fixture.run(&["replay", "load", "--target", "target", "--dry-run", "-o", "run"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(said(&output).contains("100 requests of 400 KiB"), "{}", said(&output));
    assert!(!fixture.path("run").exists());
    assert!(fs::read(fixture.path("target")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_killed_run_is_marked_readable_and_recovered() {
    let fixture = Fixture::regular(20_000, 5_000);
    let arguments = ["replay", "load", "--target", "target", "--allow-cached", "-o", "run", "-q"];
    let mut child = fixture.start(&arguments);
    fixture.wait_for_results("run");
    let busy = fixture.run(&["report", "run"]);
    assert!(said(&busy).contains("still goes on"), "{}", said(&busy));
    send("-KILL", &child);
    child.wait().unwrap();

    assert_eq!(fixture.facts("run")["state"].as_str(), Some("running"));
    let before = fixture.json(&["info", "--json", "run"]);
    assert!(before["requests"].as_u64().unwrap() > 30);
    let output = fixture.run(&["report", "run"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(said(&output).contains("was cut short"), "{}", said(&output));
    assert_eq!(fixture.facts("run")["state"].as_str(), Some("incomplete"));
    assert!(fixture.path("run/report.html").exists());
    let after = fixture.json(&["info", "--json", "run"]);
    assert_eq!(before["requests"], after["requests"]);
}

#[test]
fn an_interrupted_run_ends_cleanly_and_keeps_what_it_measured() {
    let fixture = Fixture::regular(20_000, 5_000);
    let arguments = ["replay", "load", "--target", "target", "--allow-cached", "-o", "run", "-q"];
    let mut child = fixture.start(&arguments);
    fixture.wait_for_results("run");
    send("-INT", &child);
    assert_eq!(child.wait().unwrap().code(), Some(13));
    let facts = fixture.facts("run");
    assert_eq!(facts["state"].as_str(), Some("incomplete"));
    assert_eq!(facts["reason"].as_str(), Some("stopped by a signal"));
    assert!(fixture.path("run/requests.parquet").exists());
    assert!(fixture.json(&["info", "--json", "run"])["requests"].as_u64().unwrap() > 40);
}

#[test]
fn a_disk_that_fills_up_ends_the_run_and_loses_nothing() {
    let fixture = Fixture::regular(600_000, 20);
    let small = fixture.path("small");
    fs::create_dir(&small).unwrap();
    let mount = small.display().to_string();
    if !is_root() || system("mount", &["-t", "tmpfs", "-o", "size=20m", "none", &mount]).is_none() {
        skipped("a full disk needs root and a tmpfs of its own");
        return;
    }
    let mut undo = Undo(Vec::new());
    undo.then(&["umount", "-l", &mount]);
    let output = fixture.run(&["replay", "load", "--target", SIM, "-o", "small/run", "-q"]);
    assert_eq!(code(&output), 13, "{}", said(&output));
    assert!(said(&output).contains("No space left"), "{}", said(&output));
    let facts = fixture.facts("small/run");
    assert_eq!(facts["state"].as_str(), Some("incomplete"));
    let summary = fs::read(fixture.path("small/run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!(summary["engine"]["results_lost"], 0);
    assert_eq!(summary["recorded"], summary["engine"]["issued"]);
    let kept = fixture.json(&["info", "--json", "small/run"]);
    assert_eq!(kept["requests"], summary["recorded"]);
    drop(undo);
}

#[test]
fn a_mounted_device_is_refused_and_its_file_system_is_intact() {
    let fixture = Fixture::regular(300, 100);
    let image = fixture.path("image").display().to_string();
    let mount = fixture.path("mount").display().to_string();
    fs::create_dir(&mount).unwrap();
    fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
    let device = is_root().then(|| system("losetup", &["-f", "--show", &image])).flatten();
    let Some(device) = device else {
        skipped("a mounted device needs root and loop devices");
        return;
    };
    let mut undo = Undo(Vec::new());
    undo.then(&["losetup", "-d", &device]);
    if system("mkfs.ext4", &["-q", &device]).is_none()
        || system("mount", &[&device, &mount]).is_none()
    {
        skipped("ext4 cannot be made or mounted here");
        return;
    }
    undo.then(&["umount", &mount]);
    fs::write(Path::new(&mount).join("precious"), "data").unwrap();
    for destroy in [&[][..], &["--destroy", &device]] {
        let replay = ["replay", "load", "--target", &device, "-o", "run", "-q"];
        let output = fixture.run(&[&replay[..], destroy].concat());
        assert_eq!(code(&output), 6, "{}", said(&output));
        assert!(said(&output).contains("mounted"), "{}", said(&output));
    }
    assert_eq!(fs::read_to_string(Path::new(&mount).join("precious")).unwrap(), "data");
    system("umount", &[&mount]).unwrap();
    assert!(system("fsck.ext4", &["-fn", &device]).is_some(), "the file system is damaged");
}

#[test]
fn every_bad_input_has_its_message_and_its_exit_code() {
    let fixture = Fixture::regular(300, 100);
    fs::write(fixture.path("empty"), "").unwrap();
    fs::write(fixture.path("prose"), "this is no load\n").unwrap();
    fs::write(fixture.path("tiny"), "x").unwrap();
    fs::create_dir(fixture.path("directory")).unwrap();
    fs::create_dir(fixture.path("full")).unwrap();
    fs::write(fixture.path("full/x"), "x").unwrap();
    fixture.run(&["convert", "load", "whole.load.gz"]);
    let whole = fs::read(fixture.path("whole.load.gz")).unwrap();
    fs::write(fixture.path("cut.load.gz"), &whole[..whole.len() / 2]).unwrap();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle..middle + 40].fill(0xFF);
    fs::write(fixture.path("corrupt.load.gz"), flipped).unwrap();
    let cases: [(&[&str], i32, &str); 20] = [
        (&["info", "missing"], 3, "missing"),
        (&["info", "empty"], 3, "empty"),
        (&["info", "prose"], 3, "prose"),
        (&["info", "directory"], 3, "directory"),
        (&["info", "cut.load.gz"], 4, "damaged"),
        (&["info", "corrupt.load.gz"], 4, "damaged"),
        (&["info", "--strict", "cut.load.gz"], 3, "cut.load.gz"),
        (&["convert", "cut.load.gz", "cut.parquet"], 4, "ends before its end"),
        (&["convert", "load", "x.unknown"], 2, "NAME.load"),
        (&["convert", "load", "load"], 2, "both input and output"),
        (&["convert", "load", "missing/x.parquet"], 7, "cannot write"),
        (&["info", "--unknown"], 2, "--unknown"),
        (&["replay", "load", "--target", "missing"], 5, "truncate -s"),
        (&["replay", "load", "--target", "directory"], 5, "directory"),
        (&["replay", "load", "--target", "tiny"], 5, "less than one block"),
        (&["replay", "load", "--target", "/dev/null"], 5, "/dev/null"),
        (&["replay", "load", "--target", "sim:sise=4k"], 2, "unknown key"),
        (&["replay", "load", "--target", SIM, "--duration", "4q"], 2, "unknown unit"),
        (&["replay", "load", "--target", SIM, "--speedup", "0"], 2, "between"),
        (&["replay", "load", "--target", SIM, "-o", "full"], 7, "not empty"),
    ];
    for (arguments, expected, text) in cases {
        let output = fixture.run(arguments);
        let all = said(&output);
        assert_eq!(code(&output), expected, "{arguments:?}: {all}");
        assert!(all.contains(text), "{arguments:?}: {all}");
        assert!(!all.contains("panicked"), "{arguments:?}: {all}");
    }
}

#[test]
fn the_demo_runs_without_a_device() {
    let fixture = Fixture::regular(1, 1);
    let output = fixture.run(&["demo", "--sim", "-o", "demo"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(said(&output).contains("finding       Simulated: "), "{}", said(&output));
    assert!(fixture.path("demo/run/report.html").exists());
}

#[test]
fn completions_and_man_pages_come_from_the_same_definitions() {
    let fixture = Fixture::regular(1, 1);
    assert!(said(&fixture.run(&["completions", "bash"])).contains("ioecho__subcmd__replay"));
    assert_eq!(code(&fixture.run(&["man", "."])), 0);
    assert!(fs::read_to_string(fixture.path("ioecho-replay.1")).unwrap().contains("speedup"));
}

#[test]
fn a_signal_ends_a_run_whose_trace_has_been_read_to_its_end_already() {
    // The look-ahead holds the whole of a short trace from the start.
    let fixture = Fixture::regular(1000, 100_000);
    let arguments = ["replay", "load", "--target", "target", "--allow-cached", "-o", "run", "-q"];
    let mut child = fixture.start(&arguments);
    let journal = fixture.path("run/requests.journal");
    while !journal.exists() {
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(500));
    send("-TERM", &child);
    let until = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "the run goes on after the signal");
        sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(13));
}

#[test]
fn requests_that_cannot_be_issued_make_a_run_invalid() {
    let fixture = Fixture::regular(300, 100);
    let output = fixture.run(&["replay", "load", "--target", "sim:size=512", "-o", "run", "-q"]);
    assert_eq!(code(&output), 14, "{}", said(&output));
    assert!(said(&output).contains("0 of 300 replayed"), "{}", said(&output));
    assert!(said(&output).contains("nothing was replayed"), "{}", said(&output));
}

#[test]
fn a_simulation_begins_at_no_instant_of_the_hosts_clock() {
    let fixture = Fixture::regular(300, 100);
    let replay = ["replay", "load", "--target", SIM, "--start-at", "+1h", "-o", "run", "-q"];
    let output = fixture.run(&replay);
    assert_eq!(code(&output), 2, "{}", said(&output));
    assert!(said(&output).contains("has no meaning in a simulation"), "{}", said(&output));
    assert!(!fixture.path("run").exists());
}

#[test]
fn a_part_beside_the_trace_is_a_slip_of_the_hand() {
    let fixture = Fixture::regular(300, 100);
    let replay = ["replay", "load", "--target", SIM, "--start", "2h", "-o", "run", "-q"];
    for arguments in [&replay[..], &["convert", "load", "x.parquet", "--start", "2h"]] {
        let output = fixture.run(arguments);
        assert_eq!(code(&output), 2, "{}", said(&output));
        assert!(said(&output).contains("no request is left"), "{}", said(&output));
    }
    assert!(!fixture.path("run").exists());
}

#[test]
fn a_load_from_a_pipe_is_replayed_whole() {
    let fixture = Fixture::regular(5000, 20);
    let load = fs::File::open(fixture.path("load")).unwrap();
    let mut command = fixture.command(&["replay", "-", "--target", SIM, "-o", "run", "-q"]);
    let output = command.stdin(load).output().unwrap();
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert_eq!(fixture.json(&["info", "--json", "run"])["requests"], 5000);
}

#[test]
fn a_wrapped_run_is_still_the_load_that_was_recorded() {
    let fixture = Fixture::regular(300, 100);
    fixture.run(&["replay", "load", "--target", "sim:size=1M", "-o", "run", "-q"]);
    let (trace, result) =
        (fixture.json(&["info", "--json", "load"]), fixture.json(&["info", "--json", "run"]));
    assert_eq!(trace["volumes"][0]["extent"], result["volumes"][0]["extent"]);
}

#[test]
fn an_incomplete_run_is_a_damaged_trace() {
    let fixture = Fixture::regular(20_000, 5_000);
    let arguments = ["replay", "load", "--target", "target", "--allow-cached", "-o", "run", "-q"];
    let mut child = fixture.start(&arguments);
    fixture.wait_for_results("run");
    send("-KILL", &child);
    child.wait().unwrap();
    assert_eq!(code(&fixture.run(&["convert", "run", "before.parquet"])), 4);
    assert_eq!(code(&fixture.run(&["report", "run"])), 0);
    assert_eq!(code(&fixture.run(&["convert", "run", "after.parquet"])), 4);
    let again = fixture.run(&["replay", "run", "--target", SIM, "-o", "again", "-q"]);
    assert_eq!(code(&again), 13, "{}", said(&again));
    let itself = fixture.run(&["convert", "run", "run/requests.parquet"]);
    assert_eq!(code(&itself), 2, "{}", said(&itself));
}

#[test]
fn a_run_of_a_future_version_is_refused() {
    let fixture = Fixture::regular(300, 100);
    fixture.run(&["replay", "load", "--target", SIM, "-o", "run", "-q"]);
    let facts = fs::read_to_string(fixture.path("run/run.toml")).unwrap();
    fs::write(fixture.path("run/run.toml"), facts.replace("version = 1\n", "version = 99\n"))
        .unwrap();
    for arguments in [&["info", "run"][..], &["convert", "run", "x.parquet"], &["report", "run"]] {
        let output = fixture.run(arguments);
        assert_eq!(code(&output), 3, "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains("use a newer ioecho"), "{}", said(&output));
    }
}

#[test]
fn what_nobody_can_hear_is_no_panic() {
    let fixture = Fixture::regular(300, 100);
    let Ok(full) = fs::File::options().write(true).open("/dev/full") else {
        skipped("there is no /dev/full");
        return;
    };
    let simulated = ["replay", "load", "--target", SIM, "-q"];
    for (number, arguments) in [
        &[&simulated[..], &["--dry-run"]].concat(),
        &[&simulated[..], &["-o", "run"]].concat(),
        &vec!["convert", "load", "x.parquet"],
        &vec!["info", "load"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut command = fixture.command(arguments);
        command.stdout(full.try_clone().unwrap()).stderr(full.try_clone().unwrap());
        let status = command.status().unwrap();
        assert_ne!(status.code(), Some(101), "case {number} panics");
    }
}

/// The columns of a load with service times.
fn with_latencies(fixture: &Fixture, name: &str) {
    let load = fs::read_to_string(fixture.path("load")).unwrap();
    let load = load.replace("replay_duration=0", "replay_duration (guessed)");
    fs::write(fixture.path(name), load.replace("0.0 ; 0.0\n", "0.0 ; 0.001000000\n")).unwrap();
}

#[test]
fn every_timing_issues_the_whole_load_and_the_summary_names_it() {
    let fixture = Fixture::regular(300, 500);
    with_latencies(&fixture, "told");
    for (timing, options) in [
        ("timed", &["--follow-in-flight", "--bundle", "50us", "--speedup", "3"][..]),
        ("afap", &["--in-flight-max", "4"]),
        ("load", &[]),
    ] {
        let run = format!("run-{timing}");
        let replay = ["replay", "told", "--target", SIM, "--timing", timing, "-o", &run, "-q"];
        let output = fixture.run(&[&replay[..], options].concat());
        assert_eq!(code(&output), 0, "{}", said(&output));
        let summary = fs::read(fixture.path(&run).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        assert_eq!((&summary["recorded"], &summary["outcomes"]["ok"]), (&300.into(), &300.into()));
        assert_eq!(summary["engine"]["timing"], timing);
        // Without a schedule the run takes only as long as the device: 150 ms at the recorded pace.
        let took = summary["achieved_duration_ns"].as_i64().unwrap();
        assert_eq!(took < 40_000_000, timing != "timed", "{timing} took {took} ns");
    }
}

#[test]
fn what_follows_the_recording_asks_for_a_recording_that_tells() {
    let fixture = Fixture::regular(10, 100);
    for option in [&["--timing", "load"][..], &["--follow-in-flight"]] {
        let output =
            fixture.run(&[&["replay", "load", "--target", SIM, "-o", "run"], option].concat());
        assert_eq!(code(&output), 2, "{}", said(&output));
        assert!(said(&output).contains("does not tell how long"), "{}", said(&output));
    }
}

#[test]
fn options_that_cannot_be_meant_together_are_refused_with_what_to_do() {
    let fixture = Fixture::regular(10, 100);
    for options in [
        &["--timing", "afap", "--speedup", "2"][..],
        &["--timing", "afap", "--follow-in-flight"],
        &["--timing", "afap", "--bundle", "10us"],
        &["--dedup-unit", "8k"],
        &["--read-only", "--verify", "final"],
        &["--read-only", "--sync-writes"],
        &["--read-only", "--writes-as-reads"],
        &["--backend", "threads", "--sqpoll"],
        &["--threads", "8"],
        &["--target", SIM],
        &["--target", "target"],
        &["--map", "nosuch=sim:size=16M"],
        &["--map", "0=1,room=32M"],
        &["--map", "0=1", "--map", "*=1"],
        &["--on-error", "0"],
        &["--fill-random", "101"],
    ] {
        let replay = ["replay", "load", "--target", SIM, "-o", "run", "-q"];
        let output = fixture.run(&[&replay[..], options].concat());
        assert_eq!(code(&output), 2, "{options:?}: {}", said(&output));
        assert!(!fixture.path("run").exists(), "{options:?}");
    }
}

#[test]
fn a_volume_is_divided_among_targets_and_each_gets_its_part() {
    let fixture = Fixture::regular(300, 100);
    fs::File::create(fixture.path("other")).unwrap().set_len(8 << 20).unwrap();
    // The load uses sectors 0 to 16,000, which are 8 MB.
    let output = fixture.run(&[
        "replay",
        "load",
        "--map",
        "0=target,length=4M",
        "--map",
        "0=other,from=4M,to=1M",
        "--allow-cached",
        "-o",
        "run",
        "-q",
    ]);
    assert!(fixture.path("run/summary.json").exists(), "{}", said(&output));
    let summary = fs::read(fixture.path("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
    assert_eq!((&summary["engine"]["targets"], &summary["recorded"]), (&2.into(), &300.into()));
    let stamped = |name: &str| -> Vec<usize> {
        let data = fs::read(fixture.path(name)).unwrap();
        let sectors = data.chunks(512).enumerate();
        sectors.filter(|(_, data)| data.starts_with(b"IOECHO\0\x02")).map(|(n, _)| n).collect()
    };
    let (target, other) = (stamped("target"), stamped("other"));
    assert_eq!(target.len() + other.len(), 100 * 8, "a hundred writes of eight sectors");
    assert!(target.iter().all(|sector| *sector < 8192));
    assert!(other.first().is_some_and(|sector| *sector >= 2048), "{:?}", other.first());
    assert_eq!(fixture.facts("run")["targets"].as_array().unwrap().len(), 2);
}

#[test]
fn misaligned_requests_are_left_out_or_widened_and_counted_either_way() {
    let fixture = Fixture::regular(0, 1);
    let header = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
    let load = format!(
        "{header}0.000000000 ; 3 ; 2 ; W ; 0.0 ; 0.0\n0.000100000 ; 8 ; 8 ; W ; 0.0 ; 0.0\n"
    );
    fs::write(fixture.path("load"), load).unwrap();
    let engine = |run: &str, options: &[&str]| -> serde_json::Value {
        let replay = ["replay", "load", "--target", "sim:size=16M,block=4k", "-o", run, "-q"];
        fixture.run(&[&replay[..], options].concat());
        let summary = fs::read(fixture.path(run).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        summary["engine"].clone()
    };
    let refused = engine("refused", &[]);
    assert_eq!((&refused["issued"], &refused["rounded"]), (&1.into(), &0.into()));
    let rounded = engine("rounded", &["--align", "round"]);
    assert_eq!((&rounded["issued"], &rounded["rounded"]), (&2.into(), &1.into()));
}

#[test]
fn a_device_that_vanished_is_told_in_words_and_not_called_faithful() {
    let fixture = Fixture::regular(300, 100);
    let words = ["replay", "load", "-t", "sim:size=16M,vanish=10ms", "-o", "run"];
    let output = fixture.run(&words);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(14), "{text}");
    assert!(text.contains(" errno 19 (the device is gone or offline)"), "{text}");
    assert!(text.contains("[INVALID]") && !text.contains("faithful"), "{text}");
    let page = fs::read_to_string(fixture.path("run/report.html")).unwrap();
    assert!(page.contains("errno 19 (the device is gone or offline)"));
    assert!(!page.contains("ioecho explain faithful"));
}

#[test]
fn a_campaign_calls_no_run_faithful_whose_figures_may_not_be_used() {
    let fixture = Fixture::regular(300, 100);
    let text = "name = 'c'\n[devices]\nd = 'sim:size=16M,vanish=10ms'\n[replay]\n\
                device = 'd'\ntrace = 'load'\n";
    fs::write(fixture.path("c.toml"), text).unwrap();
    let output = fixture.run(&["campaign", "run", "c.toml"]);
    let all = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&all);
    assert_eq!(output.status.code(), Some(14), "{said}");
    assert!(said.contains("1 of 1 cells have a result: 1 invalid."), "{said}");
    assert!(said.contains("#1: invalid\n") && !said.contains("faithful"), "{said}");
}

#[test]
fn a_run_ends_after_as_many_errors_as_it_bears() {
    let fixture = Fixture::regular(300, 100);
    let failing = "sim:size=16M,errors=0.5";
    let issued = |run: &str, on_error: &str| {
        let output = fixture.run(&[
            "replay",
            "load",
            "--target",
            failing,
            "--on-error",
            on_error,
            "-o",
            run,
            "-q",
        ]);
        let summary = fs::read(fixture.path(run).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_slice(&summary).unwrap();
        (code(&output), summary["failed"].as_u64().unwrap())
    };
    assert_eq!(issued("continue", "continue").0, 14);
    let (code, failed) = issued("stop", "stop");
    assert!(code == 13 && (1..=3).contains(&failed), "{code}: {failed}");
    let (code, failed) = issued("ten", "10");
    assert!(code == 13 && (10..=13).contains(&failed), "{code}: {failed}");
}

#[test]
fn a_conversion_goes_through_pipes_packed_or_not() {
    let fixture = Fixture::regular(2000, 100);
    let piped = |arguments: &[&str], input: Vec<u8>| -> Output {
        let mut command = fixture.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let feeder =
            std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &input).is_ok());
        let output = child.wait_with_output().unwrap();
        assert!(feeder.join().unwrap());
        output
    };
    let mut text = fs::read(fixture.path("load")).unwrap();
    for (name, format) in [("x.load.zst", "blkreplay"), ("flatfile.bin.xz", "vdbench")] {
        assert_eq!(code(&fixture.run(&["convert", "load", name])), 0);
        let packed = fs::read(fixture.path(name)).unwrap();
        let output = piped(&["convert", "-", "-", "--to", format], packed);
        assert_eq!(code(&output), 0);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("2000 requests written to the standard output"), "{told}");
        text = output.stdout;
    }
    // The load comes out of Vdbench's format unchanged.
    fs::write(fixture.path("back"), &text).unwrap();
    assert_eq!(code(&fixture.run(&["convert", "back", "back.load"])), 0);
    let lines = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(fixture.path(name)).unwrap();
        text.lines()
            .filter(|line| line.ends_with("0.0 ; 0.0"))
            .map(|l| l.replace(' ', ""))
            .collect()
    };
    assert_eq!(lines("back.load"), lines("load"));
}

#[test]
fn the_standard_output_needs_a_format_and_may_be_closed() {
    let fixture = Fixture::regular(200_000, 10);
    let output = fixture.run(&["convert", "load", "-"]);
    assert_eq!(code(&output), 2);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("standard output") && told.contains("--to"), "{told}");

    let mut command = fixture.command(&["convert", "load", "-", "--to", "blkreplay"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // A reader of the first lines has all that it wants.
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(!told.contains("Broken pipe"), "{told}");
    assert_eq!(code(&output), 0);
    assert!(!fixture.path("-").exists());
}
