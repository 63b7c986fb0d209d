//! `ioecho completions`: the completions for a shell.

use std::io::Write;

use crate::args::{Args, CompletionsArgs};
use crate::exit;
use crate::print::Out;

pub(crate) fn run(args: &CompletionsArgs, out: &mut Out) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::line(), "ioecho", &mut script);
    out.write_all(&script)?;
    Ok(exit::OK)
}
