//! The runs of a workload, done as a campaign.
//!
//! There is one executor: the plan becomes listed runs of a campaign, which are done, kept, taken
//! up again and told as those of any other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ioecho_campaign::plan::is_simulated;
use ioecho_campaign::workload::{Verification, names_of, written};
use ioecho_run::tree_target::is_free;
use ioecho_run::verify::later::TargetFindings;
use ioecho_run::verify::subject::FAMILY_PLACE;
use ioecho_trace::workload::files::replays;
use ioecho_trace::workload::plan::{Leaf, Plan};
use ioecho_trace::workload::{Description, Recover};

use super::{Ended, Finished, Then};
use crate::args::{DoingArgs, RunArgs, VerifyArgs};
use crate::commands::campaign::described::{self, Described};
use crate::commands::verify;
use crate::exit::{self, Coded};
use crate::print::{Out, tell};
use crate::workload::{size_of, tell_faults, tell_told};

/// The name of a workload's campaign: that of its first file, in the letters of such names.
fn name_of(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut name = String::new();
    for c in stem.unwrap_or_default().chars().map(|c| if is_part(c) { c } else { '-' }) {
        let is_first = name.is_empty();
        if (!is_first || c.is_alphanumeric()) && name.len() + c.len_utf8() <= 100 {
            name.push(c);
        }
    }
    if name.is_empty() { "workload".to_owned() } else { name }
}

/// The directory of the results.
pub(super) fn store_of(args: &RunArgs, files: &[PathBuf]) -> PathBuf {
    let named = || {
        let name = files.first().map_or_else(String::new, |file| name_of(file));
        PathBuf::from(format!("{name}.campaign"))
    };
    args.output.clone().unwrap_or_else(named)
}

/// The seed of the loads whose results are there already.
pub(super) fn seed_of(args: &RunArgs, files: &[PathBuf]) -> Option<u64> {
    described::seed_in(&store_of(args, files))
}

/// What is to be done.
pub(super) struct Order<'o> {
    pub(super) args: &'o RunArgs,
    pub(super) files: &'o [PathBuf],
    pub(super) description: &'o Description,
    pub(super) seed: u64,
}

impl Order<'_> {
    /// Does the runs of a plan that are not done yet.
    pub(super) fn run(&self, plan: &Plan<'_>, out: &mut Out, then: Then<'_>) -> anyhow::Result<u8> {
        let Self { args, files, description, seed } = *self;
        let told = match description.check_runs(plan, &size_of, args.local) {
            Ok(told) => told,
            Err(faults) => return Ok(tell_faults(&description.with_lines(faults))),
        };
        if !args.quiet {
            tell_told(&description.workload.told);
            tell_told(&plan.told);
            tell_told(&told);
        }
        let store = store_of(args, files);
        let recover = description.workload.general.recovery();
        if let Some((code, found)) = recovered(recover, &store, args, out)? {
            return exit::unless_worse(
                code,
                then(&Ended::ReadBack { store: &store, found: &found }),
            );
        }
        let leaves: Vec<Leaf> = replays(plan.leaves());
        let destroy = destroyed(&leaves, &args.destroy, &store)?;
        let name = files.first().map_or_else(String::new, |file| name_of(file));
        let verification = Verification::from(&description.workload.general);
        let proof_of = |path: &str| described::proof_of(path, &destroy);
        let text = written(&name, seed, &leaves, verification, &proof_of);
        let text = text.map_err(|refused| Coded::error(exit::USAGE, refused.to_string()))?;
        let described = Described {
            text,
            store: store.clone(),
            destroy: names_of(&leaves, &destroy),
            file: files.first().cloned().unwrap_or_default(),
        };
        let doing = DoingArgs {
            dry_run: false,
            quiet: args.quiet,
            budget: args.budget,
            junit: None,
            json: args.json,
        };
        let code = described::begin(described, &doing, out)?;
        let size_of = |name: &str| {
            let mut storages = description.workload.storages.iter();
            size_of(storages.find(|storage| storage.name == name)?)
        };
        let finished = Finished { leaves: &leaves, store: &store, size_of: &size_of };
        exit::unless_worse(code, then(&Ended::Runs(finished)))
    }
}

/// Reads back what earlier runs wrote, if that is asked for; answers how it ended and what it found
/// if no run is to be done now.
fn recovered(
    recover: Recover,
    store: &Path,
    args: &RunArgs,
    out: &mut Out,
) -> anyhow::Result<Option<(u8, Vec<TargetFindings>)>> {
    if recover == Recover::No {
        return Ok(None);
    }
    let family = store.join(FAMILY_PLACE);
    if !family.exists() {
        if recover == Recover::First {
            tell("note: no earlier run has written anything that could be read back");
            return Ok(None);
        }
        let text = format!(
            "{} has no journal of earlier runs\n  = help: name the directory of results of runs \
             that verified",
            store.display()
        );
        return Err(Coded::error(exit::TRACE, text));
    }
    let asked = VerifyArgs {
        run: family,
        target: Vec::new(),
        after: None,
        acknowledged: false,
        json: args.json,
        quiet: args.quiet,
    };
    let (code, found) = verify::read_back(&asked, out)?;
    Ok((recover == Recover::Only || code != exit::OK).then_some((code, found)))
}

/// The paths whose data may be lost. Every storage that is written to must be named, by its name or
/// by its path; what is named and not there is a typing error. A tree whose directory is empty or
/// not there yet is made freely, and one that earlier runs of these results made is theirs.
fn destroyed(leaves: &[Leaf], typed: &[String], store: &Path) -> anyhow::Result<BTreeSet<String>> {
    let (mut known, mut written) = (BTreeSet::new(), BTreeSet::new());
    for flow in leaves.iter().flat_map(|leaf| &leaf.flows) {
        for (name, path) in flow.storages.iter().zip(&flow.paths) {
            known.insert((name.as_str(), path.as_str()));
            if flow.writes && !is_simulated(path) {
                written.insert(path.as_str());
            }
        }
    }
    let mut destroyed = BTreeSet::new();
    for typed in typed {
        let is_its = |(name, path): &&(&str, &str)| {
            name == typed || path == typed || anchor_of(path) == Some(typed.as_str())
        };
        let its: Vec<_> = known.iter().filter(is_its).collect();
        if its.is_empty() {
            let text = format!(
                "--destroy {typed}: no run has such a storage\n  = help: write its name in the \
                 file, or its path"
            );
            return Err(Coded::error(exit::USAGE, text));
        }
        destroyed.extend(its.into_iter().map(|(_, path)| (*path).to_owned()));
    }
    let free = written.iter().filter(|path| is_free(path, store)).map(|path| (*path).to_owned());
    destroyed.extend(free);
    let left: Vec<&str> = written.into_iter().filter(|path| !destroyed.contains(*path)).collect();
    let left: BTreeSet<&str> = left.into_iter().map(|it| anchor_of(it).unwrap_or(it)).collect();
    if left.is_empty() {
        return Ok(destroyed);
    }
    let left: Vec<&str> = left.into_iter().collect();
    let help = left.iter().map(|path| format!("--destroy {path}")).collect::<Vec<_>>().join(" ");
    let text = format!(
        "the runs would overwrite {}\n  = help: if nothing there is needed, add {help}",
        left.join(", ")
    );
    Err(Coded::error(exit::REFUSED, text))
}

/// The directory of a tree, if that is what a target is.
fn anchor_of(target: &str) -> Option<&str> {
    let tree = target.strip_prefix("tree:")?;
    Some(tree.rsplit_once('?').map_or(tree, |(anchor, _)| anchor))
}
