//! The runs of a campaign for the charts of its page.

use std::collections::HashMap;

use ioecho_campaign::executor::Executor;
use ioecho_campaign::rows::{Row, points, rows};
use ioecho_report::{CampaignAxis, CampaignData, CampaignFigure, CampaignRun};
use ioecho_stats::trend::trend;
use ioecho_stats::verdict::Validity;
use jiff::Timestamp;

use super::report::{FIGURE, tone};
use super::store::Held;

/// The figures that the page can show, if runs have them, with their units.
const FIGURES: [(&str, &str); 9] = [
    (FIGURE, "ns"),
    ("p99.read.response", "ns"),
    ("p99.write.response", "ns"),
    ("p50.all.response", "ns"),
    ("max.all.response", "ns"),
    ("p99.all.lateness", "ns"),
    ("iops", ""),
    ("mbps", "B/s"),
    ("drain", "%"),
];

/// The most runs of which the trend is looked for; it compares every pair.
const TREND_MAX: usize = 4_000;

/// The data of the charts; `columns` is the axis of the map's columns.
pub(super) fn data(executor: &Executor<'_>, held: &Held, columns: &str) -> CampaignData {
    let rows = rows(executor);
    let mut axes: Vec<CampaignAxis> = Vec::new();
    let mut numbers: HashMap<(usize, &str), usize> = HashMap::new();
    let mut points: Vec<Vec<usize>> = Vec::with_capacity(rows.len());
    for row in &rows {
        let mut point = Vec::new();
        for (at, (name, value)) in row.cell.point.iter().enumerate() {
            if axes.len() == at {
                axes.push(CampaignAxis { name: name.clone(), values: Vec::new() });
            }
            let next = axes[at].values.len();
            let number = *numbers.entry((at, value)).or_insert(next);
            if number == next {
                axes[at].values.push(value.clone());
            }
            point.push(number);
        }
        points.push(point);
    }
    sort(&mut axes, &mut points);
    let has = |name: &str| rows.iter().any(|row| figure(row, name).is_some());
    let figures: Vec<(&str, &'static str)> =
        FIGURES.into_iter().filter(|(name, _)| has(name)).collect();
    let first = rows.iter().filter_map(|row| began(row, held)).min();
    let runs = rows.iter().zip(points).map(|(row, point)| CampaignRun {
        point,
        repeat: row.cell.repeat,
        tone: tone(row.state),
        run: row.run(),
        hours: began(row, held)
            .zip(first)
            .map(|(it, first)| it.duration_since(first).as_secs_f64() / 3600.0),
        figures: figures.iter().map(|(name, _)| figure(row, name)).collect(),
    });
    let several = |at: &usize| axes[*at].values.len() > 1;
    let number = |name: &str| axes.iter().position(|axis| axis.name == name);
    let over = number(columns).filter(several).or_else(|| (0..axes.len()).find(several));
    let by = (0..axes.len()).filter(|at| Some(*at) != over).find(several);
    let or_none = |at: Option<usize>| at.map_or(-1, |at| at as i64);
    CampaignData {
        name: executor.plan().file.name.clone(),
        columns: or_none(over),
        over: or_none(over),
        by: or_none(by),
        figure: 0,
        rows: runs.collect(),
        figures: figures
            .iter()
            .map(|(name, unit)| CampaignFigure { name: (*name).to_owned(), unit })
            .collect(),
        axes,
    }
}

/// Sorts the values of axes that are numbers.
fn sort(axes: &mut [CampaignAxis], points: &mut [Vec<usize>]) {
    for (at, axis) in axes.iter_mut().enumerate() {
        let numbers: Option<Vec<f64>> = axis.values.iter().map(|it| it.parse().ok()).collect();
        let Some(numbers) = numbers else { continue };
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|one, other| numbers[*one].total_cmp(&numbers[*other]));
        axis.values = order.iter().map(|old| axis.values[*old].clone()).collect();
        let mut places = vec![0; order.len()];
        for (new, old) in order.into_iter().enumerate() {
            places[old] = new;
        }
        for point in points.iter_mut() {
            if let Some(value) = point.get_mut(at) {
                *value = places[*value];
            }
        }
    }
}

/// A figure of a replay, if its figures may be used.
pub(super) fn figure(row: &Row<'_>, name: &str) -> Option<f64> {
    let (_, measured) = row.done?;
    let is_usable = measured.validity != Validity::Invalid;
    measured.figures.get(name).copied().filter(|_| is_usable)
}

fn began(row: &Row<'_>, held: &Held) -> Option<Timestamp> {
    let (attempt, _) = row.done?;
    held.clocks.get(&(row.key.to_owned(), attempt))?.started.parse().ok()
}

/// The smallest change over a campaign that makes early and late results differ, as a share.
const DRIFT_MIN: f64 = 0.01;

/// Whether results rise or fall with the time of the campaign, in words.
pub(super) fn drift(executor: &Executor<'_>, held: &Held) -> String {
    let rows = rows(executor);
    let mut shares: Vec<(Timestamp, f64)> = Vec::new();
    for (_, repeats) in points(&rows).into_iter().filter(|(_, repeats)| repeats.len() > 1) {
        let mut values: Vec<f64> = repeats.iter().filter_map(|row| figure(row, FIGURE)).collect();
        values.sort_by(f64::total_cmp);
        let Some(median) = values.get(values.len() / 2).filter(|it| **it > 0.0) else { continue };
        for row in &repeats {
            if let (Some(began), Some(value)) = (began(row, held), figure(row, FIGURE)) {
                shares.push((began, value / median));
            }
        }
    }
    shares.sort_by_key(|(began, _)| *began);
    if shares.len() > TREND_MAX {
        let every = shares.len().div_ceil(TREND_MAX);
        shares = shares.into_iter().step_by(every).collect();
    }
    let values: Vec<f64> = shares.iter().map(|(_, share)| *share).collect();
    match trend(&values) {
        None => "Too few repeats to tell a drift.".to_owned(),
        Some(trend) if trend.tau.abs() < 0.2 => {
            format!("No drift: neither rising nor falling prevails (tau {:.2}).", trend.tau)
        }
        Some(trend) if trend.gain.abs() < DRIFT_MIN => {
            let least = DRIFT_MIN * 100.0;
            format!("No drift: {FIGURE} changes by less than {least} % over the campaign.")
        }
        Some(trend) => format!(
            "{FIGURE} {} by {:.0} % over the campaign (tau {:.2}): what was measured late is not \
             comparable with what was measured early.",
            if trend.gain > 0.0 { "rises" } else { "falls" },
            trend.gain.abs() * 100.0,
            trend.tau
        ),
    }
}
