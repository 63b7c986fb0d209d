//! blkreplay's text: loads (`*.load.gz`) and results of a replay (`*.replay.gz`).
//!
//! Both are lines of `start ; sector ; length ; op ; delay ; duration` among prose. Prose may stand
//! anywhere, the column header may come twice, the last two columns may be missing, and their
//! meaning depends on the column header. A result is in the order of completion. So every line is
//! judged on its own: a line that parses as a request is one, a line without a `;` is prose, and
//! any other is counted as lost, with its text.
//!
//! Format: blkreplay's `blkreplay.c` (`sscanf`/`printf` of the columns) and its manual; see
//! `docs/formats.md` for the parts that are read and written here.
//!
//! The way through: `line` (the columns of one line) → `state` (the facts from all lines) →
//! `reader`; and back: `writer`, and `result` for results.

mod line;
mod reader;
mod result;
mod state;
#[cfg(test)]
mod tests;
mod writer;

use self::line::parse;

use super::{Format, Several, Writable};

pub use self::reader::open;
pub use self::result::WRITABLE as RESULT_WRITABLE;
pub(crate) use self::writer::LoadLines;
pub use self::writer::create;

/// Loads and results of blkreplay, as they are read.
pub const FORMAT: Format = Format {
    name: "blkreplay",
    title: "loads and results of blkreplay",
    several: Several::InTurn,
    recognise,
    open: |opening| open(opening.stream, opening.path, opening.options),
};

/// Loads of blkreplay, as they are written.
pub const WRITABLE: Writable = Writable {
    name: "blkreplay",
    title: "blkreplay's load",
    endings: &[".load"],
    packs: true,
    create,
};

/// [`Header::format`](crate::header::Header::format) of a load.
pub const LOAD: &str = "blkreplay load";

/// [`Header::format`](crate::header::Header::format) of a result.
pub const RESULT: &str = "blkreplay replay result";

/// The sentence of the licence that blkreplay's loads are published under.
const LICENSE_MARK: &[u8] = b"Copying and distribution of this file";
const LICENSE: &str = "GNU all-permissive";
const LICENSE_TEXT: &str = "Copying and distribution of this file, with or without modification,
are permitted in any medium without royalty provided the copyright
notice and this notice are preserved.  This file is offered as-is,
without any warranty.
";

/// The sentence that says how a file was made; it becomes the description of the trace.
const DESCRIPTION_MARK: &[u8] = b"This file was automatically generated";

/// The prefix of a description that blkreplay did not write.
const DESCRIPTION: &str = "Description: ";

/// The prefix of terms of use other than those of blkreplay's loads.
const OTHER_LICENSE: &str = "License of the original: ";

/// The prefix of a transform.
const TRANSFORM: &str = "Transform: ";

/// Replaces ';' in a transform, because a line of prose has none.
const SEMICOLON: &str = "%3B";

/// Whether a file that begins with these bytes is blkreplay's: they hold a line that reads as a
/// request, or a column header.
pub fn recognise(first_bytes: &[u8]) -> bool {
    first_bytes.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        memchr::memchr(b';', line).is_some()
            && (parse(line).is_ok() || memchr::memmem::find(line, b"replay_").is_some())
    })
}
