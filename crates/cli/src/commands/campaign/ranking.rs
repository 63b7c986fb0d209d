//! The values of an axis in groups that are not told apart.
//!
//! Of three devices one always has the lowest figure. Whether that is more than chance says the
//! comparison of `ioecho compare`: blocks of time and whole runs are drawn anew, and all
//! comparisons are one family. Neighbours in the order that are nowhere told apart share a group.

use std::collections::{BTreeMap, BTreeSet};

use ioecho_campaign::executor::Executor;
use ioecho_campaign::rows::{Row, points, rows};
use ioecho_report::CampaignTable;
use ioecho_stats::compare::Word;
use ioecho_stats::verdict::Validity;

use super::report::FIGURE;
use super::store::Store;
use crate::commands::compare::judged;

/// The most points at which values are compared, and the most runs in all comparisons: each is read
/// whole.
const POINTS_MAX: usize = 8;
const RUNS_MAX: usize = 160;

/// The runs of each value at a point.
type AtPoint<'e> = BTreeMap<&'e str, Vec<Row<'e>>>;

/// The ranking; without rows if there is nothing to rank.
pub(super) fn table(executor: &Executor<'_>, store: &Store) -> CampaignTable {
    let empty = CampaignTable::default();
    let Some(axis) = ranked(executor) else { return empty };
    let mut rows = rows(executor);
    let useless = useless(&rows, axis);
    rows.retain(|row| value_of(row, axis).is_none_or(|value| !useless.contains(value)));
    let common = common(executor, &rows, axis, useless.len());
    let values: Vec<&str> =
        common.first().map(|it| it.keys().copied().collect()).unwrap_or_default();
    if values.len() < 2 {
        return empty;
    }
    let mut order: Vec<(&str, f64)> =
        values.iter().filter_map(|value| Some((*value, mean_log(&common, value)?))).collect();
    order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let family = common.len() * order.len().saturating_sub(1);
    let (mut group, mut told) = (1, Vec::new());
    for (place, (value, log)) in order.iter().enumerate() {
        let mut remark = String::new();
        if let Some((before, _)) = place.checked_sub(1).map(|at| order[at]) {
            match compared(&common, store, before, value, family) {
                Ok((0, 0)) => remark = format!("not told apart from {before}"),
                Ok((slower, faster)) => {
                    group += 1;
                    let points = common.len();
                    let also =
                        if faster > 0 { format!(", faster at {faster}") } else { String::new() };
                    remark = format!("slower than {before} at {slower} of {points} points{also}");
                }
                Err(error) => {
                    group += 1;
                    remark = format!("not comparable with {before}: {error}");
                }
            }
        }
        let words = ioecho_trace::Nanos(log.exp() as i64);
        told.push((format!("{group}. {axis} {value}"), words.to_string(), remark));
    }
    for value in useless {
        let why = "not ranked: it has a run whose figures may not be used".to_owned();
        told.push((format!("– {axis} {value}"), String::new(), why));
    }
    CampaignTable {
        heading: "Which is faster".to_owned(),
        remark: format!(
            "{FIGURE}, the geometric mean over {} that all have in common; equal numbers are not \
             told apart",
            if common.len() == 1 {
                "the point".to_owned()
            } else {
                format!("{} points", common.len())
            }
        ),
        rows: told,
    }
}

/// The axis that is ranked: the device, or the first of several values that is not climbed.
fn ranked<'e>(executor: &'e Executor<'_>) -> Option<&'e str> {
    let file = &executor.plan().file;
    let climbed = file.ladder.as_ref().map(|ladder| ladder.axis.as_str());
    let fits = |name: &&str| {
        let axis = file.axis(name);
        Some(*name) != climbed && axis.is_some_and(|axis| (2..=12).contains(&axis.values.len()))
    };
    let names = file.axis_names();
    // Another load is another question, not a better answer.
    let device = names.iter().copied().find(|name| *name == "device").filter(fits);
    device.or_else(|| names.into_iter().filter(|name| *name != "trace").find(fits))
}

/// The value of an axis in this row.
fn value_of<'e>(row: &Row<'e>, axis: &str) -> Option<&'e str> {
    let of_axis = row.cell.point.iter().find(|(name, _)| name == axis);
    of_axis.map(|(_, value)| value.as_str())
}

/// The values with a run whose figures are not its device's: many failed requests are soon done.
fn useless<'e>(rows: &[Row<'e>], axis: &str) -> BTreeSet<&'e str> {
    let is_invalid =
        |row: &&Row<'_>| row.done.is_some_and(|(_, it)| it.validity == Validity::Invalid);
    rows.iter().filter(is_invalid).filter_map(|row| value_of(row, axis)).collect()
}

/// The points at which every value but so many `apart` has results; of a ladder only the highest
/// step of each.
fn common<'e>(
    executor: &'e Executor<'_>,
    rows: &[Row<'e>],
    axis: &str,
    apart: usize,
) -> Vec<AtPoint<'e>> {
    let ladder = executor.plan().file.ladder.as_ref();
    let count = executor.plan().file.axis(axis).map_or(0, |axis| axis.values.len());
    let count = count.saturating_sub(apart);
    let mut at_points: BTreeMap<Vec<(&str, &str)>, AtPoint<'e>> = BTreeMap::new();
    for (_, repeats) in points(rows) {
        let done: Vec<Row<'e>> = repeats.into_iter().filter(|row| row.done.is_some()).collect();
        let Some(first) = done.first() else { continue };
        let point = first.cell.point.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let (its, others): (Vec<_>, Vec<_>) = point.partition(|(name, _)| *name == axis);
        if let [(_, value)] = its[..] {
            at_points.entry(others).or_default().insert(value, done);
        }
    }
    at_points.retain(|_, values| values.len() == count);
    let mut highest: BTreeMap<Vec<(&str, &str)>, (f64, AtPoint<'e>)> = BTreeMap::new();
    for (point, values) in at_points {
        let is_climbed = |name: &str| ladder.is_some_and(|ladder| ladder.axis == name);
        let climbed = point.iter().find(|(name, _)| is_climbed(name));
        let height = climbed.and_then(|(_, value)| value.parse::<f64>().ok()).unwrap_or(0.0);
        let branch: Vec<_> = point.iter().copied().filter(|(name, _)| !is_climbed(name)).collect();
        let is_higher = highest.get(&branch).is_none_or(|(other, _)| height > *other);
        if is_higher {
            highest.insert(branch, (height, values));
        }
    }
    let mut runs = 0;
    let few = highest.into_values().map(|(_, values)| values).take(POINTS_MAX);
    few.take_while(|values| {
        runs += values.values().map(Vec::len).sum::<usize>();
        runs <= RUNS_MAX
    })
    .collect()
}

/// The mean logarithm of the figure of a value.
fn mean_log(common: &[AtPoint<'_>], value: &str) -> Option<f64> {
    let mut logs = Vec::new();
    for row in common.iter().filter_map(|it| it.get(value)).flatten() {
        let figure = row.done?.1.figures.get(FIGURE).copied().filter(|it| *it > 0.0)?;
        logs.push(figure.ln());
    }
    (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
}

/// At how many points a value is slower than the one before it, and at how many it is faster.
fn compared(
    common: &[AtPoint<'_>],
    store: &Store,
    before: &str,
    value: &str,
    family: usize,
) -> anyhow::Result<(usize, usize)> {
    let (mut slower, mut faster) = (0, 0);
    for at_point in common {
        let runs = |value: &str| -> Vec<String> {
            let rows = at_point.get(value).into_iter().flatten();
            let path = |run: String| store.path().join(run).display().to_string();
            rows.filter_map(|row| row.run().map(path)).collect()
        };
        let (one, other) = (runs(before), runs(value));
        let (compared, _) = judged(&[(before, &one), (value, &other)], &[], family)?;
        match compared.pairs.first().map(|pair| pair.word) {
            Some(Word::Slower) => slower += 1,
            Some(Word::Faster) => faster += 1,
            Some(Word::Mixed) => {
                slower += 1;
                faster += 1;
            }
            Some(Word::NotToldApart) | None => {}
        }
    }
    Ok((slower, faster))
}
