//! `ioecho check`: against a slow computation of the same, and on replays that are not faithful.
//!
//! A check that was never seen to fail is a guess. So recordings are made here with what can go
//! wrong in them, counted by a script that reads the definitions aloud, and replays are spoilt on a
//! loop device: throttled, stopped, with requests left out. What this machine cannot do is skipped
//! with a word.

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
