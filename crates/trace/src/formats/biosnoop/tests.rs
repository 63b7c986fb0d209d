use std::fmt::Write as _;

use proptest::prelude::*;

use super::FORMAT;
use crate::formats::import::JUNK;
use crate::formats::reading::{read, recognised, refusal, survives};
use crate::request::{Flags, Op, Request};

fn rows(requests: &[Request]) -> Vec<(i64, Op, u64, u64, i64)> {
    let row = |r: &Request| (r.issue.0, r.op, r.offset.0 / 512, r.length.0, r.latency.unwrap().0);
    requests.iter().map(row).collect()
}

/// The example of bcc.
const BCC: &str = "\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)
0.000004    supervise      1950   xvda1   W 13092560   4096       0.74
0.000178    supervise      1950   xvda1   W 13092432   4096       0.61
2.003931    xfsaild/md0    456    xvdb    W 62901513   512        0.25
2.004034    a b [c]        457    xvdb    R 62901520   8192       0.35
";

#[test]
fn the_time_is_that_of_the_completion() {
    let (requests, header) = read(&FORMAT, BCC);
    assert_eq!(
        rows(&requests),
        [
            (0, Op::Write, 13_092_560, 4096, 740_000),
            (304_000, Op::Write, 13_092_432, 4096, 610_000),
            (2_004_417_000, Op::Write, 62_901_513, 512, 250_000),
            (2_004_420_000, Op::Read, 62_901_520, 8192, 350_000),
        ]
    );
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["xvda1", "xvdb"]);
    assert_eq!(
        (requests[3].origin.unwrap().pid, header.processes[&457].as_str()),
        (457, "a b [c]")
    );
    assert_eq!(header.processes[&456], "xfsaild/md0");
    assert_eq!(header.event.as_deref(), Some("issued to the driver (D)"));
    let guess = header.guesses.iter().next().unwrap();
    assert!(guess.what.contains("anything but a write") && guess.count == 1, "{guess:?}");
    assert!(header.losses.is_empty());
}

#[test]
fn with_the_time_queued_a_request_is_issued_when_it_is_inserted() {
    let text = "\
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
0.010000    fio            12      nvme0n1 WSM  8          4096      0.500   1.250
0.020000    fio            12      nvme0n1 R    16         4096     -1.000   1.000
";
    let (requests, header) = read(&FORMAT, text);
    let expected =
        [(0, Op::Write, 8, 4096, 1_750_000), (10_750_000, Op::Read, 16, 4096, 1_000_000)];
    assert_eq!(rows(&requests), expected);
    assert_eq!(requests[0].flags, Flags::SYNC | Flags::META);
    assert_eq!(header.event.as_deref(), Some("inserted (I)"));
    assert_eq!(header.guesses.count_of("unknown times in the queue, taken to be none"), 1);
    assert_eq!(header.guesses.iter().count(), 1);
}

#[test]
fn further_columns_and_samples_lost_are_no_obstacle() {
    let text = "\
Tracing block I/O... Hit Ctrl-C to end.
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   PATTERN LAT(ms)
0.010000    fio            12      sda       W 8          4096    R          1.00
Possibly lost 17 samples
lost 3 events on CPU #1
^C
TIME(s)     COMM           PID     DISK      T SECTOR     BYTES   LAT(ms)
0.020000    fio            12      sda       W 16         4096       1.00
";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!(requests.len(), 2);
    assert_eq!(header.losses.count_of("requests lost by the recorder"), 20);
    assert_eq!(header.losses.iter().count(), 1);
}

#[test]
fn requests_of_no_known_place_are_lost_and_flushes_are_not() {
    let text = "\
TIME(s)        COMM           PID    DISK    T  SECTOR    BYTES   LAT(ms)
0.000000000    ?              0              R  -1        8          0.26
1.774198       kworker/23:1   9126           R 18446744073709551615 0         0.61
2.000000000    x              1      sda     R  -1        8          0.26
3.000000000    x              1      sda     R  18446744073709551615 0 0.26
4.000000000    x              1      sda     FF 18446744073709551615 0 0.26
5.000000000    x              1      sda     FWS 0 0 0.26
6.000000000    x              1      sda     N 0 512 0.26
7.000000000    x              1      sda     W 0 0 0.26
";
    let (requests, header) = read(&FORMAT, text);
    assert!(requests.iter().all(|request| request.op == Op::Flush) && requests.len() == 3);
    assert_eq!(header.losses.count_of("requests of which no disk or sector is known"), 3);
    assert_eq!(header.losses.count_of("commands that are no requests"), 1);
    assert_eq!(header.losses.count_of("requests of zero length"), 1);
    assert_eq!(header.guesses.count_of("reads of no length taken for flushes"), 1);
}

#[test]
fn times_of_day_go_on_behind_midnight() {
    let text = "\
TIMESTAMP    COMM           PID     DISK    T    SECTOR     BYTES   LAT(ms)
23:59:59.500 fio            12      sda     WS   8          4096      1.000
00:00:00.250 fio            12      sda     WS   16         4096      1.000
";
    let (requests, header) = read(&FORMAT, text);
    assert_eq!((requests[1].issue.0, header.started), (750_000_000, None));
    let text = text.replace("23:59:59.500", "2024-02-29 23:59:59.500");
    let text = text.replace("00:00:00.250", "2024-03-01T00:00:00.250");
    let (requests, header) = read(&FORMAT, &text);
    assert_eq!(requests[1].issue.0, 750_000_000);
    assert_eq!(header.started.as_deref(), Some("2024-02-29T23:59:59.499Z"));
    assert_eq!(header.guesses.count_of("dates without a zone, taken to be UTC"), 1);
}

#[test]
fn iosnoop_with_its_times_is_read() {
    let text = "\
Tracing block I/O. Ctrl-C to end.
STARTs          ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
14545946.332115 14545946.344366 <...>        17185  WS   8,160    4840587442   4096      12.25
14545946.331036 14545946.347082 main         17197  FF   8,160    18446744073709551615 0  16.05
";
    let (requests, header) = read(&FORMAT, text);
    let expected =
        [(0, Op::Flush, 0, 0, 16_046_000), (1_079_000, Op::Write, 4_840_587_442, 4096, 12_251_000)];
    assert_eq!(rows(&requests), expected);
    assert_eq!(header.volumes[0].name, "8,160");
    let ends = "\
ENDs            COMM         PID    TYPE DEV      BLOCK        BYTES     LATms
14545946.344366 <idle>       0      WS   8,160    4840587442   4096      12.25
14545946.344367 <idle>       0      WS   8,160    4840587443   4096      10.25
";
    assert_eq!(read(&FORMAT, ends).0[1].issue.0, 2_001_000);
}

#[test]
fn what_tells_no_place_or_no_time_is_refused_with_the_reason() {
    let bpftrace = "Attaching 4 probes...\nTIME(ms)     DISK    COMM             PID    LAT(ms)\n\
        611          nvme0n1 bash             4179         10\n";
    assert_eq!(recognised(bpftrace), Some("biosnoop"));
    assert!(refusal(&FORMAT, bpftrace).contains("neither the sector nor the size"));
    let iosnoop = "Tracing block I/O. Ctrl-C to end.\n\
        COMM         PID    TYPE DEV      BLOCK        BYTES     LATms\n\
        java         30603  RM   202,144  1670768496   8192       0.28\n";
    assert_eq!(recognised(iosnoop), Some("biosnoop"));
    assert!(refusal(&FORMAT, iosnoop).contains("iosnoop -s"));
}

#[test]
fn the_heading_may_be_missing() {
    let text = BCC.lines().skip(1).collect::<Vec<_>>().join("\r\n");
    assert_eq!(recognised(&text), Some("biosnoop"));
    assert_eq!(read(&FORMAT, &text).0.len(), 4);
    assert!(!(FORMAT.recognise)(b"0.0 4 264719034 16 0 1 2 3.5\n"));
}

#[test]
fn junk_is_counted() {
    let mut text = BCC.to_owned();
    for line in [
        "hello",
        "1.0 x 1 sda W 8 512",
        "x x 1 sda W 8 512 0.1",
        "1.0 x 1 sda W y 512 0.1",
        "1.0 x 1 sda W 8 -5 0.1",
        "1.0 x 1 sda W 8 512 0.1ms",
        "99999999999.0 x 1 sda W 8 512 0.1",
        "1.0 x 1 sda W 18446744073709551614 512 0.1",
    ] {
        let _ = writeln!(text, "{line}");
    }
    let (requests, header) = read(&FORMAT, &text);
    assert_eq!((requests.len(), header.losses.count_of(JUNK)), (4, 8));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_counted(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        survives(&FORMAT, &bytes);
    }

    #[test]
    fn any_text_like_it_is_read_or_counted(
        heading in "(TIME\\(s\\)|STARTs|TIMESTAMP) COMM PID (DISK )?T SECTOR BYTES (QUE\\(ms\\) )?LAT\\(ms\\)",
        text in "([-0-9.:T]{1,24} [a-z ]{0,6} [0-9]{0,3} (sda )?[FRWN]{1,3} [0-9]{1,21} [0-9]{1,4}( [-0-9.]{1,22}){1,2}\n){0,20}"
    ) {
        survives(&FORMAT, format!("{heading}\n{text}").as_bytes());
    }

    #[test]
    fn requests_are_read_with_junk_between(
        rows in prop::collection::vec((0..1_000_000_u64, 1..1_u64 << 40, "[a-z\\[][a-z0-9 /]{0,12}"), 1..40),
        junk in "[a-z;]{1,20}",
    ) {
        let mut text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n".to_owned();
        let mut expected = Vec::new();
        for (index, (time, sector, name)) in rows.iter().enumerate() {
            let (s, us) = (time / 1000 + 5, time % 1000);
            let _ = write!(text, "{s}.{us:06} {name} {index} dm-0 RA {sector} 4096 0.25\n{junk}\n");
            expected.push((*sector, index as u32, name.trim().to_owned()));
        }
        let (requests, header) = read(&FORMAT, &text);
        let mut found: Vec<_> = requests
            .iter()
            .map(|r| (r.offset.0 / 512, r.origin.unwrap().pid))
            .map(|(sector, pid)| (sector, pid, header.processes[&pid].clone()))
            .collect();
        found.sort_by_key(|row| row.1);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(header.losses.count_of(JUNK), rows.len() as u64);
    }
}
