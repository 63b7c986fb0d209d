//! A CSV of our own, for programs that analyse tables.
//!
//! Parquet is the better table, but not every program reads it, and people cannot. So there is a
//! CSV with the same columns under the same names, units included, which `DuckDB`, pandas and a
//! spreadsheet take as it is. It is known by its header line and can be read again: all columns of
//! the requests are read back, the origin of the trace is not.
//!
//! The way through: `columns` (their names) → `reader`; and back: `writer`.

mod columns;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use super::import::{self, Epoch, Facts};
use super::{Format, Several, Writable};
use crate::wording::Wording;

/// The CSV, as it is read.
pub const FORMAT: Format = Format {
    name: "csv",
    title: "CSV with ioecho's columns",
    several: Several::ByTime,
    recognise,
    open: |opening| {
        let parser = reader::Parser::new(opening.stream.first_bytes());
        let facts = Facts {
            format: "ioecho CSV",
            columns: parser.columns(),
            epoch: Epoch::Start,
            whole_seconds: false,
        };
        let remedy = Wording::from(
            "such a file begins with a line that names the columns, at least \
             'issue_ns,op,offset_bytes,length_bytes'; `",
        )
        .setting("columns")
        .text("` describes other tables");
        import::lines(opening, parser, facts, remedy)
    },
};

/// The CSV, as it is written.
pub const WRITABLE: Writable = Writable {
    name: "csv",
    title: "CSV with a header line",
    endings: &[".csv"],
    packs: true,
    create: |path, header| super::write::lines(path, header, writer::Lines::default()),
};

fn recognise(first_bytes: &[u8]) -> bool {
    columns::Layout::of_first_bytes(first_bytes).is_some()
}
