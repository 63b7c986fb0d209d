//! What can be typed behind `ioecho verify`.

use std::path::PathBuf;

use clap::ArgAction;
use ioecho_replay::verify::After;

use super::replay::after;

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The directory of a run, of a family of runs, or of the results of a workload that verified
    pub(crate) run: PathBuf,

    /// The target as it is called now; once for each target of the run [default: as the run knew
    /// them]
    #[arg(long, value_name = "TARGET", action = ArgAction::Append)]
    pub(crate) target: Vec<PathBuf>,

    /// What came between the run and now [default: kill; of a family power-cut, if the host was
    /// started anew since]
    #[arg(long, value_parser = after())]
    pub(crate) after: Option<After>,

    /// After a power cut everything must be there that the target had acknowledged, flushed or not
    #[arg(long)]
    pub(crate) acknowledged: bool,

    /// Print JSON (stable, see docs/verification.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Print no progress line
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
