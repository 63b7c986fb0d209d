//! `ioecho run`: the runs of a described workload.

mod execute;
mod show;
mod targets;

use std::cell::Cell;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ioecho_run::verify::later::TargetFindings;
use ioecho_stats::verdict::Finding;
use ioecho_trace::workload::model::General;
use ioecho_trace::workload::plan::{Asked, Leaf, LeafRate, Plan};

use crate::args::RunArgs;
use crate::commands::campaign::described::{Done, Results};
use crate::exit::{self, Coded};
use crate::print::{Out, tell};
use crate::workload::{self, size_of, tell_faults, tell_told};

/// Runs that were done, or had no result.
pub(crate) struct Finished<'f> {
    /// The runs of the plan.
    pub(crate) leaves: &'f [Leaf],
    /// The directory of the results.
    pub(crate) store: &'f Path,
    /// The size of a storage by its name.
    pub(crate) size_of: &'f dyn Fn(&str) -> Option<u64>,
}

/// How a command about runs ended.
pub(crate) enum Ended<'f> {
    /// Runs were done.
    Runs(Finished<'f>),
    /// No run was done, as what earlier ones wrote was only to be read back, or is damaged.
    ReadBack {
        /// The directory of the results.
        store: &'f Path,
        /// What was found.
        found: &'f [TargetFindings],
    },
}

/// What is done at the end.
pub(crate) type Then<'t> = &'t dyn Fn(&Ended<'_>) -> anyhow::Result<()>;

/// Runs that are named where their rates were not reached.
const NAMED_MAX: usize = 5;

pub(crate) fn run(args: &RunArgs, out: &mut Out) -> anyhow::Result<u8> {
    let is_missed = Cell::new(false);
    let look = |ended: &Ended<'_>| {
        if let Ended::Runs(finished) = ended {
            is_missed.set(is_a_rate_missed(finished)?);
        }
        Ok(())
    };
    let code = run_and(args, out, &look)?;
    Ok(if code == exit::OK && is_missed.get() { exit::DEVICE_LIMITED } else { code })
}

/// Whether a device could not take the rate that a run asked for, which is told. The points of a
/// curve ask for as much as the device once gave.
fn is_a_rate_missed(finished: &Finished<'_>) -> anyhow::Result<bool> {
    let results = Results::of(finished.store)?;
    let is_missed = |leaf: &Leaf, done: &Option<Done>| {
        let is_limited = |done: &Done| done.finding == Finding::DeviceLimited;
        !matches!(leaf.rate, LeafRate::Share { .. }) && done.as_ref().is_some_and(is_limited)
    };
    let runs = finished.leaves.iter().zip(&results.done);
    let missed: Vec<&Leaf> =
        runs.filter(|(leaf, done)| is_missed(leaf, done)).map(|(leaf, _)| leaf).collect();
    for leaf in missed.iter().take(NAMED_MAX) {
        tell(&format!("{} {}: the device could not take the load", leaf.run, leaf.told()));
    }
    if let Some(more) = missed.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        tell(&format!("and {more} more"));
    }
    Ok(!missed.is_empty())
}

/// Does the runs, and something with their results.
pub(crate) fn run_and(args: &RunArgs, out: &mut Out, then: Then<'_>) -> anyhow::Result<u8> {
    let (files, variables) = workload::words(&args.words)?;
    let mut description = match workload::read(&files, variables)? {
        Ok(description) => description,
        Err(code) => return Ok(code),
    };
    let workload = &mut description.workload;
    for setting in &args.set {
        let changed = setting
            .split_once('=')
            .ok_or_else(|| "it is written KEY=VALUE".to_owned())
            .and_then(|(key, value)| workload.set(key, value));
        if let Err(reason) = changed {
            return Err(Coded::error(exit::USAGE, format!("--set {setting}: {reason}")));
        }
    }
    if let Some(divisor) = args.shrink {
        workload.shrink(divisor);
    }
    verified(&mut workload.general, args);
    targets::put(workload, &args.target)?;
    let kept = || execute::seed_of(args, &files);
    let seed = args.seed.or_else(kept).unwrap_or_else(drawn);
    let asked = Asked { seed, only: args.only.clone(), from: args.from.clone() };
    let workload = &description.workload;
    let plan = match Plan::new(workload, asked, &size_of) {
        Ok(plan) => plan,
        Err(faults) => return Ok(tell_faults(&description.with_lines(faults))),
    };
    if !args.dry_run {
        let order = execute::Order { args, files: &files, description: &description, seed };
        return order.run(&plan, out, then);
    }
    let shown = show::Shown { files: &files, workload, plan: &plan, seed };
    if args.json {
        shown.json(out)?;
    } else {
        tell_told(&workload.told);
        tell_told(&plan.told);
        tell_told(&description.idle(&plan));
        shown.text(out)?;
    }
    Ok(exit::OK)
}

/// Overrules what a file says of its data.
fn verified(general: &mut General, args: &RunArgs) {
    if let Some(mode) = args.verify {
        general.verify = vec![mode.name().to_owned()];
        if !mode.is_on() {
            general.journal.clear();
        }
    }
    if let Some(journal) = args.journal {
        general.journal = vec![journal.name().to_owned()];
    }
    if let Some(recover) = &args.recover {
        let word = if recover == "only" { "only" } else { "recover" };
        general.journal.push(word.to_owned());
    }
}

/// A seed that differs from run to run, so that a run does not find its blocks cached.
pub(crate) fn drawn() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = since.map_or(1, |since| since.as_nanos() as u64 ^ u64::from(std::process::id()));
    // Short enough to be typed.
    let seed = seed % 1_000_000_007;
    tell(&format!("seed {seed} was drawn; --seed {seed} makes the same loads again"));
    seed
}
