//! A run that is watched by itself and by the kernel.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod device;
mod expert;
mod flushes;
mod proof;
mod signals;
mod spoilt;
mod told;
mod watching;

#[path = "../pitfalls/fixture.rs"]
#[allow(dead_code)]
mod fixture;
