//! How fast transforms are, in requests a second on one core: each alone over requests in memory,
//! and two of them over a native file, as a load is made for a replay.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::batch::BATCH_ROWS;
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::transform::{self, Asked, Context};
use ioecho_trace::{Batch, Bytes, Columns, Header, Nanos, Op, Request, Source, Stop, TraceError};

const REQUESTS: u64 = 2_000_000;

/// Requests with the sizes and the locality of a busy server.
fn batches() -> Vec<Batch> {
    let (mut batches, mut batch) = (Vec::new(), Batch::new(Columns::default()));
    let (mut random, mut issue, mut sector) = (1_u64, 0, 0);
    for _ in 0..REQUESTS {
        // The generator of Knuth's MMIX; its high bits will do.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let number = random >> 20;
        issue += (number % 100_000) as i64;
        let sectors = [8, 8, 8, 16, 16, 32, 64, 248][(number >> 20) as usize % 8];
        sector = if number >> 42 == 0 { sector + sectors } else { (number >> 12) % 1_500_000_000 };
        let op = if (number >> 17).is_multiple_of(3) { Op::Read } else { Op::Write };
        let (offset, length) = (Bytes(sector * 512), Bytes(sectors * 512));
        batch.push(&Request::new(Nanos(issue), op, offset, length));
        if batch.len() == BATCH_ROWS {
            batches.push(std::mem::replace(&mut batch, Batch::new(Columns::default())));
        }
    }
    batches.push(batch);
    batches
}

/// A source that copies from memory.
struct Memory {
    header: Header,
    batches: &'static [Batch],
    next: usize,
}

impl Source for Memory {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let Some(next) = self.batches.get(self.next) else { return Ok(false) };
        batch.clone_from(next);
        self.next += 1;
        Ok(true)
    }
}

fn drain(chain: &[Asked], source: Box<dyn Source>) {
    let context = Context {
        open: &|path| formats::open(path, &ReadOptions::default()),
        spill_directory: std::env::temp_dir(),
        stop: Stop::default(),
    };
    let mut source = transform::apply(chain, source, &context).expect("there is room to spill");
    let mut batch = Batch::new(source.header().columns);
    while source.next_batch(&mut batch).expect("the source is whole") {
        black_box(&batch);
    }
}

fn write(path: &Path, batches: &[Batch]) {
    let header = Header::default();
    let mut sink = formats::create(path, &header).expect("the file can be created");
    for batch in batches {
        sink.write(batch).expect("the file can be written");
    }
    sink.finish(&header).expect("the file can be finished");
}

fn transforms(criterion: &mut Criterion) {
    let batches: &'static [Batch] = batches().leak();
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let file = directory.path().join("trace.parquet");
    write(&file, batches);
    let chain = |lines: &[&str]| -> Vec<Asked> {
        lines.iter().map(|line| line.parse().expect("the line is right")).collect()
    };

    let mut group = criterion.benchmark_group("transforms");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for line in [
        "",
        "speed 1.5",
        "rate 5000",
        "ramp 5000",
        "ramp 1,slope=10",
        "slip 128k",
        "spread 2",
        "spread 1.5",
        "resize 2",
        "substitute swap",
        "thin 50",
        "sample space=10",
        "sample time=1s,every=10s",
        "remap wrap,512G",
        "remap fold,500G",
        "remap scale,512G,from=1T",
        "remap pack",
        "anonymise key,size=1T",
        "repeat 2",
        "adjacent",
    ] {
        let chain = if line.is_empty() { Vec::new() } else { chain(&[line]) };
        let name = if line.is_empty() { "copy of memory" } else { line };
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let memory = Memory { header: Header::default(), batches, next: 0 };
                drain(&chain, Box::new(memory));
            });
        });
    }
    for lines in [&[][..], &["spread 2", "speed 1.5"], &["thin 50", "resize 2"]] {
        let chain = chain(lines);
        group.bench_function(format!("native file, {}", lines.join(", ")), |bench| {
            bench.iter(|| {
                let options = ReadOptions::default();
                let source = formats::open(&file, &options).expect("the file was written above");
                drain(&chain, source);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, transforms);
criterion_main!(benches);
