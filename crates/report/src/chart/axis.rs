//! The extent of a chart's axes, and their marks.
//!
//! The extent follows from the figures. There may be none of them, one, or many equal ones, and
//! some may be infinite or not a number. In every case an axis begins below its end and has a few
//! round marks.

use ioecho_stats::analysis::shape::{self, Quantity};

use super::{Chart, Shape, Side, Spacing};
use crate::scale::{self, Mark};

/// An axis ready to be drawn along.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) marks: Vec<Mark>,
    pub(super) label: String,
    spacing: Spacing,
}

/// Marks that a linear axis has at most.
const MARKS: usize = 8;

/// Decades that a logarithmic axis shows at most below its largest value. A mean number of requests
/// below that is practically zero.
const DECADES: f64 = 14.0;
const DECADES_OF_REQUESTS: f64 = 5.0;

impl Axis {
    /// The lower axis of a chart.
    pub(super) fn along(chart: &Chart) -> Self {
        Self::of(&chart.x, &values(chart, true))
    }

    /// The left axis of a chart.
    pub(super) fn upward(chart: &Chart) -> Self {
        Self::of(&chart.y, &values(chart, false))
    }

    fn of(side: &Side, values: &[f64]) -> Self {
        let logarithmic = side.spacing == Spacing::Logarithmic;
        // Near the largest number, computing a round mark would overflow.
        let shown = |value: &f64| value.abs() <= 1e300 && (!logarithmic || *value > 0.0);
        let known = || values.iter().copied().chain(side.from).chain(side.to).filter(shown);
        let low = known().fold(f64::INFINITY, f64::min);
        let high = known().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        match side.spacing {
            Spacing::Logarithmic => Self::logarithmic(side, low, high),
            Spacing::Time => {
                let high = side.to.unwrap_or(high);
                let (marks, unit) = scale::time(high.max(1.0) as i64, 10);
                let label = format!("{} [{unit}]", side.quantity.name);
                let from = low.min(0.0);
                Self { from, to: high.max(1.0), marks, label, spacing: side.spacing }
            }
            Spacing::Nines => {
                let to = high.max(1.0);
                let marks = scale::nines(to);
                Self {
                    from: 0.0,
                    to,
                    marks,
                    label: side.quantity.name.clone(),
                    spacing: side.spacing,
                }
            }
            Spacing::Linear => Self::linear(side, low, high),
        }
    }

    fn linear(side: &Side, low: f64, high: f64) -> Self {
        let (factor, unit) = scale::unit_of(&side.quantity.unit, high.abs().max(low.abs()));
        let from = side.from.unwrap_or(low.min(0.0)) / factor;
        let marks = scale::between(from, high / factor, MARKS);
        let to = marks.last().map_or(high / factor, |mark| mark.at.max(high / factor));
        let to = if to > from { to } else { from + 1.0 };
        let marks = marks
            .into_iter()
            .map(|mark| Mark { at: mark.at * factor, label: mark.label })
            .collect();
        let label = label(&side.quantity.name, &unit);
        Self { from: from * factor, to: to * factor, marks, label, spacing: side.spacing }
    }

    fn logarithmic(side: &Side, low: f64, high: f64) -> Self {
        let requests = side.quantity.unit == "requests";
        let decades = if requests { DECADES_OF_REQUESTS } else { DECADES };
        let low = low.max(high / 10_f64.powf(decades));
        let from = 10_f64.powf((low * 1.000_1).log10().floor());
        let mut to = 10_f64.powf((high * 0.999_9).log10().ceil());
        if to <= from {
            to = from * 10.0;
        }
        let Quantity { name, unit } = &side.quantity;
        let marks = scale::decades(from, to, unit);
        let unit = if ["ns", "s", "bytes"].contains(&unit.as_str()) { "1" } else { unit };
        Self { from, to, marks, label: label(name, unit), spacing: side.spacing }
    }

    /// How far along the axis a value lies: 0 to 1, or beyond for a value outside of the axis.
    /// `None` for a value that cannot be shown.
    pub(super) fn share(&self, value: f64) -> Option<f64> {
        if !value.is_finite() {
            return None;
        }
        if self.spacing != Spacing::Logarithmic {
            return Some((value - self.from) / (self.to - self.from));
        }
        (value > 0.0).then(|| (value / self.from).ln() / (self.to / self.from).ln())
    }
}

fn label(name: &str, unit: &str) -> String {
    if matches!(unit, "1" | "") || name == unit {
        name.to_owned()
    } else {
        format!("{name} [{unit}]")
    }
}

/// The values that an axis must include: the smallest and the largest of each layer.
fn values(chart: &Chart, along: bool) -> Vec<f64> {
    let mut values = Vec::new();
    for layer in &chart.layers {
        match &layer.shape {
            Shape::Series(series) if along => {
                let end = series.step_ns as f64 * series.values.len() as f64;
                values.extend([series.start_ns as f64, series.start_ns as f64 + end]);
            }
            Shape::Series(series) => values.extend(series.values.iter().flatten()),
            Shape::Bins(bins) => {
                let filled = |at: &usize| bins.counts[*at] > 0;
                let first = (0..bins.counts.len()).find(filled);
                let last = (0..bins.counts.len()).rev().find(filled);
                if let (true, Some(first), Some(last)) = (along, first, last) {
                    values.extend(bins.edges.get(first));
                    values.extend(bins.edges.get(last + 1));
                } else if !along {
                    values.extend(bins.counts.iter().map(|count| *count as f64));
                }
            }
            Shape::Curve(curve) => {
                values.extend(curve.points.iter().map(|(x, y)| if along { *x } else { *y }));
            }
            Shape::Grid(grid) => {
                let axis = if along { &grid.x } else { &grid.y };
                let cell = |(x, y, _): &(u32, u32, u64)| if along { *x } else { *y };
                let low = grid.cells.iter().map(cell).min();
                let high = grid.cells.iter().map(cell).max();
                if let (Some(low), Some(high)) = (low, high) {
                    // A map over time shows the whole time, also where there were no requests.
                    let low = if chart.x.spacing == Spacing::Time && along { 0 } else { low };
                    values.extend([edge(axis, low), edge(axis, high.saturating_add(1))]);
                }
            }
        }
    }
    let limits = chart.limits.iter().filter(|limit| limit.along == along);
    values.extend(limits.map(|limit| limit.at));
    values
}

/// Where a cell begins.
pub(super) fn edge(axis: &shape::Axis, cell: u32) -> f64 {
    axis.scale.edge(cell)
}
