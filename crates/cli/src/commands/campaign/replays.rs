//! The replays of a cell, one after the other, wherever they run.

use ioecho_campaign::attempt::{Attempt, End};
use ioecho_campaign::course;
use ioecho_campaign::plan::Cell;

use super::child::Came;

/// A replay of a cell.
pub(super) struct Replay<'a> {
    /// Which of the cell's replays it is.
    pub(super) part: usize,
    /// The name of its run.
    pub(super) name: &'a str,
}

/// Does the replays of a cell until it has its result, or one of them has none.
pub(super) fn replays(
    cell: &Cell,
    stored: &mut Attempt,
    mut replay: impl FnMut(&Replay<'_>) -> anyhow::Result<Came>,
) -> anyhow::Result<End> {
    let mut results = Vec::new();
    loop {
        let (part, round) = match course::next(cell, &results) {
            course::Next::Run(part, round) => (part, round),
            course::Next::Over(measured) => return Ok(End::Measured(*measured)),
        };
        let name = course::directory(cell, part, round);
        let came = replay(&Replay { part, name: &name })?;
        stored.seconds += came.seconds;
        if cell.parts.is_empty() {
            stored.summary_sha256 = came.summary_sha256;
        } else if let Some(digits) = came.summary_sha256 {
            stored.summaries_sha256.insert(name, digits);
        }
        match came.end {
            End::Measured(measured) => results.push(measured),
            other => return Ok(other),
        }
    }
}
