//! What can be typed behind `ioecho analyze`.

use std::path::PathBuf;

use clap::ValueEnum;
use ioecho_stats::analysis::{Asked, Settings};
use ioecho_trace::{Bytes, Nanos};

use super::quantity::positive_span;
use super::{LoadArgs, ReadArgs};

/// What a part has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartialArg {
    /// Rows, and what `ioecho merge` needs for all figures
    All,
    /// What databases put together
    Rows,
}

#[derive(Debug, clap::Args)]
pub(crate) struct AnalyzeArgs {
    /// A trace in any known format, the directory of a run, or what --partial wrote
    pub(crate) file: PathBuf,

    /// Print all figures as JSON (stable, see docs/analysis.md) instead of the essential as text
    #[arg(long)]
    pub(crate) json: bool,

    /// Windows of working sets [default: 1s,6s,60s,600s]
    #[arg(long, value_name = "TIME,…", value_delimiter = ',', value_parser = positive_span)]
    pub(crate) windows: Vec<Nanos>,

    /// Windows of throughput, in whole seconds
    #[arg(long, value_name = "TIME", value_parser = whole_seconds, default_value = "3s")]
    pub(crate) throughput_window: Nanos,

    /// Say too what a cache of this size would leave of the load
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',')]
    pub(crate) cache: Vec<Bytes>,

    /// How many volumes and processes to list one by one
    #[arg(long, value_name = "NUMBER", default_value_t = ioecho_stats::analysis::all::LISTED)]
    pub(crate) top: usize,

    /// How many threads count, each in some 640 MiB at most [default: as many as there are
    /// processors, and as fit into the available memory]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Write what was counted as a table, to be merged with other parts by `ioecho merge` or put
    /// together by any database, instead of printing anything: all, or the rows for databases
    /// alone, which are small [default: all]
    #[arg(long, value_name = "WHAT", requires = "output", conflicts_with = "json")]
    #[arg(value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) partial: Option<PartialArg>,

    /// Where to write the table of --partial
    #[arg(long, short, value_name = "FILE", requires = "partial")]
    pub(crate) output: Option<PathBuf>,

    /// The name of the trace in the table of --partial, the same for all its parts [default: the
    /// file's]
    #[arg(long, value_name = "NAME", requires = "partial")]
    pub(crate) trace: Option<String>,

    /// Write too all accesses of this share of the pages, such as 0.01, for working sets,
    /// frequencies and intervals by a query
    #[arg(long, value_name = "SHARE", value_parser = share)]
    #[arg(requires = "partial", requires = "page_sample_output")]
    pub(crate) page_sample: Option<f64>,

    /// Where to write the table of --page-sample
    #[arg(long, value_name = "FILE", requires = "page_sample")]
    pub(crate) page_sample_output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl AnalyzeArgs {
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        if !self.windows.is_empty() {
            settings.windows_ns = self.windows.iter().map(|window| window.0).collect();
            settings.windows_ns.sort_unstable();
            settings.windows_ns.dedup();
        }
        settings
    }

    pub(crate) fn asked(&self) -> Asked {
        Asked {
            throughput_window_s: (self.throughput_window.0 / 1_000_000_000) as u64,
            listed: self.top,
            caches: self.cache.iter().map(|size| size.0).collect(),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "a share is above 0 and at most 1".to_owned())
}

fn whole_seconds(text: &str) -> Result<Nanos, String> {
    let window = positive_span(text)?;
    let whole = window.0 % 1_000_000_000 == 0;
    if whole { Ok(window) } else { Err("throughput is counted in whole seconds".to_owned()) }
}
