//! Both systems over time: where in the run the difference lies.
//!
//! One slow minute gives the same 99th percentile as a system that is slow throughout, but needs
//! another remedy. So the ratio is shown block by block, with the places where its level changes; a
//! map shows which latencies one side has and the other lacks; and the figures are repeated by part
//! of the run, kind and size, the worst first.

use serde::Serialize;

use super::judged::{Asked, Sides, kinds};
use super::profile::{BITS, Bins, Cut, RunProfile, SIZES};
use super::row::{Metric, Scope};
use crate::analysis::shape::{Axis, Quantity, Scale};
use crate::change_points::change_points;
use crate::histogram::edges;
use crate::picture::Span;

/// Parts of the run that are looked at separately.
pub const PHASES: usize = 4;

/// The lowest latency that a map tells apart, in nanoseconds, and its rows per power of ten.
const MAP_LOWEST_NS: f64 = 1_000.0;
const MAP_PER_DECADE: u32 = 10;

/// Requests that a block needs for a figure of its own.
const BLOCK_REQUESTS: u64 = 8;

/// Figures of the parts.
const OF_PARTS: [Metric; 5] = [Metric::Mean, Metric::P50, Metric::P90, Metric::P99, Metric::P999];

/// Shares of requests by time and latency, one side less the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DifferenceMap {
    /// The span.
    pub span: Span,
    /// The blocks of time, or of requests where there is no schedule.
    pub x: Axis,
    /// The latency.
    pub y: Axis,
    /// The cells in which both sides differ, by `x` and then `y`: both indices, and the other's
    /// share of the block's requests less the baseline's.
    pub cells: Vec<(u32, u32, f64)>,
}

/// A figure of both sides block by block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Track {
    /// Which figure of the response time of all requests.
    pub metric: Metric,
    /// The baseline's, in nanoseconds; `None` where a block has too few requests.
    pub baseline: Vec<Option<f64>>,
    /// The other's.
    pub other: Vec<Option<f64>>,
    /// The blocks from which on the ratio of both has another level.
    pub changes: Vec<usize>,
    /// The ratio's level before the first change, between changes, and after the last: the median
    /// of its blocks.
    pub levels: Vec<f64>,
}

/// Both sides over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocks {
    /// The blocks.
    pub x: Axis,
    /// Median and 90th percentile.
    pub tracks: Vec<Track>,
    /// Requests per second completed by each side, as the mean of its runs.
    pub iops: [Vec<f64>; 2],
    /// Bytes per second likewise.
    pub bytes: [Vec<f64>; 2],
}

/// The figures of parts of runs: response times by kind, class of size and part, and by each of
/// these alone.
pub(super) fn parts(sides: Sides<'_>) -> Vec<Asked> {
    let Some(blocks) = sides.groups[0].first().map(|run| run.blocks.len()) else {
        return Vec::new();
    };
    let phase = |phase: usize| blocks * phase / PHASES..blocks * (phase + 1) / PHASES;
    let wholes = [(None, 0..blocks)].into_iter();
    let phases: Vec<_> = wholes.chain((0..PHASES).map(|n| (Some(n), phase(n)))).collect();
    let mut asked = Vec::new();
    for kind in kinds(sides) {
        let there = |size: &usize| {
            let has = |run: &RunProfile| {
                run.blocks.iter().any(|block| block.of(kind, Some(*size)).next().is_some())
            };
            sides.groups.iter().all(|runs| runs.iter().any(has))
        };
        let there: Vec<usize> = (0..SIZES).filter(there).collect();
        let sizes = if there.len() > 1 { there } else { Vec::new() };
        for size in [None].into_iter().chain(sizes.into_iter().map(Some)) {
            for (phase, blocks) in &phases {
                asked.push(Asked {
                    scope: Scope { span: Some(Span::Response), kind, phase: *phase, size },
                    metrics: &OF_PARTS,
                    blocks: blocks.clone(),
                    is_judged: true,
                });
            }
        }
    }
    asked
}

/// Maps of service and response time.
pub(super) fn heat(sides: Sides<'_>) -> Vec<DifferenceMap> {
    [Span::Service, Span::Response].into_iter().filter_map(|span| map(sides, span)).collect()
}

fn map(sides: Sides<'_>, span: Span) -> Option<DifferenceMap> {
    let x = axis(sides)?;
    let mut cells: Vec<(u32, Vec<[f64; 2]>)> = Vec::new();
    let mut rows = 0;
    for block in 0..x.cells {
        let mut column: Vec<[f64; 2]> = Vec::new();
        for side in 0..2 {
            let bins = of_block(sides, side, span, block as usize);
            for (bin, count) in bins.filled() {
                let (low, high) = edges::<BITS>(bin);
                let row = row(f64::midpoint(low, high)) as usize;
                column.resize(column.len().max(row + 1), [0.0; 2]);
                column[row][side] += count as f64 / bins.count() as f64;
            }
        }
        rows = rows.max(column.len());
        cells.push((block, column));
    }
    let cells = cells.into_iter().flat_map(|(block, column)| {
        let differing = column.into_iter().enumerate().filter_map(move |(row, [one, other])| {
            let difference = ((other - one) * 1e4).round() / 1e4;
            (difference != 0.0).then_some((block, row as u32, difference))
        });
        differing.collect::<Vec<_>>()
    });
    let scale = Scale::Logarithmic { lowest: MAP_LOWEST_NS, per_decade: MAP_PER_DECADE };
    let y = Axis { quantity: Quantity::new(span.name(), "ns"), scale, cells: rows as u32 };
    Some(DifferenceMap { span, x, y, cells: cells.collect() })
}

fn row(ns: f64) -> u32 {
    ((ns / MAP_LOWEST_NS).max(1.0).log10() * f64::from(MAP_PER_DECADE)) as u32
}

fn axis(sides: Sides<'_>) -> Option<Axis> {
    let blocking = sides.groups[0].first()?.blocking();
    let cells = blocking.blocks as u32;
    let (quantity, extent) = match blocking.cut {
        Cut::Time(extent) => (Quantity::new("time", "ns"), extent as f64),
        Cut::Requests(extent) => (Quantity::new("requests", "requests"), extent as f64),
        Cut::Own(_) => (Quantity::new("requests of each run", "%"), 100.0),
    };
    let scale = Scale::Linear { from: 0.0, step: extent / f64::from(cells.max(1)) };
    Some(Axis { quantity, scale, cells })
}

fn of_block(sides: Sides<'_>, side: usize, span: Span, block: usize) -> Bins {
    let mut sum = Bins::default();
    for run in sides.groups[side] {
        sum.merge(&run.spans(span, None, None, block..block + 1));
    }
    sum
}

/// Both sides block by block.
pub(super) fn blocks(sides: Sides<'_>) -> Blocks {
    let empty = Axis {
        quantity: Quantity::new("time", "ns"),
        scale: Scale::Linear { from: 0.0, step: 1.0 },
        cells: 0,
    };
    let x = axis(sides).unwrap_or(empty);
    let spans: Vec<[Bins; 2]> = (0..x.cells as usize)
        .map(|block| [0, 1].map(|side| of_block(sides, side, Span::Response, block)))
        .collect();
    let tracks = [(Metric::P50, 0.5), (Metric::P90, 0.9)]
        .map(|(metric, quantile)| track(metric, quantile, &spans))
        .into();
    let flow = |side: usize, of_bytes: bool| -> Vec<f64> {
        let runs = sides.groups[side];
        let per_run = runs.iter().map(|run| {
            let rates = run.blocks.iter().zip(run.durations()).map(|(block, ns)| {
                let cells = block.of(None, None);
                let done = cells.map(|cell| if of_bytes { cell.bytes } else { cell.completed });
                done.sum::<u64>() as f64 / (ns.max(1) as f64 / 1e9) / runs.len() as f64
            });
            rates.collect::<Vec<f64>>()
        });
        let sum = per_run.reduce(|sum, run| sum.iter().zip(run).map(|(a, b)| a + b).collect());
        sum.unwrap_or_default()
    };
    Blocks {
        x,
        tracks,
        iops: [flow(0, false), flow(1, false)],
        bytes: [flow(0, true), flow(1, true)],
    }
}

fn track(metric: Metric, quantile: f64, spans: &[[Bins; 2]]) -> Track {
    let figure = |bins: &Bins| {
        bins.interpolated(quantile).filter(|_| bins.count() >= BLOCK_REQUESTS).map(|ns| ns.max(1.0))
    };
    let baseline: Vec<Option<f64>> = spans.iter().map(|both| figure(&both[0])).collect();
    let other: Vec<Option<f64>> = spans.iter().map(|both| figure(&both[1])).collect();
    let logs: Vec<f64> = baseline
        .iter()
        .zip(&other)
        .map(|(a, b)| a.zip(*b).map_or(f64::NAN, |(a, b)| (b / a).ln()))
        .collect();
    let changes = change_points(&logs);
    let ends = changes.iter().copied().chain([logs.len()]);
    let mut from = 0;
    let levels = ends.map(|end| {
        let mut known: Vec<f64> =
            logs[from..end].iter().copied().filter(|log| log.is_finite()).collect();
        from = end;
        known.sort_unstable_by(f64::total_cmp);
        known.get(known.len() / 2).map_or(1.0, |log| log.exp())
    });
    let levels = levels.collect();
    Track { metric, baseline, other, changes, levels }
}
