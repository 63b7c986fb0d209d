//! What the data of a write and its verification cost, in bytes a second on one core.
//!
//! Both are done by the thread that issues, so what they take is taken from its schedule.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_replay::pattern::{Fill, Pattern};
use ioecho_replay::verify::{MemoryTable, Verifier, VerifyConfig};
use ioecho_replay::{Completion, Io, Payload};
use ioecho_trace::{Bytes, Flags, Integrity, Nanos, Op, Outcome};

fn io(op: Op, length: u64) -> Io {
    Io {
        tag: 0,
        request: 7,
        scheduled: Nanos(1),
        op,
        flags: Flags::empty(),
        offset: Bytes(1 << 20),
        length: Bytes(length),
    }
}

fn fill(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("fill");
    for (name, random) in [("incompressible", 100), ("half", 50), ("header and zeroes", 0)] {
        for length in [4096, 65536] {
            let mut pattern = Pattern::with_fill(1, 0, Fill { random, ..Fill::UNIQUE });
            let mut buffer = vec![0; length];
            let write = io(Op::Write, length as u64);
            group.throughput(Throughput::Bytes(length as u64));
            group.bench_function(format!("{name}, {} KiB", length / 1024), |bencher| {
                bencher.iter(|| pattern.fill(&write, black_box(&mut buffer)));
            });
        }
    }
}

fn verify(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("verify");
    let completion = Completion {
        tag: 0,
        submitted: Nanos(2),
        completed: Nanos(3),
        outcome: Outcome::Ok,
        integrity: Integrity::Unchecked,
    };
    for (name, isolated) in [("isolated", true), ("racing", false)] {
        for length in [4096, 65536] {
            let config = VerifyConfig { run: 1, target: 0, isolated };
            let mut verifier = Verifier::new(config, Box::new(MemoryTable::default()), None);
            let (write, read) = (io(Op::Write, length), io(Op::Read, length));
            let mut data = vec![0; length as usize];
            Pattern::new(1).fill(&write, &mut data);
            group.throughput(Throughput::Bytes(length));
            group.bench_function(format!("a write, {name}, {} KiB", length / 1024), |bencher| {
                bencher.iter(|| {
                    verifier.issued(&write, Nanos(1));
                    verifier.completed(&write, &completion, &[])
                });
            });
            group.bench_function(format!("a read, {name}, {} KiB", length / 1024), |bencher| {
                bencher.iter(|| {
                    verifier.issued(&read, Nanos(4));
                    verifier.completed(&read, &completion, black_box(&data))
                });
            });
            assert!(verifier.findings().is_empty());
        }
    }
}

criterion_group!(benches, fill, verify);
criterion_main!(benches);
