//! The rows of a comparison: every figure with its ratio, redrawn a thousand times.

use std::ops::Range;

use ioecho_trace::generate::random::Random;

use super::Settings;
use super::family::{EXACT, Family, GRAIN, Replicates};
use super::ladder::{Ladder, Statistic, every};
use super::profile::{Bins, RunProfile};
use super::resample::{self, Draw, Urn};
use super::row::{Decision, Metric, Row, Scope};
use crate::picture::{Kind, Span};

/// Over how many blocks a figure's requests must be spread on both sides so that it can be judged.
const BLOCKS_NEEDED: f64 = 12.0;

/// How many stretches there must be of blocks that are drawn together. With fewer, the run is too
/// short for what it remembers: nobody knows whether what one long queue did would happen again.
const STRETCHES_NEEDED: usize = 6;

/// Between which ranks of its redrawings a ratio lies in any case, however small their variance is:
/// where they are skewed, the standard error alone promises too much.
const TAILS: f64 = 0.002_5;

/// Figures of most requests, and not of a tail.
const OF_MOST: [Metric; 2] = [Metric::P50, Metric::P90];

/// Two groups of runs that are compared.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) groups: [&'a [RunProfile]; 2],
    /// Whether both replayed the same requests, so that blocks belong together.
    pub(super) paired: bool,
}

/// Figures of some requests in some of the blocks.
pub(super) struct Asked {
    pub(super) scope: Scope,
    pub(super) metrics: &'static [Metric],
    pub(super) blocks: Range<usize>,
    pub(super) is_judged: bool,
}

/// A row before it was judged.
struct Open {
    row: Row,
    is_judged: bool,
    /// Over how many blocks the figure's requests are spread.
    spread_over: f64,
    /// Which of the ladders and which of the urns.
    ladder: usize,
    urn: usize,
    replicates: Replicates,
}

/// The rows of everything that was asked for, judged as one family.
pub(super) fn rows(sides: Sides<'_>, asked: &[Asked], settings: &Settings) -> Vec<Row> {
    let mut urns: Vec<Urn> = Vec::new();
    let mut ladders: Vec<[Ladder; 2]> = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    for asked in asked {
        // Both flows need a ladder each; all figures of a span share one.
        let mut of_metrics: Vec<(Metric, usize)> = Vec::new();
        for metric in asked.metrics {
            if of_metrics.is_empty() || metric.is_flow() {
                ladders.push(sides.groups.map(|runs| ladder(runs, asked, *metric)));
            }
            of_metrics.push((*metric, ladders.len() - 1));
        }
        let own = |(metric, ladder): &(Metric, usize)| {
            memory(&ladders[*ladder], sides, asked, metric.statistic())
        };
        // One queue made all of these requests. Where the median or p90 remembers too long for this
        // run, another figure that seems to forget sooner is only estimated so, from as few
        // memories. Not the other way round: the tail may be of rare bursts of their own.
        let of_most = of_metrics.iter().filter(|(metric, _)| OF_MOST.contains(metric));
        let least = of_most.map(own).fold(1.0, f64::max);
        let memories: Vec<f64> = of_metrics.iter().map(|of| own(of).max(least)).collect();
        for ((metric, ladder), memory) in of_metrics.into_iter().zip(memories) {
            let drawn = Urn::new(asked.blocks.clone(), memory);
            let measured = measured(&ladders[ladder], sides, asked, metric, &drawn);
            if let Some((row, spread_over)) = measured {
                let urn = urns.iter().position(|urn| *urn == drawn).unwrap_or_else(|| {
                    urns.push(drawn);
                    urns.len() - 1
                });
                let grain = match metric.statistic() {
                    Statistic::Quantile(_) => GRAIN,
                    Statistic::Mean | Statistic::Max | Statistic::Rate => EXACT,
                };
                let observed = row.ratio.ln();
                let replicates = Replicates { observed, grain, ..Replicates::default() };
                let is_judged = row.decision == Decision::NotToldApart;
                open.push(Open { row, is_judged, spread_over, ladder, urn, replicates });
            }
        }
    }
    redraw(sides, &urns, &ladders, &mut open, settings);
    judge(sides, &urns, &open, settings)
}

/// The blocks of a group's runs, one after the other.
fn ladder(runs: &[RunProfile], asked: &Asked, metric: Metric) -> Ladder {
    let Scope { span, kind, size, .. } = asked.scope;
    if let Some(span) = span {
        let blocks: Vec<Bins> = runs
            .iter()
            .flat_map(|run| {
                (0..run.blocks.len()).map(move |block| {
                    if asked.blocks.contains(&block) {
                        run.spans(span, kind, size, block..block + 1)
                    } else {
                        Bins::default()
                    }
                })
            })
            .collect();
        return Ladder::of_spans(&blocks);
    }
    let mut done = Vec::new();
    let mut seconds = Vec::new();
    for run in runs {
        for block in &run.blocks {
            let cells = block.of(kind, size);
            done.push(match metric {
                Metric::Bytes => cells.map(|cell| cell.bytes as f64).sum(),
                _ => cells.map(|cell| cell.completed as f64).sum(),
            });
        }
        seconds.extend(run.durations().into_iter().map(|ns| ns as f64 / 1e9));
    }
    Ladder::of_flow(done, seconds)
}

/// The blocks of all runs of a side that were asked for, run by run, each once.
fn whole(sides: Sides<'_>, side: usize, asked: &Asked) -> Vec<(usize, u64)> {
    let count = sides.groups[side].first().map_or(0, |run| run.blocks.len());
    let all = every(sides.groups[side].len() * count).into_iter();
    all.filter(|(block, _)| asked.blocks.contains(&(block % count.max(1)))).collect()
}

/// How many neighbouring blocks say the same about the ratio of a figure. Where blocks of both
/// sides belong together, what the load does to both is no memory: only their difference counts.
fn memory(ladders: &[Ladder; 2], sides: Sides<'_>, asked: &Asked, statistic: Statistic) -> f64 {
    let of_runs = |side: usize| -> Vec<f64> {
        let mut sum = vec![0.0; asked.blocks.len()];
        let influences = ladders[side].influences(statistic, &whole(sides, side, asked));
        for run in influences.chunks(asked.blocks.len().max(1)) {
            sum.iter_mut().zip(run).for_each(|(sum, one)| *sum += one);
        }
        sum
    };
    let (first, second) = (of_runs(0), of_runs(1));
    if sides.paired {
        let apart: Vec<f64> = first.iter().zip(&second).map(|(a, b)| b - a).collect();
        resample::memory(&apart)
    } else {
        resample::memory(&first).max(resample::memory(&second))
    }
}

/// The row as it was measured; `None` where a side has nothing of it.
fn measured(
    ladders: &[Ladder; 2],
    sides: Sides<'_>,
    asked: &Asked,
    metric: Metric,
    urn: &Urn,
) -> Option<(Row, f64)> {
    let Scope { span, kind, size, .. } = asked.scope;
    let whole = |side: usize| whole(sides, side, asked);
    let value = |side: usize| ladders[side].value(metric.statistic(), &whole(side));
    let (baseline, other) = (value(0)?, value(1)?);
    if metric.is_flow() && (baseline <= 0.0 || other <= 0.0) {
        return None;
    }
    let requests = [0, 1].map(|side| {
        let runs = sides.groups[side].iter();
        runs.map(|run| {
            let blocks = run.blocks[asked.blocks.clone()].iter();
            blocks.flat_map(|block| block.of(kind, size)).map(|cell| cell.completed).sum::<u64>()
        })
        .sum::<u64>()
    });
    let needed = metric.requests_needed();
    let spread_over = [0, 1]
        .map(|side| ladders[side].spread_over(metric.statistic(), &whole(side)))
        .into_iter()
        .fold(f64::INFINITY, f64::min);
    let never = metric == Metric::Max || span == Some(Span::Lateness) || !asked.is_judged;
    let decision = if never {
        Decision::NotJudged
    } else if spread_over < BLOCKS_NEEDED
        || urn.stretches() < STRETCHES_NEEDED
        || requests.iter().any(|count| *count < needed)
    {
        Decision::TooFew
    } else {
        Decision::NotToldApart
    };
    let row = Row {
        scope: asked.scope,
        metric,
        requests,
        baseline,
        other,
        ratio: floored(metric, other) / floored(metric, baseline),
        interval: None,
        chance: None,
        decision,
        spread: None,
        tails: [0.0; 2],
    };
    Some((row, spread_over))
}

/// A figure for a ratio: at least a nanosecond, the resolution of instants, and no rate of zero in
/// a resample without requests.
fn floored(metric: Metric, value: f64) -> f64 {
    value.max(if metric.is_flow() { 1e-9 } else { 1.0 })
}

fn redraw(
    sides: Sides<'_>,
    urns: &[Urn],
    ladders: &[[Ladder; 2]],
    open: &mut [Open],
    settings: &Settings,
) {
    let Some(count) = sides.groups[0].first().map(|run| run.blocks.len()) else { return };
    let has_repeats = sides.groups.iter().any(|runs| runs.len() > 1);
    let mut random = Random::new(settings.seed);
    for _ in 0..settings.resamples {
        let runs = sides.groups.map(|group| resample::runs(&mut random, group.len()));
        let drawn: Vec<[Draw; 2]> = urns
            .iter()
            .map(|urn| {
                let first = urn.draw(&mut random, count);
                let second =
                    if sides.paired { first.clone() } else { urn.draw(&mut random, count) };
                let [of_first, of_second] = runs.clone();
                [Draw { blocks: first, runs: of_first }, Draw { blocks: second, runs: of_second }]
            })
            .collect();
        for with_runs in [true, false] {
            if !with_runs && !has_repeats {
                continue;
            }
            let chosen: Vec<[Vec<(usize, u64)>; 2]> = drawn
                .iter()
                .map(|draws| [draws[0].chosen(with_runs), draws[1].chosen(with_runs)])
                .collect();
            for open in open.iter_mut() {
                let statistic: Statistic = open.row.metric.statistic();
                let value = |side: usize| {
                    let chosen = &chosen[open.urn][side];
                    let value = ladders[open.ladder][side].value(statistic, chosen);
                    value.map(|value| floored(open.row.metric, value))
                };
                // A redrawing without any such request says nothing about its figure.
                let log = match (value(0), value(1)) {
                    (Some(baseline), Some(other)) => (other / baseline).ln(),
                    _ => open.replicates.observed,
                };
                let kept = if with_runs {
                    &mut open.replicates.total
                } else {
                    &mut open.replicates.blocks
                };
                kept.push(log);
            }
        }
    }
}

fn judge(sides: Sides<'_>, urns: &[Urn], open: &[Open], settings: &Settings) -> Vec<Row> {
    let beyond = sides.groups.iter().map(|runs| runs.len().saturating_sub(1)).sum();
    let spreads: Vec<_> = open
        .iter()
        .map(|open| {
            let stretches = urns[open.urn].stretches().min(open.spread_over as usize);
            open.replicates.spread(stretches, beyond)
        })
        .collect();
    let mut rows: Vec<Row> = Vec::with_capacity(open.len());
    for (open, spread) in open.iter().zip(&spreads) {
        let mut row = open.row.clone();
        if row.decision != Decision::TooFew && row.metric != Metric::Max {
            row.spread = Some(*spread);
            row.tails = open.replicates.between(0.01);
        }
        rows.push(row);
    }
    // Step by step: proven rows leave the family, and the rest is judged by a smaller one.
    let mut left: Vec<usize> = (0..open.len()).filter(|index| open[*index].is_judged).collect();
    let mut least_chance = 0.0_f64;
    loop {
        let members = left.iter().map(|index| (&open[*index].replicates, spreads[*index]));
        let family = Family::new(members);
        let before = left.len();
        let mut largest = least_chance;
        left.retain(|index| {
            let (row, spread) = (&mut rows[*index], spreads[*index]);
            let log = open[*index].replicates.observed;
            let width = spread.error * family.critical(settings.level, spread.degrees);
            let [low, high] = open[*index].replicates.between(TAILS);
            let (low, high) = (low.min(log - width), high.max(log + width));
            row.interval = Some([low.exp(), high.exp()]);
            let chance = family.chance(log, spread).max(least_chance);
            row.chance = Some(chance);
            let is_proven = low > 0.0 || high < 0.0;
            if is_proven {
                largest = largest.max(chance);
                if log.abs() >= settings.least_effect.ln_1p() {
                    row.decision =
                        if row.worse_by() > 0.0 { Decision::Worse } else { Decision::Better };
                }
            }
            !is_proven
        });
        least_chance = largest;
        if left.len() == before || left.is_empty() {
            return rows;
        }
    }
}

/// The figures of whole runs: flow and spans of all requests and, if there are several kinds, of
/// each.
pub(super) fn of_whole(sides: Sides<'_>) -> Vec<Asked> {
    let Some(blocks) = sides.groups[0].first().map(|run| run.blocks.len()) else {
        return Vec::new();
    };
    let kinds = kinds(sides);
    let mut asked = Vec::new();
    let scope = |span, kind| Scope { span, kind, phase: None, size: None };
    for span in [Span::Service, Span::Response, Span::Lateness] {
        for kind in &kinds {
            let is_judged = span != Span::Lateness;
            let metrics: &[Metric] = &Metric::OF_SPANS;
            asked.push(Asked {
                scope: scope(Some(span), *kind),
                metrics,
                blocks: 0..blocks,
                is_judged,
            });
        }
    }
    for kind in &kinds {
        let metrics: &[Metric] = &Metric::OF_FLOW;
        asked.push(Asked {
            scope: scope(None, *kind),
            metrics,
            blocks: 0..blocks,
            is_judged: true,
        });
    }
    asked
}

/// All requests and, where both sides have several kinds, each kind.
pub(super) fn kinds(sides: Sides<'_>) -> Vec<Option<Kind>> {
    let there = common(sides);
    let each = if there.len() > 1 { there } else { Vec::new() };
    [None].into_iter().chain(each.into_iter().map(Some)).collect()
}

/// The kinds that both sides have.
pub(super) fn common(sides: Sides<'_>) -> Vec<Kind> {
    let both = |kind: &Kind| sides.groups.iter().all(|runs| runs.iter().any(|run| run.has(*kind)));
    Kind::ALL.into_iter().filter(both).collect()
}
