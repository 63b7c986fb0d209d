//! Pitfalls of the host and of the kernel between the replay and the device.
//!
//! A machine that runs tests is busy. So nothing here asserts how late requests were, only the
//! effect of the pitfall.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_fixture::loop_device::Attached;
use ioecho_fixture::{Backing, Frozen, LoopDevice, MountPoint, or_skip, run as system};

use crate::fixture::{Fixture, check, grade};

/// How long to wait for an event.
const PATIENCE: Duration = Duration::from_mins(1);

/// A place for runs on one loop device.
struct Bench {
    fixture: Fixture,
    device: LoopDevice,
}

impl Bench {
    fn new() -> Result<Self, String> {
        Ok(Self { fixture: Fixture::new(), device: LoopDevice::new(64 << 20)? })
    }

    /// Replays a load on the device, whatever the verdict is. Returns the run's directory.
    fn replay(&self, load: &str, run: &str, more: &[&str]) -> PathBuf {
        self.replay_on(self.device.path(), load, run, more)
    }

    fn replay_on(&self, target: &str, load: &str, run: &str, more: &[&str]) -> PathBuf {
        let output = self.fixture.ioecho(&arguments(target, load, run, more));
        let run = self.fixture.path(run);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(run.join("summary.json").exists(), "{said}");
        run
    }

    /// Begins a replay and returns it.
    fn begin(&self, load: &str, run: &str, more: &[&str]) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command
            .args(arguments(self.device.path(), load, run, more))
            .current_dir(self.fixture.path(""));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Running(child)
    }
}

fn arguments<'a>(target: &'a str, load: &'a str, run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["replay", load, "--target", target, "--destroy", target, "-o", run, "-q"];
    [&fixed, more].concat()
}

/// A program that is killed when this value is dropped.
struct Running(Child);

impl Running {
    fn wait(mut self) {
        self.0.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        system("kill", &[&format!("-{name}"), &self.0.id().to_string()]).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell that repeats a command for ever.
fn for_ever(what: &str, argument: &str) -> Running {
    let script = format!("while :; do {what}; done");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", argument]).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

/// Waits until the journal of a run has so many bytes.
fn wait_for_results(journal: &std::path::Path, bytes: u64) {
    let begun = Instant::now();
    while std::fs::metadata(journal).map_or(0, |data| data.len()) < bytes {
        assert!(begun.elapsed() < PATIENCE, "{} does not grow", journal.display());
        sleep(Duration::from_millis(10));
    }
}

fn measured(run: &std::path::Path, name: &str) -> String {
    check(run, name)["measured"].as_str().unwrap().to_owned()
}

#[test]
fn a_load_beyond_what_a_host_can_pace_is_told() {
    let bench = or_skip!(Bench::new());
    let graded = |rate: &str, run: &str| {
        let load = format!("gen:random?read=1&size=4k&area=64M&{rate}");
        grade(&bench.replay(&load, run, &[]), "demand")
    };
    // A million requests in 100 ms: no processor can pace 10 million requests a second in one
    // thread.
    assert_eq!(graded("rate=10000k&duration=100ms", "beyond"), "suspect");
    assert_eq!(graded("rate=1k&duration=1s", "within"), "pass");
}

#[test]
fn neighbours_that_the_kernel_merges_are_told_and_a_queue_that_merges_none_passes() {
    let bench = or_skip!(Bench::new());
    let load = "gen:sequential?size=4k&rate=2000&count=4000&area=64M&read=0";
    let how = ["--timing", "afap", "--in-flight-max", "64"];
    or_skip!(bench.device.set("nomerges", "0"));
    let merged = bench.replay(load, "merged", &how);
    assert_eq!(grade(&merged, "scheduler"), "limited", "{}", measured(&merged, "scheduler"));
    or_skip!(bench.device.set("nomerges", "2"));
    let alone = bench.replay(load, "alone", &how);
    assert_eq!(grade(&alone, "scheduler"), "pass", "{}", measured(&alone, "scheduler"));
}

#[test]
fn requests_cut_though_the_device_takes_them_whole_are_told() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=256k&rate=200&count=100&area=64M";
    or_skip!(bench.device.set("max_sectors_kb", "64"));
    let cut = bench.replay(load, "cut", &[]);
    assert_eq!(grade(&cut, "scheduler"), "suspect", "{}", measured(&cut, "scheduler"));
    assert_eq!(grade(&cut, "other-load"), "pass", "{}", measured(&cut, "other-load"));
    or_skip!(bench.device.set("max_sectors_kb", "512"));
    let whole = bench.replay(load, "whole", &[]);
    assert_eq!(grade(&whole, "scheduler"), "pass", "{}", measured(&whole, "scheduler"));
}

#[test]
fn a_scheduler_that_delays_on_purpose_is_told() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=1000&count=200&area=64M";
    or_skip!(bench.device.set("scheduler", "bfq"));
    assert_eq!(grade(&bench.replay(load, "bfq", &[]), "scheduler"), "suspect");
    or_skip!(bench.device.set("scheduler", "none"));
    assert_eq!(grade(&bench.replay(load, "none", &[]), "scheduler"), "pass");
}

#[test]
fn more_in_flight_than_the_queue_takes_is_told_and_as_much_as_it_takes_passes() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=10000&count=20000&area=64M";
    let afap = |run, cap| bench.replay(load, run, &["--timing", "afap", "--in-flight-max", cap]);
    assert_eq!(grade(&afap("deep", "1024"), "queue-depth"), "suspect");
    assert_eq!(grade(&afap("fitting", "64"), "queue-depth"), "pass");
}

#[test]
fn a_cap_that_holds_requests_back_is_told() {
    let bench = or_skip!(Bench::new());
    // Sixteen requests of 4 MiB at nearly one instant cannot be done one by one within a
    // millisecond.
    let load = "gen:random?size=4M&rate=4000&count=64&area=64M";
    let capped = bench.replay(load, "capped", &["--in-flight-max", "1"]);
    assert_eq!(grade(&capped, "queue-depth"), "suspect", "{}", measured(&capped, "queue-depth"));
    let load = "gen:random?size=4k&rate=500&count=200&area=64M";
    let free = bench.replay(load, "free", &[]);
    assert_eq!(grade(&free, "queue-depth"), "pass", "{}", measured(&free, "queue-depth"));
}

#[test]
fn a_second_reader_of_the_device_is_told_and_no_other_passes() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=2000&count=2000&area=64M";
    let reader = for_ever("dd if=\"$1\" of=/dev/null bs=64k iflag=direct", bench.device.path());
    let shared = bench.replay(load, "shared", &[]);
    drop(reader);
    assert_eq!(grade(&shared, "other-load"), "suspect", "{}", measured(&shared, "other-load"));
    // The last program of the reader may still be reading.
    sleep(Duration::from_millis(500));
    let alone = bench.replay(load, "alone", &[]);
    assert_eq!(grade(&alone, "other-load"), "pass", "{}", measured(&alone, "other-load"));
}

#[test]
fn a_reader_of_the_device_below_or_of_another_partition_is_told() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=2000&count=2000&area=16M";
    let upper = or_skip!(Attached::direct(&bench.device.path, true));
    let below = |run| bench.replay_on(upper.path(), load, run, &[]);
    let alone = below("alone");
    assert_eq!(grade(&alone, "other-load"), "pass", "{}", measured(&alone, "other-load"));
    let read = |what: &str| for_ever("dd if=\"$1\" of=/dev/null bs=64k iflag=direct", what);
    let reader = read(bench.device.path());
    let shared = below("shared");
    drop(reader);
    assert_eq!(grade(&shared, "other-load"), "suspect", "{}", measured(&shared, "other-load"));

    let disk = or_skip!(LoopDevice::new(64 << 20));
    let ours = or_skip!(disk.partition(1, 2048, 40_960));
    let others = or_skip!(disk.partition(2, 65_536, 40_960));
    let reader = read(&others);
    let beside = bench.replay_on(&ours, load, "beside", &[]);
    drop(reader);
    assert_eq!(grade(&beside, "other-load"), "suspect", "{}", measured(&beside, "other-load"));
    sleep(Duration::from_millis(500));
    let alone = bench.replay_on(&ours, load, "alone-on-it", &[]);
    assert_eq!(grade(&alone, "other-load"), "pass", "{}", measured(&alone, "other-load"));
}

#[test]
fn a_partition_that_begins_in_the_middle_of_a_block_is_told() {
    let bench = or_skip!(Bench::new());
    let old = or_skip!(bench.device.partition(1, 63, 40_960));
    let new = or_skip!(bench.device.partition(2, 65_536, 40_960));
    let load = "gen:random?size=4k&rate=1000&count=200&area=16M&read=0";
    let shifted = bench.replay_on(&old, load, "shifted", &[]);
    assert_eq!(grade(&shifted, "alignment"), "suspect", "{}", measured(&shifted, "alignment"));
    let right = bench.replay_on(&new, load, "right", &[]);
    assert_eq!(grade(&right, "alignment"), "pass", "{}", measured(&right, "alignment"));
}

#[test]
fn a_loop_device_that_begins_in_the_middle_of_a_page_is_told() {
    let bench = or_skip!(Bench::new());
    let below = Backing::on_disk(65 << 20);
    let graded = |offset: &str, run: &str| {
        let device = Attached::over(&below.path, &["--direct-io=off", "--offset", offset])?;
        let load = "gen:random?size=4k&rate=1000&count=200&area=64M&read=0";
        let run = bench.replay_on(device.path(), load, run, &[]);
        Ok::<_, String>((grade(&run, "alignment"), measured(&run, "alignment")))
    };
    let (shifted, told) = or_skip!(graded("512", "shifted"));
    assert_eq!(shifted, "suspect", "{told}");
    let (right, told) = or_skip!(graded("4096", "right"));
    assert_eq!(right, "pass", "{told}");
}

#[test]
fn writes_of_a_part_of_a_page_are_told_and_those_of_whole_pages_pass() {
    let bench = or_skip!(Bench::new());
    let load = |size: &str| format!("gen:random?size={size}&rate=1000&count=200&area=64M&read=0");
    let part = bench.replay(&load("512"), "part", &[]);
    assert_eq!(grade(&part, "alignment"), "limited", "{}", measured(&part, "alignment"));
    let whole = bench.replay(&load("4k"), "whole", &[]);
    assert_eq!(grade(&whole, "alignment"), "pass", "{}", measured(&whole, "alignment"));
}

#[test]
fn flushes_that_the_kernel_drops_are_told_and_those_that_arrive_pass() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=1000&count=200&area=64M&read=0&flush=4";
    or_skip!(bench.device.set("write_cache", "write through"));
    let dropped = bench.replay(load, "dropped", &[]);
    assert_eq!(grade(&dropped, "durability"), "suspect", "{}", measured(&dropped, "durability"));
    or_skip!(bench.device.set("write_cache", "write back"));
    let kept = bench.replay(load, "kept", &[]);
    assert_eq!(grade(&kept, "durability"), "pass", "{}", measured(&kept, "durability"));
}

#[test]
fn discards_that_the_target_cannot_do_are_told() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=1000&count=200&area=64M&read=0&discard=20";
    let done = bench.replay(load, "done", &[]);
    assert_eq!(grade(&done, "durability"), "pass", "{}", measured(&done, "durability"));
    // A file system in memory that cannot punch holes into a file.
    let ramfs = or_skip!(MountPoint::of_ramfs());
    let backing = Backing::in_directory(ramfs.path(), 64 << 20);
    let without = or_skip!(LoopDevice::over(backing, &[]));
    let lost = bench.replay_on(without.path(), load, "lost", &[]);
    drop((without, ramfs));
    // A fifth of the load: that makes the run invalid, and is told once.
    assert_eq!(grade(&lost, "durability"), "invalid", "{}", measured(&lost, "durability"));
    assert_eq!(grade(&lost, "issued"), "pass", "{}", measured(&lost, "issued"));
}

#[test]
fn programs_that_compute_on_every_processor_are_told() {
    let bench = or_skip!(Bench::new());
    let cpus = std::thread::available_parallelism().unwrap().get();
    let hogs: Vec<Running> = (0..cpus * 2).map(|_| for_ever(":", "")).collect();
    let load = "gen:random?size=4k&rate=500&duration=2s&area=64M";
    let crowded = bench.replay(load, "crowded", &[]);
    drop(hogs);
    assert_eq!(grade(&crowded, "cpu"), "suspect", "{}", measured(&crowded, "cpu"));
}

#[test]
fn clocks_that_nobody_touched_pass() {
    let bench = or_skip!(Bench::new());
    let run = bench.replay("gen:random?size=4k&rate=500&duration=2s&area=64M", "run", &[]);
    let measured = measured(&run, "clock");
    assert_ne!(grade(&run, "clock"), "invalid", "{measured}");
    assert!(measured.contains("no step in"), "{measured}");
}

#[test]
fn results_that_cannot_be_written_for_seconds_are_told() {
    let bench = or_skip!(Bench::new());
    let disk = or_skip!(LoopDevice::new(256 << 20));
    or_skip!(system("mkfs.ext4", &["-q", "-F", disk.path()]));
    let mount = or_skip!(MountPoint::of(&disk.path));
    let run = mount.path().join("run");
    let load = "gen:random?size=4k&rate=10000&count=400000&area=64M";
    let how = ["--timing", "afap", "--in-flight-max", "64"];
    let running = bench.begin(load, run.to_str().unwrap(), &how);
    wait_for_results(&run.join("requests.journal"), 100_000);
    let frozen = Frozen::new(&mount).unwrap();
    sleep(Duration::from_secs(5));
    drop(frozen);
    running.wait();
    let found = grade(&run, "recorder");
    assert!(["suspect", "invalid"].contains(&found.as_str()), "{}", measured(&run, "recorder"));
    let load = "gen:random?size=4k&rate=1000&count=500&area=64M";
    let right = bench.replay(load, "right", &[]);
    assert_eq!(grade(&right, "recorder"), "pass", "{}", measured(&right, "recorder"));
}

#[test]
fn a_replay_that_was_stopped_for_a_while_is_the_hosts_fault() {
    let bench = or_skip!(Bench::new());
    let load = "gen:random?size=4k&rate=1000&duration=4s&area=64M";
    let running = bench.begin(load, "stopped", &[]);
    let run = bench.fixture.path("stopped");
    wait_for_results(&run.join("requests.journal"), 20_000);
    running.signal("STOP");
    sleep(Duration::from_millis(1500));
    running.signal("CONT");
    running.wait();
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["verdict"]["finding"], "host-stalled", "{}", measured(&run, "lateness"));
    assert_eq!(grade(&run, "lateness"), "invalid");
    let latest = |run: &std::path::Path| {
        let text = std::fs::read_to_string(run.join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        summary["lateness"]["all"]["max_ns"].as_u64().unwrap()
    };
    assert!(latest(&run) > 1_000_000_000);
    assert!(latest(&bench.replay(load, "left-alone", &[])) < 1_000_000_000);
}

#[test]
fn a_required_check_decides_the_exit_code_and_an_unknown_one_is_refused() {
    let fixture = Fixture::new();
    let replay = |size: &str, run: &str, required: &str| {
        let target = format!("sim:model=const,size={size}");
        let load = "gen:random?size=4k&rate=2000&count=200&area=64M";
        fixture
            .ioecho(&["replay", load, "--target", &target, "-o", run, "--require", required])
            .status
            .code()
    };
    assert_eq!(replay("64m", "right", "wraparound,complete"), Some(0));
    assert_eq!(replay("16m", "wrapped", "wraparound"), Some(16));
    assert_eq!(replay("16m", "other", "complete"), Some(0));
    assert_eq!(replay("64m", "unproven", "clock"), Some(16));
    assert_eq!(replay("64m", "never", "wraparounds"), Some(2));
    assert!(!fixture.path("never").exists());
    let report = |run: &str, required: &str| {
        fixture.ioecho(&["report", run, "--require", required]).status.code()
    };
    assert_eq!(report("wrapped", "wraparound"), Some(16));
    assert_eq!(report("wrapped", "complete,accounted"), Some(0));
    let plan = std::fs::read_to_string(fixture.path("wrapped").join("run.toml")).unwrap();
    assert!(plan.contains("require = [\"wraparound\"]"), "{plan}");
}

#[test]
fn a_check_is_explained_by_its_page_and_every_check_stands_in_the_list() {
    let fixture = Fixture::new();
    let list = fixture.ioecho(&["explain"]);
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.lines().any(|line| line.starts_with("other-load ")), "{list}");
    let page = fixture.ioecho(&["explain", "other-load"]);
    assert!(String::from_utf8(page.stdout).unwrap().starts_with("# other-load: "));
    assert_eq!(fixture.ioecho(&["explain", "nothing"]).status.code(), Some(2));
}
