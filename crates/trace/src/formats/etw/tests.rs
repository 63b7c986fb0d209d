use std::fmt::Write as _;

use proptest::prelude::*;

use super::FORMAT;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, recognised, survives};
use crate::request::{Op, Request};

fn rows(requests: &[Request]) -> Vec<(i64, Op, u64, u64, i64)> {
    let row = |r: &Request| (r.issue.0, r.op, r.offset.0, r.length.0, r.latency.unwrap().0);
    requests.iter().map(row).collect()
}

const HEADING: &str = concat!(
    "BeginHeader\n",
    "             DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             ",
    "IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, ",
    "I/O Pri,  VolSnap,         FileObject, FileName\n",
    "            DiskWrite,  TimeStamp,     Process Name ( PID),   ThreadID,             ",
    "IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, ",
    "I/O Pri,  VolSnap,         FileObject, FileName\n",
    "         DiskReadInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr\n",
    "        DiskWriteInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr\n",
    "            DiskFlush,  TimeStamp,     Process Name ( PID),   ThreadID,             ",
    "IrpPtr,                           ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri\n",
    "        DiskFlushInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr\n",
    "EndHeader\n",
);

/// The first is a line of the published Exchange trace.
const EVENTS: &str = concat!(
    "               DiskRead,     723291, p0 (11008),      12260, 0xfffffade691b3010, ",
    "0x4e5ec22e00, 0x00002000,        4388,        4, 0x000901,        4388,       0,  Unknown, ",
    "0xfffffade6bd7d7a0, \"Disk6\"\n",
    "           DiskWriteInit,     723300, System (4), 8, 0xfffffade00000001\n",
    "                 CSwitch,     723301, Idle (0), 0, 0, 0, -1\n",
    "              DiskWrite,     723400, System (4), 8, 0xfffffade00000001, 0x200, 0x400, 90, 1, ",
    "0x000043, 80, 0, Original, 0xffff, \"C:\\a, b \"\"c\"\".txt\"\n",
    "              DiskFlush,     723500, my (a) b.exe (77), 8, 0xffffa00000002, 50, 1, 0x0, 40\n",
);

#[test]
fn requests_are_issued_when_their_event_says_or_before_the_time_they_took() {
    let (requests, header) = read(&FORMAT, &format!("{HEADING}{EVENTS}"));
    assert_eq!(
        rows(&requests),
        [
            (718_903_000, Op::Read, 0x4e_5ec2_2e00, 0x2000, 4_388_000),
            (723_300_000, Op::Write, 0x200, 0x400, 100_000),
            (723_450_000, Op::Flush, 0, 0, 50_000),
        ]
    );
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["4", "1"]);
    assert_eq!(requests[2].origin.unwrap().pid, 77);
    assert_eq!(header.processes[&77], "my (a) b.exe");
    assert_eq!(header.processes[&11008], "p0");
    assert!(header.losses.is_empty() && header.guesses.is_empty(), "{header:?}");
    // Without the heading the columns are the usual ones.
    assert_eq!(rows(&read(&FORMAT, EVENTS).0), rows(&requests));
}

#[test]
fn columns_are_where_the_heading_says() {
    let text = concat!(
        "BeginHeader\n",
        " DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID, CPU,             IrpPtr,   ",
        "ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,",
        "         FileObject, FileName\nEndHeader\n",
        "OS Version: 10.0.19041, Trace Size: 3072KB, Events Lost: 7, Buffers lost: 1\n",
        " DiskRead,       8612,        xperf.exe (3984),      11844,   1, 0xffffe288b23f1b20, ",
        "0x018f0b8000, 0x00001000,         283,        0, 0x060043,         283,       3, ",
        "Original, 0xffffe288272d0d20, \"C:\\$Mft\"\n",
    );
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(rows(&requests), [(8_329_000, Op::Read, 0x1_8f0b_8000, 4096, 283_000)]);
    assert_eq!(requests[0].origin.unwrap().cpu, 1);
    assert_eq!(header.losses.count_of("events lost by the recorder"), 7);
    assert_eq!(header.losses.iter().count(), 1);
}

#[test]
fn the_name_of_a_process_may_hold_commas() {
    let text = concat!(
        "DiskRead, 50, Acme, Inc. (x), a.exe (  77), 2, 0x1, 0x200, 0x400, 1, 3, 0x0, 1\n",
        "DiskWriteInit, 60, Acme, Inc. (78), 2, 0x2\n",
        "DiskWrite, 70, Acme, Inc. (78), 2, 0x2, 0x200, 0x400, 1, 3, 0x0, 1, 0, a, 0x0, ",
        "\"b (9)\"\n",
        "DiskFlush, 80, Acme, Inc. (78), 2, 0x3, 5, 3\n",
    );
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(
        rows(&requests),
        [
            (49_000, Op::Read, 0x200, 0x400, 1_000),
            (60_000, Op::Write, 0x200, 0x400, 10_000),
            (75_000, Op::Flush, 0, 0, 5_000),
        ]
    );
    assert_eq!(header.processes[&77], "Acme, Inc. (x), a.exe");
    assert_eq!(header.processes[&78], "Acme, Inc.");
    assert!(header.losses.is_empty());
}

#[test]
fn a_recording_may_begin_within_a_request() {
    let (requests, header) = read(&FORMAT, "DiskRead, 5, a (1), 2, 0x1, 0x200, 0x400, 9, 3\n");
    assert_eq!(rows(&requests), [(0, Op::Read, 0x200, 0x400, 9_000)]);
    assert_eq!(header.guesses.iter().next().unwrap().examples, ["4000 ns before"]);
}

#[test]
fn dumps_are_known_by_their_heading_or_their_events() {
    assert_eq!(recognised(HEADING), Some("etw"));
    assert_eq!(recognised(EVENTS), Some("etw"));
    let msr = "128166385295514663,hm,0,Write,9056014336,2048,2833\n";
    assert!(!(FORMAT.recognise)(msr.as_bytes()));
}

#[test]
fn junk_is_counted_and_so_is_what_never_completed() {
    let good = "DiskRead, 5, a (1), 2, 0x1, 0x200, 0x200, 1, 0";
    let mut text = format!("{good}\nDiskReadInit, 9, a (1), 2, 0x9\n");
    for line in [
        "5, 6, 7",
        "DiskRead",
        "DiskRead, x, a (1), 2, 0x1, 0x200, 0x200, 1, 0",
        "DiskRead, 5, a (1), 2, 0x1, 512, 0x200, 1, 0",
        "DiskRead, 5, a (1), 2, 0x1, 0x200, 0xzz, 1, 0",
        "DiskRead, 5, a (1), 2, 0x1, 0x200, 0x200, 1, C:",
        "DiskRead, 5, a, b, 2, 0x1, 0x200, 0x200, 1, 0",
        "DiskRead, 99999999999999999, a (1), 2, 0x1, 0x200, 0x200, 1, 0",
        "DiskReadInit, 9, a (1), 2, 9",
    ] {
        let _ = writeln!(text, "{line}");
    }
    let (requests, header) = read(&FORMAT, &text);
    assert_eq!((requests.len(), header.losses.count_of(JUNK)), (1, 9));
    assert_eq!(header.losses.count_of("requests issued of which no completion is told"), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
        survives(&FORMAT, &[b"BeginHeader\nDiskRead,", &bytes[..]].concat());
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        text in concat!(
            "(Disk(Read|Write|Flush)(Init)?, [0-9]{1,20}, [a-z]{0,3}( \\([0-9]{1,11}\\))?, 1",
            "(, (0x)?[0-9a-f]{1,17}){0,5}\n){0,20}",
        )
    ) {
        survives(&FORMAT, text.as_bytes());
        survives(&FORMAT, format!("{HEADING}{text}").as_bytes());
    }

    #[test]
    fn requests_are_read_with_junk_between(
        rows in prop::collection::vec((0..1_u64 << 50, 1..1_u64 << 30, 0..90_u32), 1..40),
        junk in "[0-9;]{1,20}",
    ) {
        let mut text = HEADING.to_owned();
        for (index, (offset, size, disk)) in rows.iter().enumerate() {
            let _ = write!(text,
                "  DiskWrite, {}, a (7), 1, 0x{index:x}, {offset:#x}, {size:#010x}, 3, {disk}\n\
                 {junk}\n",
                index + 10,
            );
        }
        let (requests, header) = read(&FORMAT, &text);
        let found: Vec<_> = requests
            .iter()
            .map(|r| (r.offset.0, r.length.0, &header.volumes[r.volume.0 as usize].name))
            .map(|(offset, size, disk)| (offset, size, disk.parse::<u32>().unwrap()))
            .collect();
        prop_assert_eq!(found, rows.clone());
        prop_assert_eq!(header.losses.count_of(JUNK), rows.len() as u64);
    }
}
