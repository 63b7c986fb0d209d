//! `ioecho completions`: the shell's half of a good command line.

use std::io::Write;

use crate::args::{Args, CompletionsArgs};
use crate::exit;

pub(crate) fn run(args: &CompletionsArgs) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::line(), "ioecho", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(exit::OK)
}
