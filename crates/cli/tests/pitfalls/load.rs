//! Pitfalls of the load against the target.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_trace::{Batch, Bytes, Columns, Header, Nanos, Op, Request, Volume, VolumeId, formats};

use ioecho_fixture::loop_device::Attached;
use ioecho_fixture::{MountPoint, Zram, or_skip, recording, run as system, skipped};

use crate::fixture::{Fixture, check, grade};

/// Reads of 4 KiB all over 16 MiB, for a second.
const READS: &str = "gen:random?size=4k&rate=1000&count=1000&area=16M";
/// The same with writes.
const WRITES: &str = "gen:random?read=0&size=4k&rate=1000&count=1000&area=16M";

impl Fixture {
    /// Replays the load with these options into the directory `run`. Returns the grade of a check.
    /// Other problems of the run do not matter here.
    fn graded(&self, name: &str, load: &str, options: &[&str], run: &str) -> String {
        self.told(name, load, options, run).0
    }

    /// The same, with the output of the run.
    fn told(&self, name: &str, load: &str, options: &[&str], run: &str) -> (String, String) {
        let output = self.ioecho(&[&["replay", load, "-q", "-o", run], options].concat());
        let run = self.path(run);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(run.join("summary.json").exists(), "{said}");
        (grade(&run, name), said)
    }

    /// A trace of a device of this many bytes, most of which it reads.
    fn of_device(&self, name: &str, size: u64) -> String {
        let volume = Volume { id: VolumeId(0), name: "sda".to_owned(), size: Some(Bytes(size)) };
        let source = "sda".to_owned();
        let header = Header { source, volumes: vec![volume], ..Header::default() };
        let mut batch = Batch::new(Columns::default());
        for n in 0..200 {
            let offset = Bytes(n * (size / 200) / 4096 * 4096);
            let issue = Nanos(n as i64 * 500_000);
            batch.push(&Request::new(issue, Op::Read, offset, Bytes(4096)));
        }
        let path = self.path(name);
        let mut sink = formats::create(&path, &header).unwrap();
        sink.write(&batch).unwrap();
        sink.finish(&header).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file of so many MiB, without any data.
    fn sparse(&self, name: &str, mib: u64) -> String {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(mib << 20).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A file of so many MiB filled by `ioecho prepare`.
    fn prepared(&self, name: &str, mib: u64) -> String {
        let path = self.sparse(name, mib);
        let output = self.ioecho(&["prepare", "--allow-cached", &path]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        path
    }

    /// A trace of reads, a millisecond apart, each with this service time in microseconds, with
    /// broken lines between them.
    fn recorded(&self, name: &str, reads: u64, micros: u64, junk_every: u64) -> String {
        let mut text = String::new();
        for n in 0..reads {
            let (ticks, offset) = (128_166_372_003_061_629 + n * 10_000, n * 7919 % 4096 * 4096);
            writeln!(text, "{ticks},usr,0,Read,{offset},4096,{}", micros * 10).unwrap();
            if junk_every > 0 && n % junk_every == junk_every / 2 {
                text.push_str("what the recorder wrote when its disk was full\n");
            }
        }
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

#[test]
fn a_load_wrapped_many_times_onto_a_small_target_is_suspect() {
    let fixture = Fixture::new();
    let load = "gen:random?size=4k&rate=2000&count=200&area=64M";
    let wrapped = |model: &str, size: &str| {
        let target = format!("sim:model={model},size={size}");
        fixture.graded("wraparound", load, &["-t", &target], &format!("{model}{size}"))
    };
    assert_eq!([wrapped("const", "16m"), wrapped("const", "64m")], ["suspect", "pass"]);
    // In a corner of a disk the arm hardly moves; in flash nothing has a way to go.
    assert_eq!([wrapped("disk", "1g"), wrapped("ssd", "1g")], ["suspect", "pass"]);
}

#[test]
fn a_target_of_another_size_than_the_recorded_device_is_suspect() {
    let fixture = Fixture::new();
    let load = fixture.of_device("recorded.parquet", 64 << 20);
    let sized = |model: &str, size: &str| {
        let target = format!("sim:model={model},size={size}");
        fixture.graded("target-size", &load, &["-t", &target], &format!("{model}{size}"))
    };
    assert_eq!([sized("disk", "16m"), sized("disk", "1g")], ["suspect", "suspect"]);
    assert_eq!([sized("disk", "64m"), sized("ssd", "1g")], ["pass", "pass"]);
    assert_eq!(sized("ssd", "16m"), "suspect");
    // A generated load comes from no device.
    let made = "gen:random?size=4k&rate=2000&count=200&area=64M";
    let options = ["-t", "sim:model=const,size=1g"];
    assert_eq!(fixture.graded("target-size", made, &options, "made"), "not-applicable");
}

#[test]
fn holes_and_zeroes_under_the_load_are_told_apart_and_data_there_are_enough() {
    let fixture = Fixture::new();
    let content = |target: &str, load: &str, run: &str| {
        let run_path = fixture.path(run);
        let options = ["-t", target, "--read-only", "--allow-cached"];
        (fixture.graded("content", load, &options, run), check(&run_path, "content"))
    };
    let holes = fixture.sparse("holes", 16);
    let (holes_grade, told) = content(&holes, READS, "on-holes");
    assert_eq!(holes_grade, "suspect");
    if told["measured"].as_str().unwrap().contains("100 % was never written") {
        assert!(told["advice"].as_str().unwrap().contains("Holes"), "{told}");
    } else {
        skipped("this file system does not tell where a file has holes");
    }

    let zeroes = fixture.path("zeroes");
    fs::write(&zeroes, vec![0; 16 << 20]).unwrap();
    File::open(&zeroes).unwrap().sync_all().unwrap();
    let (zeroes_grade, told) = content(zeroes.to_str().unwrap(), READS, "on-zeroes");
    assert_eq!(zeroes_grade, "suspect");
    assert!(told["advice"].as_str().unwrap().contains("wiped with zeroes"), "{told}");

    let prepared = fixture.prepared("prepared", 16);
    assert_eq!(content(&prepared, READS, "on-data").0, "pass");
}

#[test]
fn what_is_empty_where_the_load_does_not_go_is_no_matter() {
    let fixture = Fixture::new();
    // Noise in its first half, and nothing behind it.
    let path = fixture.sparse("half", 32);
    let noise: Vec<u8> =
        (0..16 << 20).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = File::options().write(true).open(&path).unwrap();
    (&file).write_all(&noise).unwrap();
    file.sync_all().unwrap();
    let options = ["-t", &path, "--read-only", "--allow-cached"];
    let (in_the_data, said) = fixture.told("content", READS, &options, "in-the-data");
    assert_eq!(in_the_data, "pass");
    assert!(!said.contains("such places"), "{said}");
    let behind = "gen:random?size=4k&rate=1000&count=1000&area=16M&offset=16M";
    let (behind_them, said) = fixture.told("content", behind, &options, "behind-them");
    assert_eq!(behind_them, "suspect");
    assert!(said.contains("of the places that the load goes to first, 100 %"), "{said}");
}

#[test]
fn a_working_set_that_fits_into_a_cache_below_is_suspect() {
    let fixture = Fixture::new();
    let small = ["-t", "sim:model=const,size=16m", "--cache-size", "64M"];
    assert_eq!(fixture.graded("lower-cache", READS, &small, "fits"), "suspect");
    let large = ["-t", "sim:model=const,size=16m", "--cache-size", "1M"];
    assert_eq!(fixture.graded("lower-cache", READS, &large, "does-not"), "pass");
    let unknown = ["-t", "sim:model=const,size=16m"];
    assert_eq!(fixture.graded("lower-cache", READS, &unknown, "unknown"), "not-applicable");
}

#[test]
fn a_loop_device_over_the_page_cache_is_told_from_one_past_it() {
    let fixture = Fixture::new();
    let path = fixture.prepared("image", 16);
    let graded = |direct: bool, run: &str| {
        let device = Attached::direct(path.as_ref(), direct)?;
        let options = ["-t", device.path(), "--read-only"];
        Ok::<_, String>(fixture.graded("lower-cache", READS, &options, run))
    };
    let cached = or_skip!(graded(false, "cached"));
    assert_eq!(cached, "suspect");
    let direct = or_skip!(graded(true, "direct"));
    assert_ne!(direct, "suspect");
}

/// A disk with a write cache. The cache takes bursts that are faster than the disk until it is
/// full.
const WITH_CACHE: &str = "sim:model=disk,size=1g,write-cache=8M";

#[test]
fn a_cache_that_fills_up_during_the_run_is_no_steady_state() {
    let fixture = Fixture::new();
    let graded = |load: &str, run: &str| {
        let steady = fixture.graded("steady-state", load, &["-t", WITH_CACHE], run);
        (steady, grade(&fixture.path(run), "run-length"))
    };
    let load = |rate: u32, duration: &str| {
        format!("gen:random?read=0&size=4k&rate={rate}&duration={duration}&area=1G")
    };
    let both = |grade: &str| (grade.to_owned(), grade.to_owned());
    assert_eq!(graded(&load(1000, "3s"), "fills-up"), both("suspect"));
    assert_eq!(graded(&load(30, "1m"), "never-full"), both("pass"));
}

#[test]
fn a_natural_load_on_a_steady_device_is_no_drift_and_on_a_cold_cache_it_is() {
    let Some(load) = recording("linux-mysql.load.gz") else { return };
    let fixture = Fixture::new();
    let graded = |target: &str, run: &str| {
        let target = ["-t", &format!("sim:size=64g,{target}")];
        fixture.graded("steady-state", load.to_str().unwrap(), &target, run);
        let names = ["steady-state", "run-length"];
        names.map(|name| grade(&fixture.path(run), name))
    };
    for model in ["model=exp", "model=disk", "model=bimodal", "model=ssd"] {
        assert_eq!(graded(model, model), ["pass", "pass"], "{model}");
    }
    let cold = graded("model=bimodal,cache=256M,service=3ms", "cold");
    assert_eq!(cold[1], "suspect", "it is warm after a third of the hour");
}

#[test]
fn a_run_is_to_last_ten_times_as_long_as_the_device_takes_to_settle() {
    let fixture = Fixture::new();
    let cache = "sim:model=bimodal,size=64m,cache=64m,service=5ms,units=32,hit-service=100us";
    let graded = |duration: &str, run: &str| {
        let load = format!("gen:random?size=4k&rate=2000&duration={duration}&area=64M");
        fixture.graded("run-length", &load, &["-t", cache], run)
    };
    // A cache of 16,384 pages is warm if each page was read three times, at random.
    assert_eq!(graded("60s", "too-short"), "suspect");
    assert_eq!(graded("15m", "long-enough"), "pass");
}

#[test]
fn a_device_of_another_speed_than_the_recorded_one_is_told() {
    let fixture = Fixture::new();
    let graded = |micros: u64, run: &str| {
        let load = fixture.recorded(&format!("{run}.csv"), 2000, micros, 0);
        let target = ["-t", "sim:model=const,service=1ms,size=16m"];
        fixture.graded("in-flight", &load, &target, run)
    };
    assert_eq!(graded(1000, "alike"), "pass");
    assert_eq!(graded(5000, "faster"), "limited");
    // Its response times are true, and could be had with more requests; what piles up is no load.
    assert_eq!(graded(30_000, "much-faster"), "limited");
    assert_eq!(graded(50, "much-slower"), "suspect");
}

#[test]
fn one_load_on_two_devices_is_told_from_two_loads() {
    let fixture = Fixture::new();
    let bursts = "gen:bursts?area=64M&duration=40s";
    let graded = |other: &str, run: &str| {
        let sims = ["-t", "sim:size=64m", "-t", "sim:size=64m,seed=2", "--merge", other];
        fixture.graded("same-load", bursts, &sims, run)
    };
    assert_eq!(graded(bursts, "same"), "suspect");
    let another = "gen:bursts?area=64M&duration=40s&slope=3&first=60&every=700ms";
    assert_eq!(graded(another, "other"), "pass");
}

#[test]
fn data_that_compress_on_a_compressing_device_are_suspect() {
    let fixture = Fixture::new();
    let zram = or_skip!(Zram::new("16M"));
    let replay = |fill: &str, run: &str| {
        let target = zram.path();
        let options = ["-t", target, "--destroy", target, "--fill-random", fill];
        fixture.graded("compression", WRITES, &options, run)
    };
    assert_eq!(replay("20", "shrinks"), "suspect");
    assert_eq!(replay("100", "does-not"), "pass");
    assert_eq!(grade(&fixture.path("does-not"), "storage"), "limited", "zram is memory");
    // The same data on storage that stores them unchanged.
    let path = fixture.prepared("disk", 16);
    let options = ["-t", &path, "--allow-cached", "--fill-random", "20"];
    assert_eq!(fixture.graded("compression", WRITES, &options, "on-disk"), "pass");
}

#[test]
fn a_recording_that_lost_much_or_was_cut_is_suspect() {
    let fixture = Fixture::new();
    let target = ["-t", "sim:model=const,size=16m"];
    let clean = fixture.recorded("clean.csv", 2000, 100, 0);
    assert_eq!(fixture.graded("recording", &clean, &target, "clean"), "pass");
    let junk = fixture.recorded("junk.csv", 2000, 100, 20);
    assert_eq!(fixture.graded("recording", &junk, &target, "junk"), "suspect");
    or_skip!(system("gzip", &["--keep", &clean]));
    let whole = fs::read(fixture.path("clean.csv.gz")).unwrap();
    fs::write(fixture.path("cut.csv.gz"), &whole[..whole.len() / 2]).unwrap();
    assert_eq!(fixture.graded("recording", "cut.csv.gz", &target, "cut"), "suspect");
}

#[test]
fn a_run_that_was_cut_by_a_signal_is_not_complete() {
    let fixture = Fixture::new();
    let target = fixture.prepared("file", 16);
    // The process that runs the tests may ignore the signal, and a child inherits that.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_ioecho"), "replay"]);
    command.args(["gen:random?size=4k&rate=200&duration=5m&area=16M", "-t", &target]);
    command.args(["--read-only", "--allow-cached", "-q", "-o"]).arg(fixture.path("cut"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while !fixture.path("cut/requests.journal").exists() && Instant::now() < until {
        sleep(Duration::from_millis(20));
    }
    sleep(Duration::from_millis(500));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(13));
    assert_eq!(grade(&fixture.path("cut"), "complete"), "invalid");

    let options = ["-t", &target, "--read-only", "--allow-cached"];
    assert_eq!(fixture.graded("complete", READS, &options, "whole"), "pass");
}

#[test]
fn requests_that_a_slow_device_pushes_back_are_a_finding_about_it() {
    let fixture = Fixture::new();
    let load = "gen:random?read=0&size=4k&rate=1000&count=2000&area=64k";
    let graded = |service: &str| {
        let target = format!("sim:model=const,size=64k,service={service}");
        fixture.graded("conflicts", load, &["-t", &target], service)
    };
    assert_eq!((graded("20ms").as_str(), graded("1us").as_str()), ("limited", "pass"));
}

#[test]
fn a_run_through_the_page_cache_is_invalid() {
    let fixture = Fixture::new();
    let ramfs = or_skip!(MountPoint::of_ramfs());
    let inside = ramfs.path().join("file");
    fs::write(&inside, vec![7; 16 << 20]).unwrap();
    let replay = |target: &str, run: &str| {
        fixture.graded("page-cache", READS, &["-t", target, "--read-only", "--allow-cached"], run)
    };
    let cached = replay(inside.to_str().unwrap(), "cached");
    let prepared = fixture.prepared("file", 16);
    match (cached.as_str(), replay(&prepared, "direct").as_str()) {
        ("pass", _) => skipped("ramfs does direct I/O here"),
        (_, "invalid") => skipped("no direct I/O where temporary files are"),
        (cached, direct) => assert_eq!((cached, direct), ("invalid", "pass")),
    }
    assert_eq!(grade(&fixture.path("cached"), "storage"), "suspect", "ramfs is memory");
}

#[test]
fn requests_that_a_device_refuses_fails_or_never_answers_are_told() {
    let fixture = Fixture::new();
    let graded = |name: &str, target: &str, more: &[&str], run: &str| {
        let load = "gen:random?size=512&align=512&rate=1000&count=1000&area=16M";
        fixture.graded(name, load, &[&["-t", target], more].concat(), run)
    };
    let blocks = "sim:model=const,size=16m,block=4096";
    assert_eq!(graded("issued", blocks, &[], "misaligned"), "invalid");
    assert_eq!(graded("issued", blocks, &["--align", "round"], "rounded"), "pass");
    assert_eq!(graded("failures", "sim:size=16m,errors=0.1", &[], "failing"), "invalid");
    assert_eq!(graded("failures", "sim:size=16m", &[], "sound"), "pass");
    assert_eq!(graded("accounted", "sim:size=16m,hang=0.01", &[], "hanging"), "invalid");
    assert_eq!(grade(&fixture.path("sound"), "accounted"), "pass");
}

#[test]
fn a_device_that_lies_is_caught_by_verification() {
    let fixture = Fixture::new();
    let load = "gen:random?read=0.5&size=4k&rate=1000&count=2000&area=1M";
    let graded = |target: &str, run: &str| {
        fixture.graded("integrity", load, &["-t", target, "--verify", "final"], run)
    };
    assert_eq!(graded("sim:model=const,size=1m,lies=0.05", "lying"), "limited");
    assert_eq!(graded("sim:model=const,size=1m", "honest"), "pass");
}

#[test]
fn a_device_that_cannot_take_the_load_is_a_finding_and_not_a_fault() {
    let fixture = Fixture::new();
    let graded = |service: &str| {
        let target = format!("sim:model=const,size=16m,units=1,service={service}");
        let lateness =
            fixture.graded("lateness", READS, &["-t", &target, "--in-flight-max", "8"], service);
        (lateness, grade(&fixture.path(service), "duration"))
    };
    let both = |grade: &str| (grade.to_owned(), grade.to_owned());
    assert_eq!(graded("5ms"), both("limited"));
    assert_eq!(graded("100us"), both("pass"));
}
