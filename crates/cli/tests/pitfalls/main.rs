//! Every pitfall, really provoked, and the same run without it.
//!
//! Nobody knows whether a check works until it has failed, and a check that fails on a sound run is
//! worse. So each check of the verdict has two runs here: in one it must fail, and in the other it
//! must not. Tests that this machine cannot run are skipped with a message.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod host;
mod load;
mod oracle;
mod settling;
// The parts for witnesses are not used here.
#[allow(dead_code)]
mod fixture;
