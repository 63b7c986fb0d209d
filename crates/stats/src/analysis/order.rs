//! What the order of requests tells.

mod figures;

pub use figures::{OrderFigures, Seeks, Sequential, Streams, Turns};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;

/// The order of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Order {}

impl Order {
    /// The figures.
    pub fn figures(&self) -> OrderFigures {
        OrderFigures::default()
    }
}

impl Summary for Order {
    fn observe(&mut self, _request: &Request) {}

    fn merge(&mut self, _later: &Self) {}
}
