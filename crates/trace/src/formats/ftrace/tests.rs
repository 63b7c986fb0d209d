use proptest::prelude::*;

use super::FORMAT;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, read_with, recognised, survives};
use crate::formats::{IssueEvent, ReadOptions};
use crate::request::{Flags, Op, Origin, Request};
use crate::units::Nanos;

/// Lines of `trace` of a loop device (Linux 6.18), with a discard at the end.
const TRACEFS: &str = "\
# tracer: nop
#
# entries-in-buffer/entries-written: 10/17   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
CPU:0 [LOST 7 EVENTS]
           <...>-25780   [000] ..... 27804.055268: block_bio_queue: 7,4 WS 0 + 128 [dd]
           <...>-25780   [000] ..... 27804.055288: block_rq_issue: 7,4 WS 65536 () 0 + 128 \
    be,0,4 [dd]
           <...>-22      [001] ..s.. 27804.060712: block_rq_complete: 7,4 WS () 0 + 128 be,0,4 [0]
           <...>-25784   [000] ..... 27804.265567: block_bio_queue: 7,4 RA 1024 + 8 [blkdiscard]
           <...>-25784   [000] ..... 27804.265569: block_rq_issue: 7,4 RA 4096 () 1024 + 8 \
    be,0,4 [blkdiscard]
           <...>-14      [000] ..s.. 27804.265585: block_rq_complete: 7,4 RA () 1024 + 8 be,0,4 [0]
           <...>-25784   [000] ..... 27804.266608: block_bio_queue: 7,4 DS 2048 + 128 [blkdiscard]
           <...>-25784   [000] ..... 27804.266613: block_rq_insert: 7,4 DS 65536 () 2048 + 128 \
    be,0,4 [blkdiscard]
           <...>-32624   [000] ..... 27804.266634: block_rq_issue: 7,4 DS 65536 () 2048 + 128 \
    be,0,4 [kworker/0:2H]
           <...>-14      [000] ..s.. 27804.266687: block_rq_complete: 7,4 DS () 2048 + 128 \
    be,0,4 [0]
";

/// Lines of `trace-cmd report -t` (3.1.6) of a buffer with a name.
const TRACE_CMD: &str = "\
cpus=2
h15:            <...>-3109  [001] 27976.849855571: block_rq_issue:       7,2 RS 4096 () 832 + 8 \
    0x2,0,4 [dd]
CPU:0 [12 EVENTS DROPPED]
h15:            <...>-14    [000] 27976.853848780: block_rq_complete:    7,2 RS () 832 + 8 \
    0x2,0,4 [0]
";

/// Lines of `perf script --ns`, of which the first has a name with blanks.
const PERF: &str = "\
 opt 30y1q63apfi 18166/26569 [001] 27829.581576384: block:block_rq_complete: 254,0 RM () 8 + 8 \
    0x2,0,4 [0]
       perf-exec 26505/26506 [001] 27829.581624083:   block:block_bio_queue: \
    254,0 RA 9965056 + 8 [perf-exec]
       perf-exec 26505/26506 [001] 27829.581633494:    block:block_rq_issue: \
    254,0 RA 4096 () 9965056 + 8 0x2,0,4 [perf-exec]
\tffffffff8149d2c0 blk_mq_start_request+0x0 ([kernel.kallsyms])
         swapper     0 [000] 27829.581700000: block:block_rq_complete: 254,0 RA () 9965056 + 8 \
    0x2,0,4 [0]
";

fn rows(requests: &[Request]) -> Vec<(Op, u64, u64, Option<i64>)> {
    let row = |request: &Request| {
        let latency = request.latency.map(|latency| latency.0);
        (request.op, request.offset.0 / 512, request.length.0 / 512, latency)
    };
    requests.iter().map(row).collect()
}

#[test]
fn what_tracefs_prints_becomes_requests_with_latencies() {
    let (requests, header) = read(&FORMAT, TRACEFS);
    let expected = [
        (Op::Write, 0, 128, Some(5_444_000)),
        (Op::Read, 1024, 8, Some(18_000)),
        (Op::Discard, 2048, 128, Some(79_000)),
    ];
    assert_eq!(rows(&requests), expected);
    assert_eq!(requests[0].issue, Nanos(0));
    assert_eq!(requests[1].issue, Nanos(210_299_000));
    assert_eq!(requests[0].flags, Flags::SYNC);
    assert_eq!(requests[0].origin, Some(Origin { pid: 25780, cpu: 0 }));
    assert_eq!(header.volumes[0].name, "7:4");
    assert_eq!(header.processes[&25780], "dd");
    assert_eq!(header.event.as_deref(), Some("queued (Q)"));
    assert_eq!(header.losses.iter().map(|note| note.count).collect::<Vec<_>>(), [7]);
}

#[test]
fn latencies_count_from_the_event_that_was_chosen() {
    let options = ReadOptions { event: IssueEvent::Issued, ..ReadOptions::default() };
    let (requests, header) = read_with(&FORMAT, TRACEFS, &options);
    let latencies: Vec<_> = rows(&requests).iter().map(|row| row.3).collect();
    assert_eq!(latencies, [Some(5_424_000), Some(16_000), Some(53_000)]);
    assert_eq!(header.event.as_deref(), Some("issued to the driver (D)"));
}

#[test]
fn what_trace_cmd_reports_is_read_with_its_nanoseconds_and_its_gaps() {
    let (requests, header) = read(&FORMAT, TRACE_CMD);
    assert_eq!(rows(&requests), [(Op::Read, 832, 8, Some(3_993_209))]);
    assert_eq!(requests[0].origin, Some(Origin { pid: 3109, cpu: 1 }));
    assert_eq!(header.losses.iter().map(|note| note.count).collect::<Vec<_>>(), [12]);
}

#[test]
fn what_perf_prints_is_read_with_threads_and_without_call_chains() {
    let (requests, header) = read(&FORMAT, PERF);
    assert_eq!(rows(&requests), [(Op::Read, 9_965_056, 8, Some(75_917))]);
    assert_eq!(requests[0].origin, Some(Origin { pid: 26506, cpu: 1 }));
    assert!(!header.losses.iter().any(|note| note.what == JUNK));
    // A recording of single processes has no processors.
    let alone = "dd 7 1.000001: block:block_rq_issue: 8,0 R 4096 () 8 + 8 [dd]\n";
    assert_eq!(read(&FORMAT, alone).0[0].origin, Some(Origin { pid: 7, cpu: 0 }));
}

#[test]
fn each_program_is_recognised_also_among_other_events() {
    for text in [TRACEFS, TRACE_CMD, PERF] {
        assert_eq!(recognised(text), Some("ftrace"));
    }
    let switch = "bash-1 [000] d..2. 1.5: sched_switch: prev_comm=a [b] next_pid=3\n";
    let mixed = [
        &switch.repeat(20),
        "dd-9 (    9) [001] d..1. 1.6: block_rq_issue: 8,0 W 512 () \
                                      64 + 1 [dd]\n",
    ]
    .concat();
    assert_eq!(recognised(&mixed), Some("ftrace"));
    let (requests, header) = read(&FORMAT, &mixed);
    assert_eq!(rows(&requests), [(Op::Write, 64, 1, None)]);
    assert_eq!(requests[0].origin, Some(Origin { pid: 9, cpu: 1 }));
    assert!(header.losses.is_empty());
    assert_eq!(recognised(&switch.repeat(20)), None);
}

#[test]
fn the_end_of_a_bio_counts_where_no_driver_is_seen() {
    let bio = "\
dd-9 [000] ..... 1.000001: block_bio_queue: 253,0 W 8 + 8 [dd]
dd-9 [000] ..... 1.000002: block_bio_queue: 8,0 W 2056 + 8 [dd]
dd-9 [000] ..... 1.000003: block_rq_issue: 8,0 W 4096 () 2056 + 8 [dd]
kw-3 [000] ..... 1.000104: block_rq_complete: 8,0 W () 2056 + 8 [0]
kw-3 [000] ..... 1.000105: block_bio_complete: 8,0 W 2056 + 8 [0]
kw-3 [000] ..... 1.000106: block_bio_complete: 253,0 W 8 + 8 [0]
";
    let (requests, header) = read(&FORMAT, bio);
    let latencies: Vec<_> = rows(&requests).iter().map(|row| row.3).collect();
    assert_eq!(latencies, [Some(105_000), Some(102_000)]);
    assert_eq!(header.losses.iter().count(), 0);
}

#[test]
fn flushes_errors_and_passthrough_commands_are_what_they_are() {
    let text = "\
dd-9 [000] ..... 1.000001: block_rq_issue: 8,0 FF 0 () 0 + 0 [dd]
kw-3 [000] ..... 1.000101: block_rq_complete: 8,0 FF () 0 + 0 [0]
dd-9 [000] ..... 1.000201: block_rq_issue: 8,0 R 4096 () 8 + 8 [dd]
kw-3 [000] ..... 1.000301: block_rq_complete: 8,0 R () 8 + 8 [-5]
dd-9 [000] ..... 1.000401: block_rq_issue: 8,0 N 36 (12 00 00 00 24 00) 0 + 0 [smartctl]
";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(requests.iter().map(|one| one.op).collect::<Vec<_>>(), [Op::Flush, Op::Read]);
    assert_eq!(requests[0].latency, Some(Nanos(100_000)));
    let told: Vec<_> = header.losses.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|note| note.starts_with("1 passthrough command")), "{told:?}");
    assert!(told.iter().any(|note| note.contains("the device failed")), "{told:?}");
}

#[test]
fn a_line_that_says_something_else_is_junk_with_its_place() {
    for (odd, reason) in [
        ("x", "no instant and no event"),
        ("dd [000] ..... 1.5: block_rq_issue: 8,0 R 512 () 8 + 1 [dd]", "no process"),
        ("dd-9 [000] 1.5: block_rq_issue: 8;0 R 512 () 8 + 1 [dd]", "no comma"),
        ("dd-9 [000] 1.5: block_rq_issue: 8,0 Q 512 () 8 + 1 [dd]", "no operation"),
        ("dd-9 [000] 1.5: block_rq_issue: 8,0 R 512 () 8 [dd]", "no range"),
        ("dd-9 [000] 1.5: block_rq_issue: 8,0 R 512 () 8 + 9999999999 [dd]", "more sectors"),
    ] {
        let text = [TRACE_CMD, odd, "\n"].concat();
        let options = ReadOptions { strict: true, ..ReadOptions::default() };
        let opened = crate::formats::reading::open(&FORMAT, text.as_bytes(), &options);
        let error = match opened {
            Ok(mut source) => {
                let mut batch = crate::Batch::default();
                loop {
                    match source.next_batch(&mut batch) {
                        Ok(true) => {}
                        Ok(false) => panic!("{odd} is taken"),
                        Err(error) => break error,
                    }
                }
            }
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains(":5:") && error.contains(reason), "{error}");
    }
}

proptest! {
    #[test]
    fn arbitrary_lines_are_survived(text in "([ -~]{0,40}\n){0,8}") {
        survives(&FORMAT, text.as_bytes());
    }

    #[test]
    fn lines_that_are_nearly_events_are_survived(
        at in 0..TRACEFS.len(), byte in any::<u8>(), cut in 0..TRACEFS.len(),
    ) {
        for text in [TRACEFS, TRACE_CMD, PERF] {
            let mut bytes = text.as_bytes().to_vec();
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut.max(1));
            survives(&FORMAT, &bytes);
        }
    }
}
