//! What everything here counts with.
//!
//! Neither the longest latency, nor the end of a trace, nor the size of a device is known before
//! they are seen, and memory has to be bounded all the same. Three kinds of bounded memory do for
//! all: bins that grow with the value ([`ioecho_trace::log_linear`], which readers and the engine
//! share), cells that become twice as wide whenever there are too many ([`grid`]), and keys of
//! which every other is dropped whenever there are too many (`sample`). Each obeys one law: parts
//! merge to the whole.

pub mod grid;
pub(crate) mod sample;
pub(crate) mod steps;
