//! `ioecho man`: the man pages, made from the same definitions as `--help`.

use clap::Command;
use clap_mangen::Man;

use crate::args::{Args, ManArgs};
use crate::exit::{self, Coded};
use crate::outputs::Gate;

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<u8> {
    let place = &args.directory;
    if !place.is_dir() {
        let text = format!("cannot write man pages into {}: no such directory", place.display());
        return Err(Coded::error(exit::OUTPUT, text));
    }
    let mut line = Args::line().disable_help_subcommand(true);
    line.build();
    for command in all(line) {
        let (man, mut page) = (Man::new(command), Vec::new());
        man.render(&mut page)?;
        Gate::default().put(&place.join(man.get_filename()), &page)?;
    }
    Ok(exit::OK)
}

/// A command and those below it.
fn all(command: Command) -> Vec<Command> {
    let below = command.get_subcommands().filter(|one| !one.is_hide_set()).cloned();
    let below: Vec<Command> = below.flat_map(all).collect();
    std::iter::once(command).chain(below).collect()
}
