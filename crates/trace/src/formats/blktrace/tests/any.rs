//! Recordings that no kernel wrote.

use proptest::prelude::*;

use super::super::open;
use super::super::record::category::{DISCARD, FLUSH, FUA, NOTIFY, PASSTHROUGH, READ, WRITE};
use super::super::record::{kind, notify};
use super::super::testing::{Style, Tape, directory, drain};
use crate::batch::Batch;
use crate::error::TraceError;
use crate::formats::{IssueEvent, ReadOptions};
use crate::header::Header;
use crate::stream::Source;

fn strict() -> ReadOptions {
    ReadOptions { strict: true, ..ReadOptions::default() }
}

/// Reads these bytes to their end and answers the number of requests, or the error.
fn read_anything(bytes: &[u8], event: IssueEvent) -> Result<(u64, Header), TraceError> {
    let directory = directory(&[("x.blktrace.0", bytes)]);
    let mut source = open(
        &directory.path().join("x"),
        &ReadOptions { strict: false, event, ..ReadOptions::default() },
    )?;
    let mut batch = Batch::new(source.header().columns);
    let mut rows = 0;
    while source.next_batch(&mut batch)? {
        assert!(batch.is_ordered());
        rows += batch.len() as u64;
    }
    Ok((rows, source.header().clone()))
}

prop_compose! {
    /// A record with one of few places and times, so that records meet.
    fn any_record()(
        time in 0_u64..2000,
        kind in prop_oneof![Just(1_u8), Just(7), Just(8), Just(8), Just(6), Just(13), 0_u8..40],
        bits in prop_oneof![
            Just(READ), Just(WRITE), Just(WRITE | FLUSH), Just(READ | FLUSH), Just(DISCARD),
            Just(WRITE | FUA), any::<u32>(),
        ],
        sector in 0_u64..24,
        sectors in 0_u32..16,
    ) -> (u64, u8, u32, u64, u32) {
        (time, kind, bits, sector, sectors)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_come_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read_anything(&bytes, IssueEvent::Auto);
    }

    #[test]
    fn every_queued_event_is_a_request_or_is_counted_as_none(
        records in proptest::collection::vec(any_record(), 1..200), second in any::<bool>(),
    ) {
        let mut tape = Tape::styled(Style { second, ..Style::default() });
        let mut queued = 0;
        for (time, kind, bits, sector, sectors) in records {
            let bits = bits & !(NOTIFY | PASSTHROUGH);
            tape.event(time, kind, bits, sector, sectors * 512);
            queued += u64::from(kind == kind::QUEUE);
        }
        if let Ok((rows, header)) = read_anything(&tape.bytes, IssueEvent::Queued) {
            let uncounted = header.losses.count_of("rests of split requests, queued again")
                + header.losses.count_of("events of neither a range nor a known command");
            prop_assert_eq!(rows + uncounted, queued);
        }
        for event in [IssueEvent::Inserted, IssueEvent::Issued] {
            prop_assert!(!matches!(read_anything(&tape.bytes, event), Ok((0, _))));
        }
    }

    #[test]
    fn a_mutated_recording_comes_to_an_end(
        hits in proptest::collection::vec((0_usize..4000, any::<u8>()), 1..20),
        cut in 0_usize..5000,
    ) {
        let mut tape = Tape::new(0);
        for at in 0..20 {
            tape.q(at, READ, at % 5, 8).d(at, READ, at % 5, 8);
            tape.notice(at, notify::PROCESS, b"name\0").c(at + 3, READ, at % 5, 8);
        }
        for (at, value) in hits {
            if let Some(byte) = tape.bytes.get_mut(at) {
                *byte = value;
            }
        }
        tape.bytes.truncate(cut);
        let _ = read_anything(&tape.bytes, IssueEvent::Auto);
    }

    #[test]
    fn every_request_of_a_recording_with_merges_finds_its_completion(
        pieces in proptest::collection::vec((1_u32..9, any::<bool>()), 1..60),
    ) {
        // Neighbours are queued one by one; each run that is merged completes at once.
        let mut tape = Tape::new(0);
        let (mut sector, mut begin, mut time) = (0, 0, 0);
        let mut completions = Vec::new();
        for &(sectors, merged) in &pieces {
            tape.q(time, WRITE, sector, sectors);
            sector += u64::from(sectors);
            time += 1;
            if !merged {
                completions.push((begin, (sector - begin) as u32));
                begin = sector;
            }
        }
        if begin < sector {
            completions.push((begin, (sector - begin) as u32));
        }
        for (begin, sectors) in completions.into_iter().rev() {
            tape.c(time, WRITE, begin, sectors);
        }
        let directory = directory(&[("x", &tape.bytes)]);
        let mut source = open(&directory.path().join("x"), &strict()).unwrap();
        let requests = drain(&mut *source);
        prop_assert_eq!(requests.len(), pieces.len());
        prop_assert!(requests.iter().all(|request| request.latency.is_some()));
        prop_assert!(source.header().losses.is_empty());
    }
}
