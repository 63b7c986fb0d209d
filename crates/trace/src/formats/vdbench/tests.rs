use proptest::prelude::*;

use super::super::from_bytes::{read, read_alike, written};
use super::super::{ReadOptions, by_name};
use super::*;
use crate::batch::tests::any_request;
use crate::formats::write::volume_name;

/// A record as Java writes it: head, start, response, device, offset, length and process, flag.
fn record(words: [u64; 7]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

const HEAD: u64 = 0xeeee_0500_0000_0007;

fn request(us: u64, device: u64, flag: u64) -> Vec<u8> {
    record([HEAD, us, 250, device, 8192, 4096 << 32 | 0x4d, flag << 56])
}

#[test]
fn a_request_is_read_field_by_field() {
    let bytes = [
        record([HEAD, 1_500_000, 250, 3, 1 << 40, 4096 << 32 | 0xffff_fffe, 1 << 56]),
        record([HEAD, 1_500_001, 0, 0x0001_0000_0000_0007, 0, 0x7fff_ffff << 32, 0]),
    ]
    .concat();
    let (requests, header) = read_alike(&bytes);
    let first = Request {
        latency: Some(Nanos(250_000)),
        origin: Some(Origin { pid: 0xffff_fffe, cpu: 0 }),
        ..Request::new(Nanos::from_micros(1_500_000), Op::Read, Bytes(1 << 40), Bytes(4096))
    };
    let second = Request {
        volume: VolumeId(1),
        origin: Some(Origin::default()),
        ..Request::new(Nanos::from_micros(1_500_001), Op::Write, Bytes(0), Bytes(0x7fff_ffff))
    };
    assert_eq!(requests, [first, second]);
    let names: Vec<_> = header.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["3", "7"]);
    assert!(header.losses.is_empty() && header.guesses.is_empty());
}

#[test]
fn records_of_other_types_are_passed_over_however_long_they_are() {
    let other = |kind: u64, words: u64| {
        let mut bytes = (MAGIC << 48 | kind << 40 | words).to_be_bytes().to_vec();
        bytes.resize(words as usize * 8, 0xee);
        bytes
    };
    let bytes =
        [request(1, 0, 0), other(31, 1), other(1, 50_000), request(2, 0, 1), other(5, 9)].concat();
    let (requests, header) = read_alike(&bytes);
    assert_eq!(requests.len(), 2);
    assert_eq!(header.losses.count_of(OTHER), 3);
    assert!(header.damage.is_none());
    // A record that claims more bytes than the file has.
    let (requests, header) =
        read(&[request(1, 0, 0), other(7, 3)[..17].to_vec()].concat(), &ReadOptions::default())
            .unwrap();
    assert_eq!(requests.len(), 1);
    assert!(header.damage.unwrap().contains("cut short"));
}

#[test]
fn impossible_fields_are_lost_and_a_place_without_a_record_ends_the_file() {
    let minus = u64::MAX;
    for bad in [
        record([HEAD, minus, 0, 0, 0, 4096 << 32, 0]),
        record([HEAD, 1 << 62, 0, 0, 0, 4096 << 32, 0]),
        record([HEAD, 0, minus, 0, 0, 4096 << 32, 0]),
        record([HEAD, 0, 0, 0, minus, 4096 << 32, 0]),
        record([HEAD, 0, 0, 0, 0, minus, 0]),
        record([HEAD, 0, 0, 0, 0, 0, 0]),
        record([HEAD, 0, 0, 0, 0, 4096 << 32, 2 << 56]),
    ] {
        let bytes = [request(1, 0, 0), bad, request(2, 0, 1)].concat();
        let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(header.losses.iter().map(|note| note.count).sum::<u64>(), 1);
        let strict = ReadOptions { strict: true, ..ReadOptions::default() };
        let error = read(&bytes, &strict).err().unwrap();
        assert!(matches!(error, TraceError::Binary { offset: 56, .. }), "{error}");
    }
    let bytes = [request(1, 0, 0), vec![0xdd; 56], request(2, 0, 1)].concat();
    let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
    assert_eq!(requests.len(), 1);
    assert!(header.damage.unwrap().contains("at byte 56"));
}

#[test]
fn volumes_keep_the_numbers_that_they_are_called_by() {
    let on = |volume| Request {
        volume: VolumeId(volume),
        ..Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512))
    };
    for (volumes, expected) in [(["12", "5"], ["12", "5", "2"]), (["sda", "5"], ["0", "5", "2"])] {
        let (bytes, _) = written("flatfile.bin", &volumes, &[on(0), on(1), on(2)]);
        let (requests, header) = read_alike(&bytes);
        let names: Vec<_> =
            requests.iter().map(|request| volume_name(&header, request.volume)).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn what_vdbench_cannot_say_is_counted() {
    let base = Request::new(Nanos(1_001), Op::Read, Bytes(512), Bytes(512));
    let (bytes, written) = written(
        "x.flatfile.bin.gz",
        &["sda"],
        &[
            Request { latency: Some(Nanos(7)), ..base },
            Request { latency: Some(Nanos(1_007)), issue: Nanos(2_000), ..base },
            Request { latency: Some(Nanos(-1)), issue: Nanos(3_000), ..base },
            Request { op: Op::Flush, ..base },
            Request { length: Bytes(1 << 31), ..base },
            Request { offset: Bytes(1 << 63), ..base },
            Request { issue: Nanos(-5), ..base },
        ],
    );
    assert_eq!(written.requests, 3);
    for what in [
        "latencies below a microsecond, which become unknown",
        "negative latencies, written as not known",
        "instants cut to microseconds",
        "latencies cut to microseconds",
        "flushes",
        "requests too long for Vdbench (2 GiB and more)",
        "requests beyond Vdbench's addresses (8 EiB and more)",
        "requests before the start of the trace",
    ] {
        assert_eq!(written.lost.count_of(what), 1, "{what}");
    }
    let (requests, _) = read(&bytes, &ReadOptions::default()).unwrap();
    assert_eq!((requests[0].issue, requests[0].latency), (Nanos(1000), None));
}

#[test]
fn instants_beyond_2001_count_since_1970() {
    let at = |seconds| Request::new(Nanos::from_secs(seconds), Op::Read, Bytes(0), Bytes(512));
    let (bytes, _) = written("flatfile.bin", &["0"], &[at(1_538_323_200), at(1_538_323_207)]);
    let (requests, header) = read(&bytes, &ReadOptions::default()).unwrap();
    let issues: Vec<_> = requests.iter().map(|request| request.issue).collect();
    assert_eq!(issues, [Nanos(0), Nanos::from_secs(7)]);
    assert_eq!(header.started.as_deref(), Some("2018-09-30T16:00:00Z"));
    assert!(header.guesses.iter().any(|note| note.what.contains("since 1970")));
}

proptest! {
    #[test]
    fn what_the_format_can_say_survives_it(
        requests in proptest::collection::vec(any_request(), 1..300),
    ) {
        let mut requests: Vec<_> = requests
            .into_iter()
            .map(|request| Request {
                op: if request.op == Op::Read { Op::Read } else { Op::Write },
                flags: crate::Flags::empty(),
                // Instants beyond 2001 are taken as counted from 1970.
                issue: Nanos(request.issue.0 % 1_000_000_000_000_000_000 / 1000 * 1000),
                length: Bytes(request.length.0 % ((1 << 31) - 1) + 1),
                latency: request.latency.map(|ns| Nanos(ns.0 / 1000 * 1000 + 1000)),
                origin: request.origin.map(|origin| Origin { cpu: 0, ..origin }),
                measured: None,
                ..request
            })
            .collect();
        requests.sort_by_key(|request| request.issue);
        let names = ["40", "30", "20", "10"];
        let (bytes, written) = written("flatfile.bin", &names, &requests);
        prop_assert_eq!(written.requests, requests.len() as u64);
        prop_assert!(written.lost.is_empty(), "{:?}", written.lost);
        let (mut read, header) = read(&bytes, &ReadOptions::default()).unwrap();
        // Volumes come in the order of their first requests.
        for request in &mut read {
            let name = volume_name(&header, request.volume);
            let id = names.iter().position(|other| *other == name).unwrap();
            request.volume = VolumeId(id as u32);
        }
        prop_assert_eq!(read, requests);
    }

    #[test]
    fn any_bytes_between_requests_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        head in proptest::option::of((any::<u8>(), 0_u64..40)),
    ) {
        let head = head.map_or(Vec::new(), |(kind, words)| {
            (MAGIC << 48 | u64::from(kind) << 40 | words).to_be_bytes().to_vec()
        });
        let bytes = [request(1, 0, 0), head, bytes, request(2, 0, 1)].concat();
        let format = Some(by_name("vdbench").unwrap());
        let options = ReadOptions { format, ..ReadOptions::default() };
        let (requests, _) = read(&bytes, &options).unwrap();
        prop_assert!(!requests.is_empty());
    }
}
