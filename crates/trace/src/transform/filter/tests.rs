use super::super::testing::{all, made, refusal, with_context};
use super::super::tests::Given;
use super::super::{Asked, apply};
use crate::batch::tests::any_request;
use crate::{Bytes, Flags, Nanos, Op, Request, VolumeId};
use proptest::prelude::*;

fn kept(line: &str, requests: &[Request]) -> Vec<Request> {
    made(&format!("filter {line}"), requests, 7).0
}

/// An expression, and its meaning in Rust.
type Meaning = (&'static str, fn(&Request) -> bool);

const MEANINGS: [Meaning; 22] = [
    ("op = read", |r| r.op == Op::Read),
    ("op != write-zeroes", |r| r.op != Op::WriteZeroes),
    ("op in {read, write}", |r| matches!(r.op, Op::Read | Op::Write)),
    ("op not in {read, write}", |r| !matches!(r.op, Op::Read | Op::Write)),
    ("op in {}", |_| false),
    ("offset < 8k", |r| r.offset.0 < 8192),
    ("offset in 4k..8k", |r| (4096..8192).contains(&r.offset.0)),
    ("offset in {512, 4k..8k, 12k..}", |r| {
        r.offset.0 == 512 || (4096..8192).contains(&r.offset.0) || r.offset.0 >= 12288
    }),
    ("size != 512", |r| r.length.0 != 512),
    ("length <= 1k", |r| r.length.0 <= 1024),
    ("end >= 8k", |r| r.end().0 >= 8192),
    ("time in ..5us", |r| r.issue.0 < 5000),
    ("latency > 4us", |r| r.latency.is_some_and(|latency| latency.0 > 4000)),
    ("latency != 1us", |r| r.latency.is_some_and(|latency| latency.0 != 1000)),
    ("not latency > 4us", |r| r.latency.is_none_or(|latency| latency.0 <= 4000)),
    ("pid = 1", |r| r.origin.is_some_and(|origin| origin.pid == 1)),
    ("cpu in {0, 2}", |r| r.origin.is_some_and(|origin| matches!(origin.cpu, 0 | 2))),
    ("volume = 1", |r| r.volume == VolumeId(1)),
    ("sync && !fua", |r| r.flags.contains(Flags::SYNC) && !r.flags.contains(Flags::FUA)),
    ("flags in {meta, fua}", |r| r.flags.intersects(Flags::META | Flags::FUA)),
    ("op = read or op = write and sync", |r| {
        r.op == Op::Read || r.op == Op::Write && r.flags.contains(Flags::SYNC)
    }),
    ("(op = read or op = write) and not (sync or offset > 4k)", |r| {
        matches!(r.op, Op::Read | Op::Write)
            && !(r.flags.contains(Flags::SYNC) || r.offset.0 > 4096)
    }),
];

proptest! {
    #[test]
    fn what_is_kept_is_what_the_sentence_says(
        mut requests in proptest::collection::vec(any_request(), 0..80),
    ) {
        for request in &mut requests {
            request.issue.0 %= 10_000;
            request.offset.0 = request.offset.0 % 32 * 512;
            request.length.0 = request.length.0 % 4 * 512;
            request.latency = request.latency.map(|latency| Nanos(latency.0 % 8 * 1000));
            request.origin = request.origin.map(|origin| {
                crate::Origin { pid: origin.pid % 3, cpu: origin.cpu % 4 }
            });
        }
        requests.sort_by_key(|request| request.issue);
        for (line, means) in MEANINGS {
            let expected: Vec<_> = requests.iter().filter(|r| means(r)).copied().collect();
            prop_assert_eq!(kept(line, &requests), expected, "{}", line);
        }
    }

    #[test]
    fn every_operation_is_told_from_every_other(
        code in 0..Op::ALL.len(), other in 0..Op::ALL.len(),
    ) {
        let (op, other) = (Op::ALL[code], Op::ALL[other]);
        let requests = [op, other].map(|op| Request::new(Nanos(0), op, Bytes(0), Bytes(512)));
        let found = kept(&format!("op = {}", op.name()), &requests);
        prop_assert_eq!(found.len(), if op == other { 2 } else { 1 });
    }

    #[test]
    fn any_sentence_is_read_or_refused(text in "\\PC{0,60}") {
        let _ = format!("filter {text}").parse::<Asked>();
    }

    #[test]
    fn any_words_are_read_or_refused_with_a_mark_below_them(
        words in proptest::collection::vec(0_usize..27, 0..14),
    ) {
        const WORDS: [&str; 27] = [
            "op", "offset", "latency", "volume", "comm", "pid", "sync", "flags", "and", "or", "not",
            "in", "(", ")", "{", "}", ",", "..", "=", "!=", "<", "read", "4k", "10ms", "17",
            "\"x\"", "§",
        ];
        let text: Vec<_> = words.iter().map(|word| WORDS[*word]).collect();
        if let Err(error) = format!("filter {}", text.join(" ")).parse::<Asked>() {
            prop_assert!(error.to_string().contains('^'), "{}", error);
        }
    }
}

#[test]
fn faults_are_marked_where_they_are() {
    assert_eq!(
        refusal("filter op = read and offset > 10ms"),
        "'10ms' is a span of time, and a size is expected here\n  \
         | op = read and offset > 10ms\n  \
         |                        ^^^^\n  \
         = help: write a size like 512, 4k or 1.5G"
    );
    assert_eq!(
        refusal("filter sector = 3"),
        "'sector' is not known\n  | sector = 3\n  | ^^^^^^\n  = help: known are op, offset, \
         length, end, time, latency, pid, comm, cpu, volume, flags, and the flags sync, fua, \
         preflush, meta, readahead"
    );
    let first = |line: &str| refusal(line).lines().next().unwrap().to_owned();
    let marked = |line: &str| {
        let refusal = refusal(line);
        let marks = refusal.lines().nth(2).unwrap();
        (marks.find('^').unwrap() - 4, marks.matches('^').count())
    };
    assert_eq!(first("filter latency > 4k"), "'4k' is a size, and a span of time is expected here");
    assert_eq!(first("filter op < read"), "op has no order");
    assert_eq!(first("filter op = trim"), "'trim' is not an operation");
    assert_eq!(first("filter offset in 2G..1G"), "no value lies in this range");
    assert_eq!(marked("filter offset in 2G..1G"), (10, 6));
    assert_eq!(first("filter (sync"), "something is missing here");
    assert_eq!(marked("filter (sync"), (5, 1));
    assert_eq!(first("filter sync fua"), "this does not belong here");
    assert_eq!(first("filter"), "something is missing here");
    assert_eq!(first("filter pid = 5000000000"), "'5000000000' is too large");
    assert_eq!(first(&format!("filter {}sync", "(".repeat(10_000))), "this is nested too deeply");
}

#[test]
fn volumes_and_processes_go_by_name_too() {
    let request = |volume, pid| Request {
        volume: VolumeId(volume),
        origin: Some(crate::Origin { pid, cpu: 0 }),
        ..Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512))
    };
    let requests = [request(0, 7), request(1, 8), request(0, 8), request(2, 9)];
    let kept = |line: &str| {
        let asked: Asked = format!("filter {line}").parse().unwrap();
        with_context(&[], |context| {
            let mut given = Given::new(&requests, 2);
            let names = given.header_mut();
            let volume = |(id, name): (u32, &str)| crate::Volume {
                id: VolumeId(id),
                name: name.to_owned(),
                size: None,
            };
            names.volumes = [(0, "sda"), (1, "8,16"), (2, "dm-0")].map(volume).to_vec();
            names.processes = [(7, "postgres"), (8, "kworker/0:1")]
                .map(|(pid, name)| (pid, name.to_owned()))
                .into();
            let mut source = apply(&[asked], Box::new(given), context).unwrap();
            all(&mut source).iter().map(|r| (r.volume.0, r.origin.unwrap().pid)).collect::<Vec<_>>()
        })
    };
    assert_eq!(kept("volume = sda"), [(0, 7), (0, 8)]);
    assert_eq!(kept("volume in {\"8,16\", dm-0}"), [(1, 8), (2, 9)]);
    assert_eq!(kept("volume != 0"), [(1, 8), (2, 9)]);
    assert_eq!(kept("comm = postgres or comm = kworker/0:1 and volume = 1"), [(0, 7), (1, 8)]);
    assert_eq!(kept("process != postgres"), [(1, 8), (0, 8), (2, 9)]);
}

#[test]
fn a_bare_number_is_a_name_before_it_is_a_number() {
    let on = |id| Request {
        volume: VolumeId(id),
        ..Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512))
    };
    let kept = |names: &[&str], line: &str| {
        let asked: Asked = format!("filter {line}").parse().unwrap();
        with_context(&[], |context| {
            let mut given = Given::new(&[on(0), on(1), on(2)], 2);
            let volume = |(id, name): (u32, &&str)| crate::Volume {
                id: VolumeId(id),
                name: (*name).to_owned(),
                size: None,
            };
            given.header_mut().volumes = (0..).zip(names).map(volume).collect();
            let mut source = apply(&[asked], Box::new(given), context).unwrap();
            all(&mut source).iter().map(|request| request.volume.0).collect::<Vec<_>>()
        })
    };
    assert_eq!(kept(&["1063", "2", "0"], "volume = 1063"), [0]);
    assert_eq!(kept(&["1063", "2", "0"], "volume = 2"), [1]);
    assert_eq!(kept(&["1063", "2", "0"], "volume in {0}"), [2]);
    // A bare 1 does not mean the second volume, whose name is 2.
    assert_eq!(kept(&["1063", "2", "0"], "volume = 1"), [0; 0]);
    assert_eq!(kept(&["sda", "sdb", "1"], "volume = 1"), [2]);
    assert_eq!(kept(&["sda", "sdb", ""], "volume in {1, 2}"), [1, 2]);
    assert_eq!(kept(&["sda", "sdb", ""], "volume = \"1\""), [0; 0]);
    assert_eq!(kept(&[], "volume = 1"), [1]);
}

#[test]
fn what_a_trace_does_not_know_is_not_asked_of_it() {
    let request = Request::new(Nanos(0), Op::Read, Bytes(0), Bytes(512));
    for (line, what) in [("latency > 1s", "latencies"), ("not pid = 3 or sync", "processes")] {
        let asked: Asked = format!("filter {line}").parse().unwrap();
        with_context(&[], |context| {
            let mut given = Given::new(&[request], 1);
            given.header_mut().columns = crate::Columns::default();
            let error = apply(&[asked], Box::new(given), context).err().unwrap().to_string();
            assert!(error.contains(&format!("the filter asks for {what}")), "{error}");
        });
    }
}
