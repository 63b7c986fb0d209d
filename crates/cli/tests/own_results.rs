//! Results that are read as a load: whose they are, and what a run leaves that was killed.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_trace::Header;
use ioecho_trace::formats::{ReadOptions, open};
use program::{ioecho, said};
use tempfile::TempDir;

/// Does what a command line asks for, which must end with one of these codes; answers what was
/// said.
fn does(home: &Path, arguments: &[&str], codes: &[i32]) -> String {
    let output = ioecho(home, arguments);
    let text = said(&output);
    let code = output.status.code().unwrap();
    assert!(codes.contains(&code), "{arguments:?}: {code}: {text}");
    text
}

/// What a replay may end with that did all of its calls: a busy machine may be late.
const DONE: [i32; 3] = [0, 10, 12];

/// The same of a load that says that it is cut short.
const CUT: [i32; 1] = [13];

/// A recorded program that makes so many files in a directory of its own, one each 10 ms.
fn program(directory: &str, files: u32) -> String {
    let at = |us: u32| format!("100 17000000{:02}.{:06}", us / 1_000_000, us % 1_000_000);
    let mut text = format!("{} mkdir(\"/{directory}\", 0777) = 0 <0.000050>\n", at(0));
    for file in 0..files {
        let flags = "O_WRONLY|O_CREAT|O_EXCL, 0644";
        let calls = [
            format!("openat(AT_FDCWD, \"/{directory}/{file}\", {flags}) = 3"),
            "write(3, \"x\"..., 5000) = 5000".to_owned(),
            "close(3) = 0".to_owned(),
        ];
        for (call, n) in calls.iter().zip(0..) {
            let at = at(1000 + file * 10_000 + n * 100);
            writeln!(text, "{at} {call} <0.000050>").unwrap();
        }
    }
    text
}

/// Records that program as `NAME.parquet`.
fn recorded(home: &Path, name: &str, files: u32) {
    fs::write(home.join("text.strace"), program(name, files)).unwrap();
    does(home, &["convert", "text.strace", &format!("{name}.parquet")], &[0]);
}

/// Replays a load below `TO.tree`, with the results in `TO`; answers the files below `WHERE` there.
fn replayed(home: &Path, load: &str, to: &str, more: &[&str], within: &str) -> usize {
    replayed_to(home, load, to, more, within, &DONE)
}

/// The same, which ends with one of these codes.
fn replayed_to(
    home: &Path,
    load: &str,
    to: &str,
    more: &[&str],
    within: &str,
    codes: &[i32],
) -> usize {
    let (output, target) = (format!("--output={to}"), format!("--target=tree:{to}.tree"));
    let line = ["replay", load, "-q", "--timing=afap", &output, &target];
    does(home, &[&line[..], more].concat(), codes);
    fs::read_dir(home.join(format!("{to}.tree")).join(within)).unwrap().count()
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn requests_of_another_run_and_damaged_ones_are_not_taken_for_those_of_a_run() {
    let home = TempDir::new().unwrap();
    let path = |name: &str| home.path().join(name);
    for (name, files) in [("one", 5), ("two", 4)] {
        recorded(home.path(), name, files);
        assert_eq!(
            replayed(home.path(), &format!("{name}.parquet"), name, &[], name),
            files as usize
        );
    }
    // Of a run that is as long, only its number tells.
    assert_eq!(replayed(home.path(), "one.parquet", "twin", &[], "one"), 5);
    for (run, requests) in [("mixed", "two"), ("mistaken", "twin"), ("killed", "two")] {
        copied(&path("one"), &path(run));
        fs::copy(path(requests).join("requests.parquet"), path(run).join("requests.parquet"))
            .unwrap();
    }
    // A run that was killed has no summary, and says that it goes on.
    fs::remove_file(path("killed/summary.json")).unwrap();
    copied(&path("one"), &path("damaged"));
    let file = path("damaged/requests.parquet");
    let mut bytes = fs::read(&file).unwrap();
    let header = b"ioecho.header";
    let place = bytes.windows(header.len()).rposition(|bytes| bytes == header).unwrap();
    // Another key: readers skip it, and so they read a trace without a header.
    bytes[place..place + header.len()].copy_from_slice(b"another.value");
    let made_by = b"ioecho ";
    let place = bytes.windows(made_by.len()).rposition(|bytes| bytes == made_by).unwrap();
    bytes[place..place + made_by.len()].fill(b'x');
    fs::write(&file, bytes).unwrap();
    for (run, why) in [
        ("mixed", "is of the run"),
        ("mistaken", "is of the run"),
        ("killed", "is of the run"),
        ("damaged", "no header"),
    ] {
        let target = format!("--target=tree:{run}.tree");
        let replay = ["replay", run, "-q", "--output=never", &target];
        let requests = format!("{run}/requests.parquet");
        for line in [
            &replay[..],
            &["info", run],
            &["analyze", run],
            &["plot", run, "--output=pictures"],
            &["convert", run, "never.parquet"],
        ] {
            let text = does(home.path(), line, &[3]);
            assert!(text.contains(why) && text.contains(&requests), "{line:?}: {text}");
            assert!(text.contains("put the files of one run together"), "{line:?}: {text}");
        }
        assert!(!path(&format!("{run}.tree")).exists() && !path("never").exists());
        assert!(!path("never.parquet").exists());
        // By itself the file is a trace like any other.
        does(home.path(), &["info", &requests], &[0]);
    }
    let merged = ["merge", "one", "two", "--output=all"];
    does(home.path(), &merged, &[0, 10, 12]);
    does(home.path(), &["info", "all"], &[0]);
}

#[test]
fn a_replay_of_recorded_calls_that_was_killed_is_a_load_as_far_as_it_came() {
    let home = TempDir::new().unwrap();
    recorded(home.path(), "one", 50);
    let line = ["replay", "one.parquet", "-q", "--speedup=0.1", "--target=tree:k.tree"];
    let mut replay = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(line)
        .arg("--output=k")
        .current_dir(home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = home.path().join("k/requests.journal");
    let began = Instant::now();
    while !fs::metadata(&journal).is_ok_and(|journal| journal.len() > 2000) {
        assert!(began.elapsed() < Duration::from_mins(1), "nothing is replayed");
        sleep(Duration::from_millis(20));
    }
    replay.kill().unwrap();
    replay.wait().unwrap();
    let made = replayed_to(home.path(), "k", "again", &[], "one", &CUT);
    assert!((1..50).contains(&made), "{made}");
    does(home.path(), &["convert", "k", "k.parquet"], &[0, 4]);
    let converted = replayed_to(home.path(), "k.parquet", "converted", &[], "one", &CUT);
    assert_eq!(converted, made);
    does(home.path(), &["report", "k"], &[0]);
    assert!(!home.path().join("k/header.json").exists());
    assert_eq!(replayed_to(home.path(), "k", "settled", &[], "one", &CUT), made);
}

/// The header of a trace at its beginning.
fn header(path: &Path) -> Header {
    open(path, &ReadOptions::default()).unwrap().header().clone()
}

#[test]
fn the_beginning_of_a_recording_is_replayed_and_what_comes_later_is_not() {
    let home = TempDir::new().unwrap();
    recorded(home.path(), "one", 50);
    let part = ["--duration=100ms"];
    assert_eq!(replayed(home.path(), "one.parquet", "part", &part, "one"), 10);
    let names = header(&home.path().join("one.parquet")).files;
    assert_eq!(header(&home.path().join("part/requests.parquet")).files, names);
    // The results of a part are a load, and so is a part of results.
    assert_eq!(replayed(home.path(), "part", "again", &[], "one"), 10);
    assert_eq!(replayed(home.path(), "part", "less", &["--duration=50ms"], "one"), 5);
    does(home.path(), &["convert", "one.parquet", "begun.parquet", "--duration=50ms"], &[0]);
    assert_eq!(replayed(home.path(), "begun.parquet", "begun", &[], "one"), 5);
    for (of, more) in [("one.parquet", "--window=50ms,50ms"), ("one.parquet", "--start=50ms")] {
        does(home.path(), &["replay", of, "-q", "--target=tree:late", more], &[2, 3]);
    }
    assert!(!home.path().join("late").exists());
}
