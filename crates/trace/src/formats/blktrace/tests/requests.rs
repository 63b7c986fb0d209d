//! The events that make a request, and the completion that belongs to it.

use super::super::record::category::{
    DISCARD, FLUSH, FUA, PASSTHROUGH, READ, SYNC, WRITE, WRITE_ZEROES,
};
use super::super::record::kind;
use super::super::testing::{Style, Tape};
use super::{ops, times};
use crate::formats::IssueEvent;
use crate::request::{Flags, Op};
use crate::units::Bytes;

#[test]
fn a_completion_of_merged_requests_completes_them_all_and_no_other() {
    let mut tape = Tape::new(0);
    tape.q(1, WRITE, 0, 8).q(2, WRITE, 8, 8).q(3, WRITE, 16, 8).q(4, WRITE, 24, 8);
    tape.event(4, 2, WRITE, 8, 4096).event(4, 3, WRITE, 16, 4096);
    tape.q(5, READ, 8, 8).q(6, WRITE, 8, 8);
    tape.c(10, WRITE, 0, 24).c(20, WRITE, 24, 8).c(25, READ, 8, 8).c(30, WRITE, 8, 8);
    let (requests, header) = tape.read();
    let ends: Vec<_> = times(&requests).iter().map(|(at, latency)| at + latency.unwrap()).collect();
    assert_eq!(ends, [9, 9, 9, 19, 24, 29]);
    assert!(header.losses.is_empty());
}

#[test]
fn a_split_request_is_complete_with_its_last_piece_in_whatever_order() {
    for order in [[0, 8, 16], [16, 8, 0], [8, 16, 0]] {
        let mut tape = Tape::new(0);
        tape.q(1, READ, 0, 24).event(2, kind::SPLIT, READ, 0, 4096);
        for (at, sector) in order.into_iter().enumerate() {
            tape.c(10 + at as u64, READ, sector, 8);
        }
        let (requests, header) = tape.read();
        assert_eq!(times(&requests), [(0, Some(11))], "{order:?}");
        assert!(header.losses.is_empty(), "{:?}", header.losses);
    }
}

#[test]
fn the_rest_of_a_split_that_is_queued_again_is_no_new_request() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 24).event(2, kind::SPLIT, READ, 0, 4096).q(3, READ, 8, 16);
    tape.event(4, kind::SPLIT, READ, 8, 4096).q(5, READ, 16, 8);
    tape.c(9, READ, 0, 8).c(10, READ, 8, 8).c(11, READ, 16, 8).q(12, READ, 8, 16);
    tape.c(20, READ, 8, 16);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(10)), (11, Some(8))]);
    assert_eq!(header.losses.count_of("rests of split requests, queued again"), 2);
}

#[test]
fn where_rests_are_queued_once_what_is_like_a_rest_is_a_request_of_its_own() {
    // The first rest goes to the driver without being queued again, so no later rest is.
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 16).event(2, kind::SPLIT, READ, 0, 4096).d(3, READ, 0, 8).d(4, READ, 8, 8);
    tape.q(5, READ, 8, 8).d(6, READ, 8, 8);
    tape.q(7, READ, 64, 16).event(8, kind::SPLIT, READ, 64, 4096).q(9, READ, 72, 8);
    tape.d(10, READ, 64, 8).d(11, READ, 72, 8).d(12, READ, 72, 8);
    for (at, sector) in [0, 8, 8, 64, 72, 72].into_iter().enumerate() {
        tape.c(20 + at as u64, READ, sector, 8);
    }
    let (requests, header) = tape.read();
    assert_eq!(requests.len(), 4, "{:?}", times(&requests));
    assert_eq!(header.losses.count_of("rests of split requests, queued again"), 0);
    // A rest that is split again was not queued in between either.
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 24).event(2, kind::SPLIT, READ, 0, 4096);
    tape.event(3, kind::SPLIT, READ, 8, 4096).q(4, READ, 16, 8);
    for (at, sector) in [0, 8, 16, 16].into_iter().enumerate() {
        tape.c(20 + at as u64, READ, sector, 8);
    }
    assert_eq!(tape.read().0.len(), 2);
}

#[test]
fn equal_requests_are_completed_in_the_order_of_their_issue_and_by_their_size() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 8).q(2, READ, 0, 16).q(3, READ, 0, 8);
    tape.c(10, READ, 0, 16).c(11, READ, 0, 8).c(12, READ, 0, 8);
    assert_eq!(times(&tape.read().0), [(0, Some(10)), (1, Some(8)), (2, Some(9))]);
}

#[test]
fn a_flush_is_completed_in_its_own_name_and_not_by_the_device_flush_before() {
    let (machinery, flush) = (FLUSH | READ, FLUSH | WRITE | SYNC);
    let mut tape = Tape::new(0);
    tape.q(1, flush, 0, 0).d(2, machinery, 0, 0).c(8, machinery, 0, 0).c(9, WRITE | SYNC, 0, 0);
    let (requests, header) = tape.read();
    assert_eq!((requests[0].op, requests[0].length), (Op::Flush, Bytes(0)));
    assert_eq!(times(&requests), [(0, Some(8))]);
    assert!(header.losses.is_empty());
    let (requests, header) = tape.read_event(IssueEvent::Issued);
    assert_eq!((requests[0].op, times(&requests)), (Op::Flush, vec![(0, Some(6))]));
    assert!(header.losses.is_empty());
}

#[test]
fn a_flush_whose_own_completion_is_not_recorded_takes_the_device_flush() {
    let (machinery, flush) = (FLUSH | READ, FLUSH | WRITE | SYNC);
    let mut tape = Tape::new(0);
    tape.q(1, flush, 0, 0).q(2, flush, 0, 0).d(2, machinery, 0, 0).c(8, machinery, 0, 0);
    tape.q(10, flush, 0, 0).c(15, machinery, 0, 0);
    assert_eq!(times(&tape.read().0), [(0, Some(7)), (1, Some(6)), (9, Some(5))]);
}

#[test]
fn a_write_taken_apart_by_the_kernel_ends_with_its_last_flush() {
    // As a loop device without FUA records a journal's commit block.
    for tail in [100, 108] {
        let (machinery, commit) = (FLUSH | READ, FLUSH | FUA | WRITE | SYNC);
        let mut tape = Tape::new(0);
        tape.q(1, commit, 100, 8).d(2, machinery, 0, 0).c(10, machinery, 0, 0);
        tape.d(11, WRITE | SYNC, 100, 8).c(20, WRITE | SYNC, 100, 8);
        tape.d(21, machinery, 0, 0).c(30, machinery, 0, 0).c(31, WRITE | SYNC, tail, 0);
        let (requests, header) = tape.read();
        assert_eq!(times(&requests), [(0, Some(30))]);
        assert_eq!(requests[0].flags, Flags::SYNC | Flags::FUA | Flags::PREFLUSH);
        assert!(header.losses.is_empty(), "{:?}", header.losses);
    }
}

#[test]
fn a_write_that_the_device_flushed_itself_ends_with_its_data() {
    let mut tape = Tape::new(0);
    tape.q(1, FLUSH | FUA | WRITE, 100, 8).c(20, FLUSH | FUA | WRITE, 100, 8);
    tape.q(21, FUA | WRITE, 100, 8).c(25, WRITE, 100, 8);
    assert_eq!(times(&tape.read().0), [(0, Some(19)), (20, Some(4))]);
}

#[test]
fn discards_write_zeroes_and_zone_commands_are_kept() {
    let mut tape = Tape::styled(Style { second: true, ..Style::default() });
    tape.q(1, DISCARD | WRITE, 0, 1 << 20).c(2, DISCARD | WRITE, 0, 1 << 20);
    tape.q(3, WRITE_ZEROES | WRITE, 8, 8).c(4, WRITE_ZEROES | WRITE, 8, 8);
    tape.q(5, 1 << 17 | WRITE, 16, 0);
    let (requests, _) = tape.read();
    let expected = [(Op::Discard, 0, 1 << 20), (Op::WriteZeroes, 8, 8), (Op::Zone, 16, 0)];
    assert_eq!(ops(&requests), expected);
    assert_eq!(times(&requests)[..2], [(0, Some(1)), (2, Some(1))]);
}

#[test]
fn passthrough_commands_are_counted_and_left_out() {
    let mut tape = Tape::new(0);
    tape.d(1, PASSTHROUGH, 0, 1).c(2, PASSTHROUGH, 0, 1).d(3, READ, 0, 8).c(4, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(requests.len(), 1);
    assert_eq!(header.losses.count_of("passthrough commands"), 1);
    assert_eq!(header.losses.iter().count(), 1);
}

#[test]
fn a_request_given_back_by_the_driver_and_issued_again_is_one_request() {
    let mut tape = Tape::new(0);
    tape.d(1, READ, 0, 8).event(2, kind::REQUEUE, READ, 0, 4096).d(3, READ, 0, 8);
    tape.c(9, READ, 0, 8).d(10, READ, 0, 8).c(12, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(8)), (9, Some(2))]);
    assert!(header.losses.is_empty());
}

#[test]
fn what_has_no_counterpart_is_unknown_and_counted() {
    let mut tape = Tape::new(0);
    tape.c(1, READ, 800, 8).q(2, READ, 0, 8).q(3, READ, 8, 8).c(4, READ, 8, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, None), (1, Some(1))]);
    assert_eq!(header.losses.count_of("requests without a completion"), 1);
    assert_eq!(header.losses.count_of("completions without a request"), 1);
}

#[test]
fn a_recording_without_completions_has_no_latencies_and_misses_none() {
    let mut tape = Tape::new(0);
    tape.q(2, READ, 0, 8).q(3, READ, 8, 8);
    let (requests, header) = tape.read();
    assert!(!header.columns.latency && header.losses.is_empty());
    assert_eq!(times(&requests), [(0, None), (1, None)]);
}

#[test]
fn a_request_does_not_wait_for_ever() {
    let mut tape = Tape::new(0);
    tape.q(0, READ, 0, 8);
    for at in 1..40 {
        tape.q(at * 1_000_000_000, READ, 8, 8).c(at * 1_000_000_000 + 500, READ, 8, 8);
    }
    tape.c(39_500_000_000, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(requests[0].latency, None);
    assert_eq!(requests.iter().filter(|request| request.latency.is_some()).count(), 39);
    assert_eq!(header.losses.count_of("requests without a completion"), 1);
    assert_eq!(header.losses.count_of("completions without a request"), 1);
}

#[test]
fn a_request_at_the_end_of_time_is_not_lost() {
    let mut tape = Tape::new(0);
    tape.c(1, READ, 8, 8).q(u64::MAX, READ, 0, 8);
    assert_eq!(times(&tape.read().0), [(0, None)]);
}

#[test]
fn requests_beyond_what_bytes_can_count_are_left_out_and_counted() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, u64::MAX, 8).q(2, READ, u64::MAX / 512, 8).q(3, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, None)]);
    assert_eq!(header.losses.count_of("requests beyond the last possible byte"), 2);
}

#[test]
fn a_short_request_within_a_long_one_in_flight_keeps_its_own_completion() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 1024).event(2, kind::SPLIT, READ, 0, 512 << 9);
    tape.d(3, READ, 0, 512).d(4, READ, 512, 512);
    tape.q(10, READ, 600, 8).d(11, READ, 600, 8);
    tape.c(50, READ, 512, 512).c(60, READ, 600, 8).c(90, READ, 0, 512);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(89)), (9, Some(50))]);
    assert_eq!(header.recording.unwrap().matching.unwrap().ambiguous, 0);
}

#[test]
fn what_cannot_be_told_apart_is_told_as_in_doubt() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 8).q(2, READ, 0, 8).d(3, READ, 0, 8).d(4, READ, 0, 8);
    tape.c(10, READ, 0, 8).c(20, READ, 0, 8).q(30, READ, 0, 8).d(31, READ, 0, 8).c(40, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(9)), (1, Some(18)), (29, Some(10))]);
    assert_eq!(header.recording.unwrap().matching.unwrap().ambiguous, 2);
}

#[test]
fn what_was_in_flight_when_events_were_lost_has_no_completion() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 0, 8).d(2, READ, 0, 8).q(3, READ, 8, 8);
    tape.sequence += 5;
    tape.c(1000, READ, 0, 8).d(1001, READ, 8, 8).c(1002, READ, 8, 8);
    tape.q(1100, READ, 16, 8).d(1101, READ, 16, 8).c(1110, READ, 16, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, None), (2, None), (1099, Some(10))]);
    assert_eq!(header.losses.count_of("requests without a completion"), 2);
}

#[test]
fn a_request_that_was_refused_and_tried_again_is_one_request() {
    let mut tape = Tape::new(0);
    tape.pid = 1000;
    tape.notice(0, 0, b"fio");
    tape.pid = 7;
    tape.notice(0, 0, b"kworker/1:1");
    // Refused, and queued again by the kernel's thread that dispatches throttled requests.
    tape.pid = 1000;
    tape.q(1, WRITE, 64, 16).refused(2, WRITE, 64, 16);
    tape.pid = 7;
    tape.q(500, WRITE, 64, 16).d(501, WRITE, 64, 16).c(600, WRITE, 64, 16);
    // Refused and never tried again; another of another process at the same place.
    tape.pid = 1000;
    tape.q(700, WRITE, 640, 16).refused(701, WRITE, 640, 16);
    tape.pid = 2000;
    tape.q(710, WRITE, 640, 16).d(711, WRITE, 640, 16).c(720, WRITE, 640, 16);
    // Refused, and asked anew by the same thread when the data may be there.
    tape.pid = 1000;
    tape.q(1_000_000, READ, 8, 8).refused(1_000_001, READ, 8, 8);
    tape.q(1_500_000, READ, 8, 8).d(1_500_001, READ, 8, 8).c(1_500_010, READ, 8, 8);
    tape.q(2_000_000, READ, 8, 8).refused(2_000_001, READ, 8, 8);
    tape.q(22_000_000, READ, 8, 8).d(22_000_001, READ, 8, 8).c(22_000_010, READ, 8, 8);
    let (requests, header) = tape.read();
    let told = [(0, Some(599)), (709, Some(10)), (999_999, Some(500_010)), (21_999_999, Some(10))];
    assert_eq!(times(&requests), told);
    assert_eq!(header.imported.as_ref().unwrap().requests, 4);
    assert_eq!(header.losses.count_of("requests without a completion"), 0);
    let count = |part: &str| {
        header.losses.iter().filter(|note| note.what.contains(part)).map(|note| note.count).sum()
    };
    let counts: [u64; 2] = [count("second attempts"), count("were refused")];
    assert_eq!(counts, [2, 2]);
}

#[test]
fn a_refused_request_of_a_device_without_requests_is_tried_again_too() {
    let mut tape = Tape::new(0);
    for (pid, name) in [(1000, &b"fio"[..]), (1001, b"iou-wrk-1000")] {
        tape.pid = pid;
        tape.notice(0, 0, name);
    }
    tape.pid = 1000;
    tape.q(1, READ, 0, 8).refused(2, READ, 0, 8);
    tape.pid = 1001;
    tape.q(30, READ, 0, 8).c(50, READ, 0, 8);
    let (requests, header) = tape.read();
    assert_eq!(times(&requests), [(0, Some(49))]);
    assert_eq!(header.recording.unwrap().matching.unwrap().failed, 0);
}
