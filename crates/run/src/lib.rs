//! A run: from a specification to a directory of results.
//!
//! A [`spec`] describes the replay. The [`plan`] resolves and checks it, with [`target`], and can
//! be printed before anything is touched ([`forecast`]). [`execute`](mod@execute) opens everything
//! and starts the threads: `feeder` reads and plans the trace and keeps requests for which a target
//! is not ready (`backlog`), a `lane` for each target issues them, `writer` stores the results,
//! `watch` samples the host, and an [`observer`] gets messages and meters; it may hold the run at
//! a [`gate`] until others are ready too. The threads' results (`ends`) and the journal become the
//! final files of the [`directory`] ([`finalise`]), whose `run.toml` is read by the types that
//! wrote it ([`facts`]). The threads exchange requests and results only through bounded rings.
//! Afterwards a run can be verified ([`verify`]), compared with its witness ([`witness`]) and
//! merged with others ([`merge`]).
//!
//! Nothing here prints, catches signals or changes the state of the process, so two runs can go on
//! in one process. Every error has a kind ([`error`](mod@error)).
#![forbid(unsafe_code)]

mod ahead;
mod backlog;
mod ends;
mod feeder;
pub mod journaled;
mod kept;
mod kept_links;
mod lane;
mod lane_feed;
mod lanes;
mod links;
mod load;
mod routes;
pub mod simulated;
mod start;
mod verification;
mod watch;
mod writer;

pub mod chains;
pub mod digest;
pub mod directory;
pub mod error;
pub mod everything;
pub mod execute;
pub mod extent;
pub mod facts;
mod files;
pub mod fill;
pub mod finalise;
pub mod flows;
pub mod forecast;
pub mod gate;
pub mod inputs;
pub mod merge;
pub mod named;
pub mod observer;
mod on_devices;
pub mod open;
pub mod page;
pub mod pass;
pub mod place;
pub mod plan;
pub mod predict;
mod recorded;
mod recorded_lane;
pub mod regular;
mod relived;
pub mod results;
pub mod spec;
pub mod stored;
pub mod target;
pub mod telemetry;
pub mod tree_target;
pub mod verify;
pub mod warmup;
pub mod witness;

pub use ends::facts_beforehand;
