//! `ioecho calibrate`, from the command line to its output.
//!
//! The figures depend on the host and differ each time. So the tests only check that they are there
//! and fit together.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn calibrate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(["calibrate", "--span", "2ms"]).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_conclusion_comes_first_and_every_rate_has_a_line() {
    let output = calibrate(&[]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("this host "), "{text}");
    for word in ["clock ", "sleep ", "pacing ", "stalls ", "system call ", "requests/s", "1,000 "] {
        assert!(text.contains(word), "'{word}' is not in:\n{text}");
    }
}

#[test]
fn the_json_hangs_together() {
    let output = calibrate(&["--json", "--limit", "1s"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["limit_ns"], 1_000_000_000);
    let rates = json["rates"].as_array().unwrap();
    assert_eq!(rates[0]["asked_per_s"], 1000);
    for rate in rates {
        let late = |key: &str| rate["lateness"][key].as_i64().unwrap();
        assert!(late("p50_ns") <= late("p99_ns") && late("p99_ns") <= late("max_ns"), "{rate}");
    }
    let kept = rates.iter().rev().find(|rate| rate["kept"] == true);
    assert_eq!(
        kept.map(|rate| &rate["asked_per_s"]),
        json["highest_kept_per_s"].as_u64().map(|_| &json["highest_kept_per_s"])
    );
    let near = json["sleep"]["near_ns"].as_i64().unwrap();
    assert!((20_000..=500_000).contains(&near), "{near}");
    assert!(json["clock"]["cost_ns"].as_i64().unwrap() > 0);
    assert!(json["spin"]["watched_ns"].as_i64().unwrap() >= 500_000_000);
    assert!(json["system_call"]["cost_ns"].as_i64().unwrap() > 0);
    assert!(json["quick"]["highest_per_s"].as_u64().unwrap() > 1000);
    assert!(json["host"]["kernel_release"].is_string());
    assert!(json["doubts"].is_array() && json["warnings"].is_array());
}

#[test]
fn processors_are_taken_as_asked_or_refused_with_those_that_are_there() {
    let output = calibrate(&["--json", "--cpus", "0"]);
    if output.status.success() {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["setup"][0], "the issuing thread ran on processors 0 only");
    } else {
        assert!(said(&output).contains("leaves only"), "{}", said(&output));
    }
    let output = calibrate(&["--cpus", "1023"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("processor 1023 is not there"), "{}", said(&output));
    let output = calibrate(&["--cpus", "3-1"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
