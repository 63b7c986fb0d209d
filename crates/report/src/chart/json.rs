//! Charts as JSON for the page: few digits, cells packed like those of the sonar diagram.

use std::borrow::Cow;

use ioecho_stats::analysis::shape::{self, Quantity};
use serde::Serialize;

use super::thin::{self, rounded};
use super::{Chart, Layer, Shape, Side, Spacing, Stroke};
use crate::packed::{base64, leb128};

#[derive(Serialize)]
pub(crate) struct ChartData<'a> {
    name: &'a str,
    title: &'a str,
    note: &'a str,
    x: SideData<'a>,
    y: SideData<'a>,
    layers: Vec<LayerData<'a>>,
    limits: Vec<LimitData<'a>>,
}

#[derive(Serialize)]
struct SideData<'a> {
    #[serde(flatten)]
    quantity: &'a Quantity,
    spacing: &'static str,
    from: Option<f64>,
    to: Option<f64>,
}

#[derive(Serialize)]
struct LimitData<'a> {
    along: bool,
    at: f64,
    label: &'a str,
}

#[derive(Serialize)]
struct LayerData<'a> {
    name: &'a str,
    ink: &'static str,
    stroke: &'static str,
    #[serde(flatten)]
    shape: ShapeData<'a>,
}

#[derive(Serialize)]
#[serde(tag = "shape", rename_all = "kebab-case")]
enum ShapeData<'a> {
    Series {
        start_ns: i64,
        step_ns: i64,
        values: Vec<Option<f64>>,
        /// The largest value of each step, if steps are means of several values.
        #[serde(skip_serializing_if = "Option::is_none")]
        peaks: Option<Vec<Option<f64>>>,
    },
    Bins {
        edges: Vec<Option<f64>>,
        counts: &'a [u64],
    },
    Curve {
        points: Vec<(f64, f64)>,
    },
    Grid {
        x: shape::Axis,
        y: shape::Axis,
        packed: String,
    },
}

/// Points of a curve on the page, at most.
const POINTS: usize = 2000;

/// Filled cells of all maps over time together on the page, at most: about 1.3 MB.
const CELLS: usize = 400_000;

/// Charts for the page's JSON. Charts without figures are left out, and maps of many volumes are
/// made coarser, so that the page stays small.
pub(crate) fn charts(charts: &[Chart]) -> Vec<ChartData<'_>> {
    let grids = charts.iter().flat_map(|chart| &chart.layers);
    let grids = grids.filter_map(|layer| match &layer.shape {
        Shape::Grid(grid) => Some(grid.cells.len()),
        _ => None,
    });
    // Joining neighbours once leaves half of the cells of a dense map.
    let joinings = (grids.sum::<usize>().max(1).div_ceil(CELLS)).next_power_of_two().ilog2();
    charts.iter().filter(|chart| !chart.is_empty()).map(|chart| of(chart, joinings)).collect()
}

fn of(chart: &Chart, joinings: u32) -> ChartData<'_> {
    ChartData {
        name: &chart.name,
        title: &chart.title,
        note: &chart.note,
        x: side(&chart.x),
        y: side(&chart.y),
        layers: chart.layers.iter().map(|one| layer(one, joinings)).collect(),
        limits: chart
            .limits
            .iter()
            .filter(|limit| limit.at.is_finite())
            .map(|limit| LimitData { along: limit.along, at: limit.at, label: &limit.label })
            .collect(),
    }
}

fn side(side: &Side) -> SideData<'_> {
    SideData {
        quantity: &side.quantity,
        spacing: match side.spacing {
            Spacing::Linear => "linear",
            Spacing::Logarithmic => "logarithmic",
            Spacing::Time => "time",
            Spacing::Nines => "nines",
        },
        from: side.from,
        to: side.to,
    }
}

fn layer(layer: &Layer, joinings: u32) -> LayerData<'_> {
    let shape = match &layer.shape {
        Shape::Series(series) => {
            let whole = series;
            let series = thin::thinned(whole, layer.stroke, thin::VALUES);
            let digits = |series: &shape::Series| {
                series.values.iter().map(|value| value.and_then(rounded)).collect()
            };
            let is_mean = series.values.len() < whole.values.len() && layer.stroke != Stroke::Peaks;
            ShapeData::Series {
                start_ns: series.start_ns,
                step_ns: series.step_ns.max(1),
                values: digits(&series),
                peaks: is_mean.then(|| digits(&thin::thinned(whole, Stroke::Peaks, thin::VALUES))),
            }
        }
        Shape::Bins(bins) => ShapeData::Bins {
            edges: bins.edges.iter().map(|edge| rounded(*edge)).collect(),
            counts: &bins.counts,
        },
        Shape::Curve(curve) => {
            let every = curve.points.len().div_ceil(POINTS).max(1);
            let last = curve.points.len().saturating_sub(1);
            let points = curve.points.iter().enumerate();
            let points = points.filter(|(i, _)| i % every == 0 || *i == last);
            let points = points.filter_map(|(_, (x, y))| Some((rounded(*x)?, rounded(*y)?)));
            ShapeData::Curve { points: points.collect() }
        }
        Shape::Grid(grid) => {
            let mut grid = Cow::Borrowed(grid);
            for _ in 0..joinings {
                let Some(coarse) = thin::coarser(&grid) else { break };
                grid = Cow::Owned(coarse);
            }
            let packed = pack(&grid);
            ShapeData::Grid { x: grid.x.clone(), y: grid.y.clone(), packed }
        }
    };
    LayerData {
        name: layer.shape.name(),
        ink: layer.ink.variable(),
        stroke: match layer.stroke {
            Stroke::Steps => "steps",
            Stroke::Peaks => "peaks",
            Stroke::Line => "line",
            Stroke::Dashed => "dashed",
        },
        shape,
    }
}

/// The filled cells, column by column: for each the distance from the previous one, and its count.
fn pack(grid: &shape::Grid) -> String {
    let mut cells: Vec<(u64, u64)> = grid
        .cells
        .iter()
        .map(|(x, y, count)| (u64::from(*x) * u64::from(grid.y.cells) + u64::from(*y), *count))
        .collect();
    cells.sort_unstable();
    let mut bytes = Vec::new();
    let mut next = 0;
    for (cell, count) in cells {
        // A repeated cell would make the distance negative.
        leb128(&mut bytes, cell.saturating_sub(next));
        leb128(&mut bytes, count);
        next = cell.max(next) + 1;
    }
    base64(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ink;
    use ioecho_stats::analysis::shape::{Axis, Grid, Scale};

    #[test]
    fn a_series_with_joined_steps_carries_their_largest_values_besides() {
        let mut series = shape::Series { step_ns: 1, ..shape::Series::default() };
        series.values = (0..10_000).map(|at| Some(f64::from(u8::from(at == 5_001)))).collect();
        let of = |stroke| Layer { shape: Shape::Series(series.clone()), ink: Ink::All, stroke };
        let steps = of(Stroke::Steps);
        let ShapeData::Series { values, peaks, .. } = layer(&steps, 0).shape else {
            panic!("a series stays one")
        };
        let most = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
        assert!(most(&values) < 0.5);
        assert!(most(&peaks.unwrap()) > 0.99);
        let peaks = of(Stroke::Peaks);
        assert!(matches!(layer(&peaks, 0).shape, ShapeData::Series { peaks: None, .. }));
    }

    #[test]
    fn cells_are_packed_by_column_whatever_their_order() {
        let axis = |cells| Axis {
            quantity: Quantity::new("time", "ns"),
            scale: Scale::Linear { from: 0.0, step: 1.0 },
            cells,
        };
        let cells = vec![(1, 0, 300), (0, 2, 1)];
        let grid = Grid { name: String::new(), x: axis(2), y: axis(4), cells };
        assert_eq!(pack(&grid), base64(&[2, 1, 1, 0xac, 0x02]));
    }
}
