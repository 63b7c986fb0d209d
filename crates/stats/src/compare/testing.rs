//! Runs for the tests of this module: a fixed load on a made-up device.

use ioecho_trace::generate::random::Random;
use ioecho_trace::{
    Batch, Bytes, Columns, Integrity, LateCause, Measured, Nanos, Op, Outcome, Request,
};

use super::profile::{Blocking, Cut, RunProfile};

/// A request of 4 KiB with these instants.
pub(super) fn measured(scheduled: i64, submitted: i64, completed: i64) -> Request {
    let mut request = Request::new(Nanos(scheduled), Op::Read, Bytes(0), Bytes(4096));
    request.measured = Some(Measured {
        scheduled: Nanos(scheduled),
        submitted: Some(Nanos(submitted)),
        completed: Some(Nanos(completed)),
        target_offset: None,
        in_flight: 1,
        outcome: Outcome::Ok,
        pushed_back: false,
        late_cause: LateCause::None,
        target: 0,
        integrity: Integrity::Unchecked,
    });
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

/// The profile of such a run.
pub(super) fn profile(requests: &[Request]) -> RunProfile {
    let extent = requests.len() as i64 * 1_000_000;
    let mut profile = RunProfile::new(Blocking::new(Cut::Time(extent), requests.len() as u64));
    let mut batch = Batch::new(Columns { measured: true, ..Columns::default() });
    batch.extend(requests);
    profile.observe(&batch);
    profile
}
