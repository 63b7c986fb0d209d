//! The answer of a campaign: one sentence, and what it rests on.
//!
//! The sentence claims no more than what was measured. What failed, was skipped or is missing is
//! counted beside it, and a ranking whose worst case is unknown says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ioecho_stats::verdict::Validity;
use serde::{Deserialize, Serialize};

use crate::attempt::{End, Measured};
use crate::course::{against, holds_of_any, last_round};
use crate::executor::{Executor, State};
use crate::expression::Rule;
use crate::rows::{interval_of, points, rows};
use crate::search::Next;

/// The version of the JSON of a conclusion.
pub const CONCLUSION_VERSION: u32 = 1;

/// The answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conclusion {
    /// [`CONCLUSION_VERSION`].
    pub version: u32,
    /// The name of the campaign.
    pub name: String,
    /// The answer in a sentence.
    pub sentence: String,
    /// How many cells have which state.
    pub counts: Counts,
    /// How many results have which finding, or `invalid` ([`Measured::word`]).
    pub findings: BTreeMap<String, usize>,
    /// How far each branch was climbed.
    pub climbs: Vec<Climb>,
    /// The values of an axis, by how far the worst of their climbs goes; the farthest first.
    pub ranking: Vec<Rank>,
    /// The results of searches.
    pub searches: Vec<Searched>,
    /// Runs for which an expectation does not hold.
    pub broken: Vec<Broken>,
    /// Cells without a result, and why.
    pub failed: Vec<(String, String)>,
    /// Cells whose figures may not be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid: Vec<(String, String)>,
    /// How many attempts beyond the first were made because of faults of the measurement.
    pub retried: usize,
    /// How many cells did not become steady in all their rounds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsteady: usize,
    /// The comparison with the kept campaign, point by point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub against: Vec<Against>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Conclusion {
    /// How many results have figures that may not be used.
    pub fn useless(&self) -> usize {
        self.findings.get(Validity::Invalid.name()).copied().unwrap_or(0)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(it: &bool) -> bool {
    !*it
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// A point of the campaign, compared with the kept one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Against {
    /// The point.
    pub point: Vec<(String, String)>,
    /// How many runs of the kept campaign and of this one were compared.
    pub runs: [usize; 2],
    /// The outcome in a sentence.
    pub conclusion: String,
    /// The criteria that are met; a criterion whose figure was not measured counts as met.
    pub met: Vec<String>,
}

/// How many cells have which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All cells.
    pub cells: usize,
    /// Those with a result.
    pub done: usize,
    /// Those that have no result after all attempts.
    pub failed: usize,
    /// Those that were not run because a lower one met the condition of the ladder.
    pub skipped: usize,
    /// Those that were not run yet.
    pub missing: usize,
    /// Those that a rule leaves out; they are in none of the other counts.
    pub left_out: usize,
}

/// How far a branch was climbed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Climb {
    /// The point of the branch.
    pub point: Vec<(String, String)>,
    /// For each repeat the highest value at which the condition was seen not to hold; `None` if
    /// there is none.
    pub highest: Vec<Option<String>>,
    /// For each repeat whether it ends there: it met the condition at the next value, or there is
    /// no higher one. Others go on as soon as what is missing is measured.
    pub ends: Vec<bool>,
    /// Whether all repeats end.
    pub is_complete: bool,
}

/// A value of an axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rank {
    /// The axis.
    pub axis: String,
    /// Its value.
    pub value: String,
    /// The highest value of the climbed axis up to which none of its climbs was seen to meet the
    /// condition; `None` if there is none.
    pub highest: Option<String>,
    /// Whether that is the highest value of the file.
    pub is_top: bool,
    /// Whether one of its climbs ends there, so that no result that is missing can change it.
    pub is_complete: bool,
}

/// The result of a search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Searched {
    /// The point of the branch.
    pub point: Vec<(String, String)>,
    /// The result; `None` if there is none yet.
    pub found: Option<Next>,
}

/// An expectation that does not hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Broken {
    /// The cell, or the point.
    pub cell: String,
    /// The expectation, as it was written.
    pub that: String,
    /// Whether it holds at one end of the interval of the repeats and not at the other.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_in_doubt: bool,
    /// Figures that it asks for and no replay told, such as the p99 of few requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

impl Broken {
    /// The expectation, and why it does not hold where no figure is against it.
    pub fn told(&self) -> String {
        let mut told = self.that.clone();
        if self.is_in_doubt {
            told.push_str(" (over the whole interval)");
        }
        if !self.unknown.is_empty() {
            let (unknown, is) = (self.unknown.join(", "), are(self.unknown.len()));
            let _ = write!(told, " ({unknown} {is} not known: too few requests, or none)");
        }
        told
    }
}

/// The answer after what is known now.
pub fn conclude(executor: &Executor<'_>) -> Conclusion {
    let plan = executor.plan();
    let climbs = climbs(executor);
    let ranking = ranking(executor, &climbs);
    let all = || executor.cells().iter().zip(executor.states());
    let mut counts =
        Counts { cells: executor.cells().len(), left_out: plan.left_out, ..Counts::default() };
    let mut findings: BTreeMap<String, usize> = BTreeMap::new();
    let (mut broken, mut failed, mut unsteady) = (Vec::new(), Vec::new(), 0);
    let mut invalid = Vec::new();
    for (cell, state) in all() {
        match state {
            State::Missing | State::Running => counts.missing += 1,
            State::Skipped(_) => counts.skipped += 1,
            State::Failed(reason) => {
                counts.failed += 1;
                failed.push((cell.name(), reason.clone()));
            }
            State::Done(_, measured) => {
                counts.done += 1;
                *findings.entry(measured.word().to_owned()).or_default() += 1;
                unsteady += usize::from(is_unsteady(measured));
                if measured.is_useless() {
                    invalid.push((cell.name(), measured.why_useless()));
                }
                for expectation in plan.file.expectations.iter().filter(|it| !it.of_point) {
                    let against: Vec<_> = against(&expectation.that, cell, measured).collect();
                    if !against.is_empty() {
                        broken.push(Broken {
                            cell: cell.name(),
                            that: expectation.that.text().to_owned(),
                            is_in_doubt: false,
                            unknown: unknown(&expectation.that, against),
                        });
                    }
                }
            }
        }
    }
    broken.extend(of_points(executor));
    let searches = plan.branches.iter().zip(executor.found());
    let searches = searches.map(|(point, found)| Searched { point: point.clone(), found: *found });
    let searches = if plan.file.search.is_some() { searches.collect() } else { Vec::new() };
    let mut conclusion = Conclusion {
        version: CONCLUSION_VERSION,
        name: plan.file.name.clone(),
        sentence: String::new(),
        counts,
        findings,
        climbs,
        ranking,
        searches,
        broken,
        failed,
        invalid,
        retried: retried(executor),
        unsteady,
        against: Vec::new(),
    };
    conclusion.sentence = sentence(&conclusion, executor);
    conclusion
}

/// Whether rounds came to no steady state.
fn is_unsteady(measured: &Measured) -> bool {
    measured.rounds.as_ref().is_some_and(|rounds| rounds.steady.is_none())
}

/// The figures that a rule asks for and one of these results has not.
fn unknown<'e>(rule: &Rule, of: impl IntoIterator<Item = &'e Measured>) -> Vec<String> {
    let lacking = of.into_iter().flat_map(|measured| rule.unknown(measured));
    lacking.map(str::to_owned).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Expectations of points that do not hold over the whole interval of their repeats.
fn of_points(executor: &Executor<'_>) -> Vec<Broken> {
    let expectations = &executor.plan().file.expectations;
    let expectations: Vec<_> = expectations.iter().filter(|it| it.of_point).collect();
    if expectations.is_empty() {
        return Vec::new();
    }
    let mut broken = Vec::new();
    for (point, rows) in points(&rows(executor)) {
        let ends = interval_of(&rows);
        let Some(first) = rows.first().filter(|_| !ends[0].figures.is_empty()) else { continue };
        for expectation in &expectations {
            let setting = |name: &str| first.cell.setting(name);
            let holds = ends.each_ref().map(|it| expectation.that.holds(&setting, Some(it)));
            if holds.contains(&false) {
                broken.push(Broken {
                    cell: point.clone(),
                    that: expectation.that.text().to_owned(),
                    is_in_doubt: holds.contains(&true),
                    unknown: unknown(&expectation.that, &ends),
                });
            }
        }
    }
    broken
}

fn retried(executor: &Executor<'_>) -> usize {
    let attempts = executor.cells().iter().filter_map(|cell| executor.attempts(cell));
    let faults = attempts.map(|attempts| {
        let is_fault = |end: &&End| match end {
            End::Fault(_) => true,
            End::Measured(measured) => measured.fault().is_some(),
            End::Failed(_) | End::Stopped => false,
        };
        let faults = attempts.values().filter(is_fault).count();
        faults.min(attempts.len().saturating_sub(1))
    });
    faults.sum()
}

/// The results of the cells of a branch in a repeat, from the lowest value of the climbed axis on.
fn climbs(executor: &Executor<'_>) -> Vec<Climb> {
    let plan = executor.plan();
    let Some(ladder) = &plan.file.ladder else { return Vec::new() };
    let repeats = plan.file.repeats as usize;
    let branches = plan.branches.iter();
    let mut climbs: Vec<Climb> = branches
        .map(|point| Climb {
            point: point.clone(),
            highest: vec![None; repeats],
            ends: vec![true; repeats],
            is_complete: true,
        })
        .collect();
    let mut is_over = vec![vec![false; repeats]; climbs.len()];
    for (cell, state) in executor.cells().iter().zip(executor.states()) {
        let repeat = cell.repeat as usize - 1;
        let (climb, is_over) = (&mut climbs[cell.branch], &mut is_over[cell.branch][repeat]);
        match state {
            _ if *is_over => {}
            State::Done(_, measured) if holds_of_any(&ladder.stop, cell, measured) => {
                *is_over = true;
            }
            State::Done(..) => climb.highest[repeat] = cell.setting(&ladder.axis),
            State::Missing | State::Running | State::Failed(_) | State::Skipped(_) => {
                *is_over = true;
                climb.ends[repeat] = false;
                climb.is_complete = false;
            }
        }
    }
    climbs
}

/// The axis that is ranked: the device, or the first of several values.
fn ranked<'e>(executor: &'e Executor<'_>) -> Option<&'e str> {
    let file = &executor.plan().file;
    let climbed = &file.ladder.as_ref()?.axis;
    let mut several =
        file.axes.iter().filter(|axis| axis.values.len() > 1 && axis.name != *climbed);
    let device = file.axis("device").filter(|axis| axis.values.len() > 1);
    device.or_else(|| several.next()).map(|axis| axis.name.as_str())
}

fn ranking(executor: &Executor<'_>, climbs: &[Climb]) -> Vec<Rank> {
    let file = &executor.plan().file;
    let (Some(axis), Some(ladder)) = (ranked(executor), &file.ladder) else { return Vec::new() };
    // The values of the climbed axis from the lowest on, as they stand in a branch.
    let mut values: Vec<String> = Vec::new();
    for value in executor.cells().iter().filter_map(|cell| cell.setting(&ladder.axis)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let height = |value: &Option<String>| {
        value
            .as_ref()
            .and_then(|value| values.iter().position(|other| other == value))
            .map_or(0, |at| at + 1)
    };
    let of_file = file.axis(axis).map_or(&[][..], |axis| &axis.values);
    let mut ranking: Vec<Rank> = of_file
        .iter()
        .map(|(value, _)| {
            let is_its =
                |climb: &&Climb| climb.point.iter().any(|(name, its)| name == axis && its == value);
            let climbs = climbs.iter().filter(is_its);
            let repeats = climbs.flat_map(|climb| climb.highest.iter().zip(&climb.ends));
            // One that ends comes before one of the same height that may go on.
            let lowest = repeats.min_by_key(|(it, ends)| (height(it), !**ends));
            let (highest, is_complete) =
                lowest.map_or((None, false), |(it, ends)| (it.clone(), *ends));
            Rank {
                axis: axis.to_owned(),
                value: value.clone(),
                is_top: highest.is_some() && highest.as_ref() == values.last(),
                highest,
                is_complete,
            }
        })
        .collect();
    ranking.sort_by_key(|rank| std::cmp::Reverse(height(&rank.highest)));
    ranking
}

/// The answer in a sentence.
fn sentence(conclusion: &Conclusion, executor: &Executor<'_>) -> String {
    let file = &executor.plan().file;
    let Counts { cells, done, failed, missing, .. } = conclusion.counts;
    let mut sentence = if let (Some(ladder), false) = (&file.ladder, conclusion.ranking.is_empty())
    {
        let told: Vec<String> =
            conclusion.ranking.iter().map(|rank| ranked_words(rank, &ladder.axis)).collect();
        format!("{}.", told.join("; "))
    } else if let Some(search) = &file.search {
        let told =
            conclusion.searches.iter().map(|searched| searched_words(searched, &search.axis));
        let told: Vec<String> = told.collect();
        format!("'{}': {}.", search.until.text(), told.join("; "))
    } else {
        let findings = conclusion.findings.iter().map(|(name, count)| format!("{count} {name}"));
        let findings: Vec<String> = findings.collect();
        let told =
            if findings.is_empty() { String::new() } else { format!(": {}", findings.join(", ")) };
        format!("{done} of {cells} cells have a result{told}.")
    };
    let (broken, have) = (conclusion.broken.len(), |n| if n == 1 { "has" } else { "have" });
    let mut also = |count: usize, told: String| {
        if count > 0 {
            sentence.push_str(&told);
        }
    };
    let no_result = have(failed);
    also(failed, format!(" {failed} of {cells} cells {no_result} no result after all attempts."));
    also(missing, format!(" {missing} of {cells} cells {} not run yet.", have(missing)));
    also(broken, format!(" {broken} times an expectation does not hold."));
    let unsteady = conclusion.unsteady;
    also(unsteady, format!(" {unsteady} of {cells} cells did not become steady."));
    if file.rounds.is_some() && done > 0 {
        let steady = done - conclusion.unsteady;
        let rounds = executor.states().iter().filter_map(|state| match state {
            State::Done(_, measured) => Some(last_round(measured)),
            _ => None,
        });
        let most = rounds.max().unwrap_or(0);
        let _ = write!(sentence, " {steady} of {cells} became steady, within {most} rounds.");
    }
    sentence
}

fn ranked_words(rank: &Rank, climbed: &str) -> String {
    let Rank { axis, value, highest, is_top, is_complete } = rank;
    match highest {
        Some(highest) => {
            let top = if *is_top { ", the highest that was tried" } else { "" };
            let doubt = if *is_complete { "" } else { " or higher, not all of which was measured" };
            format!("{axis} {value} goes up to {climbed} {highest}{top}{doubt}")
        }
        None if *is_complete => format!("{axis} {value} does not take the lowest {climbed}"),
        None => format!("how far {axis} {value} goes is not known"),
    }
}

fn searched_words(searched: &Searched, axis: &str) -> String {
    let point: Vec<String> =
        searched.point.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    let found = match searched.found {
        Some(Next::Between(low, high)) => format!("begins between {axis} {low} and {high}"),
        Some(Next::Below(low)) => format!("holds at {axis} {low} already, the lowest"),
        Some(Next::Above(high)) => format!("does not hold up to {axis} {high}, the highest"),
        Some(Next::Changed(value)) => {
            format!("was answered differently at {axis} {value} later, so nothing is claimed")
        }
        Some(Next::Try(_)) | None => "has no answer yet".to_owned(),
    };
    point.concat() + &found
}
