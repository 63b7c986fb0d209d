//! A run: from what is asked for to a directory of results.
//!
//! [`spec`] is what is asked for. [`plan`] resolves and checks it, with [`target`], and can be
//! printed before anything is touched ([`forecast`]). [`execute`](mod@execute) opens everything and
//! starts the threads: `feeder` reads and plans the trace and keeps what a target is not ready for
//! (`backlog`), a `lane` for each target issues, `writer` keeps the results, `watch` looks on and
//! an [`observer`] tells. What they leave (`ends`) and the journal become the final files of the
//! [`directory`] ([`finalise`]), whose `run.toml` is read by the types that wrote it ([`facts`]).
//! Between the threads are bounded rings and nothing else. Afterwards a run can be verified
//! ([`verify`]), held against its witness ([`witness`]) and merged with others ([`merge`]).
//!
//! Nothing here prints, catches signals or keeps anything for the whole process: two runs can go on
//! in one. What goes wrong has a kind ([`error`](mod@error)).
#![forbid(unsafe_code)]

mod ahead;
mod backlog;
mod ends;
mod feeder;
mod kept;
mod lane;
mod lanes;
mod load;
mod routes;
mod verification;
mod watch;
mod writer;

pub mod digest;
pub mod directory;
pub mod error;
pub mod everything;
pub mod execute;
pub mod facts;
pub mod fill;
pub mod finalise;
pub mod forecast;
pub mod inputs;
pub mod merge;
pub mod named;
pub mod observer;
pub mod open;
pub mod page;
pub mod pass;
pub mod place;
pub mod plan;
pub mod regular;
pub mod spec;
pub mod stored;
pub mod target;
pub mod telemetry;
pub mod verify;
pub mod witness;

pub use ends::facts_beforehand;
