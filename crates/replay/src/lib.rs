//! The replay engine.
//!
//! A request that is issued late or out of turn makes every figure behind it worthless, and what
//! goes wrong in a scheduler goes wrong once in a million times. So the part that decides
//! ([`schedule`]) is a pure state machine that never reads a clock, sleeps or does I/O, and the part
//! that acts ([`engine`]) sees the world only through two traits, [`Device`] and [`Clock`]. The same
//! code runs on the kernel and in simulation ([`sim`]), where thousands of seeds check its invariants.
#![forbid(unsafe_code)]

pub mod clock;
pub mod device;

pub use clock::Clock;
pub use device::{Completion, Device, Io, Payload};
