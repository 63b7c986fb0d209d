//! Memory is bounded, even if expected events never come.

use super::super::classify::{Class, classify};
use super::super::matching::{Completion, Matching};
use super::super::record::category::{FLUSH, READ, WRITE};
use super::super::record::{Event, kind};
use super::super::row::Row;
use crate::request::Flags;

pub(super) const SECOND: u64 = 1_000_000_000;

/// A request of these categories at an instant.
pub(super) fn row(time: u64, categories: u32, offset: u64, bytes: u32) -> Row {
    let event = Event { time, categories, kind: kind::QUEUE, bytes, pid: 1, ..Event::default() };
    let meaning = classify(&event).unwrap();
    Row::new(&event, meaning.op, meaning.class, meaning.flags, 0, offset)
}

pub(super) fn read_at(time: u64, offset: u64) -> Row {
    row(time, READ, offset, 4096)
}

/// The completion of a read, or its refusal.
pub(super) fn end_at(time: u64, offset: u64) -> Completion {
    let (class, flags) = (Class::Read, Flags::empty());
    Completion { time, volume: 0, class, offset, bytes: 4096, flags, pid: 1, failed: false }
}

#[test]
fn what_the_driver_never_completes_is_forgotten_and_puts_nothing_into_doubt() {
    let mut matching = Matching::default();
    for second in 0..200 {
        let now = second * SECOND;
        // A read that is never completed, at a place of its own or at one place for all.
        matching.push(read_at(now, if second % 2 == 0 { 0 } else { second << 12 }), true);
        while matching.pop(Some(now)).is_some() {}
        assert!(matching.held()[0] <= 31, "{:?} after {second} s", matching.held());
    }
    let now = 300 * SECOND;
    while matching.pop(Some(now)).is_some() {}
    matching.push(read_at(now, 0), true);
    assert!(matching.complete(&end_at(now + 1, 0), true));
    let (row, is_unmatched) = matching.pop(Some(now + 1)).unwrap();
    assert_eq!((row.completed, is_unmatched, row.in_doubt), (now + 1, false, false));
    assert_eq!(matching.held(), [0, 0, 0]);
    assert_eq!((matching.figures().unmatched, matching.figures().ambiguous), (200, 0));
}

#[test]
fn flushes_in_flight_together_are_in_doubt_and_leave_nothing_behind() {
    let mut matching = Matching::default();
    let flush = |time| row(time, WRITE | FLUSH, 0, 0);
    matching.push(flush(0), false);
    for time in 1..10_000 {
        matching.push(flush(time), false);
        matching.complete_flush(0, 0, time);
        let (row, is_unmatched) = matching.pop(Some(time)).unwrap();
        assert!(row.in_doubt && !is_unmatched);
    }
    assert_eq!(matching.held(), [0, 0, 0]);
}

#[test]
fn no_more_of_the_driver_is_remembered_than_there_is_room() {
    let mut matching = Matching::default();
    for number in 0..(1 << 18) + 5000 {
        matching.push(read_at(number, number << 12), true);
    }
    assert!((250_000..=1 << 18).contains(&matching.held()[0]), "{:?}", matching.held());
}

#[test]
fn of_many_at_one_place_none_is_told_without_doubt() {
    let mut matching = Matching::default();
    for time in 0..500 {
        matching.push(read_at(time, 0), true);
    }
    for time in 500..1000 {
        assert!(matching.complete(&end_at(time, 0), true));
    }
    while let Some((row, is_unmatched)) = matching.pop(None) {
        assert!(row.in_doubt && !is_unmatched, "{row:?}");
    }
    assert_eq!(matching.figures().ambiguous, 500);
}

#[test]
fn what_was_refused_and_never_tried_again_is_forgotten() {
    let mut matching = Matching::default();
    for number in 0..3000 {
        let now = number * SECOND / 10;
        matching.push(read_at(now, number << 12), false);
        assert!(matching.refuse(&end_at(now, number << 12)));
        while matching.pop(Some(now)).is_some() {}
        assert!(matching.held()[2] <= 302, "{:?}", matching.held());
    }
    // The last one is tried again now, the first one too late.
    let now = 2999 * SECOND / 10 + 500;
    assert!(!matching.is_second_attempt(&read_at(now, 0), None));
    assert!(matching.is_second_attempt(&read_at(now, 2999 << 12), None));
}
