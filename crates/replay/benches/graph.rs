//! The time to find the parents of a request, with few and with many requests in flight.
//!
//! The time of hfplayer's analyser grows with the square of the trace. Here the time per request
//! may depend only on the number in flight, not on the length of the trace.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ioecho_replay::graph::infer::{Inference, Rules};
use ioecho_replay::graph::processes::Processes;
use ioecho_replay::graph::survey::Survey;
use ioecho_replay::pattern::SplitMix64;
use ioecho_trace::{Bytes, Nanos, Op, Origin, Request};

const REQUESTS: u64 = 100_000;

/// Closed loops of one request each, issued by this number of processes.
fn closed_loops(in_flight: u64, processes: u64) -> Vec<Request> {
    let mut random = SplitMix64(1);
    let mut all = Vec::new();
    for slot in 0..in_flight {
        let mut ns = random.below(100_000) as i64;
        for _ in 0..REQUESTS / in_flight {
            let op = if random.below(2) == 0 { Op::Read } else { Op::Write };
            let offset = Bytes(random.below(1 << 20) * 4096);
            let mut request = Request::new(Nanos(ns), op, offset, Bytes(4096));
            let latency = 50_000 + random.below(50_000) as i64;
            request.latency = Some(Nanos(latency));
            request.origin = Some(Origin { pid: (slot % processes) as u32, cpu: 0 });
            all.push(request);
            ns += latency + 12_000 + random.below(8_000) as i64;
        }
    }
    all.sort_by_key(|request| request.issue);
    all
}

fn infer(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("graph");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (in_flight, processes) in [(16, 1), (128, 1), (128, 8)] {
        let requests = closed_loops(in_flight, processes);
        let known =
            if processes > 1 { Processes::with_pairs(&[(1, 2)]) } else { Processes::default() };
        let rules = Rules { threshold: Nanos(10_000), window_rows: 65_536, processes: known };
        let name = format!("infer/{in_flight} in flight, {processes} processes");
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let mut inference = Inference::new(rules.clone());
                requests.iter().map(|request| inference.push(request).parents.len()).sum::<usize>()
            });
        });
        let name = format!("survey/{in_flight} in flight, {processes} processes");
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| {
                let mut survey = Survey::new(processes > 1);
                for request in &requests {
                    survey.push(request);
                }
                survey.finish().requests
            });
        });
    }
    group.finish();
}

criterion_group!(benches, infer);
criterion_main!(benches);
