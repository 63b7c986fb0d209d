//! `ioecho completions`: the shell's half of a good command line.

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs};
use crate::exit;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<u8> {
    clap_complete::generate(args.shell, &mut Args::command(), "ioecho", &mut std::io::stdout());
    Ok(exit::OK)
}
