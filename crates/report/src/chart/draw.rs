//! A chart as SVG.
//!
//! Density is drawn as cells whose opacity grows with the logarithm of their count. The overlapping
//! dots of blkreplay's pictures do not show how many there are, and the last ones drawn hide all
//! others.

use std::collections::BTreeMap;

use ioecho_stats::analysis::shape::{Bins, Curve, Grid, Series};

use super::axis::{self, Axis};
use super::{Chart, Layer, Shape, Stroke, thin};
use crate::svg::{Line, Plot};

/// Columns and rows of a map at most.
const COLUMNS: u32 = 450;
const ROWS: u32 = 160;
/// Steps of opacity from a single request to the densest cell.
const LEVELS: usize = 5;
/// Points that a line has at most.
const POINTS: usize = 1000;

type Points = Vec<Option<(f64, f64)>>;

/// The names of the layers, in the order in which they are drawn: maps lie below lines.
pub(crate) fn names(chart: &Chart) -> Vec<&str> {
    let is_map = |layer: &&Layer| matches!(layer.shape, Shape::Grid(_));
    let maps = chart.layers.iter().filter(is_map);
    let lines = chart.layers.iter().filter(|layer| !is_map(layer));
    maps.chain(lines).map(|layer| layer.shape.name()).collect()
}

/// Draws everything of a chart but its headings.
pub(crate) fn draw(chart: &Chart, plot: &mut Plot) {
    if chart.is_empty() {
        return plot.word("nothing to draw");
    }
    let (x, y) = (Axis::along(chart), Axis::upward(chart));
    plot.across(&x.marks, |value| x.share(value).unwrap_or(0.0), &x.label);
    plot.upward(&y.marks, |value| y.share(value).unwrap_or(0.0), &y.label);
    let grids: Vec<(&Grid, &str)> = chart
        .layers
        .iter()
        .filter_map(|layer| match &layer.shape {
            Shape::Grid(grid) => Some((grid, layer.ink.on_white())),
            _ => None,
        })
        .collect();
    for (grid, colour) in &grids {
        plot.name(&grid.name, colour, "");
    }
    for maps in alike(&grids) {
        Cells::of(&maps).draw(plot, maps[0].0, (&x, &y));
    }
    for layer in &chart.layers {
        if !matches!(layer.shape, Shape::Grid(_)) {
            let (name, colour) = (layer.shape.name(), layer.ink.on_white());
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

/// The place of a value along an axis; a value that a logarithmic axis cannot show is placed at its
/// beginning.
fn held(axis: &Axis, value: f64) -> f64 {
    axis.share(value).unwrap_or(0.0).clamp(0.0, 1.0)
}

/// A step: one value over a stretch of the axis.
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
        // The outline falls to the ground where there is no value.
        let value = if *count == 0 { Some(0.0) } else { y.share(*count as f64) };
        step(&mut points, (held(x, edges[0]), held(x, edges[1])), value);
    }
    points
}

fn of_curve(curve: &Curve, stroke: Stroke, x: &Axis, y: &Axis) -> Points {
    // The picture has only room for about a thousand points, even of a curve with a million.
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

/// Maps with the same cells, grouped, because they overlap exactly.
fn alike<'a>(grids: &[(&'a Grid, &'a str)]) -> Vec<Vec<(&'a Grid, &'a str)>> {
    let mut groups: Vec<Vec<(&Grid, &str)>> = Vec::new();
    for (grid, colour) in grids {
        let same = |known: &&mut Vec<(&Grid, &str)>| {
            known[0].0.x.scale == grid.x.scale && known[0].0.y.scale == grid.y.scale
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push((grid, colour)),
            None => groups.push(vec![(grid, colour)]),
        }
    }
    groups
}

/// A run of cells with equal opacity: row, first column, number of columns.
type Run = (u32, u32, u32);

/// The cells of overlapping maps, joined until a picture can show them.
struct Cells<'a> {
    colours: Vec<&'a str>,
    /// How many cells along and up are joined into one.
    join: (u32, u32),
    /// The counts of each map, by row and column of the joined cells.
    counts: BTreeMap<(u32, u32), Vec<u64>>,
}

impl<'a> Cells<'a> {
    fn of(maps: &[(&Grid, &'a str)]) -> Self {
        let spread = |cell: fn(&(u32, u32, u64)) -> u32| {
            let cells = || maps.iter().flat_map(|(grid, _)| grid.cells.iter().map(cell));
            (cells().max().unwrap_or(0) - cells().min().unwrap_or(0)).saturating_add(1)
        };
        let join = (spread(|cell| cell.0).div_ceil(COLUMNS), spread(|cell| cell.1).div_ceil(ROWS));
        let mut counts = BTreeMap::new();
        for (map, (grid, _)) in maps.iter().enumerate() {
            for (x, y, count) in &grid.cells {
                let cell: &mut Vec<u64> =
                    counts.entry((y / join.1, x / join.0)).or_insert_with(|| vec![0; maps.len()]);
                cell[map] = cell[map].saturating_add(*count);
            }
        }
        Self { colours: maps.iter().map(|(_, colour)| *colour).collect(), join, counts }
    }

    /// Draws the cells as boxes; neighbours of equal density become one box. Maps that fill the
    /// same cell share its height, each with its own density, so none hides another.
    fn draw(&self, plot: &mut Plot, grid: &Grid, (x, y): (&Axis, &Axis)) {
        // All maps share one scale, so that a reader can compare the densities of classes.
        let most = self.counts.values().flatten().copied().max().unwrap_or(1);
        let level = |count: u64| {
            let density = (count as f64).ln_1p() / (most as f64).ln_1p();
            ((density * LEVELS as f64).ceil() as usize).clamp(1, LEVELS)
        };
        // Keys: map, level, the part of the cell's height, and the number of parts.
        let mut runs: BTreeMap<(usize, usize, usize, usize), Vec<Run>> = BTreeMap::new();
        for ((row, column), counts) in &self.counts {
            let filled = || counts.iter().enumerate().filter(|(_, count)| **count > 0);
            let parts = filled().count();
            for (part, (map, count)) in filled().enumerate() {
                let runs = runs.entry((map, level(*count), part, parts)).or_default();
                match runs.last_mut() {
                    Some((at, from, long)) if at == row && *from + *long == *column => *long += 1,
                    _ => runs.push((*row, *column, 1)),
                }
            }
        }
        let along = |column: u32| held(x, axis::edge(&grid.x, column.saturating_mul(self.join.0)));
        let up = |row: u32| held(y, axis::edge(&grid.y, row.saturating_mul(self.join.1)));
        for ((map, level, part, parts), runs) in runs {
            let boxes: Vec<_> = runs
                .iter()
                .map(|(row, column, long)| {
                    let (low, high) = (up(*row), up(row + 1));
                    let edge = |part: usize| low + (high - low) * part as f64 / parts as f64;
                    (along(*column), along(column + long), edge(part), edge(part + 1))
                })
                .collect();
            let opacity = 0.9 * (0.1 + 0.9 * level as f64 / LEVELS as f64);
            plot.boxes(&boxes, self.colours[map], opacity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Ink, Side};
    use crate::{Page, Sheet, svg};
    use ioecho_stats::analysis::shape::{Quantity, Scale};

    fn map(cells: Vec<(u32, u32, u64)>) -> Shape {
        let axis = || ioecho_stats::analysis::shape::Axis {
            quantity: Quantity::new("place", "1"),
            scale: Scale::Linear { from: 0.0, step: 1.0 },
            cells: 4,
        };
        Shape::Grid(Grid { name: "a map".to_owned(), x: axis(), y: axis(), cells })
    }

    /// Top and bottom of each box of a colour.
    fn boxes(svg: &str, colour: &str) -> Vec<(f64, f64)> {
        let is_box = |line: &&str| line.starts_with("<path") && line.contains("fill-opacity");
        let paths = svg.lines().filter(is_box).filter(|line| line.contains(colour));
        let box_of = |path: &str| -> (f64, f64) {
            let top: f64 = path.split([' ', 'h']).nth(1).unwrap().parse().unwrap();
            let tall = path.split('v').nth(1).unwrap().split('h').next().unwrap();
            (top, top + tall.parse::<f64>().unwrap())
        };
        paths
            .flat_map(|path| path.split('"').nth(1).unwrap().split('M').skip(1))
            .map(box_of)
            .collect()
    }

    #[test]
    fn what_falls_into_one_cell_is_seen_whatever_is_painted_last() {
        let side = || Side::linear("place", "1");
        let chart = Chart::new("g", "two maps", side(), side())
            .with(map(vec![(0, 0, 1), (2, 2, 9)]), Ink::Read, Stroke::Steps)
            .with(map(vec![(0, 0, 900), (3, 3, 1)]), Ink::Write, Stroke::Steps);
        let svg = svg(&chart, &Sheet::of(&Page::default()));
        let (reads, writes) =
            (boxes(&svg, Ink::Read.on_white()), boxes(&svg, Ink::Write.on_white()));
        assert_eq!((reads.len(), writes.len()), (2, 2), "{svg}");
        for (top, bottom) in &reads {
            for (other_top, other_bottom) in &writes {
                let apart = bottom <= &(other_top + 0.2) || other_bottom <= &(top + 0.2);
                assert!(apart, "{reads:?} {writes:?}");
            }
        }
        let tall = |(top, bottom): &(f64, f64)| bottom - top;
        let halves = reads.iter().chain(&writes).map(tall).fold(f64::MAX, f64::min);
        let whole = reads.iter().chain(&writes).map(tall).fold(0.0, f64::max);
        assert!((whole / halves - 2.0).abs() < 0.1, "a cell of two is halved: {halves} {whole}");
    }
}
