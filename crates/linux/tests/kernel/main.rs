//! Against the kernel itself: loop devices, file systems and files, torn down again whatever
//! happens. What this machine cannot do is skipped, and the reason is printed.

// Helpers of tests panic as tests do; clippy.toml allows it only in the tests themselves.
#![allow(clippy::unwrap_used)]

mod block_trace;
mod content;
mod data;
mod devices;
mod faults;
mod fixture;
mod flushes;
mod ground;
mod guard;
mod options;
mod record;
mod targets;
