//! The two laws of summaries, tested for each of them.
//!
//! The figures are compared, because users see only those.

use std::fmt::Debug;

use ioecho_trace::{Bytes, Nanos, Op, Request, VolumeId};
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Summary;

/// A load of three volumes in the order of issue, with requests at the same instant, sequential
/// runs, returns to the same places, requests of length zero and absurd ones.
pub(super) fn load() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![
        8 => Just(Op::Read),
        8 => Just(Op::Write),
        1 => proptest::sample::select(Op::ALL.to_vec()),
    ];
    let offset = prop_oneof![
        8 => (0_u64..24).prop_map(|page| page * 4096),
        3 => 0_u64..40_000,
        2 => (0_u64..4096).prop_map(|place| place << 24),
        1 => any::<u64>(),
    ];
    let length = prop_oneof![
        8 => Just(4096_u64),
        4 => (0_u64..20).prop_map(|sectors| sectors * 512),
        1 => 0_u64..70_000,
    ];
    let gap = prop_oneof![
        4 => Just(0_i64),
        8 => 0_i64..700_000_000,
        1 => 0_i64..90_000_000_000,
    ];
    let request = (gap, op, offset, length, 0_u32..3);
    proptest::collection::vec(request, 0..120).prop_map(|requests| {
        let mut now = 0;
        let mut load = Vec::new();
        for (gap, op, offset, length, volume) in requests {
            now += gap;
            let mut request = Request::new(Nanos(now), op, Bytes(offset), Bytes(length));
            request.volume = VolumeId(volume);
            load.push(request);
        }
        load
    })
}

/// Requests that no reader lets through and no summary may fall over.
pub(super) fn absurd() -> impl Strategy<Value = Vec<Request>> {
    let number = prop_oneof![any::<u64>(), Just(u64::MAX), Just(0_u64), 0_u64..10_000];
    let request =
        (any::<i64>(), proptest::sample::select(Op::ALL.to_vec()), number.clone(), number);
    let request = (request, any::<u32>()).prop_map(|((at, op, offset, length), volume)| {
        let mut request = Request::new(Nanos(at), op, Bytes(offset), Bytes(length));
        request.volume = VolumeId(volume);
        request
    });
    proptest::collection::vec(request, 0..12)
}

fn summary<'a, S: Summary>(empty: &S, requests: impl IntoIterator<Item = &'a Request>) -> S {
    let mut summary = empty.clone();
    for request in requests {
        summary.observe(request);
    }
    summary
}

fn merged<S: Summary>(a: &S, b: &S) -> S {
    let mut merged = a.clone();
    merged.merge(b);
    merged
}

fn written_down<S: Serialize + DeserializeOwned>(summary: &S) -> S {
    serde_json::from_str(&serde_json::to_string(summary).unwrap()).unwrap()
}

/// Asserts both laws of a load cut at two places, and that a summary can be written down.
pub(super) fn assert_laws<S, F>(
    empty: &S,
    figures: impl Fn(&S) -> F,
    load: &[Request],
    (first, second): (usize, usize),
) where
    S: Summary + Serialize + DeserializeOwned,
    F: PartialEq + Debug,
{
    let whole = figures(&summary(empty, load));
    let first = first.min(load.len());
    let second = second.clamp(first, load.len());
    let parts = [&load[..first], &load[first..second], &load[second..]];
    let [former, middle, latter] = parts.map(|part| summary(empty, part));
    assert_eq!(
        figures(&merged(&merged(&former, &middle), &latter)),
        whole,
        "cut in time, from the left"
    );
    assert_eq!(
        figures(&merged(&former, &merged(&middle, &latter))),
        whole,
        "cut in time, from the right"
    );

    let of = |requests: &[Request], volume: u32| {
        summary(empty, requests.iter().filter(|request| request.volume.0 == volume))
    };
    let [x, y, z] = [0, 1, 2].map(|volume| of(load, volume));
    assert_eq!(figures(&merged(&merged(&x, &y), &z)), whole, "cut by volume");
    assert_eq!(figures(&merged(&z, &merged(&y, &x))), whole, "cut by volume, another way round");

    // A volume's parts come in the order of time, the volumes in any.
    let late = merged(&of(&load[first..], 2), &of(&load[first..], 0));
    let early = merged(&of(&load[..first], 0), &of(&load[..first], 2));
    assert_eq!(figures(&merged(&y, &merged(&early, &late))), whole, "cut both ways");

    let kept = merged(&written_down(&former), &written_down(&merged(&middle, &latter)));
    assert_eq!(figures(&kept), whole, "written down and read again");
    // A merged summary can continue.
    let mut going_on = merged(&former, &middle);
    for request in &load[second..] {
        going_on.observe(request);
    }
    assert_eq!(figures(&going_on), whole, "continued");
}
