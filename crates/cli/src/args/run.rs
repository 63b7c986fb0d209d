//! What can be typed behind `ioecho run`.

use std::path::PathBuf;

use ioecho_trace::{JournalMode, Nanos, VerifyMode};

use super::replay::{journal, verify};

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A workload: a parameter file of Vdbench, several of them, or our own form
    /// (docs/workloads.md); behind it the values of its variables
    #[arg(required = true, value_name = "FILE|NAME=VALUE")]
    pub(crate) words: Vec<String>,

    /// The directory of the results [default: NAME.campaign]
    #[arg(long, short, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,

    /// Confirm that what these storages hold may be destroyed: their names in the file, or their
    /// paths
    #[arg(long, value_name = "STORAGE,…", value_delimiter = ',')]
    pub(crate) destroy: Vec<String>,

    /// Let another target stand in for a storage, with asterisks for several: '*=sim:size=64G'
    #[arg(long, short, value_name = "STORAGE=TARGET")]
    pub(crate) target: Vec<String>,

    /// Let this host do what other hosts of the file would do
    #[arg(long)]
    pub(crate) local: bool,

    /// Do only the runs of these names, with asterisks
    #[arg(long, value_name = "RUN,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Leave out the runs that stand before the first of this name, with asterisks
    #[arg(long, value_name = "RUN")]
    pub(crate) from: Option<String>,

    /// Overrule a setting of every run: elapsed, warmup, interval, pause or threads
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Divide the sizes of storages and the numbers of files by this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) shrink: Option<u64>,

    /// The number from which the seeds of all loads are made [default: that of the directory of
    /// the results, or drawn and told]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Prove that the storages hold what the runs have written, across all runs
    #[arg(long, value_parser = verify())]
    pub(crate) verify: Option<VerifyMode>,

    /// What the notes of runs that verify must survive
    #[arg(long, value_parser = journal())]
    pub(crate) journal: Option<JournalMode>,

    /// Read back first what earlier runs of these results have written, and go on if it is there;
    /// only: do nothing else
    #[arg(long, value_name = "first|only", value_parser = ["first", "only"])]
    pub(crate) recover: Option<String>,

    /// Print every run with the lines of its loads, what would be overwritten, and the time; touch
    /// nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print no line for each run
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// The longest time of all runs together
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Nanos>,

    /// Print JSON (stable, see docs/workloads.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
