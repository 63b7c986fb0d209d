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
    let metadata = vec![
        KeyValue::new(KEY_VERSION.to_owned(), PART_VERSION.to_string()),
        KeyValue::new(KEY_HEADER.to_owned(), serde_json::to_string(header)?),
    ];
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

/// Reads a file that [`write()`] wrote. Returns `None` for any other file.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<(Analysis, Header)>> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let metadata = file.metadata();
    if !metadata.is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    // If the file is no Parquet, the reader of traces says so later.
    let Ok(file) = guarded(|| SerializedFileReader::new(file)) else { return Ok(None) };
    let pairs = file.metadata().file_metadata().key_value_metadata();
    let value_of = |key: &str| {
        let pair = pairs.into_iter().flatten().find(|pair| pair.key == key)?;
        pair.value.as_deref()
    };
    let Some(version) = value_of(KEY_VERSION) else { return Ok(None) };
    let name = path.display();
    if version != PART_VERSION.to_string() {
        let text = format!(
            "{name} holds an analysis of version '{version}', and this program reads version \
             {PART_VERSION}\n  = help: merge it with the ioecho that wrote it, or analyse the \
             trace again"
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    let damaged = || {
        let text = format!("{name} is damaged: its checksum is wrong\n  = help: get it again");
        Coded::error(exit::TRACE, text)
    };
    let header = value_of(KEY_HEADER).and_then(|json| serde_json::from_str(json).ok());
    let state = guarded(|| state_of(&file)).ok().flatten().ok_or_else(damaged)?;
    let analysis: Analysis = postcard::from_bytes(&state).map_err(|_| damaged())?;
    Ok(Some((analysis, header.ok_or_else(damaged)?)))
}

/// The error for a file that [`read`] does not understand.
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
