//! The options that show a replay while it runs.

use std::net::SocketAddr;
use std::path::PathBuf;

use ioecho_trace::Nanos;

use super::quantity::{span, within};

/// The heading of these options.
pub(crate) const HEADING: &str = "While it runs";

/// The outputs of a run while it goes on.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct LiveArgs {
    /// Show panels in the terminal: sonar, rates, in flight, lateness, percentiles and the verdict
    /// so far; q takes them away and the run goes on
    #[cfg(feature = "live")]
    #[arg(long)]
    pub(crate) live: bool,

    /// Serve the report page of the run so far at http://ADDRESS:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub(crate) serve: Option<SocketAddr>,

    /// Go on serving the finished report for this long after the run, or until Ctrl-C
    #[arg(long, value_name = "TIME", requires = "serve", value_parser = span)]
    pub(crate) serve_after: Option<Nanos>,

    /// The length of the intervals of all that follows and of the panels
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Nanos,

    /// Write a line of comma-separated figures per interval (docs/live.md); - is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_csv: Option<PathBuf>,

    /// Write a line of JSON per interval (docs/live.md); - is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_json: Option<PathBuf>,

    /// Write a line per interval in the columns of Vdbench's flatfile; - is the standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) interval_flatfile: Option<PathBuf>,

    /// Keep the run's counters in this file as OpenMetrics text, for a textfile collector
    #[arg(long, value_name = "FILE.prom")]
    pub(crate) metrics: Option<PathBuf>,
}

/// Shorter intervals hold too few requests for percentiles and cost more than they show.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);

fn interval(text: &str) -> Result<Nanos, String> {
    within(text, INTERVAL_MIN..=Nanos::from_secs(3600))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    address.as_deref().unwrap_or(text).parse().map_err(|_| {
        "is no address with a port (write it like 127.0.0.1:8080 or [::1]:8080)".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_long_enough_to_hold_something_and_short_enough_to_see() {
        assert_eq!(interval("100ms"), Ok(Nanos::from_millis(100)));
        assert!(interval("99ms").is_err() && interval("2h").is_err() && interval("0").is_err());
    }

    #[test]
    fn an_address_is_never_all_of_them_by_omission() {
        assert_eq!(address("localhost:80"), Ok(SocketAddr::from(([127, 0, 0, 1], 80))));
        assert_eq!(address("0.0.0.0:0"), Ok(SocketAddr::from(([0, 0, 0, 0], 0))));
        assert!(address("[::1]:8080").is_ok());
        for wrong in ["8080", ":8080", "127.0.0.1", "example.org:80", ""] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
