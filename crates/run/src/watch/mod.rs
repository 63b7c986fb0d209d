//! Reads the counters of the host and of the devices during a run, for the verdict.
//!
//! A thread that issues requests must not stop to read counters. So they are read before the first
//! request and after the last ([`lane`]), and a separate thread samples once a second the facts
//! that only show during the run ([`host`]).

pub(crate) mod host;
pub(crate) mod lane;
