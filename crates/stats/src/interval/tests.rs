use ioecho_trace::{Batch, Columns, Integrity, Request};
use proptest::prelude::*;

use super::*;
use crate::run_summary::{EngineFacts, RunFigures, cause_name};

/// A request with what was measured of it, from numbers.
fn request(
    (op, outcome, cause): (usize, i32, usize),
    (scheduled, late, service): (i64, i64, i64),
) -> Request {
    let outcome = Outcome::from_code(outcome).unwrap();
    let issued = outcome.was_issued();
    let submitted = issued.then_some(Nanos(scheduled + late));
    let completed = submitted.filter(|_| outcome != Outcome::Abandoned);
    let measured = Measured {
        scheduled: Nanos(scheduled),
        submitted,
        completed: completed.map(|at| at + Nanos(service)),
        target_offset: None,
        in_flight: (service % 50) as u32,
        outcome,
        pushed_back: late % 3 == 0,
        late_cause: LateCause::ALL[cause % LateCause::ALL.len()],
        target: 0,
        integrity: Integrity::Unchecked,
        behind: 0,
        flow: 0,
    };
    let op = Op::ALL[op % Op::ALL.len()];
    let length = Bytes(service.unsigned_abs() << 9);
    Request { measured: Some(measured), ..Request::new(Nanos(scheduled), op, Bytes(0), length) }
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let what = (0_usize..7, prop_oneof![5 => Just(0), 1 => -7_i32..6], 0_usize..7);
    let when = (0_i64..10_000_000_000, -5_i64..5_000_000, 0_i64..50_000_000);
    proptest::collection::vec((what, when).prop_map(|(what, when)| request(what, when)), 0..60)
}

fn of(requests: &[Request], number: u64) -> Interval {
    let second = |n: u64| Nanos::from_secs(n as i64);
    let mut interval = Interval {
        number,
        start: second(number - 1),
        end: second(number),
        demanded: Some(requests.len() as u64),
        ..Interval::default()
    };
    for request in requests {
        interval.observe(request.op, request.length, &request.measured.unwrap());
    }
    interval
}

proptest! {
    #[test]
    fn intervals_merge_to_the_whole_in_any_grouping(all in requests(), cut in 0_usize..60) {
        let (first, second) = all.split_at(cut.min(all.len()));
        let (first, second) = (of(first, 1), of(second, 2));
        let mut forth = first.clone();
        forth.merge(&second);
        let mut back = second.clone();
        back.merge(&first);
        prop_assert_eq!(&forth, &back);
        let mut whole = of(&all, 1);
        whole.end = second.end;
        prop_assert_eq!(forth, whole);
    }

    #[test]
    fn intervals_add_up_to_the_summary_of_the_run(all in requests(), cut in 0_usize..60) {
        let mut figures = RunFigures::default();
        let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
        for request in &all {
            batch.push(request);
        }
        figures.observe(&batch);
        let summary = figures.summary(EngineFacts::default());

        let (first, second) = all.split_at(cut.min(all.len()));
        let mut whole = of(first, 1);
        whole.merge(&of(second, 2));
        prop_assert_eq!(whole.requests, summary.recorded);
        prop_assert_eq!(whole.completed(), summary.outcomes.get("ok").copied().unwrap_or(0));
        prop_assert_eq!(whole.failed, summary.failed);
        prop_assert_eq!(whole.dropped, figures.dropped());
        prop_assert_eq!(whole.bytes_read, summary.bytes_read);
        prop_assert_eq!(whole.bytes_written, summary.bytes_written);
        prop_assert_eq!(whole.by_kind(Span::Lateness), summary.lateness);
        prop_assert_eq!(whole.by_kind(Span::Service), summary.service_time);
        prop_assert_eq!(whole.by_kind(Span::Response), summary.response_time);
        for cause in LateCause::ALL {
            let told = summary.late.get(cause_name(cause)).copied().unwrap_or_default();
            prop_assert_eq!(whole.late_for(cause), told);
        }
    }
}

#[test]
fn an_interval_of_nothing_has_rates_of_zero_and_no_percentile() {
    let nothing = Interval::default();
    assert_eq!((nothing.completed_per_s(), nothing.in_flight_mean()), (0.0, 0.0));
    assert!(nothing.demanded_per_s().is_none());
    assert!(nothing.by_kind(Span::Service).is_empty());
    assert!(nothing.service_deviation(&Kind::ALL) < f64::EPSILON);
}

#[test]
fn a_device_that_holds_one_request_all_the_time_has_one_in_flight() {
    let half = |n: i64| request((0, 0, 0), (n * 500_000_000, 0, 500_000_000));
    let interval = of(&[half(0), half(1)], 1);
    assert!((interval.in_flight_mean() - 1.0).abs() < 1e-9, "{}", interval.in_flight_mean());
}

#[test]
fn the_deviation_is_that_of_what_was_seen() {
    let served = |ns: i64| request((0, 0, 0), (0, 0, ns));
    // 2 and 4: the mean is 3, and each lies 1 from it.
    let interval = of(&[served(2_000_000), served(4_000_000)], 1);
    assert!((interval.service_deviation(&[Kind::READ]) - 1e6).abs() < 1.0);
    assert!(interval.service_deviation(&[Kind::WRITE]) < f64::EPSILON);
}

#[test]
fn every_late_request_is_the_doing_of_somebody() {
    let late = |cause: usize| request((0, 0, cause), (0, 2_000_000, 1000));
    let all: Vec<_> = (0..LateCause::ALL.len()).map(late).collect();
    let interval = of(&all, 1);
    let by = [Fault::Device, Fault::Generator, Fault::Host].map(|fault| interval.late_by(fault));
    assert_eq!(by, [3, 5, 2]);
    assert_eq!(interval.late(), 10);
}

#[test]
fn nothing_merged_into_something_changes_nothing() {
    let something = of(&[request((0, 0, 0), (0, 0, 1))], 3);
    let mut merged = something.clone();
    merged.merge(&Interval::default());
    assert_eq!(merged, something);
    let mut merged = Interval::default();
    merged.merge(&something);
    assert_eq!(merged, something);
}
