//! How large the requests of a load are.

mod figures;

pub use figures::{Alignment, OpSizes, SizeCount, SizeFigures};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;

/// The sizes of a load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sizes {}

impl Sizes {
    /// The figures.
    pub fn figures(&self) -> SizeFigures {
        SizeFigures::default()
    }
}

impl Summary for Sizes {
    fn observe(&mut self, _request: &Request) {}

    fn merge(&mut self, _later: &Self) {}
}
