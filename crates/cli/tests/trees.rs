//! Loads on trees of files: below a real directory, in memory, and from described workloads.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "fixture/program.rs"]
mod program;
#[path = "trees/published.rs"]
mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_fixture::{Backing, LoopDevice, MountPoint, or_skip};
use ioecho_trace::formats::{ReadOptions, open};
use ioecho_trace::{Batch, LateCause, Nanos, Op, Outcome, Request};
use program::{ioecho, said};
use serde_json::Value;
use tempfile::TempDir;

const SHAPE: &str = "depth=2&width=2&files=5&size=4k:50,20k:50";

/// Runs a command; answers the exit code and what was said.
fn does(home: &TempDir, arguments: &[&str]) -> (i32, String) {
    let output = ioecho(home.path(), arguments);
    (output.status.code().unwrap(), said(&output))
}

/// A replay of flows on a tree, which must come to its end; returns its rows. On a real tree a busy
/// host may spoil the figures (11, 12, 14), not what was done; a simulated one knows no other host.
fn replay(home: &TempDir, name: &str, target: &str, flows: &[&str], more: &[&str]) -> Vec<Request> {
    let output = format!("--output={name}");
    let target = format!("--target={target}");
    let mut arguments = vec!["replay", "-q", &output, &target];
    let flows: Vec<String> = flows.iter().map(|flow| format!("--flow={flow}")).collect();
    arguments.extend(flows.iter().map(String::as_str));
    arguments.extend(more);
    let (code, said) = does(home, &arguments);
    let is_busy = target.starts_with("--target=tree:") && [11, 12, 14].contains(&code);
    assert!(code == 0 || is_busy, "{code}: {said}");
    rows(&home.path().join(name))
}

fn rows(run: &Path) -> Vec<Request> {
    let mut source = open(&run.join("requests.parquet"), &ReadOptions::default()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let mut rows = Vec::new();
    while source.next_batch(&mut batch).unwrap() {
        rows.extend(batch.iter());
    }
    rows
}

fn summary(run: &Path) -> Value {
    serde_json::from_slice(&fs::read(run.join("summary.json")).unwrap()).unwrap()
}

fn counts(rows: &[Request]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        assert_eq!(row.measured.unwrap().outcome, Outcome::Ok, "{row:?}");
        *counts.entry(row.op.name()).or_default() += 1;
    }
    counts
}

/// Whether the phases of a run are those that its rows tell, each by its flow and operation.
fn holds_phases(run: &Path, rows: &[Request]) {
    /// When it began, when each of its threads ended, when each call did.
    type Told = (i64, BTreeMap<u32, i64>, Vec<i64>);
    let mut told: BTreeMap<(u64, &str), Told> = BTreeMap::new();
    for row in rows {
        let measured = row.measured.unwrap();
        let Some((begun, ended)) = measured.submitted.zip(measured.completed) else { continue };
        let phase = (u64::from(measured.flow), row.op.name());
        let (first, threads, ends) =
            told.entry(phase).or_insert((i64::MAX, <_>::default(), vec![]));
        *first = begun.0.min(*first);
        let last = threads.entry(row.origin.unwrap().pid).or_default();
        *last = ended.0.max(*last);
        ends.push(ended.0);
    }
    let summary = summary(run);
    let phases = summary["per_phase"].as_array().unwrap();
    assert_eq!(phases.len(), told.len(), "{phases:?}");
    for phase in phases {
        let key = (phase["flow"].as_u64().unwrap(), phase["operation"].as_str().unwrap());
        let (begun, threads, ends) = &told[&key];
        let (first, last) = (threads.values().min().unwrap(), threads.values().max().unwrap());
        assert_eq!(phase["begun_ns"].as_i64(), Some(*begun), "{phase}");
        assert_eq!(phase["threads"].as_u64(), Some(threads.len() as u64), "{phase}");
        assert_eq!(phase["first"]["after_ns"].as_i64(), Some(first - begun), "{phase}");
        assert_eq!(phase["last"]["after_ns"].as_i64(), Some(last - begun), "{phase}");
        assert_eq!(phase["last"]["completed"].as_u64(), Some(ends.len() as u64), "{phase}");
        // Within a step of the axis around that instant.
        let width = 1_000_000 << 12;
        let until = |at: i64| ends.iter().filter(|end| **end <= at).count() as u64;
        let by_first = phase["first"]["completed"].as_u64().unwrap();
        let may = until(first - width)..=until(first + width);
        assert!(may.contains(&by_first), "{by_first} is none of {may:?}: {phase}");
    }
}

#[test]
fn a_tree_is_made_used_and_removed_below_a_real_directory() {
    let home = TempDir::new().unwrap();
    let target = format!("tree:anchor?{SHAPE}");
    let make = "make=files:format?do=mkdir,fill&size=4k;threads=2";
    let rows = replay(&home, "made", &target, &[make], &[]);
    holds_phases(&home.path().join("made"), &rows);
    let made = counts(&rows);
    assert_eq!((made["mkdir"], made["create"], made["close"]), (6, 20, 20));
    let file = home.path().join("anchor/vdb.1_2.dir/vdb.2_1.dir/vdb_f0003.file");
    assert!([4096, 20_480].contains(&fs::metadata(&file).unwrap().len()));

    let flows = [
        "read=files:read?size=4k&select=random&once=yes;threads=2",
        "stat=files:getattr?once=yes;threads=1",
    ];
    let used = replay(&home, "used", &target, &flows, &[]);
    holds_phases(&home.path().join("used"), &used);
    let counted = counts(&used);
    assert_eq!((counted["open"], counted["close"], counted["getattr"]), (20, 20, 20));
    // Every request of a file lies in its place, and each thread has one at a time.
    let mut ends: BTreeMap<_, i64> = BTreeMap::new();
    for row in &used {
        let measured = row.measured.unwrap();
        let (begun, ended) = (measured.submitted.unwrap().0, measured.completed.unwrap().0);
        let thread = (measured.flow, row.origin.unwrap().pid);
        let before = ends.insert(thread, ended);
        assert!(before.is_none_or(|before| before <= begun), "{row:?}");
        assert!(row.op == Op::Read || row.length.0 == 0);
    }
    // On a busy host one of the two that read may have been through all files before the other.
    assert!((2..=3).contains(&ends.len()), "{ends:?}");
    let summary = summary(&home.path().join("used"));
    for op in ["read", "open", "close", "getattr"] {
        let count = summary["service_time"][op]["count"].as_u64();
        assert_eq!(count, Some(counted[op] as u64), "{op}");
    }
    let page = fs::read_to_string(home.path().join("used/report.html")).unwrap();
    assert!(page.contains("stat: getattr") && page.contains("first finished after"));

    // A tree that is there is changed only where that is said.
    let clean = "--flow=clean=files:format?do=delete,rmdir;threads=2";
    let on = format!("--target={target}");
    let (code, text) = does(&home, &["replay", "-q", "--output=no", &on, clean]);
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("--destroy anchor"), "{text}");
    let clean = "clean=files:format?do=delete,rmdir;threads=2";
    let cleaned = counts(&replay(&home, "cleaned", &target, &[clean], &["--destroy=anchor"]));
    assert_eq!((cleaned["delete"], cleaned["rmdir"]), (20, 6));
    let left: Vec<_> = fs::read_dir(home.path().join("anchor")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn nobodys_files_are_touched_whatever_is_named() {
    let home = TempDir::new().unwrap();
    fs::create_dir(home.path().join("home")).unwrap();
    fs::write(home.path().join("home/letters.txt"), "dear").unwrap();
    let make = "--flow=make=files:format?do=delete,rmdir,mkdir,fill;threads=1";
    let on = format!("--target=tree:home?{SHAPE}");
    let arguments = ["replay", "-q", "--output=r", &on, make, "--destroy=home"];
    let (code, text) = does(&home, &arguments);
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("letters.txt"), "{text}");
    assert_eq!(fs::read_dir(home.path().join("home")).unwrap().count(), 1);
    let (code, text) = does(
        &home,
        &[
            "replay",
            "-q",
            "--output=r",
            "--target=tree:a?files=1",
            "--target=tree:a/b?files=1",
            make,
        ],
    );
    assert_eq!(code, 2, "{text}");
}

#[test]
fn a_file_with_the_name_of_a_mark_is_known_by_what_it_holds() {
    let home = TempDir::new().unwrap();
    let target = "tree:a?width=2&files=3&size=4k";
    replay(&home, "made", target, &["files:format?do=mkdir,fill;threads=1"], &[]);
    let mark = home.path().join("a/ioecho.tree");
    let ours = fs::read(&mark).unwrap();
    let lines: Vec<&[u8]> = ours.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 3);
    let clean = "files:format?do=delete,rmdir;threads=1";
    let arguments =
        ["replay", "-q", "--output=no", "--target", target, "--flow", clean, "--destroy=a"];
    for other in [
        &b"my notes\n"[..],
        b"",
        &ours[..60],
        lines[0],
        &[lines[0], &lines[1][..lines[1].len() - 1]].concat(),
        &[lines[0], b"my notes\n"].concat(),
        &[&ours, &b"my notes\n"[..]].concat(),
        &[0xff, 0, 0x9f, 0x92, 10].repeat(20_000),
    ] {
        fs::write(&mark, other).unwrap();
        let (code, text) = does(&home, &arguments);
        assert_eq!(code, 6, "{other:?}: {text}");
        assert!(text.contains("ioecho.tree") && text.contains("not ours"), "{text}");
        assert!(fs::read(&mark).unwrap() == other);
        assert!(home.path().join("a/vdb.1_2.dir/vdb_f0003.file").exists());
    }
    // The mark of an earlier version names no results.
    fs::write(&mark, [lines[0], lines[1]].concat()).unwrap();
    let cleaned = replay(&home, "cleaned", target, &[clean], &["--destroy=a"]);
    assert_eq!(counts(&cleaned)["delete"], 6);
    // What a killed run has left of its mark locks nobody out.
    fs::remove_file(&mark).unwrap();
    fs::write(home.path().join("a/.ioecho.tree.7.partial"), &ours[..60]).unwrap();
    replay(&home, "again", target, &["files:format?do=mkdir,fill;threads=1"], &[]);
    assert!(fs::read_to_string(&mark).unwrap().ends_with("again\n"));
}

#[test]
fn a_run_writes_to_no_file_that_has_another_name() {
    let home = TempDir::new().unwrap();
    let (a, b) = ("tree:a?width=2&files=3&size=4k", "tree:b?width=2&files=3&size=4k");
    replay(&home, "made", a, &["files:format?do=mkdir,fill;threads=1"], &[]);
    let place = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    ioecho_fixture::run("cp", &["-al", &place("a"), &place("b")]).unwrap();
    let name = "vdb.1_2.dir/vdb_f0003.file";
    let (file, mark) = (home.path().join("a").join(name), home.path().join("a/ioecho.tree"));
    let (before, marked) = (fs::read(&file).unwrap(), fs::read(&mark).unwrap());
    for load in ["write?size=4k", "mixed?size=4k", "setattr?", "create?", "format?do=fill"] {
        let flow = format!("files:{load}&once=yes;threads=1").replace("fill&once=yes", "fill");
        let arguments = ["replay", "-q", "--output=no", "--target", b, "--flow", &flow];
        let (code, text) = does(&home, &[&arguments[..], &["--destroy=b"]].concat());
        assert_eq!(code, 6, "{load}: {text}");
        assert!(text.contains(".file has another name"), "{text}");
        assert!(text.contains("cp --reflink") && text.contains("do=delete,rmdir"), "{text}");
    }
    let read = counts(&replay(&home, "read", b, &["files:read?once=yes;threads=1"], &[]));
    assert_eq!(read["read"], 6);
    let clean = "files:format?do=delete,rmdir;threads=1";
    let cleaned = counts(&replay(&home, "cleaned", b, &[clean], &["--destroy=b"]));
    assert_eq!(cleaned["delete"], 6);
    assert!(fs::read(&file).unwrap() == before && fs::read(&mark).unwrap() == marked);
}

#[test]
fn a_copy_asks_only_for_the_tree_that_it_changes() {
    let home = TempDir::new().unwrap();
    let (a, b) = ("tree:a?width=2&files=3&size=4k", "tree:b?width=2&files=3&size=4k");
    let make = "files:format?do=mkdir,fill;threads=1";
    replay(&home, "a-made", a, &[make], &[]);
    replay(&home, "b-made", b, &["files:format?do=mkdir;threads=1"], &[]);
    let mark = home.path().join("a/ioecho.tree");
    let marked = fs::read(&mark).unwrap();
    let second = format!("--target={b}");
    let copy = "files:copy?to=2&once=yes;on=1;threads=1";
    let copied = replay(&home, "copied", a, &[copy], &[&second, "--destroy=b"]);
    assert_eq!(counts(&copied)["copy"], 6);
    assert_eq!(fs::read(&mark).unwrap(), marked);
    // A move takes the files away.
    let moved = "--flow=files:move?to=2&once=yes;on=1;threads=1";
    let on = format!("--target={a}");
    let all = ["replay", "-q", "--output=no", &on, &second, moved, "--destroy=b"];
    let (code, text) = does(&home, &all);
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("--destroy a"), "{text}");
}

#[test]
fn a_dry_run_tells_which_trees_would_be_changed_and_makes_nothing() {
    let home = TempDir::new().unwrap();
    let make = "files:format?do=mkdir,fill;threads=4";
    let target = "tree:a?depth=0&files=3&size=4k";
    let arguments = ["replay", "--target", target, "--flow", make, "--dry-run"];
    let (code, text) = does(&home, &arguments);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("changed       a\n"), "{text}");
    assert!(!home.path().join("a").exists());
    replay(&home, "made", target, &[make], &[]);
    let read = "files:read?once=yes;threads=1";
    let (code, text) = does(&home, &["replay", "--target", target, "--flow", read, "--dry-run"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("changed       nothing"), "{text}");
    let (code, text) = does(&home, &arguments);
    assert_eq!(code, 6, "{text}");
}

#[test]
fn a_simulated_tree_keeps_its_rate_and_is_repeated_exactly() {
    let home = TempDir::new().unwrap();
    let target = format!("sim:tree?{SHAPE}&calls=model=const,service=100us,units=8");
    let line = "files:read?size=4k&access=random&select=random&rate=500&dist=poisson&duration=2s";
    let flows = [format!("read={line};cap=8"), "stat=files:getattr?;threads=1".to_owned()];
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    let one = replay(&home, "one", &target, &flows, &["--end-after=2s"]);
    let two = replay(&home, "two", &target, &flows, &["--end-after=2s"]);
    assert_eq!(one, two);
    holds_phases(&home.path().join("one"), &one);
    let reads = one.iter().filter(|row| row.op == Op::Read).count();
    assert!(reads.abs_diff(1000) < 120, "{reads}");
    let late = one.iter().filter(|row| row.measured.unwrap().lateness().unwrap().0 > 1_000_000);
    assert_eq!(late.count(), 0);
    // The rate is told as it was asked for: opens and closes come along.
    let output = format!("--target={target}");
    let flow = format!("--flow={};cap=8", line.replace("dist=poisson", "dist=constant"));
    let (code, text) = does(&home, &["replay", "-q", "--output=alone", &output, &flow]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("500 IOPS of 500 demanded"), "{text}");
    // A closed thread is served one call after the other: 10,000 a second.
    let stats = one.iter().filter(|row| row.op == Op::Getattr).count();
    assert!(stats.abs_diff(20_000) < 200, "{stats}");
}

#[test]
fn copies_and_moves_in_memory_end_by_themselves_though_nothing_works_on_their_destination() {
    let home = TempDir::new().unwrap();
    let tree = "sim:tree?width=2&files=20&size=64k";
    for (task, threads, expected) in [("copy", 2, 40), ("move", 1, 40), ("copy", 1, 40)] {
        let name = format!("{task}-{threads}");
        let to = format!("--target={tree}&found=directories");
        let flow = format!("c=files:{task}?to=2&once=yes;threads={threads};on=1");
        // The end that is asked for is not come to: it takes 2 ms of simulated time.
        let rows = replay(&home, &name, tree, &[&flow], &[&to, "--end-after=100ms"]);
        assert_eq!(counts(&rows), BTreeMap::from([(task, expected)]));
        let summary = summary(&home.path().join(&name));
        assert_eq!(summary["engine"]["ended_after"], Value::Null, "{name}");
    }
}

#[test]
fn threads_on_a_simulated_tree_are_late_by_themselves_alone_and_never_by_the_host() {
    let home = TempDir::new().unwrap();
    let line = "--flow=read=files:read?size=4k&select=random&rate=3000&duration=2s;cap=8";
    // Where there are fewer files than threads, these wait for each other, too.
    for (files, codes, expected) in
        [(20, &[0][..], &["InFlightCap"][..]), (2, &[0, 11], &["File", "InFlightCap"])]
    {
        let calls = "model=exp,service=50us,units=8";
        let target = format!("--target=sim:tree?width=3&files={files}&size=20k&calls={calls}");
        let output = format!("--output={files}");
        let (code, said) = does(&home, &["replay", "-q", &output, &target, line]);
        assert!(codes.contains(&code), "{code}: {said}");
        let rows = rows(&home.path().join(files.to_string()));
        let mut causes = BTreeMap::new();
        for row in &rows {
            let measured = row.measured.unwrap();
            if measured.late_cause != LateCause::None {
                *causes.entry(format!("{:?}", measured.late_cause)).or_insert(0) += 1;
            }
            // A file is closed at once when it was gone through, whatever else is due.
            let lateness = measured.lateness().unwrap();
            assert!(row.op != Op::Close || lateness < Nanos::from_micros(1), "late by {lateness}");
            // A thread gets the next file that is given back.
            assert!(lateness < Nanos::from_millis(100), "late by {lateness}");
        }
        let own: Vec<&String> = causes.keys().collect();
        assert_eq!(own, expected, "{causes:?}");
        assert!(rows.iter().filter(|row| row.op == Op::Read).count() > 5000);
    }
}

#[test]
fn a_rate_beyond_what_few_files_allow_is_the_loads_limit_and_beyond_the_storage_the_storages() {
    let home = TempDir::new().unwrap();
    let line = "read=files:getattr?rate=3000&dist=constant&duration=2s;cap=4";
    let does = |name: &str, files: u64, service: &str, code: i32| -> Value {
        let calls = format!("model=const,service={service},units=64");
        let target = format!("--target=sim:tree?files={files}&size=4k&calls={calls}");
        let (output, flow) = (format!("--output={name}"), format!("--flow={line}"));
        let (ended, said) = does(&home, &["replay", "-q", &output, &target, &flow]);
        assert_eq!(ended, code, "{name}: {said}");
        summary(&home.path().join(name))
    };
    // One call at a time are 2000 a second, four of them 8000.
    let few = does("few", 1, "500us", 11);
    let sentence = few["verdict"]["summary"].as_str().unwrap();
    assert!(sentence.starts_with("Limited by the load itself, not by the storage"), "{sentence}");
    assert!(sentence.contains("read has 1 file for 4 threads"), "{sentence}");
    assert_eq!(few["verdict"]["finding"], "generator-limited");
    assert_eq!(few["engine"]["flows"][0]["files"], 1);
    let late = few["late"].as_object().unwrap();
    assert!(late["file"]["requests"].as_u64().unwrap() > 5000, "{late:?}");
    // With a file each the same storage is fast enough.
    assert_eq!(does("enough", 4, "500us", 0)["verdict"]["finding"], "faithful");
    // Four calls at a time are 400 a second, however many files there are.
    for files in [1, 4] {
        let slow = does(&format!("slow{files}"), files, "10ms", 10);
        assert_eq!(slow["verdict"]["finding"], "device-limited", "{files}");
    }
}

#[test]
fn a_thread_of_a_closed_load_is_due_when_it_is_free_itself_and_no_other_for_it() {
    let home = TempDir::new().unwrap();
    let target = "sim:tree?width=2&files=1&size=64k&calls=model=exp,service=50us,units=8";
    let flows = ["write=files:write?size=4k;threads=8", "stat=files:getattr?;threads=2"];
    // There are six threads more than files, and none of them is late.
    let rows = replay(&home, "run", target, &flows, &["--end-after=200ms"]);
    let mut free = BTreeMap::new();
    let ends = |row: &Request| row.measured.unwrap().completed.unwrap();
    let freed: BTreeSet<Nanos> = rows.iter().map(ends).collect();
    for row in &rows {
        let measured = row.measured.unwrap();
        let since = free.insert((measured.flow, row.origin.unwrap().pid), ends(row));
        let is_own = measured.scheduled == since.unwrap_or(Nanos::ZERO);
        // A look at the clock takes some 20 ns, in simulation, too.
        let looks = Nanos(200);
        let mut just = freed.range(measured.scheduled - looks..=measured.scheduled);
        assert!(is_own || just.next().is_some(), "{row:?}");
        assert_eq!(measured.late_cause, LateCause::None, "{row:?}");
    }
    assert_eq!(free.len(), 10, "threads that have worked");
    assert!(rows.len() > 5_000, "{}", rows.len());
}

#[test]
fn a_thread_that_waits_for_a_file_in_use_may_change_the_tree_yet_and_ends_no_other() {
    let home = TempDir::new().unwrap();
    let flows =
        ["r=files:read?size=4k;threads=2", "d=files:delete?;threads=1", "c=files:fill?;threads=1"];
    let rows = replay(&home, "run", "sim:tree?files=1&size=16k", &flows, &["--end-after=1s"]);
    let done = counts(&rows);
    assert!(done["read"] > 100 && done["delete"] > 20 && done["create"] > 20, "{done:?}");
    let last = rows.iter().map(|row| row.issue).max().unwrap();
    assert!(last > Nanos::from_millis(990), "ended at {last}");
}

#[test]
fn results_of_threads_of_different_speeds_are_in_the_order_of_their_issue() {
    let home = TempDir::new().unwrap();
    let target = format!("tree:{}?{SHAPE}", home.path().join("tree").display());
    replay(&home, "made", &target, &["f=files:format?do=mkdir,fill;threads=2"], &[]);
    // Opens, reads and closes take longer than looks.
    let flows = ["slow=files:read?size=4k;threads=1", "fast=files:getattr?;threads=2"];
    let own = format!("--destroy={}", home.path().join("tree").display());
    replay(&home, "run", &target, &flows, &["--end-after=300ms", &own]);
    let (code, told) = does(&home, &["info", "run"]);
    assert!(code == 0 && !told.contains("into time order"), "{code}: {told}");
}

#[test]
fn what_a_tree_cannot_be_asked_for_is_refused_with_the_remedy() {
    let home = TempDir::new().unwrap();
    let tree = "--target=sim:tree?files=3";
    let read = "--flow=files:read?;threads=1";
    for (arguments, said) in [
        (&[tree, read][..], "goes on for ever"),
        (
            &[tree, "--flow=gen:random?endless=yes;threads=1", "--end-after=1s"],
            "is a tree of files",
        ),
        (&["--target=sim", read, "--end-after=1s"], "no target is a tree"),
        (&[tree, "--flow=files:fly?;threads=1", "--end-after=1s"], "'fly'"),
        (&["--target=sim:tree?colour=blue", read, "--end-after=1s"], "colour"),
        (&["--target=tree:?files=1", read, "--end-after=1s"], "no directory"),
        (
            &["--target=sim:tree?files=3&size=700&calls=lies=0.1", read, "--end-after=1s"],
            "a tree that lies",
        ),
        (&[tree, "--flow=files:read?", "--end-after=1s"], "threads="),
        (&[tree, "--flow=files:getattr?;threads=1;data=1M"], "requests=1000"),
        (&[tree, "--flow=files:read?;threads=1;written-data=1M"], "requests=1000"),
        (&["--target=sim:tree?files=3&open=direct", read, "--end-after=1s"], "leave open out"),
        (&["--target=tree:a?parents=maybe", read, "--end-after=1s"], "parents is yes or no"),
        (
            &["--target=tree:a?open=direct", "--flow=files:write?size=700&once=yes;threads=1"],
            "leave open=direct out",
        ),
        (
            &["--target=tree:a?open=direct&size=700", "--flow=files:format?do=fill;threads=1"],
            "leave open=direct out",
        ),
    ] {
        let all = [&["replay", "-q", "--output=r"], arguments].concat();
        let (code, text) = does(&home, &all);
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    // A trace of operations on files goes to no device.
    let once = "--flow=files:read?once=yes;threads=1";
    let (code, text) = does(&home, &["replay", "-q", "--output=files", tree, once]);
    assert_eq!(code, 0, "{text}");
    let (code, text) = does(&home, &["replay", "-q", "--output=r", "--target=sim", "files"]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("'open'") && text.contains("--filter"), "{text}");
}

/// A small ext4 on a loop device of its own, with room for so many names.
fn small(names: u32) -> Result<(MountPoint, LoopDevice), String> {
    let device = LoopDevice::new(16 << 20)?;
    let names = names.to_string();
    ioecho_fixture::run("mkfs.ext4", &["-q", "-N", &names, device.path()])?;
    Ok((MountPoint::of(&device.path)?, device))
}

/// How often each outcome is in the results of a run.
fn outcomes(run: &Path) -> BTreeMap<String, u64> {
    serde_json::from_value(summary(run)["outcomes"].clone()).unwrap()
}

#[test]
fn a_file_system_without_room_fails_what_it_cannot_hold_and_the_rest_can_be_removed() {
    let (mount, _device) = or_skip!(small(256));
    let home = TempDir::new().unwrap();
    let anchor = mount.path().join("a");
    for (run, shape) in [("names", "files=200&size=4k"), ("bytes", "files=20&size=1M")] {
        let target = format!("--target=tree:{}?width=4&{shape}", anchor.display());
        let fill = "--flow=f=files:format?do=mkdir,fill;threads=2";
        let output = format!("--output={run}");
        let (code, text) = does(&home, &["replay", "-q", &output, &target, fill]);
        assert_eq!(code, 14, "{text}");
        assert!(text.contains("errno 28 (no space left"), "{text}");
        let found = outcomes(&home.path().join(run));
        assert!(found["errno 28"] > 0 && found["ok"] > 0 && found.len() == 2, "{found:?}");
        let destroy = format!("--destroy={}", anchor.display());
        let clean = ["files:format?do=delete,rmdir;threads=2"];
        let rows = replay(&home, &format!("{run}-gone"), &target[9..], &clean, &[&destroy]);
        assert!(counts(&rows)["delete"] > 15);
        let left: Vec<_> = fs::read_dir(&anchor).unwrap().collect();
        assert_eq!(left.len(), 1, "the mark alone: {left:?}");
        fs::remove_dir_all(&anchor).unwrap();
    }
}

/// Does a load on the files of a tree below `place` until the journal shows that it is under way,
/// lets something happen, and answers the exit code and how often each outcome is in the results.
fn outcomes_while(
    place: &Path,
    load: &str,
    happens: impl FnOnce(),
) -> (i32, BTreeMap<String, u64>) {
    let home = TempDir::new().unwrap();
    let anchor = place.join("a");
    let target = format!("tree:{}?width=2&files=20&size=64k", anchor.display());
    replay(&home, "made", &target, &["files:format?do=mkdir,fill;threads=2"], &[]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_ioecho"))
        .args(["replay", "-q", "-o", "run", "--target", &target, "--end-after", "3s"])
        .args(["--flow", load, "--destroy"])
        .arg(&anchor)
        .current_dir(home.path())
        .spawn()
        .unwrap();
    let journal = home.path().join("run/requests.journal");
    while fs::metadata(&journal).map_or(0, |file| file.len()) < 20_000 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before anything happened");
        sleep(Duration::from_millis(2));
    }
    happens();
    let patience = Instant::now() + Duration::from_mins(1);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > patience {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the run does not end");
        }
        sleep(Duration::from_millis(10));
    };
    (status.code().unwrap(), outcomes(&home.path().join("run")))
}

#[test]
fn what_goes_past_the_page_cache_has_whole_blocks_of_its_file_system() {
    let backing = Backing::on_disk(16 << 20);
    let device = or_skip!(LoopDevice::over(backing, &["--sector-size", "4096"]));
    or_skip!(ioecho_fixture::run("mkfs.ext4", &["-q", device.path()]));
    let mount = or_skip!(MountPoint::of(Path::new(device.path())));
    let home = TempDir::new().unwrap();
    let anchor = mount.path().join("a");
    let target = format!("--target=tree:{}?files=4&size=64k&open=direct", anchor.display());
    let made = |flow: &str| does(&home, &["replay", "-q", "--output=r", &target, flow]);
    let (code, text) = made("--flow=files:format?do=mkdir,fill&size=512;threads=1");
    assert_eq!(code, 2, "{text}");
    assert!(
        text.contains("blocks of 4.00 KiB") && text.contains("leave open=direct out"),
        "{text}"
    );
    assert!(!anchor.join("ioecho.tree").exists(), "nothing was marked");
    let (code, text) = made("--flow=files:format?do=mkdir,fill&size=16k;threads=1");
    assert!([0, 11, 12].contains(&code), "{code}: {text}");
    let mount = or_skip!(MountPoint::of_ramfs());
    let target = format!("--target=tree:{}/a?open=direct", mount.path().display());
    let flow = "--flow=files:format?do=mkdir,fill;threads=1";
    let (code, text) = does(&home, &["replay", "-q", "--output=cached", &target, flow]);
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("cannot go past the page cache"), "{text}");
}

/// The same of writes, of which so many fail that the figures may not be used.
fn outcomes_of_writes_while(place: &Path, happens: impl FnOnce()) -> BTreeMap<String, u64> {
    let (code, outcomes) = outcomes_while(place, "files:write?size=4k;threads=2", happens);
    // A fast host comes to a million failures in a row, which end the load, before its end.
    assert!(matches!(code, 13 | 14), "{code}: {outcomes:?}");
    outcomes
}

#[test]
fn a_fifo_in_the_place_of_a_file_fails_its_calls_and_holds_no_run() {
    let place = TempDir::new().unwrap();
    let load = "files:read?size=64k&select=random&rate=5000&duration=3s;cap=2";
    let (_, outcomes) = outcomes_while(place.path(), load, || {
        let fifo = place.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        fs::rename(fifo, place.path().join("a/vdb.1_1.dir/vdb_f0007.file")).unwrap();
    });
    assert!(outcomes["ok"] > 0 && outcomes["errno 29"] > 0, "{outcomes:?}");
}

#[test]
fn a_tree_that_is_removed_or_may_not_be_written_any_more_is_told_call_by_call() {
    let (mount, _device) = or_skip!(small(256));
    let taken = outcomes_of_writes_while(mount.path(), || {
        // Root, too, may not open such files to write them.
        let anchor = mount.path().join("a");
        ioecho_fixture::run("chattr", &["-R", "+i", &anchor.to_string_lossy()]).unwrap();
    });
    assert!(taken["ok"] > 0 && taken["errno 1"] > 0, "{taken:?}");
    let (mount, _device) = or_skip!(small(256));
    let removed = outcomes_of_writes_while(mount.path(), || {
        fs::remove_dir_all(mount.path().join("a")).unwrap();
    });
    assert!(removed["ok"] > 0 && removed["errno 2"] > 0, "{removed:?}");
    // What ext4 does where its journal cannot be written.
    let read_only = outcomes_of_writes_while(mount.path(), || {
        let path = mount.path().to_string_lossy();
        ioecho_fixture::run("mount", &["-o", "remount,abort", &path]).unwrap();
    });
    assert!(read_only["ok"] > 0 && read_only["errno 30"] > 0, "{read_only:?}");
}

#[test]
fn reads_from_memory_are_told_from_those_of_the_storage() {
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(ioecho_fixture::run("mkfs.ext4", &["-q", device.path()]));
    let home = TempDir::new().unwrap();
    let cached = |run: &str, is_made: bool| -> Result<Value, String> {
        // What is mounted anew has nothing in memory.
        let mount = MountPoint::of(&device.path)?;
        let anchor = mount.path().join("a");
        let target = format!("tree:{}?width=2&files=20&size=64k", anchor.display());
        if !is_made {
            replay(&home, "made", &target, &["files:format?do=mkdir,fill;threads=2"], &[]);
        }
        replay(&home, run, &target, &["files:read?size=64k&once=yes;threads=2"], &[]);
        let checks = summary(&home.path().join(run))["verdict"]["checks"].clone();
        let mut checks = checks.as_array().unwrap().iter();
        Ok(checks.find(|check| check["name"] == "page-cache").unwrap().clone())
    };
    let memory = or_skip!(cached("memory", false));
    assert_eq!(memory["grade"], "suspect", "{memory}");
    assert!(memory["measured"].as_str().unwrap().starts_with("100.0 % of 2.50 MiB"), "{memory}");
    let storage = or_skip!(cached("storage", true));
    assert_eq!(storage["grade"], "pass", "{storage}");
}

const FILE: &str = "fsd=fsd1,anchor=anchor,depth=1,width=3,files=4,size=8k\n\
    fwd=default,fsd=fsd1,threads=2\n\
    fwd=read,operation=read,xfersize=4k,fileselect=random,skew=75\n\
    fwd=stat,operation=getattr,fileselect=random,skew=25\n\
    rd=mixed,fwd=(read,stat),fwdrate=max,format=yes,elapsed=1\n\
    rd=slow,fwd=stat,fwdrate=200,format=no,elapsed=1\n\
    rd=gone,fwd=stat,fwdrate=max,format=(clean,only),elapsed=1\n";

/// The directories of results by the values that they are known by.
fn cells(store: &Path) -> BTreeMap<String, PathBuf> {
    let cells = fs::read_dir(store.join("cells")).unwrap().map(|entry| entry.unwrap().path());
    let of_cell = |cell: PathBuf| {
        let json: Value = serde_json::from_slice(&fs::read(cell.join("cell.json")).ok()?).unwrap();
        let values = json["point"].as_array().unwrap().iter();
        let values: Vec<&str> = values.map(|pair| pair[1].as_str().unwrap()).collect();
        Some((values.join(" "), cell.join("1/run")))
    };
    cells.filter_map(of_cell).collect()
}

#[test]
fn a_file_of_runs_makes_its_tree_and_is_done_really_and_in_memory() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("a.vdb"), FILE).unwrap();
    for (store, more) in [("real", &[][..]), ("memory", &["--target=*=sim"])] {
        let output = format!("--output={store}");
        let all = [&["run", "-q", "a.vdb", "--seed=1", &output], more].concat();
        let (code, text) = does(&home, &all);
        assert!([0, 10, 40].contains(&code), "{code}: {text}");
        let runs = cells(&home.path().join(store));
        let names: Vec<&str> = runs.keys().map(String::as_str).collect();
        assert_eq!(names, ["gone format max", "mixed - max", "mixed format max", "slow - 200"]);
        let made = counts(&rows(&runs["mixed format max"]));
        assert_eq!((made["mkdir"], made["create"], made["write"]), (3, 12, 12), "{store}");
        let mixed = counts(&rows(&runs["mixed - max"]));
        let others = mixed["read"] + mixed["open"] + mixed["close"];
        assert!(others.abs_diff(3 * mixed["getattr"]) < 40, "{store}: {mixed:?}");
        let slow = counts(&rows(&runs["slow - 200"]));
        assert!(slow["getattr"].abs_diff(200) < 60, "{store}: {slow:?}");
        assert_eq!(counts(&rows(&runs["gone format max"]))["delete"], 12, "{store}");
        let page = home.path().join(store).join("report.html");
        assert!(fs::metadata(page).unwrap().len() > 1000);
    }
    let left: Vec<_> = fs::read_dir(home.path().join("anchor")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_tree_is_that_of_the_results_whose_runs_made_it_and_of_no_others() {
    let home = TempDir::new().unwrap();
    fs::write(home.path().join("a.vdb"), FILE).unwrap();
    let run = |store: &str| {
        let output = format!("--output={store}");
        does(&home, &["run", "-q", "a.vdb", "--only=mixed", "--seed=1", &output])
    };
    let (code, text) = run("first");
    assert!([0, 10, 40].contains(&code), "{code}: {text}");
    // As if the run had been killed: one of its cells is not there.
    let of_cell = &cells(&home.path().join("first"))["mixed format max"];
    let cell = of_cell.ancestors().nth(2).unwrap();
    fs::remove_dir_all(cell).unwrap();
    let (code, text) = run("second");
    assert_eq!(code, 6, "{text}");
    assert!(text.contains("--destroy anchor"), "{text}");
    assert!(!home.path().join("second").exists());
    let (code, text) = run("first");
    assert!([0, 10, 40].contains(&code), "{code}: {text}");
    assert!(cell.join("1/run").exists());
}

#[test]
fn an_analysis_of_a_load_on_files_tells_operations_and_names_and_no_turns_of_a_device() {
    let home = TempDir::new().unwrap();
    let target = format!("sim:tree?{SHAPE}&calls=model=const,service=100us,units=8");
    let read = "files:read?size=4k&access=random;threads=1";
    let flows = [read, "files:getattr?select=random;threads=1"];
    let rows = replay(&home, "run", &target, &flows, &["--end-after=1s"]);
    let (code, text) = does(&home, &["analyze", "run"]);
    assert_eq!(code, 0, "{text}");
    let of = counts(&rows);
    let files: BTreeSet<u64> = rows
        .iter()
        .filter(|row| matches!(row.op, Op::Open | Op::Getattr | Op::Close))
        .map(|row| row.offset.0)
        .collect();
    let (looked, all) = (format!("getattr: {} of ", of["getattr"]), files.len());
    assert!(text.contains(&looked), "{text}");
    assert!(text.contains(&format!("\nfiles         {all} of {all} touched\n")), "{text}");
    assert!(text.contains("\nsizes         read 4.00 KiB\n"), "{text}");
    assert!(text.contains("service time  open: ") && !text.contains("turn back"), "{text}");
    let slow: Vec<&str> = text.lines().filter(|line| line.starts_with("slow ")).collect();
    assert!(!slow.is_empty() && slow.iter().all(|line| line.contains(".file, ")), "{text}");
    let json = ioecho(home.path(), &["analyze", "run", "--json"]);
    let figures: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(figures["files"]["count"], all);
    let told = figures["operations"].as_array().unwrap().iter();
    let told: BTreeMap<&str, u64> =
        told.map(|one| (one["op"].as_str().unwrap(), one["requests"].as_u64().unwrap())).collect();
    let counted: BTreeMap<&str, u64> = of.iter().map(|(op, count)| (*op, *count as u64)).collect();
    assert_eq!(told, counted);
}
