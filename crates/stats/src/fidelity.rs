//! How true a replay was: what was asked for, held against what the device saw.
//!
//! A tool's own figures cannot tell: they say when the tool meant to issue, and a tool that is late
//! takes the time late as well. So there are two streams of requests here. One is what was asked
//! for: a run's schedule, or the recording that was replayed. The other is what a recorder saw at
//! the device meanwhile. Each request of the one is looked for in the other, and the differences
//! are the figures.
//!
//! The definitions are those of `docs/check.md`. Memory is bounded: at most [`Settings::window`]
//! requests of each side are held at once, and at most [`sample::ROWS_MAX`] values of each figure,
//! beyond which every second, fourth … is kept for the percentiles. Below these bounds all figures
//! are exact.

mod blind;
mod compare;
mod drift;
mod event;
mod figures;
mod flight;
mod flushes;
mod limits;
mod matching;
mod nearest;
mod order;
mod pieces;
pub mod sample;
mod stalls;
mod tally;
mod unseen;

pub use blind::Blind;
pub use compare::{CROWDED_NS, Compared, Pair, compare};
pub use event::{Asked, Engine, Event, Recorded};
pub use figures::{
    Cause, ErrorFigures, Example, FidelityFigures, How, KindFigures, LateFigures, OrderFigures,
    SideFigures, Spread, StallFigures,
};
pub use limits::{
    Assessment, Broken, EXTRA_SHARE, Limit, Limits, Quantity, REORDERED_SHARE, Reason, assess,
};

/// How two sides are held against each other.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many requests of each side are held at once. A request is found if its counterpart lies
    /// within so many requests of its place.
    pub window: usize,
    /// Whether both sides count from the same instant. Otherwise the median of all differences is
    /// taken for the distance of the two clocks, and no figure can tell a constant delay.
    pub absolute: bool,
    /// A request that reached the device later than this is asked for its cause, in nanoseconds.
    pub late_ns: i64,
    /// Whether requests had instants at which they were due. Without, nothing is said of their
    /// instants and their order, for there is nothing to hold them against.
    pub has_schedule: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { window: 1 << 19, absolute: false, late_ns: 1_000_000, has_schedule: true }
    }
}

#[cfg(test)]
mod tests;
