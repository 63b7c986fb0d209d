//! Google's Thesios traces of storage servers (ASPLOS '24).
//!
//! Lines of seventeen columns below a header with their names. The header recurs, because the
//! published files are shards one behind the other. The description of the traces lists the columns
//! in another order than the files have them. So columns are found by the header's names.
//!
//! The columns that are read: the arrival at the server (`start_time`, seconds since 1970), `READ`
//! or `WRITE`, the requested size (`request_io_size_bytes`, not the size that reached the disk),
//! and the latency from arrival to response (`simulated_latency`). There is no device: a request
//! names a file, by a hash, and an offset in it. Files are placed by [`Slots`].

use super::import::{
    self, Delimited, Epoch, Facts, Fault, Intake, Look, Slots, Told, looks_delimited,
};
use super::{Format, Several};
use crate::batch::Columns;
use crate::header::{NoteKind, Topic};
use crate::request::{Op, Request};
use crate::text::Cursor;
use crate::units::{Bytes, Nanos};

/// Google's Thesios traces.
pub const FORMAT: Format = Format {
    name: "thesios",
    title: "Google's Thesios traces",
    several: Several::ByTime,
    recognise: |first_bytes| looks_delimited(Parser::default(), first_bytes),
    open: |opening| {
        let facts = Facts {
            format: "Google Thesios CSV",
            columns: Columns { latency: true, ..Columns::default() },
            epoch: Epoch::Unix,
            whole_seconds: false,
        };
        let remedy = "it begins with the header \
                      'filename,file_offset,application,c_time,io_zone,redundancy_type,op_type,…'";
        import::lines(opening, Parser::default(), facts, remedy)
    },
};

/// Files begin at multiples of 1 GiB.
const SLOTS: Slots = Slots::new(30);

const PLACED: Topic<'static> = NoteKind::Place
    .of("requests to files without an address, placed by a hash of the file's name \
         in slots of 1 GiB");
const CACHED: Topic<'static> = NoteKind::Assumed
    .of("reads that the server answered from its cache, kept as reads of the device");

/// The largest number of columns that are looked at.
const COLUMNS_MAX: usize = 32;

/// The places of the columns that are read, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    file: usize,
    offset: usize,
    op: usize,
    cache_hit: Option<usize>,
    length: usize,
    start: usize,
    latency: Option<usize>,
}

/// The order of the columns in the published files.
const PUBLISHED: Layout = Layout {
    file: 0,
    offset: 1,
    op: 6,
    cache_hit: Some(9),
    length: 10,
    start: 13,
    latency: Some(16),
};

impl Layout {
    /// The layout that a header names; `None` if `line` is no header.
    #[cold]
    fn of_header(line: &[u8]) -> Option<Self> {
        let names: Vec<_> = line.split(|byte| *byte == b',').take(COLUMNS_MAX).collect();
        let find = |name: &[u8]| names.iter().position(|found| found.trim_ascii() == name);
        Some(Self {
            file: find(b"filename")?,
            offset: find(b"file_offset")?,
            op: find(b"op_type")?,
            cache_hit: find(b"cache_hit"),
            length: find(b"request_io_size_bytes")?,
            start: find(b"start_time")?,
            latency: find(b"simulated_latency").or_else(|| find(b"latency")),
        })
    }
}

/// The values of a line.
struct Row {
    is_cached: bool,
    request: Request,
}

/// A line and the beginnings of its columns.
struct Split<'a> {
    line: &'a [u8],
    /// The byte at which each column begins. One more entry, behind the last comma, is where the
    /// next column would begin.
    begins: [usize; COLUMNS_MAX + 1],
    count: usize,
}

impl<'a> Split<'a> {
    #[inline]
    fn new(line: &'a [u8]) -> Self {
        let mut split = Self { line, begins: [0; COLUMNS_MAX + 1], count: 0 };
        for comma in memchr::memchr_iter(b',', line).take(COLUMNS_MAX) {
            split.count += 1;
            split.begins[split.count] = comma + 1;
        }
        if split.count < COLUMNS_MAX {
            split.count += 1;
            split.begins[split.count] = line.len() + 1;
        }
        split
    }

    /// Column `index` without the blanks around it; empty where the line has no such column.
    #[inline]
    fn column(&self, index: usize) -> &'a [u8] {
        if index >= self.count {
            return b"";
        }
        self.line[self.begins[index]..self.begins[index + 1] - 1].trim_ascii()
    }

    /// The whole of column `index`, read by `read`.
    #[inline]
    fn read<T, E>(
        &self,
        index: usize,
        reason: &'static str,
        read: impl FnOnce(&mut Cursor<'a>) -> Result<T, E>,
    ) -> Result<T, Fault> {
        let mut cursor = Cursor::new(self.column(index));
        match read(&mut cursor) {
            Ok(value) if cursor.is_at_end() => Ok(value),
            _ => Err(Fault::junk(self.begin(index), reason)),
        }
    }

    /// The place at which column `index` begins, counted from 1.
    fn begin(&self, index: usize) -> usize {
        self.begins[index.min(self.count)] + 1
    }
}

#[inline]
fn parse(line: &[u8], layout: &Layout) -> Result<Row, Fault> {
    const SECOND_NS: i64 = 1_000_000_000;
    let split = Split::new(line);
    let op = match split.column(layout.op) {
        b"READ" => Op::Read,
        b"WRITE" => Op::Write,
        _ => {
            let reason = "the operation is neither READ nor WRITE";
            return Err(Fault::junk(split.begin(layout.op), reason));
        }
    };
    let number = "a size or an offset is no number of bytes";
    let offset = split.read(layout.offset, number, Cursor::integer)?;
    let length = split.read(layout.length, number, Cursor::integer)?;
    let time = "a time is no number of seconds";
    let issue = split.read(layout.start, time, |cursor| cursor.decimal(SECOND_NS))?;
    let latency = match layout.latency {
        Some(index) if !split.column(index).is_empty() => {
            Some(Nanos(split.read(index, time, |cursor| cursor.decimal(SECOND_NS))?))
        }
        _ => None,
    };
    let file = split.column(layout.file);
    if file.is_empty() {
        return Err(Fault::junk(1, "there is no name of a file"));
    }
    let place = SLOTS.of_name(file);
    let offset = place.0.checked_add(offset).ok_or(Fault::lost(
        split.begin(layout.offset),
        "requests that reach beyond 64-bit addresses",
        "the offset is too large",
    ))?;
    let request = Request::new(Nanos(issue), op, Bytes(offset), Bytes(length));
    let hit = layout.cache_hit.map_or(&b""[..], |index| split.column(index));
    let is_cached = op == Op::Read && hit == b"1";
    Ok(Row { is_cached, request: Request { latency, ..request } })
}

struct Parser {
    layout: Layout,
    cached: u64,
}

impl Default for Parser {
    fn default() -> Self {
        Self { layout: PUBLISHED, cached: 0 }
    }
}

impl Delimited for Parser {
    type Row<'a> = Row;

    #[inline]
    fn parse(&self, line: &[u8]) -> Result<Row, Fault> {
        parse(line, &self.layout)
    }

    fn other(&mut self, line: &[u8]) -> Look {
        let Some(layout) = Layout::of_header(line) else { return Look::Strange };
        self.layout = layout;
        Look::Header
    }

    #[inline]
    fn give(&mut self, row: Row, intake: &mut Intake) -> Result<(), Fault> {
        intake.push(&row.request)?;
        self.cached += u64::from(row.is_cached);
        Ok(())
    }

    fn tell(&self, told: &mut Told) {
        told.guess_all(true, PLACED);
        told.guesses.add(CACHED, self.cached, None);
    }
}
