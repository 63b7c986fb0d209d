//! How many events of a raw recording are read in a second.
//!
//! The load of the blktrace benchmark as pages of tracefs. Checksums, pages, matching and the
//! driver's figures are all in it. Page cache only, one core:
//! `cargo bench -p ioecho-trace --bench recording`.

mod load;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ioecho_trace::formats::{ReadOptions, recording};
use ioecho_trace::recording::{Description, FrameWriter, segment_file};
use ioecho_trace::{Batch, Source};
use load::Step;

/// Bytes of a page that may be used.
const PAGE_BYTES: usize = 4080;

/// A tracepoint: its name, where its letters are, and how long its events are (Linux 6.18).
type Tracepoint = (&'static str, usize, usize);
const QUEUE: Tracepoint = ("block_bio_queue", 28, 56);
const ISSUE: Tracepoint = ("block_rq_issue", 34, 64);
const COMPLETE: Tracepoint = ("block_rq_complete", 34, 48);

/// The pages of a processor.
struct Tape {
    writer: FrameWriter<Vec<u8>>,
    page: Vec<u8>,
    begin: u64,
    now: u64,
    events: u64,
}

impl Tape {
    fn new(cpu: u32) -> Self {
        let writer = FrameWriter::new(Vec::new(), cpu, 0);
        Self { writer, page: Vec::new(), begin: 0, now: 0, events: 0 }
    }

    fn flush(&mut self) {
        let mut payload = self.begin.to_le_bytes().to_vec();
        payload.extend((self.page.len() as u64).to_le_bytes());
        payload.append(&mut self.page);
        self.writer.append(&payload).expect("memory takes it");
    }

    fn event(&mut self, ids: &Ids, time: u64, point: Tracepoint, sector: u64, sectors: u32) {
        let (name, letters, bytes) = point;
        if self.page.len() + 4 + bytes > PAGE_BYTES {
            self.flush();
        }
        if self.page.is_empty() {
            (self.begin, self.now) = (time, time);
        }
        let mut event = vec![0; bytes];
        event[..2].copy_from_slice(&ids.of(name).to_le_bytes());
        event[4..8].copy_from_slice(&4711_u32.to_le_bytes());
        event[8..12].copy_from_slice(&ids.device.to_le_bytes());
        event[16..24].copy_from_slice(&sector.to_le_bytes());
        event[24..28].copy_from_slice(&sectors.to_le_bytes());
        event[letters] = if sector & 64 == 0 { b'R' } else { b'W' };
        if name == QUEUE.0 {
            event[38..41].copy_from_slice(b"fio");
        }
        let head = ((time - self.now) as u32) << 5 | (bytes / 4) as u32;
        self.page.extend(head.to_le_bytes());
        self.page.extend(event);
        self.now = time;
        self.events += 1;
    }
}

/// The numbers of tracepoints and device in the description.
struct Ids {
    description: Description,
    device: u32,
}

impl Ids {
    fn of(&self, name: &str) -> u16 {
        let events = &self.description.tracefs.as_ref().expect("it is of tracefs").events;
        events.iter().find(|format| format.name == name).expect("it is recorded").id
    }
}

fn recording_of() -> (Ids, [Tape; 2]) {
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/loop.recording");
    let text = fs::read(real.join("recording.json")).expect("a description");
    let description: Description = serde_json::from_slice(&text).expect("a description");
    let device = description.devices[0].number;
    let ids = Ids { description, device };
    let mut tapes = [0, 1].map(Tape::new);
    load::tell(|cpu, time, step, sector, sectors| {
        let point = match step {
            Step::Queue => QUEUE,
            Step::Issue => ISSUE,
            Step::Complete => COMPLETE,
        };
        tapes[cpu].event(&ids, time, point, sector, sectors);
    });
    tapes.iter_mut().for_each(Tape::flush);
    (ids, tapes)
}

fn reading(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (ids, tapes) = recording_of();
    ids.description.save(directory.path()).expect("it is written");
    let events = tapes.iter().map(|tape| tape.events).sum();
    for (cpu, tape) in tapes.into_iter().enumerate() {
        let path = directory.path().join(segment_file(0, cpu as u32));
        fs::write(path, tape.writer.into_inner()).expect("it is written");
    }
    let mut group = criterion.benchmark_group("recording");
    group.throughput(Throughput::Elements(events)).sample_size(20);
    group.measurement_time(Duration::from_secs(8));
    group.bench_function("pages of two processors, matched", |bencher| {
        bencher.iter(|| {
            let options = ReadOptions::default();
            let mut source = recording::open(directory.path(), &options).expect("it opens");
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
