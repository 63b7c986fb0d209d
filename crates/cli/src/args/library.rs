//! What can be typed behind `ioecho library`.

use std::path::PathBuf;

use super::{LoadArgs, ReadArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct LibraryArgs {
    #[command(subcommand)]
    pub(crate) command: LibraryCommand,
}

/// What can be done with a library.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LibraryCommand {
    /// Add a load, converted, with its figures, hashes and report; makes the library if there is
    /// none
    Add(Box<AddArgs>),
    /// List the loads
    List(ListArgs),
    /// Say what is known of a load
    Show(ShowArgs),
    /// Check that every load is what the library says: files, hashes, requests and figures
    Verify(VerifyLibraryArgs),
    /// Make `library.json` anew of the loads that are there: after one was taken away, or it was
    /// lost
    Index(IndexArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The directory of the library
    pub(crate) library: PathBuf,

    /// A trace in any known format, the directory of a run, or the URL of a load
    pub(crate) trace: PathBuf,

    /// What to call the load: letters, digits, dots, dashes and underscores [default: the name of
    /// the file]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// What the load is [default: what the trace's header says]
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Where it comes from: who recorded it, of which system
    #[arg(long, value_name = "TEXT")]
    pub(crate) origin: Option<String>,

    /// Under which terms it may be used [default: what the trace's header says]
    #[arg(long, value_name = "TEXT")]
    pub(crate) license: Option<String>,

    /// The device it was recorded on [default: what the trace's header says]
    #[arg(long, value_name = "TEXT")]
    pub(crate) device: Option<String>,

    /// The kernel it was recorded under [default: what the trace's header says]
    #[arg(long, value_name = "TEXT")]
    pub(crate) kernel: Option<String>,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// The directory of the library, or its URL
    pub(crate) library: PathBuf,

    /// Print JSON (stable, see docs/library.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The directory of the library, or its URL
    pub(crate) library: PathBuf,

    /// The load's name
    pub(crate) name: String,

    /// Print JSON (stable, see docs/library.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct IndexArgs {
    /// The directory of the library
    pub(crate) library: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyLibraryArgs {
    /// The directory of the library, or its URL: then everything is fetched anew
    pub(crate) library: PathBuf,

    /// Print JSON (stable, see docs/library.md) instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
