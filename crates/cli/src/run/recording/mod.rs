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
