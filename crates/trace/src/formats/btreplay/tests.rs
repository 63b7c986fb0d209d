use proptest::prelude::*;

use super::super::from_bytes::{drain, read, read_alike, written};
use super::super::{ReadOptions, by_name};
use super::*;
use crate::batch::tests::any_request;
use crate::units::VolumeId;

/// The beginning of a file, with arbitrary counts in its header.
fn header(genesis: u64, big_endian: bool) -> Vec<u8> {
    words(&[VERSION, genesis, 1 << 60, 3], big_endian)
}

fn words(words: &[u64], big_endian: bool) -> Vec<u8> {
    let bytes = |word: &u64| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    words.iter().flat_map(bytes).collect()
}

/// A bunch of (sector, bytes, direction).
fn bunch(stamp: u64, requests: &[(u64, u64, u32)], big_endian: bool) -> Vec<u8> {
    let mut bytes = words(&[requests.len() as u64, stamp], big_endian);
    for (sector, length, direction) in requests {
        bytes.extend(words(&[*sector, *length], big_endian));
        let direction = if big_endian { direction.to_be_bytes() } else { direction.to_le_bytes() };
        bytes.extend(direction);
        // Padding: random bytes of memory.
        bytes.extend([0xaa; 4]);
    }
    bytes
}

#[test]
fn every_request_of_a_bunch_has_its_instant_whatever_the_header_counts() {
    for big_endian in [false, true] {
        let bytes = [
            header(1_000_000, big_endian),
            bunch(1_000_000, &[(8, 4096, 1), (1 << 40, 512, 0)], big_endian),
            bunch(1_500_000, &[(0, 1 << 33, 0)], big_endian),
        ]
        .concat();
        let (requests, header) = read_alike(&bytes);
        let request = |ns, op, sector: u64, bytes| {
            Request::new(Nanos(ns), op, Bytes(sector * 512), Bytes(bytes))
        };
        let expected = [
            request(0, Op::Read, 8, 4096),
            request(0, Op::Write, 1 << 40, 512),
            request(500_000, Op::Write, 0, 1 << 33),
        ];
        assert_eq!(requests, expected);
        assert!(header.losses.is_empty() && header.damage.is_none());
        assert!(header.description.unwrap().contains("begins at 1000000"));
    }
}

#[test]
fn the_unit_of_instants_can_be_said() {
    let bytes = [header(0, false), bunch(18_415_864, &[(8, 512, 1)], false)].concat();
    let options = ReadOptions { time_unit_ns: Some(1000), ..ReadOptions::default() };
    assert_eq!(read(&bytes, &options).unwrap().0[0].issue, Nanos(18_415_864_000));
}

#[test]
fn counts_that_lie_and_impossible_fields_end_or_are_counted() {
    let good = |stamp| bunch(stamp, &[(8, 512, 1)], false);
    let lost = |middle: Vec<u8>| {
        let bytes = [header(0, false), good(1), middle, good(2)].concat();
        let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
        let losses: Vec<_> = header.losses.iter().map(|note| note.what.as_str()).collect();
        (requests.len(), losses.join("; "), header.damage.is_some())
    };
    assert_eq!(lost(words(&[0, 5], false)), (2, EMPTY_BUNCH.to_owned(), false));
    assert_eq!(lost(bunch(1, &[(8, 512, 2)], false)), (2, NO_OP.to_owned(), false));
    assert_eq!(lost(bunch(1, &[(1 << 60, 512, 1)], false)), (2, TOO_FAR.to_owned(), false));
    assert_eq!(lost(bunch(u64::MAX, &[(8, 512, 1)], false)), (2, TOO_LATE.to_owned(), false));
    assert_eq!(lost(words(&[513, 5], false)), (1, IMPOSSIBLE_BUNCH.to_owned(), true));
    // A bunch that claims more than the file holds.
    let (requests, _, damaged) = lost(words(&[3, 5], false));
    assert!(damaged && requests <= 3);
}

#[test]
fn a_written_file_has_the_counts_that_a_reader_could_trust() {
    let at = |us, sector: u64| {
        Request::new(Nanos::from_micros(us), Op::Read, Bytes(sector * 512), Bytes(512))
    };
    let (bytes, written) = written("x.replay.0", &["sda"], &[at(5, 1), at(5, 2), at(9, 3)]);
    assert_eq!(bytes[..32], words(&[VERSION, 0, 2, 3], false));
    assert_eq!(bytes.len(), 32 + 2 * 16 + 3 * 24);
    assert_eq!(written.requests, 3);
    assert_eq!(read_alike(&bytes).0.len(), 3);
}

#[test]
fn the_standard_output_and_what_the_format_cannot_say_are_refused() {
    let error = writer::create(std::path::Path::new("-"), &crate::Header::default());
    assert!(error.err().unwrap().to_string().contains("write it to a file"));
    let base = Request::new(Nanos(1), Op::Write, Bytes(100), Bytes(1000));
    let (bytes, written) = written(
        "x.replay.0",
        &["a", "b"],
        &[
            base,
            Request { volume: VolumeId(1), ..base },
            Request { op: Op::Discard, ..base },
            Request { issue: Nanos(-1), ..base },
        ],
    );
    let counted = |what| written.lost.count_of(what);
    assert_eq!(counted("requests to other volumes than the first"), 1);
    assert_eq!(counted("discards"), 1);
    assert_eq!(counted(crate::formats::write::NAMES), 1);
    assert_eq!(counted("requests before the start of the trace"), 1);
    assert_eq!(counted("requests widened to the beginning of a sector"), 1);
    let (requests, _) = read_alike(&bytes);
    assert_eq!((requests[0].offset, requests[0].length), (Bytes(0), Bytes(1100)));
}

proptest! {
    #[test]
    fn what_the_format_can_say_survives_it(
        requests in proptest::collection::vec(any_request(), 1..700), together in any::<bool>(),
    ) {
        let mut requests: Vec<_> = requests
            .into_iter()
            .map(|request| {
                let op = if request.op == Op::Read { Op::Read } else { Op::Write };
                let offset = request.offset.0 % (1 << 50) / 512 * 512;
                let length = request.length.0 % (1 << 40) + 1;
                let issue = if together { 7 } else { request.issue.0.unsigned_abs() >> 1 };
                Request::new(Nanos(issue as i64), op, Bytes(offset), Bytes(length))
            })
            .collect();
        requests.sort_by_key(|request| request.issue);
        let (bytes, written) = written("x.replay.0", &["sda"], &requests);
        prop_assert_eq!(written.requests, requests.len() as u64);
        let format = Some(by_name("btreplay").unwrap());
        let options = ReadOptions { format, ..ReadOptions::default() };
        let (read, header) = read(&bytes, &options).unwrap();
        prop_assert!(header.losses.is_empty(), "{:?}", header.losses);
        prop_assert_eq!(read, requests);
    }

    #[test]
    fn any_bytes_behind_a_header_are_read_or_told(
        bytes in proptest::collection::vec(any::<u8>(), 0..500), count in 0_u64..600,
        big_endian in any::<bool>(),
    ) {
        let head = [
            header(5, big_endian),
            bunch(6, &[(8, 512, 1)], big_endian),
            words(&[count, 7], big_endian),
        ]
        .concat();
        let format = Some(by_name("btreplay").unwrap());
        let options = ReadOptions { format, ..ReadOptions::default() };
        let (requests, header) = read(&[&head[..], &bytes].concat(), &options).unwrap();
        let whole = head.len() + bytes.len();
        prop_assert!(!requests.is_empty() && requests.len() * REQUEST_BYTES < whole);
        prop_assert!(header.damage.is_some() || header.losses.iter().count() < 5);
    }
}

#[test]
fn the_published_file_is_read_to_its_end_although_its_header_counts_otherwise() {
    // Counted with Python's struct: 652 bunches of one request, 183 reads, all of 4096 bytes; the
    // header says 586 bunches and 653 requests.
    let Some(path) = ioecho_fixture::recording("btrecord-sdi.replay.0") else { return };
    let options = ReadOptions { time_unit_ns: Some(1000), ..ReadOptions::default() };
    let (requests, header) = drain(&mut *crate::formats::open(&path, &options).unwrap()).unwrap();
    let reads = requests.iter().filter(|request| request.op == Op::Read).count();
    assert_eq!((requests.len(), reads), (652, 183));
    assert!(requests.iter().all(|request| request.length == Bytes(4096)));
    assert_eq!(requests[0].offset, Bytes(8_178_892_672 * 512));
    assert_eq!(requests[1].issue, Nanos(18_415_864_000));
    assert_eq!(requests[651].issue, Nanos(19_761_378_000));
    assert!(header.losses.is_empty() && header.damage.is_none() && header.guesses.is_empty());
}
