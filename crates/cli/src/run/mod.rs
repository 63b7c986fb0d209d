//! A run: from what was typed to a directory of results.
//!
//! [`plan`] resolves and checks what was typed, with [`target`] and [`routes`], and can be printed
//! before anything is touched ([`forecast`]). [`execute`] opens everything and starts the threads:
//! [`feeder`] reads and plans the trace and keeps what a target is not ready for ([`backlog`]), a
//! [`lane`] for each target issues, [`writer`] keeps the
//! results, [`progress`] and [`watch`] look on and [`live`] tells. What they leave ([`ends`]) and
//! the journal become the final files of the [`directory`] ([`settle`]). Between the threads are
//! bounded rings and nothing else.

pub(crate) mod ahead;
pub(crate) mod backlog;
pub(crate) mod command;
pub(crate) mod directory;
pub(crate) mod ends;
pub(crate) mod error;
pub(crate) mod everything;
pub(crate) mod execute;
pub(crate) mod facts;
pub(crate) mod feeder;
pub(crate) mod fetch;
pub(crate) mod fill;
pub(crate) mod forecast;
pub(crate) mod inside;
mod kept;
pub(crate) mod labelled;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod live;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod observer;
pub(crate) mod open;
pub(crate) mod page;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod recording;
pub(crate) mod routes;
pub(crate) mod screen;
pub(crate) mod settle;
pub(crate) mod signals;
pub(crate) mod spec;
pub(crate) mod stored;
pub(crate) mod target;
pub(crate) mod verification;
pub(crate) mod verify;
pub(crate) mod watch;
pub(crate) mod witness;
pub(crate) mod writer;
