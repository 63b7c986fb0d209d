//! Comparing and merging runs, through the program: the differences that are found, the errors, and
//! the exit codes for scripts.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::path::Path;

use ioecho_stats::facts::{ClockFacts, CpuFacts};
use ioecho_stats::run_summary::{RunSummary, VerifyFigures};
use ioecho_stats::verdict::Finding;
use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

/// Some 40,000 requests; the size of the device makes the wraparound factor 1.
const LOAD: &str = "gen:random?read=70&size=4k&rate=4000&dist=poisson&duration=10s&area=64M";

fn replay(directory: &Path, name: &str, load: &str, device: &str) {
    let target = format!("sim:size=64M,{device}");
    let output = ioecho(directory, &["replay", load, "-t", &target, "-o", name]);
    assert!(directory.join(name).join("summary.json").exists(), "{}", said(&output));
}

fn compared(directory: &Path, arguments: &[&str]) -> (Value, i32) {
    let all: Vec<&str> = ["compare", "--json"].iter().chain(arguments).copied().collect();
    let output = ioecho(directory, &all);
    let json = serde_json::from_slice(&output.stdout);
    (json.unwrap_or_else(|_| panic!("{}", said(&output))), output.status.code().unwrap())
}

/// The row of a figure of the service time of all requests.
fn row<'a>(json: &'a Value, metric: &str) -> &'a Value {
    let rows = json["pairs"][0]["rows"].as_array().unwrap();
    let is_meant =
        |row: &&Value| row["metric"] == metric && row["span"] == "service" && row["kind"] == "all";
    rows.iter().find(is_meant).unwrap()
}

#[test]
fn simulated_devices_of_80_and_88_microseconds_are_told_apart_and_one_twice_is_not() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", LOAD, "service=80us,seed=1");
    replay(home, "again", LOAD, "service=80us,seed=2");
    replay(home, "slower", LOAD, "service=88us,seed=3");
    let (same, code) = compared(home, &["a", "again", "--fail-if", "p99 > +5%"]);
    assert_eq!(code, 0);
    assert_eq!(row(&same, "p99")["decision"], "not-told-apart");
    assert_eq!(same["criteria"][0]["answer"], "not-met", "{}", same["criteria"]);
    let (apart, code) = compared(home, &["a", "slower", "--fail-if", "p99.all.service > +2%"]);
    assert_eq!((&row(&apart, "p99")["decision"], code), (&Value::from("worse"), 21));
    let interval = row(&apart, "p99")["interval"].as_array().unwrap();
    assert!(interval[0].as_f64().unwrap() < 1.09 && interval[1].as_f64().unwrap() > 1.09);
    assert_eq!(apart["criteria"][0]["answer"], "met");
    // With the runs exchanged, the same change is an improvement, and no criterion is met.
    let (better, code) = compared(home, &["slower", "a", "--fail-if", "p99.all.service > +2%"]);
    assert_eq!((&row(&better, "p99")["decision"], code), (&Value::from("better"), 0));
}

#[test]
fn repeated_runs_are_a_system_and_a_page_needs_no_network() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    for (name, device) in [
        ("a1", "service=80us,seed=1"),
        ("a2", "service=80us,seed=2"),
        ("b1", "service=96us,seed=3"),
        ("b2", "service=96us,seed=4"),
    ] {
        replay(home, name, LOAD, device);
    }
    let groups = ["--group", "old=a1,a2", "--group", "<b>new=b1,b2", "-o", "page.html"];
    let (json, code) = compared(home, &groups);
    assert_eq!(code, 0);
    assert_eq!(json["pairs"][0]["runs"], serde_json::json!([2, 2]));
    assert_eq!(row(&json, "p50")["decision"], "worse");
    let page = std::fs::read_to_string(home.join("page.html")).unwrap();
    assert!(page.contains("&#60;b&#62;new") && !page.contains("<b>new"));
    assert!(!page.contains("http://") && !page.contains("https://"));
}

#[test]
fn another_load_is_refused_by_name_until_it_is_allowed() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", LOAD, "seed=1");
    replay(home, "other", &format!("{LOAD}&seed=7"), "seed=1");
    let refused = ioecho(home, &["compare", "a", "other"]);
    assert_eq!(refused.status.code(), Some(20));
    assert!(said(&refused).contains("--allow load"), "{}", said(&refused));
    let allowed = ioecho(home, &["compare", "a", "other", "--allow", "load"]);
    assert_eq!(allowed.status.code(), Some(0), "{}", said(&allowed));
    assert!(said(&allowed).contains("doubtful"), "{}", said(&allowed));
    let twice = ioecho(home, &["compare", "a,./a", "other"]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(said(&twice).contains("are the same run"), "{}", said(&twice));
    let unknown = ioecho(home, &["compare", "a", "other", "--allow", "everything"]);
    assert_eq!(unknown.status.code(), Some(2));
}

/// The target of a device of so many microseconds and this seed.
type OfDevice<'d> = &'d dyn Fn(u32, u32) -> String;

fn replay_closed(home: &Path, name: &str, flow: &str, target: &str, more: &[&str]) {
    let (target, flow) = (format!("--target={target}"), format!("--flow={flow}"));
    let mut arguments = vec!["replay", "-q", &target, &flow, "-o", name];
    arguments.extend(more);
    let output = ioecho(home, &arguments);
    assert!(home.join(name).join("summary.json").exists(), "{}", said(&output));
}

#[test]
fn runs_of_one_closed_load_are_compared_though_their_requests_are_results() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    let device = |service: u32, seed: u32| format!("sim:size=64M,service={service}us,seed={seed}");
    let tree = |service: u32, seed: u32| {
        format!("sim:tree?files=64&size=64k&calls=model=exp,service={service}us,seed={seed}")
    };
    let loads: [(&str, &str, OfDevice<'_>); 2] = [
        ("d", "gen:random?read=70&size=4k&area=64M;threads=4", &device),
        ("t", "files:read?size=4k&select=random;threads=4", &tree),
    ];
    for (load, flow, target) in loads {
        for (name, service, seed) in [("a", 80, 1), ("again", 80, 2), ("slower", 92, 3)] {
            let name = format!("{load}-{name}");
            replay_closed(home, &name, flow, &target(service, seed), &["--end-after=1s"]);
        }
        let [a, again, slower] = ["a", "again", "slower"].map(|name| format!("{load}-{name}"));
        let (same, code) = compared(home, &[&a, &again]);
        assert_eq!((&same["paired"], code), (&Value::from(false), 0));
        assert_eq!(same["pairs"][0]["word"], "not-told-apart", "{load}");
        let (apart, _) = compared(home, &[&a, &slower]);
        assert_eq!(row(&apart, "mean")["decision"], "worse", "{load}");
        // The rate of a client that waits is as much lower.
        let rows = apart["pairs"][0]["rows"].as_array().unwrap();
        let rate = rows.iter().find(|row| row["metric"] == "iops" && row["kind"] == "all");
        let ratio = rate.unwrap()["ratio"].as_f64().unwrap();
        assert!((0.8..0.95).contains(&ratio), "{load}: {ratio}");
    }
    // Other clients, another tree, and a device of another size are other loads.
    let more = &["--end-after=1s"];
    replay_closed(
        home,
        "five",
        "gen:random?read=70&size=4k&area=64M;threads=5",
        &device(80, 4),
        more,
    );
    replay_closed(home, "wider", loads[1].1, &tree(80, 4).replace("files=64", "files=65"), more);
    let over_all = "gen:random?read=70&size=4k;threads=4";
    replay_closed(home, "small", over_all, &device(80, 5), more);
    replay_closed(home, "large", over_all, &device(80, 5).replace("64M", "128M"), more);
    for [one, other] in [["d-a", "five"], ["t-a", "wider"], ["small", "large"], ["d-a", "small"]] {
        let output = ioecho(home, &["compare", one, other]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(20), "{one} {other}: {told}");
        assert!(told.contains("(load)"), "{told}");
    }
}

#[test]
fn another_speed_wraparound_or_an_invalid_run_is_refused() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", LOAD, "seed=1");
    let fast = ["replay", LOAD, "-t", "sim:size=64M", "--speedup", "2", "-o", "fast"];
    ioecho(home, &fast);
    let wide = ["replay", LOAD, "-t", "sim:size=48M", "-o", "wrapped"];
    ioecho(home, &wide);
    let broken = ["replay", LOAD, "-t", "sim:size=64M,errors=0.05", "-o", "broken"];
    ioecho(home, &broken);
    for (run, name) in [("fast", "speedup"), ("wrapped", "wraparound"), ("broken", "valid")] {
        let refused = ioecho(home, &["compare", "a", run]);
        assert_eq!(refused.status.code(), Some(20), "{run}: {}", said(&refused));
        assert!(said(&refused).contains(&format!("({name})")), "{run}: {}", said(&refused));
    }
}

#[test]
fn a_criterion_that_cannot_be_read_is_pointed_at_and_one_on_nothing_fails() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", LOAD, "seed=1");
    replay(home, "b", LOAD, "seed=2");
    let odd = ioecho(home, &["compare", "a", "b", "--fail-if", "p99.reed > +5%"]);
    assert_eq!(odd.status.code(), Some(2));
    assert!(said(&odd).contains("'reed' is neither"), "{}", said(&odd));
    let nothing = ioecho(home, &["compare", "a", "b", "--fail-if", "p99.flush > +5%"]);
    assert_eq!(nothing.status.code(), Some(21), "{}", said(&nothing));
}

#[test]
fn merged_runs_have_the_percentiles_of_all_their_requests() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "fast", LOAD, "service=50us,seed=1");
    replay(home, "slow", LOAD, "service=500us,seed=2");
    let merged = ioecho(home, &["merge", "fast", "slow", "-o", "both"]);
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    let summary = |run: &str| -> Value {
        serde_json::from_slice(&std::fs::read(home.join(run).join("summary.json")).unwrap())
            .unwrap()
    };
    let (fast, slow, both) = (summary("fast"), summary("slow"), summary("both"));
    let at = |of: &Value, key: &str| of["service_time"]["all"][key].as_u64().unwrap();
    assert_eq!(at(&both, "count"), at(&fast, "count") + at(&slow, "count"));
    assert_eq!(at(&both, "max_ns"), at(&fast, "max_ns").max(at(&slow, "max_ns")));
    // Half of the requests are fast. So the median lies between, and the 99th percentile of all is
    // the 98th of the slow ones.
    assert!(at(&fast, "p99_ns") > at(&both, "p50_ns") || at(&both, "p50_ns") < at(&slow, "p50_ns"));
    assert!(at(&both, "p99_ns") < at(&slow, "p99_ns"));
    assert!(at(&both, "p99_ns") > u64::midpoint(at(&slow, "p99_ns"), at(&fast, "p99_ns")));
    assert_eq!(both["per_target"].as_array().unwrap().len(), 2);
    assert_eq!(both["engine"]["targets"], 2);
    // A sentence about 99 % is about all requests. A sentence about one run names the run.
    let told_of = both["verdict"]["summary"].as_str().unwrap();
    let count = at(&both, "count");
    assert!(told_of.starts_with(&format!("2 runs merged: {count} requests in all, 99 % of them")));
    assert!(told_of.contains("; the worst of them is "), "{told_of}");
    // The result is a run like any other one.
    assert_eq!(ioecho(home, &["report", "both"]).status.code(), Some(0));
    let info = ioecho(home, &["info", "both"]);
    assert!(said(&info).contains("slow:"), "{}", said(&info));
    let twice = ioecho(home, &["merge", "fast", "fast", "-o", "twice"]);
    assert_eq!(twice.status.code(), Some(20), "{}", said(&twice));
}

#[test]
fn runs_that_are_no_system_are_merged_with_a_warning_that_the_verdict_repeats() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    std::fs::write(home.join("target.img"), vec![7; 1 << 20]).unwrap();
    let load = "gen:random?count=20&rate=200&size=4k&area=1M&read=100";
    for run in ["first", "second"] {
        let target = ["-t", "target.img", "--read-only", "--allow-cached", "-q", "-o", run];
        let done = ioecho(home, &[&["replay", load], &target[..]].concat());
        assert!(home.join(run).join("summary.json").exists(), "{}", said(&done));
    }
    let merged = ioecho(home, &["merge", "first", "second", "-o", "both"]);
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    let summary = std::fs::read(home.join("both/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    for doubt in ["did not go on at the same time", "2 of these runs went to "] {
        assert!(said(&merged).contains(doubt), "{}", said(&merged));
        assert!(summary["verdict"]["summary"].as_str().unwrap().contains(doubt), "{summary}");
    }
}

#[test]
fn runs_by_the_wall_clock_stand_one_after_the_other() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "first", LOAD, "seed=1");
    replay(home, "second", LOAD, "seed=2");
    let facts = home.join("second/run.toml");
    let text = std::fs::read_to_string(&facts).unwrap();
    let old = text.lines().find(|line| line.starts_with("started = ")).unwrap().to_owned();
    let first = std::fs::read_to_string(home.join("first/run.toml")).unwrap();
    let started = first.lines().find(|line| line.starts_with("started = ")).unwrap();
    let instant: jiff::Timestamp =
        started["started = \"".len()..started.len() - 1].parse().unwrap();
    let later = instant + jiff::SignedDuration::from_secs(3600);
    std::fs::write(&facts, text.replace(&old, &format!("started = \"{later}\""))).unwrap();
    let wall = ["merge", "first", "second", "--align", "wall", "-o", "both"];
    let merged = ioecho(home, &wall);
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    let summary = std::fs::read(home.join("both/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let demanded = summary["engine"]["demanded_duration_ns"].as_i64().unwrap();
    assert!((demanded - 3_610_000_000_000).abs() < 1_000_000_000, "{demanded}");
}

fn summary(home: &Path, run: &str) -> RunSummary {
    let text = std::fs::read(home.join(run).join("summary.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn change(home: &Path, run: &str, change: impl Fn(&mut RunSummary)) {
    let mut changed = summary(home, run);
    change(&mut changed);
    let text = serde_json::to_vec(&changed).unwrap();
    std::fs::write(home.join(run).join("summary.json"), text).unwrap();
}

fn merge(home: &Path, runs: &[&str], output: &str) -> RunSummary {
    let merged = ioecho(home, &[&["merge", "-o", output], runs].concat());
    assert_eq!(merged.status.code(), Some(0), "{}", said(&merged));
    summary(home, output)
}

const SHORT: &str = "gen:random?read=70&size=4k&rate=1000&dist=poisson&duration=1s&area=64M";

#[test]
fn what_verification_hosts_and_loads_said_of_each_run_is_there_of_all() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", SHORT, "seed=1");
    replay(home, "b", SHORT, "seed=2");
    change(home, "a", |run| {
        let damaged = [("torn".to_owned(), 3)].into_iter().collect();
        let verify =
            VerifyFigures { sectors: 9, damaged_sectors: 3, damaged, ..Default::default() };
        run.engine.verify = Some(verify);
        run.engine.host.clock = Some(ClockFacts { steps: 1, ..ClockFacts::default() });
        run.engine.load.dedup = Some(2.0);
        run.verdict.finding = Finding::DataDamaged;
    });
    change(home, "b", |run| {
        run.engine.verify = Some(VerifyFigures { sectors: 5, ..VerifyFigures::default() });
        let cpu = CpuFacts { governor: "powersave".to_owned(), ..CpuFacts::default() };
        run.engine.host.cpu = Some(cpu);
    });
    let both = merge(home, &["a", "b"], "both");
    let verify = both.engine.verify.as_ref().unwrap();
    assert_eq!((verify.sectors, verify.damaged_sectors, verify.damaged["torn"]), (14, 3, 3));
    assert_eq!(both.engine.host.clock.as_ref().unwrap().steps, 1);
    assert_eq!(both.engine.host.cpu.as_ref().unwrap().governor, "powersave");
    assert_eq!(both.engine.load.dedup, Some(2.0));
    assert_eq!(both.verdict.finding, Finding::DataDamaged);
    // The verdict of each single run stands beside it, unchanged.
    let of = |run: &str| both.merged.iter().find(|part| part.name == run).unwrap();
    for run in ["a", "b"] {
        let alone = summary(home, run);
        assert_eq!((&of(run).engine, &of(run).verdict), (&alone.engine, &alone.verdict));
    }
    assert_eq!(ioecho(home, &["report", "both"]).status.code(), Some(0));
}

#[test]
fn runs_may_be_merged_in_steps_and_a_run_with_nothing_is_the_run() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    for (run, seed) in [("a", "seed=1"), ("b", "seed=2,service=3ms"), ("c", "seed=3")] {
        replay(home, run, SHORT, seed);
    }
    let whole = merge(home, &["a", "b", "c"], "whole");
    merge(home, &["a", "b"], "ab");
    let steps = merge(home, &["ab", "c"], "steps");
    assert_eq!((&steps.engine, steps.recorded), (&whole.engine, whole.recorded));
    assert_eq!(steps.service_time, whole.service_time);
    assert_eq!(steps.per_target, whole.per_target);
    let grades = |run: &RunSummary| -> Vec<_> {
        run.verdict.checks.iter().map(|check| (check.name.clone(), check.grade)).collect()
    };
    assert_eq!((grades(&steps), steps.verdict.validity), (grades(&whole), whole.verdict.validity));
    let names: Vec<&str> = steps.merged.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["ab:a", "ab:b", "c"]);
    assert_eq!(merge(home, &["a"], "alone"), summary(home, "a"));
    // If a run is a part of another one, its requests would count twice.
    let twice = ioecho(home, &["merge", "ab", "b", "-o", "twice"]);
    assert_eq!(twice.status.code(), Some(20), "{}", said(&twice));
    assert!(said(&twice).contains("have one in common"), "{}", said(&twice));
}

#[test]
fn what_differs_between_the_plans_of_merged_runs_is_nobodys_in_the_whole() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "a", SHORT, "seed=1");
    replay(home, "b", &SHORT.replace("read=70", "read=30"), "seed=2");
    merge(home, &["a", "b"], "both");
    let facts = std::fs::read_to_string(home.join("both/run.toml")).unwrap();
    let facts: toml::Table = facts.parse().unwrap();
    let plan = facts["plan"].as_table().unwrap();
    assert_eq!(plan["timing"].as_str(), Some("timed"));
    assert!(!plan.contains_key("trace"), "{plan:?}");
    let merged = facts["merged"].as_array().unwrap();
    let trace = |run: usize| merged[run]["plan"]["trace"].as_str().unwrap().to_owned();
    assert!(trace(0).contains("read=70") && trace(1).contains("read=30"));
    // The issue rules are the same in both runs, and the merged run still has them for a
    // comparison.
    assert_eq!(plan["conflicts"], plan_of(home, "a")["conflicts"]);
}

fn plan_of(home: &Path, run: &str) -> toml::Value {
    let facts = std::fs::read_to_string(home.join(run).join("run.toml")).unwrap();
    facts.parse::<toml::Table>().unwrap()["plan"].clone()
}

#[test]
fn a_summary_with_a_word_or_a_value_that_nobody_knows_is_refused_with_its_key() {
    let home = TempDir::new().unwrap();
    let home = home.path();
    replay(home, "run", SHORT, "seed=1");
    let path = home.join("run/summary.json");
    let sound = std::fs::read_to_string(&path).unwrap();
    for (from, to, key) in [
        ("\"timing\": \"timed\"", "\"timing\": \"sometimes\"", "engine.timing: 'sometimes' is no"),
        ("\"direct\": ", "\"direct\": 7, \"dirrect\": ", "engine.direct: invalid type"),
        ("\"version\": 1", "\"version\": 2", "version 2, and this program knows version 1"),
        ("\"version\": 1,", "", "missing field `version`"),
    ] {
        assert!(sound.contains(from), "{from}");
        std::fs::write(&path, sound.replacen(from, to, 1)).unwrap();
        for command in [&["report", "run"][..], &["merge", "run", "run", "-o", "m"]] {
            let output = ioecho(home, command);
            let said = said(&output);
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains("summary.json") && said.contains(key), "{said}");
        }
    }
}
