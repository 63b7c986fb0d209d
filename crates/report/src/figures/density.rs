//! Rasters in figures: their cells joined to what a figure can show, drawn as runs of lines.

use std::collections::BTreeMap;

use ioecho_stats::raster::{LOWEST_NS, ROWS, ROWS_PER_DECADE, Raster, edge};

use super::Sheet;
use crate::scale;
use crate::svg::{Paint, Plot};

/// Columns that a raster is drawn in at most.
const COLUMNS: usize = 450;
/// Rows of a raster that are drawn as one.
const JOINED_ROWS: usize = 2;
/// Steps of opacity from a single request to the densest cell.
const LEVELS: usize = 5;

/// Counts by (row, column) of a figure.
pub(super) type Cells = BTreeMap<(usize, usize), u64>;

impl Sheet<'_> {
    /// How many columns a raster is drawn in, and how many buckets the axis of time is long: it
    /// ends with the run, within the last bucket.
    fn columns(&self) -> (usize, f64) {
        let ends = self.end() as f64 / self.panels.width_ns as f64;
        ((ends.ceil() as usize).clamp(1, COLUMNS), ends)
    }

    /// A raster in the cells that it is drawn in, by (row, column) from row `low` on.
    pub(super) fn cells(&self, raster: &Raster, low: usize) -> Cells {
        let (columns, ends) = self.columns();
        let mut cells = BTreeMap::new();
        for (bucket, row, count) in raster.filled() {
            let column = ((bucket as f64 + 0.5) / ends * columns as f64) as usize;
            let cell = ((row - low) / JOINED_ROWS, column.min(columns - 1));
            *cells.entry(cell).or_default() += u64::from(count);
        }
        cells
    }

    /// Draws density in runs of equal opacity, which grows with the logarithm of the count up to
    /// that of `most`.
    pub(super) fn density(
        &self,
        plot: &mut Plot,
        cells: &Cells,
        most: u64,
        (low, high): (usize, usize),
        paint: &Paint<'_>,
    ) {
        let level = |count: u64| {
            let density = (count as f64).ln_1p() / (most as f64).ln_1p();
            ((density * LEVELS as f64).ceil() as usize).clamp(1, LEVELS)
        };
        let mut runs: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); LEVELS + 1];
        for ((row, column), count) in cells {
            let runs = &mut runs[level(*count)];
            match runs.last_mut() {
                Some((from, at, long)) if at == row && *from + *long == *column => *long += 1,
                _ => runs.push((*column, *row, 1)),
            }
        }
        let size = (self.columns().0, (high - low) / JOINED_ROWS);
        for (level, runs) in runs.iter().enumerate() {
            let opacity = paint.strongest * (0.1 + 0.9 * level as f64 / LEVELS as f64);
            plot.runs(runs, size, paint, opacity);
        }
    }
}

/// The rows to draw: the filled ones, some margin, and no fewer than two decades.
pub(super) fn rows_of(rasters: &[&Raster]) -> (usize, usize) {
    let rows = || rasters.iter().flat_map(|raster| raster.filled()).map(|(_, row, _)| row);
    let (low, high) = (rows().min().unwrap_or(0), rows().max().unwrap_or(0) + 1);
    let missing = (2 * ROWS_PER_DECADE).saturating_sub(high - low) / 2;
    let low = low.saturating_sub(4 + missing) / JOINED_ROWS * JOINED_ROWS;
    (low, (high + 4 + missing).next_multiple_of(JOINED_ROWS).min(ROWS))
}

pub(super) fn marks_of((low, high): (usize, usize)) -> Vec<scale::Mark> {
    scale::spans(edge(low) as f64, edge(high) as f64)
}

/// How far up between two rows a span lies.
pub(super) fn share((low, high): (usize, usize), ns: f64) -> f64 {
    let row = (ns.max(1.0) / LOWEST_NS as f64).log10() * ROWS_PER_DECADE as f64;
    (row - low as f64) / (high - low) as f64
}
