//! The replays of a campaign, one by one.
//!
//! A cell may be several replays: steps, or the points of a round. Each has coordinates and figures
//! of its own, so tables, maps and comparisons are made of replays, not of cells.

use std::collections::{BTreeMap, HashMap};

use ioecho_stats::repeats::OverRuns;

use crate::attempt::Measured;
use crate::course::{directory, last_round, results};
use crate::executor::{Executor, State};
use crate::plan::Cell;

/// A replay of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Row<'e> {
    /// The key of the cell.
    pub key: &'e str,
    /// The replay: the cell itself, or a part of it.
    pub cell: &'e Cell,
    /// Its number in the cell, counted from 0.
    pub part: usize,
    /// The state of the cell.
    pub state: &'e State,
    /// The number of the attempt, and the result of this replay.
    pub done: Option<(u32, &'e Measured)>,
    whole: &'e Cell,
}

impl Row<'_> {
    /// The directory of the run, below that of the campaign; of rounds the last one's.
    pub fn run(&self) -> Option<String> {
        let (attempt, _) = self.done?;
        let State::Done(_, measured) = self.state else { return None };
        let run = directory(self.whole, self.part, last_round(measured));
        Some(format!("cells/{}/{attempt}/{run}", self.key))
    }
}

/// Every replay of every cell.
pub fn rows<'e>(executor: &'e Executor<'_>) -> Vec<Row<'e>> {
    let mut rows = Vec::new();
    for (whole, state) in executor.cells().iter().zip(executor.states()) {
        for (part, cell) in whole.replays().iter().enumerate() {
            let done = match state {
                State::Done(attempt, measured) => {
                    results(whole, measured).get(part).map(|it| (*attempt, *it))
                }
                _ => None,
            };
            rows.push(Row { key: &whole.key, cell, part, state, done, whole });
        }
    }
    rows
}

/// Rows of one point, over its repeats, in the order of the plan.
pub fn points<'e>(rows: &[Row<'e>]) -> Vec<(String, Vec<Row<'e>>)> {
    let mut numbers: HashMap<&[(String, String)], usize> = HashMap::new();
    let mut points: Vec<(String, Vec<Row<'e>>)> = Vec::new();
    for row in rows {
        let number = *numbers.entry(&row.cell.point).or_insert(points.len());
        if number == points.len() {
            let values = row.cell.point.iter().map(|(axis, value)| format!("{axis}={value}"));
            points.push((values.collect::<Vec<_>>().join(" "), Vec::new()));
        }
        points[number].1.push(*row);
    }
    points
}

/// Results with the lower and with the upper ends of the intervals of all figures over repeats.
pub fn interval_of(rows: &[Row<'_>]) -> [Measured; 2] {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (_, measured) in rows.iter().filter_map(|row| row.done) {
        for (name, value) in &measured.figures {
            values.entry(name).or_default().push(*value);
        }
    }
    let over = |end: fn(OverRuns) -> f64| {
        let ends = values
            .iter()
            .filter_map(|(name, values)| Some(((*name).clone(), end(OverRuns::of(values)?))));
        Measured { figures: ends.collect(), ..Measured::nothing() }
    };
    [over(|it| it.low), over(|it| it.high)]
}
