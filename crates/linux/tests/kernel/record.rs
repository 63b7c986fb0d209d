//! The recorder against the kernel: what it leaves there, and what it says of devices.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ioecho_fixture::trace_instances;
use ioecho_linux::record::{Ending, Options, RecordError, Recorder, Target};

use crate::fixture::{LoopDevice, MountPoint, or_skip, read_direct, run};

/// A place for a recording, in memory.
struct RecordingDirectory(tempfile::TempDir);

impl RecordingDirectory {
    fn new() -> Result<Self, String> {
        tempfile::tempdir_in("/dev/shm").map(Self).map_err(|error| format!("/dev/shm: {error}"))
    }

    fn options(&self) -> Options {
        Options::new(&self.0.path().join("recording"), "a test")
    }
}

/// A recorder of one device; an error where this machine allows none.
fn start(device: &Path, options: &Options) -> Result<Recorder, String> {
    let target = Target::at(device).map_err(|error| error.to_string())?;
    Recorder::start(vec![target], options).map_err(|error| error.to_string())
}

/// The trace instances of this process.
fn instances() -> Vec<PathBuf> {
    trace_instances::of(std::process::id())
}

#[test]
fn a_recording_takes_events_and_leaves_nothing_in_the_kernel() {
    let device = or_skip!(LoopDevice::new(4 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let recorder = or_skip!(start(&device.path, &place.options()));
    assert!(!instances().is_empty());
    for at in 0..10 {
        read_direct(&device.path, at * 4096, 4096);
    }
    let summary = recorder.stop();
    assert_eq!(summary.ending, Ending::Asked);
    assert_eq!(summary.lost(), 0);
    // Queued, issued and completed.
    assert!(summary.events() >= 30, "{summary:?}");
    assert!(summary.bytes.0 > 0 && summary.segments == 1);
    let directory = place.options().directory;
    assert!(directory.join("recording.json").exists() && directory.join("log.jsonl").exists());
}

#[test]
fn many_short_recordings_leave_nothing_behind() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    for _ in 0..100 {
        let place = or_skip!(RecordingDirectory::new());
        let options = Options { buffer: Some(ioecho_trace::Bytes(1 << 20)), ..place.options() };
        let recorder = or_skip!(start(&device.path, &options));
        let name = instances();
        assert!(!name.is_empty());
        drop(recorder);
    }
    // Other tests of this process record too, for a moment.
    let begun = Instant::now();
    while !instances().is_empty() {
        assert!(begun.elapsed() < Duration::from_mins(1), "left behind: {:?}", instances());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_recording_on_the_recorded_device_is_refused_through_all_layers() {
    let device = or_skip!(LoopDevice::new(64 << 20));
    or_skip!(run("mkfs.ext4", &["-q", device.path.to_str().unwrap()]));
    let mount = or_skip!(MountPoint::of(&device.path));
    let target = || vec![Target::at(&device.path).unwrap()];
    let options = Options::new(&mount.path().join("recording"), "a test");
    let error = Recorder::start(target(), &options).unwrap_err();
    assert!(matches!(error, RecordError::OnRecorded { .. }), "{error}");
    assert!(error.to_string().contains("would be recorded again"), "{error}");

    // A file system in a file on that file system.
    let inner = crate::fixture::Backing::in_directory(mount.path(), 16 << 20);
    let inner = or_skip!(LoopDevice::over(inner, &[]));
    or_skip!(run("mkfs.ext4", &["-q", inner.path.to_str().unwrap()]));
    let inside = or_skip!(MountPoint::of(&inner.path));
    let options = Options::new(&inside.path().join("recording"), "a test");
    let error = Recorder::start(target(), &options).unwrap_err();
    assert!(error.to_string().contains("through loop"), "{error}");
    assert!(!inside.path().join("recording").exists());
    // The other way round nothing is wrong: what is written there does not come here.
    let upper = vec![Target::at(&inner.path).unwrap()];
    let below = Options::new(&mount.path().join("recording"), "a test");
    or_skip!(Recorder::start(upper, &below)).stop();
}

#[test]
fn one_device_is_not_recorded_twice_at_once_but_two_recorders_may() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let (place, other) = (or_skip!(RecordingDirectory::new()), or_skip!(RecordingDirectory::new()));
    let target = || Target::at(&device.path).unwrap();
    let error = Recorder::start(vec![target(), target()], &place.options()).unwrap_err();
    assert!(matches!(error, RecordError::Twice { .. }), "{error}");
    let first = or_skip!(start(&device.path, &place.options()));
    let second = or_skip!(start(&device.path, &other.options()));
    read_direct(&device.path, 0, 4096);
    assert!(first.stop().events() >= 3 && second.stop().events() >= 3);
}

#[test]
fn a_directory_that_is_there_is_not_written_into() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let options = place.options();
    fs::create_dir(&options.directory).unwrap();
    let error = Recorder::start(vec![Target::at(&device.path).unwrap()], &options).unwrap_err();
    assert!(error.to_string().contains("it is there already"), "{error}");
}

#[test]
fn a_recording_ends_with_its_device_and_keeps_what_there_was() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let recorder = or_skip!(start(&device.path, &place.options()));
    read_direct(&device.path, 0, 4096);
    or_skip!(device.detach());
    let begun = Instant::now();
    while recorder.status().ended.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", recorder.status());
        std::thread::sleep(Duration::from_millis(50));
    }
    let summary = recorder.stop();
    assert!(matches!(summary.ending, Ending::DeviceGone(_)), "{summary:?}");
    assert!(summary.events() >= 3, "{summary:?}");
}

#[test]
fn a_recording_on_a_full_file_system_ends_and_keeps_what_there_was() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let small = or_skip!(MountPoint::of_memory(1 << 20));
    let place = Options::new(&small.path().join("recording"), "a test");
    let options = Options { reserve: Some(ioecho_trace::Bytes(0)), ..place };
    let recorder = or_skip!(start(&device.path, &options));
    let begun = Instant::now();
    while recorder.status().ended.is_none() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", recorder.status());
        for at in 0..200 {
            read_direct(&device.path, at * 4096, 4096);
        }
    }
    let summary = recorder.stop();
    assert!(matches!(summary.ending, Ending::DiskFull(_)), "{summary:?}");
    assert!(summary.bytes.0 > 500_000, "{summary:?}");
    // What found no room is counted, and the log had room to say so.
    assert!(summary.dropped > 0 && summary.lost() >= summary.dropped, "{summary:?}");
    assert_eq!(events_in(&options.directory), summary.events(), "{summary:?}");
    let log = fs::read_to_string(options.directory.join("log.jsonl")).unwrap();
    let counted: u64 = log.lines().map(lost_in).sum();
    assert_eq!(counted, summary.lost(), "{log}");
    assert!(log.lines().last().unwrap().contains("is full"), "{log}");

    // With a reserve it ends before anything fails.
    let kept = Options::new(&small.path().join("other"), "a test");
    fs::remove_dir_all(&options.directory).unwrap();
    let keep = |bytes| Options { reserve: Some(ioecho_trace::Bytes(bytes)), ..kept.clone() };
    let error = Recorder::start(vec![Target::at(&device.path).unwrap()], &keep(100 << 40));
    let error = error.unwrap_err();
    assert!(matches!(error, RecordError::Reserve { .. }), "{error}");
    assert!(!kept.directory.exists());
    let options = keep(512 << 10);
    let recorder = or_skip!(start(&device.path, &options));
    let begun = Instant::now();
    while recorder.status().ended.is_none() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", recorder.status());
        // Slowly: what comes between two looks of the recorder must find room.
        std::thread::sleep(Duration::from_millis(5));
        for at in 0..10 {
            read_direct(&device.path, at * 4096, 4096);
        }
    }
    let summary = recorder.stop();
    assert!(summary.ending.phrase().contains("nearly full"), "{summary:?}");
    let log = fs::read_to_string(options.directory.join("log.jsonl")).unwrap();
    assert!(log.lines().last().unwrap().contains("stopped"), "{log}");
}

/// Events that a recording holds, by its reader.
fn events_in(directory: &Path) -> u64 {
    let options = ioecho_trace::formats::ReadOptions::default();
    let mut source = ioecho_trace::formats::open(directory, &options).unwrap();
    let mut batch = ioecho_trace::Batch::new(source.header().columns);
    while source.next_batch(&mut batch).unwrap() {}
    let recording = source.header().recording.as_ref().unwrap();
    recording.events.values().sum()
}

/// Events that a line of the log says are lost.
fn lost_in(line: &str) -> u64 {
    let of = |line: &str| line.split_once(r#""events":"#)?.1.split([',', '}']).next()?.parse().ok();
    if line.contains(r#""entry":"lost""#) { of(line).unwrap() } else { 0 }
}

/// The trace instance of this process that records a device.
fn instance_of(device: &LoopDevice) -> PathBuf {
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.name())).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let number = major.parse::<u64>().unwrap() << 20 | minor.parse::<u64>().unwrap();
    let filter = format!("dev == {number}");
    let is_its = |path: &PathBuf| {
        let text = fs::read_to_string(path.join("events/block/block_bio_queue/filter"));
        text.is_ok_and(|text| text.trim() == filter)
    };
    instances().into_iter().find(is_its).unwrap()
}

/// Waits until a recorder has said so many sentences.
fn told(recorder: &Recorder, sentences: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let notes = recorder.status().notes;
        if notes.len() >= sentences {
            return notes;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", recorder.status());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_recording_that_somebody_switches_off_is_told_at_once_and_marked() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    for file in ["tracing_on", "events/block/block_rq_issue/enable", "tracing_cpumask"] {
        let place = or_skip!(RecordingDirectory::new());
        let recorder = or_skip!(start(&device.path, &place.options()));
        let path = instance_of(&device).join(file);
        let before = fs::read_to_string(&path).unwrap();
        fs::write(&path, "0").unwrap();
        let notes = told(&recorder, 1);
        assert!(notes[0].contains(file) && notes[0].contains("is missing"), "{notes:?}");
        fs::write(&path, before.trim()).unwrap();
        assert_eq!(told(&recorder, 2)[1], "all events come again");
        read_direct(&device.path, 0, 4096);
        let summary = recorder.stop();
        assert_eq!(summary.ending, Ending::Asked);
        assert!(summary.blind.0 > 0 && !summary.is_whole(), "{summary:?}");
        assert!(summary.blind.0 < summary.wall.0 && summary.events() >= 3, "{summary:?}");
        let log = fs::read_to_string(place.options().directory.join("log.jsonl")).unwrap();
        assert!(log.contains(r#""entry":"lost""#), "{log}");
    }
}

#[test]
fn a_recording_that_was_switched_off_just_before_its_end_is_marked_too() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let recorder = or_skip!(start(&device.path, &place.options()));
    read_direct(&device.path, 0, 4096);
    fs::write(instance_of(&device).join("tracing_on"), "0").unwrap();
    let summary = recorder.stop();
    assert!(summary.blind.0 > 0, "{summary:?}");
}

#[test]
fn a_buffer_that_somebody_clears_is_told_and_marked() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let recorder = or_skip!(start(&device.path, &place.options()));
    for at in 0..100 {
        read_direct(&device.path, at * 4096, 4096);
    }
    // The counters must have been seen once.
    let begun = Instant::now();
    while recorder.status().events == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(instance_of(&device).join("trace"), "").unwrap();
    let notes = told(&recorder, 1);
    assert!(notes[0].contains("cleared the buffer"), "{notes:?}");
    read_direct(&device.path, 0, 4096);
    let summary = recorder.stop();
    assert!(summary.blind.0 > 0 && summary.events() >= 300, "{summary:?}");
}

#[test]
fn what_another_program_reads_out_of_a_recording_is_told_and_counted() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let recorder = or_skip!(start(&device.path, &place.options()));
    // Without waiting, and until the recorder has come too late for some.
    let mut pipe = File::options();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut pipe, libc::O_NONBLOCK);
    let mut pipe = pipe.read(true).open(instance_of(&device).join("trace_pipe")).unwrap();
    let begun = Instant::now();
    while recorder.status().lost == 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", recorder.status());
        read_direct(&device.path, 0, 4096);
        let _ = std::io::Read::read(&mut pipe, &mut [0; 4096]);
    }
    drop(pipe);
    let summary = recorder.stop();
    assert!(summary.taken > 0 && summary.taken == summary.lost(), "{summary:?}");
    assert!(!summary.is_whole() && summary.blind.0 == 0, "{summary:?}");
    assert!(summary.notes.iter().any(|note| note.contains("somebody else reads")), "{summary:?}");
    // All that is said to be there is.
    assert_eq!(events_in(&place.options().directory), summary.events());
}

#[test]
fn a_full_buffer_says_between_which_events_it_lost() {
    let device = or_skip!(LoopDevice::new(16 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let options = Options { buffer: Some(ioecho_trace::Bytes(256 << 10)), ..place.options() };
    let recorder = or_skip!(start(&device.path, &options));
    let begun = Instant::now();
    let now = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let (mut at, mut bursts) = (0, Vec::new());
    // A pause lets the recorder sleep long; what comes then is more than a buffer holds.
    while recorder.status().lost == 0 && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1500));
        let begun = now();
        for _ in 0..4000 {
            read_direct(&device.path, at % 4000 * 4096, 4096);
            at += 1;
        }
        bursts.push((begun, now()));
    }
    let summary = recorder.stop();
    if summary.lost() == 0 {
        ioecho_fixture::skipped("the recorder was too fast to lose anything");
        return;
    }
    let directory = options.directory;
    let log = fs::read_to_string(directory.join("log.jsonl")).unwrap();
    assert_eq!(log.lines().map(lost_in).sum::<u64>(), summary.lost(), "{log}");
    assert_eq!(events_in(&directory), summary.events(), "{summary:?}");
    // From look to look a gap would begin in the pause before.
    let number = |line: &str, key: &str| -> u64 {
        let rest = line.split_once(key).unwrap().1;
        rest.split([',', '}']).next().unwrap().parse().unwrap()
    };
    for line in log.lines().filter(|line| lost_in(line) > 0) {
        let from_ns = number(line, r#""from_ns":"#);
        let is_in_one = bursts.iter().any(|(begun, ended)| (*begun..*ended).contains(&from_ns));
        assert!(is_in_one, "{bursts:?}: {line}");
    }
}

#[test]
fn a_directory_that_is_taken_away_or_moved_ends_its_recording_at_once() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    for is_moved in [false, true] {
        let place = or_skip!(RecordingDirectory::new());
        let directory = place.options().directory;
        let recorder = or_skip!(start(&device.path, &place.options()));
        read_direct(&device.path, 0, 4096);
        let elsewhere = place.0.path().join("elsewhere");
        if is_moved {
            fs::rename(&directory, &elsewhere).unwrap();
            fs::create_dir(&directory).unwrap();
        } else {
            fs::remove_dir_all(&directory).unwrap();
        }
        let begun = Instant::now();
        while recorder.status().ended.is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", recorder.status());
            std::thread::sleep(Duration::from_millis(50));
        }
        let summary = recorder.stop();
        let Ending::Misplaced(why) = &summary.ending else { panic!("{summary:?}") };
        let word = if is_moved { "moved" } else { "removed" };
        assert!(why.contains(word), "{why}");
        if is_moved {
            assert_eq!(events_in(&elsewhere), summary.events(), "{summary:?}");
            assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_buffer_that_would_take_the_memory_of_others_is_refused() {
    let device = or_skip!(LoopDevice::new(1 << 20));
    let place = or_skip!(RecordingDirectory::new());
    let buffer = Some(ioecho_trace::Bytes(1 << 50));
    let options = Options { buffer, ..place.options() };
    or_skip!(start(&device.path, &place.options())).stop();
    fs::remove_dir_all(place.options().directory).unwrap();
    let error = Recorder::start(vec![Target::at(&device.path).unwrap()], &options).unwrap_err();
    assert!(matches!(error, RecordError::Buffer { .. }), "{error}");
    assert!(error.to_string().contains("take at most"), "{error}");
    assert!(!options.directory.exists());
}
