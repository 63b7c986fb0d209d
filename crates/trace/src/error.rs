//! Errors of traces, with everything that a user needs to repair them: the file, the place in it,
//! the text found there, and the remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::compression::STANDARD_OUTPUT;
use crate::wording::{Named, Wording};

/// The name of the standard output in messages.
pub const THE_STANDARD_OUTPUT: &str = "the standard output";

/// An error in reading or writing a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    Read {
        /// The file that cannot be read.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file cannot be written.
    Write {
        /// The file that cannot be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is empty.
    Empty {
        /// The empty file.
        path: PathBuf,
    },
    /// No known format begins like this file.
    Unrecognised {
        /// The file of unknown format.
        path: PathBuf,
        /// The first bytes of the file, made readable.
        begins: String,
        /// The remedy to try, as a sentence.
        remedy: Wording,
    },
    /// A line is not what the format says.
    Line {
        /// The file with the line.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The column, counted from 1.
        column: usize,
        /// The fault of the line, as a clause.
        reason: String,
        /// The line's text.
        text: String,
        /// The remedy, as a sentence.
        remedy: Wording,
    },
    /// A binary file is not what the format says.
    Binary {
        /// The file with the fault.
        path: PathBuf,
        /// The place of the fault in bytes from the start of the file.
        offset: u64,
        /// The fault, as a clause.
        reason: String,
        /// The remedy, as a sentence.
        remedy: Wording,
    },
    /// A row of a table is not what the format says.
    Row {
        /// The file with the row.
        path: PathBuf,
        /// The row, counted from 0 as `DuckDB` and pandas do.
        row: u64,
        /// The fault of the row, as a clause.
        reason: String,
        /// The remedy, as a sentence.
        remedy: Wording,
    },
    /// The file has a known format, but cannot be used as a trace.
    Unusable {
        /// The file that cannot be used.
        path: PathBuf,
        /// The reason, as a clause that follows the file's name.
        reason: String,
        /// The remedy, as a sentence.
        remedy: Wording,
    },
    /// A trace that is not written, because it would replace something else.
    NoOutput {
        /// The file that was to be written.
        path: PathBuf,
        /// The reason, as a phrase that follows the file's name.
        reason: String,
        /// The remedy, as a sentence.
        remedy: Wording,
    },
    /// A request of the user does not fit the trace.
    Asked {
        /// The file with the trace.
        path: PathBuf,
        /// The part of the user's request that does not fit the trace.
        reason: Wording,
        /// An alternative that the user can ask for.
        remedy: Wording,
    },
    /// The user asked to stop before the end of the trace.
    Stopped,
    /// The name does not say which format to write.
    UnknownOutput {
        /// The file whose name tells no format.
        path: PathBuf,
        /// The names of formats that are known.
        remedy: Wording,
    },
}

impl TraceError {
    /// The error, with the settings and commands that it names written as `write` does.
    pub fn written(&self, write: &dyn Fn(&Named) -> String) -> String {
        let mut said = self.what(write);
        if let Some(remedy) = self.remedy() {
            said.push_str("\n  = help: ");
            said.push_str(&remedy.written(write));
        }
        said
    }

    /// The remedy for the error; `None` where the error itself says it.
    pub fn remedy(&self) -> Option<&Wording> {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Empty { .. } | Self::Stopped => None,
            Self::Unrecognised { remedy, .. }
            | Self::Line { remedy, .. }
            | Self::Binary { remedy, .. }
            | Self::Row { remedy, .. }
            | Self::Unusable { remedy, .. }
            | Self::NoOutput { remedy, .. }
            | Self::Asked { remedy, .. }
            | Self::UnknownOutput { remedy, .. } => Some(remedy),
        }
    }

    /// The fault and its place, without the remedy.
    fn what(&self, write: &dyn Fn(&Named) -> String) -> String {
        match self {
            Self::Read { path, source } => format!("cannot read {}: {source}", path.display()),
            Self::Write { path, source } => format!("cannot write {}: {source}", path.display()),
            Self::Empty { path } => format!(
                "{}: the file is empty\n  = help: a trace holds at least one request",
                path.display()
            ),
            Self::Unrecognised { path, begins, .. } => format!(
                "{}: no known trace format\n  = note: it begins with {begins}",
                path.display()
            ),
            Self::Line { path, line, column, reason, text, .. } => {
                format!("{}:{line}:{column}: {reason}\n  | {text}", path.display())
            }
            Self::Binary { path, offset, reason, .. } => {
                format!("{}: at byte {offset}: {reason}", path.display())
            }
            Self::Row { path, row, reason, .. } => {
                format!("{}: row {row}: {reason}", path.display())
            }
            Self::Unusable { path, reason, .. } => format!("{}: {reason}", path.display()),
            Self::Asked { path, reason, .. } => {
                format!("{}: {}", path.display(), reason.written(write))
            }
            Self::NoOutput { path, reason, .. } => format!("{} {reason}", path.display()),
            Self::Stopped => "stopped before the end; nothing was written".to_owned(),
            Self::UnknownOutput { path, .. } => {
                format!("{}: which format to write is not clear from the name", path.display())
            }
        }
    }

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

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(&Named::to_string))
    }
}
