//! Several loads at once, from the command line to the results.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::fs;
use std::path::Path;

use ioecho_trace::formats::{ReadOptions, open};
use ioecho_trace::{Batch, Outcome, Request};
use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

/// 80,000 requests a second.
const DEVICE: &str = "sim:size=1G,model=exp,units=8,service=100us,bandwidth=1T";

const CLIENTS: &str = "oltp=gen:random?read=70&size=4k&endless=yes&area=1G;threads=8;think=50us";
const BACKUP: &str = "backup=gen:sequential?rate=2k&endless=yes&area=1G&dist=poisson;cap=64";

/// Replays into `run`; answers the exit code, what was said, and the summary.
fn replay(home: &Path, run: &str, arguments: &[&str]) -> (i32, String, Value) {
    let output = ioecho(home, &[&["replay", "-q", "-v", "-o", run], arguments].concat());
    let summary = fs::read(home.join(run).join("summary.json")).unwrap_or_else(|_| {
        panic!("{}", said(&output));
    });
    (output.status.code().unwrap(), said(&output), serde_json::from_slice(&summary).unwrap())
}

/// The rows of a run.
fn rows(home: &Path, run: &str) -> Vec<Request> {
    let path = home.join(run).join("requests.parquet");
    let mut source = open(&path, &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let mut rows = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        assert!(batch.is_ordered());
        rows.extend(batch.iter());
    }
    assert!(source.header().guesses.is_empty(), "{:?}", source.header().guesses);
    rows
}

#[test]
fn clients_and_a_rate_go_on_at_once_and_each_has_its_figures() {
    let home = TempDir::new().unwrap();
    let flows = ["--flow", CLIENTS, "--flow", BACKUP, "-t", DEVICE, "--end-after", "2s"];
    let (code, told, summary) = replay(home.path(), "run", &flows);
    assert_eq!(code, 0, "{told}");
    assert_eq!(summary["engine"]["timing"], "flows");
    assert_eq!(summary["engine"]["planned"], summary["recorded"]);
    let per_flow = summary["per_flow"].as_array().unwrap();
    let rate = |flow: usize| per_flow[flow]["per_second"].as_f64().unwrap();
    assert_eq!((&per_flow[0]["name"], &per_flow[1]["name"]), (&"oltp".into(), &"backup".into()));
    // Eight clients with 100 µs and a pause of 50 µs each; a device that is hardly busy.
    assert!((45_000.0..55_000.0).contains(&rate(0)), "{told}");
    assert!((1_900.0..2_100.0).contains(&rate(1)), "{told}");
    assert!(told.contains("those of 8 waiting clients"), "{told}");
    assert!(told.contains("flow          oltp (8 waiting clients): "), "{told}");
    let page = fs::read_to_string(home.path().join("run/report.html")).unwrap();
    assert!(page.contains("those of 8 waiting clients") && page.contains("oltp"), "{told}");
    let rows = rows(home.path(), "run");
    assert_eq!(rows.len() as u64, summary["recorded"].as_u64().unwrap());
    let of = |flow: u16| rows.iter().filter(|row| row.measured.unwrap().flow == flow).count();
    assert_eq!(of(1) + of(2), rows.len());
    assert_eq!(of(1) as u64, per_flow[0]["requests"].as_u64().unwrap());
    assert!(rows.iter().all(|row| row.volume.0 + 1 == u32::from(row.measured.unwrap().flow)));
    let facts = fs::read_to_string(home.path().join("run/run.toml")).unwrap();
    assert!(facts.contains(r#"timing = "flows""#) && facts.contains("oltp=gen:random"), "{facts}");
    // Its results are a trace like any other.
    let again = ["replay", "run", "-q", "-t", DEVICE, "-o", "again"];
    let output = ioecho(home.path(), &again);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn equal_flows_give_equal_rows() {
    let home = TempDir::new().unwrap();
    let flows = ["--flow", CLIENTS, "--flow", BACKUP, "-t", DEVICE, "--end-after", "300ms"];
    replay(home.path(), "one", &flows);
    replay(home.path(), "two", &flows);
    assert!(rows(home.path(), "one") == rows(home.path(), "two"));
}

#[test]
fn open_flows_alone_have_a_schedule_and_too_few_places_are_the_finding() {
    let home = TempDir::new().unwrap();
    let slow = "sim:size=1G,model=const,units=1,service=1ms,bandwidth=1T";
    let flow = |cap: u32| format!("a=gen:random?read=100&rate=900&duration=2s&area=1G;cap={cap}");
    let (code, told, summary) = replay(home.path(), "run", &["--flow", &flow(8), "-t", slow]);
    assert_eq!((code, &summary["engine"]["timing"]), (0, &"timed".into()), "{told}");
    assert_eq!(summary["verdict"]["finding"], "faithful", "{told}");
    let fast = flow(8).replace("rate=900", "rate=2000");
    let (code, told, summary) = replay(home.path(), "late", &["--flow", &fast, "-t", slow]);
    assert_eq!(code, 10, "{told}");
    assert_eq!(summary["verdict"]["finding"], "device-limited", "{told}");
    assert!(told.contains("a flow has too few places in flight for its rate"), "{told}");
    let p99 = summary["per_flow"][0]["response_time"]["p99_ns"].as_u64().unwrap();
    assert!(p99 > 1_500_000_000, "the queue is not shown: {p99}");
}

#[test]
fn each_flow_goes_to_its_target_and_rows_of_all_are_in_order() {
    let home = TempDir::new().unwrap();
    let slow = "sim:size=1G,model=const,units=1,service=1ms,bandwidth=1T";
    let a = format!("{CLIENTS};on=1");
    let b = "b=gen:random?endless=yes&area=1G;threads=2;on=2";
    let flows = ["--flow", &a, "--flow", b, "-t", DEVICE, "-t", slow, "--end-after", "400ms"];
    let (code, told, summary) = replay(home.path(), "run", &flows);
    assert_eq!(code, 0, "{told}");
    let rows = rows(home.path(), "run");
    assert_eq!(rows.len() as u64, summary["recorded"].as_u64().unwrap());
    assert!(rows.iter().all(|row| row.measured.unwrap().target + 1 == row.measured.unwrap().flow));
    let per_target = summary["per_target"].as_array().unwrap();
    assert!(per_target[1]["requests"].as_u64().unwrap() < 410);
}

#[test]
fn flows_that_join_targets_share_a_lane_with_all_that_go_there_and_repeat_exactly() {
    let home = TempDir::new().unwrap();
    let joined = "a=gen:random?endless=yes&area=1G+1020M&read=50;threads=8;on=1+3,to=4M";
    let own = "b=gen:random?rate=1k&duration=1s&area=16M;cap=4;on=3";
    let alone = "c=gen:sequential?endless=yes;threads=2;on=2";
    let once = |run: &str| {
        let mut all = vec!["--flow", joined, "--flow", own, "--flow", alone];
        let device = "sim:size=1G,model=exp,units=2,service=200us,seed=";
        let devices = ["1", "2", "3"].map(|seed| format!("{device}{seed}"));
        all.extend(devices.iter().flat_map(|device| ["-t", device]));
        all.extend(["--end-after", "300ms"]);
        let (code, told, summary) = replay(home.path(), run, &all);
        assert_eq!(code, 0, "{told}");
        (rows(home.path(), run), summary)
    };
    let (first, summary) = once("run");
    let mut seen = [[0; 3]; 3];
    for row in &first {
        let measured = row.measured.unwrap();
        let at = measured.target_offset.unwrap().0;
        let (flow, target) = (usize::from(measured.flow) - 1, usize::from(measured.target));
        seen[flow][target] += 1;
        assert!(at + row.length.0 <= 1 << 30, "{row:?}");
        let expected = match (flow, target) {
            (0, 2) => row.offset.0 - (1 << 30) + (4 << 20),
            _ => row.offset.0,
        };
        assert_eq!(at, expected, "{row:?}");
    }
    let is_used = seen.map(|flow| flow.map(|count| count > 100));
    let [t, f] = [true, false];
    assert_eq!(is_used, [[t, f, t], [f, f, t], [f, t, f]], "{seen:?}");
    assert_eq!(summary["engine"]["flows"][0]["others"], serde_json::json!([2]));
    assert_eq!(summary["per_target"].as_array().unwrap().len(), 3);
    // Each lane is repeated by its seed; how far one is when the other is does not count.
    let of = |rows: &[Request], is_alone: bool| -> Vec<Request> {
        let is_its = |row: &&Request| (row.measured.unwrap().target == 1) == is_alone;
        rows.iter().filter(is_its).copied().collect()
    };
    let again = once("again").0;
    assert!(of(&again, false) == of(&first, false) && of(&again, true) == of(&first, true));
}

#[test]
fn what_flows_cannot_mean_is_refused_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    for (arguments, reason) in [
        (&["--flow", "gen:random;threads=8"][..], "required"),
        (&["--flow", "gen:random;theads=8", "-t", "sim"], "theads"),
        (&["--flow", "gen:random", "gen:random", "-t", "sim"], "cannot be used with"),
        (
            &["--flow", "gen:random", "-t", "sim", "--timing", "afap"],
            "each flow has its own timing",
        ),
        (&["--flow", "gen:random", "-t", "sim", "--speed", "2"], "those of a trace"),
        (&["--flow", "gen:random", "-t", "sim", "-t", "sim:size=1G"], "names none of 2 targets"),
        (&["--flow", "gen:random;on=2", "-t", "sim"], "no target of this run"),
        (&["--flow", "gen:random;on=1+9", "-t", "sim", "-t", "sim:size=1G"], "goes to 9, which"),
        (&["--flow", "gen:random;on=1+1", "-t", "sim", "-t", "sim:size=1G"], "names sim twice"),
        (
            &["--flow", "gen:random;on=1,length=2G+2", "-t", "sim:size=1G", "-t", "sim"],
            "no part of 2",
        ),
        (
            &["--flow", "gen:random;on=1+2", "-t", "sim", "-t", "sim:size=1G", "--verify", "reads"],
            "as one volume is not verified",
        ),
        (&["--flow", "a=gen:random", "--flow", "a=gen:random", "-t", "sim"], "different names"),
        (
            &["--flow", "gen:random;cap=9999", "--flow", "gen:random;cap=9999", "-t", "sim"],
            "19998 requests in flight together",
        ),
    ] {
        let output = ioecho(home.path(), &[&["replay", "-q", "-o", "run"], arguments].concat());
        let told = said(&output);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(reason), "{told}");
        assert!(!home.path().join("run").exists());
    }
}

#[test]
fn a_dry_run_tells_what_would_be_overwritten_by_each_flow_to_its_end() {
    let home = TempDir::new().unwrap();
    let dry = |flow: &str| {
        said(&ioecho(home.path(), &["replay", "--flow", flow, "-t", "sim:size=1G", "--dry-run"]))
    };
    let told = dry("w=gen:sequential?read=0&endless=yes&area=1G;threads=4;written-data=1M");
    assert!(told.contains("flow          w=gen:sequential"), "{told}");
    assert!(told.contains("would replay  256 requests"), "{told}");
    assert!(told.contains("between bytes 0 and 1048576"), "{told}");
    let told = dry("w=gen:sequential?read=0&endless=yes;threads=4");
    assert!(told.contains("a load without an end"), "{told}");
}

#[test]
fn shares_are_kept_across_simulated_targets_whose_clocks_go_together() {
    let home = TempDir::new().unwrap();
    let slow = "sim:size=1G,model=exp,units=1,service=1ms,bandwidth=1T";
    let a = "a=gen:random?endless=yes&area=1G;threads=4;share=75;on=1";
    let b = "b=gen:random?endless=yes&area=1G;threads=1;share=25;on=2";
    let flows = ["--flow", a, "--flow", b, "-t", DEVICE, "-t", slow, "--end-after", "2s"];
    let (code, told, summary) = replay(home.path(), "one", &flows);
    assert_eq!(code, 0, "{told}");
    // The slow target sets the pace: 1,000 requests a second are a quarter of all.
    let count = |flow: usize| summary["per_flow"][flow]["requests"].as_f64().unwrap();
    assert!((1_850.0..2_150.0).contains(&count(1)), "{told}");
    assert!((count(0) / count(1) - 3.0).abs() < 0.02, "{told}");
    replay(home.path(), "two", &flows);
    assert!(rows(home.path(), "one") == rows(home.path(), "two"));
}

#[test]
fn clients_of_what_is_gone_do_not_ask_for_ever_and_what_they_saw_is_kept() {
    let home = TempDir::new().unwrap();
    let tree = "sim:tree?width=2&files=5&calls=model=const,service=100us,vanish=50ms";
    let device = "sim:size=16M,service=100us,vanish=50ms";
    for (run, target, load) in
        [("tree", tree, "files:read?size=4k"), ("device", device, "gen:random?endless=yes")]
    {
        let flow = format!("{load};threads=2");
        let words = ["-t", target, "--flow", &flow, "--end-after", "10s"];
        let (code, told, _) = replay(home.path(), run, &words);
        assert_eq!(code, 13, "{told}");
        assert!(told.contains(" is gone: 1000 requests in a row failed: errno 19"), "{told}");
        let rows = rows(home.path(), run);
        let well = rows.iter().filter(|row| row.measured.unwrap().outcome == Outcome::Ok).count();
        assert!(well > 500 && rows.len() - well < 1100, "{well} of {}", rows.len());
    }
}
