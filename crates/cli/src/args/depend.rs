//! What can be typed behind `ioecho depend`.

use std::path::PathBuf;

use ioecho_replay::graph::WINDOW_ROWS;
use ioecho_trace::Nanos;
use ioecho_trace::formats::{Writable, write};

use super::quantity::span;
use super::{LoadArgs, ReadArgs};

/// The largest window: 16 million requests take some 2 GiB.
const WINDOW_MAX: u64 = 1 << 24;

#[derive(Debug, clap::Args)]
pub(crate) struct DependArgs {
    /// A trace in any known format that says when requests completed
    pub(crate) trace: PathBuf,

    /// Write the trace with parents and think times into this file, named .parquet or
    /// .hfplayer.csv
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write this format, whatever the name says: native or hfplayer
    #[arg(long, value_name = "NAME", value_parser = write::by_name)]
    pub(crate) to: Option<&'static Writable>,

    /// Draw the graph into this file, for Graphviz; of no more than 2,000 requests
    #[arg(long, value_name = "FILE")]
    pub(crate) dot: Option<PathBuf>,

    /// Infer parents also where the trace names them itself
    #[arg(long)]
    pub(crate) infer: bool,

    /// The rule by which parents are inferred
    #[arg(long, value_enum, default_value_t)]
    pub(crate) rule: Rule,

    /// A think time below it means that nobody waited [default: read off the trace, 10us at most]
    #[arg(long, value_name = "TIME", value_parser = threshold, conflicts_with = "rule")]
    pub(crate) threshold: Option<Nanos>,

    /// Look for parents among so many requests before each
    #[arg(
        long,
        value_name = "REQUESTS",
        default_value_t = WINDOW_ROWS,
        value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX),
    )]
    pub(crate) among: u64,

    /// Print JSON (stable, see docs/json.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// A rule for who waited for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Rule {
    /// By instants, processes, barriers and places (docs/depend.md)
    #[default]
    Waits,
    /// DiskAccel's, to compare with: all wait for the read that completed last, nobody for a write
    Diskaccel,
}

fn threshold(text: &str) -> Result<Nanos, String> {
    let threshold = span(text)?;
    if threshold < Nanos::ZERO { Err("must not be negative".to_owned()) } else { Ok(threshold) }
}
