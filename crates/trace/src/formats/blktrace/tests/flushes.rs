//! Flushes, and writes that the kernel takes apart, end with their own completion.

use super::super::record::category::{FLUSH, FUA, READ, SYNC, WRITE};
use super::super::testing::Tape;
use super::bounded::SECOND;
use super::times;

const MACHINERY: u32 = FLUSH | READ;
const FLUSH_BITS: u32 = FLUSH | WRITE | SYNC;

/// Reads every tenth of a second, so that the reader sees how much time went by. They go from one
/// instant to another.
fn pass(tape: &mut Tape, from: u64, to: u64) {
    let mut time = from;
    while time < to {
        tape.q(time, READ, 10_000, 8).d(time, READ, 10_000, 8).c(time + 1, READ, 10_000, 8);
        time += SECOND / 10;
    }
}

/// The latencies of what is not a read, and the number of doubtful ones.
fn told(tape: &Tape) -> (Vec<Option<i64>>, u64) {
    let (mut requests, header) = tape.read();
    requests.retain(|request| request.op != crate::request::Op::Read);
    let latencies = times(&requests).into_iter().map(|(_, latency)| latency).collect();
    (latencies, header.recording.unwrap().matching.unwrap().ambiguous)
}

#[test]
fn a_write_waits_for_the_flush_after_its_data_however_long_it_takes() {
    let end = 3 * SECOND / 2;
    for is_reported in [true, false] {
        let mut tape = Tape::new(0);
        tape.q(0, FUA | WRITE, 100, 8).d(2, WRITE, 100, 8).c(20, WRITE, 100, 8);
        tape.d(21, MACHINERY, 0, 0);
        pass(&mut tape, 30, end);
        tape.c(end, MACHINERY, 0, 0);
        let expected = if is_reported { end + 1 } else { end };
        if is_reported {
            tape.c(end + 1, WRITE, 100, 0);
        }
        pass(&mut tape, end + 10, 4 * SECOND);
        assert_eq!(told(&tape), (vec![Some(expected as i64)], 0));
    }
}

#[test]
fn a_write_whose_last_flush_is_not_recorded_is_in_doubt() {
    let mut tape = Tape::new(0);
    tape.q(0, FUA | WRITE, 100, 8).d(2, WRITE, 100, 8).c(20, WRITE, 100, 8);
    pass(&mut tape, 30, 3 * SECOND);
    assert_eq!(told(&tape), (vec![Some(20)], 1));
    // A write that asks only for a flush before its data is complete with its data.
    let mut tape = Tape::new(0);
    tape.q(0, FLUSH | FUA | WRITE, 100, 8).d(2, FUA | WRITE, 100, 8).c(20, FUA | WRITE, 100, 8);
    pass(&mut tape, 30, 3 * SECOND);
    assert_eq!(told(&tape), (vec![Some(20)], 0));
}

#[test]
fn more_writes_than_are_remembered_are_in_doubt() {
    let mut tape = Tape::new(0);
    for number in 0..300 {
        let place = 1000 + 8 * number;
        tape.q(number, FUA | WRITE, place, 8).d(number, WRITE, place, 8);
    }
    for number in 0..300 {
        tape.c(1000 + number, WRITE, 1000 + 8 * number, 8);
    }
    for number in 0..300 {
        tape.c(2000 + number, WRITE, 1000 + 8 * number, 0);
    }
    let (latencies, doubtful) = told(&tape);
    assert_eq!((latencies.len(), doubtful), (300, 300 - 256));
    assert!(latencies[44..].iter().all(|latency| *latency == Some(2000)));
}

#[test]
fn neighbouring_writes_end_each_with_its_own_completion() {
    // Two records of a journal side by side; the second ends first. A write before them shows
    // where this kernel reports ends.
    for behind in [0, 8] {
        let mut tape = Tape::new(0);
        tape.q(0, FUA | WRITE, 500, 8).d(1, WRITE, 500, 8).c(2, WRITE, 500, 8);
        tape.c(3, WRITE, 500 + behind, 0);
        tape.q(10, FUA | WRITE, 100, 8).d(11, WRITE, 100, 8).c(12, WRITE, 100, 8);
        tape.q(20, FUA | WRITE, 108, 8).d(21, WRITE, 108, 8).c(22, WRITE, 108, 8);
        tape.c(30, WRITE, 108 + behind, 0).c(50, WRITE, 100 + behind, 0);
        assert_eq!(told(&tape), (vec![Some(3), Some(40), Some(10)], 0), "{behind}");
    }
    let mut tape = Tape::new(0);
    tape.q(10, FUA | WRITE, 100, 8).d(11, WRITE, 100, 8).c(12, WRITE, 100, 8);
    tape.q(20, FUA | WRITE, 108, 8).d(21, WRITE, 108, 8).c(22, WRITE, 108, 8);
    tape.c(30, WRITE, 108, 0).c(50, WRITE, 100, 0);
    assert_eq!(told(&tape), (vec![Some(40), Some(10)], 2));
}

#[test]
fn a_device_flush_completes_only_what_was_queued_before_it_began() {
    let (first, second) = (3 * SECOND / 2, 3 * SECOND);
    for is_reported in [true, false] {
        let mut tape = Tape::new(0);
        let end = |tape: &mut Tape, time| {
            tape.c(time, MACHINERY, 0, 0);
            if is_reported {
                tape.c(time + 1, WRITE | SYNC, 0, 0);
            }
        };
        tape.q(0, FLUSH_BITS, 0, 0).d(1, MACHINERY, 0, 0);
        pass(&mut tape, 10, SECOND);
        tape.q(SECOND, FLUSH_BITS, 0, 0);
        pass(&mut tape, SECOND + 10, first);
        end(&mut tape, first);
        tape.d(first + 2, MACHINERY, 0, 0);
        pass(&mut tape, first + 10, second);
        end(&mut tape, second);
        tape.q(second + 10, FLUSH_BITS, 0, 0).d(second + 11, MACHINERY, 0, 0);
        pass(&mut tape, second + 20, second + SECOND);
        end(&mut tape, second + SECOND);
        pass(&mut tape, second + SECOND + 20, second + 3 * SECOND);
        let late = i64::from(is_reported);
        let ends = [first, second - SECOND, SECOND - 10].map(|end| Some(end as i64 + late));
        let (latencies, doubtful) = told(&tape);
        assert_eq!(latencies, ends, "{is_reported}");
        // Where each has its own completion, two of them waited at once for the first.
        assert_eq!(doubtful, if is_reported { 2 } else { 0 });
    }
}

#[test]
fn of_two_device_flushes_at_once_nobody_knows_which_one_a_flush_waited_for() {
    let mut tape = Tape::new(0);
    tape.q(0, FLUSH_BITS, 0, 0).d(1, MACHINERY, 0, 0).q(2, FLUSH_BITS, 0, 0);
    tape.d(3, MACHINERY, 0, 0).c(10, MACHINERY, 0, 0).c(20, MACHINERY, 0, 0);
    pass(&mut tape, 30, 3 * SECOND);
    let (latencies, doubtful) = told(&tape);
    assert_eq!((latencies.len(), doubtful), (2, 2));
}
