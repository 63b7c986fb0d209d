//! The arguments of `ioecho compare`.

use std::path::PathBuf;

use ioecho_stats::compare::Criterion;

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// The directories of runs, of which the first is the baseline; repeated runs of one system are
    /// joined by commas: A1,A2 B1,B2
    #[arg(value_name = "RUN", required_unless_present = "group", conflicts_with = "group")]
    pub(crate) runs: Vec<String>,

    /// A system by a name of its own and its runs; the first one is the baseline
    #[arg(long, value_name = "NAME=RUN,RUN…")]
    pub(crate) group: Vec<String>,

    /// Fail (exit code 21) if this is proven, such as 'p99.read > +5%' or 'iops < 0.97'
    /// (docs/compare.md has the language)
    #[arg(long, value_name = "CRITERION")]
    pub(crate) fail_if: Vec<Criterion>,

    /// Let a criterion fail on the measured ratio where nothing is proven
    #[arg(long)]
    pub(crate) fail_on_doubt: bool,

    /// Compare though this is in the way; what it is called is said when it is refused
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = obstacle())]
    pub(crate) allow: Vec<String>,

    /// The least change in percent that counts as a difference
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub(crate) least: f64,

    /// How often blocks of time and runs are drawn anew
    #[arg(long, value_name = "NUMBER", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(100..=100_000))]
    pub(crate) resamples: u32,

    /// What fixes all that is drawn at random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Tell every figure: all spans and operations, where they differ most, and over time
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print JSON (stable, see docs/compare.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write a page with tables and pictures
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Every obstacle that may be allowed.
fn obstacle() -> clap::builder::PossibleValuesParser {
    ioecho_stats::compare::REFUSALS.into()
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("0 to 100".to_owned()) }
}
