//! The replay engine.
//!
//! A request that is issued late or out of order makes every later figure worthless, and faults of
//! a scheduler show once in a million requests. So the part that decides ([`schedule`]) is a pure
//! state machine that never reads a clock, sleeps or does I/O, and the part that acts ([`engine`])
//! sees the world only through two traits, [`Device`] and [`Clock`]. The same code runs on the
//! kernel and in simulation ([`sim`]), where thousands of seeds check its invariants.
//!
//! A request's way: [`plan`] → [`schedule`] (with [`conflict`] over [`interval`]) → [`engine`] →
//! [`device`] (written with [`pattern`]) → a [`Record`].
#![forbid(unsafe_code)]

pub mod across;
pub mod calibrate;
pub mod clock;
pub mod conflict;
pub mod device;
pub mod engine;
pub mod fill;
pub mod flow;
pub mod graph;
pub mod interval;
pub mod joint;
pub mod journal;
pub mod map;
pub mod pacing;
pub mod pattern;
pub mod plan;
pub mod schedule;
pub mod sim;
pub mod tree;
pub mod verify;

pub use clock::Clock;
pub use device::{Completion, Device, Io, Payload};
pub use plan::{Planned, Planner};
pub use schedule::{Record, Scheduler};
