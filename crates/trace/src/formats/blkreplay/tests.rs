//! A file is read with all its values, and values that a load cannot express are reported.

use std::fs;
use std::io;
use std::path::Path;

use proptest::prelude::*;

use super::line::{NEGATIVE_TIME, TOO_FAR, TOO_LATE, TOO_LONG, ZERO_LENGTH};
use super::state::{BACKSHIFTS, REMARKS};
use super::writer::LOST;
use super::{LICENSE_TEXT, LOAD, RESULT, create, open, recognise};
use crate::batch::tests::any_request;
use crate::batch::{Batch, Columns};
use crate::compression::tests::gzip;
use crate::compression::{Codec, Decoder, Peeked};
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::formats::import::JUNK;
use crate::header::{Header, NoteKind, Volume};
use crate::request::{Flags, Op, Outcome, Request};
use crate::units::{Bytes, Nanos, VolumeId};

type Read = Result<(Vec<Request>, Header), TraceError>;

fn read_with(bytes: &[u8], strict: bool) -> Read {
    let codec = Codec::of_first_bytes(bytes);
    let input = Peeked::new(Decoder::new(io::Cursor::new(bytes.to_vec()), codec), 1000);
    let options = ReadOptions { strict, ..ReadOptions::default() };
    let mut source = open(input, Path::new("some/x.load"), &options)?;
    let mut batch = Batch::default();
    let mut all = Vec::new();
    while source.next_batch(&mut batch)? {
        assert!(!batch.is_empty());
        all.extend(batch.iter());
    }
    assert!(!source.next_batch(&mut batch)?);
    assert!(all.is_sorted_by_key(|request| request.issue));
    Ok((all, source.header().clone()))
}

fn read(text: &str) -> (Vec<Request>, Header) {
    read_with(text.as_bytes(), false).unwrap()
}

const HEADER: &str = "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";
const LINES: &str = "      0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0
      0.449518165 ;     37766917 ;   14 ; R ; 0.0 ; 0.0
      0.456676896 ;            0 ;    1 ;RA ; 0.0 ; 0.0\n";

fn sectors(ns: i64, op: Op, sector: u64, length: u64) -> Request {
    Request::new(Nanos(ns), op, Bytes(sector * 512), Bytes(length * 512))
}

fn expected() -> Vec<Request> {
    let mut requests = vec![
        sectors(0, Op::Write, 37_766_853, 64),
        sectors(449_518_165, Op::Read, 37_766_917, 14),
        sectors(456_676_896, Op::Read, 0, 1),
    ];
    requests[2].flags = Flags::READAHEAD;
    requests
}

#[test]
fn a_load_is_read_with_its_prose() {
    let text = format!(
        "This file was automatically generated from 'linux-mysql.blktrace.*'\n\n\
         {LICENSE_TEXT}####\n{HEADER}{LINES}"
    );
    let (all, header) = read(&text);
    assert_eq!(all, expected());
    assert_eq!((header.source.as_str(), header.format.as_str()), ("x.load", LOAD));
    assert_eq!(header.license.as_deref(), Some("GNU all-permissive"));
    assert!(header.description.unwrap().contains("linux-mysql.blktrace"));
    assert_eq!(header.columns, Columns::default());
    assert_eq!(header.volumes.len(), 1);
    assert!(header.losses.is_empty() && header.guesses.is_empty());
}

#[test]
fn what_was_done_and_said_is_read_back_from_a_load_and_from_a_result() {
    let header = Header {
        source: "x".to_owned(),
        description: Some("a database; at night".to_owned()),
        license: Some("CC0".to_owned()),
        transforms: vec!["window 1,2".to_owned(), "cmd sed 's/0;/1;/'".to_owned()],
        ..Header::default()
    };
    let directory = tempfile::tempdir().unwrap();
    for (name, of_a_result) in [("x.load", false), ("x.replay", true)] {
        let path = directory.path().join(name);
        let mut sink = crate::formats::create(&path, &header).unwrap();
        let mut batch = Batch::default();
        batch.push(&expected()[0]);
        sink.write(&batch).unwrap();
        let written = sink.finish(&header).unwrap();
        let is_provenance = |note: &crate::header::Note| note.what.contains("provenance");
        assert!(!written.lost.iter().any(is_provenance));
        let (all, read) = read(&fs::read_to_string(&path).unwrap());
        assert_eq!((all.len(), all[0].measured.is_some()), (1, of_a_result));
        assert_eq!(read.description.as_deref(), Some("a database, at night"));
        assert_eq!(read.license, header.license);
        assert_eq!(read.transforms, header.transforms);
    }
    // A format without a place for the value reports the loss.
    let path = directory.path().join("x.msr.csv");
    let written = crate::formats::create(&path, &header).unwrap().finish(&header).unwrap();
    assert_eq!(written.lost.iter().map(|note| note.count).collect::<Vec<_>>(), [2]);
}

#[test]
fn prose_and_column_headers_may_stand_in_the_middle() {
    let text = format!("{HEADER}some prose\n{HEADER}{LINES}more prose\n\n{HEADER}####\n");
    let (all, header) = read(&text);
    assert_eq!(all, expected());
    assert!(header.losses.is_empty() && header.guesses.is_empty());
}

#[test]
fn without_a_column_header_the_columns_are_taken_and_told() {
    let (all, header) = read("0.5 ; 8 ; 1 ; R\r\n1;16;1;w;0.0\r\n2.000000000 ;8 ; 1 ; WSM");
    assert_eq!(all[0], sectors(500_000_000, Op::Read, 8, 1));
    assert_eq!(all[1], sectors(1_000_000_000, Op::Write, 16, 1));
    assert_eq!(all[2].flags, Flags::SYNC | Flags::META);
    let told: Vec<_> = header.guesses.iter().map(|note| (note.count, &note.what[..7])).collect();
    assert_eq!(told, [(1, "missing"), (2, "starts ")]);
}

#[test]
fn a_time_beyond_292_years_is_named_as_such() {
    let lines = "315360000000.0;8;8;R
        1.0 ; 8 ; 8 ; R ; 0.0 ; 18446744073709551615.999000000
        9223372036.854775807 ; 8 ; 8 ; R ; 0.0 ; 0.0
        9223372036.854775808 ; 8 ; 8 ; R ; 0.0 ; 0.0
        18446744073709551615.999000000 ; 8 ; 8 ; R ; 0.0 ; 0.0\n";
    let (all, header) = read(&format!("{HEADER}{LINES}{lines}"));
    assert_eq!(all.len(), 4);
    assert_eq!(header.losses.count_of("lines with a time beyond 292 years"), 4);
    assert_eq!(header.losses.count_of(JUNK), 0);
}

#[test]
fn a_line_that_does_not_read_is_counted_with_its_text() {
    let junk = [
        "1.0 ; x ; 8 ; R ; 0.0 ; 0.0",
        "1.0 ; 8 ; 8",
        "; ; ;",
        "1.0 ; 8 ; 8 ; Q ; 0.0 ; 0.0",
        "1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0 ; 7",
        "1.0 ; -8 ; 8 ; R ; 0.0 ; 0.0",
        "1.0 ; 8 ; 8 ; F ; 0.0 ; 0.0",
    ];
    let others = "-1.0 ; 8 ; 8 ; R ; 0.0 ; 0.0
        1.0 ; 8 ; 8 ; R ; -0.000001 ; 0.0
        1.0 ; 8 ; 0 ; R ; 0.0 ; 0.0
        1.0 ; 18446744073709551616 ; 8 ; R ; 0.0 ; 0.0
        1.0 ; 36028797018963968 ; 8 ; R ; 0.0 ; 0.0
        1.0 ; 36028797018963967 ; 1 ; R ; 0.0 ; 0.0
        1.0 ; 0 ; 0 ; F ; 0.0 ; 0.0\n";
    let (all, header) = read(&format!("{HEADER}{LINES}{}\n{others}", junk.join("\n")));
    assert_eq!(all.len(), 4);
    assert_eq!(all[3].op, Op::Flush);
    let losses = &header.losses;
    assert_eq!(losses.count_of(JUNK), junk.len() as u64);
    assert_eq!(losses.iter().next().unwrap().examples[0], format!("line 5: {}", junk[0]));
    assert_eq!(losses.count_of(NEGATIVE_TIME), 2);
    assert_eq!(losses.count_of(ZERO_LENGTH), 1);
    assert_eq!(losses.count_of(TOO_FAR), 3);
}

#[test]
fn a_strict_reader_stops_at_the_first_such_line_and_shows_it() {
    let text = format!("{HEADER}{LINES}  1.0 ; 8 ; eight ; R\n");
    let error = read_with(text.as_bytes(), true).unwrap_err();
    let TraceError::Line { line, column, text, .. } = &error else { panic!("{error}") };
    assert_eq!((*line, *column, text.as_str()), (5, 13, "1.0 ; 8 ; eight ; R"));
    assert!(error.to_string().starts_with("some/x.load:5:13: the length"), "{error}");
    assert!(read_with(format!("{HEADER}{LINES}").as_bytes(), true).is_ok());
}

#[test]
fn an_endless_line_is_one_lost_line() {
    let long = "1 ; ".repeat(100_000);
    let (all, header) = read(&format!("{HEADER}{LINES}{long}\n3.000000000 ; 1 ; 1 ; R\n"));
    assert_eq!(all.len(), 4);
    assert_eq!(header.losses.count_of(TOO_LONG), 1);
}

#[test]
fn a_load_behind_another_follows_it_without_a_gap() {
    let (all, header) = read(
        "0.250000000 ; 8 ; 1 ; R\n3.500000000 ; 8 ; 1 ; R\n\
        2.000000000 ; 16 ; 1 ; R\n2.500000000 ; 24 ; 1 ; R\n0.000000000 ; 8 ; 1 ; R\n",
    );
    let millis: Vec<_> = all.iter().map(|request| request.issue.0 / 1_000_000).collect();
    assert_eq!(millis, [250, 3500, 3500, 4000, 4000]);
    assert_eq!(header.guesses.count_of(BACKSHIFTS), 2);
}

#[test]
fn disorder_within_a_second_is_sorted_and_told() {
    let (all, header) = read("1.300000000 ; 8 ; 1 ; R\n1.100000000 ; 16 ; 1 ; R\n");
    assert_eq!(all[0].offset, Bytes(16 * 512));
    assert_eq!(header.guesses.count_of(crate::order::sort::SORTED), 1);
    assert_eq!(header.guesses.count_of(BACKSHIFTS), 0);
}

#[test]
fn a_guessed_duration_is_a_latency() {
    let (all, header) = read(
        "start ; sector; length ; op ;  replay_delay=0 ; replay_duration (guessed)\n\
         1.000000000 ; 8 ; 1 ; R ; 0.0 ; 0.000250000\n2.000000000 ; 8 ; 1 ; R ; 0.0\n",
    );
    assert_eq!(header.columns, Columns { latency: true, ..Columns::default() });
    assert_eq!(all[0].latency, Some(Nanos::from_micros(250)));
    assert_eq!(all[1].latency, None);
    let kinds: Vec<_> = header.guesses.iter().map(|note| (note.kind, note.count)).collect();
    assert_eq!(kinds, [(NoteKind::Latency, 1)]);
}

const RESULT_TEXT: &str = "\
blkreplay on /dev/loop6 started at Sat Nov 21 08:48:30 2026
INFO: device=/dev/loop6 has blocks=16777216 (8388608 kB).
orig_start ; sector; length ; op ;  replay_delay; replay_duration
   0.449518165 ;    4212485 ;  14 ; w ;   0.000135895 ;   0.000318023
   0.000000000 ;    4212421 ;  64 ; R ;   0.000111926 ;   0.000529488
ERROR: bad RIO -1 / 22 on 0 at pos 65 (Invalid argument)
   2.000000000 ;    4212421 ;  64 ; R ;   18446744073709551615.111926000 ;   0.000529488
   1.000000000 ;    4212421 ;  64 ; R ;   0.000111926 ;   0.000529488
--------------------------------------
# total     requests          :   1617
wraparound factor:    3.790
INFO: measurement results are thus FAKE results!!!
";

#[test]
fn a_result_has_what_was_measured_and_comes_in_order() {
    let (all, header) = read(RESULT_TEXT);
    assert_eq!(header.format, RESULT);
    assert_eq!(header.columns, Columns { measured: true, ..Columns::default() });
    assert_eq!(all.len(), 3);
    let first = all[0].measured.unwrap();
    assert!(!first.pushed_back && all[1].measured.unwrap().pushed_back);
    assert_eq!(all[1].op, Op::Write);
    assert_eq!(first.scheduled, Nanos(0));
    assert_eq!(first.lateness(), Some(Nanos(111_926)));
    assert_eq!(first.service_time(), Some(Nanos(529_488)));
    assert_eq!(first.outcome, Outcome::Ok);
    assert_eq!(header.losses.count_of(TOO_LATE), 1);
    assert_eq!(header.losses.count_of(REMARKS[0].1), 1);
    assert_eq!(header.losses.count_of(REMARKS[5].1), 1);
    assert_eq!(header.guesses.count_of(crate::order::sort::SORTED), 1);
}

#[test]
fn a_load_behind_a_result_has_no_measurement_made_up() {
    let (all, header) =
        read(&format!("{RESULT_TEXT}{HEADER}9.000000000 ; 1 ; 1 ; R ; 0.0 ; 0.0\n"));
    assert_eq!(all.len(), 4);
    assert_eq!(all[3].measured, None);
    assert!(header.losses.iter().any(|note| note.what.contains("another kind")));
}

#[test]
fn a_file_without_a_request_is_an_error_that_says_so() {
    let error = read_with(HEADER.as_bytes(), false).unwrap_err().to_string();
    assert!(error.contains("no request in its 1 line"), "{error}");
}

fn long_load() -> String {
    let lines = (0..50_000_u64).map(|n| {
        let sector = n.wrapping_mul(2_654_435_761) % 60_000_000;
        format!("{:7}.{:09} ; {sector:12} ;    8 ; R ; 0.0 ; 0.0\n", n / 100, n % 100)
    });
    std::iter::once(HEADER.to_owned()).chain(lines).collect()
}

#[test]
fn a_gzip_file_cut_short_gives_what_it_held_and_says_where_it_ends() {
    let whole = gzip(long_load().as_bytes());
    let (all, header) = read_with(&whole, false).unwrap();
    assert_eq!((all.len(), header.damage), (50_000, None));

    let cut = &whole[..whole.len() / 2];
    let (part, header) = read_with(cut, false).unwrap();
    assert!(part.len() > 20_000 && all.starts_with(&part));
    let damage = header.damage.unwrap();
    let end = format!(
        "breaks off before its end at byte {}, behind line {} and {} requests",
        cut.len(),
        part.len() + 1,
        part.len()
    );
    assert!(damage.contains(&end), "{damage}");
    assert!(matches!(read_with(cut, true), Err(TraceError::Binary { .. })));
}

#[test]
fn a_corrupt_gzip_file_is_damaged_and_not_just_short() {
    let mut bytes = gzip(long_load().as_bytes());
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].fill(0xff);
    let (part, header) = read_with(&bytes, false).unwrap();
    assert!(part.len() > 20_000, "{}", part.len());
    assert!(header.damage.unwrap().contains("corrupt"));
}

#[test]
fn a_load_that_was_written_looks_like_those_that_are_published() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.load");
    let header = Header {
        source: "a;b".to_owned(),
        license: Some("GNU all-permissive".to_owned()),
        ..Header::default()
    };
    let mut sink = create(&path, &header).unwrap();
    let mut batch = Batch::new(Columns::default());
    batch.extend(&expected());
    sink.write(&batch).unwrap();
    assert!(sink.finish(&header).unwrap().lost.is_empty());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with(&format!("{HEADER}{LINES}")), "{text}");
    assert_eq!(read(&text).1.license, header.license);
}

#[test]
fn what_a_load_cannot_say_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.load.gz");
    let named =
        |(id, name): (u32, &str)| Volume { id: VolumeId(id), name: name.to_owned(), size: None };
    let volumes = [(0, "sda"), (1, "sdb")].map(named).to_vec();
    let header = Header { volumes, ..Header::default() };
    let mut sink = create(&path, &header).unwrap();
    let mut batch = Batch::new(Columns { latency: true, ..Columns::default() });
    let plain = sectors(5, Op::Write, 8, 8);
    let latency = Some(Nanos(1));
    for request in [
        Request { latency, ..plain },
        Request { offset: Bytes(4095), length: Bytes(2), flags: Flags::FUA, ..plain },
        Request { op: Op::Flush, ..plain },
        Request { op: Op::Discard, ..plain },
        Request { op: Op::WriteZeroes, ..plain },
        Request { op: Op::Zone, ..plain },
        Request { op: Op::Mkdir, ..plain },
        Request { volume: VolumeId(1), ..plain },
        Request { length: Bytes(0), ..plain },
        Request { issue: Nanos(-1), ..plain },
        Request { length: Bytes(1 << 40), ..plain },
        Request { offset: Bytes(u64::MAX - 1), length: Bytes(1), ..plain },
    ] {
        batch.push(&request);
    }
    sink.write(&batch).unwrap();
    let lost = sink.finish(&header).unwrap().lost;
    assert_eq!(lost.count_of(crate::formats::write::NAMES), 1);
    // This batch has no column for the process that issued a request.
    for what in LOST.iter().filter(|what| !what.words.starts_with("processes")) {
        assert_eq!(lost.count_of(what), 1, "{what:?}");
    }
    let (all, _) = read_with(&fs::read(&path).unwrap(), false).unwrap();
    assert_eq!(all, [plain, sectors(5, Op::Write, 7, 2)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_a_load_can_say_is_read_as_it_was_written(
        mut requests in proptest::collection::vec(any_request(), 1..100),
        gzipped in any::<bool>(),
    ) {
        for request in &mut requests {
            let op = if request.op == Op::Read { Op::Read } else { Op::Write };
            let (sector, count) = (request.offset.sectors(), 1 + request.length.sectors() / 2);
            let flags = request.flags & Flags::READAHEAD;
            *request = sectors(request.issue.0, op, sector, count);
            request.flags = if op == Op::Read { flags } else { Flags::empty() };
        }
        requests.sort_by_key(|request| request.issue);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(if gzipped { "x.load.gz" } else { "x.load" });
        let mut sink = create(&path, &Header::default()).unwrap();
        let mut batch = Batch::new(Columns::default());
        batch.extend(&requests);
        sink.write(&batch).unwrap();
        prop_assert!(sink.finish(&Header::default()).unwrap().lost.is_empty());
        let bytes = fs::read(&path).unwrap();
        prop_assert_eq!(Codec::of_first_bytes(&bytes) == Codec::Gzip, gzipped);
        prop_assert_eq!(read_with(&bytes, true).unwrap().0, requests);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..500), strict in any::<bool>(),
    ) {
        let _ = (recognise(&bytes), read_with(&bytes, strict));
    }

    #[test]
    fn no_text_of_columns_makes_the_reader_panic(
        lines in proptest::collection::vec("[0-9.;RWra -]{0,40}", 0..50),
        strict in any::<bool>(),
        head in proptest::sample::select(vec!["", HEADER, RESULT_TEXT]),
    ) {
        let text = format!("{head}{LINES}{}", lines.join("\n"));
        let _ = read_with(text.as_bytes(), strict);
    }

    #[test]
    fn no_damage_to_a_file_makes_the_reader_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        gzipped in any::<bool>(), is_result in any::<bool>(),
    ) {
        let text = if is_result { RESULT_TEXT } else { LINES };
        let mut bytes = if gzipped { gzip(text.as_bytes()) } else { text.as_bytes().to_vec() };
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(1 + cut.index(bytes.len()));
        let _ = read_with(&bytes, false);
    }
}
