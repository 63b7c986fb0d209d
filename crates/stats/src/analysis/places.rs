//! Where a load goes.

mod figures;

pub use figures::{Distance, Map, PlaceFigures, Region};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;

/// The places of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places {}

impl Places {
    /// The figures.
    pub fn figures(&self) -> PlaceFigures {
        PlaceFigures::default()
    }
}

impl Summary for Places {
    fn observe(&mut self, _request: &Request) {}

    fn merge(&mut self, _later: &Self) {}
}
