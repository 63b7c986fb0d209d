//! The counting tools of this crate.
//!
//! The longest latency, the end of a trace and the size of a device are not known beforehand, and
//! yet memory must be bounded. Three tools suffice for everything: bins that grow with the value
//! ([`ioecho_trace::log_linear`], which readers and the engine share), cells that become twice as
//! wide whenever there are too many ([`grid`]), and keys of which every other is dropped whenever
//! there are too many (`sample`). Each obeys one law: parts merge to the whole.

pub mod grid;
pub(crate) mod sample;
pub(crate) mod steps;
