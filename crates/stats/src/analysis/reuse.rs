//! What caches would do with a load.

mod figures;

pub use figures::{CacheLoad, ReuseFigures};

use ioecho_trace::Request;
use serde::{Deserialize, Serialize};

use super::Summary;

/// When pages are used again.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reuse {}

impl Reuse {
    /// The figures.
    pub fn figures(&self) -> ReuseFigures {
        ReuseFigures::default()
    }
}

impl Summary for Reuse {
    fn observe(&mut self, _request: &Request) {}

    fn merge(&mut self, _later: &Self) {}
}
