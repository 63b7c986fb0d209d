use std::fmt::Write as _;

use proptest::prelude::*;

use super::{FORMAT, WRITABLE};
use crate::batch::Columns;
use crate::formats::blktrace::record::category::*;
use crate::formats::blktrace::record::kind;
use crate::formats::blktrace::testing::Tape;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, read_with, recognised, survives, written};
use crate::formats::{IssueEvent, ReadOptions};
use crate::header::{Header, Volume};
use crate::request::{Flags, Op, Origin, Request};
use crate::units::{Bytes, Nanos, VolumeId};

/// Real lines of a loop device under a file system, with the statistics that blkparse prints at the
/// end.
const LOOP: &str = "\
  7,0    1        1     0.000000000  6023  Q  RM 34176 + 8 [(null)]
  7,0    1        2     0.000004997  6023  D  RM 34176 + 8 [kworker/u4:0]
  7,0    1        3     0.001381204  6425  C  RM 34176 + 8 [0]
  7,0    1   104176    60.054151709  6435  Q  WS 951456 + 48 [a [b] c]
  7,0    1   104177    60.054154603  6435  D  WS 951456 + 48 [a [b] c]
  7,0    1   104178    60.054248734    22  C  WS 951456 + 48 [0]
  7,0    1   104179    60.054256725  6435  Q FWS [a [b] c]
  7,0    1   104180    60.054262774    44  D FNF [kworker/1:1H]
  7,0    1   104181    60.054380149    22  C FNF 0 [0]
  7,0    1   104182    60.054380910    22  C  WS 0 [0]
CPU0 (loop0):
 Reads Queued:        8702,    80756KiB\t Writes Queued:       13472,   104536KiB
 Read depth:            77        \t Write depth:            24

Total (loop0):
 IO unplugs:             0        \t Timer unplugs:           0

Throughput (R/W): 2088KiB/s / 5085KiB/s
Events (loop0): 148672 entries
Skips: 3 forward (1,234 -   0.8%)
Input file loop0.blktrace.0 added
";

fn ops(requests: &[Request]) -> Vec<(Op, u64, u64, Option<i64>)> {
    let row = |request: &Request| {
        let latency = request.latency.map(|latency| latency.0);
        (request.op, request.offset.0 / 512, request.length.0 / 512, latency)
    };
    requests.iter().map(row).collect()
}

#[test]
fn devices_with_other_events_keep_their_requests() {
    let other = "\
  8,16   0        1     0.000100000     9  D  WS 8 + 8 [x]
  8,16   0        2     0.000300000     0  C  WS 8 + 8 [0]
";
    let (requests, header) = read(&FORMAT, &[other, LOOP].concat());
    assert_eq!(requests.len(), 4);
    let times = requests.iter().map(|request| (request.issue.0, request.volume.0));
    assert_eq!(times.filter(|(_, volume)| *volume == 1).count(), 1);
    assert!(header.guesses.iter().any(|note| note.what.contains("issued to the driver (D)")));
}

#[test]
fn events_become_the_requests_that_were_queued_with_their_latencies() {
    let (requests, header) = read(&FORMAT, LOOP);
    let expected = [
        (Op::Read, 34176, 8, Some(1_381_204)),
        (Op::Write, 951_456, 48, Some(97_025)),
        (Op::Flush, 0, 0, Some(124_185)),
    ];
    assert_eq!(ops(&requests), expected);
    assert_eq!(requests[2].issue, Nanos(60_054_256_725));
    assert_eq!(requests[0].flags, Flags::META);
    assert_eq!(requests[1].origin, Some(Origin { pid: 6435, cpu: 1 }));
    assert_eq!(header.volumes[0].name, "7:0");
    assert_eq!(header.processes[&6435], "a [b] c");
    assert_eq!(header.processes[&6023], "kworker/u4:0");
    assert_eq!(header.event.as_deref(), Some("queued (Q)"));
    assert_eq!(header.losses.count_of("events that blkparse says are missing"), 1234);
    assert_eq!(header.losses.iter().count(), 1);
}

#[test]
fn the_event_is_the_users_choice_or_the_first_that_there_is() {
    let options = ReadOptions { event: IssueEvent::Issued, ..ReadOptions::default() };
    let (requests, header) = read_with(&FORMAT, LOOP, &options);
    assert_eq!(requests[0].latency, Some(Nanos(1_376_207)));
    assert_eq!(header.event.as_deref(), Some("issued to the driver (D)"));
    let inserted = "  8,0 0 1 0.5 9 I R 8 + 8 [x]\n  8,0 0 2 0.6 9 D R 8 + 8 [x]\n";
    let (requests, header) = read(&FORMAT, inserted);
    assert_eq!(header.event.as_deref(), Some("inserted (I)"));
    assert_eq!((requests.len(), header.columns.latency), (1, false));
}

#[test]
fn lines_that_are_no_requests_are_told_apart() {
    let text = "\
  8,0    1        1     0.000000001   697  G   W 223490 + 8 [kjournald]
  8,0    1        2     0.000000002   697  P   N [kjournald]
  8,0    1        3     0.000000003   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    1        4     0.000000004   697  I   R 36 (12 00 00 00 24 00 ..) [hald addon]
  8,0    1        5     0.000000005   697  D   R 36 (12 00 00 00 24 00 ..) [hald addon]
  8,0    1        6     0.000000006   697  C   R (12 00 00 00 24 00 ..) [0]
  8,0    1        7     0.000000007   697  D   N 0 [hald]
  8,0    1        8     0.000000008   697  C   N [0]
  8,0    1        9     0.000000009     0 UT   N [swapper] 1
  8,0    1        0     0.000000010     0  m   N cfq697S [alloc] / 8 + 8
  8,0    1       10     0.000000011   697  Q   W 223490 + 8 (     123) [kjournald]
  8,0    1       11     0.000000012   697  C   W 223490 + 8 (     456) [0]
  8,0    1       12     0.000000013   697  Q  FN (     123) [kjournald]
";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(ops(&requests), [(Op::Write, 223_490, 8, Some(1)), (Op::Flush, 0, 0, None)]);
    assert_eq!(header.losses.count_of("passthrough commands"), 2);
    assert_eq!(header.losses.count_of(JUNK), 0);
}

#[test]
fn a_split_beyond_two_tebibytes_is_read_although_its_number_is_cut() {
    // 4294967290 + 6 is 2^32: blkparse prints its low 32 bits.
    let text = "\
  8,0 0 1 0.000000001 9 Q R 4294967290 + 16 [x]
  8,0 0 2 0.000000002 9 X R 4294967290 / 0 [x]
  8,0 0 3 0.000000003 9 Q R 4294967296 + 10 [x]
  8,0 0 4 0.000000009 9 C R 4294967290 + 6 [0]
  8,0 0 5 0.000000010 9 C R 4294967296 + 10 [0]
";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(ops(&requests), [(Op::Read, 4_294_967_290, 16, Some(9))]);
    assert_eq!(header.losses.count_of("rests of split requests, queued again"), 1);
}

#[test]
fn lines_out_of_order_are_put_in_order() {
    let text = "\
  8,0 0 2 0.000000020 9 C R 8 + 8 [0]
  8,0 1 1 0.000000010 9 Q R 8 + 8 [x]
  8,0 1 2 0.000000005 9 Q R 0 + 8 [x]
";
    let (requests, _) = read(&FORMAT, text);
    let instants: Vec<_> = requests.iter().map(|request| request.issue.0).collect();
    assert_eq!((instants, requests[1].latency), (vec![5, 10], Some(Nanos(10))));
}

#[test]
fn junk_is_counted_with_its_reason() {
    for line in [
        "hello",
        "8,0",
        "8;0 1 1 0.1 9 Q R 8 + 8 [x]",
        "8,0 1 1 x 9 Q R 8 + 8 [x]",
        "8,0 1 1 0.1 9 Q X 8 + 8 [x]",
        "8,0 1 1 0.1 9 Y R 8 + 8 [x]",
        "8,0 1 1 0.1 9 Q R 8 + 8388608 [x]",
        "8,0 1 1 0.1 9 Q R 18446744073709551616 + 8 [x]",
        "5000,0 1 1 0.1 9 Q R 8 + 8 [x]",
        "8,0 1 1 0.1 9 Q R x",
        "8,0 1 1 99999999999.1 9 Q R 8 + 8 [x]",
    ] {
        let text = format!("8,0 1 1 0.1 9 Q R 8 + 8 [x]\n{line}\n8,0 1 1 0.2 9 Q R 8 + 8 [x]\n");
        let (requests, header) = read(&FORMAT, &text);
        assert_eq!((requests.len(), header.losses.count_of(JUNK)), (2, 1), "{line}");
    }
}

#[test]
fn text_of_blkparse_is_known_by_its_lines() {
    assert_eq!(recognised(LOOP), Some("blkparse"));
    let merges = "  8,0    3       11     0.009507758   697  G   W 223490 + 8 [kjournald]\n";
    assert_eq!(recognised(merges), Some("blkparse"));
    // FIU's traces have the same ending and another format.
    let fiu = "89967404265337 4253 nfsd 508516672 8 W 6 0 88b93b628d84082186026d9da044f173\n";
    assert!(!(FORMAT.recognise)(fiu.as_bytes()));
}

/// An event as blkparse prints it: its `process_default`.
fn printed(time: u64, kind: u8, bits: u32, sector: u64, sectors: u32) -> String {
    let mut letters = String::new();
    letters.extend((bits & FLUSH != 0).then_some('F'));
    letters.push(match () {
        () if bits & DISCARD != 0 => 'D',
        () if bits & WRITE != 0 => 'W',
        () if sectors > 0 => 'R',
        () => 'N',
    });
    for (bit, letter) in [(FUA, 'F'), (AHEAD, 'A'), (SYNC, 'S'), (META, 'M')] {
        letters.extend((bits & bit != 0).then_some(letter));
    }
    let action = match kind {
        kind::QUEUE => "Q",
        kind::ISSUE => "D",
        kind::REQUEUE => "R",
        _ => "C",
    };
    let (s, ns) = (time / 1_000_000_000, time % 1_000_000_000);
    let mut line = format!("  8,0    0        1 {s:5}.{ns:09} {:5} {action:>2} {letters:>3} ", 42);
    let is_end = matches!(kind, kind::COMPLETE | kind::REQUEUE);
    let name = if is_end { "0" } else { "x" };
    let _ = match (sectors, is_end) {
        (0, false) => writeln!(line, "[{name}]"),
        (0, true) => writeln!(line, "{sector} [{name}]"),
        _ => writeln!(line, "{sector} + {sectors} [{name}]"),
    };
    line
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        text in "([0-9 ,.]{0,12}[QDCXIRm]? [FWRDNZSA]{0,4} [0-9 +/()\\[\\]x]{0,20}\n){0,30}"
    ) {
        survives(&FORMAT, text.as_bytes());
        survives(&FORMAT, format!("8,0 0 1 0.1 9 {text}").as_bytes());
    }

    #[test]
    fn text_and_recording_are_the_same_requests(
        events in prop::collection::vec(
            (0..50_u64, 0..4_usize, 0..6_usize, 0..12_u64, 0..5_u32), 1..60,
        ),
    ) {
        let mut tape = Tape::new(0);
        // An event that is certainly a request.
        tape.event(0, kind::QUEUE, READ, 1 << 20, 512);
        let (mut text, mut time) = (printed(0, kind::QUEUE, READ, 1 << 20, 1), 0);
        for (gap, kind, bits, place, sectors) in events {
            time += gap;
            let kind = [kind::QUEUE, kind::ISSUE, kind::COMPLETE, kind::REQUEUE][kind];
            let bits = [READ, WRITE, WRITE | SYNC | FUA, DISCARD, FLUSH | WRITE, FLUSH][bits];
            let sectors = if bits & FLUSH != 0 { 0 } else { 4 * sectors };
            // The text has no sector for an event without a range.
            let sector = if sectors == 0 { 0 } else { 4 * place };
            tape.event(time, kind, bits, sector, sectors * 512);
            text += &printed(time, kind, bits, sector, sectors);
        }
        let (mut expected, header) = tape.read();
        // Discards of no length are lost by the rules that all text formats share.
        expected.retain(|request| request.length.0 > 0 || request.op == Op::Flush);
        let (requests, from_text) = read(&FORMAT, &text);
        prop_assert_eq!(requests, expected);
        prop_assert_eq!(from_text.columns, header.columns);
    }

    #[test]
    fn what_is_written_reads_back(
        rows in prop::collection::vec(
            (0..1_000_000_i64, 0..5_usize, 0..32_u16, 1..64_u64, any::<bool>(), 0..3_u32), 1..50,
        ),
    ) {
        let columns = Columns { latency: true, origin: true, measured: false, dependencies: false };
        let volumes = ["8:0", "sdb", "259:7"].into_iter().zip(0..).map(|(name, id)| {
            Volume { id: VolumeId(id), name: name.to_owned(), size: None }
        });
        let mut header = Header { columns, volumes: volumes.collect(), ..Header::default() };
        header.processes.insert(7, "a [b]".to_owned());
        let (mut issue, mut requests) = (0, Vec::new());
        for (index, (gap, op, flags, sectors, known, volume)) in rows.into_iter().enumerate() {
            issue += gap;
            let op = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes][op];
            // No two ranges touch, because this test is not about matching completions.
            let (offset, length) = (Bytes(index as u64 * (1 << 30)), Bytes(sectors * 512));
            let mut request = Request::new(Nanos(issue), op, offset, length);
            request.flags = Flags::from_bits_truncate(flags);
            request.volume = VolumeId(volume);
            request.latency = known.then_some(Nanos(gap));
            request.origin = Some(Origin { pid: 7, cpu: volume });
            if op == Op::Flush {
                (request.offset, request.length) = (Bytes(0), Bytes(0));
                request.flags.remove(Flags::PREFLUSH | Flags::FUA);
                // The oldest is completed first.
                request.latency = None;
            }
            requests.push(request);
        }
        let (text, lost) = written(&WRITABLE, &header, &requests);
        prop_assert!(lost.iter().all(|note| note.what == "names of volumes"), "{lost:?}");
        let (mut read, back) = read(&FORMAT, &text);
        for request in &mut read {
            // Volumes are numbered anew, in the order in which they appear.
            let name = &back.volumes[request.volume.0 as usize].name;
            let names = [("8:0", 0), ("259:1", 1), ("259:7", 2)];
            request.volume = VolumeId(names.iter().find(|(known, _)| known == name).unwrap().1);
        }
        let mut expected = requests.clone();
        if requests.iter().all(|request| request.latency.is_none()) {
            for request in &mut expected {
                request.latency = None;
            }
        }
        prop_assert_eq!(read, expected);
        prop_assert_eq!(back.processes[&7].as_str(), "a [b]");
        prop_assert_eq!(back.losses.count_of(JUNK), 0);
    }
}

#[test]
fn lines_are_written_as_blkparse_prints_them_and_in_order() {
    let mut first = Request::new(Nanos(1_000), Op::Write, Bytes(4096), Bytes(4096));
    first.latency = Some(Nanos(5_000));
    first.flags = Flags::SYNC;
    let mut second = Request::new(Nanos(2_000), Op::Flush, Bytes(0), Bytes(0));
    second.latency = Some(Nanos(1_000));
    let third = Request::new(Nanos(9_000), Op::Discard, Bytes(0), Bytes(5 << 30));
    let columns = Columns { latency: true, origin: true, measured: false, dependencies: false };
    let volume = Volume { name: "8:16".to_owned(), ..Volume::default() };
    let header = Header { columns, volumes: vec![volume], ..Header::default() };
    let (text, lost) = written(&WRITABLE, &header, &[first, second, third]);
    assert_eq!(
        text,
        "  8,16   0        1     0.000001000     0  Q  WS 8 + 8 [(null)]
  8,16   0        2     0.000002000     0  Q  FW [(null)]
  8,16   0        3     0.000003000     0  C  FW 0 [0]
  8,16   0        4     0.000006000     0  C  WS 8 + 8 [0]
  8,16   0        5     0.000009000     0  Q   D 0 + 4194304 [(null)]
  8,16   0        6     0.000009000     0  Q   D 4194304 + 6291456 [(null)]
"
    );
    assert_eq!(lost.count_of("requests of 4 GiB and more, split"), 1);
}
