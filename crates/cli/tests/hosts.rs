//! Campaigns on several hosts. Where nothing else is needed the hosts are agents on this machine,
//! each with a directory of its own: what is said, sent and fetched is the same.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "hosts/across.rs"]
mod across;
mod fixture;
#[path = "hosts/hostile.rs"]
mod hostile;
#[path = "hosts/losses.rs"]
mod losses;
#[path = "hosts/merged.rs"]
mod merged;
#[path = "hosts/namespaces.rs"]
mod namespaces;
#[path = "hosts/stacks.rs"]
mod stacks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fixture::{Fixture, said};
use serde_json::Value;

/// A campaign on so many agents of this machine, with these lines behind its name.
fn campaign(hosts: u32, device: &str, more: &str) -> String {
    format!(
        "name='c'\n{more}\n[hosts]\n\"n{{01..{hosts:02}}}\"={{launch=[]}}\n[devices]\n\
         d={{host=['n{{01..{hosts:02}}}'],path='{device}'}}\n[replay]\ndevice='d'\n"
    )
}

/// Campaigns in a directory, whose agents keep everything there as well.
struct Site {
    fixture: Fixture,
}

impl Site {
    fn new() -> Self {
        Self { fixture: Fixture::regular(600, 2000) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.fixture.path(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.fixture.command(arguments);
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn run(&self, text: &str) -> Output {
        fs::write(self.path("c.toml"), text).unwrap();
        self.command(&["campaign", "run", "c.toml", "--json"]).output().unwrap()
    }

    /// A campaign that goes on, and whose output is read at its end.
    fn begin(&self, text: &str) -> Child {
        fs::write(self.path("c.toml"), text).unwrap();
        let mut command = self.command(&["campaign", "run", "c.toml"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The directories of all attempts.
    fn attempts(&self) -> Vec<PathBuf> {
        let below = |path: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let cells = below(&self.path("c.campaign/cells"));
        let mut attempts: Vec<PathBuf> = cells.iter().flat_map(|cell| below(cell)).collect();
        attempts.sort();
        attempts
    }

    /// Those that have a run of all. A machine that others keep busy may stall a host, and then an
    /// attempt ends without one, or it is a fault of the measurement, and is made again.
    fn whole(&self) -> Vec<PathBuf> {
        let is_whole = |attempt: &PathBuf| attempt.join("run/summary.json").exists();
        self.attempts().into_iter().filter(is_whole).collect()
    }

    /// The last of them.
    fn measured(&self, output: &Output) -> PathBuf {
        self.whole().pop().unwrap_or_else(|| panic!("{}", said(output)))
    }

    /// Results that agents still keep.
    fn kept(&self) -> usize {
        let output = Command::new("find")
            .arg(self.path(""))
            .args(["-path", "*/spool/*", "-name", "summary.json"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().lines().count()
    }
}

fn json(path: &Path) -> Value {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).unwrap()
}

fn check<'v>(summary: &'v Value, name: &str) -> &'v Value {
    let checks = summary["verdict"]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn two_agents_begin_together_and_are_judged_as_one() {
    let site = Site::new();
    for host in ["n01", "n02"] {
        fs::write(site.path(&format!("{host}.img")), vec![7; 16 << 20]).unwrap();
    }
    let device = site.path("{host}.img").display().to_string();
    let more = "trace='load'\nread-only=true\nallow-cached=true\n";
    let output =
        site.run(&format!("{}{more}", campaign(2, &device, "start.skew='10s'\nretries=5")));
    let (attempt, attempts) = (site.measured(&output), site.attempts().len());
    let whole = json(&attempt.join("run/summary.json"));
    // A third of the load are writes, which are left out.
    assert_eq!(whole["recorded"], 800);
    assert_eq!(whole["merged"].as_array().unwrap().len(), 2);
    let skew = check(&whole, "start-skew");
    assert_eq!(skew["grade"], "pass", "{skew}");
    // Agents of one machine have one clock, so the truth is known: zeros differ by what the runs
    // say themselves.
    let start = json(&attempt.join("start.json"));
    let mut zeros = Vec::new();
    for (host, of_run) in start["hosts"].as_array().unwrap().iter().zip(["n01", "n02"]) {
        assert_eq!(host["host"], of_run);
        let run = attempt.join("hosts").join(of_run).join("run/run.toml");
        let facts: toml::Table = fs::read_to_string(run).unwrap().parse().unwrap();
        let zero = facts["zero_monotonic_ns"].as_integer().unwrap();
        let ends = host["zero_ns"].as_array().unwrap();
        let [low, high] = [0, 1].map(|end: usize| ends[end].as_i64().unwrap());
        assert!(low <= zero && zero <= high, "{zero} is not within {low} and {high}");
        zeros.push(zero);
    }
    let begun = |run: &Value| run["begun"]["bound_ns"].as_i64().unwrap();
    let bound: i64 = whole["merged"].as_array().unwrap().iter().map(begun).sum();
    let shift = |run: &Value| run["shift_ns"].as_i64().unwrap();
    let shifts: Vec<i64> = whole["merged"].as_array().unwrap().iter().map(shift).collect();
    let (told, truth) = (shifts[1] - shifts[0], zeros[1] - zeros[0]);
    assert!((told - truth).abs() <= bound, "{told} is told, {truth} is true, ± {bound}");
    // Pages are drawn here: one from a host would be opened with whatever it holds.
    assert!(attempt.join("run/report.html").exists());
    assert!(!attempt.join("hosts/n01/run/report.html").exists());
    assert_eq!(site.kept(), 0, "what is fetched is dropped");
    let again = site.command(&["campaign", "run", "c.toml"]).output().unwrap();
    assert_eq!(again.status.code(), output.status.code(), "{}", said(&again));
    assert_eq!(site.attempts().len(), attempts, "a cell is done once");
}

#[test]
fn each_host_gets_its_load_and_the_first_hosts_are_an_axis() {
    let site = Site::new();
    let text = campaign(3, "sim:size=16M", "retries=5");
    let loads = "trace=['gen:random?rate={1..2}00&duration=1s&size=4k&area=1M']\n\
                 [axes]\ntargets-max=[1,3]\n";
    let output = site.run(&format!("{text}{loads}"));
    assert!(output.status.success(), "{}", said(&output));
    let mut recorded: Vec<u64> = site
        .whole()
        .iter()
        .map(|attempt| json(&attempt.join("run/summary.json"))["recorded"].as_u64().unwrap())
        .collect();
    recorded.sort_unstable();
    let near = |count: u64, wanted: u64| count.abs_diff(wanted) < wanted / 3;
    // One host has 100 a second; three have 100, 200 and 100 again.
    let [one, three] = recorded[..] else { panic!("{recorded:?}") };
    assert!(near(one, 100) && near(three, 400), "{recorded:?}");
}

#[test]
fn cells_on_different_hosts_go_on_together_and_a_host_does_one_at_a_time() {
    let site = Site::new();
    let text = "name='c'\nretries=5\nparallel='host'\norder='written'\n\
                [hosts]\n\"n{1..2}\"={launch=[]}\n\
                [devices]\na={host='n1',path='sim:size=16M'}\nb={host='n2',path='sim:size=24M'}\n\
                c={host='n1',path='sim:size=32M'}\n[axes]\ndevice=['a','b','c']\n[replay]\n\
                trace='gen:random?rate=100&duration=1s&size=4k&area=1M'\n";
    let output = site.run(text);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("n1 and 1 more call themselves"), "{}", said(&output));
    let device = |key: &str| -> String {
        let cell = json(&site.path(&format!("c.campaign/cells/{key}/cell.json")));
        cell["device"].as_str().unwrap().to_owned()
    };
    let journal = fs::read_to_string(site.path("c.campaign/journal.jsonl")).unwrap();
    let happened = journal.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let word = ["attempt", "ended"].into_iter().find(|it| line["what"][it].is_object())?;
        Some(format!("{word} {}", device(line["what"][word]["key"].as_str().unwrap())))
    });
    let happened: Vec<String> = happened.collect();
    assert_eq!(happened[..2], ["attempt a", "attempt b"]);
    // An attempt that a busy machine has failed is made again.
    let first = |what: &str| happened.iter().position(|it| it == what).unwrap();
    let last = happened.iter().rposition(|it| it == "ended a").unwrap();
    assert!(last < first("attempt c") && first("ended b") < happened.len(), "{happened:?}");
    assert_eq!(site.kept(), 0);
}

#[test]
fn a_device_that_is_not_there_refuses_the_campaign_and_names_the_host() {
    let site = Site::new();
    let text = format!("{}trace='load'\n", campaign(2, "/no/such/device", ""));
    let output = site.run(&text);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("n01: /no/such/device"), "{}", said(&output));
    assert_eq!(site.attempts().len(), 0);
}

#[test]
fn more_hosts_than_files_may_be_open_are_refused_before_anything_begins() {
    let site = Site::new();
    let load = "trace='gen:random?rate=100&duration=1s&size=4k&area=1M'\n";
    fs::write(site.path("c.toml"), campaign(40, "sim:size=16M", "") + load).unwrap();
    let limited = |limits: &str| {
        let script = format!("{limits}; exec \"$0\" campaign run c.toml");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(site.command(&[]).get_program());
        shell.current_dir(site.path("")).env("XDG_CACHE_HOME", site.path("cache"));
        shell.output().unwrap()
    };
    let output = limited("ulimit -n 300");
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("40 hosts need 376 open files"), "{}", said(&output));
    assert_eq!(site.attempts().len(), 0);
    // Within what is allowed it helps itself.
    let output = limited("ulimit -Sn 300");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn hosts_are_asked_before_anything_runs_and_nothing_is_left_there() {
    let site = Site::new();
    fs::write(site.path("n1.img"), vec![7; 1 << 20]).unwrap();
    let at = site.path("").display().to_string();
    let text = format!(
        "name='c'\n[hosts]\nn1={{launch=[]}}\nn2={{launch=[]}}\n\
         n3={{launch=['env','X=1'],directory='{at}/elsewhere'}}\n\
         n4={{launch=['false']}}\n[devices]\n\
         d={{host=['n{{1..4}}'],path='{at}/{{host}}.img'}}\n[replay]\ndevice='d'\n\
         trace='gen:random?rate=100&duration=1s&size=4k&area=1M'\n"
    );
    fs::write(site.path("c.toml"), text).unwrap();
    let plan = |more: &[&str]| {
        let words = [&["campaign", "plan", "c.toml", "--probe"], more].concat();
        site.command(&words).output().unwrap()
    };
    let output = plan(&["--json"]);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    let plan_json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let hosts = plan_json["hosts"].as_array().unwrap();
    let states: Vec<&str> = hosts.iter().map(|host| host["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ready", "ready", "no-program", "unusable"]);
    for host in &hosts[..2] {
        // All are one machine, whose clock is its own.
        let end = |end: &str| host["clock"]["offset"][end].as_i64().unwrap();
        assert!(end("low_ns") <= 0 && 0 <= end("high_ns"), "{host}");
        assert!(host["facts"]["kernel"].is_string(), "{host}");
    }
    assert!(hosts[0]["devices"][0]["fault"].is_null(), "{}", hosts[0]);
    let fault = hosts[1]["devices"][0]["fault"].as_str().unwrap();
    assert!(fault.contains("n2.img"), "{fault}");
    let output = plan(&[]);
    let told = said(&output);
    assert!(
        told.contains("n1: ready, kernel ") && told.contains("clock is known within"),
        "{told}"
    );
    assert!(told.contains("n3: reached; `run` sends it the program"), "{told}");
    assert!(!site.path("elsewhere").exists() && !site.path("c.campaign").exists());
}

/// The response times in a run's requests, ns.
fn responses(site: &Site, run: &Path) -> Vec<u64> {
    let table = run.with_extension("csv");
    let requests = run.join("requests.parquet");
    let words = ["convert", &requests.display().to_string(), &table.display().to_string()];
    let output = site.command(&words).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let text = fs::read_to_string(&table).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|it| *it == name).unwrap();
    let (due, done) = (column("scheduled_ns"), column("completed_ns"));
    lines.map(|row| row[done].parse::<u64>().unwrap() - row[due].parse::<u64>().unwrap()).collect()
}

#[test]
fn percentiles_of_thirty_two_hosts_are_those_of_all_their_requests() {
    let site = Site::new();
    // Hosts get different loads, so a mean of their percentiles would be another figure.
    let text = campaign(32, "sim:size=16M,service=1ms,seed=7", "retries=5");
    let loads = "trace=['load','gen:random?rate=900&duration=2s&size=4k&area=1M']\n";
    let output = site.run(&format!("{text}{loads}"));
    assert!(output.status.success(), "{}", said(&output));
    let attempt = site.measured(&output);
    let whole = json(&attempt.join("run/summary.json"));
    let mut all = Vec::new();
    for host in 1..=32 {
        all.extend(responses(&site, &attempt.join(format!("hosts/n{host:02}/run"))));
    }
    all.sort_unstable();
    let told = &whole["response_time"]["all"];
    assert_eq!(whole["recorded"], all.len(), "every request is accounted for");
    assert_eq!(told["count"], all.len());
    for (name, share) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p99_9_ns", 0.999)] {
        let exact = all[(share * all.len() as f64).ceil() as usize - 1] as f64;
        let told = told[name].as_u64().unwrap() as f64;
        // Bins of three digits.
        assert!((told - exact).abs() <= exact * 0.002, "{name}: {told}, and {exact} by a recount");
    }
}
