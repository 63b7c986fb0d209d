//! Properties of the comparison, on sides made for them.

use ioecho_trace::{Bytes, LateCause, Nanos, Op, Outcome, Request, TraceError};
use proptest::prelude::*;

use super::*;

fn event(at: i64, offset: u64) -> Event {
    let request = Request::new(Nanos(at), Op::Read, Bytes(offset * 4096), Bytes(4096));
    Event { latency: Some(50), ..Event::of_trace(&request) }
}

/// A load without two requests to one place.
fn load(count: u64) -> Vec<Event> {
    (0..count).map(|n| event(n as i64 * 1000, n * 7)).collect()
}

fn compared(asked: &[Event], seen: &[Event], settings: &Settings) -> FidelityFigures {
    blinded(asked, seen, settings, &Blind::default())
}

fn blinded(asked: &[Event], seen: &[Event], settings: &Settings, blind: &Blind) -> FidelityFigures {
    compare(side(asked), side(seen), settings, &mut |_| {}).unwrap().figures(blind)
}

fn side(events: &[Event]) -> impl Iterator<Item = Result<Event, TraceError>> {
    events.iter().copied().map(Ok)
}

fn of(asked: &[Event], seen: &[Event]) -> FidelityFigures {
    compared(asked, seen, &Settings::default())
}

#[test]
fn a_recording_is_true_to_itself() {
    let load = load(1000);
    let found = of(&load, &load);
    assert_eq!(
        (found.found, found.missing, found.extra, found.order.clone().unwrap().reordered),
        (1000, 0, 0, 0)
    );
    let issue = found.issue.clone().unwrap();
    assert_eq!((issue.max_ns, found.shift_ns, found.inter_arrival_ks), (0, Some(0), Some(0.0)));
    assert_eq!((found.duration_error, found.response_mean_error), (Some(0.0), Some(0.0)));
    assert!(assess(&found, &Limits::default(), true).faithful);
}

#[test]
fn a_recording_by_another_clock_is_true_all_the_same() {
    let asked = load(1000);
    let seen: Vec<Event> =
        asked.iter().map(|event| Event { at: event.at + 123_456_789, ..*event }).collect();
    let found = of(&asked, &seen);
    assert_eq!((found.shift_ns, found.issue.unwrap().max_ns), (Some(123_456_789), 0));
    let absolute = compared(&asked, &seen, &Settings { absolute: true, ..Settings::default() });
    let assessment = assess(&absolute, &Limits::default(), true);
    assert_eq!(assessment.broken[0].limit, Quantity::Shift, "{assessment:?}");
}

#[test]
fn dropped_requests_are_missing_and_those_of_others_extra() {
    let asked = load(1000);
    let mut seen: Vec<Event> = asked.clone();
    seen.retain(|event| event.at % 10_000 != 3000);
    seen.push(Event { pid: Some(77), ..event(1_200_000, 3) });
    let found = of(&asked, &seen);
    assert_eq!((found.missing, found.extra, found.extra_outside), (100, 1, 1));
    assert_eq!(found.extra_by_process, [(77, 1)]);
    assert_eq!(found.first_missing[0].at_ns, 3000);
    assert_eq!(found.issue.clone().unwrap().max_ns, 0);
    let assessment = assess(&found, &Limits::default(), true);
    assert_eq!(assessment.reasons, [Reason::MissingRequests]);
    let excused = Limits::with(&["missing=10%".parse().unwrap()]);
    assert!(assess(&found, &excused, true).faithful);
}

#[test]
fn a_look_at_the_device_before_the_start_is_not_taken_for_a_request() {
    // All requests go to one place, and somebody read that place before.
    let asked: Vec<Event> = (0..100).map(|n| event(n * 1000, 0)).collect();
    let mut seen = vec![event(-500_000, 0)];
    seen.extend(asked.iter().copied());
    // What has a place of its own tells how far apart the clocks are.
    let beside = event(100_000, 99);
    let found = of(&[&asked[..], &[beside]].concat(), &[&seen[..], &[beside]].concat());
    assert_eq!((found.extra, found.missing, found.issue.unwrap().max_ns), (1, 0, 0));
}

#[test]
fn a_look_before_the_start_does_not_stand_for_a_request_that_was_dropped() {
    let asked: Vec<Event> = (0..100).map(|n| event(n * 1_000_000, n as u64)).collect();
    // Somebody reads every tenth place half a second before, and the replay leaves these out.
    let mut seen: Vec<Event> = asked.iter().step_by(10).copied().collect();
    for event in &mut seen {
        event.at -= 500_000_000 + event.at / 2;
    }
    seen.reverse();
    seen.extend(asked.iter().copied().filter(|event| event.at % 10_000_000 != 0));
    for absolute in [false, true] {
        let found = compared(&asked, &seen, &Settings { absolute, ..Settings::default() });
        assert_eq!((found.missing, found.extra, found.extra_outside), (10, 10, 10));
        assert_eq!((found.order.clone().unwrap().reordered, found.issue.unwrap().max_ns), (0, 0));
    }
}

#[test]
fn swapped_neighbours_are_reordered_by_one() {
    let asked = load(100);
    let mut seen = asked.clone();
    for pair in seen.chunks_mut(2) {
        let (first, second) = (pair[0].at, pair[1].at);
        pair.swap(0, 1);
        (pair[0].at, pair[1].at) = (first, second);
    }
    let found = of(&asked, &seen);
    assert_eq!(
        (found.order.clone().unwrap().reordered, found.order.clone().unwrap().extent_max),
        (50, 1)
    );
    assert!((found.order.clone().unwrap().ratio - 0.5).abs() < 1e-12);
    let strict = Limits::with(&["reordered=0.1%".parse().unwrap()]);
    assert_eq!(assess(&found, &strict, true).reasons[0], Reason::Reordered);
}

#[test]
fn pieces_and_unions_are_neither_missing_nor_extra() {
    let long = Event { length: 8192, ..event(0, 0) };
    let pieces = [event(10, 0), Event { latency: Some(500), ..event(20, 1) }];
    let found = of(&[long], &pieces);
    assert_eq!((found.found, found.split, found.pieces), (1, 1, 2));
    assert_eq!((found.missing, found.extra), (0, 0));
    assert_eq!(found.seen.response_mean_ns, Some(510.0));
    let found = of(&pieces, &[long]);
    assert_eq!((found.found, found.merged, found.unions), (2, 2, 1));
    assert_eq!((found.missing, found.extra, found.seen.without_completion), (0, 0, 0));
}

#[test]
fn a_stopped_generator_leaves_the_device_idle_and_a_slow_device_does_not() {
    let asked = load(1000);
    let late = |latency: i64| -> Vec<Event> {
        let stop = |event: &Event| (300_000..400_000).contains(&event.at);
        let events = asked.iter().map(|event| Event {
            at: if stop(event) { 400_000 + event.at % 100 } else { event.at },
            latency: Some(latency),
            ..*event
        });
        let mut events: Vec<Event> = events.collect();
        events.sort_by_key(|event| event.at);
        events
    };
    let settings = Settings { late_ns: 1000, ..Settings::default() };
    let limits = Limits::with(&["issue-p99=1us".parse().unwrap()]);
    let reasons =
        |seen: &[Event]| assess(&compared(&asked, seen, &settings), &limits, true).reasons;
    assert_eq!(reasons(&late(50)), [Reason::Stalled]);
    assert_eq!(reasons(&late(200_000)), [Reason::LateWhileBusy]);
}

#[test]
fn what_is_cut_into_windows_is_found_as_in_one() {
    let asked: Vec<Event> = (0..5000).map(|n| event(n * 1000, (n as u64 * 37) % 11)).collect();
    let mut seen: Vec<Event> =
        asked.iter().map(|event| Event { at: event.at + event.at % 7919, ..*event }).collect();
    seen.sort_by_key(|event| event.at);
    let whole = of(&asked, &seen);
    for window in [200, 501, 4096] {
        let cut = compared(&asked, &seen, &Settings { window, ..Settings::default() });
        assert!(cut.windowed);
        assert_eq!(FidelityFigures { windowed: false, ..cut }, whole, "window {window}");
    }
}

#[test]
fn empty_sides_and_the_ends_of_time_do_no_harm() {
    assert_eq!(of(&[], &[]).found, 0);
    assert_eq!(of(&load(3), &[]).missing, 3);
    assert_eq!(of(&[], &load(3)).extra, 3);
    let far =
        |at| Event { offset: u64::MAX, length: u64::MAX, latency: Some(i64::MAX), ..event(at, 0) };
    let found = of(&[far(i64::MIN), far(0)], &[far(0), far(i64::MAX)]);
    assert_eq!(found.found, 2);
    // All at one instant, in a window that holds a few.
    let same: Vec<Event> = (0..50).map(|n| event(0, n)).collect();
    let found = compared(&same, &same, &Settings { window: 4, ..Settings::default() });
    assert_eq!(found.found + found.missing, 50);
}

proptest! {
    #[test]
    fn every_request_is_found_missing_or_extra_exactly_once(
        asked in proptest::collection::vec((-50_i64..5000, 0_u64..6, 0_u64..4), 0..60),
        seen in proptest::collection::vec((-50_i64..5000, 0_u64..6, 0_u64..4), 0..60),
        window in 2_usize..80,
    ) {
        let made = |rows: &[(i64, u64, u64)]| -> Vec<Event> {
            let made =
                |row: &(i64, u64, u64)| Event { length: row.2 * 4096, ..event(row.0, row.1) };
            let mut events: Vec<Event> = rows.iter().map(made).collect();
            events.sort_by_key(|event| event.at);
            events
        };
        let (asked, seen) = (made(&asked), made(&seen));
        let settings = Settings { window, ..Settings::default() };
        let found = compared(&asked, &seen, &settings);
        prop_assert_eq!(found.found + found.missing, asked.len() as u64);
        let whole = found.found - found.split - found.merged;
        prop_assert_eq!(whole + found.pieces + found.unions + found.extra, seen.len() as u64);
        prop_assert_eq!(found.seen.requests, found.found);
    }
}

#[test]
fn a_flush_that_a_write_asked_for_is_nobody_elses_and_begins_the_write() {
    let write = |at: i64, offset: u64| Event { op: Op::Write, ..event(at, offset) };
    let flush = |at: i64| Event { op: Op::Flush, length: 0, offset: 0, ..event(at, 0) };
    let asked = [
        Event { implied: true, ..flush(1000) },
        write(1000, 1),
        flush(5000),
        Event { implied: true, ..flush(9000) },
        write(9000, 2),
    ];
    // Of the last write the kernel ended the flush itself, and nobody saw it.
    let seen = [flush(1010), write(3000, 1), flush(5010), write(9010, 2)];
    let found = compared(&asked, &seen, &Settings { absolute: true, ..Settings::default() });
    assert_eq!((found.asked.requests, found.found), (3, 3));
    assert_eq!((found.missing, found.extra, found.order.clone().unwrap().reordered), (0, 0, 0));
    let issue = found.issue.unwrap();
    assert_eq!((issue.earliest_ns, issue.latest_ns), (0, 0));
    // From the flush to the write's end: 2040 ns, and 50 ns of the others.
    assert_eq!(found.seen.response_mean_ns, Some((2040.0 + 50.0 + 50.0) / 3.0));
}

#[test]
fn requests_to_different_devices_have_no_order() {
    let asked = [event(0, 1), Event { target: 1, ..event(10, 2) }, event(20, 3)];
    let seen = [Event { at: 5000, ..asked[0] }, Event { at: 10, ..asked[1] }];
    let seen = [seen[1], seen[0], Event { at: 5020, ..asked[2] }];
    assert_eq!(of(&asked, &seen).order.unwrap().reordered, 0);
}

#[test]
fn what_was_never_issued_takes_nobody_elses_counterpart() {
    let engine = |outcome| {
        let (submitted, completed, cause) = (Some(0), Some(1), LateCause::None);
        Some(Engine { submitted, completed, outcome, cause, pushed_back: false })
    };
    let asked = [
        Event { engine: engine(Outcome::Dropped), ..event(0, 1) },
        Event { engine: engine(Outcome::Ok), ..event(1000, 1) },
    ];
    let seen = [event(1010, 1)];
    let found = compared(&asked, &seen, &Settings { absolute: true, ..Settings::default() });
    assert_eq!((found.found, found.missing, found.extra), (1, 1, 0));
    assert_eq!(found.issue.unwrap().latest_ns, 0);
}

/// Requests of a second, every millisecond, to places of their own.
fn calm() -> Vec<Event> {
    (0..10_000).map(|n| event(n * 1_000_000, n as u64)).collect()
}

#[test]
fn what_lies_behind_the_end_of_a_recording_that_broke_off_was_not_witnessed() {
    let asked = calm();
    let mut seen = asked[..6000].to_vec();
    // One that is really missing, long before the end, and one that is so close to it that some
    // processor may have had it.
    seen.remove(5_990);
    seen.remove(100);
    let cut = Blind { ends_early: true, ..Blind::default() };
    for window in [1 << 19, 3000, 500] {
        for absolute in [true, false] {
            let settings = Settings { window, absolute, ..Settings::default() };
            let found = blinded(&asked, &seen, &settings, &cut);
            assert_eq!((found.found, found.missing, found.not_witnessed), (5998, 1, 4001));
            assert_eq!((found.first_missing.len(), found.first_missing[0].at_ns), (1, 100_000_000));
            assert!(found.duration_error.unwrap().abs() < 1e-9, "{:?}", found.duration_error);
            assert_eq!(found.execution_error, None);
            let excused = Limits::with(&["missing=1".parse().unwrap()]);
            assert!(assess(&found, &excused, true).faithful);
            // The same recording, asked to end then: all of that never reached the device.
            let whole = blinded(&asked, &seen, &settings, &Blind::default());
            assert_eq!((whole.missing, whole.not_witnessed), (4002, 0));
        }
    }
}

#[test]
fn what_lies_in_a_gap_was_not_witnessed_and_what_lies_beside_it_is_missing() {
    let asked = calm();
    let in_gap = |event: &Event| (2_000_000_000..3_000_000_000).contains(&event.at);
    let seen: Vec<Event> =
        asked.iter().copied().filter(|event| !in_gap(event) && event.at != 7_000_000_000).collect();
    let far = 5_000_000_000_000;
    let later: Vec<Event> = seen.iter().map(|one| Event { at: one.at + far, ..*one }).collect();
    let gap = |by: i64| {
        let gap = (1_999_500_000 + by, 2_999_500_000 + by);
        Blind::default().with_gaps(vec![gap])
    };
    for window in [1 << 19, 700] {
        let settings = Settings { window, ..Settings::default() };
        let absolute = Settings { absolute: true, ..settings.clone() };
        let same = blinded(&asked, &seen, &absolute, &gap(0));
        let other = blinded(&asked, &later, &settings, &gap(far));
        for found in [same, other] {
            assert_eq!((found.missing, found.not_witnessed), (1, 1000));
            assert_eq!(found.first_missing[0].at_ns, 7_000_000_000);
            assert_eq!((found.found, found.asked.requests), (8999, 10_000));
        }
    }
}

#[test]
fn a_gap_hides_also_what_lies_behind_the_last_that_was_seen() {
    let asked = calm();
    let gap = |to| Blind::default().with_gaps(vec![(5_999_500_000, to)]);
    for absolute in [true, false] {
        let settings = Settings { absolute, ..Settings::default() };
        let to_the_end = blinded(&asked, &asked[..6000], &settings, &gap(11_000_000_000));
        assert_eq!((to_the_end.missing, to_the_end.not_witnessed), (0, 4000));
        let before_it = blinded(&asked, &asked[..6000], &settings, &gap(7_999_500_000));
        assert_eq!((before_it.missing, before_it.not_witnessed), (2000, 2000));
        assert_eq!(before_it.first_missing[0].at_ns, 8_000_000_000);
    }
}

#[test]
fn a_lost_event_hides_one_request_however_long_its_gap_is() {
    let asked = calm();
    let in_gap = |event: &Event| (2_000_000_000..3_000_000_000).contains(&event.at);
    let seen: Vec<Event> = asked.iter().copied().filter(|event| !in_gap(event)).collect();
    let of = |most| {
        let gap = Blind::default().with_gaps(vec![(2_000_000_000, 3_000_000_000)]);
        blinded(&asked, &seen, &Settings::default(), &Blind { most, ..gap })
    };
    let found = of(Some(3));
    assert_eq!((found.missing, found.not_witnessed), (997, 3));
    assert_eq!(found.first_missing.len(), 5);
    assert!(!assess(&found, &Limits::default(), true).faithful);
    for most in [None, Some(1000), Some(u64::MAX)] {
        let found = of(most);
        assert_eq!((found.missing, found.not_witnessed), (0, 1000));
    }
}

#[test]
fn a_flush_in_a_gap_is_not_one_that_the_kernel_ended() {
    let flush = |at: i64| Event { op: Op::Flush, length: 0, offset: 0, ..event(at, 0) };
    let asked = [event(0, 1), flush(5_000_000_000), event(9_000_000_000, 2)];
    let seen = [asked[0], asked[2]];
    let found = of(&asked, &seen);
    assert_eq!((found.missing, found.flushes_ended_above), (1, 1));
    let gap = Blind::default().with_gaps(vec![(4_000_000_000, 6_000_000_000)]);
    let found = blinded(&asked, &seen, &Settings::default(), &gap);
    assert_eq!((found.missing, found.flushes_ended_above, found.not_witnessed), (0, 0, 1));
    // Nobody knows where events were lost.
    let anywhere = Blind { anywhere: 5, ..Blind::default() };
    let found = blinded(&asked, &seen[..1], &Settings::default(), &anywhere);
    assert_eq!((found.missing, found.not_witnessed), (0, 2));
}

#[test]
fn a_replay_that_stood_still_and_did_not_catch_up_is_told_as_that() {
    let asked = calm();
    let behind = |event: &Event| {
        [3_000_000_000, 6_500_000_000].iter().filter(|at| **at < event.at).count() as i64
            * 400_000_000
    };
    let seen: Vec<Event> =
        asked.iter().map(|one| Event { at: one.at + behind(one), ..*one }).collect();
    let found = of(&asked, &seen);
    let stalls = found.stalls.clone().unwrap();
    assert_eq!((stalls.stalls, stalls.longest_ns), (2, 400_000_000));
    assert_eq!(stalls.longest_at_ns, 3_000_000_000);
    assert!(found.drift_ppm.unwrap().abs() < 1e-6, "{:?}", found.drift_ppm);
    let assessment = assess(&found, &Limits::default(), true);
    assert_eq!(assessment.reasons, [Reason::Stalled]);
    let text = &assessment.broken[0].text;
    assert!(text.contains("2 times") && text.contains("after 3.000000 s"), "{text}");
}

#[test]
fn like_requests_of_a_run_belong_to_what_was_seen_between_hand_over_and_completion() {
    let engine = |submitted: i64, completed: i64| {
        let (submitted, completed) = (Some(submitted), Some(completed));
        let (outcome, cause) = (Outcome::Ok, LateCause::None);
        Some(Engine { submitted, completed, outcome, cause, pushed_back: false })
    };
    // The first had to wait, and was handed over behind the second.
    let asked = [
        Event { engine: engine(9_000_000, 9_000_100), ..event(0, 1) },
        Event { engine: engine(5_000_000, 5_000_100), ..event(1_000, 1) },
        Event { engine: engine(20_000_000, 20_000_100), ..event(20_000_000, 1) },
    ];
    let seen = [event(5_000_010, 1), event(9_000_010, 1), event(20_000_010, 1)];
    let absolute = Settings { absolute: true, ..Settings::default() };
    let found = compared(&asked, &seen, &absolute);
    let lag = found.submission_lag.unwrap();
    assert_eq!((lag.min_ns, lag.max_ns, found.impossible), (10, 10, 0));
    assert!(found.completion_lag.unwrap().min_ns >= 0);
    // The last one's event was lost, and somebody else looked there much later.
    let seen = [seen[0], seen[1], event(60_000_000, 1)];
    let found = compared(&asked, &seen, &absolute);
    assert_eq!((found.found, found.missing, found.extra), (2, 1, 1));
    // By a few microseconds only the pair stays, and no lag is made of it.
    let seen = [seen[0], seen[1], event(19_999_990, 1)];
    let found = compared(&asked, &seen, &absolute);
    assert_eq!((found.found, found.impossible), (3, 1));
    assert_eq!(found.submission_lag.unwrap().count, 2);
}

/// Neighbours that changed places, of which the engine says so of the one that came later.
fn swapped(cause: LateCause, pushed_back: bool) -> (Vec<Event>, Vec<Event>) {
    let engine = |at: i64| {
        let is_late = at % 10_000 == 0;
        let (submitted, completed) = (Some(at), Some(at + 5_000));
        let cause = if is_late { cause } else { LateCause::None };
        let pushed_back = is_late && pushed_back;
        Some(Engine { submitted, completed, outcome: Outcome::Ok, cause, pushed_back })
    };
    let asked: Vec<Event> =
        load(1000).iter().map(|one| Event { engine: engine(one.at), ..*one }).collect();
    let late = |one: &Event| Event {
        at: if one.at % 10_000 == 0 { one.at + 1_500 } else { one.at },
        engine: None,
        ..*one
    };
    let mut seen: Vec<Event> = asked.iter().map(late).collect();
    seen.sort_by_key(|one| one.at);
    (asked, seen)
}

#[test]
fn what_the_engine_held_back_for_the_device_is_a_finding_and_no_other_order() {
    for (cause, pushed_back) in [
        (LateCause::None, true),
        (LateCause::Conflict, true),
        (LateCause::Conflict, false),
        (LateCause::InFlightCap, false),
    ] {
        let (asked, seen) = swapped(cause, pushed_back);
        let found = compared(&asked, &seen, &Settings { absolute: true, ..Settings::default() });
        let order = found.order.clone().unwrap();
        assert_eq!((order.reordered, order.held_back, order.of_others()), (100, 100, 0));
        assert!((order.ratio - 0.1).abs() < 1e-12 && order.ratio_of_others() < 1e-12);
        assert_eq!(found.kinds["read"].reordered, Some(100));
        let assessment = assess(&found, &Limits::default(), true);
        assert!(assessment.faithful, "{assessment:?}");
        assert_eq!(assessment.findings, [Reason::DeviceLimited]);
        let lenient = Limits::with(&["reordered-apart=10%".parse().unwrap()]);
        assert!(assess(&found, &lenient, true).findings.is_empty());
    }
}

#[test]
fn what_came_in_another_order_without_being_held_back_is_the_replays() {
    for cause in [LateCause::None, LateCause::Submission, LateCause::Host, LateCause::Input] {
        let (asked, seen) = swapped(cause, false);
        let found = compared(&asked, &seen, &Settings { absolute: true, ..Settings::default() });
        let order = found.order.clone().unwrap();
        assert_eq!((order.reordered, order.held_back), (100, 0));
        let strict = Limits::with(&["reordered=0.1%".parse().unwrap()]);
        let assessment = assess(&found, &strict, true);
        assert_eq!(assessment.reasons, [Reason::Reordered]);
        assert!(assessment.findings.is_empty());
    }
}

#[test]
fn without_a_schedule_nothing_is_said_of_instants_and_their_order() {
    let (asked, seen) = swapped(LateCause::None, false);
    let seen: Vec<Event> =
        seen.iter().map(|one| Event { at: one.at + one.at / 7, ..*one }).collect();
    for absolute in [true, false] {
        let settings = Settings { absolute, has_schedule: false, ..Settings::default() };
        let found = compared(&asked, &seen, &settings);
        let of_issue = (&found.issue, &found.engine, &found.detrended, &found.issue_apart);
        assert_eq!(of_issue, (&None, &None, &None, &None));
        assert_eq!((&found.order, &found.late, &found.stalls), (&None, &None, &None));
        let shares = [found.duration_error, found.execution_error, found.drift_ppm];
        assert_eq!((shares, found.inter_arrival_ks), ([None; 3], None));
        assert_eq!((found.asked.span_ns, found.asked.in_flight_max), (None, None));
        let read = &found.kinds["read"];
        assert_eq!((&read.issue, &read.engine, read.reordered), (&None, &None, None));
        assert_eq!((found.found, found.missing, found.asked.requests), (1000, 0, 1000));
        assert!(found.seen.span_ns.is_some() && found.overhead.is_some());
        let all = Quantity::ALL.map(|one| format!("{}=0", one.name()).parse().unwrap());
        let assessment = assess(&found, &Limits::with(&all), false);
        assert!(assessment.faithful, "{assessment:?}");
    }
}

#[test]
fn what_bends_is_no_drift() {
    let asked = calm();
    // On time for more than half, and then later and later.
    let told = |from: usize| {
        let late = |(n, one): (usize, &Event)| Event {
            at: one.at + n.saturating_sub(from) as i64 * 1000,
            ..*one
        };
        let seen: Vec<Event> = asked.iter().enumerate().map(late).collect();
        let found = of(&asked, &seen);
        (found.drift_ppm.is_some(), found.detrended.is_some())
    };
    assert_eq!((told(5500), told(0)), ((false, false), (true, true)));
}

#[test]
fn what_was_issued_before_the_recorder_began_or_behind_its_end_was_not_witnessed() {
    let asked = calm();
    let mut seen = asked[2000..8000].to_vec();
    seen.remove(500);
    for (absolute, apart) in [(true, 0), (false, 5_000_000_000_000)] {
        let seen: Vec<Event> =
            seen.iter().map(|one| Event { at: one.at + apart, ..*one }).collect();
        let recorded = (Some(1_999_900_000 + apart), Some(8_000_500_000 + apart));
        // Without a common clock both sides must have something of the same in one window.
        for window in [1 << 19, if absolute { 700 } else { 5000 }] {
            let settings = Settings { window, absolute, ..Settings::default() };
            let known = Blind { recorded, most: Some(0), ..Blind::default() };
            let found = blinded(&asked, &seen, &settings, &known);
            assert_eq!((found.found, found.missing, found.not_witnessed), (5999, 1, 4000));
            assert_eq!(found.first_missing[0].at_ns, 2_500_000_000);
            assert!(found.duration_error.unwrap().abs() < 1e-9, "{:?}", found.duration_error);
            // What it recorded and the device did not see is missing.
            let before = (recorded.0.map(|from| from - 1_000_000_000), None);
            let known = Blind { recorded: before, most: Some(0), ..Blind::default() };
            let found = blinded(&asked, &seen, &settings, &known);
            assert_eq!((found.missing, found.not_witnessed), (3001, 1000));
        }
    }
}

#[test]
fn a_flush_right_before_a_write_of_a_trace_that_asks_for_one_is_nobody_elses() {
    let write = |at: i64, offset: u64, preflush: bool| Event {
        op: Op::Write,
        preflush,
        ..event(at, offset)
    };
    let expected = |asked: &[Event]| -> Vec<Event> {
        let flush = |one: &Event| Event {
            op: Op::Flush,
            offset: 0,
            length: 0,
            implied: true,
            preflush: false,
            ..*one
        };
        asked
            .iter()
            .flat_map(|one| one.preflush.then(|| flush(one)).into_iter().chain([*one]))
            .collect()
    };
    let flush = |at: i64| Event { op: Op::Flush, length: 0, offset: 0, ..event(at, 0) };
    let asked: Vec<Event> = (0..100)
        .flat_map(|n| {
            let at = n * 10_000_000;
            let flush = flush(at + 5_000_000);
            [write(at, n as u64 * 3, true), flush, write(at + 7_000_000, n as u64 * 3 + 1, false)]
        })
        .collect();
    // As a program replays it, and as the kernel was given it.
    let seen = asked.iter().flat_map(|one| {
        let before = one.preflush.then(|| flush(one.at + 10_000));
        let late = if one.preflush { 200_000 } else { 10_000 };
        before.into_iter().chain([Event { at: one.at + late, preflush: false, ..*one }])
    });
    let seen: Vec<Event> = seen.collect();
    for window in [1 << 19, 50] {
        let settings = Settings { window, ..Settings::default() };
        let found = compared(&expected(&asked), &seen, &settings);
        assert_eq!((found.found, found.missing, found.extra), (300, 0, 0));
        assert_eq!(found.issue.unwrap().max_ns, 0, "a write begins with its flush");
        let itself = compared(&expected(&asked), &asked, &settings);
        assert_eq!((itself.found, itself.missing, itself.extra), (300, 0, 0));
        assert_eq!(itself.issue.unwrap().max_ns, 0);
        // A replay that ends early has no flush of what it did not come to.
        let part = compared(&expected(&asked), &seen[..200], &settings);
        assert_eq!((part.found, part.missing, part.extra), (150, 150, 0));
        assert_eq!(part.order.unwrap().reordered, 0);
        // One that leaves out what writes ask for is given what it has.
        let is_trace = |one: &&Event| one.op != Op::Flush || one.at % 10_000_000 != 10_000;
        let without: Vec<Event> = seen.iter().filter(is_trace).copied().collect();
        let found = compared(&expected(&asked), &without, &settings);
        assert_eq!((found.found, found.missing, found.extra), (300, 0, 0));
    }
    // A flush that is no write's stays extra.
    let mut more = seen.clone();
    more.insert(6, flush(20_000_000 - 2_500_000));
    assert_eq!(of(&expected(&asked), &more).extra, 1);
}

#[test]
fn a_flush_of_a_trace_is_not_missing_because_a_write_behind_it_asked_for_one_too() {
    let flush = |at: i64| Event { op: Op::Flush, length: 0, offset: 0, ..event(at, 0) };
    let write = |at: i64, offset: u64| Event { op: Op::Write, ..event(at, offset) };
    // The write's own was left out, and the trace's came so late that it is nearer to the other.
    let asked = [
        write(0, 1),
        flush(10_000),
        Event { implied: true, ..flush(18_000) },
        Event { preflush: true, ..write(18_000, 2) },
        write(90_000_000, 3),
    ];
    let seen = [write(0, 1), flush(16_000), write(18_000, 2), write(90_000_000, 3)];
    let found = of(&asked, &seen);
    assert_eq!((found.found, found.missing, found.extra), (4, 0, 0));
}

#[test]
fn response_times_are_not_compared_where_too_few_completions_are_known() {
    let asked = load(1000);
    let known = |every: usize| -> FidelityFigures {
        let latency = |n: usize| (n % 100 >= every).then_some(70);
        let seen = asked.iter().enumerate().map(|(n, one)| Event { latency: latency(n), ..*one });
        of(&asked, &seen.collect::<Vec<_>>())
    };
    let (most, few) = (known(10), known(11));
    assert!((most.response_mean_error.unwrap() - 0.4).abs() < 1e-9);
    assert_eq!((few.seen.without_completion, few.seen.response_p50_ns), (110, Some(70)));
    assert_eq!((few.response_mean_error, few.response_p99_error), (None, None));
    assert_eq!((few.execution_error, few.duration_error), (None, Some(0.0)));
    let limits = Limits::with(&["response-mean=5%".parse().unwrap()]);
    let assessment = assess(&few, &limits, true);
    assert_eq!(assessment.unmeasured, [Quantity::Shift, Quantity::ResponseMean]);
    assert!(assess(&most, &limits, true).reasons.contains(&Reason::ResponseTimes));
}

#[test]
fn early_requests_are_told_as_early() {
    let asked = calm();
    let early = |one: &Event| Event {
        at: if one.at % 10_000_000 == 5_000_000 { one.at - 3_000_000 } else { one.at },
        ..*one
    };
    let mut seen: Vec<Event> = asked.iter().map(early).collect();
    seen.sort_by_key(|one| one.at);
    let limits = Limits::with(&["reordered-apart=none".parse().unwrap()]);
    let assessment = assess(&of(&asked, &seen), &limits, true);
    assert_eq!(assessment.reasons, [Reason::Inexact]);
    let text = &assessment.broken[0].text;
    assert!(text.contains("some were early, by up to 3.00 ms"), "{text}");
}

/// A flush of a run that was handed over and done then, in milliseconds.
fn flush_of_run(submitted_ms: i64, completed_ms: i64) -> Event {
    let engine = Engine {
        submitted: Some(submitted_ms * 1_000_000),
        completed: Some(completed_ms * 1_000_000),
        outcome: Outcome::Ok,
        cause: LateCause::None,
        pushed_back: false,
    };
    let event = event(submitted_ms * 1_000_000, 0);
    Event { op: Op::Flush, length: 0, offset: 0, engine: Some(engine), ..event }
}

#[test]
fn like_requests_in_flight_together_may_reach_the_device_in_another_order() {
    // The one that was handed over first came last: its thread was put aside.
    let asked = [flush_of_run(0, 100), flush_of_run(5, 20), flush_of_run(200, 220)];
    let seen = [10, 50, 210].map(|ms| Event { engine: None, ..flush_of_run(ms, 0) });
    let settings = Settings { absolute: true, ..Settings::default() };
    let found = compared(&asked, &seen, &settings);
    assert_eq!((found.found, found.missing, found.extra, found.impossible), (3, 0, 0, 0));
    assert_eq!(found.order.unwrap().reordered, 1);
    // What was seen when none of them can have been there is none of them.
    let other = [10, 150, 210].map(|ms| Event { engine: None, ..flush_of_run(ms, 0) });
    let found = compared(&asked, &other, &settings);
    assert_eq!((found.found, found.missing, found.extra), (2, 1, 1));
}

#[test]
fn a_request_that_was_handed_over_before_a_recording_began_is_not_missing() {
    // Those behind it came late, for the host did not run the replay then.
    let mut asked: Vec<Event> = (0..30).map(|ms| flush_of_run(ms * 10, ms * 10 + 1)).collect();
    for (number, event) in asked.iter_mut().enumerate() {
        event.op = Op::Read;
        event.length = 4096;
        event.offset = number as u64 * 4096;
        if number > 0 {
            event.at -= 9_000_000;
        }
    }
    let seen: Vec<Event> = asked[1..]
        .iter()
        .map(|event| Event { at: event.at + 9_000_000, engine: None, ..*event })
        .collect();
    let settings = Settings { absolute: true, ..Settings::default() };
    let blind = Blind { recorded: (Some(1_000_000), None), ..Blind::default() };
    let found = blinded(&asked, &seen, &settings, &blind);
    assert_eq!((found.found, found.missing, found.not_witnessed), (29, 0, 1));
}
