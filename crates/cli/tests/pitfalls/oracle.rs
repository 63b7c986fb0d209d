//! The headline, compared with the provoked cause.
//!
//! It is not enough that a check fails. The first sentence names one cause, and its reader believes
//! it. So these are runs with a known fault. Each has the finding, the words for its cause, and the
//! checks that must not pass; all others must pass, or be explained by what is named.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use ioecho_fixture::{LoopDevice, can_record, or_skip};
use serde_json::Value;

use crate::fixture::{Fixture, check, grade};

/// A run with a known fault.
struct Provoked {
    what: &'static str,
    load: &'static str,
    target: &'static str,
    options: &'static [&'static str],
    /// The word of the finding, the exit code, and the grade of the run.
    finding: &'static str,
    code: i32,
    validity: &'static str,
    /// Words that the first sentence must contain.
    says: &'static str,
    /// The checks that do not pass, and that nothing else explains.
    broken: &'static [&'static str],
}

const QUEUE: &str = "sim:model=const,units=1,service=200us,bandwidth=100000G";
const SMALL: &str = "gen:random?size=4k&rate=1000&count=2000&area=16M";
const PGBENCH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pgbench.parquet");
const SQLITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sqlite.parquet");
const BURSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/bursts.parquet");
const CROWDED: &str = "gen:random?read=0&size=4k&rate=1000&count=2000&area=64k";

const RUNS: &[Provoked] = &[
    Provoked {
        what: "a device that can take its load",
        load: "gen:random?rate=4500&dist=poisson&duration=30s&area=60G&seed=1",
        target: QUEUE,
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Faithful: 99 % of",
        broken: &[],
    },
    Provoked {
        what: "a device at 101 % of what it can do, which takes every request in time",
        load: "gen:random?rate=5050&dist=poisson&duration=30s&area=60G&seed=1",
        target: QUEUE,
        options: &[],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "What waited for it grew until the load ended",
        broken: &[],
    },
    Provoked {
        what: "the same at 102 %",
        load: "gen:random?rate=5100&dist=poisson&duration=30s&area=60G&seed=2",
        target: QUEUE,
        options: &[],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "What waited for it grew until the load ended",
        broken: &[],
    },
    Provoked {
        what: "a device that is steady and slow, and keeps up",
        load: "gen:random?size=4k&rate=1000&duration=30s&area=16M",
        target: "sim:model=const,size=16m,service=300ms,units=4096",
        options: &["--conflicts", "allow"],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Faithful: 99 % of",
        broken: &[],
    },
    Provoked {
        what: "requests that overlap on a slow device",
        load: CROWDED,
        target: "sim:model=const,size=64k,service=20ms",
        options: &[],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "requests waited for others in flight that they overlap",
        broken: &["conflicts"],
    },
    Provoked {
        what: "a cap that somebody set to one",
        load: SMALL,
        target: "sim:model=const,size=16m,service=5ms",
        options: &["--in-flight-max", "1"],
        finding: "device-limited",
        code: 10,
        validity: "suspect",
        says: "Limited by the cap: no more than 1 in flight",
        broken: &["queue-depth"],
    },
    Provoked {
        what: "no schedule at all",
        load: "gen:random?size=4k&rate=1000&count=20000&area=16M",
        target: "sim:model=const,size=16m,service=100us",
        options: &["--timing", "afap"],
        finding: "unscheduled",
        code: 0,
        validity: "valid",
        says: "As fast as possible: 20000 requests in",
        broken: &[],
    },
    Provoked {
        what: "no schedule, on a device that stands still for a second now and then",
        load: "gen:random?rate=1000&duration=300s&area=60G&read=0&seed=3",
        target: "sim:model=ssd,units=1,program=100us,bandwidth=1000G,gc=0.0001:1s",
        options: &["--timing", "afap", "--in-flight-max", "1"],
        finding: "unscheduled",
        code: 0,
        validity: "suspect",
        says: "Nothing was completed for",
        broken: &["standstill"],
    },
    Provoked {
        what: "a device that fails every tenth request",
        load: SMALL,
        target: "sim:size=16m,errors=0.1",
        options: &[],
        finding: "faithful",
        code: 14,
        validity: "invalid",
        says: "Invalid: failures.",
        broken: &["failures"],
    },
    Provoked {
        what: "a device that never answers some",
        load: SMALL,
        target: "sim:size=16m,hang=0.01",
        options: &[],
        finding: "incomplete",
        code: 13,
        validity: "invalid",
        says: "Incomplete: the device never answered what was in flight.",
        broken: &["accounted"],
    },
    Provoked {
        what: "a device that betrays the data",
        load: "gen:random?read=0.5&size=4k&rate=1000&count=2000&area=1M",
        target: "sim:model=const,size=1m,lies=0.05",
        options: &["--verify", "final"],
        finding: "data-damaged",
        code: 15,
        validity: "valid",
        says: "Data damaged (",
        broken: &["integrity"],
    },
    Provoked {
        what: "a target of a quarter of the load's size",
        load: "gen:random?size=4k&rate=2000&count=2000&area=64M",
        target: "sim:model=const,size=16m",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: wraparound.",
        broken: &["wraparound"],
    },
    Provoked {
        what: "a target of a sixty-fourth of it",
        load: "gen:random?size=4k&rate=2000&count=2000&area=1G",
        target: "sim:model=const,size=16m",
        options: &[],
        finding: "faithful",
        code: 14,
        validity: "invalid",
        says: "Invalid: wraparound.",
        broken: &["wraparound"],
    },
    Provoked {
        what: "another speed than the recorded one",
        load: SMALL,
        target: "sim:model=const,size=16m,service=100us",
        options: &["--speedup", "4"],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Replayed at 4 times the recorded speed.",
        broken: &[],
    },
    Provoked {
        what: "requests dropped on conflict",
        load: CROWDED,
        target: "sim:model=const,size=64k,service=20ms",
        options: &["--conflicts", "drop"],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "DROPPED on conflict:",
        broken: &["conflicts"],
    },
    Provoked {
        what: "a device that is gone before the end",
        load: "gen:random?size=4k&rate=1000&count=5000&area=16M",
        target: "sim:model=const,size=16m,vanish=4900ms",
        options: &[],
        finding: "faithful",
        code: 14,
        validity: "invalid",
        says: "Invalid: failures.",
        broken: &["failures"],
    },
    Provoked {
        what: "a device that betrays the data, seen by the reads of the load",
        load: "gen:random?read=50&size=4k&rate=1000&count=4000&area=1M",
        target: "sim:model=const,size=1m,lies=0.02",
        options: &["--verify", "reads"],
        finding: "data-damaged",
        code: 15,
        validity: "valid",
        says: "Data damaged (",
        broken: &["integrity"],
    },
    Provoked {
        what: "a recorded load twice, on two devices",
        load: BURSTS,
        target: "sim:size=1G,speed=0.5",
        options: &["-t", "sim:size=1G,speed=0.5,seed=2", "--merge", BURSTS],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: same-load.",
        broken: &["same-load"],
    },
    Provoked {
        what: "a recorded load on a device a hundred times as slow as the recorded one",
        load: PGBENCH,
        target: "sim:model=const,size=1G,service=20ms",
        options: &["--duration", "10s"],
        finding: "device-limited",
        code: 10,
        validity: "suspect",
        says: "Device-limited: requests waited for others in flight that they overlap",
        broken: &["in-flight"],
    },
    Provoked {
        what: "a recorded load on a single disk",
        load: SQLITE,
        target: "sim:model=disk,size=512M",
        options: &["--duration", "20s"],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "Device-limited: the device could not take the load. What waited for it grew",
        broken: &[],
    },
    Provoked {
        what: "large writes that overlap in part, on a device that has room for all of them",
        load: "gen:random?read=0&size=1M&align=4k&rate=100&count=4000&area=32M",
        target: "sim:model=const,size=1G,units=64,service=20ms,bandwidth=10G",
        options: &[],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "Device-limited: requests waited for others in flight that they overlap",
        broken: &["conflicts"],
    },
    Provoked {
        what: "a recorded load on a device that stands still for 800 ms now and then",
        load: PGBENCH,
        target: "sim:model=ssd,size=1G,gc=0.0005:800ms",
        options: &[],
        finding: "device-limited",
        code: 10,
        validity: "valid",
        says: "which the device had not done yet; 629 requests (2.01 %)",
        broken: &[],
    },
    Provoked {
        what: "a load in a corner of a disk",
        load: "gen:random?size=4k&rate=50&count=2000&area=1G",
        target: "sim:model=disk,size=100G",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: wraparound.",
        broken: &["wraparound"],
    },
    Provoked {
        what: "half of the load without a target",
        load: "two-volumes.csv",
        target: "sim:model=const,size=16m,service=100us",
        options: &["--map", "0=1"],
        finding: "faithful",
        code: 14,
        validity: "invalid",
        says: "Invalid: issued.",
        broken: &["issued"],
    },
    Provoked {
        what: "a recording whose latencies its converter guessed",
        load: "guessed.load",
        target: "sim:model=const,size=16m,service=200us",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: recording.",
        broken: &["recording"],
    },
    Provoked {
        what: "a part of a recording that knows the second only",
        load: "seconds.csv",
        target: "sim:model=const,size=16m,service=20us",
        options: &["--whole-seconds", "even", "--duration", "20s"],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Changed beforehand by window first,20s. Simulated: no storage was measured. Read \
               with care: recording.",
        broken: &["recording"],
    },
    Provoked {
        what: "a part of a recording whose unit was guessed",
        load: "four-numbers.txt",
        target: "sim:model=const,size=16m,service=20us",
        options: &["--duration", "200ms"],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Faithful: 99 % of",
        broken: &[],
    },
    Provoked {
        what: "a device that takes twenty times as long as the recorded one",
        load: "recorded.csv",
        target: "sim:model=const,size=16m,service=2ms,units=64",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: in-flight.",
        broken: &["in-flight"],
    },
    Provoked {
        what: "a device that takes a twentieth of the time of the recorded one",
        load: "recorded.csv",
        target: "sim:model=const,size=16m,service=5us,units=64",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Faithful: 99 % of",
        broken: &["in-flight"],
    },
    Provoked {
        what: "a run that was asked to end early",
        load: "gen:random?rate=1000&duration=60s&size=4k&area=16M",
        target: "sim:model=const,size=16m,service=100us",
        options: &["--end-after", "2s"],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "The run ended after 2.00 s, as was asked for.",
        broken: &[],
    },
    Provoked {
        what: "a device that stands still for a second now and then, under a schedule",
        load: "gen:random?rate=1000&duration=60s&area=60G&read=0&seed=3",
        target: "sim:model=ssd,units=1,program=100us,bandwidth=1000G,gc=0.0001:1s",
        options: &[],
        finding: "faithful",
        code: 0,
        validity: "valid",
        says: "Faithful: 99 % of",
        broken: &[],
    },
    Provoked {
        what: "two volumes with one load",
        load: "twice.csv",
        target: "sim:model=const,size=16m,service=20us,units=8",
        options: &["--map", "*=1"],
        finding: "faithful",
        code: 0,
        validity: "suspect",
        says: "Read with care: same-load.",
        broken: &["same-load"],
    },
];

/// Writes the recordings with known faults.
fn record(fixture: &Fixture) {
    let native = |name: &str, rows: &dyn Fn(u64) -> String| {
        let columns = "issue_ns,op,flags,offset_bytes,length_bytes,volume,latency_ns\n";
        let rows: String = (0..2000).map(rows).collect();
        fs::write(fixture.path(name), columns.to_owned() + &rows).unwrap();
    };
    let offset = |n: u64| n * 7919 % 2000 * 4096;
    native("two-volumes.csv", &|n| format!("{},read,,{},4096,{},\n", n * MS, offset(n), n % 2));
    native("recorded.csv", &|n| format!("{},read,,{},4096,0,100000\n", n * MS, offset(n)));
    // Fewer and fewer, at the same instants for both volumes.
    native("twice.csv", &|n| {
        let at = (n / 2) * (n / 2) * 5000;
        format!("{at},read,,{},4096,{},\n", offset(n), n % 2)
    });
    let mut guessed =
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration (guessed)\n".to_owned();
    let (mut seconds, mut numbers) = (String::new(), String::new());
    for n in 0..2000 {
        let (at, sector) = (n * 5, offset(n) / 512);
        let _ = writeln!(
            guessed,
            "{}.{:03}000000 ; {sector} ; 8 ; R ; 0.0 ; 0.000200000",
            at / 1000,
            at % 1000
        );
        // Tencent's columns: second, sector, sectors, write?, volume.
        let _ = writeln!(seconds, "{},{sector},8,0,1063", 1_538_323_200 + n / 40);
    }
    // More than what is read at once.
    for n in 0..20_000 {
        let _ = writeln!(numbers, "{n} {} 8 {}", offset(n) / 512, n % 2);
    }
    for (name, text) in
        [("guessed.load", guessed), ("seconds.csv", seconds), ("four-numbers.txt", numbers)]
    {
        fs::write(fixture.path(name), text).unwrap();
    }
}

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// The words for causes, each with the runs that may have it. In the headline of another run they
/// are wrong.
const CAUSES: [(&str, &str); 8] = [
    ("device-limited", "Device-limited"),
    ("device-limited", "Limited by the cap"),
    ("generator-limited", "Generator-limited"),
    ("host-stalled", "Host-stalled"),
    ("foreign-load", "Foreign load"),
    ("unscheduled", "As fast as possible"),
    ("incomplete", "Incomplete"),
    ("data-damaged", "Data damaged"),
];

#[test]
fn each_headline_names_the_cause_that_was_provoked_and_no_other() {
    let fixture = Fixture::new();
    record(&fixture);
    let mut wrong = Vec::new();
    for (number, run) in RUNS.iter().enumerate() {
        let name = format!("run{number}");
        let mut command: Command =
            fixture.command(&["replay", run.load, "-t", run.target, "-q", "-o", &name]);
        let code = command.args(run.options).output().unwrap().status.code();
        let verdict = &fixture.summary(&name)["verdict"];
        let word = |key: &str| verdict[key].as_str().unwrap_or_default().to_owned();
        let summary = word("summary");
        let not_passed = || {
            let checks = verdict["checks"].as_array().unwrap().iter();
            checks.filter(|check| !["pass", "not-applicable"].contains(&grade_of(check)))
        };
        let causes = not_passed().filter(|check| check["explained_by"].is_null());
        let mut broken: Vec<&str> = causes.filter_map(|check| check["name"].as_str()).collect();
        broken.sort_unstable();
        let told: Vec<&str> = not_passed()
            .filter_map(|check| check["name"].as_str())
            .chain(verdict["finding"].as_str())
            .collect();
        let explained = not_passed().filter_map(|check| check["explained_by"].as_str());
        let untold = explained.filter(|cause| !told.contains(cause)).count();
        let others = CAUSES.iter().filter(|(finding, _)| *finding != run.finding);
        let misnamed = others.filter(|(_, words)| summary.contains(words)).count();
        let is_right = word("finding") == run.finding
            && word("validity") == run.validity
            && code == Some(run.code)
            && summary.contains(run.says)
            && misnamed + untold == 0
            && broken == run.broken;
        if !is_right {
            let validity = word("validity");
            wrong.push(format!("{}: {code:?} {validity} {broken:?}: {summary}", run.what));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn one_load_on_two_devices_in_two_processes_is_told_of_both_together() {
    let fixture = Fixture::new();
    let load =
        |seed: u32| format!("gen:random?rate=500&dist=poisson&duration=30s&area=16M&seed={seed}");
    for (run, seed) in [("one", 1), ("copy", 1), ("other", 2)] {
        let target = "sim:model=const,size=16m,service=100us";
        let arguments = ["replay", &load(seed), "-t", target, "-q", "-o", run];
        assert_eq!(fixture.ioecho(&arguments).status.code(), Some(0), "{run}");
    }
    let merged = |other: &str, output: &str| {
        fixture.ioecho(&["merge", "one", other, "-o", output]);
        fixture.summary(output)["verdict"]["summary"].as_str().unwrap().to_owned()
    };
    let told = "Of all together, and of none alone: same-load (suspect).";
    let (copies, others) = (merged("copy", "copies"), merged("other", "others"));
    assert!(copies.ends_with(told), "{copies}");
    assert!(!others.contains("same-load"), "{others}");
}

#[test]
fn guesses_about_all_of_a_trace_are_told_of_a_part_of_it() {
    let fixture = Fixture::new();
    record(&fixture);
    let recording = |load: &str, options: &[&str], run: &str| {
        let target = "sim:model=const,size=16m,service=20us";
        let replay = ["replay", load, "-t", target, "-q", "-o", run];
        fixture.ioecho(&[&replay[..], options].concat());
        check(&fixture.path(run), "recording")["measured"].as_str().unwrap().to_owned()
    };
    let seconds = ["--whole-seconds", "even"];
    assert_eq!(recording("seconds.csv", &seconds, "all"), "2000 with guessed instants (100 %)");
    let part = recording("seconds.csv", &[&seconds[..], &["--duration", "20s"]].concat(), "part");
    let told = "of 2000 requests that were read, 800 of them replayed: 2000 with guessed instants";
    assert!(part.starts_with(told), "{part}");
    // Far more is read ahead to be sorted than is replayed.
    let long: String = (0..70_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{},{},8,0,1063", 1_538_323_200 + n / 40, n % 2000 * 8);
        text
    });
    fs::write(fixture.path("long.csv"), long).unwrap();
    let burst = ["--whole-seconds", "burst", "--duration", "20s"];
    let ahead = recording("long.csv", &burst, "burst");
    assert!(ahead.ends_with(" with guessed instants (100 %)"), "{ahead}");
    let numbers = recording("four-numbers.txt", &["--duration", "200ms"], "numbers");
    assert!(numbers.contains("200 of them replayed: other guesses: "), "{numbers}");
}

#[test]
fn a_stranger_on_the_device_is_named_and_not_the_device() {
    let fixture = Fixture::new();
    let device = or_skip!(LoopDevice::new(64 << 20));
    let load = "gen:random?read=100&size=4k&rate=500&duration=3s&area=32M";
    let replay = ["replay", load, "-t", device.path(), "--read-only", "--witness", "-q"];
    let dry = fixture.ioecho(&[&replay[..], &["-o", "dry", "--dry-run"]].concat());
    or_skip!(can_record(&dry));
    // On a host that is too busy for a schedule, that is the finding.
    let mut others = Vec::new();
    for run in ["first", "second", "third"] {
        let read = "while :; do dd if=\"$1\" of=/dev/null bs=64k count=64 iflag=direct; done";
        let mut command = Command::new("sh");
        command.args(["-c", read, "sh", device.path()]).stderr(Stdio::null());
        let mut stranger = command.spawn().unwrap();
        fixture.ioecho(&[&replay[..], &["-o", run]].concat());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
        let verdict = &fixture.summary(run)["verdict"];
        if verdict["finding"] == "foreign-load" {
            let summary = verdict["summary"].as_str().unwrap();
            assert!(summary.starts_with("Foreign load: "), "{summary}");
            assert_eq!(grade(&fixture.path(run), "witness"), "invalid", "{summary}");
            let (code, _) = fixture.checked(&["check", run, "--json"]);
            assert_eq!(code, Some(22));
            return;
        }
        others.push(verdict["summary"].clone());
    }
    assert!(others.iter().all(|told| told.as_str().unwrap().starts_with("Host-")), "{others:?}");
}

fn grade_of(check: &Value) -> &str {
    check["grade"].as_str().unwrap_or_default()
}
