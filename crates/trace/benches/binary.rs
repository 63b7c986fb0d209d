//! How many records a second the binary formats are read with, packed and not.

#![allow(missing_docs)]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::formats::{self, ReadOptions};
use ioecho_trace::{Batch, Source};

const RECORDS: u64 = 2_000_000;

/// A block somewhere, and the length of a request.
fn place(n: u64) -> (u64, u32) {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 34) & !7, 512 << (mixed & 7))
}

fn vscsi() -> Vec<u8> {
    let record = |n: u64| {
        let (block, length) = place(n);
        let mut bytes = (n as u32).to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        let code = if n.is_multiple_of(3) { 0x28_u16 } else { 0x2a };
        bytes.extend(code.to_le_bytes());
        bytes.extend(0x0100_u16.to_le_bytes());
        bytes.extend(block.to_le_bytes());
        bytes.extend((5_633_898_368_802 + n * 70).to_le_bytes());
        bytes
    };
    (0..RECORDS).flat_map(record).collect()
}

fn oracle_general() -> Vec<u8> {
    let record = |n: u64| {
        let (block, length) = place(n);
        let mut bytes = ((n / 5000) as u32).to_le_bytes().to_vec();
        bytes.extend(block.to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend((-1_i64).to_le_bytes());
        bytes
    };
    (0..RECORDS).flat_map(record).collect()
}

fn flatfile() -> Vec<u8> {
    let record = |n: u64| {
        let (block, length) = place(n);
        let words = [
            0xeeee_0500_0000_0007,
            n * 70,
            250,
            n & 3,
            block * 512,
            u64::from(length) << 32 | 0x1267,
            (n & 1) << 56,
        ];
        words.into_iter().flat_map(u64::to_be_bytes)
    };
    (0..RECORDS).flat_map(record).collect()
}

fn btreplay() -> Vec<u8> {
    let head = [1_u64 << 16, 0, 0, 0].into_iter().flat_map(u64::to_le_bytes);
    let bunch = |n: u64| {
        let mut bytes = [1, n * 70_000].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>();
        let (block, length) = place(n);
        bytes.extend(block.to_le_bytes());
        bytes.extend(u64::from(length).to_le_bytes());
        bytes.extend((n & 1).to_le_bytes());
        bytes
    };
    head.chain((0..RECORDS).flat_map(bunch)).collect()
}

fn read(path: &Path) {
    let options = ReadOptions::default();
    let mut source = formats::open(path, &options).expect("the file was written above");
    let mut batch = Batch::new(source.header().columns);
    let mut requests = 0;
    while source.next_batch(&mut batch).expect("the file is whole") {
        requests += batch.len() as u64;
        black_box(&batch);
    }
    assert_eq!(requests, RECORDS);
}

fn binary(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let mut group = criterion.benchmark_group("binary");
    group.throughput(Throughput::Elements(RECORDS)).sample_size(10);
    for (name, bytes) in [
        ("vscsi", vscsi()),
        ("oracle-general", oracle_general()),
        ("vdbench", flatfile()),
        ("btreplay", btreplay()),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, &bytes).expect("there is room for the file");
        group.bench_function(name, |bench| bench.iter(|| read(&path)));
        let packed = zstd::encode_all(&bytes[..], 1).expect("there is memory");
        std::fs::write(&path, packed).expect("there is room for the file");
        group.bench_function(format!("{name}.zst"), |bench| bench.iter(|| read(&path)));
    }
    group.finish();
}

criterion_group!(benches, binary);
criterion_main!(benches);
