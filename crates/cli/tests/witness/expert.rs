//! The figures that the engine records about itself.

use std::fs;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::watching::said;

const LOAD: &str = "gen:random?read=70&size=4k&rate=20000&count=20000&area=64M";

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_simulated_run_tells_the_same_of_itself_every_time_and_all_of_it() {
    let fixture = Fixture::new();
    for run in ["one", "two"] {
        let words =
            ["replay", LOAD, "-t", "sim:size=64M,units=4,seed=7", "-o", run, "-q", "--expert"];
        let output = fixture.ioecho(&words);
        assert!(fixture.path(run).join("inside.jsonl").exists(), "{}", said(&output));
    }
    let text = fixture.text("one/inside.jsonl");
    assert_eq!(text, fixture.text("two/inside.jsonl"));
    let lines = lines(&text);
    let sum = |of: &dyn Fn(&Value) -> u64| lines.iter().map(of).sum::<u64>();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(sum(&|line| number(&line["delay"]["count"])), 20_000);
    assert_eq!(sum(&|line| number(&line["unseen"]["count"]) + number(&line["woken"])), 20_000);
    for line in &lines {
        assert_eq!(line["version"], 1);
        let spent: i64 =
            line["spent"].as_object().unwrap().values().map(|ns| ns.as_i64().unwrap()).sum();
        let span = line["end_ns"].as_i64().unwrap() - line["start_ns"].as_i64().unwrap();
        assert_eq!(spent, span);
        // The host's own rings and disks are not part of simulated time.
        assert!(line["input"].is_null() && line["results"].is_null());
        assert!(line["write_max_ns"].is_null());
    }
    let latest = fixture.summary("one")["lateness"]["all"]["max_ns"].as_u64().unwrap();
    let longest = lines.iter().map(|line| number(&line["delay"]["max_ns"])).max().unwrap();
    assert!(longest.abs_diff(latest) < 1_000, "{longest} ns told, {latest} ns measured");
}

#[test]
fn what_the_engine_tells_is_drawn_and_nothing_is_where_it_was_not_asked() {
    let fixture = Fixture::new();
    fs::File::create(fixture.path("target")).unwrap().set_len(64 << 20).unwrap();
    let load = "gen:random?read=70&size=4k&rate=2000&count=1000&area=64M";
    let replay = |run: &str, more: &[&str]| {
        let mut words = vec!["replay", load, "-t", "target", "-o", run, "-q", "--allow-cached"];
        words.extend(more);
        said(&fixture.ioecho(&words))
    };
    let told = replay("asked", &["--expert=50ms"]);
    replay("silent", &[]);
    assert!(!fixture.path("silent").join("inside.jsonl").exists());
    assert!(fixture.text("asked/report.html").contains("Engine: look-ahead"), "{told}");
    assert!(!fixture.text("silent/report.html").contains("Engine: look-ahead"));
    let plot = |run: &str| {
        said(&fixture.ioecho(&["plot", run, "-o", "pictures", "--only", "g53", "--to", "svg"]))
    };
    assert!(plot("asked").contains("asked.g53.submit_lag.svg"));
    assert!(plot("silent").contains("there is no such picture"));
    let lines = lines(&fixture.text("asked/inside.jsonl"));
    assert!(lines.iter().any(|line| line["write_max_ns"].as_u64().is_some_and(|ns| ns > 0)));
    assert!(lines.iter().any(|line| line["input"]["max"].is_u64()));
}

#[test]
fn an_interval_that_tells_nothing_is_refused() {
    let fixture = Fixture::new();
    let words = ["replay", LOAD, "-t", "sim:size=64M", "-o", "run", "--expert=1ms"];
    let output = fixture.ioecho(&words);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(!fixture.path("run").exists());
}
