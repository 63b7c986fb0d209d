//! A recording, from its first event to the converted file.
//!
//! A user who records a load has only one chance. So everything is checked before the first event.
//! The raw recording is kept until its conversion has succeeded. And whatever ends the recording
//! early, the events until then are kept. [`Session`] is the running recording, with the events
//! that may end it ([`ends`]). [`line`](mod@line) shows it, and [`convert`] makes the file.

pub(crate) mod convert;
mod ends;
mod line;
mod session;

pub(crate) use session::{Outcome, Session};

use ioecho_linux::record::{Interface, RecordError};

use ioecho_run::error::RunError;

/// The error if a recording is impossible: the recorder's message, and the flag that follows its
/// advice. `by` makes the flag for an interface.
pub(crate) fn refused(error: &RecordError, by: fn(Interface) -> String) -> RunError {
    let typed = error.instead().map(|interface| format!(" ({})", by(interface)));
    RunError::new(error.into(), format!("{error}{}", typed.unwrap_or_default()))
}
