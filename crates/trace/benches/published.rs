//! How fast published text traces are read, in lines a second on one core.
//!
//! The lines are made here, as the published files have them: a billion-byte offset, sizes of a
//! server, an instant of sixteen to eighteen digits.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::Batch;
use ioecho_trace::formats::{self, ReadOptions, WholeSeconds};

const LINES: u64 = 2_000_000;

/// The output step of splitmix64.
fn random(number: u64) -> u64 {
    let z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Line `number` of a format: its random offset and length in bytes, and whether it is a read.
type Make = fn(&mut String, u64, (u64, u64, bool));

const FORMATS: [(&str, Make); 6] = [
    ("msr", |text, number, (offset, length, is_read)| {
        let ticks = 128_166_385_295_514_663 + number * 977;
        let word = if is_read { "Read" } else { "Write" };
        let _ = writeln!(text, "{ticks},usr,1,{word},{offset},{length},{}", 2000 + number % 99_999);
    }),
    ("alibaba", |text, number, (offset, length, is_read)| {
        let (device, letter) = (random(number) % 1000, if is_read { 'R' } else { 'W' });
        let micros = 1_577_808_000_000_046 + number * 50;
        let _ = writeln!(text, "{device},{letter},{offset},{length},{micros}");
    }),
    ("spc", |text, number, (offset, length, is_read)| {
        let letter = if is_read { 'R' } else { 'W' };
        let (seconds, micros) = (number / 1000, number % 1000 * 1000);
        let _ = writeln!(text, "0,{},{length},{letter},{seconds}.{micros:06}", offset / 512);
    }),
    ("tencent", |text, number, (offset, length, is_read)| {
        let (seconds, write) = (1_538_323_200 + number / 40_000, u8::from(!is_read));
        let volume = random(number) % 5584;
        let (sector, sectors) = (offset / 512, length / 512);
        let _ = writeln!(text, "{seconds},{sector},{sectors},{write},{volume}");
    }),
    ("fiu", |text, number, (offset, _, is_read)| {
        let (ns, letter) = (89_967_404_265_337 + number * 4001, if is_read { 'R' } else { 'W' });
        let (pid, sector) = (4000 + number / 99 % 300, offset / 512);
        let digest = u128::from(random(number)) << 64 | u128::from(number);
        let _ = writeln!(text, "{ns} {pid} nfsd {sector} 8 {letter} 6 0 {digest:032x}");
    }),
    ("thesios", |text, number, (offset, length, is_read)| {
        let file = u128::from(random(number % 9999)) << 64 | u128::from(number % 9999);
        let word = if is_read { "READ" } else { "WRITE" };
        let (seconds, micros) = (1_705_305_600 + number / 1000, number % 1000 * 1000);
        let _ = writeln!(
            text,
            "{file:032x}{file:032x},{},bigtable,1705305576,WARM,REPLICATED,{word},\
             THROUGHPUT_ORIENTED,0,0,{length},{length},{length},{seconds}.{micros:06}780,\
             0.004239065,{seconds}.019604445,0.004246402",
            offset % (1 << 26)
        );
    }),
];

fn read(path: &Path, options: &ReadOptions) {
    let mut source = formats::open(path, options).expect("the file was written above");
    let mut batch = Batch::new(source.header().columns);
    let mut requests = 0;
    while source.next_batch(&mut batch).expect("the file is whole") {
        requests += batch.len() as u64;
        black_box(&batch);
    }
    assert_eq!(requests, LINES);
}

fn published(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("there is room for a directory");
    let mut group = criterion.benchmark_group("published");
    group.throughput(Throughput::Elements(LINES)).sample_size(10);
    for (name, make) in FORMATS {
        let mut text = String::new();
        for number in 0..LINES {
            let random = random(number);
            let length = [4096, 4096, 8192, 16_384, 512, 65_536][(random >> 40) as usize % 6];
            let offset = random % 200_000_000 * 512;
            make(&mut text, number, (offset, length, random >> 63 == 0));
        }
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("there is room for the file");
        let format = formats::by_name(name).ok();
        let options = ReadOptions { format, ..ReadOptions::default() };
        group.bench_function(name, |bench| bench.iter(|| read(&path, &options)));
        if name == "tencent" {
            let options = ReadOptions { whole_seconds: WholeSeconds::Poisson, ..options };
            group.bench_function("tencent/poisson", |bench| bench.iter(|| read(&path, &options)));
        }
    }
    group.finish();
}

criterion_group!(benches, published);
criterion_main!(benches);
