//! Checks of the load against the target, and of the run's length against the device's memory.

use crate::run_summary::{EngineFacts, RunFigures};
use crate::verdict::Check;

/// Every check of this file, in the order in which the verdict names them.
pub(in crate::judge) fn all(_figures: &RunFigures, _engine: &EngineFacts) -> Vec<Check> {
    Vec::new()
}
