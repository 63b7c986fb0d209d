//! How loads at an URL are fetched: understood by every command, because any may read a trace.

use std::time::Duration;

use ioecho_trace::units::QuantityError;
use ioecho_trace::{Bytes, Nanos};

use crate::run::fetch::{DOWNLOAD_LIMIT, Settings};

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
        default_value_t = DOWNLOAD_LIMIT,
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
        value_parser = patience,
        default_value = "30s",
        help_heading = "Loads at an URL"
    )]
    pub(crate) download_timeout: Duration,
}

impl FetchArgs {
    /// What these say together.
    pub(crate) fn settings(self) -> Settings {
        Settings {
            offline: self.offline,
            limit: self.download_limit,
            patience: self.download_timeout,
        }
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: QuantityError| error.to_string())
}

fn patience(text: &str) -> Result<Duration, String> {
    let span: Nanos = text.parse().map_err(|error: QuantityError| error.to_string())?;
    match u64::try_from(span.0) {
        Ok(ns) if ns > 0 => Ok(Duration::from_nanos(ns)),
        _ => Err("must be longer than nothing".to_owned()),
    }
}
