//! Several runs as one: merging of facts, figures and verdicts.
//!
//! Storage that is loaded from several hosts has one 99th percentile, which no single run knows. So
//! the requests of all runs are counted again; the engines' facts are merged field by field
//! ([`EngineFacts::merge`]). Many of these are a worst or a sum, which says less than the single
//! values. So a merged run keeps the facts and the verdict of each of its single runs, and a
//! further merge starts from those. So the result depends neither on the steps nor, except for the
//! order of lists, on the order of merging; and a run merged with nothing is that run.

mod verdict;

use crate::facts::{EngineFacts, Unlike};
use crate::run_figures::RunFigures;
use crate::run_summary::{MergedRun, RunSummary};

/// The merged facts of the engines of all runs.
///
/// # Errors
///
/// [`Unlike`] where two of the runs had different rules of issue.
pub fn facts(runs: &[MergedRun]) -> Result<EngineFacts, Unlike> {
    let several = runs.len() > 1;
    let mut each = runs.iter().map(|run| {
        let mut engine = run.engine.clone();
        // When the last request was due is an instant, and instants were moved.
        engine.demanded_duration_ns = engine.demanded_duration_ns.saturating_add(run.shift_ns);
        if several && !engine.incomplete.is_empty() {
            engine.incomplete = format!("{}: {}", run.name, engine.incomplete);
        }
        engine
    });
    let mut whole = each.next().unwrap_or_default();
    each.try_for_each(|engine| whole.merge(&engine))?;
    Ok(whole)
}

/// The summary of all runs, from the figures of all their requests.
///
/// # Errors
///
/// [`Unlike`] as for [`facts`].
pub fn summary(runs: Vec<MergedRun>, figures: &RunFigures) -> Result<RunSummary, Unlike> {
    let whole = figures.summary(facts(&runs)?);
    let verdict = verdict::of(&runs, figures, &whole.engine, whole.verdict);
    let merged = if runs.len() > 1 { runs } else { Vec::new() };
    Ok(RunSummary { verdict, merged, ..whole })
}

#[cfg(test)]
mod tests;
