//! Published traces, where `IOECHO_DATA` says they are.

use std::fs;

use ioecho_trace::Op;
use ioecho_trace::formats::ReadOptions;

use crate::{data, read_file};

#[test]
fn the_text_of_cloudphysics_is_its_binary_records_to_the_second() {
    let Some(text) = data("cloudPhysicsIO.csv.gz") else { return };
    let Some(binary) = data("cloudPhysicsIO.vscsi") else { return };
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
