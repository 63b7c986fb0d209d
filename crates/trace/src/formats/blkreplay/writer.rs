//! Writing a load.
//!
//! A load can express less than a trace: only reads and writes of whole sectors on one volume.
//! Everything else is left out or widened, and counted.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{
    DESCRIPTION, DESCRIPTION_MARK, LICENSE, LICENSE_TEXT, OTHER_LICENSE, SEMICOLON, TRANSFORM,
};
use crate::batch::Batch;
use crate::compression::{Codec, Encoder, PartialFile};
use crate::error::TraceError;
use crate::formats::write::{self, decimal};
use crate::header::{Header, NoteKind, Notes, Topic, Volume};
use crate::request::{Flags, Op, Request};
use crate::stream::{Sink, Written};
use crate::units::{Bytes, Nanos, SECTOR, VolumeId};

/// The column header of a load.
const COLUMNS: &[u8] = b"start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n";

/// Begins a load at `path`: gzipped if its name ends in `.gz`.
pub fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    let write = || -> io::Result<Writer> {
        let mut output = Encoder::new(PartialFile::create(path)?, Codec::of_name(path));
        output.write_all(prose(header).as_bytes())?;
        output.write_all(COLUMNS)?;
        Ok(Writer { path: path.to_owned(), output, load: LoadLines::default() })
    };
    write().map(|writer| Box::new(writer) as Box<dyn Sink>).map_err(|e| TraceError::write(path, e))
}

/// The prose above the column header. Descriptions, terms and transforms are read back.
pub(super) fn prose(header: &Header) -> String {
    // A ';' would make a line of prose look like a request to blkreplay's own scripts.
    let clean = |text: &str| text.replace(';', ",").replace(|c: char| c.is_control(), " ");
    let from = clean(&header.source);
    let version = env!("CARGO_PKG_VERSION");
    let description = header.description.as_deref().map_or(String::new(), |description| {
        // blkreplay's own description of its file is not a description of the load.
        let is_own = description.trim_start().as_bytes().starts_with(DESCRIPTION_MARK);
        let mark = if is_own { "The original says: " } else { DESCRIPTION };
        format!("{mark}{}\n\n", clean(description))
    });
    let license = match header.license.as_deref() {
        Some(LICENSE) => format!("{LICENSE_TEXT}\n"),
        Some(license) => format!("{OTHER_LICENSE}{}\n\n", clean(license)),
        None => String::new(),
    };
    let mut transforms = String::new();
    for line in &header.transforms {
        let line = line.replace(';', SEMICOLON).replace(|c: char| c.is_control(), " ");
        transforms.extend([TRANSFORM, &line, "\n"]);
    }
    if !transforms.is_empty() {
        transforms.push('\n');
    }
    format!(
        "This file was automatically generated from '{from}'\nconverted by ioecho {version}\n\n\
         {description}{license}{transforms}\
         #################################################################\n"
    )
}

/// The topics of values that a load cannot express.
pub(super) const LOST: [Topic<'static>; 14] = [
    NoteKind::LeftOut.of("flushes"),
    NoteKind::LeftOut.of("discards"),
    NoteKind::LeftOut.of("writes of zeroes"),
    NoteKind::LeftOut.of("zone operations"),
    NoteKind::LeftOut.of("operations on files"),
    NoteKind::LeftOut.of("requests to other volumes than the first"),
    NoteKind::LeftOut.of("requests of zero length"),
    NoteKind::LeftOut.of("requests before the start of the trace"),
    NoteKind::LeftOut.of("requests too long for blkreplay (1 TiB and more)"),
    NoteKind::Beside.of("requests widened to whole sectors"),
    NoteKind::Beside.of("flags (all but read-ahead)"),
    NoteKind::Beside.of("latencies"),
    NoteKind::Beside.of("processes, processors and measured times"),
    NoteKind::LeftOut.of(write::BEYOND),
];

#[derive(Clone, Copy)]
enum Lost {
    Flush,
    Discard,
    WriteZeroes,
    Zone,
    Files,
    Volume,
    ZeroLength,
    Negative,
    TooLong,
    Widened,
    Flags,
    Latency,
    Columns,
    Beyond,
}

/// The lines of a load, and counts of what they cannot express.
#[derive(Default)]
pub(crate) struct LoadLines {
    /// The lines that were not written yet.
    pub(crate) lines: Vec<u8>,
    /// The volume whose requests are written: that of the first request.
    volume: Option<VolumeId>,
    counts: [u64; LOST.len()],
    /// The number of lines that were made.
    requests: u64,
}

impl LoadLines {
    /// Appends the line of each request of `batch` that a load can express.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        for request in batch.iter() {
            self.request(&request);
        }
    }

    /// The losses so far.
    pub(crate) fn lost(&self) -> Notes {
        let mut lost = Notes::default();
        for (what, count) in LOST.into_iter().zip(self.counts) {
            lost.add(what, count, None);
        }
        lost
    }

    fn request(&mut self, request: &Request) {
        let mut lose = |what: Lost| self.counts[what as usize] += 1;
        let op = match request.op {
            Op::Read if request.flags.contains(Flags::READAHEAD) => b"RA",
            Op::Read => b" R",
            Op::Write => b" W",
            Op::Flush => return lose(Lost::Flush),
            Op::Discard => return lose(Lost::Discard),
            Op::WriteZeroes => return lose(Lost::WriteZeroes),
            Op::Zone => return lose(Lost::Zone),
            _ => return lose(Lost::Files),
        };
        if *self.volume.get_or_insert(request.volume) != request.volume {
            return lose(Lost::Volume);
        }
        if request.length == Bytes::ZERO {
            return lose(Lost::ZeroLength);
        }
        if request.issue < Nanos::ZERO {
            return lose(Lost::Negative);
        }
        let Some((first, sectors)) = write::sectors(request.offset.0, request.end().0) else {
            return lose(Lost::Beyond);
        };
        // blkreplay reads the length as an `int`.
        if sectors > i32::MAX as u64 {
            return lose(Lost::TooLong);
        }
        if !request.offset.0.is_multiple_of(SECTOR) || !request.length.0.is_multiple_of(SECTOR) {
            lose(Lost::Widened);
        }
        let kept = if request.op == Op::Read { Flags::READAHEAD } else { Flags::empty() };
        if !kept.contains(request.flags) {
            lose(Lost::Flags);
        }
        if request.latency.is_some() {
            lose(Lost::Latency);
        }
        if request.measured.is_some() || request.origin.is_some() {
            lose(Lost::Columns);
        }
        let ns = request.issue.0 as u64;
        let lines = &mut self.lines;
        // `%6T.%9t ; %12S ; %4n ;%2s ; 0.0 ; 0.0`, as in the published loads.
        decimal(lines, ns / 1_000_000_000, 7, b' ');
        lines.push(b'.');
        decimal(lines, ns % 1_000_000_000, 9, b'0');
        lines.extend_from_slice(b" ; ");
        decimal(lines, first, 12, b' ');
        lines.extend_from_slice(b" ; ");
        decimal(lines, sectors, 4, b' ');
        lines.extend_from_slice(b" ;");
        lines.extend_from_slice(op);
        lines.extend_from_slice(b" ; 0.0 ; 0.0\n");
        self.requests += 1;
    }
}

/// A load that is being written.
struct Writer {
    path: PathBuf,
    output: Encoder,
    load: LoadLines,
}

impl Sink for Writer {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.load.lines.clear();
        self.load.batch(batch);
        self.output
            .write_all(&self.load.lines)
            .map_err(|error| TraceError::write(&self.path, error))
    }

    fn finish(self: Box<Self>, header: &Header) -> Result<Written, TraceError> {
        self.output.finish().map_err(|error| TraceError::write(&self.path, error))?;
        let mut lost = self.load.lost();
        let written = |volume: &&Volume| Some(volume.id) == self.load.volume;
        let volume = header.volumes.iter().find(written).filter(|volume| !volume.name.is_empty());
        lost.add(NoteKind::Beside.of(write::NAMES), u64::from(volume.is_some()), None);
        Ok(Written { requests: self.load.requests, lost })
    }
}
