//! The sentences of a check and of a verdict, and those that they must not contain.

use std::thread::sleep;
use std::time::Duration;

use ioecho_fixture::or_skip;

use crate::fixture::check;
use crate::watching::{LOAD, said, watched_device};

#[test]
fn of_a_run_without_a_schedule_check_and_verdict_judge_no_instant_and_no_order() {
    let (fixture, device) = or_skip!(watched_device());
    let target = device.path();
    let words = ["replay", LOAD, "-t", target, "-o", "run", "-q", "--destroy", target];
    let told = said(&fixture.ioecho(&[&words[..], &["--witness", "--timing", "afap"]].concat()));
    let (code, printed) = fixture.checked(&["check", "run", "--json"]);
    assert_eq!(code, Some(0), "{told}\n{printed}");
    let figures = &printed["figures"];
    for key in ["issue", "engine", "order", "late", "stalls", "duration_error", "shift_ns"] {
        assert!(figures[key].is_null(), "{key}: {}", figures[key]);
    }
    assert!(figures["asked"]["span_ns"].is_null() && !figures["seen"]["span_ns"].is_null());
    assert!(!figures["submission_lag"].is_null(), "{figures}");
    let text = said(&fixture.ioecho(&["check", "run"]));
    for word in ["reordered", "issue-time", "inter-arrival", "later than"] {
        let is_in_a_head = word == "reordered";
        assert_eq!(text.contains(word), is_in_a_head, "{text}");
    }
    assert!(text.contains("no instant and no order is judged"), "{text}");
    let verdict = check(&fixture.path("run"), "witness");
    let measured = verdict["measured"].as_str().unwrap();
    assert!(!measured.contains("reordered") && !measured.contains("held back"), "{measured}");
    assert_eq!(verdict["grade"], "pass", "{measured}");
    let page = fixture.text("run/report.html");
    assert!(page.contains("At the device: in flight") && !page.contains("delay of issue"));
}

#[test]
fn what_was_replayed_before_and_after_a_recording_was_not_witnessed() {
    let (fixture, device) = or_skip!(watched_device());
    let load = "gen:random?size=4k&rate=500&duration=5s&area=32M";
    let words = ["replay", load, "-t", device.path(), "-o", "run", "-q", "--read-only"];
    let mut running = fixture.command(&words).spawn().unwrap();
    sleep(Duration::from_millis(1500));
    let recorded =
        fixture.ioecho(&["record", device.path(), "-o", "seen.parquet", "--for", "1500ms"]);
    running.wait().unwrap();
    assert!(fixture.path("seen.parquet").exists(), "{}", said(&recorded));
    let times = ["issue-p50", "issue-p99", "shift", "duration", "reordered-apart"]
        .map(|name| format!("{name}=none"));
    let mut words = vec!["check", "run", "seen.parquet", "--json"];
    for limit in &times {
        words.extend(["--limit", limit]);
    }
    let (code, printed) = fixture.checked(&words);
    let figures = &printed["figures"];
    let count = |key: &str| figures[key].as_u64().unwrap();
    assert_eq!((count("missing"), code), (0, Some(4)), "{printed}");
    assert!(count("not_witnessed") > 500 && count("found") > 300, "{printed}");
    assert_eq!(count("found") + count("not_witnessed"), 2500, "{printed}");
}
