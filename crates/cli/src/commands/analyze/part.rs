//! The counts of a part of a trace, as a file.
//!
//! The file is a Parquet table that any database reads. Its rows are those of
//! `ioecho_stats::analysis::rows` and add up. Not every count adds up, so the first row holds all
//! counts once more in a form for this program, with a checksum. `ioecho merge` reads that row
//! only. `docs/analysis.md` describes the table.

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use ioecho_stats::analysis::Analysis;
use ioecho_stats::analysis::rows::Row;
use ioecho_trace::Header;
use ioecho_trace::compression::PartialFile;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};

/// The version of the contents of the first row. It changes whenever any summary counts in another
/// way.
const PART_VERSION: u32 = 2;

const KEY_VERSION: &str = "ioecho.partial";
const KEY_HEADER: &str = "ioecho.partial.header";
/// The instant of the first request, by which parts are put in order before any is read.
const KEY_FIRST: &str = "ioecho.partial.first_ns";

/// The metric of the first row.
const STATE: &str = "state";

/// The number of rows in a row group.
const GROUP_ROWS: usize = 1 << 18;

const SCHEMA: &str = "message partial {
    required binary metric (STRING);
    optional int64 volume;
    required binary op (STRING);
    optional int64 time_ns;
    optional int64 key;
    required int64 value;
    optional binary bytes;
}";

/// The columns of the rows that are not written yet.
#[derive(Default)]
struct Rows {
    metric: Vec<ByteArray>,
    volume: Optional,
    op: Vec<ByteArray>,
    time: Optional,
    key: Optional,
    value: Vec<i64>,
    bytes: Option<ByteArray>,
}

/// A column whose value may be missing in a row.
#[derive(Default)]
struct Optional {
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl Optional {
    fn push(&mut self, value: Option<i64>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

impl Rows {
    fn push(&mut self, row: Row) {
        self.metric.push(ByteArray::from(row.metric));
        self.volume.push(row.volume.map(i64::from));
        self.op.push(ByteArray::from(row.op));
        self.time.push(row.time_ns);
        self.key.push(row.key.map(|key| i64::try_from(key).unwrap_or(i64::MAX)));
        self.value.push(i64::try_from(row.value).unwrap_or(i64::MAX));
    }

    fn write(
        self,
        group: &mut SerializedRowGroupWriter<'_, PartialFile>,
    ) -> Result<(), ParquetError> {
        let rows = self.value.len();
        let mut strings = [self.metric, self.op].into_iter();
        let mut optional = [self.volume, self.time, self.key].into_iter();
        let mut number = 0;
        while let Some(mut column) = group.next_column()? {
            match number {
                0 | 2 => {
                    let values = strings.next().unwrap_or_default();
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
                }
                1 | 3 | 4 => {
                    let Optional { values, levels } = optional.next().unwrap_or_default();
                    column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
                }
                5 => {
                    column.typed::<Int64Type>().write_batch(&self.value, None, None)?;
                }
                _ => {
                    let mut levels = vec![0; rows];
                    let bytes: Vec<ByteArray> = self.bytes.iter().cloned().collect();
                    levels[..bytes.len()].fill(1);
                    column.typed::<ByteArrayType>().write_batch(&bytes, Some(&levels), None)?;
                }
            }
            column.close()?;
            number += 1;
        }
        Ok(())
    }
}

/// Writes the counts to `path`. The file appears only when it is complete.
pub(crate) fn write(
    gate: &Gate,
    path: &Path,
    analysis: &Analysis,
    header: &Header,
) -> anyhow::Result<()> {
    let unwritable = |error: &dyn std::fmt::Display| {
        Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", path.display()))
    };
    gate.check(path, Writing::Replacing)?;
    let written = write_rows(gate.begin(path)?, analysis, header).and_then(PartialFile::finish);
    written.map_err(|error| unwritable(&error))
}

fn write_rows(file: PartialFile, analysis: &Analysis, header: &Header) -> io::Result<PartialFile> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let level = ZstdLevel::try_new(3)?;
    let mut metadata = vec![
        KeyValue::new(KEY_VERSION.to_owned(), PART_VERSION.to_string()),
        KeyValue::new(KEY_HEADER.to_owned(), serde_json::to_string(header)?),
    ];
    let first_ns = analysis.time().first_ns();
    metadata.extend(first_ns.map(|ns| KeyValue::new(KEY_FIRST.to_owned(), ns.to_string())));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_key_value_metadata(Some(metadata))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let state = postcard::to_stdvec(analysis).map_err(io::Error::other)?;
    let mut rows = Rows::default();
    let sum = u64::from(crc32c::crc32c(&state));
    rows.push(Row { metric: STATE, volume: None, op: "", time_ns: None, key: None, value: sum });
    rows.bytes = Some(ByteArray::from(state));
    let mut failed = Ok(());
    let mut flush = |rows: Rows| -> Result<(), ParquetError> {
        let mut group = writer.next_row_group()?;
        rows.write(&mut group)?;
        group.close()?;
        Ok(())
    };
    flush(std::mem::take(&mut rows))?;
    analysis.time().rows(|row| {
        rows.push(row);
        if rows.value.len() >= GROUP_ROWS && failed.is_ok() {
            failed = flush(std::mem::take(&mut rows));
        }
    });
    failed?;
    if !rows.value.is_empty() {
        flush(rows)?;
    }
    Ok(writer.into_inner()?)
}

/// A file that [`write()`] wrote, whose counts are not in memory yet.
pub(crate) struct Part<'a> {
    path: &'a Path,
    file: SerializedFileReader<File>,
}

impl Part<'_> {
    /// When the first request of the part was due; `None` if it has none.
    pub(crate) fn first_ns(self) -> anyhow::Result<Option<i64>> {
        match value_of(&self.file, KEY_FIRST).map(str::parse) {
            Some(Ok(first_ns)) => Ok(Some(first_ns)),
            // Parts without requests do not tell, nor do those of an earlier ioecho.
            _ => Ok(self.read()?.0.time().first_ns()),
        }
    }

    /// The counts, and the header of the trace.
    pub(crate) fn read(self) -> anyhow::Result<(Analysis, Header)> {
        let damaged = || {
            let name = self.path.display();
            let text = format!("{name} is damaged: its checksum is wrong\n  = help: get it again");
            Coded::error(exit::TRACE, text)
        };
        let header = value_of(&self.file, KEY_HEADER);
        let header = header.and_then(|json| serde_json::from_str(json).ok());
        let state = guarded(|| state_of(&self.file)).ok().flatten().ok_or_else(damaged)?;
        let analysis: Analysis = postcard::from_bytes(&state).map_err(|_| damaged())?;
        Ok((analysis, header.ok_or_else(damaged)?))
    }
}

/// The value of a key in the footer.
fn value_of<'a>(file: &'a SerializedFileReader<File>, key: &str) -> Option<&'a str> {
    let pairs = file.metadata().file_metadata().key_value_metadata();
    pairs?.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// Opens a file that [`write()`] wrote. Returns `None` for any other file.
pub(crate) fn open(path: &Path) -> anyhow::Result<Option<Part<'_>>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let metadata = file.metadata();
    if !metadata.is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    // If the file is no Parquet, the reader of traces says so later.
    let Ok(file) = guarded(|| SerializedFileReader::new(file)) else { return Ok(None) };
    let Some(version) = value_of(&file, KEY_VERSION) else { return Ok(None) };
    if version != PART_VERSION.to_string() {
        let name = path.display();
        let text = format!(
            "{name} holds an analysis of version '{version}', and this program reads version \
             {PART_VERSION}\n  = help: merge it with the ioecho that wrote it, or analyse the \
             trace again"
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    Ok(Some(Part { path, file }))
}

/// Reads a file that [`write()`] wrote. Returns `None` for any other file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<(Analysis, Header)>> {
    open(path)?.map(Part::read).transpose()
}

/// The error for a file that [`open`] does not understand.
pub(crate) fn is_none(path: &Path) -> anyhow::Error {
    let name = path.display();
    let text = format!(
        "{name} is no part of an analysis, is cut short, or is not there\n  = help: name files \
         that `ioecho analyze --partial -o` wrote"
    );
    Coded::error(exit::TRACE, text)
}

/// The bytes of the first row, if their checksum is right.
fn state_of(file: &SerializedFileReader<File>) -> Result<Option<Vec<u8>>, ParquetError> {
    let group = file.get_row_group(0)?;
    let mut sum = None;
    for index in 0..group.num_columns() {
        match group.get_column_reader(index)? {
            ColumnReader::Int64ColumnReader(mut column) if index == 5 => {
                let (mut values, mut levels) = (Vec::new(), Vec::new());
                column.read_records(1, Some(&mut levels), None, &mut values)?;
                sum = values.first().copied();
            }
            ColumnReader::ByteArrayColumnReader(mut column) if index == 6 => {
                let (mut values, mut levels) = (Vec::new(), Vec::new());
                column.read_records(1, Some(&mut levels), None, &mut values)?;
                let bytes = values.first().map(|bytes: &ByteArray| bytes.data().to_vec());
                let is_right = |bytes: &Vec<u8>| sum == Some(i64::from(crc32c::crc32c(bytes)));
                return Ok(bytes.filter(is_right));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Runs code of the Parquet library, whose decoders panic on some damaged files.
fn guarded<T>(decode: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|_| Err(ParquetError::General("it cannot be decoded".to_owned())))
}
