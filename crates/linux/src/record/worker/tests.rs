//! A recorder on a simulated kernel.

use std::collections::VecDeque;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

use ioecho_trace::recording::{Description, LOG_FILE, segment_file};

use super::super::interface::Interface;
use super::super::store::SegmentLimit;
use super::super::tracer::{Counts, Stream};
use super::*;

const CHUNK: usize = 64;

/// A kernel with some processors, of which one may be broken.
#[derive(Default)]
struct Kernel {
    streams: Vec<Stream>,
    /// The stream that cannot be read.
    broken: Option<usize>,
    /// Chunks of one event that each of the others has yet.
    left: u64,
    /// So many of them are there in each pass.
    each_pass: u64,
    /// How many were given in this pass.
    given: u64,
    meddling: Option<Meddling>,
    /// Whole pages of one event that the first stream has, by their instants, and how many events
    /// had found no room before the first of them was read.
    pages: Arc<Mutex<VecDeque<u64>>>,
    lost: u64,
    read: u64,
    /// How often it was asked whether all events come.
    looks: Arc<AtomicU64>,
    /// Told to stop when nothing is left.
    shared: Arc<Shared>,
}

impl Tracer for Kernel {
    fn interface(&self) -> Interface {
        Interface::Tracefs
    }

    fn streams(&self) -> &[Stream] {
        &self.streams
    }

    fn chunk_bytes(&self) -> usize {
        CHUNK
    }

    fn describe(&self, _: &mut Description) {}

    fn start(&mut self) -> Result<(), RecordError> {
        Ok(())
    }

    fn read(&mut self, stream: usize, chunk: &mut [u8]) -> io::Result<usize> {
        if self.counting() == Counting::Exact {
            let mut pages = self.pages.lock().unwrap();
            let page = if stream == 0 { pages.pop_front() } else { None };
            let Some(time) = page else { return Ok(0) };
            self.read += 1;
            if pages.is_empty() {
                self.shared.stop.store(true, Relaxed);
            }
            chunk[..8].copy_from_slice(&time.to_ne_bytes());
            return Ok(CHUNK);
        }
        if self.broken == Some(stream) {
            return Err(io::Error::other("the cable is out"));
        }
        if self.left == 0 || self.given == self.each_pass {
            self.given = 0;
            return Ok(0);
        }
        self.left -= 1;
        self.given += 1;
        if self.left == 0 {
            self.shared.stop.store(true, Relaxed);
        }
        chunk.fill(7);
        Ok(CHUNK)
    }

    fn counting(&self) -> Counting {
        if self.lost > 0 { Counting::Exact } else { Counting::Together }
    }

    fn counts(&mut self, stream: usize) -> io::Result<Counts> {
        let is_read = stream == 0 && self.read > 0;
        Ok(if is_read { Counts { read: self.read, lost: self.lost } } else { Counts::default() })
    }

    fn contents(&self, chunk: &[u8]) -> Contents {
        let time = u64::from_ne_bytes(*chunk.first_chunk().unwrap());
        Contents { events: 1, first_ns: time, last_ns: time }
    }

    fn meddling(&mut self) -> Option<Meddling> {
        self.looks.fetch_add(1, Relaxed);
        self.meddling.clone()
    }

    fn note(&self) -> Option<String> {
        None
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        Ok(())
    }

    fn detach(&mut self) -> Result<(), RecordError> {
        Ok(())
    }
}

#[test]
fn a_full_buffer_has_lost_behind_the_last_event_that_was_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let pages = Arc::<Mutex<VecDeque<u64>>>::default();
    let kernel = Kernel { pages: Arc::clone(&pages), lost: 7, ..Kernel::default() };
    let worker = worker(kernel, directory.path(), 0);
    let now = monotonic_ns();
    // The last page was begun when the first one was free again.
    pages.lock().unwrap().extend([now + 1, now + 2, now + 3, now + 60_000_000_000]);
    let summary = worker.run(&sync_channel(1).0);
    assert_eq!((summary.events(), summary.lost(), summary.taken), (4, 7, 0));
    let log = fs::read_to_string(directory.path().join(LOG_FILE)).unwrap();
    let expected = format!("\"cpu\":0,\"events\":7,\"from_ns\":{},", now + 3);
    let lost: Vec<_> = log.lines().filter(|line| line.contains("\"lost\",")).collect();
    assert!(lost.len() == 1 && lost[0].contains(&expected), "{expected}: {log}");
}

/// Records until the kernel ends it.
fn record(kernel: Kernel, directory: &Path, reserve: u64) -> Summary {
    worker(kernel, directory, reserve).run(&sync_channel(1).0)
}

/// A recorder of such a kernel.
fn worker(mut kernel: Kernel, directory: &Path, reserve: u64) -> Worker {
    kernel.streams = [0, 1].map(|cpu| Stream { cpu, capacity: 1 << 20 }).to_vec();
    let limit = SegmentLimit { bytes: 1 << 30, time: Duration::from_hours(1) };
    let store = Store::new(directory, [0, 1].into_iter(), limit).unwrap();
    let shared = Arc::clone(&kernel.shared);
    let tracer = Box::new(kernel);
    Worker::new(tracer, store, Vec::new(), directory, Some(reserve), shared)
}

/// The beginnings of the lines about events that are missing.
fn lost_in(directory: &Path) -> Vec<String> {
    let log = fs::read_to_string(directory.join(LOG_FILE)).unwrap();
    let lost = log.lines().filter_map(|line| line.strip_prefix("{\"entry\":\"lost\","));
    lost.map(|line| line.split(",\"from").next().unwrap().to_owned()).collect()
}

#[test]
fn a_processor_that_cannot_be_read_takes_nothing_from_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = Kernel { broken: Some(0), left: 3, each_pass: 2, ..Kernel::default() };
    let summary = record(kernel, directory.path(), 0);
    let Ending::Failed(why) = &summary.ending else { panic!("{:?}", summary.ending) };
    assert!(why.contains("cannot read") && why.contains("the cable is out"), "{why}");
    assert_eq!(summary.dropped, 0, "the disk is fine");
    let kept = fs::read(directory.path().join(segment_file(0, 1))).unwrap();
    assert_eq!(payloads(&kept).count(), 3, "two of the pass that failed, one of the last");
    let lost = lost_in(directory.path());
    assert!(!lost.is_empty(), "what the first had is missing");
    let of_the_first = "\"cpu\":0,\"events\":0";
    assert!(lost.iter().all(|line| line == of_the_first), "nobody knows how many: {lost:?}");
}

#[test]
fn a_tracer_that_is_taken_away_is_told_also_where_only_the_end_sees_it() {
    let directory = tempfile::tempdir().unwrap();
    let kernel =
        Kernel { meddling: Some(Meddling::Gone("it is gone".to_owned())), ..Kernel::default() };
    kernel.shared.stop.store(true, Relaxed);
    let summary = record(kernel, directory.path(), 0);
    let Ending::Failed(why) = &summary.ending else { panic!("{:?}", summary.ending) };
    assert!(why.contains("somebody took away") && why.contains("it is gone"), "{why}");
}

#[test]
fn the_time_without_events_counts_once_also_where_it_is_seen_twice() {
    let directory = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU64::new(0));
    let kernel = Kernel {
        meddling: Some(Meddling::Gone("it is gone".to_owned())),
        looks: Arc::clone(&looks),
        ..Kernel::default()
    };
    let summary = record(kernel, directory.path(), 0);
    assert_eq!(looks.load(Relaxed), 2);
    assert!(summary.blind > Nanos(0) && summary.blind <= summary.wall, "{summary:?}");
}

#[test]
fn a_load_that_fills_the_reserve_has_the_disk_looked_at_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let looks = Arc::new(AtomicU64::new(0));
    let kernel = Kernel { left: 6, each_pass: 1, looks: Arc::clone(&looks), ..Kernel::default() };
    let summary = record(kernel, directory.path(), 1);
    assert_eq!(summary.ending, Ending::Asked);
    let (looks, wall) = (looks.load(Relaxed), summary.wall.0 / 1_000_000_000);
    assert!(looks as i64 <= wall + 1, "{looks} looks in {wall} s: one a second, one at the end");
}

#[test]
fn what_the_recorder_took_is_told_as_the_recording_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = Kernel { left: 2, each_pass: 1, ..Kernel::default() };
    let summary = record(kernel, directory.path(), 0);
    let log = fs::read_to_string(directory.path().join(LOG_FILE)).unwrap();
    let noted = format!("\"cpu_ns\":{},\"wall_ns\":{},", summary.cpu.0, summary.wall.0);
    assert!(log.contains(&noted), "{noted} in {log}");
}
