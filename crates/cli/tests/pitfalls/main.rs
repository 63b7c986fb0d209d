//! Every pitfall, provoked for real, and the same run done right.
//!
//! A check that was never seen to fire is a guess, and one that fires on a sound run is worse. So
//! each check of the verdict has two runs here: one made so that it must speak, and the same done
//! right, where it must not. What this machine cannot do is skipped with a word.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod host;
mod load;
mod oracle;
mod settling;
// What witnesses need of it is not used here.
#[allow(dead_code)]
mod fixture;
