//! A conversion that is interrupted, cannot end, or would overwrite its own input.
//!
//! Only a test of the whole program shows whether files beside the output and processes are left
//! behind.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A load that takes minutes to generate.
const LONG: &str = "gen:random?rate=1000k&duration=10h";

fn command(directory: &Path, arguments: &[&str]) -> Command {
    // The process that runs the tests may ignore a signal (nohup does that), and a child inherits
    // that.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_ioecho")]).args(arguments);
    command.current_dir(directory).stdin(Stdio::null());
    command
}

fn run(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = command(directory, arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8_lossy(&stderr).into_owned())
}

fn names(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Starts the conversion, sends the signal when there are files, and returns the output.
fn interrupted(directory: &TempDir, arguments: &[&str], name: &str) -> (i32, String) {
    let path = directory.path();
    let child = command(path, arguments).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it begins", || !names(path).is_empty());
    signal(&child, name);
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_conversion_that_is_interrupted_leaves_nothing() {
    for (name, arguments) in [
        ("-INT", vec!["convert", LONG, "out.parquet"]),
        ("-TERM", vec!["convert", LONG, "out.csv.gz"]),
        ("-HUP", vec!["convert", LONG, "out-{}.csv", "--split", "range=1G"]),
        // Schedulers give notice by these signals.
        ("-USR1", vec!["convert", LONG, "out.parquet"]),
        ("-XCPU", vec!["convert", LONG, "out.csv"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let (code, said) = interrupted(&directory, &arguments, name);
        assert_eq!(code, 13, "{said}");
        assert!(said.contains("stopped before the end"), "{said}");
        assert!(names(directory.path()).is_empty(), "{name}: {:?}", names(directory.path()));
    }
}

#[test]
fn a_conversion_that_waits_for_a_silent_pipe_is_interrupted_too() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = command(directory.path(), &["convert", "/dev/stdin", "out.csv"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // This is long enough for the handler to be installed.
    sleep(Duration::from_millis(500));
    signal(&child, "-TERM");
    // Waiting for a child closes its standard input, unless the test holds it.
    let _held = child.stdin.take();
    assert_eq!(child.wait().unwrap().code(), Some(13));
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_replay_whose_trace_comes_no_further_keeps_what_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut child = command(path, &["replay", "-", "--target", "sim:size=1G", "-q", "-o", "run"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Far more than the look-ahead of a replay.
    let mut load =
        String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
    for n in 0..300_000 {
        writeln!(load, "{}.{:06}000 ; 0 ; 8 ; R ; 0.0 ; 0.0", n / 1000, n % 1000 * 1000).unwrap();
    }
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(load.as_bytes()).unwrap();
    let journal = path.join("run/requests.journal");
    wait_until("it replays", || fs::metadata(&journal).is_ok_and(|file| file.len() > 100_000));
    signal(&child, "-INT");
    wait_until("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(13));
    let summary = fs::read_to_string(path.join("run/summary.json")).unwrap();
    assert!(summary.contains("stopped by a signal"), "{summary}");
    drop(pipe);
}

#[test]
fn no_process_of_a_shell_command_outlives_the_conversion() {
    let directory = tempfile::tempdir().unwrap();
    let shell = "echo $$ > pid; cat > /dev/null; sleep 88 & sleep 88";
    let (code, said) =
        interrupted(&directory, &["convert", LONG, "out.csv", "--cmd", shell], "-TERM");
    assert_eq!(code, 13, "{said}");
    let group = fs::read_to_string(directory.path().join("pid")).unwrap();
    let group = format!("-{}", group.trim());
    wait_until("the group ends", || {
        let looked = Command::new("kill").args(["-0", "--", &group]).output().unwrap();
        !looked.status.success()
    });
}

#[test]
fn what_never_ends_is_refused_before_it_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let endless = "gen:random?endless=yes";
    let some = "gen:random?count=10";
    let behind = |flags: &[&'static str]| {
        run(directory.path(), &[&["convert", endless, "out.csv"], flags].concat())
    };
    for flags in [
        vec!["--merge", some],
        vec!["--reverse", "--window", "first,1s"],
        vec!["--busiest", "1s"],
        vec!["--repeat", "3", "--window", "first,1s"],
        vec!["--rate", "100"],
        vec!["--window", "5s"],
    ] {
        let (code, said) = behind(&flags);
        assert!(code == 2 && said.contains("has no end"), "{flags:?}: {code}: {said}");
    }
    let (code, said) = run(directory.path(), &["convert", some, "out.csv", "--merge", endless]);
    assert!(code == 2 && said.contains("has no end"), "{code}: {said}");
    for flags in
        [vec!["--window", "first,1s", "--reverse"], vec!["--duration", "1s", "--rate", "9"]]
    {
        let (code, said) = behind(&flags);
        assert_eq!(code, 0, "{flags:?}: {said}");
    }
}

#[test]
fn a_trace_that_is_merged_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    assert_eq!(run(path, &["convert", "gen:random?count=10", "a.csv"]).0, 0);
    let before = fs::read(path.join("a.csv")).unwrap();
    let (code, said) =
        run(path, &["convert", "gen:random?count=10", "./a.csv", "--merge", "a.csv"]);
    assert!(code == 2 && said.contains("a.csv is both input and output"), "{code}: {said}");
    assert_eq!(fs::read(path.join("a.csv")).unwrap(), before);
}

#[test]
fn a_transform_says_that_it_needs_room_when_it_does() {
    let directory = tempfile::tempdir().unwrap();
    for (flags, needs) in [
        (["--remap", "wrap,1G"], false),
        (["--remap", "clip,1G"], false),
        (["--remap", "scale,1G"], true),
        (["--repeat", "1"], false),
        (["--repeat", "2"], true),
    ] {
        let arguments = [&["convert", "gen:random?count=10", "a.csv"][..], &flags].concat();
        let (code, said) = run(directory.path(), &arguments);
        assert_eq!((code, said.contains("temporary file")), (0, needs), "{flags:?}: {said}");
    }
}

#[test]
fn what_cannot_be_said_or_makes_nothing_is_an_error_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(directory.path(), &["info", "gen:random?count=10"])
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(7) && said.contains("cannot write"), "{said}");
    let (code, said) =
        run(directory.path(), &["info", "gen:random?rate=1&dist=poisson&duration=1ns"]);
    assert!(code == 2 && said.contains("it makes no request"), "{code}: {said}");
    let deep = format!("{}op = read", "(".repeat(5000));
    let (code, said) = run(directory.path(), &["info", "gen:random", "--filter", &deep]);
    assert!(code == 2 && said.len() < 3000 && said.contains("too deeply"), "{code}: {said}");
}

/// Starts a replay of this length on a file and sends it a signal after a moment. Returns its
/// directory, its exit code and its output.
fn replay_interrupted(env: &str, length: &str, name: &str) -> (TempDir, i32, toml::Table) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::File::create(path.join("target")).unwrap().set_len(16 << 20).unwrap();
    let load = format!("gen:random?rate=200&duration={length}&area=8M");
    let words = ["replay", &load, "-t", "target", "--allow-cached", "--read-only", "-qo", "run"];
    let mut command = Command::new("env");
    command.args([env, env!("CARGO_BIN_EXE_ioecho")]).args(words).current_dir(path);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let journal = path.join("run/requests.journal");
    wait_until("it begins", || fs::metadata(&journal).is_ok_and(|file| file.len() > 200));
    let facts = || fs::read_to_string(path.join("run/run.toml")).unwrap();
    // Whoever watches a run is told when it began, not only whoever reads its results.
    let zero =
        |facts: &str| facts.parse::<toml::Table>().unwrap().get("zero_monotonic_ns").cloned();
    wait_until("it tells when it began", || zero(&facts()).is_some());
    let begun = zero(&facts());
    signal(&child, name);
    let code = child.wait().unwrap().code().unwrap_or(-1);
    let facts = facts();
    assert!(path.join("run/requests.parquet").exists(), "{name}: {facts}");
    assert_eq!(zero(&facts), begun, "{name}");
    (directory, code, facts.parse().unwrap())
}

#[test]
fn whatever_gives_notice_of_an_end_ends_a_replay_with_its_results() {
    for name in ["-TERM", "-USR1", "-USR2", "-XCPU", "-ALRM", "-VTALRM", "-PROF", "-IO", "-PWR"] {
        let (_, code, facts) = replay_interrupted("--default-signal", "1h", name);
        assert_eq!((code, facts["state"].as_str()), (13, Some("incomplete")), "{name}");
        assert_eq!(facts["reason"].as_str(), Some("stopped by a signal"), "{name}");
    }
}

#[test]
fn what_was_ignored_at_the_start_ends_nothing() {
    for (env, name) in [("--ignore-signal=HUP", "-HUP"), ("--ignore-signal=USR1", "-USR1")] {
        let (_, _, facts) = replay_interrupted(env, "1s", name);
        assert_eq!(facts["state"].as_str(), Some("complete"), "{name}");
    }
}

#[test]
fn a_process_that_ended_before_its_first_result_leaves_a_run_that_can_be_read() {
    let (directory, ..) = replay_interrupted("--default-signal", "1h", "-TERM");
    let path = |name: &str| directory.path().join("run").join(name);
    // The files of a run whose memory ends just before the first request.
    for made in ["requests.parquet", "summary.json", "report.html"] {
        fs::remove_file(path(made)).unwrap();
    }
    fs::File::options().write(true).open(path("requests.journal")).unwrap().set_len(24).unwrap();
    let facts = fs::read_to_string(path("run.toml")).unwrap();
    let facts = facts.replace("state = \"incomplete\"", "state = \"running\"");
    fs::write(path("run.toml"), facts).unwrap();
    for (words, expected) in [(["info", "run"], 4), (["verify", "run"], 0), (["report", "run"], 0)]
    {
        let (code, said) = run(directory.path(), &words);
        assert_eq!(code, expected, "{words:?}: {said}");
    }
    let facts = fs::read_to_string(path("run.toml")).unwrap();
    assert!(facts.contains("state = \"incomplete\""), "{facts}");
}
