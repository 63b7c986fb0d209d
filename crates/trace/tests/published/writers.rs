//! What is written reads back as what it was, up to what the format cannot say, which is counted.

use ioecho_trace::formats::{ReadOptions, create};
use ioecho_trace::stream::Written;
use ioecho_trace::{
    Batch, Bytes, Columns, Flags, Header, Nanos, Op, Origin, Request, Volume, VolumeId,
};
use proptest::prelude::*;

use crate::{read_file, volumes};

/// What `requests` become when they are written to a file called `name` and read again, what was
/// counted, and what stands in the file.
fn through(name: &str, header: &Header, requests: &[Request]) -> (Vec<Request>, Header, Written) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    let mut sink = create(&path, header).unwrap();
    let mut batch = Batch::new(header.columns);
    batch.extend(requests);
    sink.write(&batch).unwrap();
    let written = sink.finish(header).unwrap();
    match read_file(&path, &ReadOptions::default()) {
        Ok((read, header)) => (read, header, written),
        Err(_) => (Vec::new(), Header::default(), written),
    }
}

fn header(names: &[&str]) -> Header {
    let volume = |(id, name): (usize, &&str)| Volume {
        id: VolumeId(id as u32),
        name: (*name).to_owned(),
        size: None,
    };
    Header {
        volumes: names.iter().enumerate().map(volume).collect(),
        columns: Columns { latency: true, origin: true, measured: false, dependencies: false },
        started: Some("2024-05-06T07:08:09.1234567Z".to_owned()),
        ..Header::default()
    }
}

prop_compose! {
    fn any_request()(
        gap in prop_oneof![0_i64..1000, 0_i64..1 << 40],
        op in 0_u8..6,
        flags in 0_u16..32,
        offset in 0_u64..1 << 62,
        length in prop_oneof![0_u64..1 << 20, 0_u64..1 << 40],
        volume in 0_u32..3,
        latency in proptest::option::of(prop_oneof![0_i64..200, 0_i64..1 << 45]),
        pid in 0_u32..3,
    ) -> Request {
        let op = Op::from_code(op).unwrap();
        let length = if op == Op::Flush { 0 } else { length };
        let mut request = Request::new(Nanos(gap), op, Bytes(offset), Bytes(length));
        request.flags = Flags::from_bits_truncate(flags);
        request.volume = VolumeId(volume);
        request.latency = latency.map(Nanos);
        request.origin = Some(Origin { pid, cpu: 0 });
        request
    }
}

fn any_requests() -> impl Strategy<Value = Vec<Request>> {
    proptest::collection::vec(any_request(), 1..100).prop_map(|mut requests| {
        let mut now = 0;
        for request in &mut requests {
            now += request.issue.0;
            request.issue = Nanos(now);
        }
        requests
    })
}

/// What is left of requests in a format with instants of `unit` nanoseconds and without lengths
/// from `too_long`: the first one kept becomes the start.
fn expected(requests: &[Request], unit: i64, too_long: u64, has_latency: bool) -> Vec<Request> {
    let keeps = |request: &&Request| {
        matches!(request.op, Op::Read | Op::Write) && (1..too_long).contains(&request.length.0)
    };
    let kept: Vec<_> = requests.iter().filter(keeps).collect();
    let first = kept.first().map_or(0, |request| request.issue.0 / unit * unit);
    let cut = |ns: Nanos| Nanos(ns.0 / unit * unit);
    kept.iter()
        .map(|request| Request {
            issue: Nanos(cut(request.issue).0 - first),
            flags: Flags::empty(),
            origin: None,
            latency: request.latency.map(cut).filter(|ns| has_latency && ns.0 > 0),
            ..**request
        })
        .collect()
}

/// The same with volumes in the order in which the reader meets them, by name.
fn named<'a>(requests: &[Request], header: &'a Header) -> Vec<(Request, &'a str)> {
    let names = volumes(header);
    requests
        .iter()
        .map(|request| {
            (Request { volume: VolumeId(0), ..*request }, names[request.volume.0 as usize])
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn msr_is_the_identity_on_what_it_can_say(requests in any_requests(), packed: bool) {
        let before = header(&["usr_1", "hm_0", "usr_0"]);
        let name = if packed { "x.msr.csv.gz" } else { "x.msr.csv" };
        let (read, after, written) = through(name, &before, &requests);
        let expected = expected(&requests, 100, u64::MAX, true);
        prop_assert_eq!(named(&read, &after), named(&expected, &before));
        prop_assert_eq!(written.requests, expected.len() as u64);
        let kept = |r: &&Request| matches!(r.op, Op::Read | Op::Write) && r.length.0 > 0;
        let count = |what: &dyn Fn(&&Request) -> bool| {
            requests.iter().filter(kept).filter(what).count() as u64
        };
        let lost = &written.lost;
        prop_assert_eq!(lost.count_of("instants cut to 100 ns"), count(&|r| r.issue.0 % 100 != 0));
        prop_assert_eq!(lost.count_of("latencies cut to 100 ns"),
            count(&|r| r.latency.is_some_and(|ns| ns.0 > 100 && ns.0 % 100 != 0)));
        prop_assert_eq!(lost.count_of("latencies below 100 ns, which become unknown"),
            count(&|r| r.latency.is_some_and(|ns| ns.0 < 100)));
        prop_assert_eq!(lost.count_of("flags"), count(&|r| !r.flags.is_empty()));
        prop_assert_eq!(lost.count_of("processes and processors"),
            count(&|r| r.origin != Some(Origin::default())));
        let discards = requests.iter().filter(|r| r.op == Op::Discard).count() as u64;
        prop_assert_eq!(lost.count_of("discards"), discards);
    }

    #[test]
    fn alibaba_is_the_identity_on_what_it_can_say(requests in any_requests()) {
        let before = header(&["7", "0", "419"]);
        let (read, after, written) = through("x.alibaba.csv", &before, &requests);
        let expected = expected(&requests, 1_000, 1 << 32, false);
        prop_assert_eq!(named(&read, &after), named(&expected, &before));
        prop_assert_eq!(written.requests, expected.len() as u64);
        let too_long = requests.iter()
            .filter(|r| matches!(r.op, Op::Read | Op::Write) && r.length.0 >= 1 << 32).count();
        prop_assert_eq!(
            written.lost.count_of("requests too long for the format (4 GiB and more)"),
            too_long as u64
        );
    }
}

fn one(volume: u32) -> Request {
    let request = Request::new(Nanos(volume.into()), Op::Read, Bytes(0), Bytes(512));
    Request { volume: VolumeId(volume), ..request }
}

#[test]
fn the_date_of_the_start_is_kept_and_an_unknown_one_is_told() {
    for (name, ns) in [("x.msr.csv", "1234567Z"), ("x.alibaba.csv", "123456Z")] {
        let (_, after, written) = through(name, &header(&["1_0"]), &[one(0)]);
        assert_eq!(after.started, Some(format!("2024-05-06T07:08:09.{ns}")));
        assert_eq!(written.lost.iter().filter(|note| note.what.contains("date")).count(), 0);
        let unknown = Header { started: None, ..header(&["0"]) };
        let (_, after, written) = through(name, &unknown, &[one(0), one(0)]);
        assert_eq!(after.started.as_deref(), Some("2000-01-01T00:00:00Z"));
        let what = "date of the start that is not known, written as 2000-01-01";
        assert_eq!(written.lost.count_of(what), 1);
    }
}

#[test]
fn volumes_of_any_name_stay_apart() {
    let names = ["sda", "8,0", "", "sda_0", "a b_7", "volume_2", "x_", "volume_7", "sda_007"];
    let requests: Vec<_> = (0..names.len() as u32).map(one).collect();
    let (read, after, _) = through("x.msr.csv", &header(&names), &requests);
    assert_eq!(after.volumes.len(), names.len());
    assert_eq!(read.len(), names.len());
    assert_eq!(volumes(&after)[..4], ["sda_0", "8-0_1", "volume_2", "volume_3"]);
    let (_, after, written) = through("x.alibaba.csv", &header(&names), &requests);
    assert_eq!(volumes(&after), ["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(written.lost.count_of("names of volumes, which become numbers"), 8);
    // Requests may name a volume of which the header knows nothing.
    let (_, after, _) = through("x.msr.csv", &Header::default(), &[one(0), one(5)]);
    assert_eq!(volumes(&after), ["volume_0", "volume_5"]);
}
