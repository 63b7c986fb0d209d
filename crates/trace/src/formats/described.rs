//! Any text of lines, read as its user describes it.
//!
//! There are more tables of requests than formats with a name: an export of a monitoring system, a
//! script's output. Only their owner knows the meaning of the columns, in particular the units, and
//! a tool that guesses a unit wrongly makes another load. So the owner describes either the columns
//! of a delimited text (`--columns ts:us,vol,op,offset:sectors,length:bytes`) or a regular
//! expression with named groups (`--pattern '(?<ts_us>\d+) (?<op>\w) …'`). Errors in a description
//! are reported before the first line is read, with a mark under the place.
//!
//! The way through: `description` (the user's text) → `units`, `words` (of operations) →
//! `delimited` or `pattern` (the fields of a line) → `reader`.

pub mod delimited;
mod description;
mod error;
pub(crate) mod number;
mod pattern;
mod reader;
#[cfg(test)]
mod tests;
mod units;
mod words;

pub use self::delimited::Separator;
pub use self::description::Description;
pub use self::error::DescriptionError;
pub use self::words::Words;

use super::{Format, Opening, Several};
use crate::error::TraceError;
use crate::stream::Source;
use crate::wording::Wording;

/// Described text. It is not among the formats that are recognised: a description chooses it.
pub const FORMAT: Format = Format {
    name: "described",
    title: "text as columns or a pattern describe it",
    several: Several::ByTime,
    recognise: |_| false,
    open,
};

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let Some(description) = opening.options.described.clone() else {
        return Err(TraceError::Unusable {
            path: opening.path.to_owned(),
            reason: "nothing says what is in its lines".to_owned(),
            remedy: Wording::from("describe them: `")
                .set("columns", "'ts:us,op,offset:sectors,length:bytes'")
                .text("`"),
        });
    };
    reader::open(opening, description)
}
