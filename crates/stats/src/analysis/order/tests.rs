use ioecho_trace::{Bytes, Nanos, Op, VolumeId};
use proptest::prelude::*;

use super::*;
use crate::analysis::laws::{absurd, assert_laws, load};

fn figures(requests: &[Request]) -> OrderFigures {
    let mut order = Order::default();
    for request in requests {
        order.observe(request);
    }
    order.figures()
}

fn at(ms: i64, op: Op, begin: u64, length: u64) -> Request {
    Request::new(Nanos::from_millis(ms), op, Bytes(begin), Bytes(length))
}

/// Streams that take turns, more of them at once than a part has requests.
fn streams() -> impl Strategy<Value = Vec<Request>> {
    let next = (0_u64..90, any::<bool>(), 0_u32..2, 0_u64..3);
    proptest::collection::vec(next, 0..900).prop_map(|choices| {
        let mut ends = [0_u64; 90];
        let mut load = Vec::new();
        for (number, (stream, jumps, volume, back)) in choices.into_iter().enumerate() {
            let end = &mut ends[stream as usize];
            // Some places are used by several streams, and some requests come twice.
            *end = if jumps && back == 0 { (stream % 7) * 4096 } else { *end };
            let begin = end.saturating_sub(if jumps && back == 1 { 4096 } else { 0 });
            *end = begin + 4096;
            let op = if stream % 3 == 0 { Op::Write } else { Op::Read };
            let mut request = at(number as i64 * 37, op, begin, 4096);
            request.volume = VolumeId(volume);
            load.push(request);
        }
        load
    })
}

/// The share of turns by the definition.
fn turns(requests: &[&Request]) -> u64 {
    let pairs = requests.windows(2);
    pairs.filter(|pair| pair[1].offset < pair[0].offset).count() as u64
}

proptest! {
    #[test]
    fn the_laws_hold(load in load(), first in 0_usize..120, second in 0_usize..120) {
        assert_laws(&Order::default(), Order::figures, &load, (first, second));
    }

    #[test]
    fn the_laws_hold_of_streams_that_take_turns(
        load in streams(),
        first in 0_usize..900,
        second in 0_usize..900,
    ) {
        assert_laws(&Order::default(), Order::figures, &load, (first, second));
    }

    #[test]
    fn turns_by_completion_are_those_of_the_sorted_load(
        load in load(),
        latencies in proptest::collection::vec(0_i64..3_000_000_000, 120),
        first in 0_usize..120,
        second in 0_usize..120,
    ) {
        let mut load = load;
        for (request, latency) in load.iter_mut().zip(latencies) {
            request.latency = (latency % 7 > 0).then_some(Nanos(latency));
        }
        assert_laws(&Order::default(), Order::figures, &load, (first, second));
        let found = figures(&load).turns_completed;
        load.retain(|request| request.latency.is_some());
        load.sort_by_key(|request| request.issue + request.latency.unwrap());
        let mut expected = 0;
        for volume in 0..3 {
            let of = |r: &&Request| r.volume.0 == volume && read_or_write(r.op).is_some();
            expected += turns(&load.iter().filter(of).collect::<Vec<_>>());
        }
        prop_assert_eq!(found.all.turns, expected);
    }

    #[test]
    fn nothing_absurd_makes_it_fall_over(load in absurd()) {
        let mut order = Order::default();
        for request in &load {
            order.observe(request);
        }
        let mut twice = order.clone();
        twice.merge(&order);
        twice.figures();
    }

    #[test]
    fn turns_are_counted_among_the_requests_of_a_volume_and_kind(load in load()) {
        let figures = figures(&load);
        let expected = |ops: &[Op]| -> u64 {
            let of = |volume: u32| -> Vec<&Request> {
                let of = |r: &&Request| r.volume.0 == volume && ops.contains(&r.op);
                load.iter().filter(of).collect()
            };
            (0..3).map(|volume| turns(&of(volume))).sum()
        };
        prop_assert_eq!(figures.turns.reads.turns, expected(&[Op::Read]));
        prop_assert_eq!(figures.turns.writes.turns, expected(&[Op::Write]));
        prop_assert_eq!(figures.turns.all.turns, expected(&[Op::Read, Op::Write]));
    }
}

#[test]
fn the_share_of_turns_is_that_of_each_second() {
    let figures = figures(&[
        at(0, Op::Read, 8192, 512),
        at(500, Op::Read, 0, 512),
        at(2500, Op::Write, 4096, 512),
    ]);
    assert_eq!(figures.turns.all.series.values, [Some(0.5), None, Some(0.0)]);
    assert_eq!(figures.turns.writes.series.values, [None, None, Some(0.0)]);
    assert!((figures.turns.all.share - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn streams_that_take_turns_are_seen_though_no_neighbours_are_sequential() {
    let load: Vec<Request> = (0..400_u64)
        .map(|number| {
            let (stream, step) = (number % 4, number / 4);
            at(number as i64 * 10, Op::Read, (stream << 30) + step * 4096, 4096)
        })
        .collect();
    let found = figures(&load);
    let reads = &found.sequential.reads;
    assert!(reads.strict < 1e-9);
    assert!((reads.in_run - 396.0 / 400.0).abs() < 1e-9);
    assert!((reads.in_stream - 1.0).abs() < 1e-9);
    assert_eq!(found.streams.count.reads, 4);
    assert!((found.streams.mean_concurrent.reads - 4.0).abs() < 0.05);
    assert_eq!(found.streams.concurrent.reads.values, [Some(4.0); 4]);
    // Each comes four requests after the one that it continues.
    assert_eq!(reads.gaps.counts, [0, 0, 396]);
    assert_eq!(reads.longest_run_bytes, 100 * 4096);
}

#[test]
fn a_run_ends_when_nothing_continues_it_for_long() {
    let mut load = vec![at(0, Op::Read, 0, 4096)];
    load.extend((0..OPEN_FOR).map(|number| at(0, Op::Read, (number + 1) << 30, 4096)));
    load.push(at(0, Op::Read, 4096, 4096));
    assert!(figures(&load).sequential.reads.in_run < 1e-9);
    load.remove(5);
    assert!(figures(&load).sequential.reads.in_run > 0.0);
}

#[test]
fn a_seek_goes_from_the_end_of_a_request_to_the_start_of_the_next() {
    let found = figures(&[
        at(0, Op::Read, 0, 4096),
        at(0, Op::Read, 4096, 4096),
        at(0, Op::Read, 9216, 1024),
        at(0, Op::Write, 0, 4096),
    ]);
    let seeks = &found.seeks.all;
    assert_eq!(seeks.zero, 1);
    // 1 KiB forward, 10 KiB backward.
    assert_eq!(seeks.forward.counts.iter().position(|count| *count == 1), Some(10));
    assert_eq!(seeks.backward.counts.iter().position(|count| *count == 1), Some(13));
    assert!((seeks.mean_bytes - 11.0 * 1024.0 / 3.0).abs() < 1e-6);
    assert!((found.sequential.all.near - 3.0 / 4.0).abs() < 1e-9);
}

#[test]
fn of_a_load_without_latencies_no_turns_by_completion_are_told() {
    let found = figures(&[at(0, Op::Read, 8192, 512), at(0, Op::Read, 0, 512)]);
    assert_eq!((found.turns.all.turns, found.turns_completed.all.requests), (1, 0));
    assert!(found.turns_completed.all.series.values.is_empty());
}

#[test]
fn of_more_completions_than_are_held_back_the_parts_agree_with_the_whole() {
    let load: Vec<Request> = (0..5_000_u64)
        .map(|number| {
            let random = crate::count::sample::mix(number);
            let mut request = at(number as i64, Op::Read, random % 100 * 4096, 4096);
            request.latency = Some(Nanos((random >> 8) as i64 % 200_000_000));
            request
        })
        .collect();
    for (first, second) in [(0, 1), (100, 1500), (2_500, 4_000), (4_990, 5_000)] {
        assert_laws(&Order::default(), Order::figures, &load, (first, second));
    }
}
