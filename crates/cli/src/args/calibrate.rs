//! What can be typed behind `ioecho calibrate`.

use ioecho_linux::host::CpuList;
use ioecho_trace::Nanos;

use super::quantity::within;

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// Print JSON (stable, see docs/json.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// A rate counts as kept if 99 of 100 requests are no later than this
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = limit)]
    pub(crate) limit: Nanos,

    /// How long each rate is tried
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = span)]
    pub(crate) span: Nanos,

    /// Run on these processors only, as a replay would with the same option, such as 2 or 0-3,8
    #[arg(long, value_name = "LIST", help_heading = "Host")]
    pub(crate) cpus: Option<CpuList>,

    /// Run with this real-time priority (`SCHED_FIFO`)
    #[arg(
        long,
        value_name = "PRIORITY",
        value_parser = clap::value_parser!(u8).range(1..=99),
        help_heading = "Host"
    )]
    pub(crate) fifo: Option<u8>,

    /// Keep all memory from being paged out (mlockall)
    #[arg(long, help_heading = "Host")]
    pub(crate) lock_memory: bool,

    /// Keep processors from deep sleep (`/dev/cpu_dma_latency`)
    #[arg(long, help_heading = "Host")]
    pub(crate) dma_latency: bool,
}

fn limit(text: &str) -> Result<Nanos, String> {
    within(text, Nanos::from_micros(1)..=Nanos::from_secs(1))
}

fn span(text: &str) -> Result<Nanos, String> {
    within(text, Nanos::from_millis(1)..=Nanos::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_make_no_sense_are_refused() {
        assert_eq!(limit("50us"), Ok(Nanos::from_micros(50)));
        assert!(limit("0us").is_err());
        assert!(limit("2s").is_err());
        assert!(span("1h").is_err());
    }
}
