//! Where the chunks go: files of frames, cut into segments, and the log beside them.
//!
//! A recording of a day must survive what ends it, so it is kept in segments that are on the disk
//! when the next one is written. The disk may take its time for that; the recorder may not wait for
//! it, or the kernel's buffers overflow. So another thread asks the disk.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_trace::recording::{Entry, FrameWriter, LOG_FILE, segment_file};

use super::clocks::monotonic_ns;
use super::error::RecordError;
use crate::thread::{stand_back, thread_cpu_time};

/// Frames are kept in memory until so many bytes are worth a system call.
const WRITE_BYTES: usize = 128 << 10;

/// Segments that may wait for the disk. If it is slower than that, the kernel writes them in its
/// own time.
const SEGMENTS_WAITING: usize = 4;

/// When a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentLimit {
    /// At so many bytes of all processors together.
    pub(super) bytes: u64,
    /// After this time.
    pub(super) time: Duration,
}

/// The file of a stream in the present segment.
#[derive(Debug)]
struct StreamFile {
    file: File,
    path: PathBuf,
    /// What is in the file: whole frames only.
    position: u64,
}

/// A stream of frames through all segments.
#[derive(Debug)]
struct StreamStore {
    cpu: u32,
    frames: FrameWriter<Vec<u8>>,
    /// Made with the first frame.
    file: Option<StreamFile>,
}

/// The files of a recording that goes on.
#[derive(Debug)]
pub(super) struct Store {
    directory: PathBuf,
    log: File,
    streams: Vec<StreamStore>,
    segment: u32,
    segment_bytes: u64,
    segment_begun: Instant,
    limit: SegmentLimit,
    bytes: u64,
    syncer: Syncer,
}

impl Store {
    /// Begins in a directory that is there; `cpus` has the processor of each stream.
    pub(super) fn new(
        directory: &Path,
        cpus: impl Iterator<Item = u32>,
        limit: SegmentLimit,
    ) -> Result<Self, RecordError> {
        let path = directory.join(LOG_FILE);
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|error| RecordError::output(&path, error))?;
        let stream = |cpu| StreamStore {
            cpu,
            frames: FrameWriter::new(Vec::with_capacity(WRITE_BYTES), cpu, 0),
            file: None,
        };
        let mut store = Self {
            directory: directory.to_owned(),
            log,
            streams: cpus.map(stream).collect(),
            segment: 0,
            segment_bytes: 0,
            segment_begun: Instant::now(),
            limit,
            bytes: 0,
            syncer: Syncer::start(),
        };
        store.note(&Entry::Segment { number: 0, monotonic_ns: monotonic_ns() })?;
        Ok(store)
    }

    /// Keeps a chunk of a stream.
    pub(super) fn append(&mut self, stream: usize, chunk: &[u8]) -> Result<(), RecordError> {
        let one = &mut self.streams[stream];
        let before = one.frames.bytes();
        let appended = one.frames.append(chunk);
        appended.map_err(|error| RecordError::output(&self.directory, error))?;
        let bytes = one.frames.bytes() - before;
        self.segment_bytes += bytes;
        self.bytes += bytes;
        if self.streams[stream].frames.get_mut().len() >= WRITE_BYTES {
            self.write_out(stream)?;
        }
        Ok(())
    }

    /// Hands all frames to the kernel, so that they outlive this process.
    pub(super) fn flush(&mut self) -> Result<(), RecordError> {
        (0..self.streams.len()).try_for_each(|stream| self.write_out(stream))
    }

    /// Begins the next segment if this one is full.
    pub(super) fn cut(&mut self) -> Result<(), RecordError> {
        let is_full = self.segment_bytes >= self.limit.bytes;
        if self.segment_bytes == 0 || !is_full && self.segment_begun.elapsed() < self.limit.time {
            return Ok(());
        }
        self.flush()?;
        let files = self.streams.iter_mut().filter_map(|stream| stream.file.take());
        self.syncer.sync(files.map(|one| one.file).collect());
        self.segment += 1;
        self.segment_bytes = 0;
        self.segment_begun = Instant::now();
        self.note(&Entry::Segment { number: self.segment, monotonic_ns: monotonic_ns() })
    }

    /// Appends to the log.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<(), RecordError> {
        let noted = entry.append(&mut self.log);
        noted.map_err(|error| RecordError::output(&self.directory.join(LOG_FILE), error))
    }

    /// Waits until everything is on the disk.
    pub(super) fn finish(&mut self) -> Result<(), RecordError> {
        self.flush()?;
        for one in self.streams.iter().filter_map(|stream| stream.file.as_ref()) {
            one.file.sync_data().map_err(|error| RecordError::output(&one.path, error))?;
        }
        self.syncer.finish();
        let synced = self.log.sync_data().and_then(|()| File::open(&self.directory)?.sync_all());
        synced.map_err(|error| RecordError::output(&self.directory, error))
    }

    /// Bytes that were kept, in all segments.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many segments there are.
    pub(super) const fn segments(&self) -> u32 {
        self.segment + 1
    }

    /// The processor time of the thread that asks the disk.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.syncer.cpu_ns.load(Relaxed)
    }

    fn write_out(&mut self, stream: usize) -> Result<(), RecordError> {
        let one = &mut self.streams[stream];
        if one.frames.get_mut().is_empty() {
            return Ok(());
        }
        let file = match &mut one.file {
            Some(file) => file,
            none => {
                let path = self.directory.join(segment_file(self.segment, one.cpu));
                let file =
                    File::create(&path).map_err(|error| RecordError::output(&path, error))?;
                none.insert(StreamFile { file, path, position: 0 })
            }
        };
        let frames = one.frames.get_mut();
        if let Err(error) = file.file.write_all(frames) {
            // Half a frame would be damage; so the file ends behind the last whole one.
            let _ = file.file.set_len(file.position);
            frames.clear();
            return Err(RecordError::output(&file.path, error));
        }
        file.position += frames.len() as u64;
        frames.clear();
        Ok(())
    }
}

/// The thread that asks the disk.
#[derive(Debug)]
struct Syncer {
    segments: Option<SyncSender<Vec<File>>>,
    thread: Option<JoinHandle<()>>,
    cpu_ns: Arc<AtomicU64>,
}

impl Syncer {
    fn start() -> Self {
        let (segments, incoming) = sync_channel(SEGMENTS_WAITING);
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let account = Arc::clone(&cpu_ns);
        let thread = thread::Builder::new().name("record-sync".to_owned());
        // Without the thread the kernel writes the segments in its own time.
        let thread = thread.spawn(move || sync_all(&incoming, &account)).ok();
        Self { segments: Some(segments), thread, cpu_ns }
    }

    fn sync(&self, files: Vec<File>) {
        if let Some(segments) = &self.segments {
            let _ = segments.try_send(files);
        }
    }

    fn finish(&mut self) {
        self.segments = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.finish();
    }
}

fn sync_all(incoming: &Receiver<Vec<File>>, account: &AtomicU64) {
    let _ = stand_back();
    while let Ok(files) = incoming.recv() {
        for file in files {
            // What the disk refuses shows when it is read; the recording goes on.
            let _ = file.sync_data();
        }
        account.store(thread_cpu_time().0.max(0) as u64, Relaxed);
    }
}

/// How many bytes the file system of a directory has left for this user, and in all.
pub(super) fn space(directory: &Path) -> io::Result<(u64, u64)> {
    let answer = rustix::fs::statvfs(directory)?;
    let bytes = |blocks: u64| blocks.saturating_mul(answer.f_frsize);
    Ok((bytes(answer.f_bavail), bytes(answer.f_blocks)))
}

/// Removes a directory that nothing was recorded into.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &Path, bytes: u64) -> Store {
        let limit = SegmentLimit { bytes, time: Duration::from_hours(1) };
        Store::new(directory, [0, 3].into_iter(), limit).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_segment_is_followed_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path(), 100);
        store.cut().unwrap();
        store.append(1, &[7; 90]).unwrap();
        store.cut().unwrap();
        store.append(0, &[8; 10]).unwrap();
        store.append(1, &[9; 10]).unwrap();
        store.cut().unwrap();
        store.finish().unwrap();
        assert_eq!(
            names(directory.path()),
            ["00000.cpu3", "00001.cpu0", "00001.cpu3", "log.jsonl"],
            "no empty segment at first, none at all for a processor without events"
        );
        assert_eq!(store.segments(), 2);
        assert_eq!(store.bytes(), 90 + 10 + 10 + 3 * 32);
        let log = fs::read_to_string(directory.path().join(LOG_FILE)).unwrap();
        assert_eq!(log.lines().count(), 2);
    }

    #[test]
    fn what_is_flushed_is_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path(), 1 << 20);
        store.append(0, &[7; 90]).unwrap();
        assert_eq!(names(directory.path()), ["log.jsonl"]);
        store.flush().unwrap();
        let length = fs::metadata(directory.path().join("00000.cpu0")).unwrap().len();
        assert_eq!(length, 90 + 32);
    }
}
