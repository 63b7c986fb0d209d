//! What can be typed behind `ioecho fit`.

use std::path::PathBuf;

use super::{LoadArgs, ReadArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct FitArgs {
    /// A trace in any known format, or the directory of a run
    pub(crate) trace: PathBuf,

    /// Write the generator's line into this file; `ioecho replay "$(cat FILE)" …` replays it
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write a job file for fio, which can say less
    #[arg(long, value_name = "FILE")]
    pub(crate) fio: Option<PathBuf>,

    /// Print JSON (stable, see docs/json.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// The seed of the artificial load
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}
