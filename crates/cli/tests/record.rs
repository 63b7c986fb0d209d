//! `ioecho record`: the file holds exactly the requests of the device, and the kernel is left as it
//! was.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ioecho_fixture::{
    Elsewhere, LoopDevice, Zram, can_record, not_here, or_skip, run as system, trace_instances,
};
use tempfile::TempDir;

/// A directory in memory for the recordings, so that they cause no requests to a disk.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Result<Self, String> {
        tempfile::tempdir_in("/dev/shm").map(Self).map_err(|error| format!("/dev/shm: {error}"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        // A shell ignores SIGQUIT for tests in the background, and a recording would respect that.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_ioecho")]);
        command.args(arguments).current_dir(self.0.path());
        command
    }

    fn ioecho(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts a recording and waits until it records.
    fn recording(&self, arguments: &[&str]) -> Result<Recording, String> {
        let mut child = self.command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("recording ") {
            let before = text.len();
            told.read_line(&mut text).unwrap();
            if text.len() == before {
                child.wait().unwrap();
                return Err(text);
            }
        }
        Ok(Recording { child, told })
    }

    /// The requests of the trace: operation, offset and length of each.
    fn requests(&self, trace: &str) -> Vec<(String, u64, u64)> {
        let converted = self.ioecho(&["convert", trace, "requests.csv"]);
        assert!(converted.status.success(), "{}", said(&converted));
        let text = fs::read_to_string(self.path("requests.csv")).unwrap();
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name: &str| names.iter().position(|other| *other == name).unwrap();
        let (op, offset, length) = (column("op"), column("offset_bytes"), column("length_bytes"));
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                let number = |at: usize| fields[at].parse().unwrap();
                (fields[op].to_owned(), number(offset), number(length))
            })
            .collect()
    }
}

/// A running recording.
struct Recording {
    child: Child,
    told: BufReader<std::process::ChildStderr>,
}

impl Recording {
    fn signal(&self, signal: &str) {
        system("kill", &[signal, &self.child.id().to_string()]).unwrap();
    }

    /// Waits for its end. Returns its exit code and its output.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.told, &mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether the kernel lets this test record, or the reason why not.
fn allowed(fixture: &Fixture, device: &str) -> Result<(), String> {
    can_record(&fixture.ioecho(&["record", device, "-o", "x.parquet", "--dry-run"]))
}

/// One direct request by dd: read or write, so many blocks of this size from this block on.
fn request(device: &str, op: &str, block: u64, size: u64) {
    let blocks = [format!("bs={size}"), format!("skip={block}"), format!("seek={block}")];
    let device_is = |side: &str| format!("{side}={device}");
    let arguments = match op {
        "read" => [&device_is("if"), "of=/dev/null", &blocks[0], &blocks[1], "iflag=direct"]
            .map(str::to_owned),
        _ => ["if=/dev/zero", &device_is("of"), &blocks[0], &blocks[2], "oflag=direct"]
            .map(str::to_owned),
    };
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["count=1", "conv=notrunc", "status=none"]);
    system("dd", &arguments).unwrap();
}

/// A fixed load in the order of issue: operation, offset, length.
fn fixed_load() -> Vec<(String, u64, u64)> {
    let sizes = [4096, 8192, 16384, 65536];
    (0..40_u64)
        .map(|number| {
            let size = sizes[(number % 4) as usize];
            let op = if number % 3 == 0 { "write" } else { "read" };
            (op.to_owned(), number * 7919 % 60 * size, size)
        })
        .collect()
}

fn issue(device: &str, load: &[(String, u64, u64)]) {
    for (op, offset, size) in load {
        request(device, op, offset / size, *size);
    }
}

/// Records the fixed load on a device and compares.
fn record_and_compare(fixture: &Fixture, device: &str) {
    let recording =
        fixture.recording(&["record", device, "-o", "load.parquet", "--events", "all"]).unwrap();
    let pid = recording.child.id();
    issue(device, &fixed_load());
    recording.signal("-INT");
    let (code, text) = recording.end();
    assert_eq!(code, Some(0), "{text}");
    let mut expected = fixed_load();
    let mut found = fixture.requests("load.parquet");
    // dd waits for each request, so the recording has the same order.
    assert_eq!(found, expected, "{text}");
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(trace_instances::of(pid), Vec::<PathBuf>::new());
    assert!(!fixture.path("load.parquet.recording").exists(), "removed when it was converted");
}

#[test]
fn exactly_the_requests_of_a_fixed_load_are_in_the_file() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    record_and_compare(&fixture, device.path());
}

#[test]
fn a_device_without_a_request_queue_is_recorded_by_its_bios() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(Zram::new("16M"));
    or_skip!(allowed(&fixture, device.path()));
    record_and_compare(&fixture, device.path());
}

#[test]
fn of_a_partition_only_its_own_requests_are_recorded_and_from_its_start() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(64 << 20));
    let first = or_skip!(device.partition(1, 2048, 32768));
    let second = or_skip!(device.partition(2, 65536, 32768));
    or_skip!(allowed(&fixture, &second));
    let recording = fixture.recording(&["record", &second, "-o", "load.parquet"]).unwrap();
    request(&first, "write", 3, 4096);
    request(&second, "write", 5, 4096);
    request(&second, "read", 6, 8192);
    recording.signal("-INT");
    let (code, text) = recording.end();
    assert_eq!(code, Some(0), "{text}");
    let expected = [("write".to_owned(), 5 * 4096, 4096), ("read".to_owned(), 6 * 8192, 8192)];
    assert_eq!(fixture.requests("load.parquet"), expected, "{text}");
}

#[test]
fn of_a_disk_the_requests_of_all_its_partitions_are_recorded() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(64 << 20));
    let first = or_skip!(device.partition(1, 2048, 32768));
    or_skip!(allowed(&fixture, device.path()));
    let recording = fixture.recording(&["record", device.path(), "-o", "load.parquet"]).unwrap();
    request(&first, "write", 3, 4096);
    request(device.path(), "read", 6, 8192);
    recording.signal("-INT");
    let (code, text) = recording.end();
    assert_eq!(code, Some(0), "{text}");
    let written = 2048 * 512 + 3 * 4096;
    let expected = [("write".to_owned(), written, 4096), ("read".to_owned(), 6 * 8192, 8192)];
    assert_eq!(fixture.requests("load.parquet"), expected, "{text}");
}

#[test]
fn a_command_is_recorded_while_it_runs_and_the_recording_replays() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    let read = format!("dd if={} of=/dev/null bs=64k count=20 iflag=direct", device.path());
    let recorded =
        ["record", device.path(), "-o", "load.parquet", "--force", "--keep-raw", "-q", "--"];
    let good = fixture.ioecho(&[&recorded[..], &["sh", "-c", &read]].concat());
    assert_eq!(good.status.code(), Some(0), "{}", said(&good));
    // Other tests may be recording at the same time, or may have been killed.
    let said_of_itself = said(&good).lines().filter(|line| !line.starts_with("note: ")).count();
    // The messages of dd have three lines.
    assert_eq!(said_of_itself, 3, "{}", said(&good));
    let facts = fixture.ioecho(&["info", "load.parquet", "--json"]);
    let facts = String::from_utf8_lossy(&facts.stdout).into_owned();
    assert!(facts.contains("its command has ended"), "{facts}");
    assert_eq!(fixture.requests("load.parquet").len(), 20);
    assert!(fixture.path("load.parquet.recording").join("recording.json").exists());
    // The raw recording can be converted again.
    assert_eq!(fixture.requests("load.parquet.recording").len(), 20);
    let target = ["replay", "load.parquet", "-t", "sim:size=64M", "-o", "run", "--quiet"];
    let replayed = fixture.ioecho(&target);
    assert!(replayed.status.success(), "{}", said(&replayed));
    // The raw recording is in the way of the next one.
    let again = fixture.ioecho(&[&recorded[..], &["true"]].concat());
    assert_eq!(again.status.code(), Some(7), "{}", said(&again));
    fs::remove_dir_all(fixture.path("load.parquet.recording")).unwrap();
    let bad = fixture.ioecho(&[&recorded[..], &["sh", "-c", &format!("{read}; exit 3")]].concat());
    assert_eq!(bad.status.code(), Some(32), "{}", said(&bad));
    assert!(said(&bad).contains("exit status: 3"), "{}", said(&bad));
}

#[test]
fn what_a_killed_recorder_leaves_in_the_kernel_is_removed_by_the_next_start() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    let killed = fixture.recording(&["record", device.path(), "-o", "load.parquet"]).unwrap();
    let pid = killed.child.id();
    assert_eq!(trace_instances::of(pid).len(), 1, "while it goes on it has one");
    issue(device.path(), &fixed_load());
    // After a second the kernel holds events.
    std::thread::sleep(Duration::from_millis(1500));
    killed.signal("-KILL");
    killed.end();
    // Whether the instance still exists is not checked: any recorder that starts on this machine
    // removes it, and may have been faster.
    assert_eq!(
        fixture.requests_of_damaged("load.parquet.recording"),
        fixed_load().len(),
        "all that was recorded can be read"
    );
    let cleaned = fixture.ioecho(&["record", "--clean"]);
    assert!(cleaned.status.success(), "{}", said(&cleaned));
    assert_eq!(trace_instances::of(pid), Vec::<PathBuf>::new());
}

impl Fixture {
    /// The number of requests in an incomplete trace.
    fn requests_of_damaged(&self, trace: &str) -> usize {
        self.ioecho(&["convert", trace, "requests.csv"]);
        let text = fs::read_to_string(self.path("requests.csv")).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).count() - 1
    }
}

#[test]
fn signals_and_the_end_of_the_time_end_a_recording_cleanly() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    for signal in ["-TERM", "-HUP", "-QUIT"] {
        let load = format!("load{signal}.parquet");
        let recording = fixture.recording(&["record", device.path(), "-o", &load]).unwrap();
        // Signals that ask other programs for their state do not end the recording.
        recording.signal("-USR1");
        request(device.path(), "read", 0, 4096);
        let pid = recording.child.id();
        recording.signal(signal);
        // Like `timeout`: one signal to the process and one to its group.
        recording.signal(signal);
        let (code, text) = recording.end();
        assert_eq!(code, Some(0), "{signal}: {text}");
        assert_eq!(trace_instances::of(pid), Vec::<PathBuf>::new(), "{signal}");
        assert_eq!(fixture.requests(&load).len(), 1);
    }
    let begun = Instant::now();
    let timed = ["record", device.path(), "-o", "timed.parquet", "--for", "300ms"];
    let recording = fixture.recording(&timed).unwrap();
    request(device.path(), "read", 0, 4096);
    let (code, text) = recording.end();
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn of_an_idle_device_nothing_is_written_and_nothing_is_in_the_way() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    let arguments = ["record", device.path(), "-q", "-o", "load.parquet", "--", "true"];
    for _ in 0..2 {
        let answer = fixture.ioecho(&arguments);
        assert_eq!(answer.status.code(), Some(3), "{}", said(&answer));
        assert!(said(&answer).contains("no request came to loop"), "{}", said(&answer));
    }
    assert_eq!(fs::read_dir(fixture.0.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_recorded_is_refused_with_its_own_exit_code() {
    let fixture = or_skip!(Fixture::new());
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let answer = fixture.ioecho(&[&["record"], arguments].concat());
        assert_eq!(answer.status.code(), Some(code), "{arguments:?}: {}", said(&answer));
        assert!(said(&answer).contains(words), "{arguments:?}: {}", said(&answer));
    };
    refused(&["/dev/null", "-o", "x.parquet"], 5, "character device");
    refused(&["/nowhere", "-o", "x.parquet"], 5, "no such file");
    fs::write(fixture.path("there.parquet"), "the only recording of that night").unwrap();
    refused(&["/nowhere", "-o", "there.parquet"], 7, "replace this one with --force");
    refused(&["/nowhere", "-o", "there.parquet", "--force"], 5, "no such file");
    fs::remove_file(fixture.path("there.parquet")).unwrap();
    refused(&["/nowhere", "-o", "x.parquet"], 5, "`lsblk` lists the block devices\n");
    refused(&[".", "-o", "x.parquet"], 5, "directory");
    refused(&["/dev/null", "-o", "-"], 2, "standard output");
    refused(&["/dev/null", "-o", "x.unknown"], 2, "which format");
    refused(&["/dev/null"], 2, "--output");
    refused(&["-o", "x.parquet"], 2, "DEVICE");
    refused(&["/dev/null", "-o", "x.parquet", "--buffer", "1"], 2, "must be between");
    refused(&["/dev/null", "-o", "x.parquet", "--segment", "7"], 2, "no size and no time");
    assert_eq!(fs::read_dir(fixture.0.path()).unwrap().count(), 0, "nothing was made");
}

#[test]
fn the_same_requests_are_seen_by_trace_cmd() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    if let Err(reason) = system("trace-cmd", &["list", "-e", "block_bio_queue"]) {
        return not_here(Elsewhere::TraceCmd, reason);
    }
    let data = fixture.path("trace.dat");
    let data = data.to_str().unwrap();
    let name = Path::new(device.path()).file_name().unwrap().to_str().unwrap();
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let number = major.parse::<u64>().unwrap() << 20 | minor.parse::<u64>().unwrap();
    let filter = format!("dev == {number}");
    let mut load = String::from("set -e;");
    for (op, offset, size) in fixed_load() {
        let (block, device) = (offset / size, device.path());
        let ends = match op.as_str() {
            "read" => format!("if={device} of=/dev/null skip={block} iflag=direct"),
            _ => format!("if=/dev/zero of={device} seek={block} oflag=direct conv=notrunc"),
        };
        load.extend(["dd ", &ends, &format!(" bs={size} count=1 status=none;")]);
    }
    // An instance of its own, as ioecho uses it. All programs share the top instance.
    let instance = format!("ioecho-test-{}", std::process::id());
    let record = ["record", "-q", "-B", &instance, "-e", "block:block_bio_queue", "-f", &filter];
    let arguments = [&record[..], &["-o", data, "sh", "-c", &load]].concat();
    let recorded = system("trace-cmd", &arguments);
    let _ = system("trace-cmd", &["reset", "-B", &instance, "-d"]);
    // If this recorder could not record, it leaves its instance behind.
    let _ = fs::remove_dir(format!("/sys/kernel/tracing/instances/{instance}"));
    or_skip!(recorded);
    let report = system("trace-cmd", &["report", "-i", data]).unwrap();
    let theirs: Vec<(String, u64, u64)> = report
        .lines()
        .filter_map(|line| {
            let (_, event) = line.split_once("block_bio_queue:")?;
            // 7,3 R 1024 + 8 [dd]
            let words: Vec<&str> = event.split_whitespace().collect();
            let op = if words[1].starts_with('R') { "read" } else { "write" };
            let number = |at: usize| words[at].parse::<u64>().unwrap() * 512;
            Some((op.to_owned(), number(2), number(4)))
        })
        .collect();
    assert_eq!(theirs, fixed_load());
    record_and_compare(&fixture, device.path());
}

#[test]
fn where_nothing_is_inserted_insertions_are_not_waited_for() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(Zram::new("16M"));
    or_skip!(allowed(&fixture, device.path()));
    let answer =
        fixture.ioecho(&["record", device.path(), "-o", "x.parquet", "--event", "inserted"]);
    assert_eq!(answer.status.code(), Some(2), "{}", said(&answer));
    assert!(said(&answer).contains("no I/O scheduler"), "{}", said(&answer));
}

#[test]
fn a_dry_run_looks_for_the_command_and_does_not_run_it() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    let arguments = ["record", device.path(), "-o", "load.parquet", "--dry-run", "--"];
    let answer = fixture.ioecho(&[&arguments[..], &["touch", "made"]].concat());
    assert_eq!(answer.status.code(), Some(0), "{}", said(&answer));
    assert!(said(&answer).contains("touch made, until it ends"), "{}", said(&answer));
    assert!(!fixture.path("made").exists());
    let answer = fixture.ioecho(&[&arguments[..], &["no-program-has-this-name"]].concat());
    assert_eq!(answer.status.code(), Some(2), "{}", said(&answer));
}

#[test]
fn where_tracefs_is_not_mounted_it_is_used_and_stays_unmounted() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    let script = format!(
        "for place in $(grep -E ' (tracefs|debugfs) ' /proc/mounts | cut -d' ' -f2 | sort -r); do \
         umount -l $place || exit 99; done; ! grep -q tracefs /proc/mounts || exit 99; \
         {program} record {device} -o load.parquet --dry-run || exit 1; \
         {program} record {device} -o load.parquet -- \
         dd if={device} of=/dev/null bs=4k count=1 iflag=direct || exit 2; \
         ! grep -q tracefs /proc/mounts || exit 3",
        program = env!("CARGO_BIN_EXE_ioecho"),
        device = device.path()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(fixture.0.path());
    let answer = or_skip!(command.output().map_err(|error| format!("unshare: {error}")));
    if answer.status.code() == Some(99) {
        ioecho_fixture::skipped("tracefs cannot be unmounted");
        return;
    }
    assert_eq!(answer.status.code(), Some(0), "{}", said(&answer));
    assert_eq!(fixture.requests("load.parquet").len(), 1);
}

#[test]
fn a_recording_goes_on_where_tracefs_is_unmounted_under_it() {
    let fixture = or_skip!(Fixture::new());
    let device = or_skip!(LoopDevice::new(16 << 20));
    or_skip!(allowed(&fixture, device.path()));
    // The shell becomes the recorder, so that its number is known.
    let script = format!(
        "mkdir there && for place in \
         $(grep -E ' (tracefs|debugfs) ' /proc/mounts | cut -d' ' -f2 | sort -r); do \
         umount -l $place || exit 99; done; mount -t tracefs tracefs there || exit 99; \
         exec {program} record {device} -o load.parquet -- \
         sh -c 'umount -l there && dd if={device} of=/dev/null bs=4k count=3 iflag=direct'",
        program = env!("CARGO_BIN_EXE_ioecho"),
        device = device.path()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(fixture.0.path());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let recorder = or_skip!(command.spawn().map_err(|error| format!("unshare: {error}")));
    let pid = recorder.id();
    let answer = recorder.wait_with_output().unwrap();
    if answer.status.code() == Some(99) {
        ioecho_fixture::skipped("tracefs cannot be mounted and unmounted");
        return;
    }
    assert_eq!(answer.status.code(), Some(0), "{}", said(&answer));
    assert_eq!(fixture.requests("load.parquet").len(), 3);
    assert_eq!(trace_instances::of(pid), Vec::<PathBuf>::new());
}

#[test]
fn who_may_not_look_is_told_so_and_not_that_nothing_was_left() {
    let fixture = or_skip!(Fixture::new());
    // A program in a directory from which everybody may run it.
    let program = fixture.path("ioecho");
    or_skip!(fs::copy(env!("CARGO_BIN_EXE_ioecho"), &program).map_err(|error| error.to_string()));
    or_skip!(system("chmod", &["755", fixture.0.path().to_str().unwrap()]));
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(&program).args(arguments).output().map_err(|error| error.to_string())
    };
    let able = or_skip!(as_nobody(&["--version"]));
    if !able.status.success() {
        ioecho_fixture::skipped(said(&able));
        return;
    }
    let answer = as_nobody(&["record", "--clean"]).unwrap();
    assert_eq!(answer.status.code(), Some(30), "{}", said(&answer));
    assert!(said(&answer).contains("run as root"), "{}", said(&answer));
    assert!(!said(&answer).contains("not mounted, and may not"), "{}", said(&answer));
}

#[test]
fn what_a_command_does_with_files_is_recorded_or_refused_with_a_remedy() {
    let fixture = or_skip!(Fixture::new());
    let script = "echo text > made && mv made moved && rm moved";
    let record = ["record", "--files", "-q", "-o", "files.parquet", "--", "sh", "-c", script];
    let output = fixture.ioecho(&record);
    if let Err(reason) = can_record(&output) {
        assert!(reason.contains("  = help: "), "{reason}");
        assert!(!fixture.path("files.parquet").exists() && !fixture.path("made").exists());
        not_here(Elsewhere::EventProbes, reason);
        return;
    }
    let requests = fixture.requests("files.parquet");
    let ops = |name: &str| requests.iter().filter(|(op, ..)| op == name).count();
    assert_eq!(["create", "write", "rename", "delete"].map(ops), [1; 4], "{requests:?}");
    assert!(requests.iter().any(|(op, _, length)| op == "write" && *length == 5), "{requests:?}");
}
