//! The claims in the footer of a Parquet file, checked before they are believed.
//!
//! The library trusts the places and sizes in the footer, and any program may have written the
//! file: a missing, differently packed or misplaced column must be a clear error, not a panic or
//! wrong values.

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescriptor;

use super::schema::{COLUMNS, Column};
use crate::batch::Columns;

/// Checks the places of columns in the file, which the library does not check.
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

/// Checks that the columns are packed as this program can unpack them.
pub(super) fn check_codecs(
    metadata: &ParquetMetaData,
    indices: &[Option<usize>; COLUMNS],
) -> Result<(), String> {
    for group in metadata.row_groups() {
        for index in indices.iter().flatten() {
            let column = group.column(*index);
            let codec = column.compression();
            if !matches!(
                codec,
                Compression::UNCOMPRESSED
                    | Compression::ZSTD(_)
                    | Compression::SNAPPY
                    | Compression::GZIP(_)
            ) {
                let name = column.column_path().string();
                return Err(format!(
                    "column {name} is packed with {codec}, which is not read here"
                ));
            }
        }
    }
    Ok(())
}

/// Whether the values of `found` can be read as those of `column`. Other programs widen numbers,
/// turn nullable numbers into floating point, and write codes where a trace has names.
fn is_castable(found: &ColumnDescriptor, column: Column) -> bool {
    // Other times and decimal numbers count in other units than their numbers say.
    let in_its_unit = match found.logical_type_ref() {
        Some(LogicalType::Timestamp(time)) => time.unit == TimeUnit::NANOS,
        Some(LogicalType::Integer(_) | LogicalType::String | LogicalType::Enum) => true,
        Some(_) => false,
        None => !matches!(
            found.converted_type(),
            ConvertedType::DECIMAL
                | ConvertedType::DATE
                | ConvertedType::TIME_MILLIS
                | ConvertedType::TIME_MICROS
                | ConvertedType::TIMESTAMP_MILLIS
                | ConvertedType::TIMESTAMP_MICROS
        ),
    };
    let is_number = matches!(found.physical_type(), Type::INT32 | Type::INT64 | Type::DOUBLE);
    let is_kin = match column.physical_type() {
        Type::BOOLEAN => found.physical_type() == Type::BOOLEAN,
        Type::BYTE_ARRAY => is_number || found.physical_type() == Type::BYTE_ARRAY,
        _ => is_number,
    };
    in_its_unit && is_kin
}

/// Whether sizes were written as unsigned 64-bit numbers, as in version 1.
pub(super) fn is_unsigned(metadata: &ParquetMetaData, offset: Option<usize>) -> bool {
    let schema = metadata.file_metadata().schema_descr();
    offset.is_some_and(|index| schema.column(index).converted_type() == ConvertedType::UINT_64)
}

/// The place of each of our columns in the file, the optional columns of the trace, and the names
/// of columns that are not ours.
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
        if !is_castable(found, column) || repeated {
            let of = found.logical_type_ref().map_or(String::new(), |kind| format!(" ({kind:?})"));
            return Err(format!(
                "column {name} is of type {}{of}, where a trace has '{}'",
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
