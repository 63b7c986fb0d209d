//! The block trace ioctls: what they record, and that nothing stays behind.
//!
//! A locked-down kernel refuses them, so most of this runs in the virtual machine (`tests/vm`).

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ioecho_linux::record::{Ending, Interface, InterfaceChoice, Options, RecordError};
use ioecho_linux::record::{Recorder, Summary, Target};

use crate::fixture::{Elsewhere, LoopDevice, not_here, or_skip, run, skipped};

/// Requests of a test, and the length of each.
const REQUESTS: u64 = 64;
const LENGTH: u64 = 4096;

fn options(directory: &Path, interface: InterfaceChoice) -> Options {
    Options { interface, ..Options::new(&directory.join("raw"), "test") }
}

/// Begins to record through the ioctls; `None`, and said why, where this kernel does not allow it.
fn recorder(devices: &[&Path], directory: &Path) -> Option<Recorder> {
    let targets = devices.iter().map(|path| Target::at(path).unwrap()).collect();
    match Recorder::start(targets, &options(directory, InterfaceChoice::Blktrace)) {
        Ok(recorder) => Some(recorder),
        Err(error @ RecordError::Unavailable { .. }) => {
            not_here(Elsewhere::BlockTrace, error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes every third block, past the page cache.
fn load(device: &Path) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::File::options();
    let file = options.write(true).custom_flags(libc::O_DIRECT).open(device).unwrap();
    // A buffer for O_DIRECT must be aligned.
    let buffer = vec![0x5a_u8; 2 * LENGTH as usize];
    let start = buffer.as_ptr().align_offset(LENGTH as usize);
    for number in 0..REQUESTS {
        let block = &buffer[start..start + LENGTH as usize];
        file.write_all_at(block, number * 3 * LENGTH).unwrap();
    }
}

/// A record of `struct blk_io_trace` or `struct blk_io_trace2`.
struct Seen {
    cpu_file: PathBuf,
    time: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

/// Everything in the frames of a recording.
fn records(directory: &Path) -> Vec<Seen> {
    let mut seen = Vec::new();
    let entries = fs::read_dir(directory.join("raw")).unwrap().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext.to_str().unwrap().contains("cpu")));
    files.sort();
    for cpu_file in files {
        let bytes = fs::read(&cpu_file).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let short = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 4], b"ioef", "a frame begins");
            let end = at + 32 + word(at + 12) as usize;
            at += 32;
            while at < end {
                assert_eq!(word(at) >> 8, 0x65_6174, "a record begins, and none ends in a frame");
                let second = word(at) & 0xff == 8;
                let (header, payload_at, action_at, device_at) =
                    if second { (64, 50, 32, 40) } else { (48, 46, 28, 36) };
                seen.push(Seen {
                    cpu_file: cpu_file.clone(),
                    time: long(at + 8),
                    sector: long(at + 16),
                    bytes: word(at + 24),
                    action: word(at + action_at),
                    device: word(at + device_at),
                });
                at += header + usize::from(short(at + payload_at));
            }
            assert_eq!(at, end, "a frame holds whole records");
        }
    }
    seen
}

/// The sectors that were queued to a device for writing, in the order of time.
fn queued(seen: &[Seen], device: u32) -> Vec<u64> {
    const WRITE: u32 = 1 << 17;
    let is_queue = |one: &&Seen| one.action & 0xff == 1 && one.action & WRITE != 0;
    let mut queued: Vec<&Seen> = seen.iter().filter(is_queue).collect();
    queued.retain(|one| one.device == device && u64::from(one.bytes) == LENGTH);
    queued.sort_by_key(|one| one.time);
    queued.iter().map(|one| one.sector).collect()
}

fn number(device: &LoopDevice) -> u32 {
    let text = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    let (major, minor) = text.trim().split_once(':').unwrap();
    major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap()
}

/// Whether the kernel has a block trace of the device.
fn is_traced(device: &LoopDevice) -> bool {
    let path = format!("/sys/block/{}/trace/enable", device.name());
    fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

fn wanted() -> Vec<u64> {
    (0..REQUESTS).map(|number| number * 3 * LENGTH / 512).collect()
}

fn ended_well(summary: &Summary) {
    assert_eq!(summary.ending, Ending::Asked);
    assert_eq!(summary.lost(), 0);
}

#[test]
fn a_locked_down_kernel_is_told_and_left_alone_and_tracefs_is_taken() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let directory = tempfile::tempdir().unwrap();
    let target = Target::at(&device.path).unwrap();
    let asked = options(directory.path(), InterfaceChoice::Blktrace);
    let error = match Recorder::plan(std::slice::from_ref(&target), &asked) {
        Err(error @ RecordError::Unavailable { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => return not_here(Elsewhere::Lockdown, "this kernel allows block trace ioctls"),
    };
    assert!(error.contains("the blktrace interface cannot be used"), "{error}");
    assert!(error.contains("= help: "), "{error}");
    assert!(!is_traced(&device), "the trace that was tried is taken down");
    assert!(!directory.path().join("raw").exists());
    let auto = options(directory.path(), InterfaceChoice::Auto);
    match Recorder::plan(&[target], &auto) {
        Ok(plan) => assert_eq!(plan.interface, Interface::Tracefs),
        Err(error) => skipped(format!("tracefs: {error}")),
    }
}

#[test]
fn every_request_is_in_the_records_once_and_nothing_stays_in_the_kernel() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let directory = tempfile::tempdir().unwrap();
    let Some(recorder) = recorder(&[&device.path], directory.path()) else { return };
    assert_eq!(recorder.interface(), Interface::Blktrace);
    assert!(is_traced(&device));
    load(&device.path);
    let summary = recorder.stop();
    ended_well(&summary);
    let seen = records(directory.path());
    assert_eq!(queued(&seen, number(&device)), wanted());
    assert!(summary.events() >= 3 * REQUESTS, "queued, issued, completed: {}", summary.events());
    assert!(!is_traced(&device));
}

#[test]
fn two_disks_are_in_one_order_on_each_processor() {
    let (one, other) = (or_skip!(LoopDevice::new(1 << 20)), or_skip!(LoopDevice::new(1 << 20)));
    let directory = tempfile::tempdir().unwrap();
    let devices = [one.path.as_path(), other.path.as_path()];
    let Some(recorder) = recorder(&devices, directory.path()) else { return };
    std::thread::scope(|scope| {
        scope.spawn(|| load(&one.path));
        scope.spawn(|| load(&other.path));
    });
    ended_well(&recorder.stop());
    let seen = records(directory.path());
    for device in [&one, &other] {
        assert_eq!(queued(&seen, number(device)), wanted(), "{}", device.name());
    }
    let is_ordered =
        |pair: &[Seen]| pair[0].cpu_file != pair[1].cpu_file || pair[0].time <= pair[1].time;
    assert!(seen.windows(2).all(is_ordered));
}

#[test]
fn a_second_tracer_is_told_who_the_first_is_and_does_it_no_harm() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let directory = tempfile::tempdir().unwrap();
    let Some(first) = recorder(&[&device.path], directory.path()) else { return };
    let target = Target::at(&device.path).unwrap();
    let second = options(&directory.path().join("second"), InterfaceChoice::Blktrace);
    fs::create_dir(directory.path().join("second")).unwrap();
    let error = Recorder::start(vec![target], &second).unwrap_err().to_string();
    let pid = std::process::id();
    assert!(error.contains("is traced already by") && error.contains(&format!("(pid {pid})")));
    load(&device.path);
    ended_well(&first.stop());
    assert_eq!(queued(&records(directory.path()), number(&device)), wanted());
}

#[test]
fn a_trace_that_another_program_takes_down_ends_the_recording_with_the_reason() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let directory = tempfile::tempdir().unwrap();
    let Some(recorder) = recorder(&[&device.path], directory.path()) else { return };
    load(&device.path);
    or_skip!(run("blktrace", &["-d", device.path.to_str().unwrap(), "-k"]));
    let begun = Instant::now();
    while recorder.status().ended.is_none() && begun.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(20));
    }
    let summary = recorder.stop();
    let Ending::Failed(why) = &summary.ending else { panic!("{summary:?}") };
    assert!(why.contains("taken down by another program"), "{why}");
}

#[test]
fn a_hundred_recordings_leave_nothing_behind() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    for round in 0..100 {
        let directory = tempfile::tempdir().unwrap();
        let Some(recorder) = recorder(&[&device.path], directory.path()) else { return };
        ended_well(&recorder.stop());
        assert!(!is_traced(&device), "{round}");
    }
    let name = device.name().to_owned();
    assert!(!Path::new("/run/ioecho").join(format!("blktrace-{name}")).exists());
}
