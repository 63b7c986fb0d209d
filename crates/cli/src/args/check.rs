//! The arguments of `ioecho check`.

use std::path::PathBuf;

use ioecho_stats::fidelity::Limit;

use super::ReadArgs;
use super::replay::number;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The directory of a run; or the recording that was replayed
    #[arg(value_name = "RUN|ORIGINAL")]
    pub(crate) asked: PathBuf,

    /// What a recorder saw at the device meanwhile [default: the run's own witness]
    #[arg(value_name = "TRACE")]
    pub(crate) seen: Option<PathBuf>,

    /// What a faithful replay holds, such as issue-p99=1ms, missing=0.1% or duration=none; may be
    /// repeated (docs/check.md has the list and the defaults)
    #[arg(long, value_name = "NAME=MOST")]
    pub(crate) limit: Vec<Limit>,

    /// Of two traces: how much faster than the original it was replayed. Instants of the original
    /// are divided by it, how long the device took is not
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    pub(crate) speed: f64,

    /// Leave out this many requests at the beginning of what was asked for
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub(crate) skip: u64,

    /// Print JSON (stable, see docs/check.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

fn factor(text: &str) -> Result<f64, String> {
    number(text, 1e-6..=1e6, "must lie between 0.000001 and 1000000")
}
