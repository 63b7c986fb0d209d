//! The replays within one cell: steps with nothing in between, and rounds until a steady state.
//!
//! A cold cache and a hot one, or the shares of reads of SNIA's performance test: such replays
//! mean something only in their order and without a pause, so they are one cell, which is done as
//! a whole or not at all. What runs next follows from the results so far.

use std::collections::BTreeMap;

use ioecho_stats::steady::{self, WINDOW};
use ioecho_stats::verdict::{Finding, Grade};

use crate::attempt::{Measured, Rounds, STEADY};
use crate::expression::Rule;
use crate::plan::Cell;

/// What is done next in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The replay of this number, counted from 0, in this round, counted from 1.
    Run(usize, u32),
    /// The cell has its result.
    Over(Box<Measured>),
}

/// What is done after these results of replays, in their order.
pub fn next(cell: &Cell, results: &[Measured]) -> Next {
    let parts = cell.parts.len().max(1);
    if cell.parts.is_empty()
        && let Some(result) = results.first()
    {
        return Next::Over(Box::new(result.clone()));
    }
    // Behind a fault the others would not follow what they ought to follow.
    if let Some(last) = results.last().filter(|it| ends_a_cell(it)) {
        return Next::Over(Box::new(last.clone()));
    }
    let rounds = results.len() / parts;
    let open = Next::Run(results.len() % parts, rounds as u32 + 1);
    if !results.len().is_multiple_of(parts) || results.is_empty() {
        return open;
    }
    let Some(repeated) = &cell.identity.rounds else {
        return Next::Over(Box::new(joined(results, parts, 0..1)));
    };
    let of_round = |round: &[Measured]| round[repeated.part].figures.get(&repeated.figure).copied();
    // A round without the figure is steady in no window.
    let figures: Vec<f64> =
        results.chunks(parts).map(|round| of_round(round).unwrap_or(f64::NAN)).collect();
    let steady = steady::pts(&figures);
    if steady.is_none() && rounds < repeated.max as usize {
        return open;
    }
    let first = steady.map_or(rounds.saturating_sub(WINDOW), |steady| steady.first_round);
    let mut whole = joined(results, parts, first..(first + WINDOW).min(rounds));
    let grade = if steady.is_some() { Grade::Pass } else { Grade::Suspect };
    for part in &mut whole.parts {
        part.checks.insert(STEADY.to_owned(), grade);
    }
    whole.checks.insert(STEADY.to_owned(), grade);
    // JSON has no number that is none.
    let figures = figures.into_iter().map(|it| if it.is_finite() { it } else { 0.0 }).collect();
    whole.rounds = Some(Rounds { figures, steady });
    Next::Over(Box::new(whole))
}

/// The directory of a replay, below that of the attempt.
pub fn directory(cell: &Cell, part: usize, round: u32) -> String {
    match (cell.parts.is_empty(), &cell.identity.rounds) {
        (true, _) => "run".to_owned(),
        (false, None) => format!("run-{}", part + 1),
        (false, Some(_)) => format!("run-{round:02}-{}", part + 1),
    }
}

/// The last round of a cell's result.
pub fn last_round(measured: &Measured) -> u32 {
    measured.rounds.as_ref().map_or(1, |rounds| rounds.figures.len() as u32)
}

fn ends_a_cell(result: &Measured) -> bool {
    result.fault().is_some() || matches!(result.finding, Finding::DataDamaged | Finding::Incomplete)
}

/// The result of a cell: of each of its replays the mean figures over a window of rounds.
fn joined(results: &[Measured], parts: usize, window: std::ops::Range<usize>) -> Measured {
    let means = (0..parts).map(|part| {
        let rounds = results.chunks(parts).skip(window.start).take(window.len());
        let rounds: Vec<&Measured> = rounds.map(|round| &round[part]).collect();
        let mut mean = worst(&rounds);
        let mut figures: BTreeMap<String, f64> = BTreeMap::new();
        for (name, value) in rounds.first().into_iter().flat_map(|first| &first.figures) {
            let others = rounds.iter().filter_map(|round| round.figures.get(name));
            let values: Vec<f64> = others.copied().collect();
            // A figure that a round lacks has no mean over the window.
            let is_whole = values.len() == rounds.len();
            let sum = if values.len() == 1 { *value } else { values.iter().sum() };
            if is_whole {
                figures.insert(name.clone(), sum / values.len() as f64);
            }
        }
        mean.figures = figures;
        mean
    });
    let means: Vec<Measured> = means.collect();
    let mut whole = worst(&means.iter().collect::<Vec<_>>());
    whole.parts = means;
    whole
}

/// The worst finding, validity and checks of several results; without figures.
fn worst(results: &[&Measured]) -> Measured {
    let rank = |finding: Finding| Finding::ALL.iter().position(|other| *other == finding);
    let mut worst = Measured::nothing();
    for (number, result) in results.iter().enumerate() {
        if number == 0 || rank(result.finding) > rank(worst.finding) {
            worst.finding = result.finding;
            worst.summary.clone_from(&result.summary);
        }
        worst.validity = worst.validity.max(result.validity);
        for (name, grade) in &result.checks {
            let known = worst.checks.entry(name.clone()).or_insert(*grade);
            *known = (*known).max(*grade);
        }
    }
    worst
}

/// Whether a condition holds of one of the replays of a cell.
pub fn holds_of_any(rule: &Rule, cell: &Cell, measured: &Measured) -> bool {
    each(cell, measured).any(|(cell, measured)| holds(rule, cell, measured))
}

/// Whether a condition holds of every replay of a cell.
pub fn holds_of_all(rule: &Rule, cell: &Cell, measured: &Measured) -> bool {
    against(rule, cell, measured).next().is_none()
}

/// The replays of a cell of which a condition does not hold.
pub fn against<'e>(
    rule: &'e Rule,
    cell: &'e Cell,
    measured: &'e Measured,
) -> impl Iterator<Item = &'e Measured> {
    let against = each(cell, measured).filter(|(cell, measured)| !holds(rule, cell, measured));
    against.map(|(_, measured)| measured)
}

fn holds(rule: &Rule, cell: &Cell, measured: &Measured) -> bool {
    rule.holds(&|name: &str| cell.setting(name), Some(measured))
}

fn each<'e>(
    cell: &'e Cell,
    measured: &'e Measured,
) -> impl Iterator<Item = (&'e Cell, &'e Measured)> {
    cell.replays().iter().zip(results(cell, measured))
}

/// The results of the replays of a cell.
pub fn results<'e>(cell: &Cell, measured: &'e Measured) -> Vec<&'e Measured> {
    // A result that ended a cell early, such as damaged data, has no parts.
    let is_one = cell.parts.is_empty() || measured.parts.is_empty();
    if is_one { vec![measured] } else { measured.parts.iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::plan;

    fn result(iops: f64) -> Measured {
        let figures = [("iops".to_owned(), iops)].into();
        Measured { figures, ..Measured::nothing() }
    }

    const HEAD: &str = "name='x'\n[devices]\na='sim:a'\n[replay]\ndevice='a'\ntrace='t'\n";

    #[test]
    fn steps_run_in_their_order_and_are_one_result() {
        let plan = plan(&format!(
            "{HEAD}[[step]]\nname='cold'\n[[step]]\nname='hot'\nset={{speedup=2}}\n"
        ));
        let [cell] = &plan.cells[..] else { panic!() };
        assert_eq!(cell.parts[1].setting("speedup").as_deref(), Some("2"));
        assert_eq!(cell.parts[1].setting("step").as_deref(), Some("hot"));
        assert_eq!(next(cell, &[]), Next::Run(0, 1));
        assert_eq!(next(cell, &[result(5.0)]), Next::Run(1, 1));
        let Next::Over(whole) = next(cell, &[result(5.0), result(9.0)]) else { panic!() };
        let iops: Vec<f64> = whole.parts.iter().map(|part| part.figures["iops"]).collect();
        assert_eq!((iops, directory(cell, 1, 1).as_str()), (vec![5.0, 9.0], "run-2"));
        // A cold run in which the host stalled is followed by no hot one.
        let stalled = Measured { finding: Finding::HostStalled, ..result(5.0) };
        assert_eq!(next(cell, std::slice::from_ref(&stalled)), Next::Over(Box::new(stalled)));
    }

    const ROUNDS: &str = "[rounds]\naxes.speedup=[1,2]\nmax=8\n\
        steady={figure='iops',at={speedup=2}}\n";

    /// Runs a cell to its end; `iops` tells the figure of a replay in a round.
    fn lived(cell: &Cell, iops: impl Fn(usize, u32) -> f64) -> (Measured, usize) {
        let mut results = Vec::new();
        loop {
            match next(cell, &results) {
                Next::Run(part, round) => results.push(result(iops(part, round))),
                Next::Over(whole) => return (*whole, results.len()),
            }
        }
    }

    #[test]
    fn rounds_end_in_a_steady_state_and_figures_are_means_over_its_window() {
        let plan = plan(&format!("{HEAD}{ROUNDS}"));
        let [cell] = &plan.cells[..] else { panic!() };
        assert_eq!(cell.parts.len(), 2);
        // A device that slows down: 100, 80, then 50 and a bit.
        let slows = |part: usize, round: u32| match (part, round) {
            (1, 1) => 100.0,
            (1, 2) => 80.0,
            (_, round) => 50.0 + f64::from(round % 2),
        };
        let (whole, runs) = lived(cell, slows);
        let rounds = whole.rounds.clone().unwrap();
        assert_eq!((runs, rounds.figures.len()), (14, 7));
        assert_eq!(rounds.steady.map(|it| it.first_round), Some(2));
        assert!((whole.parts[1].figures["iops"] - 50.6).abs() < 1e-9);
        assert_eq!(whole.checks["steady"], Grade::Pass);
    }

    #[test]
    fn what_never_becomes_steady_ends_and_says_so() {
        let plan = plan(&format!("{HEAD}{ROUNDS}"));
        let (whole, runs) = lived(&plan.cells[0], |_, round| f64::from(round * round));
        assert_eq!((runs, whole.rounds.clone().unwrap().steady), (16, None));
        assert_eq!(whole.parts[0].checks["steady"], Grade::Suspect);
    }
}
