//! Writing a native file.
//!
//! A trace is longer than memory and a column of Parquet is written whole for each group of rows:
//! rows are gathered until they make a group, and then go out column by column.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::checksums::{GroupSum, NO_DIGITS, Summed};
use super::schema::{
    Column, KEY_CODES, KEY_CRC_FOOTER, KEY_CRC_GROUPS, KEY_HEADER, KEY_ORDER, KEY_VERSION, ORDER,
    codes,
};
use super::{Scratch, VERSION, into_io};
use crate::batch::{BATCH_ROWS, Batch, Columns, UNKNOWN};
use crate::compression::PartialFile;
use crate::error::TraceError;
use crate::header::{Header, NoteKind, Notes};
use crate::stream::{Sink, Written};

/// Rows of a row group. A writer holds them in memory, some 20 MiB with every column.
pub(super) const GROUP_ROWS: usize = 32 * BATCH_ROWS;

/// Parents of a row group, some 100 MiB in memory: where a thousand requests are in flight, a
/// request has hundreds of parents.
pub(super) const GROUP_PARENTS: usize = 1 << 22;

/// Rows of a page, a few batches. A reader holds one page of each column.
const PAGE_ROWS: usize = 4 * BATCH_ROWS;

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
        let path = column.path();
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties = properties.set_column_dictionary_enabled(Column::Offset.path(), false);
    let file = Summed::new(PartialFile::create(path).map_err(write_error)?);
    let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()))
        .map_err(into_io)
        .map_err(write_error)?;
    let mut rows = Batch::new(columns);
    rows.reset(columns);
    Ok(Box::new(Writer {
        path: path.to_owned(),
        file: writer,
        sums: Vec::new(),
        columns,
        rows,
        latest: i64::MIN,
        requests: 0,
        ordered: true,
        lost: Notes::default(),
        scratch: Scratch::default(),
    }))
}

/// A native file that is being written.
struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<Summed>,
    /// The checksums of the row groups so far.
    sums: Vec<GroupSum>,
    columns: Columns,
    /// The rows of the group that is gathered.
    rows: Batch,
    latest: i64,
    /// The number of requests so far.
    requests: u64,
    ordered: bool,
    lost: Notes,
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
        // Bytes that the library still buffers belong to the group.
        self.file.flush()?;
        self.sums.push(self.file.inner_mut().end_group());
        self.rows.reset(self.columns);
        Ok(())
    }
}

/// Writes one column of a row group.
fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Summed>,
    column: Column,
    rows: &Batch,
    scratch: &mut Scratch,
) -> Result<(), ParquetError> {
    let Scratch { longs, ints, bools, levels, repeats } = scratch;
    longs.clear();
    repeats.clear();
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
        Column::Id | Column::Think | Column::Parents => {
            required = column == Column::Id;
            write_dependencies(column, rows, longs, levels, repeats);
        }
        _ => {
            required = false;
            write_measured(column, rows, longs, ints, bools, levels);
        }
    }
    let levels = (!required).then_some(&levels[..]);
    let repeats = (column == Column::Parents).then_some(&repeats[..]);
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General("the schema lacks a column".to_owned()))?;
    match column.physical_type() {
        parquet::basic::Type::INT64 => {
            writer.typed::<Int64Type>().write_batch(longs, levels, repeats)?;
        }
        parquet::basic::Type::BOOLEAN => {
            writer.typed::<BoolType>().write_batch(bools, levels, None)?;
        }
        parquet::basic::Type::BYTE_ARRAY => {
            let names = named(column, ints);
            writer.typed::<ByteArrayType>().write_batch(&names, levels, None)?;
        }
        _ => {
            writer.typed::<Int32Type>().write_batch(ints, levels, None)?;
        }
    }
    writer.close()
}

/// The names of codes. Equal names share their bytes.
fn named(column: Column, codes: &[i32]) -> Vec<ByteArray> {
    let mut known: BTreeMap<i32, ByteArray> = BTreeMap::new();
    let name = |code: &i32| {
        let new = || ByteArray::from(column.name_of(*code).unwrap_or_default().into_bytes());
        known.entry(*code).or_insert_with(new).clone()
    };
    codes.iter().map(name).collect()
}

/// Separates the values of a column from its nulls.
fn present(column: &[i64], values: &mut Vec<i64>, levels: &mut Vec<i16>) {
    levels.extend(column.iter().map(|value| i16::from(*value != UNKNOWN)));
    values.extend(column.iter().filter(|value| **value != UNKNOWN));
}

/// Writes a column of the requests' dependencies.
fn write_dependencies(
    column: Column,
    rows: &Batch,
    longs: &mut Vec<i64>,
    levels: &mut Vec<i16>,
    repeats: &mut Vec<i16>,
) {
    let Some(dependencies) = &rows.dependencies else { return };
    match column {
        Column::Id => longs.extend(dependencies.id.iter().map(|id| *id as i64)),
        Column::Think => {
            levels.extend(dependencies.think.iter().map(|think| i16::from(think.is_some())));
            longs.extend(dependencies.think.iter().flatten().map(|think| think.0));
        }
        // Level 1 is a value, 0 a row without any; a repeat belongs to the row before it.
        _ => {
            for row in 0..rows.len() {
                let parents = dependencies.get(row).parents;
                levels.extend(parents.iter().map(|_| 1));
                repeats.extend((0..parents.len()).map(|at| i16::from(at > 0)));
                longs.extend(parents.iter().map(|id| *id as i64));
                if parents.is_empty() {
                    levels.push(0);
                    repeats.push(0);
                }
            }
        }
    }
}

/// Writes a column of measurements. All of them are null in a row without a measurement.
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
        Column::TargetOffset => return present(&measured.target_offset_bytes, longs, levels),
        Column::Behind => {
            levels.extend(measured.behind.iter().map(|rows| i16::from(*rows > 0)));
            let waited = measured.behind.iter().filter(|rows| **rows > 0);
            return ints.extend(waited.map(|rows| *rows as i32));
        }
        Column::Flow => {
            levels.extend(measured.flow.iter().map(|flow| i16::from(*flow > 0)));
            let of_flows = measured.flow.iter().filter(|flow| **flow > 0);
            return ints.extend(of_flows.map(|flow| i32::from(*flow)));
        }
        _ => levels.extend(scheduled.iter().map(|value| i16::from(*value != UNKNOWN))),
    }
    let there = |row: &usize| scheduled[*row] != UNKNOWN;
    let there = (0..scheduled.len()).filter(there);
    match column {
        Column::InFlight => ints.extend(there.map(|row| measured.in_flight[row] as i32)),
        Column::Outcome => ints.extend(there.map(|row| measured.outcome[row])),
        Column::LateCause => ints.extend(there.map(|row| i32::from(measured.late_cause[row]))),
        Column::Target => ints.extend(there.map(|row| i32::from(measured.target[row]))),
        Column::Integrity => ints.extend(there.map(|row| i32::from(measured.integrity[row]))),
        _ => bools.extend(there.map(|row| measured.pushed_back[row])),
    }
}

/// Requests that a column of sizes with a sign has no place for.
pub(super) const BEYOND: &str = "requests that reach beyond 8 EiB";

/// The requests of a batch whose sizes fit; `None` where all of them do.
fn fitting(batch: &Batch) -> Option<Batch> {
    let fits = |offset: u64, length: u64| {
        offset.checked_add(length).is_some_and(|end| i64::try_from(end).is_ok())
    };
    let ranges = || batch.offset_bytes.iter().zip(&batch.length_bytes);
    if ranges().fold(true, |all, (offset, length)| all & fits(*offset, *length)) {
        return None;
    }
    let mut fitting = Batch::new(batch.columns());
    fitting.reset(batch.columns());
    let rows = ranges().enumerate().filter(|(_, (offset, length))| fits(**offset, **length));
    rows.for_each(|(row, _)| fitting.append(batch, row, row + 1));
    Some(fitting)
}

impl Sink for Writer {
    fn write(&mut self, batch: &Batch) -> Result<(), TraceError> {
        if let Some(fitting) = fitting(batch) {
            self.lost.add(NoteKind::LeftOut.of(BEYOND), (batch.len() - fitting.len()) as u64, None);
            return self.write(&fitting);
        }
        if let Some((&first, &last)) = batch.issue_ns.first().zip(batch.issue_ns.last()) {
            self.requests += batch.len() as u64;
            self.ordered &= first >= self.latest && batch.is_ordered();
            self.latest = last;
        }
        let mut from = 0;
        while from < batch.len() {
            let to = batch.len().min(from + GROUP_ROWS - self.rows.len());
            self.rows.append(batch, from, to);
            from = to;
            if self.rows.len() == GROUP_ROWS || self.rows.parents() >= GROUP_PARENTS {
                self.write_group()
                    .map_err(|error| TraceError::write(&self.path, into_io(error)))?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, header: &Header) -> Result<Written, TraceError> {
        let path = self.path.clone();
        let write_error = |error| TraceError::write(&path, error);
        self.write_group().map_err(into_io).map_err(write_error)?;
        let mut header = header.clone();
        header.columns = self.columns;
        let json = serde_json::to_string(&header).map_err(io::Error::from).map_err(write_error)?;
        let sums = serde_json::to_string(&self.sums);
        let sums = sums.map_err(io::Error::from).map_err(write_error)?;
        let mut add = |key: &str, value| {
            self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), Some(value)));
        };
        add(KEY_VERSION, VERSION.to_string());
        add(KEY_HEADER, json);
        add(KEY_CODES, codes());
        if self.ordered {
            add(KEY_ORDER, ORDER.to_owned());
        }
        add(KEY_CRC_GROUPS, sums);
        add(KEY_CRC_FOOTER, NO_DIGITS.to_owned());
        self.file.flush().map_err(write_error)?;
        self.file.inner_mut().begin_tail();
        let file = self.file.into_inner().map_err(into_io).map_err(write_error)?;
        file.finish().map_err(write_error)?;
        Ok(Written { requests: self.requests, lost: self.lost })
    }
}
