//! How loads at an URL are fetched: understood by every command, because any may read a trace.

use std::time::Duration;

use clap::{Arg, Args as _, Command};
use ioecho_trace::{Bytes, Nanos};

use super::quantity::{positive_span, quantity};

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct FetchArgs {
    /// Leave the network alone: of loads at an URL, take what was fetched before
    #[arg(long, global = true, hide_short_help = true, help_heading = "Loads at an URL")]
    pub(crate) offline: bool,

    /// Fetch no file that is larger
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "SIZE",
        value_parser = quantity::<Bytes>,
        default_value = "64G",
        help_heading = "Loads at an URL"
    )]
    pub(crate) download_limit: Bytes,

    /// How long a server may send nothing, or less than 4 KiB, before it is asked for the rest; a
    /// few times in a row, then the command ends
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "SPAN",
        value_parser = positive_span,
        default_value = "30s",
        help_heading = "Loads at an URL"
    )]
    pub(crate) download_timeout: Nanos,
}

/// Commands that read no trace, and so nothing at an URL.
const OFF_THE_NETWORK: [&str; 9] =
    ["calibrate", "compare", "completions", "demo", "explain", "man", "merge", "record", "verify"];

/// The command line with these flags hidden where they mean nothing. They are understood there all
/// the same, as anything is that applies to all commands.
pub(crate) fn hidden_where_idle(command: Command) -> Command {
    let fetch = FetchArgs::augment_args(Command::new(""));
    let hidden: Vec<Arg> = fetch.get_arguments().map(|flag| flag.clone().hide(true)).collect();
    OFF_THE_NETWORK
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |of| of.args(hidden.clone())))
}

/// Whether the word after this one is its value, where both stand before the command.
pub(crate) fn takes_value(flag: &str) -> bool {
    let Some(name) = flag.strip_prefix("--") else { return false };
    let fetch = FetchArgs::augment_args(Command::new(""));
    let mut flags = fetch.get_arguments();
    flags.any(|of| of.get_long() == Some(name) && of.get_action().takes_values())
}

impl FetchArgs {
    /// How long a server may be silent, or all but silent.
    pub(crate) fn patience(self) -> Duration {
        Duration::from_nanos(self.download_timeout.0.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_with_a_value_take_the_next_word() {
        assert!(takes_value("--download-limit") && takes_value("--download-timeout"));
        for other in ["--offline", "--help", "download-limit", "--download-timeout=5s", "ioecho"] {
            assert!(!takes_value(other), "{other}");
        }
    }
}
