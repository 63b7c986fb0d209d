//! The runs of described workloads: done, kept, taken up again, repeated, or refused.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ioecho_fixture::{MountPoint, or_skip};
use ioecho_trace::formats::{ReadOptions, open};
use ioecho_trace::{Batch, Op, Outcome, Request};
use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

/// 100,000 requests a second at most: ten servers with exponential service times.
const DEVICE: &str = "*=sim:model=exp,units=10,service=100us,bandwidth=1T";

/// Two loads with shares on two devices.
const MIXED: &str = "sd=one,lun=/dev/none1,size=1g\nsd=two,lun=/dev/none2,size=1g,threads=4\n\
    wd=oltp,sd=(one,two),rdpct=70,xfersize=(4k,60,8k,40),skew=75\n\
    wd=scan,sd=one,seekpct=0,xfersize=64k,skew=25\n\
    rd=full,wd=(oltp,scan),iorate=max,elapsed=1,forthreads=(2,8)\n\
    rd=slow,wd=(oltp,scan),iorate=2000,elapsed=1\n";

fn put(home: &TempDir, name: &str, text: &str) {
    fs::write(home.path().join(name), text).unwrap();
}

/// Runs a file; answers the exit code and what was said.
fn run(home: &TempDir, arguments: &[&str]) -> (i32, String) {
    let output = ioecho(home.path(), &[&["run", "-q"], arguments].concat());
    (output.status.code().unwrap(), said(&output))
}

/// The runs of a directory of results by the values that they are known by: `full 8 max`. One that
/// was killed before it was told what it is has none.
fn runs(store: &Path) -> BTreeMap<String, PathBuf> {
    let cells = fs::read_dir(store.join("cells")).unwrap().map(|entry| entry.unwrap().path());
    let of_cell = |cell: PathBuf| {
        let json: Value = serde_json::from_slice(&fs::read(cell.join("cell.json")).ok()?).unwrap();
        let values = json["point"].as_array().unwrap().iter();
        let values: Vec<&str> = values.map(|pair| pair[1].as_str().unwrap()).collect();
        Some((values.join(" "), cell))
    };
    cells.filter_map(of_cell).collect()
}

fn attempt(cell: &Path, number: u32) -> Value {
    let path = cell.join(number.to_string()).join("attempt.json");
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn figure(cell: &Path, name: &str) -> f64 {
    let attempt = attempt(cell, 1);
    let figure = attempt["end"]["measured"]["figures"][name].as_f64();
    figure.unwrap_or_else(|| panic!("no {name}: {attempt}"))
}

fn rows(cell: &Path) -> Vec<Request> {
    let mut source = open(&cell.join("1/run/requests.parquet"), &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let mut rows = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        rows.extend(batch.iter());
    }
    rows
}

#[test]
fn every_run_of_a_file_is_a_cell_with_all_its_storages_and_loads() {
    let home = TempDir::new().unwrap();
    put(&home, "mix.vdb", MIXED);
    let (code, told) = run(&home, &["mix.vdb", "-t", DEVICE, "--seed", "7"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("3 with a result"), "{told}");
    let runs = runs(&home.path().join("mix.campaign"));
    let names: Vec<&String> = runs.keys().collect();
    assert_eq!(names, ["full 2 max", "full 8 max", "slow - 2000"]);
    let summary = fs::read(runs["full 8 max"].join("1/run/summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    let flows = summary["per_flow"].as_array().unwrap();
    let names: Vec<&str> = flows.iter().map(|flow| flow["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["oltp@one", "oltp@two", "scan@one"]);
    let count = |flow: usize| flows[flow]["requests"].as_u64().unwrap() as f64;
    let all = count(0) + count(1) + count(2);
    for (flow, share) in [(0, 0.375), (1, 0.375), (2, 0.25)] {
        assert!((count(flow) / all - share).abs() < 0.01, "{flows:?}");
    }
    assert_eq!(summary["per_target"].as_array().unwrap().len(), 2);
    let rate = figure(&runs["slow - 2000"], "iops");
    assert!((1900.0..2100.0).contains(&rate), "{rate}");
    // The command can be typed by hand.
    let command = attempt(&runs["full 2 max"], 1)["command"].to_string();
    assert!(command.contains("--flow=oltp@one=gen:random?read=70"), "{command}");
    assert!(command.contains("threads=2") && command.contains("--end-after=1s"), "{command}");
    // The page and the other commands of campaigns know it as one.
    assert!(home.path().join("mix.campaign/report.html").exists());
    let output = ioecho(home.path(), &["campaign", "status", "mix.campaign"]);
    assert!(said(&output).contains("3 with a result"), "{}", said(&output));
}

#[test]
fn equal_seeds_give_equal_rows_and_others_give_others() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g\nwd=a,sd=s,rdpct=50\nwd=b,sd=s,seekpct=0,xfersize=8k\n\
                rd=r,wd=(a,b),iorate=max,elapsed=300ms\n";
    put(&home, "a.vdb", &text.replace("elapsed=300ms", "elapsed=1"));
    let rows_of = |name: &str, seed: &str| {
        let words = ["a.vdb", "-t", DEVICE, "--seed", seed, "--set", "elapsed=200ms", "-o", name];
        let (code, told) = run(&home, &words);
        assert_eq!(code, 0, "{told}");
        rows(&runs(&home.path().join(name))["r max"])
    };
    let one = rows_of("one", "7");
    assert!(one.len() > 1000);
    assert!(one == rows_of("two", "7"));
    assert!(one != rows_of("three", "8"));
}

/// The probability that a customer of an M/M/c queue waits (Erlang's C formula).
fn erlang_c(servers: u32, busy: f64) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= busy / f64::from(k + 1);
    }
    let waiting = term / (1.0 - busy / f64::from(servers));
    waiting / (sum + waiting)
}

#[test]
fn a_curve_keeps_its_rates_and_its_response_times_are_those_of_the_queue() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g,threads=256\nwd=w,sd=s\n\
                rd=r,wd=w,iorate=curve,curve=(50,80),elapsed=2\n";
    put(&home, "curve.vdb", text);
    let (code, told) = run(&home, &["curve.vdb", "-t", DEVICE, "--seed", "3"]);
    assert_eq!(code, 0, "{told}");
    let runs = runs(&home.path().join("curve.campaign"));
    let most = figure(&runs["r max"], "iops");
    assert!((99_000.0..101_000.0).contains(&most), "{most}");
    for (name, share) in [("r 50%", 0.5), ("r 80%", 0.8)] {
        let asked = (most * share / 100.0).round() * 100.0;
        let rate = figure(&runs[name], "iops");
        assert!((rate / asked - 1.0).abs() < 0.01, "{name}: {rate} of {asked}");
        let busy = asked * 100e-6;
        let mean = 100e3 * (1.0 + erlang_c(10, busy) / (10.0 - busy));
        let found = figure(&runs[name], "mean.all.response");
        assert!((found / mean - 1.0).abs() < 0.03, "{name}: {found} ns, expected {mean} ns");
    }
}

#[test]
fn a_curve_stops_behind_the_point_whose_response_time_is_too_long() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g,threads=64\nwd=w,sd=s\n\
                rd=r,wd=w,iorate=curve,curve=(50,90,95,99),stopcurve=0.5,elapsed=1\n\
                rd=q,wd=w,iorate=1000,elapsed=1\n";
    put(&home, "a.vdb", text);
    // A queue of one server: 0.2 ms at 50 %, 1 ms at 90 %.
    let device = "*=sim:model=exp,units=1,service=100us,bandwidth=1T";
    let (code, told) = run(&home, &["a.vdb", "-t", device, "--seed", "3"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("4 with a result, 0 failed, 2 skipped, 0 missing"), "{told}");
    let runs = runs(&home.path().join("a.campaign"));
    let names: Vec<&String> = runs.keys().collect();
    assert_eq!(names, ["q 1000", "r 50%", "r 90%", "r max"]);
}

#[test]
fn a_killed_run_goes_on_with_its_seed_and_does_nothing_twice() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g\nwd=w,sd=s\n\
                rd=r,wd=w,iorate=max,elapsed=1,forxfersize=(4k,8k,16k,32k,64k,128k)\n";
    put(&home, "a.vdb", text);
    let words = ["run", "-q", "a.vdb", "-t", DEVICE];
    let mut child = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(words)
        .current_dir(home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let store = home.path().join("a.campaign");
    let is_one_done = || {
        let cells = fs::read_dir(store.join("cells"));
        let mut cells = cells.into_iter().flatten().flatten();
        cells.any(|cell| cell.path().join("1/attempt.json").exists())
    };
    let begun = Instant::now();
    while !is_one_done() && begun.elapsed() < Duration::from_mins(1) {
        thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let done = || {
        let all = runs(&store).into_iter();
        let done = all.filter(|(_, cell)| cell.join("1/attempt.json").exists());
        done.map(|(name, cell)| (name, attempt(&cell, 1)["started"].clone()))
            .collect::<BTreeMap<_, _>>()
    };
    let before = done();
    assert!((1..6).contains(&before.len()), "{before:?}");
    // The seed was drawn; the second run must draw none.
    let (code, told) = run(&home, &["a.vdb", "-t", DEVICE]);
    assert_eq!(code, 0, "{told}");
    assert!(!told.contains("was drawn") && told.contains("6 with a result"), "{told}");
    assert_eq!(runs(&store).len(), 6);
    let after = done();
    assert!(before.iter().all(|(name, started)| after.get(name) == Some(started)), "{after:?}");
    let output = ioecho(home.path(), &["campaign", "resume", "a.campaign", "-q"]);
    assert!(said(&output).contains("6 with a result"), "{}", said(&output));
}

#[test]
fn figures_are_those_behind_the_warm_up() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g\nwd=w,sd=s\n\
                rd=r,wd=w,iorate=(100,1,1000,1),dist=(variable,spike,d),elapsed=1,warmup=1\n";
    put(&home, "a.vdb", text);
    let (code, told) = run(&home, &["a.vdb", "-t", DEVICE, "--seed", "1"]);
    assert_eq!(code, 0, "{told}");
    let cell = &runs(&home.path().join("a.campaign"))["r changing"];
    assert!((1090..=1110).contains(&rows(cell).len()), "{}", rows(cell).len());
    let rate = figure(cell, "iops");
    assert!((990.0..1011.0).contains(&rate), "{rate}");
}

#[test]
fn equal_data_have_the_unit_of_the_file_or_that_of_vdbench() {
    let home = TempDir::new().unwrap();
    for (number, unit, flag) in [(0, "", "131072"), (1, ",dedupunit=2m", "2097152")] {
        let name = format!("{number}.vdb");
        let text = format!(
            "dedupratio=2{unit}\nsd=s,lun=/dev/none,size=1g\nwd=w,sd=s,rdpct=0\n\
             rd=r,wd=w,iorate=100,elapsed=1\n"
        );
        put(&home, &name, &text);
        let (code, told) = run(&home, &[&name, "-t", DEVICE, "--seed", "1"]);
        assert_eq!(code, 0, "{told}");
        let runs = runs(&home.path().join(format!("{number}.campaign")));
        let command = attempt(&runs["r 100"], 1)["command"].to_string();
        assert!(command.contains("--dedup=2"), "{command}");
        assert!(command.contains(&format!("--dedup-unit={flag}")), "{command}");
    }
}

#[test]
fn nothing_is_overwritten_without_leave_and_what_is_named_must_be_there() {
    let home = TempDir::new().unwrap();
    put(&home, "a.vdb", "sd=s,lun=file\nwd=w,sd=s,rdpct=0\nrd=r,wd=w,elapsed=1,iorate=50\n");
    fs::write(home.path().join("file"), vec![7_u8; 1 << 20]).unwrap();
    let (code, told) = run(&home, &["a.vdb"]);
    assert_eq!(code, 6, "{told}");
    assert!(told.contains("would overwrite file") && told.contains("--destroy file"), "{told}");
    assert_eq!(fs::read(home.path().join("file")).unwrap(), vec![7_u8; 1 << 20]);
    assert!(!home.path().join("a.campaign").exists());
    let (code, told) = run(&home, &["a.vdb", "--destroy", "flie"]);
    assert_eq!((code, told.contains("no run has such a storage")), (2, true), "{told}");
    // A busy host may spoil every attempt; the file is written to all the same.
    let (code, told) = run(&home, &["a.vdb", "--destroy", "s"]);
    assert!(matches!(code, 0 | 40), "{told}");
    assert_ne!(fs::read(home.path().join("file")).unwrap(), vec![7_u8; 1 << 20]);
}

#[test]
fn what_cannot_be_run_yet_is_refused_at_its_place_and_nothing_is_made() {
    let home = TempDir::new().unwrap();
    let head = "sd=s,lun=/dev/none,size=1g\nsd=t,lun=/dev/none2,size=1g\nwd=w,sd=(s,t)\n";
    for (text, place, reason) in [
        (format!("startcmd=ls\n{head}rd=r,wd=w\n"), "a.vdb:1:1", "commands of a file"),
        (
            format!("concatenatesds=yes,journal=yes\n{head}rd=r,wd=w\n"),
            "a.vdb:4:1",
            "as one volume: nothing is verified",
        ),
        (format!("{head}rd=r,wd=w,pause=2h\n"), "a.vdb:4:1", "too long"),
        (format!("hd=far,system=far\n{head}rd=r,wd=w\n"), "a.vdb:1:1", "other hosts"),
        (format!("dedupratio=2,dedupunit=5k\n{head}rd=r,wd=w\n"), "a.vdb:1:14", "multiple of 4k"),
        (format!("{head}wd=v,sd=s,priority=1\nrd=r,wd=v\n"), "a.vdb:4:11", "goes before another"),
        (
            "fsd=f,anchor=/tmp/x\nfwd=w,fsd=f,operation=copy,target=f\nrd=r,fwd=w\n".to_owned(),
            "a.vdb:2:1",
            "copies and moves are not run",
        ),
        (
            "fsd=f,anchor=/tmp/x\nfwd=w,fsd=f\nrd=r,fwd=w,foroperations=(read,move)\n".to_owned(),
            "a.vdb:3:1",
            "copies and moves are not run",
        ),
    ] {
        put(&home, "a.vdb", &text);
        // A plan on trees that cannot be run is not shown as if it could.
        let words: &[&str] = if text.starts_with("fsd") {
            &["a.vdb", "--dry-run"]
        } else {
            &["a.vdb", "-t", "*=sim", "--seed", "1"]
        };
        let (code, told) = run(&home, words);
        assert!(told.contains(place) && told.contains(reason), "{text}: {told}");
        assert_eq!(code, 2, "{told}");
        assert!(!home.path().join("a.campaign").exists());
    }
    // What no run uses is not in the way, and a storage that is not here has its remedy.
    put(&home, "a.vdb", &format!("{head}wd=v,sd=s,priority=1\nrd=r,wd=w\nrd=q,wd=v\n"));
    let (code, told) = run(&home, &["a.vdb", "--only", "r"]);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("a.vdb:1:1: /dev/none is not on this host"), "{told}");
    assert!(told.contains("a target such as s=sim:size=64G"), "{told}");
}

#[test]
fn an_amount_of_data_that_no_host_moves_in_its_time_is_told_to_count_for_nothing() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g\nwd=w,sd=s\n\
                rd=r,wd=w,iorate=(50,100),elapsed=1,maxdata=900t\n";
    put(&home, "a.vdb", text);
    let output = ioecho(home.path(), &["run", "a.vdb", "-t", DEVICE]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let told = said(&output);
    assert_eq!(told.matches("a.vdb:3:1: maxdata= and its kin count for nothing").count(), 1);
}

#[test]
fn an_amount_of_data_ends_a_run_of_several_loads_on_several_devices() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g\nsd=t,lun=/dev/none2,size=1g,threads=2\n\
                wd=w,sd=(s,t),xfersize=8k\nwd=v,sd=s,rdpct=0\n\
                rd=r,wd=(w,v),iorate=max,elapsed=60,maxdata=64m\n\
                rd=q,wd=(w,v),iorate=4000,elapsed=60,maxdatawritten=8m\n";
    put(&home, "a.vdb", text);
    let (code, told) = run(&home, &["a.vdb", "-t", DEVICE, "--seed", "4"]);
    assert_eq!(code, 0, "{told}");
    let runs = runs(&home.path().join("a.campaign"));
    let bytes_of = |cell: &Path, is_counted: fn(&Request) -> bool| {
        let all = rows(cell);
        all.iter().filter(|row| is_counted(row)).map(|row| row.length.0).sum::<u64>()
    };
    // With the request that reaches the amount, of each of the two devices.
    let all = bytes_of(&runs["r max"], |_| true);
    assert!((64 << 20..(64 << 20) + (8 << 10) * 2).contains(&all), "{all}");
    let written = bytes_of(&runs["q 4000"], |row| row.op == Op::Write);
    assert_eq!(written, 8 << 20);
}

/// Two storages of unequal size as one volume.
const JOINED: &str = "concatenatesds=yes\nsd=big,lun=big.img\nsd=small,lun=small.img\n\
    wd=any,sd=*,xfersize=4k,rdpct=50\nwd=seq,sd=*,xfersize=16k,seekpct=0,rdpct=0,threads=1\n\
    rd=any,wd=any,iorate=max,elapsed=30,maxdata=40m,threads=8\n\
    rd=seq,wd=seq,iorate=max,elapsed=30,maxdata=1m\n\
    rd=rate,wd=any,iorate=2000,elapsed=1\n";

#[test]
fn storages_as_one_volume_are_used_evenly_to_their_last_blocks_on_files_and_in_simulation() {
    const BLOCKS: [u64; 2] = [75, 25];
    for is_real in [true, false] {
        let home = TempDir::new().unwrap();
        put(&home, "a.vdb", JOINED);
        for (name, blocks) in ["big.img", "small.img"].iter().zip(BLOCKS) {
            let file = fs::File::create(home.path().join(name)).unwrap();
            // Half a block behind the last whole one is no place.
            file.set_len(blocks * 4096 + 2048).unwrap();
        }
        let mut arguments = vec!["a.vdb", "--seed", "4", "--destroy", "big,small"];
        let simulated = ["big=sim:size=309248", "small=sim:size=104448"];
        let simulated = simulated.map(|it| format!("{it},model=exp,units=4,service=100us"));
        if is_real {
            arguments.extend(["--only", "any,seq"]);
        } else {
            arguments = vec!["a.vdb", "--seed", "4", "-t", &simulated[0], "-t", &simulated[1]];
        }
        let (code, told) = run(&home, &arguments);
        // A host that stood still makes no other places.
        assert!(code == 0 || is_real && matches!(code, 14 | 40), "{told}");
        let runs = runs(&home.path().join("a.campaign"));
        let places = |rows: &[Request]| -> Vec<(u16, u64)> {
            let at = |row: &Request| {
                let measured = row.measured.as_ref().unwrap();
                assert_eq!(measured.outcome, Outcome::Ok);
                (measured.target, measured.target_offset.unwrap().0)
            };
            rows.iter().map(at).collect()
        };
        let any = rows(&runs["any 8 max"]);
        let mut counts = [vec![0_i64; 75], vec![0_i64; 25]];
        for (target, place) in places(&any) {
            counts[usize::from(target)][(place / 4096) as usize] += 1;
        }
        assert_eq!(any.len(), 10_240);
        // 99 degrees of freedom: the probability of more than 180 is one in a million.
        let squares = counts.iter().flatten().map(|count| (*count as f64 - 102.4).powi(2));
        let squares = squares.sum::<f64>() / 102.4;
        assert!(squares < 180.0, "{counts:?}");
        // Places are those of the volume, and the clients are those of all of it.
        let first = any.iter().zip(places(&any));
        let behind = |target: u16| if target == 0 { 0 } else { 75 * 4096 };
        assert!(first.into_iter().all(|(row, (target, at))| row.offset.0 == behind(target) + at));
        let in_flight = any.iter().map(|row| row.measured.as_ref().unwrap().in_flight);
        assert!(in_flight.max().unwrap() <= 8);
        // 18 requests fit on the first, 6 on the second; then it begins again.
        let walked = places(&rows(&runs["seq - max"]));
        assert_eq!(walked.len(), 64);
        for (number, place) in walked.iter().enumerate() {
            let number = number as u64 % 24;
            let expected =
                if number < 18 { (0, number * 16384) } else { (1, (number - 18) * 16384) };
            assert_eq!(*place, expected);
        }
        if !is_real {
            let due = rows(&runs["rate - 2000"]).len();
            assert!((1700..2300).contains(&due), "{due}");
        }
    }
}

#[test]
fn a_rate_that_the_device_cannot_serve_is_a_finding_and_a_curve_has_none() {
    let home = TempDir::new().unwrap();
    let text = "sd=s,lun=/dev/none,size=1g,threads=64\nwd=w,sd=s\n\
                rd=late,wd=w,iorate=2000,elapsed=1\nrd=kept,wd=w,iorate=500,elapsed=1\n\
                rd=c,wd=w,iorate=curve,curve=(50,100),elapsed=1\n";
    put(&home, "a.vdb", text);
    let device = ["-t", "*=sim:model=const,units=1,service=1ms", "--seed", "1", "--only"];
    let of = |only: &str, name: &str| {
        run(&home, &[&["a.vdb", "-o", name], &device[..], &[only]].concat())
    };
    let (code, told) = of("late,kept", "rates");
    assert_eq!(code, 10, "{told}");
    assert!(told.contains("late rate=2000: the device could not take the load"), "{told}");
    assert!(!told.contains("kept rate=500: the device"), "{told}");
    // Response times grow with the queue, of which service times know only what is in flight.
    let late = &runs(&home.path().join("rates"))["late 2000"];
    assert!(figure(late, "mean.all.response") > 2.0 * figure(late, "mean.all.service"));
    let (code, told) = of("c", "curve");
    assert_eq!(code, 0, "{told}");
}

/// Published files, where `IOECHO_DATA` says they are: every complete raw one runs in simulation.
/// Of each the first runs are done, for a moment of simulated time.
#[test]
fn published_files_run_in_simulation() {
    let Some(files) = ioecho_fixture::recording("vdbench-parmfiles") else { return };
    let mut files: Vec<PathBuf> =
        fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let home = TempDir::new().unwrap();
    let (mut done, mut wrong) = (0, Vec::new());
    for (number, file) in files.iter().enumerate() {
        let name = file.to_str().unwrap();
        let plan = ["run", name, "--dry-run", "--json", "--seed", "1"];
        let output = ioecho(home.path(), &plan);
        let Ok(plan) = serde_json::from_slice::<Value>(&output.stdout) else { continue };
        let first = &plan["runs"][0];
        if first["flows"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let only = first["run"].as_str().unwrap();
        let store = format!("{number}.s");
        let shrunk = ["--set", "elapsed=20ms", "--set", "warmup=0s", "--set", "pause=0s"];
        let words = [
            &[name, "-t", DEVICE, "--local", "--seed", "1", "--only", only, "-o", &store][..],
            &shrunk,
            &["--shrink", "100", "--budget", "1ms"],
        ];
        let (code, told) = run(&home, &words.concat());
        let results = told.lines().find(|line| line.starts_with("cells "));
        let is_some = results.is_some_and(|line| !line.contains(": 0 with a result"));
        // One volume of several storages is not there yet; the moment may be too short for a
        // request.
        let not_yet = ["as one volume", "it makes no request"];
        if not_yet.iter().any(|reason| told.contains(reason)) {
            continue;
        }
        if !matches!(code, 0 | 10 | 13) || !is_some || !told.contains(" 0 failed") {
            wrong.push(format!("{name}: {code}: {told}"));
        }
        done += 1;
    }
    // As many as are complete and have loads on devices.
    assert!(done > 27, "only {done} files have raw runs");
    assert!(wrong.is_empty(), "{} of {done}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn figures_of_no_use_are_told_with_their_reason_and_results_are_no_load() {
    let home = TempDir::new().unwrap();
    put(&home, "a.vdb", "sd=s,lun=/dev/none,size=1g\nwd=w,sd=s\nrd=r,wd=w,iorate=200,elapsed=2\n");
    let target = "s=sim:size=1G,errors=0.3";
    let (code, told) = run(&home, &["a.vdb", "-t", target, "--seed", "1"]);
    assert_eq!(code, 14, "{told}");
    let why = "run=r rate=200 #1: the check failures is broken";
    assert!(told.contains(&format!("invalid       {why}")), "{told}");
    let page = fs::read_to_string(home.path().join("a.campaign/report.html")).unwrap();
    assert!(page.contains("run=r rate=200 #1 has figures of no use: the check failures"), "{page}");
    // The directory of all results is no load; the help names one that is.
    let output = ioecho(home.path(), &["replay", "a.campaign", "-t", "sim", "-o", "again"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("a.campaign is the directory of a campaign, with 1 run\n"), "{told}");
    let (_, named) = told.split_once("name a run within: ").unwrap();
    assert!(home.path().join(named.trim()).join("run.toml").exists(), "{named}");
}

#[test]
fn runs_whose_results_may_not_fit_are_not_begun_and_that_is_told() {
    let home = TempDir::new().unwrap();
    let small = or_skip!(MountPoint::of_memory(2 << 20));
    put(&home, "a.vdb", "sd=s,lun=/dev/none,size=1g\nwd=w,sd=s\nrd=r,wd=w,elapsed=1\n");
    let store = small.path().join("a.campaign");
    let arguments = ["a.vdb", "-t", "s=sim:size=1G", "-o", store.to_str().unwrap()];
    let (code, told) = run(&home, &arguments);
    assert_eq!(code, 7, "{told}");
    assert!(
        told.contains("error: the results of the next run may not fit on the disk: "),
        "{told}"
    );
    assert!(told.contains("and 16.0 MiB are kept for them\n  = help: make room there"), "{told}");
}
