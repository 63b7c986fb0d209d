use std::fmt::Write as _;
use std::io::Cursor;

use super::super::blktrace::record::category::READ;
use super::super::blktrace::testing::Tape;
use super::super::reading::drain;
use super::super::{Order, ReadOptions, by_name, open, recognise};
use super::*;
use crate::batch::Batch;
use crate::compression::tests::{gzip, member};
use crate::order::sort::{SORTED, TOO_LATE};
use crate::request::Request;
use crate::stream::Source;

const README: &[u8] = b"These are the traces of a year.\nCite us.\n";
const FIO: &[u8] =
    b"fio version 3 iolog\n0 /dev/sda add\n1 /dev/sda open\n2 /dev/sda read 0 4096\n";

/// `requests` requests of a disk in the format of Microsoft Research Cambridge, ten ticks of 100 ns
/// apart.
fn msr(disk: u32, requests: u64) -> Vec<u8> {
    let mut text = String::new();
    for n in 0..requests {
        let ticks = 128_166_372_003_061_629 + 10 * n + u64::from(disk);
        writeln!(text, "{ticks},hm,{disk},Read,{},4096,58000", n * 4096).unwrap();
    }
    text.into_bytes()
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in members {
        tar.extend(member(name, b'0', content));
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

fn from_file(bytes: &[u8], options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.tar");
    std::fs::write(&path, bytes).unwrap();
    open(&path, options)
}

fn from_pipe(bytes: &[u8], options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    recognise(Cursor::new(bytes.to_vec()), Path::new("standard input"), options, false)
}

fn read(bytes: &[u8]) -> (Vec<Request>, Header) {
    let options = ReadOptions::default();
    let mut source = from_file(bytes, &options).unwrap();
    let requests = drain(&mut *source);
    let mut piped = from_pipe(bytes, &options).unwrap();
    assert_eq!(drain(&mut *piped), requests);
    assert_eq!(piped.header().losses, source.header().losses);
    (requests, source.header().clone())
}

fn refusal(bytes: &[u8]) -> String {
    let error = from_file(bytes, &ReadOptions::default()).err().unwrap();
    assert!(matches!(error, TraceError::Unusable { .. }), "{error}");
    error.to_string()
}

#[test]
fn volumes_of_one_period_are_put_together_however_long_they_are() {
    let requests = 70_000;
    let (one, other) = (msr(0, requests), msr(1, requests));
    for other in [other.clone(), gzip(&other)] {
        let (all, header) = read(&tar(&[("hm_0.csv", &one), ("hm_1.csv.gz", &other)]));
        assert_eq!(all.len() as u64, 2 * requests);
        for (n, request) in (0..).zip(&all) {
            let (pair, disk) = (n / 2, n % 2);
            assert_eq!(request.issue.0, 1000 * pair + 100 * disk);
            assert_eq!((request.offset.0, i64::from(request.volume.0)), (4096 * pair as u64, disk));
        }
        assert_eq!(header.guesses.count_of(BY_TIME), 2);
        assert_eq!(header.guesses.count_of(TOO_LATE), 0);
        assert_eq!(header.guesses.count_of(SORTED), requests - 1);
        let note = header.guesses.iter().find(|note| note.what == BY_TIME.words).unwrap();
        assert_eq!(note.examples, ["hm_0.csv", "hm_1.csv.gz"]);
        let names: Vec<_> = header.volumes.iter().map(|volume| &volume.name).collect();
        assert_eq!(names, ["hm_0", "hm_1"]);
    }
}

#[test]
fn a_trace_in_no_order_is_sorted_as_a_whole_if_that_is_asked_for() {
    let text = [msr(0, 70_000), msr(1, 70_000)].concat();
    let mut window = from_file(&text, &ReadOptions::default()).unwrap();
    drain(&mut *window);
    assert!(window.header().guesses.count_of(TOO_LATE) > 0);
    let whole = ReadOptions { order: Order::Whole, ..ReadOptions::default() };
    let mut whole = from_file(&text, &whole).unwrap();
    let all = drain(&mut *whole);
    assert_eq!(all[139_999].issue.0, 1000 * 69_999 + 100);
    assert_eq!(whole.header().guesses.count_of(TOO_LATE), 0);
    assert_eq!(whole.header().guesses.count_of(SORTED), 69_999);
}

#[test]
fn what_lies_beside_a_trace_is_passed_over_and_named() {
    let (one, other) = (msr(0, 10), msr(1, 10));
    let members: [(&str, &[u8]); 5] = [
        ("README", README),
        ("a.csv", &one),
        ("sda.iolog", FIO),
        ("b.csv", &other),
        ("LICENCE", README),
    ];
    let (all, header) = read(&tar(&members));
    assert_eq!(all.len(), 20);
    assert_eq!(header.losses.count_of(STRANGE), 2);
    let strange = header.losses.iter().find(|note| note.what == STRANGE.words).unwrap();
    assert_eq!(strange.examples, ["README", "LICENCE"]);
    assert_eq!(header.losses.count_of(OTHER), 1);
    assert_eq!(header.losses.iter().count(), 2);
}

#[test]
fn one_trace_in_an_archive_is_read_as_if_it_stood_alone() {
    for content in [&msr(0, 10)[..], FIO] {
        let mut alone = from_file(content, &ReadOptions::default()).unwrap();
        let (all, header) = read(&tar(&[("README", README), ("x", content)]));
        assert_eq!(drain(&mut *alone), all);
        assert_eq!(header.guesses, alone.header().guesses);
        assert_eq!(header.losses.count_of(STRANGE), 1);
    }
}

#[test]
fn loads_follow_each_other_as_blkreplay_has_it() {
    let load = b"0.000000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n5.000000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n";
    let (all, header) = read(&tar(&[("a.load", load), ("b.load", load)]));
    assert_eq!(all.len(), 4);
    assert!(all[2].issue.0 >= 5_000_000_000);
    assert_eq!(header.guesses.count_of(IN_TURN), 2);
    assert_eq!(header.guesses.count_of(BY_TIME), 0);
}

#[test]
fn files_that_cannot_be_one_are_refused_with_what_to_do() {
    let mut tape = Tape::new(0);
    tape.q(0, READ, 8, 8).c(4, READ, 8, 8);
    let files = [("x/sda.blktrace.0", &tape.bytes[..]), ("x/sda.blktrace.1", &tape.bytes)];
    let error = refusal(&tar(&files));
    assert!(error.contains("'x/sda.blktrace.0', 'x/sda.blktrace.1'"), "{error}");
    assert!(error.contains("begin with: x/sda"), "{error}");
    let error = refusal(&gzip(&tar(&[("a", FIO), ("README", README), ("b", FIO)])));
    assert!(error.contains("'merge'"), "{error}");
    // An archive with one of the files is a trace like any other.
    let (all, _) = read(&tar(&files[..1]));
    assert_eq!(all.len(), 1);
}

#[test]
fn through_a_pipe_the_refusal_comes_when_the_second_file_does() {
    let mut log = FIO.to_vec();
    for n in 0..100_000 {
        log.extend(format!("{} /dev/sda read {} 4096\n", n + 2, n * 4096).as_bytes());
    }
    let options = ReadOptions::default();
    let mut source = from_pipe(&tar(&[("a", &log), ("b", FIO)]), &options).unwrap();
    let mut batch = Batch::default();
    let error = loop {
        match source.next_batch(&mut batch) {
            Ok(more) => assert!(more, "the second file was read too"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("'a', 'b'") && error.contains("'merge'"), "{error}");
}

#[test]
fn no_member_loses_its_first_line_to_what_stands_before_it() {
    let marked = |disk| [b"\xef\xbb\xbf".to_vec(), msr(disk, 1)].concat();
    let inner = tar(&[("a.csv", &msr(1, 3)), ("b.csv", &marked(2))]);
    let bytes = tar(&[("README", README), ("c.csv", &marked(0)), ("in.tar.gz", &gzip(&inner))]);
    let (all, header) = read(&bytes);
    assert_eq!(all.len(), 5);
    assert_eq!(header.losses.count_of(STRANGE), 1);
    assert_eq!(header.losses.iter().count(), 1);
}

#[test]
fn an_archive_without_a_trace_says_what_is_in_it() {
    let error = refusal(&tar(&[("README", README), ("LICENCE", README)]));
    assert!(error.contains("none of its 2 members") && error.contains("LICENCE"), "{error}");
    let empty = from_file(&tar(&[("x", b"")]), &ReadOptions::default()).err().unwrap();
    assert!(matches!(empty, TraceError::Empty { .. }), "{empty}");
}

#[test]
fn a_format_that_is_asked_for_is_that_of_every_member() {
    let format = by_name("msr").ok();
    let options = ReadOptions { format, ..ReadOptions::default() };
    let bytes = tar(&[("a.csv", &msr(0, 3)), ("b.csv", &msr(1, 3)), ("README", README)]);
    let mut source = from_file(&bytes, &options).unwrap();
    assert_eq!(drain(&mut *source).len(), 6);
    assert_eq!(source.header().guesses.count_of(BY_TIME), 3);
    assert_eq!(source.header().losses.count_of("junk lines"), 2);
}
