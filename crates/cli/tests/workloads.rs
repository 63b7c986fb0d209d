//! Described workloads are planned, explained, translated, or refused at their places.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
}

const POC: &str = "* two runs of an hour, or less\n\
                   messagescan=no\n\
                   debug=86\n\
                   sd=s,lun=$disk,size=10g\n\
                   wd=oltp,sd=s,rdpct=70,xfersize=8k\n\
                   rd=r,wd=oltp,iorate=max,forthreads=(8,32),elapsed=60,warmup=30\n";

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join(name), text).unwrap();
    }

    fn run(&self, line: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        let Output { status, stdout, stderr } =
            command.args(line.split(' ')).current_dir(self.directory.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }
}

#[test]
fn a_parameter_file_is_planned_with_its_lines_its_time_and_what_it_overwrites() {
    let fixture = Fixture::new();
    fixture.put("poc.vdb", POC);
    let (code, shown, told) = fixture.run("run poc.vdb disk=/dev/none --dry-run --seed 7");
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("poc.vdb:3:1: debug= counts for nothing here"), "{told}");
    assert!(shown.contains("storage       s: /dev/none (not on this host)"), "{shown}");
    assert!(shown.contains("overwritten   /dev/none, by oltp@s"), "{shown}");
    assert!(shown.contains("runs          2 runs, at most 180 s; seed 7"), "{shown}");
    assert!(shown.contains("oltp@s on /dev/none, 32 in flight, when there is a place"), "{shown}");
    let line = shown.split_whitespace().find(|word| word.starts_with("gen:")).unwrap();
    assert!(line.starts_with("gen:random?read=70&size=8k&area=10485752k&offset=8k&endless=yes"));
    // A line of a plan is a load like any other.
    let (code, ..) = fixture.run(&format!("info {line} --duration 1s"));
    assert_eq!(code, 0);
}

#[test]
fn a_plan_in_json_is_the_same_for_the_same_seed() {
    let fixture = Fixture::new();
    fixture.put("poc.vdb", POC);
    let json = |words: &str| {
        let (code, json, told) = fixture.run(&format!("run poc.vdb {words} --dry-run --json"));
        assert_eq!(code, 0, "{told}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    let one = json("disk=x --seed 1");
    assert_eq!(one, json("disk=x --seed 1"));
    assert_eq!((&one["seconds"], one["runs"].as_array().unwrap().len()), (&180.0.into(), 2));
    assert_eq!(one["runs"][1]["values"]["threads"], "32");
    assert_ne!(one["runs"][0]["flows"], json("disk=x --seed 2")["runs"][0]["flows"]);
    let short = json("disk=x --seed 1 --set elapsed=2s --set warmup=0s --shrink 10");
    assert_eq!(short["seconds"], 4.0);
    assert!(short["runs"][0]["flows"][0]["line"].as_str().unwrap().contains("area=1G"), "{short}");
}

#[test]
fn every_fault_has_its_place_and_the_exit_code_says_of_which_kind_they_are() {
    let fixture = Fixture::new();
    fixture.put("poc.vdb", POC);
    let (code, _, told) = fixture.run("run poc.vdb --dry-run");
    assert_eq!((code, told.contains("poc.vdb:4:10: the variable 'disk' has no value")), (3, true));
    let (code, _, told) = fixture.run("run poc.vdb disk=x dsik=y --dry-run");
    assert_eq!((code, told.contains("the variable 'dsik' stands nowhere")), (3, true), "{told}");
    fixture.put("wrong.vdb", "sd=s,lun=x\nrd=r,sd=s,elapsed=soon,forrdpct=150\ninclude=gone\n");
    let (code, shown, told) = fixture.run("run wrong.vdb --dry-run");
    assert_eq!((code, shown.as_str()), (3, ""));
    assert_eq!(told.lines().filter(|line| line.starts_with("wrong.vdb:")).count(), 3, "{told}");
    assert!(told.contains("wrong.vdb:3:9: gone cannot be included"), "{told}");
    fixture.put("impossible.vdb", "sd=s,lun=x\nrd=r,sd=s,forrdpct=150\n");
    assert_eq!(fixture.run("run impossible.vdb --dry-run").0, 2);
    fixture.put("small.vdb", "sd=s,lun=x,size=8k,range=(0,1)\nrd=r,sd=s\n");
    let (code, _, told) = fixture.run("run small.vdb --dry-run");
    assert_eq!((code, told.contains("does not fit")), (2, true), "{told}");
    assert!(told.contains("small.vdb:2:1: ") && told.contains("\n  rd=r,sd=s\n"), "{told}");
    let (code, _, told) = fixture.run("run poc.vdb disk=x --dry-run --only q*");
    assert_eq!((code, told.contains("there is no run 'q*'")), (2, true), "{told}");
    assert_eq!(fixture.run("run gone.vdb --dry-run").0, 3);
    assert_eq!(fixture.run("run poc.vdb disk=x --dry-run --set colour=blue").0, 2);
}

#[test]
fn a_parameter_file_is_translated_and_means_the_same() {
    let fixture = Fixture::new();
    fixture.put("poc.vdb", &POC.replace("$disk", "/dev/none"));
    let (code, shown, _) = fixture.run("info poc.vdb");
    assert_eq!(code, 0);
    assert!(shown.contains("format        a parameter file of Vdbench"), "{shown}");
    assert!(shown.contains("run           r: oltp, 60.0 s, threads 8 32"), "{shown}");
    let (code, _, told) = fixture.run("convert poc.vdb poc.toml");
    assert_eq!(code, 0, "{told}");
    let plan = |name: &str| {
        let (code, json, told) = fixture.run(&format!("run {name} --dry-run --json --seed 1"));
        assert_eq!(code, 0, "{told}");
        serde_json::from_str::<serde_json::Value>(&json).unwrap()["runs"].clone()
    };
    assert_eq!(plan("poc.vdb"), plan("poc.toml"));
    let (_, json, _) = fixture.run("info poc.toml --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["workload"], "toml");
    // It is no trace, and is not written as one.
    let (code, _, told) = fixture.run("convert poc.vdb poc.csv");
    assert_eq!((code, told.contains("which is no trace")), (2, true), "{told}");
}
