//! The figures of a load, each against what is known of it by construction.

use ioecho_trace::{Bytes, Measured, Nanos, Op, Request, VolumeId};

use super::*;

/// A request that was due and submitted at an instant and took so long.
pub(crate) fn request(op: Op, at: Nanos, offset: u64, length: u64, service: Nanos) -> Request {
    let mut request = Request::new(at, op, Bytes(offset), Bytes(length));
    request.measured = Some(Measured {
        target_offset: Some(Bytes(offset)),
        ..Measured::done(at, at, at.saturating_add(service))
    });
    request
}

fn figures(requests: &[Request]) -> LoadFigures {
    let mut figures = LoadFigures::default();
    for request in requests {
        figures.observe(request, &request.measured.unwrap());
    }
    figures
}

/// Numbers that look random and are the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[test]
fn few_pages_are_counted_exactly_and_what_comes_back_is_seen() {
    let millis = Nanos::from_millis(1);
    let reads =
        |from: u64| (from..from + 100).map(|n| request(Op::Read, millis, n * PAGE, PAGE, millis));
    let all: Vec<Request> = reads(0).chain(reads(50)).collect();
    let touched = figures(&all).touched(0);
    assert_eq!(touched.bytes, 150 * PAGE);
    assert!((touched.again - 0.25).abs() < 1e-9, "{touched:?}");
}

#[test]
fn a_request_across_two_pages_touches_both_and_the_largest_offset_is_no_trap() {
    let touched = |offset, length| {
        let one = request(Op::Write, Nanos::ZERO, offset, length, Nanos(1));
        figures(&[one]).touched(0).bytes / PAGE
    };
    assert_eq!((touched(4095, 2), touched(0, 4096), touched(7, 0)), (2, 1, 0));
    assert_eq!(touched(u64::MAX - 10, u64::MAX), 1);
    assert!(touched(0, u64::MAX) > 1000);
}

#[test]
fn many_pages_are_estimated_to_a_few_percent() {
    let mut random = Random(1);
    let pages = 1_000_000_u64;
    let all: Vec<Request> = (0..pages)
        .map(|_| request(Op::Read, Nanos::ZERO, random.below(pages) * PAGE, PAGE, Nanos(1)))
        .collect();
    let distinct: std::collections::HashSet<u64> = all.iter().map(|one| one.offset.0).collect();
    let touched = figures(&all).touched(0);
    let expected = distinct.len() as u64 * PAGE;
    let error = touched.bytes as f64 / expected as f64 - 1.0;
    assert!(error.abs() < 0.05, "{error}");
    let again = 1.0 - distinct.len() as f64 / pages as f64;
    assert!((touched.again - again).abs() < 0.05, "{touched:?}, not {again}");
}

#[test]
fn a_run_cut_in_two_has_the_figures_of_the_whole() {
    let mut random = Random(3);
    let all: Vec<Request> = (0..4000)
        .map(|n| {
            let offset = random.below(2000) * PAGE;
            let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
            let service = Nanos::from_micros(100 + random.below(100) as i64);
            let mut one = request(op, Nanos::from_millis(n), offset, PAGE, service);
            one.latency = Some(Nanos::from_micros(300));
            one.volume = VolumeId(random.below(3) as u32);
            one
        })
        .collect();
    let whole = figures(&all);
    for cut in [0, 1, 1999, 3999, 4000] {
        let mut parts = figures(&all[..cut]);
        parts.merge(&figures(&all[cut..]));
        assert_eq!(parts.touched(0), whole.touched(0), "cut at {cut}");
        assert_eq!(parts.course(), whole.course());
        assert!(matches!(whole.course(), Course::Settled));
        assert_eq!(parts.in_flight(), whole.in_flight());
        assert_eq!(parts.same_demand(), whole.same_demand());
        assert_eq!(parts.writes(), whole.writes());
        let shares = [Some(0.5), Some(1.0)];
        let part = 4 << 20;
        assert_eq!(parts.weighed(0, part, &shares), whole.weighed(0, part, &shares));
    }
}

#[test]
fn shares_weigh_as_much_as_the_load_goes_there() {
    let at = |offset| request(Op::Read, Nanos::ZERO, offset, PAGE, Nanos(1));
    let figures = figures(&[at(0), at(1 << 20), at(2 << 20), at(1 << 30)]);
    let weighed = |shares: &[Option<f64>]| figures.weighed(0, 1 << 29, shares);
    assert_eq!(weighed(&[Some(1.0), None, Some(0.0)]), Some(0.75));
    assert_eq!(weighed(&[Some(1.0), None, None]), Some(1.0), "only what was looked at");
    assert_eq!(weighed(&[]), None);
    assert_eq!(figures.weighed(7, 1 << 29, &[Some(1.0)]), None, "no such target");
}

/// A load of 6,000 requests in a minute, in bursts of as many as `service` says, each of which
/// takes as many microseconds as it says.
fn minute(service: impl Fn(i64, &mut Random) -> (i64, i64)) -> LoadFigures {
    let mut random = Random(5);
    let all: Vec<Request> = (0..6000)
        .map(|n| {
            let (burst, micros) = service(n, &mut random);
            let at = Nanos::from_millis(n / burst * burst * 10);
            request(Op::Read, at, 0, PAGE, Nanos::from_micros(micros))
        })
        .collect();
    figures(&all)
}

#[test]
fn a_cache_that_warms_up_is_seen_and_so_is_when() {
    let course = minute(|n, random| {
        let usual = if n < 1500 { 800 } else { 200 };
        (1, usual + random.below(200) as i64)
    })
    .course();
    let Course::Unsettled(unsettled) = course else { panic!("{course:?}") };
    assert!((0.25..0.45).contains(&unsettled.ratio), "{unsettled:?}");
    assert!((0.2..0.3).contains(&unsettled.share()), "{unsettled:?}");
}

#[test]
fn a_load_that_varies_on_a_steady_device_is_no_drift() {
    // Bursts of thirty in the second half, and so a queue before the device.
    let course = minute(|n, random| {
        let burst = if n < 3000 { 1 } else { 30 };
        let place = n % burst + 1;
        (burst, place * (200 + random.below(200) as i64))
    })
    .course();
    assert_eq!(course, Course::Settled);
}

#[test]
fn noise_is_no_drift() {
    let course = minute(|_, random| {
        // Hits and misses, by chance.
        (1, if random.below(3) == 0 { 5000 } else { 90 } + random.below(50) as i64)
    })
    .course();
    assert_eq!(course, Course::Settled);
}

#[test]
fn a_short_run_and_one_of_few_requests_tell_nothing() {
    assert!(matches!(LoadFigures::default().course(), Course::Unknown(_)));
    let few: Vec<Request> = (0..30)
        .map(|n| request(Op::Read, Nanos::from_secs(n), 0, PAGE, Nanos::from_millis(1)))
        .collect();
    assert!(matches!(figures(&few).course(), Course::Unknown(_)));
}

/// Two volumes whose requests fall due as the bursts say.
fn two_volumes(of_first: impl Fn(i64) -> i64, of_second: impl Fn(i64) -> i64) -> LoadFigures {
    let mut all = Vec::new();
    for second in 0..60 {
        for (volume, count) in [(0, of_first(second)), (1, of_second(second))] {
            for n in 0..count {
                let at = Nanos::from_millis(second * 1000 + n * 1000 / count);
                let mut one = request(Op::Read, at, 0, PAGE, Nanos(1));
                one.volume = VolumeId(volume);
                all.push(one);
            }
        }
    }
    figures(&all)
}

#[test]
fn two_copies_of_a_load_are_told_from_two_loads() {
    let burst = |second: i64| 5 + (second * 7919 % 13) * 3;
    let copies = two_volumes(burst, burst).same_demand().unwrap();
    assert!(copies.equal > 0.99 && copies.correlation > 0.99, "{copies:?}");
    assert_eq!(copies.volumes, (0, 1));
    assert!((900..1100).contains(&(copies.step.0 / 1_000_000)), "{copies:?}");
    let shifted = two_volumes(burst, |second| burst(second + 5)).same_demand().unwrap();
    assert!(shifted.equal < 0.5 && shifted.correlation < 0.5, "{shifted:?}");
    // The members of a striped device: bursts together, never the same number.
    let members = two_volumes(burst, |second| burst(second) + 1 + second % 2);
    let members = members.same_demand().unwrap();
    assert!(members.correlation > 0.9 && members.equal < 0.1, "{members:?}");
    assert_eq!(two_volumes(|_| 5, |_| 5).same_demand(), None, "nothing rises and falls");
    // Three requests in two seconds: one second has one more than the other, in all copies.
    let slow = two_volumes(|second| 1 + second % 2, |second| 1 + second % 2);
    assert_eq!(slow.same_demand(), None, "nothing rises and falls");
}

#[test]
fn copies_of_a_load_whose_seconds_are_all_alike_are_told_by_its_bursts() {
    let arrivals = |seed: u64| {
        let mut random = Random(seed);
        // Of independent arrivals, 300 in a second.
        (0..18_000).map(move |_| random.below(60_000_000) as i64 * 1000)
    };
    let of = |first: u64, second: u64| {
        let mut all: Vec<Request> = Vec::new();
        for (volume, seed) in [(0, first), (1, second)] {
            all.extend(arrivals(seed).map(|at| {
                let mut one = request(Op::Read, Nanos(at), 0, PAGE, Nanos(1));
                one.volume = VolumeId(volume);
                one
            }));
        }
        all.sort_by_key(|one| one.issue);
        figures(&all).same_demand().unwrap()
    };
    let copies = of(1, 1);
    assert!(copies.equal > 0.99 && copies.correlation > 0.99, "{copies:?}");
    let others = of(1, 2);
    assert!(others.equal < 0.3 && others.correlation < 0.3, "{others:?}");
}

#[test]
fn the_mean_in_flight_is_all_stays_by_the_time_they_are_spread_over() {
    let all: Vec<Request> = (0..100)
        .map(|n| {
            let at = Nanos::from_millis(n * 10);
            let mut one = request(Op::Read, at, 0, PAGE, Nanos::from_millis(10));
            one.latency = Some(Nanos::from_millis(40));
            one
        })
        .collect();
    let mean = figures(&all).in_flight().unwrap();
    assert!((mean.replayed - 1.0).abs() < 1e-9, "{mean:?}");
    // 100 stays of 40 ms in 1,030 ms.
    assert!((mean.recorded - 4.0 / 1.03).abs() < 1e-9, "{mean:?}");
    assert_eq!(figures(&[request(Op::Read, Nanos(0), 0, 1, Nanos(1))]).in_flight(), None);
}
