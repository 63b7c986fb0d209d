//! A run: from what was typed to a directory of results.
//!
//! [`plan`] resolves and checks, and can be printed before anything is touched. Then three threads
//! work: [`feeder`] reads and plans the trace, the engine (on the calling thread) issues, and
//! [`writer`] keeps the results; [`progress`] watches. [`settle`] turns the journal into the final
//! files of the [`directory`]. Between the threads are bounded rings and nothing else.

pub(crate) mod directory;
pub(crate) mod execute;
pub(crate) mod feeder;
pub(crate) mod open;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod settle;
pub(crate) mod writer;
