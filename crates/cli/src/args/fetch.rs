//! How loads at an URL are fetched: understood by every command, because any may read a trace.

use ioecho_trace::Bytes;
use ioecho_trace::units::QuantityError;

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
}

impl FetchArgs {
    /// What these say together.
    pub(crate) fn settings(self) -> Settings {
        Settings { offline: self.offline, limit: self.download_limit }
    }
}

fn size(text: &str) -> Result<Bytes, String> {
    text.parse().map_err(|error: QuantityError| error.to_string())
}
