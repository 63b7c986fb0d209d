//! What can be typed behind `ioecho merge`.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct MergeArgs {
    /// What --partial of `ioecho analyze` wrote, each of a part of one trace
    #[arg(required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Where to write the whole
    #[arg(long, short, value_name = "PATH")]
    pub(crate) output: PathBuf,
}
