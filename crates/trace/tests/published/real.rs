//! Published traces, where `IOECHO_DATA` says they are.

use std::fs;

use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Flags, Nanos, Op, Request};

use crate::read_file;

#[test]
fn the_text_of_cloudphysics_is_its_binary_records_to_the_second() {
    let Some(text) = ioecho_fixture::recording("cloudPhysicsIO.csv.gz") else { return };
    let Some(binary) = ioecho_fixture::recording("cloudPhysicsIO.vscsi") else { return };
    let (requests, header) = read_file(&text, &ReadOptions::default()).unwrap();
    assert_eq!(header.format, "CloudPhysics CSV");
    assert!(header.losses.is_empty());
    // Records of 32 bytes: sn, len, nSG (u32), cmd, ver (u16), lbn, ts in µs (u64).
    let records = fs::read(binary).unwrap();
    assert_eq!((requests.len(), records.len()), (113_872, 113_872 * 32));
    let mut start = None;
    for (request, record) in requests.iter().zip(records.chunks_exact(32)) {
        let number = |from: usize, bytes: usize| {
            record[from..from + bytes].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let seconds = number(24, 8) / 1_000_000;
        let start = *start.get_or_insert(seconds);
        assert_eq!(request.issue.0 as u64, (seconds - start) * 1_000_000_000);
        assert_eq!(request.length.0, number(4, 4));
        assert_eq!(request.offset.0, number(16, 8) * 512);
        assert_eq!(request.op, if number(12, 2) == 0x2a { Op::Write } else { Op::Read });
    }
    let writes = requests.iter().filter(|request| request.op == Op::Write).count();
    assert_eq!(writes, 66_898);
}

#[test]
fn a_real_load_survives_the_formats_that_are_written() {
    let Some(load) = ioecho_fixture::recording("linux-mysql.load.gz") else { return };
    let (before, header) = read_file(&load, &ReadOptions::default()).unwrap();
    assert_eq!(before.len(), 80_794);
    let directory = tempfile::tempdir().unwrap();
    for (name, unit) in [("x.msr.csv.gz", 100), ("x.alibaba.csv", 1_000)] {
        let path = directory.path().join(name);
        let mut source = formats::open(&load, &ReadOptions::default()).unwrap();
        let sink = formats::create(&path, &header).unwrap();
        ioecho_trace::stream::copy(&mut source, sink).unwrap();
        let (after, _) = read_file(&path, &ReadOptions::default()).unwrap();
        let expected: Vec<_> = before
            .iter()
            .map(|request| Request {
                issue: Nanos(request.issue.0 / unit * unit),
                flags: Flags::empty(),
                ..*request
            })
            .collect();
        assert!(after == expected, "{name}");
    }
}
