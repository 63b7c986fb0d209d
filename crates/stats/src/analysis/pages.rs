//! Which pages a load uses, when and how often.

mod figures;

pub use figures::{Apart, Frequency, FrequencyQuantile, Intervals, PageFigures, WorkingSet};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;

/// The pages of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pages {}

impl Pages {
    /// The figures.
    pub fn figures(&self) -> PageFigures {
        PageFigures::default()
    }
}

impl Summary for Pages {
    fn observe(&mut self, _request: &Request) {}

    fn merge(&mut self, _later: &Self) {}
}
