//! `ioecho check`, compared with a slow computation, and on replays that are not faithful.
//!
//! Nobody knows whether a check works until it has failed. So these tests make recordings with
//! known faults, which a script counts by the definitions. And they disturb replays on a loop
//! device: throttled, stopped, with requests left out. Tests that this machine cannot run are
//! skipped with a message.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

#[path = "check/made.rs"]
mod made;
#[path = "check/spoilt.rs"]
mod spoilt;

use std::process::{Command, Output};

fn ioecho(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ioecho")).args(arguments).output().unwrap()
}
