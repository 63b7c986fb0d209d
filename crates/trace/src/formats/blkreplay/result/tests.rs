//! A written result is read back with all that a result can express.

use std::fs;

use proptest::prelude::*;

use super::super::super::{ReadOptions, create, open};
use super::super::RESULT;
use crate::batch::tests::any_request;
use crate::stream::Written;
use crate::{Batch, Bytes, Columns, Header, Measured, Nanos, Op, Outcome, Request, Volume};

fn written(requests: &[Request]) -> (String, Written, Vec<Request>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.replay");
    let columns = Columns { latency: true, measured: true, origin: false, dependencies: false };
    let volume = Volume { name: "sda".to_owned(), ..Volume::default() };
    let source = "a;b".to_owned();
    let header = Header { source, columns, volumes: vec![volume], ..Header::default() };
    let mut sink = create(&path, &header).unwrap();
    let mut batch = Batch::new(columns);
    batch.extend(requests);
    sink.write(&batch).unwrap();
    let written = sink.finish(&header).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let mut all = Vec::new();
    if written.requests > 0 {
        let mut source = open(&path, &ReadOptions { strict: true, ..ReadOptions::default() });
        let source = source.as_mut().unwrap();
        assert_eq!(source.header().format, RESULT);
        while source.next_batch(&mut batch).unwrap() {
            all.extend(batch.iter());
        }
    }
    (text, written, all)
}

fn measured(scheduled: i64, submitted: i64, completed: i64, target: u64) -> Measured {
    Measured {
        target_offset: Some(Bytes(target)),
        in_flight: 0,
        ..Measured::done(Nanos(scheduled), Nanos(submitted), Nanos(completed))
    }
}

#[test]
fn a_line_is_as_blkreplay_prints_it() {
    let plain = Request::new(Nanos(5_000_000_000), Op::Write, Bytes(1 << 40), Bytes(7168));
    let first = measured(449_518_165, 449_654_060, 449_972_083, 4_212_485 * 512);
    let (text, written, all) = written(&[
        Request { measured: Some(Measured { pushed_back: true, ..first }), ..plain },
        Request { measured: Some(measured(9, 9, 9, 0)), op: Op::Read, ..plain },
        Request { measured: Some(Measured { outcome: Outcome::Dropped, ..first }), ..plain },
        Request { measured: Some(Measured { outcome: Outcome::Error(5), ..first }), ..plain },
        Request { op: Op::Flush, measured: Some(first), ..plain },
    ]);
    // A line of the published result, with the operation in lower case.
    let line = "   0.449518165 ;    4212485 ;  14 ; w ;   0.000135895 ;   0.000318023\n";
    let header = "orig_start ; sector; length ; op ;  replay_delay; replay_duration\n";
    assert!(text.contains(&format!("{header}{line}")), "{text}");
    assert!(!text.contains("a;b"));
    assert_eq!(written.requests, 3);
    let lost = &written.lost;
    assert_eq!((lost.count_of("flushes"), lost.count_of("requests that were not issued")), (1, 1));
    assert_eq!(lost.count_of("outcomes other than success"), 1);
    assert_eq!(all[1].measured.map(|measured| measured.pushed_back), Some(true));
}

#[test]
fn a_recording_has_its_latencies_for_durations() {
    let request = Request::new(Nanos(7), Op::Read, Bytes(512), Bytes(512));
    let (_, written, all) = written(&[Request { latency: Some(Nanos(250)), ..request }, request]);
    assert_eq!(all[0].measured.and_then(|measured| measured.service_time()), Some(Nanos(250)));
    assert_eq!(written.lost.count_of("durations, which are not known, written as 0"), 1);
    assert_eq!(written.lost.count_of(crate::formats::write::NAMES), 1);
}

proptest! {
    #[test]
    fn what_was_measured_of_reads_and_writes_is_read_again(
        requests in proptest::collection::vec(any_request(), 1..50),
    ) {
        let mut requests = requests;
        for request in &mut requests {
            if let Some(measured) = &mut request.measured {
                // As in a real run: nothing is submitted early or completes before its submission.
                let submitted = measured.submitted.map(|at| at.max(measured.scheduled));
                measured.submitted = submitted;
                measured.completed = submitted.map(|at| Nanos(at.0 + 7));
                measured.target_offset = Some(Bytes(request.offset.0 / 512 * 512));
                request.length = Bytes(request.length.0 / 512 * 512);
            }
        }
        let mut expected: Vec<_> = requests.iter().filter_map(|request| {
            let measured = request.measured.filter(|measured| measured.outcome.was_issued())?;
            let is_kept = matches!(request.op, Op::Read | Op::Write) && request.length.0 > 0;
            let submitted = measured.submitted.unwrap_or(measured.scheduled);
            is_kept.then_some((
                measured.scheduled,
                request.op,
                measured.target_offset,
                request.length,
                measured.pushed_back,
                submitted,
                measured.completed.unwrap_or(submitted),
            ))
        }).collect();
        expected.sort_by_key(|line| line.0);
        let (_, written, all) = written(&requests);
        prop_assert_eq!(written.requests as usize, expected.len());
        let all: Vec<_> = all.iter().map(|request| {
            let measured = request.measured.unwrap();
            (
                request.issue,
                request.op,
                Some(request.offset),
                request.length,
                measured.pushed_back,
                measured.submitted.unwrap(),
                measured.completed.unwrap(),
            )
        }).collect();
        prop_assert_eq!(all, expected);
    }
}
