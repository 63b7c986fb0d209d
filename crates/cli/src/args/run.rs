//! What can be typed behind `ioecho run`.

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// A workload: a parameter file of Vdbench, several of them, or our own form
    /// (docs/workloads.md); behind it the values of its variables
    #[arg(required = true, value_name = "FILE|NAME=VALUE")]
    pub(crate) words: Vec<String>,

    /// Do only the runs of these names, with asterisks
    #[arg(long, value_name = "RUN,…", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Overrule a setting of every run: elapsed, warmup, interval, pause or threads
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,

    /// Divide the sizes of storages and the numbers of files by this
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) shrink: Option<u64>,

    /// The number from which the seeds of all loads are made [default: drawn and told]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Print every run with the lines of its loads, what would be overwritten, and the time; touch
    /// nothing
    #[arg(long, required = true)]
    pub(crate) dry_run: bool,

    /// Print JSON (stable, see docs/workloads.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
