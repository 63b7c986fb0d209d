//! The files of a recording: frames, cut into segments, and the log.
//!
//! A recording of a day must survive a crash, so each segment is synced to the disk while the next
//! one is written. The recorder must not wait for the disk, or the kernel's buffers overflow, so
//! another thread syncs. And if the disk is full, the losses must still be noted: the log's space
//! is reserved in advance.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ioecho_trace::recording::{
    Entry, FRAME_HEADER_BYTES, FrameWriter, LOG_FILE, payloads, segment_file,
};
use rustix::fs::{FallocateFlags, fallocate};

use super::clocks::monotonic_ns;
use super::error::RecordError;
use crate::open_directory::OpenDirectory;
use crate::thread::{stand_back, thread_cpu_time};

/// Frames are kept in memory until so many bytes are worth a system call.
const WRITE_BYTES: usize = 128 << 10;

/// Segments that may wait for the disk. If it is slower than that, the kernel writes them in its
/// own time, and the end of the recording makes sure of them.
const SEGMENTS_WAITING: usize = 4;

/// So much of the disk the log takes in advance, for what is noted when the disk is full: at least
/// this, and for each processor so much. A half of it is always left, and the last entries have
/// three gaps and the totals of each processor: 0.4 KiB.
const LOG_ROOM: u64 = 64 << 10;
const LOG_ROOM_OF_EACH: u64 = 1 << 10;

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
    name: String,
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
    place: OpenDirectory,
    log: File,
    /// What is in the log: whole lines only.
    log_bytes: u64,
    /// How long the log may become without another block of the disk.
    log_room: u64,
    streams: Vec<StreamStore>,
    segment: u32,
    segment_bytes: u64,
    segment_begun: Instant,
    limit: SegmentLimit,
    bytes: u64,
    /// Whether chunks could not be written: then no others are tried.
    has_failed: bool,
    syncer: Syncer,
}

impl Store {
    /// Begins in a directory that is there; `cpus` has the processor of each stream.
    pub(super) fn new(
        directory: &Path,
        cpus: impl Iterator<Item = u32>,
        limit: SegmentLimit,
    ) -> Result<Self, RecordError> {
        let place = OpenDirectory::open(directory)
            .map_err(|error| RecordError::output(directory, error))?;
        let log = place.append(LOG_FILE);
        let log = log.map_err(|error| RecordError::output(&directory.join(LOG_FILE), error))?;
        let stream = |cpu| StreamStore {
            cpu,
            frames: FrameWriter::new(Vec::with_capacity(WRITE_BYTES), cpu, 0),
            file: None,
        };
        let syncer = Syncer::start(log.try_clone().ok(), place.clone());
        let mut store = Self {
            place,
            log,
            log_bytes: 0,
            log_room: 0,
            streams: cpus.map(stream).collect(),
            segment: 0,
            segment_bytes: 0,
            segment_begun: Instant::now(),
            limit,
            bytes: 0,
            has_failed: false,
            syncer,
        };
        store.note(&Entry::Segment { number: 0, monotonic_ns: monotonic_ns() })?;
        Ok(store)
    }

    /// Keeps a chunk of a stream.
    pub(super) fn append(&mut self, stream: usize, chunk: &[u8]) -> Result<(), RecordError> {
        let one = &mut self.streams[stream];
        let before = one.frames.bytes();
        let appended = one.frames.append(chunk);
        appended.map_err(|error| RecordError::output(self.place.path(), error))?;
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
        self.syncer.sync(files.map(|one| (one.file, one.name)).collect());
        self.segment += 1;
        self.segment_bytes = 0;
        self.segment_begun = Instant::now();
        self.note(&Entry::Segment { number: self.segment, monotonic_ns: monotonic_ns() })
    }

    /// Appends to the log.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<(), RecordError> {
        let mut line = Vec::new();
        let noted = entry.append(&mut line).and_then(|()| self.append_to_log(&line));
        noted.map_err(|error| RecordError::output(&self.place.path().join(LOG_FILE), error))
    }

    fn append_to_log(&mut self, line: &[u8]) -> io::Result<()> {
        let room = LOG_ROOM.max(self.streams.len() as u64 * LOG_ROOM_OF_EACH);
        if self.log_bytes + room / 2 > self.log_room {
            // Without support of the file system no space is reserved.
            let promised = fallocate(&self.log, FallocateFlags::KEEP_SIZE, self.log_bytes, room);
            if promised.is_ok() {
                self.log_room = self.log_bytes + room;
            }
        }
        if let Err(error) = self.log.write_all(line) {
            // Half a line would damage the next one.
            let _ = self.log.set_len(self.log_bytes);
            return Err(error);
        }
        self.log_bytes += line.len() as u64;
        Ok(())
    }

    /// Waits until everything is on the disk.
    pub(super) fn finish(&mut self) -> Result<(), RecordError> {
        let mut result = if self.has_failed { Ok(()) } else { self.flush() };
        for one in self.streams.iter().filter_map(|stream| stream.file.as_ref()) {
            let synced = one.file.sync_data();
            result =
                result.and(synced.map_err(|error| {
                    RecordError::output(&self.place.path().join(&one.name), error)
                }));
        }
        self.syncer.finish();
        // What the log did not need is given back.
        let _ = self.log.set_len(self.log_bytes);
        let synced = self.log.sync_data().and_then(|()| self.place.sync());
        result.and(synced.map_err(|error| RecordError::output(self.place.path(), error)))
    }

    /// What became of the directory where its path no longer leads to it, as a phrase.
    pub(super) fn misplaced(&self) -> Option<String> {
        self.place.misplaced()
    }

    /// How many bytes the file system has left for this user, and in all.
    pub(super) fn space(&self) -> io::Result<(u64, u64)> {
        self.place.space()
    }

    /// Whether chunks could not be written. Then no more are written, so that no file has an
    /// unnoticed hole.
    pub(super) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Gives up what of a stream was kept in memory and is in no file: frames, one behind the
    /// other.
    pub(super) fn give_up(&mut self, stream: usize) -> Vec<u8> {
        let frames = std::mem::take(self.streams[stream].frames.get_mut());
        self.bytes = self.bytes.saturating_sub(frames.len() as u64);
        frames
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
        let written = self.try_to_write_out(stream);
        self.has_failed |= written.is_err();
        written
    }

    fn try_to_write_out(&mut self, stream: usize) -> Result<(), RecordError> {
        let one = &mut self.streams[stream];
        if one.frames.get_mut().is_empty() {
            return Ok(());
        }
        let file = match &mut one.file {
            Some(file) => file,
            none => {
                let name = segment_file(self.segment, one.cpu);
                let file = self.place.create(&name);
                let file = file
                    .map_err(|error| RecordError::output(&self.place.path().join(&name), error))?;
                none.insert(StreamFile { file, name, position: 0 })
            }
        };
        let frames = one.frames.get_mut();
        let (written, result) = write(&mut file.file, frames);
        if result.is_err() {
            // Half a frame would be damage; so the file ends behind the last whole one.
            let whole = payloads(&frames[..written]);
            let whole: usize = whole.map(|payload| FRAME_HEADER_BYTES + payload.len()).sum();
            let _ = file.file.set_len(file.position + whole as u64);
            file.position += whole as u64;
            frames.drain(..whole);
        } else {
            file.position += written as u64;
            frames.clear();
        }
        result.map_err(|error| RecordError::output(&self.place.path().join(&file.name), error))
    }
}

/// Writes all of it, or answers how much could be.
fn write(file: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match file.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// The thread that asks the disk.
#[derive(Debug)]
struct Syncer {
    segments: Option<SyncSender<Vec<File>>>,
    thread: Option<JoinHandle<()>>,
    cpu_ns: Arc<AtomicU64>,
    place: OpenDirectory,
    /// Files that the thread had no time for. Their names, for there may be many.
    late: Vec<String>,
}

impl Syncer {
    /// With each segment, the log and the names in the directory are brought to the disk as well:
    /// without them its files could not be read, or not be found.
    fn start(log: Option<File>, place: OpenDirectory) -> Self {
        let (segments, incoming) = sync_channel(SEGMENTS_WAITING);
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let account = Arc::clone(&cpu_ns);
        let there = place.clone();
        let thread = thread::Builder::new().name("record-sync".to_owned());
        // Without the thread the kernel writes the segments in its own time.
        let sync = move || sync_all(&incoming, log.as_ref(), &there, &account);
        let thread = thread.spawn(sync).ok();
        Self { segments: Some(segments), thread, cpu_ns, place, late: Vec::new() }
    }

    fn sync(&mut self, segment: Vec<(File, String)>) {
        let (files, names): (Vec<File>, Vec<String>) = segment.into_iter().unzip();
        let sent = self.segments.as_ref().is_some_and(|to| to.try_send(files).is_ok());
        if !sent {
            self.late.extend(names);
        }
    }

    fn finish(&mut self) {
        self.segments = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for name in self.late.drain(..) {
            // What the disk refuses shows when it is read.
            let _ = self.place.read(&name).and_then(|file| file.sync_data());
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.finish();
    }
}

fn sync_all(
    incoming: &Receiver<Vec<File>>,
    log: Option<&File>,
    place: &OpenDirectory,
    account: &AtomicU64,
) {
    let _ = stand_back();
    while let Ok(files) = incoming.recv() {
        for file in files.iter().chain(log) {
            // What the disk refuses shows when it is read; the recording goes on.
            let _ = file.sync_data();
        }
        let _ = place.sync();
        account.store(thread_cpu_time().0.max(0) as u64, Relaxed);
    }
}

/// Removes a directory that nothing was recorded into.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

#[cfg(test)]
mod tests {
    use ioecho_trace::recording::Totals;

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

    #[test]
    fn segments_that_the_disk_has_no_time_for_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let mut syncer = Syncer::start(None, OpenDirectory::open(directory.path()).unwrap());
        // The thread takes none of them any more.
        let (full, _held) = sync_channel(0);
        let asked = syncer.segments.replace(full);
        let name = "00000.cpu0".to_owned();
        syncer.sync(vec![(syncer.place.create(&name).unwrap(), name.clone())]);
        assert_eq!(syncer.late, [name]);
        drop(asked);
        syncer.finish();
        assert!(syncer.late.is_empty());
    }

    #[test]
    fn what_could_not_be_written_is_given_up_frame_by_frame_and_the_file_has_no_half_one() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path(), 1 << 20);
        // Takes nothing at all.
        let file = File::options().write(true).open("/dev/full").unwrap();
        let name = "full".to_owned();
        store.streams[0].file = Some(StreamFile { file, name, position: 0 });
        store.append(0, &[7; 90]).unwrap();
        store.append(0, &[8; 10]).unwrap();
        store.append(1, &[9; 10]).unwrap();
        store.flush().unwrap_err();
        assert!(store.has_failed());
        let frames = store.give_up(0);
        assert_eq!(payloads(&frames).map(<[u8]>::len).collect::<Vec<_>>(), [90, 10]);
        assert_eq!(store.bytes(), 10 + 32, "what is not in a file does not count");
        assert!(store.give_up(0).is_empty());
    }

    #[test]
    fn a_write_that_fails_says_how_much_of_it_is_there() {
        let mut room = [0; 100];
        let (written, result) = write(&mut &mut room[..], &[1; 150]);
        assert_eq!((written, result.unwrap_err().kind()), (100, io::ErrorKind::WriteZero));
        let (written, result) = write(&mut &mut room[..], &[1; 100]);
        assert_eq!((written, result.is_ok()), (100, true));
    }

    #[test]
    fn the_log_has_room_in_advance_and_gives_it_back() {
        use std::os::unix::fs::MetadataExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mut store = store(directory.path(), 1 << 20);
        let path = directory.path().join(LOG_FILE);
        let (room, length) = (store.log_room, fs::metadata(&path).unwrap().len());
        if room > 0 {
            assert!(fs::metadata(&path).unwrap().blocks() * 512 >= room);
        }
        assert_eq!(length, store.log_bytes, "the room is behind the end");
        store.finish().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
        assert!(fs::metadata(&path).unwrap().blocks() * 512 < LOG_ROOM);
    }

    #[test]
    fn the_room_of_the_log_holds_the_last_entries_of_all_processors() {
        let last = |cpu| {
            let (events, from_ns, to_ns) = (1 << 40, 1 << 60, 1 << 60);
            let lost = Entry::Lost { cpu, events, from_ns, to_ns };
            let totals = Totals { cpu, read: 1 << 50, lost: 1 << 40 };
            let stopped = Entry::Stopped {
                why: String::new(),
                asked: Some(false),
                monotonic_ns: 0,
                cpus: vec![totals],
            };
            let mut lines = Vec::new();
            for entry in [&lost, &lost, &lost, &stopped] {
                entry.append(&mut lines).unwrap();
            }
            lines.len() as u64
        };
        assert!(last(9999) < LOG_ROOM_OF_EACH / 2, "{}", last(9999));

        let directory = tempfile::tempdir().unwrap();
        let limit = SegmentLimit { bytes: 1 << 30, time: Duration::from_hours(1) };
        let store = Store::new(directory.path(), 0..384, limit).unwrap();
        // Where nothing can be promised there is none.
        assert!([0, 384 * LOG_ROOM_OF_EACH].contains(&store.log_room), "{}", store.log_room);
    }
}
