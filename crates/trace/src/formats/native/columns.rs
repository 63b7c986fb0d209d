//! Reading columns in step, and checking what they hold.
//!
//! The library reads each column on its own and leaves out nulls. A batch needs the same rows of
//! every column, a value in each row, and only known codes.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;

use super::VERSION;
use super::schema::Column;
use crate::batch::{Batch, UNKNOWN};
use crate::request::Op;

/// Up to this value every whole number is exact as a floating point number.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The fault of a column.
pub(super) enum Fault {
    Library(ParquetError),
    /// A wrong value in this row, counted from the beginning of the batch, and the reason.
    Value(usize, String),
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Self::Library(error)
    }
}

pub(super) fn unknown(row: usize, column: &str, code: i32) -> Fault {
    Fault::Value(row, format!("{column} is {code}, which means nothing in version {VERSION}"))
}

/// Checks the codes of a column, all at a time as long as they are good.
pub(super) fn check(
    codes: &[i32],
    is_known: impl Fn(u32) -> bool,
    column: &str,
) -> Result<(), Fault> {
    if codes.iter().fold(true, |good, code| good & is_known(*code as u32)) {
        return Ok(());
    }
    match codes.iter().position(|code| !is_known(*code as u32)) {
        Some(row) => Err(unknown(row, column, codes[row])),
        None => Ok(()),
    }
}

/// Checks that rows are in order, where the file says so; `latest` is the instant before them.
pub(super) fn check_order(issue_ns: &[i64], latest: i64) -> Result<(), Fault> {
    if issue_ns.is_sorted() && issue_ns.first().is_none_or(|first| *first >= latest) {
        return Ok(());
    }
    let befores = std::iter::once(&latest).chain(issue_ns);
    let row = issue_ns.iter().zip(befores).position(|(issue, before)| issue < before);
    let reason = "issue_ns steps back, where the footer says that the rows are in order".to_owned();
    Err(Fault::Value(row.unwrap_or(0), reason))
}

/// Checks that no row lies before the start of the trace, from which instants are counted.
pub(super) fn check_start(issue_ns: &[i64]) -> Result<(), Fault> {
    if issue_ns.iter().fold(0, |signs, issue| signs | issue) >= 0 {
        return Ok(());
    }
    let row = issue_ns.iter().position(|issue| *issue < 0).unwrap_or(0);
    let reason = format!("issue_ns is {}, before the start of the trace", issue_ns[row]);
    Err(Fault::Value(row, reason))
}

/// Checks that no flush has a range.
pub(super) fn check_flushes(batch: &Batch) -> Result<(), Fault> {
    let rows = || batch.op.iter().zip(&batch.length_bytes);
    let ranged = |(op, length): (&Op, &u64)| *op == Op::Flush && *length != 0;
    if rows().fold(false, |bad, row| bad | ranged(row)) {
        let row = rows().position(ranged).unwrap_or(0);
        let length = batch.length_bytes[row];
        let reason = format!("a flush has length_bytes {length}, and it covers nothing");
        return Err(Fault::Value(row, reason));
    }
    Ok(())
}

/// Checks that no value is the one that stands for null in a batch.
pub(super) fn check_unknown(values: &[i64], levels: &[i16], column: Column) -> Result<(), Fault> {
    // A column that cannot be null has no levels.
    let is_there = |row: usize| levels.get(row).is_none_or(|level| *level != 0);
    let nulls = levels.iter().filter(|level| **level == 0).count();
    if values.iter().filter(|value| **value == UNKNOWN).count() == nulls {
        return Ok(());
    }
    let row = (0..values.len()).find(|row| values[*row] == UNKNOWN && is_there(*row));
    let reason = format!("{} is {UNKNOWN}, which means nothing", column.name());
    Err(Fault::Value(row.unwrap_or(0), reason))
}

/// Checks that no range ends beyond 64 bits.
pub(super) fn check_ranges(batch: &Batch) -> Result<(), Fault> {
    let ranges = || batch.offset_bytes.iter().zip(&batch.length_bytes);
    if ranges().fold(false, |bad, (offset, length)| bad | offset.overflowing_add(*length).1) {
        let row = ranges().position(|(offset, length)| offset.checked_add(*length).is_none());
        let reason = "offset_bytes + length_bytes does not fit 64 bits".to_owned();
        return Err(Fault::Value(row.unwrap_or(0), reason));
    }
    Ok(())
}

/// Checks that no position and no length is negative.
fn check_size(values: &[i64], column: Column, null: Option<i64>) -> Result<(), Fault> {
    let is_bad = |value: &i64| *value < 0 && Some(*value) != null;
    if !values.iter().fold(false, |bad, value| bad | is_bad(value)) {
        return Ok(());
    }
    let row = values.iter().position(is_bad).unwrap_or(0);
    Err(Fault::Value(row, format!("{} is {}, below zero", column.name(), values[row])))
}

/// The columns of a row group, of which `rows` rows are read at a time.
pub(super) struct GroupColumns<'a> {
    pub(super) readers: &'a mut [Option<ColumnReader>],
    pub(super) rows: usize,
    /// Whether sizes have no sign.
    pub(super) unsigned: bool,
    /// The level of a value in a list; where there is none, or the list is null, it is lower.
    pub(super) list_level: i16,
}

impl GroupColumns<'_> {
    pub(super) fn longs(
        &mut self,
        column: Column,
        values: &mut Vec<i64>,
        levels: &mut Vec<i16>,
        null: Option<i64>,
    ) -> Result<(), Fault> {
        match self.readers.get_mut(column as usize) {
            Some(Some(ColumnReader::Int64ColumnReader(reader))) => {
                read_column(reader, column, self.rows, values, levels, null)?;
            }
            Some(Some(other)) => cast_column(other, column, self.rows, values, levels, null)?,
            _ => return Err(missing(column)),
        }
        if column.is_size() && !self.unsigned {
            check_size(values, column, null)?;
        }
        if null == Some(UNKNOWN) { check_unknown(values, levels, column) } else { Ok(()) }
    }

    /// Lists of values, put one behind the other; `ends` gets the end of each row's list.
    pub(super) fn lists(
        &mut self,
        column: Column,
        values: &mut Vec<i64>,
        levels: &mut Vec<i16>,
        repeats: &mut Vec<i16>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Fault> {
        let Some(Some(ColumnReader::Int64ColumnReader(reader))) =
            self.readers.get_mut(column as usize)
        else {
            return Err(missing(column));
        };
        values.clear();
        levels.clear();
        repeats.clear();
        let (records, found, _) =
            reader.read_records(self.rows, Some(levels), Some(repeats), values)?;
        let mut end = 0;
        ends.clear();
        for (level, repeat) in levels.iter().zip(&*repeats) {
            if *repeat == 0 {
                ends.push(end);
            }
            end += usize::from(*level == self.list_level);
            if let Some(last) = ends.last_mut() {
                *last = end;
            }
        }
        if records != self.rows || ends.len() != self.rows || end != found {
            let name = column.name();
            let short = format!("column {name} has fewer rows than its row group");
            return Err(Fault::Library(ParquetError::General(short)));
        }
        Ok(())
    }

    pub(super) fn ints(
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
            Some(Some(other)) => cast_column(other, column, self.rows, values, levels, null),
            None | Some(None) if column.is_young() => {
                values.clear();
                values.resize(self.rows, null.unwrap_or_default());
                Ok(())
            }
            _ => Err(missing(column)),
        }
    }

    pub(super) fn bools(
        &mut self,
        values: &mut Vec<bool>,
        levels: &mut Vec<i16>,
    ) -> Result<(), Fault> {
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

/// Reads `rows` values of a column. Where the file has null, and may have it, `null` is put.
fn read_column<T: DataType<T: Copy>>(
    reader: &mut ColumnReaderImpl<T>,
    column: Column,
    rows: usize,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
    null: Option<T::T>,
) -> Result<(), Fault> {
    read_values(reader, column, rows, values, levels)?;
    spread(column, rows, values, levels, null)
}

/// Reads `rows` values of a column that has another type of numbers; each must be a whole number
/// that the column can hold.
fn cast_column<V: Copy + TryFrom<i64>>(
    reader: &mut ColumnReader,
    column: Column,
    rows: usize,
    values: &mut Vec<V>,
    levels: &mut Vec<i16>,
    null: Option<V>,
) -> Result<(), Fault> {
    let wide: Vec<i64> = match reader {
        ColumnReader::Int32ColumnReader(reader) => {
            let mut found = Vec::new();
            read_values(reader, column, rows, &mut found, levels)?;
            found.into_iter().map(i64::from).collect()
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let mut found = Vec::new();
            read_values(reader, column, rows, &mut found, levels)?;
            // A column of 32 bits without a sign is read as one with a sign.
            let folded =
                |wide: i64| u32::try_from(wide).map_or(wide, |bits| i64::from(bits as i32));
            found.into_iter().map(folded).collect()
        }
        ColumnReader::DoubleColumnReader(reader) => {
            let mut found = Vec::new();
            read_values(reader, column, rows, &mut found, levels)?;
            let is_exact = |value: &f64| value.fract() == 0.0 && value.abs() <= EXACT_MAX;
            if let Some(number) = found.iter().position(|value| !is_exact(value)) {
                let (name, value) = (column.name(), found[number]);
                let reason = format!("{name} is {value}, no exact whole number");
                return Err(Fault::Value(row_of(number, levels), reason));
            }
            found.into_iter().map(|value| value as i64).collect()
        }
        _ => return Err(missing(column)),
    };
    values.clear();
    for (number, wide) in wide.into_iter().enumerate() {
        let value = V::try_from(wide).map_err(|_| {
            let reason = format!("{} is {wide}, beyond what it can be", column.name());
            Fault::Value(row_of(number, levels), reason)
        })?;
        values.push(value);
    }
    spread(column, rows, values, levels, null)
}

/// The row of value number `number`; the values have no gaps for nulls.
fn row_of(number: usize, levels: &[i16]) -> usize {
    let mut present = levels.iter().enumerate().filter(|(_, level)| **level != 0);
    present.nth(number).map_or(number, |(row, _)| row)
}

/// Reads the values of the next `rows` rows of a column, without gaps for nulls.
fn read_values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    column: Column,
    rows: usize,
    values: &mut Vec<T::T>,
    levels: &mut Vec<i16>,
) -> Result<(), Fault> {
    values.clear();
    levels.clear();
    let (records, found, _) = reader.read_records(rows, Some(levels), None, values)?;
    if records != rows || values.len() != found {
        let name = column.name();
        let short = format!("column {name} has fewer rows than its row group");
        return Err(Fault::Library(ParquetError::General(short)));
    }
    Ok(())
}

/// Puts values without gaps to their rows, and `null` where the file has null.
fn spread<V: Copy>(
    column: Column,
    rows: usize,
    values: &mut Vec<V>,
    levels: &[i16],
    null: Option<V>,
) -> Result<(), Fault> {
    let found = values.len();
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
