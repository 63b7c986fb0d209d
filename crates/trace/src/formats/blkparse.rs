//! The output of `blkparse` for a recording, in its default format.
//!
//! People keep the text and not the recording, because text can be read without a tool. It has one
//! line per event of the recording. So only parsing the lines is done here;
//! [`blktrace`](super::blktrace) decides, for text and recording alike, which event is the instant
//! of issue and which completion belongs to which request.
//!
//! The text lacks bytes below a sector and the wall clock. Lines may have been filtered out, so
//! gaps in the sequence numbers do not count as lost events.
//!
//! Format: `blkparse_fmt.c` (`process_default`) of the blktrace tools; `docs/import.md`.
//!
//! The way through: `line` (an event of one line) → `blktrace::lines`; and back: `writer`.

mod letters;
mod line;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;

use self::line::{Blkparse, parse};
use self::writer::Writer;
use super::blktrace::lines::{Parsed, Parser};
use super::import::{self, Epoch, Facts, Look};
use super::write::{Writable, lines};
use super::{Format, Opening, Several};
use crate::batch::Columns;
use crate::error::TraceError;
use crate::header::Header;
use crate::stream::{Sink, Source};
use crate::wording::Wording;

/// The output of blkparse, as it is read.
pub const FORMAT: Format = Format {
    name: "blkparse",
    title: "what blkparse prints of a recording of blktrace",
    several: Several::Apart,
    recognise,
    open,
};

/// The output of blkparse, as it is written.
pub const WRITABLE: Writable = Writable {
    name: "blkparse",
    title: "what blkparse prints",
    endings: &[".blkparse"],
    packs: true,
    create,
};

/// The name of a process that blkparse does not know.
const UNKNOWN_PROCESS: &[u8] = b"(null)";

fn remedy() -> Wording {
    Wording::from(
        "print the recording with `blkparse -i NAME` in its default format; if it has no \
                   queued events, `",
    )
    .set("event", "D")
    .text("` or `")
    .set("event", "I")
    .text("` chooses others")
}

fn recognise(first_bytes: &[u8]) -> bool {
    import::looks_like(first_bytes, |line| match parse(line, false) {
        Ok(Parsed::Prose | Parsed::Skipped(_)) => Look::Other,
        Ok(_) => Look::Request,
        Err(_) => Look::Strange,
    })
}

fn open(opening: Opening<'_>) -> Result<Box<dyn Source>, TraceError> {
    let facts = Facts {
        format: "blkparse",
        columns: Columns { latency: true, origin: true, measured: false, dependencies: false },
        epoch: Epoch::Start,
        whole_seconds: false,
    };
    let parser = Parser::new(opening.options.event, Blkparse);
    import::lines(opening, parser, facts, remedy())
}

fn create(path: &Path, header: &Header) -> Result<Box<dyn Sink>, TraceError> {
    lines(path, header, Writer::default())
}
