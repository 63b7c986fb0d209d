//! ioecho's own format: a Parquet file with a fixed schema and a header.
//!
//! A trace is worth keeping only if others can read it without this program, and worth streaming
//! only if that is quick. Parquet is both: `DuckDB`, pandas, polars and Spark open it as it is, and
//! its columns decode at tens of millions of rows a second. What no column can say, where the trace
//! comes from and what was lost or guessed on the way, is the [`Header`] as JSON in the file's
//! footer. `docs/formats.md` describes the format for those others.
//!
//! Rows come in groups of 262,144, so a writer holds one group and a reader a page of each column,
//! whatever the length of the trace.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Repetition, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use crate::batch::{BATCH_ROWS, Batch, Columns, UNKNOWN};
use crate::compression::PartialFile;
use crate::error::TraceError;
use crate::formats::ReadOptions;
use crate::header::{Header, Notes, Volume};
use crate::request::{Flags, LateCause, Op, Outcome};
use crate::stream::{Sink, Source};
use crate::transform::Sorted;

/// The version of the format that this program writes, and the newest that it reads. It grows when
/// a reader of the version before would misread a file; a further column alone is no such change.
pub const VERSION: u32 = 1;

/// Rows of a row group: what a writer holds in memory, some 20 MiB with every column.
const GROUP_ROWS: usize = 32 * BATCH_ROWS;

/// Rows of a page, a few batches: what a reader holds of each column.
const PAGE_ROWS: usize = 4 * BATCH_ROWS;

/// Keys of the footer.
const KEY_VERSION: &str = "ioecho.version";
const KEY_HEADER: &str = "ioecho.header";
const KEY_CODES: &str = "ioecho.codes";
/// Present, with the value `issue_ns`, if the rows are in the order of their issue.
const KEY_ORDER: &str = "ioecho.order";
const ORDER: &str = "issue_ns";

/// The columns, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Issue,
    Op,
    Flags,
    Offset,
    Length,
    Volume,
    Latency,
    Pid,
    Cpu,
    Scheduled,
    Submitted,
    Completed,
    InFlight,
    Outcome,
    PushedBack,
    LateCause,
}

const COLUMNS: usize = 16;

impl Column {
    const ALL: [Self; COLUMNS] = [
        Self::Issue,
        Self::Op,
        Self::Flags,
        Self::Offset,
        Self::Length,
        Self::Volume,
        Self::Latency,
        Self::Pid,
        Self::Cpu,
        Self::Scheduled,
        Self::Submitted,
        Self::Completed,
        Self::InFlight,
        Self::Outcome,
        Self::PushedBack,
        Self::LateCause,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Issue => "issue_ns",
            Self::Op => "op",
            Self::Flags => "flags",
            Self::Offset => "offset_bytes",
            Self::Length => "length_bytes",
            Self::Volume => "volume",
            Self::Latency => "latency_ns",
            Self::Pid => "pid",
            Self::Cpu => "cpu",
            Self::Scheduled => "scheduled_ns",
            Self::Submitted => "submitted_ns",
            Self::Completed => "completed_ns",
            Self::InFlight => "in_flight",
            Self::Outcome => "outcome",
            Self::PushedBack => "pushed_back",
            Self::LateCause => "late_cause",
        }
    }

    /// The column in Parquet's own notation of a schema.
    const fn declaration(self) -> &'static str {
        match self {
            Self::Issue => "required int64 issue_ns (INTEGER(64,true));",
            Self::Op => "required int32 op (INTEGER(8,false));",
            Self::Flags => "required int32 flags (INTEGER(16,false));",
            Self::Offset => "required int64 offset_bytes (INTEGER(64,false));",
            Self::Length => "required int64 length_bytes (INTEGER(64,false));",
            Self::Volume => "required int32 volume (INTEGER(32,false));",
            Self::Latency => "optional int64 latency_ns (INTEGER(64,true));",
            Self::Pid => "required int32 pid (INTEGER(32,false));",
            Self::Cpu => "required int32 cpu (INTEGER(32,false));",
            Self::Scheduled => "optional int64 scheduled_ns (INTEGER(64,true));",
            Self::Submitted => "optional int64 submitted_ns (INTEGER(64,true));",
            Self::Completed => "optional int64 completed_ns (INTEGER(64,true));",
            Self::InFlight => "optional int32 in_flight (INTEGER(32,false));",
            Self::Outcome => "optional int32 outcome (INTEGER(32,true));",
            Self::PushedBack => "optional boolean pushed_back;",
            Self::LateCause => "optional int32 late_cause (INTEGER(8,false));",
        }
    }

    const fn physical_type(self) -> parquet::basic::Type {
        match self {
            Self::Issue
            | Self::Offset
            | Self::Length
            | Self::Latency
            | Self::Scheduled
            | Self::Submitted
            | Self::Completed => parquet::basic::Type::INT64,
            Self::PushedBack => parquet::basic::Type::BOOLEAN,
            _ => parquet::basic::Type::INT32,
        }
    }

    /// Whether a trace with these optional columns has this one.
    const fn is_in(self, columns: Columns) -> bool {
        match self {
            Self::Issue | Self::Op | Self::Flags | Self::Offset | Self::Length | Self::Volume => {
                true
            }
            Self::Latency => columns.latency,
            Self::Pid | Self::Cpu => columns.origin,
            _ => columns.measured,
        }
    }

    /// Whether the values grow with time, so that their differences are what is to be kept.
    const fn is_instant(self) -> bool {
        matches!(
            self,
            Self::Issue | Self::Latency | Self::Scheduled | Self::Submitted | Self::Completed
        )
    }
}

/// Whether a file that begins with these bytes is a Parquet file.
pub fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(b"PAR1")
}

/// What the numbers of the columns mean, for readers without this program.
fn codes() -> String {
    let ops: serde_json::Map<_, _> =
        Op::ALL.iter().map(|op| (op.code().to_string(), op.name().into())).collect();
    let flags: serde_json::Map<_, _> = Flags::all()
        .iter_names()
        .map(|(name, flag)| (flag.bits().to_string(), name.to_ascii_lowercase().into()))
        .collect();
    let mut outcomes: serde_json::Map<_, _> = (-7..=0)
        .filter_map(|code| Some((code.to_string(), Outcome::from_code(code)?.name().into())))
        .collect();
    outcomes.insert("1..".to_owned(), "the kernel's error number".into());
    let causes: serde_json::Map<_, _> = LateCause::ALL
        .iter()
        .filter_map(|cause| Some(((*cause as u8).to_string(), serde_json::to_value(cause).ok()?)))
        .collect();
    serde_json::json!({
        "op": ops, "flags (a sum of)": flags, "outcome": outcomes, "late_cause": causes,
    })
    .to_string()
}

/// Begins a native file at `path` with the columns of `header`.
pub fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    let write_error = |error| TraceError::write(path, error);
    let columns = header.columns;
    let mut schema = "message ioecho {".to_owned();
    for column in Column::ALL.iter().filter(|column| column.is_in(columns)) {
        schema += column.declaration();
    }
    schema += "}";
    let schema = parse_message_type(&schema).map_err(into_io).map_err(write_error)?;
    let level = ZstdLevel::try_new(1).map_err(into_io).map_err(write_error)?;
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("ioecho {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(level))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
        .set_max_row_group_row_count(None)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in Column::ALL.iter().filter(|column| column.is_instant()) {
        let path = ColumnPath::from(column.name());
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    let offset = ColumnPath::from(Column::Offset.name());
    properties = properties.set_column_dictionary_enabled(offset, false);
    let file = PartialFile::create(path).map_err(write_error)?;
    let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
        .map_err(into_io)
        .map_err(write_error)?;
    let mut rows = Batch::new(columns);
    rows.reset(columns);
    Ok(Box::new(Writer {
        path: path.to_owned(),
        file: writer,
        columns,
        rows,
        latest: i64::MIN,
        ordered: true,
        scratch: Scratch::default(),
    }))
}

/// Vectors that columns pass through, kept for their memory.
#[derive(Default)]
struct Scratch {
    longs: Vec<i64>,
    ints: Vec<i32>,
    bools: Vec<bool>,
    /// 1 where a row has a value, 0 where it is null (Parquet's definition levels).
    levels: Vec<i16>,
}

/// A native file that is being written.
struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<PartialFile>,
    columns: Columns,
    /// The rows of the group to come.
    rows: Batch,
    latest: i64,
    ordered: bool,
    scratch: Scratch,
}

impl Writer {
    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in Column::ALL.into_iter().filter(|column| column.is_in(self.columns)) {
            write_column(&mut group, column, &self.rows, &mut self.scratch)?;
        }
        group.close()?;
        self.rows.reset(self.columns);
        Ok(())
    }
}

/// Writes one column of a row group.
fn write_column(
    group: &mut SerializedRowGroupWriter<'_, PartialFile>,
    column: Column,
    rows: &Batch,
    scratch: &mut Scratch,
) -> Result<(), ParquetError> {
    let Scratch { longs, ints, bools, levels } = scratch;
    longs.clear();
    ints.clear();
    bools.clear();
    levels.clear();
    let mut required = true;
    match column {
        Column::Issue => longs.extend_from_slice(&rows.issue_ns),
        Column::Op => ints.extend(rows.op.iter().map(|op| i32::from(op.code()))),
        Column::Flags => ints.extend(rows.flags.iter().map(|flags| i32::from(flags.bits()))),
        Column::Offset => longs.extend(rows.offset_bytes.iter().map(|bytes| *bytes as i64)),
        Column::Length => longs.extend(rows.length_bytes.iter().map(|bytes| *bytes as i64)),
        Column::Volume => ints.extend(rows.volume.iter().map(|volume| *volume as i32)),
        Column::Latency => {
            required = false;
            present(rows.latency_ns.as_deref().unwrap_or_default(), longs, levels);
        }
        Column::Pid | Column::Cpu => {
            if let Some(origin) = &rows.origin {
                let values = if column == Column::Pid { &origin.pid } else { &origin.cpu };
                ints.extend(values.iter().map(|value| *value as i32));
            }
        }
        _ => {
            required = false;
            write_measured(column, rows, longs, ints, bools, levels);
        }
    }
    let levels = (!required).then_some(&levels[..]);
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("the schema lacks a column".to_owned()))?;
    match column.physical_type() {
        parquet::basic::Type::INT64 => {
            writer.typed::<Int64Type>().write_batch(longs, levels, None)?;
        }
        parquet::basic::Type::BOOLEAN => {
            writer.typed::<BoolType>().write_batch(bools, levels, None)?;
        }
        _ => {
            writer.typed::<Int32Type>().write_batch(ints, levels, None)?;
        }
    }
    writer.close()
}

/// Takes apart which values are there and which are null.
fn present(column: &[i64], values: &mut Vec<i64>, levels: &mut Vec<i16>) {
    levels.extend(column.iter().map(|value| i16::from(*value != UNKNOWN)));
    values.extend(column.iter().filter(|value| **value != UNKNOWN));
}

/// A column of what a replay measured; all of them are null in a row that has no measurement.
fn write_measured(
    column: Column,
    rows: &Batch,
    longs: &mut Vec<i64>,
    ints: &mut Vec<i32>,
    bools: &mut Vec<bool>,
    levels: &mut Vec<i16>,
) {
    let Some(measured) = &rows.measured else { return };
    let scheduled = &measured.scheduled_ns;
    match column {
        Column::Scheduled => return present(scheduled, longs, levels),
        Column::Submitted => return present(&measured.submitted_ns, longs, levels),
        Column::Completed => return present(&measured.completed_ns, longs, levels),
        _ => levels.extend(scheduled.iter().map(|value| i16::from(*value != UNKNOWN))),
    }
    let there = |row: &usize| scheduled[*row] != UNKNOWN;
    let there = (0..scheduled.len()).filter(there);
    match column {
        Column::InFlight => ints.extend(there.map(|row| measured.in_flight[row] as i32)),
        Column::Outcome => ints.extend(there.map(|row| measured.outcome[row])),
        Column::LateCause => ints.extend(there.map(|row| i32::from(measured.late_cause[row]))),
        _ => bools.extend(there.map(|row| measured.pushed_back[row])),
    }
}

impl Sink for Writer {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        if let Some((&first, &last)) = batch.issue_ns.first().zip(batch.issue_ns.last()) {
            self.ordered &= first >= self.latest && batch.is_ordered();
            self.latest = last;
        }
        let mut from = 0;
        while from < batch.len() {
            let to = batch.len().min(from + GROUP_ROWS - self.rows.len());
            self.rows.append(batch, from, to);
            from = to;
            if self.rows.len() == GROUP_ROWS {
                self.write_group()
                    .map_err(|error| TraceError::write(&self.path, into_io(error)))?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, header: &Header) -> Result<Notes, TraceError> {
        let path = self.path.clone();
        let write_error = |error| TraceError::write(&path, error);
        self.write_group().map_err(into_io).map_err(write_error)?;
        let mut header = header.clone();
        header.columns = self.columns;
        let json = serde_json::to_string(&header).map_err(io::Error::from).map_err(write_error)?;
        let mut add = |key: &str, value| {
            self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), Some(value)));
        };
        add(KEY_VERSION, VERSION.to_string());
        add(KEY_HEADER, json);
        add(KEY_CODES, codes());
        if self.ordered {
            add(KEY_ORDER, ORDER.to_owned());
        }
        let file = self.file.into_inner().map_err(into_io).map_err(write_error)?;
        file.finish().map_err(write_error)?;
        Ok(Notes::default())
    }
}

/// The error of the file system inside an error of the library, or the latter as it is.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// Opens a native file.
pub fn open(path: &Path, _options: &ReadOptions) -> Result<Box<dyn Source>, TraceError> {
    let file = File::open(path).map_err(|error| TraceError::read(path, error))?;
    let length = file.metadata().map_err(|error| TraceError::read(path, error))?.len();
    let unusable = |reason: String, remedy: &str| TraceError::Unusable {
        path: path.to_owned(),
        reason,
        remedy: remedy.to_owned(),
    };
    let file =
        guarded(|| SerializedFileReader::new(file)).map_err(|error| unreadable(path, error))?;
    let metadata = file.metadata();
    check_places(metadata, length)
        .map_err(|reason| unusable(reason, "the file is damaged: get it again"))?;
    let value_of = |key: &str| {
        let pairs = metadata.file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    };
    if let Some(version) = value_of(KEY_VERSION) {
        match version.parse::<u32>() {
            Ok(1..=VERSION) => {}
            Ok(version) if version > VERSION => {
                return Err(unusable(
                    format!(
                        "a newer ioecho wrote it: its format has version {version}, and this \
                         program reads versions up to {VERSION}"
                    ),
                    "update ioecho, or convert the file with the one that wrote it",
                ));
            }
            _ => {
                let reason = format!("'{version}' is no version of ioecho's format");
                return Err(unusable(reason, "was its footer edited? Get the file again"));
            }
        }
    }
    let (indices, columns, others) = layout(metadata).map_err(|reason| {
        unusable(reason, "a trace has the columns that docs/formats.md describes")
    })?;
    let mut header = match value_of(KEY_HEADER) {
        Some(json) => serde_json::from_str(json).map_err(|error| {
            unusable(format!("its header is not readable: {error}"), "get the file again")
        })?,
        None => headless(path),
    };
    header.columns = columns;
    for other in others {
        header.losses.add("columns that a trace does not have", 1, Some(other));
    }
    check_codecs(metadata, &indices).map_err(|reason| {
        unusable(reason, "write it with zstd; in pandas: to_parquet(..., compression='zstd')")
    })?;
    let ordered = value_of(KEY_ORDER) == Some(ORDER);
    let reader = Reader {
        path: path.to_owned(),
        file,
        header,
        indices,
        readers: Vec::new(),
        next_group: 0,
        rows_left: 0,
        row: 0,
        failed: false,
        scratch: Scratch::default(),
    };
    // Tools that write a trace back, such as DuckDB, do not promise an order.
    Ok(if ordered { Box::new(reader) } else { Box::new(Sorted::new(reader)) })
}

/// The header of a file with the right columns that another program wrote.
fn headless(path: &Path) -> Header {
    let mut header = Header {
        source: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        format: "Parquet with ioecho's columns".to_owned(),
        volumes: vec![Volume::default()],
        ..Header::default()
    };
    header.guesses.add("missing headers; nothing is known of the origin", 1, None);
    header
}

/// Checks what the library takes for granted of the places it is told to read at.
fn check_places(metadata: &ParquetMetaData, length: u64) -> Result<(), String> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        if group.num_rows() < 0 {
            return Err(format!("row group {number} has {} rows", group.num_rows()));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let end = start.checked_add(column.compressed_size());
            let fits = start >= 0
                && column.compressed_size() >= 0
                && end.is_some_and(|end| end as u64 <= length);
            if !fits {
                let name = column.column_path().string();
                return Err(format!("column {name} of row group {number} lies outside the file"));
            }
        }
    }
    Ok(())
}

/// Checks that the columns are packed as this program can unpack them: with zstd or not at all.
fn check_codecs(
    metadata: &ParquetMetaData,
    indices: &[Option<usize>; COLUMNS],
) -> Result<(), String> {
    for group in metadata.row_groups() {
        for index in indices.iter().flatten() {
            let column = group.column(*index);
            let codec = column.compression();
            if !matches!(codec, Compression::UNCOMPRESSED | Compression::ZSTD(_)) {
                let name = column.column_path().string();
                return Err(format!(
                    "column {name} is packed with {codec}, which is not read here"
                ));
            }
        }
    }
    Ok(())
}

/// Where each of our columns stands in the file, which optional ones there are, and the names of
/// columns that are not ours.
type Layout = ([Option<usize>; COLUMNS], Columns, Vec<String>);

fn layout(metadata: &ParquetMetaData) -> Result<Layout, String> {
    let schema = metadata.file_metadata().schema_descr();
    let mut indices = [None; COLUMNS];
    let mut others = Vec::new();
    for (index, found) in schema.columns().iter().enumerate() {
        let name = found.path().string();
        let Some(column) = Column::ALL.into_iter().find(|column| column.name() == name) else {
            others.push(name);
            continue;
        };
        let repeated = found.self_type().get_basic_info().repetition() == Repetition::REPEATED;
        if found.physical_type() != column.physical_type() || repeated {
            return Err(format!(
                "column {name} is of type {}, where a trace has '{}'",
                found.physical_type(),
                column.declaration().trim_end_matches(';')
            ));
        }
        indices[column as usize] = Some(index);
    }
    let has = |column: Column| indices[column as usize].is_some();
    let columns = Columns {
        latency: has(Column::Latency),
        origin: has(Column::Pid) || has(Column::Cpu),
        measured: has(Column::Scheduled) || has(Column::Completed) || has(Column::Outcome),
    };
    for column in Column::ALL {
        if column.is_in(columns) && !has(column) {
            let name = column.name();
            return Err(format!("it is a Parquet file, but no trace: it has no column {name}"));
        }
    }
    Ok((indices, columns, others))
}

/// Runs a piece of the library, whose decoders panic on some damaged files: to a caller a damaged
/// file is an error like any other.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".to_owned())))
}

fn unreadable(path: &Path, error: ParquetError) -> TraceError {
    let error = into_io(error);
    if error.raw_os_error().is_some() {
        return TraceError::read(path, error);
    }
    TraceError::Unusable {
        path: path.to_owned(),
        reason: format!("it begins as a Parquet file and is damaged or cut short: {error}"),
        remedy: "get the file again; a Parquet file without its end cannot be read".to_owned(),
    }
}

/// A native file that is being read.
struct Reader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    header: Header,
    indices: [Option<usize>; COLUMNS],
    /// The columns of the row group at hand, by the number of the column.
    readers: Vec<Option<ColumnReader>>,
    next_group: usize,
    /// Rows of that group that are not read yet.
    rows_left: usize,
    /// The number of rows read.
    row: u64,
    failed: bool,
    scratch: Scratch,
}

/// What is wrong with a column.
enum Fault {
    Library(ParquetError),
    /// A value in this row, counted from the beginning of the batch.
    Value(usize, String),
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Self::Library(error)
    }
}

impl Reader {
    /// Goes on to the next row group that has rows; answers whether there is one.
    fn next_group(&mut self) -> Result<bool, ParquetError> {
        while self.rows_left == 0 {
            if self.next_group == self.file.num_row_groups() {
                return Ok(false);
            }
            let group = self.file.get_row_group(self.next_group)?;
            self.rows_left = usize::try_from(group.metadata().num_rows())?;
            self.readers.clear();
            for index in self.indices {
                let reader = index.map(|index| group.get_column_reader(index)).transpose()?;
                self.readers.push(reader);
            }
            self.next_group += 1;
        }
        Ok(true)
    }

    fn fill(&mut self, batch: &mut Batch, rows: usize) -> Result<(), Fault> {
        let mut columns = GroupColumns { readers: &mut self.readers, rows };
        let Scratch { longs, ints, bools, levels } = &mut self.scratch;
        columns.longs(Column::Issue, &mut batch.issue_ns, levels, None)?;

        columns.ints(Column::Op, ints, levels, None)?;
        check(ints, |code| code < Op::ALL.len() as u32, "op")?;
        batch.op.extend(ints.iter().map(|code| Op::from_code(*code as u8).unwrap_or(Op::Read)));

        columns.ints(Column::Flags, ints, levels, None)?;
        check(ints, |bits| bits & !u32::from(Flags::all().bits()) == 0, "flags")?;
        batch.flags.extend(ints.iter().map(|bits| Flags::from_bits_retain(*bits as u16)));

        columns.longs(Column::Offset, longs, levels, None)?;
        batch.offset_bytes.extend(longs.iter().map(|bytes| *bytes as u64));
        columns.longs(Column::Length, longs, levels, None)?;
        batch.length_bytes.extend(longs.iter().map(|bytes| *bytes as u64));
        check_ranges(batch)?;

        columns.ints(Column::Volume, ints, levels, None)?;
        batch.volume.extend(ints.iter().map(|volume| *volume as u32));

        if let Some(latency) = &mut batch.latency_ns {
            columns.longs(Column::Latency, latency, levels, Some(UNKNOWN))?;
        }
        if let Some(origin) = &mut batch.origin {
            columns.ints(Column::Pid, ints, levels, None)?;
            origin.pid.extend(ints.iter().map(|pid| *pid as u32));
            columns.ints(Column::Cpu, ints, levels, None)?;
            origin.cpu.extend(ints.iter().map(|cpu| *cpu as u32));
        }
        if let Some(measured) = &mut batch.measured {
            columns.longs(Column::Scheduled, &mut measured.scheduled_ns, levels, Some(UNKNOWN))?;
            columns.longs(Column::Submitted, &mut measured.submitted_ns, levels, Some(UNKNOWN))?;
            columns.longs(Column::Completed, &mut measured.completed_ns, levels, Some(UNKNOWN))?;
            columns.ints(Column::InFlight, ints, levels, Some(0))?;
            measured.in_flight.extend(ints.iter().map(|number| *number as u32));

            // A row is measured if it was scheduled; then it has an outcome. None is made up.
            columns.ints(Column::Outcome, ints, levels, Some(i32::MIN))?;
            for (row, outcome) in ints.iter_mut().enumerate() {
                if measured.scheduled_ns[row] == UNKNOWN {
                    *outcome = 0;
                } else if *outcome == i32::MIN {
                    return Err(Fault::Value(row, "it has scheduled_ns and no outcome".to_owned()));
                } else if Outcome::from_code(*outcome).is_none() {
                    return Err(unknown(row, "outcome", *outcome));
                }
            }
            measured.outcome.extend_from_slice(ints);

            columns.bools(bools, levels)?;
            measured.pushed_back.extend_from_slice(bools);
            columns.ints(Column::LateCause, ints, levels, Some(0))?;
            check(ints, |code| code < LateCause::ALL.len() as u32, "late_cause")?;
            measured.late_cause.extend(ints.iter().map(|code| *code as u8));
        }
        Ok(())
    }
}

fn unknown(row: usize, column: &str, code: i32) -> Fault {
    Fault::Value(row, format!("{column} is {code}, which means nothing in version {VERSION}"))
}

/// Checks the codes of a column, all at a time as long as they are good.
fn check(codes: &[i32], is_known: impl Fn(u32) -> bool, column: &str) -> Result<(), Fault> {
    if codes.iter().fold(true, |good, code| good & is_known(*code as u32)) {
        return Ok(());
    }
    match codes.iter().position(|code| !is_known(*code as u32)) {
        Some(row) => Err(unknown(row, column, codes[row])),
        None => Ok(()),
    }
}

/// Checks that no range ends beyond 64 bits.
fn check_ranges(batch: &Batch) -> Result<(), Fault> {
    let ranges = || batch.offset_bytes.iter().zip(&batch.length_bytes);
    if ranges().fold(false, |bad, (offset, length)| bad | offset.overflowing_add(*length).1) {
        let row = ranges().position(|(offset, length)| offset.checked_add(*length).is_none());
        let reason = "offset_bytes + length_bytes does not fit 64 bits".to_owned();
        return Err(Fault::Value(row.unwrap_or(0), reason));
    }
    Ok(())
}

/// The columns of a row group, of which so many rows are read at a time.
struct GroupColumns<'a> {
    readers: &'a mut [Option<ColumnReader>],
    rows: usize,
}

impl GroupColumns<'_> {
    fn longs(
        &mut self,
        column: Column,
        values: &mut Vec<i64>,
        levels: &mut Vec<i16>,
        null: Option<i64>,
    ) -> Result<(), Fault> {
        match self.readers.get_mut(column as usize) {
            Some(Some(ColumnReader::Int64ColumnReader(reader))) => {
                read_column(reader, column, self.rows, values, levels, null)
            }
            _ => Err(missing(column)),
        }
    }

    fn ints(
        &mut self,
        column: Column,
        values: &mut Vec<i32>,
        levels: &mut Vec<i16>,
        null: Option<i32>,
    ) -> Result<(), Fault> {
        match self.readers.get_mut(column as usize) {
            Some(Some(ColumnReader::Int32ColumnReader(reader))) => {
                read_column(reader, column, self.rows, values, levels, null)
            }
            _ => Err(missing(column)),
        }
    }

    fn bools(&mut self, values: &mut Vec<bool>, levels: &mut Vec<i16>) -> Result<(), Fault> {
        let column = Column::PushedBack;
        match self.readers.get_mut(column as usize) {
            Some(Some(ColumnReader::BoolColumnReader(reader))) => {
                read_column(reader, column, self.rows, values, levels, Some(false))
            }
            _ => Err(missing(column)),
        }
    }
}

fn missing(column: Column) -> Fault {
    Fault::Library(ParquetError::General(format!("there is no column {}", column.name())))
}

/// Reads `rows` values of a column; where the file has null, `null` is put, if it may be null.
fn read_column<T: DataType<T: Copy>>(
    reader: &mut ColumnReaderImpl<T>,
    column: Column,
    rows: usize,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
    null: Option<T::T>,
) -> Result<(), Fault> {
    values.clear();
    levels.clear();
    let (records, found, _) = reader.read_records(rows, Some(levels), None, values)?;
    if records != rows || values.len() != found {
        let name = column.name();
        let short = format!("column {name} has fewer rows than its row group");
        return Err(Fault::Library(ParquetError::General(short)));
    }
    if found == rows {
        return Ok(());
    }
    let Some(null) = null else {
        let row = levels.iter().position(|level| *level == 0).unwrap_or(0);
        return Err(Fault::Value(row, format!("{} is null", column.name())));
    };
    // The values stand at the beginning, without gaps; from the end they move to their rows.
    values.resize(rows, null);
    let mut from = found;
    for (row, level) in levels.iter().enumerate().rev() {
        if *level == 0 {
            values[row] = null;
        } else {
            from -= 1;
            values[row] = values[from];
        }
    }
    Ok(())
}

impl Source for Reader {
    fn header(&self) -> &Header {
        &self.header
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.reset(self.header.columns);
        if self.failed {
            return Ok(false);
        }
        // Set back when all went well: behind an error there is nothing to be read.
        self.failed = true;
        let more = guarded(|| self.next_group()).map_err(|error| unreadable(&self.path, error))?;
        if !more {
            return Ok(false);
        }
        let rows = self.rows_left.min(BATCH_ROWS);
        let mut fault = None;
        let filled = guarded(|| match self.fill(batch, rows) {
            Ok(()) => Ok(()),
            Err(Fault::Library(error)) => Err(error),
            Err(Fault::Value(row, reason)) => {
                fault = Some((row, reason));
                Ok(())
            }
        });
        if let Err(error) = filled {
            batch.reset(self.header.columns);
            return Err(unreadable(&self.path, error));
        }
        if let Some((row, reason)) = fault {
            batch.reset(self.header.columns);
            return Err(TraceError::Row {
                path: self.path.clone(),
                row: self.row + row as u64,
                reason,
                remedy: "docs/formats.md says what the columns hold".to_owned(),
            });
        }
        self.rows_left -= rows;
        self.row += rows as u64;
        self.failed = false;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::any_request;
    use crate::{Bytes, Nanos, Request};
    use proptest::prelude::*;
    use std::fs;

    fn header(columns: Columns) -> Header {
        let mut header = Header { columns, ..Header::default() };
        "a file".clone_into(&mut header.source);
        header.losses.add("junk lines", 3, Some("line 1: ;".to_owned()));
        header.processes.insert(7, "mysqld".to_owned());
        header
    }

    /// Writes requests in batches of `rows`.
    fn write(path: &Path, columns: Columns, requests: &[Request], rows: usize) {
        let header = header(columns);
        let mut sink = create(path, &header).unwrap();
        for chunk in requests.chunks(rows) {
            let mut batch = Batch::new(columns);
            batch.extend(chunk);
            sink.write(&batch).unwrap();
        }
        assert!(!path.exists());
        assert!(sink.finish(&header).unwrap().is_empty());
    }

    fn read(path: &Path) -> Result<(Vec<Request>, Header), TraceError> {
        let mut source = open(path, &ReadOptions::default())?;
        let mut batch = Batch::default();
        let mut all = Vec::new();
        while source.next_batch(&mut batch)? {
            assert!(!batch.is_empty());
            all.extend(batch.iter());
        }
        Ok((all, source.header().clone()))
    }

    fn file() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace.parquet");
        (directory, path)
    }

    /// What is kept of `request` in a trace with these columns.
    fn kept(request: &Request, columns: Columns) -> Request {
        Request {
            latency: request.latency.filter(|_| columns.latency),
            origin: request.origin.filter(|_| columns.origin),
            measured: request.measured.filter(|_| columns.measured),
            ..*request
        }
    }

    prop_compose! {
        fn any_columns()(bits in 0_u8..8) -> Columns {
            Columns { latency: bits & 1 != 0, origin: bits & 2 != 0, measured: bits & 4 != 0 }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_was_written_is_what_is_read_with_any_columns(
            mut requests in proptest::collection::vec((any_request(), any::<bool>()), 0..200),
            columns in any_columns(), rows in 1_usize..100,
        ) {
            requests.sort_by_key(|(request, _)| request.issue);
            let requests: Vec<_> = requests.into_iter().map(|(mut request, is_measured)| {
                request.measured = request.measured.filter(|_| is_measured);
                kept(&request, columns)
            }).collect();
            let (_directory, path) = file();
            write(&path, columns, &requests, rows);
            let (all, found) = read(&path).unwrap();
            prop_assert_eq!(all, requests);
            prop_assert_eq!(found, header(columns));
        }
    }

    fn some_requests(count: i64) -> Vec<Request> {
        (0..count)
            .map(|n| {
                let offset = Bytes((n as u64 * 7919 % 1_000_003) * 512);
                let op = if n % 3 == 0 { Op::Read } else { Op::Write };
                let mut request = Request::new(Nanos(n * 1000), op, offset, Bytes(4096));
                request.latency = (n % 5 != 0).then_some(Nanos(n));
                request
            })
            .collect()
    }

    const WITH_LATENCY: Columns = Columns { latency: true, origin: false, measured: false };

    #[test]
    fn row_groups_and_pages_follow_each_other_without_a_seam() {
        let (_directory, path) = file();
        let requests = some_requests(GROUP_ROWS as i64 * 2 + 12_345);
        write(&path, WITH_LATENCY, &requests, 5000);
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(file.num_row_groups(), 3);
        assert!(read(&path).unwrap().0 == requests);
    }

    #[test]
    fn rows_out_of_order_are_sorted_and_told() {
        let (_directory, path) = file();
        let mut requests = some_requests(100);
        requests.swap(40, 41);
        write(&path, WITH_LATENCY, &requests, 7);
        let (all, header) = read(&path).unwrap();
        requests.swap(40, 41);
        assert_eq!(all, requests);
        assert_eq!(header.guesses.count_of(crate::transform::sort::SORTED), 1);
    }

    #[test]
    fn a_trace_without_a_request_is_one() {
        let (_directory, path) = file();
        write(&path, WITH_LATENCY, &[], 1);
        assert_eq!(read(&path).unwrap(), (Vec::new(), header(WITH_LATENCY)));
    }

    #[test]
    fn the_footer_says_version_order_and_codes() {
        let (_directory, path) = file();
        write(&path, Columns::default(), &some_requests(10), 10);
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let pairs = file.metadata().file_metadata().key_value_metadata().unwrap().clone();
        let value =
            |key: &str| pairs.iter().find(|pair| pair.key == key).unwrap().value.clone().unwrap();
        assert_eq!(value(KEY_VERSION), "1");
        assert_eq!(value(KEY_ORDER), "issue_ns");
        let codes: serde_json::Value = serde_json::from_str(&value(KEY_CODES)).unwrap();
        assert_eq!(codes["op"]["4"], "write-zeroes");
        assert_eq!(codes["flags (a sum of)"]["16"], "readahead");
        assert_eq!(codes["outcome"]["-2"], "crosses the end of the target");
        assert_eq!(codes["late_cause"]["2"], "in-flight-cap");
    }

    /// A file with these columns and one row, as another program might write it.
    fn foreign(path: &Path, schema: &str, values: &[(&str, i64)], pairs: &[(&str, &str)]) {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut values = values.iter();
        while let Some(mut column) = group.next_column().unwrap() {
            let &(_, value) = values.next().unwrap();
            let nullable = column.typed_descr_is_optional();
            let (level, count) = if value == UNKNOWN { ([0], 0) } else { ([1], 1) };
            let levels = nullable.then_some(&level[..]);
            match column.untyped() {
                parquet::column::writer::ColumnWriter::Int64ColumnWriter(writer) => {
                    writer.write_batch(&[value][..count], levels, None).unwrap();
                }
                parquet::column::writer::ColumnWriter::Int32ColumnWriter(writer) => {
                    writer.write_batch(&[value as i32][..count], levels, None).unwrap();
                }
                parquet::column::writer::ColumnWriter::BoolColumnWriter(writer) => {
                    writer.write_batch(&[value != 0][..count], levels, None).unwrap();
                }
                _ => unreachable!("a type that no column of ours has"),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
        for (key, value) in pairs {
            let pair = KeyValue::new((*key).to_owned(), Some((*value).to_owned()));
            writer.append_key_value_metadata(pair);
        }
        writer.close().unwrap();
    }

    trait Descr {
        fn typed_descr_is_optional(&mut self) -> bool;
    }

    impl Descr for parquet::file::writer::SerializedColumnWriter<'_> {
        fn typed_descr_is_optional(&mut self) -> bool {
            use parquet::column::writer::ColumnWriter;
            match self.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => writer.get_descriptor().max_def_level(),
                ColumnWriter::Int32ColumnWriter(writer) => writer.get_descriptor().max_def_level(),
                ColumnWriter::BoolColumnWriter(writer) => writer.get_descriptor().max_def_level(),
                _ => 0,
            }
            .is_positive()
        }
    }

    const SCHEMA: &str = "message m { optional int64 issue_ns; optional int32 op; \
        optional int32 flags; optional int64 offset_bytes; optional int64 length_bytes; \
        optional int32 volume;";
    const ROW: [(&str, i64); 6] = [
        ("issue_ns", 5),
        ("op", 1),
        ("flags", 2),
        ("offset", 512),
        ("length", 1024),
        ("volume", 0),
    ];

    fn message(path: &Path) -> String {
        read(path).unwrap_err().to_string()
    }

    #[test]
    fn a_file_of_another_program_with_the_right_columns_is_a_trace() {
        let (_directory, path) = file();
        let row = [&ROW[..], &[("colour", 3)]].concat();
        foreign(&path, &format!("{SCHEMA} optional int32 colour; }}"), &row, &[]);
        let (all, header) = read(&path).unwrap();
        let mut expected = Request::new(Nanos(5), Op::Write, Bytes(512), Bytes(1024));
        expected.flags = Flags::FUA;
        assert_eq!(all, [expected]);
        assert_eq!(header.guesses.iter().count(), 1);
        assert_eq!(header.losses.iter().next().unwrap().examples, ["colour"]);
    }

    #[test]
    fn a_foreign_file_is_refused_with_the_name_of_what_is_missing() {
        let (_directory, path) = file();
        foreign(&path, "message m { required int64 issue_ns; }", &ROW[..1], &[]);
        assert!(message(&path).contains("no column op"), "{}", message(&path));
        foreign(&path, "message m { required int64 issue_ns; required int64 op; }", &ROW, &[]);
        assert!(message(&path).contains("column op is of type INT64"), "{}", message(&path));
        let row = [&ROW[..], &[("scheduled_ns", 3)]].concat();
        foreign(&path, &format!("{SCHEMA} optional int64 scheduled_ns; }}"), &row, &[]);
        assert!(message(&path).contains("no column submitted_ns"), "{}", message(&path));
    }

    #[test]
    fn a_file_packed_otherwise_is_refused_with_the_remedy() {
        let (_directory, path) = file();
        foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[]);
        // The codec of a column is the fourth field of its metadata in the footer (parquet.thrift).
        let bytes = fs::read(&path).unwrap();
        let name = b"issue_ns\x15\x00";
        let place = memchr::memmem::rfind(&bytes, name).unwrap() + name.len() - 1;
        let snappy = [&bytes[..place], &[2], &bytes[place + 1..]].concat();
        fs::write(&path, snappy).unwrap();
        assert!(message(&path).contains("issue_ns is packed with SNAPPY"), "{}", message(&path));
    }

    #[test]
    fn a_value_that_means_nothing_is_refused_with_its_row() {
        let (_directory, path) = file();
        for (column, value, reason) in [
            (1, 6, "row 0: op is 6"),
            (1, -1, "row 0: op is -1"),
            (2, 32, "row 0: flags is 32"),
            (3, -1024, "row 0: offset_bytes + length_bytes"),
            (0, UNKNOWN, "row 0: issue_ns is null"),
        ] {
            let mut row = ROW;
            row[column].1 = value;
            foreign(&path, &format!("{SCHEMA} }}"), &row, &[]);
            assert!(message(&path).contains(reason), "{}", message(&path));
        }
        let schema = "optional int64 scheduled_ns; optional int64 submitted_ns; \
            optional int64 completed_ns; optional int32 in_flight; optional int32 outcome; \
            optional boolean pushed_back; optional int32 late_cause;";
        for (outcome, cause, reason) in
            [(UNKNOWN, 0, "no outcome"), (-99, 0, "outcome is -99"), (0, 6, "late_cause is 6")]
        {
            let measured = [
                ("scheduled_ns", 3),
                ("submitted_ns", 3),
                ("completed_ns", 3),
                ("in_flight", 0),
                ("outcome", outcome),
                ("pushed_back", 1),
                ("late_cause", cause),
            ];
            let row = [&ROW[..], &measured].concat();
            foreign(&path, &format!("{SCHEMA} {schema} }}"), &row, &[]);
            assert!(message(&path).contains(reason), "{}", message(&path));
        }
    }

    #[test]
    fn a_newer_version_is_refused_with_both_versions() {
        let (_directory, path) = file();
        for (version, reason) in [
            ("2", "format has version 2, and this program reads versions up to 1"),
            ("x", "'x' is no"),
        ] {
            foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[(KEY_VERSION, version)]);
            assert!(message(&path).contains(reason), "{}", message(&path));
        }
        foreign(&path, &format!("{SCHEMA} }}"), &ROW, &[(KEY_HEADER, "{")]);
        assert!(message(&path).contains("header is not readable"), "{}", message(&path));
    }

    #[test]
    fn a_file_cut_short_anywhere_is_an_error() {
        let (_directory, path) = file();
        write(&path, WITH_LATENCY, &some_requests(1000), 1000);
        let whole = fs::read(&path).unwrap();
        for length in (4..whole.len()).step_by(97).chain(whole.len() - 20..whole.len()) {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(message(&path).contains("damaged or cut short"), "{}", message(&path));
        }
    }

    #[test]
    fn an_unfinished_file_leaves_nothing_behind() {
        let (directory, path) = file();
        let mut sink = create(&path, &header(WITH_LATENCY)).unwrap();
        let mut batch = Batch::new(WITH_LATENCY);
        batch.extend(&some_requests(100));
        sink.write(&batch).unwrap();
        drop(sink);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn no_damage_to_a_file_makes_the_reader_panic(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            in_footer in any::<bool>(),
        ) {
            let (_directory, path) = file();
            let columns = Columns { latency: true, origin: true, measured: true };
            write(&path, columns, &some_requests(50), 50);
            let mut bytes = fs::read(&path).unwrap();
            let (from, to) = (if in_footer { bytes.len() / 2 } else { 0 }, bytes.len());
            for (place, value) in changes {
                let place = from + place.index(to - from);
                bytes[place] = value;
            }
            fs::write(&path, &bytes).unwrap();
            let _ = read(&path);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), end in any::<bool>(),
        ) {
            let (_directory, path) = file();
            let mut file = [b"PAR1", &bytes[..]].concat();
            if end {
                file.extend((bytes.len() as u32).to_le_bytes());
                file.extend(b"PAR1");
            }
            fs::write(&path, &file).unwrap();
            let _ = read(&path);
        }
    }
}
