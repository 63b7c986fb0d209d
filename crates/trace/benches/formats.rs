//! How fast traces are read and written, in requests a second on one core.
//!
//! The trace is made here: a million and a half requests with the sizes and the locality of a busy
//! server, so that neither gzip nor Parquet finds more to compress than in a recording.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::batch::BATCH_ROWS;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Bytes, Columns, Flags, Header, Nanos, Op, Request, Source};

const REQUESTS: u64 = 1_500_000;

/// A generator of numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn batches(columns: Columns) -> Vec<Batch> {
    let mut random = Random(1);
    let (mut batches, mut batch) = (Vec::new(), Batch::new(columns));
    let (mut issue, mut sector) = (0_i64, 0_u64);
    for _ in 0..REQUESTS {
        let number = random.next();
        issue += (number % 100_000) as i64;
        let sectors = [8, 8, 8, 16, 16, 32, 64, 248][(number >> 20) as usize % 8];
        sector = if number >> 62 == 0 { sector + sectors } else { (number >> 24) % 1_500_000_000 };
        let op = if (number >> 17).is_multiple_of(3) { Op::Read } else { Op::Write };
        let (offset, length) = (Bytes(sector * 512), Bytes(sectors * 512));
        let mut request = Request::new(Nanos(issue), op, offset, length);
        request.latency = Some(Nanos(50_000 + (number >> 40) as i64 % 1_000_000));
        if number.is_multiple_of(50) {
            request.flags = Flags::READAHEAD;
        }
        batch.push(&request);
        if batch.len() == BATCH_ROWS {
            batches.push(std::mem::replace(&mut batch, Batch::new(columns)));
        }
    }
    batches.push(batch);
    batches
}

fn write(path: &Path, columns: Columns, batches: &[Batch]) {
    let header = Header { columns, ..Header::default() };
    let mut sink = formats::create(path, &header).expect("the file can be created");
    for batch in batches {
        sink.write(batch).expect("the file can be written");
    }
    sink.finish(&header).expect("the file can be finished");
}

fn read(path: &Path) -> u64 {
    let options = ReadOptions::default();
    let mut source = formats::open(path, &options).expect("the file was written above");
    let mut batch = Batch::new(source.header().columns);
    let mut requests = 0;
    while source.next_batch(&mut batch).expect("the file is whole") {
        requests += batch.len() as u64;
        black_box(&batch);
    }
    assert_eq!(requests, REQUESTS);
    requests
}

fn formats(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let file = |name: &str| directory.path().join(name);
    let required = Columns::default();
    let latency = Columns { latency: true, ..required };
    let plain = batches(required);
    let with_latency = batches(latency);

    let mut group = criterion.benchmark_group("formats");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, columns, batches) in [
        ("required.parquet", required, &plain),
        ("latency.parquet", latency, &with_latency),
        ("plain.load", required, &plain),
        ("packed.load.gz", required, &plain),
    ] {
        let path = file(name);
        group.bench_function(format!("write/{name}"), |bench| {
            bench.iter(|| write(&path, columns, batches));
        });
        group.bench_function(format!("read/{name}"), |bench| bench.iter(|| read(&path)));
        let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        println!("{name}: {:.1} bytes a request", bytes as f64 / REQUESTS as f64);
    }
    group.finish();
}

criterion_group!(benches, formats);
criterion_main!(benches);
