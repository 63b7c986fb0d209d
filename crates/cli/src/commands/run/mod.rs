//! `ioecho run`: the runs of a described workload.

mod execute;
mod show;
mod targets;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ioecho_trace::workload::model::General;
use ioecho_trace::workload::plan::{Asked, Leaf, Plan};

use crate::args::RunArgs;
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

/// What is done when runs are done.
pub(crate) type Then<'t> = &'t dyn Fn(&Finished<'_>) -> anyhow::Result<()>;

pub(crate) fn run(args: &RunArgs, out: &mut Out) -> anyhow::Result<u8> {
    run_and(args, out, &|_| Ok(()))
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
