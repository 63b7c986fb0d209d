//! The order in which a reader returns requests.
//!
//! Requests are due in the order of their issue. Most files are in that order, or nearly; then a
//! window of requests held back is enough, costs no time and returns the first request at once.
//! Files that cover the same time several times must be sorted as a whole.

pub mod sort;
pub mod spill;
pub mod whole;

use serde::{Deserialize, Serialize};

use self::sort::SortWindow;
use self::whole::WholeSort;
use crate::batch::Batch;
use crate::error::TraceError;
use crate::header::Notes;

/// The disorder that is allowed in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By 65,536 requests; a request that comes later is moved, which is noted.
    #[default]
    Window,
    /// By any number: the whole trace is sorted before the first request is given, through a
    /// temporary file if it has more than a million requests.
    Whole,
}

/// Puts requests into the order of their issue; readers embed it.
pub enum Sorter {
    /// Sorts within a window.
    Window(SortWindow),
    /// Sorts all requests.
    Whole(Box<WholeSort>),
}

impl Sorter {
    /// The sorter for `order`.
    pub fn new(order: Order) -> Self {
        match order {
            Order::Window => Self::Window(SortWindow::default()),
            Order::Whole => Self::Whole(Box::new(WholeSort::new(std::env::temp_dir()))),
        }
    }

    /// Takes the requests of `batch`, which is left empty.
    pub fn feed(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        match self {
            Self::Window(window) => {
                window.feed(batch);
                Ok(())
            }
            Self::Whole(whole) => whole.feed(batch),
        }
    }

    /// Gives the next requests in order, if they are known or `ended` says that nothing follows;
    /// answers whether there were any.
    pub fn give(&mut self, batch: &mut Batch, ended: bool) -> Result<bool, TraceError> {
        match self {
            Self::Window(window) => Ok(window.give(batch, ended)),
            Self::Whole(whole) => whole.give(batch, ended),
        }
    }

    /// Notes, once, how many requests were moved.
    pub fn note(&mut self, guesses: &mut Notes) {
        match self {
            Self::Window(window) => window.note(guesses),
            Self::Whole(whole) => whole.note(guesses),
        }
    }
}
