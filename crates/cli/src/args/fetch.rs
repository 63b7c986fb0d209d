//! How loads at an URL are fetched: understood by every command, because any may read a trace.

use std::time::Duration;

use clap::{Arg, Args as _, Command};
use ioecho_trace::units::QuantityError;
use ioecho_trace::{Bytes, Nanos};

use super::positive_span;
use crate::run::fetch::Settings;

#[derive(Clone, Copy, Debug, clap::Args)]
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
        value_parser = size,
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
    /// What these say together.
    pub(crate) fn settings(self) -> Settings {
        Settings {
            offline: self.offline,
            limit: self.download_limit,
            patience: Duration::from_nanos(self.download_timeout.0.unsigned_abs()),
        }
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: QuantityError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        fetch: FetchArgs,
    }

    #[test]
    fn the_defaults_that_help_tells_are_those_that_hold() {
        let typed: Typed = clap::Parser::parse_from(["x"]);
        assert_eq!(typed.fetch.settings(), Settings::default());
    }

    #[test]
    fn only_flags_with_a_value_take_the_next_word() {
        assert!(takes_value("--download-limit") && takes_value("--download-timeout"));
        for other in ["--offline", "--help", "download-limit", "--download-timeout=5s", "ioecho"] {
            assert!(!takes_value(other), "{other}");
        }
    }
}
