//! Recordings as a whole: files, logs, layers, damage.

use std::fs::OpenOptions;

use super::making::{
    Made, Page, description, device, made, payload, read, read_with, real, written,
};
use crate::TraceError;
use crate::formats::blktrace::record::category::{READ, WRITE};
use crate::formats::blktrace::testing::Tape;
use crate::formats::{ReadOptions, open};
use crate::recording::{Anchor, Description, Device, Entry, Gap, Interface, Totals, segment_file};
use crate::stacked;
use crate::transform::{Asked, Context, apply};
use crate::units::Bytes;

/// Pages with a read of 4 KiB every microsecond, each done after 500 ns; one page each.
fn steady(description: &Description, requests: u64) -> Vec<Vec<u8>> {
    let page = |at: u64| {
        let mut page = Page::new(1000 * at);
        page.event(1000 * at, &payload(description, &made("block_bio_queue", "R", 8 * at, 8)));
        page.event(
            1000 * at + 500,
            &payload(description, &made("block_rq_complete", "R", 8 * at, 8)),
        );
        page.bytes()
    };
    (0..requests).map(page).collect()
}

#[test]
fn processors_are_brought_into_one_order_and_the_wall_clock_is_found() {
    let description = description();
    let (mut queue, mut end) = (Page::new(5_000), Page::new(6_000));
    queue.event(5_000, &payload(&description, &made("block_bio_queue", "W", 8, 8)));
    queue.event(7_000, &payload(&description, &made("block_bio_queue", "W", 8, 8)));
    end.event(6_000, &payload(&description, &made("block_rq_complete", "W", 8, 8)));
    let log = [
        Entry::Anchor(Anchor { monotonic_ns: 1_000, wall_ns: 1_000_000_000_000_000_000 }),
        Entry::Ending { monotonic_ns: 9_000 },
    ];
    let directory = written(&description, &[vec![queue.bytes()], vec![end.bytes()]], &log);
    let (requests, header) = read(directory.path());
    let latencies: Vec<_> = requests.iter().map(|r| r.latency.map(|ns| ns.0)).collect();
    assert_eq!(latencies, [Some(1000), None]);
    let facts = header.recording.unwrap();
    assert_eq!((facts.zero_monotonic_ns, facts.from_ns), (Some(5_000), Some(-4_000)));
    assert_eq!(facts.until_ns, Some(4_000));
    assert_eq!(header.started.as_deref(), Some("2001-09-09T01:46:40.000004Z"));
    assert!(header.description.unwrap().contains("never ended"));
    assert!(header.damage.unwrap().contains("the recorder was killed"));
}

#[test]
fn a_recording_is_named_by_its_directory_or_by_its_description() {
    let inside = real().join("recording.json");
    assert_eq!(read(&inside).0, read(&real()).0);
    let directory = written(&description(), &[], &[]);
    let error = open(directory.path(), &ReadOptions::default()).err().unwrap();
    assert!(matches!(error, TraceError::Empty { .. }), "{error}");
    let newer = Description { version: 2, ..description() };
    let directory = written(&newer, &[], &[]);
    let error = open(directory.path(), &ReadOptions::default()).err().unwrap();
    assert!(error.to_string().contains("it is of version 2; known is 1"), "{error}");
}

#[test]
fn what_is_behind_a_damage_is_read_from_the_next_segment_on() {
    let description = description();
    let pages = steady(&description, 30);
    let anchor = Anchor { monotonic_ns: 1 << 40, wall_ns: 0 };
    let directory = written(&description, &[pages[..10].to_vec()], &[Entry::Anchor(anchor)]);
    let later = written(&description, &[pages[..10].to_vec(), pages[20..].to_vec()], &[]);
    // Frames of another processor are no frames of this one.
    std::fs::copy(later.path().join(segment_file(0, 1)), directory.path().join(segment_file(1, 1)))
        .unwrap();
    let path = directory.path().join(segment_file(0, 0));
    let length = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 5).unwrap();
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 19);
    let damage = header.damage.unwrap();
    assert!(damage.starts_with(&segment_file(0, 0)), "{damage}");
    assert!(damage.contains("bytes into a frame"), "{damage}");
    // The events of this processor from there until the recorder's last note are lost.
    let gaps = header.recording.unwrap().gaps;
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!((requests[8].issue.0..requests[9].issue.0).contains(&gaps[0].from_ns), "{gaps:?}");
    assert!(gaps[0].to_ns > requests[18].issue.0, "{gaps:?}");
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert!(open(directory.path(), &strict).is_err());
}

#[test]
fn a_recording_without_its_first_segment_is_not_whole() {
    let description = description();
    let pages = steady(&description, 30);
    let directory = written(&description, &[pages[..10].to_vec()], &[]);
    let path = directory.path().join(segment_file(0, 0));
    let bytes = std::fs::read(&path).unwrap();
    let whole = read(directory.path()).1.damage.unwrap();
    assert!(whole.starts_with("the recording never ended"), "{whole}");
    // The second frame is what a second segment would begin with.
    let first = bytes[1..].windows(4).position(|four| four == b"ioef").unwrap() + 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(directory.path().join(segment_file(1, 0)), &bytes[first..]).unwrap();
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 9);
    assert!(header.damage.unwrap().contains("at byte 0: frames before this one are missing"));
}

#[test]
fn events_by_another_clock_are_left_out_and_told() {
    let second = 1_000_000_000_u64;
    let started = Some(Anchor { monotonic_ns: 100 * second, wall_ns: 0 });
    let description = Description { started, ..description() };
    let payload = |name, sector| payload(&description, &made(name, "R", sector, 8));
    let mut pages = Vec::new();
    // Uptime, then seconds since 1970, then ours again.
    for begin in [100 * second, 1_700_000_000 * second, 101 * second] {
        let mut page = Page::new(begin);
        page.event(begin, &payload("block_bio_queue", 8));
        page.event(begin + 500, &payload("block_rq_complete", 8));
        pages.push(page.bytes());
    }
    let cpus = vec![Totals { cpu: 0, read: 6, lost: 0 }];
    let stopped = Entry::Stopped {
        why: "asked".to_owned(),
        asked: Some(true),
        monotonic_ns: 102 * second,
        cpus,
    };
    let directory = written(&description, &[pages], &[stopped]);
    let (requests, header) = read(directory.path());
    let issues: Vec<_> = requests.iter().map(|request| request.issue.0).collect();
    assert_eq!(issues, [0, second as i64]);
    let damage = header.damage.unwrap();
    assert!(damage.contains("2 events bear times at which nothing was recorded"), "{damage}");
    assert!(!damage.contains("are missing"), "{damage}");
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert!(open(directory.path(), &strict).is_err());
}

#[test]
fn events_that_say_what_cannot_be_are_left_out_and_told() {
    let description = description();
    let payload = |made: &Made| payload(&description, made);
    let mut page = Page::new(1_000);
    page.event(1_000, &payload(&made("block_bio_queue", "R", 8, 8)));
    page.event(1_500, &payload(&made("block_rq_complete", "R", 8, 8)));
    let mut odd = vec![
        made("block_bio_queue", "R", u64::MAX / 512 + 1, 8),
        made("block_bio_queue", "R", 8, u32::MAX),
        made("block_bio_queue", "", 8, 8),
    ];
    odd.push(Made { rwbs: "\u{1}", ..odd[0].clone() });
    for made in &odd {
        page.event(2_000, &payload(made));
    }
    // The number of a tracepoint that was not recorded.
    let mut unknown = payload(&made("block_bio_queue", "R", 8, 8));
    unknown[..2].copy_from_slice(&60_000_u16.to_le_bytes());
    page.event(3_000, &unknown);
    let directory = written(&description, &[vec![page.bytes()]], &[]);
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 1);
    let damage = header.damage.unwrap();
    assert!(damage.contains("5 events are none that were to be recorded"), "{damage}");
}

#[test]
fn lost_events_are_told_by_processor_and_by_when() {
    let description = description();
    let log = [
        Entry::Lost { cpu: 0, events: 5, from_ns: 2_000, to_ns: 3_000 },
        Entry::Stopped {
            why: "asked to".to_owned(),
            asked: None,
            monotonic_ns: 9_000,
            cpus: vec![Totals { cpu: 0, read: 10, lost: 5 }],
        },
    ];
    let directory = written(&description, &[steady(&description, 5)], &log);
    let (_, header) = read(directory.path());
    assert_eq!(header.losses.count_of("events lost by the recorder"), 5);
    let facts = header.recording.unwrap();
    assert_eq!(facts.lost.into_iter().collect::<Vec<_>>(), [(0, 5)]);
    assert_eq!(facts.gaps, [Gap { from_ns: 2_000, to_ns: 3_000, events: 5 }]);
    assert_eq!(facts.stopped.as_deref(), Some("asked to"));
}

#[test]
fn completions_that_could_be_meant_for_several_requests_are_told() {
    let description = description();
    let mut page = Page::new(0);
    let mut put = |time: u64, name, rwbs, sector, sectors| {
        page.event(time, &payload(&description, &made(name, rwbs, sector, sectors)));
    };
    // Two alike, then one in two pieces whose second fails, then one without an end.
    put(1, "block_bio_queue", "R", 8, 8);
    put(2, "block_bio_queue", "R", 8, 8);
    put(3, "block_rq_complete", "R", 8, 8);
    put(4, "block_rq_complete", "R", 8, 8);
    put(5, "block_bio_queue", "R", 100, 16);
    put(6, "block_rq_complete", "R", 100, 8);
    let failed = Made { error: -5, ..made("block_rq_complete", "R", 108, 8) };
    page.event(7, &payload(&description, &failed));
    page.event(8, &payload(&description, &made("block_bio_queue", "R", 500, 8)));
    page.event(9, &payload(&description, &made("block_rq_complete", "R", 900, 8)));
    let directory = written(&description, &[vec![page.bytes()]], &[]);
    let matching = read(directory.path()).1.recording.unwrap().matching.unwrap();
    assert_eq!((matching.exact, matching.by_pieces, matching.unmatched), (2, 1, 1));
    assert_eq!((matching.ambiguous, matching.strays, matching.failed), (2, 1, 1));
}

#[test]
fn the_driver_is_seen_through_merges_splits_and_in_its_own_order() {
    let description = description();
    let mut page = Page::new(0);
    let mut put = |time: u64, name, sector, sectors| {
        page.event(time, &payload(&description, &made(name, "W", sector, sectors)));
    };
    put(0, "block_bio_queue", 100, 8);
    put(10, "block_bio_queue", 200, 8);
    put(20, "block_bio_queue", 208, 8);
    put(30, "block_bio_queue", 300, 16);
    // The second and the third as one, before the first; the fourth in two pieces.
    put(110, "block_rq_issue", 200, 16);
    put(200, "block_rq_issue", 100, 8);
    put(230, "block_rq_issue", 300, 8);
    put(240, "block_rq_issue", 308, 8);
    put(300, "block_rq_complete", 100, 8);
    let directory = written(&description, &[vec![page.bytes()]], &[]);
    let driver = read(directory.path()).1.recording.unwrap().driver.unwrap();
    assert_eq!((driver.seen, driver.max_ns), (4, 200));
    let reordering = driver.reordering;
    assert_eq!((reordering.of, reordering.reordered), (4, 1));
    assert_eq!((reordering.extent_sum, reordering.extent_max), (2, 2));
}

#[test]
fn layers_are_told_and_their_copies_removed_on_request() {
    let mut description = description();
    let lower = device();
    let upper = Device {
        name: "dm-0".to_owned(),
        number: 253 << 20,
        bio_based: true,
        below: vec![description.devices[0].name.clone()],
        ..Device::default()
    };
    description.devices.push(upper);
    let mut page = Page::new(0);
    for at in 0..10_u64 {
        let above = Made { device: 253 << 20, ..made("block_bio_queue", "R", 8 * at, 8) };
        let remap = Made { old_device: 253 << 20, ..made("block_bio_remap", "R", 8 * at + 64, 8) };
        page.event(1000 * at, &payload(&description, &above));
        page.event(1000 * at + 1, &payload(&description, &remap));
        page.event(
            1000 * at + 2,
            &payload(&description, &made("block_bio_queue", "R", 8 * at + 64, 8)),
        );
    }
    page.event(20_000, &payload(&description, &made("block_bio_queue", "R", 9000, 8)));
    let directory = written(&description, &[vec![page.bytes()]], &[]);
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 21);
    assert_eq!(header.guesses.count_of(stacked::LAYERED), 1);
    assert_eq!(header.recording.unwrap().events["remapped"], 10);
    let kept = |line: &str| {
        let asked: Asked = line.parse().unwrap();
        let open = |_: &std::path::Path| unreachable!();
        let context = Context {
            open: &open,
            spill_directory: std::env::temp_dir(),
            stop: crate::Stop::default(),
        };
        let source = crate::formats::open(directory.path(), &ReadOptions::default()).unwrap();
        let mut source = apply(&[asked], source, &context).unwrap();
        let requests = crate::formats::blktrace::testing::drain(&mut *source);
        let volumes = &source.header().volumes;
        let name = |r: &crate::Request| volumes[r.volume.0 as usize].name.clone();
        requests.iter().map(name).collect::<Vec<_>>()
    };
    let names = kept("unstack");
    assert_eq!(names.iter().filter(|name| *name == "dm-0").count(), 10);
    assert_eq!(names.len(), 11);
    let names = kept("unstack layer=lower");
    assert_eq!(names.len(), 11);
    assert!(names.iter().all(|name| name != "dm-0") && lower > 0);
}

#[test]
fn a_second_attempt_by_a_worker_of_io_uring_is_the_same_request() {
    let mut tape = Tape::new(0);
    for (pid, name) in
        [(1000, &b"ioecho-lane-0"[..]), (1001, b"iou-wrk-1000"), (1002, b"iou-wrk-999")]
    {
        tape.pid = pid;
        tape.notice(0, 0, name);
    }
    let mut put = |time: u64, pid: u32| {
        tape.pid = pid;
        tape.q(time, WRITE, 64, 16);
    };
    put(0, 1000);
    put(30, 1001);
    // A worker of another process writes to the same place.
    put(40, 1002);
    tape.c(100, WRITE, 64, 16);
    tape.c(200, WRITE, 64, 16);
    let files = [("sda.blktrace.0", &tape.bytes[..])];
    let directory = crate::formats::blktrace::testing::directory(&files);
    let (requests, header) = read(&directory.path().join("sda"));
    let latencies: Vec<_> = requests.iter().map(|request| request.latency.unwrap().0).collect();
    assert_eq!(latencies, [100, 160]);
    let note = header.losses.iter().find(|note| note.what.contains("second attempts"));
    assert_eq!(note.map(|note| note.count), Some(1));
}

#[test]
fn of_a_partition_relay_data_gives_its_own_requests_counted_from_its_beginning() {
    let mut tape = Tape::new(0);
    for (at, sector) in [0, 2048, 3064, 4096].into_iter().enumerate() {
        tape.q(1000 * at as u64, READ, sector, 8);
        tape.c(1000 * at as u64 + 700, READ, sector, 8);
    }
    let partition = Device {
        name: "sda1".to_owned(),
        number: 8 << 20 | 1,
        partition_of: Some(8 << 20),
        partition_start: Some(Bytes(1 << 20)),
        size: Some(Bytes(1 << 20)),
        ..Device::default()
    };
    let relay = Description {
        interface: Interface::Blktrace,
        tracefs: None,
        devices: vec![partition],
        ..description()
    };
    let directory = written(&relay, &[vec![tape.bytes]], &[]);
    let (requests, header) = read(directory.path());
    let offsets: Vec<u64> = requests.iter().map(|request| request.offset.0).collect();
    assert_eq!(offsets, [0, 1016 * 512]);
    assert_eq!(header.volumes[0].name, "sda1");
    assert_eq!(header.losses.count_of("events outside the recorded partitions"), 4);
}

#[test]
fn relay_data_of_blktrace_is_read_as_blktrace_would_have_written_it() {
    let mut tapes = [Tape::new(0), Tape::new(1)];
    for at in 0..100 {
        tapes[at as usize % 2].q(1000 * at, READ, 8 * at, 8);
        tapes[at as usize / 2 % 2].c(1000 * at + 700, READ, 8 * at, 8);
        tapes[0].q(1000 * at + 800, WRITE, 8 * at, 8);
    }
    let relay = Description {
        interface: Interface::Blktrace,
        tracefs: None,
        devices: vec![Device { name: "sda".to_owned(), number: 8 << 20, ..Device::default() }],
        ..description()
    };
    let pieces = tapes.each_ref().map(|tape| tape.bytes.chunks(1000).map(<[u8]>::to_vec).collect());
    let directory = written(&relay, &pieces, &[]);
    let (requests, header) = read(directory.path());
    let files = [("sda.blktrace.0", &tapes[0].bytes[..]), ("sda.blktrace.1", &tapes[1].bytes)];
    let plain = crate::formats::blktrace::testing::directory(&files);
    let (expected, its_header) = read(&plain.path().join("sda"));
    assert_eq!(requests, expected);
    let figures =
        |header: &crate::Header| header.recording.as_ref().map(|r| (r.matching, r.events.clone()));
    assert_eq!(figures(&header), figures(&its_header));
    assert_eq!(header.volumes[0].name, "sda");
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert_eq!(read_with(directory.path(), &strict).0, expected);
}

#[test]
fn events_that_the_recorder_counted_and_no_file_has_are_missing() {
    let description = Description { cpus: vec![0, 1, 2], ..description() };
    let pages = steady(&description, 30);
    let stopped = |read| Entry::Stopped {
        why: "asked to".to_owned(),
        asked: Some(true),
        monotonic_ns: 900_000,
        cpus: vec![Totals { cpu: 0, read, lost: 0 }, Totals { cpu: 1, read: 7, lost: 0 }],
    };
    let directory = written(&description, &[pages], &[stopped(64)]);
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 30);
    let damage = header.damage.unwrap();
    assert!(damage.contains("processor 0: of 64 events that were recorded, 4 are"), "{damage}");
    assert!(damage.contains("processor 1: of 7 events that were recorded, 7 are"), "{damage}");
    assert_eq!(header.losses.count_of("events lost by the recorder"), 11);
    let facts = header.recording.unwrap();
    assert_eq!(facts.lost.into_iter().collect::<Vec<_>>(), [(0, 4), (1, 7)]);
    assert!(header.description.unwrap().contains("3 processors"));
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    let error = open(directory.path(), &strict).err().unwrap();
    assert!(error.to_string().contains("are missing"), "{error}");
}

#[test]
fn a_frame_that_comes_twice_is_read_once_and_told() {
    let description = description();
    let directory = written(&description, &[steady(&description, 10)], &[]);
    std::fs::copy(
        directory.path().join(segment_file(0, 0)),
        directory.path().join(segment_file(1, 0)),
    )
    .unwrap();
    let (requests, header) = read(directory.path());
    assert_eq!(requests.len(), 10);
    assert!(header.damage.unwrap().contains("frame 0 comes again"));
}

#[test]
fn frames_that_are_missing_in_the_middle_leave_a_gap_that_nothing_reaches_across() {
    let description = description();
    let mut across = Page::new(500);
    across.event(500, &payload(&description, &made("block_bio_queue", "R", 9000, 8)));
    let mut pages = vec![across.bytes()];
    pages.extend(steady(&description, 10).into_iter().skip(1));
    let mut last = Page::new(20_000);
    last.event(20_000, &payload(&description, &made("block_rq_complete", "R", 9000, 8)));
    pages.push(last.bytes());
    let directory = written(&description, &[pages], &[]);
    let path = directory.path().join(segment_file(0, 0));
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(read(directory.path()).0[0].latency.unwrap().0, 19_500);
    let mut frames: Vec<usize> =
        (0..bytes.len() - 4).filter(|at| &bytes[*at..*at + 4] == b"ioef").collect();
    frames.push(bytes.len());
    std::fs::write(&path, [&bytes[..frames[4]], &bytes[frames[6]..]].concat()).unwrap();
    let (requests, header) = read(directory.path());
    assert_eq!((requests.len(), requests[0].latency), (8, None));
    assert!(header.damage.unwrap().contains("frames before this one are missing: 2"));
    assert_eq!(header.recording.unwrap().gaps.len(), 1);
}

#[cfg(unix)]
#[test]
fn what_is_no_regular_file_in_a_recording_is_refused_rather_than_waited_for() {
    let description = description();
    let directory = written(&description, &[steady(&description, 3)], &[]);
    let socket = directory.path().join(segment_file(1, 0));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let error = open(directory.path(), &ReadOptions::default()).err().unwrap();
    assert!(error.to_string().contains("no regular file"), "{error}");
}
