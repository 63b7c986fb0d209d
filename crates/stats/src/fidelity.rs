//! The fidelity of a replay: the requests asked for, compared with those that the device saw.
//!
//! A tool's own figures cannot show it: they say when the tool meant to issue, and a tool that runs
//! late also reads its clock late. So two streams of requests are compared: those asked for (a
//! run's schedule, or the recording that was replayed), and those that a recorder saw at the
//! device. Each request of the one is matched with one of the other, and the differences are the
//! figures.
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
pub(crate) use limits::APART_SHARE;
pub use limits::{Assessment, Broken, EXTRA_SHARE, Limit, Limits, Quantity, Reason, assess};

/// How two sides are compared.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many requests of each side are held at once. A request is found if its counterpart lies
    /// within so many requests of its place.
    pub window: usize,
    /// Whether both sides count from the same instant. Otherwise the median of all differences is
    /// taken as the distance of the two clocks, and a constant delay cannot be seen.
    pub absolute: bool,
    /// The cause is determined for requests that reached the device later than this, in
    /// nanoseconds.
    pub late_ns: i64,
    /// Whether requests had instants at which they were due. Without them there are no figures of
    /// instants and order, because there is nothing to compare with.
    pub has_schedule: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { window: 1 << 19, absolute: false, late_ns: 1_000_000, has_schedule: true }
    }
}

#[cfg(test)]
mod tests;
