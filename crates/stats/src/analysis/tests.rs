use ioecho_trace::{
    Batch, Bytes, Columns, Header, Integrity, LateCause, Measured, Nanos, Op, Origin, Outcome,
    Request, VolumeId,
};
use proptest::prelude::*;
use serde_json::Value;

use super::all::{LISTED, Space, Time};
use super::row::{Folded, How, Row};
use super::*;

/// A request some time after the one before; every column that a summary over time looks at.
#[derive(Clone, Debug)]
struct Step {
    gap: i64,
    op: u8,
    volume: u32,
    pid: u32,
    length: u64,
    late: i64,
    service: i64,
    outcome: i32,
    pushed: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = (
        (0_i64..1 << 31, 0_u32..20),
        prop_oneof![3 => 0_u8..6, 1 => 0_u8..Op::ALL.len() as u8],
        0_u32..3,
        0_u32..3,
        0_u64..1 << 20,
        (0_i64..1 << 31, 0_u32..31),
        (0_i64..1 << 33, 0_u32..31),
        prop_oneof![6 => Just(0), 1 => -7_i32..6],
        any::<bool>(),
    );
    let step =
        one.prop_map(|(gap, op, volume, pid, length, late, service, outcome, pushed)| Step {
            gap: gap.0 >> gap.1,
            op,
            volume,
            pid,
            length,
            late: late.0 >> late.1,
            service: service.0 >> service.1,
            outcome,
            pushed,
        });
    proptest::collection::vec(step, 0..80)
}

/// The requests of a run, or of a load with latencies, or of one without.
fn requests(steps: &[Step], measured: bool, latency: bool) -> Vec<Request> {
    let mut now = 0;
    let made = steps.iter().map(|step| {
        now += step.gap;
        let op = Op::from_code(step.op).unwrap();
        let mut request = Request::new(Nanos(now), op, Bytes(step.length * 7), Bytes(step.length));
        request.volume = VolumeId(step.volume);
        request.origin = Some(Origin { pid: step.pid, cpu: 0 });
        request.latency = latency.then_some(Nanos(step.service / 2));
        let outcome = Outcome::from_code(step.outcome).unwrap();
        let submitted = outcome.was_issued().then(|| Nanos(now + step.late));
        let completed = submitted.filter(|_| outcome != Outcome::Abandoned);
        request.measured = measured.then(|| Measured {
            submitted,
            completed: completed.map(|at| at.saturating_add(Nanos(step.service))),
            outcome,
            pushed_back: step.pushed,
            ..Measured::done(Nanos(now), Nanos(now), Nanos(now))
        });
        request
    });
    made.collect()
}

fn analysis(requests: &[Request]) -> Analysis {
    let first = requests.first();
    let columns = Columns {
        latency: first.is_some_and(|request| request.latency.is_some()),
        origin: true,
        measured: first.is_some_and(|request| request.measured.is_some()),
        ..Columns::default()
    };
    let mut analysis = Analysis::new(Settings::default());
    for requests in requests.chunks(1000) {
        let mut batch = Batch::new(columns);
        batch.extend(requests);
        analysis.observe(&batch);
    }
    analysis
}

fn figures(analysis: &Analysis) -> Value {
    let figures = analysis.figures(&Header::default(), &Asked::default());
    serde_json::to_value(figures).unwrap()
}

/// The rows of parts, put together.
fn rows(parts: &[&Analysis]) -> Vec<Row> {
    let mut folded = Folded::default();
    for part in parts {
        part.rows(|row| folded.add(row));
    }
    folded.into_rows().collect()
}

/// Which keys differ, because the whole is too long to look at.
fn differences(left: &Value, right: &Value, at: &str, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            for (key, value) in left {
                differences(value, &right[key], &format!("{at}.{key}"), found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (number, (left, right)) in left.iter().zip(right).enumerate() {
                differences(left, right, &format!("{at}[{number}]"), found);
            }
        }
        _ if left == right => {}
        _ => found.push(format!("{at}: {left} against {right}")),
    }
}

fn assert_same(left: &Value, right: &Value) {
    let mut found = Vec::new();
    differences(left, right, "", &mut found);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_trace_cut_anywhere_merges_to_the_whole(
        steps in steps(), kind in 0..3, cut in 0_usize..80, other in 0_usize..80,
    ) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let (cut, other) = (cut.min(requests.len()), other.min(requests.len()));
        let (first, second) = (cut.min(other), cut.max(other));
        let parts = [&requests[..first], &requests[first..second], &requests[second..]];
        let [a, b, c] = parts.map(analysis);
        let whole = figures(&analysis(&requests));
        let mut left = a.clone();
        left.merge(&b);
        left.merge(&c);
        assert_same(&figures(&left), &whole);
        let mut later = b;
        later.merge(&c);
        let mut right = a;
        right.merge(&later);
        assert_same(&figures(&right), &whole);
    }

    #[test]
    fn a_trace_divided_by_volume_merges_to_the_whole_in_any_order(
        steps in steps(), kind in 0..3, order in Just([0_u32, 1, 2]).prop_shuffle(),
    ) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let whole = figures(&analysis(&requests));
        let mut merged = Analysis::new(Settings::default());
        for volume in order {
            let part: Vec<Request> =
                requests.iter().filter(|one| one.volume.0 == volume).copied().collect();
            merged.merge(&analysis(&part));
        }
        assert_same(&figures(&merged), &whole);
    }

    #[test]
    fn rows_of_a_merged_analysis_are_those_of_the_whole(
        steps in steps(), kind in 0..3, cut in 0_usize..80,
    ) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let (early, late) = requests.split_at(cut.min(requests.len()));
        let mut merged = analysis(early);
        merged.merge(&analysis(late));
        prop_assert_eq!(rows(&[&merged]), rows(&[&analysis(&requests)]));
    }

    #[test]
    fn rows_of_parts_put_together_in_any_order_are_those_of_the_whole(
        steps in steps(), kind in 0..3, cut in 0_usize..80, other in 0_usize..80,
        order in Just([0_usize, 1, 2]).prop_shuffle(),
    ) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let (cut, other) = (cut.min(requests.len()), other.min(requests.len()));
        let (first, second) = (cut.min(other), cut.max(other));
        let parts = [&requests[..first], &requests[first..second], &requests[second..]];
        let parts = parts.map(analysis);
        let whole = analysis(&requests);
        let found = rows(&order.map(|part| &parts[part]));
        // What an earlier part left in flight, and which request came before, only merge knows.
        let at_cuts = ["turns", "seek", "gap", "in_flight", "waiting"];
        let is_exact = |row: &&Row| !at_cuts.iter().any(|name| row.metric.starts_with(name));
        let exact = |rows: &[Row]| rows.iter().filter(is_exact).cloned().collect::<Vec<_>>();
        let whole = rows(&[&whole]);
        prop_assert_eq!(exact(&found), exact(&whole));
        for metric in ["turns", "turns.own", "seek.log2", "seek.log2.own", "gap.log10"] {
            let sum = |rows: &[Row]| {
                rows.iter().filter(|row| row.metric == metric).map(|row| row.value).sum::<i64>()
            };
            // Two cuts, three volumes, reads and writes.
            prop_assert!((0..=12).contains(&(sum(&whole) - sum(&found))), "{}", metric);
        }
        for metric in ["in_flight", "waiting"] {
            let most = |rows: &[Row]| {
                rows.iter().filter(|row| row.metric == metric).map(|row| row.value).max()
            };
            prop_assert!(most(&found) <= most(&whole), "{}", metric);
        }
    }

    #[test]
    fn no_metric_counts_a_request_twice(steps in steps(), kind in 0..3) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let rows = rows(&[&analysis(&requests)]);
        let sum = |metric: &str| {
            let of = rows.iter().filter(|row| row.metric == metric && row.how == How::Sum);
            of.map(|row| row.value).sum::<i64>()
        };
        let count = |is: fn(&Request) -> bool| requests.iter().filter(|r| is(r)).count() as i64;
        let all = requests.len() as i64;
        prop_assert_eq!([sum("demanded.requests"), sum("volume.requests")], [all, all]);
        prop_assert_eq!(sum("size.requests"), count(|request| request.op != Op::Flush));
        let moving = count(|request| matches!(request.op, Op::Read | Op::Write));
        prop_assert_eq!(sum("position"), moving);
        let done = |r: &Request| r.measured.as_ref().is_some_and(|m| m.outcome == Outcome::Ok);
        if kind == 0 {
            prop_assert_eq!(sum("service_ns"), count(done));
        }
    }

    #[test]
    fn what_was_written_down_reads_back(steps in steps(), kind in 0..3) {
        let requests = requests(&steps, kind == 0, kind < 2);
        let analysis = analysis(&requests);
        let text = serde_json::to_string(&analysis).unwrap();
        let back: Analysis = serde_json::from_str(&text).unwrap();
        assert_same(&figures(&back), &figures(&analysis));
    }

    #[test]
    fn any_instants_at_all_are_answered(
        instants in proptest::collection::vec(
            (any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>(), any::<u64>(), any::<u64>()),
            0..20,
        ),
    ) {
        let made = instants.iter().map(|(issue, scheduled, submitted, completed, offset, length)| {
            let mut request =
                Request::new(Nanos(*issue), Op::Write, Bytes(*offset), Bytes(*length));
            request.latency = Some(Nanos(*completed));
            request.measured = Some(Measured {
                scheduled: Nanos(*scheduled),
                submitted: Some(Nanos(*submitted)),
                completed: Some(Nanos(*completed)),
                target_offset: None,
                in_flight: u32::MAX,
                outcome: Outcome::Ok,
                pushed_back: true,
                late_cause: LateCause::Host,
                target: u16::MAX,
                integrity: Integrity::Unchecked,
                behind: 0,
                flow: 0,
            });
            request
        });
        let requests: Vec<Request> = made.collect();
        let mut analysis = Analysis::new(Settings::default());
        for request in &requests {
            let (mut time, mut space) = (Time::default(), Space::new(&Settings::default()));
            time.observe(request);
            space.observe(request);
            analysis.merge(&Analysis::of(Settings::default(), time, space));
        }
        prop_assert_eq!(figures(&analysis)["requests"].as_u64(), Some(requests.len() as u64));
        rows(&[&analysis]);
    }
}

/// Some twenty thousand requests, several in flight, as a device of 100 µs has them.
fn long() -> Vec<Request> {
    let mut state = 1_u64;
    let mut random = |below: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as i64 % below
    };
    let steps: Vec<Step> = (0..20_000)
        .map(|_| Step {
            gap: random(40_000),
            op: u8::from(random(3) == 0),
            volume: random(2) as u32,
            pid: 7,
            length: 4096,
            late: if random(20) == 0 { random(400_000) } else { 0 },
            service: 60_000 + random(80_000),
            outcome: 0,
            pushed: random(50) == 0,
        })
        .collect();
    requests(&steps, true, false)
}

#[test]
fn a_cut_of_a_long_trace_changes_no_level() {
    let requests = long();
    let whole = figures(&analysis(&requests));
    for parts in [2, 3] {
        let mut merged = Analysis::new(Settings::default());
        for part in requests.chunks(requests.len().div_ceil(parts)) {
            merged.merge(&analysis(part));
        }
        assert_same(&figures(&merged), &whole);
    }
}

#[test]
fn levels_are_those_of_a_slow_count() {
    let requests: Vec<Request> = long().into_iter().take(3000).collect();
    let time = |request: &Request| {
        let measured = request.measured.unwrap();
        (measured.submitted.unwrap().0, measured.completed.unwrap().0, request.volume.0)
    };
    let times: Vec<_> = requests.iter().map(time).collect();
    let level = |submitted: i64, volume: u32| {
        let flying = |other: &&(i64, i64, u32)| {
            other.2 == volume && other.0 <= submitted && submitted < other.1
        };
        times.iter().filter(flying).count()
    };
    let most = times.iter().map(|(submitted, _, volume)| level(*submitted, *volume)).max();
    let area: i64 = times.iter().map(|(submitted, completed, _)| completed - submitted).sum();
    let found = figures(&analysis(&requests));
    assert_eq!(found["flight"]["in_flight_max"].as_u64(), most.map(|most| most as u64));
    let length = found["end_ns"].as_i64().unwrap() - found["first_ns"].as_i64().unwrap();
    let mean = area as f64 / length as f64;
    let found_mean = found["flight"]["in_flight_mean"].as_f64().unwrap();
    assert!((found_mean / mean - 1.0).abs() < 1e-9, "{found_mean} for {mean}");
    for slow in found["flight"]["slowest_service"].as_array().unwrap() {
        let submitted = slow["submitted_ns"].as_i64().unwrap();
        let volume = slow["volume"].as_u64().unwrap() as u32;
        assert_eq!(slow["in_flight"].as_u64(), Some(level(submitted, volume) as u64));
    }
}

#[test]
fn the_slowest_are_the_longest_of_all() {
    let requests = long();
    let mut longest: Vec<i64> =
        requests.iter().map(|one| one.measured.unwrap().service_time().unwrap().0).collect();
    longest.sort_unstable_by_key(|ns| std::cmp::Reverse(*ns));
    let found = figures(&analysis(&requests));
    let slowest = found["flight"]["slowest_service"].as_array().unwrap();
    let slowest: Vec<i64> =
        slowest.iter().map(|slow| slow["service_ns"].as_i64().unwrap()).collect();
    assert_eq!(slowest, longest[..slowest::SLOWEST]);
}

#[test]
fn a_last_window_that_is_not_full_is_divided_by_what_it_covers() {
    // Ten per second for 7.05 s; the last window of three seconds has 1.05 s.
    let requests: Vec<Request> = (0..=70)
        .map(|n| Request::new(Nanos(n * 100_000_000 + 50_000_000), Op::Read, Bytes(0), Bytes(512)))
        .collect();
    let found = figures(&analysis(&requests));
    let all = &found["throughput"]["demanded_requests"][1];
    assert_eq!(all["name"], "all");
    let rates: Vec<f64> =
        all["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    assert_eq!(&rates[..2], &[10.0, 10.0]);
    assert!((rates[2] - 11.0 / 1.05).abs() < 1e-9, "{rates:?}");
    assert_eq!(found["throughput"]["answered"], false);
}

#[test]
fn regular_arrivals_do_not_vary_and_bursts_do() {
    let every = |gap: i64, burst: i64| -> Vec<Request> {
        (0..50_000)
            .map(|n| Request::new(Nanos(n / burst * burst * gap), Op::Read, Bytes(0), Bytes(512)))
            .collect()
    };
    let regular = figures(&analysis(&every(1_000_000, 1)));
    assert_eq!(regular["arrivals"]["gap_variation"].as_f64(), Some(0.0));
    let bursts = figures(&analysis(&every(1_000_000, 100)));
    // By hand: of a hundred gaps 99 are 0 and one is 100 ms: deviation over mean is √99.
    let variation = bursts["arrivals"]["gap_variation"].as_f64().unwrap();
    assert!((variation - 99_f64.sqrt()).abs() < 0.01, "{variation}");
    assert_eq!(bursts["arrivals"]["simultaneous"].as_u64(), Some(49_500));
    let index = |found: &Value| {
        let points = found["arrivals"]["dispersion"]["points"].as_array().unwrap();
        points[3][1].as_f64().unwrap()
    };
    assert!(
        index(&regular) < 0.1 && index(&bursts) > 50.0,
        "{} {}",
        index(&regular),
        index(&bursts)
    );
}

#[test]
fn a_device_that_slows_down_is_told_with_the_instant() {
    let steps: Vec<Step> = (0..60_000)
        .map(|n: i64| Step {
            gap: 10_000_000,
            op: 0,
            volume: 0,
            pid: 1,
            length: 4096,
            late: 0,
            service: if n < 20_000 { 100_000 } else { 300_000 } + n * 7919 % 10_000,
            outcome: 0,
            pushed: false,
        })
        .collect();
    let found = figures(&analysis(&requests(&steps, true, false)));
    let kind = &found["steady"]["kinds"][0];
    assert_eq!(kind["kind"], "reads");
    let changes = kind["changes_ns"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!((changes[0].as_f64().unwrap() / 200e9 - 1.0).abs() < 0.02, "{changes:?}");
}

#[test]
fn rounds_begin_with_the_first_request_wherever_the_zero_lies() {
    let steps: Vec<Step> = (0..30_000)
        .map(|n: i64| Step {
            // Fifty minutes of nothing before ten seconds of load.
            gap: if n == 0 { 3_000_000_000_000 } else { 1_000_000 },
            op: 0,
            volume: 0,
            pid: 1,
            length: 4096,
            late: 0,
            service: if n < 15_000 { 100_000 } else { 300_000 } + n * 7919 % 10_000,
            outcome: 0,
            pushed: false,
        })
        .collect();
    let found = figures(&analysis(&requests(&steps, true, false)));
    let kind = &found["steady"]["kinds"][0];
    let rounds = &kind["rounds"];
    let start = rounds["start_ns"].as_i64().unwrap();
    assert!((2_999_900_000_000..=3_000_000_000_000).contains(&start), "{start}");
    assert!(rounds["values"].as_array().unwrap().len() >= 30, "{rounds}");
    let changes = kind["changes_ns"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!((changes[0].as_i64().unwrap() - 3_015_000_000_000).abs() < 300_000_000, "{changes:?}");
}

#[test]
fn a_cut_changes_nothing_however_many_volumes_there_are() {
    // Each volume appears in another order in the parts, and more of them than there are queues.
    let steps: Vec<Step> = (0..6000_u32)
        .map(|n| Step {
            gap: 1000,
            op: (n % 2) as u8,
            volume: n.wrapping_mul(2_654_435_761) % 1500,
            pid: 1,
            length: 4096,
            late: i64::from(n % 7) * 3000,
            service: 90_000 + i64::from(n % 11) * 10_000,
            outcome: 0,
            pushed: false,
        })
        .collect();
    let requests = requests(&steps, true, true);
    let whole = figures(&analysis(&requests));
    for cut in [1, 2000, 5990] {
        let mut merged = analysis(&requests[..cut]);
        merged.merge(&analysis(&requests[cut..]));
        assert_same(&figures(&merged), &whole);
    }
}

#[test]
fn more_volumes_than_are_told_apart_are_counted_together() {
    let steps: Vec<Step> = (0..10_000_u32)
        .map(|n| Step {
            gap: 1000,
            op: 0,
            volume: n,
            pid: n,
            length: 512,
            late: 0,
            service: 500,
            outcome: 0,
            pushed: false,
        })
        .collect();
    let found = figures(&analysis(&requests(&steps, true, false)));
    let volumes = found["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), LISTED + 1);
    let sum: u64 = volumes.iter().map(|row| row["requests"].as_u64().unwrap()).sum();
    assert_eq!(sum, 10_000);
    assert!(volumes.last().unwrap()["id"].is_null());
}

#[test]
fn operations_on_files_have_bins_correlations_and_levels_of_their_own_and_no_size() {
    let ops = [Op::Open, Op::Write, Op::Close, Op::Flush];
    let steps: Vec<Step> = (0..400_usize)
        .map(|n| Step {
            gap: 1000,
            op: ops[n % ops.len()].code(),
            volume: 0,
            pid: 1,
            length: if n % ops.len() == 1 { 4096 } else { 0 },
            late: 0,
            // Several are in flight at once.
            service: 10_000 * (1 + n % ops.len()) as i64,
            outcome: 0,
            pushed: false,
        })
        .collect();
    let analysis = analysis(&requests(&steps, true, false));
    let found = figures(&analysis);
    let groups = |of: &Value, word: &str| -> Vec<String> {
        let all = of.as_array().unwrap().iter();
        let its = all.filter(|one| one["span"] == word || one["name"] == word);
        its.map(|one| one["group"].as_str().unwrap().to_owned()).collect()
    };
    let expected = ["writes", "other", "open", "close", "all"];
    assert_eq!(groups(&found["spans"], "service time"), expected);
    let correlations = &found["flight"]["correlations"];
    assert_eq!(groups(correlations, "latency-in-flight-own"), expected);
    assert_eq!(groups(correlations, "size-latency"), ["writes", "all"]);
    let levels = found["flight"]["in_flight"].as_array().unwrap();
    assert_eq!(levels.iter().map(|one| &one["name"]).collect::<Vec<_>>(), expected);
    let sizes = found["sizes"]["operations"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|one| &one["op"]).collect::<Vec<_>>(), ["write"]);
    let rows = rows(&[&analysis]);
    let of_times = |row: &&Row| row.metric == "service_ns";
    let of = |op: &str| -> i64 {
        let its = rows.iter().filter(of_times).filter(|row| row.op.as_deref() == Some(op));
        its.map(|row| row.value).sum()
    };
    assert_eq!(["open", "write", "close", "other"].map(of), [100; 4]);
}
