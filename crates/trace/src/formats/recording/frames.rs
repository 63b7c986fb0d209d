//! The frames of one processor, through all segments.
//!
//! A damaged segment is read up to the damage; later segments are intact and are read as well.
//! Missing frames show in the numbers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::TraceError;
use crate::recording::frame::{FrameReader, Next};
use crate::wording::Wording;

/// Size of the buffer of a file that is read, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// The largest number of damages that are reported.
const DAMAGES_MAX: usize = 8;

/// The remedy for a damaged recording.
fn remedy() -> Wording {
    Wording::from("without ").setting("strict").text(" everything else is read")
}

/// The frames of one processor.
pub(super) struct Segments {
    cpu: u32,
    waiting: VecDeque<PathBuf>,
    reader: Option<FrameReader<BufReader<File>>>,
    /// The file that is read.
    path: PathBuf,
    /// The number of the next frame; the first one of a processor is 0.
    sequence: u64,
    strict: bool,
    /// Whether damage followed the last frame.
    pub(super) is_torn: bool,
    pub(super) damages: Vec<String>,
}

impl Segments {
    /// Begins with the first of `paths`, which are in order and lie in `directory`.
    pub(super) fn new(directory: &Path, cpu: u32, paths: Vec<PathBuf>, strict: bool) -> Self {
        Self {
            cpu,
            waiting: paths.into(),
            reader: None,
            path: directory.to_owned(),
            sequence: 0,
            strict,
            is_torn: false,
            damages: Vec::new(),
        }
    }

    /// Reads the next frame into `buffer`; answers whether frames are missing before it, or `None`
    /// at the end.
    pub(super) fn next(&mut self, buffer: &mut Vec<u8>) -> Result<Option<bool>, TraceError> {
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(path) = self.waiting.pop_front() else { return Ok(None) };
                let file = File::open(&path).map_err(|error| TraceError::read(&path, error))?;
                self.path = path;
                let reader = BufReader::with_capacity(BUFFER_BYTES, file);
                self.reader = Some(FrameReader::new(reader, self.cpu));
                continue;
            };
            let offset = reader.offset;
            match reader.next(buffer).map_err(|error| TraceError::read(&self.path, error))? {
                Next::Frame(sequence) => {
                    if sequence < self.sequence {
                        let again = format!("frame {sequence} comes again and is passed over");
                        self.damage(offset, &again)?;
                        continue;
                    }
                    let missing = sequence - self.sequence;
                    self.sequence = sequence.saturating_add(1);
                    if missing > 0 {
                        let why = format!("frames before this one are missing: {missing}");
                        self.damage(offset, &why)?;
                    }
                    let is_torn = std::mem::take(&mut self.is_torn);
                    return Ok(Some(missing > 0 || is_torn));
                }
                Next::End => self.reader = None,
                Next::Damage(why) => {
                    self.reader = None;
                    self.is_torn = true;
                    self.damage(offset, &why)?;
                }
            }
        }
    }

    /// Notes that some events, which the recorder counted, are in no file.
    pub(super) fn lack(&mut self, missing: u64, counted: u64) -> Result<(), TraceError> {
        self.tell(lacking(self.cpu, missing, counted))
    }

    /// Notes damage of the whole recording, or fails if reading is strict.
    pub(super) fn tell(&mut self, why: String) -> Result<(), TraceError> {
        if self.strict {
            let (path, reason) = (self.path.clone(), why);
            return Err(TraceError::Binary { path, offset: 0, reason, remedy: remedy() });
        }
        self.damages.push(why);
        Ok(())
    }

    /// Notes damage, or fails if reading is strict.
    pub(super) fn damage(&mut self, offset: u64, why: &str) -> Result<(), TraceError> {
        if self.strict {
            let (path, reason) = (self.path.clone(), why.to_owned());
            return Err(TraceError::Binary { path, offset, reason, remedy: remedy() });
        }
        if self.damages.len() < DAMAGES_MAX {
            let name = file_name(&self.path);
            self.damages.push(format!("{name}: at byte {offset}: {why}"));
        }
        Ok(())
    }
}

/// The sentence about events that are in no file.
pub(super) fn lacking(cpu: u32, missing: u64, counted: u64) -> String {
    format!(
        "processor {cpu}: of {counted} events that were recorded, {missing} are missing from its \
         files"
    )
}

/// The file's name without its path, because the header is published with the trace.
fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The payloads of all frames as one stream of bytes, as in the relay files of blktrace.
pub(super) struct Payloads {
    segments: Segments,
    buffer: Vec<u8>,
    at: usize,
    damages: Arc<Mutex<Vec<String>>>,
}

impl Payloads {
    /// The stream, and the list to which it adds its damages.
    pub(super) fn new(segments: Segments) -> (Self, Arc<Mutex<Vec<String>>>) {
        let damages = Arc::<Mutex<Vec<String>>>::default();
        (Self { segments, buffer: Vec::new(), at: 0, damages: Arc::clone(&damages) }, damages)
    }
}

impl Read for Payloads {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.buffer.len() {
            self.at = 0;
            let next = self.segments.next(&mut self.buffer);
            let mut damages = self.damages.lock().unwrap_or_else(PoisonError::into_inner);
            damages.clone_from(&self.segments.damages);
            drop(damages);
            match next {
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.buffer.clear();
                    return Ok(0);
                }
                Err(TraceError::Read { source, .. }) => return Err(source),
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        let rest = &self.buffer[self.at..];
        let taken = rest.len().min(into.len());
        into[..taken].copy_from_slice(&rest[..taken]);
        self.at += taken;
        Ok(taken)
    }
}
