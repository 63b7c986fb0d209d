//! What is read of the host and of the devices beside a run, for the verdict.
//!
//! Whoever issues requests must not stop to look around. So counters are read before the first
//! request and after the last ([`lane`]), and what only shows meanwhile a thread of its own looks
//! at once a second ([`host`]).

pub(crate) mod host;
pub(crate) mod lane;
