//! A chart as SVG.
//!
//! Density is drawn as cells whose opacity grows with the logarithm of their count: dots laid over
//! one another, as blkreplay's pictures have them, hide how many there are, and what is drawn last
//! hides everything else.

use std::collections::BTreeMap;

use ioecho_stats::analysis::shape::{Bins, Curve, Grid, Series};

use super::axis::{self, Axis};
use super::{Chart, Layer, Shape, Stroke, thin};
use crate::svg::{Line, Plot};

/// Columns and rows that a map is drawn in at most.
const COLUMNS: u32 = 450;
const ROWS: u32 = 160;
/// Steps of opacity from a single request to the densest cell.
const LEVELS: usize = 5;
/// Points that a line has at most.
const POINTS: usize = 1000;

type Points = Vec<Option<(f64, f64)>>;

/// Draws everything of a chart but its headings.
pub(crate) fn draw(chart: &Chart, plot: &mut Plot) {
    if chart.is_empty() {
        return plot.word("nothing to draw");
    }
    let (x, y) = (Axis::along(chart), Axis::upward(chart));
    plot.across(&x.marks, |value| x.share(value).unwrap_or(0.0), &x.label);
    plot.upward(&y.marks, |value| y.share(value).unwrap_or(0.0), &y.label);
    let maps: Vec<Option<Cells>> = chart
        .layers
        .iter()
        .map(|layer| match &layer.shape {
            Shape::Grid(grid) => Some(Cells::of(grid)),
            _ => None,
        })
        .collect();
    // One scale for all: a rare class painted last would else hide a frequent one.
    let most = maps.iter().flatten().flat_map(|cells| cells.counts.values()).copied().max();
    for (layer, map) in chart.layers.iter().zip(&maps) {
        let (name, colour) = (layer.shape.name(), layer.ink.on_white());
        if let (Shape::Grid(grid), Some(cells)) = (&layer.shape, map) {
            plot.name(name, colour, "");
            cells.draw(plot, grid, (&x, &y), colour, most.unwrap_or(1));
        } else {
            let points = points(layer, &x, &y);
            plot.line(&Line { name, colour, dash: dash(layer.stroke), points });
        }
    }
    for limit in &chart.limits {
        let axis = if limit.along { &x } else { &y };
        if let Some(share) = axis.share(limit.at).filter(|share| (0.0..=1.0).contains(share)) {
            plot.limit(limit.along, share, &limit.label);
        }
    }
}

fn dash(stroke: Stroke) -> &'static str {
    if stroke == Stroke::Dashed { "5 3" } else { "" }
}

fn points(layer: &Layer, x: &Axis, y: &Axis) -> Points {
    match &layer.shape {
        Shape::Series(series) => of_series(&thin::thinned(series, layer.stroke, POINTS), x, y),
        Shape::Bins(bins) => of_bins(bins, x, y),
        Shape::Curve(curve) => of_curve(curve, layer.stroke, x, y),
        Shape::Grid(_) => Vec::new(),
    }
}

/// The place of a value along an axis; what a logarithmic axis cannot show lies at its beginning.
fn held(axis: &Axis, value: f64) -> f64 {
    axis.share(value).unwrap_or(0.0).clamp(0.0, 1.0)
}

/// A step: a value that holds from one place to another.
fn step(points: &mut Points, (from, to): (f64, f64), value: Option<f64>) {
    match value {
        Some(value) => points.extend([Some((from, value)), Some((to, value))]),
        None => points.push(None),
    }
}

fn of_series(series: &Series, x: &Axis, y: &Axis) -> Points {
    let mut points = Vec::new();
    for (i, value) in series.values.iter().enumerate() {
        let from = series.start_ns as f64 + i as f64 * series.step_ns as f64;
        let ends = (held(x, from), held(x, from + series.step_ns as f64));
        step(&mut points, ends, value.and_then(|value| y.share(value)));
    }
    points
}

fn of_bins(bins: &Bins, x: &Axis, y: &Axis) -> Points {
    let mut points = Vec::new();
    for (edges, count) in bins.edges.windows(2).zip(&bins.counts) {
        // An outline that falls to the ground where there is nothing.
        let value = if *count == 0 { Some(0.0) } else { y.share(*count as f64) };
        step(&mut points, (held(x, edges[0]), held(x, edges[1])), value);
    }
    points
}

fn of_curve(curve: &Curve, stroke: Stroke, x: &Axis, y: &Axis) -> Points {
    // A curve of a million ranks has no more room than one of a thousand.
    let every = curve.points.len().div_ceil(4 * POINTS).max(1);
    let last = curve.points.len().saturating_sub(1);
    let shown = curve.points.iter().enumerate();
    let shown = shown.filter(|(i, _)| i % every == 0 || *i == last).map(|(_, point)| *point);
    let mut points: Points = Vec::new();
    for (along, up) in shown {
        let point = x.share(along).zip(y.share(up)).map(|(x, y)| (x.clamp(0.0, 1.0), y));
        if let (Stroke::Steps | Stroke::Peaks, Some((x, _)), Some(Some((_, before)))) =
            (stroke, point, points.last().copied())
        {
            points.push(Some((x, before)));
        }
        points.push(point);
    }
    points
}

/// The cells of a map, joined to what a picture can show.
struct Cells {
    /// How many cells along and up make one.
    join: (u32, u32),
    /// By row and column of what is joined.
    counts: BTreeMap<(u32, u32), u64>,
}

impl Cells {
    fn of(grid: &Grid) -> Self {
        let spread = |cell: fn(&(u32, u32, u64)) -> u32| {
            let cells = || grid.cells.iter().map(cell);
            (cells().max().unwrap_or(0) - cells().min().unwrap_or(0)).saturating_add(1)
        };
        let join = (spread(|cell| cell.0).div_ceil(COLUMNS), spread(|cell| cell.1).div_ceil(ROWS));
        let mut counts = BTreeMap::new();
        for (x, y, count) in &grid.cells {
            let cell: &mut u64 = counts.entry((y / join.1, x / join.0)).or_default();
            *cell = cell.saturating_add(*count);
        }
        Self { join, counts }
    }

    /// Draws them as boxes, neighbours of like density in one.
    fn draw(&self, plot: &mut Plot, grid: &Grid, (x, y): (&Axis, &Axis), colour: &str, most: u64) {
        let level = |count: u64| {
            let density = (count as f64).ln_1p() / (most as f64).ln_1p();
            ((density * LEVELS as f64).ceil() as usize).clamp(1, LEVELS)
        };
        // (row, first column, columns) by level.
        let mut runs: Vec<Vec<(u32, u32, u32)>> = vec![Vec::new(); LEVELS + 1];
        for ((row, column), count) in &self.counts {
            let runs = &mut runs[level(*count)];
            match runs.last_mut() {
                Some((at, from, long)) if at == row && *from + *long == *column => *long += 1,
                _ => runs.push((*row, *column, 1)),
            }
        }
        let along = |column: u32| held(x, axis::edge(&grid.x, column.saturating_mul(self.join.0)));
        let up = |row: u32| held(y, axis::edge(&grid.y, row.saturating_mul(self.join.1)));
        for (level, runs) in runs.iter().enumerate() {
            let boxes: Vec<_> = runs
                .iter()
                .map(|(row, column, long)| {
                    (along(*column), along(column + long), up(*row), up(row + 1))
                })
                .collect();
            plot.boxes(&boxes, colour, 0.9 * (0.1 + 0.9 * level as f64 / LEVELS as f64));
        }
    }
}
