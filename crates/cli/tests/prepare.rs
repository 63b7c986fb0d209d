//! `ioecho prepare`, from the command line to the bytes on the target.
//!
//! Later measurements rely on the fill. So the tests compare the bytes with those that the library
//! computes, wherever and however the fill was interrupted.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_replay::fill::{FillPayload, fill_run};
use ioecho_replay::pattern::read_stamp;
use ioecho_replay::{Io, Payload};
use ioecho_trace::{Bytes, Flags, Nanos, Op};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

static SPAWNING: Mutex<()> = Mutex::new(());

/// A lock: while a test holds it, no other test starts a program. A new child holds copies of all
/// descriptors of this process until it runs its program, and so keeps files in use that a test has
/// just closed.
fn nobody_spawns() -> MutexGuard<'static, ()> {
    SPAWNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program alone.
fn spawn(command: &mut Command) -> std::io::Result<Child> {
    let _alone = nobody_spawns();
    command.spawn()
}

/// A directory for targets and traces.
struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An empty file of this size.
    fn target(&self, size: usize) -> PathBuf {
        let _alone = nobody_spawns();
        let path = self.path("target");
        File::create(&path).unwrap().set_len(size as u64).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ioecho"));
        command.args(["prepare", "--allow-cached"]).args(arguments).current_dir(self.0.path());
        command
    }

    fn prepare(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
        child.wait_with_output().unwrap()
    }

    /// A blkreplay load that reads and writes these sectors: start and count.
    fn load(&self, ranges: &[(u64, u64)]) {
        let mut load =
            String::from("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n");
        for (n, (sector, count)) in ranges.iter().enumerate() {
            let op = if n % 2 == 0 { 'R' } else { 'W' };
            writeln!(load, "0.{n:09} ; {sector} ; {count} ; {op} ; 0.0 ; 0.0").unwrap();
        }
        let _alone = nobody_spawns();
        fs::write(self.path("load"), load).unwrap();
    }

    /// Puts these bytes onto the target.
    fn overwrite(&self, at: usize, bytes: &[u8]) {
        let _alone = nobody_spawns();
        let file = File::options().write(true).open(self.path("target")).unwrap();
        file.write_all_at(bytes, at as u64).unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        let _alone = nobody_spawns();
        fs::read(self.path("target")).unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// Runs a program of the system; `None` if it fails.
fn system(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    let child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::null())).ok()?;
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The bytes that a fill with this seed writes to a target of this size.
fn expected(seed: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    let io = Io {
        tag: 0,
        request: 0,
        scheduled: Nanos::ZERO,
        op: Op::Write,
        flags: Flags::empty(),
        offset: Bytes::ZERO,
        length: Bytes(size as u64),
    };
    FillPayload::new(fill_run(seed)).fill(&io, &mut bytes);
    bytes
}

#[test]
fn every_sector_of_the_target_is_written_and_says_so() {
    let fixture = Fixture::new();
    let output = fixture.prepare(&["made", "--size", "8M"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let bytes = fs::read(fixture.path("made")).unwrap();
    assert_eq!(bytes.len(), 8 * MIB);
    let first = read_stamp(&bytes[..512]).unwrap();
    for (position, sector) in (0..).step_by(512).zip(bytes.chunks(512)) {
        let stamp = read_stamp(sector).unwrap();
        assert_eq!(
            (stamp.run, stamp.position, stamp.request),
            (first.run, position, position / 4096)
        );
    }
    assert!(said(&output).contains("wrote         8.00 MiB"), "{}", said(&output));
    assert!(said(&output).contains("100 % written by ioecho (prepare 505250"), "{}", said(&output));
}

#[test]
fn a_seed_makes_the_same_bytes_whatever_the_size_of_the_writes() {
    let fixture = Fixture::new();
    fixture.target(3 * MIB + 4096);
    for bundle in ["4k", "1M", "64M"] {
        let output = fixture.prepare(&["target", "--seed", "7", "--write-size", bundle]);
        assert_eq!(code(&output), 0, "{}", said(&output));
        assert!(fixture.bytes() == expected(7, 3 * MIB + 4096), "--write-size {bundle}");
        fixture.target(3 * MIB + 4096);
    }
}

#[test]
fn only_what_the_trace_touches_is_written_also_where_it_wraps_round() {
    let fixture = Fixture::new();
    fixture.target(4 * MIB);
    let sectors = 4 * MIB as u64 / 512;
    // Places within the target, places that touch the same block twice, and places beyond the end,
    // which wrap around.
    fixture.load(&[(8, 8), (12, 8), (1000, 1), (sectors + 4096, 16), (5 * sectors + 6000, 8)]);
    let output =
        fixture.prepare(&["target", "--part", "touched", "--trace", "load", "--seed", "3"]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    let (bytes, whole) = (fixture.bytes(), expected(3, 4 * MIB));
    let touched = [1, 2, 125, 512, 513, 750];
    for (block, data) in bytes.chunks(4096).enumerate() {
        if touched.contains(&block) {
            assert!(data == &whole[block * 4096..][..4096], "block {block} is not filled");
        } else {
            assert!(data.iter().all(|byte| *byte == 0), "block {block} was written");
        }
    }
    assert!(said(&output).contains("24.0 KiB (what the trace touches)"), "{}", said(&output));
}

#[test]
fn of_a_part_of_a_trace_only_what_that_part_touches_is_written() {
    let fixture = Fixture::new();
    // A millisecond apart, the first after a second.
    let line = |n: u64| format!("{},read,{},4096\n", (1_000 + n) * 1_000_000, n * 8192);
    let lines: String = (0..100).map(line).collect();
    let load = format!("issue_ns,op,offset_bytes,length_bytes\n{lines}");
    {
        let _alone = nobody_spawns();
        fs::write(fixture.path("load.csv"), load).unwrap();
    }
    for (window, touched) in [
        (&["--start", "1010ms", "--duration", "20ms"][..], 10..30),
        (&["--start", "1090ms"], 90..100),
        (&["--duration", "7ms"], 0..7),
    ] {
        fixture.target(MIB);
        let part = ["target", "--part", "touched", "--trace", "load.csv", "--destroy", "target"];
        let output = fixture.prepare(&[&part[..], window].concat());
        assert_eq!(code(&output), 0, "{}", said(&output));
        for (block, data) in fixture.bytes().chunks(4096).enumerate() {
            let is_filled = data.iter().any(|byte| *byte != 0);
            let is_touched = block.is_multiple_of(2) && touched.contains(&(block / 2));
            assert_eq!(is_filled, is_touched, "{window:?}: block {block}");
        }
    }
}

#[test]
fn an_interrupted_fill_goes_on_where_it_was_and_ends_the_same() {
    let fixture = Fixture::new();
    fixture.target(16 * MIB);
    assert_eq!(code(&fixture.prepare(&["target", "--seed", "5"])), 0);
    let lost = 5 * MIB + 12_288;
    fixture.overwrite(lost, &vec![0; 16 * MIB - lost]);
    let again = fixture.prepare(&["target", "--resume", "--write-size", "64k"]);
    assert_eq!(code(&again), 0, "{}", said(&again));
    assert!(said(&again).contains("at byte 5242880: 5.00 MiB were there"), "{}", said(&again));
    assert!(said(&again).contains("wrote         11.0 MiB"), "{}", said(&again));
    assert!(fixture.bytes() == expected(5, 16 * MIB));
    let complete = fixture.prepare(&["target", "--resume"]);
    assert_eq!(code(&complete), 0, "{}", said(&complete));
    assert!(said(&complete).contains("wrote         0 B"), "{}", said(&complete));
}

#[test]
fn a_fill_that_is_stopped_or_killed_can_be_gone_on_with() {
    for signal in ["-INT", "-KILL"] {
        let fixture = Fixture::new();
        fixture.target(64 * MIB);
        let mut command = fixture.command(&["target", "--seed", "9", "--bundle", "4k"]);
        let mut child = spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
        let alone = nobody_spawns();
        let target = File::open(fixture.path("target")).unwrap();
        let until = Instant::now() + Duration::from_mins(1);
        let mut block = vec![0; 4096];
        while block.iter().all(|byte| *byte == 0) && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "nothing was written in a minute");
            target.read_exact_at(&mut block, 2 * MIB as u64).unwrap();
            sleep(Duration::from_millis(1));
        }
        drop((target, alone));
        system("kill", &[signal, &child.id().to_string()]);
        let status = child.wait().unwrap();
        // A fast machine may be done already.
        let expected_code = if signal == "-INT" { Some(13) } else { None };
        assert!(status.success() || status.code() == expected_code, "{signal}: {status}");
        let mut output = fixture.prepare(&["target", "--resume"]);
        // The kernel takes some time to remove the ring and the open files of a killed process.
        while code(&output) == 6 && Instant::now() < until {
            sleep(Duration::from_millis(20));
            output = fixture.prepare(&["target", "--resume"]);
        }
        assert_eq!(code(&output), 0, "{signal}: {}", said(&output));
        assert!(fixture.bytes() == expected(9, 64 * MIB), "{signal}");
    }
}

#[test]
fn what_was_written_to_since_is_not_gone_on_with() {
    let fixture = Fixture::new();
    fixture.target(4 * MIB);
    let nothing = fixture.prepare(&["target", "--resume"]);
    assert_eq!(code(&nothing), 5, "{}", said(&nothing));
    assert!(said(&nothing).contains("nothing to go on with"), "{}", said(&nothing));

    assert_eq!(code(&fixture.prepare(&["target", "--seed", "5"])), 0);
    let other = fixture.prepare(&["target", "--resume", "--seed", "6"]);
    assert_eq!(code(&other), 2, "{}", said(&other));
    assert!(said(&other).contains("seed 5, not 6"), "{}", said(&other));

    // The file is zeroed, because the guard would refuse any other content first.
    fixture.overwrite(4096, &vec![0; MIB]);
    let end = 3 * MIB + 4096;
    fixture.overwrite(3 * MIB, &vec![0; MIB]);
    fixture.overwrite(3 * MIB, &expected(5, end)[3 * MIB..]);
    let changed = fixture.prepare(&["target", "--resume"]);
    assert_eq!(code(&changed), 5, "{}", said(&changed));
    assert!(said(&changed).contains("was written to since it was filled"), "{}", said(&changed));
}

#[test]
fn what_may_be_somebodys_is_not_overwritten_unless_it_is_named() {
    let fixture = Fixture::new();
    fixture.target(2 * MIB);
    fixture.overwrite(0, &vec![b'x'; 2 * MIB]);
    let refused = fixture.prepare(&["target"]);
    assert_eq!(code(&refused), 6, "{}", said(&refused));
    assert!(said(&refused).contains("--destroy target"), "{}", said(&refused));
    assert!(!said(&refused).contains("--read-only"), "{}", said(&refused));
    assert!(fixture.bytes().iter().all(|byte| *byte == b'x'));
    let slip = fixture.prepare(&["target", "--destroy", "targot"]);
    assert_eq!(code(&slip), 2, "{}", said(&slip));
    assert!(fixture.bytes().iter().all(|byte| *byte == b'x'));
    let dry = fixture.prepare(&["target", "--destroy", "target", "--dry-run"]);
    assert_eq!(code(&dry), 0, "{}", said(&dry));
    assert!(fixture.bytes().iter().all(|byte| *byte == b'x'));
    let named = fixture.prepare(&["target", "--destroy", "target", "--seed", "1"]);
    assert_eq!(code(&named), 0, "{}", said(&named));
    assert!(fixture.bytes() == expected(1, 2 * MIB));
}

#[test]
fn a_mounted_device_is_not_filled_even_if_it_is_named() {
    let fixture = Fixture::new();
    let target = fixture.target(8 * MIB);
    let mount_point = fixture.path("mounted");
    fs::create_dir(&mount_point).unwrap();
    let (file, point) = (target.to_str().unwrap(), mount_point.to_str().unwrap());
    let device = system("mkfs.ext4", &["-q", file])
        .and_then(|_| system("losetup", &["--find", "--show", file]));
    let Some(device) = device else {
        ioecho_fixture::skipped("no loop device with a file system here");
        return;
    };
    let mounted = system("mount", &[&device, point]).is_some();
    // A second device on the same file is neither mounted nor in use.
    let beside = system("losetup", &["--find", "--show", file]);
    let outputs: Vec<Output> = std::iter::once(&device)
        .chain(&beside)
        .map(|device| fixture.prepare(&[device, "--destroy", device]))
        .collect();
    if mounted {
        system("umount", &[point]);
    }
    for device in std::iter::once(&device).chain(&beside) {
        system("losetup", &["--detach", device]);
    }
    if mounted {
        for output in &outputs {
            assert_eq!(code(output), 6, "{}", said(output));
            assert!(said(output).contains("is mounted at"), "{}", said(output));
            assert!(said(output).contains("cannot be overruled"), "{}", said(output));
        }
    } else {
        ioecho_fixture::skipped("nothing can be mounted here");
    }
}

#[test]
fn what_was_typed_is_checked_before_anything_is_touched() {
    let fixture = Fixture::new();
    fixture.target(2 * MIB);
    fixture.load(&[(0, 8); 32]);
    for (arguments, expected, word) in [
        (&["missing"][..], 5, "--size SIZE"),
        (&["target", "--size", "1M"], 2, "is there already"),
        (&["made", "--size", "1000"], 2, "multiple of 4 KiB"),
        (&["none/made", "--size", "1M"], 5, "name a directory that is there"),
        (&["target", "--write-size", "128M"], 2, "at most"),
        (&["target", "--part", "touched"], 2, "--trace"),
        (&["target", "--trace", "load"], 2, "add --part touched"),
        (&["target", "--duration", "1s"], 2, "add --part touched --trace TRACE"),
        (&["made", "--size", "1M", "--part", "touched", "--trace", "none"], 3, "none"),
        (&["load", "--part", "touched", "--trace", "load"], 2, "both the trace and the target"),
        (&["sim:size=1G"], 2, "simulated"),
        (&["."], 5, "directory"),
    ] {
        let output = fixture.prepare(arguments);
        assert_eq!(code(&output), expected, "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(word), "{arguments:?}: {}", said(&output));
    }
    assert!(!fixture.path("made").exists());
    assert!(fixture.bytes().iter().all(|byte| *byte == 0));
}
