//! `ioecho man`: the man pages, made from the same definitions as `--help`.

use crate::args::{Args, ManArgs};
use crate::exit::{self, Coded};

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<u8> {
    clap_mangen::generate_to(Args::line(), &args.directory).map_err(|error| {
        let place = args.directory.display();
        Coded::error(exit::OUTPUT, format!("cannot write man pages into {place}: {error}"))
    })?;
    Ok(exit::OK)
}
