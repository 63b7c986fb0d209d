//! A recording of a real kernel: Linux 6.18, a loop device, pages as they were.
//!
//! A program wrote 20 times 4 KiB and 4 MiB, read 10 times 16 KiB, flushed, wrote 4 KiB that had to
//! be durable, discarded 1 MiB, zeroed 1 MiB, and `dd` wrote 64 KiB through the page cache.

use super::making::{read, read_with, real};
use crate::formats::{IssueEvent, ReadOptions};
use crate::request::{Flags, Op, Request};

fn count(requests: &[Request], op: Op, length: u64) -> usize {
    requests.iter().filter(|request| request.op == op && request.length.0 == length).count()
}

#[test]
fn what_was_done_is_what_is_read() {
    let (requests, header) = read(&real());
    let of_program = |op, length, stride: u64, places: u64| {
        let found = requests.iter().filter(|r| r.op == op && r.length.0 == length);
        let offsets: Vec<_> = found.map(|request| request.offset.0).collect();
        (0..places).all(|place| offsets.contains(&(place * stride)))
    };
    assert!(of_program(Op::Write, 4096, 8192, 20));
    assert!(of_program(Op::Read, 16384, 65536, 10));
    assert_eq!(count(&requests, Op::Discard, 1 << 20), 1);
    assert_eq!(count(&requests, Op::WriteZeroes, 1 << 20), 1);
    let large: u64 = requests
        .iter()
        .filter(|request| request.op == Op::Write && request.offset.0 >= 8 << 20)
        .map(|request| request.length.0)
        .sum();
    assert_eq!(large, 4 << 20);
    let durable = requests.iter().find(|request| request.offset.0 == 1 << 20).unwrap();
    assert!(durable.flags.intersects(Flags::FUA | Flags::SYNC));
    assert!(requests.iter().any(|request| request.op == Op::Flush));
    assert!(requests.iter().all(|request| request.latency.is_some()));
    assert_eq!(header.volumes[0].size.unwrap().0, 16 << 20);
    assert!(header.volumes[0].name.starts_with("loop"));
    assert!(header.processes.values().any(|name| name == "dd"));
    assert!(header.losses.is_empty(), "{:?}", header.losses);
    assert!(header.damage.is_none() && header.started.is_some());
}

#[test]
fn the_header_says_what_the_recording_was_worth() {
    let (requests, header) = read(&real());
    let facts = header.recording.unwrap();
    let matching = facts.matching.unwrap();
    assert_eq!(matching.requests(), requests.len() as u64);
    assert_eq!((matching.unmatched, matching.strays, matching.failed), (0, 0, 0));
    assert!(matching.by_pieces >= 4, "{matching:?}");
    let driver = facts.driver.unwrap();
    assert!(driver.seen > 40 && driver.p50_ns > 0 && driver.p50_ns <= driver.p99_ns);
    assert_eq!(facts.events["queued"], requests.len() as u64);
    assert!(facts.events["merged"] >= 8 && facts.events["split"] >= 4);
    assert_eq!(facts.stopped.as_deref(), Some("the command ended"));
    assert!(facts.zero_monotonic_ns.unwrap() > 49_056_490_225_744);
    assert!(facts.lost.is_empty() && facts.gaps.is_empty());
    assert_eq!(facts.cost.unwrap().wall_ns, 94_906_034);
}

#[test]
fn the_drivers_view_has_merges_and_splits_done() {
    let options = ReadOptions { event: IssueEvent::Issued, ..ReadOptions::default() };
    let (requests, header) = read_with(&real(), &options);
    assert!(count(&requests, Op::Write, 4 << 20) == 0);
    assert_eq!(count(&requests, Op::Write, 64 << 10), 1);
    assert!(header.losses.is_empty(), "{:?}", header.losses);
    assert!(header.recording.unwrap().driver.is_none());
}
