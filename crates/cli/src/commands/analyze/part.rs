//! What a part of a trace has, as a file.
//!
//! The file is a Parquet table that any database reads ([`table`]). Its rows are those of
//! `ioecho_stats::analysis::rows`; beside them stand sketches of the sets of pages. Not every count
//! can be put together from rows, so the first row holds all counts once more in a form for this
//! program, unless only rows were asked for. `docs/analysis.md` describes the table.

pub(crate) mod drawn;
mod table;

use std::fs::File;
use std::io;
use std::path::Path;

use ioecho_stats::analysis::Analysis;
use ioecho_stats::analysis::sketches::{Distinct, Sketches};
use ioecho_trace::Header;
use ioecho_trace::compression::PartialFile;
use parquet::data_type::ByteArray;
use parquet::file::metadata::{ColumnChunkMetaData, KeyValue};
use parquet::file::reader::{FileReader, SerializedFileReader};

pub(crate) use self::table::{Stored, Table};
use self::table::{guarded, state_of};
use crate::args::PartialArg;
use crate::exit::{self, Coded};
use crate::outputs::{Gate, Writing};

/// The version of the table and of the contents of the first row. It changes whenever any summary
/// counts in another way.
const PART_VERSION: u32 = 4;

const KEY_VERSION: &str = "ioecho.partial";
const KEY_HEADER: &str = "ioecho.partial.header";
/// The instant of the first request, by which parts are put in order before any is read.
const KEY_FIRST: &str = "ioecho.partial.first_ns";
/// The trace of which this is a part; not there if there are several.
const KEY_TRACE: &str = "ioecho.partial.trace";
/// The checksum of the first row; not there in a part that has rows alone.
const KEY_STATE: &str = "ioecho.partial.state_crc32c";

/// What was counted of a trace.
pub(crate) struct Counted {
    /// The name of the trace.
    pub(crate) trace: String,
    pub(crate) analysis: Analysis,
    pub(crate) header: Header,
}

/// The footer of a table.
pub(crate) struct Footer<'a> {
    pub(crate) trace: Option<&'a str>,
    pub(crate) header: &'a Header,
    pub(crate) first_ns: Option<i64>,
}

impl Footer<'_> {
    fn pairs(&self, state: Option<&[u8]>) -> io::Result<Vec<KeyValue>> {
        let header = serde_json::to_string(self.header)?;
        let sum = state.map(|state| crc32c::crc32c(state).to_string());
        let pairs = [
            (KEY_VERSION, Some(PART_VERSION.to_string())),
            (KEY_HEADER, Some(header)),
            (KEY_FIRST, self.first_ns.map(|ns| ns.to_string())),
            (KEY_TRACE, self.trace.map(str::to_owned)),
            (KEY_STATE, sum),
        ];
        let there = pairs.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Ok(there.map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect())
    }
}

/// Writes what was counted to `path`. The file appears only when it is complete.
pub(crate) fn write(
    gate: &Gate,
    path: &Path,
    counted: &Counted,
    holds: PartialArg,
) -> anyhow::Result<()> {
    let Counted { trace, analysis, header } = counted;
    let footer = Footer { trace: Some(trace), header, first_ns: analysis.time().first_ns() };
    let state = match holds {
        PartialArg::All => Some(postcard::to_stdvec(analysis)?),
        PartialArg::Rows => None,
    };
    write_table(gate, path, &footer, state, |table| {
        if let Some(sketches) = analysis.space().sketches() {
            table.distinct(trace, sketches.distinct())?;
        }
        let mut failed = Ok(());
        analysis.rows(|row| {
            if failed.is_ok() {
                failed = table.row(trace, &row);
            }
        });
        failed
    })
}

/// Writes a table whose rows `fill` hands over.
pub(crate) fn write_table(
    gate: &Gate,
    path: &Path,
    footer: &Footer<'_>,
    state: Option<Vec<u8>>,
    fill: impl FnOnce(&mut Table) -> io::Result<()>,
) -> anyhow::Result<()> {
    gate.check(path, Writing::Replacing)?;
    let file = gate.begin(path)?;
    let written = || -> io::Result<()> {
        let mut table = Table::new(file, footer.pairs(state.as_deref())?)?;
        if let Some(state) = state {
            table.state(footer.trace.unwrap_or_default(), state)?;
        }
        fill(&mut table)?;
        PartialFile::finish(table.finish()?)
    };
    written().map_err(|error| {
        Coded::error(exit::OUTPUT, format!("cannot write {}: {error}", path.display()))
    })
}

/// A file that [`write()`] wrote, whose counts are not in memory yet.
pub(crate) struct Part<'a> {
    path: &'a Path,
    file: SerializedFileReader<File>,
}

impl Part<'_> {
    /// When the first request of the part was due; `None` if it has none.
    pub(crate) fn first_ns(&self) -> anyhow::Result<Option<i64>> {
        value_of(&self.file, KEY_FIRST).map(|ns| ns.parse().map_err(|_| self.damaged())).transpose()
    }

    /// The trace of which it is a part; `None` of several.
    pub(crate) fn trace(&self) -> Option<&str> {
        value_of(&self.file, KEY_TRACE)
    }

    /// Whether it has rows alone.
    pub(crate) fn is_rows(&self) -> bool {
        value_of(&self.file, KEY_STATE).is_none()
    }

    /// The header of the trace.
    pub(crate) fn header(&self) -> anyhow::Result<Header> {
        let header = value_of(&self.file, KEY_HEADER);
        header.and_then(|json| serde_json::from_str(json).ok()).ok_or_else(|| self.damaged())
    }

    /// The counts; refused where there are rows alone.
    pub(crate) fn read(self) -> anyhow::Result<Counted> {
        let Some(sum) = value_of(&self.file, KEY_STATE) else {
            let text = format!(
                "{} has rows alone, which databases and `ioecho merge` put together\n  = help: \
                 write what all figures need by `ioecho analyze --partial`",
                self.path.display()
            );
            return Err(Coded::error(exit::TRACE, text));
        };
        let state = guarded(|| state_of(&self.file)).ok().flatten();
        let is_right = |state: &&[u8]| sum == crc32c::crc32c(state).to_string();
        let state = state.as_ref().map(ByteArray::data).filter(is_right);
        let analysis: Option<Analysis> = state.and_then(|state| postcard::from_bytes(state).ok());
        let analysis = analysis.ok_or_else(|| self.damaged())?;
        let trace = self.trace().ok_or_else(|| self.damaged())?.to_owned();
        let header = self.header()?;
        let mut distinct = Distinct::default();
        self.each_of(Table::is_sketches, |stored| match stored {
            Stored::Pages { of, span, sketch, .. } => distinct.add(of, span, &sketch),
            Stored::Row { .. } => false,
        })?;
        let sketches = Sketches::new(&trace, None).with(distinct);
        Ok(Counted { analysis: analysis.with_sketches(sketches), trace, header })
    }

    /// Hands all rows to `take`, which says whether it knows what to do with them.
    pub(crate) fn each(&self, take: impl FnMut(Stored) -> bool) -> anyhow::Result<()> {
        self.each_of(|_| true, take)
    }

    fn each_of(
        &self,
        is_asked: impl Fn(&[ColumnChunkMetaData]) -> bool,
        mut take: impl FnMut(Stored) -> bool,
    ) -> anyhow::Result<()> {
        for group in 0..self.file.num_row_groups() {
            if !is_asked(self.file.metadata().row_group(group).columns()) {
                continue;
            }
            let rows = guarded(|| table::rows_of(&self.file, group)).map_err(|_| self.damaged())?;
            for stored in rows {
                if !stored.is_some_and(&mut take) {
                    return Err(self.damaged());
                }
            }
        }
        Ok(())
    }

    fn damaged(&self) -> anyhow::Error {
        let name = self.path.display();
        let text = format!("{name} is damaged: its checksum is wrong\n  = help: get it again");
        Coded::error(exit::TRACE, text)
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
    if value_of(&file, drawn::KEY_SHARE).is_some() {
        let text = format!(
            "{} is a sample of pages, not an analysis\n  = help: query it, alone or beside those \
             of other parts (docs/analysis.md)",
            path.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
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
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Counted>> {
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
