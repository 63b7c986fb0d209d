//! What can be typed behind `ioecho agent`, which campaigns do.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// Where loads and results are kept on this host [default: ~/.cache/ioecho/agent]
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// Take loads, by their hashes, from the standard input
    #[arg(long, conflicts_with_all = ["give", "sum"])]
    pub(crate) take: bool,

    /// Give files of results to the standard output
    #[arg(long, conflicts_with = "sum")]
    pub(crate) give: bool,

    /// Print the SHA-256 of this program
    #[arg(long)]
    pub(crate) sum: bool,
}
