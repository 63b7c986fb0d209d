//! Described workloads, whose runs are those of a campaign.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use ioecho_campaign::executor::{Executor, State};
use ioecho_campaign::file::Proof;
use ioecho_campaign::rows::{Row, rows};
use ioecho_stats::verdict::Finding;

use super::doing::{begin as carry_out, kept};
use super::ground::Here;
use super::plan::{Made, of_text};
use super::store::{Store, StoredPlan};
use crate::args::DoingArgs;
use crate::print::Out;

/// A workload, written down as a campaign.
pub(in crate::commands) struct Described {
    /// The campaign.
    pub(in crate::commands) text: String,
    /// The directory of its results.
    pub(in crate::commands) store: PathBuf,
    /// The devices whose data may be lost, by their names in the campaign.
    pub(in crate::commands) destroy: Vec<String>,
    /// The file that it was made of.
    pub(in crate::commands) file: PathBuf,
}

/// The seed of the workload whose results are in this directory.
pub(in crate::commands) fn seed_in(store: &Path) -> Option<u64> {
    let (made, _) = kept(&Store::open(store).ok()?).ok()?;
    (!made.plan.file.runs.is_empty()).then_some(made.plan.file.seed)
}

/// Whether everything that was planned for this directory is done, or cannot be.
pub(in crate::commands) fn is_finished(store: &Path) -> bool {
    let Ok(store) = Store::open(store) else { return false };
    let Ok((made, _)) = kept(&store) else { return false };
    let executor = Executor::new(&made.plan, &made.here, store.held().attempts, 0.0);
    executor.states().iter().all(|state| *state != State::Missing)
}

/// A run that was done.
pub(in crate::commands) struct Done {
    /// What the workload calls it.
    pub(in crate::commands) name: String,
    /// Its directory.
    pub(in crate::commands) run: PathBuf,
    /// Its requests per second.
    pub(in crate::commands) iops: Option<f64>,
    /// What it found.
    pub(in crate::commands) finding: Finding,
}

/// The results of a workload's runs.
pub(in crate::commands) struct Results {
    store: Store,
    /// The runs in the order of the plan; none where there is no result.
    pub(in crate::commands) done: Vec<Option<Done>>,
}

impl Results {
    /// Those in this directory.
    pub(in crate::commands) fn of(store: &Path) -> anyhow::Result<Self> {
        let store = Store::open(store)?;
        let (made, _) = kept(&store)?;
        let executor = Executor::new(&made.plan, &made.here, store.held().attempts, 0.0);
        let done = |row: &Row<'_>| {
            let (_, measured) = row.done?;
            let run = store.path().join(row.run()?);
            let iops = measured.figures.get("iops").copied();
            let name = row.cell.point.iter().find(|(axis, _)| axis == "run");
            let name = name.map(|(_, value)| value.clone()).unwrap_or_default();
            Some(Done { name, run, iops, finding: measured.finding })
        };
        let done = rows(&executor).iter().map(done).collect();
        Ok(Self { store, done })
    }

    /// Puts a file beside the results.
    pub(in crate::commands) fn put(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.store.put(name, bytes)
    }
}

/// What the device at a path has to prove later, if its data may be lost: that it is still the one
/// that was named.
pub(in crate::commands) fn proof_of(path: &str, destroy: &BTreeSet<String>) -> Proof {
    if !destroy.contains(path) {
        return Proof::default();
    }
    Here::new(Path::new(".")).proof_now(path)
}

/// Does the runs of a workload that are not done yet. Paths begin where the command was typed.
pub(in crate::commands) fn begin(
    described: Described,
    doing: &DoingArgs,
    out: &mut Out,
) -> anyhow::Result<u8> {
    let Described { text, store, destroy, file } = described;
    let base = std::env::current_dir()
        .context("the directory that the command was typed in is gone; change to another")?;
    let name = PathBuf::from(format!("{} as a campaign", file.display()));
    let made = Made { store, ..of_text(&name, text, &base, &[], None)? };
    let wanted = StoredPlan::of(&made.plan, made.here.base(), &[], &destroy);
    carry_out(made, &wanted, doing, out)
}
