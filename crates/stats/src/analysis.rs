//! Figures of a load and of its results, in one pass.
//!
//! Traces are too long to be read once for every picture, so all figures come from one reading.
//! Each question has its own small summary here, fed request by request in bounded memory.
//!
//! A summary obeys two laws, which are tested as properties of each:
//! * **cut in time**: of a trace cut anywhere, `summary(a).merge(&summary(b))` is the summary of
//!   `a` followed by `b`, and it does not matter how three parts are grouped;
//! * **cut by volume**: of a trace whose volumes went to different parts, it is the summary of the
//!   whole, in whatever order the parts are merged.
//!
//! The figures of a summary are made of a few plain [`shape`]s, so that drawing and storing need to
//! know only those.

pub mod all;
pub mod arrivals;
mod bins;
pub mod breakdown;
pub mod correlation;
mod event;
pub mod flight;
mod folding;
pub mod kind;
#[cfg(test)]
mod laws;
pub mod operations;
pub mod order;
pub mod pages;
mod place;
pub mod places;
pub mod reuse;
pub mod row;
pub mod rows;
pub mod seconds;
pub mod shape;
pub mod sizes;
pub mod sketches;
pub mod slowest;
pub mod spans;
pub mod steadiness;
mod steps;
pub mod subset;
mod sweep;

pub use all::{Analysis, AnalysisFigures, Asked, Settings};
pub use event::Group;

use ioecho_trace::Request;

/// One question asked of a load, answered by one pass over its requests.
pub trait Summary: Clone {
    /// Adds a request. Requests of one volume come in the order of their issue.
    fn observe(&mut self, request: &Request);

    /// Adds what a later part of the same trace, or a part with other volumes, found.
    fn merge(&mut self, later: &Self);
}

#[cfg(test)]
mod tests;
