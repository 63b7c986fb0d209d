//! How fast loads are generated, in requests a second on one core.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::Batch;
use ioecho_trace::generate;

const REQUESTS: u64 = 1_000_000;

const LINES: [(&str, &str); 8] = [
    ("random", "gen:random?area=1T"),
    ("random-mixed", "gen:random?area=1T&read=70&size=4k:60,64k:40&dist=poisson"),
    ("sequential", "gen:sequential?area=1T&read=0"),
    ("zipf", "gen:zipf?area=1T&read=70"),
    ("streams", "gen:streams?area=1T&streams=16"),
    ("self-similar", "gen:random?area=1T&dist=self-similar(hurst=0.8)"),
    ("cascade", "gen:random?area=1T&dist=cascade(bias=0.7)"),
    (
        "model",
        "gen:model?area=1T&mix=R4k:30,W8k:50,W512:20&sequential=R:10,W:50&reuse=W:5/5/5/5/5/5",
    ),
];

fn generation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("generate");
    group.throughput(Throughput::Elements(REQUESTS)).sample_size(10);
    for (name, line) in LINES {
        let line = format!("{line}&count={REQUESTS}");
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut source = generate::open(Path::new(&line)).expect("the line is sound");
                let mut batch = Batch::new(source.header().columns);
                while source.next_batch(&mut batch).expect("nothing is read") {
                    black_box(batch.len());
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, generation);
criterion_main!(benches);
