//! The CSV of hfplayer, a replayer that published its traces and its tools in this form.
//!
//! A header line begins with `#` and names the columns, each with its type (`LBA.I`); two layouts
//! are published, so columns are found by name. A request is one line, or, in captures of the
//! storage controller, two: `RD_IN` at its arrival and `RD_OUT` at its completion. Only `SEQID`
//! joins them, because the line of the completion has no offset and no device. A latency of zero is
//! one that was not measured.
//!
//! Format: the paper and the program of Haghdoost et al., <https://github.com/umn-cris/hfplayer>
//! (`c/parser`, `tools/raw_trace_parser`); see `docs/import.md`.
//!
//! An annotated trace, as `depAnalyser` writes it, has a line for each request. `DEP_PARENT_LIST`
//! has the `DUMP_OFFSET` of the requests that it waits for, joined by `-`.
//!
//! The way through: `layout` (the header line) → `reader` with `parents` and `pairs` (arrivals that
//! wait for their completion); and back: `writer`.

mod layout;
mod numbers;
mod pairs;
mod parents;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use super::import::{self, Epoch, Facts};
use super::{Format, Several, Writable};
use crate::batch::Columns;

/// hfplayer's traces, as they are read.
pub const FORMAT: Format = Format {
    name: "hfplayer",
    title: "hfplayer's CSV",
    several: Several::Apart,
    recognise,
    open: |opening| {
        let facts = Facts {
            format: "hfplayer CSV",
            columns: Columns { latency: true, ..Columns::default() },
            epoch: Epoch::Start,
            whole_seconds: false,
        };
        let remedy = "such a file begins with a line like '#DUMP_OFFSET.I,ELAPSED_USECS.D,CMD.S,\
                      LUN_SSID.I,OP.I,LBA.I,NBLKS.I,LATENCY_USECS.D'";
        let parser = reader::Parser::new(opening.options.reads_dependencies());
        import::lines(opening, parser, facts, remedy)
    },
};

/// hfplayer's traces, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "hfplayer",
    title: "hfplayer's CSV",
    endings: &[".hfplayer.csv"],
    packs: true,
    create: |path, header| super::write::lines(path, header, writer::Lines::default()),
};

/// Whether one of the lines that `first_bytes` begin with is hfplayer's header.
fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes
        .split(|byte| *byte == b'\n')
        .take(50)
        .any(|line| layout::Layout::of_header(line.trim_ascii()).is_some())
}
