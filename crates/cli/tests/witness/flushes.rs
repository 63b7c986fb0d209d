//! The device sees flushes, each before its write.

use std::fmt::Write as _;
use std::fs;

use ioecho_fixture::or_skip;

use crate::watching::{counted, said, watched_device};

/// Writes with a flush before them, every second one with FUA, and a separate flush behind every
/// third.
fn load() -> (String, u64) {
    let mut text = "issue_ns,op,flags,offset_bytes,length_bytes,volume\n".to_owned();
    let mut flushes = 0;
    for number in 0..300_u64 {
        let (at, place) = (number * 2_000_000, number * 8192);
        let flags = if number % 2 == 0 { "preflush" } else { "preflush|fua" };
        writeln!(text, "{at},write,{flags},{place},4096,v").unwrap();
        flushes += 1;
        if number % 3 == 0 {
            writeln!(text, "{},flush,,0,0,v", at + 20_000).unwrap();
            flushes += 1;
        }
    }
    (text, flushes)
}

#[test]
fn a_write_with_a_flush_before_it_is_seen_behind_that_flush() {
    let (fixture, device) = or_skip!(watched_device());
    let (text, flushes) = load();
    fs::write(fixture.path("load.csv"), text).unwrap();
    let target = device.path();
    let words = ["replay", "load.csv", "-t", target, "-o", "run", "-q", "--destroy", target];
    let told = said(&fixture.ioecho(&[&words[..], &["--witness", "--backend", "uring"]].concat()));
    let converted = fixture.ioecho(&["convert", "run/witness.parquet", "seen.csv"]);
    assert!(converted.status.success(), "{told}{}", said(&converted));
    let (mut flushed, mut written) = (0, 0);
    for line in fixture.text("seen.csv").lines().skip(1) {
        match line.split(',').nth(1) {
            Some("flush") => flushed += 1,
            Some("write") => {
                written += 1;
                // Each write has one flush of its own, whatever else is in flight.
                assert!(flushed >= written, "write {written} came before its flush: {line}");
            }
            _ => panic!("nobody asked for this: {line}"),
        }
    }
    assert_eq!((flushed, written), (flushes, 300), "{told}");
    let (_, printed) = counted(&fixture, "run");
    let figures = &printed["figures"];
    let counts = ["found", "missing", "extra"].map(|key| figures[key].as_u64().unwrap());
    assert_eq!(counts, [400, 0, 0], "{figures}");
    // The instant of a flush is read before the system call that issues it.
    assert!(figures["submission_lag"]["min_ns"].as_i64().unwrap() >= 0, "{figures}");
}
