//! What the scheduler costs for each request, with few and with very many in flight.
//!
//! A replay must keep its schedule when a device is overloaded, and then the most requests are in
//! flight. So the cost of a request must not grow with their number.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ioecho_replay::pattern::SplitMix64;
use ioecho_replay::plan::{Planned, TimingMode};
use ioecho_replay::schedule::Config;
use ioecho_replay::{Completion, Io, Scheduler};
use ioecho_trace::{Bytes, Flags, Integrity, LateCause, Nanos, Op, Outcome, VolumeId};

/// Requests of a turn: each completes one in flight and issues one.
const TURN: u64 = 1024;

fn planned(seq: u64, random: &mut SplitMix64) -> Planned {
    let offset = Bytes(random.below(1 << 28) * 4096);
    Planned {
        seq,
        scheduled: Nanos::ZERO,
        issue: Nanos::ZERO,
        op: if random.below(2) == 0 { Op::Read } else { Op::Write },
        flags: Flags::empty(),
        trace_offset: offset,
        offset,
        length: Bytes(4096 << random.below(5)),
        volume: VolumeId(0),
        latency: None,
        recorded_in_flight: 0,
        origin: None,
        target: 0,
        refusal: None,
        think: None,
        behind: 0,
        flow: 0,
        held: None,
    }
}

fn completion(io: &Io) -> Completion {
    Completion {
        tag: io.tag,
        submitted: Nanos(1),
        completed: Nanos(2),
        outcome: Outcome::Ok,
        integrity: Integrity::Unchecked,
    }
}

fn in_flight(criterion: &mut Criterion) {
    turns(criterion, "schedule", TimingMode::Timed);
}

/// The same, where each request waits for one that was issued as many before it as are in flight.
fn chained(criterion: &mut Criterion) {
    turns(criterion, "chains", TimingMode::Dependency);
}

fn turns(criterion: &mut Criterion, name: &str, timing: TimingMode) {
    const NOW: Nanos = Nanos(2);
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(TURN));
    for in_flight in [16_u32, 1024, 16_384, 65_536] {
        let config =
            Config { look_ahead: 1 << 17, timing, ..Config::with_in_flight_max(in_flight) };
        let mut scheduler = Scheduler::new(config);
        let mut random = SplitMix64(1);
        let (mut submissions, mut records) = (Vec::new(), Vec::new());
        let mut seq = 0_u64;
        let mut offer = |scheduler: &mut Scheduler, count: u64| {
            for _ in 0..count {
                let parent = seq.checked_sub(u64::from(in_flight));
                let planned = planned(seq, &mut random);
                let planned = Planned { think: parent.map(|_| Nanos::ZERO), ..planned };
                scheduler.offer_after(planned, parent.as_slice());
                seq += 1;
            }
        };
        offer(&mut scheduler, u64::from(in_flight) + TURN);
        let host = LateCause::Host;
        scheduler.step(NOW, host, &[], &mut submissions, &mut records);
        let mut flying: std::collections::VecDeque<Io> = submissions.drain(..).collect();
        group.bench_function(BenchmarkId::from_parameter(in_flight), |bencher| {
            bencher.iter(|| {
                for _ in 0..TURN {
                    let done = flying.pop_front().map(|io| completion(&io));
                    offer(&mut scheduler, 1);
                    let done = done.as_slice();
                    scheduler.step(NOW, host, done, &mut submissions, &mut records);
                    flying.extend(submissions.drain(..));
                    records.clear();
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, in_flight, chained);
criterion_main!(benches);
