//! The kernel's own block trace, as `blktrace` and `blkparse -d` write it.
//!
//! The kernel records events, not requests: a request is queued, perhaps merged or split, inserted,
//! issued and completed. Each event is a record of 48 or 64 bytes in the buffer of the processor it
//! happened on. The reader brings the events of all processors into one order, chooses the event
//! that counts as issue, and finds the completion of each request. The format is that of Linux
//! `include/uapi/linux/blktrace_api.h`.
//!
//! The way through: [`open`] → `files` → `feed` (one file) → `merge` (all) → `reading` → `requests`
//! (with `classify`, `matching` and `driver`) → batches. Raw recordings join at `merge`.

mod classify;
mod doubt;
mod driven;
mod driver;
pub(super) mod feed;
mod files;
pub(super) mod gaps;
mod gathering;
mod ghosts;
pub(super) mod instants;
pub(super) mod lines;
mod matching;
pub(super) mod merge;
pub(super) mod notices;
pub(super) mod order;
mod pieces;
mod plausible;
pub(super) mod reading;
mod recent;
pub(super) mod record;
pub(super) mod requests;
mod row;
mod sequence;
mod splits;
mod telling;
#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
pub(super) mod volumes;

use std::path::{Path, PathBuf};

use self::feed::Feed;
use self::files::{Files, MISSING};
use self::reading::Reading;
use self::record::{Layout, kind};
use self::telling::describe;
use super::{Format, Opening, ReadOptions, Several};
use crate::batch::Batch;
use crate::calendar;
use crate::error::TraceError;
use crate::header::Header;
use crate::recording::{Interface, Recording as Facts};
use crate::stream::Source;

/// The number of the recording's first events that decide which event is the instant of issue, and
/// whether there are completions.
pub(super) const PROBE_EVENTS: usize = 1 << 16;

/// Size of the buffer for a recording that comes through a pipe.
const STREAM_BUFFER_BYTES: usize = 1 << 20;

/// Recordings of blktrace, as they are read.
pub const FORMAT: Format = Format {
    name: "blktrace",
    title: "recordings of blktrace, one file per processor or merged",
    several: Several::Apart,
    recognise: is_blktrace,
    open: |opening| {
        let Opening { stream, path, seekable, options } = opening;
        // The files of the other processors lie beside it, packed or not.
        if seekable || path.is_file() && is_per_cpu(path) {
            return open(path, options);
        }
        let feed = Feed::open(path, Box::new(stream), STREAM_BUFFER_BYTES)?;
        let feeds = feed.into_iter().collect();
        Ok(Box::new(Recording::of(path, &Files::streamed(path), feeds, options)?))
    },
};

/// Whether a file that begins with these bytes is a blktrace recording.
pub fn is_blktrace(first_bytes: &[u8]) -> bool {
    Layout::of(first_bytes).is_some()
}

/// Whether `path`, which need not exist, is the common prefix of files `path.blktrace.0`,
/// `path.blktrace.1` and so on: the name that blktrace's own programs use for a recording.
pub fn is_prefix(path: &Path) -> bool {
    files::is_prefix(path)
}

/// Whether `path` is named as the file of one processor, `sda.blktrace.3`, which stands for the
/// whole recording even when it is empty.
pub fn is_per_cpu(path: &Path) -> bool {
    files::is_per_cpu(path)
}

/// Opens a recording: a merged file, any one of the files of its processors (all are read), or the
/// prefix that these have in common.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    Ok(Box::new(Recording::open(path, options)?))
}

/// A recording that is being read.
struct Recording {
    path: PathBuf,
    header: Header,
    reading: Reading<Feed>,
    per_cpu: bool,
}

impl Recording {
    fn open(path: &Path, options: &ReadOptions) -> Result<Self, TraceError> {
        let files = Files::find(path)?;
        let feeds = files.open()?;
        Self::of(path, &files, feeds, options)
    }

    fn of(
        path: &Path,
        files: &Files,
        feeds: Vec<Feed>,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        if feeds.is_empty() {
            return Err(TraceError::Empty { path: path.to_owned() });
        }
        let reading = Reading::begin(path, feeds, options, files.per_cpu)?;
        let facts = Facts { interface: Interface::File, ..Facts::default() };
        let mut header = Header {
            source: path.display().to_string(),
            format: "blktrace".to_owned(),
            description: Some(describe(path, files, &reading.merge)),
            event: Some(reading.event()),
            columns: reading.columns(),
            recording: Some(facts),
            ..Header::default()
        };
        if let Some(cpus) = files.missing() {
            header.losses.add(MISSING, files.missing_count, Some(format!("processors {cpus}")));
        }
        let mut recording = Self { path: path.to_owned(), header, reading, per_cpu: files.per_cpu };
        let first = recording.reading.first();
        recording.take_notices(first);
        Ok(recording)
    }

    /// Moves the recorder's notices into the header; `first` is the instant of the first request.
    fn take_notices(&mut self, first: Option<u64>) {
        self.reading.take_notices(&mut self.header);
        if let (Some((time, wall)), Some(first)) = (self.reading.merge.notices.clock, first) {
            // blkparse makes the events of a merged file count from the first one but leaves the
            // notices unchanged: then they have no common clock.
            if self.per_cpu || time <= first {
                let wall = wall + i128::from(first) - i128::from(time);
                self.header.started = i64::try_from(wall).ok().map(calendar::rfc3339);
            }
        }
        // The kernel takes its times from CLOCK_MONOTONIC (`__blk_add_trace`).
        if let Some(facts) = &mut self.header.recording {
            facts.zero_monotonic_ns = first.filter(|_| self.per_cpu);
        }
    }
}

impl Source for Recording {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        let more = self.reading.next_batch(&self.path, &mut self.header, batch)?;
        self.take_notices(self.reading.start());
        Ok(more)
    }
}

/// A bit mask of these kinds of event.
pub(super) fn bits(kinds: &[u8]) -> u32 {
    kinds.iter().fold(0, |bits, kind| bits | 1 << kind)
}

/// The kinds of event that matter if those in `issues` are instants of issue.
pub(super) fn kinds_wanted(issues: u32, has_completions: bool) -> u32 {
    if has_completions {
        issues | bits(&[kind::ISSUE, kind::COMPLETE, kind::REQUEUE, kind::SPLIT])
    } else {
        issues | bits(&[kind::REQUEUE])
    }
}
