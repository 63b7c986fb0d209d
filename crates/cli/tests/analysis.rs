//! Compares the figures of `ioecho analyze` with slow and plain computations of the same figures.
//!
//! Figures are worth nothing if nobody else arrives at them. So two scripts beside this file
//! compute them from their definitions, in another language and without any code of this program.
//! They use real loads (in `$IOECHO_DATA`, skipped if it is not set) and a simulated run. Tests
//! that need Python are skipped with a message if there is none.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ioecho_fixture::{recording, skipped};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How much two computations of the same number may differ by rounding.
const ROUNDING: f64 = 1e-6;

fn ioecho(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ioecho")).args(arguments).output().unwrap()
}

fn done(arguments: &[&str]) -> String {
    let output = ioecho(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ioecho {}: {error}", arguments.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

fn analysis(arguments: &[&str]) -> Value {
    let text = done(&[&["analyze", "--json"], arguments].concat());
    serde_json::from_str(&text).unwrap()
}

/// The output of a script beside this file, or `None` without Python.
fn slow(script: &str, file: &Path) -> Option<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/analysis").join(script);
    let Ok(output) = Command::new("python3").arg(path).arg(file).output() else {
        skipped("there is no python3");
        return None;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {error}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The places where `found` differs from `expected`. Other values in `found` are ignored.
fn differences(expected: &Value, found: &Value, at: &str, all: &mut Vec<String>) {
    let differs = || format!("{at}: {found}, and by the slow computation {expected}");
    match (expected, found) {
        (Value::Object(keys), _) if keys.contains_key("about") => {
            let about = keys["about"].as_f64().unwrap();
            let share = keys.get("within").and_then(Value::as_f64).unwrap_or(0.0);
            let off_by = keys.get("off_by").and_then(Value::as_f64).unwrap_or(1.0);
            let is_near = |value: f64| (value - about).abs() <= (about.abs() * share).max(off_by);
            if !found.as_f64().is_some_and(is_near) {
                all.push(differs());
            }
        }
        (Value::Object(keys), Value::Object(found)) => {
            for (key, value) in keys {
                let at = format!("{at}.{key}");
                // A curve may have more points than the expected ones.
                if let Some(name) = key.strip_suffix("_among") {
                    lacking(value, &found[name], &at, all);
                    continue;
                }
                let found = found.get(key).unwrap_or(&Value::Null);
                differences(value, found, &at, all);
            }
        }
        (Value::Array(values), Value::Array(found)) if values.len() == found.len() => {
            for (number, (value, found)) in values.iter().zip(found).enumerate() {
                differences(value, found, &format!("{at}[{number}]"), all);
            }
        }
        (Value::Array(values), Value::Array(found)) => {
            all.push(format!("{at}: {} of them, and {}", found.len(), values.len()));
        }
        (Value::Number(_), Value::Number(_)) => {
            let (a, b) = (expected.as_f64().unwrap(), found.as_f64().unwrap());
            if (a - b).abs() > ROUNDING * a.abs().max(b.abs()).max(1.0) {
                all.push(differs());
            }
        }
        _ if expected == found => {}
        _ => all.push(differs()),
    }
}

/// The expected points that are missing. Behind its last point a curve is level.
fn lacking(expected: &Value, found: &Value, at: &str, all: &mut Vec<String>) {
    let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
    let agree = |a: &Value, b: &Value| {
        let mut differs = Vec::new();
        differences(a, b, "", &mut differs);
        differs.is_empty()
    };
    for point in expected.as_array().unwrap() {
        let is_behind =
            |last: &&Value| point[0].as_f64() > last[0].as_f64() && agree(&point[1], &last[1]);
        let is_there = found.iter().any(|found| agree(point, found));
        if !is_there && !found.last().is_some_and(|last| is_behind(&last)) {
            all.push(format!("{at}: {point} is not among what was found"));
        }
    }
}

fn assert_agrees(expected: &Value, found: &Value) {
    let mut all = Vec::new();
    differences(expected, found, "", &mut all);
    all.truncate(20);
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// The rank correlations of all requests by name. The script computes only these.
fn correlations(found: &Value) -> Value {
    let all = found["flight"]["correlations"].as_array().unwrap();
    let of_all = all.iter().filter(|one| one["group"] == "all");
    of_all.map(|one| (one["name"].as_str().unwrap().to_owned(), one["spearman"].clone())).collect()
}

/// A load of some thousand requests in bursts, with reads and writes that overlap.
fn load(directory: &TempDir) -> PathBuf {
    let mut text =
        String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
    let (mut now, mut state) = (0_u64, 7_u64);
    for _ in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = state >> 33;
        now += if random % 50 == 0 { random % 90_000_000 } else { random % 300_000 };
        let (sector, length) = (random % 4000 * 8, (random >> 7) % 16 * 8 + 8);
        let op = if random % 3 == 0 { 'W' } else { 'R' };
        let (secs, ns) = (now / 1_000_000_000, now % 1_000_000_000);
        writeln!(text, "{secs}.{ns:09} ; {sector} ; {length} ; {op} ; 0.0 ; 0.0").unwrap();
    }
    let path = directory.path().join("made.load");
    fs::write(&path, text).unwrap();
    path
}

/// A simulated run of that load.
fn run(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("run");
    let (load, to) = (load(directory), path.to_str().unwrap().to_owned());
    let target = "sim:size=1G,service=150us,units=4";
    // The verdict does not matter here, only the measured values.
    ioecho(&["replay", load.to_str().unwrap(), "--target", target, "-o", &to]);
    assert!(path.join("requests.parquet").exists());
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_load_in_time_of_real_loads_is_that_of_a_slow_count() {
    for name in ["linux-mysql.load.gz", "windows-mssql.load.gz"] {
        let Some(load) = recording(name) else { return };
        let Some(expected) = slow("time.py", &load) else { return };
        assert_agrees(&expected, &analysis(&[text(&load)]));
    }
}

#[test]
fn the_load_in_space_of_real_loads_is_that_of_a_slow_count() {
    for name in ["linux-mysql.load.gz", "windows-mssql.load.gz"] {
        let Some(load) = recording(name) else { return };
        let Some(expected) = slow("space.py", &load) else { return };
        assert_agrees(&expected, &analysis(&[text(&load)]));
    }
}

#[test]
fn a_run_is_in_time_what_a_slow_count_says() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(&directory);
    let csv = directory.path().join("run.csv");
    done(&["convert", text(&run), text(&csv)]);
    let Some(mut expected) = slow("time.py", &csv) else { return };
    let found = analysis(&[text(&run)]);
    let ranks = expected.as_object_mut().unwrap().remove("correlations").unwrap();
    assert_agrees(&expected, &found);
    assert_agrees(&ranks, &correlations(&found));
}

#[test]
fn a_made_load_is_in_space_what_a_slow_count_says() {
    let directory = tempfile::tempdir().unwrap();
    let load = load(&directory);
    let Some(expected) = slow("space.py", &load) else { return };
    assert_agrees(&expected, &analysis(&[text(&load)]));
}

#[test]
fn threads_do_not_change_what_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(&directory);
    let native = directory.path().join("many.parquet");
    // More than one row group, so that the load can be cut.
    let load = load(&directory);
    done(&["convert", text(&load), text(&native), "--repeat", "100"]);
    for file in [&run, &load, &native] {
        let one = analysis(&[text(file), "--threads", "1"]);
        for threads in ["2", "3", "7"] {
            assert_agrees(&one, &analysis(&[text(file), "--threads", threads]));
        }
    }
}

#[test]
fn parts_by_time_merge_to_the_whole_in_whatever_order_they_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let run = run(&directory);
    let whole = analysis(&[text(&run)]);
    let end_ns = whole["end_ns"].as_i64().unwrap();
    let mut arguments = vec!["merge".to_owned()];
    for part in [2, 0, 1] {
        let path = directory.path().join(format!("part{part}.parquet"));
        let third = end_ns / 3 / 1000;
        let (start, duration) = (format!("{}us", part * third), format!("{third}us"));
        let duration = if part == 2 { "10h".to_owned() } else { duration };
        let window = ["--start", &start, "--duration", &duration];
        done(&[&["analyze", text(&run), "--partial", "-o", text(&path)][..], &window].concat());
        arguments.push(text(&path).to_owned());
    }
    let merged = directory.path().join("merged.parquet");
    arguments.extend(["-o".to_owned(), text(&merged).to_owned()]);
    done(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert_agrees(&without_trace(whole), &analysis(&[text(&merged)]));
    let shown = done(&["analyze", text(&merged)]);
    assert!(shown.lines().count() <= 60 && shown.contains("4000 requests"), "{shown}");
}

/// The output without two parts: the provenance, which a merge changes, and the verdict, which is
/// on a run and not on parts of it.
fn without_trace(mut found: Value) -> Value {
    found.as_object_mut().unwrap().remove("trace");
    found.as_object_mut().unwrap().remove("verdict");
    found
}

#[test]
fn parts_that_cannot_be_merged_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let load = load(&directory);
    let path = |name: &str| directory.path().join(name);
    done(&["analyze", text(&load), "--partial", "-o", text(&path("good"))]);
    done(&["analyze", text(&load), "--windows", "2s", "--partial", "-o", text(&path("windows"))]);
    let good = fs::read(path("good")).unwrap();
    fs::write(path("cut"), &good[..good.len() / 2]).unwrap();
    let mut damaged = good.clone();
    damaged[good.len() / 4] ^= 0x55;
    fs::write(path("damaged"), damaged).unwrap();
    let mut future = good.clone();
    let key = b"ioecho.partial";
    let at = good.windows(key.len()).rposition(|window| window == key);
    // The version stands behind the first key. The key of the header begins with the same letters.
    let first = good.windows(key.len()).position(|window| window == key).or(at).unwrap();
    let digit = first + good[first..].iter().position(u8::is_ascii_digit).unwrap();
    future[digit] = b'9';
    fs::write(path("future"), future).unwrap();
    for (name, reason) in [
        ("cut", "cut short"),
        ("damaged", "damaged"),
        ("future", "of version '9'"),
        ("nothing", "not there"),
        ("windows", "different --windows"),
        ("made.load", "no part of an analysis"),
    ] {
        let inputs = [text(&path("good")).to_owned(), text(&path(name)).to_owned()];
        let output = ioecho(&["merge", &inputs[0], &inputs[1], "-o", text(&path("out"))]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(reason), "{name}: {error}");
        assert!(!path("out").exists(), "{name}");
    }
}

#[test]
fn parts_of_rows_are_small_and_merge_without_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (load, path) = (load(&directory), |name: &str| directory.path().join(name));
    let part = |name: &str, more: &[&str]| {
        let (path, name) = (path(name), text(&load).to_owned());
        done(&[&["analyze", &name, "-o", text(&path)][..], more].concat());
        path
    };
    let whole = part("whole", &["--partial"]);
    let early = part("early", &["--partial=rows", "--duration", "2s"]);
    let late = part("late", &["--partial=rows", "--start", "2s"]);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&early) + size(&late) < size(&whole) / 3);
    let other = part("other", &["--partial=rows", "--trace", "other"]);

    let merged = |inputs: &[&Path], to: &str| {
        let inputs = inputs.iter().map(|input| text(input));
        let to = path(to);
        let line: Vec<&str> =
            ["merge"].into_iter().chain(inputs).chain(["-o", text(&to)]).collect();
        let output = ioecho(&line);
        if output.status.success() {
            Ok(fs::read(&to).unwrap())
        } else {
            Err(String::from_utf8(output.stderr).unwrap())
        }
    };
    let rows = merged(&[&early, &late], "a").unwrap();
    assert_eq!(merged(&[&late, &early], "b").unwrap(), rows);
    // The same rows, of a part that has more.
    done(&["analyze", text(&whole), "--partial=rows", "-o", text(&path("of-whole"))]);
    assert!(size(&path("of-whole")) < size(&whole) / 3);
    // Rows of several traces stand beside each other, in one file or in a tree of files.
    let all = merged(&[&path("a"), &other], "all").unwrap();
    assert!(all.len() > rows.len());
    for (inputs, reason) in [
        (&[&early, &early][..], "count twice"),
        (&[&path("a"), &late], "count twice"),
        (&[&path("all"), &other], "count twice"),
        (&[&early, &whole], "has rows alone"),
    ] {
        let inputs: Vec<&Path> = inputs.iter().map(|path| path.as_path()).collect();
        let error = merged(&inputs, "refused").unwrap_err();
        assert!(error.contains(reason), "{error}");
        assert!(!path("refused").exists());
    }
    let error = String::from_utf8(ioecho(&["analyze", text(&early)]).stderr).unwrap();
    assert!(error.contains("has rows alone"), "{error}");
}

#[test]
fn parts_of_two_traces_are_not_merged_into_one() {
    let directory = tempfile::tempdir().unwrap();
    let (load, path) = (load(&directory), |name: &str| directory.path().join(name));
    for (name, window) in [("a", ["--duration", "2s"]), ("b", ["--start", "2s"])] {
        let part = path(name);
        let line = ["analyze", text(&load), "--partial", "--trace", name, "-o", text(&part)];
        done(&[&line[..], &window].concat());
    }
    let output = ioecho(&["merge", text(&path("a")), text(&path("b")), "-o", text(&path("out"))]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("of the trace a,") && error.contains("--trace NAME"), "{error}");
    assert!(!path("out").exists());
}

#[test]
fn a_sample_of_pages_is_a_table_and_no_part() {
    let directory = tempfile::tempdir().unwrap();
    let (load, path) = (load(&directory), |name: &str| directory.path().join(name));
    let (part, pages) = (path("part"), path("pages"));
    let line = ["analyze", text(&load), "--partial=rows", "-o", text(&part)];
    let sample = |share| ["--page-sample", share, "--page-sample-output", text(&pages)];
    done(&[&line[..], &sample("0.5")].concat());
    assert_eq!(&fs::read(&pages).unwrap()[..4], b"PAR1");
    let error = String::from_utf8(ioecho(&["analyze", text(&pages)]).stderr).unwrap();
    assert!(error.contains("a sample of pages"), "{error}");
    for share in ["0", "1.5", "half"] {
        let output = ioecho(&[&line[..], &sample(share)].concat());
        assert_eq!(output.status.code(), Some(2), "{share}");
    }
    let again = path("again");
    let chosen = ["analyze", text(&part), "--partial", "--trace", "b", "-o", text(&again)];
    assert!(!ioecho(&chosen).status.success());
}

#[test]
fn parts_of_a_text_tell_what_the_reader_of_the_whole_tells() {
    let directory = tempfile::tempdir().unwrap();
    let (load, path) = (load(&directory), |name: &str| directory.path().join(name));
    for (name, window) in [("a", ["--duration", "2s"]), ("b", ["--start", "2s"])] {
        let part = path(name);
        let line = ["analyze", text(&load), "--partial", "-o", text(&part)];
        done(&[&line[..], &window].concat());
    }
    done(&["merge", text(&path("b")), text(&path("a")), "-o", text(&path("whole"))]);
    let (alone, merged) = (analysis(&[text(&load)]), analysis(&[text(&path("whole"))]));
    assert_eq!(merged["trace"]["imported"], alone["trace"]["imported"]);
    assert_eq!(merged["trace"]["guesses"], alone["trace"]["guesses"]);
}

#[test]
fn a_load_of_one_request_is_analysed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("one.load");
    let head = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
    fs::write(&path, format!("{head}0.500000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n")).unwrap();
    let found = analysis(&[text(&path)]);
    assert_agrees(&json!({ "requests": 1, "version": 1 }), &found);
    assert!(done(&["analyze", text(&path)]).lines().count() <= 60);
}
