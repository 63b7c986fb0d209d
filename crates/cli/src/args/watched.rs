//! What can be typed to have a replay watched: by itself, and by the kernel.

use ioecho_linux::record::InterfaceChoice;
use ioecho_run::spec::EXPERT_INTERVALS;
use ioecho_trace::Nanos;

use super::quantity::within;
use super::words;

/// What is kept beside the results.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Proof")]
pub(crate) struct WatchedArgs {
    /// Keep what the engine itself did in each interval (inside.jsonl, docs/runs.md): look-ahead,
    /// delays, stalls; the report draws it folded away, for experts
    #[arg(
        long,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100ms",
        value_parser = interval
    )]
    pub(crate) expert: Option<Nanos>,

    /// Record beside the run what the kernel sees of it at the target's block device
    /// (witness.parquet), hold the run against it, and show both in the report
    #[arg(
        long,
        value_name = "INTERFACE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        value_parser = words::interface()
    )]
    pub(crate) witness: Option<InterfaceChoice>,
}

fn interval(text: &str) -> Result<Nanos, String> {
    within(text, EXPERT_INTERVALS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_neither_too_short_to_tell_anything_nor_longer_than_runs_are() {
        assert_eq!(interval("100ms"), Ok(Nanos::from_millis(100)));
        for wrong in ["0", "9ms", "2h", "soon"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
