//! What the footer of a Parquet file claims, checked before it is believed.
//!
//! The library trusts the places and sizes in the footer, and any program may have written the
//! file: a missing, differently packed or misplaced column must be a clear error, not a panic or
//! wrong values.

use parquet::basic::{Compression, Repetition};
use parquet::file::metadata::ParquetMetaData;

use super::schema::{COLUMNS, Column};
use crate::batch::Columns;

/// Checks what the library takes for granted of the places it is told to read at.
pub(super) fn check_places(metadata: &ParquetMetaData, length: u64) -> Result<(), String> {
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
pub(super) fn check_codecs(
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
pub(super) type Layout = ([Option<usize>; COLUMNS], Columns, Vec<String>);

pub(super) fn layout(metadata: &ParquetMetaData) -> Result<Layout, String> {
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
        dependencies: has(Column::Parents),
    };
    for column in Column::ALL {
        if column.is_in(columns) && !has(column) && !column.is_young() {
            let name = column.name();
            return Err(format!("it is a Parquet file, but no trace: it has no column {name}"));
        }
    }
    Ok((indices, columns, others))
}
