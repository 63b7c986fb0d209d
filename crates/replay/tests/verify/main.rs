//! Verification against an independent model and against damage.
//!
//! A verifier that raises a false alarm is switched off, and one that misses something is worse
//! than none. So it is compared with a literal implementation of the definition, over a list of all
//! writes with their instants, and tested with every kind of damage, each of which must be named.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod damage;
mod histories;
mod lines;
mod memory;
mod model;
mod rebuilt;
mod trees;
mod trees_in_memory;
