//! The comparison with a kept campaign, point by point.
//!
//! A test that runs every night must tell a change from chance. So the runs of each point are
//! compared with those that the kept campaign has at the same point, by the comparison of `ioecho
//! compare`; all points and criteria are one family.

use std::collections::BTreeMap;
use std::path::Path;

use ioecho_campaign::attempt::End;
use ioecho_campaign::conclusion::{Against, Conclusion};
use ioecho_campaign::executor::{Attempts, Executor};
use ioecho_campaign::file::File;
use ioecho_campaign::place::Refused;
use ioecho_campaign::rows::{points, rows};
use ioecho_stats::compare::Criterion;

use super::store::Store;
use crate::commands::compare::{is_met, judged};
use crate::exit::{self, Coded};

/// The directories of runs by their points.
type RunsOfPoints = BTreeMap<Vec<(String, String)>, Vec<String>>;

/// Refuses criteria that cannot be read.
pub(super) fn check(file: &File) -> anyhow::Result<()> {
    criteria(file).map(drop)
}

/// The kept campaign. It is asked for before anything runs as well: a night would be lost.
pub(super) fn kept(file: &File, base: &Path) -> anyhow::Result<Option<Store>> {
    let Some(baseline) = &file.baseline else { return Ok(None) };
    let kept = Store::open(&base.join(&baseline.campaign));
    let told = |error| Coded::error(exit::USAGE, format!("{}: {error}", baseline.place));
    kept.map(Some).map_err(told)
}

fn criteria(file: &File) -> anyhow::Result<Vec<Criterion>> {
    let typed = file.baseline.iter().flat_map(|baseline| &baseline.fail_if);
    let read = typed.map(|(text, place)| {
        text.parse::<Criterion>().map_err(|error| {
            let help = "write it like 'p99.read > +5%' (docs/compare.md)";
            let refused = Refused::new(place, error.to_string(), help);
            Coded::error(exit::USAGE, refused.to_string())
        })
    });
    read.collect()
}

/// Compares every point that both have, and puts the outcome into the conclusion.
pub(super) fn compare(
    executor: &Executor<'_>,
    store: &Store,
    base: &Path,
    conclusion: &mut Conclusion,
) -> anyhow::Result<()> {
    let file = &executor.plan().file;
    let Some(kept) = kept(file, base)? else { return Ok(()) };
    let before = kept_runs(&kept)?;
    let rows = rows(executor);
    let mut pairs = Vec::new();
    for (_, rows) in points(&rows) {
        let Some(first) = rows.first() else { continue };
        let now: Vec<String> = rows.iter().filter_map(|row| path(store, &row.run()?)).collect();
        let Some(earlier) = before.get(&first.cell.point) else { continue };
        if !now.is_empty() {
            pairs.push((first.cell.point.clone(), earlier.clone(), now));
        }
    }
    if pairs.is_empty() {
        let told = " Nothing could be compared: the kept campaign has no results at these points.";
        conclusion.sentence.push_str(told);
        return Ok(());
    }
    let criteria = criteria(file)?;
    let (family, mut worse) = (pairs.len(), 0);
    for (point, earlier, now) in pairs {
        let groups = [("kept", &earlier[..]), ("now", &now[..])];
        let (compared, outcomes) = judged(&groups, &criteria, family)?;
        let told = compared.pairs.first().map_or("", |pair| pair.conclusion.as_str());
        let met = outcomes.iter().filter(|it| is_met(it)).map(|it| it.criterion.clone());
        let met: Vec<String> = met.collect();
        let name: Vec<String> =
            point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        let name = if name.is_empty() { file.name.clone() } else { name.join(" ") };
        worse += usize::from(!met.is_empty());
        let runs = [earlier.len(), now.len()];
        let told = format!("{name}: {told}");
        conclusion.against.push(Against { point, runs, conclusion: told, met });
    }
    let count = conclusion.against.len();
    let told = if worse == 0 {
        " Against the kept campaign, no criterion is met.".to_owned()
    } else {
        format!(" Against the kept campaign, {worse} of {count} points meet a criterion.")
    };
    conclusion.sentence.push_str(&told);
    Ok(())
}

/// The runs of a kept campaign by their points. Its cells are one replay each.
fn kept_runs(kept: &Store) -> anyhow::Result<RunsOfPoints> {
    let (held, mut runs) = (kept.held(), RunsOfPoints::new());
    for cell in kept.plan()?.cells {
        let Some(attempt) = held.attempts.get(&cell.key).and_then(done) else { continue };
        let run = path(kept, &format!("cells/{}/{attempt}/run", cell.key));
        runs.entry(cell.point).or_default().extend(run);
    }
    Ok(runs)
}

/// The number of the attempt with a result.
fn done(attempts: &Attempts) -> Option<u32> {
    let is_done = |end: &End| match end {
        End::Measured(measured) => measured.fault().is_none(),
        End::Fault(_) | End::Failed(_) | End::Stopped => false,
    };
    attempts.iter().find(|(_, end)| is_done(end)).map(|(number, _)| *number)
}

/// The directory of a run, if it is there.
fn path(store: &Store, run: &str) -> Option<String> {
    let path = store.path().join(run);
    path.is_dir().then(|| path.display().to_string())
}
