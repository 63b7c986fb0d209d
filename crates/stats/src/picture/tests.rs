use super::*;
use crate::raster::row;
use ioecho_trace::{Bytes, Columns};
use proptest::prelude::*;

const COLUMNS: Columns =
    Columns { latency: true, origin: false, measured: true, dependencies: false };

pub(crate) fn request(op: Op, scheduled: i64, lateness: i64, service: i64) -> Request {
    let mut request = Request::new(Nanos(scheduled), op, Bytes(0), Bytes(4096));
    let submitted = Nanos(scheduled + lateness);
    request.measured =
        Some(Measured::done(Nanos(scheduled), submitted, submitted + Nanos(service)));
    request
}

pub(crate) fn picture(requests: &[Request]) -> RunPicture {
    let mut batch = Batch::new(COLUMNS);
    for request in requests {
        batch.push(request);
    }
    let mut picture = RunPicture::new();
    picture.observe(&batch);
    picture
}

prop_compose! {
    fn any_request()(
        op in 0_u8..13, scheduled in 0_i64..1 << 36, lateness in -5_i64..1 << 32,
        service in 0_i64..1 << 36, outcome in -7_i32..3,
        latency in proptest::option::of(0_i64..1 << 34),
        pushed_back: bool, in_flight in 1_u32..99,
    ) -> Request {
        let mut request = request(Op::from_code(op).unwrap(), scheduled, lateness, service);
        request.latency = latency.map(Nanos);
        let measured = request.measured.as_mut().unwrap();
        measured.outcome = Outcome::from_code(outcome).unwrap();
        measured.pushed_back = pushed_back;
        measured.in_flight = in_flight;
        if !measured.outcome.was_issued() {
            measured.submitted = None;
        }
        if !measured.outcome.was_issued() || measured.outcome == Outcome::Abandoned {
            measured.completed = None;
        }
        request
    }
}

proptest! {
    #[test]
    fn parts_merge_to_the_whole(
        requests in proptest::collection::vec(any_request(), 0..40), cut in 0_usize..40,
    ) {
        let cut = cut.min(requests.len());
        let mut merged = picture(&requests[..cut]);
        merged.merge(&picture(&requests[cut..]));
        prop_assert_eq!(merged, picture(&requests));
    }

    #[test]
    fn the_mean_in_flight_is_the_overlap_with_the_bucket(
        requests in proptest::collection::vec(any_request(), 1..40),
    ) {
        let panels = picture(&requests).finish();
        for bucket in 0..panels.buckets {
            let from = bucket as i64 * panels.width_ns;
            let to = (from + panels.width_ns).min(panels.end_ns);
            let overlap: i64 = requests.iter().filter_map(|request| {
                let measured = request.measured.unwrap();
                let begin = measured.submitted?.0.max(from);
                let end = measured.completed.map_or(to, |end| end.0.min(to));
                Some((end - begin).max(0))
            }).sum();
            let mean = if to > from { overlap as f64 / (to - from) as f64 } else { 0.0 };
            let got = panels.in_flight_mean[bucket];
            prop_assert!((got - mean).abs() < 1e-6, "bucket {bucket}: {got}, not {mean}");
            prop_assert!(f64::from(panels.in_flight_max[bucket]) >= mean);
        }
    }

    #[test]
    fn no_percentile_exceeds_the_largest(
        requests in proptest::collection::vec(any_request(), 1..40), quantile in 0.0..1.0,
    ) {
        let picture = picture(&requests);
        let panels = picture.finish();
        for bucket in 0..panels.buckets {
            let most = panels.lateness_max_ns[bucket];
            prop_assert!(panels.lateness_p50_ns[bucket] <= panels.lateness_p99_ns[bucket]);
            prop_assert!(panels.lateness_p99_ns[bucket] <= most);
            prop_assert_eq!(panels.lateness_p99_ns[bucket].is_some(), most.is_some());
        }
        let most = picture.spans_of_all(Span::Lateness).max().map(|most| most.0);
        prop_assert!(panels.lateness_quantile_ns(quantile, 0..panels.buckets) <= most);
        for class in Class::ALL {
            let slowest = panels.service_max_ns[class.index()].iter().flatten().max();
            let most = picture.service_of_class(class).max();
            prop_assert_eq!(slowest.copied(), most.map(|most| most.0));
        }
    }

    #[test]
    fn every_request_is_in_exactly_one_bucket_of_each_column(
        requests in proptest::collection::vec(any_request(), 0..40),
    ) {
        let panels = picture(&requests).finish();
        let measured = || requests.iter().filter_map(|request| request.measured);
        let done = measured().filter(|m| m.outcome == Outcome::Ok).count() as u64;
        let completed = measured().filter(|m| m.completed.is_some()).count() as u64;
        prop_assert_eq!(panels.demanded_requests.iter().sum::<u64>(), requests.len() as u64);
        prop_assert_eq!(panels.achieved_requests.iter().sum::<u64>(), done);
        prop_assert_eq!(panels.failed.iter().sum::<u64>(), completed - done);
        prop_assert_eq!(panels.sonar.iter().map(Raster::total).sum::<u64>(), done);
    }
}

#[test]
fn a_picture_of_nothing_has_empty_panels() {
    let panels = RunPicture::new().finish();
    assert!(panels.is_empty());
    assert_eq!((panels.end_ns, panels.recorded_mean), (0, None));
}

#[test]
fn a_request_without_measured_columns_is_counted_and_nothing_else() {
    let mut plain = request(Op::Read, 5, 0, 5);
    plain.measured = None;
    let picture = picture(&[plain]);
    assert_eq!((picture.unmeasured(), picture.requests()), (1, 0));
    assert!(picture.finish().is_empty());
}

#[test]
fn a_failed_request_is_no_latency_and_no_throughput() {
    let mut failed = request(Op::Read, 0, 10, 100);
    failed.measured.as_mut().unwrap().outcome = Outcome::Error(5);
    let picture = picture(&[failed]);
    assert!(picture.spans_of_all(Span::Service).is_empty());
    assert_eq!(picture.spans_of_all(Span::Lateness).count(), 1);
    assert_eq!(picture.outcomes()[0].name, "errno 5");
    let panels = picture.finish();
    assert_eq!((panels.achieved_requests[0], panels.failed[0]), (0, 1));
}

#[test]
fn a_pushed_back_write_is_shown_as_pushed_back() {
    let mut pushed = request(Op::Write, 0, 0, 1_000);
    pushed.measured.as_mut().unwrap().pushed_back = true;
    let panels = picture(&[pushed]).finish();
    let cells: Vec<_> = panels.sonar[Class::PushedBack.index()].filled().collect();
    assert_eq!(cells, [(0, row(Nanos(1_000)), 1)]);
    assert_eq!(panels.sonar[Class::Write.index()].total(), 0);
}

#[test]
fn a_load_is_demanded_within_its_own_time_however_long_the_device_takes() {
    // One request per millisecond for 100 ms; the device answers one per 5 ms.
    let overload: Vec<_> =
        (0..=100).map(|i| request(Op::Write, i * 1_000_000, i * 4_000_000, 5_000_000)).collect();
    let picture = picture(&overload);
    assert_eq!(picture.demanded_end(), Nanos::from_millis(100));
    assert_eq!(picture.achieved_end(), Nanos::from_millis(505));
    let panels = picture.finish();
    assert_eq!(panels.demanded_request_rate().mean(0..panels.buckets), Some(1_010.0));
    assert_eq!(panels.achieved_request_rate().mean(0..panels.buckets), Some(200.0));
    assert_eq!(panels.demanded_request_rate().mean(50..panels.buckets), Some(1_020.0));
    assert_eq!(panels.demanded_request_rate().mean(200..panels.buckets), None);
    assert_eq!(panels.demanded_byte_rate().mean(0..1), Some(4_096_000.0));
}

#[test]
fn a_latency_of_the_recording_makes_the_run_no_longer() {
    let mut slow_then = request(Op::Read, 0, 0, 1_000_000);
    slow_then.latency = Some(Nanos::from_secs(10));
    let picture = picture(&[slow_then]);
    assert_eq!(picture.achieved_end(), Nanos::from_millis(1));
    assert_eq!(picture.end(), Nanos::from_secs(10));
}

#[test]
fn late_is_what_the_verdict_calls_late_whether_explained_or_not() {
    let mut early = request(Op::Read, 0, 1_000_000, 5);
    early.measured.as_mut().unwrap().late_cause = LateCause::Submission;
    let mut late = request(Op::Read, 0, 1_000_001, 5);
    late.measured.as_mut().unwrap().late_cause = LateCause::Submission;
    let unexplained = request(Op::Read, 0, 2_000_000, 5);
    let on_time = request(Op::Read, 0, 0, 5);
    let picture = picture(&[early, late, unexplained, on_time]);
    let count = |cause: LateCause| picture.late_causes()[cause as usize];
    assert_eq!((count(LateCause::Submission), count(LateCause::None)), (1, 1));
    assert_eq!(picture.late_causes().iter().sum::<u64>(), 2);
}

#[test]
fn service_times_are_known_exactly_by_class() {
    let mut pushed = request(Op::Write, 0, 0, 777_777);
    pushed.measured.as_mut().unwrap().pushed_back = true;
    let picture = picture(&[pushed, request(Op::Write, 3_000_000, 0, 333_333)]);
    let slowest = |class| picture.service_of_class(class).max();
    assert_eq!(slowest(Class::PushedBack), Some(Nanos(777_777)));
    assert_eq!(slowest(Class::Write), Some(Nanos(333_333)));
    assert_eq!(slowest(Class::Read), None);
    let maxima = picture.finish().service_max_ns;
    assert_eq!(maxima[Class::PushedBack.index()][0], Some(777_777));
    assert_eq!(maxima[Class::Write.index()], [None, None, None, Some(333_333)]);
}

#[test]
fn whole_files_are_counted_by_operation_when_they_are_done_and_no_reads_or_directories() {
    let ms = |at: i64| at * 1_000_000;
    let mut failed = request(Op::Create, ms(1), 0, ms(1));
    failed.measured.as_mut().unwrap().outcome = Outcome::Error(28);
    let panels = picture(&[
        request(Op::Mkdir, 0, 0, ms(1)),
        request(Op::Create, 0, 0, ms(3)),
        request(Op::Create, ms(1), 0, ms(2)),
        request(Op::Write, ms(4), 0, ms(1)),
        request(Op::Delete, ms(5), 0, ms(1)),
        failed,
    ])
    .finish();
    let created = vec![0, 0, 0, 2, 0, 0, 0];
    let deleted = vec![0, 0, 0, 0, 0, 0, 1];
    assert_eq!(panels.files, [(Op::Create, created), (Op::Delete, deleted)]);
}

#[test]
fn a_discard_moves_no_bytes() {
    let panels = picture(&[request(Op::Discard, 0, 0, 9)]).finish();
    assert_eq!((panels.demanded_requests[0], panels.demanded_bytes[0]), (1, 0));
}

#[test]
fn all_kinds_together_are_the_sum_of_the_kinds() {
    let picture = picture(&[request(Op::Read, 0, 0, 9), request(Op::Flush, 0, 0, 99)]);
    assert_eq!(picture.spans_of_all(Span::Response).count(), 2);
    assert_eq!(picture.spans(Span::Service, Kind::FLUSH).max(), Some(Nanos(99)));
    assert!(picture.spans(Span::Service, Kind::WRITE).is_empty());
}
