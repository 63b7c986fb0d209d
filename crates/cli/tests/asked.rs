//! Wrong options are refused, and a run stores no secrets.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

struct Fixture {
    directory: TempDir,
}

const LOAD: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
                    0.000000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n0.001000000 ; 64 ; 8 ; W ; 0.0 ; 0.0\n";

/// Device, operation, offset, length, whole seconds, as Tencent's traces have it.
const SECONDS: &str = "1538323200,0,8,0,1063\n1538323200,64,8,1,1063\n1538323201,0,8,0,2\n";

impl Fixture {
    fn new() -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(fixture.path("customer.load"), LOAD).unwrap();
        fs::write(fixture.path("seconds.csv"), SECONDS).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(line.split(' ')).current_dir(self.directory.path());
        command.output().unwrap()
    }

    /// The exit code and the standard error.
    fn said(&self, line: &str) -> (i32, String) {
        let output = self.run(line);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn refused(&self, line: &str, why: &str) {
        let (code, said) = self.said(line);
        assert!(code == 2 && said.contains(why), "{line}: {code}: {said}");
    }
}

#[test]
fn what_does_not_fit_is_a_mistake_on_the_command_line() {
    let fixture = Fixture::new();
    fixture.refused("convert - x.parquet --merge -", "named twice");
    fixture.refused("convert customer.load x-{}.parquet", "stands for the name of a part");
    fixture.refused("info customer.load --split volume", "several traces");
    fixture.refused("convert customer.load x-{}.csv --split pid", "no processes");
    fixture.refused("info customer.load --filter latency>1s", "asks for latencies");
    fixture.refused("info customer.load --anonymise key-not-kept", "is not kept");
    fixture.refused("info customer.load --filter offset>1T", "what its volumes are called");
    for option in ["--time-unit ms", "--block-size 512", "--event D", "--whole-seconds even"] {
        let flag = option.split(' ').next().unwrap();
        for trace in ["customer.load", "gen:random?count=10"] {
            fixture.refused(&format!("info {trace} {option}"), &format!("{flag} says nothing"));
        }
    }
    fixture.refused("info customer.load --ops read", "--columns");
    assert_eq!(fixture.said("info seconds.csv --whole-seconds even").0, 0);
    let merged = "info seconds.csv --whole-seconds even --merge customer.load";
    assert_eq!(fixture.said(merged).0, 0);
}

#[test]
fn a_detour_does_not_make_whole_seconds_better() {
    let fixture = Fixture::new();
    assert_eq!(fixture.said("convert seconds.csv x.parquet").0, 0);
    for trace in ["seconds.csv", "x.parquet"] {
        let (code, said) = fixture.said(&format!("replay {trace} -t sim:size=1G --output run"));
        assert!(code == 3 && said.contains("--whole-seconds"), "{trace}: {code}: {said}");
    }
    let info = fixture.run("info x.parquet");
    assert!(String::from_utf8_lossy(&info.stdout).contains("reading the original with"));
    assert_eq!(fixture.said("convert seconds.csv y.parquet --whole-seconds burst").0, 0);
    let (code, said) = fixture.said("replay y.parquet -t sim:size=1G --output run --dry-run");
    assert_eq!(code, 0, "{said}");
}

#[test]
fn a_reader_who_has_seen_enough_is_no_error() {
    let fixture = Fixture::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
    command.args(["convert", "gen:random?count=200000", "-", "--to", "csv"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("error"), "{said}");
    drop(fixture);
}

#[test]
fn a_run_of_an_anonymised_trace_keeps_neither_the_key_nor_a_name() {
    let fixture = Fixture::new();
    let mut other = fs::File::create(fixture.path("acquaintance.load")).unwrap();
    other.write_all(LOAD.as_bytes()).unwrap();
    let line = "replay customer.load -t sim:size=1G --output run --merge acquaintance.load \
                --anonymise sesame,extent=4k";
    let (code, said) = fixture.said(line);
    assert!(fixture.path("run/run.toml").exists(), "{code}: {said}");
    for entry in fs::read_dir(fixture.path("run")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        for secret in ["sesame", "customer", "acquaintance"] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} stands in {}", path.display());
        }
    }
    let dry = fixture.run(&format!("{line} --dry-run"));
    let printed = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(printed.contains("anonymise key-not-kept,extent=4k"), "{printed}");
}

#[test]
fn a_run_like_another_has_its_settings_and_does_not_need_it() {
    let fixture = Fixture::new();
    let command = |run: &str| {
        let facts = fs::read_to_string(fixture.path(run).join("run.toml")).unwrap();
        let facts: toml::Table = facts.parse().unwrap();
        let words = facts["command"].as_array().unwrap().iter();
        words.map(|word| word.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let first = "replay customer.load -t sim:size=1G --repeat 3 --speedup 2 -o first -q";
    assert_eq!(fixture.said(first).0, 0);
    assert_eq!(fixture.said("replay --like first --speedup 4 -o second -q").0, 0);
    let told = "--target=sim:size=1G --repeat=3 --output=second --quiet --speedup=4";
    let words = command("second");
    let mut sorted: Vec<&str> = words.split(' ').skip(2).collect();
    sorted.sort_unstable();
    let mut expected: Vec<&str> = told.split(' ').chain(["--", "customer.load"]).collect();
    expected.sort_unstable();
    assert_eq!(sorted, expected);
    fs::remove_dir_all(fixture.path("first")).unwrap();
    assert_eq!(fixture.said("replay --like second --read-only -o third -q").0, 0);
    assert!(command("third").contains("--speedup=4"));
    // A run keeps the settings of the first run, not the way by which they came.
    assert!(!command("third").contains("--like"));
    assert_eq!(fixture.said("replay --like nowhere -o fourth").0, 3);
    fixture.refused("replay --like second --speedup 0 -o fourth", "speedup");
    assert_eq!(fixture.said("demo --sim -o demo").0, 0);
    fixture.refused("replay --like demo/run -o fourth", "`ioecho replay` did not make it");
    assert!(!fixture.path("fourth").exists());
    fixture.refused("replay customer.load -t sim --speedup 2 --speed 2", "both scale the time");
}
