//! The accesses of a sample of pages, as a file.
//!
//! Working sets, frequencies and intervals of any window follow from it by plain SQL. It is a file
//! beside the part, because it has other columns.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ioecho_stats::analysis::sketches::{Access, Drawn};
use ioecho_trace::compression::PartialFile;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::exit::{self, Coded};
use crate::outputs::Gate;

/// The share of all pages, in the footer.
pub(super) const KEY_SHARE: &str = "ioecho.sample.share";

/// The number of rows in a row group.
const GROUP_ROWS: usize = 1 << 18;

const SCHEMA: &str = "message sample {
    required binary trace (STRING);
    required int64 volume;
    required int64 time_ns;
    required int64 seq;
    required binary op (STRING);
    required int64 page;
}";

/// Writes a sample to `path`. The file appears only when it is complete.
pub(crate) fn write(gate: &Gate, path: &Path, trace: &str, drawn: &Drawn) -> anyhow::Result<()> {
    let file = gate.begin(path)?;
    let written = write_rows(file, trace, drawn).and_then(PartialFile::finish);
    written.map_err(|error| {
        Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", path.display()))
    })
}

fn write_rows(file: PartialFile, trace: &str, drawn: &Drawn) -> io::Result<PartialFile> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let share = KeyValue::new(KEY_SHARE.to_owned(), drawn.share().to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(vec![share]))
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let trace = ByteArray::from(trace);
    for accesses in drawn.accesses().chunks(GROUP_ROWS) {
        let op = |access: &Access| ByteArray::from(if access.is_write { "write" } else { "read" });
        let mut group = writer.next_row_group()?;
        texts(&mut group, &vec![trace.clone(); accesses.len()])?;
        numbers(&mut group, accesses, |access| u64::from(access.volume))?;
        numbers(&mut group, accesses, |access| access.time_ns as u64)?;
        numbers(&mut group, accesses, |access| access.number)?;
        texts(&mut group, &accesses.iter().map(op).collect::<Vec<_>>())?;
        numbers(&mut group, accesses, |access| access.page)?;
        group.close()?;
    }
    Ok(writer.into_inner()?)
}

type Group<'a> = SerializedRowGroupWriter<'a, PartialFile>;

fn texts(group: &mut Group<'_>, values: &[ByteArray]) -> io::Result<()> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}

fn numbers(
    group: &mut Group<'_>,
    accesses: &[Access],
    of: impl Fn(&Access) -> u64,
) -> io::Result<()> {
    if let Some(mut column) = group.next_column()? {
        // Instants are not negative, and the pages of 2^64 bytes are fewer than 2^63.
        let values: Vec<i64> = accesses.iter().map(|access| of(access) as i64).collect();
        column.typed::<Int64Type>().write_batch(&values, None, None)?;
        column.close()?;
    }
    Ok(())
}
