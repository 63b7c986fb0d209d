//! The kernel's own block trace, as `blktrace` and `blkparse -d` write it.
//!
//! The kernel records events, not requests: a request is queued, perhaps merged or split, inserted,
//! issued and completed, each time with a record of 48 or 64 bytes in the buffer of the processor
//! it happened on. Reading means to bring the processors' events into one order, to choose the
//! event that is the instant of issue, and to find the completion of each. The format is that of
//! Linux `include/uapi/linux/blktrace_api.h`.
//!
//! The way through: [`open`] → `files` → `feed` (one file) → `merge` (all) → `requests` (with
//! `classify` and `matching`) → batches.

mod classify;
mod feed;
mod files;
mod matching;
mod merge;
mod notices;
pub(super) mod order;
mod plausible;
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
mod volumes;

use std::path::{Path, PathBuf};

use self::feed::{Feed, Wanted};
use self::files::Files;
use self::merge::Merge;
use self::record::{Event, Layout, kind};
use self::requests::Requests;
use self::telling::{describe, no_requests};
use super::{Format, IssueEvent, Opening, ReadOptions, Several};
use crate::batch::{Batch, Columns};
use crate::calendar;
use crate::error::TraceError;
use crate::header::{Header, Imported};
use crate::stream::Source;

/// How many of the recording's first events decide which event is taken and whether there are
/// completions.
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
        // The other processors' files stand beside it, whether they are packed or not.
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

/// Whether `path`, which need not exist, is what the files `path.blktrace.0`, `path.blktrace.1` and
/// so on begin with: the name by which blktrace's own programs know a recording.
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
    merge: Merge,
    /// The events that were read to choose the event, in reverse.
    probed: Vec<Event>,
    /// The kind of event that is the instant of issue.
    issue: u8,
    per_cpu: bool,
    requests: Requests,
    ended: bool,
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
        let of_interest =
            [kind::QUEUE, kind::INSERT, kind::ISSUE, kind::COMPLETE, kind::REQUEUE, kind::SPLIT];
        let wanted = Wanted { kinds: bits(&of_interest), strict: options.strict };
        let mut merge = Merge::new(feeds, wanted)?;
        let mut probed = Vec::new();
        let mut seen = [0_u64; kind::COUNT];
        while probed.len() < PROBE_EVENTS
            && let Some(event) = merge.next()?
        {
            seen[usize::from(event.kind)] += 1;
            probed.push(event);
        }
        let issue = choose(options.event, &seen);
        let latency = seen[usize::from(kind::COMPLETE)] > 0;
        merge.wanted.kinds = match (latency, issue) {
            (true, _) => bits(&[issue, kind::COMPLETE, kind::REQUEUE, kind::SPLIT]),
            (false, _) => bits(&[issue, kind::REQUEUE]),
        };
        let whole = probed.len() < PROBE_EVENTS;
        probed.retain(|event| merge.wanted.kinds >> event.kind & 1 == 1);
        probed.reverse();
        let header = Header {
            source: path.display().to_string(),
            format: "blktrace".to_owned(),
            description: Some(describe(path, files, &merge)),
            event: Some(kind::name(issue).to_owned()),
            columns: Columns { latency, origin: true, measured: false },
            ..Header::default()
        };
        let mut recording = Self {
            path: path.to_owned(),
            header,
            merge,
            probed,
            issue,
            per_cpu: files.per_cpu,
            requests: Requests::new(issue, latency),
            ended: false,
        };
        if whole && seen[usize::from(issue)] == 0 {
            return Err(no_requests(path, issue, &recording.merge));
        }
        let first = recording.probed.iter().rev().find(|event| event.kind == issue);
        let first = first.map(|event| event.time);
        recording.take_notices(first);
        Ok(recording)
    }

    /// The next event of the recording.
    #[inline]
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        match self.probed.pop() {
            Some(event) => Ok(Some(event)),
            None => self.merge.next(),
        }
    }

    /// Moves what the recorder said into the header; `first` is the instant of the first request.
    fn take_notices(&mut self, first: Option<u64>) {
        self.header.processes.extend(self.merge.notices.processes.drain(..));
        if let (Some((time, wall)), Some(first)) = (self.merge.notices.clock, first) {
            // blkparse counts the events of a merged file from the first one and leaves the notices
            // as they were: then they have no common clock.
            if self.per_cpu || time <= first {
                let wall = wall + i128::from(first) - i128::from(time);
                self.header.started = i64::try_from(wall).ok().map(calendar::rfc3339);
            }
        }
    }

    /// Ends the reading: tells of everything that was lost or guessed.
    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        let damage: Vec<_> =
            self.merge.feeds().iter().filter_map(|feed| feed.damage.clone()).collect();
        self.header.damage = (!damage.is_empty()).then(|| damage.join("; "));
        if self.requests.taken == 0 {
            return Err(no_requests(&self.path, self.issue, &self.merge));
        }
        self.header.imported = Some(Imported {
            unit: "events".to_owned(),
            units: self.merge.kinds().iter().sum(),
            requests: self.requests.taken,
        });
        let losses = &mut self.header.losses;
        let lost = self.merge.feeds().iter().map(Feed::lost).sum();
        losses.add("events lost by the recorder (sequence gaps)", lost, None);
        losses.add("passthrough commands", self.merge.passthrough(), None);
        self.requests.tell_losses(losses);
        let out_of_order = self.merge.feeds().iter().map(Feed::out_of_order).sum();
        self.header.guesses.add("events out of time order", out_of_order, None);
        Ok(())
    }
}

impl Source for Recording {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        if self.ended {
            return Ok(false);
        }
        while !batch.is_full() {
            if self.requests.pop(batch) {
                continue;
            }
            match self.next_event() {
                Ok(Some(event)) => {
                    self.requests.handle(&event, &mut self.header.volumes, batch);
                }
                Ok(None) if self.requests.close() => {}
                Ok(None) => break,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
        self.take_notices(self.requests.start);
        if batch.is_empty() {
            self.finish()?;
        }
        Ok(!batch.is_empty())
    }
}

/// A bit for each of these kinds.
pub(super) fn bits(kinds: &[u8]) -> u32 {
    kinds.iter().fold(0, |bits, kind| bits | 1 << kind)
}

/// The event to take, by the wish of the user and by what was seen of the recording.
pub(super) fn choose(wish: IssueEvent, seen: &[u64; kind::COUNT]) -> u8 {
    match wish {
        IssueEvent::Queued => kind::QUEUE,
        IssueEvent::Inserted => kind::INSERT,
        IssueEvent::Issued => kind::ISSUE,
        IssueEvent::Auto => [kind::QUEUE, kind::INSERT, kind::ISSUE]
            .into_iter()
            .find(|kind| seen[usize::from(*kind)] > 0)
            .unwrap_or(kind::QUEUE),
    }
}
