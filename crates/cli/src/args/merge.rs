//! What can be typed behind `ioecho merge`.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    /// The directories of runs that went on at the same time; or what --partial of `ioecho
    /// analyze` wrote, each of a part of one trace
    #[arg(value_name = "RUN|PART", required = true, num_args = 1..)]
    pub(crate) inputs: Vec<PathBuf>,

    /// The directory of the merged run, which must not exist or be empty; or where to write the
    /// whole analysis
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: PathBuf,

    /// Of runs: put their beginnings at one instant (default), or each at its own hour by the
    /// clocks of their hosts
    #[arg(long, value_enum)]
    pub(crate) align: Option<AlignArg>,

    /// Tell every check with what to do, and all percentiles
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// How the times of several runs are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlignArg {
    /// Their beginnings
    #[default]
    Start,
    /// The wall-clock time in run.toml
    Wall,
}
