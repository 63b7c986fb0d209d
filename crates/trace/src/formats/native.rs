//! ioecho's own format: a Parquet file with a fixed schema and a header.
//!
//! A trace is worth keeping only if others can read it without this program, and worth streaming
//! only if that is quick. Parquet is both: `DuckDB`, pandas, polars and Spark open it as it is, and
//! its columns decode at tens of millions of rows a second. The origin of the trace, and its losses
//! and guesses, are in the [header], as JSON in the footer of the file. `docs/formats.md` describes
//! the format for other programs.
//!
//! Rows come in groups of 262,144, so a writer holds one group and a reader a page of each column,
//! whatever the length of the trace.
//!
//! The way through: `schema` (the columns and the keys of the footer) → `writer`; and back:
//! `footer` (the claims of a file are checked) → `reader` → `columns` (one at a time) → `names` (of
//! codes) → `pages`. `checksums` stand between either and the file.
//!
//! [header]: crate::header::Header

mod checksums;
mod columns;
mod footer;
mod names;
mod pages;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod writer;

use std::io;

use parquet::errors::ParquetError;

pub use self::reader::{Claims, claims, open, open_part};
pub use self::writer::create;
use super::{Format, Several, Writable};

/// The version of the format that this program writes, and the newest that it reads. It grows when
/// a reader of the version before would misread a file; a further column alone is no such change.
pub const VERSION: u32 = 2;

/// ioecho's own format, as it is read.
pub const FORMAT: Format = Format {
    name: "native",
    title: "ioecho's own Parquet files",
    several: Several::Apart,
    recognise,
    open: |opening| {
        opening.demand_seekable()?;
        open(opening.path, opening.options)
    },
};

/// ioecho's own format, as it is written.
pub const WRITABLE: Writable = Writable {
    name: "native",
    title: "ioecho's own format",
    endings: &[".parquet"],
    packs: false,
    create,
};

/// Whether a file that begins with these bytes is a Parquet file.
pub fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.starts_with(b"PAR1")
}

/// Vectors that columns pass through, kept for their memory.
#[derive(Default)]
struct Scratch {
    longs: Vec<i64>,
    ints: Vec<i32>,
    bools: Vec<bool>,
    /// 1 where a row has a value, 0 where it is null (Parquet's definition levels).
    levels: Vec<i16>,
    /// 0 where a value begins a row, 1 where it belongs to the row before (repetition levels).
    repeats: Vec<i16>,
}

/// The file system's error inside an error of the library, or the library's error as it is.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
