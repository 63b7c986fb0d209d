//! One file as a stream of events in the order of their time.
//!
//! A file holds more than events: notices of the recorder, passthrough commands, remains of a
//! crash. This module separates them and sorts the events.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::files::is_per_cpu;
use super::gaps::Gaps;
use super::merge::Lane;
use super::notices::Notices;
use super::order::{Order, WINDOW};
use super::plausible::Shown;
use super::record::{Event, HEADER_MAX, Layout, RECORD_MAX, category, kind};
use super::sequence::Sequences;
use crate::compression;
use crate::error::TraceError;
use crate::units::counted;
use crate::wording::Wording;

/// The remedy for a damaged recording.
pub(super) fn remedy() -> Wording {
    Wording::from("record or copy the file again; without ")
        .setting("strict")
        .text(" everything before this place is read")
}

/// The settings of all feeds.
#[derive(Clone, Copy, Debug)]
pub(in crate::formats) struct Wanted {
    /// The kinds of event to give out, a bit each.
    pub(in crate::formats) kinds: u32,
    /// Whether damage is an error.
    pub(in crate::formats) strict: bool,
}

/// A file that is being read.
pub(in crate::formats) struct Feed {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    start: usize,
    end: usize,
    /// The place in the file, in bytes, at which the buffer begins.
    base: u64,
    /// The reader has ended; the buffer holds the rest.
    drained: bool,
    /// The reason why the reader ended, if not at the end of the file.
    broken: Option<String>,
    /// No more events will be decoded.
    ended: bool,
    layout: Layout,
    shown: Shown,
    order: Order,
    sequences: Sequences,
    gaps: Gaps,
    /// The instant of the last event that was decoded.
    last: u64,
    /// The processor of the first event.
    cpu: Option<u32>,
    /// The number of events of each kind in the file, without passthrough commands.
    kinds: [u64; kind::COUNT],
    /// The number of passthrough commands of each kind in the file.
    passthrough: [u64; kind::COUNT],
    /// The place at which the file broke off, and the reason.
    damage: Option<String>,
}

impl Feed {
    /// Begins to read; answers `None` if the file is empty.
    pub(in crate::formats) fn open(
        path: &Path,
        mut reader: Box<dyn Read + Send>,
        buffer_bytes: usize,
    ) -> Result<Option<Self>, TraceError> {
        let mut buffer = vec![0; buffer_bytes.max(2 * RECORD_MAX)];
        let (end, error) = fill(&mut reader, &mut buffer[..HEADER_MAX]);
        let broken = error.map(|error| damaged(path, error)).transpose()?;
        if end == 0 {
            return match broken {
                None => Ok(None),
                Some(damage) => Err(TraceError::Unusable {
                    path: path.to_owned(),
                    reason: format!("nothing in it can be read: {damage}"),
                    remedy: "get the file again".into(),
                }),
            };
        }
        let Some(layout) = Layout::of(&buffer[..end]) else {
            return Err(TraceError::Binary {
                path: path.to_owned(),
                offset: 0,
                reason: unknown_magic(&buffer[..end]),
                remedy: "blktrace writes files that begin with the bytes 07 74 61 65 (or 08 74 61 \
                         65); what blkparse prints is another format"
                    .into(),
            });
        };
        Ok(Some(Self {
            path: path.to_owned(),
            reader,
            buffer,
            start: 0,
            end,
            base: 0,
            drained: end < HEADER_MAX,
            broken,
            ended: false,
            layout,
            shown: Shown::new(is_per_cpu(path)),
            order: Order::default(),
            sequences: Sequences::default(),
            gaps: Gaps::default(),
            last: 0,
            cpu: None,
            kinds: [0; kind::COUNT],
            passthrough: [0; kind::COUNT],
            damage: None,
        }))
    }

    /// The layout of the last record.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The instant of the last event that was decoded.
    pub(in crate::formats) fn last(&self) -> u64 {
        self.last
    }

    /// Decodes until twice the window is held or the file ends.
    fn decode_some(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<(), TraceError> {
        while !self.ended && self.order.len() < 2 * WINDOW {
            if self.end - self.start < RECORD_MAX && !self.drained {
                self.refill()?;
            }
            let bytes = &self.buffer[self.start..self.end];
            if bytes.is_empty() {
                match self.broken.take() {
                    Some(reason) => self.break_off(reason, wanted)?,
                    None => self.ended = true,
                }
                break;
            }
            let Some(layout) = Layout::of(bytes) else {
                let reason = if bytes.len() < 4 {
                    let read = counted(bytes.len() as u64, "byte");
                    let cut = format!("the file ends {read} into a record");
                    self.broken.take().unwrap_or(cut)
                } else {
                    unknown_magic(bytes)
                };
                self.break_off(reason, wanted)?;
                break;
            };
            if layout != self.layout {
                let (found, expected) = (layout.describe(), self.layout.describe());
                self.break_off(format!("a record of {found}, in a file of {expected}"), wanted)?;
                break;
            }
            let header = layout.header_bytes();
            let decoded = layout.decode(bytes);
            if let Some((event, frame)) = &decoded
                && let Some(reason) = self.shown.doubt(event, *frame)
            {
                self.break_off(reason, wanted)?;
                break;
            }
            let Some((event, frame)) = decoded.filter(|(_, f)| header + f.payload <= bytes.len())
            else {
                let needed = header + decoded.map_or(0, |(_, frame)| frame.payload);
                let cut = format!(
                    "the file ends {} bytes into a record of {needed} or more",
                    bytes.len()
                );
                let reason = self.broken.take().unwrap_or(cut);
                self.break_off(reason, wanted)?;
                break;
            };
            if event.categories & category::NOTIFY == 0 {
                if event.kind == kind::REMAP {
                    let payload = &self.buffer[self.start + header..self.end][..frame.payload];
                    notices.remap(&event, payload.get(frame.cgroup..).unwrap_or_default());
                }
                self.admit(event, wanted);
            } else {
                let payload = &self.buffer[self.start + header..self.end][..frame.payload];
                notices.note(layout, &event, frame, payload);
            }
            self.start += header + frame.payload;
        }
        Ok(())
    }

    /// Counts an event and keeps it if it is wanted.
    #[inline]
    fn admit(&mut self, event: Event, wanted: Wanted) {
        let lost = self.sequences.lost();
        self.sequences.note(event.cpu, event.device, event.sequence);
        if self.sequences.lost() != lost {
            self.gaps.change(self.last, event.time, lost, self.sequences.lost());
        }
        self.last = event.time;
        self.cpu.get_or_insert(event.cpu);
        let kind = usize::from(event.kind).min(kind::COUNT - 1);
        if event.categories & category::PASSTHROUGH != 0 {
            self.passthrough[kind] += 1;
            return;
        }
        self.kinds[kind] += 1;
        if wanted.kinds >> kind & 1 == 0 {
            return;
        }
        self.order.push(event);
    }

    /// Moves the rest of the buffer to its front and reads behind it.
    fn refill(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        let (read, error) = fill(&mut self.reader, &mut self.buffer[self.end..]);
        self.broken = error.map(|error| damaged(&self.path, error)).transpose()?;
        self.end += read;
        self.drained = self.end < self.buffer.len();
        Ok(())
    }

    /// Ends the file here: with an error, or with damage noted in the header.
    fn break_off(&mut self, reason: String, wanted: Wanted) -> Result<(), TraceError> {
        self.ended = true;
        let offset = self.base + self.start as u64;
        if wanted.strict {
            let (path, remedy) = (self.path.clone(), remedy());
            return Err(TraceError::Binary { path, offset, reason, remedy });
        }
        // The header is published with the trace, so it gets only the file's name, not its path.
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.damage = Some(format!("{name}: at byte {offset}: {reason}"));
        Ok(())
    }
}

impl Lane for Feed {
    #[inline]
    fn next(&mut self, wanted: Wanted, notices: &mut Notices) -> Result<Option<Event>, TraceError> {
        if self.order.len() <= WINDOW && !self.ended {
            self.decode_some(wanted, notices)?;
        }
        Ok(self.order.pop())
    }

    fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    fn kinds(&self) -> &[u64; kind::COUNT] {
        &self.kinds
    }

    fn passthrough(&self) -> &[u64; kind::COUNT] {
        &self.passthrough
    }

    fn out_of_order(&self) -> u64 {
        self.order.too_late
    }

    fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    fn damage(&self) -> Option<String> {
        self.damage.clone()
    }
}

/// Reads until `buffer` is full or the source ends or breaks; answers the number of bytes read, and
/// the error that broke the source.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

/// The damage of a packed file; the error itself if it is the file system's.
fn damaged(path: &Path, error: io::Error) -> Result<String, TraceError> {
    compression::damage(&error).ok_or_else(|| TraceError::read(path, error))
}

/// The reason why these bytes begin no record.
fn unknown_magic(bytes: &[u8]) -> String {
    if let Some(version) = Layout::unknown_version(bytes) {
        return format!("a blktrace record of version {version}; known are 7 and 8");
    }
    let bytes = &bytes[..bytes.len().min(4)];
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("no blktrace record begins with the bytes {}", hex.join(" "))
}
