//! System calls on files, as a recorder saw them, and the requests that they are.
//!
//! A recording names a file by a number that a process got for it, relative to a directory that it
//! went to before, in a table that it inherited. What a call means follows from all calls before
//! it. So this module keeps what the kernel keeps, as far as calls tell of it: tasks with their
//! tables and directories (`tasks`), the tree of names (`namespace`), and what each request
//! names (`places`). Readers of single formats make [`Event`]s of what they read, in the order in
//! which calls returned; [`model`] makes requests of these.

pub mod call;
pub mod errors;
mod links;
#[cfg(test)]
mod meaning_tests;
pub mod model;
mod namespace;
#[cfg(test)]
mod overlap_tests;
mod places;
pub mod read;
mod tasks;
#[cfg(test)]
mod tests;

pub use call::{At, Call, Event, Whence};
pub use model::{Model, Row, USUAL_MASK};
