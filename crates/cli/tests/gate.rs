//! Runs that arm themselves, and begin at an instant that somebody else names.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const LOAD: &str = "gen:random?read=100&size=4k&rate=500&duration=100ms&area=1M";

/// A replay whose gate is its descriptors 3 and 4, and the two ends of them.
struct AtGate {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl AtGate {
    fn start(home: &Path, target: &[&str]) -> Self {
        Self::of(home, LOAD, target)
    }

    fn of(home: &Path, load: &str, target: &[&str]) -> Self {
        let redirected = "exec \"$@\" 3<&0 4>&1 0</dev/null 1>said 2>&1";
        let mut child = Command::new("sh")
            .args(["-c", redirected, "sh", env!("CARGO_BIN_EXE_ioecho"), "replay", load, "-q"])
            .args(["-o", "run", "--gate", "3,4"])
            .args(target)
            .current_dir(home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from }
    }

    /// The next line that the run says.
    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let is_there = self.from.read_line(&mut line).unwrap() > 0;
        is_there.then(|| serde_json::from_str(&line).unwrap())
    }

    /// The run's own `CLOCK_MONOTONIC`, once it is armed.
    fn armed(&mut self) -> i64 {
        let line = self.line().expect("it is armed");
        assert_eq!(line["armed"]["version"], 1, "{line}");
        line["armed"]["now_monotonic_ns"].as_i64().unwrap()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
    }

    fn code(&mut self) -> i32 {
        self.to = None;
        self.child.wait().unwrap().code().unwrap()
    }
}

/// A file to replay on.
fn file(home: &Path) -> [&'static str; 4] {
    fs::write(home.join("target.img"), vec![7; 1 << 20]).unwrap();
    ["-t", "target.img", "--read-only", "--allow-cached"]
}

#[test]
fn a_run_begins_at_the_instant_that_it_is_told() {
    let home = TempDir::new().unwrap();
    let mut run = AtGate::start(home.path(), &file(home.path()));
    let begin = run.armed() + 5_000_000_000;
    assert!(home.path().join("run/run.toml").exists());
    run.say(&format!("{{\"start_at_monotonic_ns\":{begin}}}"));
    run.code();
    let said = fs::read_to_string(home.path().join("said")).unwrap();
    assert_eq!(run.line(), None, "{said}");
    let facts = fs::read_to_string(home.path().join("run/run.toml")).expect(&said);
    let facts: toml::Table = facts.parse().unwrap();
    assert_eq!(facts["zero_monotonic_ns"].as_integer(), Some(begin), "{said}");
    assert_eq!(facts["state"].as_str(), Some("complete"), "{said}");
}

#[test]
fn a_simulation_waits_at_the_gate_too() {
    let home = TempDir::new().unwrap();
    let mut run = AtGate::start(home.path(), &["-t", "sim:size=1M"]);
    let begin = run.armed() + 2_000_000_000;
    run.say(&format!("{{\"start_at_monotonic_ns\":{begin}}}"));
    run.code();
    assert_eq!(run.line(), None);
    assert!(home.path().join("run/summary.json").exists());
}

#[test]
fn a_run_that_hears_no_instant_to_come_issues_nothing_and_leaves_nothing() {
    for target in [&["-t", "sim:size=1M"][..], &["-t", "target.img", "--read-only"]] {
        for (said, code) in
            [(Some("{\"start_at_monotonic_ns\":1}"), 13), (Some("now"), 2), (None, 13)]
        {
            let home = TempDir::new().unwrap();
            file(home.path());
            let mut run = AtGate::start(home.path(), &[target, &["--allow-cached"]].concat());
            run.armed();
            if let Some(line) = said {
                run.say(line);
            }
            assert_eq!(run.code(), code, "{said:?}");
            let reason = run.line().expect("why not");
            let reason = reason["refused"]["reason"].as_str().unwrap().to_owned();
            assert!(reason.contains("nothing was replayed"), "{reason}");
            assert!(!home.path().join("run").exists(), "{said:?}");
        }
    }
}

#[test]
fn a_gate_that_is_not_open_is_refused_before_anything_is_touched() {
    let home = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(["replay", LOAD, "-t", "sim:size=1M", "-o", "run", "--gate", "77"])
        .current_dir(home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("descriptor 77 cannot be read"), "{said}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

/// How often the threads of a process have gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of_task = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.filter_map(of_task).sum()
}

#[test]
fn a_run_that_is_armed_leaves_the_processors_to_others() {
    let home = TempDir::new().unwrap();
    // More than is read ahead, so that whoever reads it has to wait as well.
    let load = "gen:random?read=100&size=4k&rate=100000&duration=10s&area=1M";
    let mut run = AtGate::of(home.path(), load, &file(home.path()));
    run.armed();
    let mut each_second = Vec::new();
    while each_second.len() < 20 && each_second.last().is_none_or(|sleeps| *sleeps >= 300) {
        let before = sleeps(run.child.id());
        thread::sleep(Duration::from_secs(1));
        each_second.push(sleeps(run.child.id()) - before);
    }
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    // Threads that look every millisecond sleep a thousand times.
    assert!(each_second.last().is_some_and(|sleeps| *sleeps < 300), "{each_second:?}");
}
