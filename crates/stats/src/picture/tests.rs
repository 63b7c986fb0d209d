use super::*;
use crate::raster::row;
use ioecho_trace::{Bytes, Columns};
use proptest::prelude::*;

const COLUMNS: Columns = Columns { latency: true, origin: false, measured: true };

fn request(op: Op, scheduled: i64, lateness: i64, service: i64) -> Request {
    let mut request = Request::new(Nanos(scheduled), op, Bytes(0), Bytes(4096));
    let submitted = Nanos(scheduled + lateness);
    request.measured = Some(Measured {
        scheduled: Nanos(scheduled),
        submitted: Some(submitted),
        completed: Some(submitted + Nanos(service)),
        in_flight: 1,
        outcome: Outcome::Ok,
        pushed_back: false,
        late_cause: LateCause::None,
    });
    request
}

fn picture(requests: &[Request]) -> RunPicture {
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
        op in 0_u8..6, scheduled in 0_i64..1 << 36, lateness in -5_i64..1 << 32,
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
    let cells: Vec<_> = panels.sonar[Class::PushedBack as usize].filled().collect();
    assert_eq!(cells, [(0, row(Nanos(1_000)), 1)]);
    assert_eq!(panels.sonar[Class::Write as usize].total(), 0);
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
    assert_eq!(picture.spans(Span::Service, Kind::Flush).max(), Some(Nanos(99)));
    assert!(picture.spans(Span::Service, Kind::Write).is_empty());
}
