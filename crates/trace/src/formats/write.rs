//! The formats that can be written, and the common part of their writers.
//!
//! A published format can express less than a trace: no flushes, one volume, whole sectors. Losses
//! are counted per kind, so that nobody takes the file for the whole trace. Counting, packing and
//! the partial file are here; a text format is then only a [`LineWriter`].

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{
    alibaba, blkparse, blkreplay, btreplay, csv, fio, hfplayer, msr, native, perfetto, vdbench,
};
use crate::batch::Batch;
use crate::compression::{Codec, Encoder, PartialFile, STANDARD_OUTPUT};
use crate::dependencies::Dependency;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes};
use crate::request::{Op, Origin, Request};
use crate::stream::{Begun, Sink, Written};
use crate::units::{Nanos, SECTOR, VolumeId};
use crate::wording::Wording;

/// A format that can be written.
#[derive(Debug)]
pub struct Writable {
    /// The name of the format for `--to`.
    pub name: &'static str,
    /// The description of the format, in a line.
    pub title: &'static str,
    /// The endings of such files' names, in lower case and without an ending of compression.
    pub endings: &'static [&'static str],
    /// Whether a packed file of this format, named `.gz`, `.zst` and so on, makes sense.
    pub packs: bool,
    /// Begins a file of this format.
    pub create: fn(&Path, &Header) -> Begun,
}

/// Every format that can be written. A longer ending (`.msr.csv`) comes before a shorter one
/// (`.csv`).
pub const WRITABLE: &[Writable] = &[
    native::WRITABLE,
    blkreplay::WRITABLE,
    blkreplay::RESULT_WRITABLE,
    blkparse::WRITABLE,
    btreplay::WRITABLE,
    fio::WRITABLE,
    hfplayer::WRITABLE,
    msr::WRITABLE,
    alibaba::WRITABLE,
    vdbench::WRITABLE,
    perfetto::WRITABLE,
    csv::WRITABLE,
];

/// Begins a trace at `path`, in the format that the name says and with the columns of `header`. The
/// file appears under its name when the sink is finished.
pub fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    create_as(None, path, header)
}

/// As [`create`], in `format` if one is given, whatever the name says. The path `-` is the standard
/// output, which implies no format.
pub fn create_as(
    format: Option<&Writable>,
    path: &Path,
    header: &Header,
) -> Result<Box<dyn Sink>, TraceError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let format = format.or_else(|| WRITABLE.iter().find(|format| format.is_named(&name)));
    match format {
        Some(format) => (format.create)(path, header),
        None if path == Path::new(STANDARD_OUTPUT) => Err(TraceError::UnknownOutput {
            path: PathBuf::from("standard output"),
            remedy: Wording::from("say it with ")
                .setting("to")
                .text(format!(", one of {}", names().join(", "))),
        }),
        None => {
            Err(TraceError::UnknownOutput { path: path.to_owned(), remedy: known_names().into() })
        }
    }
}

/// Checks that [`create_as`] would find a format, for callers that know the name long before the
/// trace.
pub fn check(format: Option<&Writable>, path: &Path) -> Result<(), TraceError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if format.is_some() || WRITABLE.iter().any(|format| format.is_named(&name)) {
        return Ok(());
    }
    Err(TraceError::UnknownOutput { path: path.to_owned(), remedy: known_names().into() })
}

/// Whether the output of [`create_as`] has a place for the parents of requests.
pub fn keeps_dependencies(format: Option<&Writable>, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let format = format.or_else(|| WRITABLE.iter().find(|format| format.is_named(&name)));
    let keeping = [native::WRITABLE.name, hfplayer::WRITABLE.name];
    format.is_some_and(|format| keeping.contains(&format.name))
}

/// The writable format of this name, or a sentence with the names that are known.
pub fn by_name(name: &str) -> Result<&'static Writable, String> {
    WRITABLE.iter().find(|format| format.name == name).ok_or_else(|| {
        format!("there is no format '{name}' to write; known are {}", names().join(", "))
    })
}

fn names() -> Vec<&'static str> {
    WRITABLE.iter().map(|format| format.name).collect()
}

impl Writable {
    /// Whether `name`, in lower case, is the name of a file of this format.
    fn is_named(&self, name: &str) -> bool {
        let plain = match name.rsplit_once('.') {
            Some((plain, "gz" | "zst" | "xz" | "bz2")) if self.packs => plain,
            _ => name,
        };
        let is_named = |ending: &&str| match plain.strip_suffix(*ending) {
            // An ending with a dot needs a name before it.
            Some("") => !ending.starts_with('.'),
            other => other.is_some(),
        };
        self.endings.iter().any(is_named)
    }
}

fn known_names() -> String {
    let mut names =
        "name it one of these; text may be packed: add .gz, .zst, .xz or .bz2".to_owned();
    for format in WRITABLE {
        let ending = format.endings[0];
        let name = if ending.starts_with('.') { "NAME" } else { "" };
        let name = format!("{name}{ending}");
        names += "\n      ";
        let blanks = " ".repeat(21_usize.saturating_sub(name.len()));
        names.extend([name.as_str(), &blanks, format.title]);
    }
    names
}

/// The facts that a format cannot express, counted per kind.
#[derive(Debug, Default)]
pub struct Lost(Notes);

impl Lost {
    /// Counts a request that is left out; `what` is a phrase that follows a number: "flushes".
    #[cold]
    pub fn request(&mut self, what: &'static str) {
        self.0.add(NoteKind::LeftOut.of(what), 1, None);
    }

    /// Counts a detail that a written request lacks; `what` is a phrase that follows a number:
    /// "latencies".
    #[cold]
    pub fn detail(&mut self, what: &'static str) {
        self.0.add(NoteKind::Beside.of(what), 1, None);
    }

    /// Counts a request that is lost for its operation.
    #[cold]
    pub fn op(&mut self, op: Op) {
        self.request(match op {
            Op::Read => "reads",
            Op::Write => "writes",
            Op::Flush => "flushes",
            Op::Discard => "discards",
            Op::WriteZeroes => "writes of zeroes",
            Op::Zone => "zone operations",
            _ => "operations on files",
        });
    }
}

impl Lost {
    /// Counts the lines of provenance, for a format that has no place for them.
    pub(super) fn transforms(&mut self, header: &Header) {
        self.0.add(NoteKind::Beside.of(LOST_TRANSFORMS), header.transforms.len() as u64, None);
    }

    /// Counts the name of volume `id`, if it has one, in a format that has no place for names.
    #[cold]
    pub(super) fn name(&mut self, id: VolumeId, header: &Header) {
        let volume = header.volumes.iter().find(|volume| volume.id == id);
        if volume.is_some_and(|volume| !volume.name.is_empty()) {
            self.detail(NAMES);
        }
    }

    /// The counted losses.
    pub(super) fn into_notes(self) -> Notes {
        self.0
    }
}

/// The loss of names in a format that has no place for them.
pub(super) const NAMES: &str = "names of volumes, which the format has no place for";

/// The loss of provenance.
const LOST_TRANSFORMS: &str = "lines of provenance: which transforms were done is not in the file";

/// Writes the lines of a format.
pub trait LineWriter {
    /// Appends the text before the first request.
    fn begin(&mut self, header: &Header, lines: &mut Vec<u8>) {
        let _ = (header, lines);
    }

    /// Appends the line or lines of a request and answers `true`. If the format has no line for the
    /// request, counts the loss in `lost` and answers `false`. Columns of a request that the format
    /// has no place for are counted too. `header` is the trace's header at its beginning, with the
    /// volumes and processes that are known by now.
    fn request(
        &mut self,
        request: &Request,
        header: &Header,
        lines: &mut Vec<u8>,
        lost: &mut Lost,
    ) -> bool;

    /// Takes the dependency of the request that comes next, in a trace that has dependencies.
    fn link(&mut self, dependency: Dependency<'_>) {
        let _ = dependency;
    }

    /// Whether the format can hold the trace's transforms, and they were written.
    fn keeps_transforms(&self) -> bool {
        false
    }

    /// Appends the text after the last request.
    fn end(&mut self, header: &Header, lines: &mut Vec<u8>) {
        let _ = (header, lines);
    }
}

/// Begins a text file at `path`, packed as its name says.
pub fn lines<W: LineWriter + 'static>(
    path: &Path,
    header: &Header,
    mut writer: W,
) -> Result<Box<dyn Sink>, TraceError> {
    let begin = || -> io::Result<(Encoder, W)> {
        let mut output = Encoder::new(PartialFile::create(path)?, Codec::of_name(path));
        let mut head = Vec::new();
        writer.begin(header, &mut head);
        output.write_all(&head)?;
        Ok((output, writer))
    };
    let (output, writer) = begin().map_err(|error| TraceError::write(path, error))?;
    Ok(Box::new(Lines {
        path: path.to_owned(),
        output,
        writer,
        text: Vec::new(),
        header: header.clone(),
        requests: 0,
        lost: Lost::default(),
    }))
}

struct Lines<W> {
    path: PathBuf,
    output: Encoder,
    writer: W,
    text: Vec<u8>,
    header: Header,
    requests: u64,
    lost: Lost,
}

impl<W: LineWriter> Sink for Lines<W> {
    fn learn(&mut self, header: &Header) {
        self.header.learn(header);
    }

    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        self.text.clear();
        for (row, request) in batch.iter().enumerate() {
            if let Some(dependency) = batch.dependency(row) {
                self.writer.link(dependency);
            }
            let kept = self.writer.request(&request, &self.header, &mut self.text, &mut self.lost);
            self.requests += u64::from(kept);
        }
        self.output.write_all(&self.text).map_err(|error| TraceError::write(&self.path, error))
    }

    fn finish(mut self: Box<Self>, header: &Header) -> Result<Written, TraceError> {
        self.text.clear();
        self.writer.end(header, &mut self.text);
        let Self { output, text, .. } = &mut *self;
        let written = output.write_all(text);
        if !self.writer.keeps_transforms() {
            self.lost.transforms(header);
        }
        let Self { output, path, requests, lost, .. } = *self;
        let finished = written.and_then(|()| output.finish());
        finished.map_err(|error| TraceError::write(&path, error))?;
        Ok(Written { requests, lost: lost.0 })
    }
}

/// Counts the columns of a request that published formats lack: flags, process, and a replay's
/// measurements.
#[inline]
pub fn lose_columns(request: &Request, lost: &mut Lost) {
    if !request.flags.is_empty() {
        lost.detail("flags");
    }
    if request.origin.is_some_and(|origin| origin != Origin::default()) {
        lost.detail("processes and processors");
    }
    if request.measured.is_some() {
        lost.detail("measured times");
    }
}

/// A latency in whole units of `unit_ns`, for a format in which 0 means unknown; counts in `lost`
/// latencies that are `cut`, and those that become `unknown` because they are shorter than the
/// unit.
#[inline]
pub fn latency_units(
    latency: Option<Nanos>,
    unit_ns: i64,
    lost: &mut Lost,
    (cut, unknown): (&'static str, &'static str),
) -> u64 {
    let Some(Nanos(latency_ns)) = latency else { return 0 };
    if latency_ns < 0 {
        lost.detail("negative latencies, written as not known");
        return 0;
    }
    if latency_ns < unit_ns {
        lost.detail(unknown);
    } else if latency_ns % unit_ns != 0 {
        lost.detail(cut);
    }
    (latency_ns / unit_ns).unsigned_abs()
}

/// The name of a volume: the header's, or its number where it has none.
pub fn volume_name(header: &Header, id: VolumeId) -> String {
    let volume = header.volumes.iter().find(|volume| volume.id == id);
    match volume.map(|volume| volume.name.as_str()) {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => id.0.to_string(),
    }
}

/// The loss of a range that reaches beyond 64-bit addresses once it is widened to whole sectors.
pub const BEYOND: &str = "requests that reach beyond 64-bit addresses as whole sectors";

/// The first sector of the range from byte `offset` to byte `end`, and the number of sectors that
/// it touches. `None` if the range reaches beyond 64-bit addresses once it is widened to whole
/// sectors.
pub fn sectors(offset: u64, end: u64) -> Option<(u64, u64)> {
    let (first, behind) = (offset / SECTOR, end.div_ceil(SECTOR));
    behind.checked_mul(SECTOR).map(|_| (first, behind - first))
}

/// Appends `value` in decimal, at least `width` characters, filled with `fill` on the left.
pub fn decimal(line: &mut Vec<u8>, mut value: u64, width: usize, fill: u8) {
    let mut digits = [fill; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    line.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}
