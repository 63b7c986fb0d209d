use proptest::prelude::*;

use super::super::from_bytes::{drain, read, read_alike};
use super::super::{ReadOptions, by_name};
use super::*;
use crate::compression::{Codec, Decoder};
use crate::request::Op;
use std::io::Read as _;

/// A record of either version: operation code, bytes, block, microseconds, response.
fn record(version: Version, code: u16, length: u32, block: u64, us: u64, response: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    match version {
        Version::One => {
            bytes.extend_from_slice(&7_u32.to_le_bytes());
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&1_u32.to_le_bytes());
            bytes.extend_from_slice(&code.to_le_bytes());
            bytes.extend_from_slice(&0x0100_u16.to_le_bytes());
        }
        Version::Two => {
            bytes.extend_from_slice(&code.to_le_bytes());
            bytes.extend_from_slice(&0x0201_u16.to_le_bytes());
            bytes.extend_from_slice(&7_u32.to_le_bytes());
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&1_u32.to_le_bytes());
        }
    }
    bytes.extend_from_slice(&block.to_le_bytes());
    bytes.extend_from_slice(&us.to_le_bytes());
    if version == Version::Two {
        bytes.extend_from_slice(&response.to_le_bytes());
    }
    assert_eq!(bytes.len(), version.bytes());
    bytes
}

const BOTH: [Version; 2] = [Version::One, Version::Two];

#[test]
fn either_version_is_known_by_its_records_and_read() {
    for version in BOTH {
        let bytes = [
            record(version, 0x2a, 512, 42_932_745, 5_633_898_368_802, 30),
            record(version, 0x88, 69_632, 1 << 40, 5_633_898_611_441, 0),
        ]
        .concat();
        let (requests, header) = read_alike(&bytes);
        let response = |us| (version == Version::Two).then_some(Nanos::from_micros(us));
        let first = Request {
            latency: response(30),
            ..Request::new(Nanos(0), Op::Write, Bytes(42_932_745 * 512), Bytes(512))
        };
        let second = Request {
            latency: response(0),
            ..Request::new(Nanos(242_639_000), Op::Read, Bytes(512 << 40), Bytes(69_632))
        };
        assert_eq!(requests, [first, second]);
        assert_eq!(header.format.ends_with('2'), version == Version::Two);
        assert_eq!((header.losses.is_empty(), header.guesses.is_empty()), (true, true));
        assert_eq!(header.imported.unwrap().units, 2);
    }
}

#[test]
fn commands_become_what_they_do_and_others_are_counted() {
    let codes =
        [0x08, 0x0a, 0x28, 0x2a, 0xa8, 0xaa, 0x88, 0x8a, 0x35, 0x91, 0x93, 0x42, 0x42, 0x12];
    let bytes: Vec<u8> = codes
        .iter()
        .enumerate()
        .flat_map(|(at, code)| {
            let length = if at == 11 { 24 } else { 1024 };
            record(Version::One, *code, length, 8, at as u64, 0)
        })
        .collect();
    let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
    let ops: Vec<_> = requests.iter().map(|request| request.op).collect();
    let (r, w, f) = (Op::Read, Op::Write, Op::Flush);
    assert_eq!(ops, [r, w, r, w, r, w, r, w, f, f, Op::WriteZeroes, Op::Discard]);
    assert_eq!(requests[8].length, Bytes::ZERO);
    let notes = |notes: &crate::header::Notes| -> Vec<_> {
        notes
            .iter()
            .map(|note| (note.what.split(' ').next().unwrap().to_owned(), note.count))
            .collect()
    };
    let (scsi, same, unmap) = ("SCSI".to_owned(), "WRITE".to_owned(), "UNMAP".to_owned());
    assert_eq!(notes(&header.losses), [(unmap.clone(), 1), (scsi, 1)]);
    assert_eq!(notes(&header.guesses), [(same, 1), (unmap, 1)]);
}

#[test]
fn what_does_not_fit_is_lost_and_never_a_smaller_number() {
    let good = |us| record(Version::Two, 0x28, 512, 8, us, 1);
    for bad in [
        record(Version::Two, 0x28, 512, u64::MAX / 512 + 1, 3, 1),
        record(Version::Two, 0x28, 512, u64::MAX / 512, 3, 1),
        record(Version::Two, 0x28, 512, 8, u64::MAX / 1000, 1),
        record(Version::Two, 0x28, 512, 8, 3, u64::MAX),
        record(Version::Two, 0x28, 0, 8, 3, 1),
        vec![0xff; 40],
    ] {
        let bytes = [good(1), good(2), bad, good(4), good(5)].concat();
        let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
        assert_eq!(requests.len(), 4);
        assert_eq!(header.losses.iter().map(|note| note.count).sum::<u64>(), 1);
        let strict = ReadOptions { strict: true, ..ReadOptions::default() };
        let error = read(&bytes, &strict).err().unwrap();
        assert!(matches!(error, TraceError::Binary { offset: 80, .. }), "{error}");
    }
}

#[test]
fn a_file_cut_short_gives_what_it_holds_and_says_so() {
    let bytes: Vec<u8> = (0..5).flat_map(|at| record(Version::One, 0x28, 512, 8, at, 0)).collect();
    let (requests, header) = read(&bytes[..bytes.len() - 1], &ReadOptions::default()).unwrap();
    assert_eq!(requests.len(), 4);
    assert!(header.damage.unwrap().contains("cut short after 31 bytes"));
}

#[test]
fn other_bytes_are_refused_with_what_a_recording_looks_like() {
    let format = Some(by_name("vscsi").unwrap());
    let options = ReadOptions { format, ..ReadOptions::default() };
    let error = read(&[b'x'; 100], &options).err().unwrap().to_string();
    assert!(error.contains("no known version") && error.contains("32 or 40 bytes"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_behind_two_records_are_read_or_counted(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), two in any::<bool>(),
    ) {
        let version = BOTH[usize::from(two)];
        let head: Vec<u8> =
            (0..40).flat_map(|at| record(version, 0x2a, 512, at, 1000 + at, 0)).collect();
        let (requests, header) = read(&[&head[..], &bytes].concat(), &ReadOptions::default())
            .unwrap();
        let lost: u64 = header.losses.iter().map(|note| note.count).sum();
        prop_assert!(requests.len() >= 40);
        prop_assert_eq!(requests.len() as u64 + lost, header.imported.unwrap().units);
    }

    #[test]
    fn requests_are_read_with_junk_between(
        valid in proptest::collection::vec((any::<bool>(), 1_u32..1 << 20, 0_u64..1 << 40), 3..50),
        junk in any::<[u8; 40]>(), every in 4_usize..20, two in any::<bool>(),
    ) {
        let version = BOTH[usize::from(two)];
        let mut junk = junk[..version.bytes()].to_vec();
        junk[if two { 3 } else { 15 }] = 9;
        let mut bytes = Vec::new();
        for (at, (write, length, block)) in valid.iter().enumerate() {
            let code = if *write { 0x2a } else { 0x28 };
            bytes.extend(record(version, code, *length, *block, 5 + at as u64, 1));
            if at % every == every - 1 {
                bytes.extend_from_slice(&junk);
            }
        }
        let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
        prop_assert_eq!(requests.len(), valid.len());
        for (request, (write, length, block)) in requests.iter().zip(&valid) {
            prop_assert_eq!(request.op == Op::Write, *write);
            prop_assert_eq!(request.offset.0, *block * 512);
            prop_assert_eq!(request.length.0, u64::from(*length));
        }
        prop_assert_eq!(header.losses.count_of(OTHER_VERSION), (valid.len() / every) as u64);
    }
}

/// The same recording as the publisher's own text has it: seconds, code in hexadecimal, bytes,
/// block, one line for each record.
#[test]
fn the_published_recording_says_what_its_text_says() {
    let (Some(binary), Some(text)) = (
        ioecho_fixture::recording("cloudPhysicsIO.vscsi"),
        ioecho_fixture::recording("cloudPhysicsIO.csv.gz"),
    ) else {
        return;
    };
    let mut source = crate::formats::open(&binary, &ReadOptions::default()).unwrap();
    let (requests, header) = drain(&mut *source).unwrap();
    assert!(header.losses.is_empty() && header.guesses.is_empty() && header.damage.is_none());
    assert_eq!(requests.len(), 113_872);
    // The instant of the first request by the host's clock, from the file itself.
    let first = std::fs::read(&binary).unwrap();
    let first_us = u64::from_le_bytes(*first[24..].first_chunk().unwrap());
    let mut lines = String::new();
    Decoder::new(std::fs::File::open(text).unwrap(), Codec::Gzip)
        .read_to_string(&mut lines)
        .unwrap();
    let mut lines = lines.lines().skip(1);
    for request in requests {
        let second = (request.issue.0 as u64 / 1000 + first_us) / 1_000_000;
        let code = if request.op == Op::Write { "2a" } else { "28" };
        let (length, block) = (request.length.0, request.offset.0 / 512);
        assert_eq!(lines.next().unwrap(), format!("1,{second},{code},{length},{block}"));
    }
    assert_eq!(lines.next(), None);
}
