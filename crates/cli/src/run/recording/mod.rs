//! A recording, from its first event to the file that is wanted.
//!
//! Whoever records a load has one chance. So everything that can be refused is refused before the
//! first event, what is recorded is kept until its conversion has succeeded, and whatever ends the
//! recording early leaves what there was until then. [`Session`] is the recording that goes on,
//! with what may end it ([`ends`]); [`line`](mod@line) shows it, [`convert`] makes the file.

pub(crate) mod convert;
mod ends;
mod line;
mod session;

pub(crate) use session::{Outcome, Session};

use ioecho_linux::record::{Interface, RecordError};

use crate::run::error::RunError;

/// A recording that cannot be: what the recorder says of it, and behind its advice what is typed to
/// follow it. `by` is typed for an interface.
pub(crate) fn refused(error: &RecordError, by: fn(Interface) -> String) -> RunError {
    let typed = error.instead().map(|interface| format!(" ({})", by(interface)));
    RunError::new(error.into(), format!("{error}{}", typed.unwrap_or_default()))
}
