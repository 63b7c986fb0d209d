//! The table of a part: its columns, and how they are written and read.
//!
//! The state of the program, sketches and rows are in row groups of their own, so that a query of
//! one of them reads no other.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ioecho_stats::analysis::row::{How, Row};
use ioecho_stats::analysis::sketches::Distinct;
use ioecho_trace::compression::PartialFile;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// The metric of the first row.
const STATE: &str = "state";

/// The metric of sketches of the sets of pages, and how they are put together.
const PAGES: &str = "pages";
const UNION: &str = "union";

/// The number of rows in a row group.
const GROUP_ROWS: usize = 1 << 18;

const SCHEMA: &str = "message partial {
    required binary trace (STRING);
    optional int64 volume;
    required binary metric (STRING);
    optional binary op (STRING);
    optional int64 time_ns;
    optional int64 width_ns;
    optional int64 key;
    optional int64 value;
    required binary how (STRING);
    optional binary sketch;
}";

/// Where `metric` and `sketch` stand.
const METRIC_COLUMN: usize = 2;
const SKETCH_COLUMN: usize = 9;

/// A column of the rows that are not written yet, each of which may lack it.
#[derive(Default)]
struct Column<T> {
    values: Vec<T>,
    levels: Vec<i16>,
}

impl<T> Column<T> {
    fn push(&mut self, value: Option<T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

/// The columns, those of text and those of numbers, in the order of the schema.
#[derive(Default)]
struct Columns {
    texts: [Column<ByteArray>; 5],
    numbers: [Column<i64>; 5],
}

/// A row of any kind.
#[derive(Default)]
struct Cells<'a> {
    trace: &'a str,
    volume: Option<u32>,
    metric: &'a str,
    op: Option<&'a str>,
    time_ns: Option<i64>,
    width_ns: Option<i64>,
    key: Option<i64>,
    value: Option<i64>,
    how: &'a str,
    sketch: Option<Vec<u8>>,
}

impl Columns {
    fn rows(&self) -> usize {
        self.texts[0].levels.len()
    }

    fn push(&mut self, cells: Cells<'_>) {
        let text = |text: &str| Some(ByteArray::from(text));
        let texts = [
            text(cells.trace),
            text(cells.metric),
            cells.op.and_then(text),
            text(cells.how),
            cells.sketch.map(ByteArray::from),
        ];
        let volume = cells.volume.map(i64::from);
        let numbers = [volume, cells.time_ns, cells.width_ns, cells.key, cells.value];
        self.texts.iter_mut().zip(texts).for_each(|(column, value)| column.push(value));
        self.numbers.iter_mut().zip(numbers).for_each(|(column, value)| column.push(value));
    }
}

/// A table that is being written.
pub(crate) struct Table {
    writer: SerializedFileWriter<PartialFile>,
    columns: Columns,
}

impl Table {
    pub(super) fn new(file: PartialFile, footer: Vec<KeyValue>) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_key_value_metadata(Some(footer))
            .build();
        let writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
        Ok(Self { writer, columns: Columns::default() })
    }

    /// Adds the state of the program.
    pub(super) fn state(&mut self, trace: &str, state: Vec<u8>) -> io::Result<()> {
        let cells = Cells { trace, metric: STATE, how: STATE, ..Cells::default() };
        self.columns.push(Cells { sketch: Some(state), ..cells });
        self.flush()
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, trace: &str, row: &Row) -> io::Result<()> {
        self.columns.push(Cells {
            trace,
            volume: row.volume,
            metric: &row.metric,
            op: row.op.as_deref(),
            time_ns: row.time_ns,
            width_ns: row.width_ns,
            key: row.key,
            value: Some(row.value),
            how: row.how.name(),
            sketch: None,
        });
        if self.columns.rows() < GROUP_ROWS { Ok(()) } else { self.flush() }
    }

    /// Adds the sketches of a trace's pages.
    pub(crate) fn distinct(&mut self, trace: &str, distinct: &Distinct) -> io::Result<()> {
        self.flush()?;
        for pages in distinct.pages() {
            self.columns.push(Cells {
                trace,
                volume: Some(pages.volume),
                metric: PAGES,
                op: Some(if pages.is_write { "write" } else { "read" }),
                time_ns: Some(pages.time_ns),
                width_ns: Some(pages.width_ns),
                how: UNION,
                sketch: Some(pages.sketch()),
                ..Cells::default()
            });
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let columns = std::mem::take(&mut self.columns);
        if columns.rows() == 0 {
            return Ok(());
        }
        let (mut texts, mut numbers) = (columns.texts.iter(), columns.numbers.iter());
        let mut group = self.writer.next_row_group()?;
        while let Some(mut column) = group.next_column()? {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => write(writer, numbers.next())?,
                ColumnWriter::ByteArrayColumnWriter(writer) => write(writer, texts.next())?,
                _ => return Err(io::Error::other("a column of another kind")),
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<PartialFile> {
        self.flush()?;
        Ok(self.writer.into_inner()?)
    }

    /// Whether a row group may hold sketches.
    pub(super) fn is_sketches(columns: &[ColumnChunkMetaData]) -> bool {
        let metrics = columns.get(METRIC_COLUMN).and_then(ColumnChunkMetaData::statistics);
        metrics.is_none_or(|metrics| metrics.min_bytes_opt() == Some(PAGES.as_bytes()))
    }
}

fn write<T: DataType>(
    writer: &mut ColumnWriterImpl<'_, T>,
    column: Option<&Column<T::T>>,
) -> io::Result<()> {
    if let Some(Column { values, levels }) = column {
        // A column that no row may lack has no levels.
        let is_optional = writer.get_descriptor().max_def_level() > 0;
        writer.write_batch(values, is_optional.then_some(&levels[..]), None)?;
    }
    Ok(())
}

/// A row as it was read.
pub(crate) enum Stored {
    /// Counts.
    Row { trace: String, row: Row },
    /// A sketch of the pages of a volume, written or read, in a span of time.
    Pages { trace: String, of: (u32, bool), span: (i64, i64), sketch: Vec<u8> },
}

/// The rows of a row group; `None` for one that makes no sense. The program's own row is left out.
pub(super) fn rows_of(
    file: &SerializedFileReader<File>,
    group: usize,
) -> Result<Vec<Option<Stored>>, ParquetError> {
    let group = file.get_row_group(group)?;
    let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for index in 0..group.num_columns() {
        match group.get_column_reader(index)? {
            ColumnReader::Int64ColumnReader(column) => {
                numbers.push(read(column, rows)?.into_iter());
            }
            ColumnReader::ByteArrayColumnReader(column) => {
                texts.push(read(column, rows)?.into_iter());
            }
            _ => return Err(ParquetError::General("a column of another kind".to_owned())),
        }
    }
    let mut all = Vec::with_capacity(rows);
    for _ in 0..rows {
        let texts: Vec<Option<ByteArray>> = texts.iter_mut().map(|c| c.next().flatten()).collect();
        let numbers: Vec<Option<i64>> = numbers.iter_mut().map(|c| c.next().flatten()).collect();
        let is_state = texts.get(1).and_then(Option::as_ref).is_some_and(|m| m.data() == b"state");
        if !is_state {
            all.push(stored(&texts, &numbers));
        }
    }
    Ok(all)
}

fn stored(texts: &[Option<ByteArray>], numbers: &[Option<i64>]) -> Option<Stored> {
    let text = |text: &ByteArray| Some(text.as_utf8().ok()?.to_owned());
    let [Some(trace), Some(metric), op, Some(how), sketch] = texts else { return None };
    let [volume, time_ns, width_ns, key, value] = *numbers else { return None };
    let (trace, metric, how) = (text(trace)?, text(metric)?, text(how)?);
    let volume = match volume {
        Some(volume) => Some(u32::try_from(volume).ok()?),
        None => None,
    };
    let op = op.as_ref().map(text);
    if how == UNION && metric == PAGES {
        let of = (volume?, op.flatten()? == "write");
        let span = (time_ns?, width_ns?);
        return Some(Stored::Pages { trace, of, span, sketch: sketch.as_ref()?.data().to_vec() });
    }
    let row = Row {
        metric: Cow::Owned(metric),
        volume,
        op: op.flatten().map(Cow::Owned),
        time_ns,
        width_ns,
        key,
        how: How::ALL.into_iter().find(|known| known.name() == how)?,
        value: value?,
    };
    Some(Stored::Row { trace, row })
}

/// The values of a column, with those that are missing.
fn read<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let mut done = 0;
    while done < rows {
        let (records, ..) =
            column.read_records(rows - done, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::General("a column breaks off".to_owned()));
        }
        done += records;
    }
    // One that no row may lack has none.
    if levels.is_empty() {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

/// The state of the program, the first row of the table.
pub(super) fn state_of(
    file: &SerializedFileReader<File>,
) -> Result<Option<ByteArray>, ParquetError> {
    let group = file.get_row_group(0)?;
    let ColumnReader::ByteArrayColumnReader(column) = group.get_column_reader(SKETCH_COLUMN)?
    else {
        return Ok(None);
    };
    Ok(read(column, 1)?.into_iter().next().flatten())
}

/// Runs code of the Parquet library, whose decoders panic on some damaged files.
pub(super) fn guarded<T>(
    decode: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".to_owned())))
}
