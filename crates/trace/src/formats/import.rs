//! The common part of the readers of published formats.
//!
//! Twenty formats differ only in how a line or a record encodes a request. The other tasks of a
//! reader are the same: count and show junk, refuse requests that cannot be replayed, number the
//! devices, sort requests that are in the order of completion, make instants count from the trace's
//! start, and read a truncated file up to its end. They are done here, once. A format is then a
//! parser ([`Delimited`], [`LineParser`] or [`RecordParser`]) and a few [`Facts`].
//!
//! The way of a request: a parser → [`Intake`] (checked and counted) → the sort window →
//! whole seconds spread, if asked for → the trace's own start subtracted → a batch.

mod delimited;
mod fields;
mod intake;
mod lines;
mod numbered;
mod objects;
mod records;
mod seconds;
mod source;
#[cfg(test)]
mod tests;
mod told;

pub use self::delimited::{Delimited, looks_delimited};
pub use self::fields::{Blanks, Commas, Fields, is_header};
pub use self::intake::{Fault, Intake, JUNK};
pub use self::lines::{LineParser, Look, Said, lines, looks_like};
pub use self::numbered::{Numbered, OnVolume};
pub use self::objects::Slots;
pub use self::records::{RecordError, RecordParser, Records, records};
pub use self::seconds::WholeSeconds;
pub(super) use self::seconds::are_whole_seconds;
pub(super) use self::source::{Feed, Imported};
pub use self::told::Told;

use crate::batch::Columns;
use crate::header::{NoteKind, Topic};

/// The guess of a unit that neither the file nor the user says.
pub const AS_MILLISECONDS: Topic<'static> = NoteKind::Unit
    .of("instants taken as milliseconds, as is the custom (`time-unit` says otherwise)");

/// The zero from which a format counts its instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// From the start of the trace: kept as they are, but no request is issued before that.
    Start,
    /// From the start of the trace, or, if the first instant is beyond any trace's length, from
    /// 1970-01-01 UTC. The format does not say which, so the latter is noted as a guess.
    StartOrUnix,
    /// From 1970-01-01 UTC, in nanoseconds: the first request becomes the trace's start, and the
    /// header says when that was.
    Unix,
    /// From an unknown instant, such as the start of the host: the first request becomes the
    /// trace's start.
    Unknown,
}

/// The facts that a format's reader knows of a file before its first request.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// [`Header::format`](crate::Header::format).
    pub format: &'static str,
    /// The optional columns of the trace.
    pub columns: Columns,
    /// The zero from which instants count.
    pub epoch: Epoch,
    /// Whether instants are whole seconds, within which requests may be spread.
    pub whole_seconds: bool,
}
