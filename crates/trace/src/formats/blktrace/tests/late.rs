//! Completions of requests that nobody waits for any more, and of requests that nobody saw.
//!
//! A completion has only a place. One that comes when its request was given up, or whose request
//! was never recorded, ends another request at that place, which must then be in doubt.

use super::super::matching::Matching;
use super::super::record::category::{FLUSH, READ, WRITE};
use super::super::testing::Tape;
use super::bounded::{SECOND, end_at, read_at, row};

/// A place, and others at which nothing else happens.
const PLACE: u64 = 1 << 30;

fn queue(matching: &mut Matching, time: u64, offset: u64) {
    matching.at(time);
    matching.push(read_at(time, offset), false);
}

fn serve(matching: &mut Matching, time: u64, offset: u64) {
    queue(matching, time, offset);
    matching.hand_over(&end_at(time, offset));
}

fn end(matching: &mut Matching, time: u64, offset: u64) -> bool {
    matching.at(time);
    matching.complete(&end_at(time, offset), true)
}

/// The last of the requests that may be given out: the instant of its completion, and whether it is
/// in doubt.
fn last(matching: &mut Matching, now: u64) -> (Option<u64>, bool) {
    let mut last = None;
    while let Some((row, is_unmatched)) = matching.pop(Some(now)) {
        last = Some(((!is_unmatched).then_some(row.completed), row.in_doubt));
    }
    last.expect("a request is given out")
}

#[test]
fn what_a_second_gap_gave_up_is_not_forgotten_with_what_the_first_did() {
    let mut matching = Matching::default();
    serve(&mut matching, 1, 0);
    matching.lose(10);
    serve(&mut matching, 11, 4096);
    serve(&mut matching, 28 * SECOND, PLACE);
    matching.lose(32 * SECOND);
    queue(&mut matching, 31 * SECOND, 8192);
    serve(&mut matching, 32 * SECOND + 100, PLACE);
    assert!(end(&mut matching, 32 * SECOND + 200, PLACE));
    assert_eq!(last(&mut matching, 32 * SECOND + 200), (Some(32 * SECOND + 200), true));
}

#[test]
fn a_completion_that_comes_after_its_request_was_given_up_may_end_another() {
    let mut matching = Matching::default();
    serve(&mut matching, 0, PLACE);
    assert_eq!(last(&mut matching, 31 * SECOND), (None, false));
    serve(&mut matching, 34 * SECOND, PLACE);
    assert!(end(&mut matching, 35 * SECOND, PLACE));
    assert_eq!(last(&mut matching, 35 * SECOND), (Some(35 * SECOND), true));
    // The other's own completion is the one too many: nothing else is to come.
    assert!(!end(&mut matching, 36 * SECOND, PLACE));
    serve(&mut matching, 37 * SECOND, PLACE);
    assert!(end(&mut matching, 38 * SECOND, PLACE));
    assert_eq!(last(&mut matching, 38 * SECOND), (Some(38 * SECOND), false));
}

#[test]
fn a_completion_that_comes_after_its_merged_request_was_given_up_leaves_nothing_behind() {
    let mut matching = Matching::default();
    for part in 0..2 {
        queue(&mut matching, 0, PLACE + part * 4096);
    }
    let merged = |time| super::super::matching::Completion { bytes: 8192, ..end_at(time, PLACE) };
    matching.hand_over(&merged(1));
    assert_eq!(last(&mut matching, 31 * SECOND), (None, false));
    assert!(!matching.complete(&merged(32 * SECOND), true));
    serve(&mut matching, 33 * SECOND, PLACE + 4096);
    assert!(end(&mut matching, 34 * SECOND, PLACE + 4096));
    assert_eq!(last(&mut matching, 34 * SECOND), (Some(34 * SECOND), false));
}

#[test]
fn of_too_many_that_wait_without_a_driver_those_given_up_may_be_completed_yet() {
    let mut matching = Matching::default();
    for number in 0..70_000 {
        matching.push(read_at(number, number << 12), false);
    }
    assert_eq!(last(&mut matching, 70_000), (None, false));
    matching.push(read_at(80_000, 0), false);
    assert!(matching.complete(&end_at(80_001, 0), false));
    let mut all = Vec::new();
    while let Some((row, _)) = matching.pop(None) {
        all.push(row);
    }
    let again = all.last().unwrap();
    assert_eq!((again.completed, again.in_doubt), (80_001, true));
}

#[test]
fn very_many_that_were_given_up_put_everything_into_doubt_for_a_while() {
    let mut matching = Matching::default();
    for number in 0..20_000 {
        serve(&mut matching, number, number << 12);
    }
    assert_eq!(last(&mut matching, 31 * SECOND), (None, false));
    serve(&mut matching, 32 * SECOND, 19_999 << 12);
    assert!(end(&mut matching, 33 * SECOND, 19_999 << 12));
    assert_eq!(last(&mut matching, 33 * SECOND), (Some(33 * SECOND), true));
    serve(&mut matching, 70 * SECOND, 19_999 << 12);
    assert!(end(&mut matching, 71 * SECOND, 19_999 << 12));
    assert_eq!(last(&mut matching, 71 * SECOND), (Some(71 * SECOND), false));
}

#[test]
fn a_flush_that_was_given_up_may_be_completed_yet() {
    let flush = |time| row(time, WRITE | FLUSH, 0, 0);
    let mut matching = Matching::default();
    matching.push(flush(0), false);
    matching.lose(10);
    matching.at(11);
    matching.push(flush(12), false);
    matching.complete_flush(0, 0, 13);
    assert_eq!(last(&mut matching, 13), (Some(13), true));
    // The completion of one or the other; then nothing is to come.
    matching.complete_flush(0, 0, 14);
    matching.push(flush(15), false);
    matching.complete_flush(0, 0, 16);
    assert_eq!(last(&mut matching, 16), (Some(16), false));
}

/// The matching's figures of a tape: known latencies, and those in doubt.
fn known_and_doubtful(tape: &Tape) -> (u64, u64) {
    let matching = tape.read().1.recording.unwrap().matching.unwrap();
    (matching.exact + matching.by_pieces, matching.ambiguous)
}

#[test]
fn what_was_in_flight_before_the_recording_may_end_another() {
    // The first completion is that of a read that was in flight when the recording began.
    let mut tape = Tape::new(0);
    tape.q(10, READ, 0, 8).d(11, READ, 0, 8).c(15, READ, 0, 8).q(16, READ, 64, 8);
    tape.d(17, READ, 64, 8).c(18, READ, 64, 8).c(20, READ, 0, 8);
    assert_eq!(known_and_doubtful(&tape), (2, 1));
    // Much later than any that was in flight then, one that nobody issued says nothing.
    let mut tape = Tape::new(0);
    tape.q(1, READ, 64, 8).d(1, READ, 64, 8).c(2, READ, 64, 8);
    let late = 40 * SECOND;
    tape.q(late, READ, 0, 8).d(late + 1, READ, 0, 8).c(late + 5, READ, 0, 8);
    tape.c(late + 10, READ, 0, 8);
    assert_eq!(known_and_doubtful(&tape), (2, 0));
}

#[test]
fn what_came_to_the_driver_in_a_gap_may_end_another() {
    let mut tape = Tape::new(0);
    tape.q(1, READ, 64, 8).d(1, READ, 64, 8).c(2, READ, 64, 8);
    tape.q(40 * SECOND, READ, 64, 8);
    tape.sequence += 2;
    let after = 41 * SECOND;
    tape.q(after, READ, 64, 8).d(after + 1, READ, 64, 8).c(after + 2, READ, 64, 8);
    tape.q(after + 10, READ, 0, 8).d(after + 11, READ, 0, 8).c(after + 15, READ, 0, 8);
    tape.c(after + 20, READ, 0, 8);
    let (known, doubtful) = known_and_doubtful(&tape);
    assert_eq!((known, doubtful), (2, 1));
}

#[test]
fn what_was_taken_for_another_on_its_way_to_the_driver_is_in_doubt() {
    // The first hand-over is of a read that was queued before the recording. The second read is
    // merged with a neighbour, and one of both was gone.
    let mut tape = Tape::new(0);
    tape.q(10, READ, 0, 8).d(11, READ, 0, 8).c(15, READ, 0, 8);
    tape.q(16, READ, 8, 8).d(17, READ, 0, 16).c(25, READ, 0, 16);
    assert_eq!(known_and_doubtful(&tape), (2, 2));
}

#[test]
fn what_the_reader_has_no_room_for_may_end_another() {
    let mut matching = Matching::default();
    // Requests of the driver that were queued before the recording.
    for number in 0..(1 << 18) + 2000 {
        matching.hand_over(&end_at(number, number << 12));
    }
    let place = 1 << 40;
    for time in [300_000, 300_001] {
        matching.push(read_at(time, place), false);
        matching.hand_over(&end_at(time, place));
    }
    assert_eq!(last(&mut matching, 300_001).0, None, "given up at once");
    // Later there is room again.
    let now = 31 * SECOND;
    for number in 0..2000 {
        matching.hand_over(&end_at(now, (1 << 41) + (number << 12)));
    }
    matching.push(read_at(now, place), false);
    matching.hand_over(&end_at(now, place));
    assert!(matching.complete(&end_at(now + 1, place), true));
    assert_eq!(last(&mut matching, now + 1), (Some(now + 1), true));
}
