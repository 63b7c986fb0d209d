//! Campaigns, through the program: what is planned, done once, killed, resumed, and answered.
//!
//! The devices are simulated, so a result is exact, and the same whatever happened in between.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "campaign/faults.rs"]
mod faults;
mod fixture;
#[path = "campaign/more.rs"]
mod more;
#[path = "campaign/speed.rs"]
mod speed;

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use fixture::{Fixture, said};
use serde_json::Value;

/// Two devices, of which `quick` follows a hundred times faster than `slow`.
const LADDER: &str = r#"
name = "two"
repeats = 2
[devices]
slow = "sim:model=const,units=1,service=1ms,seed={repeat}"
quick = "sim:model=const,units=8,service=80us,seed={repeat}"
[axes]
device = ["slow", "quick"]
speedup = [4, 1, 16]
[replay]
trace = "load"
[ladder]
axis = "speedup"
stop = "finding = device-limited or p99.response > 20ms"
"#;

fn with(campaign: &str) -> Fixture {
    // 500 requests in a second, and enough of them for a p99.
    let fixture = Fixture::regular(1200, 2000);
    fs::write(fixture.path("c.toml"), campaign).unwrap();
    fixture
}

fn json(fixture: &Fixture, arguments: &[&str]) -> Value {
    let output = fixture.run(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)))
}

/// Every result by the key of its cell, and how many attempts there were.
fn results(fixture: &Fixture, store: &str) -> (BTreeMap<String, Value>, usize) {
    let (mut results, mut attempts) = (BTreeMap::new(), 0);
    for cell in fs::read_dir(fixture.path(store).join("cells")).unwrap() {
        let cell = cell.unwrap().path();
        for attempt in fs::read_dir(&cell).unwrap().map(|it| it.unwrap().path()) {
            attempts += usize::from(attempt.is_dir());
            let Ok(bytes) = fs::read(attempt.join("attempt.json")) else { continue };
            let attempt: Value = serde_json::from_slice(&bytes).unwrap();
            if attempt["end"]["measured"].is_object() {
                let key = attempt["key"].as_str().unwrap().to_owned();
                assert!(results.insert(key, attempt["end"].clone()).is_none(), "done twice");
            }
        }
    }
    (results, attempts)
}

#[test]
fn a_plan_counts_cells_and_touches_nothing() {
    let fixture = with(LADDER);
    let before = fs::read_dir(fixture.path("")).unwrap().count();
    let plan = json(&fixture, &["campaign", "plan", "c.toml", "--json"]);
    assert_eq!(plan["cells"].as_array().unwrap().len(), 12);
    assert!(plan["cells"].as_array().unwrap().iter().all(|cell| cell["state"] == "missing"));
    let dry = fixture.run(&["campaign", "run", "c.toml", "--dry-run"]);
    assert!(dry.status.success() && said(&dry).contains("12 missing"), "{}", said(&dry));
    assert_eq!(fs::read_dir(fixture.path("")).unwrap().count(), before);
    let why =
        fixture.run(&["campaign", "plan", "c.toml", "--why", "speedup", "--set", "speedup=3"]);
    // Every cell would be the same run.
    assert_eq!(why.status.code(), Some(2), "{}", said(&why));
    let why = said(&fixture.run(&["campaign", "plan", "c.toml", "--why", "speedup"]));
    assert!(why.contains("4 cells: speedup = 16 (c.toml:9:18)"), "{why}");
}

#[test]
fn a_mistake_is_told_with_its_place_before_anything_runs() {
    for (from, to, place, told) in [
        ("trace =", "trase =", "c.toml:11:1", "did you mean 'trace'?"),
        ("[4, 1, 16]", "[4, 'fast', 16]", "c.toml:9:15", "is not a number"),
        ("p99.response", "p98.response", "c.toml:14:8", "is not known"),
        ("model=const,units=1", "model=none,units=1", "c.toml:5:1", "model 'none' is not known"),
        ("\"load\"", "\"gen:randon\"", "c.toml:11:1", "there is no kind of load 'randon'"),
        ("\"load\"", "\"lost\"", "c.toml:11:1", "lost"),
    ] {
        let fixture = with(&LADDER.replace(from, to));
        let output = fixture.run(&["campaign", "run", "c.toml"]);
        let code = if to == "\"lost\"" { 3 } else { 2 };
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(place) && text.contains(told), "{text}");
        assert!(!fixture.path("two.campaign").exists());
    }
}

#[test]
fn a_campaign_answers_and_does_nothing_twice() {
    let fixture = with(LADDER);
    let output = fixture.run(&["campaign", "run", "c.toml"]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let answer = "device quick goes up to speedup 16, the highest that was tried; device slow goes \
                  up to speedup 1.";
    assert!(text.contains(answer), "{text}");
    let store = fixture.path("two.campaign");
    let page = fs::read_to_string(store.join("report.html")).unwrap();
    assert!(page.contains(answer) && page.contains("/run/report.html"));
    assert!(store.join("runs.parquet").metadata().unwrap().len() > 1000);
    // In each repeat three runs of the quick one and two of the slow one.
    let (first, attempts) = results(&fixture, "two.campaign");
    assert_eq!((first.len(), attempts), (10, 10));

    let again = fixture.run(&["campaign", "run", "c.toml"]);
    assert!(again.status.success() && said(&again).contains(answer), "{}", said(&again));
    assert_eq!(results(&fixture, "two.campaign"), (first, 10));
    let status = json(&fixture, &["campaign", "status", "two.campaign", "--json"]);
    assert_eq!((&status["running"], &status["counts"]["skipped"]), (&false.into(), &2.into()));

    // Another load of the same name: its cells are stale.
    let load = fs::read_to_string(fixture.path("load")).unwrap();
    fs::write(fixture.path("load"), load.replacen("; R ;", "; W ;", 1)).unwrap();
    let plan = json(&fixture, &["campaign", "plan", "c.toml", "--json"]);
    let stale = plan["cells"].as_array().unwrap().iter().filter(|cell| cell["state"] == "stale");
    let stale: Vec<_> = stale.collect();
    assert_eq!((stale.len(), &stale[0]["why"][0]), (10, &"the load changed".into()));
}

#[test]
fn a_campaign_that_is_killed_again_and_again_ends_like_one_that_was_not() {
    let fixture = with(LADDER);
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q", "-o", "whole"]).status.success());
    let mut command = fixture.command(&["campaign", "run", "c.toml", "-q", "-o", "killed"]);
    for life in 0..12 {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(40 + life * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        let begun = fixture.path("killed").join("plan.json").exists();
        let next: &[&str] = if begun {
            &["campaign", "resume", "killed", "-q"]
        } else {
            &["campaign", "run", "c.toml", "-q", "-o", "killed"]
        };
        command = fixture.command(next);
    }
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(results(&fixture, "killed").0, results(&fixture, "whole").0);
    let conclusion = |store| {
        let mut status = json(&fixture, &["campaign", "status", store, "--json"]);
        status["retried"].take();
        status
    };
    assert_eq!(conclusion("killed"), conclusion("whole"));
    // The journal names an end for each attempt that began.
    let journal = fs::read_to_string(fixture.path("killed").join("journal.jsonl")).unwrap();
    let count = |what: &str| journal.lines().filter(|line| line.contains(what)).count();
    assert_eq!(count("{\"attempt\":"), count("{\"ended\":") + count("{\"lost\":"), "{journal}");
}

#[test]
fn a_search_finds_the_knee_of_a_device_that_is_known() {
    let fixture = with(
        "name='knee'\n[devices]\na='sim:model=const,units=8,service=80us,bandwidth=1T'\n\
         [replay]\ndevice='a'\ntrace='gen:random?rate=1000&duration=10s'\n[search]\n\
         axis='speedup'\nbetween=[1,200]\nprecision='2%'\n\
         until='finding = device-limited or p99.response > 1ms'\n",
    );
    let output = fixture.run(&["campaign", "run", "c.toml", "-q", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let between = &found["searches"][0]["found"]["between"];
    let [low, high] = [0, 1].map(|end| between[end].as_f64().unwrap());
    assert!((95.0..=105.0).contains(&low) && (95.0..=105.0).contains(&high), "{found}");
    assert!(output.status.success() && low < high && high / low <= 1.02, "{found}");
}

#[test]
fn a_short_load_beyond_the_capacity_ends_a_ladder_through_its_drain() {
    // Four units of 1 ms serve 4000 requests a second; the second step asks for 4800 for 0.2 s.
    // None of its requests is late, and still the run says that the device was the limit.
    let fixture = with(
        "name='drain'\n[devices]\na='sim:model=const,units=4,service=1ms'\n[axes]\n\
         speedup=[1,2,4]\n[replay]\ndevice='a'\n\
         trace='gen:random?rate=2400&duration=400ms&dist=constant'\n\
         [ladder]\naxis='speedup'\nstop='drain > 1%'\n",
    );
    let output = fixture.run(&["campaign", "run", "c.toml", "-q", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = serde_json::json!({ "faithful": 1, "device-limited": 1 });
    assert_eq!(found["findings"], findings, "{found}");
    assert_eq!(found["climbs"][0]["highest"], serde_json::json!(["1"]), "{found}");
}

#[test]
fn a_device_whose_figures_may_not_be_used_is_not_ranked() {
    // Many failed requests are soon done: it would be the fastest.
    let campaign = r#"
name = "two"
[devices]
slow = "sim:model=const,units=1,service=1ms"
quick = "sim:model=const,units=8,service=80us"
failing = "sim:model=const,units=8,service=10us,errors=0.5"
[axes]
device = ["slow", "failing", "quick"]
[replay]
trace = "load"
"#;
    let fixture = with(campaign);
    let output = fixture.run(&["campaign", "run", "c.toml"]);
    assert_eq!(output.status.code(), Some(14), "{}", said(&output));
    let page = fs::read_to_string(fixture.path("two.campaign/report.html")).unwrap();
    let told = "not ranked: it has a run whose figures may not be used";
    for part in ["1. device quick", "2. device slow", "– device failing", told] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn what_fails_is_told_and_never_ends_the_others() {
    let text = LADDER.replace("model=const,units=1,service=1ms,", "learnt=nowhere,");
    let fixture = with(&text);
    let output = fixture.run(&["campaign", "run", "c.toml"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(40), "{told}");
    assert!(told.contains("6 of 12 cells have no result after all attempts"), "{told}");
    assert!(told.contains("device quick goes up to speedup 16"), "{told}");
    // Another attempt would be refused alike, so there is none.
    assert_eq!(results(&fixture, "two.campaign").1, 12);
}

#[test]
fn an_expectation_that_does_not_hold_is_an_exit_code() {
    let expect = |that: &str| format!("{LADDER}[[expect]]\nthat = '{that}'\n");
    let fixture = with(&expect("failed = 0"));
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    fs::write(fixture.path("c.toml"), expect("p99.response < 1us")).unwrap();
    // The results are the same, and what is expected of them is another.
    let output = fixture.run(&["campaign", "run", "c.toml", "-q"]);
    assert_eq!(output.status.code(), Some(16), "{}", said(&output));
    assert_eq!(results(&fixture, "two.campaign").1, 10);
}

#[test]
fn a_campaign_that_is_not_its_own_or_is_taken_is_refused() {
    let fixture = with(LADDER);
    fs::create_dir(fixture.path("full")).unwrap();
    fs::write(fixture.path("full").join("precious"), "x").unwrap();
    let output = fixture.run(&["campaign", "run", "c.toml", "-o", "full"]);
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(fixture.run(&["campaign", "run", "c.toml", "-q"]).status.success());
    let lock = fs::File::open(fixture.path("two.campaign").join("lock")).unwrap();
    lock.lock().unwrap();
    let output = fixture.run(&["campaign", "resume", "two.campaign"]);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    drop(lock);
    let output = fixture.run(&["campaign", "run", "c.toml", "--destroy", "sloe"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let compared = fixture.run(&["campaign", "compare", "two.campaign", "--by", "device"]);
    assert!(said(&compared).contains("--at speedup=4"), "{}", said(&compared));
}
