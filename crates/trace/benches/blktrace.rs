//! How many events of a blktrace recording are read in a second.
//!
//! A made-up recording. Page cache only, one core: `cargo bench -p ioecho-trace --bench blktrace`.

mod load;

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::formats::{ReadOptions, blktrace};
use ioecho_trace::{Batch, Source};
use load::Step;

const QUEUE: u32 = 1 | 1 << (16 + 4);
const ISSUE: u32 = 7 | 1 << (16 + 6);
const COMPLETE: u32 = 8 | 1 << (16 + 7);

/// A file of one processor.
struct Tape {
    cpu: u32,
    sequence: u32,
    bytes: Vec<u8>,
}

impl Tape {
    fn event(&mut self, time: u64, action: u32, sector: u64, bytes: u32) {
        self.sequence += 1;
        let direction = 1 << (16 + u32::from(sector & 64 != 0));
        self.bytes.extend_from_slice(&0x6561_7407_u32.to_le_bytes());
        self.bytes.extend_from_slice(&self.sequence.to_le_bytes());
        self.bytes.extend_from_slice(&time.to_le_bytes());
        self.bytes.extend_from_slice(&sector.to_le_bytes());
        for word in [bytes, action | direction, 4711, 8 << 20, self.cpu, 0] {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }
}

/// The files of the two processors and how many events they hold.
fn recording() -> ([Tape; 2], u64) {
    let mut tapes = [0, 1].map(|cpu| Tape { cpu, sequence: 0, bytes: Vec::new() });
    load::tell(|cpu, time, step, sector, sectors| {
        let action = match step {
            Step::Queue => QUEUE,
            Step::Issue => ISSUE,
            Step::Complete => COMPLETE,
        };
        tapes[cpu].event(time, action, sector, 512 * sectors);
    });
    let events = tapes.iter().map(|tape| u64::from(tape.sequence)).sum();
    (tapes, events)
}

fn reading(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (tapes, events) = recording();
    for tape in &tapes {
        let path = directory.path().join(format!("sda.blktrace.{}", tape.cpu));
        fs::write(path, &tape.bytes).expect("the recording is written");
    }
    drop(tapes);
    let mut group = criterion.benchmark_group("blktrace");
    group.throughput(Throughput::Elements(events)).sample_size(20);
    group.measurement_time(Duration::from_secs(8));
    group.bench_function("per-CPU pair, matched", |bencher| {
        bencher.iter(|| {
            let path = directory.path().join("sda");
            let mut source = blktrace::open(&path, &ReadOptions::default()).expect("it opens");
            let mut batch = Batch::new(source.header().columns);
            let mut requests = 0;
            while source.next_batch(&mut batch).expect("it reads") {
                requests += black_box(&batch).len();
            }
            assert!(source.header().losses.is_empty(), "{:?}", source.header().losses);
            requests
        });
    });
    group.finish();
}

criterion_group!(benches, reading);
criterion_main!(benches);
