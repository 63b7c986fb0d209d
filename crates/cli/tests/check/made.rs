//! Recordings that are made for a test. Every figure is known, or counted slowly.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use ioecho_fixture::skipped;

use crate::ioecho;

/// How much two computations of the same number may differ by rounding.
const ROUNDING: f64 = 1e-6;

/// Exit codes of `docs/exit-codes.md`.
const DAMAGED: i32 = 4;
const NOT_COMPARABLE: i32 = 20;
const NOT_FAITHFUL: i32 = 22;

/// A request: time, operation, place, length and service time.
type Row = (i64, char, u64, u64, i64);

/// Numbers that look random but are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn load(count: u64) -> Vec<Row> {
    let (mut dice, mut now) = (Dice(7), 0);
    let mut rows = Vec::new();
    for _ in 0..count {
        now += dice.below(400_000) as i64;
        let op = if dice.below(3) == 0 { 'W' } else { 'R' };
        let length = (dice.below(4) + 1) * 4096;
        let place = if dice.below(5) == 0 { dice.below(3) } else { dice.below(100_000) };
        rows.push((now, op, place * 16384, length, 50_000 + dice.below(200_000) as i64));
    }
    rows
}

/// The same requests as a poor replay would issue them: with jitter, drift, a slow device, requests
/// left out, foreign requests, split and merged requests.
fn replayed(load: &[Row]) -> Vec<Row> {
    let mut dice = Dice(11);
    let mut rows = Vec::new();
    for (number, &(at, op, offset, length, latency)) in load.iter().enumerate() {
        let late = if dice.below(20) == 0 { dice.below(3_000_000) } else { dice.below(9_000) };
        let at = 777_000_000 + at + at / 5_000 + late as i64;
        let latency = latency * 2 + dice.below(1000) as i64;
        match number % 50 {
            17 => {}
            23 if length > 4096 => {
                rows.push((at, op, offset, 4096, latency));
                rows.push((at + 900, op, offset + 4096, length - 4096, latency));
            }
            31 => {
                rows.push((at, op, offset, length, latency));
                rows.push((at + 5, op, offset, length, latency));
            }
            _ => rows.push((at, op, offset, length, latency)),
        }
    }
    // Two neighbouring requests that reach the device as one.
    rows.sort_unstable();
    rows
}

fn written(directory: &TempDir, name: &str, rows: &[Row]) -> PathBuf {
    let mut text = String::from("issue_ns,op,offset_bytes,length_bytes,latency_ns\n");
    for (at, op, offset, length, latency) in rows {
        let op = if *op == 'W' { "write" } else { "read" };
        writeln!(text, "{at},{op},{offset},{length},{latency}").unwrap();
    }
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The exit code and the JSON output.
fn checked(arguments: &[&str]) -> (i32, Value) {
    let output = ioecho(&[&["check", "--json"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    (output.status.code().unwrap(), printed)
}

fn reasons(printed: &Value) -> Vec<&str> {
    let reasons = printed["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason.as_str().unwrap()).collect()
}

/// The places where `found` differs from the expected value by more than rounding.
fn differences(expected: &Value, found: &Value, at: &str, all: &mut Vec<String>) {
    if let Value::Object(keys) = expected {
        for (key, value) in keys {
            differences(value, &found[key], &format!("{at}.{key}"), all);
        }
        return;
    }
    let near = expected.as_f64().zip(found.as_f64()).is_some_and(|(a, b)| {
        // Instants are whole nanoseconds in the program and half ones in the script.
        (a - b).abs() <= (ROUNDING * a.abs()).max(if a.abs() > 100.0 { 1.01 } else { 0.0 })
            || (a - b).abs() < 1e-9
    });
    if !near {
        all.push(format!("{at}: {found}, and by the slow computation {expected}"));
    }
}

fn slow(original: &Path, replay: &Path) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check/slow.py");
    let Ok(output) = Command::new("python3").arg(script).args([original, replay]).output() else {
        skipped("there is no python3");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn every_figure_of_a_poor_replay_is_that_of_a_slow_count() {
    let directory = tempfile::tempdir().unwrap();
    let load = load(1500);
    let original = written(&directory, "original.csv", &load);
    let replay = written(&directory, "replay.csv", &replayed(&load));
    for (asked, seen) in [(&original, &replay), (&replay, &original)] {
        let Some(expected) = slow(asked, seen) else { return };
        let (_, printed) = checked(&[text(asked), text(seen)]);
        let mut all = Vec::new();
        differences(&expected, &printed["figures"], "", &mut all);
        assert!(all.is_empty(), "{}", all.join("\n"));
        assert!(expected["split"].as_u64().unwrap() + expected["merged"].as_u64().unwrap() > 10);
        assert!(expected["order"]["reordered"].as_u64().unwrap() > 10);
    }
}

#[test]
fn a_recording_is_faithful_to_itself_also_later_and_faster() {
    let directory = tempfile::tempdir().unwrap();
    let load = load(500);
    let original = written(&directory, "original.csv", &load);
    let (code, printed) = checked(&[text(&original), text(&original)]);
    assert_eq!((code, printed["faithful"].as_bool()), (0, Some(true)));
    assert_eq!(printed["figures"]["issue"]["max_ns"], 0);
    let twice: Vec<Row> =
        load.iter().map(|row| (row.0 / 2 + 5, row.1, row.2, row.3, row.4)).collect();
    let twice = written(&directory, "twice.csv", &twice);
    let (code, printed) = checked(&[text(&original), text(&twice), "--speed", "2"]);
    assert_eq!(code, 0, "{printed:#}");
    assert!(printed["figures"]["issue"]["max_ns"].as_i64().unwrap() <= 1);
    assert_eq!(checked(&[text(&original), text(&twice)]).0, NOT_FAITHFUL);
}

#[test]
fn dropped_requests_and_swapped_ones_are_named_as_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let load: Vec<Row> = (0..400).map(|n| (n * 100_000, 'R', n as u64 * 4096, 4096, 50)).collect();
    let original = written(&directory, "original.csv", &load);
    let dropped: Vec<Row> = load.iter().copied().filter(|row| row.0 % 1_000_000 != 0).collect();
    let dropped = written(&directory, "dropped.csv", &dropped);
    let (code, printed) = checked(&[text(&original), text(&dropped)]);
    assert_eq!((code, reasons(&printed)), (NOT_FAITHFUL, vec!["missing-requests"]));
    assert_eq!(printed["figures"]["missing"], 40);
    let lenient = ["--limit", "missing=10%"];
    assert_eq!(checked(&[&[text(&original), text(&dropped)], &lenient[..]].concat()).0, 0);
    let mut swapped = load.clone();
    let places: Vec<u64> = load.iter().map(|row| row.2).collect();
    for (number, row) in swapped.iter_mut().enumerate() {
        row.2 = places[number ^ 1];
    }
    let swapped = written(&directory, "swapped.csv", &swapped);
    let places = [text(&original), text(&swapped), "--limit", "issue-p50=none"];
    // Due within a millisecond, they have hardly an order, unless one is asked for.
    assert_eq!(checked(&places).0, 0);
    let (code, printed) = checked(&[&places[..], &["--limit", "reordered=0.1%"]].concat());
    assert_eq!((code, reasons(&printed)), (NOT_FAITHFUL, vec!["reordered"]));
    let order = &printed["figures"]["order"];
    assert_eq!((&order["reordered"], &order["extent_max"]), (&200.into(), &1.into()));
}

#[test]
fn what_has_nothing_in_common_is_not_compared() {
    let directory = tempfile::tempdir().unwrap();
    let one = written(&directory, "one.csv", &[(0, 'R', 0, 4096, 5), (9, 'R', 8192, 4096, 5)]);
    let other = written(&directory, "other.csv", &[(0, 'W', 0, 512, 5)]);
    let output = ioecho(&["check", text(&one), text(&other)]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(NOT_COMPARABLE), "{error}");
    assert!(error.contains("help"), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_run_that_nobody_watched_is_not_compared_and_neither_is_a_simulation() {
    let directory = tempfile::tempdir().unwrap();
    let original = written(&directory, "original.csv", &load(50));
    let run = directory.path().join("run");
    ioecho(&["replay", text(&original), "--target", "sim:size=4G", "-o", text(&run)]);
    for arguments in [vec!["check", text(&run)], vec!["check", text(&run), text(&original)]] {
        let output = ioecho(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(NOT_COMPARABLE), "{error}");
    }
}

#[test]
fn a_witness_of_a_run_is_held_to_its_seal_whatever_asked_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let original = written(&directory, "original.csv", &load(50));
    let run = directory.path().join("run");
    let witness = run.join("witness.parquet");
    ioecho(&["replay", text(&original), "--target", "sim:size=4G", "-o", text(&run)]);
    // A command writes no file into a run's directory under the name of one of the run's files.
    let made = directory.path().join("made.parquet");
    let plant = |load: &Path| {
        ioecho(&["convert", text(load), text(&made)]);
        fs::copy(&made, &witness).unwrap();
    };
    plant(&original);
    let facts = fs::read_to_string(run.join("run.toml")).unwrap();
    let says = |words: &str| fs::write(run.join("run.toml"), format!("{facts}{words}")).unwrap();
    let both = |code: i32| {
        for seen in [&run, &witness] {
            let (found, printed) = checked(&[text(&original), text(seen)]);
            assert_eq!(found, code, "{printed}");
        }
        checked(&[text(&original), text(&run)]).1
    };
    both(0);
    let targets = "\n[witness]\ninterface = 'tracefs'\nwhy = ''\nwithout = []\nnotes = []\n\
                   lost = 0\ncpu_ns = 0\ntargets = [{ target = 0, device = 'sim' }]\n";
    says(&format!("{targets}bytes = 1\nsha256 = ''\n"));
    assert!(both(DAMAGED)["changed"].as_str().unwrap().contains("was changed"));
    let whole = fs::read(&witness).unwrap();
    let told = || {
        let output = ioecho(&["check", text(&original), text(&run)]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(DAMAGED), "{error}");
        error
    };
    // A cut recording, an empty one, and one of another load.
    for changed in [&whole[..whole.len() / 2], &[]] {
        fs::write(&witness, changed).unwrap();
        assert!(told().contains("was changed"), "{}", told());
    }
    let other = written(&directory, "other.csv", &[(0, 'W', 1 << 40, 512, 1)]);
    plant(&other);
    assert!(told().contains("was changed"), "{}", told());
    fs::write(&witness, &whole).unwrap();
    says(&format!("{targets}incomplete = 'the disk was full'\n"));
    assert_eq!(both(DAMAGED)["damage"][0], "the witness: the disk was full");
    says(targets);
    fs::remove_file(&witness).unwrap();
    assert!(told().contains("no longer there"), "{}", told());
}

#[test]
fn a_runs_own_results_are_not_what_a_device_saw() {
    let directory = tempfile::tempdir().unwrap();
    let original = written(&directory, "original.csv", &load(50));
    let run = directory.path().join("run");
    ioecho(&["replay", text(&original), "--target", "sim:size=4G", "-o", text(&run)]);
    let results = run.join("requests.parquet");
    let output = ioecho(&["check", text(&original), text(&results)]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(NOT_COMPARABLE), "{error}");
    assert!(error.contains("run's directory"), "{error}");
    let nothing = ioecho(&["check", text(&directory.path().join("nope"))]);
    let error = String::from_utf8_lossy(&nothing.stderr);
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let one = written(&directory, "one.csv", &load(5));
    let one = text(&one);
    for wrong in [
        vec![one],
        vec![one, one, "--limit", "isue-p99=1ms"],
        vec![one, one, "--limit", "issue-p99=1parsec"],
        vec![one, one, "--limit", "missing"],
        vec![one, one, "--speed", "0"],
        vec![one, one, "--speed", "1e-9"],
        vec![one, one, "--speed", "1e300"],
        vec![one, one, "--speed", "nan"],
        vec![one, one, "--skip", "-1"],
    ] {
        let output = ioecho(&[&["check"], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let output = ioecho(&["check", one, "nowhere.csv"]);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn the_text_names_outcome_reason_and_figures() {
    let directory = tempfile::tempdir().unwrap();
    let load = load(1500);
    let original = written(&directory, "original.csv", &load);
    let replay = written(&directory, "replay.csv", &replayed(&load));
    let output = ioecho(&["check", text(&original), text(&replay)]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(NOT_FAITHFUL));
    for part in ["NOT FAITHFUL: missing-requests", "in pieces", "issue-time error", "RFC 4737"] {
        let part = if part == "in pieces" { "pieces, " } else { part };
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }
}

#[test]
fn urls_and_loads_of_a_library_are_checked_as_files_are() {
    let directory = tempfile::tempdir().unwrap();
    let original = written(&directory, "original.csv", &load(50));
    let library = directory.path().join("loads");
    let added = ioecho(&["library", "add", text(&library), text(&original)]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let name = format!("{}#original", text(&library));
    for sides in [[text(&original), &name], [&name, text(&original)], [&name, &name]] {
        let (code, printed) = checked(&sides);
        assert_eq!((code, &printed["figures"]["found"]), (0, &50.into()), "{printed}");
        assert_eq!(printed["asked_for"], sides[0]);
        assert_eq!(printed["seen_in"], sides[1]);
    }
    // A library is no load, and there is no server at that port.
    for (wrong, said) in [(text(&library), "#"), ("http://127.0.0.1:9/load.parquet", "127.0.0.1")] {
        for sides in [[text(&original), wrong], [wrong, text(&original)]] {
            let output = ioecho(&["check", sides[0], sides[1]]);
            let error = String::from_utf8_lossy(&output.stderr);
            assert_ne!(output.status.code(), Some(0), "{error}");
            assert!(error.contains(said), "{error}");
        }
    }
}
