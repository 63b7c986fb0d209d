//! Layouts, files, order, notices and damage.

use super::super::files::MISSING;
use super::super::record::category::{AHEAD, META, NOTIFY, READ, SYNC, WRITE};
use super::super::record::{kind, notify};
use super::super::testing::{Style, Tape, directory, drain, read_with};
use super::super::{is_blktrace, is_prefix, open};
use super::{ops, times};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::formats::{IssueEvent, ReadOptions};
use crate::request::{Flags, Op};
use crate::stream::Source;
use crate::units::Nanos;

fn strict() -> ReadOptions {
    ReadOptions { strict: true, ..ReadOptions::default() }
}

#[test]
fn both_layouts_and_both_byte_orders_are_read_alike() {
    for number in 0..8 {
        let style =
            Style { big_endian: number & 1 > 0, second: number & 2 > 0, cgroup: number & 4 > 0 };
        let mut tape = Tape::styled(style);
        tape.q(1000, READ | AHEAD, 1 << 40, 8).d(1100, READ | AHEAD, 1 << 40, 8);
        tape.q(1500, WRITE | SYNC | META, 16, 16).c(1700, READ, 1 << 40, 8);
        tape.d(1800, WRITE | SYNC | META, 16, 16).c(2000, WRITE, 16, 16);
        assert!(is_blktrace(&tape.bytes), "{style:?}");
        let (requests, header) = tape.read();
        assert_eq!(ops(&requests), [(Op::Read, 1 << 40, 8), (Op::Write, 16, 16)], "{style:?}");
        assert_eq!(times(&requests), [(0, Some(700)), (500, Some(500))]);
        assert_eq!(requests[0].flags, Flags::READAHEAD);
        assert_eq!(requests[1].flags, Flags::SYNC | Flags::META);
        assert_eq!(requests[0].origin.unwrap().pid, 42);
        assert_eq!(header.volumes[0].name, "8:0");
        assert_eq!(header.event.as_deref(), Some("queued (Q)"));
        assert!(header.losses.is_empty() && header.guesses.is_empty(), "{header:?}");
    }
}

#[test]
fn the_files_of_all_processors_are_one_recording_by_any_of_their_names() {
    let (mut zero, mut one) = (Tape::new(0), Tape::new(1));
    zero.q(10, READ, 0, 8).q(30, READ, 8, 8).c(60, READ, 16, 8);
    one.q(20, READ, 16, 8).c(40, READ, 0, 8).c(50, READ, 8, 8);
    let files: &[(&str, &[u8])] = &[
        ("sda.blktrace.0", &zero.bytes),
        ("sda.blktrace.1", &one.bytes),
        ("sda.blktrace.10", b""),
        ("sda1.blktrace.0", b"another device"),
        ("sda.blktrace.txt", b"not of blktrace"),
    ];
    for name in ["sda", "sda.blktrace.0", "sda.blktrace.1", "sda.blktrace.10"] {
        let (requests, header) = read_with(files, name, IssueEvent::Auto);
        assert_eq!(times(&requests), [(0, Some(30)), (10, Some(40)), (20, Some(20))], "{name}");
        assert_eq!(requests[1].origin.unwrap().cpu, 1);
        let description = header.description.unwrap();
        assert!(description.contains("files of 3 processors"), "{description}");
        assert!(description.contains("none of 2, 3, 4, 5, 6, 7, 8 and 9"), "{description}");
        assert_eq!(header.losses.count_of(MISSING), 8);
        assert!(header.source.ends_with(name));
    }
    let directory = directory(files);
    assert!(is_prefix(&directory.path().join("sda")));
    assert!(!is_prefix(&directory.path().join("sd")));
    assert!(!is_prefix(&directory.path().join("sda.blktrace.0")));
    // A directory of the device's name is no obstacle.
    std::fs::create_dir(directory.path().join("sda")).unwrap();
    assert_eq!(drain(&mut *open(&directory.path().join("sda"), &strict()).unwrap()).len(), 3);
}

#[test]
fn the_empty_file_of_a_processor_stands_for_a_recording_and_no_other_empty_file_does() {
    let mut zero = Tape::new(0);
    zero.q(10, READ, 0, 8).c(60, READ, 0, 8);
    let directory = directory(&[
        ("sda.blktrace.0", &zero.bytes),
        ("sda.blktrace.3", b""),
        ("sdb.blktrace.0", b""),
        ("sda.blktrace", b""),
    ]);
    let open = |name: &str| crate::formats::open(&directory.path().join(name), &strict());
    assert_eq!(times(&drain(&mut *open("sda.blktrace.3").unwrap())), [(0, Some(50))]);
    for name in ["sdb.blktrace.0", "sda.blktrace"] {
        assert!(matches!(open(name).err().unwrap(), TraceError::Empty { .. }), "{name}");
    }
}

#[test]
fn the_event_is_queued_else_inserted_else_issued_unless_one_is_wished() {
    let mut tape = Tape::new(0);
    tape.event(5, kind::INSERT, READ, 0, 4096).d(8, READ, 0, 8).c(9, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(header.event.as_deref(), Some("inserted (I)"));
    assert_eq!(times(&requests), [(0, Some(4))]);
    let (requests, header) = tape.read_event(IssueEvent::Issued);
    assert_eq!(header.event.as_deref(), Some("issued to the driver (D)"));
    assert_eq!(times(&requests), [(0, Some(1))]);
}

#[test]
fn processors_without_a_file_are_told_and_a_whole_set_misses_none() {
    let mut tape = Tape::new(0);
    tape.q(10, READ, 0, 8).c(60, READ, 0, 8);
    let (_, header) = read_with(
        &[("x.blktrace.0", &tape.bytes), ("x.blktrace.0.gz", b""), ("x.blktrace.1", b"")],
        "x",
        IssueEvent::Auto,
    );
    assert!(header.losses.is_empty() && !header.description.unwrap().contains("none of"));
    let far = [("x.blktrace.0", &tape.bytes[..]), ("x.blktrace.4000000000", b"")];
    let (_, header) = read_with(&far, "x", IssueEvent::Auto);
    assert_eq!(header.losses.count_of(MISSING), 3_999_999_999);
}

#[test]
fn devices_of_a_merged_recording_go_each_by_the_best_event_that_they_have() {
    let mut tape = Tape::new(0);
    tape.q(10, READ, 0, 8).d(20, READ, 0, 8).c(30, READ, 0, 8);
    // Every device has numbers of its own.
    let sequence = std::mem::take(&mut tape.sequence);
    tape.device += 16;
    tape.d(40, WRITE, 8, 8).c(70, WRITE, 8, 8);
    tape.device -= 16;
    tape.sequence = sequence;
    tape.q(80, READ, 16, 8).d(85, READ, 16, 8).c(90, READ, 16, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(20)), (30, Some(30)), (70, Some(10))]);
    assert_eq!(ops(&requests)[1], (Op::Write, 8, 8));
    assert!(header.losses.is_empty(), "{:?}", header.losses);
    let note = header.guesses.iter().next().unwrap();
    assert_eq!(note.count, 1);
    assert!(note.what.contains("issued to the driver (D)"), "{}", note.what);
    // If the user chooses the event, devices without it are reported.
    let (requests, header) = tape.read_event(IssueEvent::Queued);
    assert_eq!(requests.len(), 2);
    let note = header.losses.iter().find(|note| note.what.starts_with("devices")).unwrap();
    assert_eq!((note.count, &note.examples[0][..]), (1, "8:16"));
}

#[test]
fn a_device_that_comes_up_late_is_not_lost_for_its_other_events() {
    let mut tape = Tape::new(0);
    for n in 0..40_000 {
        tape.q(10 * n, READ, 0, 8).c(10 * n + 5, READ, 0, 8);
    }
    tape.device += 16;
    tape.d(400_000, WRITE, 8, 8).c(400_007, WRITE, 8, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests)[40_000], (400_000, Some(7)));
    assert_eq!(header.guesses.iter().next().unwrap().count, 1);
}

#[test]
fn a_recording_without_the_event_names_what_it_has() {
    let mut tape = Tape::new(0);
    tape.d(8, READ, 0, 8).c(9, READ, 0, 8);
    let directory = directory(&[("x", &tape.bytes)]);
    let options =
        ReadOptions { strict: false, event: IssueEvent::Queued, ..ReadOptions::default() };
    let error = open(&directory.path().join("x"), &options).err().unwrap().to_string();
    assert!(error.contains("1 issued to the driver (D), 1 completed (C)"), "{error}");
    assert!(error.contains("event D"), "{error}");
}

#[test]
fn lost_events_are_counted_by_their_numbers_but_notices_have_none() {
    let mut tape = Tape::new(0);
    tape.sequence = 500;
    tape.q(1, READ, 0, 8);
    tape.sequence += 3;
    tape.q(2, READ, 0, 8);
    tape.sequence += 1000;
    tape.notice(3, notify::PROCESS, b"fio\0");
    tape.sequence -= 1000;
    tape.q(4, READ, 0, 8);
    let (_, header) = tape.read();
    assert_eq!(header.losses.count_of("events lost by the recorder (sequence gaps)"), 3);
}

#[test]
fn the_recorder_s_notices_name_processes_and_the_wall_clock() {
    for cgroup in [false, true] {
        let mut tape = Tape::styled(Style { cgroup, big_endian: true, second: false });
        let mut clock = 1_700_000_000_u32.to_be_bytes().to_vec();
        clock.extend_from_slice(&999_999_999_u32.to_be_bytes());
        tape.notice(1_000, notify::PROCESS, b"kworker/0:1\0\0\0\0\0");
        tape.notice(1_000, notify::TIMESTAMP, &clock).notice(1_000, 2, b"a message");
        tape.q(1_002, READ, 0, 8).c(1_300, READ, 0, 8);
        let (_, header) = tape.read();
        assert_eq!(header.processes[&42], "kworker/0:1");
        assert_eq!(header.started.as_deref(), Some("2023-11-14T22:13:21.000000001Z"));
    }
}

#[test]
fn a_clock_that_merged_events_do_not_share_is_not_believed() {
    let mut tape = Tape::new(0);
    tape.notice(5_000_000_000, notify::TIMESTAMP, &[1; 8]);
    tape.q(0, READ, 0, 8);
    assert_eq!(tape.read().1.started, None);
}

#[test]
fn events_slightly_out_of_order_are_put_in_order() {
    let mut tape = Tape::new(0);
    tape.q(10, READ, 0, 8).q(30, READ, 8, 8).q(20, READ, 16, 8).q(30, READ, 24, 8);
    let (requests, header) = tape.read();
    let sectors: Vec<_> = requests.iter().map(|request| request.offset.0 / 512).collect();
    assert_eq!(sectors, [0, 16, 8, 24]);
    assert!(header.guesses.is_empty());
}

#[test]
fn events_far_out_of_order_are_moved_and_counted() {
    let mut tape = Tape::new(0);
    for at in 0..10_000 {
        tape.q(1_000_000 + at, READ, at, 8);
    }
    tape.q(5, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(requests.len(), 10_001);
    assert_eq!(requests[0].issue, Nanos(0));
    assert_eq!(header.guesses.count_of("events out of time order"), 1);
}

#[test]
fn devices_become_volumes_in_the_order_of_their_requests() {
    let mut tape = Tape::new(0);
    tape.device = 259 << 20 | 3;
    tape.q(1, READ, 0, 8);
    tape.device = 8 << 20 | 16;
    tape.q(2, READ, 0, 8).c(3, READ, 0, 8);
    let (requests, header) = tape.read();
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["259:3", "8:16"]);
    assert_eq!(requests[1].volume.0, 1);
    assert_eq!(times(&requests), [(0, None), (1, Some(1))]);
}

#[test]
fn a_recording_cut_short_gives_what_it_holds_and_says_where_it_ends() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 8).q(2, READ, 8, 8);
    tape.bytes.truncate(70);
    let (requests, header) = tape.read();
    assert_eq!(requests.len(), 1);
    let damage = header.damage.unwrap();
    assert!(damage.contains("merged.bin: at byte 48: the file ends 22 bytes into"), "{damage}");

    let directory = directory(&[("x", &tape.bytes)]);
    let error = open(&directory.path().join("x"), &strict()).err().unwrap();
    assert!(matches!(error, TraceError::Binary { offset: 48, .. }), "{error}");
}

#[test]
fn a_payload_cut_short_is_damage_too() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 8).notice(3, notify::PROCESS, &[b'x'; 16]);
    tape.bytes.truncate(100);
    assert!(tape.read().1.damage.unwrap().contains("52 bytes into a record of 64"));
}

#[test]
fn other_bytes_in_the_middle_end_the_file_and_not_its_siblings() {
    let (mut zero, mut one) = (Tape::new(0), Tape::new(1));
    zero.q(1, READ, 0, 8);
    zero.bytes
        .extend_from_slice(b"rubbish that is longer than the header of a record would be....");
    one.q(2, READ, 8, 8).q(3, READ, 8, 8);
    let files: &[(&str, &[u8])] =
        &[("sda.blktrace.0", &zero.bytes), ("sda.blktrace.1", &one.bytes)];
    let (requests, header) = read_with(files, "sda", IssueEvent::Auto);
    assert_eq!(requests.len(), 3);
    let damage = header.damage.unwrap();
    assert!(damage.contains("sda.blktrace.0: at byte 48: no blktrace record"), "{damage}");
}

#[test]
fn a_file_of_another_format_or_without_content_is_refused() {
    let version_6: &[u8] = &[6, 0x74, 0x61, 0x65, 0, 0];
    let directory = directory(&[
        ("text", b"  8,0    1        1     0.0"),
        ("v6", version_6),
        ("short", &[7, 0x74]),
        ("none.blktrace.0", b""),
        ("none.blktrace.1", b""),
    ]);
    let error = |name: &str| open(&directory.path().join(name), &strict()).err().unwrap();
    assert!(matches!(error("text"), TraceError::Binary { offset: 0, .. }));
    assert!(error("v6").to_string().contains("version 6"));
    assert!(matches!(error("short"), TraceError::Binary { .. }));
    assert!(matches!(error("none"), TraceError::Empty { .. }));
    assert!(matches!(error("missing"), TraceError::Read { .. }));
}

#[test]
fn a_long_recording_comes_in_full_batches() {
    let mut tape = Tape::new(0);
    for at in 0..100_000 {
        tape.q(at * 10, READ, at * 8, 8).c(at * 10 + 5, READ, at * 8, 8);
    }
    let directory = directory(&[("x", &tape.bytes)]);
    let mut source = open(&directory.path().join("x"), &strict()).unwrap();
    let mut batch = Batch::new(source.header().columns);
    let mut rows = 0;
    while source.next_batch(&mut batch).unwrap() {
        rows += batch.len();
        assert!(batch.is_full() || rows == 100_000);
        assert!(batch.iter().all(|request| request.latency == Some(Nanos(5))));
    }
    assert_eq!(rows, 100_000);
    assert!(!source.next_batch(&mut batch).unwrap());
    assert!(source.header().losses.is_empty());
}

#[test]
fn a_record_damaged_behind_its_magic_is_no_request_and_swallows_nothing() {
    // Bytes overwritten from somewhere in the second record to the middle of a later one.
    let mut random = 0x9e37_79b9_u32;
    for from in [4, 8, 20, 30, 38, 41, 46] {
        let (mut zero, mut one) = (Tape::new(0), Tape::new(1));
        for number in 0..40 {
            zero.q(100 + number * 10, READ, number * 8, 8);
        }
        for byte in &mut zero.bytes[48 + from..548] {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (random >> 24) as u8 | 0x80;
        }
        one.q(105, READ, 800, 8).q(500, READ, 808, 8);
        let files: [(&str, &[u8]); 2] =
            [("sda.blktrace.0", &zero.bytes), ("sda.blktrace.1", &one.bytes)];
        let (requests, header) = read_with(&files, "sda", IssueEvent::Auto);
        assert_eq!(times(&requests).len(), 3, "from {from}");
        assert_eq!(header.volumes.len(), 1, "from {from}");
        let damage = header.damage.unwrap();
        assert!(damage.contains("sda.blktrace.0: at byte 48: what begins as a record"), "{damage}");
    }
}

#[test]
fn a_payload_that_only_a_message_has_ends_the_file_otherwise() {
    for (categories, low, whole) in
        [(NOTIFY, 2, true), (NOTIFY, 0, false), (READ, u16::from(kind::QUEUE), false)]
    {
        let mut tape = Tape::new(0);
        tape.q(100, READ, 0, 8).record(110, low, categories, 0, 512, &[b'x'; 5000]);
        tape.q(120, READ, 8, 8);
        let (requests, header) = tape.read();
        assert_eq!((requests.len(), header.damage.is_none()), (1 + usize::from(whole), whole));
    }
}

#[test]
fn a_record_of_another_layout_than_the_file_is_damage() {
    let mut tape = Tape::new(0);
    tape.q(100, READ, 0, 8);
    tape.style.second = true;
    tape.q(110, READ, 8, 8);
    let (requests, header) = tape.read();
    assert_eq!(requests.len(), 1);
    assert!(header.damage.unwrap().contains("at byte 48: a record of version 8"));
}
