//! Errors of traces, with everything that a user needs to repair them: the file, the place in it,
//! the text found there, and the remedy.

use std::io;
use std::path::{Path, PathBuf};

use crate::compression::STANDARD_OUTPUT;

/// What messages call the standard output.
pub const THE_STANDARD_OUTPUT: &str = "the standard output";

/// An error in reading or writing a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing is in the file.
    #[error("{}: the file is empty\n  = help: a trace holds at least one request", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No known format begins like this file.
    #[error(
        "{}: no known trace format\n  = note: it begins with {begins}\n  = help: {remedy}",
        path.display()
    )]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// Its first bytes, readable.
        begins: String,
        /// What to try.
        remedy: String,
    },
    /// A line is not what the format says.
    #[error("{}:{line}:{column}: {reason}\n  | {text}\n  = help: {remedy}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column, counted from 1.
        column: usize,
        /// What is wrong.
        reason: String,
        /// The line's text.
        text: String,
        /// What to do.
        remedy: String,
    },
    /// A binary file is not what the format says.
    #[error("{}: at byte {offset}: {reason}\n  = help: {remedy}", path.display())]
    Binary {
        /// The file.
        path: PathBuf,
        /// Where in the file.
        offset: u64,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A row of a table is not what the format says.
    #[error("{}: row {row}: {reason}\n  = help: {remedy}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, counted from 0 as `DuckDB` and pandas do.
        row: u64,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// The file has a known format, but cannot be used as a trace.
    #[error("{}: {reason}\n  = help: {remedy}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A trace that is not written, because it would replace something else.
    #[error("{} {reason}\n  = help: {remedy}", path.display())]
    NoOutput {
        /// The file that was to be written.
        path: PathBuf,
        /// What would be lost, as a phrase that follows the file's name.
        reason: String,
        /// What to do.
        remedy: String,
    },
    /// A request of the user does not fit the trace.
    #[error("{}: {reason}\n  = help: {remedy}", path.display())]
    Asked {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
        /// What to ask for instead.
        remedy: String,
    },
    /// The user asked to stop before the end of the trace.
    #[error("stopped before the end; nothing was written")]
    Stopped,
    /// The name does not say which format to write.
    #[error(
        "{}: which format to write is not clear from the name\n  = help: {remedy}",
        path.display()
    )]
    UnknownOutput {
        /// The file.
        path: PathBuf,
        /// The names that are known.
        remedy: String,
    },
}

impl TraceError {
    /// The reading of `path` failed.
    pub fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// The writing of `path` failed.
    pub fn write(path: &Path, source: io::Error) -> Self {
        let is_standard = path == Path::new(STANDARD_OUTPUT);
        let path = if is_standard { Path::new(THE_STANDARD_OUTPUT) } else { path };
        Self::Write { path: path.to_owned(), source }
    }

    /// Whether the fault is with the file system rather than with the trace's content.
    pub fn is_io(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Write { .. })
    }
}
