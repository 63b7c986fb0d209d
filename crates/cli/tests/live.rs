//! The outputs of a run while it goes on agree with its results at the end.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;

use serde_json::Value;

use fixture::{Fixture, said};

impl Fixture {
    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn summary(&self) -> Value {
        serde_json::from_str(&self.text("run/summary.json")).unwrap()
    }

    /// The lines of a CSV file, each by its columns' names.
    fn csv(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        rows(&self.text(name))
    }
}

fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), names.len(), "{line}");
            names.iter().zip(cells).map(|(name, cell)| ((*name).into(), cell.into())).collect()
        })
        .collect()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn sum(rows: &[BTreeMap<String, String>], column: &str) -> u64 {
    rows.iter().map(|row| row[column].parse::<u64>().unwrap()).sum()
}

/// Compares the lines of both formats with the summary.
fn lines_add_up(fixture: &Fixture) {
    let (rows, summary) = (fixture.csv("lines.csv"), fixture.summary());
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    for (column, figure) in [
        ("requests", &summary["recorded"]),
        ("completed", &summary["outcomes"]["ok"]),
        ("failed", &summary["failed"]),
        ("demanded", &summary["engine"]["planned"]),
        ("bytes_read", &summary["bytes_read"]),
        ("bytes_written", &summary["bytes_written"]),
        ("pushed_back", &summary["engine"]["pushed_back"]),
        ("reads", &summary["service_time"]["read"]["count"]),
        ("writes", &summary["service_time"]["write"]["count"]),
    ] {
        assert_eq!(sum(&rows, column), number(figure), "{column}");
    }
    let late = summary["late"].as_object().unwrap().values().map(|late| number(&late["requests"]));
    assert_eq!(sum(&rows, "late"), late.sum::<u64>());
    for (column, figure) in [
        ("service_max_ns", &summary["service_time"]["all"]["max_ns"]),
        ("response_max_ns", &summary["response_time"]["all"]["max_ns"]),
        ("lateness_max_ns", &summary["lateness"]["all"]["max_ns"]),
    ] {
        let most = rows.iter().filter_map(|row| row[column].parse::<u64>().ok()).max();
        assert_eq!(most, figure.as_u64(), "{column}");
    }
    let json: Vec<Value> = fixture
        .text("lines.json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(json.len(), rows.len());
    for (line, row) in json.iter().zip(&rows) {
        assert_eq!(line["requests"].to_string(), row["requests"]);
        let p99 = &line["service_time"]["all"]["p99_ns"];
        assert_eq!(p99.as_u64(), row["service_p99_ns"].parse().ok());
    }
    // There are no gaps, and only the last interval is shorter.
    assert!(rows.is_sorted_by(|a, b| a["end_s"] == b["start_s"]));
    let partial: Vec<&str> = rows.iter().map(|row| row["partial"].as_str()).collect();
    assert!(partial[..partial.len() - 1].iter().all(|flag| *flag == "0"), "{partial:?}");
    assert_eq!(partial.last(), Some(&"1"));
}

const FILES: [&str; 8] = [
    "--interval-csv",
    "lines.csv",
    "--interval-json",
    "lines.json",
    "--interval-flatfile",
    "flat",
    "--metrics",
    "run.prom",
];

#[test]
fn the_intervals_of_a_simulated_run_add_up_to_its_summary() {
    let fixture = Fixture::regular(20_000, 500);
    let target = "sim:size=16M,units=1,service=600us";
    let mut words = vec!["replay", "load", "--target", target, "-o", "run", "-q"];
    words.extend(FILES);
    let output = fixture.run(&words);
    assert!([0, 10].contains(&code(&output)), "{}", said(&output));
    lines_add_up(&fixture);
    // The load takes ten seconds on a device that takes at least a tenth longer.
    assert!(fixture.csv("lines.csv").len() >= 11);
}

#[test]
fn the_intervals_of_several_simulated_targets_add_up_however_far_apart_their_clocks_are() {
    let fixture = Fixture::regular(6_000, 500);
    let (fast, slow) = ("sim:size=16M,service=10us", "sim:size=16M,units=1,service=2ms");
    let mut words = vec!["replay", "load", "-t", fast, "-t", slow, "-o", "run", "-q"];
    words.extend(["--map", "*=1,from=0,length=8M", "--map", "*=2,from=8M"]);
    words.extend(["--interval", "100ms"]);
    words.extend(FILES);
    let output = fixture.run(&words);
    assert!([0, 10, 14].contains(&code(&output)), "{}", said(&output));
    lines_add_up(&fixture);
}

#[test]
fn the_intervals_of_a_run_on_a_file_add_up_to_its_summary() {
    let fixture = Fixture::regular(3_000, 500);
    let mut words = vec!["replay", "load", "--target", "target", "-o", "run", "-q"];
    words.extend(["--allow-cached", "--interval", "200ms", "--destroy", "target"]);
    words.extend(FILES);
    let output = fixture.run(&words);
    assert!(fixture.path("run/summary.json").exists(), "{}", said(&output));
    lines_add_up(&fixture);
    let rows = fixture.csv("lines.csv");
    let epoch = |row: &BTreeMap<String, String>| row["epoch_s"].parse::<f64>().unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(rows.iter().all(|row| (now - 600.0..=now).contains(&epoch(row))));
    assert!(rows.is_sorted_by(|a, b| epoch(a) <= epoch(b)));
}

#[test]
fn without_a_schedule_nothing_was_demanded() {
    let fixture = Fixture::regular(2_000, 500);
    let target = "sim:size=16M,units=1,service=1ms";
    let output = fixture.run(&[
        "replay",
        "load",
        "-t",
        target,
        "-o",
        "run",
        "-q",
        "--timing",
        "afap",
        "--interval-csv",
        "lines.csv",
        "--interval-flatfile",
        "flat",
    ]);
    assert!([0, 14].contains(&code(&output)), "{}", said(&output));
    assert!(fixture.csv("lines.csv").iter().all(|row| row["demanded"].is_empty()));
    let flat = fixture.text("flat");
    assert!(flat.lines().nth(2).unwrap().contains(" 9999988 "), "{flat}");
}

#[test]
fn the_flatfile_has_a_line_per_interval_and_their_average() {
    let fixture = Fixture::regular(5_000, 1000);
    let output = fixture.run(&[
        "replay",
        "load",
        "-t",
        "sim:size=16M,service=100us",
        "-o",
        "run",
        "-q",
        "--interval-flatfile",
        "flat",
    ]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let text = fixture.text("flat");
    let lines: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split(' ').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == 34), "{text}");
    let column = |name: &str| lines[0].iter().position(|&known| known == name).unwrap();
    let names: Vec<&str> = lines[1..].iter().map(|line| line[column("Interval")]).collect();
    assert_eq!(names, ["1", "2", "3", "4", "5", "avg_2-5"]);
    let average = lines.last().unwrap();
    let rate: f64 = average[column("rate")].parse().unwrap();
    assert!((rate - 1000.0).abs() < 5.0, "{rate}");
    let service_ms: f64 = average[column("resp")].parse().unwrap();
    assert!((0.09..0.13).contains(&service_ms), "{service_ms}");
}

#[test]
fn the_metrics_of_an_ended_run_say_so_and_agree_with_its_summary() {
    let fixture = Fixture::regular(3_000, 500);
    let output = fixture.run(&[
        "replay",
        "load",
        "-t",
        "sim:size=16M",
        "-o",
        "run",
        "-q",
        "--metrics",
        "run.prom",
    ]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let text = fixture.text("run.prom");
    assert!(text.ends_with("# EOF\n"));
    let value = |series: &str| {
        let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| {
            panic!("no {series} in\n{text}");
        });
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let summary = fixture.summary();
    assert_eq!(value("ioecho_running "), 0);
    assert_eq!(value("ioecho_demanded_requests_total "), 3_000);
    for kind in ["read", "write"] {
        let count = summary["service_time"][kind]["count"].as_u64().unwrap();
        assert_eq!(value(&format!("ioecho_requests_total{{kind=\"{kind}\"}}")), count);
        let last = format!("ioecho_service_time_seconds_bucket{{kind=\"{kind}\",le=\"+Inf\"}}");
        assert_eq!(value(&last), count);
    }
    assert!(!fixture.path("run.prom.partial").exists());
}

#[test]
fn lines_on_the_standard_output_are_alone_there() {
    let fixture = Fixture::regular(2_000, 1000);
    let words = ["replay", "load", "-t", "sim:size=16M", "-o", "run", "-q", "--interval-csv", "-"];
    let output = fixture.run(&words);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let rows = rows(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(sum(&rows, "requests"), 2_000);
    assert!(String::from_utf8_lossy(&output.stderr).contains("finding"));
}

#[test]
fn a_reader_who_has_seen_enough_does_not_end_the_run() {
    let fixture = Fixture::regular(20_000, 1000);
    let mut child = fixture
        .command(&[
            "replay",
            "load",
            "-t",
            "sim:size=16M",
            "-o",
            "run",
            "-q",
            "--interval-csv",
            "-",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fixture.summary()["recorded"], 20_000);
}

#[test]
fn nothing_that_matters_is_overwritten_with_lines() {
    let fixture = Fixture::regular(10, 1000);
    let load = fixture.text("load");
    let start = ["replay", "load", "-t", "target", "-o", "run", "-q", "--destroy", "target"];
    for (flags, why) in [
        (vec!["--interval-csv", "load"], "is the trace"),
        (vec!["--metrics", "./target"], "is a target"),
        (vec!["--metrics", "-"], "must be a file"),
        (vec!["--interval-csv", "-", "--interval-json", "-"], "is named twice"),
        (vec!["--interval-csv", "nowhere/lines"], "cannot write nowhere/lines"),
    ] {
        let output = fixture.run(&[start.to_vec(), flags.clone()].concat());
        let wanted = if why.starts_with("cannot") { 7 } else { 2 };
        assert_eq!(code(&output), wanted, "{flags:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{flags:?}: {}", said(&output));
        assert!(!fixture.path("run").exists(), "{flags:?}");
    }
    assert_eq!(fixture.text("load"), load);
}
