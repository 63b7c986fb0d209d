//! Runs for the tests of this module: a fixed load on a made-up device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ioecho_trace::generate::random::Random;
use ioecho_trace::{Batch, Bytes, Columns, Measured, Nanos, Op, Request};

use super::profile::{Blocking, Cut, RunProfile};

/// A request of 4 KiB with these instants.
pub(super) fn measured(scheduled: i64, submitted: i64, completed: i64) -> Request {
    let mut request = Request::new(Nanos(scheduled), Op::Read, Bytes(0), Bytes(4096));
    request.measured = Some(Measured::done(Nanos(scheduled), Nanos(submitted), Nanos(completed)));
    request
}

/// A run of `requests` at 1000 a second, one in three a write, on a device whose mean service time
/// is `mean_ns`. Its speed wanders as that of a real one: a slow random walk around it, and now and
/// then a stall of some requests together.
pub(super) fn run(seed: u64, requests: usize, mean_ns: f64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let (mut drift, mut stalled) = (0.0_f64, 0_u32);
    let load = (0..requests).map(|number| {
        let scheduled = number as i64 * 1_000_000;
        drift = 0.98 * drift + 0.06 * (random.unit() - 0.5);
        if random.below(8_000) == 0 {
            stalled = 20;
        }
        stalled = stalled.saturating_sub(1);
        let stall = if stalled > 0 { 4.0 } else { 0.0 };
        let service = mean_ns * (0.5 + 0.5 * random.exponential() + stall) * drift.exp();
        let mut request = measured(scheduled, scheduled, scheduled + service as i64);
        if number % 3 == 0 {
            request.op = Op::Write;
        }
        request.length = Bytes(4096 << (number % 5));
        request
    });
    load.collect()
}

/// A run of `requests` at independent instants, 5000 a second, on a device that serves one after
/// the other and needs `service_ns` on average for each. Near its capacity it remembers every queue
/// for long. Runs with the same `load` replay the same requests.
pub(super) fn queued(load: u64, device: u64, requests: usize, service_ns: f64) -> Vec<Request> {
    let (mut arrivals, mut services) = (Random::new(load), Random::new(device));
    let (mut at, mut free) = (0.0_f64, 0.0_f64);
    let all = (0..requests).map(|_| {
        at += 200_000.0 * arrivals.exponential();
        free = free.max(at) + service_ns * services.exponential();
        measured(at as i64, at as i64, free as i64)
    });
    all.collect()
}

/// A run of `requests` without a schedule, always `in_flight` of them, each of which takes
/// `service_ns` on average, one in 500 five times as long.
pub(super) fn closed(
    seed: u64,
    requests: usize,
    in_flight: usize,
    service_ns: f64,
) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut free: BinaryHeap<Reverse<i64>> = (0..in_flight).map(|_| Reverse(0)).collect();
    let all = (0..requests).map(|_| {
        let at = free.pop().map_or(0, |Reverse(at)| at);
        let slow = if random.below(500) == 0 { 5.0 } else { 1.0 };
        let done = at + (service_ns * slow * (0.5 + 0.5 * random.exponential())) as i64;
        free.push(Reverse(done));
        measured(at, at, done)
    });
    all.collect()
}

/// The profile of a run, cut by this into blocks.
pub(super) fn cut(requests: &[Request], cut: Cut) -> RunProfile {
    cut_by(requests, Blocking::new(cut, requests.len() as u64))
}

/// The same into these blocks.
pub(super) fn cut_by(requests: &[Request], blocking: Blocking) -> RunProfile {
    let mut profile = RunProfile::new(blocking);
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    batch.extend(requests);
    profile.observe(&batch);
    profile
}

/// The profile of a [`run`].
pub(super) fn profile(requests: &[Request]) -> RunProfile {
    cut(requests, Cut::Time(requests.len() as i64 * 1_000_000))
}
