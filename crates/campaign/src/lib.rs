//! Campaigns: many runs that are planned in one file, and one answer at the end.
//!
//! Nobody decides from one run. A campaign is a file of axes, rules and expectations. This crate
//! makes a plan of it, decides what runs next, and draws the conclusion. It opens no file, starts
//! no process and reads no clock: its user does, and tells it what came of it.
//!
//! The way through: [`file`](mod@file) (text → typed, each value with its place) → [`plan`] (the
//! cells, each with its settings and its [`key`]) → [`executor`] (what came of the cells → what is
//! to be done next; [`search`] decides which value is tried) → [`conclusion`]. [`journal`] and
//! [`attempt`] are what is stored.
//!
//! [`modules`] set devices up before a run. They see a machine through the trait
//! [`Ground`](ground::Ground) alone, and change it through the [`ledger`], which can take back
//! everything.
//!
//! A campaign may span hosts: [`protocol`] is what it says to its agents there, [`conversation`]
//! how all begin together or none, [`across`] the order in which a stack that goes across hosts is
//! set up and taken down, and [`clock`] how the clocks of hosts are compared.
#![forbid(unsafe_code)]

pub mod across;
pub mod attempt;
pub mod clock;
pub mod conclusion;
pub mod conversation;
pub mod course;
pub mod executor;
pub mod expression;
pub mod file;
pub mod ground;
pub mod import;
pub mod journal;
pub mod key;
pub mod ledger;
pub mod modules;
pub mod name;
pub mod plan;
mod program;
pub mod protocol;
pub mod rate;
pub mod rows;
pub mod search;
pub mod setup;
pub mod share;
pub mod stack;
pub mod template;
pub mod value;
pub mod workload;

pub use ioecho_trace::place;
